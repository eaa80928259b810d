"""Pages of a browser, and waiting for them: for what a script does, and for what a click leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route

PAUSE_MS = 50


class Tabs:
    """Pages that may ask for addresses with one beginning only. They are used again: a new context takes a second.

    `errors`: the console may have anything but errors.
    """

    def __init__(self, browser: Browser, allowed: str, *, errors: bool = False, **options: Any) -> None:
        self._browser, self._allowed, self._errors, self._options = browser, allowed, errors, options
        self._free: dict[bool, list[tuple[Page, list[str]]]] = {True: [], False: []}

    @contextmanager
    def open(self, width: int, height: int, *, dark: bool = False, script: bool = True) -> Iterator[Page]:
        """A page as it is in a new context. It may not have asked for anything else, nor complained."""
        page, wrong = self._free[script].pop() if self._free[script] else self._new(script)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme="dark" if dark else "light", media="screen")
        try:
            yield page
        except BaseException:
            page.context.close()
            raise
        if script:
            page.evaluate(
                "() => { try { localStorage.clear(); sessionStorage.clear(); } catch { /* an empty page */ } }"
            )
        page.goto("about:blank")
        page.context.clear_cookies()
        self._free[script].append((page, wrong))
        found = wrong[:]
        wrong.clear()
        assert found == []

    def close(self) -> None:
        for page, _ in [*self._free[True], *self._free[False]]:
            page.context.close()

    def _new(self, script: bool) -> tuple[Page, list[str]]:
        context = self._browser.new_context(java_script_enabled=script, **self._options)
        wrong: list[str] = []

        def answer(route: Route) -> None:
            if route.request.url.startswith(self._allowed):
                route.continue_()
            else:
                wrong.append(route.request.url)
                route.abort()

        def said(message: ConsoleMessage) -> None:
            if not self._errors or message.type == "error":
                wrong.append(message.text)

        context.route("**/*", answer)
        page = context.new_page()
        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        if not self._errors:
            page.on("dialog", lambda dialog: wrong.append(f"dialog {dialog.message}"))
        return page, wrong


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
