"""What an evaluation may be told: each option with its type, default, limits and help, written once.

The keywords of `evaluate`, `compare` and `gate`, the options of the commands, and the settings of a saved result follow
from these lists. They are looked at whenever the command line starts: nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from karat.errors import ConfigError
from karat.matching.cover import THRESHOLD
from karat.options.option import OptionList, option, options_in, part_of
from karat.statistics.sampling import Sampling


class CountingOptions(OptionList):
    """Choices that change what counts."""

    k: int = option(
        5,
        "Cutoff for metrics that name none.",
        ge=1,
        wrong="the cutoff k must be 1 or more",
        instead="karat.yaml, else 5",
    )
    missing: Literal["worst", "skip"] = option(
        "worst", "Queries of the gold set that the run lacks.", wrong="unknown choice for missing queries"
    )
    min_score: float | None = option(
        None, "Cut hits with a lower score before evaluation.", wrong="the score threshold is no number"
    )
    score_width: Literal[32, 64] = option(
        32,
        "Bits in which scores are compared where they decide the order: 32 as trec_eval does, or 64.",
        wrong="scores are compared in 32 or 64 bits",
    )
    ties: Literal["id", "listed"] = option(
        "id",
        "Order of hits with equal scores: by id from the highest down, as trec_eval does, or as listed.",
        wrong="unknown choice for ties",
    )
    scores: Literal["higher-is-better", "lower-is-better"] | None = option(
        None,
        "What a score means where it decides the order; distances are negated.",
        instead="as the run log says in score_order, else higher-is-better",
        wrong="unknown meaning of scores",
    )
    no_relevant: Literal["undefined", "zero"] = option(
        "undefined",
        "Queries without relevant gold: undefined and left out of means, or zero as in trec_eval.",
        wrong="unknown choice for queries without relevant gold",
    )
    doc_of: str = option("#", "Separator between document id and chunk id, or a regular expression with a group.")
    normalize_ids: bool = option(
        False,
        "Compare ids of run and gold set without case, white space, Unicode form, file extension and a common prefix.",
    )
    no_future: bool = option(False, "Remove hits newer than their query's as_of before evaluation.")
    top_k: int | None = option(
        None, "Cut each list after so many hits before evaluation.", ge=1, wrong="top_k must be 1 or more"
    )
    fuzzy_threshold: float = option(
        THRESHOLD,
        "Minimum similarity for a chunk to match an evidence text.",
        gt=0,
        le=1,
        wrong="bad fuzzy threshold",
    )
    target_false_evidence: float = option(
        0.1,
        "Find the score threshold at which at most this share of the queries without an answer get a hit.",
        ge=0,
        lt=1,
        metavar="SHARE",
        wrong="the target for false evidence is no share",
        expected="from 0 to under 1, such as 0.1",
    )
    rerank_depth: int | None = option(
        None,
        "Raw candidates that the reranker was given, for its possible gain.",
        ge=1,
        instead="as logged, else 50",
        wrong="the reranker's depth must be 1 or more",
    )
    corpus_size: int | None = option(
        None,
        "Number of items in the corpus, for the random floor.",
        ge=1,
        wrong="the corpus size must be 1 or more",
    )


class Options(Sampling, CountingOptions):
    """All that an evaluation may be told."""

    like: Literal["trec_eval", "ranx", "ir_measures", "ragas"] | None = option(
        None,
        "Count as another tool does: sets --missing, --ties, --score-width, --no-relevant and what metrics leave open, "
        "as docs/comparability.md lists it. What is said besides wins.",
        wrong="unknown tool",
    )

    # What is known beside the run and the gold set.
    prices: Any = option(
        None, "Price table in YAML, for the cost.", metavar="FILE", instead="karat.yaml's", is_input=True
    )
    no_answer: str | None = option(
        None,
        "Which queries have no answer, besides those that say so: type=Null, or type=Null,None.",
        metavar="FIELD=VALUE",
    )
    corpus: Any = option(
        None,
        "Corpus (JSONL, BEIR folder or folder of texts): lends hits the texts and versions that the log left out; "
        "its size gives the random floor.",
        is_input=True,
    )

    # By which attributes queries are told apart, or belong together.
    segments: Iterable[str] = option(
        (),
        "Also by language, topic, language×topic (or language,topic), query_length, gold_items ….",
        flags=["--segment", "-s"],
        metavar="NAME",
    )
    cluster: str | None = option(
        None,
        "Queries with the same value belong together; none: every query for itself.",
        metavar="FIELD",
        instead="conversation_id, if given",
    )

    # Runs that have other lists for the same queries.
    bm25: Any = option(None, "Run of BM25 to show beside.", metavar="RUN", instead="search in --corpus", is_input=True)
    raw: Any = option(
        None, "Run with the lists before reranking, where the log has no `raw`.", metavar="RUN", is_input=True
    )
    original: Any = option(
        None, "Run with the lists before rewriting, where the log has no `topk_original`.", metavar="RUN", is_input=True
    )
    routes: Mapping[str, Any] | None = option(
        None,
        "Run that asked the source NAME only, to tell what routing costs.",
        flags=["--route"],
        metavar="NAME=RUN",
        is_input=True,
    )

    quality: Any = option(
        None,
        "Quality that users saw (thumbs, resolved …): a field of the gold set, a file with query_id, or FILE:FIELD.",
        metavar="SIGNAL",
    )

    # How the run and the gold set are read.
    run_format: str | None = option(None, "Format of the run (default: recognised from its content).", metavar="NAME")
    gold_format: str | None = option(None, "Format of the gold set (default: recognised).", metavar="NAME")
    target: str | None = option(None, "Field that holds the target of a single-target set.", metavar="FIELD")
    split: str = option("test", "Which qrels of a BEIR folder.")
    system: str | None = option(None, "Only this system of a run that holds several.")
    hits: Literal["topk", "raw", "topk_original"] = option(
        "topk", "Which lists of a run log: the final ones, those before reranking, or those before rewriting."
    )
    run_columns: Any = option(
        None,
        "YAML that says what the columns of a table are for, such as `query_id: request_id`.",
        metavar="FILE",
        is_input=True,
    )

    columns: Any = option(
        None,
        "What the fields of your files are for: query_id=id,topk=results,chunk_id=doc. With dots inside objects: "
        "topk=response.hits. For one kind of file: gold.query_id=qid.",
        flags=["--map"],
        metavar="FIELD=NAME,…",
        instead="karat.yaml's",
    )

    # Where it is worked out.
    engine: Any = option(
        None, "Where it is worked out: local, processes (all cores) or spark.", metavar="NAME", instead="local"
    )
    spark_master: str | None = option(None, "spark://host:7077, sc://host:15002, local[2] …; for spark.", metavar="URL")

    # Those that only Python has.
    labelling: Any = option(
        None, "Labels beside the gold set, and whether bounds are asked for, from `read_labelling`.", flags=[]
    )
    sampling: Sampling | None = option(None, "A `Sampling`: method, level, resamples and seed in one.", flags=[])
    analyses: bool | None = option(
        None,
        "Also collect what analyses need: stages, routes, time, cost … (default: when no metrics are named).",
        flags=[],
    )

    def check(self) -> None:
        super().check()
        if self.sampling is not None and part_of(self, Sampling) not in (Sampling(), self.sampling):
            raise ConfigError(
                "how intervals are made is said twice",
                code="contradiction",
                hint="leave out sampling, or what it holds",
            )

    @property
    def intervals(self) -> Sampling:
        """How intervals are made."""
        return self.sampling or part_of(self, Sampling)

    @property
    def fields(self) -> Any:
        """The map of fields, for every file that is read."""
        if self.columns is None:
            return None
        from karat.formats.field_map import FieldMap

        return FieldMap.of(self.columns)

    @property
    def of_run(self) -> dict[str, Any]:
        """For `read_run`."""
        columns = self.fields if self.run_columns is None else self.run_columns
        return {"format": self.run_format, "system": self.system, "hits": self.hits, "columns": columns}

    @property
    def of_gold(self) -> dict[str, Any]:
        """For `read_gold`."""
        return {"format": self.gold_format, "target": self.target, "split": self.split, "columns": self.fields}


def named_sampling(options: Mapping[str, Any], own: Sampling) -> Sampling:
    """How intervals are made where a result says how its own are: what is given wins."""
    sampling: Sampling | None = options.get("sampling")
    if sampling is not None:
        return sampling
    given = {name: value for name, value in options.items() if name in options_in(Sampling)}
    return own.replace(**given) if given else own
