"""What is loaded when: a start must not pay for what it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

OPTIONAL = (
    "bm25s",
    "Stemmer",
    "safetensors",
    "tokenizers",
    "wordllama",
    "zstandard",
    "pandas",
    "pyspark",
    "deltalake",
    "pyarrow",
    "jinja2",
    "rapidfuzz",
    "httpx2",
    "psycopg",
    "starlette",
    "uvicorn",
    "mcp",
)
ROOT = Path(__file__).parents[2]


def loaded_by(code: str) -> set[str]:
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted(m.partition('.')[0] for m in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_karat_loads_nothing_heavy() -> None:
    loaded = loaded_by("import karat")
    assert loaded.isdisjoint({"numpy", "polars", "msgspec", "click", "rich", *OPTIONAL})


def test_help_loads_neither_numpy_nor_polars() -> None:
    code = (
        "sys.argv = ['karat', '--help']\nimport karat.cli.main as m\ntry:\n    m.main()\nexcept SystemExit:\n    pass"
    )
    assert loaded_by(code).isdisjoint({"numpy", "polars", "msgspec", "rich", *OPTIONAL})


def test_a_small_evaluation_does_not_load_polars() -> None:
    code = (
        "import karat\n"
        "from karat.results.save import saved_form\n"
        "saved_form(karat.evaluate('examples/helpdesk/bm25.jsonl', 'examples/helpdesk/gold.jsonl'))\n"
        "karat.evaluate({'q': {'a': 1.0}}, {'q': {'a': 1}}).means"
    )
    assert loaded_by(code).isdisjoint({"polars", "rich", *OPTIONAL})


def test_scoring_two_files_loads_nothing_that_it_does_not_use() -> None:
    code = (
        "import karat, pathlib, tempfile\n"
        "folder = pathlib.Path(tempfile.mkdtemp())\n"
        "(folder / 'run').write_text('q Q0 a 1 2.0 tag\\n')\n"
        "(folder / 'qrels').write_text('q 0 a 1\\n')\n"
        "karat.evaluate(folder / 'run', folder / 'qrels', ['ndcg@10', 'map', 'recall@5']).means"
    )
    slow = {"asyncio", "yaml", "jinja2", "click", "karat.results.diagnosis.rules", "karat.retrievers", "numpy.ma"}
    assert loaded_by(code).isdisjoint({"polars", "rich", *slow, *OPTIONAL})


def test_public_names_exist_and_are_all_there_is() -> None:
    import karat

    assert set(karat.__all__) == {
        *("evaluate", "compare", "gate", "load", "read_run", "read_gold"),
        *("Options", "Metric", "Result", "KaratError", "RunLogWriter", "__version__"),
    }
    assert all(getattr(karat, name) is not None for name in karat.__all__)


def test_an_unknown_public_name_is_an_attribute_error() -> None:
    import karat

    assert not hasattr(karat, "no_such_name")


def test_the_package_can_be_run() -> None:
    done = subprocess.run([sys.executable, "-m", "karat", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("karat, version ")
