"""Who may ask: a token for scripts, users with passwords for people, nobody else unless it is this machine alone."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path

import msgspec

from karat.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SESSION = 12 * 3600.0  # seconds after which a log-in ends
_TRIES, _SPAN = 5, 60.0  # wrong passwords of a name in so many seconds
_COST = {"n": 2**14, "r": 8, "p": 1, "maxmem": 64 << 20}
_USER = re.compile(r"(?P<name>[\w.@-]{1,64}):scrypt:(?P<salt>[0-9a-f]{32}):(?P<hash>[0-9a-f]{64})")
_NOBODY = "0" * 32
# Who is logged in, of the request that is being answered; empty for who knows the token, None for nobody.
VISITOR: ContextVar[str | None] = ContextVar("visitor", default=None)


class Access(msgspec.Struct):
    """`hosts`: names under which this server may be asked for; another one is a page of a stranger in disguise."""

    hosts: frozenset[str] = frozenset(LOOPBACK)
    token: str | None = None
    users: dict[str, tuple[str, str]] = {}  # name → salt, hash
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, tuple[str, float]] = {}  # hash of the cookie → name, end
    _failures: dict[str, list[float]] = {}

    @property
    def open(self) -> bool:
        """Everyone who reaches it may use it."""
        return self.token is None and not self.users

    def is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def log_in(self, name: str, password: str) -> str | None:
        """A cookie, where the password (or, without a name, the token) is right."""
        tries = [at for at in self._failures.get(name, []) if self.clock() - at < _SPAN]
        if len(tries) >= _TRIES:
            return None
        if not (self.is_token(password) if not name else self._is_password(name, password)):
            self._failures = {**dict(list(self._failures.items())[-1000:]), name: [*tries, self.clock()]}
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[_hash(cookie)] = (name, self.clock() + SESSION)
        return cookie

    def log_out(self, cookie: str) -> None:
        self._sessions.pop(_hash(cookie), None)

    def is_logged_in(self, cookie: str) -> bool:
        now = self.clock()
        self._sessions = {key: value for key, value in self._sessions.items() if value[1] > now}
        return _hash(cookie) in self._sessions

    def user_of(self, cookie: str) -> str:
        """Who logged in with it; nothing for nobody, and for who knows the token."""
        return self._sessions[_hash(cookie)][0] if self.is_logged_in(cookie) else ""

    def _is_password(self, name: str, password: str) -> bool:
        """As slow for a name that nobody has."""
        salt, wanted = self.users.get(name, (_NOBODY, ""))
        return hmac.compare_digest(_slow_hash(password, salt), wanted)


def read_token(file: str | None, variable: str | None) -> str | None:
    """From a file, else from the environment: a command line can be read by everyone on the machine."""
    token = variable if file is None else _text(file)
    if token is None:
        return None
    token = token.strip()
    if not re.fullmatch(r"[!-~]{16,512}", token):
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        expected = "16 printable characters or more, without spaces"
        raise ConfigError("no usable token", code="bad-token", file=file, expected=expected, hint=hint)
    return token


def read_users(file: str) -> dict[str, tuple[str, str]]:
    users: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(_text(file).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            found = _USER.fullmatch(line.strip())
            if found is None:
                hint, expected = f"karat users {file} NAME writes such a line", "name:scrypt:salt:hash"
                raise ConfigError("not a user", code="bad-user", file=file, line=number, expected=expected, hint=hint)
            users[found["name"]] = (found["salt"], found["hash"])
    if not users:
        raise ConfigError("no user", code="no-users", file=file, hint=f"karat users {file} NAME adds one")
    return users


def user_line(name: str, password: str) -> str:
    """What a file of users says of one; the password cannot be read from it."""
    salt = secrets.token_hex(16)
    line = f"{name}:scrypt:{salt}:{_slow_hash(password, salt)}"
    if not _USER.fullmatch(line):
        raise ConfigError("no usable name", code="bad-name", expected="letters, digits, . _ @ -, at most 64", got=name)
    if len(password) < 8:
        raise ConfigError("the password is too short", code="bad-password", expected="8 characters or more")
    return line


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = f"cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
        raise ConfigError(said, code="unreadable", file=file) from error


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()


def _slow_hash(password: str, salt: str) -> str:
    return hashlib.scrypt(password.encode(), salt=bytes.fromhex(salt), dklen=32, **_COST).hex()
