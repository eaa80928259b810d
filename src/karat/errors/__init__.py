"""One tree of errors: what failed, where, what was expected, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from karat.errors.redaction import longest_secret, redact
from karat.errors.spelling import is_typed, spell

_SHOWN = 80
_LONGEST = 1500  # characters of a message
_LOOKED_AT = 1 << 16  # characters searched for secrets before a text is shortened


def shorten(value: object, limit: int = _SHOWN) -> str:
    """Return `value` as one short printable line, so that a 100 MB field never reaches a terminal.

    Secrets are removed before it is cut, because half a secret is still too much.
    """
    if isinstance(value, str):
        text = value
    else:
        try:
            text = repr(value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value)
        except RecursionError:
            text = f"a deeply nested {type(value).__name__}"
    looked_at = max(_LOOKED_AT, limit) + 1
    text = printable(redact(text[: looked_at + longest_secret()] if len(text) > looked_at else text)[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _in_one_line(value: object) -> str:
    """Data, so that no part of it looks like a line of its own, such as a hint."""
    return shorten(value).replace("\n", "\\n")


def printable(text: str) -> str:
    """Replace control characters and half surrogate pairs, for text that goes to a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


_COMMAND = re.compile(r"^[^\S\n]*:(?=:)|##(?=\w*\[)", re.M)


def no_commands(text: str) -> str:
    """Escape commands to CI servers: `::error::` at the start of a line and `##[error]` anywhere.

    >>> no_commands("  ::error::x\\nstd::vector ##[x]")
    '  :\\u200b:error::x\\nstd::vector ##\\u200b[x]'
    """
    return _COMMAND.sub("\\g<0>\u200b", text)


def is_whole(text: str) -> bool:
    """Return False for text with half a surrogate pair, which cannot be encoded."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class KaratError(Exception):
    """Base of all errors. Prints as `where: what`, and a hint on its own line.

    `code` identifies the error for programs and tests: wording may change, codes do not.
    """

    exit_code: int = 2
    code: str = "refused"
    also: KaratError | None = None  # another problem that was found at the same time

    def __init__(
        self,
        what: str,
        *,
        code: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        field: str | None = None,
        query: str | None = None,
        expected: str | None = None,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        if code is not None:  # else that of the class
            self.code = code
        self.what = what
        self.file = file
        self.line = line
        self.column = column
        self.field = field
        self.query = query
        self.expected = expected
        self.got = got
        self.hint = hint
        self._as_typed = is_typed()
        super().__init__(what)

    def __str__(self) -> str:
        message = shorten(self.what, _LONGEST)
        if self.expected is not None:
            message += f": expected {self.expected}"
        if self.got is not None:
            message += f"{',' if self.expected is not None else ':'} got {_in_one_line(self.got)}"
        field = None if self.field is None else _in_one_line(self.field)
        query = None if self.query is None else f"query {shorten(self.query, 40)!r}"
        place = ": ".join(p for p in (self._location(), field, query) if p)
        text = f"{place}: {message}" if place else message
        text = spell(f"{text}\nhint: {self.hint}" if self.hint else text, as_typed=self._as_typed)
        text = printable(redact(text))
        also = None if self.also is None else str(self.also)  # None also where it is the same file
        return text if also in (None, text) else f"{text}\nalso: {also}"

    def _location(self) -> str | None:
        if self.file is None:
            return None if self.line is None else f"line {self.line}"
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


class InputError(KaratError):
    """A run, gold or corpus file that cannot be used."""

    code = "bad-input"


class NoOverlap(InputError):
    """A run and a gold set that have no query in common."""

    code = "no-overlap"


class ConfigError(KaratError):
    """An invalid setting, option or configuration file."""

    code = "bad-setting"


class UnknownName(ConfigError):
    """An unknown name, with the nearest known ones; the code is `unknown-` + the first word of `kind`."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str | None = None) -> None:
        super().__init__(
            f"unknown {kind} {shorten(name, 40)!r}",
            code=f"unknown-{kind.split()[0]}",
            hint=did_you_mean(name, known) or hint,
        )
        self.name = name


class MissingExtra(ConfigError):
    """An optional package that is needed is not installed."""

    code = "missing-package"

    def __init__(self, what: str, package: str, extra: str | None) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed",
            hint=f"pip install 'karat[{extra}]'" if extra else f"pip install {package}",
        )
        self.package = package
        self.extra = extra


def meant(needed: Iterable[str], there: Iterable[str]) -> str | None:
    """Suggest a needed field that is missing, if a field with a similar name exists.

    >>> meant(["topk"], ["query_id", "top_k"])
    "did you mean topk by 'top_k'?"
    """
    from difflib import get_close_matches  # only needed for messages

    names = {name.lower(): name for name in there}
    for field in needed:
        for near in get_close_matches(field, names, n=1, cutoff=0.7):
            return f"did you mean {field} by {shorten(names[near], 40)!r}?"
    return None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    names = list(known)
    near = get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(near) + "?"
    return "known: " + ", ".join(names) if 0 < len(names) <= 25 else None
