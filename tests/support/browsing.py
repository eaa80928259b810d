"""Waiting for a page whose Content Security Policy forbids eval."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

PAUSE_MS = 50


def wait_until(page: Page, expression: str, argument: Any = None, *, seconds: float = 10) -> None:
    """Wait until an expression is true.

    Playwright's own `wait_for_function` polls with eval, which these pages refuse, so it fails whenever the first look
    is too early.
    """
    for _ in range(int(seconds * 1000 / PAUSE_MS)):
        if page.evaluate(expression, argument):
            return
        page.wait_for_timeout(PAUSE_MS)
    raise AssertionError(f"not true within {seconds:g} s: {expression}")
