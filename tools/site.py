"""Hooks of MkDocs: pages generated from the code, pages from outside docs/, and links between all of them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, Any

import click
import msgspec

from karat.errors import KaratError

if TYPE_CHECKING:  # tests call the functions below without MkDocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = "project"  # folder of the site for files from outside docs/
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```|~~~)")
_PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img src="([^"]+)" alt="([^"]+)">\s*</picture>')
_CODE = re.compile(r"<code[^>]*>.*?</code>", re.S)
_OPTION = re.compile(r"(?<![\w-])(--?[a-z][a-z-]*)")
_PUBLIC = ("karat", "karat.labels", "karat.systems", "karat.history", "karat.sinks")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds generated pages, and whatever pages link to outside docs/."""
    from mkdocs.structure.files import File

    made = {
        "reference/commands.md": commands(),
        "reference/errors.md": errors(),
        "reference/criteria.md": criteria(),
        "reference/python.md": python(),
        "reference/http.md": http(),
        "reference/schemas.md": schemas(),
        "decisions/index.md": decisions(),
    }
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    waiting = list((ROOT / "docs").rglob("*.md"))
    waiting += [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():  # the list of decisions is generated
            continue
        seen.add(path)
        if not path.is_relative_to(ROOT / "docs"):
            name = f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, name, abs_src_path=str(path)))
        if path.suffix == ".md":
            waiting += filter(None, (_target(path, link) for link in _links(path.read_text(encoding="utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Points links at the pages of the site, and shows the picture of the scheme that the reader chose."""
    own = page.file.src_uri
    markdown = pictures(markdown)
    if own.startswith(("reference/", "decisions/index")):
        return markdown
    source = ROOT / (own.removeprefix(f"{OUTSIDE}/") if own.startswith(f"{OUTSIDE}/") else f"docs/{own}")

    def moved(found: re.Match[str]) -> str:
        target = _target(source, found[2])
        if target is None:
            return found[0]
        return f"{found[1]}{relpath(_place(target), str(PurePosixPath(own).parent))}{found[3] or ''})"

    return "\n".join(text if code else _LINK.sub(moved, text) for code, text in _texts(markdown))


def pictures(markdown: str) -> str:
    """`<picture>` follows the system; the theme follows its own switch, by the end of an address."""
    return _PICTURE.sub(
        lambda found: f"![{found[3]}]({found[2]}#only-light) ![{found[3]}]({found[1]}#only-dark)", markdown
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """What the theme leaves out: an empty cell at the top of a table is no header, which screen readers would read
    without a name; and on small screens no line ends within an option."""
    html = re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", html)
    return _CODE.sub(lambda code: _OPTION.sub(r'<span class="option">\1</span>', code[0]), html)


def _target(source: Path, link: str) -> Path | None:
    """The file of the project that a link points to."""
    if re.match(r"[a-z]+:", link) or link.startswith("/"):
        return None
    found = Path(normpath(source.parent / link))
    if found.is_dir():
        found = next((found / name for name in ("README.md", "index.md") if (found / name).is_file()), found)
        if found == ROOT / "docs" / "decisions":
            return found / "index.md"
    return found if found.is_file() and found.is_relative_to(ROOT) else None


def _place(path: Path) -> str:
    own = path.relative_to(ROOT).as_posix()
    return own.removeprefix("docs/") if own.startswith("docs/") else f"{OUTSIDE}/{own}"


def _texts(markdown: str) -> Iterator[tuple[bool, str]]:
    """The parts of a page, and whether each is code. A link may go over the end of a line, so parts have many lines."""
    inside = False
    part: list[str] = []
    for line in markdown.split("\n"):
        fence = _FENCE.match(line.strip()) is not None
        if fence and not inside and part:
            yield False, "\n".join(part)
            part = []
        part.append(line)
        if fence and inside:
            yield True, "\n".join(part)
            part = []
        inside ^= fence
    if part:
        yield inside, "\n".join(part)


def _links(markdown: str) -> list[str]:
    return [found[2] for code, text in _texts(markdown) if not code for found in _LINK.finditer(text)]


# Generated pages


def commands() -> str:
    """Every command with every option; each option has an anchor, such as `#eval--gold`."""
    from karat.cli.main import every_command

    parts = [
        "# Commands",
        "Every command, and every option with an address of its own. `karat COMMAND --help` shows the same.",
    ]
    for name, command in every_command().items():
        with click.Context(command, info_name=name, help_option_names=["-h", "--help"]) as context:
            parts += list(_command(tuple(name.split()), command, context))
    return "\n\n".join(parts) + "\n"


def _command(path: tuple[str, ...], command: click.Command, context: click.Context) -> Iterator[str]:
    name = "-".join(path)
    yield f"{'#' * min(len(path) + 1, 3)} karat {' '.join(path)} {{ #{name} }}"
    told = (command.help or command.short_help or "").replace("\b\n", "").strip()
    text, examples = _examples(told)
    yield text
    if examples:
        yield "```\n" + "\n".join(examples) + "\n```"
    rows = []
    for one in command.get_params(context):
        if isinstance(one, click.Option) and not one.hidden:
            record = one.get_help_record(context)
            if record is not None:
                names, said = record
                long = next((o for o in one.opts if o.startswith("--")), one.opts[0])
                anchor = f"{name}{long}"
                rows.append(f'| <span id="{anchor}"></span>[<code>{_cell(names)}</code>](#{anchor}) | {_cell(said)} |')
    if rows:
        yield "\n".join(["| option | what |", "|---|---|", *rows])


def _examples(told: str) -> tuple[str, list[str]]:
    lines = [line.strip() for line in told.splitlines()]
    examples = [line for line in lines if line.startswith("karat ")]
    return "\n".join(line for line in lines if not line.startswith("karat ")).strip(), examples


def _cell(text: str) -> str:
    plain = " ".join(text.split())
    for mark in "|[]<*_":
        plain = plain.replace(mark, f"&#{ord(mark)};")
    return plain


def errors() -> str:
    """Every code with what is said, from the texts that the tests compare."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests" / "golden" / "wording").glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            lines = [line for line in block.splitlines() if not line.startswith("#")]
            for at, line in enumerate(lines):
                said = re.match(r"\[(?:exit code \d, )?([a-z0-9-]+)\] (.*)", line)
                if said is not None:
                    rest = [more for more in lines[at + 1 :] if not more.startswith("[")]
                    example = "\n".join([said[2], *rest])
                    if example not in found.setdefault(said[1], []):
                        found[said[1]].append(example)
    rare = sorted(set(_codes()) - set(found))
    parts = [
        "# Errors",
        "Every error has a code: `error.code` in Python, `code` in the answers of `karat mcp`, and an address in this "
        "list. Below each code is what Karat says, with examples of files and values. To find a message that you "
        "see, search for its words.",
    ]
    for code in sorted({*found, *rare}):
        parts.append(f"## {code} {{ #{code} }}")
        parts += [f"```text\n{example}\n```" for example in found.get(code, [])[:3]]
        if code in rare:
            parts.append("Rare: it has no example here.")
    return "\n\n".join(parts) + "\n"


def _codes() -> Iterator[str]:
    """Codes given where an error is raised, and those of classes of errors."""
    for path in (ROOT / "src" / "karat").rglob("*.py"):
        yield from re.findall(r'\bcode="([a-z0-9-]+)"', path.read_text(encoding="utf-8"))
    waiting: list[type[KaratError]] = [KaratError]
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        yield one.code


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
        "`karat schema NAME` prints a schema; editors and CI can check files against it.",
    ]
    for path in sorted((ROOT / "src" / "karat" / "schemas").glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        parts += [f"## {name} {{ #{name} }}", *_fields(_schema(name))]
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


def python() -> str:
    """The public names, by module."""
    parts = ["# Python", "Everything that `import karat` offers. Options are keywords of the functions that take them."]
    for module in _PUBLIC:
        names = [name for name in importlib.import_module(module).__all__ if not name.startswith("_")]
        parts.append(f"## {module}")
        for name in names:
            found = getattr(importlib.import_module(module), name)
            parts.append(f"::: {found.__module__}.{getattr(found, '__qualname__', name)}")
    return "\n\n".join(parts) + "\n"


def http() -> str:
    """Every endpoint of `karat serve`."""
    from karat.web.api import ENDPOINTS, PREFIX
    from karat.web.endpoints import openapi
    from karat.web.labels import LABEL_ENDPOINTS

    document = openapi([*ENDPOINTS, *LABEL_ENDPOINTS], PREFIX)
    parts = [
        "# HTTP",
        "The API of `karat serve`. `/api/v1/openapi.json` describes it completely. Writes need the header "
        "`X-Karat: 1`.",
    ]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            anchor = re.sub(r"[^a-z0-9]+", "-", f"{method} {path}".lower()).strip("-")
            parts.append(f"## {method.upper()} {path} {{ #{anchor} }}")
            parts.append(" ".join(filter(None, (one["summary"], one.get("description", "")))))
            rows = [f"| `{p['name']}` | {p['in']} | {_cell(_kind(p['schema']))} |" for p in one.get("parameters", [])]
            if rows:
                parts.append("\n".join(["| parameter | in | type |", "|---|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def decisions() -> str:
    """A list of all decisions."""
    lines = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n\n".join(["# Decisions", "Why things are as they are, one page each.", "\n".join(lines)]) + "\n"
