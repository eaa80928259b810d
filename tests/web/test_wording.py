"""What pages and the API say, as text."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import karat
from golden import check
from karat.history.pool_selection import refuse_too_many
from karat.labels.desk import open_desk
from karat.labels.desk_folder import DeskFolder, PoolNotes
from karat.labels.files import Key, PoolEntry, read_labels
from karat.labels.labelled_gold import blind_labels
from karat.systems.live import LiveRetrievers
from karat.web.access import Access, read_token, read_users, user_line
from karat.web.labels import Visit, refuse_hints
from karat.web.pools import folder_of
from karat.web.proxy import checked_prefix, read_proxy
from karat.web.server import listen
from wording import Transcript, file, refusals, words_of

NO_STORE: Any = None
SEEN = '{"query_id": "q", "chunk_id": "c", "grade": 2, "annotator": "ann", "saw": "ranking"}\n'


def words(content: bytes, whole: bool = False) -> str:
    """Of the main part; head, menus and foot are the same on every page."""
    text = content.decode()
    main = text if whole or "<main" not in text else text[text.index("<main") : text.index("</main>")]
    return re.sub(r"\bcli:\S+", "cli:…", without_ids(words_of(main))).replace(karat.__version__, "…")


def without_ids(text: str) -> str:
    return re.sub(r"\b[0-9a-f]{10,64}\b", "…id…", re.sub(r"/(?:tmp|dev)/\S*?/\.karat", "….karat", text))


def test_pages(site: Any) -> None:
    addresses = (
        *("/runs", "/runs?branch=none", "/runs/n0/queries", "/trend", "/trend?metric=recall@5"),
        *("/trend?metric=recall@5&segment=unknown", "/compare?run=n0&run=n1", "/query", "/query?query_id=How+long%3F"),
        *("/query?query_id=q1", "/labels", "/login", "/runs/nobody", "/runs?limit=many", "/nothing"),
    )
    said = []
    for address in addresses:
        answer = site.ask("GET", address)
        said.append(f"# {address} ({answer.status})\n{words(answer.content, whole=not said)}\n")
    check("wording/pages.txt", "\n".join(said))


def test_the_page_of_a_run(demo: Any, serving: Any) -> None:
    with serving(demo, Access()) as site:
        said = [f"# {address}\n{words(site.ask('GET', address).content)}\n" for address in ("/runs/main", "/pins")]
    check("wording/run_page.txt", "\n".join(said))


def test_pages_of_order(site: Any) -> None:
    """As each is after a change, and what cannot be done."""
    run, said = site.store.find("n2"), []
    form = {"Origin": site.url, "Content-Type": "application/x-www-form-urlencoded"}

    def posted(path: str, body: str = "") -> None:
        answer = site.ask("POST", f"/manage{path}", body.encode(), form)
        if answer.status == 303:
            answer = site.ask("GET", answer.headers["location"])
        head = re.sub(r"\b20\d\d-[0-9:. -]+", "…day… ", words(answer.content))
        said.append(f"# {without_ids(path)} {body} ({answer.status})\n{head[:500]}\n")

    posted(f"/runs/{run}/words", "title=First+try&note=One%0ATwo")
    posted(f"/runs/{run}/words", "title=" + "x" * 201)
    posted(f"/runs/{run}/tag", "tag=a+b")
    posted(f"/runs/{run}/delete")
    posted(f"/runs/{run}/delete", "sure=yes")
    posted(f"/runs/{run}/restore")
    posted(f"/runs/{run}/restore")
    posted("/unpin", "name=main")
    posted("/retention", "days=90&keep_last=5")
    posted("/retention", "days=many")
    for address in ("/audit", "/audit?who=nobody", "/retention?days=1"):
        text = re.sub(r"\b20\d\d-[0-9:. -]+", "…day… ", words(site.ask("GET", address).content))
        said.append(f"# {address}\n{text}\n")
    check("wording/order_pages.txt", "\n".join(said))


def test_pages_of_labels(labelling: Any) -> None:
    ann = {"Cookie": "karat_annotator=ann"}
    said = []

    def page(address: str, headers: dict[str, str] | None = None) -> None:
        answer = labelling.ask("GET", f"/labels{address}", headers=headers or {})
        said.append(f"# /labels{address} ({answer.status})\n{words(answer.content)}\n")

    page("/pool/name")
    page("/pool", ann)
    page("/pool/calibration", ann)
    for annotator, grades in (("ann", (2, 1, 0, None)), ("ben", (2, 0, 0, 1, 2, 0, 1, 0, 0, 1))):
        for grade in grades:
            pair = labelling.get("/pools/pool/next", annotator=annotator).json["pair"]
            body = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "grade": grade, "annotator": annotator}
            assert labelling.write("POST", "/pools/pool/labels", body).status == 200
    for address in ("", "/pool", "/pool/agreement", "/pool/calibration", "/nothing"):
        page(address, ann)
    page("/pool", {"Cookie": "karat_annotator=ben"})
    check("wording/label_pages.txt", "\n".join(said))


def test_errors_of_the_api(site: Any, labelling: Any, locked: Any, store: Any) -> None:
    write = {"X-Karat": "1", "Content-Type": "application/json"}
    pair = {"query_id": "refund", "chunk_id": "refund#0", "grade": 1, "annotator": "ann"}
    answers = {
        "a run that is not there": site.get("/runs/nobody"),
        "a limit of 0": site.get("/runs?limit=0"),
        "an unknown parameter": site.get("/runs?limt=3"),
        "a parameter twice": site.get("/runs?tag=a&tag=b"),
        "a time that is not one": site.get("/runs?since=soon"),
        "a parameter that is missing": site.get("/trend"),
        "an unknown metric": site.get("/runs/n0/queries?order=worst&metric=mrr"),
        "a body that is not JSON": site.ask("PUT", "/api/v1/pins/x", b"{", write),
        "a body that is too large": site.ask("PUT", "/api/v1/pins/x", b"x" * 70_000, write),
        "an upload that is broken": site.ask("POST", "/api/v1/runs", b"nonsense", {"X-Karat": "1"}),
        "a page of another site": site.write("DELETE", "/runs/n3", Origin="http://evil.example"),
        "a write without the header": site.ask("DELETE", "/api/v1/runs/n3"),
        "another name of the server": site.ask("GET", "/api/v1/runs", headers={"Host": "evil.example"}),
        "without a log-in": locked.get("/runs"),
        "a wrong token": locked.get("/runs", headers={"Authorization": "Bearer " + "x" * 20}),
        "a grade out of the scale": labelling.write("POST", "/pools/pool/labels", {**pair, "grade": 9}),
        "a pair of another pool": labelling.write("POST", "/pools/pool/labels", {**pair, "chunk_id": "other"}),
        "nobody labels": labelling.write("POST", "/pools/pool/labels", {**pair, "annotator": None}),
        "nothing to undo": labelling.write("DELETE", "/pools/pool/labels/last?annotator=ann"),
        "a calibration without labels": labelling.get("/pools/pool/calibration"),
        "labels, to somebody who has yet to give them": labelling.get(
            "/pools/pool/labels", {"Cookie": "karat_annotator=a"}
        ),
        "an address that is too long": site.get("/runs?tag=" + "x" * 9000),
        "headers that are too large": site.get("/runs", headers={"Cookie": "x" * 15000, "X-More": "x" * 9000}),
        "a label": labelling.write("POST", "/pools/pool/labels", pair),
        "another grade for it": labelling.write("POST", "/pools/pool/labels", {**pair, "grade": 2}),
    }
    said = []
    for name, answer in answers.items():
        if answer.status != 200:
            hint = answer.json.get("hint")
            told = f"{answer.json['error']}\n" + (f"hint: {hint}\n" if hint else "")
            said.append(f"# {name} ({answer.status})\n{told}")
    check("wording/errors_api.txt", without_ids("\n".join(said)))


def test_errors_of_serving(tmp_path: Path) -> None:
    def served(*options: Any, **more: Any) -> Any:
        def call() -> None:
            file("pool.jsonl", '{"query_id": "q", "chunk_id": "c"}\n')
            file("judge.jsonl", '{"query_id": "q", "chunk_id": "c", "grade": 2, "annotator": "m"}\n')
            with open_desk(*options, **more):
                pass

        return call

    def labelled(act: Any) -> Any:
        def call() -> None:
            file("pool.jsonl", '{"query_id": "q", "chunk_id": "c"}\n')
            with open_desk(["pool.jsonl"], "labels.jsonl") as desk:
                act(desk, next(iter(desk.pools.values())))

        return call

    def taken() -> None:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            listen("127.0.0.1", other.getsockname()[1], Access())

    def closed() -> None:
        folder = DeskFolder("desk")
        folder.add_pool("first", [PoolEntry(query_id="q", chunk_id="c")], PoolNotes())
        folder.set_closed("first", True, "ada")
        with open_desk([], None, folder="desk") as desk:
            desk.give(desk.pools["first"], "ann", Key("q", "c"), 1)

    groups = {
        "Access": {
            "a port that is taken": taken,
            "others can reach it": lambda: listen("0.0.0.0", 0, Access()),
            "a token that is too short": lambda: read_token(file("token", "short\n"), None),
            "users that are not": lambda: read_users(file("users", "# users\nada:plain\n")),
            "no user": lambda: read_users(file("users", "\n")),
            "a password that is too short": lambda: user_line("ada", "short"),
            "a name that cannot be": lambda: user_line("a:b", "long enough"),
            "a name that the audit log uses": lambda: user_line("token", "long enough"),
            "a header that anyone could send": lambda: read_proxy("X-Forwarded-User", []),
            "a proxy without its header": lambda: read_proxy(None, ["127.0.0.1"]),
            "a proxy by name": lambda: read_proxy("X-Forwarded-User", ["proxy.local"]),
            "a prefix that is no path": lambda: checked_prefix("karat"),
        },
        "Pools": {
            "a pool without labels": served(["pool.jsonl"], None),
            "labels without a pool": served([], "labels.jsonl"),
            "a pair of another pool": labelled(lambda desk, pool: desk.give(pool, "ann", Key("q", "other"), 1)),
            "a second grade": labelled(lambda desk, pool: [desk.give(pool, "ann", Key("q", "c"), g) for g in (1, 2)]),
            "nothing to undo": labelled(lambda desk, pool: desk.undo(pool, "ann")),
            "what would be a hint": labelled(lambda desk, pool: refuse_hints(Visit(NO_STORE, desk, "ann"), pool)),
            "a pool that was given": labelled(lambda desk, pool: desk.in_folder(pool.name)),
            "a server without a desk": labelled(lambda desk, pool: folder_of(desk)),
            "labels of a person as a judge's": served(["pool.jsonl"], "labels.jsonl", ["judge.jsonl"]),
        },
        "The desk": {
            "a file for a folder": lambda: DeskFolder(file("desk", "x")),
            "notes that are not": lambda: DeskFolder(Path(file("desk/desk.json", "[]")).parent),
            "queries that are not": lambda: DeskFolder(Path(file("desk/queries.jsonl", "[]\n")).parent).add_query(
                "x", {}
            ),
            "labels that another server has": lambda: [DeskFolder("desk").log() for _ in "ab"],
            "a name that cannot be": lambda: DeskFolder("desk").add_pool("../x", [], PoolNotes()),
            "a name that is taken": lambda: [DeskFolder("desk").add_pool("x", [], PoolNotes()) for _ in "ab"],
            "a pool that is closed": closed,
            "labels that all saw the ranking": lambda: blind_labels(read_labels(file("seen.jsonl", SEEN))),
            "more pairs than a pool may have": lambda: refuse_too_many(20_000),
        },
        "Live queries": {
            "no corpus": lambda: LiveRetrievers({"words": "bm25"}),
            "an empty question": lambda: LiveRetrievers({"mine": lambda query, k: []}).ask(["mine"], " "),
            "an unknown retriever": lambda: LiveRetrievers({"mine": lambda query, k: []}).ask(["http://x"], "?"),
        },
    }
    check("wording/errors_serving.txt", refusals(groups, tmp_path))


def test_push(locked: Any, terminal: Transcript, tmp_path: Path, monkeypatch: Any) -> None:
    place = ("--store", str(tmp_path / ".karat"))
    terminal("history", "push", locked.url, "n1", *place)
    monkeypatch.setenv("KARAT_TOKEN", "x" * 20)
    terminal("history", "push", locked.url, "n1", *place)
    monkeypatch.setenv("KARAT_TOKEN", "t" * 20)
    terminal("history", "push", locked.url, "n1", *place)
    terminal("history", "push", "http://karat.example.org", "n1", *place)
    terminal("history", "push", "ftp://x", "n1", *place)
    terminal("serve", "--demo", "--store", "x")
    check("wording/push.txt", without_ids(terminal.text))
