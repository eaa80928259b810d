"""Which chunk covers which evidence: Karat against plain difflib; prints one page of Markdown.

    python benchmarks/evidence_matching.py [--quick] [--repeat N] [--output FILE]

1,000 queries × 3 evidences × 20 chunks of 600 characters, cut out of the demo set's articles. Contenders take turns in
one process, each turn on new texts from a fixed seed; of the repeats the least CPU counts. Texts are normalised
beforehand, for all. Verdicts must be the same, or it ends with exit code 1.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

from pages import Target, conditions, joined, options, publish, table, target_table

from karat.formats.corpus import read_corpus
from karat.matching import cover as matching
from karat.matching.cover import cover, normalise, reaches_fast

CORPUS = Path(__file__).parents[1] / "examples" / "helpdesk" / "corpus.jsonl"
QUERIES, CHUNKS, SIZE = 1_000, 20, 600
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
KINDS = {
    "sentence": "a sentence of one of the chunks",
    "edited": "300 to 600 characters of one of the chunks, every tenth word dropped, changed or added",
    "elsewhere": "300 to 600 characters of a text that is not among the chunks",
}
WANTED = 100

Pair = tuple[str, str]
Verdicts = list[bool]
Judge = Callable[[str, str, float], bool]


def plain(evidence: str, chunk: str, threshold: float) -> bool:
    if evidence in chunk or chunk in evidence:
        return True
    return SequenceMatcher(None, evidence, chunk).ratio() >= threshold


def karat(evidence: str, chunk: str, threshold: float) -> bool:
    return cover(evidence, chunk, threshold) is not None


def karat_alone(evidence: str, chunk: str, threshold: float) -> bool:
    """Without rapidfuzz."""
    fast, matching.reaches_fast = matching.reaches_fast, lambda: None  # type: ignore[assignment]
    try:
        return cover(evidence, chunk, threshold) is not None
    finally:
        matching.reaches_fast = fast


CONTENDERS: dict[str, Judge] = {"difflib": plain, "Karat": karat, "Karat without rapidfuzz": karat_alone}


def chunks_of_corpus() -> list[str]:
    """The articles one after the other, cut every 600 characters."""
    text = normalise(" ".join(read_corpus(CORPUS).texts))
    return [text[at : at + SIZE].strip() for at in range(0, len(text) - SIZE, SIZE)]


def make_pairs(queries: int, seed: int) -> dict[str, list[Pair]]:
    """Kind of evidence → every evidence beside every chunk of its query."""
    rng = random.Random(seed)
    chunks = chunks_of_corpus()
    pairs: dict[str, list[Pair]] = {kind: [] for kind in KINDS}
    for _ in range(queries):
        *shown, other = rng.sample(chunks, CHUNKS + 1)
        evidences = {
            "sentence": _sentence(rng.choice(shown), rng),
            "edited": _edited(_passage(rng.choice(shown), rng), rng),
            "elsewhere": _passage(other, rng),
        }
        for kind, evidence in evidences.items():
            pairs[kind] += [(evidence, chunk) for chunk in shown]
    return pairs


def _sentence(chunk: str, rng: random.Random) -> str:
    whole = chunk.split(". ")[1:-1]
    return rng.choice(whole) if whole else _passage(chunk, rng)[:120]


def _passage(chunk: str, rng: random.Random) -> str:
    length = rng.randint(SIZE // 2, SIZE)
    start = rng.randint(0, max(len(chunk) - length, 0))
    return chunk[start : start + length]


def _edited(text: str, rng: random.Random) -> str:
    words: list[str] = []
    for word in text.split(" "):
        dice = rng.random()
        if dice < 0.03:
            continue
        words.append(word[::-1] if dice < 0.07 else word)
        if dice > 0.97:
            words.append("also")
    return " ".join(words)


class Measured:
    """Least CPU seconds by kind, contender and threshold."""

    def __init__(self) -> None:
        self.best: dict[tuple[str, str, float], float] = {}
        self.covered: dict[str, int] = {}

    def turn(self, kind: str, name: str, threshold: float, pairs: list[Pair]) -> Verdicts:
        judge = CONTENDERS[name]
        start = time.process_time()
        found = [judge(evidence, chunk, threshold) for evidence, chunk in pairs]
        spent = time.process_time() - start
        key = (kind, name, threshold)
        self.best[key] = min(spent, self.best.get(key, spent))
        return found

    def ratio(self, kind: str, name: str, threshold: float = 0.7) -> float:
        return self.seconds(kind, "difflib", 0.7) / self.seconds(kind, name, threshold)

    def seconds(self, kind: str, name: str, threshold: float = 0.7) -> float:
        """Of one kind, or of all."""
        return sum(self.best[k, name, threshold] for k in (KINDS if kind == "all" else [kind]))


def measure(queries: int, repeats: int) -> Measured:
    measured = Measured()
    for repeat in range(repeats):
        for kind, pairs in make_pairs(queries, repeat).items():
            expected = measured.turn(kind, "difflib", 0.7, pairs)
            measured.covered[kind] = sum(expected)
            for name in CONTENDERS:
                if name == "difflib":
                    continue
                if measured.turn(kind, name, 0.7, pairs) != expected:
                    sys.exit(f"{name}: verdicts differ from difflib's on {kind}")
            for threshold in THRESHOLDS:
                measured.turn(kind, "Karat", threshold, pairs)
            print(f"[{repeat + 1}/{repeats}] {kind}: {measured.ratio(kind, 'Karat'):.0f}×", file=sys.stderr, flush=True)
    return measured


def page(measured: Measured, queries: int, repeats: int) -> str:
    ratio = measured.ratio("all", "Karat")
    target = Target("all evidences, CPU against difflib", f"≥ {WANTED}×", f"{ratio:.1f}×", ratio >= WANTED)
    parts = [
        "# Benchmarks: evidence matching",
        "Written by `benchmarks/evidence_matching.py`. Ratios are difflib / Karat: above 1, Karat is faster. All "
        "give the same verdicts.",
        conditions(
            f"{queries:,} queries × {len(KINDS)} evidences × {CHUNKS} chunks of {SIZE} characters; {repeats} repeats"
            ", interleaved; lowest CPU time of them",
            ["karat", "rapidfuzz"],
        ),
        target_table([target]),
        "## By kind of evidence, threshold 0.7",
        "\n".join(f"- {kind}: {what}; {measured.covered[kind]:,} pairs covered" for kind, what in KINDS.items()),
        table(
            ["evidence", "contender", ">CPU s", ">µs a pair", ">ratio"],
            [_row(measured, kind, name, queries) for kind in (*KINDS, "all") for name in CONTENDERS],
        ),
        "## By threshold, all evidences",
        "The lower the threshold, the more pairs are left for difflib itself, whose own time does not depend on it.",
        table(
            [">threshold", ">CPU s", ">ratio"],
            [
                [f"{t:g}", f"{measured.seconds('all', 'Karat', t):.2f}", f"{measured.ratio('all', 'Karat', t):.1f}×"]
                for t in THRESHOLDS
            ],
        ),
    ]
    return joined(parts)


def _row(measured: Measured, kind: str, name: str, queries: int) -> list[str]:
    seconds, pairs = measured.seconds(kind, name), queries * CHUNKS * (len(KINDS) if kind == "all" else 1)
    return [kind, name, f"{seconds:.2f}", f"{seconds / pairs * 1e6:.1f}", f"{measured.ratio(kind, name):.1f}×"]


def main() -> None:
    quick = "one repeat of 50 queries: does everything run?"
    given = options("Evidence matching against plain difflib.", quick, "EVIDENCE.md", repeats=3)
    if reaches_fast() is None:
        sys.exit("rapidfuzz is not installed: pip install 'karat[bench]'")
    queries, repeats = (50, 1) if given.quick else (QUERIES, given.repeat)
    publish(page(measure(queries, repeats), queries, repeats), given.output)


if __name__ == "__main__":
    main()
