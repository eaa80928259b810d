"""What the dashboard calls things: names, dates and words that matter; from files as people save them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from karat.history.folder import FolderStore
from karat.web.access import Access

HASH = "0123456789abcdef" * 4
QUERY, TEXT = (
    "How do I get the money of my refund?",
    "How do you get it? The refund is in your account, and so is the money.",
)


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Callable[..., tuple[int, str, str]], serving: Any
) -> Iterator[Any]:
    """Two runs of one system, the second of another commit and index."""
    gold = [{"query_id": f"q{i}", "query": QUERY, "gold": [f"d{i}"]} for i in range(24)]
    Path(tmp_path / "gold.jsonl").write_text("".join(json.dumps(line) + "\n" for line in gold))
    monkeypatch.chdir(tmp_path)
    for variable, value in (("KARAT_STORE", "history"), ("KARAT_BRANCH", "main")):
        monkeypatch.setenv(variable, value)
    for name, found in (("before", 8), ("after", 12)):
        from_where = {"code_version": HASH[:40], "index_version": f"sha256:{HASH}", "corpus_hash": HASH}
        lines = [
            {
                "query_id": f"q{i}",
                "system": "hybrid",
                "topk": [{"chunk_id": f"d{i % found}", "text": TEXT}],
                **from_where,
            }
            for i in range(24)
        ]
        Path(tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        code, _, err = karat_command("eval", f"{name}.jsonl", "--gold", "gold.jsonl", "--save", "--tag", name)
        assert code == 0, err
    with FolderStore(tmp_path / "history") as store, serving(store, Access()) as made:
        yield made


def text(site: Any, address: str) -> str:
    answer = site.ask("GET", address)
    assert answer.status == 200
    return str(answer.content.decode())


def seen(page: str) -> str:
    """What a reader sees: no address, no title."""
    return re.sub(r"<[^>]*>", " ", page)


def test_fields_show_names_and_dates_instead_of_hashes(site: Any) -> None:
    before, after = (site.store.find(name) for name in ("before", "after"))
    compare = f"/compare?run={before}&run={after}"
    for address in ("/runs", "/trend", f"/runs/{after}", f"/runs/{after}/queries", compare, "/query?query_id=q1"):
        assert not re.findall(r"[0-9a-f]{32,}", seen(text(site, address))), address
    page = text(site, f"/runs/{after}")
    for full in (HASH[:40], HASH, after):
        assert f'title="{full}"' in page  # for whoever needs it
    chosen = re.findall(r'<option value="[0-9a-f]{64}" selected>([^<]*)</option>', text(site, compare))
    when = [site.store.row(run).saved_at[:16].replace("T", " ") for run in (before, after)]
    assert [name.partition(" (")[0] for name in chosen] == [f"hybrid, {at}, main" for at in when]


def test_two_runs_of_one_system_are_told_apart_by_their_dates(site: Any) -> None:
    runs = [site.store.find(name) for name in ("before", "after")]
    (title,) = re.findall(r"<h1>(.*?)</h1>", text(site, f"/compare?run={runs[0]}&run={runs[1]}"))
    assert re.match(r"hybrid \(.+\) against hybrid \(.+\) on gold: recall@5 from 33\.3% to 50\.0%, ", title)


def test_stop_words_of_a_query_are_not_marked(site: Any) -> None:
    page = text(site, "/runs/after/triage")
    assert set(re.findall(r"<mark>([^<]*)</mark>", page)) == {"get", "refund", "money"}
