"""`/metrics`: the newest runs for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openmetrics
import pytest
from logins import access_of

from karat.errors import KaratError
from karat.history.folder import FolderStore
from karat.history.rows import Judgement
from karat.history.store import Store
from karat.results.kept_run import KeptRun
from karat.web import metrics

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SCRAPER = {"Authorization": "Bearer " + "s" * 20}
HOSTILE = ['a"b\\c', "line\nbreak", "{x}=,# EOF", "\u2028\u0085\r", "é" * 900, "é" * 901, "## [error]x"]


def labelled(samples: openmetrics.Samples, **wanted: str) -> list[float]:
    return [value for labels, value in samples.items() if wanted.items() <= dict(labels).items()]


def test_the_newest_run_of_each_system_and_branch(site: Any, store: Store) -> None:
    answer = site.ask("GET", "/metrics")
    assert (answer.status, answer.headers["content-type"]) == (200, OPEN)
    found = openmetrics.read(answer.content.decode())
    assert labelled(found["karat_runs"]) == [4]
    for system, tag in (("bm25", "n2"), ("hybrid", "n3")):  # n0 and n1 are older
        measure = store.row(store.find(tag)).measures["recall@5"]
        named = {"dataset": "helpdesk", "system": system, "branch": "main", "metric": "recall@5"}
        assert labelled(found["karat_score"], **named) == [measure.mean]
        assert labelled(found["karat_score_low"], **named) == [measure.low]
        assert labelled(found["karat_score_high"], **named) == [measure.high]
        assert labelled(found["karat_score_queries"], **named) == [20]
    assert len(found["karat_score"]) == 2
    assert max(labelled(found["karat_run_saved_timestamp_seconds"])) == 1748937600 + 86400
    assert labelled(found["karat_build"]) == [1]
    assert labelled(found["process_cpu_seconds"])[0] > 0
    assert found["karat_gate"] == {}


def test_it_follows_the_history(site: Any, store: Store, made_run: Callable[..., KeptRun]) -> None:
    openmetrics.read(site.ask("GET", "/metrics").content.decode())
    verdict = Judgement(outcome="fail", document='{"schema": "karat/gates/1"}', judged_at="2025-06-09T08:00:00.000000Z")
    store.save(made_run(9, system="bm25"), branch="fix", judgements=[verdict])
    found = openmetrics.read(site.ask("GET", "/metrics").content.decode())
    assert labelled(found["karat_runs"]) == [5]
    assert labelled(found["karat_gate"], branch="fix", karat_gate="fail") == [1]
    assert labelled(found["karat_gate"], branch="fix", karat_gate="pass") == [0]
    only = openmetrics.read(site.ask("GET", "/metrics?branch=fix&system=bm25").content.decode())
    assert len(only["karat_score"]) == 1
    assert site.ask("GET", "/metrics?brunch=fix").status == 400
    assert site.ask("HEAD", "/metrics").content == b""


def test_hostile_names_are_escaped_and_series_are_limited(
    tmp_path: Path, made_run: Callable[..., KeptRun], serving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FolderStore(tmp_path / ".karat") as store:
        for i, name in enumerate(HOSTILE):
            store.save(made_run(i, system=name), branch=name)
        with serving(store, access_of()) as site:
            found = openmetrics.read(site.ask("GET", "/metrics").content.decode())
            systems = {dict(labels)["system"] for labels in found["karat_score"]}
            assert len(systems) == len(HOSTILE)
            assert {'a"b\\c', "line\nbreak", "{x}=,# EOF"} <= systems
            assert max(map(len, systems)) <= 200
            monkeypatch.setattr(metrics, "RUNS", 3)
            store.save(made_run(99), branch="main")
            found = openmetrics.read(site.ask("GET", "/metrics").content.decode())
            assert (len(found["karat_score"]), labelled(found["karat_runs_left_out"])) == (3, [5])


def test_an_empty_history(tmp_path: Path, serving: Any) -> None:
    with FolderStore(tmp_path / ".karat") as store, serving(store, access_of()) as site:
        found = openmetrics.read(site.ask("GET", "/metrics").content.decode())
        assert labelled(found["karat_runs"]) == [0]
        assert found["karat_score"] == {}


def test_a_scraper_needs_a_token_that_opens_nothing_else(store: Store, serving: Any) -> None:
    access = access_of("ada", token="t" * 20, metrics_token="s" * 20)
    with serving(store, access) as site:
        for headers in ({}, {"Authorization": "Bearer " + "x" * 20}, {"Authorization": "Basic eDp4"}):
            answer = site.ask("GET", "/metrics", headers=headers)
            assert (answer.status, "error" in answer.json) == (401, True)  # no way to a log-in page
        for token in ("s", "t"):
            answer = site.ask("GET", "/metrics", headers={"Authorization": f"Bearer {token * 20}"})
            assert (answer.status, answer.headers["content-type"]) == (200, OPEN)
        assert site.ask("GET", "/runs", headers=SCRAPER).status == 303
        assert site.get("/runs", headers=SCRAPER).status == 401
        assert site.ask("GET", "/metrics/", headers=SCRAPER).status != 200
        assert site.write("DELETE", "/pins/main", **SCRAPER).status == 401
        assert access.log_in("", "s" * 20) is None


def test_a_token_for_scrapers_alone_does_not_open_a_server_to_others(
    karat_refuses: Callable[..., KaratError], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KARAT_TOKEN", raising=False)
    monkeypatch.setenv("KARAT_METRICS_TOKEN", "s" * 20)
    place = ("--store", str(tmp_path / ".karat"))
    assert karat_refuses("serve", *place, "--host", "0.0.0.0", "--port", "0").code == "open-server"
    monkeypatch.setenv("KARAT_METRICS_TOKEN", "short")
    assert karat_refuses("serve", *place).code == "bad-token"
