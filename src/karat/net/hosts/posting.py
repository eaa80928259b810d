"""Create a comment once, and update the same comment afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from karat.errors import ConfigError, UnknownName, shorten
from karat.net.hosts.base import Denied, Host, HostClient, HostError, NotFound, Outcome, json_of
from karat.net.hosts.body import cut, is_marked, marker
from karat.net.hosts.github import GitHub
from karat.net.hosts.gitlab import GitLab
from karat.net.http import HttpError, Response, Retry
from karat.net.timeouts import TooSlow

HOSTS: dict[str, type[Host]] = {"github": GitHub, "gitlab": GitLab}
PATIENCE = Retry(attempts=math.inf, limit=90.0, statuses=(429, *range(500, 600)), first=1.0)
_PAGE = 100
_PAGES = 500  # a server that never stops saying "more" must not keep a job busy for ever


def find_host(
    environment: Mapping[str, str], name: str | None = None, number: int | None = None, dry_run: bool = False
) -> Host:
    """The pull request to comment on, as the environment of a CI job tells it."""
    if name is not None and name not in HOSTS:
        raise UnknownName("host", name, HOSTS)
    kinds = [HOSTS[name]] if name else [kind for kind in HOSTS.values() if kind.recognised(environment)]
    if not kinds:
        raise ConfigError(
            "no pull request to comment on: neither GITHUB_ACTIONS=true nor GITLAB_CI=true is set",
            code="no-pull-request",
            hint="--host github with GITHUB_REPOSITORY and GITHUB_TOKEN, or --host gitlab with CI_API_V4_URL, "
            "CI_PROJECT_ID and GITLAB_TOKEN, and --pull-request N",
        )
    return kinds[0].find(environment, number, dry_run)


def plan(host: Host, name: str, body: str) -> str:
    """What `post` would do, without asking the host."""
    text = _marked(host, name, body)
    return (
        f"would create, or update if it is there, the comment marked {marker(name)}\n"
        f"at {host.comments_url} ({len(text):,} characters{'' if body in text else ', cut to fit'})"
    )


def post(host: Host, name: str, body: str, patience: Retry = PATIENCE, timeout: float = 20.0) -> Outcome:
    """Write the comment. Where the token may not, the body is shown elsewhere and the outcome says so."""
    client = HostClient(host.headers(), host.token, timeout)
    body = client.redact(body)
    text = _marked(host, name, body)
    if reason := host.unable():
        return host.instead(body, reason)
    try:
        return patience.during(lambda: _create_or_update(host, client, marker(name), text))
    except Denied as error:
        return host.instead(body, error.what)
    except (HttpError, TooSlow) as error:
        spent = f"gave up after {patience.limit:g} s; run it again later, or give more time: --patience SECONDS"
        hint = spent if patience.again(error) else error.hint
        raise HostError(error.what, code="unavailable" if patience.again(error) else error.code, hint=hint) from None


def _marked(host: Host, name: str, body: str) -> str:
    mark = marker(name)
    return f"{mark}\n{cut(body, host.limit - len(mark) - 1)}"


def _create_or_update(host: Host, client: HostClient, mark: str, text: str) -> Outcome:
    """One try. It always looks first, so that it can be repeated even if the last try got no answer to its POST."""
    payload = {"body": text}
    for number in _own_comments(host, client, mark):
        try:
            return _done("updated", host, client, client.send(host.edit_method, host.comment_url(number), payload))
        except (Denied, NotFound):
            continue  # deleted a moment ago, or not ours to edit after all
    try:
        return _done("created", host, client, client.send("POST", host.comments_url, payload))
    except NotFound as error:
        raise Denied(error.what) from None  # it could be read, so it is there


def _done(verb: str, host: Host, client: HostClient, answer: Response) -> Outcome:
    comment = json_of(answer)
    page = shorten(client.redact(host.page_of(comment)), 500) if isinstance(comment, dict) else ""
    return Outcome(f"{verb} the comment" + (f": {page}" if page else ""))


def _own_comments(host: Host, client: HostClient, mark: str) -> Iterator[int]:
    me = host.whoami(client)
    for comment in _comments(host, client):
        number, body = comment.get("id"), comment.get("body")
        if type(number) is int and isinstance(body, str) and is_marked(body, mark) and host.author(comment) == me:
            yield number


def _comments(host: Host, client: HostClient) -> Iterator[dict[str, Any]]:
    """All comments, page by page. The pages' addresses are made here, so that no server can send the token away."""
    for page in range(1, _PAGES + 1):
        url = f"{host.comments_url}?{host.oldest_first}per_page={_PAGE}&page={page}"
        answer = client.send("GET", url)
        found = json_of(answer)
        if not isinstance(found, list):
            raise HostError(f"{url}: answered with something else than comments", hint="is the API's address right?")
        yield from (comment for comment in found if isinstance(comment, dict))
        if not _has_next_page(answer):
            return
    raise HostError(f"{host.comments_url}: more than {_PAGE * _PAGES:,} comments", code="too-many-comments")


def _has_next_page(answer: Response) -> bool:
    """GitHub says it in Link, GitLab in X-Next-Page."""
    return 'rel="next"' in answer.headers.get("link", "") or bool(answer.headers.get("x-next-page", "").strip())
