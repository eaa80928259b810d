"""`/metrics` of a real `karat serve`, read by the parser of Prometheus' own client."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

Command = Callable[..., tuple[int, str, str]]
HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
TOKEN = "scraper-0123456789"


def test_prometheus_reads_it(karat_command: Command, tmp_path: Path) -> None:
    os.environ.pop("KARAT_STORE", None)
    store = str(tmp_path / ".karat")
    gold, run = str(HELPDESK / "gold.jsonl"), tmp_path / "run.jsonl"
    named = (HELPDESK / "bm25.jsonl").read_text().replace('"system": "bm25"', r'"system": "a \"b\" \\ c\nd"')
    run.write_text(named)
    with subprocess.Popen(
        [sys.executable, "-m", "karat", "serve", "--store", store, "--port", "0"],
        stdout=subprocess.PIPE,
        env=os.environ | {"KARAT_METRICS_TOKEN": TOKEN, "KARAT_TOKEN": "other-0123456789"},
    ) as served:
        try:
            assert served.stdout is not None
            port = served.stdout.readline().decode().partition("127.0.0.1:")[2].partition("/")[0]
            os.environ["KARAT_STORE"] = store
            asked = ("gate", str(run), "--gold", gold, "--gate", "recall@5 >= 0.9", "--save")
            assert karat_command(*asked)[0] == 1
            asked_for = urllib.request.Request(f"http://127.0.0.1:{port}/metrics")
            asked_for.add_header("Authorization", f"Bearer {TOKEN}")
            with urllib.request.urlopen(asked_for, timeout=60) as answer:
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
                families = {one.name: one for one in text_string_to_metric_families(answer.read().decode())}
        finally:
            os.environ.pop("KARAT_STORE", None)
            served.terminate()
            served.wait(30)
    scores = {sample.labels["metric"]: sample for sample in families["karat_score"].samples}
    assert scores["recall@5"].labels["dataset"] == "helpdesk"
    assert 0.3 < scores["recall@5"].value < 0.4
    assert len(families["karat_score_low"].samples) == len(families["karat_score_high"].samples) == len(scores)
    [failed] = [sample for sample in families["karat_gate"].samples if sample.value == 1]
    assert failed.labels["karat_gate"] == "fail"
    assert families["karat_gate"].type == "stateset"
    assert families["process_cpu_seconds"].type == "counter"
