"""Labelling over HTTP: what is stored, what is seen when, who may write, and what a crash leaves."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from logins import access_of
from refusals import refused

from karat.errors import ConfigError, InputError, KaratError
from karat.history.store import Store
from karat.labels.desk import Desk, open_desk
from karat.labels.files import LabelLog, read_labels

Command = Callable[..., tuple[int, str, str]]
NEXT, LABELS = "/pools/pool/next", "/pools/pool/labels"


def next_of(site: Any, annotator: str, **asked: Any) -> dict[str, Any]:
    answer = site.get(NEXT, annotator=annotator, **asked)
    assert answer.status == 200, answer.content
    return dict(answer.json)


def give(site: Any, annotator: str, grade: float | None, pair: dict[str, Any] | None = None, **more: Any) -> Any:
    pair = pair or next_of(site, annotator)["pair"]
    body = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "grade": grade, "annotator": annotator}
    return site.write("POST", LABELS, {**body, **more})


def send(site: Any, path: str, headers: dict[str, str] | None = None, **form: str) -> Any:
    """As a browser without scripts sends a form."""
    kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": site.url}
    return site.ask("POST", path, urlencode(form).encode(), {**kind, **(headers or {})})


def test_labels_of_people_are_shown_to_nobody_as_a_judges(tmp_path: Path) -> None:
    pool, ann = tmp_path / "pool.jsonl", tmp_path / "ann.jsonl"
    pool.write_text('{"query_id": "q", "chunk_id": "c", "query": "x", "text": "y"}\n')
    ann.write_text('{"query_id": "q", "chunk_id": "c", "grade": 1, "annotator": "ann"}\n')
    with (
        refused("wrong-annotator", InputError, file=ann, line=1),
        open_desk([str(pool)], str(tmp_path / "labels.jsonl"), [str(ann)]),
    ):
        pass


def test_the_judge_is_heard_only_after_the_person(labelling: Any) -> None:
    first = next_of(labelling, "ann")
    assert first["progress"] == {"annotator": "ann", "graded": 0, "skipped": 0, "left": 10}
    assert first["last"] is None
    text = labelling.get(NEXT, annotator="ann").content
    assert b"m-1" not in text
    assert b"bm25" not in text  # nor where it comes from
    given = give(labelling, "ann", 2, first["pair"], note="see there")
    assert given.status == 200
    assert given.json["label"]["note"] == "see there"
    assert [one["judge"] for one in given.json["judges"]] == ["m-1"]
    assert next_of(labelling, "ann")["last"] == given.json
    assert labelling.write("DELETE", f"{LABELS}/last?annotator=ann").status == 200
    again = next_of(labelling, "ann")
    assert (again["pair"], again["last"]) == (first["pair"], None)
    assert labelling.write("DELETE", f"{LABELS}/last?annotator=ann").json["error"]


def test_everybody_has_an_order_of_their_own_that_stays(labelling: Any, desk: Desk) -> None:
    (pool,) = desk.pools.values()
    orders = {name: [tuple(pair) for pair in pool.order(name)] for name in "abcdefgh"}
    assert len({tuple(order) for order in orders.values()}) > 4
    for order in orders.values():
        assert sorted(order) == sorted(map(tuple, pool.entries))
        queries = [query for query, *_ in order]
        assert queries in ([*["refund"] * 5, *["card"] * 5], [*["card"] * 5, *["refund"] * 5])  # each is read once
    seen = []
    for _ in range(10):
        seen.append(next_of(labelling, "a")["pair"]["chunk_id"])
        give(labelling, "a", 1)
    assert seen == [item for _, item, _ in orders["a"]]
    assert next_of(labelling, "a")["pair"] is None


def test_undo_is_one_s_own_whatever_others_do(labelling: Any, tmp_path: Path) -> None:
    mine = give(labelling, "ann", 2).json["label"]["chunk_id"]
    give(labelling, "ann", 1)
    theirs = [give(labelling, "ben", 0).json["label"]["chunk_id"] for _ in range(2)]
    assert labelling.write("DELETE", f"{LABELS}/last?annotator=ann").json["grade"] == 1
    left = [(label.annotator, label.chunk_id) for label in read_labels(tmp_path / "labels.jsonl")]
    assert left == [("ann", mine), ("ben", theirs[0]), ("ben", theirs[1])]


def test_skipped_pairs_come_again_the_longest_waiting_first(labelling: Any) -> None:
    skipped = [give(labelling, "ann", None).json["label"]["chunk_id"] for _ in range(3)]
    assert next_of(labelling, "ann")["progress"] == {"annotator": "ann", "graded": 0, "skipped": 3, "left": 7}
    for wanted in (*skipped, *skipped):
        pair = next_of(labelling, "ann", skipped=1)["pair"]
        assert pair["chunk_id"] == wanted
        give(labelling, "ann", None, pair)
    give(labelling, "ann", 0, next_of(labelling, "ann", skipped=1)["pair"])
    assert next_of(labelling, "ann")["progress"] == {"annotator": "ann", "graded": 1, "skipped": 2, "left": 7}


def test_a_key_pressed_twice_is_one_label_and_another_grade_is_refused(labelling: Any, tmp_path: Path) -> None:
    pair = next_of(labelling, "ann")["pair"]
    first = give(labelling, "ann", 2, pair).json
    assert give(labelling, "ann", 2, pair).json == first
    for grade in (1, None):
        answer = give(labelling, "ann", grade, pair)
        assert (answer.status, bool(answer.json["hint"])) == (400, True)
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"grade": 3},
        {"grade": -1},
        {"grade": "2"},
        {"grade": 1e400},
        {"chunk_id": "elsewhere"},
        {"chunk_id": None},
        {"query_id": "other"},
        {"annotator": ""},
        {"annotator": " \u2028 "},
        {"annotator": "a\x1b[2J"},
        {"annotator": "a" * 65},
        {"note": "x" * 2001},
        {"kind": "judge"},
        {"model": "m"},
    ],
)
def test_what_is_no_label_is_refused(labelling: Any, tmp_path: Path, change: dict[str, Any]) -> None:
    body = {"query_id": "refund", "chunk_id": "refund#0", "grade": 1, "annotator": "ann"}
    answer = labelling.write("POST", LABELS, {**body, **change})
    assert answer.status == 400, answer.content
    assert answer.json["error"]
    assert (tmp_path / "labels.jsonl").read_text() == ""


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"query_id": "\\ud800"}', b"[" * 60_000])
def test_broken_bodies(labelling: Any, body: bytes) -> None:
    headers = {"X-Karat": "1", "Content-Type": "application/json"}
    assert labelling.ask("POST", f"/api/v1{LABELS}", body, headers).status == 400
    assert labelling.ask("POST", f"/api/v1{LABELS}", b"x" * 70_000, headers).status == 413
    assert send(labelling, "/labels/pool", pair="x" * 70_000).status == 413


def test_pools_and_their_pages_that_are_not_there(labelling: Any, site: Any) -> None:
    for path in ("next?annotator=a", "labels", "settled", "agreement", "calibration"):
        assert labelling.get(f"/pools/nothing/{path}").status == 404
    for path in ("nothing", "nothing/agreement", "nothing/name", "..%2fx"):
        answer = labelling.ask("GET", f"/labels/{path}")
        assert (answer.status, b"<h1>" in answer.content) == (404, True)
    assert site.get("/pools").json == []
    assert b"karat serve --pool pool.jsonl" in site.ask("GET", "/labels").content


def test_the_exports_are_those_of_the_commands(labelling: Any, tmp_path: Path, karat_command: Command) -> None:
    for annotator, grades in (("ann", (2, 1, None, 0)), ("ben", (0,) * 10)):
        for grade in grades:
            give(labelling, annotator, grade)
    file = tmp_path / "labels.jsonl"
    assert labelling.get(LABELS).content == file.read_bytes()
    for options in ((), ("--adjudicator", "ann")):
        out = tmp_path / f"settled{len(options)}.jsonl"
        assert karat_command("labels", "agree", str(file), "-o", str(out), *options)[0] == 0
        asked = {"adjudicator": options[1]} if options else {}
        assert labelling.get("/pools/pool/settled", **asked).content == out.read_bytes()
    assert labelling.get("/pools/pool/settled", adjudicator="nobody").status == 400
    assert labelling.get("/pools/pool/labels").headers["content-type"] == "application/x-ndjson"


def test_agreement_and_calibration(labelling: Any) -> None:
    assert labelling.get("/pools/pool/calibration").status == 400
    assert labelling.ask("GET", "/labels/pool/calibration").status == 200
    for annotator in ("ann", "ben"):
        for grade in (2, 1, 0, 0, 2, 0, 1, 0, 0, 1):
            give(labelling, annotator, grade)
    found = labelling.get("/pools/pool/agreement").json
    assert [(one["name"], one["labels"]) for one in found["annotators"]] == [("ann", 10), ("ben", 10)]
    assert labelling.get("/pools/pool/calibration").json["judge_labels"] == 10
    states = labelling.get("/pools").json
    assert [(s["name"], s["pairs"], s["queries"], s["judged"]) for s in states] == [("pool", 10, 2, 10)]
    assert [one["left"] for one in states[0]["annotators"]] == [0, 0]


def test_pages_do_not_tell_what_others_said_before_one_s_own_grade(labelling: Any) -> None:
    """Who is in the midst of a pool sees conflicts and judges on what is done; who does not label sees all."""
    for _ in range(10):
        give(labelling, "ben", 2)
        give(labelling, "eve", 0)
    give(labelling, "ann", 1)
    ann = {"Cookie": "karat_annotator=ann"}
    conflicts = labelling.ask("GET", "/labels/pool/agreement", headers=ann).content.decode()
    assert conflicts.count("eve 0") == 1
    assert re.search(r"\b10\b.*\b10\b.*\b9\b", conflicts)  # pairs with two grades or more, and those not shown
    assert labelling.ask("GET", "/labels/pool/agreement").content.decode().count("eve 0") == 10
    for _ in range(10):
        labelling.write("DELETE", f"{LABELS}/last?annotator=eve")  # else nobody could settle
    for headers, shown in ((ann, 0), ({}, 9)):  # ann's own one is in conflict with ben's
        page = labelling.ask("GET", "/labels/pool/calibration", headers=headers).content.decode()
        assert re.search(r"\b9\b", page)  # with grades of both
        assert page.partition('id="beside"')[2].count('<th scope="row"') == shown
        wanted = page.partition('id="next"')[2].partition("</section>")[0]
        assert "<table" not in wanted  # pairs to label next, with the judge's grades


def test_forms_without_a_script(labelling: Any, tmp_path: Path) -> None:
    answer = labelling.ask("GET", "/labels/pool")
    assert (answer.status, answer.headers["location"]) == (303, "/labels/pool/name")
    assert send(labelling, "/labels/pool/name", name="\x07").status == 400
    answer = send(labelling, "/labels/pool/name", name=" Zoë;  Müller ")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= set(cookie.split("; "))
    ann = {"Cookie": cookie.partition(";")[0]}
    page = labelling.ask("GET", "/labels/pool", headers=ann).content.decode()
    mark = page.partition('name="pair" value="')[2].partition('"')[0]
    answer = send(labelling, "/labels/pool", ann, pair=mark, grade="2", note=" why ")
    assert (answer.status, answer.headers["location"]) == (303, "/labels/pool")
    (label,) = read_labels(tmp_path / "labels.jsonl")
    assert (label.annotator, label.grade, label.note) == ("Zoë; Müller", 2.0, "why")
    for wrong in ({"grade": "x"}, {"grade": "7"}, {"grade": "²"}, {"grade": ""}, {"pair": "x", "grade": "1"}):
        assert send(labelling, "/labels/pool", ann, **{"pair": mark, **wrong}).status == 400
    many = "&".join(f"f{i}=1" for i in range(99))
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": labelling.url, **ann}
    assert labelling.ask("POST", "/labels/pool", many.encode(), form).status == 400
    answer = send(labelling, "/labels/pool/undo", ann, skipped="1")
    assert (answer.status, answer.headers["location"]) == (303, "/labels/pool?skipped=1")
    assert (tmp_path / "labels.jsonl").read_text() == ""


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
)
def test_forms_of_other_sites_write_nothing(
    labelling: Any, desk: Desk, headers: dict[str, str], tmp_path: Path
) -> None:
    (pool,) = desk.pools.values()
    mark = next(iter(pool.by_mark))
    ann = {"Cookie": "karat_annotator=ann"}
    assert send(labelling, "/labels/pool", {**ann, **headers}, pair=mark, grade="1").status == 403
    unsaid = {"Content-Type": "application/x-www-form-urlencoded", **ann}  # not even where it comes from
    assert labelling.ask("POST", "/labels/pool", f"pair={mark}&grade=1".encode(), unsaid).status == 403
    assert labelling.ask("POST", f"/api/v1{LABELS}", b"{}", {"Origin": labelling.url}).status == 403
    assert (tmp_path / "labels.jsonl").read_text() == ""


def test_who_is_logged_in_labels_under_that_name(store: Store, desk: Desk, serving: Any, tmp_path: Path) -> None:
    with serving(store, access_of("ada", "bob", token="t" * 20), desk) as site:
        assert site.get("/pools").status == 401
        assert site.ask("GET", "/labels/pool").headers["location"] == "/login?next=%2Flabels%2Fpool"
        answer = send(site, "/login", name="ada", password="correct horse")
        ada = {"Cookie": answer.headers["set-cookie"].partition(";")[0] + "; karat_annotator=bob"}
        page = site.ask("GET", "/labels/pool", headers=ada).content.decode()
        assert "ada</span>: 0 " in page
        mark = page.partition('name="pair" value="')[2].partition('"')[0]
        assert send(site, "/labels/pool", ada, pair=mark, grade="1", annotator="bob").status == 303
        assert send(site, "/labels/pool/name", ada, name="bob").status == 303
        body = {"query_id": "card", "chunk_id": "card#4", "grade": 0, "annotator": "bob"}
        assert site.write("POST", LABELS, body, **ada).status == 400
        assert site.write("POST", LABELS, {**body, "annotator": None}, **ada).status == 200
        token = {"Authorization": "Bearer " + "t" * 20}
        assert site.write("POST", LABELS, {**body, "annotator": "script"}, **token).status == 200
        assert site.write("POST", LABELS, {**body, "annotator": None}, **token).status == 400
    assert [label.annotator for label in read_labels(tmp_path / "labels.jsonl")] == ["ada", "ada", "script"]


def test_many_at_once_lose_nothing(labelling: Any, tmp_path: Path) -> None:
    """Each labels all pairs, taking every third label back and giving it again."""

    def work(annotator: str) -> None:
        for i in range(10):
            assert give(labelling, annotator, i % 3).status == 200
            if i % 3 == 0:
                assert labelling.write("DELETE", f"{LABELS}/last?annotator={annotator}").status == 200
                assert give(labelling, annotator, 2).status == 200

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ann", "ben", "eve", "ute")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read_labels(tmp_path / "labels.jsonl")
    counts = {name: [label.grade for label in found if label.annotator == name] for name in found.annotators}
    assert counts == {name: [2, 1, 2, 2, 1, 2, 2, 1, 2, 2] for name in ("ann", "ben", "eve", "ute")}


def test_a_file_that_is_gone_is_said_at_once(labelling: Any, tmp_path: Path) -> None:
    """Else labels would go to where nobody finds them."""
    give(labelling, "ann", 2)
    (tmp_path / "labels.jsonl").rename(tmp_path / "moved.jsonl")
    for answer in (give(labelling, "ann", 1), labelling.write("DELETE", f"{LABELS}/last?annotator=ann")):
        assert (answer.status, "labels.jsonl" in answer.json["error"]) == (400, True)
    (tmp_path / "moved.jsonl").rename(tmp_path / "labels.jsonl")
    assert next_of(labelling, "ann")["progress"]["graded"] == 1
    assert give(labelling, "ann", 1).status == 200
    assert [label.grade for label in read_labels(tmp_path / "labels.jsonl")] == [2, 1]


class Server:
    """`karat serve` as a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "karat.cli.main", "serve", "--port", "0", "--store", str(folder / ".karat")]
        files = ["--pool", str(folder / "pool.jsonl"), "-o", str(folder / "labels.jsonl")]
        environment = {name: value for name, value in os.environ.items() if name != "KARAT_TOKEN"}
        self.process = subprocess.Popen(
            [*command, *files, *options], stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])

    def ask(self, method: str, path: str, value: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = None if value is None else json.dumps(value)
        connection.request(method, f"/api/v1{path}", body, {"X-Karat": "1"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        assert answer.status == 200, found
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_a_killed_server_has_lost_no_label_and_the_terminal_can_go_on(tmp_path: Path) -> None:
    """Killed while four people label: what was said to be stored is there, and the rest goes on."""
    pairs = [{"query_id": f"q{i}", "chunk_id": "c", "query": "?", "text": "t"} for i in range(200)]
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    server = Server(tmp_path)
    stored: list[tuple[str, str]] = []

    def work(annotator: str) -> None:
        try:
            for i in range(200):
                body = {"query_id": f"q{i}", "chunk_id": "c", "grade": i % 3, "annotator": annotator}
                server.ask("POST", LABELS, body)
                stored.append((annotator, f"q{i}"))
                if len(stored) >= 40:  # two may be stored at once
                    server.process.send_signal(signal.SIGKILL)
        except (OSError, http.client.HTTPException):
            return  # it is gone

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ann", "ben", "eve", "ute")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.process.communicate()
    assert len(stored) >= 40
    again = Server(tmp_path)
    try:
        (state,) = again.ask("GET", "/pools")
        there = {one["annotator"]: one["graded"] for one in state["annotators"]}
        for name in ("ann", "ben", "eve", "ute"):
            sure = sum(annotator == name for annotator, _ in stored)
            assert there.get(name, 0) in (sure, sure + 1)  # one may be stored whose answer nobody got
        with refused("file-in-use", ConfigError):
            LabelLog(tmp_path / "labels.jsonl")  # as `karat labels label` does
    finally:
        again.kill()
    found = {(label.annotator, str(label.query_id)) for label in read_labels(tmp_path / "labels.jsonl")}
    assert set(stored) <= found
    with LabelLog(tmp_path / "labels.jsonl") as log:
        assert len(log.given("ann")) == there["ann"]


@pytest.mark.parametrize(
    ("options", "code", "file"),
    [
        (("--pool", "pool.jsonl"), "missing-option", None),
        (("-o", "labels.jsonl"), "missing-option", None),
        (("--labels", "judge.jsonl"), "wrong-annotator", "judge.jsonl"),
        (("--pool", "pool.jsonl", "-o", "pool.jsonl"), "would-overwrite", "pool.jsonl"),
        (("--pool", "judge.jsonl", "-o", "judge.jsonl"), "would-overwrite", "judge.jsonl"),
        (("--pool", "none.jsonl", "-o", "labels.jsonl"), "no-such-file", "none.jsonl"),
        (("--pool", "pool.jsonl", "-o", "notes.txt"), "wrong-type", "notes.txt"),
        (("--pool", "pool.jsonl", "-o", "no/labels.jsonl"), "not-writable", "no/labels.jsonl"),
        (("--pool", "pool.jsonl", "-o", "labels.jsonl", "--labels", "notes.txt"), "wrong-type", "notes.txt"),
        (("--pool", "pool.jsonl", "-o", "judge.jsonl", "--max-grade", "1"), "bad-value", "judge.jsonl"),
    ],
)
def test_files_that_cannot_be_served(
    tmp_path: Path,
    karat_refuses: Callable[..., KaratError],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    code: str,
    file: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = '{"query_id": "q", "chunk_id": "c"'
    Path("pool.jsonl").write_text(pair + "}\n")
    Path("judge.jsonl").write_text(pair + ', "grade": 2, "annotator": "m"}\n')
    Path("notes.txt").write_text("notes of mine\n")
    error = karat_refuses("serve", "--port", "0", *options)
    assert (error.code, error.file) == (code, file)
    assert not Path("labels.jsonl").exists()
    assert Path("notes.txt").read_text() == "notes of mine\n"


def test_pools_that_share_a_pair_share_its_label(tmp_path: Path) -> None:
    """Two grades of one person for one pair would make the file unreadable."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text('{"query_id": "q", "chunk_id": "c"}\n')
    files = [str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")]
    with open_desk(files, str(tmp_path / "labels.jsonl")) as desk:
        one, two = desk.pools.values()
        (pair,) = one.entries
        assert desk.turn(two, "ann").pair is not None
        desk.give(one, "ann", pair, 2)
        assert desk.turn(two, "ann").pair is None
        assert desk.turn(two, "ann").progress.graded == 1
