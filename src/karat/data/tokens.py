"""How many tokens a text has, where nobody counted them."""

from __future__ import annotations

BYTES_A_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """One token for every four bytes of UTF-8, white space collapsed, rounded up.

    Every model counts in its own way; this is the rule of thumb for English, and bytes carry it over to other scripts
    (a Chinese character is three of them). Whoever needs exact numbers logs `tokens` with each hit.

    >>> estimate_tokens("refunds take five days"), estimate_tokens("退款需要五天"), estimate_tokens("")
    (6, 5, 0)
    """
    collapsed = " ".join(text.split())
    return -(-len(collapsed.encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN)
