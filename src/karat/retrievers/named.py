"""`module:name` → the thing in your own code."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from karat.errors import ConfigError, did_you_mean


def load(name: str) -> Any:
    """What `module:attribute` names; the working directory counts as a place to import from."""
    module, _, path = name.partition(":")
    if not module or not path:
        raise ConfigError(f"{name!r} names nothing in your code", code="bad-callable", expected="module:callable")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # whatever the code does when it is loaded
        raise ConfigError(
            f"the module {module!r} cannot be imported: {type(error).__name__}: {error}",
            code="not-importable",
            hint="run karat in the folder of the code, or install it",
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                f"{module!r} has no {path!r}", code="unknown-callable", hint=did_you_mean(part, _public(found))
            )
        found = getattr(found, part)
    return found


def _public(found: Any) -> list[str]:
    return [name for name in dir(found) if not name.startswith("_")]


def title_of(thing: Any) -> str:
    """`module:name` of a thing, or what comes nearest."""
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{getattr(kind, '__module__', None) or 'builtins'}:{kind.__qualname__}"
