"""The pip requirement that installs this same Karat: a commit or a file, never a package name.

No package index has Karat, so a package name could install someone else's code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from karat.errors import ConfigError
from karat.files.git import published_commit

EXAMPLE = "git+https://HOST/OWNER/karat@COMMIT"
_PREFIX = r"(?:karat(?:\[[\w, .-]+\])?\s*@\s*)?"
_FIXED = r"@(?:[0-9a-f]{40}|v?\d+(?:\.\d+)+)(?:#\S*)?"
_COMMIT = re.compile(rf"{_PREFIX}git\+(?:https://[^\s@]+|ssh://(?:[^\s@/]+@)?[^\s@]+){_FIXED}")
_ARCHIVE = re.compile(rf"{_PREFIX}https://\S+\.(?:whl|tar\.gz|zip)(?:#\S*)?")
_IN_REPOSITORY = re.compile(r"(?!-)(?!\S*://)(?:\./\S*|\S+/\S+|\S+\.whl)")


def checked(text: str) -> str:
    """Return a user's pip requirement if it is pinned, else raise ConfigError."""
    asked = text.strip()
    if re.search(r"https?://[^/\s]*@[^/\s]*/", asked):
        what = "the address of a workflow must not have a user name or password"
        hint = "remove it, and let the workflow sign in with a secret of the repository"
        raise ConfigError(what, code="secret-in-address", field="--install", hint=hint)
    if any(form.fullmatch(asked) for form in (_COMMIT, _ARCHIVE)):
        return asked
    if _IN_REPOSITORY.fullmatch(asked) and not asked.startswith("git+"):
        return asked
    raise ConfigError(
        "this may install a different Karat each time",
        code="not-pinned",
        field="--install",
        expected=f"a commit ({EXAMPLE}), the https address of a wheel, or a path in the repository",
        got=text,
        hint="use all 40 digits of a commit, or the tag of a version; branches move, and no package index has Karat",
    )


def installed_from() -> str | None:
    """Return the pinned source of the running Karat; None for a local folder without a remote."""
    try:
        said = metadata.distribution("karat").read_text("direct_url.json")
        found = msgspec.json.decode(said or "null", type=_DirectUrl | None)
    except (metadata.PackageNotFoundError, msgspec.MsgspecError):
        return None
    if found is None:
        return None
    if found.vcs_info is not None:
        return _pinned_git(found.url, found.vcs_info.get("commit_id", ""))
    if found.dir_info is not None:
        published = published_commit(Path(unquote(urlsplit(found.url).path)))
        return None if published is None else _pinned_git(*published)
    digest = (found.archive_info or {}).get("hashes", {}).get("sha256")
    address = _without_secrets(found.url)
    return f"karat @ {address}#sha256={digest}" if digest and address.startswith("https://") else None


def with_extras(package: str, extras: Iterable[str]) -> str:
    """Add extras to a requirement that is only an address.

    >>> with_extras("git+https://host/karat@v1.2", ["http"])
    'karat[http] @ git+https://host/karat@v1.2'
    """
    wanted = ",".join(sorted(set(extras)))
    if not wanted or "[" in package:
        return package
    if "://" not in package:
        return f"{package}[{wanted}]"
    return f"karat[{wanted}] @ {package.partition(' @ ')[2] or package}"


class _DirectUrl(msgspec.Struct):
    """Read `direct_url.json`, which installers write."""

    url: str
    vcs_info: dict[str, str] | None = None
    dir_info: dict[str, bool] | None = None
    archive_info: dict[str, dict[str, str]] | None = None


def _pinned_git(address: str, commit: str) -> str | None:
    """Return a requirement with an address that a server can reach, without a password."""
    short = re.fullmatch(r"(?:\w[\w.-]*@)?([\w.-]+):(?!//)(\S+)", address)  # as in git@host:owner/repo.git
    reached = f"https://{short[1]}/{short[2].lstrip('/')}" if short else _without_secrets(address)
    pinned = f"git+{reached}@{commit}"
    return pinned if _COMMIT.fullmatch(pinned) else None


def _without_secrets(address: str) -> str:
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    user = "git@" if parts.scheme == "ssh" else ""
    return urlunsplit((parts.scheme, user + host, parts.path, parts.query, ""))
