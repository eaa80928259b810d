"""`karat convert`: reads any input that Karat reads, and writes it in another format."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, Literal

import msgspec

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import Hits, Run, ScoreMeaning, Ungrouped
from karat.errors import ConfigError, InputError, UnknownName
from karat.files.atomic_write import check_writable, refuse_overwriting, whole_file, whole_folder
from karat.formats.base import Kind, Source
from karat.formats.corpus import read_corpus
from karat.formats.field_map import FieldMap
from karat.formats.gold_writer import gold_entry
from karat.formats.read import REGISTRY, find_format, find_kind, read_gold, read_run
from karat.formats.run_writer import RUN_HOLDS, run_frame, run_log_lines, run_records, said_in_run, trec_lines, varied
from karat.formats.tool_writer import (
    deepeval_case,
    gold_frame,
    gold_lines_of,
    holds,
    promptfoo_tests,
    qrels_lines,
    quepid_lines,
    ragas_sample,
    rank_eval_body,
    said_in_gold,
    write_beir,
)

# Format → what it holds: runs, gold sets, or both in one sample.
TARGETS: dict[str, tuple[Kind, ...]] = {
    "run-log": ("run",),
    "gold": ("gold",),
    "trec-run": ("run",),
    "trec-qrels": ("gold",),
    "beir": ("gold",),
    "ragas": ("run", "gold"),
    "deepeval": ("run", "gold"),
    "promptfoo": ("gold",),
    "rank-eval": ("gold",),
    "quepid": ("gold",),
    "parquet": ("run", "gold"),
}
_SAMPLES = ("ragas", "deepeval")
_ENDS = {".parquet": "parquet", ".run": "trec-run", ".trec": "trec-run", ".qrels": "trec-qrels"}
_OWN: dict[Kind, str] = {"run": "run-log", "gold": "gold"}
STDOUT = "-"
_DIFFERS = ", which differs between lines"


class Converted(msgspec.Struct):
    """What was written."""

    input: str
    output: str
    kind: Literal["run", "gold", "samples"]
    format: str
    queries: int = 0
    items: int = 0  # hits of a run, or items of a gold set
    lost: list[str] = []
    notes: list[str] = []


def convert(
    source: str,
    output: str,
    *,
    to: str | None = None,
    kind: Kind | None = None,
    format: str | None = None,
    gold: str | None = None,
    corpus: str | None = None,
    system: str | None = None,
    index: str | None = None,
    target: str | None = None,
    split: str = "test",
    columns: FieldMap | None = None,
    query_from: Literal["retriever", "root"] = "retriever",
    scores: ScoreMeaning | None = None,
    lossy: bool = False,
    watch: Callable[[], Callable[[Hits], None]] | None = None,
) -> Converted:
    """Read `source` and write it to `output` in the format `to`, which by default follows from the output's name.

    `kind`: read it as a run or as a gold set. `format`: its format, if it is not recognised. `gold`: the gold set of
    a run: for samples that have both, and for the ids of queries that the run only has as text. `corpus`: texts of
    hits, and the corpus of a BEIR folder. `index`: of the ratings for `_rank_eval`. `query_from`: of traces, the span
    with the question. `scores`: what the scores of a run mean. `lossy`: accept what the format cannot hold. `watch` is
    called at the start of each reading of a run, and what it returns gets every slice.
    """
    found = _kind(source, kind, to, format, columns)
    name = _target(to, output, found)
    _check_output(output, name, [source, gold, corpus])
    made = Converted(source, output, found, name)

    def judgements(path: str, format: str | None = None) -> Gold:
        return read_gold(path, format=format, target=target, split=split, columns=columns)

    _refuse_options(name, found, gold, index)

    def refuse_unused_fields() -> None:
        if columns is not None:
            columns.refuse_unused([path for path in (source, gold) if path is not None])

    if found == "gold":
        entries = judgements(source, format)
        refuse_unused_fields()
        _write_gold(_Gold(entries, made, lossy), output, index, corpus)
        return made
    if gold is None and name in _SAMPLES and format is None and _is_gold(source):
        gold = source  # a file of samples has both sides
    judged = None if gold is None else judgements(gold)
    texts = None if corpus is None else read_corpus(corpus, columns=columns)
    run = read_run(source, format=format, system=system, columns=columns, query_from=query_from)
    if judged is not None:
        run.match_queries(judged)
    if texts is not None:
        run.match_texts(texts)
    refuse_unused_fields()
    try:
        _write_run(_Run(run, made, lossy, texts, scores, watch), output, judged)
    except Ungrouped:  # nothing of it was kept
        made.queries = made.items = 0
        _write_run(_Run(run.grouped(), made, lossy, texts, scores, watch), output, judged)
    return made


def _refuse_options(name: str, kind: Kind, gold: str | None, index: str | None) -> None:
    if gold is not None and kind == "gold":
        what, hint = "a gold set has no other gold set", "leave out --gold, or read the input as a run: --as run"
        raise ConfigError(what, code="no-such-option", field="gold", hint=hint)
    if index is not None and name != "rank-eval":
        raise ConfigError(f"the format {name!r} names no index", code="no-such-option", field="index", got=index)


def _kind(source: str, kind: Kind | None, to: str | None, format: str | None, columns: FieldMap | None) -> Kind:
    if to is not None and to not in TARGETS:
        raise UnknownName("format", to, TARGETS, hint="known: " + ", ".join(TARGETS))
    possible = ("run", "gold") if to is None else TARGETS[to]
    if kind is not None and kind not in possible:
        raise ConfigError(
            f"the format {to!r} holds no {'runs' if kind == 'run' else 'gold sets'}", code="bad-setting", field="as"
        )
    if kind is not None:
        return kind
    if len(possible) == 1:
        return possible[0]
    if format is not None:
        return next(each for each in possible if each in REGISTRY.require(format).kinds)
    return find_kind(Source(source), columns)[0]


def _target(to: str | None, output: str, kind: Kind) -> str:
    if to is not None:
        return to
    if output == STDOUT or output.endswith((".jsonl", ".jsonl.gz")):
        return _OWN[kind]
    if output.endswith(("/", "\\")) or Path(output).is_dir():
        return "beir"
    name = _ENDS.get(Path(output).suffix.lower())
    if name is None or kind not in TARGETS[name]:
        fitting = [each for each, kinds in TARGETS.items() if kind in kinds]
        what = f"which format? The name of the output does not say it for a {'run' if kind == 'run' else 'gold set'}"
        hint = f"name it with --to: {', '.join(fitting)}"
        raise ConfigError(what, code="no-format", file=output, hint=hint)
    return name


def _check_output(output: str, name: str, inputs: list[str | None]) -> None:
    if output.endswith(".gz"):
        raise ConfigError(
            "compressed files are not written", code="bad-path", file=output, hint=f"write {output[:-3]}, then gzip it"
        )
    if output == STDOUT:
        if name == "beir":
            hint = "name a folder, such as dataset/"
            raise ConfigError("a folder cannot be written to standard output", code="bad-path", hint=hint)
    elif name == "beir":
        refuse_overwriting(output, inputs)
    else:
        check_writable(output, inputs)


def _is_gold(source: str) -> bool:
    """Whether a file that is a run is a gold set as well."""
    try:
        return find_format(Source(source), "gold").name in (*_SAMPLES, "promptfoo", "mlflow", "langsmith")
    except InputError:
        return False


class _Checked:
    """Refuses what a format cannot hold, or notes that it was lost."""

    def __init__(self, made: Converted, lossy: bool) -> None:
        self.made, self.lossy = made, lossy

    def lose(self, features: Iterable[str], query: str | None = None) -> None:
        lost = sorted(set(features) - {*self.made.lost})
        if lost and not self.lossy:
            words = " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
            raise InputError(
                f"the format {self.made.format!r} cannot hold {words}",
                code="lossy",
                file=self.made.input,
                query=query,
                hint=_lossy_hint(self.made, lost),
            )
        self.made.lost += lost


def _lossy_hint(made: Converted, lost: list[str]) -> str:
    own = _OWN["run" if made.kind == "run" else "gold"]
    held = made.format != own and not any(one.endswith(_DIFFERS) for one in lost)
    return "--lossy writes the file without" + (f"; --to {own} keeps everything named here" if held else "")


class _Gold(_Checked):
    """The entries of a gold set."""

    def __init__(self, gold: Gold, made: Converted, lossy: bool) -> None:
        super().__init__(made, lossy)
        self.gold = gold
        said = msgspec.to_builtins(gold.dataset)
        self.header = {name: said[name] for name in ("version", "as_of_range", "name") if said.get(name) is not None}

    def entries(self, format: str) -> Iterator[dict[str, Any]]:
        if self.header and format not in ("gold", "beir"):
            self.lose({"the version of the dataset"})
        for at in range(len(self.gold.queries)):
            entry = _as_written(self.gold, at)
            self.lose((one for one in said_in_gold(entry) if not holds(format, one)), entry["query_id"])
            self.made.queries += 1
            self.made.items += len(entry["gold"])
            yield entry


def _as_written(gold: Gold, at: int) -> dict[str, Any]:
    """An entry without what only reading adds: grades of ungraded items, and negatives among the items."""
    entry = gold_entry(gold, at, {})
    first = int(gold.offsets[at])
    negatives = set(entry.get("negatives") or ())
    items = []
    for row, item in enumerate(entry["gold"], first):
        if gold.ungraded is not None and gold.ungraded[row]:
            item.pop("grade")
        if not (item.get("id") in negatives and item.get("grade") == 0):
            items.append(item)
    return {**entry, "gold": items}


def _write_gold(gold: _Gold, output: str, index: str | None, corpus: str | None) -> None:
    name = gold.made.format
    entries = gold.entries(name)
    if name == "beir":
        with whole_folder(output) as folder, _named(gold.made.input):
            write_beir(folder, entries, gold.header)
            if corpus is not None:
                _write_corpus(folder / "corpus.jsonl", read_corpus(corpus))
        return
    if corpus is not None:
        what, hint = f"the format {name!r} has no corpus", "leave out --corpus, or write --to beir"
        raise ConfigError(what, code="no-such-option", field="corpus", hint=hint)
    writers: dict[str, Callable[[], Iterable[bytes]]] = {
        "gold": lambda: gold_lines_of(entries, gold.header),
        "trec-qrels": lambda: qrels_lines(entries),
        "quepid": lambda: quepid_lines(entries),
        "rank-eval": lambda: [rank_eval_body(entries, index)],
        "promptfoo": lambda: [promptfoo_tests(entries, not output.endswith(".json"))],
        "ragas": lambda: (msgspec.json.encode(ragas_sample(None, entry)) + b"\n" for entry in entries),
        "deepeval": lambda: _listed(deepeval_case(None, entry) for entry in entries),
    }
    with _stream(output) as stream, _named(gold.made.input):
        if name == "parquet":
            gold_frame(entries).write_parquet(stream)
        else:
            stream.writelines(writers[name]())


def _write_corpus(path: Path, corpus: Corpus) -> None:
    with path.open("wb") as stream:
        for id, title, text in zip(corpus.ids, corpus.titles, corpus.texts, strict=True):
            stream.write(msgspec.json.encode({"_id": id, "title": title, "text": text}) + b"\n")


def _listed(records: Iterable[Any]) -> Iterator[bytes]:
    """A JSON list, one record per line."""
    before = b"[\n"
    for record in records:
        yield before + msgspec.json.encode(record)
        before = b",\n"
    yield b"[]\n" if before == b"[\n" else b"\n]\n"


class _Run(_Checked):
    """The records of a run, with texts of a corpus where hits have none."""

    def __init__(
        self,
        run: Run,
        made: Converted,
        lossy: bool,
        corpus: Corpus | None,
        scores: ScoreMeaning | None,
        watch: Callable[[], Callable[[Hits], None]] | None,
    ) -> None:
        super().__init__(made, lossy)
        self.run, self._scores, self._watch = run, scores, watch
        texts = () if corpus is None else zip(corpus.ids, corpus.texts, strict=True)
        self._texts: dict[str, str] = dict(texts)

    def records(self, format: str) -> Iterator[dict[str, Any]]:
        kept, systems = RUN_HOLDS.get(format), dict[str, None]()
        for record in run_records(self.run, self._scores, None if self._watch is None else self._watch()):
            if kept is not None:
                self.lose(said_in_run(record) - kept, record["query_id"])
            systems.setdefault(record.get("system", ""))
            if len(systems) > 1 and format in _SAMPLES:
                self._refuse_systems(systems)
            for hit in record["topk"] if self._texts else ():
                if "text" not in hit and hit["chunk_id"] in self._texts:
                    hit["text"] = self._texts[hit["chunk_id"]]
            self.made.queries += 1
            self.made.items += len(record["topk"])
            yield record
        self.lose(f"the field {name}{_DIFFERS}" for name in varied(self.run, systems))

    def _refuse_systems(self, systems: Mapping[str, None]) -> None:
        raise ConfigError(
            "the run has several systems, and samples hold one",
            code="several-systems",
            file=self.run.label,
            got=", ".join(systems),
            hint=f"choose one: --system {shlex.quote(next(iter(systems)))}",
        )


def _write_run(run: _Run, output: str, judged: Gold | None) -> None:
    name = run.made.format
    records = run.records(name)
    with _stream(output) as stream, _named(run.made.input):
        if name == "parquet":
            run_frame(records).write_parquet(stream)
        elif name == "run-log":
            stream.writelines(run_log_lines(records))
        elif name == "trec-run":
            stream.writelines(trec_lines(records, run.lossy))
        else:
            samples = _samples(records, ragas_sample if name == "ragas" else deepeval_case, judged, run)
            lines = (msgspec.json.encode(sample) + b"\n" for sample in samples)
            stream.writelines(lines if name == "ragas" else _listed(samples))


def _samples(
    records: Iterable[dict[str, Any]], make: Callable[[Any, Any], Any], judged: Gold | None, run: _Run
) -> Iterator[Any]:
    """Samples with what was retrieved and, with a gold set, what should have been."""
    if judged is None:
        yield from (make(record, None) for record in records)
        return
    run.made.kind = "samples"
    gold = _Gold(judged, Converted(judged.label, run.made.output, "gold", run.made.format), run.lossy)
    entries = {entry["query_id"]: entry for entry in gold.entries(run.made.format)}
    run.made.lost += [one for one in gold.made.lost if one not in run.made.lost]
    unknown = 0
    for record in records:
        entry = entries.pop(record["query_id"], None)
        unknown += entry is None
        yield make(record, entry)
    for query, entry in entries.items():  # nothing was retrieved for them
        yield make({"query_id": query, "topk": []}, entry)
    if unknown:
        run.made.notes.append(f"queries that the gold set does not have: {unknown}")
    if entries:
        run.made.notes.append(f"queries that the run does not have: {len(entries)}")
        run.made.queries += len(entries)


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Say in errors of writers which file they are about."""
    try:
        yield
    except InputError as error:
        error.file = error.file or label
        raise


@contextmanager
def _stream(output: str) -> Iterator[IO[bytes]]:
    """A file that is written whole or not at all; the same for standard output."""
    if output != STDOUT:
        with whole_file(output) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as kept:
        yield kept
        kept.seek(0)
        sys.stdout.flush()
        copyfileobj(kept, sys.stdout.buffer)
        sys.stdout.buffer.flush()
