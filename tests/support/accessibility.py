"""What axe-core finds on a page that is open in a browser."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

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


def grave_faults(page: Page, *, rules: list[str] | None = None) -> list[str]:
    """What is serious or critical: the contrast of texts, and all other rules or only these."""
    axe, options = Axe(), dict[str, Any](resultTypes=["violations"])
    others = {"runOnly": rules} if rules else {"rules": {"color-contrast": {"enabled": False}}}
    found = axe.run(page, options={**options, **others}).response["violations"]
    assert page.evaluate(_CHOOSE)
    contrast = {**options, "runOnly": ["color-contrast"]}
    found += axe.run(page, "[data-contrast]", contrast).response["violations"]
    page.evaluate(_FORGET)
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{one['id']}: {node['html'][:200]}" for one in grave for node in one["nodes"]]
