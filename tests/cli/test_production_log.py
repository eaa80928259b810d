"""A log of production as it is: nested fields, cosine distances, a gold set from a spreadsheet, no field of Karat."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from readers import choose_reader

from karat.errors import KaratError
from karat.formats.questions import is_bare
from karat.settings import load_config

Call = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]

QUERIES = 12
MAP = {
    "run.query_id": "request.ticket",
    "run.query": "request.text",
    "topk": "retrieval.passages",
    "run.chunk_id": "ref",
    "score": "cosine_distance",
    "gold.query_id": "Ticket",
    "gold.query": "Frage des Mandanten",
    "gold.chunk_id": "Richtige Quelle",
}
LOWER = ("--scores", "lower-is-better")


def ticket(i: int) -> str:
    return f"REQ-{i:03}"


def record(i: int) -> dict[str, Any]:
    """What is right comes first, for two in three questions."""
    right, others = f"BGB §{i}", [f"BGB §{100 + 10 * i + j}" for j in range(5)]
    refs = [right, *others] if i % 3 else [*others[:3], right, *others[3:]]
    passages = [{"ref": ref, "cosine_distance": round(0.1 + 0.04 * j, 3)} for j, ref in enumerate(refs)]
    return {
        "ts": f"2026-10-{i + 1:02}T10:00:00Z",
        "request": {"ticket": ticket(i), "text": f"Wie ist die Frist in Fall {i}?", "tenant": f"k{i % 4}"},
        "retrieval": {"took": 80.5, "passages": passages},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines("prod.jsonl", map(record, range(QUERIES)))
    rows = (f"{ticket(i)};Mietrecht;Wie ist die Frist in Fall {i}?;BGB §{i}\n" for i in range(QUERIES))
    Path("gold.csv").write_text("Ticket;Bereich;Frage des Mandanten;Richtige Quelle\n" + "".join(rows), "utf-8-sig")
    settle()
    return tmp_path


def settle(**settings: Any) -> None:
    Path("karat.yaml").write_text(yaml.safe_dump({"map": MAP, **settings}, allow_unicode=True))


def mrr(call: Call, *more: str) -> float:
    code, out, _ = call("eval", "prod.jsonl", "--gold", "gold.csv", "-m", "mrr", "--json", *more)
    assert code == 0
    value: float = json.loads(out)["summary"][0]["mean"]
    return value


def best(entries: str) -> set[str]:
    return {json.loads(line)["chunk_id"] for line in Path(entries).read_text().splitlines()}


FIRST = {f"BGB §{i}" if i % 3 else f"BGB §{100 + 10 * i}" for i in range(QUERIES)}


def lines(name: str, records: Iterable[Any]) -> str:
    Path(name).write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))
    return name


def bare_queries() -> str:
    return lines("asked.jsonl", ({"query_id": ticket(i), "query": f"Fall {i}?"} for i in range(QUERIES)))


POOL = ("labels", "pool", "prod.jsonl", "--depth", "1", "-o", "pool.jsonl", "--gold")


@pytest.mark.usefixtures("folder")
class TestDistances:
    def test_a_pool_of_them_needs_a_word(self, karat_refuses: Refuses, karat_command: Call) -> None:
        asked = bare_queries()
        assert (karat_refuses(*POOL, asked).code, Path("pool.jsonl").exists()) == ("doubtful-order", False)
        assert karat_command(*POOL, asked, *LOWER)[0] == 0
        assert best("pool.jsonl") == FIRST
        assert karat_command(*POOL, asked, "--scores", "higher-is-better")[0] == 0
        assert best("pool.jsonl").isdisjoint(FIRST)

    def test_so_do_negatives_among_them(self, karat_refuses: Refuses, karat_command: Call) -> None:
        lines("wrong.jsonl", ({"query_id": ticket(i), "negatives": ["no"]} for i in range(QUERIES)))
        stress = ("stress", "prod.jsonl", "--gold", "gold.csv", "--negatives", "wrong.jsonl", "--at", "1", "--json")
        assert karat_refuses(*stress).code == "doubtful-order"
        drops = [
            json.loads(karat_command(*stress, "--scores", said)[1])["rows"][0]["change"]["baseline"]
            for said in ("lower-is-better", "higher-is-better")
        ]
        assert drops[0] > drops[1]

    def test_a_ladder_says_that_it_doubts_them(self, karat_command: Call) -> None:
        lines("corpus.jsonl", ({"chunk_id": f"BGB §{i}", "text": f"Frist in Fall {i}"} for i in range(QUERIES)))
        asked = ("baseline", "--corpus", "corpus.jsonl", "--gold", "gold.csv", "--run", "prod.jsonl", "--json")
        asked = (*asked, "--retriever", "random", "-m", "mrr", "--resamples", "100")
        doubted, told = (json.loads(karat_command(*asked, *more)[1]) for more in ((), LOWER))
        assert [len(found["notes"]) for found in (doubted, told)] == [1, 0]
        assert told["rungs"][-1]["system"] == "prod.jsonl"
        own, other = (next(r["values"] for r in found["rungs"] if r["baseline"]) for found in (doubted, told))
        assert own == other  # what scores mean is about the run

    def test_another_format_keeps_what_they_mean(self, karat_command: Call) -> None:
        code, _, told = karat_command("convert", "prod.jsonl", "run.parquet", "--lossy")
        assert (code, "--scores" in told) == (0, True)
        right = mrr(karat_command, *LOWER)
        for name in ("run.parquet", "run.jsonl"):
            code, _, told = karat_command("convert", "prod.jsonl", name, "--lossy", *LOWER)
            assert (code, "--scores" in told) == (0, False)
            _, out, _ = karat_command("eval", name, "--gold", "gold.csv", "-m", "mrr", "--json")
            assert json.loads(out)["summary"][0]["mean"] == right
        assert karat_command("convert", "prod.jsonl", "run.jsonl", "--lossy", "--scores", "as-listed")[0] == 0
        assert [hit["rank"] for hit in json.loads(Path("run.jsonl").read_text().splitlines()[0])["topk"]] == [
            *range(1, 7)
        ]

    def test_a_file_of_similarities_among_them_is_noticed(self, karat_command: Call) -> None:
        """Karat.yaml says how all runs of a folder are read, also one that is no log of production."""
        settle(scores="lower-is-better")
        records = [
            {"query_id": ticket(i), "topk": [{"chunk_id": f"d{j}", "score": 9 - j} for j in range(5)]}
            for i in range(QUERIES)
        ]
        lines("bm25.jsonl", records)

        def found(*more: str) -> list[str]:
            _, out, _ = karat_command("eval", "bm25.jsonl", "--gold", "gold.csv", "--json", *more)
            return [entry["code"] for entry in json.loads(out)["audit"]]

        assert ("falling_distances" in found(), "falling_distances" in found("--scores", "higher-is-better")) == (1, 0)
        assert "falling_distances" in {e["code"] for e in checked(karat_command, "bm25.jsonl")["audit"]}


QUESTION = "Frage des Mandanten"
MAPS = {
    "gold.": f"gold.query_id=Ticket,gold.query={QUESTION}",
    "queries.": f"queries.query_id=Ticket,queries.query={QUESTION}",
    "both": f"query_id=Ticket,query={QUESTION}",
}


def sheet(kind: str, names: tuple[str, str]) -> str:
    """Questions without an answer: from a spreadsheet, or in lines."""
    rows = [
        {names[0]: ticket(i), names[1]: f"Wie ist, bitte, die Frist {i}?", "Bereich": "Mietrecht"}
        for i in range(QUERIES)
    ]
    if kind == "jsonl":
        return lines("asked.jsonl", rows)
    with Path("asked.csv").open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows([*rows, dict.fromkeys(rows[0], "")])
    return "asked.csv"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
class TestQuestionsWithoutAnswers:
    def pool(self, call: Call, asked: str, *more: str) -> None:
        assert call(*POOL, asked, *LOWER, *more)[0] == 0
        assert best("pool.jsonl") == FIRST
        entry = json.loads(Path("pool.jsonl").read_text().splitlines()[0])
        assert entry["query"].startswith("Wie ist, bitte, ")

    def test_with_usual_names(self, kind: str, karat_command: Call) -> None:
        self.pool(karat_command, sheet(kind, ("query_id", "query")))

    def test_with_the_usual_name_of_an_id(self, kind: str, karat_command: Call) -> None:
        """In a table it could be that of a gold item."""
        named = ("--map", "query_id=id") if kind == "csv" else ()
        if named:
            assert karat_command("convert", "prod.jsonl", "own.jsonl", "--lossy", *LOWER)[0] == 0
            Path("prod.jsonl").write_text(Path("own.jsonl").read_text())
        self.pool(karat_command, sheet(kind, ("id", "query")), *named)

    def test_with_the_names_of_the_gold_set(self, kind: str, karat_command: Call) -> None:
        """What karat.yaml says of gold items is for another file."""
        self.pool(karat_command, sheet(kind, ("Ticket", QUESTION)))

    @pytest.mark.parametrize("said", MAPS)
    def test_with_a_map(self, kind: str, said: str, karat_command: Call) -> None:
        of_run = [f"{name}={value}" for name, value in MAP.items() if not name.startswith("gold.")]
        Path("karat.yaml").unlink()
        self.pool(karat_command, sheet(kind, ("Ticket", QUESTION)), "--map", ",".join([*of_run, MAPS[said]]))

    def test_with_other_names_it_says_what_to_type(
        self, kind: str, karat_refuses: Refuses, karat_command: Call
    ) -> None:
        settle()
        asked = sheet(kind, ("Nr", "Text der Frage"))
        hint = karat_refuses(*POOL, asked, *LOWER).hint
        of_run = [f"{name}={value}" for name, value in MAP.items() if not name.startswith("gold.")]
        assert hint is not None
        pasted = shlex.split(hint.rpartition("--map ")[2])[0]
        self.pool(karat_command, asked, "--map", ",".join([*of_run, pasted]))

    @pytest.mark.parametrize("other", ["expected_doc", "relevant", "Answer"])
    def test_a_field_that_may_be_gold_is_not_overlooked(self, kind: str, other: str, karat_refuses: Refuses) -> None:
        asked = sheet(kind, ("query_id", "query"))
        Path(asked).write_text(Path(asked).read_text().replace("Bereich", other))
        assert karat_refuses(*POOL, asked, *LOWER).code != "doubtful-order"


@pytest.mark.parametrize(
    "first", [{"query_id": "a", "query": "who?", "variant_of": "b"}, {"query_id": "a", "query": "who?", "topic": "tax"}]
)
def test_gold_below_a_line_without_gold_is_not_overlooked(first: dict[str, Any], tmp_path: Path) -> None:
    gold = tmp_path / "gold.jsonl"
    gold.write_text(json.dumps(first) + "\n" + json.dumps({"query_id": "b", "query": "what?", "gold": ["d"]}) + "\n")
    assert not is_bare(gold)


DRAW = ("labels", "pool", "--traces", "prod.jsonl", "--questions", "drawn.jsonl", "--depth", "1", "-o", "pool.jsonl")


@pytest.mark.usefixtures("folder")
class TestQuestionsOfALog:
    def test_they_are_drawn_with_what_was_retrieved(self, karat_command: Call) -> None:
        assert karat_command(*DRAW, *LOWER, "--by", "request.tenant", "--redact", "NR=Fall 11")[0] == 0
        assert best("pool.jsonl") == FIRST
        found = {one["query_id"]: one for one in map(json.loads, Path("drawn.jsonl").read_text().splitlines())}
        assert found[ticket(3)]["tags"] == {"day": "2026-10-04", "request.tenant": "k3", "asked": 1}
        assert [found[ticket(i)]["query"][-6:] for i in (9, 10, 11)] == ["all 9?", "ll 10?", " [NR]?"]
        code, _, _ = karat_command("labels", "pool", "prod.jsonl", "--gold", "drawn.jsonl", *LOWER, "-o", "more.jsonl")
        assert code == 0

    def test_a_log_of_distances_needs_a_word_here_too(self, karat_refuses: Refuses) -> None:
        assert (karat_refuses(*DRAW).code, Path("drawn.jsonl").exists()) == ("doubtful-order", False)

    def test_a_log_of_karat(self, karat_command: Call) -> None:
        assert karat_command("convert", "prod.jsonl", "run.jsonl", "--lossy", *LOWER)[0] == 0
        assert karat_command(*(word.replace("prod.", "run.") for word in DRAW))[0] == 0
        assert best("pool.jsonl") == FIRST

    def test_without_a_map_or_without_texts(self, karat_refuses: Refuses) -> None:
        Path("karat.yaml").unlink()
        refused = karat_refuses(*DRAW)
        assert (refused.code, "--map" in (refused.hint or "")) == ("not-a-span", True)
        lines("prod.jsonl", ({"query_id": ticket(i), "topk": ["a", {"id": "b"}]} for i in range(3)))
        assert (karat_refuses(*DRAW).code, karat_refuses(*DRAW).field) == ("missing-text", "query")
        lines("prod.jsonl", ({"query": "who?", "topk": [{"nr": 7}]} for i in range(3)))
        assert (karat_refuses(*DRAW).code, karat_refuses(*DRAW).line) == ("missing-field", 1)


@pytest.mark.usefixtures("folder")
class TestMapToPaste:
    def test_hits_with_a_distance_are_a_run(self, karat_refuses: Refuses, karat_command: Call) -> None:
        right = mrr(karat_command, *LOWER)
        of_gold = [f"{name}={value}" for name, value in MAP.items() if name.startswith("gold.")]
        Path("karat.yaml").unlink()
        hint = karat_refuses("eval", "prod.jsonl", "--gold", "gold.csv").hint or ""
        pasted = shlex.split(hint.partition("--map ")[2])[0]
        parts = dict(pair.split("=") for pair in pasted.split(","))
        assert parts == {**OF_RUN, "latency_ms": "retrieval.took"}
        assert (
            mrr(karat_command, *LOWER, "--map", ",".join([*(f"run.{p}" for p in pasted.split(",")), *of_gold])) == right
        )
        found = json.loads(karat_command("check", "prod.jsonl", "--json")[1])[0]["error"]
        assert (pasted in found, "gold=" in found) == (True, False)

    def test_nothing_to_guess(self, karat_refuses: Refuses) -> None:
        Path("karat.yaml").unlink()
        lines("prod.jsonl", [{"wert": 1.5, "liste": [[0.5]]}])
        hint = karat_refuses("eval", "prod.jsonl", "--gold", "gold.csv").hint or ""
        assert ("--map" in hint, "karat check prod.jsonl" in hint) == (True, True)


OF_RUN = {
    "query_id": "request.ticket",
    "topk": "retrieval.passages",
    "chunk_id": "ref",
    "score": "cosine_distance",
}


def again(*lines_of: int) -> None:
    """Some lines of the log once more, as after a retry."""
    written = Path("prod.jsonl").read_text().splitlines()
    Path("prod.jsonl").write_text("\n".join([*written, "", *(written[at] for at in lines_of)]))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("pure", ["0", "1"])
class TestRetries:
    def test_equal_lines_count_once(self, pure: str, karat_command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        choose_reader(monkeypatch, pure)
        settle(scores="lower-is-better", normalize_ids=True)
        assert karat_command("convert", "prod.jsonl", "own.jsonl", "--lossy")[0] == 0
        right = mrr(karat_command)
        again(3, 3, 7)
        own = Path("own.jsonl").read_text().splitlines(keepends=True)
        Path("own.jsonl").write_text("".join([*own, own[3], own[7], own[3]]))
        for name in ("prod.jsonl", "own.jsonl"):
            Path(f"{name}.gz").write_bytes(gzip.compress(Path(name).read_bytes()))
            for run in (name, f"{name}.gz"):
                found = json.loads(karat_command("eval", run, "--gold", "gold.csv", "-m", "mrr", "--json")[1])
                assert found["summary"][0]["mean"] == right
                assert [e["count"] for e in found["audit"] if e["code"] == "repeated_lines"] == [3]
        assert "repeated_lines" in {entry["code"] for entry in checked(karat_command, "prod.jsonl")["audit"]}

    def test_every_command_reads_them(self, pure: str, karat_command: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        choose_reader(monkeypatch, pure)
        settle(scores="lower-is-better")
        again(3)
        lines("wrong.jsonl", ({"query_id": ticket(i), "negatives": ["no"]} for i in range(QUERIES)))
        gold = ("--gold", "gold.csv")
        for asked in (
            ("compare", "prod.jsonl", "prod.jsonl"),
            ("eval", "prod.jsonl", "--gold", "run:prod.jsonl"),
            ("stress", "prod.jsonl", *gold, "--negatives", "wrong.jsonl"),
            ("eval", "prod.jsonl", *gold, "--bm25", "prod.jsonl", "--engine", "processes"),
            ("eval", "prod.jsonl", *gold, "-o", "page.html"),
            (*POOL, "gold.csv", "--depth", "3"),
            DRAW,
        ):
            assert karat_command(*asked)[0] == 0, asked

    def test_different_lines_are_refused(
        self, pure: str, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        choose_reader(monkeypatch, pure)
        again(3, 5)
        Path("prod.jsonl").write_text(Path("prod.jsonl").read_text().replace("80.5", "90.5", 4))
        refused = karat_refuses("eval", "prod.jsonl", "--gold", "gold.csv")
        assert (refused.code, refused.line, refused.query) == ("duplicate-query", QUERIES + 2, ticket(3))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", ['{"query_id": "q", "gold": {"a": "hoch"}}', "query_id,chunk_id,grade\nq,a,hoch\n"])
def test_grades_in_words_get_a_hint(text: str, karat_refuses: Refuses) -> None:
    Path("karat.yaml").unlink()
    lines("run.jsonl", [{"query_id": "q", "topk": ["a"]}])
    Path("words").write_text(text)
    assert "hoch" in (karat_refuses("eval", "run.jsonl", "--gold", "words").hint or "")
    Path("words").write_text(text.replace("hoch", "nan"))
    assert karat_refuses("eval", "run.jsonl", "--gold", "words").code in ("bad-value", "wrong-type")


@pytest.mark.usefixtures("folder")
def test_a_format_is_not_recommended_instead_of_itself(karat_refuses: Refuses) -> None:
    for name, better in (("run.jsonl", False), ("run.trec", True)):
        refused = karat_refuses("convert", "prod.jsonl", name)
        assert (refused.code, "--to run-log" in (refused.hint or "")) == ("lossy", better)


def checked(call: Call, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call("check", run, "--gold", "gold.csv", "--json")[1])[0]
    return found


@pytest.mark.usefixtures("folder")
class TestSettings:
    def test_every_command_reads_them(self, karat_command: Call) -> None:
        before = mrr(karat_command, *LOWER)
        assert before > mrr(karat_command)
        settle(scores="lower-is-better")
        assert mrr(karat_command) == before
        assert mrr(karat_command, "--scores", "higher-is-better") < before
        assert karat_command(*POOL, bare_queries())[0] == 0
        assert best("pool.jsonl") == FIRST
        assert karat_command("convert", "prod.jsonl", "run.jsonl", "--lossy")[0] == 0
        assert json.loads(Path("run.jsonl").read_text().splitlines()[0])["score_order"] == "lower-is-better"
        assert "distance_scores" not in {entry["code"] for entry in checked(karat_command, "prod.jsonl")["audit"]}
        gate = ("gate", "prod.jsonl", "--gold", "gold.csv", "--gate", "mrr >= 0.5")
        assert (karat_command(*gate)[0], karat_command(*gate, "--scores", "higher-is-better")[0]) == (0, 1)

    def test_ids_are_normalized_by_default_or_not(self, karat_command: Call) -> None:
        settle(scores="lower-is-better")
        right = mrr(karat_command)
        Path("gold.csv").write_text(Path("gold.csv").read_text().replace("BGB", "bgb"))
        assert mrr(karat_command) == 0
        assert "near_ids" in {entry["code"] for entry in checked(karat_command, "prod.jsonl")["audit"]}
        settle(scores="lower-is-better", normalize_ids=True)
        assert mrr(karat_command) == right
        assert mrr(karat_command, "--no-normalize-ids") == 0
        assert "near_ids" not in {entry["code"] for entry in checked(karat_command, "prod.jsonl")["audit"]}

    def test_a_typo_is_refused(self, karat_refuses: Refuses) -> None:
        settle(scores="lower")
        refused = karat_refuses("eval", "prod.jsonl", "--gold", "gold.csv")
        assert (refused.code, refused.field) == ("bad-value", "scores")


MAPPED = ("--map", ",".join(f"{name}={value}" for name, value in MAP.items()))
INIT = ("init", "--gold", "gold.csv", "--run", "prod.jsonl")


def floor() -> float:
    found: float = yaml.safe_load(Path("ship-criteria.yaml").read_text())["gates"][0]["threshold"]
    return found


@pytest.mark.usefixtures("folder")
class TestInit:
    def test_it_measures_with_them_and_writes_them(self, karat_command: Call) -> None:
        Path("karat.yaml").unlink()
        assert karat_command(*INIT, *MAPPED, *LOWER, "--normalize-ids")[0] == 0
        found = load_config()
        assert (found.scores, found.normalize_ids) == ("lower-is-better", True)
        assert karat_command("gate", "prod.jsonl", "--gold", "gold.csv")[0] == 0
        assert floor() != 0.8  # of a run, not a guess

    def test_settings_that_are_there_are_kept_and_the_rest_is_told(self, karat_command: Call) -> None:
        before = Path("karat.yaml").read_text()
        code, out, told = karat_command(*INIT, *LOWER)
        assert (code, "kept karat.yaml" in out, Path("karat.yaml").read_text() == before) == (0, True, True)
        assert "karat.yaml: scores: lower-is-better" in told
        settle(scores="lower-is-better")
        assert "karat.yaml: " not in karat_command(*INIT, *LOWER)[2]
