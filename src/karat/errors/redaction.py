"""Removes secrets from text before it is cut, shown, logged or saved.

Known secrets are those passed to `keep_secret` and those in environment variables that Karat reads. Passwords in
addresses and keys in requests are recognised by their position.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

HIDDEN = "***"
# Variables that hold a secret, or an address with one.
VARIABLES = (
    "KARAT_LLM_KEY",
    "OPENAI_API_KEY",
    "KARAT_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "CI_JOB_TOKEN",
    "PGPASSWORD",
    "KARAT_METRICS_TOKEN",
    "MLFLOW_TRACKING_TOKEN",
    "MLFLOW_TRACKING_PASSWORD",
    "WANDB_API_KEY",
    "SLACK_WEBHOOK_URL",
    "TEAMS_WEBHOOK_URL",
    "KARAT_WEBHOOK_URL",
)
_LEAST = 6  # hiding shorter secrets would blank out half of the output
_ANYWHERE = 16  # shorter ones are only hidden as whole words: "postgres" can be a password and a part of a word
_LONGEST = 1024  # of a password in an address; without a limit, hostile text would be slow
# Up to the last @, since a password may contain one. A number and a slash are a port and a path.
_ADDRESS = rf"(?<=://)([^\s:/?#@\"'<>]{{0,256}}):(?!\d{{1,5}}(?:[/?#]|$))[^\s\"'<>]{{1,{_LONGEST}}}@"
_SECRET_NAMES = (
    *("password", "passwd", "passphrase", "pwd", "secret", "client_secret", "token", "access_token", "private_token"),
    *("apikey", "api_key", "api-key"),
)
_IN_QUERIES = ("key", "sig", "signature")  # too common elsewhere
_NAMES, _QUERY_NAMES = "|".join(_SECRET_NAMES), "|".join(_IN_QUERIES)
# In the query of an address, or a separate word as in libpq.
_PARAMETER = rf"(?i)((?:^|[?&;\s])(?:ssl)?(?:{_NAMES})=|[?&;](?:{_QUERY_NAMES})=)('[^']*'|[^\s&;#\"'<>]+)"
_HEADER = (
    r"(?i)(authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:\w{1,20}\s+)?+|\bBearer\s+(?=[\w.~+/=-]{20}))[\w.~+/=-]{4,}"
)
# Signs of a secret in JSON. Each is looser and faster than its pattern above.
_MAYBE_ADDRESS = r"://[^\s:/?#@\"'<>]{0,1536}:(?!\d{1,5}[/?#\"])"
_MAYBE_NAMES = (*_SECRET_NAMES, *(mark + name for mark in "?&;" for name in _IN_QUERIES))
_MAYBE_HEADER = ("authorization", "bearer")
_SHORTEST_HEADER = len("authorization:") + 4  # of a match of _HEADER; most texts are shorter

_told: set[str] = set()
_T = TypeVar("_T")


def keep_secret(value: str | None) -> str:
    """Never show this value from now on; returns it."""
    if value and len(value) >= _LEAST:
        _told.add(value)
    return value or ""


def kept_secrets() -> list[str]:
    """The values passed to `keep_secret`, for another process that must not show them either."""
    return sorted(_told)


def keep_password_of(address: str | None) -> None:
    """Never show the password of an address, as written and decoded."""
    from urllib.parse import unquote, unquote_plus

    for part in re.findall(r"://[^\s:/?#@]*:(.*)@", address or ""):
        keep_secret(part)
        keep_secret(unquote(part))
    for _, part in re.findall(_PARAMETER, address or ""):
        keep_secret(part.strip("'"))
        keep_secret(unquote_plus(part))


def redact(text: str) -> str:
    """Return the text without secrets.

    >>> redact("postgresql+psycopg://me:s3cret@db.example/karat?sslmode=require&password=x")
    'postgresql+psycopg://me:***@db.example/karat?sslmode=require&password=***'
    >>> redact("https://host:8000/search?q=me@home")
    'https://host:8000/search?q=me@home'
    >>> redact("Authorization: Bearer abcd1234"), redact("Authorization: Bearer ${MY_KEY}")
    ('Authorization: Bearer ***', 'Authorization: Bearer ${MY_KEY}')
    """
    return _without_secrets(text, _pattern())


def _without_secrets(text: str, known: re.Pattern[str] | None) -> str:
    if known is not None:
        text = known.sub(HIDDEN, text)
    if "://" in text:
        text = re.sub(_ADDRESS, rf"\1:{HIDDEN}@", text)
    if "=" in text:
        text = re.sub(_PARAMETER, rf"\1{HIDDEN}", text)
    if len(text) < _SHORTEST_HEADER or not _may_have_header(text.lower()):
        return text
    return re.sub(_HEADER, rf"\1{HIDDEN}", text)


def _may_have_header(folded: str) -> bool:
    return any(word in folded for word in _MAYBE_HEADER)


def redact_known(text: str) -> str:
    """Remove only known secrets: in data, an address may be just an example."""
    pattern = _pattern()
    return text if pattern is None else pattern.sub(HIDDEN, text)


def same_redacted(one: str, other: str) -> bool:
    """Return whether two names are the same. One may have been saved without its secrets, known then or now.

    >>> same_redacted("set of https://me:s3cret@host/x", "set of https://me:***@host/x"), same_redacted("a", "b")
    (True, False)
    """
    one, other = redact(one), redact(other)
    return one == other or any(
        HIDDEN in hidden and re.fullmatch(".+".join(map(re.escape, hidden.split(HIDDEN))), shown, re.DOTALL)
        for hidden, shown in ((one, other), (other, one))
    )


def redact_texts(texts: Sequence[str | None]) -> Sequence[str | None]:
    """Remove known secrets from a column of data; returns the same object if none is known."""
    pattern = _pattern()
    return texts if pattern is None else [text and pattern.sub(HIDDEN, text) for text in texts]


def redact_all(value: _T) -> _T:
    """Remove secrets from every text in structs, lists and dicts; copies only what changes."""
    secrets = _known()  # looked up once for all texts
    found: _T = _redacted(value, _compiled(secrets), _needles(secrets))
    return found


def _redacted(value: Any, known: re.Pattern[str] | None, needles: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return _without_secrets(value, known)
    if value is None or isinstance(value, int | float) or _is_clean(value, needles):
        return value
    if isinstance(value, Mapping):
        changed = {
            _without_secrets(name, known) if isinstance(name, str) else name: _redacted(one, known, needles)
            for name, one in value.items()
        }
        return value if changed == value else changed
    if isinstance(value, list | tuple):
        items = [_redacted(one, known, needles) for one in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else type(value)(items)
    return _struct(value, known, needles) if hasattr(value, "__struct_fields__") else value


def _is_clean(value: Any, needles: tuple[str, ...]) -> bool:
    """Return whether a value has no secrets. Searches its JSON at once, since a report has 100,000 texts."""
    import msgspec

    try:
        text = msgspec.json.encode(value, enc_hook=_looked_into).decode()
    except (TypeError, ValueError, RecursionError):  # not possible in JSON
        return False
    folded = text.casefold()
    return not (
        any(needle in text for needle in needles)
        or re.search(_MAYBE_ADDRESS, text)
        or any(part.endswith(_MAYBE_NAMES) for part in folded.split("=")[:-1])
        or _may_have_header(folded)
    )


def _looked_into(value: Any) -> dict[Any, Any] | None:
    return dict(value) if isinstance(value, Mapping) else None  # nothing else is looked into


@lru_cache(maxsize=8)
def _needles(secrets: frozenset[str]) -> tuple[str, ...]:
    import msgspec

    return tuple(msgspec.json.encode(form).decode()[1:-1] for value in secrets for form in _forms(value))


def _struct(value: Any, known: re.Pattern[str] | None, needles: tuple[str, ...]) -> Any:
    parts = {name: getattr(value, name) for name in value.__struct_fields__}
    redacted = {name: _redacted(old, known, needles) for name, old in parts.items()}
    changed = {name: new for name, new in redacted.items() if new is not parts[name] and new != parts[name]}
    if not changed:
        return value
    from msgspec.structs import replace

    if "text" in changed and "marks" in parts:
        changed["marks"] = ()  # positions in the old text
    return replace(value, **changed)


def longest_secret() -> int:
    """Return the length of the longest secret, for callers that read only the start of a text."""
    return max(_LONGEST, *map(len, _known()), 0)


def _pattern() -> re.Pattern[str] | None:
    return _compiled(_known())


def _known() -> frozenset[str]:
    found = {value for name in VARIABLES if len(value := os.environ.get(name, "").strip()) >= _LEAST}
    if (store := os.environ.get("KARAT_STORE")) and "://" in store:
        keep_password_of(store)
    return frozenset(_told | found)


@lru_cache(maxsize=8)
def _compiled(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for value in secrets for form in _forms(value)}
    parts = [
        re.escape(form) if len(form) >= _ANYWHERE else rf"(?<![^\W_]){re.escape(form)}(?![^\W_])"
        for form in sorted(forms, key=len, reverse=True)
    ]
    return re.compile("|".join(parts)) if parts else None


def _forms(value: str) -> set[str]:
    """Return its forms in text, addresses, HTML, JSON and `repr`."""
    from html import escape
    from json import dumps
    from urllib.parse import quote, quote_plus

    ascii_only, plain = dumps(value)[1:-1], dumps(value, ensure_ascii=False)[1:-1]
    return {value, quote(value, safe=""), quote_plus(value), escape(value), ascii_only, plain, repr(value)[1:-1]}
