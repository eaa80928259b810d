"""Hooks of MkDocs: pages from outside docs/, links between all of them, and Python's reference with mkdocstrings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parent))
from reference import Entry, python

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


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds generated pages, and whatever pages link to outside docs/."""
    from mkdocs.structure.files import File

    for name, content in {"reference/python.md": python(_documented), "decisions/index.md": decisions()}.items():
        plain = files.get_file_from_path(name)
        if plain is not None:
            files.remove(plain)
        files.append(File.generated(config, name, content=content))
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


def _documented(entry: Entry) -> str:
    """A name as mkdocstrings shows it, with types that link to each other."""
    members = "\n    options:\n      members: true\n      filters: ['!^_']" if entry.is_class else ""
    return f"::: {entry.path}{members}"


def decisions() -> str:
    """A list of all decisions."""
    lines = []
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n\n".join(["# Decisions", "Why things are as they are, one page each.", "\n".join(lines)]) + "\n"
