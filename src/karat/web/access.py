"""Access control: a token for scripts, passwords and roles for people, and open access on this machine only."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast, get_args

import msgspec

from karat.errors import ConfigError
from karat.files.atomic_write import write_whole
from karat.history.audit import RESERVED

if TYPE_CHECKING:
    from karat.web.proxy import Proxy

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SESSION = 12 * 3600.0  # seconds until a session ends
PRIVATE = 0o600  # mode of a users file
_TRIES, _SPAN = 5, 60.0  # wrong passwords per name in this many seconds
_MOST_SESSIONS = 10_000  # with more, the oldest ends
_NOBODY = "0" * 32
# The user of the current request; empty with the token, None if not logged in.
VISITOR: ContextVar[str | None] = ContextVar("visitor", default=None)
Role = Literal["viewer", "labeller", "editor", "admin"]  # each may do what the ones before it may
ROLES: tuple[Role, ...] = get_args(Role)
ROLE: ContextVar[Role] = ContextVar("role", default="viewer")  # of the current request
TOKEN_ROLE: Role = "editor"
_FIRST_ROLE: Role = "admin"  # of lines without a role, and of visitors if there is no log-in


def allows(own: Role, needed: Role) -> bool:
    """
    >>> allows("editor", "labeller"), allows("viewer", "labeller")
    (True, False)
    """
    return ROLES.index(own) >= ROLES.index(needed)


def may(needed: Role) -> bool:
    """Whether the current visitor may do what needs this role."""
    return allows(ROLE.get(), needed)


class HashCost(NamedTuple):
    """Cost parameters of scrypt: N = 2^log_n, block size r, parallelism p."""

    log_n: int
    r: int
    p: int

    @property
    def memory(self) -> int:
        """Bytes of memory for one hash."""
        return 128 * self.r * ((1 << self.log_n) + self.p + 2)

    def __str__(self) -> str:
        return ",".join(map(str, self))


COST = HashCost(17, 8, 1)
_FIRST_COST = HashCost(14, 8, 1)  # of lines without a cost
_USER = re.compile(
    r"(?P<name>[\w.@-]{1,64}):scrypt:(?:(?P<cost>[0-9]{1,2},[0-9]{1,2},[0-9]{1,2}):)?"
    rf"(?P<salt>[0-9a-f]{{32}}):(?P<hash>[0-9a-f]{{64}})(?::(?P<role>{'|'.join(ROLES)}))?"
)
_LEAST_COST, _MOST_COST = HashCost(4, 1, 1), HashCost(20, 16, 16)


class User(NamedTuple):
    """A salted hash of a password, and a role."""

    salt: str
    hash: str
    cost: HashCost = _FIRST_COST
    role: Role = _FIRST_ROLE


class Access(msgspec.Struct):
    """Users, token and sessions; thread-safe. `hosts`: allowed host names, against DNS rebinding.

    `cost`: passwords with a cheaper hash are hashed again when their user logs in; `upgraded` is then called with the
    user before and after."""

    hosts: frozenset[str] = frozenset(LOOPBACK)
    token: str | None = None
    users: dict[str, User] = {}
    metrics_token: str | None = None  # opens /metrics and nothing else
    proxy: Proxy | None = None  # names the users that it has logged in
    proxy_role: Role = "labeller"  # of users that the proxy names and that are not in `users`
    clock: Callable[[], float] = time.monotonic
    cost: HashCost = COST
    upgraded: Callable[[str, User, User], None] | None = None
    _sessions: dict[str, tuple[str, float]] = {}  # hash of the cookie → name, end
    _tries: dict[str, list[float]] = {}  # name → times of failed and running attempts
    _swept: float = float("-inf")
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    @property
    def open(self) -> bool:
        """Whether no log-in is needed."""
        return self.token is None and not self.users and self.proxy is None

    def is_token(self, given: str) -> bool:
        return _same(given, self.token)

    def is_metrics_token(self, given: str) -> bool:
        return _same(given, self.metrics_token)

    def role_of(self, name: str | None) -> Role:
        """The role of a visitor: a name, empty with the token, None if not logged in."""
        if self.open:
            return _FIRST_ROLE
        if name is None:
            return ROLES[0]
        if not name:
            return TOKEN_ROLE
        if name in self.users:
            return self.users[name].role
        return ROLES[0] if self.proxy is None else self.proxy_role

    def log_in(self, name: str, password: str) -> str | None:
        """Returns a cookie if the password (or, without a name, the token) is right.

        An attempt counts as failed until it succeeds, so parallel attempts cannot bypass the limit."""
        at = self._begin_try(name)
        if at is None or not (self.is_token(password) if not name else self._is_password(name, password)):
            return None
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            left = list(self._tries.pop(name, []))
            if at in left:
                left.remove(at)
            if left:
                self._tries[name] = left
            self._sessions[_hash(cookie)] = (name, self.clock() + SESSION)
            while len(self._sessions) > _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return cookie

    def log_out(self, cookie: str) -> None:
        with self._lock:
            self._sessions.pop(_hash(cookie), None)

    def visitor(self, cookie: str) -> str | None:
        """The user with this cookie; empty with the token, None if not logged in."""
        if not cookie:
            return None
        key, now = _hash(cookie), self.clock()
        with self._lock:
            name, end = self._sessions.get(key, ("", now))
            if end <= now:
                self._sessions.pop(key, None)
                return None
            return name

    def _begin_try(self, name: str) -> float | None:
        """Returns the start of the attempt; None if there were too many."""
        now = self.clock()
        with self._lock:
            if now - self._swept >= _SPAN:  # forget old attempts
                self._swept = now
                self._tries = {who: tries for who, tries in self._tries.items() if now - tries[-1] < _SPAN}
            tries = [at for at in self._tries.get(name, []) if now - at < _SPAN]
            if len(tries) >= _TRIES:
                return None
            self._tries[name] = [*tries, now]
            return now

    def _is_password(self, name: str, password: str) -> bool:
        """Checks a password, as slowly for an unknown name. Upgrades a cheap hash if the password is right."""
        user = self.users.get(name, User(_NOBODY, "", self.cost))
        right = hmac.compare_digest(_slow_hash(password, user.salt, user.cost), user.hash)
        if user.cost.memory * user.cost.p < self.cost.memory * self.cost.p:
            again = made_user(password, self.cost, user.role)  # also for a wrong one, so that timing reveals nothing
            if right:
                self.users[name] = again
                if self.upgraded is not None:
                    self.upgraded(name, user, again)
        return right


def _same(given: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given.encode(), token.encode())


def read_token(file: str | None, variable: str | None) -> str | None:
    """Reads the token from a file or the environment: everyone on the machine can read a command line."""
    token = variable if file is None else _text(file)
    if token is None:
        return None
    token = token.strip()
    if not re.fullmatch(r"[!-~]{16,512}", token):
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        expected = "16 printable characters or more, without spaces"
        raise ConfigError("invalid token", code="bad-token", file=file, expected=expected, hint=hint)
    return token


def read_users(file: str) -> dict[str, User]:
    users: dict[str, User] = {}
    for number, line in enumerate(_text(file).splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            found = parse_user(line)
            if found is None:
                hint, expected = f"add users with: karat serve users {file} NAME", "name:scrypt:cost:salt:hash:role"
                raise ConfigError("invalid user", code="bad-user", file=file, line=number, expected=expected, hint=hint)
            users[found[0]] = found[1]
    if not users:
        raise ConfigError("no users", code="no-users", file=file, hint=f"add one with: karat serve users {file} NAME")
    return users


def parse_user(line: str) -> tuple[str, User] | None:
    """Parses a line of a users file; None if it is invalid.

    >>> parse_user("ada:scrypt:" + 32 * "0" + ":" + 64 * "1")[1].cost  # of an older Karat
    HashCost(log_n=14, r=8, p=1)
    """
    found = _USER.fullmatch(line.strip())
    if found is None:
        return None
    cost = HashCost(*map(int, found["cost"].split(","))) if found["cost"] else _FIRST_COST
    if not all(low <= own <= high for low, own, high in zip(_LEAST_COST, cost, _MOST_COST, strict=True)):
        return None
    role = cast(Role, found["role"] or _FIRST_ROLE)
    return found["name"], User(found["salt"], found["hash"], cost, role)


def user_line(name: str, password: str, cost: HashCost | None = None, role: Role = _FIRST_ROLE) -> str:
    """Returns the line of a users file, with a salted hash of the password."""
    if not re.fullmatch(r"[\w.@-]{1,64}", name):
        raise ConfigError("invalid name", code="bad-name", expected="letters, digits, . _ @ -, at most 64", got=name)
    if name in RESERVED:
        what = f"the name {name} has a meaning of its own in the audit log"
        raise ConfigError(what, code="bad-name", expected="another name")
    if len(password) < 8:
        raise ConfigError("the password is too short", code="bad-password", expected="8 characters or more")
    return _line(name, made_user(password, cost or COST, role))


def made_user(password: str, cost: HashCost, role: Role = _FIRST_ROLE) -> User:
    salt = secrets.token_hex(16)
    return User(salt, _slow_hash(password, salt, cost), cost, role)


def rewrite_user(file: str, name: str, before: User, after: User) -> None:
    """Replaces the hash of a user in the file, unless the line has changed since. If the file cannot be written, the
    old hash stays valid."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        changed = [_line(name, after) if parse_user(line) == (name, before) else line for line in lines]
        if changed != lines:
            write_whole(file, "".join(f"{line}\n" for line in changed).encode(), mode=PRIVATE)
    except (OSError, UnicodeDecodeError, ConfigError):
        return


def _line(name: str, user: User) -> str:
    return f"{name}:scrypt:{user.cost}:{user.salt}:{user.hash}:{user.role}"


def _text(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = f"cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
        raise ConfigError(said, code="unreadable", file=file) from error


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()


def _slow_hash(password: str, salt: str, cost: HashCost) -> str:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"),
        salt=bytes.fromhex(salt),
        n=1 << cost.log_n,
        r=cost.r,
        p=cost.p,
        maxmem=2 * cost.memory,
        dklen=32,
    ).hex()
