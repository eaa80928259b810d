"""Creates a comment, or updates it if it exists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from karat.errors import ConfigError, InputError, UnknownName, shorten
from karat.net.hosts.base import Denied, Host, HostClient, HostError, NotFound, Outcome, cut, json_of, login
from karat.net.hosts.github import GitHub
from karat.net.hosts.gitlab import GitLab
from karat.net.http import HttpError, Response, Retry
from karat.net.timeouts import TooSlow

HOSTS: dict[str, type[Host]] = {"github": GitHub, "gitlab": GitLab}
PATIENCE = Retry(attempts=math.inf, limit=90.0, statuses=(429, *range(500, 600)), first=1.0)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_READ = 2_000_000  # characters, more than any host accepts
_PAGE = 100
_PAGES = 500  # protects against a server that always announces more pages


def find_host(
    environment: Mapping[str, str], name: str | None = None, number: int | None = None, dry_run: bool = False
) -> Host:
    """Return the pull request to comment on, from the environment of a CI job."""
    if name is not None and name not in HOSTS:
        raise UnknownName("host", name, HOSTS)
    kinds = [HOSTS[name]] if name else [kind for kind in HOSTS.values() if environment.get(kind.variable) == "true"]
    if not kinds:
        raise ConfigError(
            "no pull request to comment on: neither GITHUB_ACTIONS=true nor GITLAB_CI=true is set",
            code="no-pull-request",
            hint="--service github with GITHUB_REPOSITORY and GITHUB_TOKEN, or --service gitlab with CI_API_V4_URL, "
            "CI_PROJECT_ID and GITLAB_TOKEN, and --pull-request N",
        )
    return kinds[0].find(environment, number, dry_run)


def plan(host: Host, name: str, body: str) -> str:
    """Describe what `post` would do, without any request."""
    text = _marked(host, name, body)
    return (
        f"would create, or update if it exists, the comment marked {marker(name)}\n"
        f"at {host.comments_url} ({len(text):,} characters{'' if body in text else ', cut to fit'})"
    )


def post(host: Host, name: str, body: str, patience: Retry = PATIENCE, timeout: float = 20.0) -> Outcome:
    """Write the comment. If the token may not, show the body elsewhere and report that in the outcome."""
    client = HostClient(host.headers, host.token, timeout)
    body = client.redact(body)
    text = _marked(host, name, body)
    if reason := host.unable():
        return host.instead(body, reason)
    try:
        return patience.during(lambda: _create_or_update(host, client, marker(name), text))
    except Denied as error:
        return host.instead(body, error.what)
    except (HttpError, TooSlow) as error:
        spent = f"gave up after {patience.limit:g} s; try again later, or allow more time with --patience SECONDS"
        hint = spent if patience.again(error) else error.hint
        raise HostError(error.what, code="unavailable" if patience.again(error) else error.code, hint=hint) from None


def marker(name: str) -> str:
    """Return the hidden first line that identifies a comment."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            "invalid name", code="bad-name", field="--name", expected="1 to 64 letters, digits, - and _", got=name
        )
    return f"<!-- karat:{name} -->"


def read_body(path: str) -> str:
    """Read the Markdown of a file, or of standard input for `-`."""
    name = "standard input" if path == "-" else path
    try:
        with open(0 if path == "-" else path, encoding="utf-8-sig", closefd=path != "-") as stream:
            text = stream.read(_READ)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", code="unreadable", file=name) from error
    except UnicodeDecodeError:
        raise InputError("not text", code="not-utf8", file=name, expected="Markdown in UTF-8") from None
    if not text.strip():
        raise InputError(
            "the comment is empty", code="empty-file", file=name, expected="Markdown text", got="an empty file"
        )
    return text.replace("\0", "�")  # GitLab's database refuses it


def _marked(host: Host, name: str, body: str) -> str:
    mark = marker(name)
    return f"{mark}\n{cut(body, host.limit - len(mark) - 1)}"


def _create_or_update(host: Host, client: HostClient, mark: str, text: str) -> Outcome:
    """Write the comment once. It looks for the comment first, so a retry after a lost response creates no second."""
    payload = {"body": text}
    for number in _own_comments(host, client, mark):
        try:
            return _done(
                "updated", host, client, client.send(host.edit_method, f"{host.comment_url}/{number}", payload)
            )
        except (Denied, NotFound):
            continue  # just deleted, or not editable
    try:
        return _done("created", host, client, client.send("POST", host.comments_url, payload))
    except NotFound as error:
        raise Denied(error.what) from None  # it could be read, so it exists


def _done(verb: str, host: Host, client: HostClient, answer: Response) -> Outcome:
    comment = json_of(answer)
    page = shorten(client.redact(host.page_of(comment)), 500) if isinstance(comment, dict) else ""
    return Outcome(f"{verb} the comment" + (f": {page}" if page else ""))


def _own_comments(host: Host, client: HostClient, mark: str) -> Iterator[int]:
    """Yield the comments of the token's owner with the mark in their first line. Further lines may quote queries, which
    anyone may have written."""
    me, (owner, key) = host.whoami(client), host.author
    for comment in _comments(host, client):
        number, body = comment.get("id"), comment.get("body")
        marked = isinstance(body, str) and body.partition("\n")[0].strip() == mark
        if type(number) is int and marked and login(comment.get(owner), key) == me:
            yield number


def _comments(host: Host, client: HostClient) -> Iterator[dict[str, Any]]:
    """Yield all comments, page by page. Page addresses are built here, so that no server can redirect the token."""
    for page in range(1, _PAGES + 1):
        url = f"{host.comments_url}?{host.oldest_first}per_page={_PAGE}&page={page}"
        answer = client.send("GET", url)
        found = json_of(answer)
        if not isinstance(found, list):
            raise HostError(f"{url}: the response is not a list of comments", hint="check the address of the API")
        yield from (comment for comment in found if isinstance(comment, dict))
        if 'rel="next"' not in answer.headers.get("link", "") and not answer.headers.get("x-next-page", "").strip():
            return  # the last page: GitHub uses Link, GitLab X-Next-Page
    raise HostError(f"{host.comments_url}: more than {_PAGE * _PAGES:,} comments", code="too-many-comments")
