"""The tables of a history by version, and the statements to write and read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from karat.errors import ConfigError, is_whole
from karat.history.rows import (
    ALL,
    Filter,
    Judgement,
    Measure,
    Measures,
    Pin,
    RunHead,
    RunRow,
    TrendPoint,
    dataset_name,
    now,
)

_CURSOR = re.compile(r"(?P<time>[0-9T:.Z-]{1,40})~(?P<id>[0-9a-f]{64})")
_METRICS: msgspec.json.Decoder[dict[str, Measure]] = msgspec.json.Decoder(dict[str, Measure])
DESCRIBED = "id, saved_at, head, title, note"  # columns of a run in a list
LIVE = "deleted_at IS NULL"  # condition for runs that were not deleted
_AT_ONCE = 500  # ids in a statement
_HEAD: msgspec.json.Decoder[RunHead] = msgspec.json.Decoder(RunHead)


class SchemaVersion(NamedTuple):
    """Statements that migrate from the previous version."""

    shared: tuple[str, ...]
    postgres: tuple[str, ...] = ()
    sqlite: tuple[str, ...] = ()


VERSIONS = (
    SchemaVersion(
        shared=(
            "CREATE TABLE runs (id TEXT PRIMARY KEY, saved_at TEXT NOT NULL, system TEXT NOT NULL, branch TEXT, "
            "dataset TEXT NOT NULL, head TEXT NOT NULL)",
            "CREATE INDEX runs_by_time ON runs (saved_at, id)",
            "CREATE INDEX runs_by_system ON runs (system, saved_at, id)",
            "CREATE INDEX runs_by_branch ON runs (branch, saved_at, id)",
            "CREATE INDEX runs_by_dataset ON runs (dataset, saved_at, id)",
            # One row per segment with all metrics: one row per metric would be ten million rows for ten thousand runs.
            "CREATE TABLE measures (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, segment TEXT NOT NULL, "
            "value TEXT NOT NULL, queries INTEGER NOT NULL, metrics TEXT NOT NULL, "
            "PRIMARY KEY (run_id, segment, value))",
            "CREATE TABLE tags (tag TEXT NOT NULL, run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, "
            "PRIMARY KEY (tag, run_id))",
            "CREATE INDEX tags_by_run ON tags (run_id)",
            "CREATE TABLE pins (name TEXT PRIMARY KEY, kind TEXT NOT NULL, run_id TEXT NOT NULL REFERENCES runs, "
            "pinned_at TEXT NOT NULL)",
            "CREATE INDEX pins_by_run ON pins (run_id)",
        ),
        postgres=(
            "CREATE TABLE files (run_id TEXT PRIMARY KEY REFERENCES runs ON DELETE CASCADE, document BYTEA NOT NULL, "
            "content BYTEA NOT NULL)",
            # Parquet is already compressed.
            "ALTER TABLE files ALTER COLUMN content SET STORAGE EXTERNAL",
        ),
    ),
    # Gate verdicts: they also depend on the criteria and the baseline, so a run may have several.
    SchemaVersion(
        shared=(
            "CREATE TABLE verdicts (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, digest TEXT NOT NULL, "
            "judged_at TEXT NOT NULL, outcome TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (run_id, digest))",
        ),
    ),
    # The desk (docs/decisions/140-the-desk.md).
    SchemaVersion(
        shared=(
            "ALTER TABLE runs ADD COLUMN author TEXT",
            "ALTER TABLE runs ADD COLUMN title TEXT",
            "ALTER TABLE runs ADD COLUMN note TEXT",
            "ALTER TABLE runs ADD COLUMN deleted_at TEXT",
            # With the last column, lists of names and counts need only the index.
            *(
                statement
                for name, columns in (
                    *(("time", "saved_at, id"), ("system", "system, saved_at, id"), ("branch", "branch, saved_at, id")),
                    ("dataset", "dataset, saved_at, id"),
                )
                for statement in (
                    f"DROP INDEX runs_by_{name}",
                    f"CREATE INDEX runs_by_{name} ON runs ({columns}, deleted_at)",
                )
            ),
            "CREATE INDEX runs_by_author ON runs (author, saved_at, id, deleted_at)",
            "CREATE INDEX runs_deleted ON runs (deleted_at, id) WHERE deleted_at IS NOT NULL",
            "CREATE TABLE means (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, metric TEXT NOT NULL, "
            "mean DOUBLE PRECISION, PRIMARY KEY (run_id, metric))",
            "CREATE INDEX means_by_value ON means (metric, mean, run_id)",
            # Some queries of a run with their gold and hits (`hits.py`), and the keys of their texts.
            "CREATE TABLE hits (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, part INTEGER NOT NULL, "
            "content BYTEA NOT NULL, keys BYTEA NOT NULL, PRIMARY KEY (run_id, part))",
            "CREATE TABLE texts (key TEXT PRIMARY KEY, content BYTEA NOT NULL)",
            "CREATE TABLE audit (id TEXT PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, action TEXT NOT NULL, "
            "target TEXT, detail TEXT)",
            "CREATE INDEX audit_by_time ON audit (at, id)",
            "CREATE INDEX audit_by_target ON audit (target, at, id)",
            "CREATE TABLE settings (name TEXT PRIMARY KEY, content TEXT NOT NULL)",
            "CREATE TABLE alerts (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, reason TEXT NOT NULL, "
            "sent_at TEXT NOT NULL, PRIMARY KEY (run_id, reason))",
        ),
        sqlite=(
            "INSERT INTO means SELECT run_id, one.key, json_extract(one.value, '$.mean') "
            "FROM measures, json_each(measures.metrics) AS one WHERE segment = '' AND measures.value = ''",
        ),
        postgres=(
            "INSERT INTO means SELECT run_id, one.key, (one.value ->> 'mean')::DOUBLE PRECISION "
            "FROM measures, json_each(measures.metrics::json) AS one WHERE segment = '' AND measures.value = ''",
        ),
    ),
)
CURRENT = len(VERSIONS)


class Rows(Protocol):
    """The part of a database cursor that is used here."""

    def fetchall(self) -> list[Any]: ...
    @property
    def rowcount(self) -> int: ...


class Connection(Protocol):
    """A connection inside a transaction, with ? as placeholder."""

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows: ...


def among(connection: Connection, ids: Sequence[str]) -> tuple[str, list[Any]]:
    """What follows a column that has one of these ids, and the values. PostgreSQL takes them as one text: the driver
    would need longer to write two hundred placeholders than the server to find the rows."""
    if getattr(connection, "splits_texts", False):
        return "= ANY(string_to_array(?, ' '))", [" ".join(ids)]
    return f"IN ({', '.join('?' * len(ids))})", list(ids)


def add_run(connection: Connection, run_id: str, head: RunHead, saved_at: str) -> bool:
    """Adds a run; returns whether it is new."""
    dataset = dataset_name(head.dataset, head.gold)
    statement = "INSERT INTO runs (id, saved_at, system, branch, dataset, author, head) VALUES (?, ?, ?, ?, ?, ?, ?)"
    values = (run_id, saved_at, head.system, head.branch, dataset, head.author, _json(head))
    return connection.execute(f"{statement} ON CONFLICT (id) DO NOTHING", values).rowcount == 1


def add_measures(connection: Connection, run_id: str, measures: Measures) -> None:
    for (segment, value), (queries, metrics) in measures.items():
        values = (run_id, segment, value, queries, _json(metrics))
        connection.execute("INSERT INTO measures VALUES (?, ?, ?, ?, ?)", values)
    for name, measure in measures[ALL, ALL][1].items():
        connection.execute("INSERT INTO means VALUES (?, ?, ?)", (run_id, name, measure.mean))


def add_tags(connection: Connection, run_id: str, tags: Iterable[str]) -> None:
    for name in tags:
        connection.execute("INSERT INTO tags VALUES (?, ?) ON CONFLICT (tag, run_id) DO NOTHING", (name, run_id))


def add_judgements(connection: Connection, run_id: str, judgements: Sequence[Judgement]) -> None:
    statement = "INSERT INTO verdicts VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, digest) DO NOTHING"
    for one in judgements:
        connection.execute(statement, (run_id, one.digest, one.judged_at or now(), one.outcome, one.document))


def has_run(connection: Connection, run_id: str) -> bool:
    """Whether a run is there and not deleted."""
    return bool(connection.execute(f"SELECT 1 FROM runs WHERE id = ? AND {LIVE}", (run_id,)).fetchall())


def set_deleted(connection: Connection, ids: Sequence[str], at: str | None) -> int:
    """Deletes runs at a time, or restores them; returns how many changed."""
    changed = 0
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        now_so = "IS NULL" if at is not None else "IS NOT NULL"
        statement = f"UPDATE runs SET deleted_at = ? WHERE deleted_at {now_so} AND id IN ({', '.join('?' * len(some))})"
        changed += connection.execute(statement, [at, *some]).rowcount
    return changed


def set_text(connection: Connection, run_id: str, column: str, text: str | None) -> bool:
    """Sets the title or the note of a run; returns whether it was another one before."""
    [(before,)] = connection.execute(f"SELECT {column} FROM runs WHERE id = ?", (run_id,)).fetchall()
    if before != text:
        connection.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (text, run_id))
    return bool(before != text)


def deleted_by(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """Who deleted each of these runs last."""
    if not ids:
        return {}
    which, values = among(connection, ids)
    statement = f"SELECT target, who FROM audit WHERE action = 'delete' AND target {which} ORDER BY at, id"
    return dict(connection.execute(statement, values).fetchall())


def remove_tag(connection: Connection, run_id: str, tag: str) -> bool:
    return connection.execute("DELETE FROM tags WHERE tag = ? AND run_id = ?", (tag, run_id)).rowcount > 0


def set_pin(connection: Connection, pin: Pin) -> bool:
    """Sets a pin; returns False if the name is a pin of another kind."""
    statement = (
        "INSERT INTO pins (name, kind, run_id, pinned_at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE "
        "SET run_id = excluded.run_id, pinned_at = excluded.pinned_at WHERE pins.kind = excluded.kind"
    )
    return connection.execute(statement, (pin.name, pin.kind, pin.run_id, pin.pinned_at)).rowcount > 0


def remove_pin(connection: Connection, name: str) -> bool:
    return connection.execute("DELETE FROM pins WHERE name = ?", (name,)).rowcount > 0


def all_pins(connection: Connection) -> list[Pin]:
    found = connection.execute("SELECT name, kind, run_id, pinned_at FROM pins ORDER BY kind, name").fetchall()
    return [Pin(*row) for row in found]


def select_runs(
    connection: Connection, only: Filter, columns: str, join: str, joined: Sequence[Any], limit: int, after: str | None
) -> list[Any]:
    """Selects a page by cursor, not offset: page 200 costs no more than page 1, and new runs do not shift pages."""
    conditions, values = conditions_of(only)
    values = [*joined, *values]
    if after is not None:
        place = _CURSOR.fullmatch(after)
        if place is None:
            raise ConfigError(
                "invalid cursor in a list of runs",
                code="bad-value",
                expected="the cursor of an earlier page",
                got=after,
            )
        conditions.append("(saved_at, runs.id) < (?, ?)")
        values += [place["time"], place["id"]]
    if not _storable(values):
        return []
    where = " AND ".join(conditions)
    statement = f"SELECT {columns} FROM runs {join} WHERE {where} ORDER BY saved_at DESC, runs.id DESC LIMIT ?"
    return connection.execute(statement, [*values, limit]).fetchall()


def select_newest(connection: Connection, only: Filter, limit: int) -> tuple[list[Any], int]:
    """Selects the newest run of each dataset, system and branch, newest first, and how many there are."""
    conditions, values = conditions_of(only)
    if not _storable(values):
        return [], 0
    place = "row_number() OVER (PARTITION BY dataset, system, branch ORDER BY saved_at DESC, id DESC)"
    ranked = f"SELECT {DESCRIBED}, {place} AS place FROM runs WHERE {' AND '.join(conditions)}"
    newest = f"FROM ({ranked}) AS ranked WHERE place = 1"
    total = connection.execute(f"SELECT count(*) {newest}", values).fetchall()[0][0]
    statement = f"SELECT {DESCRIBED} {newest} ORDER BY saved_at DESC, id DESC LIMIT ?"
    return connection.execute(statement, [*values, limit]).fetchall(), int(total)


def have_branch(connection: Connection, several: Sequence[Filter], branch: str) -> list[tuple[bool, bool]]:
    """For each filter, whether there are runs of a branch; and of others, or without one."""
    parts, values = [], list[Any]()
    for i, only in enumerate(several):
        conditions, own = conditions_of(only)
        if not _storable(own):
            continue
        of = f"EXISTS (SELECT 1 FROM runs WHERE {' AND '.join(conditions)} AND"
        parts.append(f"SELECT {i}, {of} branch = ?), {of} (branch <> ? OR branch IS NULL))")
        values += [*own, branch, *own, branch]
    found = [(False, False)] * len(several)
    for i, this, others in connection.execute(" UNION ALL ".join(parts), values).fetchall() if parts else ():
        found[i] = (bool(this), bool(others))
    return found


def recent_means(connection: Connection, several: Sequence[tuple[str, Filter]], limit: int) -> list[list[float]]:
    """For each metric and filter, its values in the newest runs that have one, oldest first."""
    parts, values = [], list[Any]()
    for i, (metric, only) in enumerate(several):
        conditions, own = conditions_of(only)
        if _storable([metric, *own]):
            parts.append(
                f"SELECT * FROM (SELECT {i} AS place, saved_at, id, mean FROM runs JOIN means ON run_id = id "
                f"WHERE metric = ? AND mean IS NOT NULL AND {' AND '.join(conditions)} "
                f"ORDER BY saved_at DESC, id DESC LIMIT {limit:d}) AS newest{i}"
            )
            values += [metric, *own]
    found: list[list[float]] = [[] for _ in several]
    statement = f"{' UNION ALL '.join(parts)} ORDER BY 1, 2, 3"
    for i, _, _, mean in connection.execute(statement, values).fetchall() if parts else ():
        found[i].append(mean)
    return found


def runs_by_branch(connection: Connection, only: Filter) -> list[tuple[str | None, int]]:
    """Branches with their number of runs, most first."""
    conditions, values = conditions_of(only)
    if not _storable(values):
        return []
    statement = f"SELECT branch, count(*) FROM runs WHERE {' AND '.join(conditions)} GROUP BY branch"
    found = [(branch, int(runs)) for branch, runs in connection.execute(statement, values).fetchall()]
    return sorted(found, key=lambda one: (-one[1], one[0] or ""))


def is_storable(text: str) -> bool:
    """Whether both kinds of history can store the text: PostgreSQL allows neither NUL nor lone surrogates."""
    return "\0" not in text and is_whole(text)


def _storable(values: Iterable[Any]) -> bool:
    return all(is_storable(value) for value in values if isinstance(value, str))


def conditions_of(only: Filter) -> tuple[list[str], list[Any]]:
    """Conditions on the table of runs, with their values."""
    conditions, values = [f"runs.{LIVE}"], list[Any]()
    for column in ("system", "branch", "dataset", "author"):
        if (wanted := getattr(only, column)) is not None:
            conditions.append(f"{column} = ?")
            values.append(wanted)
    if only.tag is not None:
        conditions.append("EXISTS (SELECT 1 FROM tags WHERE run_id = runs.id AND tag = ?)")
        values.append(only.tag)
    for bound, sign in ((only.since, ">="), (only.until, "<")):
        if bound is not None:
            conditions.append(f"saved_at {sign} ?")
            values.append(bound)
    return conditions, values


def tags_of(connection: Connection, ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    if ids:
        which, values = among(connection, ids)
        statement = f"SELECT tag, run_id FROM tags WHERE run_id {which} ORDER BY tag"
        for tag, run_id in connection.execute(statement, values).fetchall():
            found.setdefault(run_id, []).append(tag)
    return found


def version_of(run_id: str) -> tuple[str, list[str]]:
    """A statement for everything about a run that can change, all pins, and runs with its id as a tag. The id covers
    the rest. One statement, because it is asked before a page of a run is shown again."""
    statement = (
        "SELECT 0, saved_at, head, title, note, deleted_at FROM runs WHERE id = ? "
        "UNION ALL SELECT 1, judged_at, digest, NULL, NULL, NULL FROM verdicts WHERE run_id = ? "
        "UNION ALL SELECT 2, tag, NULL, NULL, NULL, NULL FROM tags WHERE run_id = ? "
        "UNION ALL SELECT 3, name, kind, run_id, NULL, NULL FROM pins "
        "UNION ALL SELECT 4, CAST(count(*) AS TEXT), NULL, NULL, NULL, NULL FROM hits WHERE run_id = ? "
        "UNION ALL SELECT 5, run_id, NULL, NULL, NULL, NULL FROM tags WHERE tag BETWEEN ? AND ? "
        "ORDER BY 1, 2, 3"
    )
    return statement, [run_id] * 6


def is_unambiguous(run_id: str, version: Sequence[Any]) -> bool:
    """Whether the run is there, and its id is not also the name of a pin or tag, which may be of another run."""
    named = any(kind == 5 or (kind == 3 and name == run_id) for kind, name, *_ in version)
    return not named and any(kind == 0 and row[-1] is None for kind, *row in version)


def described(connection: Connection, found: Sequence[Any]) -> list[RunRow]:
    """Completes rows (`DESCRIBED`) with data of other tables, with one query per table."""
    ids = [row[0] for row in found]
    if not ids:
        return []
    tags, (which, values) = tags_of(connection, ids), among(connection, ids)
    statement = f"SELECT run_id, metrics FROM measures WHERE segment = '' AND value = '' AND run_id {which}"
    measures = dict(connection.execute(statement, values).fetchall())
    statement = f"SELECT run_id, outcome FROM verdicts WHERE run_id {which} ORDER BY judged_at"
    outcomes = dict(connection.execute(statement, values).fetchall())
    pins = all_pins(connection)
    return [
        RunRow(
            id=run_id,
            saved_at=saved_at,
            head=_HEAD.decode(head),
            tags=tags.get(run_id, []),
            pins=[pin for pin in pins if pin.run_id == run_id],
            measures=_METRICS.decode(
                measures.get(run_id, "")
            ),  # every run has some, otherwise the catalogue is damaged
            outcome=outcomes.get(run_id),
            title=title,
            note=note,
        )
        for run_id, saved_at, head, title, note in found
    ]


def point_of(row: Any, metric: str, pins: list[Pin]) -> TrendPoint | None:
    run_id, saved_at, text, queries, metrics = row
    measure = _METRICS.decode(metrics).get(metric)
    if measure is None or measure.mean is None:
        return None
    head = _HEAD.decode(text)
    return TrendPoint(
        run_id=run_id,
        saved_at=saved_at,
        system=head.system or head.run or "(unnamed)",  # as in the list of runs
        branch=head.branch,
        code_version=head.code_version,
        queries=queries,
        measure=measure,
        pins=[pin for pin in pins if pin.run_id == run_id],
        dataset=head.dataset,
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
