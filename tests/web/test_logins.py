"""Log-ins and sessions when many come at once, what a password is kept as, and what a labeller must not see."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from logins import CHEAP, access_of

from karat.labels.desk import Desk
from karat.web.access import COST, Access, HashCost, User, made_user, parse_user, read_users, rewrite_user, user_line

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
OLD = "ada:scrypt:{salt}:{hash}"  # as Karat 0.1 wrote it


def at_once(count: int, work: Callable[[int], Any]) -> list[Any]:
    ready = threading.Barrier(count)

    def begin(number: int) -> Any:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def test_tries_at_once_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def slow(password: str, *_: object) -> str:
        checked.append(password)
        time.sleep(0.05)
        return "wrong"

    access = access_of("ada", "bob")
    monkeypatch.setattr("karat.web.access._slow_hash", slow)
    assert at_once(40, lambda i: access.log_in("ada", f"wrong {i}")) == [None] * 40
    assert len(checked) == 5
    monkeypatch.undo()
    assert access.log_in("ada", "correct horse") is None
    assert access.log_in("bob", "correct horse") is not None


def test_tries_at_once_over_http(locked: Any) -> None:
    def ask(number: int, password: bytes = b"wrong") -> int:
        status: int = locked.ask("POST", "/login", b"name=ada&password=" + password, FORM).status
        return status

    assert set(at_once(39, ask)) == {403}
    assert ask(0, b"correct+horse") == 403


def test_right_ones_are_not_counted() -> None:
    access = access_of("ada")
    assert all(access.log_in("ada", "correct horse") for _ in range(20))


def test_tries_of_many_names_push_nothing_out() -> None:
    access = access_of("ada")
    for _ in range(5):
        access.log_in("ada", "wrong")
    for number in range(1500):
        access.log_in(f"nobody{number}", "wrong")
    assert access.log_in("ada", "correct horse") is None


def test_who_logged_out_stays_out() -> None:
    """While others ask, log in, and end by themselves."""
    time_, done = [0.0], threading.Event()
    access = access_of("ada", clock=lambda: time_[0])

    def others() -> None:
        while not done.is_set():
            cookie = access.log_in("", "") or "none"
            access.visitor(cookie)
            time_[0] += 0.001

    access.token = ""
    threads = [threading.Thread(target=others) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            cookie = access.log_in("ada", "correct horse")
            assert cookie is not None
            assert access.visitor(cookie) == "ada"
            access.log_out(cookie)
            assert access.visitor(cookie) is None
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_sessions_and_log_outs_over_http(locked: Any) -> None:
    answer = locked.ask("POST", "/login", b"name=ada&password=correct+horse", FORM)
    ada = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    def ask(number: int) -> int:
        if number == 9:
            status: int = locked.ask("POST", "/logout", b"", ada | FORM).status
        else:
            status = locked.ask("GET", "/labels" if number % 2 else "/api/v1/runs", headers=ada).status
        return status

    assert set(at_once(24, ask)) <= {200, 303, 401}
    assert locked.get("/runs", headers=ada).status == 401


def test_what_a_password_costs() -> None:
    line = user_line("ada", "correct horse", CHEAP)
    assert line.startswith("ada:scrypt:4,1,1:")
    assert parse_user(line) is not None
    assert (COST.log_n, COST.r, COST.p) >= (17, 8, 1)


@pytest.mark.parametrize("cost", ["3,1,1", "21,8,1", "17,0,1", "17,17,1", "17,8,17", "x", "17,8", "99,99,99"])
def test_costs_that_cannot_be(cost: str) -> None:
    assert parse_user(f"ada:scrypt:{cost}:{'0' * 32}:{'0' * 64}") is None


def users_file(path: Path) -> str:
    old = made_user("correct horse", HashCost(14, 8, 1))
    path.write_text(
        f"# people\n{OLD.format(salt=old.salt, hash=old.hash)}\n{user_line('bob', 'battery staple', CHEAP)}\n"
    )
    path.chmod(0o600)
    return str(path)


def test_old_hashes_are_right_and_are_made_again(tmp_path: Path) -> None:
    file = users_file(tmp_path / "users.txt")
    better = HashCost(15, 8, 1)

    def opened() -> Access:
        return Access(
            users=read_users(file), cost=better, upgraded=lambda name, old, new: rewrite_user(file, name, old, new)
        )

    before = Path(file).read_text().splitlines()
    assert opened().log_in("ada", "wrong horse") is None
    assert Path(file).read_text().splitlines() == before
    access = opened()
    assert access.log_in("ada", "correct horse")
    after = Path(file).read_text().splitlines()
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1].startswith("ada:scrypt:15,8,1:")
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert access.log_in("ada", "correct horse")
    assert opened().log_in("ada", "correct horse")
    assert opened().log_in("ada", "wrong horse") is None
    assert Path(file).read_text().splitlines() == after, "once is enough"


def test_a_password_that_was_changed_meanwhile_stays_changed(tmp_path: Path) -> None:
    file = users_file(tmp_path / "users.txt")
    before = read_users(file)["ada"]
    Path(file).write_text(user_line("ada", "another horse", CHEAP) + "\n")
    rewrite_user(file, "ada", before, made_user("correct horse", CHEAP))
    assert Access(users=read_users(file), cost=CHEAP).log_in("ada", "another horse")
    os.unlink(file)
    rewrite_user(file, "ada", before, before)  # nothing to write to
    assert not Path(file).exists()


def test_hashes_do_not_take_all_memory(store: Any, serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 128 MB, so few are made at once, and everyone else is answered meanwhile."""
    working, most, lock = [0], [0], threading.Lock()

    def slow(*_: object) -> str:
        with lock:
            working[0] += 1
            most[0] = max(most[0], working[0])
        time.sleep(0.02)
        with lock:
            working[0] -= 1
        return "wrong"

    with serving(store, Access(users={"ada": User("0" * 32, "x", CHEAP)}, cost=CHEAP)) as site:
        monkeypatch.setattr("karat.web.access._slow_hash", slow)
        at_once(30, lambda i: site.ask("POST", "/login", f"name=u{i}&password=x".encode(), FORM))
    assert most[0] == 2


def test_a_labeller_gets_no_hints(store: Any, desk: Desk, serving: Any) -> None:
    """From no page and no endpoint, before the first label and after it; whoever does not label sees all."""
    token = {"Authorization": "Bearer " + "t" * 20}
    with serving(store, access_of("ada", "bob", token="t" * 20), desk) as site:
        cookies = {}
        for name in ("ada", "bob"):
            answer = site.ask("POST", "/login", f"name={name}&password=correct+horse".encode(), FORM)
            cookies[name] = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

        def give(name: str, grade: int) -> dict[str, str]:
            pair: dict[str, str] = site.get("/pools/pool/next", cookies[name]).json["pair"]
            body = {"query_id": pair["query_id"], "chunk_id": pair["chunk_id"], "grade": grade}
            assert site.write("POST", "/pools/pool/labels", body, **cookies[name]).status == 200
            return pair

        for _ in range(10):
            give("bob", 2)
        for graded in range(11):
            closed = graded < 10
            for path in ("labels", "settled", "calibration") if graded in (0, 1, 10) else ():
                assert site.get(f"/pools/pool/{path}", cookies["ada"]).status == (403 if closed else 200), path
                assert site.get(f"/pools/pool/{path}", cookies["bob"]).status == 200
                assert site.get(f"/pools/pool/{path}", token).status == 200
            seen = site.get("/pools/pool/agreement", cookies["ada"])
            assert (seen.status, len(seen.json["conflicts"])) == (200, min(graded, 5))
            if closed:
                give("ada", 0 if graded < 5 else 2)
