"""The desk: pools made in the browser, grades on the page of a query, and queries that are tried live."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from logins import CHEAP
from refusals import refused
from starlette.testclient import TestClient

import karat
from karat.history.folder import FolderStore
from karat.history.keep import keep_need, keep_result
from karat.history.location import desk_of
from karat.labels.agreement import find_agreement
from karat.labels.desk import Desk, open_desk
from karat.labels.files import read_labels, read_pool
from karat.results.evaluate import evaluate_all
from karat.systems.live import LiveRetrievers
from karat.web.access import ROLES, Access, made_user
from karat.web.app import create_app

OURS = {"Origin": "http://127.0.0.1", "X-Karat": "1"}
HOSTILE = "<script>window.hacked = 1</script>\"' {{ 7 * 7 }}"
GOLD = [{"query_id": f"q{q}", "query": f"What about {q}?", "gold": [f"d{q}#1"]} for q in range(4)]
GOLD.append({"query_id": HOSTILE, "query": HOSTILE, "gold": ["d9#1"]})


def run_log(shift: int) -> list[dict[str, Any]]:
    queries = [str(one["query_id"]) for one in GOLD]
    return [
        {
            "query_id": query,
            "system": f"shift{shift}",
            "topk": [
                {"chunk_id": f"d{(i * (q + 1) + shift) % 13}#1", "score": 9 - i, "text": f"Text {i} {HOSTILE}"}
                for i in range(5)
            ],
        }
        for q, query in enumerate(queries)
    ]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FolderStore]:
    with FolderStore(tmp_path_factory.mktemp("desk") / ".karat") as store:
        for shift in (0, 3):
            [result] = evaluate_all(run_log(shift), GOLD, consumers=[keep_need]).values()
            store.save(keep_result(result), tags=[f"shift{shift}"])
        yield store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "desk"


@pytest.fixture
def desk(folder: Path) -> Iterator[Desk]:
    with open_desk([], None, folder=folder) as opened:
        yield opened


def asking(app: Any, name: str = "", role: str = "") -> TestClient:
    client = TestClient(app, base_url="http://127.0.0.1", headers=OURS, follow_redirects=False)
    if role:
        assert client.post("/login", data={"name": role, "password": "correct horse"}).status_code == 303
    if name:
        client.cookies.set("karat_annotator", name)
    return client


@pytest.fixture
def app(history: FolderStore, desk: Desk) -> Any:
    return create_app(history, Access(), desk)


SELECTION = {"choice": "unjudged", "runs": ["shift0"], "k": 3, "limit": 4}


def make(client: TestClient, name: str = "first", **more: Any) -> Any:
    return client.post("/api/v1/desk/pools", json={"selection": SELECTION, "name": name, **more})


def query_page(client: TestClient, query: str = "q1", run: str = "shift0") -> str:
    answer = client.get("/query", params={"query_id": query, "run": run})
    assert answer.status_code == 200
    return answer.text


def marks(page: str) -> list[str]:
    return re.findall(r'data-hit="(\w+)"', page)


def grade(client: TestClient, pair: str, value: str, query: str = "q1", **more: str) -> Any:
    form = {"run": "shift0", "query_id": query, "pair": pair, "grade": value, "next": "/query?query_id=q1", **more}
    return client.post("/desk/grade", data=form)


def test_nothing_is_written_until_it_is_needed(app: Any, folder: Path) -> None:
    client = asking(app, "ann")
    for address in ("/labels", "/desk/new", "/query?query_id=q1&run=shift0", "/api/v1/pools"):
        assert client.get(address).status_code == 200
    preview = make(client, preview=True).json()
    assert (preview["name"], preview["pairs"], folder.exists()) == (None, 4, False)


def test_one_server_at_a_time_writes_the_labels(app: Any, history: FolderStore, folder: Path, desk: Desk) -> None:
    """A second one shows everything else, loses nothing, and takes over when the first has ended."""
    ann = asking(app, "ann")
    make(ann)
    first, *_ = marks(query_page(ann))
    assert grade(ann, first, "2").status_code == 303
    with open_desk([], None, folder=folder) as other:
        ben = asking(create_app(history, Access(), other), "ben")
        assert 'role="alert"' in ben.get("/labels").text
        assert marks(query_page(ben)) == []
        assert grade(ben, first, "1").status_code == 400
        with refused("desk-in-use"):
            other.log()
        assert desk.folder is not None
        desk.folder.close()
        assert 'role="alert"' not in ben.get("/labels").text
        assert grade(ben, first, "1").status_code == 303
    assert [label.grade for label in read_labels(folder / "labels.jsonl")] == [2, 1]


def test_the_folder_of_the_desk(tmp_path: Path) -> None:
    assert desk_of(str(tmp_path / ".karat")) == tmp_path / ".karat" / "desk"
    assert desk_of("postgresql://nobody@localhost/none") is None


def test_a_pool_from_counting_to_closing(app: Any, folder: Path) -> None:
    ada = asking(app, "ada")
    form = {"choice": "disagreement", "run": "shift0", "other": "shift3", "k": "3", "limit": "5", "count": "1"}
    counted = ada.get("/desk/new", params=form)
    assert (counted.status_code, counted.text.count('role="status"')) == (200, 1)
    made = ada.post("/desk/new", data={**form, "name": "first", "assigned": "ben,  eve ,ben"})
    assert (made.status_code, made.headers["location"]) == (303, "/labels")
    assert len(read_pool(folder / "pools" / "first.jsonl")) == 5
    make(ada, "second")
    first, _ = asking(app, "ben").get("/api/v1/pools").json()
    assert (first["name"], first["notes"]["assigned"], first["notes"]["made_by"]) == ("first", ["ben", "eve"], "ada")
    assert [one["name"] for one in asking(app, "eve").get("/api/v1/pools").json()] == ["first", "second"]
    pair = ada.get("/api/v1/pools/first/next").json()["pair"]
    body = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "grade": 2}
    assert ada.post("/api/v1/pools/first/labels", json=body).status_code == 200, "others may label, too"
    moved = ada.post("/desk/pools/first", data={"do": "rename", "name": "renamed"})
    assert moved.headers["location"] == "/desk/pools/renamed"
    assert ada.get("/desk/pools/first").status_code == 404
    assert ada.post("/desk/pools/renamed", data={"do": "close"}).status_code == 303
    assert [one["name"] for one in asking(app, "ben").get("/api/v1/pools").json()] == ["second", "renamed"]
    for answer in (
        ada.post("/api/v1/pools/renamed/labels", json=body),
        ada.delete("/api/v1/pools/renamed/labels/last"),
    ):
        assert answer.status_code == 400
    assert ada.get("/labels/renamed").status_code == 200
    notes = json.loads((folder / "desk.json").read_text())["pools"]["renamed"]
    assert (notes["closed_by"], notes["assigned"]) == ("ada", ["ben", "eve"])
    opened = ada.put("/api/v1/pools/renamed", json={"closed": False, "assigned": []}).json()
    assert (opened["notes"].get("closed_at"), opened["notes"].get("assigned", [])) == (None, [])
    assert ada.delete("/api/v1/pools/renamed/labels/last").json()["grade"] == 2
    changes = [one["action"].removesuffix(" pool") for one in ada.get("/api/v1/audit").json()["entries"]]
    assert changes[:6] == ["open", "assign", "close", "rename", "make", "make"]


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "-x", "x" * 61, "a b", HOSTILE, "a\u0000b"])
def test_names_that_cannot_be(app: Any, folder: Path, name: str) -> None:
    client = asking(app, "ada")
    assert make(client, name).status_code == 400
    make(client, "good")
    assert client.put("/api/v1/pools/good", json={"name": name}).status_code == 400
    assert [path.name for path in (folder / "pools").iterdir()] == ["good.jsonl"]


def test_pools_that_cannot_be(app: Any, folder: Path) -> None:
    client = asking(app, "ada")
    assert make(client).status_code == 200
    assert make(client).status_code == 400, "the name is taken"
    for selection in (
        {**SELECTION, "choice": "everything"},
        {**SELECTION, "runs": []},
        {**SELECTION, "limit": 0},
        {**SELECTION, "k": 1000},
        {**SELECTION, "more": 1},
    ):
        assert client.post("/api/v1/desk/pools", json={"selection": selection, "name": "x"}).status_code == 400
    assert make(client, "x", selection={**SELECTION, "runs": ["no"]}).status_code == 404
    assert client.put("/api/v1/pools/first", json={"assigned": ["\u202e\n"]}).status_code == 400
    assert client.post("/desk/pools/first", data={"do": "nothing"}).status_code == 400
    page = client.get("/desk/new", params={"run": HOSTILE, "metric": HOSTILE, "query": HOSTILE, "count": "1"})
    assert (page.status_code, "<script>window" in page.text) == (200, False)
    (folder / "pools" / "broken.jsonl").write_text("nonsense\n")
    page = client.get("/labels")
    assert (page.status_code, "broken.jsonl" in page.text) == (200, True)


def test_a_pool_that_was_given_is_not_changed(history: FolderStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "given.jsonl").write_text('{"query_id": "q1", "chunk_id": "d0#1"}\n')
    with open_desk([str(tmp_path / "given.jsonl")], str(tmp_path / "labels.jsonl"), folder=folder) as desk:
        client = asking(create_app(history, Access(), desk), "ada")
        assert client.put("/api/v1/pools/given", json={"closed": True}).status_code == 400
        assert make(client, "given").status_code == 400
        body = {"query_id": "q1", "chunk_id": "d0#1", "grade": 1}
        assert client.post("/api/v1/pools/given/labels", json=body).status_code == 200
        assert client.post("/api/v1/desk/labels", json={**body, "run": "shift0", "grade": 2}).status_code == 200
    assert len(read_labels(tmp_path / "labels.jsonl")) == len(read_labels(folder / "labels.jsonl")) == 1


def test_grades_on_the_page_of_a_query_and_their_effect(app: Any, folder: Path) -> None:
    ann = asking(app, "ann")
    page = query_page(ann)
    pairs = marks(page)
    assert len(pairs) == 5
    given = grade(ann, pairs[0], "2", note="see there")
    assert (given.status_code, given.headers["location"]) == (303, f"/query?query_id=q1#hit-{pairs[0]}")
    grade(ann, pairs[1], "skip")
    [one, skipped] = read_labels(folder / "labels.jsonl").entries
    assert (one.grade, one.annotator, one.saw, one.note, skipped.grade) == (2, "ann", "ranking", "see there", None)
    page = query_page(ann)
    assert (page.count('class="yours"'), '<table class="effect">' in page) == (2, True)
    told = ann.get("/api/v1/desk/effect", params={"run": "shift0", "query_id": "q1", "metric": "recall@5"}).json()
    gold = karat.labels.with_labels(karat.read_gold(GOLD), [one])
    before, after = (karat.evaluate(run_log(0), judged, ["recall@5"])["recall@5"].mean for judged in (GOLD, gold))
    [recall] = told["metrics"]
    assert (recall["run_gold"], recall["run_labels"]) == pytest.approx((before, after))
    assert before != after
    assert grade(ann, pairs[0], "1").status_code == 400, "undo comes first"
    assert 'class="yours"' not in query_page(asking(app, "ben")), "labels of others are not shown"
    assert grade(asking(app, "ben"), pairs[0], "undo").status_code == 400
    assert grade(ann, pairs[0], "undo").status_code == 303
    assert [label.grade for label in read_labels(folder / "labels.jsonl")] == [None]


def test_labels_of_a_pool_are_neither_shown_nor_undone_on_the_page(app: Any, folder: Path) -> None:
    ann, ben = asking(app, "ann"), asking(app, "ben")
    selection = {"choice": "queries", "runs": ["shift0"], "queries": ["q1"], "k": 5}
    assert ann.post("/api/v1/desk/pools", json={"selection": selection, "name": "one"}).json()["pairs"] == 5
    item = ann.get("/api/v1/pools/one/next").json()["pair"]["chunk_id"]
    body = {"query_id": "q1", "chunk_id": item, "grade": 2}
    assert ann.post("/api/v1/pools/one/labels", json=body).status_code == 200
    asked = {"run": "shift0", "query_id": "q1"}
    assert ann.get("/api/v1/desk/effect", params=asked).json()["labels"] == 1
    assert ben.get("/api/v1/desk/effect", params=asked).json()["labels"] == 0, "ben has yet to grade it"
    assert ann.delete("/api/v1/desk/labels", params={**asked, "chunk_id": item}).status_code == 400
    assert ben.post("/api/v1/desk/labels", json={**body, "run": "shift0"}).status_code == 200
    assert ben.get("/api/v1/desk/effect", params=asked).json()["labels"] == 1
    found = find_agreement(read_labels(folder / "labels.jsonl"))
    assert (found.shared, found.kappas, found.saw_ranking) == (1, [], 1)
    assert ben.delete("/api/v1/desk/labels", params=asked).json()["saw"] == "ranking"


def test_hits_that_cannot_be_graded(app: Any, folder: Path) -> None:
    ann = asking(app, "ann")
    body = {"run": "shift0", "query_id": "q1", "chunk_id": "d0#1", "grade": 1}
    for change in (
        {"chunk_id": "elsewhere"},
        {"grade": 3},
        {"grade": -1},
        {"run": "nobody"},
        {"query_id": "nothing"},
        {"annotator": "\n"},
        {"more": 1},
    ):
        assert ann.post("/api/v1/desk/labels", json={**body, **change}).status_code in (400, 404)
    assert grade(ann, "nonsense", "1").status_code == 400
    assert grade(ann, marks(query_page(ann))[0], "x").status_code == 400
    for other in ("//evil.example", "https://evil.example/"):
        answer = grade(ann, marks(query_page(ann))[2], "0", next=other)
        assert answer.headers["location"].startswith("/runs")
    page = query_page(ann, HOSTILE)
    assert (len(marks(page)), "<script>window" in page) == (5, False)
    answer = TestClient(app, base_url="http://127.0.0.1").post("/desk/grade", data=body)
    assert answer.status_code == 403, "a form of another site"
    assert len(read_labels(folder / "labels.jsonl")) == 1


def test_who_has_no_name_is_asked_for_it(app: Any) -> None:
    client = asking(app)
    asked = grade(client, marks(query_page(client))[0], "2")
    assert asked.headers["location"].startswith("/desk/name?next=")
    assert client.get(asked.headers["location"]).status_code == 200
    named = client.post("/desk/name", data={"name": "Ann Lee", "next": "/query?query_id=q1"})
    assert (named.headers["location"], client.cookies["karat_annotator"]) == ("/query?query_id=q1", "Ann%20Lee")


def test_many_label_at_once(history: FolderStore, desk: Desk, folder: Path, serving: Any) -> None:
    items, names = [hit["chunk_id"] for hit in run_log(0)[1]["topk"]], ("ann", "ben", "eve", "joe")
    with serving(history, Access(), desk) as site:

        def label(job: tuple[str, str]) -> int:
            name, item = job
            body = {"run": "shift0", "query_id": "q1", "chunk_id": item, "grade": 1, "annotator": name}
            return int(site.write("POST", "/desk/labels", body).status)

        jobs = [(name, item) for item in items for name in (*names, *names)]  # each key pressed twice
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(label, jobs)) == {200}
    assert len(read_labels(folder / "labels.jsonl")) == len((folder / "labels.jsonl").read_text().splitlines()) == 20


def test_what_each_role_sees(history: FolderStore, desk: Desk) -> None:
    users = {role: made_user("correct horse", CHEAP, role) for role in ROLES}
    app = create_app(history, Access(users=users, cost=CHEAP), desk, live=LiveRetrievers({"none": lambda query, k: []}))
    seen = {}
    for role in ROLES:
        client = asking(app, role=role)
        pages = [client.get(address).text for address in ("/labels", "/query?query_id=q1&run=shift0", "/runs")]
        seen[role] = ["/desk/new" in pages[0], 'id="grading"' in pages[1], 'href="/try"' in pages[2]]
    assert seen == {
        "viewer": [False, False, False],
        "labeller": [False, True, False],
        "editor": [True, True, True],
        "admin": [True, True, True],
    }
    labeller = asking(app, role="labeller")
    assert grade(labeller, marks(query_page(labeller))[0], "1").status_code == 303
    assert desk.people()[0].annotator == "labeller"
    body = {"run": "shift0", "query_id": "q1", "chunk_id": "d2#1", "grade": 1, "annotator": "admin"}
    assert labeller.post("/api/v1/desk/labels", json=body).status_code == 400, "under one's own name only"


def listed(query: str, k: int) -> list[Any]:
    return [{"id": "d1#1", "score": 3, "text": f"One {HOSTILE}"}, {"id": "d2#1", "score": 2}][:k]


def other(query: str, k: int) -> list[Any]:
    return [{"id": "d3#1"}, {"id": "d1#1"}]


@pytest.fixture
def live(history: FolderStore, desk: Desk) -> TestClient:
    found = LiveRetrievers({"mine": listed, "other": other})
    return asking(create_app(history, Access(), desk, live=found), "ada")


def test_nothing_is_tried_unless_retrievers_are_configured(app: Any, live: TestClient) -> None:
    client = asking(app, "ada")
    assert client.get("/try").status_code == client.post("/api/v1/try", json={}).status_code == 404
    assert 'href="/try"' not in client.get("/runs").text
    assert 'href="/try"' in live.get("/runs").text
    assert live.get("/api/v1/retrievers").json() == ["mine", "other"]


def test_a_query_tried_live_becomes_gold(live: TestClient, folder: Path, tmp_path: Path) -> None:
    question = f"How long? {HOSTILE}"
    page = live.post("/try", data={"question": question, "first": "mine", "second": "other", "k": "5"}).text
    assert ("<script>window" in page, page.count('class="tag"')) == (False, 2)
    form = {"question": question, "tags": "language=en, topic=refunds", "annotator": "ada"}
    graded = {"item-1": "d1#1", "grade-1": "2", "item-2": "d2#1", "grade-2": "0", "item-3": "d3#1", "grade-3": ""}
    assert live.post("/try/keep", data={**form, **graded}).status_code == 200
    assert live.post("/try/keep", data={**form, **graded}).status_code == 200
    gold = karat.read_gold(str(folder / "queries.jsonl"))
    assert (len(gold.queries), len(set(gold.queries))) == (2, 2)
    assert read_labels(folder / "labels.jsonl").entries[0].query_id == gold.queries[0]
    run = [{"query_id": query, "topk": ["d2#1", "d1#1"]} for query in gold.queries]
    result = karat.evaluate(run, str(folder / "queries.jsonl"), ["mrr", "judged@2"])
    assert (result["mrr"].mean, result["judged@2"].mean) == (0.5, 1.0)
    assert live.get("/api/v1/desk/queries").content == (folder / "queries.jsonl").read_bytes()
    asked = {"question": "None?", "grades": {"d1#1": 0}, "no_answer": True, "annotator": "ada"}
    assert live.post("/api/v1/desk/queries", json=asked).json()["query_id"] == "desk-none"


def test_what_cannot_be_tried_or_kept(live: TestClient, folder: Path) -> None:
    asked = {"question": "How?", "retrievers": ["mine"], "k": 3}
    for change in (
        {"retrievers": ["http://evil.example"]},
        {"retrievers": ["bm25"]},
        {"retrievers": []},
        {"retrievers": ["mine", "other", "mine"]},
        {"question": ""},
        {"question": "x" * 2001},
        {"k": 51},
        {"spec": "bm25"},
    ):
        assert live.post("/api/v1/try", json={**asked, **change}).status_code == 400
    assert live.post("/try", data={"question": "How?", "first": "http://evil.example"}).status_code == 400
    kept = {"question": "How?", "grades": {"d1#1": 2}, "annotator": "ada"}
    for change in (
        {"grades": {}},
        {"grades": {"d1#1": 3}},
        {"grades": {"": 2}},
        {"no_answer": True},
        {"tags": {"query_id": "x"}},
        {"question": " "},
        {"annotator": "\n"},
    ):
        assert live.post("/api/v1/desk/queries", json={**kept, **change}).status_code == 400
    assert not (folder / "queries.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--retriever", "bm25"), "bad-setting"),
        (("--retriever", "a/b=bm25"), "bad-setting"),
        (("--retriever", "x=bm25", "--retriever", "x=random"), "duplicate-value"),
        (("--retriever", "x=bm25"), "no-corpus"),
        (("--retriever", "x=nonsense"), "unknown-retriever"),
        (("--retriever", "x=bm25", "--corpus", "none.jsonl"), "no-such-file"),
        (("--desk", "file"), "not-a-folder"),
    ],
)
def test_what_cannot_be_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_refuses: Any, options: tuple[str, ...], code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    assert karat_refuses("serve", "--port", "0", *options).code == code
    assert not Path(".karat").exists()
