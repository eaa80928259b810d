"""Golden files: what is printed, shown or written, as it was when somebody last read it.

`KARAT_UPDATE_GOLDEN=1 pytest …` writes the files again: read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check(name: str, text: str) -> None:
    """`text` is what the golden file `name` holds."""
    file = FOLDER / name
    if os.environ.get("KARAT_UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
