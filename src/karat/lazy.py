"""Public names of a package, loaded when they are first used: `import karat` costs next to nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from importlib import import_module


def public(
    package: str,
    where: Mapping[str, str],
    renamed: Mapping[str, str] | None = None,
    packages: Collection[str] = (),
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. `where`: name → module; `renamed`: old name → what to write instead;
    `packages`: those inside it that `import karat` alone makes known."""

    def get(name: str) -> object:
        if name in where:
            value = getattr(import_module(where[name]), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in packages:
            return import_module(f"{package}.{name}")
        instead = (renamed or {}).get(name)
        hint = f": use {instead}" if instead else ""
        if instead and _is_from_import():  # an AttributeError would lose the hint
            raise ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name, obj=sys.modules[package])

    return get, lambda: sorted(where)


def _is_from_import() -> bool:
    """Whether `__getattr__` was called by `from karat import NAME`."""
    from opcode import opmap

    caller = sys._getframe(2)
    return caller.f_lasti >= 0 and caller.f_code.co_code[caller.f_lasti] == opmap["IMPORT_FROM"]
