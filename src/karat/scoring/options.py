"""Options of an evaluation: each with its type, default, limits and help, defined once.

The keywords of `evaluate`, `compare` and `gate`, the command-line options, and the settings of a saved result are
generated from these lists. The command line loads them at every start: nothing heavy is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from karat.errors import ConfigError
from karat.matching import THRESHOLD
from karat.options.option import OptionList, option, options_in, part_of
from karat.statistics.sampling import Sampling


class CountingOptions(OptionList):
    """Options that change what counts."""

    k: int = option(
        5,
        "Cutoff for metrics without their own, such as recall or recall@k.",
        ge=1,
        wrong="the cutoff k must be 1 or more",
        instead="karat.yaml, else 5",
    )
    missing: Literal["worst", "skip"] = option(
        "worst",
        "How queries that the run lacks are scored: as failed, or left out.",
        wrong="unknown choice for missing queries",
    )
    min_score: float | None = option(
        None, "Remove hits with a lower score before evaluation.", wrong="the score threshold is not a number"
    )
    score_width: Literal[32, 64] = option(
        32,
        "Precision of scores when they decide the order: 32 bits, as in trec_eval, or 64.",
        wrong="scores are compared in 32 or 64 bits",
    )
    ties: Literal["id", "listed"] = option(
        "id",
        "Order of hits with equal scores: by descending id, as in trec_eval, or as listed.",
        wrong="unknown choice for ties",
    )
    scores: Literal["higher-is-better", "lower-is-better", "as-listed"] | None = option(
        None,
        "What scores mean when they decide the order; distances are negated. as-listed: hits are already in ranking "
        "order, whatever their scores.",
        instead="karat.yaml, else score_order of the run log, else higher-is-better",
        wrong="unknown meaning of scores",
    )
    no_relevant: Literal["undefined", "zero"] = option(
        "undefined",
        "Queries without relevant gold: undefined and left out of means, or zero, as in trec_eval.",
        wrong="unknown choice for queries without relevant gold",
    )
    doc_of: str = option("#", "Separator between document id and chunk id, or a regular expression with a group.")
    normalize_ids: bool = option(
        False,
        "Ignore case, white space, Unicode form, file extension, - and _ and a common prefix when comparing ids, where "
        "no two ids of one file become equal.",
        instead="karat.yaml, else no",
    )
    no_future: bool = option(False, "Remove hits newer than their query's as_of before evaluation.")
    forbid: tuple[str, ...] = option(
        (),
        "Hits that a query must not get, by their metadata in the run or the corpus: 'tenant != query.tenant', "
        "'expires < query.as_of', 'licence = internal'. Measured by forbidden@k.",
        metavar="RULE",
    )
    top_k: int | None = option(None, "Keep only this many hits of each list.", ge=1, wrong="top_k must be 1 or more")
    fuzzy_threshold: float = option(
        THRESHOLD,
        "Minimum similarity for a chunk to match an evidence text.",
        gt=0,
        le=1,
        wrong="invalid fuzzy threshold",
    )
    target_false_evidence: float = option(
        0.1,
        "Find the score threshold at which at most this share of the queries without an answer gets a hit.",
        ge=0,
        lt=1,
        metavar="SHARE",
        wrong="the target for false evidence is not a share",
        expected="at least 0 and less than 1, such as 0.1",
    )
    rerank_depth: int | None = option(
        None,
        "Number of candidates passed to the reranker, to compute its possible gain.",
        ge=1,
        instead="as logged, else 50",
        wrong="the reranker's depth must be 1 or more",
    )
    context: str | None = option(
        None,
        "Hits that go to the model: the first 10, or as many as fit into 4000tok. Shows recall over tokens, where the "
        "relevant hits are in the context, and how much of it repeats.",
        metavar="K|TOKENStok",
        instead="the first k, if hits have tokens",
    )
    corpus_size: int | None = option(
        None,
        "Number of items in the corpus, for the random floor.",
        ge=1,
        wrong="the corpus size must be 1 or more",
    )

    def check(self) -> None:
        super().check()
        if self.context is not None and not re.fullmatch(r"0*[1-9]\d{0,11}( ?tok)?", str(self.context), re.I | re.A):
            what, expected = "invalid size of a context", "a number of hits such as 10, or of tokens such as 4000tok"
            raise ConfigError(what, code="bad-context", expected=expected, got=self.context)


class Options(Sampling, CountingOptions):
    """All options of an evaluation."""

    like: Literal["trec_eval", "ranx", "ir_measures", "ragas"] | None = option(
        None,
        "Score like another tool: sets --missing, --ties, --score-width, --no-relevant and metric defaults, "
        "as listed in docs/comparability.md. Explicit options win.",
        wrong="unknown tool",
    )

    prices: Any = option(
        None, "Price table (YAML), to compute costs.", metavar="FILE", instead="from karat.yaml", is_input=True
    )
    no_answer: str | None = option(
        None,
        "Also mark these queries as having no answer: type=Null, or type=Null,None.",
        metavar="FIELD=VALUE",
    )
    corpus: Any = option(
        None,
        "Corpus (JSONL, CSV, Parquet, BEIR folder or folder of texts): adds texts and versions that the log left out; "
        "its size gives the random floor.",
        is_input=True,
    )

    depth: int | None = option(
        None,
        "With --gold run:FILE: how many hits of each query are relevant.",
        ge=1,
        metavar="N",
        instead="10",
        wrong="the depth must be 1 or more",
    )
    reference: Any = option(
        None,
        "Run to compare lists with, for rbo@k and jaccard@k.",
        metavar="RUN",
        instead="that of --gold run:FILE",
        is_input=True,
    )

    segments: Iterable[str] = option(
        (),
        "Also show scores by language, topic, language×topic (or language,topic), query_length, gold_items ….",
        flags=["--segment", "-s"],
        metavar="NAME",
    )
    cluster: str | None = option(
        None,
        "Queries with the same value are resampled together; none: every query is independent.",
        metavar="FIELD",
        instead="conversation_id and variant_of, if present",
    )

    # Other lists for the same queries.
    bm25: Any = option(None, "BM25 run to compare with.", metavar="RUN", instead="search in --corpus", is_input=True)
    raw: Any = option(
        None, "Run with the lists before reranking, if the log has no `raw`.", metavar="RUN", is_input=True
    )
    original: Any = option(
        None, "Run with the lists before rewriting, if the log has no `topk_original`.", metavar="RUN", is_input=True
    )
    routes: Mapping[str, Any] | None = option(
        None,
        "Run that asked only the source NAME, to measure what routing costs.",
        flags=["--route"],
        metavar="NAME=RUN",
        is_input=True,
    )

    quality: Any = option(
        None,
        "Quality signal from users (thumbs, resolved …): a field of the gold set, a file with query_id, or FILE:FIELD.",
        metavar="SIGNAL",
    )

    run_format: str | None = option(None, "Format of the run (default: recognised from its content).", metavar="NAME")
    gold_format: str | None = option(
        None, "Format of the gold set (default: recognised from its content).", metavar="NAME"
    )
    target: str | None = option(None, "Field with the target of a single-target set.", metavar="FIELD")
    split: str = option("test", "Split of a BEIR folder.")
    system: str | None = option(None, "System to evaluate, if the run has several.")
    hits: Literal["topk", "raw", "topk_original"] = option(
        "topk", "Which lists of a run log to evaluate: final, before reranking, or before rewriting."
    )
    query_from: Literal["retriever", "root"] = option(
        "retriever", "Traces: take the question from the retriever span, or from the root span of the trace."
    )
    run_columns: Any = option(
        None,
        "YAML file that maps table columns, such as `query_id: request_id`.",
        metavar="FILE",
        is_input=True,
    )

    columns: Any = option(
        None,
        "Map your field names: query_id=id,topk=results,chunk_id=doc. Use dots inside objects: "
        "topk=response.hits. For one kind of file only: gold.query_id=qid.",
        flags=["--map"],
        metavar="FIELD=NAME,…",
        instead="from karat.yaml",
    )

    engine: Any = option(
        None, "Where to compute: local, processes (all cores) or spark.", metavar="NAME", instead="local"
    )
    spark_master: str | None = option(
        None, "Spark master: spark://host:7077, sc://host:15002, local[2] ….", metavar="URL"
    )

    # Python only.
    labelling: Any = option(
        None, "Labels in addition to the gold set, and whether to compute bounds, from `read_labelling`.", flags=[]
    )
    sampling: Sampling | None = option(None, "A `Sampling`: method, level, resamples and seed together.", flags=[])
    analyses: bool | None = option(
        None,
        "Also collect data for analyses: stages, routes, time, cost … (default: if no metrics are named).",
        flags=[],
    )

    def check(self) -> None:
        super().check()
        if self.sampling is not None and part_of(self, Sampling) not in (Sampling(), self.sampling):
            raise ConfigError(
                "interval options are given twice",
                code="contradiction",
                hint="pass either sampling or the single options",
            )

    @property
    def intervals(self) -> Sampling:
        """How intervals are computed."""
        return self.sampling or part_of(self, Sampling)

    @property
    def fields(self) -> Any:
        """The field map, for every file that is read."""
        if self.columns is None:
            return None
        from karat.formats.field_map import FieldMap

        return FieldMap.of(self.columns)

    @property
    def of_run(self) -> dict[str, Any]:
        """Arguments of `read_run`."""
        columns = self.fields if self.run_columns is None else self.run_columns
        found = {"format": self.run_format, "system": self.system, "hits": self.hits, "columns": columns}
        return found | ({} if self.query_from == "retriever" else {"query_from": self.query_from})

    @property
    def of_gold(self) -> dict[str, Any]:
        """Arguments of `read_gold`."""
        of_file = {"format": self.gold_format, "target": self.target, "split": self.split, "columns": self.fields}
        return of_file | {"depth": self.depth, "rules": part_of(self, CountingOptions)}


def named_sampling(options: Mapping[str, Any], own: Sampling) -> Sampling:
    """How intervals are computed for a result with its own settings: explicit options win."""
    sampling: Sampling | None = options.get("sampling")
    if sampling is not None:
        return sampling
    given = {name: value for name, value in options.items() if name in options_in(Sampling)}
    return own.replace(**given) if given else own
