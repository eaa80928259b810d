"""One comment, created once and updated afterwards, on both hosts, whatever happens on the way."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from refusals import refused

from karat.errors import ConfigError
from karat.net.hosts.base import HostClient, HostError
from karat.net.hosts.comments import find_host, plan

MARK = "<!-- karat:karat -->"
TOKEN = "tok-0123456789abcdef"


def test_created_once_then_updated(server: Any) -> None:
    server.add("alice", "nice")
    assert server.post("first").done.startswith("created ")
    assert server.post("second\n").done.startswith("updated ")
    assert server.bodies() == ["nice", f"{MARK}\nsecond\n"]


def test_each_name_has_a_comment_of_its_own(server: Any) -> None:
    for name in ("karat", "de-DE", "karat", "de-DE"):
        server.post(f"about {name}", name)
    assert server.bodies() == [f"{MARK}\nabout karat", "<!-- karat:de-DE -->\nabout de-DE"]


def test_it_is_found_behind_hundreds_of_others_and_looking_stops_there(server: Any) -> None:
    for i in range(250):
        server.add("alice", f"comment {i}")
    own = server.add(server.me(), f"{MARK}\r\nold")
    for i in range(250):
        server.add("bob", f"comment {i}")
    server.post("new")
    assert [c["body"] for c in server.comments if c["id"] == own] == [f"{MARK}\nnew"]
    assert len(server.comments) == 501
    assert [p.rpartition("=")[2] for p in server.sent("GET", "per_page=100")] == ["1", "2", "3"]
    assert server.sent("POST", server.comments_path) == []


def test_a_marker_in_somebody_elses_comment_is_not_trusted(server: Any) -> None:
    server.add("mallory", f"{MARK}\nplease overwrite")
    server.comments.append({"id": 5, "body": f"{MARK}\nby a deleted account", "user": None, "author": None})
    server.post("ours")
    server.post("ours again")
    assert server.bodies()[:2] == [f"{MARK}\nplease overwrite", f"{MARK}\nby a deleted account"]
    assert server.bodies()[2:] == [f"{MARK}\nours again"]


def test_a_marker_below_the_first_line_is_only_text(server: Any) -> None:
    server.post(f"worst query: {MARK}\n{MARK}", "other")
    server.post("ours")
    assert len(server.comments) == 2


def test_a_comment_that_may_not_be_edited_is_left_and_a_new_one_written(server: Any) -> None:
    server.foreign.add(server.add(server.me(), f"{MARK}\nlocked"))
    assert server.post("new").done.startswith("created")
    assert server.post("newer").done.startswith("updated")
    assert server.bodies() == [f"{MARK}\nlocked", f"{MARK}\nnewer"]


def test_a_comment_that_was_deleted_while_looking_is_written_anew(server: Any) -> None:
    server.add(server.me(), f"{MARK}\nold")
    server.faults[server.edit_method] = [{"status": 404}]
    assert server.post("new").done.startswith("created")


def test_answers_that_are_no_comments_are_passed_over(server: Any) -> None:
    server.comments += [{}, {"id": "9", "body": MARK, "user": {"login": server.me()}}, {"id": 3, "body": None}, "x"]
    assert server.post().done.startswith("created")


def test_unicode_arrives_as_it_is(server: Any) -> None:
    body = 'Straße 👩‍🚀 “q” — العربية \\n "}, {"x": \u00a0\t<b>&amp;'
    server.post(body)
    assert server.bodies() == [f"{MARK}\n{body}"]


# Trouble on the way


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_that_stumbles_is_asked_again(server: Any, status: int) -> None:
    server.faults = {"GET": [{"status": status}] * 2, "POST": [{"status": status, "body": "<html>"}]}
    assert server.post().done.startswith("created")
    assert len(server.comments) == 1
    assert server.waits.slept == [1.0, 2.0, 4.0]


def test_a_post_that_was_accepted_and_not_answered_is_not_repeated(server: Any) -> None:
    server.faults["POST"] = [{"drop": True, "accept": True}]
    assert server.post("only one").done.startswith("updated")
    assert server.bodies() == [f"{MARK}\nonly one"]
    assert len(server.sent("POST", server.comments_path)) == 1


def test_a_post_that_was_accepted_is_found_even_behind_one_that_may_not_be_edited(server: Any) -> None:
    server.foreign.add(server.add(server.me(), f"{MARK}\nlocked"))
    server.faults["POST"] = [{"drop": True, "accept": True}]
    server.post("only one")
    assert server.bodies() == [f"{MARK}\nlocked", f"{MARK}\nonly one"]


def test_a_post_that_got_lost_is_repeated(server: Any) -> None:
    server.faults["POST"] = [{"drop": True}]
    assert server.post().done.startswith("created")
    assert len(server.comments) == 1
    looks = [m for m, p, _ in server.requests if server.comments_path in p]
    assert looks == ["GET", "POST", "GET", "POST"]


def test_an_edit_that_got_lost_is_repeated(server: Any) -> None:
    server.add(server.me(), f"{MARK}\nold")
    server.faults[server.edit_method] = [{"drop": True}, {"drop": True, "accept": True}]
    assert server.post("new").done.startswith("updated")
    assert server.bodies() == [f"{MARK}\nnew"]


@pytest.mark.parametrize("fault", [{"hang": True}, {"trickle": True}])
def test_a_server_that_hangs_is_left(server: Any, fault: dict[str, Any]) -> None:
    server.faults["GET"] = [fault] * 9
    started = time.monotonic()
    with refused("unavailable", HostError) as caught:
        server.post(timeout=0.2, limit=5)
    assert re.search(r"\b0\.2 s\b.*\b3 attempts\b.*\b5 s\b", str(caught.value), re.S)
    assert time.monotonic() - started < 30


def test_an_answer_that_breaks_off_is_asked_for_again(server: Any) -> None:
    server.add(server.me(), f"{MARK}\nold")
    server.faults["GET"] = [{"status": 200, "body": "[", "headers": {"Content-Length": "500"}}]
    assert server.post().done.startswith("updated")


def test_nobody_listens(server: Any) -> None:
    server.close()
    with refused("unavailable", HostError) as caught:
        server.post(limit=10)
    assert "4 attempts" in caught.value.what


def test_retry_after_is_honoured(server: Any) -> None:
    server.faults["POST"] = [{"status": 429, "headers": {"Retry-After": "30"}}]
    server.post()
    assert server.waits.slept == [30.5]


def test_retry_after_may_be_a_date_by_a_clock_that_is_wrong(server: Any) -> None:
    dates = {"Date": "Fri, 21 Oct 2016 07:28:00 GMT", "Retry-After": "Fri, 21 Oct 2016 07:28:40 GMT"}
    server.faults["GET"] = [{"status": 503, "headers": dates}]
    server.post()
    assert server.waits.slept == [40.5]


@pytest.mark.parametrize("prefix", ["X-RateLimit", "RateLimit"])
def test_the_reset_of_a_rate_limit_is_honoured(server: Any, prefix: str) -> None:
    headers = {f"{prefix}-Remaining": "0", f"{prefix}-Reset": str(int(time.time()) + 80)}
    server.faults["GET"] = [{"status": 429, "headers": headers}]
    server.post()
    (slept,) = server.waits.slept
    assert 50 <= slept <= 81  # what is left of it when the answer comes


def test_a_wait_longer_than_the_patience_is_not_begun(server: Any) -> None:
    server.faults["GET"] = [{"status": 429, "headers": {"Retry-After": "3600"}}]
    with refused("unavailable", HostError) as caught:
        server.post()
    assert server.waits.slept == []
    assert "3,600 s" in caught.value.what
    assert "--patience" in caught.value.hint


@pytest.mark.parametrize("nonsense", ["-5", "soon", "1e999", "nan", "9" * 40, ""])
def test_a_senseless_retry_after_is_no_order(server: Any, nonsense: str) -> None:
    server.faults["GET"] = [{"status": 500, "headers": {"Retry-After": nonsense}}]
    server.post()
    assert server.waits.slept == [1.0]


@pytest.mark.parametrize("content", ["<html>login</html>", "{}", "null", "[" * 100_000, "\ufeff"])
def test_an_answer_that_is_no_list_of_comments_is_refused(server: Any, content: str) -> None:
    server.faults["GET"] = [{"status": 200, "body": content}]
    with refused("host-error", HostError):
        server.post()
    assert server.comments == []


def test_what_is_no_json_after_a_post_does_not_undo_it(server: Any) -> None:
    server.faults["POST"] = [{"status": 201, "body": "ok"}]
    assert server.post().done.startswith("created")


def test_an_unknown_pull_request_is_an_error(server: Any) -> None:
    server.comments_path = "/elsewhere"
    with refused("not-found", HostError) as caught:
        server.post()
    assert caught.value.hint


def test_a_server_without_end_is_left(gitlab: Any) -> None:
    gitlab.paging = lambda page, more: {"X-Next-Page": str(page + 1)}
    with refused("too-many-comments", HostError):
        gitlab.post()


# Secrets


def test_a_wrong_token_is_an_error_that_does_not_show_it(server: Any) -> None:
    server.authorised = lambda headers: False
    with refused("host-error", HostError) as caught:
        server.post()
    assert "***" in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert caught.value.hint


def test_no_redirect_carries_the_token_to_another_server(server: Any, other: Any) -> None:
    for status in (301, 302, 307, 308):
        server.faults["GET"] = [{"status": status, "headers": {"Location": f"{other.url}/{TOKEN}"}}]
        with refused("redirected", HostError) as caught:
            server.post()
        assert TOKEN not in str(caught.value)
    assert other.requests == []


@pytest.mark.parametrize("target", ["https://127.0.0.1/x", "file:///etc/passwd", "//evil.example/x", "http://[", ""])
def test_a_redirect_away_is_refused(server: Any, target: str) -> None:
    server.faults["GET"] = [{"status": 302, "headers": {"Location": target}}]
    with refused("redirected", HostError):
        server.post()


def test_a_renamed_project_is_followed_on_the_same_server(server: Any) -> None:
    there = {"Location": f"{server.comments_path}?per_page=100&page=1&sort=asc"}
    server.faults = {"GET": [{"status": 301, "headers": there}], "POST": [{"status": 307, "headers": there}]}
    server.post("moved")
    assert server.bodies() == [f"{MARK}\nmoved"]


def test_redirects_in_a_circle_end(server: Any) -> None:
    server.faults["GET"] = [{"status": 302, "headers": {"Location": "/again"}}] * 9
    with refused("redirected", HostError):
        server.post()


def test_the_token_is_taken_out_of_the_text(server: Any) -> None:
    server.post(f"log: {TOKEN}!")
    assert server.bodies() == [f"{MARK}\nlog: ***!"]


def test_no_object_shows_the_token(server: Any) -> None:
    host = find_host(server.environment())
    assert TOKEN not in repr(host) + repr(HostClient(host.headers, host.token, 1)) + plan(host, "karat", "x")


@pytest.mark.parametrize("bad", ["secret\nX-Evil: 1", "sec ret", "secrét", "secret\x00"])
def test_a_token_that_could_not_be_sent_is_refused_and_not_shown(server: Any, bad: str) -> None:
    variable = "GITHUB_TOKEN" if "GITHUB_TOKEN" in server.environment() else "GITLAB_TOKEN"
    with refused("bad-token", ConfigError) as caught:
        find_host(server.environment() | {variable: bad})
    assert "sec" not in str(caught.value)
    assert find_host(server.environment() | {variable: "secret\n"}).token == "secret"


@pytest.mark.parametrize(
    "bad", ["file:///etc", "ftp://x/", "api.github.com", "https://u:p@x/", "http://x y/", "http://"]
)
def test_an_address_that_is_none_is_refused(server: Any, bad: str) -> None:
    variable = "GITHUB_API_URL" if "GITHUB_TOKEN" in server.environment() else "CI_API_V4_URL"
    with refused("bad-address", ConfigError) as caught:
        find_host(server.environment() | {variable: bad})
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a-->", "ü", "x" * 65, "a\n"])
def test_a_name_is_letters_digits_and_dashes(server: Any, name: str) -> None:
    with refused("bad-name"):
        server.post(name=name)
    assert server.requests == []
