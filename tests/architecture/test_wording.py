"""Sentences can be improved: tests go by codes and fields, and what is said is in `tests/golden/`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS, PACKAGE = ROOT / "tests", ROOT / "src" / "karat"
LONG = 5  # words: from there on it is a sentence, and not a name, a number or a value
_SEARCHES = ("startswith", "endswith", "search", "match", "fullmatch", "findall", "count")
_WORD = re.compile(r"[(\"'`“]*[A-Za-z]+(?:['’-][A-Za-z]+)*[.,:;?!)\"'`”]*")

# Sentences that a test may assert all the same.
ALLOWED: set[str] = set()
# Codes of errors that no catalogue provokes: they take a server, another Java, an installed plug-in, a broken disk.
RARE = {
    *(
        "ambiguous-run",
        "other-gold",
        "bad-body",
        "changed-while-read",
        "damaged-result",
        "denied",
        "no-demo-set",
        "no-such-part",
        "no-runs",
        "not-loaded",
        "old-java",
    ),
    *("old-spark", "old-verdict", "spark-failed", "too-many-runs", "unreachable", "unread-changes", "unusable-history"),
    *("unavailable-dataset", "unknown-dataset"),
}


def is_sentence(text: str) -> bool:
    """Whether it has words enough in a row, whatever is between and around them."""
    row = 0
    for part in text.replace("\\", " ").split():
        row = row + 1 if _WORD.fullmatch(part) else 0
        if row >= LONG:
            return True
    return False


Tables = dict[str, list[ast.expr]]  # what names stand for, one entry for each row of a table


def texts_of(node: ast.expr, tables: Tables) -> Iterator[str]:
    """The texts that a comparison compares with: a constant, an f-string, a column, or those in a list, set or dict."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from texts_of(part.value, tables)
    elif isinstance(node, ast.Name):
        for entry in tables.get(node.id, ()):
            yield from texts_of(entry, {})
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for element in node.elts:
            yield from texts_of(element, tables)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from texts_of(value, tables)


def elements(node: ast.expr | None) -> list[ast.expr]:
    return node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else []


def tables_of(tree: ast.Module, function: ast.AST) -> Tables:
    """What a function goes through: the columns of `parametrize`, and of its loops over a table that is written out."""
    written = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: Tables = {}
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)):
            target = node.target
            names = [one.id if isinstance(one, ast.Name) else "" for one in elements(target) or [target]]
            source, several = node.iter, bool(elements(target))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "parametrize":
            head, source = node.args[:2]
            names = [text.strip() for one in texts_of(head, {}) for text in one.split(",")]
            several = len(names) > 1
        else:
            continue
        for row in elements(written.get(source.id) if isinstance(source, ast.Name) else source):
            for name, entry in zip(names, elements(row) if several else [row], strict=False):
                if not isinstance(entry, ast.Dict):  # what is given, and not what is said
                    found.setdefault(name, []).append(entry)
    return found


def asserted(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts that a test wants to find: in an assertion, or as the `match` of `pytest.raises`."""
    for function in tree.body:
        tables = tables_of(tree, function)
        for node in ast.walk(function):
            if isinstance(node, ast.keyword) and node.arg == "match":
                yield from ((node.value.lineno, text) for text in texts_of(node.value, tables))
            for part in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
                sides = [part.left, *part.comparators] if isinstance(part, ast.Compare) else []
                if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _SEARCHES:
                    sides = part.args
                yield from ((side.lineno, text) for side in sides for text in texts_of(side, tables))


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    for line, text in asserted(ast.parse(path.read_text(encoding="utf-8"))):
        if is_sentence(text) and text not in ALLOWED:
            yield line, text


def test_no_test_asserts_a_sentence() -> None:
    """Assert codes, fields and numbers; `tests/wording/` and its golden files hold what is said."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in sorted(TESTS.rglob("test_*.py"))
        for line, text in sorted(set(sentences(path)))
    ]
    assert found == []


def codes() -> dict[str, str]:
    """Every code that is given in the package, and a file that gives it."""
    found: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for code in re.findall(r'\bcode="([a-z0-9-]+)"', path.read_text(encoding="utf-8")):
            found.setdefault(code, str(path.relative_to(PACKAGE)))
    return found


def test_every_code_has_an_example_of_what_is_said() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (TESTS / "golden" / "wording").iterdir())
    shown = set(re.findall(r"^\[(?:exit code \d, )?([a-z0-9-]+)\]", text, re.M))
    assert {code: file for code, file in codes().items() if code not in shown | RARE} == {}


def test_the_check_notices_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(
        "def test(error, x):\n"
        "    assert 'the run has no such query' in str(error)\n"
        "    assert str(error) == f'{x}: the run has no such query'\n"
        "    assert error.notes == ['only the other side has it here']\n"
        "    assert str(error).startswith('nobody knows what this is about')\n"
        "    with raises(E, match='cannot be read as it is now'):\n"
        "        assert error.code == 'no-such-query'\n"
        "        assert 'q1 Q0 doc 1 2.0 tag' in str(error)\n"
    )
    assert sorted(line for line, _ in sentences(path)) == [2, 3, 4, 5, 6]


def test_the_check_notices_a_sentence_in_a_table(tmp_path: Path) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(
        "CASES = [('a query that has many words', 'the run has no such query')]\n"
        "@pytest.mark.parametrize(('query', 'said'), CASES)\n"
        "def test(query, said):\n"
        "    assert said in ask(query)\n"
        "@pytest.mark.parametrize('said', ['the run has no such query'])\n"
        "def test_one(said):\n"
        "    assert answer() == f'error: {said}'\n"
        "def test_loop():\n"
        "    for query, said in (('a', 'the run has no such query'),):\n"
        "        assert said in ask(query)\n"
        "    assert all(said in answer() for said in ('the run has no such query', 'b'))\n"
    )
    assert {line for line, _ in sentences(path)} == {4, 7, 10, 11}


# Phrases that readers stumble over. Prompts are left as models were tested with them.
BANNED = re.compile(
    r"\b(anew|mend(s|ed)?|(is|are) lacking|dearer|nobody|somebody|who asks|tells only|likeness|said aloud|strangers?)\b"
    r"|\bstands? in (a|the)\b|\b(one|a) (number|line|value|row|file|gate|label) a [a-z]+\b",
    re.I,
)
PROMPTS = {"prompts.py", "drafts.py", "judges.py"}
DEMO_TAG = '"mended"'


def test_no_page_and_no_message_uses_banned_phrases() -> None:
    root = Path(__file__).parents[2]
    sources = [path for ending in ("py", "html", "yml") for path in (root / "src").rglob(f"*.{ending}")]
    pages = [*(root / "docs").rglob("*.md"), *(root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
    found = [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for path in sorted({*sources, *pages})
        if path.name not in PROMPTS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if BANNED.search(line.replace(DEMO_TAG, ""))
    ]
    assert found == []
