"""The API gives what the history has."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

import karat
from karat.history.archive import pack
from karat.history.folder import FolderStore
from karat.history.keep import keep_result
from karat.history.store import Store
from karat.results.kept_run import FAILED, KeptRun
from karat.web.api import ENDPOINTS
from karat.web.app import DESK_ENDPOINTS
from karat.web.order import ORDER_ENDPOINTS


def test_lists_and_pages(site: Any, store: Store) -> None:
    first = site.get("/runs", limit=3).json
    rest = site.get("/runs", limit=3, after=first["after"]).json
    assert [row["id"] for row in (*first["rows"], *rest["rows"])] == store.ids()
    assert rest["after"] is None
    assert [row["head"]["system"] for row in site.get("/runs", system="bm25").json["rows"]] == ["bm25"] * 2
    assert len(site.get("/runs", since="2025-06-03").json["rows"]) == 2
    assert site.get("/choices").json["systems"] == ["bm25", "hybrid"]


def test_one_run(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    run_id = store.find("n1")
    for name in ("n1", run_id, run_id[:8]):
        assert site.get(f"/runs/{name}").json["id"] == run_id
    document = site.get("/runs/n1/document").json
    assert document["result"]["system"] == "hybrid"
    result = site.get("/runs/n1/result").json
    assert result == json.loads(msgspec.json.encode(store.kept(run_id).saved()))
    assert site.get("/runs/n1/segments").json == {"language": ["de", "en"]}
    assert site.get("/runs/n1/judgements").json == []


def test_queries(site: Any) -> None:
    page = site.get("/runs/n0/queries", metric="recall@5", order="worst", limit=2).json
    assert (page["total"], [row["query_id"] for row in page["rows"]]) == (20, ["q6", "q13"])
    assert site.get("/runs/n0/queries", tag="language=de").json["total"] == 10
    assert site.get("/runs/n0/cases").json["total"] == 1
    assert site.get("/runs/n0/case", query_id="q6").json["case"]["hits"]
    assert site.get("/runs/n0/case", query_id="q1").json == {"case": None}
    sides = site.get("/side-by-side", run=["n0", "n1"], metric="recall@5", limit=1).json
    assert (sides["rows"][0]["query_id"], sides["rows"][0]["delta"]) == ("q3", 0.75)
    over = site.get("/query", query_id="q0").json
    assert [point["first_rank"] for point in over["points"]] == [4, 3, 2, 1]


def test_hits_of_one_run_and_of_two(site: Any, store: Store) -> None:
    gold = [{"query_id": "q1", "query": "Who pays?", "gold": ["a"]}]
    for name, ids in (("h0", "bac"), ("h1", "abd")):
        log = [{"query_id": "q1", "topk": [{"id": one, "text": f"<b>{one}</b> pays"} for one in ids]}]
        store.save(keep_result(karat.evaluate(log, gold)), tags=[name])
    one = site.get("/hits", query_id="q1", run="h0").json
    assert (one["moved"], [hit["id"] for hit in one["sides"][0]["record"]["hits"]]) == ([], ["b", "a", "c"])
    both = site.get("/hits", query_id="q1", run=["h0", "h1"]).json
    assert [tuple(hit.values()) for hit in both["moved"]] == [("a", 2, 1), ("b", 1, 2), ("d", None, 3), ("c", 3, None)]
    old = site.get("/hits", query_id="q1", run="n0").json["sides"][0]
    assert (old["kept"], old["record"]) == (False, None)
    assert site.get("/hits", query_id="q1", run=["h0", "h1", "n0"]).status == 400
    assert site.get("/hits", query_id="q1", run="nobody").status == 404
    assert [point["failed"] for point in site.get("/query", query_id="q1", tag="h0").json["points"]] == [True]


def test_the_page_of_a_query_names_the_newest_run_that_failed(site: Any, store: Store) -> None:
    gold = [{"query_id": "q_one", "query": "Who pays?", "gold": ["a"]}]
    for number, ids in enumerate(("xyz", "ba", "a")):
        log = [{"query_id": "q_one", "topk": [{"id": one, "text": f"<b>{one}</b> pays"} for one in ids]}]
        saved = f"2025-07-0{number + 1}T00:00:00.000000Z"
        store.save(keep_result(karat.evaluate(log, gold)), tags=[f"f{number}"], saved_at=saved)
    page = site.ask("GET", "/query?query_id=q_one").content.decode()
    assert f"From run {store.find('f1')[:10]}" in page
    assert "&lt;b&gt;b&lt;/b&gt;" in page
    assert "<b>a</b>" not in page
    store.delete(store.find("f1"))
    store.delete(store.find("f0"))
    page = site.ask("GET", "/query?query_id=q_one").content.decode()
    assert f"From run {store.find('f2')[:10]}" in page
    assert site.ask("GET", "/query?query_id=q6&run=n0&run=n1&run=n2").status == 400


def test_the_page_of_a_query_in_runs_of_earlier_versions(site: Any, store: Store) -> None:
    """They keep the worst queries only."""
    gold = [{"query_id": q, "query": "Who pays?", "gold": ["a"]} for q in ("lost", "found")]
    log = [{"query_id": q, "topk": [{"id": one} for one in ids]} for q, ids in (("lost", "xyz"), ("found", "a"))]
    new = keep_result(karat.evaluate(log, gold))
    store.save(KeptRun(new.text, new.rows.drop(FAILED)), tags=["old"])
    for address in ("/query?query_id=lost", "/query?query_id=lost&run=old"):
        page = site.ask("GET", address).content.decode()
        assert "listings" in page
    page = site.ask("GET", "/query?query_id=found&run=old")
    assert (page.status, b"listings" in page.content) == (200, False)
    assert site.get("/runs/old/cases").json["total"] == 1
    assert b"listings" in site.ask("GET", "/runs/old/triage").content


def test_trends_and_pins(site: Any) -> None:
    points = site.get("/trend", metric="recall@5", segment="language", value="de").json
    assert [(p["saved_at"][:10], p["queries"]) for p in points] == [(f"2025-06-0{i}", 10) for i in range(1, 5)]
    assert [pin["name"] for pin in points[0]["pins"]] == ["main"]
    assert [pin["kind"] for pin in site.get("/pins").json] == ["baseline"]


def test_writes(site: Any, store: Store) -> None:
    assert site.write("PUT", "/pins/release", {"run": "n2", "kind": "anchor"}).json["run_id"] == store.find("n2")
    assert store.find("release") == store.find("n2")
    assert site.write("DELETE", "/pins/release").json == {"done": True}
    assert site.write("PUT", "/runs/n1/tags/good").json["tags"] == ["good", "n1"]
    assert site.write("DELETE", "/runs/good/tags/good").json["tags"] == ["n1"]
    assert site.write("DELETE", "/runs/n0").status == 400  # pinned
    assert site.write("DELETE", "/runs/n3").json == {"done": True}
    assert store.count() == 3


def test_runs_go_out_and_come_in(site: Any, tmp_path: Path, store: Store) -> None:
    answer = site.get("/runs/n1/export")
    assert answer.headers["content-type"] == "application/zip"
    assert len(zipfile.ZipFile(BytesIO(answer.content)).namelist()) == 2
    run_id = store.find("n1")
    store.delete(run_id)
    headers = {"X-Karat": "1", "Content-Type": "application/zip"}
    for new in (True, False):
        answer = site.ask("POST", "/api/v1/runs", answer.content if new else pack(store, [run_id]), headers)
        assert answer.json == [{"id": run_id, "new": new}]
    assert store.row(run_id).tags == ["n1"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/runs/nobody", 404, "'nobody'"),
        ("/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, "Not Found"),
        ("/runs/..%5c..%5cx", 404, "x'"),
        ("/runs?limit=0", 400, "limit"),
        ("/runs?limit=many", 400, "limit"),
        ("/runs?limt=3", 400, "'limt'"),
        ("/runs?tag=a&tag=b", 400, "tag"),
        ("/runs?since=soon", 400, "soon"),
        ("/runs?after=here", 400, "here"),
        ("/trend", 400, "`metric`"),
        ("/runs/n0/queries?order=odd", 400, "'odd'"),
        ("/runs/n0/queries?order=worst&metric=mrr", 400, "'mrr'"),
        ("/side-by-side?metric=mrr", 400, "`run`"),
        ("/nothing", 404, "Not Found"),
    ],
)
def test_what_cannot_be_answered(site: Any, path: str, status: int, said: str) -> None:
    answer = site.get(path)
    assert answer.status == status
    assert said in answer.json["error"]
    assert (answer.json["code"] is None) == (said == "Not Found")  # no endpoint has this address


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"run": "n0"}', b'{"run": "n0", "kind": "odd"}', b"\xff"])
def test_malformed_bodies(site: Any, store: Store, body: bytes) -> None:
    answer = site.ask("PUT", "/api/v1/pins/x", body, {"X-Karat": "1"})
    assert answer.status == 400
    assert answer.json["error"]
    assert [pin.name for pin in store.pins()] == ["main"]


def test_a_broken_upload(site: Any, store: Store) -> None:
    for body in (b"", b"nonsense", b"PK\x03\x04" + b"\0" * 99, pack(store, [store.find("n1")])[:-200]):
        answer = site.ask("POST", "/api/v1/runs", body, {"X-Karat": "1"})
        assert answer.status == 400
    assert store.count() == 4


def test_a_history_that_fails(site: Any, store: Store, tmp_path: Path) -> None:
    (tmp_path / ".karat" / "runs" / f"{store.find('n1')}.parquet").unlink()
    answer = site.get("/runs/n1/document")
    assert (answer.status, store.find("n1") in answer.json["error"]) == (503, True)


def test_the_document_describes_every_endpoint(site: Any) -> None:
    document = site.get("/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]["/api/v1/runs"]) == {"get", "post"}
    parameters = {p["name"]: p for p in document["paths"]["/api/v1/trend"]["get"]["parameters"]}
    assert (parameters["metric"]["required"], parameters["limit"]["schema"]["maximum"]) == (True, 1000)
    names = [o["operationId"] for path in document["paths"].values() for o in path.values()]
    assert len(names) == len(set(names)) == len([*ENDPOINTS, *ORDER_ENDPOINTS, *DESK_ENDPOINTS])


def test_push(site: Any, tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]], made_run: Any) -> None:
    with FolderStore(tmp_path / "ci") as other:
        other.save(made_run(50), branch="feature", tags=["from-ci"])
    code, out, _ = karat_command("history", "push", site.url, "--store", str(tmp_path / "ci"))
    assert (code, out.count(made_run(50).id[:10])) == (0, 1)
    assert site.store.row(site.store.find("from-ci")).head.branch == "feature"
    again = karat_command("history", "push", site.url, "from-ci", "--store", str(tmp_path / "ci"))
    assert (again[0], again[1] == out) == (0, False)
