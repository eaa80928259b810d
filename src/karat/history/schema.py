"""The tables of a history, version by version. A new version adds an entry here and changes none of the old ones."""

from __future__ import annotations

from typing import NamedTuple


class SchemaVersion(NamedTuple):
    """Statements that lead here from the version before."""

    shared: tuple[str, ...]
    postgres: tuple[str, ...] = ()


VERSIONS = (
    SchemaVersion(
        shared=(
            "CREATE TABLE runs (id TEXT PRIMARY KEY, saved_at TEXT NOT NULL, system TEXT NOT NULL, branch TEXT, "
            "dataset TEXT NOT NULL, head TEXT NOT NULL)",
            "CREATE INDEX runs_by_time ON runs (saved_at, id)",
            "CREATE INDEX runs_by_system ON runs (system, saved_at, id)",
            "CREATE INDEX runs_by_branch ON runs (branch, saved_at, id)",
            "CREATE INDEX runs_by_dataset ON runs (dataset, saved_at, id)",
            # One row a segment, all metrics in it: a row a metric would be ten million rows for ten thousand runs.
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
            # Parquet is compressed already.
            "ALTER TABLE files ALTER COLUMN content SET STORAGE EXTERNAL",
        ),
    ),
    # What gates said of a run: it depends on the criteria and the baseline too, so a run may have several.
    SchemaVersion(
        shared=(
            "CREATE TABLE verdicts (run_id TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, digest TEXT NOT NULL, "
            "judged_at TEXT NOT NULL, outcome TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (run_id, digest))",
        ),
    ),
)
CURRENT = len(VERSIONS)
