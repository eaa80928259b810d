"""`python -m karat.schemas`: write the shipped schemas anew."""

from __future__ import annotations

from pathlib import Path

from karat.files.atomic_write import write_whole
from karat.schemas import NAMES, generate

for name in NAMES:
    write_whole(Path(__file__).parent / f"{name}.schema.json", generate(name).encode())
