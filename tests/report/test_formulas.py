"""A spreadsheet runs no text of others; numbers stay numbers, and what Karat reads again is as it was."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import karat
from karat.report.tables import csv_text

Command = Callable[..., tuple[int, str, str]]
FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", '=HYPERLINK("http://x")']


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula(text: str) -> None:
    (row,) = csv.DictReader(csv_text(pl.DataFrame({text: [text], "n": [-1.5]})).decode().splitlines(keepends=True))
    assert list(row) == [f"'{text}", "n"]
    assert list(row.values()) == [f"'{text}", "-1.5"]


@pytest.mark.parametrize("text", ["-1", "+0.5", "-1e-7", "a=b", "q-1", "", "'=1"])
def test_numbers_and_other_texts_stay(text: str) -> None:
    (row,) = csv.reader(csv_text(pl.DataFrame({"a": [text], "b": [None]})).decode().splitlines()[1:])
    assert row[0] == text


def test_numbers_are_not_touched() -> None:
    frame = pl.DataFrame({"a": [-1, 2], "b": [-0.5, None], "c": [True, None]})
    assert csv_text(frame) == frame.write_csv().encode()


def test_every_table_of_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [{"query_id": text, "system": "=s", "topk": ["a"], "query": text} for text in FORMULAS]
    Path("run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    gold = [{"query_id": text, "gold": ["b"], "tags": {"=t": text}} for text in FORMULAS]
    Path("gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold))
    call = ("eval", "run.jsonl", "--gold", "gold.jsonl", "--segment", "=t")
    names = ["scores.csv", "segments=segments.csv", "audit=audit.csv", "scores=scores.parquet", "result.json"]
    assert karat_command(*call, *(part for name in names for part in ("-o", name)))[0] == 0
    assert karat_command("eval", "run.jsonl", "run.jsonl", "--gold", "gold.jsonl", "-o", "board.csv")[0] == 0
    assert karat_command("eval", "triage", "run.jsonl", "--gold", "gold.jsonl", "-o", "cases=cases.csv")[0] == 0
    written = sorted(tmp_path.glob("*.csv"))
    assert len(written) == 5
    for path in written:
        with path.open(newline="") as stream:
            cells = [cell for row in csv.reader(stream) for cell in row]
        assert [cell for cell in cells if cell.lstrip()[:1] in "=@＝" and cell.strip()] == [], path
        assert [cell for cell in cells if cell[:1] in "+-" and cell and not cell[1:].replace(".", "").isdigit()] == []
    # What Karat reads again has every text as it is.
    assert pl.read_parquet("scores.parquet")["query_id"].to_list() == FORMULAS
    loaded = karat.load("result.json")
    assert isinstance(loaded, karat.Result)
    assert loaded.queries == FORMULAS
