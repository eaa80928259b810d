"""Writes the reference in docs/reference/ from the code; `make docs` runs it and a test compares the pages."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import yaml

from karat.labels.judge.options import JudgeOptions
from karat.options.option import MISSING, Option, options_in
from karat.schemas.comments import comments
from karat.scoring.options import Options
from karat.systems.synthesize.options import SynthesisOptions

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference"
_MODULES = ("karat", "karat.labels", "karat.systems", "karat.history", "karat.sinks")
_KEYWORDS = {
    "EvaluateKeywords": Options,
    "LadderKeywords": Options,
    "JudgeKeywords": JudgeOptions,
    "SynthesisKeywords": SynthesisOptions,
}
_WIDTH = 100


def pages() -> dict[str, str]:
    """File name → content."""
    made = {
        "commands": commands,
        "errors": errors,
        "criteria": criteria,
        "python": python,
        "http": http,
        "schemas": schemas,
    }
    return {f"{name}.md": make() for name, make in made.items()}


def index() -> str:
    """docs/index.md with a list of all pages, from the navigation of the site."""
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- pages -->\n")
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    groups = [f"- **{name}**: {', '.join(map(_linked, entry))}" for name, entry in _groups(navigation[1:])]
    return (
        "\n".join([f"{before}<!-- pages -->", *groups, ""]) + "<!-- /pages -->" + rest.partition("<!-- /pages -->")[2]
    )


def _groups(entries: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Names of groups with their pages; a group of groups is several."""
    for name, entry in (pair for one in entries for pair in one.items()):
        if all(isinstance(one, dict) and isinstance(next(iter(one.values())), list) for one in entry):
            yield from _groups(entry)
        else:
            yield name, entry


def _linked(entry: Any) -> str:
    title, page = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
    outside = page.removeprefix("project/")
    path, link = (ROOT / "docs" / page, page.removesuffix("index.md"))
    if outside != page:
        path, link = ROOT / outside, f"../{outside}"
    heading = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") if path.is_file() else ""
    return f"[{title or heading}]({link})"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, content in pages().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
    (ROOT / "docs" / "index.md").write_text(index(), encoding="utf-8")


def commands() -> str:
    """Every command with every option; each option has an anchor, such as `#eval--gold`."""
    from karat.cli.main import every_command

    parts = [
        "# Commands",
        "Every command, and every option with an address of its own. `karat COMMAND --help` shows the same.",
    ]
    for name, command in _with_groups(every_command()):
        with click.Context(command, info_name=name, help_option_names=["-h", "--help"]) as context:
            parts += list(_command(tuple(name.split()), command, context))
    return "\n\n".join(parts) + "\n"


def _with_groups(commands: dict[str, click.Command]) -> Iterator[tuple[str, click.Command]]:
    """Every command, and before the first of a group the group, which does nothing by itself."""
    from karat.cli.main import karat_command

    seen: set[str] = set()
    for name, command in commands.items():
        first = name.split()[0]
        group = karat_command.get_command(click.Context(karat_command), first)
        if first not in {*seen, *commands} and group is not None:
            yield first, group
        seen.add(first)
        yield name, command


def _command(path: tuple[str, ...], command: click.Command, context: click.Context) -> Iterator[str]:
    name = "-".join(path)
    yield f"{'#' * min(len(path) + 1, 3)} {_anchor(name)}karat {' '.join(path)}"
    told = (command.help or command.short_help or "").replace("\b\n", "").strip()
    text, examples = _examples(told)
    yield text
    if examples:
        yield "```sh\n" + "\n".join(examples) + "\n```"
    rows = []
    for one in command.get_params(context):
        if isinstance(one, click.Option) and not one.hidden:
            record = one.get_help_record(context)
            if record is not None:
                names, said = record
                long = next((o for o in one.opts if o.startswith("--")), one.opts[0])
                anchor = f"{name}{long}"
                rows.append(f"| {_anchor(anchor)}[<code>{_cell(names)}</code>](#{anchor}) | {_cell(said)} |")
    if rows:
        yield "\n".join(["| option | what |", "|---|---|", *rows])


def _examples(told: str) -> tuple[str, list[str]]:
    lines = [line.strip() for line in told.splitlines()]
    examples = [line for line in lines if line.startswith("karat ")]
    return "\n".join(line for line in lines if not line.startswith("karat ")).strip(), examples


def _cell(text: str) -> str:
    """Text for a table. Code stays as it is; elsewhere, signs of Markdown are shown as themselves.

    >>> _cell("a_b, or `a_b|c`")
    'a&#95;b, or `a_b\\\\|c`'
    """
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a single sign, which does not begin code
        parts = ["&#96;".join(parts)]
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = part.replace("|", "\\|")
        else:
            for mark in "|[]<*_":
                part = part.replace(mark, f"&#{ord(mark)};")
            parts[i] = part
    return "`".join(parts)


def errors() -> str:
    """Every code with what is said, from the texts that the tests compare."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests" / "golden" / "wording").glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            for code, example in _examples_in([line for line in block.splitlines() if not line.startswith("#")]):
                if example not in found.setdefault(code, []):
                    found[code].append(example)
    rare, messages = sorted(set(_codes()) - set(found)), _messages()
    parts = [
        "# Errors",
        "Every error has a code, and an address in this list. The terminal shows the code in brackets: "
        "`error: run.jsonl: no such file [no-such-file]`. In Python it is `error.code`; in answers of `karat mcp` and "
        "`karat serve` it is `code`. Below each code is what Karat says, with examples of files and values.",
    ]
    for code in sorted({*found, *rare}):
        parts.append(f"## {code}")
        parts += [f"```text\n{example}\n```" for example in found.get(code, [])[:3]]
        if code in rare:  # no test keeps what it says
            parts += [f"> {_cell(text)}" for text in sorted(messages.get(code, ()))[:3]] or [_of_class(code)]
    return "\n\n".join(parts) + "\n"


def _examples_in(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Codes and messages of a block: `[code] message`, or what a command prints and `[exit code 2, code]` below it.

    >>> list(_examples_in(["[no-file] a.json: missing", "hint: look"]))
    [('no-file', 'a.json: missing\\nhint: look')]
    >>> list(_examples_in(["$ karat eval", "! error: missing [no-file]", "! hint: look", "[exit code 2, no-file]"]))
    [('no-file', 'missing\\nhint: look')]
    """
    for at, line in enumerate(lines):
        if said := re.match(r"\[(?:exit code \d, )?([a-z0-9-]+)\] (.*)", line):
            yield said[1], "\n".join([said[2], *(more for more in lines[at + 1 :] if not more.startswith("["))])
        elif said := re.fullmatch(r"\[exit code \d, ([a-z0-9-]+)\]", line):
            printed = "\n".join(lines[:at]).rpartition("! error: ")[2].replace("\n! ", "\n")
            yield said[1], printed.replace(f" [{said[1]}]", "")


def _codes() -> Iterator[str]:
    """Codes given where an error is raised, those of classes of errors, and those of names that are not known."""
    for path in (ROOT / "src" / "karat").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        yield from re.findall(r'\bcode(?:: [\w\[\]]+ )? ?= ?"([a-z0-9-]+)"', text)
        yield from re.findall(r'\bcode ?= ?"[a-z0-9-]+" if .* else "([a-z0-9-]+)"', text)
        for kind in re.findall(r'\b(?:UnknownName|Registry)\(\s*f?"(\w+)', text):
            yield f"unknown-{kind}"


def _messages() -> dict[str, set[str]]:
    """Code → messages as written where the error is raised; … stands for a value."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / "src" / "karat").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {n.targets[0].id: n.value for n in ast.walk(tree) if _names_a_text(n)}
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and call.args:
                for given in call.keywords:
                    if given.arg == "code" and isinstance(given.value, ast.Constant):
                        said = call.args[0]
                        text = _written(texts.get(said.id, said) if isinstance(said, ast.Name) else said)
                        if text:
                            found.setdefault(str(given.value.value), set()).add(text)
    return found


def _names_a_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, (ast.Constant, ast.JoinedStr))
    )


def _written(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_written(part) or "…" for part in node.values)
    return ""


def _of_class(code: str) -> str:
    """What the class of errors with this code says about itself."""
    for path in (ROOT / "src" / "karat").rglob("*.py"):
        told = re.search(
            rf'class \w+\([^)]*\):\n    """([^"]+)"""\n\n    code(?:: str)? = "{code}"',
            path.read_text(encoding="utf-8"),
        )
        if told is not None:
            return " ".join(told[1].split())
    if code.startswith("unknown-"):
        return f"No {code.removeprefix('unknown-')} has this name. The hint names known ones that are near."
    return "Karat refuses. The message says why."


def criteria() -> str:
    """The fields of ship-criteria.yaml, from its schema."""
    schema = _schema("ship-criteria")
    return (
        "\n\n".join(["# ship-criteria.yaml", "Every field. [Gates](../gates.md) explains them.", *_fields(schema)])
        + "\n"
    )


def schemas() -> str:
    """All JSON schemas."""
    parts = [
        "# Files and their schemas",
        "`karat check schema NAME` prints a schema; editors and CI can check files against it.",
    ]
    for path in sorted((ROOT / "src" / "karat" / "schemas").glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        parts += [f"## {name}", *_fields(_schema(name))]
    return "\n\n".join(parts) + "\n"


def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(
        (ROOT / "src" / "karat" / "schemas" / f"{name}.schema.json").read_bytes()
    )
    return found


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("description"):
        yield str(schema["description"])
    parts = {"": schema, **schema.get("$defs", {})}
    for name, part in parts.items():
        rows = [
            f"| `{field}` | {_cell(_kind(about))} | {_cell(str(about.get('description', '')))} |"
            for field, about in part.get("properties", {}).items()
        ]
        if rows:
            if name:
                yield f"**{name}**" + (f": {part['description']}" if part.get("description") else "")
            yield "\n".join(["| field | type | what |", "|---|---|---|", *rows])


def _kind(about: dict[str, Any]) -> str:
    if "$ref" in about:
        return str(about["$ref"]).rpartition("/")[2]
    if "enum" in about:
        return ", ".join(map(str, about["enum"]))
    if "const" in about:
        return str(about["const"])
    several = about.get("anyOf") or about.get("oneOf")
    if several:
        return " or ".join(dict.fromkeys(map(_kind, several)))
    kind = about.get("type", "any")
    if kind == "array":
        return f"list of {_kind(about.get('items') or {})}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


class Entry(NamedTuple):
    """A public name."""

    path: str
    name: str
    what: Any

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.what)


def python(shown: Callable[[Entry], str] | None = None) -> str:
    """The public names by module, with the keywords that each takes. `shown`: another form of signature and text."""
    parts = ["# Python", "Everything that `import karat` offers, with arguments and defaults."]
    for module in _MODULES:
        names = [name for name in importlib.import_module(module).__all__ if not name.startswith("_")]
        parts.append(f"## {module}")
        for name in names:
            what = getattr(importlib.import_module(module), name)
            entry = Entry(f"{what.__module__}.{getattr(what, '__qualname__', name)}", name, what)
            if shown is not None:
                parts += [_anchor(f"{module}.{name}"), shown(entry)]
            else:
                parts += [f"### {_anchor(f'{module}.{name}')}{name}", *_object(entry)]
            parts += _keywords(what)
    return "\n\n".join(parts) + "\n"


def _object(entry: Entry) -> Iterator[str]:
    if not entry.is_class:
        yield _signature(entry.name, entry.what)
    yield from _told(entry.what)
    if entry.is_class:
        rows = [f"| `{name}` | {_cell(told)} |" for name, told in _stated(entry.what).items()]
        rows += [
            f"| `{name}{_arguments(member)}` | {_cell(_first(member))} |"
            for name, member in _members(entry.what).items()
        ]
        if rows:
            yield "\n".join(["| member | what |", "|---|---|", *rows])


def _stated(kind: type) -> dict[str, str]:
    """Fields that a comment explains."""
    fields = getattr(kind, "__struct_fields__", ()) or getattr(kind, "_fields", ())
    return {name: told for name, told in comments(kind).items() if name in fields and not name.startswith("_")}


def _members(kind: type) -> dict[str, Any]:
    """Methods and properties with a docstring."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("karat"):
            found |= {n: v for n, v in vars(base).items() if not n.startswith("_") and _first(v)}
    return {n: v for n, v in found.items() if callable(_plain(v)) or not inspect.isclass(v)}


def _plain(member: Any) -> Any:
    return getattr(member, "__func__", member)


def _first(member: Any) -> str:
    """The first paragraph of its docstring, unless it is that of a builtin type."""
    if not (inspect.isfunction(_plain(member)) or hasattr(member, "fget") or hasattr(member, "func")):
        return ""
    told = inspect.getdoc(_plain(member)) or ""
    return " ".join(told.partition("\n\n")[0].partition(">>>")[0].split())


def _arguments(member: Any) -> str:
    """
    >>> _arguments(Options.replace)
    '(**changes)'
    """
    if not inspect.isfunction(_plain(member)):
        return ""
    own = list(inspect.signature(_plain(member)).parameters.values())
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [
        stars.get(one.kind, "") + one.name + ("" if one.default is one.empty else f"={one.default!r}") for one in own
    ]
    return f"({', '.join(one for one in shown if one not in ('self', 'cls'))})".replace("|", "\\|")


def _signature(name: str, what: Any) -> str:
    """As Python would define it.

    >>> def some(path: "str | None" = None, *, deep: bool = False) -> "int": ...
    >>> _signature("load", some).splitlines()[1]
    'def load(path: str | None = None, *, deep: bool = False) -> int: ...'
    """
    given, keywords = [], _taken(what)
    before = None
    signature = inspect.signature(what)
    for one in signature.parameters.values():
        if keywords is not None and one.name in options_in(keywords):
            continue
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            given.append("*")
        given.append(str(one.replace(annotation=_Type(one.annotation)) if one.annotation is not one.empty else one))
        before = one.kind
    given += ["**options"] * (keywords is not None)
    end = f") -> {_Type(signature.return_annotation)!r}: ..."
    line = f"def {name}({', '.join(given)}{end}"
    if len(line) > _WIDTH:
        line = f"def {name}(\n" + "".join(f"    {part},\n" for part in given) + end
    return f"```python\n{line}\n```"


class _Type:
    """A type as text, without quotes and modules."""

    def __init__(self, annotation: Any) -> None:
        text = inspect.formatannotation(annotation)
        if isinstance(annotation, str):
            text = annotation.strip("'\"") if annotation[:1] in "'\"" else annotation
        self._text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)

    def __repr__(self) -> str:
        return self._text


def _told(what: Any) -> Iterator[str]:
    """A docstring, with its examples as code."""
    text = (inspect.getdoc(what) or "").partition("\n\nOptions:\n")[0]  # a table has them
    for part in re.split(r"\n\s*\n", text):
        if part.lstrip().startswith(">>>"):
            yield f"```pycon\n{part}\n```"
        elif part.strip():
            yield part


def _keywords(what: Any) -> list[str]:
    """A table of the keywords that `**options` stands for."""
    if what is Options:
        return [_option_table(options_in(Options))]
    keywords = _taken(what)
    if keywords is None:
        return []
    if keywords is Options:
        left_out = [f"`{name}`" for name in options_in(Options) if name not in inspect.signature(what).parameters]
        return [
            "Other keywords: all [options](#karat.Options)"
            + (f", except {' and '.join(left_out)}." if left_out else ".")
        ]
    return ["Other keywords:", _option_table(options_in(keywords))]


def _taken(what: Any) -> type | None:
    """The options that a function takes as keywords."""
    if not inspect.isfunction(what):
        return None
    stated = str(inspect.signature(what, follow_wrapped=False)) + str(what.__annotations__)
    return next((kind for name, kind in _KEYWORDS.items() if name in stated), None)


def _option_table(options: dict[str, Option]) -> str:
    flags = {f"--{name.replace('_', '-')}": name for name in options}

    def plain(text: str) -> str:
        return re.sub(r"--[a-z-]+", lambda found: f"`{flags[found[0]]}`" if found[0] in flags else found[0], text)

    rows = []
    for name, one in options.items():
        usual = "required" if one.default is MISSING else one.instead or f"`{one.default!r}`"
        rows.append(f"| `{name}` | {_cell(plain(one.about))} | {_cell(plain(usual))} |")
    return "\n".join(["| keyword | what | default |", "|---|---|---|", *rows])


def http() -> str:
    """Every endpoint of `karat serve`."""
    from karat.web.api import ENDPOINTS, PREFIX
    from karat.web.app import DESK_ENDPOINTS
    from karat.web.endpoints import openapi
    from karat.web.live import LIVE_ENDPOINTS
    from karat.web.order import ORDER_ENDPOINTS

    document = openapi([*ENDPOINTS, *ORDER_ENDPOINTS, *DESK_ENDPOINTS, *LIVE_ENDPOINTS], PREFIX)
    parts = [
        "# HTTP",
        "The API of `karat serve`. `/api/v1/openapi.json` describes it completely. Writes need the header "
        "`X-Karat: 1`. A refusal is JSON with `error`, `hint` and, if it is one of [these](errors.md), its `code`.",
    ]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            anchor = re.sub(r"[^a-z0-9]+", "-", f"{method} {path}".lower()).strip("-")
            parts.append(f"## {_anchor(anchor)}{method.upper()} {path}")
            parts.append(" ".join(filter(None, (one["summary"], one.get("description", "")))))
            rows = [f"| `{p['name']}` | {p['in']} | {_cell(_kind(p['schema']))} |" for p in one.get("parameters", [])]
            if rows:
                parts.append("\n".join(["| parameter | in | type |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _anchor(name: str) -> str:
    return f'<span id="{name}"></span>'


if __name__ == "__main__":
    main()
