"""`python -m karat.schemas` regenerates the shipped schemas and `options/keywords.py`."""

from __future__ import annotations

from pathlib import Path

from karat.files.atomic_write import write_whole
from karat.schemas import NAMES, generate
from karat.schemas.keywords import FILE, generate_keywords


def main() -> None:
    for name in NAMES:
        write_whole(Path(__file__).parent / f"{name}.schema.json", generate(name).encode())
    write_whole(FILE, generate_keywords().encode())


if __name__ == "__main__":
    main()
