"""Writes docs/explained/speed.md from the committed pages of the benchmarks.

`make docs` runs it. A test fails if the page is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from drawings import ROOT, table

PAGE = ROOT / "docs" / "explained" / "speed.md"
_WORKLOADS = {  # heading in RESULTS.md → what is measured
    "## W1": "6,980 queries × 1,000 hits, from TREC files",
    "## W3": "200,000 queries × 10 hits, from JSON Lines",
    "## W2": "50 queries × 1,000 hits, from TREC files",
    "## Whole process": "the same, with the start of Python and imports",
}
_FASTER = {
    "## W1": "for 6,980 × 1,000 hits",
    "## W2": "for 50 × 1,000 hits",
    "## W3": "for 200,000 × 10 hits",
    "## Whole process": "for 50 × 1,000 hits with the start of Python and imports",
}
_COMMANDS = {  # name in COMMANDS.md → what is typed
    "panel": "`karat eval`",
    "page": "`karat eval -o report.html`",
    "gate": "`karat gate` with a run as baseline",
    "compare": "`karat compare` of two runs",
}
_DICTS = ("## W1", "## W2", "## W3")  # are also measured from dicts
_PAGES = ("RESULTS.md", "COMMANDS.md", "SCALE.md", "TEAM.md")
_FILES = {"W1": "6,980 × 1,000, TREC", "W2": "50 × 1,000, TREC", "W3": "200,000 × 10, JSON Lines"}
_ROUNDS = {
    "from the start": "100 readers, after the start",
    "again": "the same again",
    "soak": "five minutes of the same",
    "nobody waits": "100 readers who ask again at once",
}


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    return "\n\n".join([*_opening(), *_tools(), *_commands(), *_large(), *_dashboard(), *_own()]) + "\n"


def _opening() -> Iterator[str]:
    yield "# How fast it is"
    yield (
        "Seconds and memory, each table with its machine and day. The scripts in "
        "[benchmarks](../../benchmarks/README.md) measured them, and this page is made from what they wrote. On other "
        "machines the seconds differ; the ratios between tools differ less."
    )
    if len({_machine(name) for name in _PAGES}) > 1:
        yield (
            "**The tables were not all measured on the same machine.** Compare numbers within a table, not between "
            "tables."
        )


def _tools() -> Iterator[str]:
    yield "## Beside other tools"
    yield (
        "The same seven metrics from the same files: CPU seconds and peak memory; less is better. The values agree to "
        "1e-6. Intervals are left out, because the other tools have none; whole commands, below, include them. ranx "
        "has compiled its code before, except in the last column."
    )
    yield _measured("RESULTS.md")
    found = {said: table("RESULTS.md", heading) for heading, said in _WORKLOADS.items()}
    names = [row[""].partition(" (")[0] for row in next(iter(found.values()))]
    cells = [[f"{row['CPU s']} s, {row['peak MB']} MB" for row in rows] for rows in found.values()]
    yield _table(["", *found], [[name, *(column[at] for column in cells)] for at, name in enumerate(names)])
    yield "The same metrics from dicts in memory, without reading. Memory includes the dicts:"
    dicts = {said: _from_dicts(heading) for heading, said in _FASTER.items() if heading in _DICTS}
    cells = [[f"{row['CPU s']} s, {row['peak MB']} MB" for row in rows] for rows in dicts.values()]
    titles = [said.removeprefix("for ") for said in dicts]
    yield _table(["", *titles], [[name, *(column[at] for column in cells)] for at, name in enumerate(names)])
    yield f"Another tool takes less CPU time than Karat in these cases: {', '.join(_faster()) or 'none'}."


def _section(heading: str) -> str:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    return text.partition(f"\n{heading}")[2].partition("\n## ")[0]


def _from_dicts(heading: str) -> list[dict[str, str]]:
    """The second table of a workload."""
    return list(_tables(_section(heading)))[1]


def _faster() -> Iterator[str]:
    """Where another tool takes less CPU time."""
    for heading, said in _FASTER.items():
        for at, rows in enumerate(_tables(_section(heading))):
            for row in rows:
                if float(row["× CPU"]) < 1:
                    yield f"{row['']} {said}{' from dicts in memory' * at} ({row['× CPU']} of Karat's)"


def _commands() -> Iterator[str]:
    yield "## A whole command"
    yield "As typed in a shell, from start to end, with all default metrics, their intervals, and files."
    yield _measured("COMMANDS.md")
    rows = []
    for row in _with("COMMANDS.md", "as typed"):
        workload, _, kind = row["command"].partition("-")
        if kind in _COMMANDS:
            rows.append([_COMMANDS[kind], _FILES[workload], row["wall"], row["CPU"], row["peak"]])
    yield _table(["command", "queries × hits", "wall time", "CPU time", "memory"], rows)


def _large() -> Iterator[str]:
    yield "## Large files"
    yield (
        "Seven metrics with intervals. Memory hardly grows with the file, because hits are read in slices "
        "([scale](../scale.md))."
    )
    yield _measured("SCALE.md")
    rows = [
        [row["hits"], row["file"], f"`{row['engine']}`", f"{row['CPU s']} s", f"{row['peak MB']} MB"]
        for row in _with("SCALE.md", "engine")
    ]
    yield _table(["hits", "file", "engine", "CPU time", "memory"], rows)


def _dashboard() -> Iterator[str]:
    yield "## The dashboard"
    yield "`karat serve` with 10,000 runs in PostgreSQL, while a run is saved every 2 seconds."
    yield _measured("TEAM.md")
    rows = [
        [
            _ROUNDS.get(row["round"], row["round"]),
            row["requests"],
            row["p50"],
            row["p99"],
            row["server, MB"].split()[-1] + " MB",
        ]
        for row in _with("TEAM.md", "round")
    ]
    yield _table(["", "requests", "median", "99 % within", "memory"], rows)


def _own() -> Iterator[str]:
    yield "## On your machine"
    yield (
        "`make bench-quick` measures the most important ratios in less than 3 minutes, `make bench` everything on this "
        "page. [How it is measured](../../benchmarks/README.md) has the rules, and the page of each script. "
        "[Karat and other tools](other_tools.md) compares them in other respects."
    )


def _with(name: str, column: str) -> list[dict[str, str]]:
    """The rows of the first table of a page that has this column."""
    text = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
    return next(rows for rows in _tables(text) if column in rows[0])


def _tables(text: str) -> Iterator[list[dict[str, str]]]:
    for found in re.findall(r"(?:^\|.*\n)+", text, re.M):
        header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines())
        yield [dict(zip(header, row, strict=True)) for row in rows]


def _table(header: list[str], rows: list[list[str]]) -> str:
    numbers = ["---:" if re.fullmatch(r"[\d,.]+(?: m?s| MB)?(?:, [\d,]+ MB)?", cell) else "---" for cell in rows[0]]
    lines = [header, numbers, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _measured(name: str) -> str:
    """Where and when, from the head of a page."""
    day = re.search(r"Day: ([\d-]+)", (ROOT / "benchmarks" / name).read_text(encoding="utf-8"))
    when = f" on {day[1]}" if day else " (processor and day were not recorded)"
    return f"Measured{when}; machine: {_machine(name)}. [All values](../../benchmarks/{name})."


def _machine(name: str) -> str:
    text = (ROOT / "benchmarks" / name).read_text(encoding="utf-8")
    machine = re.search(r"Machine: (.+)|; (\d+ cores, .+?), Python", text)
    assert machine is not None, name
    return machine[1] or machine[2]


if __name__ == "__main__":
    main()
