"""Runs the code blocks of a page of the documentation, as a reader would who types them in one folder.

- A block with a `title="NAME"` is a file: it is written.
- `console`: lines that begin with `$ ` are typed; what follows must be printed. `…` stands for lines that are left out.
- `python` is run, and `pycon` with what it prints; a `text` block right after `python` must be what it prints.
- `python` with nothing but `def NAME(…): ...` must be the signature of a public name.
- `text` elsewhere must be an error that Karat prints in a test (tests/golden/wording).
- `sh`, or no kind: each line is typed, if all are commands of Karat.
- `json`, `jsonl`, `yaml` and `toml` without a title must be valid.
- `curl` asks the dashboard that the page started last; models are answered by one of the tests.
- A block after `<!-- not run: REASON -->` is not run. Its Karat commands must still exist, with their options.
"""

from __future__ import annotations

import doctest
import gc
import importlib
import inspect
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import yaml
from doc_servers import LOCAL_MODEL, Dashboard

_ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^( *)```(.*)$")
_NOT_RUN = re.compile(r"^ *<!-- not run: (.+) -->$")
_SIGNATURE = re.compile(r"def \w+\((.*)\)(?: -> .+)?: \.\.\.\n", re.S)
_MODULES = ("karat", "karat.labels", "karat.systems", "karat.history", "karat.sinks")
_TITLE = re.compile(r'title="([^"]+)"')


# Commands that no test can run here, in any block. Those of Karat must still exist, with their options.
_CANNOT_RUN = {
    "karat serve": "it does not end",
    "karat mcp": "it does not end",
    "karat labels label": "asks for keys",
    "karat gate comment": "needs a server elsewhere",
    "karat history push": "needs a server elsewhere",
    "karat send": "needs a server elsewhere",
    "pip install": "installs packages",
    "make ": "works on the checkout",
    "--engine spark": "needs Spark",
    "--send ": "needs a server elsewhere",
}
# All that a page may type besides Karat and Python scripts. Anything else could change the machine that tests run on.
HARMLESS = {"cat", "cp", "echo", "grep", "head", "ls", "mkdir", "sed", "wc"}
_ABROAD = re.compile(r"(^|[\s=])(/|~|\.\./)")  # paths outside the folder of the page


@dataclass
class Block:
    """A fenced block of a page."""

    line: int
    kind: str
    title: str | None
    text: str
    not_run: str | None
    after: str = ""  # kind of the block before it, if nothing but blank lines is between

    @property
    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """What is typed, and the lines that the page shows below it."""
        typed, shown = "", list[str]()
        for line in self.text.splitlines():
            if typed.endswith("\\"):
                typed = f"{typed[:-1].rstrip()} {line.strip()}"
            elif line.startswith("$ "):
                if typed:
                    yield typed, shown
                typed, shown = line[2:], []
            else:
                shown.append(line)
        if typed:
            yield typed, shown


def blocks(markdown: str) -> list[Block]:
    """All blocks of a page, in order."""
    found: list[Block] = []
    reason, opened, before, indent = None, None, "", 0
    for number, line in enumerate(markdown.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is not None:
            if fence and not fence[2]:
                opened.text = "".join(f"{one}\n" for one in opened.text.splitlines())
                found.append(opened)
                before, opened = opened.kind, None
            else:
                opened.text += line[indent:] + "\n"
        elif fence:
            indent, info = len(fence[1]), fence[2].strip()
            title = _TITLE.search(info)
            opened = Block(number, info.partition(" ")[0], title and title[1], "", reason, before)
            reason = None
        elif said := _NOT_RUN.match(line):
            reason = said[1]
        elif line.strip():
            before = ""
    return found


@dataclass
class Session:
    """A folder in which the blocks of a page are run; it is the current folder."""

    page: str
    wrong: list[str] = field(default_factory=list)
    code: int = 0
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__main__"})
    printed: str = ""
    served: str | None = None  # the dashboard that the page started last
    dashboard: Dashboard | None = None
    instead: dict[str, str] = field(default_factory=dict)  # what stands on the page → what is meant here
    before: Callable[[Block], None] = lambda _: None  # called with each block

    def run(self, block: Block) -> None:
        where = f"{self.page}:{block.line}"
        self.before(block)
        try:
            self._run(block, where)
        except Exception as error:
            self.wrong.append(f"{where}: {type(error).__name__}: {error}")

    def run_page(self, markdown: str) -> None:
        for block in blocks(markdown):
            self.run(block)
        if self.dashboard is not None:
            self.dashboard.close()

    def _run(self, block: Block, where: str) -> None:
        if block.not_run:
            self.wrong += [f"{where}: {wrong}" for wrong in mistyped(block)]
        elif block.kind == "console" or (block.kind in ("", "sh") and block.text.startswith("$ ")):
            self._console(block, where)
        elif block.kind in ("", "sh") and (lines := _typed_lines(block.text)):
            self._console(replace(block, text="".join(f"$ {line}\n" for line in lines)), where)
        elif block.title:
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.kind in ("python", "pycon") and block.text.startswith(">>> "):
            test = doctest.DocTestParser().get_doctest(block.text, self.names, where, self.page, block.line)
            doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(
                test, out=lambda wrong: self.wrong.append(f"{where}: {wrong}"), clear_globs=False
            )
        elif block.kind == "python" and _SIGNATURE.fullmatch(block.text):
            self.wrong += [f"{where}: {wrong}" for wrong in wrong_signature(block.text)]
        elif block.kind == "python":
            with _captured() as stream:
                exec(compile(block.text, where, "exec"), self.names)
            self.printed = _text(stream)
        elif block.kind == "text" and block.after == "python":
            self.wrong += [f"{where}: {wrong}" for wrong in differences(block.text.splitlines(), self.printed)]
        elif block.kind == "text" and block.text.strip() in said_in_tests():
            pass
        elif block.kind in ("json", "jsonl"):
            rest = block.text.strip()
            while rest:  # one value, or one per line
                rest = rest[json.JSONDecoder().raw_decode(rest)[1] :].strip()
        elif block.kind == "yaml":
            yaml.safe_load(block.text)
        elif block.kind == "toml":
            tomllib.loads(block.text)
        else:
            self.wrong.append(
                f"{where}: no way to run a block {block.kind!r}; give it a kind, or a title if it is a file"
            )

    def _console(self, block: Block, where: str) -> None:
        commands = list(block.commands)
        if not commands:
            self.wrong.append(f"{where}: no line begins with `$ `")
        for at, (typed, shown) in enumerate(commands):
            if typed == "echo $?":
                printed = f"{self.code}\n"
            else:
                self.code, printed = self._typed(typed)
                shown_next = at + 1 < len(commands) and commands[at + 1][0] == "echo $?"
                if self.code and not shown_next and not (self.code == 1 and typed.startswith("karat gate")):
                    self.wrong.append(f"{where}: {typed}: exit code {self.code}\n{printed}")
            if shown and any(map(str.strip, shown)):
                self.wrong += [f"{where}: {typed}: {wrong}" for wrong in differences(shown, printed)]

    def _typed(self, command: str) -> tuple[int, str]:
        """`karat serve` is started when something first asks it."""
        if command.startswith("karat serve") and not command.startswith("karat serve users"):
            self.served = command
        elif command.startswith("curl "):
            if self.dashboard is None:
                self.dashboard = Dashboard(self.served or "karat serve")
            return self.dashboard.curl(command)
        for shown, meant in {LOCAL_MODEL: os.environ.get("OPENAI_BASE_URL", LOCAL_MODEL), **self.instead}.items():
            command = command.replace(shown, meant)
        return typed_in(command)


def cannot_run(command: str) -> bool:
    return any(part in command for part in _CANNOT_RUN) and "--dry-run" not in command


def typed_in(command: str) -> tuple[int, str]:
    """Exit code and output of a command. Karat and Python scripts run in this process, harmless commands in a shell."""
    words = shlex.split(command, comments=True)
    if given := re.fullmatch(r"([A-Z_]+)=(\S+) (karat .*)", command):
        with patch.dict(os.environ, {given[1]: given[2]}):
            return typed_in(given[3])
    if words[0] == "cd" and not _ABROAD.search(command):
        os.chdir(words[1])
        return 0, ""
    if cannot_run(command):
        wrong = {"karat": unknown, "make": no_targets}.get(words[0], lambda _: [])(words[1:])
        return (2 if wrong else 0), "\n".join(wrong)
    if not re.search(r"[|<>&;`]|\$", re.sub(r"'[^']*'", "", command.partition(" #")[0])):
        if words[0] == "karat":
            return _in_process([found for word in words for found in _expanded(word)])
        if words[0] == "python" and len(words) > 1 and words[1].endswith(".py"):
            return _in_process(words[1:], script=True)
    if words[0] not in HARMLESS or re.search(r"[|<>&;`]|\$\(", command) or _ABROAD.search(command):
        raise ValueError(f"not a command that tests run: {command}; mark the block as not run")
    done = subprocess.run(["sh", "-c", command], stdout=-1, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def _expanded(word: str) -> list[str]:
    """As a shell does it: `runs/*.jsonl` is every such file."""
    return sorted(map(str, Path().glob(word))) if re.fullmatch(r"[\w/.]*\*[\w/.]*", word) else [word]


def _in_process(words: list[str], script: bool = False) -> tuple[int, str]:
    from karat.cli.main import main

    for file in Path().glob("*.py"):  # other tests have modules of the same name
        sys.modules.pop(file.stem, None)
    with patch.object(sys, "argv", words), _captured() as stream:
        try:
            if script:
                runpy.run_path(words[0], run_name="__main__")
            else:
                main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    gc.unfreeze()  # a command freezes all that it leaves behind, for it ends
    here = f"{Path.cwd()}{os.sep}"
    for name, module in list(sys.modules.items()):  # a page may change its own modules between two commands
        if str(getattr(module, "__file__", None) or "").startswith(here):
            del sys.modules[name]
    return code, _text(stream)


class _captured:
    """Standard output and error together, in the order in which they are written."""

    def __enter__(self) -> io.TextIOWrapper:
        self._stack = ExitStack()
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        self._stack.enter_context(redirect_stdout(stream))
        self._stack.enter_context(redirect_stderr(stream))
        return stream

    def __exit__(self, *error: object) -> None:
        self._stack.close()


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def differences(shown: list[str], printed: str) -> list[str]:
    """What the page shows and the command does not print. Blank lines, times and ids of runs do not matter.

    >>> differences(["one", "…", "three in 2.5 s"], "one\\ntwo\\nthree in 0.1 s\\n")
    []
    >>> differences(["one", "three"], "one\\ntwo\\nthree\\n")
    ['not printed as shown: three']
    >>> differences(["one"], "one\\ntwo\\n")
    ['prints more than the page shows: two']
    """
    lines = [masked(line) for line in printed.splitlines() if line.strip()]
    at, skip = 0, False
    for line in shown:
        if line.strip() == "…":
            skip = True
        elif line.strip():
            wanted = masked(line)
            found = next((i for i in range(at, len(lines)) if lines[i] == wanted), None)
            if found is None or (found > at and not skip):
                return [f"not printed as shown: {line}"]
            at, skip = found + 1, False
    return [] if skip or at == len(lines) else [f"prints more than the page shows: {lines[at]}"]


def masked(line: str) -> str:
    """A line without what no two machines share, such as times, and the length of a comment that has times.

    >>> masked("4eced75888   2026-11-17 20:52   bm25 in 2.5 s")
    '##   ##   bm25 in ## s'
    """
    return re.sub(
        r"\d{4}-\d\d-\d\d \d\d:\d\d|\b[0-9a-f]{10}\b|[\d.]+(?= m?s\b)|[\d,]+(?= characters\))", "##", line.rstrip()
    )


@cache
def said_in_tests() -> str:
    """All errors of the golden files, without their codes."""
    texts = (path.read_text(encoding="utf-8") for path in (_ROOT / "tests" / "golden" / "wording").glob("*.txt"))
    printed = re.sub(r"^! error: (.*) \[[a-z0-9-]+\]$", r"\1", "\n\n".join(texts), flags=re.M)
    return re.sub(r"^(?:\[[^]]*\]|!) ", "", printed, flags=re.M)


def wrong_signature(text: str) -> Iterator[str]:
    """What differs from the public name of this signature; `**options` stands for keywords that a table lists.

    >>> list(wrong_signature("def load(path: str, more) -> int: ..."))
    ["load takes ['path'], not ['path', 'more']"]
    >>> list(wrong_signature("def evaluate(run: Any, gold: Any = None, **options) -> Result: ..."))
    []
    """
    names: dict[str, Any] = {}
    exec(compile(text, "signature", "exec", flags=annotations.compiler_flag), names)
    ((name, shown),) = ((name, made) for name, made in names.items() if name != "__builtins__")
    asked, taken = inspect.signature(shown).parameters, list[str]()
    stated, some = [*asked], any(one.kind is one.VAR_KEYWORD for one in asked.values())
    for module in map(importlib.import_module, _MODULES):
        if name in module.__all__:
            taken = [*inspect.signature(getattr(module, name)).parameters]
            if stated == ([*filter(stated.__contains__, taken), "options"] if some else taken):
                return
    yield f"{name} takes {taken}, not {stated}" if taken else f"no public name {name}"


def mistyped(block: Block) -> Iterator[str]:
    """Karat commands of a block that do not exist, or not with these options."""
    for command in _typed(block.text):
        try:
            words = shlex.split(command.partition(" | ")[0], comments=True)
        except ValueError:
            continue
        yield from (f"{command}: {wrong}" for wrong in unknown(words[1:]))


def _joined(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


def _typed_lines(text: str) -> list[str]:
    """The commands of a block without comments; none if it has anything else."""
    lines = [line for line in _joined(text) if line.strip() and not line.startswith("#")]
    return lines if all(line.startswith(("karat ", "pip ", "curl ", "make ")) for line in lines) else []


def _typed(text: str) -> Iterator[str]:
    for line in _joined(text):
        typed = line.strip().removeprefix("$ ").removeprefix("- run: ").removeprefix("- ")
        if typed.startswith("karat "):
            yield typed


def no_targets(words: Iterable[str]) -> list[str]:
    """Targets that the Makefile does not have.

    >>> no_targets(["demo"]), no_targets(["damo"])
    ([], ['no target damo'])
    """
    targets = re.findall(r"^([a-z-]+):", (_ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    return [f"no target {word}" for word in words if "=" not in word and word not in targets]


def unknown(words: Iterable[str]) -> list[str]:
    """Options that a command does not have.

    >>> unknown(["eval", "run.jsonl", "--gold=gold.jsonl"]), unknown(["eval", "--golden", "x"]), unknown(["evil"])
    ([], ['no option --golden'], ['no command evil'])
    """
    from karat.cli.main import every_command

    given, known = list(words), every_command()
    while given and given[0].startswith("--"):
        given.pop(0)  # of karat itself
    if not given and words:
        return []
    name = next((n for n in (" ".join(given[:3]), " ".join(given[:2]), *given[:1]) if n in known), None)
    if name is None:
        return [f"no command {given[0] if given else ''}"]
    command = known[name]
    # Click keeps the help option of a command, so it has to be the same as on the command line.
    with click.Context(command, info_name=name, help_option_names=["-h", "--help"]) as context:
        options = {o for one in command.get_params(context) for o in (*one.opts, *one.secondary_opts)}
    asked = [word.partition("=")[0] for word in given[len(name.split()) :] if re.match(r"--[a-z]", word)]
    return [f"no option {word}" for word in asked if word not in options | {"--trust-config", "--help"}]


def not_there(command: str) -> list[str]:
    """What a command names that does not exist; commands of other programs are not known.

    >>> not_there("karat eval … --golden x"), not_there("$ make damo"), not_there("python benchmarks/run.py --quik")
    (['no option --golden'], ['no target damo'], ['no option --quik'])
    """
    words = re.sub(r" (#|\||>|→|&&|;).*", "", command.removeprefix("$ ")).replace("'", "").replace('"', "").split()
    if words[:1] == ["karat"]:
        return unknown(words[1:]) if words[1:] != ["history"] and words[1] != "COMMAND" else []
    if words[:1] == ["make"]:
        return no_targets(word for word in words[1:] if not word.startswith(".venv/"))
    if words[:1] == ["python"] and len(words) > 1 and words[1].startswith(("benchmarks/", "examples/", "tools/")):
        script = _ROOT / words[1]
        if not script.is_file():
            return [f"no script {words[1]}"]
        options = "".join(one.read_text(encoding="utf-8") for one in (script, _ROOT / "benchmarks" / "pages.py"))
        return [f"no option {word}" for word in words[2:] if word.startswith("--") and f'"{word}"' not in options]
    return []
