"""What axe-core finds on a page that is open in a browser."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()
# Nearly all of the time goes to the contrast of texts. It depends on styles alone, so one text is enough of those
# that look alike: inside the same elements with the same classes, in the same colours and size.
_CHOOSE = """() => {
    const seen = new Set();
    for (const text of document.body.querySelectorAll("*")) {
        const has = [...text.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!has || !text.getClientRects().length) continue;
        const {color, backgroundColor, fontSize, fontWeight, opacity} = getComputedStyle(text);
        const look = [color, backgroundColor, fontSize, fontWeight, opacity];
        for (let part = text; part; part = part.parentElement)
            look.push(part.tagName, part.getAttribute("class"), part.hasAttribute("disabled"));
        if (!seen.has(look.join())) text.setAttribute("data-contrast", "");
        seen.add(look.join());
    }
    return seen.size;
}"""
_FORGET = """() => {
    for (const text of document.querySelectorAll("[data-contrast]")) text.removeAttribute("data-contrast");
}"""


# Reading axe takes longer than some of its rules, so a page gets it once.
_CHOSEN = "axe.configure({rules: [{id: 'color-contrast', selector: '[data-contrast]'}]})"
_RUN = "async (options) => (await axe.run(document, options)).violations"


def grave_faults(page: Page, *, rules: list[str] | None = None) -> list[str]:
    """What is serious or critical: the contrast of texts, and all other rules or only these."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.axe_script)
        page.evaluate(_CHOSEN)
    assert page.evaluate(_CHOOSE)
    only = {"runOnly": [*rules, "color-contrast"]} if rules else {}
    found: list[dict[str, Any]] = page.evaluate(_RUN, {"resultTypes": ["violations"], **only})
    page.evaluate(_FORGET)
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['html'][:200]}" for one in grave for node in one["nodes"]]
