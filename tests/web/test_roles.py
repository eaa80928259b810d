"""What each role may do: every endpoint and every form, as each role."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from logins import CHEAP
from starlette.testclient import TestClient

from karat.errors import KaratError
from karat.history.store import Store
from karat.labels.desk import Desk
from karat.systems.live import LiveRetrievers
from karat.web.access import ROLES, Access, Role, allows, made_user, read_users
from karat.web.api import ENDPOINTS
from karat.web.app import DESK_ENDPOINTS, create_app
from karat.web.live import LIVE_ENDPOINTS
from karat.web.order import ORDER_ENDPOINTS
from karat.web.rules import RoleRoute, refusal

Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]
OURS = {"Origin": "http://127.0.0.1", "X-Karat": "1"}
TOKEN = {"Authorization": "Bearer " + "t" * 20}


def client_of(access: Access, app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1", headers=OURS, follow_redirects=False)


@pytest.fixture
def access() -> Access:
    """One user of each role, with the role as name, and a token."""
    users = {role: made_user("correct horse", CHEAP, role) for role in ROLES}
    return Access(token="t" * 20, users=users, cost=CHEAP)


@pytest.fixture
def app(store: Store, desk: Desk, access: Access) -> Any:
    return create_app(store, access, desk, live=LiveRetrievers({"none": lambda query, k: []}))


def logged_in(app: Any, access: Access, name: str) -> TestClient:
    client = client_of(access, app)
    answer = client.post("/login", data={"name": name, "password": "correct horse"})
    assert answer.status_code == 303
    return client


def routes_of(app: Any) -> list[RoleRoute]:
    return [route for route in app.routes if isinstance(route, RoleRoute)]


def test_every_endpoint_that_writes_names_its_role() -> None:
    for endpoint in (*ENDPOINTS, *ORDER_ENDPOINTS, *DESK_ENDPOINTS, *LIVE_ENDPOINTS):
        assert endpoint.role is not None or not endpoint.writes, f"{endpoint.method} {endpoint.path} needs a role"


def test_every_route_as_each_role(app: Any, access: Access) -> None:
    """Whoever may not is told so, and nothing else happens; whoever may gets past it."""
    assert len(routes_of(app)) == len(app.routes), "a route without a role"
    clients = {role: logged_in(app, access, role) for role in ROLES}
    for route in sorted(routes_of(app), key=lambda route: "DELETE" in route.roles):
        path = re.sub(r"{\w+}", "nothing", route.path)
        for method, needed in route.roles.items():
            if path == "/logout":
                continue
            for role, client in clients.items():
                answer = client.request(method, path)
                refused = answer.status_code == 403 and "this needs the role" in answer.text
                assert refused is not allows(role, needed), (method, path, role, answer.text[:200])


def test_the_roles_of_the_routes(app: Any) -> None:
    """What the docs say: a viewer reads, a labeller labels."""
    found = {(method, route.path): role for route in routes_of(app) for method, role in route.roles.items()}
    labels = {key for key, role in found.items() if role == "labeller"}
    assert labels == {
        ("POST", "/api/v1/pools/{pool}/labels"),
        ("DELETE", "/api/v1/pools/{pool}/labels/last"),
        ("GET", "/labels/{pool}"),
        ("POST", "/labels/{pool}"),
        ("POST", "/labels/{pool}/undo"),
        ("GET", "/labels/{pool}/name"),
        ("POST", "/labels/{pool}/name"),
        ("POST", "/desk/grade"),
        ("GET", "/desk/name"),
        ("POST", "/desk/name"),
        ("POST", "/api/v1/desk/labels"),
        ("DELETE", "/api/v1/desk/labels"),
        ("GET", "/api/v1/desk/effect"),
    }
    admins = {path for (_, path), role in found.items() if role == "admin"}
    assert admins == {
        "/audit",
        "/retention",
        "/manage/retention",
        *(f"/api/v1/{x}" for x in ("audit", "retention")),
    } | {"/api/v1/retention/preview"}
    writes = {key for key, role in found.items() if key[0] != "GET" and role == "viewer"}
    assert writes == {("POST", "/login"), ("POST", "/logout")}


def test_a_write_without_a_route_is_for_admins(app: Any, access: Access) -> None:
    assert logged_in(app, access, "editor").post("/api/v1/nothing").status_code == 403
    assert logged_in(app, access, "admin").post("/api/v1/nothing").status_code == 404


def test_a_token_is_an_editor(app: Any, access: Access, store: Store) -> None:
    client = client_of(access, app)
    assert client.put("/api/v1/runs/n1/tags/x", headers=TOKEN).status_code == 200
    assert client.post("/api/v1/nothing", headers=TOKEN).status_code == 403
    viewer = logged_in(app, access, "viewer")
    assert viewer.put("/api/v1/runs/n1/tags/y").status_code == 403
    assert viewer.put("/api/v1/runs/n1/tags/y", headers=TOKEN).status_code == 200, "the token counts, not the cookie"
    assert (
        logged_in(app, access, "admin").post("/api/v1/nothing", headers={"Authorization": "Bearer x"}).status_code
        == 401
    )
    by_form = client_of(access, app)
    assert by_form.post("/login", data={"password": "t" * 20}).status_code == 303
    assert by_form.put("/api/v1/runs/n1/tags/z").status_code == 200
    assert by_form.post("/api/v1/nothing").status_code == 403


def test_open_to_this_machine_means_everything(store: Store) -> None:
    app = create_app(store, Access())
    assert client_of(Access(), app).delete("/api/v1/runs/n3").status_code == 200
    assert client_of(Access(), app).post("/api/v1/nothing").status_code == 404


@pytest.mark.parametrize("forged", ["karat_role=admin", "role=admin", "karat_session=admin"])
def test_a_role_cannot_be_claimed(app: Any, access: Access, store: Store, forged: str) -> None:
    viewer = logged_in(app, access, "viewer")
    own = f"karat_session={viewer.cookies['karat_session']}"
    for cookie in (f"{own}; {forged}", f"{forged}; {own}"):
        headers = {"Cookie": cookie, "X-Role": "admin", "X-Karat-Role": "admin"}
        assert viewer.delete("/api/v1/runs/n3?role=admin", headers=headers).status_code in (401, 403)
    assert store.count() == 4


def test_a_refusal_is_a_sentence(app: Any, access: Access) -> None:
    viewer = logged_in(app, access, "viewer")
    said = viewer.delete("/api/v1/runs/n3")
    assert said.json()["error"] == refusal("viewer", "editor")
    assert "admin" in said.json()["hint"]
    page = viewer.post("/labels/pool", data={"grade": "1"})
    assert (page.status_code, page.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert refusal("viewer", "labeller") in page.text


def test_pages_show_what_the_visitor_may_do(app: Any, access: Access) -> None:
    assert 'class="begin"' not in logged_in(app, access, "viewer").get("/labels").text
    assert 'class="begin"' in logged_in(app, access, "labeller").get("/labels").text


def test_the_document_names_roles(app: Any, access: Access) -> None:
    paths = logged_in(app, access, "viewer").get("/api/v1/openapi.json").json()["paths"]
    assert paths["/api/v1/runs/{run}"]["delete"]["description"] == "Role: editor or admin."
    assert paths["/api/v1/runs/{run}"]["get"]["description"].startswith("Role: viewer or ")


def test_roles_in_the_users_file(
    tmp_path: Path, karat_command: Command, karat_refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("karat.web.access.COST", CHEAP)
    file = tmp_path / "users.txt"

    def add(name: str, *options: str) -> str:
        monkeypatch.setattr(sys, "stdin", io.StringIO("correct horse\n"))
        code, _, err = karat_command("serve", "users", str(file), name, *options)
        assert code == 0
        return err

    def roles() -> dict[str, Role]:
        return {name: user.role for name, user in read_users(str(file)).items()}

    assert "ada, labeller" in add("ada")
    assert "bob, admin" in add("bob", "--role", "admin")
    assert roles() == {"ada": "labeller", "bob": "admin"}
    add("bob")
    add("ada", "--role", "editor")
    assert roles() == {"bob": "admin", "ada": "editor"}, "a new password leaves the role"
    assert karat_command("serve", "users", str(file), "ada", "--role", "owner")[0] == 2
    old = file.read_text().replace(":editor\n", "\n")
    file.write_text(old)
    assert roles()["ada"] == "admin", "as before there were roles"
    file.write_text(old.replace(":admin\n", ":owner\n"))
    with pytest.raises(KaratError, match="role"):
        read_users(str(file))


def test_a_better_hash_leaves_the_role(access: Access) -> None:
    from karat.web.access import HashCost

    access.cost = HashCost(5, 1, 1)
    assert access.log_in("viewer", "correct horse")
    assert access.users["viewer"].cost == access.cost
    assert access.users["viewer"].role == "viewer"


def test_users_of_a_proxy(store: Store, access: Access) -> None:
    """The role of the users file, or the one for all others."""
    from karat.web.proxy import read_proxy

    access.proxy = read_proxy("X-User", ["127.0.0.0/8"])
    app = create_app(store, access)
    client = TestClient(app, base_url="http://127.0.0.1", headers=OURS, client=("127.0.0.1", 5000))

    def tag(name: str) -> int:
        return client.put("/api/v1/runs/n1/tags/x", headers={"X-User": name}).status_code

    assert (tag("editor"), tag("viewer"), tag("somebody@example.org")) == (200, 403, 403)
    access.proxy_role = "editor"
    assert (tag("viewer"), tag("somebody@example.org")) == (403, 200)
