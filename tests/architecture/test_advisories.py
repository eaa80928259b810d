"""No version with a published weakness is installed by `make`, or allowed for what Karat itself requires."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
KNOWN: dict[str, dict[str, str]] = yaml.safe_load((Path(__file__).parent / "advisories.yaml").read_text())
TOOLS = ("test", "test-engines", "test-frameworks", "check", "bench")  # extras for those who work on Karat


def name_of(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def version(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+){0,2}", text)
    assert found is not None, text
    return tuple(map(int, (found[0] + ".0.0").split(".")[:3]))


def weaknesses(package: str, at: str) -> list[str]:
    """Of this version.

    >>> weaknesses("Jinja2", "3.1.5"), weaknesses("Jinja2", "3.1.6")
    (['CVE-2025-27516'], [])
    """
    known = KNOWN.get(name_of(package), {})
    return [found for found, fixed in known.items() if version(at) < version(fixed)]


def pinned(file: str = "constraints.txt") -> dict[str, str]:
    lines = (ROOT / file).read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def required() -> Iterator[tuple[str, str]]:
    """What Karat and its extras ask for, with the oldest version that they allow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *(x for name, lines in extras.items() if name not in TOOLS for x in lines)]:
        if not line.startswith("karat["):
            found = re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line)
            assert found is not None, f"{line}: without a lower limit, any version is allowed"
            yield found[1], found[2]


@pytest.mark.parametrize("file", ["constraints.txt", "constraints-engines.txt"])
def test_what_is_installed_has_no_known_weakness(file: str) -> None:
    assert {package: bad for package, at in pinned(file).items() if (bad := weaknesses(package, at))} == {}


def test_what_is_required_has_no_known_weakness() -> None:
    assert {package: bad for package, at in required() if (bad := weaknesses(package, at))} == {}


def test_the_list_speaks_of_what_is_installed() -> None:
    assert set(KNOWN) - set(map(name_of, pinned())) == set()


@pytest.mark.parametrize("package", sorted(KNOWN))
def test_an_older_version_would_be_found(package: str) -> None:
    assert weaknesses(package, "0.0.1") == list(KNOWN[package])
