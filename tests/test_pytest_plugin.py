"""The fixture `karat_gate`, in test sessions of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree

import karat
from golden import check
from karat.report.export import to_json

DEMO = Path(__file__).parents[1] / "examples" / "helpdesk"
RUN, GOLD = str(DEMO / "bm25.jsonl"), str(DEMO / "gold.jsonl")
# Plug-ins of others are not what is tested here, and take longer to load than all the rest.
OTHERS = ("no:cacheprovider", "no:langsmith_plugin", "no:schemathesis", "no:hypothesispytest", "no:anyio")
INSTALLED = any(point.value == "karat.pytest_plugin" for point in entry_points(group="pytest11"))


def session(folder: Path, *calls: str, options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Each call stands in a test of its own."""
    tests = [f"def test_{i}(karat_gate):\n    karat_gate({call})\n" for i, call in enumerate(calls)]
    (folder / "test_it.py").write_text(
        "from pathlib import Path\nfrom karat.gates.criteria import Gate\n"
        f"RUN, GOLD = {RUN!r}, {GOLD!r}\n" + "".join(tests)
    )
    plug_ins = [
        f"-p{name}" for name in (*OTHERS, *(() if INSTALLED or "no:karat" in options else ("karat.pytest_plugin",)))
    ]
    command = [sys.executable, "-m", "pytest", *plug_ins, *options, "test_it.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert "INTERNALERROR" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def test_what_may_ship_passes(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_bytes(to_json([karat.evaluate(RUN, GOLD)]))
    code, said = session(
        tmp_path,
        'RUN, GOLD, "recall@5 >= 0.25"',
        'RUN, GOLD, "recall@5 >= 0.25", "ndcg@5 drop <= 0.02", baseline="old.json"',
        'RUN, GOLD, ["recall@5 >= 0.25", "mrr >= 0.2"]',
        '"old.json", None, "recall@5 >= 0.25"',
        'RUN, GOLD, Gate(metric="mrr", threshold=0.2)',
        '{"q": ["a"]}, {"q": ["a"]}, "recall@5 >= 0.5"',
    )
    assert code == 0, said
    assert "6 passed" in said


def test_a_failure_is_the_verdict_and_nothing_else(tmp_path: Path) -> None:
    code, said = session(tmp_path, 'RUN, GOLD, "mrr >= 0.1", "recall@5 >= 85%"')
    assert code == 1
    shown = said.partition("test_0 ___")[2].partition("\n")[2].partition("=====")[0]
    _, failed, passed = shown.strip().splitlines()
    reasons = [karat.gate(RUN, GOLD, gate).verdicts[0].reason for gate in ("recall@5 >= 85%", "mrr >= 0.1")]
    assert re.fullmatch(rf"  fail: recall@5 \(.*\): {re.escape(reasons[0])}", failed)
    assert re.fullmatch(rf"  pass: mrr: {re.escape(reasons[1])}", passed)


def test_what_cannot_be_judged_says_why(tmp_path: Path) -> None:
    code, said = session(
        tmp_path,
        'RUN, GOLD, "recal@5 >= 0.85"',
        'RUN, "absent.jsonl", "recall@5 >= 0.85"',
        "RUN, GOLD",
        'RUN, GOLD, "latency_p50(stage=rerank) <= 50 ms"',
        'RUN, GOLD, "absent.yaml"',
        'RUN, GOLD, "mrr >= 0.2", Path("ship-criteria.yaml")',
    )
    assert code == 1
    assert "6 failed" in said
    for words in ("'recal'", "absent.jsonl: ", "latency_p50(stage=rerank)", "absent.yaml: ", "'ship-criteria.yaml'"):
        assert words in said
    assert "Traceback" not in said
    assert "raise " not in said
    failures = re.findall(r"^_+ test_\d _+\n(.*?)(?=^[_=]{5})", said, re.M | re.S)
    check("wording/pytest.txt", "\n\n".join(text.strip() for text in failures) + "\n")


def test_criteria_of_the_project_are_found_and_a_warning_is_one(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "config").mkdir()
    gates = "gates:\n  - {metric: recall@5, threshold: 0.9, severity: warning}\n  - {metric: mrr, threshold: 0.1}\n"
    (tmp_path / "config" / "ship-criteria.yaml").write_text(gates)
    code, said = session(tmp_path, "RUN, GOLD", 'RUN, GOLD, "config/ship-criteria.yaml"')
    assert code == 0, said
    assert "2 passed, 2 warnings" in said
    assert re.search(r"test_it\.py:5: KaratWarning: recall@5: .*33\.2%", said)


def test_several_workers_tell_the_same(tmp_path: Path) -> None:
    (tmp_path / "gates.yaml").write_text("gates: [{metric: recall@5, threshold: 0.9, severity: warning}]\n")
    options = ("-n", "2", "--junitxml", "junit.xml")
    calls = ('RUN, GOLD, "gates.yaml"', 'RUN, GOLD, "recall@5 >= 0.9"', 'RUN, GOLD, "recall@5 >= 0.2 in each language"')
    code, said = session(tmp_path, *calls, options=options)
    assert code == 1
    assert "1 failed, 2 passed, 1 warning" in said
    assert re.search(r"KaratWarning: recall@5: .*33\.2%", said)
    assert "fail: recall@5 (" in said
    properties = [p.attrib for p in ElementTree.parse(tmp_path / "junit.xml").iter("property")]
    told = {p["name"]: p["value"] for p in properties}
    assert set(told) == {"karat: recall@5", *(f"karat: recall@5 in language {v}" for v in ("en", "es-AR", "pt-BR"))}
    assert all(value.startswith(("pass: recall@5 ", "fail: recall@5 ")) for value in told.values())


def test_a_start_of_pytest_pays_next_to_nothing() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import karat.pytest_plugin; print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {m.partition(".")[0] for m in done.stdout.split()} <= {"karat"}


def test_it_can_be_left_out(tmp_path: Path) -> None:
    code, said = session(tmp_path, 'RUN, GOLD, "mrr >= 0.1"', options=("-p", "no:karat"))
    assert (code, "fixture 'karat_gate' not found" in said) == (1, True)


def test_the_fixture_is_listed_with_its_use(tmp_path: Path) -> None:
    _, said = session(tmp_path, options=("--fixtures",))
    assert "karat_gate" in said


def test_the_name_stands_in_the_project_file() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["pytest11"].values()
    assert hasattr(import_module(module), "karat_gate")
