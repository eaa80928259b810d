"""Waiting for a page: for what its script does, and for what a click leads to."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

PAUSE_MS = 50


def wait_until(page: Page, expression: str, argument: Any = None, *, seconds: float = 60) -> None:
    """Wait until an expression is true, on a page whose Content Security Policy forbids eval.

    Playwright's own `wait_for_function` polls with eval, which these pages refuse, so it fails whenever the first look
    is too early.
    """
    for _ in range(int(seconds * 1000 / PAUSE_MS)):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(PAUSE_MS)
    raise AssertionError(f"not true within {seconds:g} s: {expression}")


def follow(page: Page, what: str | Locator) -> None:
    """Click what leads to another page, and wait until that is there: else the old one may be looked at."""
    with page.expect_navigation():
        (page.locator(what).first if isinstance(what, str) else what).click()


def wait_for_address(page: Page, part: str) -> None:
    """The address as the page knows it: Playwright is told of it a little later."""
    wait_until(page, "part => location.href.includes(part)", part)
