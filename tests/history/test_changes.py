"""Titles, notes, deleting and restoring, the audit log and retention; in both kinds of history."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from refusals import refused

from karat.errors import ConfigError, InputError
from karat.history.archive import import_runs, pack
from karat.history.audit import WHO, AuditFilter
from karat.history.queries import query_over_time
from karat.history.retention import RetentionRule, checked_rule, clean, clean_daily, preview, read_rule, save_rule
from karat.history.rows import Filter, Judgement, written
from karat.history.store import NotThere, Store
from karat.results.kept_run import KeptRun

Maker = Callable[..., KeptRun]


def ago(days: float) -> str:
    return written(datetime.now(UTC) - timedelta(days=days))


@pytest.fixture
def three(store: Store, made_run: Maker) -> list[str]:
    """Ids of three runs, the oldest first."""
    return [
        store.save(made_run(i, system="hybrid"), branch="main", tags=[f"n{i}"], saved_at=ago(10 - i)).id
        for i in range(3)
    ]


def age_deleted(store: Store, run_id: str, days: float) -> None:
    """As if the run had been deleted some days ago."""
    store.write(lambda c: c.execute("UPDATE runs SET deleted_at = ? WHERE id = ?", (ago(days), run_id)))


def said(store: Store, **only: str) -> list[tuple[str, str | None, str | None]]:
    return [(e.action, e.target, e.detail) for e in store.audit(AuditFilter(**only)).entries][::-1]


def test_titles_and_notes(store: Store, three: list[str]) -> None:
    before = store.run_version(three[0])
    store.set_title(three[0], "  Reranker <b>first</b> try ")
    store.set_note(three[0], "one\r\ntwo\n")
    row = store.row(three[0])
    assert (row.title, row.note) == ("Reranker <b>first</b> try", "one\ntwo")
    assert [r.title for r in store.runs().rows] == [None, None, row.title]
    assert store.run_version(three[0]) != before, "cached pages are made again"
    store.set_title(three[0], " ")
    store.set_note(three[0], None)
    row = store.row(three[0])
    assert (row.title, row.note) == (None, None)


@pytest.mark.parametrize("text", ["x" * 5_001, "\0", "\x1b[31m", "\ud800", "a\u202eb"])
def test_what_cannot_be_a_title_or_a_note(store: Store, three: list[str], text: str) -> None:
    with refused("bad-value", InputError):
        store.set_title(three[0], text)
    with refused("bad-value", InputError):
        store.set_note(three[0], text)
    with refused("bad-value", InputError):
        store.set_title(three[0], "two\nlines")
    assert store.audit().entries == []


def test_a_deleted_run_is_nowhere(store: Store, made_run: Maker) -> None:
    judged = [Judgement(outcome="pass", document='{"schema": "karat/gates/1", "outcome": "pass"}')]
    for i in range(2):
        options = {"branch": ("main", "fix")[i], "tags": [f"n{i}"], "saved_at": ago(9 - i), "judgements": judged}
        store.save(made_run(i, system=("bm25", "hybrid")[i], dataset=("a", "b")[i]), **options)  # type: ignore[arg-type]
    kept, lost = store.find("n0"), store.find("n1")
    content = pack(store, [lost])
    assert store.delete(lost)
    assert not store.delete(lost), "once is enough"
    assert [row.id for row in store.runs().rows] == store.ids() == [kept]
    assert [row.id for row in store.newest()[0]] == [kept]
    assert (store.count(), store.find("latest")) == (1, kept)
    assert [point.run_id for point in store.trend("recall@5")] == [kept]
    choices = store.choices()
    assert (choices.systems, choices.branches, choices.tags, choices.datasets) == (["bm25"], ["main"], ["n0"], ["a"])
    assert store.main_branch() is None
    assert [row.run_id for row in query_over_time(store, "q1").points] == [kept]
    assert store.runs(Filter(tag="n1")).rows == []
    assert (store.judgements(lost), store.segments(lost)) == ([], {})
    for name in (lost, lost[:12], "n1"):
        with pytest.raises(NotThere):
            store.find(name)
    changes = (lambda: store.tag(lost, ["x"]), lambda: store.untag(lost, ["n1"]), lambda: store.set_note(lost, "x"))
    for look in (store.row, store.document, store.kept, store.source, lambda run: store.pin(run, "x", "anchor")):
        with refused("unknown-run", NotThere):
            look(lost)
    for change in changes:
        with refused("unknown-run", NotThere):
            change()
    [found], total = store.deleted()
    assert (total, found.run.id, found.run.tags, found.removed_after[:10]) == (1, lost, ["n1"], ago(-30)[:10])
    store.restore(store.find_deleted(lost[:8]))
    row = store.row(lost)
    assert (row.tags, row.outcome, store.find("latest")) == (["n1"], "pass", lost)
    assert store.kept(lost).id == lost
    assert store.deleted() == ([], 0)
    with pytest.raises(NotThere):
        store.find_deleted(lost)
    store.delete(lost)
    assert [saved.new for saved in import_runs(store, content, "x")] == [True]
    assert store.row(lost).tags == ["n1"]


def test_an_export_has_title_and_note(store: Store, three: list[str]) -> None:
    store.set_title(three[0], "first")
    store.set_note(three[0], "a\nb")
    content = pack(store, three[:1])
    store.set_title(three[0], "second")
    import_runs(store, content, "x")
    assert store.row(three[0]).title == "second", "an import changes no run"
    store.delete(three[0])
    age_deleted(store, three[0], 31)
    clean(store)
    import_runs(store, content, "x")
    row = store.row(three[0])
    assert (row.title, row.note) == ("first", "a\nb")


def test_a_pinned_run_stays(store: Store, three: list[str]) -> None:
    store.pin(three[0], "main", "baseline")
    with refused("pinned-run", ConfigError):
        store.delete(three[0])
    assert store.count() == 3


def test_after_thirty_days_it_is_gone(store: Store, three: list[str], made_run: Maker, place: str) -> None:
    for run_id in three[:2]:
        store.delete(run_id)
    age_deleted(store, three[0], 29.9)
    age_deleted(store, three[1], 30.1)
    files = sorted(path.stem for path in (Path(place) / "runs").iterdir()) if "://" not in place else sorted(three)
    assert files == sorted(three)
    assert clean(store).removed == 1
    assert [run.run.id for run in store.deleted()[0]] == [three[0]]
    if "://" not in place:
        assert sorted(path.stem for path in (Path(place) / "runs").iterdir()) == sorted([three[0], three[2]])
    with pytest.raises(NotThere):
        store.restore(three[1])
    assert store.save(made_run(1, system="hybrid")).new
    assert store.row(three[1]).tags == [], "it is a new run"
    assert ("remove", three[1], "deleted more than 30 days ago") in said(store, who="retention")


def test_every_change_is_in_the_audit_log(store: Store, three: list[str]) -> None:
    run = three[0]
    store.tag(run, ["a", "n0"])
    store.tag(run, ["a"])  # nothing changes
    store.untag(run, ["a"])
    store.pin(three[1], "main", "baseline")
    store.pin(run, "main", "baseline")
    store.unpin("main")
    store.set_title(run, "first")
    store.set_title(run, "first")
    store.set_note(run, "the password is swordfish")
    store.delete(run)
    store.restore(run)
    wanted = [
        ("tag", run, "a"),
        ("untag", run, "a"),
        ("pin", three[1], "baseline main"),
        ("pin", run, f"baseline main, was {three[1][:10]}"),
        ("unpin", run, "baseline main"),
        ("rename", run, "first"),
        ("note", run, "25 characters"),
        ("delete", run, None),
        ("restore", run, None),
    ]
    assert said(store) == wanted
    assert {entry.who for entry in store.audit().entries} == {f"cli:{getpass.getuser()}"}
    assert store.audit_actions() == sorted({action for action, _, _ in wanted})


def test_a_change_that_fails_is_not_in_the_log(store: Store, three: list[str]) -> None:
    store.pin(three[0], "main", "baseline")
    before = said(store)
    for attempt in (
        lambda: store.pin(three[0], "main", "anchor"),
        lambda: store.delete(three[0]),
        lambda: store.untag(three[0], ["n0", "nothing"]),
        lambda: store.unpin("nothing"),
    ):
        with pytest.raises(ConfigError):
            attempt()
    assert said(store) == before
    assert store.row(three[0]).tags == ["n0"]


def test_pages_and_filters_of_the_log(store: Store, three: list[str]) -> None:
    token = WHO.set("ada")
    try:
        for number in range(7):
            store.tag(three[number % 3], [f"t{number}"])
    finally:
        WHO.reset(token)
    store.log("log-in")
    seen, after = [], None
    while True:
        page = store.audit(limit=3, after=after)
        seen += page.entries
        if (after := page.after) is None:
            break
    assert len({entry.id for entry in seen}) == 8
    assert [entry.at for entry in seen] == sorted((entry.at for entry in seen), reverse=True)
    assert len(said(store, who="ada")) == 7
    assert [detail for _, _, detail in said(store, run=three[1][:12])] == ["t1", "t4"]
    assert [target for _, target, _ in said(store, action="log-in")] == [None]
    assert said(store, who="' OR 1=1 --") == said(store, who="\0") == []
    for bad in ("nonsense", "x~y"):
        with refused("bad-value", ConfigError):
            store.audit(after=bad)
    with refused("bad-value", ConfigError):
        said(store, run="' OR")


def test_details_are_short_and_without_secrets(store: Store) -> None:
    store.log("x", "y" * 10_000)
    store.log("x", "postgresql://me:swordfish99@db/karat")
    assert len(said(store)[0][2] or "") == 300
    assert "swordfish99" not in str(said(store))


def test_a_rule_keeps_what_it_says(store: Store, made_run: Maker) -> None:
    """The last two of each dataset, system and branch, those younger than 5 days, and what people marked."""
    ids = {}
    for i in range(10):
        branch = "fix" if i == 0 else "main"
        ids[i] = store.save(made_run(i, system="hybrid"), branch=branch, saved_at=ago(20 - i)).id
    store.pin(ids[1], "main", "baseline")
    store.tag(ids[2], ["v1"])
    store.delete(ids[3])
    store.restore(ids[3])
    assert read_rule(store) == RetentionRule()
    assert preview(store, RetentionRule()).deletes == clean(store).deleted == 0
    rule = RetentionRule(keep_last=2, days=14)
    found = preview(store, rule)
    # 0 is the only one on its branch, 1 to 3 are marked, 7 to 9 are young (and 8 and 9 the last two)
    assert (found.runs, found.deletes, [row.id for row in found.oldest]) == (10, 3, [ids[4], ids[5], ids[6]])
    assert preview(store, RetentionRule(keep_last=2)).deletes == 4
    assert preview(store, RetentionRule(days=14)).deletes == 4
    assert store.count() == 10, "a preview changes nothing"
    save_rule(store, rule)
    save_rule(store, rule)
    assert read_rule(store) == rule
    assert [detail for _, _, detail in said(store, action="retention")] == [f"keep {rule}"]
    assert clean(store).deleted == 3
    assert sorted(target or "" for action, target, _ in said(store, who="retention")) == sorted(
        ids[i] for i in (4, 5, 6)
    )
    assert clean(store).deleted == 0
    store.restore(ids[4])
    assert clean(store).deleted == 0, "what a person restored stays"
    assert store.count() == 8


@pytest.mark.parametrize("values", [(0, None), (None, 0), (-1, 5), (10**9, None), (None, 40_000)])
def test_rules_that_are_none(values: tuple[int | None, int | None]) -> None:
    with refused("bad-value", ConfigError):
        checked_rule(*values)


def test_once_a_day(store: Store, made_run: Maker) -> None:
    store.save(made_run(1), saved_at=ago(10))
    save_rule(store, RetentionRule(days=5))
    first = clean_daily(store)
    assert first is not None
    assert (first.deleted, clean_daily(store)) == (1, None)
    store.write(lambda c: c.execute("UPDATE settings SET content = ? WHERE name = 'cleaned'", (ago(1.01),)))
    assert clean_daily(store) is not None


def test_many_runs_at_once(store: Store, made_run: Maker) -> None:
    """More than fit in one statement."""
    run_id = store.save(made_run(0), saved_at=ago(9)).id

    def copy(connection: object) -> None:
        for i in range(620):
            values = (f"{i:064x}", ago(10), "s", "d", run_id)
            connection.execute(  # type: ignore[attr-defined]
                "INSERT INTO runs (id, saved_at, system, dataset, head) SELECT ?, ?, ?, ?, head FROM runs WHERE id = ?",
                values,
            )

    store.write(copy)
    save_rule(store, RetentionRule(days=5))
    assert clean(store).deleted == 621
    assert store.count() == 0
    store.write(lambda c: c.execute("UPDATE runs SET deleted_at = ?", (ago(31),)))
    assert clean(store).removed == 621
    assert store.deleted() == ([], 0)
