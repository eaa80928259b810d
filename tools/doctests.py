"""An extension of mkdocstrings: examples in docstrings are code, not quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe


def fenced(text: str) -> str:
    """
    >>> print(fenced("Adds.\\n\\n>" ">> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    parts = re.split(r"\n\s*\n", text)
    return "\n\n".join(f"```pycon\n{part}\n```" if part.lstrip().startswith(">>>") else part for part in parts)


class Doctests(griffe.Extension):
    """Fences the examples of each docstring."""

    def on_object(self, *, obj: griffe.Object, **more: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
