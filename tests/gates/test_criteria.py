"""`ship-criteria.yaml`: what it may say, and how a mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from refusals import refused

from karat.errors import ConfigError
from karat.errors.spelling import typed
from karat.gates.criteria import DEFAULT_FILES, Criteria, Gate, check_gates, find_criteria, read_criteria

SEED = """\
# config/ship-criteria.yaml
gates:
  - name: retrieval_recall_at_5
    threshold: 0.85 # absolute floor
    regression_max: 0.03 # may not drop more than 3pp from baseline
    severity: error # blocks merge
  - name: retrieval_mrr
    threshold: 0.62
    regression_max: 0.05
    severity: warning # PR comment, no block
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ship-criteria.yaml"


def read(file: Path, text: str | bytes) -> Criteria:
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_criteria(file)


def refusal(file: Path, text: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(file, text)
    return caught.value


def test_the_seeds_form_as_it_stands(file: Path) -> None:
    criteria = read(file, SEED)
    said = [(str(g.parsed), g.title, g.threshold, g.regression_max, g.severity, g.on) for g in criteria.gates]
    assert said == [
        ("recall@5", "retrieval_recall_at_5", 0.85, 0.03, "error", "mean"),
        ("mrr", "retrieval_mrr", 0.62, 0.05, "warning", "mean"),
    ]
    assert criteria.lines == (3, 7)
    assert [criteria.line(g) for g in criteria.gates] == [3, 7]
    assert criteria.max_missing == 0.1


def test_every_field(file: Path) -> None:
    text = """\
anchor: release.json
max_missing: 0.05
gates:
  - {name: "Our recall", metric: recall@5, threshold: 0.8, regression_max: 0.02, on: bound, severity: warning,
     segment: {language: pt-BR, tier: 1, hard: true}, inconclusive: pass, min_queries: 30, anchor: old/first.json}
  - {metric: latency_p90, max: 60, each: language}
  - {metric: mrr, regression_max: 0}
"""
    first, second, third = read(file, text).gates
    assert first == Gate(
        name="Our recall",
        metric="recall@5",
        threshold=0.8,
        regression_max=0.02,
        on="bound",
        severity="warning",
        segment={"language": "pt-BR", "tier": 1, "hard": True},
        inconclusive="pass",
        min_queries=30,
        anchor=str(file.parent / "old/first.json"),
    )
    assert (first.title, first.policy) == ("Our recall", "pass")
    # The file's anchor is for gates with a regression limit that name none; seen from the file, not from here.
    assert (second.max, second.each, second.anchor) == (60.0, "language", None)
    assert third.anchor == str(file.parent / "release.json")
    assert read_criteria(file).max_missing == 0.05


@pytest.mark.parametrize(("on", "policy"), [("mean", "warn"), ("bound", "block")])
def test_what_an_inconclusive_verdict_does_unless_told(on: str, policy: str) -> None:
    assert Gate(metric="mrr", threshold=0.5, on=on).policy == policy
    assert Gate(metric="mrr", threshold=0.5, on=on, inconclusive="pass").policy == "pass"


# text, line, column, field, and words that must be said
MISTAKES = {
    "unknown field": ("gats:\n  - metric: mrr\n", 1, 1, "gats", "unknown-field"),
    "unknown field of a gate": (
        "gates:\n  - metric: recall@5\n    treshold: 0.8\n",
        *(3, 5, "gates.0.treshold", "unknown-field"),
    ),
    "a field with a line break": (
        'gates:\n  - {metric: mrr, threshold: 0.5, "a\\nb": 1}\n',
        *(2, 35, "gates.0.a\nb", "unknown-field"),
    ),
    "text for a number": (
        "gates:\n  - metric: mrr\n    threshold: high\n",
        *(3, 16, "gates.0.threshold", "wrong-type"),
    ),
    "truth for a number": ("gates: [{metric: mrr, threshold: true}]", 1, 34, "gates.0.threshold", "wrong-type"),
    "number for a text": ("gates: [{metric: 5, threshold: 0.5}]", 1, 18, "gates.0.metric", "wrong-type"),
    "fraction for a count": (
        "gates: [{metric: mrr, threshold: 0.5, min_queries: 2.5}]",
        *(1, 52, "gates.0.min_queries", "wrong-type"),
    ),
    "unknown `on`": (
        "gates: [{metric: mrr, threshold: 0.5, on: men}]",
        1,
        43,
        "gates.0.on",
        "unknown-choice",
    ),
    "unknown severity": (
        "gates: [{metric: mrr, threshold: 0.5, severity: warn}]",
        *(1, 49, "gates.0.severity", "unknown-choice"),
    ),
    "unknown policy": (
        "gates: [{metric: mrr, threshold: 0.5, inconclusive: fail}]",
        *(1, 53, "gates.0.inconclusive", "unknown-choice"),
    ),
    "bad metric": (
        "gates:\n  - metric: recal@5\n    threshold: 0.8\n",
        *(2, 13, "gates.0.metric", "unknown-metric"),
    ),
    "name that is no metric": (
        "gates:\n  - name: our recall\n    threshold: 0.8\n",
        *(2, 11, "gates.0.name", "bad-metric"),
    ),
    "no metric": ("gates:\n  - threshold: 0.8\n", 2, 5, "gates.0", "missing-field"),
    "no condition": ("gates:\n  - metric: mrr\n", 2, 5, "gates.0", "missing-field"),
    "floor and ceiling": (
        "gates: [{metric: mrr, threshold: 0.5, max: 0.7}]",
        *(1, 44, "gates.0.max", "contradiction"),
    ),
    "floor of a latency": (
        "gates: [{metric: latency_p90, threshold: 60}]",
        *(1, 42, "gates.0.threshold", "wrong-direction"),
    ),
    "ceiling of a recall": ("gates: [{metric: mrr, max: 0.7}]", 1, 28, "gates.0.max", "wrong-direction"),
    "segment and each": (
        "gates: [{metric: mrr, threshold: 0.5, segment: {a: b}, each: a}]",
        *(1, 62, "gates.0.each", "contradiction"),
    ),
    "empty segment": (
        "gates: [{metric: mrr, threshold: 0.5, segment: {}}]",
        *(1, 48, "gates.0.segment", "missing-value"),
    ),
    "a list in a segment": (
        "gates: [{metric: mrr, threshold: 0.5, segment: {a: [b]}}]",
        *(1, 52, "gates.0.segment.a", "wrong-type"),
    ),
    "out of range": ("gates: [{metric: mrr, threshold: 85}]", 1, 34, "gates.0.threshold", "bad-value"),
    "not a number": (
        "gates: [{metric: mrr, threshold: .nan}]",
        1,
        34,
        "gates.0.threshold",
        "bad-value",
    ),
    "infinite": ("gates: [{metric: latency_p90, max: .inf}]", 1, 36, "gates.0.max", "bad-value"),
    "negative drop": (
        "gates: [{metric: mrr, regression_max: -0.1}]",
        *(1, 39, "gates.0.regression_max", "bad-value"),
    ),
    "no queries": (
        "gates: [{metric: mrr, threshold: 0.5, min_queries: 0}]",
        *(1, 52, "gates.0.min_queries", "bad-value"),
    ),
    "anchor of a floor": (
        "gates: [{metric: mrr, threshold: 0.5, anchor: a.json}]",
        *(1, 47, "gates.0.anchor", "missing-field"),
    ),
    "missing share": (
        "gates: [{metric: mrr, threshold: 0.5}]\nmax_missing: 2\n",
        2,
        14,
        "max_missing",
        "bad-value",
    ),
    "empty list": ("max_missing: 0.2\ngates: []\n", 2, 8, "gates", "no-gates"),
    "gates as a mapping": ("gates: {metric: mrr}\n", 1, 8, "gates", "wrong-type"),
    "gates left out": ("max_missing: 0.2\n", 1, 1, None, "missing-field"),
    "a gate that is a text": (
        "gates:\n  - recall@5 >= 0.8\n",
        2,
        5,
        "gates.0",
        "wrong-type",
    ),
    "empty file": ("", 1, 1, None, "no-gates"),
    "a list": ("- metric: mrr\n", 1, 1, None, "no-gates"),
    "not YAML": ("gates:\n  - metric: [mrr\n", 3, 1, None, "not-yaml"),
    "tabs": ("gates:\n\t- metric: mrr\n", 2, 1, None, "not-yaml"),
    "a key twice": ("gates:\n  - {metric: mrr, metric: map}\n", 2, 19, None, "duplicate-key"),
    "a tag that does not fit": ("gates: [{metric: mrr, threshold: !!int ''}]", None, None, None, "not-yaml"),
    "a Python object": ("gates: !!python/object/apply:os.getcwd []\n", 1, 8, None, "not-yaml"),
    "an alias of nothing": ("gates: *others\n", 1, 8, None, "not-yaml"),
    "aliases of aliases": ("a: &a [x]\nb: &b [*a, *a]\ngates: [*b]\n", 2, None, None, "nested-alias"),
    "binary": (b"\x00\x01\xff\xfe\x80", None, None, None, "not-yaml"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_is_allowed(file: Path, mistake: str) -> None:
    text, line, column, field, code = MISTAKES[mistake]
    error = refusal(file, text)
    assert (error.file, error.line, error.column, error.field) == (str(file), line, column, field)
    assert (error.code, error.exit_code) == (code, 2)


def test_a_message_begins_with_the_place(file: Path) -> None:
    error = refusal(file, "gates:\n  - metric: recall@5\n    treshold: 0.8\n")
    assert str(error).startswith(f"{file}:3:5: gates.0.treshold: ")
    assert "threshold" in str(error.hint)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, word in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")):
        with refused("unreadable", ConfigError, file=path) as caught:
            read_criteria(path)
        assert word in caught.value.what  # as the system words it


def test_a_file_that_nobody_can_open(file: Path) -> None:
    file.symlink_to(file)
    with refused("unreadable", ConfigError, file=file):
        read_criteria(file)


def test_anchors_aliases_and_merge_keys_of_yaml(file: Path) -> None:
    text = """\
gates:
  - &strict {metric: recall@5, threshold: 0.8, on: bound}
  - *strict
  - <<: *strict
    segment: {language: en}
"""
    criteria = read(file, text)
    assert [(g.metric, g.threshold, g.on, g.segment) for g in criteria.gates] == [
        ("recall@5", 0.8, "bound", None),
        ("recall@5", 0.8, "bound", None),
        ("recall@5", 0.8, "bound", {"language": "en"}),
    ]
    assert criteria.lines[2] == 4
    assert read(file, "<<: {gates: [{metric: mrr, threshold: 0.5}]}\n").lines == (1,)


def test_a_byte_order_mark_and_windows_line_ends(file: Path) -> None:
    criteria = read(file, b"\xef\xbb\xbf" + SEED.replace("\n", "\r\n").encode())
    assert [g.threshold for g in criteria.gates] == [0.85, 0.62]


def test_default_files_are_found_in_their_order(tmp_path: Path) -> None:
    with refused("no-criteria", ConfigError) as caught:
        find_criteria(tmp_path)
    assert "criteria=" in str(caught.value)
    with typed(), refused("no-criteria", ConfigError) as caught:
        find_criteria(tmp_path)
    assert "--gate" in str(caught.value)
    for name in reversed(DEFAULT_FILES):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(SEED)
        assert find_criteria(tmp_path) == tmp_path / name


def test_gates_from_python_are_checked_too() -> None:
    with refused("bad-value", ConfigError, got=85):
        check_gates([Gate(metric="mrr", threshold=85)])
    with refused("no-gates", ConfigError):
        check_gates([])


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["mrr", "recall@5", "mean"]),
)
FIELDS = st.one_of(st.sampled_from([*Gate.__struct_fields__, "gates", "max_missing"]), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS, lambda v: st.one_of(st.lists(v, max_size=3), st.dictionaries(FIELDS, v, max_size=4)), max_leaves=12
)
FILES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass")),
    st.text(alphabet="gates: -[]{}&*!'\"|>%@`\n\t#0.5,?<mr", max_size=80).map(str.encode),
    VALUES.map(lambda v: yaml.safe_dump(v).encode()),
    st.lists(st.dictionaries(FIELDS, VALUES), max_size=3).map(lambda g: yaml.safe_dump({"gates": g}).encode()),
)


@given(FILES)
@example(b"gates: [{metric: mrr, threshold: !!timestamp soon}]")
@example(b"gates: [{metric: mrr, threshold: !!bool maybe}]")
@example(b"gates: [{metric: mrr, threshold: " + b"9" * 400 + b"}]")
@example(b"<<: {gates: [{metric: mrr, threshold: 0.5}]}")
@example(b"? [gates]\n: []")
@example(b"[" * 3000)
def test_any_text_gives_criteria_or_a_message(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_bytes(content)
    found: Criteria | ConfigError
    try:
        found = read_criteria(file)
    except ConfigError as error:
        found = error
    assert found.file == str(file)
    if isinstance(found, Criteria):
        assert all(g.title and g.policy for g in found.gates)
    assert str(found)
