"""What a history promises, whatever it is kept in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError, KaratError, UnknownName
from karat.history.location import open_store
from karat.history.rows import Filter, Judgement
from karat.history.sorting import Direction, Sort
from karat.history.store import Store
from karat.results.comparison.sides import SETTINGS
from karat.results.kept_run import KeptRun, read_kept

Maker = Callable[..., KeptRun]


def day(number: int) -> str:
    return f"2025-06-{number:02}T08:00:00.000000Z"


@pytest.fixture
def filled(store: Store, made_run: Maker) -> list[str]:
    """Ids of six runs on six days, the oldest first."""
    systems, branches = ("bm25", "hybrid"), ("main", "main", "feature/x")
    return [
        store.save(
            made_run(i, system=systems[i % 2], dataset=("helpdesk", "legal")[i // 4]),
            branch=branches[i % 3],
            author=("ada", None)[i % 2],
            tags=["nightly"] if i in (1, 4) else [],
            saved_at=day(i + 1),
        ).id
        for i in range(6)
    ]


def test_a_run_comes_back_as_it_was(store: Store, made_run: Maker) -> None:
    run = made_run(1)
    saved = store.save(run, branch="main")
    again = store.kept(saved.id)
    assert again.saved() == run.saved()
    assert again.id == run.id == saved.id
    assert again.rows.equals(run.rows)
    assert store.document(saved.id) == run.document
    assert again.cases()[0]["hits"] == [{"rank": 1, "id": "d9#1"}]


def test_the_same_run_is_one_run(store: Store, made_run: Maker) -> None:
    first = store.save(made_run(1), tags=["a"], saved_at=day(1))
    second = store.save(made_run(1), tags=["b"], saved_at=day(2))
    assert (first.new, second.new) == (True, False)
    [row] = store.runs().rows
    assert (row.id, row.saved_at, row.tags) == (first.id, day(1), ["a", "b"])
    assert store.save(made_run(2)).id != first.id


def test_where_the_files_lay_does_not_make_another_run(made_run: Maker) -> None:
    import msgspec

    run = made_run(1)
    moved = msgspec.structs.replace(
        run.document.result, run="elsewhere.jsonl", gold="elsewhere/gold.jsonl", karat="9.9"
    )
    other = KeptRun.of(msgspec.structs.replace(run.document, result=moved), run.rows)
    assert other.id == run.id
    changed = KeptRun(run.text, run.rows.with_columns(first_rank=run.rows["first_rank"].reverse()))
    assert changed.id != run.id


def test_what_the_gold_names_is_told_by_its_hash(made_run: Maker) -> None:
    """So a run that an older Karat saved, which did not write it down, stays the same run."""
    import msgspec

    run = made_run(1)
    result = msgspec.structs.replace(run.document.result, wrong_hits_judged=True)
    told = KeptRun.of(msgspec.structs.replace(run.document, result=result), run.rows)
    assert told.saved().wrong_hits_judged is True
    plain = msgspec.json.decode(run.text)
    del plain["result"]["wrong_hits_judged"]
    assert told.id == KeptRun(msgspec.json.encode(plain), run.rows).id == run.id


def test_a_field_that_a_later_karat_adds_leaves_the_id(made_run: Maker) -> None:
    """What is read from a file is the run that was written, whatever the structs have gained since."""
    import json

    run = made_run(1)
    older = json.loads(run.text)
    del older["result"]["lacking"], older["cases"]  # as if these fields had not existed yet
    kept = KeptRun(json.dumps(older).encode(), run.rows)
    again = read_kept(kept.to_parquet(), "x")
    assert again.document.result.lacking == {}
    assert again.id == kept.id != run.id


def test_provenance_stands_in_the_list(store: Store, made_run: Maker) -> None:
    store.save(made_run(1, code_version="abc123", code_date="2025-06-01"), branch="main")
    [row] = store.runs().rows
    head = row.head
    assert (head.code_version, head.code_date, head.branch) == ("abc123", "2025-06-01", "main")
    assert (head.index_version, head.chunker, head.seed, head.queries) == ("v7", {"tokens": 200}, 7, 20)
    dataset = head.dataset
    assert (dataset.name, dataset.version, dataset.hash) == ("helpdesk", "v3", "abcd")
    assert dataset.as_of_range == ["2025-01-01", "2025-06-01"]
    assert len(row.measures["recall@5"].definition) == 8


def test_a_metric_that_is_set_in_another_way_has_another_fingerprint(store: Store, made_run: Maker) -> None:
    import msgspec

    run = made_run(1)
    result = run.document.result
    changes: list[dict[str, Any]] = [{"definitions": {"recall@5": 2}}, {"provenance": {"hits": "raw"}}]
    changes += [{"settings": {**result.settings, setting: "other"}} for setting in SETTINGS]  # of any comparison
    for change in changes:
        changed = msgspec.structs.replace(run.document, result=msgspec.structs.replace(result, **change))
        store.save(KeptRun.of(changed, run.rows))
    store.save(run)
    found = {row.measures["recall@5"].definition for row in store.runs().rows}
    assert len(found) == 1 + len(changes)


def test_pages_hold_every_run_once_the_newest_first(store: Store, filled: list[str]) -> None:
    seen, after = [], None
    for size in (2, 3, 1):
        page = store.runs(limit=size, after=after)
        seen += [row.id for row in page.rows]
        after = page.after
    assert seen == filled[::-1] == store.ids()
    assert after is None
    assert store.count() == 6


def test_a_run_saved_meanwhile_shifts_no_page(store: Store, filled: list[str], made_run: Maker) -> None:
    first = store.runs(limit=3)
    store.save(made_run(99), saved_at=day(20))
    second = store.runs(limit=3, after=first.after)
    assert [row.id for row in (*first.rows, *second.rows)] == filled[::-1]


def test_runs_of_the_same_moment_are_all_listed(store: Store, made_run: Maker) -> None:
    ids = {store.save(made_run(i), saved_at=day(1)).id for i in range(5)}
    seen, after = [], None
    while True:
        page = store.runs(limit=2, after=after)
        seen += [row.id for row in page.rows]
        after = page.after
        if after is None:
            break
    assert len(seen) == 5
    assert set(seen) == ids


@pytest.mark.parametrize(
    ("only", "expected"),
    [
        (Filter(system="bm25"), [4, 2, 0]),
        (Filter(branch="feature/x"), [5, 2]),
        (Filter(tag="nightly"), [4, 1]),
        (Filter(dataset="legal"), [5, 4]),
        (Filter(author="ada", branch="main"), [4, 0]),
        (Filter(since=day(3), until=day(5)), [3, 2]),
        (Filter(system="bm25", tag="nightly"), [4]),
        (Filter(system="' OR 1=1 --"), []),
    ],
)
def test_filters(store: Store, filled: list[str], only: Filter, expected: list[int]) -> None:
    assert [row.id for row in store.runs(only).rows] == [filled[i] for i in expected]


def listed(store: Store, sort: Sort, only: Filter | None = None) -> list[str]:
    """All runs of a list that is read two by two."""
    seen, after = list[str](), None
    while True:
        page = store.runs(only, limit=2, after=after, sort=sort)
        seen += [row.id for row in page.rows]
        after = page.after
        if after is None:
            return seen


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("by", ["saved", "system", "branch", "dataset", "author", "gates", "recall@5", "mrr", "none"])
def test_a_list_by_any_column_holds_every_run_once(store: Store, made_run: Maker, by: str, order: Direction) -> None:
    """Also runs of the same moment, with the same value or with none."""
    for i in range(9):
        run = made_run(i, system=f"s{i % 3}", metric="mrr" if i in (3, 7) else "recall@5", dataset=f"d{i % 2}")
        said = [] if i % 2 else [Judgement(outcome="pass" if i % 4 else "fail", document="{}", judged_at=day(1))]
        branch, author = (None, "main", "süd")[i % 3], ("ada", None)[i % 2]
        store.save(run, branch=branch, author=author, saved_at=day(1 + i // 2), judgements=said)
    rows = {row.id: row for row in store.runs().rows}

    def value(run_id: str) -> Any:
        row = rows[run_id]
        known = {"saved": row.saved_at, "gates": row.outcome, "dataset": row.head.dataset.name}
        if by in known:
            return known[by]
        measure = row.measures.get(by)
        return measure.mean if measure else getattr(row.head, by, None)

    expected = store.ids()  # the newest first
    if by == "saved":
        expected = expected if order == "desc" else expected[::-1]
    else:
        has = [run for run in expected if value(run) is not None]
        has.sort(key=value, reverse=order == "desc")
        expected = [*has, *(run for run in expected if value(run) is None)]
    assert listed(store, Sort(by, order)) == expected
    few = Filter(system="s1")
    assert listed(store, Sort(by, order), few) == [run for run in expected if rows[run].head.system == "s1"]


@pytest.mark.parametrize("sort", [Sort("recall@5"), Sort("system"), Sort()])
def test_a_cursor_of_another_list_is_refused(store: Store, filled: list[str], sort: Sort) -> None:
    others = [store.runs(limit=2, sort=other).after for other in (Sort("recall@5"), Sort("system"), Sort())]
    others = [f"{other}" for other in others if other != store.runs(limit=2, sort=sort).after]
    assert len(others) == 2
    for cursor in [*others, f"{others[0]}~1e999", f"{others[0]}~x"]:
        with refused("bad-value", ConfigError):
            store.runs(after=cursor, sort=sort)


def test_the_newest_run_of_each_dataset_system_and_branch(store: Store, made_run: Maker) -> None:
    ids = {}
    for i, (system, branch) in enumerate([("a", "main"), ("b", "main"), ("a", "main"), ("a", None), ("a", "fix")]):
        ids[i] = store.save(made_run(i, system=system), branch=branch, saved_at=f"2025-06-0{i + 1}T08:00:00.000000Z").id
    rows, total = store.newest()
    assert [row.id for row in rows] == [ids[4], ids[3], ids[2], ids[1]]
    assert (total, [row.id for row in store.newest(limit=1)[0]]) == (4, [ids[4]])
    assert [row.id for row in store.newest(Filter(branch="main"))[0]] == [ids[2], ids[1]]
    assert store.newest(Filter(branch="\0")) == ([], 0)


def test_what_can_be_filtered_by(store: Store, filled: list[str]) -> None:
    found = store.choices()
    assert (found.systems, found.branches) == (["bm25", "hybrid"], ["feature/x", "main"])
    assert (found.tags, found.datasets) == (["nightly"], ["helpdesk", "legal"])
    assert (found.authors, found.metrics) == (["ada"], ["recall@5"])


def test_a_trend_follows_the_default_branch_or_the_one_with_most_runs(store: Store, made_run: Maker) -> None:
    assert store.main_branch() is None
    branches = ["feature/x", "feature/x", "feature/y", None, "feature/y", "feature/y"]
    for number, branch in enumerate(branches):
        store.save(made_run(number, system="hybrid"), branch=branch, saved_at=f"2025-06-0{number + 1}T08:00:00.000000Z")
    assert store.main_branch() == "feature/y"
    assert store.main_branch(Filter(until="2025-06-03")) is None  # all on one branch
    assert store.main_branch(Filter(until="2025-06-04")) == "feature/x"
    assert store.main_branch(Filter(system="nobody")) is None
    store.save(made_run(7, system="hybrid"), branch="master")
    assert store.main_branch() == "master"
    for number in range(8, 12):
        store.save(made_run(number, system="bm25"), branch=None)
    assert store.main_branch(Filter(system="bm25")) is None  # made outside of any repository: nothing to follow
    store.save(made_run(12, system="bm25"), branch="main")
    assert store.main_branch(Filter(system="bm25")) == "main"
    assert store.main_branch() == "main"


def test_a_trend_has_intervals_and_pins_the_oldest_first(store: Store, filled: list[str]) -> None:
    store.pin(filled[0], "release", "anchor")
    points = store.trend("recall@5")
    assert [p.run_id for p in points] == filled
    first = points[0]
    assert first.measure.low is not None
    assert first.measure.mean is not None
    assert first.measure.low < first.measure.mean
    assert [pin.name for pin in first.pins] == ["release"]
    assert [p.run_id for p in store.trend("recall@5", limit=2)] == filled[-2:]
    assert [p.run_id for p in store.trend("recall@5", Filter(branch="feature/x"))] == [filled[2], filled[5]]
    assert store.trend("mrr") == []


def test_a_trend_passes_over_runs_without_the_metric(store: Store, made_run: Maker) -> None:
    for i in range(8):
        store.save(made_run(i, metric="mrr" if i % 4 else "recall@5"), saved_at=day(i + 1))
    assert [p.saved_at for p in store.trend("recall@5", limit=2)] == [day(1), day(5)]


def test_recent_means_are_those_of_trends(store: Store, filled: list[str], made_run: Maker) -> None:
    store.save(made_run(90, metrics=("mrr",)), branch="main")
    asked = [
        ("recall@5", Filter()),
        ("mrr", Filter(branch="main")),
        ("recall@5", Filter(system="nobody")),
        ("x\0", Filter()),
    ]
    for limit in (2, 100):
        trends = [[point.measure.mean for point in store.trend(name, only, limit=limit)] for name, only in asked[:3]]
        assert store.recent_means(asked, limit) == [*trends, []]
    assert store.recent_means([], 3) == []


def test_branches_of_several_filters_are_those_of_each(store: Store, filled: list[str]) -> None:
    several = [
        Filter(),
        Filter(system="nobody"),
        Filter(branch="main"),
        *(Filter(tag=tag) for tag in store.choices().tags),
    ]
    assert store.main_branches(several) == [store.main_branch(only) for only in several]


def test_the_version_of_a_run_follows_a_name_that_looks_like_its_id(store: Store, filled: list[str]) -> None:
    """Someone may give a run the id of another as a tag; it is found by the tag."""
    one, other = filled[0], filled[1]
    own, others = store.run_version(one), store.run_version(other)
    assert own != others
    store.tag(other, [one])
    assert store.find(one) == other
    assert store.run_version(one) == store.run_version(other) != others


def test_a_snapshot_does_not_see_what_is_written_meanwhile(place: str, made_run: Maker) -> None:
    with open_store(place, create=True) as store, open_store(place) as writer:
        store.save(made_run(1))
        with store.snapshot():
            before = store.count()
            writer.save(made_run(2))
            assert store.count() == (before if store.postgres else before + 1)  # a folder has no need for it
        assert store.count() == before + 1


def test_a_trend_of_a_segment(store: Store, filled: list[str]) -> None:
    points = store.trend("recall@5", segment=("language", "de"))
    assert [p.queries for p in points] == [10] * 6
    assert store.trend("recall@5", segment=("language", "fr")) == []
    assert store.segments(filled[0]) == {"language": ["de", "en"]}


def test_names_lead_to_runs(store: Store, filled: list[str]) -> None:
    store.pin(filled[0], "release", "anchor")
    assert store.find("latest") == filled[5]
    assert store.find("nightly") == filled[4]
    assert store.find("release") == filled[0]
    assert store.find(filled[3]) == store.find(filled[3][:12]) == filled[3]


def test_names_that_lead_nowhere(store: Store, made_run: Maker) -> None:
    store.pin(store.save(made_run(1)).id, "release", "anchor")
    with refused("unknown-run", UnknownName, name="relase") as error:
        store.find("relase")
    assert "release" in error.value.hint
    with pytest.raises(UnknownName):
        store.find("abc")  # too short for an id


def test_a_beginning_that_fits_several(store: Store, made_run: Maker) -> None:
    with store.transaction(write=True) as connection:
        for end in ("00", "11"):
            values = ("beef" + end * 30, day(1), "s", "d", "{}")
            connection.execute("INSERT INTO runs (id, saved_at, system, dataset, head) VALUES (?, ?, ?, ?, ?)", values)
    with refused("ambiguous-run", ConfigError) as error:
        store.find("beef")
    assert "beef0000" in error.value.what
    assert error.value.hint
    assert store.find("beef11").startswith("beef11")


def test_tags_come_and_go(store: Store, filled: list[str]) -> None:
    store.tag(filled[0], ["v1.2", "v1.2", "good"])
    assert store.row(filled[0]).tags == ["good", "v1.2"]
    store.untag(filled[0], ["good"])
    assert store.row(filled[0]).tags == ["v1.2"]
    with refused("unknown-tag", ConfigError):
        store.untag(filled[0], ["good"])


@pytest.mark.parametrize("name", ["", "latest", "a b", "-x", "x" * 101, "a;b", "ü"])
def test_names_that_cannot_be_used(store: Store, filled: list[str], name: str) -> None:
    with refused("bad-name", ConfigError):
        store.tag(filled[0], [name])
    with refused("bad-name", ConfigError):
        store.pin(filled[0], name, "baseline")


def test_a_pin_moves_but_never_changes_its_kind(store: Store, filled: list[str]) -> None:
    assert store.pin(filled[0], "main", "baseline") is None
    before = store.pin(filled[1], "main", "baseline")
    assert before is not None
    assert before.run_id == filled[0]
    assert [(pin.name, pin.kind, pin.run_id) for pin in store.pins()] == [("main", "baseline", filled[1])]
    with refused("pinned-already", ConfigError):
        store.pin(filled[2], "main", "anchor")
    store.unpin("main")
    assert store.pins() == []
    with refused("unknown-pin", UnknownName, name="main"):
        store.unpin("main")


def test_delete_takes_all_of_a_run_and_never_a_pinned_one(store: Store, filled: list[str], place: str) -> None:
    store.pin(filled[1], "main", "baseline")
    with refused("pinned-run", ConfigError):
        store.delete(filled[1])
    store.delete(filled[4])
    assert store.count() == 5
    assert store.choices().tags == ["nightly"]
    for gone in (store.row, store.kept, store.document):
        with refused("unknown-run", UnknownName):
            gone(filled[4])
    assert len(store.trend("recall@5")) == 5


def test_a_deleted_run_can_be_saved_again(store: Store, made_run: Maker) -> None:
    run = made_run(1)
    store.save(run)
    store.delete(run.id)
    assert store.save(run).new
    assert store.kept(run.id).id == run.id


def test_what_gates_said_stays_with_the_run(store: Store, made_run: Maker) -> None:
    said = [
        Judgement(outcome="fail", document='{"n": 1}', judged_at=day(1)),
        Judgement(outcome="pass", document='{"n": 2}', judged_at=day(2)),
    ]
    saved = store.save(made_run(1), judgements=said[:1])
    store.save(made_run(1), judgements=said)
    assert [one.outcome for one in store.judgements(saved.id)] == ["pass", "fail"]
    assert store.row(saved.id).outcome == "pass"
    other = store.save(made_run(2)).id
    assert store.judged([other, saved.id]) == {saved.id}
    assert store.judged([]) == set()
    store.delete(saved.id)
    assert store.judgements(saved.id) == []


def test_a_place_in_a_list_that_is_none(store: Store) -> None:
    with refused("bad-value", ConfigError):
        store.runs(after="nonsense")


def test_it_is_all_there_when_opened_again(place: str, made_run: Maker) -> None:
    with open_store(place, create=True) as first:
        saved = first.save(made_run(1), tags=["x"])
    with open_store(place) as second:
        assert second.row(saved.id).tags == ["x"]
        assert second.kept(saved.id).id == saved.id


def test_one_store_for_several_threads(store: Store, made_run: Maker) -> None:
    from concurrent.futures import ThreadPoolExecutor

    runs = [made_run(i) for i in range(12)]
    with ThreadPoolExecutor(6) as pool:
        saved = list(pool.map(store.save, runs))
        rows = list(pool.map(store.row, [one.id for one in saved]))
    assert len({row.id for row in rows}) == store.count() == 12


def test_errors_are_karats_own(store: Store) -> None:
    with pytest.raises(KaratError), store.transaction() as connection:
        connection.execute("SELECT nothing FROM nowhere")
    assert store.count() == 0  # and it goes on
