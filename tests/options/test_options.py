"""One list of options: what is checked, shown, taken and saved follows from it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from refusals import refused

import karat
from karat.cli.main import every_command
from karat.cli.options import ListedOption
from karat.data.corpus import Corpus
from karat.errors import ConfigError
from karat.labels.files import PoolEntry
from karat.labels.judge import judge
from karat.labels.judge.options import JudgeOptions
from karat.labels.options import LabelOptions
from karat.llm.options import ModelOptions
from karat.options.option import OptionList, UnknownOption, option, options_in, part_of, takes, values_of
from karat.results.evaluate import evaluate_all
from karat.results.save import restore, saved_form
from karat.schemas.keywords import FILE, generate_keywords
from karat.scoring.options import Options
from karat.statistics.sampling import Sampling
from karat.systems.synthesize import synthesize
from karat.systems.synthesize.options import SynthesisOptions

LISTS = [Options, LabelOptions, ModelOptions, JudgeOptions, SynthesisOptions]
EVALUATING = [karat.evaluate, evaluate_all, karat.compare, karat.gate]
RUN, GOLD = {"q": ["a", "b"]}, {"q": ["a"]}


class Few(OptionList):
    """A list to test with."""

    size: int = option(3, "How large.", ge=1, le=9)
    share: float | None = option(None, "Which part.", gt=0, lt=1, wrong="no share", expected="such as 0.5")
    kind: Literal["one", "two"] = option("one", "Which kind.")
    name: str = option("x", "Any text.")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"size": 0}, "at least 1, at most 9"),
        ({"size": 10}, "at least 1, at most 9"),
        ({"size": 2.5}, "at least 1, at most 9"),
        ({"size": "3"}, "at least 1, at most 9"),
        ({"share": 0}, "such as 0.5"),
        ({"share": float("nan")}, "such as 0.5"),
        ({"kind": "three"}, "one or two"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(given: dict[str, Any], expected: str) -> None:
    with refused("bad-setting", ConfigError, expected=expected):
        Few(**given)


def test_values_that_fit() -> None:
    import numpy as np

    assert values_of(Few(size=np.int64(9), share=np.float32(0.5), kind="two"))["kind"] == "two"
    assert Few(share=None) == Few()


def test_a_function_takes_a_list_by_name() -> None:
    @takes(Few)
    def made(what: str, *, name: str = "own", **options: Any) -> Any:
        """Make something."""
        return what, name, Few(**options)

    assert made("a", size=4) == ("a", "own", Few(size=4))
    assert str(inspect.signature(made)).startswith(
        "(what: str, *, name: str = 'own', size: int = 3, share: float | None"
    )
    assert "- `size`: How large." in (made.__doc__ or "")
    with refused("unknown-option", UnknownOption, hint="did you mean share?"):
        made("a", shares=0.5)


@pytest.mark.parametrize("function", EVALUATING)
def test_functions_show_every_keyword_with_type_and_default(function: Callable[..., Any]) -> None:
    shown, told = inspect.signature(function).parameters, inspect.getdoc(function) or ""
    for name, each in options_in(Options).items():
        assert (shown[name].default, shown[name].annotation) == (each.default, each.type)
        assert f"- `{name}`: " in told
    assert not any(each.kind is each.VAR_KEYWORD for each in shown.values())


@pytest.mark.parametrize("function", [*EVALUATING, karat.systems.baseline_ladder])
def test_a_misspelt_keyword_names_the_nearest(function: Callable[..., Any]) -> None:
    with refused("unknown-option", name="min_scor", hint="did you mean min_score?"):
        function(RUN, GOLD, min_scor=0.5)
    with pytest.raises(TypeError):
        function(RUN, GOLD, min_scor=0.5)


def test_the_keywords_for_type_checkers_are_those_of_the_lists() -> None:
    assert FILE.read_text() == generate_keywords(), "run `make docs`"


@pytest.mark.parametrize("kind", LISTS)
def test_every_option_says_what_it_is_for(kind: type) -> None:
    for name, each in options_in(kind).items():
        assert each.about.endswith("."), name
        assert each.about[0].isupper() or "://" in each.about, name


def test_every_option_is_on_the_command_line_or_for_python_only() -> None:
    commands = [every_command()[name] for name in ("eval", "labels judge", "synthesize")]
    shown = {each.name for command in commands for each in command.params if isinstance(each, ListedOption)}
    for kind in LISTS:
        assert {name for name, each in options_in(kind).items() if each.flags != []} <= shown
    assert shown.isdisjoint(name for name, each in options_in(Options).items() if each.flags == [])


@pytest.mark.parametrize("kind", [JudgeOptions, SynthesisOptions])
def test_every_option_for_asking_a_model_is_read(kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()

    class Recording(kind):  # type: ignore[misc]
        def __post_init__(self) -> None:
            super().__post_init__()
            read.clear()  # what checks look at does not count

        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    module = judge if kind is JudgeOptions else synthesize
    monkeypatch.setattr(module, kind.__name__, Recording)
    monkeypatch.setenv("KARAT_LLM_KEY", "key")
    pool = [PoolEntry(query_id="q", query="what?", chunk_id="a", text="that")]
    corpus = Corpus("corpus", ["a"], [None], ["A refund is paid within five days of the request. " * 3])
    cache = str(tmp_path / "cache.sqlite")
    if kind is JudgeOptions:
        judge.Judging(pool, model="m", cache=cache)
    else:
        synthesize.Synthesizing(corpus, model="m", n=1, cache=cache)
    assert set(options_in(kind)) <= read


def test_how_intervals_are_made_is_said_once() -> None:
    quick = Sampling(level=0.9)
    results = [karat.evaluate(RUN, GOLD, ["recall@5"], **how) for how in ({"level": 0.9}, {"sampling": quick})]
    assert [result.sampling for result in results] == [quick, quick]
    with refused("contradiction"):
        karat.evaluate(RUN, GOLD, sampling=quick, seed=3)


def test_what_a_comparison_is_told_wins_over_what_a_result_brings() -> None:
    first, second = (karat.evaluate(RUN, GOLD, ["recall@5"], level=0.9, seed=s) for s in (1, 2))
    assert karat.compare(first, second).statistics["level"] == 0.9
    told = karat.compare(first, second, level=0.8).statistics
    assert (told["level"], told["seed"]) == (0.8, 1)
    saved = saved_form(first)
    assert karat.gate(saved, None, ["recall@5 >= 0.1"], level=0.8).statistics["level"] == 0.8


def test_settings_are_saved_and_come_back() -> None:
    given = {"k": 7, "missing": "skip", "min_score": 0.5, "top_k": 3, "corpus_size": 9, "level": 0.9, "seed": 4}
    prices = {"currency": "USD", "models": {"m": {"per_call": 0.5}}}
    result = karat.evaluate({"q": {"a": 1.0}}, GOLD, ["recall@5"], prices=prices, **given)
    saved = saved_form(result)
    assert {**saved.settings, **saved.statistics}.items() >= given.items()
    again = restore(msgspec.json.decode(msgspec.json.encode(saved), type=type(saved)))
    assert (again.rules, again.sampling, again.rules.corpus_size) == (result.rules, result.sampling, 9)
    assert set(values_of(part_of(Options(), Sampling))) <= set(saved.statistics)


def test_a_run_is_read_as_the_keywords_say(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_text(
        "".join(f'{{"query_id": "q", "system": "{name}", "topk": ["{name}"], "raw": ["b"]}}\n' for name in "ab")
    )
    (tmp_path / "gold.jsonl").write_text('{"query_id": "q", "gold_chunk_id": "b", "second": "a"}\n')
    files = tmp_path / "run.jsonl", tmp_path / "gold.jsonl"
    means = [
        karat.evaluate(*files, ["recall@5"], system="a", **how).means["recall@5"]
        for how in ({}, {"hits": "raw"}, {"target": "second"})
    ]
    assert means == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", LISTS)
def test_lists_import_nothing_heavy(kind: type) -> None:
    code = f"import sys, {kind.__module__}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert {"numpy", "polars", "msgspec"}.isdisjoint(done.stdout.split())
