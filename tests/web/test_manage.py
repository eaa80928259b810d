"""Order in the browser: titles, notes, tags, pins, deleting and restoring; the audit log and retention."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from logins import CHEAP
from starlette.testclient import TestClient

from karat.history.audit import AuditFilter
from karat.history.retention import RetentionRule, read_rule
from karat.history.store import Store
from karat.web.access import ROLES, Access, made_user
from karat.web.app import create_app
from karat.web.log_in import LogInLog
from karat.web.page import DONE

OURS = {"Origin": "http://127.0.0.1"}
HEADER = {"X-Karat": "1"}
Client = Callable[[str], TestClient]


@pytest.fixture
def client(store: Store) -> Client:
    """Logged in as a role; without one, open to this machine."""
    users = {role: made_user("correct horse", CHEAP, role) for role in ROLES}
    apps = {
        False: create_app(store, Access()),
        True: create_app(store, Access(token="t" * 20, users=users, cost=CHEAP)),
    }

    def made(role: str) -> TestClient:
        found = TestClient(apps[bool(role)], base_url="http://127.0.0.1", headers=OURS)
        if role:
            data = {"name": role, "password": "correct horse"}
            assert found.post("/login", data=data, follow_redirects=False).status_code == 303
        return found

    return made


def status(text: str) -> str:
    found = re.search(r'<p class="done" role="status"[^>]*>([^<]*)</p>', text)
    return found[1] if found else ""


def log(store: Store, **only: str) -> list[tuple[str, str, str | None]]:
    return [(one.who, one.action, one.detail) for one in store.audit(AuditFilter(**only)).entries][::-1]


def test_rename_note_tag_pin_delete_and_restore(client: Client, store: Store) -> None:
    editor, run = client("editor"), store.find("n2")
    page = editor.post(f"/manage/runs/{run}/words", data={"title": "Try <i>1</i>", "note": "one\r\n<script>two"})
    assert (page.status_code, page.url.path, status(page.text)) == (200, f"/runs/{run}", DONE["saved"])
    assert "<h1>Try &lt;i&gt;1&lt;/i&gt;</h1>" in page.text
    assert '<p class="written">one\n&lt;script&gt;two</p>' in page.text
    assert "Try <i>" not in page.text
    assert "<script>two" not in page.text
    listed = editor.get("/runs").text
    assert "<strong>Try &lt;i&gt;1&lt;/i&gt;</strong>" in listed
    assert '<span class="note">one</span>' in listed
    page = editor.post(f"/manage/runs/{run}/tag", data={"tag": "v1/a"})
    assert (status(page.text), store.row(run).tags) == (DONE["tagged"], ["n2", "v1/a"])
    page = editor.post(f"/manage/runs/{run}/untag", data={"tag": "v1/a"})
    assert (status(page.text), store.row(run).tags) == (DONE["untagged"], ["n2"])
    page = editor.post(f"/manage/runs/{run}/pin", data={"name": "release/1", "kind": "anchor"})
    assert status(page.text) == DONE["pinned"]
    assert f"/manage/runs/{run}/delete" not in page.text
    assert "pinned as" in editor.post(f"/manage/runs/{run}/delete", data={"sure": "yes"}).text
    page = editor.post("/manage/unpin", data={"name": "release/1"})
    assert (page.url.path, status(page.text)) == ("/pins", DONE["unpinned"])
    assert [pin.name for pin in store.pins()] == ["main"]
    assert editor.post(f"/manage/runs/{run}/delete").status_code == 400, "the box was not ticked"
    page = editor.post(f"/manage/runs/{run}/delete", data={"sure": "yes"})
    assert (page.url.path, status(page.text)) == ("/deleted", DONE["deleted"])
    assert run[:10] in page.text
    assert "editor" in page.text
    assert editor.get(f"/runs/{run}").status_code == 404
    assert run not in editor.get("/runs").text
    assert run not in editor.get("/api/v1/runs").text
    assert "hybrid" in editor.get("/trend").text
    page = editor.post(f"/manage/runs/{run}/restore")
    assert (page.url.path, status(page.text)) == (f"/runs/{run}", DONE["restored"])
    assert run in editor.get("/runs").text
    page = editor.post(f"/manage/runs/{run}/words")  # empty fields
    assert (store.row(run).title, store.row(run).note) == (None, None)
    assert [action for _, action, _ in log(store, who="editor")] == [
        *("log-in", "rename", "note", "tag", "untag", "pin", "unpin", "delete", "restore", "rename", "note")
    ]


def test_bad_forms_are_explained(client: Client, store: Store) -> None:
    editor = client("editor")
    for path, data, words in (
        ("runs/n1/tag", {"tag": "a b"}, "for a tag"),
        ("runs/n1/tag", {}, "for a tag"),
        ("runs/n1/pin", {"name": "latest"}, "for a pin"),
        ("runs/n1/words", {"title": "x" * 201}, "200 characters"),
        ("runs/n1/words", {"note": "x" * 5_001}, "5,000 characters"),
        ("runs/n1/untag", {"tag": "nothing"}, "has no tag"),
    ):
        answer = editor.post(f"/manage/{path}", data=data)
        assert (answer.status_code, words in answer.text) == (400, True), path
    for path in ("runs/nothing/words", "runs/nothing/restore", "runs/n1/restore", "unpin"):
        assert editor.post(f"/manage/{path}", data={"name": "nothing"}).status_code == 404, path
    assert log(store, who="editor") == [("editor", "log-in", None)]


def test_forms_of_other_sites_are_refused(client: Client, store: Store) -> None:
    editor, data = client("editor"), {"sure": "yes"}
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert editor.post("/manage/runs/n3/delete", data=data, headers=headers).status_code == 403
    del editor.headers["origin"]
    assert editor.post("/manage/runs/n3/delete", data=data).status_code == 403, "browsers send an origin"
    assert editor.get("/manage/runs/n3/delete").status_code == 405
    assert store.count() == 4


def test_pages_show_only_what_the_visitor_may_do(client: Client) -> None:
    """Also when another role asked for the same page before."""
    for role in (*ROLES, *reversed(ROLES), ""):
        asking = client(role)
        run, pins = asking.get("/runs/n1").text, asking.get("/pins").text
        edits, rules = role in ("", "editor", "admin"), role in ("", "admin")
        assert ("Manage this run" in run) is edits, role
        assert ("/manage/" in run) is edits, role
        assert ("Unpin" in pins) is edits, role
        assert ('href="/deleted"' in run) is edits, role
        assert ('href="/audit"' in run) is ('href="/retention"' in run) is rules, role


def test_the_api(client: Client, store: Store) -> None:
    asking, run = client(""), store.find("n3")
    asking.headers.update(HEADER)
    row = asking.put("/api/v1/runs/n3/title", json={"title": "A title"}).json()
    assert (row["id"], row["title"]) == (run, "A title")
    assert asking.put("/api/v1/runs/n3/note", json={"note": "a\nb"}).json()["note"] == "a\nb"
    assert asking.put("/api/v1/runs/n3/title", json={"title": "a\nb"}).status_code == 400
    assert asking.put("/api/v1/runs/n3/title", json={"title": None}).json()["title"] is None
    assert asking.delete("/api/v1/runs/n3").json() == {"done": True}
    found = asking.get("/api/v1/deleted").json()
    assert (found["total"], found["runs"][0]["run"]["id"], found["runs"][0]["deleted_by"]) == (1, run, "local")
    assert asking.get("/api/v1/runs/n3").status_code == 404
    assert asking.get(f"/api/v1/runs/{run}/export").status_code == 404
    assert asking.post(f"/api/v1/deleted/{run[:12]}/restore").json()["id"] == run
    assert asking.post(f"/api/v1/deleted/{run[:12]}/restore").status_code == 404
    entries = asking.get("/api/v1/audit", params={"run": run[:8]}).json()["entries"]
    assert [one["action"] for one in entries] == ["restore", "delete", "rename", "note", "rename"]
    assert asking.get("/api/v1/audit", params={"run": "x"}).status_code == 400
    found = asking.get("/api/v1/retention/preview", params={"days": 5}).json()
    assert (found["runs"], found["deletes"]) == (4, 0), "all have tags"
    assert asking.put("/api/v1/retention", json={"keep_last": 3}).json() == {"keep_last": 3, "days": None}
    assert asking.get("/api/v1/retention").json()["keep_last"] == 3
    assert asking.put("/api/v1/retention", json={"keep_last": 0}).status_code == 400
    assert asking.get("/metrics").text.count("karat_runs 4.0") == 1


def test_the_audit_log(client: Client, store: Store) -> None:
    admin, editor = client("admin"), client("editor")
    token = {"Authorization": "Bearer " + "t" * 20, **HEADER}
    editor.post("/manage/runs/n1/tag", data={"tag": "by-editor"})
    admin.put("/api/v1/runs/n1/tags/by-token", headers=token)
    page = admin.get("/audit").text
    assert re.findall(r"<td>(token|editor)</td><td>tag</td>", page) == ["token", "editor"]
    assert "by-token" not in admin.get("/audit", params={"who": "editor"}).text
    assert "log-in</td>" not in admin.get("/audit", params={"action": "tag"}).text
    assert "by-editor" in admin.get("/audit", params={"run": store.find("n1")[:8]}).text
    assert "<table" not in admin.get("/audit", params={"who": "<b>"}).text
    assert admin.get("/audit", params={"run": "?"}).status_code == 400
    first = admin.get("/audit", params={"limit": 1})
    older = re.search(r'href="(/audit\?[^"]*after=[^"]*)">Older', first.text)
    assert older is not None
    assert "Newest" in admin.get(older[1].replace("&amp;", "&")).text


def test_retention_is_tried_before_it_is_saved(client: Client, store: Store) -> None:
    admin = client("admin")
    for tag in ("n1", "n2", "n3"):
        store.untag(store.find(tag), [tag])
    page = admin.get("/retention", params={"keep_last": "1", "days": ""}).text
    assert "<strong>1 of 4 runs</strong>" in page
    assert read_rule(store) == RetentionRule()
    assert store.count() == 4
    page = admin.post("/manage/retention", data={"keep_last": "1"})
    assert (page.url.path, status(page.text)) == ("/retention", DONE["rule"])
    assert read_rule(store) == RetentionRule(keep_last=1)
    assert ("admin", "retention", f"keep {RetentionRule(keep_last=1)}") in log(store)
    for bad in ({"keep_last": "0"}, {"days": "-1"}, {"days": "many"}, {"days": "٣"}, {"days": "9" * 50}):
        assert admin.get("/retention", params=bad).status_code == 400
        assert admin.post("/manage/retention", data=bad).status_code == 400
    assert read_rule(store) == RetentionRule(keep_last=1)
    assert "all runs" in admin.post("/manage/retention").text


def test_log_ins_are_in_the_log(client: Client, store: Store) -> None:
    visitor = client("viewer")
    for name in ("viewer", "hunter2-my-password", ""):
        assert visitor.post("/login", data={"name": name, "password": "wrong"}).status_code == 403
    assert log(store)[1:] == [
        ("viewer", "log-in", None),
        ("unknown", "log-in refused", "user viewer"),
        ("unknown", "log-in refused", "an unknown user"),
        ("unknown", "log-in refused", "the token"),
    ]


def test_refused_log_ins_do_not_fill_the_log(store: Store) -> None:
    time = [0.0]
    logs = LogInLog(store, lambda: time[0])
    for _ in range(100):
        logs.refused(None)
    assert len(store.audit(AuditFilter(who="unknown"), limit=500).entries) == 30
    time[0] = 3601
    logs.refused("ada")
    assert (log(store)[-1][2] or "").startswith("user ada; 70 more")


def test_a_title_is_shown_at_once(client: Client, store: Store, made_run: Any) -> None:
    """The page was cached, and the change comes from another process."""
    viewer, run = client("viewer"), store.find("n1")
    for path in (f"/runs/{run}", "/runs", "/runs/n1"):
        assert "Another title" not in viewer.get(path).text
    store.set_title(run, "Another title")
    for path in (f"/runs/{run}", "/runs", "/runs/n1"):
        assert "Another title" in viewer.get(path).text
    store.delete(run)
    assert viewer.get(f"/runs/{run}").status_code == 404
    assert "Another title" not in viewer.get("/runs").text
    assert viewer.get(f"/compare?run={run}&run=n2").status_code == 404


def test_a_server_cleans_up_once_a_day(store: Store) -> None:
    import time

    from karat.history.retention import save_rule
    from karat.web.daily import Daily

    store.untag(store.find("n1"), ["n1"])
    save_rule(store, RetentionRule(days=5))
    daily = Daily(store, first=0.0, every=0.01)
    daily.start()
    for _ in range(200):
        if store.count() == 3:
            break
        time.sleep(0.01)
    daily.close()
    assert store.count() == 3
    assert [who for who, _, _ in log(store, action="delete")] == ["retention"]
