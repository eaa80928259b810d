"""`python -m karat.results.diagnosis docs/diagnosis.md`: update the table of rules in a page."""

from __future__ import annotations

import sys
from pathlib import Path

from karat.files.atomic_write import write_whole
from karat.results.diagnosis.diagnose import reference

START, END = "<!-- rules -->\n", "<!-- /rules -->"


def main() -> None:
    page = Path(sys.argv[1])
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    write_whole(page, f"{before}{START}{reference()}{END}{rest.partition(END)[2]}".encode())


if __name__ == "__main__":
    main()
