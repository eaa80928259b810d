"""What is said while a pool is made, labelled, settled and held against a judge."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import karat
from golden import check
from karat.labels.files import Label, LabelLog, by_key, read_pool
from karat.labels.production import draw_questions
from karat.labels.screen import label_by_keys
from karat.labels.session import Session
from karat.statistics.sampling import Sampling
from wording import Transcript, file, refusals

Case = Callable[[], object]
LABEL = {"query_id": "q1", "chunk_id": "a", "grade": 1, "annotator": "ann"}
PAIR = {"query_id": "q1", "chunk_id": "a"}


def lines(name: str, *records: Any) -> str:
    return file(name, "".join(json.dumps(record) + "\n" for record in records))


def labels(*changes: dict[str, Any]) -> Case:
    return lambda: karat.labels.read_labels(lines("labels.jsonl", *({**LABEL, **change} for change in changes)))


def merged(*changes: dict[str, Any]) -> Case:
    def call() -> None:
        found = karat.labels.read_labels(
            *(lines(f"{i}.jsonl", {**LABEL, **change}) for i, change in enumerate(changes))
        )
        karat.labels.with_labels(karat.read_gold({"q1": ["r"]}), found)

    return call


def pool(**options: Any) -> Case:
    found = {"q1": ["a", "b"]}
    return lambda: karat.labels.make_pool([found, found], options.pop("gold", {"q1": ["r"]}), **options)


def calibrate(judge: list[dict[str, Any]], human: list[dict[str, Any]], **options: Any) -> Case:
    def call() -> None:
        rows = ([{**LABEL, **change} for change in changes] for changes in (judge, human))
        files = (lines(name, *row) for name, row in zip(("judge.jsonl", "human.jsonl"), rows, strict=True))
        karat.labels.calibrate(*files, **options)

    return call


def moved_log() -> None:
    with LabelLog("labels.jsonl") as log:
        log.add(Label(query_id="q", chunk_id="a", grade=1, annotator="ann"))
        Path("labels.jsonl").rename("moved.jsonl")
        log.add(Label(query_id="q", chunk_id="b", grade=1, annotator="ann"))


def one_sided() -> None:
    """People called every pair relevant: a calibration that says nothing of what the judge rejects."""
    judge = lines("judge.jsonl", *({**LABEL, "chunk_id": f"c{i}", "grade": i % 2} for i in range(20)))
    human = lines("human.jsonl", *({**LABEL, "chunk_id": f"c{i}"} for i in range(20)))
    found = karat.labels.calibrate(judge, human, sampling=Sampling(resamples=200))
    karat.labels.read_labelling([judge], file("calibration.json", msgspec.json.encode(found)))


SAME = [{"chunk_id": f"c{i}"} for i in range(20)]

LABELS: dict[str, Case] = {
    "a grade over the scale": labels({"grade": 3}),
    "a negative grade": labels({"grade": -1}),
    "a grade that is a word": labels({"grade": "good"}),
    "neither grade nor reason": labels({"grade": None}),
    "grade and reason": labels({"reason": "timeout"}),
    "an unknown kind": labels({"kind": "robot"}),
    "an annotator without a name": labels({"annotator": ""}),
    "no item": labels({"chunk_id": None}),
    "a probability of 0": labels({"inclusion_probability": 0}),
    "two grades of one annotator": labels({}, {"grade": 2}),
    "two annotators who disagree": merged({}, {"annotator": "ben", "grade": 2}),
    "labels of other queries": merged({"query_id": "other"}),
    "a pair twice in a pool": lambda: read_pool(lines("pool.jsonl", PAIR, PAIR)),
    "a pool without items": lambda: read_pool(lines("pool.jsonl", {"query_id": "q"})),
    "a log that is something else": lambda: LabelLog(file("notes.txt", "some notes of mine")),
    "a log that is moved while it is written": moved_log,
    "a log that another process writes": lambda: (LabelLog("labels.jsonl"), LabelLog("labels.jsonl")),
}

DISTANCES = [{"query_id": "q1", "topk": [{"chunk_id": f"c{i}", "score": i} for i in range(9)]}]
QUESTION = {
    "run_type": "retriever",
    "inputs": "who",
    "outputs": {"documents": [{"id": "a"}]},
    "id": "s",
    "trace_id": "t",
}


def drawn(**options: Any) -> Case:
    return lambda: draw_questions(lines("traces.jsonl", QUESTION), **options)


def too_many_values() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("karat.labels.production._STRATA", 0)
        drawn(by="day")()


POOLS: dict[str, Case] = {
    "an attribute that no trace has": drawn(by="app"),
    "an attribute with too many values": too_many_values,
    "a pattern that is none": drawn(redact=["("]),
    "a pattern that is misspelt": drawn(redact=["emial"]),
    "a pattern that matches nothing": drawn(redact=["x*"]),
    "no new question": lambda: drawn(gold=karat.read_gold([{"query_id": "q", "query": "Who", "gold": ["a"]}]))(),
    "nothing tells the runs apart": pool(only_differences=True),
    "everything is judged": pool(gold={"q1": ["a", "b"]}),
    "budget and sample": pool(budget=1, sample=1),
    "a budget of nothing": pool(budget=0),
    "a metric that does not go by labels": pool(budget=1, metric="latency"),
    "settle and sample": pool(settle=True, sample=1),
    "a run of distances": lambda: karat.labels.make_pool([DISTANCES], {"q1": ["r"]}),
    "one run to settle": lambda: karat.labels.make_pool([{"q1": ["a"]}], {"q1": ["r"]}, settle=True),
}


def clicks(*changes: dict[str, Any], **options: Any) -> Case:
    log = {"query_id": "q1", "shown": ["a", "b"], "clicked": ["a"]}
    return lambda: karat.labels.labels_from_clicks(lines("log.jsonl", *({**log, **c} for c in changes)), **options)


CLICKS: dict[str, Case] = {
    "no click on what was shown": clicks({"clicked": ["z"]}),
    "no clicks at all": clicks({"clicked": []}),
    "nothing was shown": clicks({"shown": []}),
    "no list": clicks({"shown": None}),
    "no query": clicks({"query_id": None}),
    "a query without an id": clicks({"query_id": None, "query": "how?"}),
    "positions from 0": clicks({}, {"shown": [{"chunk_id": "a", "position": 0}]}),
    "two items at one position": clicks({"shown": [{"chunk_id": x, "position": 2} for x in "ab"]}),
    "a list that was clicked": clicks({"clicked": True}),
    "a click that is a word": clicks({"shown": None, "chunk_id": "a", "position": 1, "clicked": "maybe"}),
    "a confidence of 1": clicks({}, confidence=1),
    "a threshold of 0": clicks({}, threshold=0),
    "clicks and a judge": lambda: karat.labels.read_labelling(
        [
            lines("clicks.jsonl", {**LABEL, "kind": "clicks"}),
            lines("judge.jsonl", {**LABEL, "kind": "judge", "annotator": "model"}),
        ]
    ),
    "clicks as people's labels": lambda: karat.labels.read_labelling(
        people=[lines("clicks.jsonl", {**LABEL, "kind": "clicks"})]
    ),
}

CALIBRATIONS: dict[str, Case] = {
    "no pair in common": calibrate([{}], [{"query_id": "other", "chunk_id": "x"}]),
    "a judge that says the same of all": calibrate(SAME, SAME),
    "a judge for people": calibrate(SAME, [{"kind": "judge"}]),
    "no label has a grade": calibrate([{"grade": None, "reason": "timeout"}], [{}]),
    "labels of people that are all alike": one_sided,
    "runs without gold": calibrate(SAME, SAME, runs=[{"q1": ["a"]}]),
    "a width over 1": calibrate(SAME, SAME, width=2),
    "a calibration without a judge": lambda: karat.labels.read_labelling(calibration=lines("human.jsonl", LABEL)),
    "a calibration that is cut off": lambda: karat.labels.read_labelling(
        [lines("judge.jsonl", LABEL)], file("calibration.json", '{"schema": "karat/calibration/1", "karat": "0"')
    ),
}


def test_errors_of_labels(tmp_path: Path) -> None:
    groups = {"Labels": LABELS, "Pools": POOLS, "Calibrations": CALIBRATIONS, "Clicks": CLICKS}
    check("wording/errors_labels.txt", refusals(groups, tmp_path))


def test_commands(terminal: Transcript) -> None:
    gold = [{"query_id": f"q{i}", "query": f"question {i}", "gold": ["r"]} for i in range(40)]
    lines("gold.jsonl", *gold)
    for name, first in (("old", "a"), ("new", "b")):
        lines(f"{name}.jsonl", *({"query_id": g["query_id"], "system": name, "topk": [first, "r", "c"]} for g in gold))
    made = ("labels", "pool", "old.jsonl", "new.jsonl", "--gold", "gold.jsonl")
    terminal(*made, "-o", "pool.jsonl")
    terminal(*made, "--sample", "30", "-o", "sample.jsonl")
    terminal(*made, "--budget", "5", "-o", "best.jsonl")
    terminal(*made, "--settle", "--budget", "5", "-o", "queue.jsonl")
    terminal("labels", "label", "pool.jsonl", "-o", "eve.jsonl", "--annotator", "eve")
    pairs = [{"query_id": f"q{i}", "chunk_id": item} for i in range(40) for item in "abc"]
    for annotator, every in (("ann", 3), ("ben", 4)):
        given = ({**p, "grade": 2 * (i % every == 0), "annotator": annotator} for i, p in enumerate(pairs[:40]))
        lines(f"{annotator}.jsonl", *given)
    shown = [["a", "r"], ["r", "a"], ["a", "b"]]
    log = [
        {"query_id": f"q{i % 4}", "shown": shown[i % 3], "clicked": ["r"] if i % 2 else ["a"], "session": i // 2}
        for i in range(120)
    ]
    lines("log.jsonl", *log, {"query_id": "q1", "shown": []}, {"query_id": "other", "shown": ["a"]})
    lines("fixed.jsonl", *({"query_id": "q1", "shown": ["a", "r"], "clicked": ["ar"[i % 2]]} for i in range(12)))
    terminal("labels", "clicks", "log.jsonl", "--gold", "gold.jsonl", "-o", "clicks.jsonl")
    terminal("labels", "clicks", "fixed.jsonl", "-o", "fixed_labels.jsonl", "--threshold", "0.2")
    terminal("eval", "new.jsonl", "--gold", "gold.jsonl", "--labels", "clicks.jsonl", "-m", "precision@3", "--brief")
    terminal("labels", "merge", "clicks.jsonl", "--gold", "gold.jsonl", "-o", "g2.jsonl", "--version", "v2", "--clicks")
    judged = (
        {**p, "grade": 2 * (i % 3 == 0 or i % 11 == 0), "annotator": "m", "kind": "judge"} for i, p in enumerate(pairs)
    )
    lines("judge.jsonl", *judged)
    terminal("labels", "agree", "ann.jsonl", "ben.jsonl", "-o", "settled.jsonl")
    terminal("labels", "agree", "ann.jsonl", "ben.jsonl", "--adjudicator", "ana", "-o", "settled.jsonl")
    terminal("labels", "agree", "ann.jsonl", "ben.jsonl", "--conflicts", "conflicts.jsonl")
    merged = ("labels", "merge", "settled.jsonl", "judge.jsonl", "--gold", "gold.jsonl", "-o", "gold_v2.jsonl")
    terminal(*merged, "--version", "v2")
    terminal("labels", "merge", "ann.jsonl", "ben.jsonl", "--gold", "gold.jsonl", "-o", "gold_v3.jsonl")
    terminal("labels", "merge", "judge.jsonl", "--gold", "gold.jsonl", "-o", "gold_v3.jsonl")
    by_judge = ("gate", "old.jsonl", "--gold", "gold.jsonl", "--gate", "precision@3 >= 0.4 on bound by judge")
    terminal(*by_judge)
    terminal(*by_judge, "--labels", "judge.jsonl", "--calibration", "ann.jsonl", "--gate", "ndcg@3 >= 0.4 by judge")
    asked = ("labels", "calibrate", "--labels", "judge.jsonl", "--human", "ann.jsonl")
    terminal(*asked, "--gold", "gold.jsonl", "--run", "old.jsonl", "--next", "next.jsonl")
    terminal(*asked, "-o", "out.txt")
    labelled = ("--gold", "gold.jsonl", "--labels", "judge.jsonl", "--calibration", "ann.jsonl", "--bounds")
    terminal("eval", "old.jsonl", *labelled, "-m", "precision@3", "--resamples", "200")
    others = [{"query_id": f"q{i}", "chunk_id": "z", "grade": i % 2} for i in range(40)]
    lines("elsewhere.jsonl", *({**p, "annotator": "ann"} for p in others))
    of_others = ({**p, "annotator": "m", "kind": "judge"} for p in others)
    lines("more.jsonl", *of_others)
    few = (
        "--gold",
        "gold.jsonl",
        "--labels",
        "judge.jsonl",
        "--labels",
        "more.jsonl",
        "--calibration",
        "elsewhere.jsonl",
    )
    with_few = ("eval", "old.jsonl", *few, "-m", "precision@3", "--resamples", "200")
    terminal(*with_few)
    terminal(*with_few, "--borrow-error-rates")
    lines("opposite.jsonl", *({**p, "grade": 2 * (i % 3 != 0), "annotator": "zoe"} for i, p in enumerate(pairs)))
    terminal("labels", "agree", "ann.jsonl", "opposite.jsonl")
    terminal(
        "compare", "old.jsonl", "new.jsonl", "--gold", "gold.jsonl", "--bounds", "-m", "ndcg@3", "--resamples", "200"
    )
    lines("thumbs.jsonl", *({"query_id": f"q{i}", "thumb": i % 2 == 0} for i in range(40)))
    lines("half.jsonl", *({"query_id": f"q{i}", "topk": ["r"] if i // 2 % 2 else ["a"]} for i in range(40)))
    lines("odd.jsonl", {"query_id": "q1", "thumb": "maybe"})
    for signal in ("thumbs.jsonl", "odd.jsonl", "missing.jsonl"):
        terminal("eval", "half.jsonl", "--gold", "gold.jsonl", "-m", "recall@5", "--quality", signal)
    check("wording/labels.txt", terminal.text)


def test_notes_of_calibrations(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    def noted(name: str, judge: list[dict[str, Any]], *human: dict[str, Any]) -> str:
        files = [
            lines(f"{who}.jsonl", *({**LABEL, **row} for row in rows))
            for who, rows in (("judge", judge), ("human", human))
        ]
        return "\n".join([f"# {name}", *karat.labels.calibrate(*files, sampling=Sampling(resamples=200)).notes, ""])

    judged = [{"chunk_id": f"c{i}", "grade": i % 2, "annotator": "m"} for i in range(40)]
    people = [{"chunk_id": f"c{i}", "grade": i % 2} for i in range(40)]
    failed = {"chunk_id": "c99", "grade": None, "reason": "refusal", "annotator": "m"}
    said = [
        noted("none", judged, *people),
        noted("one side only", judged, *people[::2]),
        noted("some failed", [*judged, failed], *people),
        noted("people disagree", judged, *people, {"chunk_id": "c0", "grade": 1, "annotator": "ben"}),
        noted("more than the judge", judged, *people, {"chunk_id": "c98"}),
        noted("all alike", judged, *({**row, "grade": 1} for row in people)),
        noted(
            "inverted",
            [{**row, "query_id": f"q{i}"} for i, row in enumerate(judged)],
            *({**row, "query_id": f"q{i}", "grade": 1 - i % 2} for i, row in enumerate(people)),
        ),
        noted("noise", judged, *({**row, "grade": i // 2 % 2} for i, row in enumerate(people))),
    ]
    check("wording/calibration_notes.txt", "\n".join(said))


class Keys:
    """Keys as somebody presses them, and the line that is typed for a note."""

    def __init__(self, pressed: str) -> None:
        self._pressed = iter(pressed)

    def key(self) -> str:
        return next(self._pressed)

    def line(self) -> str:
        return "see page 2"


def test_screens(tmp_path: Path) -> None:
    """Each screen of a session, from the first pair to the last."""
    texts = ("Refunds take five days.", "Cards ship in two weeks.", "Refunds take 5 days.", "")
    entries: list[dict[str, Any]] = [
        {"query_id": "q1", "query": "how long do refunds take", "chunk_id": f"d{i}", "text": text}
        for i, text in enumerate(texts)
    ]
    entries[0]["title"], entries[2]["near_duplicate_of"] = "Refunds", "d0"
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    stream = io.StringIO()
    with LabelLog(tmp_path / "labels.jsonl") as log:
        session = Session(by_key(read_pool(tmp_path / "pool.jsonl")), log, "ann")
        console = Console(file=stream, width=80, highlight=False)
        label_by_keys(session, Keys("u9n20s1uuu0121q"), console, 2)  # type: ignore[arg-type]
    check("wording/label.txt", "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n")
