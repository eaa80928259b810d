"""Five tools for agents over the files of one folder: what they take, what they do, and their short answers.

A tool reads files below the folder and nothing else. It answers with compact JSON of a bounded size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from karat.errors import ConfigError, shorten
from karat.files.decode_errors import refusal
from karat.files.guarded_folder import GuardedFolder
from karat.formats.field_map import FieldMap
from karat.gates.criteria import DEFAULT_FILES
from karat.gates.gate import asked_for, gate
from karat.results.check import check_files
from karat.results.comparison.compare import compare
from karat.results.doubts import doubt_text, what_to_do
from karat.results.evaluate import evaluate_all
from karat.results.queries.triage import LOSS, MISSED, Case, triage, triage_need
from karat.results.references import is_saved
from karat.results.result import Result
from karat.results.results import Results
from karat.scoring.judged import Rules
from karat.settings import load_config

MOST = 20_000  # characters of an answer
_TEXT, _NAME, _ENTRIES = 300, 80, 100  # characters of a text and of a name, and entries of a list

# Arguments, as a model is told them.
RunFile = Annotated[str, Meta(description="Run file: what a retriever returned (JSONL, TREC, CSV, Parquet …)")]
GoldFile = Annotated[str, Meta(description="Gold set: what it should have returned, in any format, or a BEIR folder")]
GoldIfRun = Annotated[str | None, Meta(description="Gold set; not needed for results saved by `karat eval`")]
Side = Annotated[str, Meta(description="Run file, or a result that `karat eval -o result.json` saved")]
Metrics = Annotated[list[str] | None, Meta(description="Such as recall@5, ndcg@10, mrr; the usual panel if left out")]
Tags = Annotated[list[str], Meta(description="Tags of the gold set to break scores down by, such as language")]
Depth = Annotated[int, Meta(ge=1, description="k of metrics that name none")] | None
System = Annotated[str | None, Meta(description="One system of a run that holds several")]
CorpusFile = Annotated[str | None, Meta(description="Corpus, for the texts of passages and BM25 beside the run")]
Report = Annotated[str | None, Meta(description="Also write the full report to a new file: .html, .json or .md")]


class EvaluateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Score a run against a gold set: means with 95 % intervals, what stands out and what to try, what was repaired."""

    run: RunFile
    gold: GoldFile
    metrics: Metrics = None
    segments: Tags = []
    k: Depth = None
    corpus: CorpusFile = None
    system: System = None
    report: Report = None


class CompareRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Compare two runs query by query. `reading` of each metric is better, worse, same or unclear; `changes` are the
    queries that lost and gained most."""

    baseline: Side
    candidate: Side
    gold: GoldIfRun = None
    metrics: Metrics = None
    segments: Tags = []
    changes: Annotated[int, Meta(ge=0, le=50, description="Changed queries to show, losses and gains each")] = 3
    k: Depth = None
    system: System = None
    report: Report = None


class GateRequest(msgspec.Struct, forbid_unknown_fields=True):
    """May a run ship? Checks it against gates. `may_ship` is the answer; `outcome` is pass, fail, inconclusive or
    invalid, and each verdict says why."""

    run: Side
    gold: GoldIfRun = None
    criteria: Annotated[str | None, Meta(description="File of gates; ship-criteria.yaml if neither is given")] = None
    gates: Annotated[list[str], Meta(description="Gates as text, such as 'recall@5 >= 0.85', 'mrr drop <= 0.02'")] = []
    baseline: Annotated[str | None, Meta(description="Run or saved result that it may not fall behind")] = None
    k: Depth = None
    system: System = None
    report: Report = None


class TriageRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Show the queries that failed, worst first: what should have been found, what was, and where it was lost."""

    run: RunFile
    gold: GoldFile
    queries: Annotated[int, Meta(ge=1, le=50, description="How many queries to show")] = 5
    k: Depth = None
    corpus: CorpusFile = None
    system: System = None
    report: Report = None


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Look at files without scoring them: format, what they hold, what would be repaired, whether runs match gold."""

    files: Annotated[list[str], Meta(min_length=1, max_length=20, description="Runs and gold sets")]


REQUESTS: dict[str, type[Any]] = {
    "evaluate": EvaluateRequest,
    "compare": CompareRequest,
    "gate": GateRequest,
    "triage": TriageRequest,
    "check": CheckRequest,
}


def argument_schema(kind: type, writes: bool) -> dict[str, Any]:
    """JSON Schema of what a tool takes; a report is no argument where nothing may be written."""
    found: dict[str, Any] = msgspec.json.schema(kind)["$defs"][kind.__name__]
    if not writes:
        found["properties"].pop("report", None)
    return {key: value for key, value in found.items() if key not in ("title", "description")}


class Tools:
    """The tools, over the files of one folder, which is the working directory."""

    def __init__(self, folder: GuardedFolder) -> None:
        self.folder = folder

    def answer(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """What a tool says, as JSON of at most `MOST` characters."""
        request = self._request(name, arguments or {})
        told: dict[str, Any] = getattr(self, f"_{name}")(request)
        return fit(told)

    def _request(self, name: str, arguments: Mapping[str, Any]) -> Any:
        kind = REQUESTS.get(name)
        if kind is None:
            what, known = f"unknown tool {shorten(name, _NAME)!r}", ", ".join(REQUESTS)
            raise ConfigError(what, code="unknown-tool", hint=f"there are {known}")
        try:
            return msgspec.convert({key: value for key, value in arguments.items() if value is not None}, kind)
        except msgspec.ValidationError as error:
            found = refusal(error, name, None, dict(arguments))
            found.hint = f"{name} takes {', '.join(argument_schema(kind, self.folder.writable)['properties'])}"
            raise found from None

    def _settings(self) -> dict[str, Any]:
        """What karat.yaml says, if the folder has one."""
        if not (self.folder.path / "karat.yaml").is_file():
            return {}
        self.folder.read("karat.yaml", "karat.yaml")
        config = load_config(self.folder.path)
        mapped = config.map
        if isinstance(mapped, str) and "=" not in mapped:
            mapped = self.folder.read(mapped, "map")
        prices = None if config.prices is None else self.folder.read(config.prices, "prices")
        columns = FieldMap.of(mapped, settings="karat.yaml")
        found = {"k": config.metrics.retrieval.default_k, "columns": columns, "prices": prices}
        return found | {"scores": config.scores, "normalize_ids": config.normalize_ids}

    def _options(self, request: Any) -> dict[str, Any]:
        """What the request says besides files, and what karat.yaml in the folder says."""
        found: dict[str, Any] = {**self._settings(), "analyses": True}
        if request.k is not None:
            found["k"] = request.k
        if request.system is not None:
            found["system"] = request.system
        if getattr(request, "corpus", None) is not None:
            found["corpus"] = self.folder.read(request.corpus, "corpus")
        return found

    def _gold(self, request: Any) -> str | None:
        return None if request.gold is None else self.folder.read(request.gold, "gold")

    def _run(self, request: Any) -> str:
        run = self.folder.read(request.run, "run")
        if is_saved(run):
            hint = "give the run itself; compare and gate take saved results"
            raise ConfigError("this is a saved result, which keeps no hits", code="no-hits-kept", file=run, hint=hint)
        return run

    def _report(self, request: Any, *inputs: str | None) -> Callable[[Any], dict[str, Any]]:
        """Checked before the work, written after it."""
        if request.report is None:
            return lambda _: {}
        path = self.folder.new(request.report, [file for file in inputs if file])
        return lambda made: {"wrote": str(made.save(path))}

    def _evaluate(self, request: EvaluateRequest) -> dict[str, Any]:
        run, gold = self._run(request), self.folder.read(request.gold, "gold")
        save = self._report(request, run, gold)
        options = self._options(request) | {"segments": request.segments}
        found = evaluate_all(run, gold, request.metrics or None, **options)
        made: Any = Results(found) if len(found) > 1 else next(iter(found.values()))
        return {"systems": [_scored(one) for one in found.values()], **save(made)}

    def _compare(self, request: CompareRequest) -> dict[str, Any]:
        sides = [self.folder.read(getattr(request, side), side) for side in ("baseline", "candidate")]
        gold = self._gold(request)
        save = self._report(request, *sides, gold)
        options = self._options(request) | {"analyses": False, "segments": request.segments}
        made = compare(sides[0], sides[1], gold, request.metrics or None, changes=request.changes, **options)
        pairs = [
            {
                **_some(pair, "candidate", "queries", "invalid", "notes"),
                "differences": [_difference(one) for one in pair.differences],
                "findings": [_some(one, "code", "title", "sure", "evidence") for one in pair.findings],
                "segments": [
                    {
                        **_some(row, "segment", "value", "queries"),
                        "differences": [_difference(one) for one in row.differences],
                    }
                    for row in pair.segments
                ],
                "changes": [msgspec.to_builtins(change) for change in pair.changes],
            }
            for pair in made.pairs
        ]
        return {"baseline": made.baseline, "lower_is_better": made.lower_is_better, "pairs": pairs, **save(made)}

    def _gate(self, request: GateRequest) -> dict[str, Any]:
        run, gold = self.folder.read(request.run, "run"), self._gold(request)
        baseline = None if request.baseline is None else self.folder.read(request.baseline, "baseline")
        criteria = None if request.criteria is None else self.folder.read(request.criteria, "criteria")
        if criteria is None and not request.gates:
            there = next((name for name in DEFAULT_FILES if (self.folder.path / name).exists()), None)
            if there is None:
                hint = "name a file as `criteria`, or give `gates` such as ['recall@5 >= 0.85']"
                raise ConfigError("no criteria", code="no-criteria", expected=" or ".join(DEFAULT_FILES), hint=hint)
            criteria = self.folder.read(there, "criteria")
        save = self._report(request, run, gold, criteria, baseline)
        asked = asked_for(criteria, request.gates)
        for one in asked.gates:
            if one.anchor is not None:
                one.anchor = self.folder.read(one.anchor, "anchor")
        options = self._options(request) | {"analyses": False}
        made = gate(run, gold, asked, baseline=baseline, **options)
        told = ("gate", "metric", "segment", "severity", "outcome", "blocks", "reason", "value", "low", "high", "n")
        return {
            "may_ship": bool(made),
            **_some(made, "outcome", "exit_code", "run", "baseline", "gold", "queries", "notes"),
            "verdicts": [_some(verdict, *told, "limit") for verdict in made.verdicts],
            **save(made),
        }

    def _triage(self, request: TriageRequest) -> dict[str, Any]:
        run, gold = self._run(request), self.folder.read(request.gold, "gold")
        save = self._report(request, run, gold)
        options = self._options(request) | {"analyses": False}
        results = evaluate_all(run, gold, [MISSED, LOSS], consumers=[triage_need], **options)
        if len(results) > 1:
            what = f"the run holds {len(results)} systems: {', '.join(results)}"
            raise ConfigError(what, code="several-systems", field="system", hint="name one of them as `system`")
        [result] = results.values()
        made = triage(result, request.queries)
        told = _some(made, "system", "run", "gold", "queries", "nothing_found", "losing", "k", "notes")
        return {**_doubts(result), **told, "cases": [*map(_case, made.cases)], **save(made)}

    def _check(self, request: CheckRequest) -> dict[str, Any]:
        files = [self.folder.read(file, "files") for file in request.files]
        said = self._settings()
        rules = Rules(**{name: said[name] for name in ("scores", "normalize_ids") if name in said})
        found = check_files(files, None, said.get("columns"), rules=rules)
        return {
            "usable": not any(one.error for one in found),
            "files": [msgspec.to_builtins(one) for one in found],
        }


def _some(thing: Any, *names: str) -> dict[str, Any]:
    """Fields of an object."""
    return {name: msgspec.to_builtins(getattr(thing, name)) for name in names}


def _difference(found: Any) -> dict[str, Any]:
    numbers = ("n", "baseline", "candidate", "delta", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    return _some(found, "metric", "reading", *numbers)


def _case(case: Case) -> dict[str, Any]:
    """A query that failed; of passages the text alone, without what a page highlights in it."""
    told: dict[str, Any] = msgspec.to_builtins(case)
    for shown in (*told["gold"], *told["hits"], *(told["bm25"] or ())):
        if shown["passage"] is not None:
            shown["passage"] = shown["passage"]["text"]
    return told


def _doubts(result: Result) -> dict[str, Any]:
    if not result.doubts:
        return {}
    return {"doubts": doubt_text(result.doubts), "what_to_do": what_to_do(result.doubts)}


def _scored(result: Result) -> dict[str, Any]:
    row = ("metric", "mean", "low", "high", "n", "undefined", "ceiling", "floor")
    return {
        **_doubts(result),
        **_some(result, "system", "run"),
        "gold": result.gold.label,
        "dataset": result.gold.dataset.version,
        "queries": len(result.queries),
        "k": result.rules.k,
        "scores": [_some(one, *row) for one in result.summary_rows],
        "bm25": result.bm25,
        "bands": [_some(one, "metric", "band") for one in result.bands],
        "findings": [_some(one, "code", "title", "sure", "evidence", "what_to_try") for one in result.findings],
        "segments": [
            {**_some(one, "segment", "value", "queries", "few"), "scores": [_some(s, *row[:5]) for s in one.summary]}
            for one in (result.segment_rows if result.segmented_by else ())
        ],
        "audit": [_some(one, "code", "count", "found", "done", "examples") for one in result.audited],
        "not_measured": result.analyses.lacking,
    }


def fit(told: dict[str, Any], most: int = MOST) -> str:
    """JSON of at most `most` characters. What is cut is counted in `left_off`, by name.

    >>> fit({"a": [*range(40)], "b": 1 / 3}, 60)
    '{"a":[0,1,2,3,4,5,6,7,8],"b":0.333333,"left_off":{"a":31}}'
    """
    left: dict[str, int] = {}
    short = _plain(told, "", left)
    while len(text := _text(short, left)) > most:
        name, longest = max(_lists(short), key=lambda entry: len(_text(entry[1])), default=("", []))
        if not longest:  # nothing but names and texts: the largest of them goes
            name = max(short, key=lambda key: len(_text(short[key])))
            short.pop(name)
            left[name] = left.get(name, 0) + 1
            continue
        kept = len(longest) * 3 // 4
        left[name] = left.get(name, 0) + len(longest) - kept
        del longest[kept:]
    return text


def _text(value: Any, left: dict[str, int] | None = None) -> str:
    return msgspec.json.encode({**value, "left_off": left} if left else value).decode()


def _plain(value: Any, name: str, left: dict[str, int]) -> Any:
    """A value with texts that are printable, short and free of secrets, and numbers of six digits."""
    if isinstance(value, str):
        return shorten(value, _TEXT)
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        kept = list(value.items())[:_ENTRIES]
        _count(name, len(value) - len(kept), left)
        return {
            shorten(str(key), _NAME): _plain(inner, f"{name}.{key}" if name else str(key), left)
            for key, inner in kept
            if inner is not None
        }
    if isinstance(value, list | tuple):
        _count(name, len(value) - _ENTRIES, left)
        return [_plain(inner, name, left) for inner in value[:_ENTRIES]]
    return value


def _count(name: str, cut: int, left: dict[str, int]) -> None:
    if cut > 0:
        left[name] = left.get(name, 0) + cut


def _lists(value: Any, name: str = "") -> Iterator[tuple[str, list[Any]]]:
    """All lists that can be cut further, with their names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lists(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        if len(value) > 1:
            yield name, value
        for inner in value:
            yield from _lists(inner, name)
