"""The generated reference: everything has an address that messages and pages can link to."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from tests.architecture.test_wording import RARE, codes

from karat.cli.main import every_command
from karat.errors import KaratError

ROOT = Path(__file__).parents[1]


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"karat_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> Any:
    return tool("reference")


@pytest.fixture(scope="module")
def site() -> Any:
    return tool("site")


def anchors(page: str) -> list[str]:
    """Addresses that are written out, and those of headings of one word."""
    found = re.findall(r"<span id=\"(.+?)\">|^## ([\w-]+)$", page, re.M)
    return [written or heading for written, heading in found]


def test_the_reference_is_current(reference: Any) -> None:
    made = reference.pages()
    assert {path.name: path.read_text(encoding="utf-8") for path in reference.FOLDER.iterdir()} == made, (
        "run `make docs`"
    )
    assert (ROOT / "docs" / "index.md").read_text(encoding="utf-8") == reference.index(), "run `make docs`"


def test_every_public_name_says_what_it_is_and_takes(reference: Any) -> None:
    page = reference.python()
    for module in reference._MODULES:
        for name in importlib.import_module(module).__all__:
            own = page.partition(f'<span id="{module}.{name}">')[2].partition("\n### ")[0]
            assert name.startswith("_") or len(own) > 80, name
    assert "| `normalize_ids` |" in page
    assert "| `triage(" in page


def test_every_field_of_the_criteria_is_explained(reference: Any) -> None:
    assert not re.findall(r"^\| `\w+` \|[^|]*\|\s*\|$", reference.criteria(), re.M)


def test_the_site_shows_the_same_names(site: Any, reference: Any) -> None:
    page = reference.python(site._documented)
    assert anchors(page) == anchors(reference.python())
    assert "::: karat.results.evaluate.evaluate" in page


def test_every_command_and_option_has_an_address(reference: Any) -> None:
    found = anchors(reference.commands())
    assert len(found) == len(set(found)), "two things have one address"
    for name, command in every_command().items():
        assert name.replace(" ", "-") in found
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                long = [f"{name.replace(' ', '-')}{each}" for each in option.opts if each.startswith("--")]
                assert {*long[:1]} <= set(found)


def test_every_error_has_an_address(reference: Any) -> None:
    found = anchors(reference.errors())
    assert len(found) == len(set(found))
    assert {*codes(), *RARE, KaratError.code, "bad-input", "missing-package", "unknown-metric"} <= set(found)


def test_every_field_of_every_file_is_listed(reference: Any) -> None:
    page, criteria = reference.schemas(), reference.criteria()
    for path in (ROOT / "src" / "karat" / "schemas").glob("*.schema.json"):
        schema = msgspec.json.decode(path.read_bytes())
        assert path.name.removesuffix(".schema.json") in anchors(page)
        for part in (schema, *schema.get("$defs", {}).values()):
            for field in part.get("properties", {}):
                assert f"| `{field}` |" in page
                assert not path.name.startswith("ship-criteria") or f"| `{field}` |" in criteria


def test_links_may_go_over_the_end_of_a_line_and_code_has_none(site: Any) -> None:
    page = "see [two\nwords](a.md)\n\n```text\n[no](b.md)\n```\n\n[c](c.md#x)\n"
    assert site._links(page) == ["a.md", "c.md"]
    assert "\n".join(text for _, text in site._texts(page)) == page


def test_no_line_ends_within_an_option(site: Any) -> None:
    shown = site.on_page_content("<p>a--b <code>x-y --no-save -- y</code></p>", None, None, None)
    assert shown == '<p>a--b <code>x-y <span class="option">--no-save</span> -- y</code></p>'


def test_every_endpoint_has_an_address(reference: Any) -> None:
    from karat.web.api import ENDPOINTS
    from karat.web.app import DESK_ENDPOINTS
    from karat.web.live import LIVE_ENDPOINTS
    from karat.web.order import ORDER_ENDPOINTS

    known = [*ENDPOINTS, *ORDER_ENDPOINTS, *DESK_ENDPOINTS, *LIVE_ENDPOINTS]
    assert len(set(anchors(reference.http()))) == len(known)


def test_every_page_is_in_the_navigation() -> None:
    text = re.sub(r"!!python\S*", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config = yaml.safe_load(text)

    def pages(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry if isinstance(entry, list) else entry.values()) for page in pages(part)]

    listed = pages(config["nav"])
    assert len(listed) == len(set(listed))
    own = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in own if not page.startswith("decisions/")} <= set(listed)


def test_the_site_loads_nothing_from_elsewhere() -> None:
    """The plug-in `offline` adds a script from a public server unless one with this name is given."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = yaml.safe_load(text)
    scripts = [*config["extra_css"], *config["extra_javascript"], *config["extra"]["polyfills"]]
    scripts += [config["theme"]["logo"], config["theme"]["favicon"]]
    assert any("iframe-worker" in script for script in config["extra"]["polyfills"])
    assert all((ROOT / "docs" / script).is_file() for script in scripts)
    assert config["theme"]["font"] is False


@pytest.mark.parametrize("name", ["drawings", "reference"])
def test_examples_in_tools_are_right(name: str) -> None:
    assert doctest.testmod(tool(name)).failed == 0


def test_drawings_are_current() -> None:
    made = tool("drawings").drawings()
    folder = ROOT / "docs" / "assets" / "drawings"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == made, "run `make docs`"
    assert all(len(text) < 100_000 for text in made.values())


def test_the_page_of_speeds_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    speed = tool("speed")
    assert speed.PAGE.read_text(encoding="utf-8") == speed.page(), "run `make docs`"


def test_a_picture_has_two_schemes_and_says_what_it_shows(site: Any) -> None:
    """On the site the switch decides which of the two is seen."""
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = page.read_text(encoding="utf-8")
        found = site._PICTURE.findall(text)
        assert len(found) == text.count("<picture>"), page
        shown = site.pictures(text)
        assert "<picture>" not in shown
        for dark, light, alt in found:
            assert dark == light.replace("-light.", "-dark.") != light
            assert len(alt) > 20
            assert f"![{alt}]({light}#only-light) ![{alt}]({dark}#only-dark)" in shown
