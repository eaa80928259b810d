"""How well the position-bias model recovers the truth from simulated click logs, and how often its intervals hold it.

python benchmarks/click_coverage.py > benchmarks/CLICKS.md
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from click_logs import counted, simulate, textbook_em

from karat.labels.clicks import RARELY
from karat.statistics.position_bias import fit_attraction, fit_examination

CASES: dict[str, dict[str, object]] = {
    "10 lists per query": {"lists": 10},
    "40 lists per query": {},
    "200 lists per query": {"lists": 200},
    "random lists, similar items": {"good_first": 0.0, "attraction": (2.0, 5.0)},
    "few attractive items": {"lists": 30, "attraction": (0.3, 3.0)},
    "all or nothing, 300 queries": {"lists": 15, "queries": 300, "attraction": (0.2, 0.6)},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    trials = parser.parse_args().trials
    print("# Labels from clicks\n\n`benchmarks/click_coverage.py`: lists of 8 from 12 items per query, 60 queries.\n")
    print(f"Share of 95 % intervals that hold the truth ({trials} logs each), for pairs shown at least {RARELY} times;")
    print("labels: the share of pairs that get a grade, and the share of these that are right.\n")
    print("| log | examination | attraction | width | with a grade | right |\n|---|---|---|---|---|---|")
    for name, case in CASES.items():
        rows = [_trial(seed, case) for seed in range(trials)]
        examined, attracted, width, graded, right = np.nanmean(rows, axis=0)
        print(f"| {name} | {examined:.1%} | {attracted:.1%} | {width:.2f} | {graded:.0%} | {right:.1%} |", flush=True)
    print("\nExamination of position 2 to 6 (truth first) if each pair is shown only a few times, mean of 20 logs: the")
    print(
        "usual EM, which estimates one attraction per pair along with the examinations, is far off. Karat's is not.\n"
    )
    print("| showings per pair | truth | Karat | the usual EM |\n|---|---|---|---|")
    for lists in (3, 6, 15, 75):
        print(f"| {lists * 8 / 12:g} | {_bias(lists)} |", flush=True)
    print(f"\n{_speed()}")


def _trial(seed: int, case: dict[str, object]) -> tuple[float, ...]:
    log = simulate(np.random.default_rng(seed), **case)  # type: ignore[arg-type]
    showings, clicks = counted(log)
    examination = fit_examination(showings, clicks, 0.95)
    attraction = fit_attraction(showings, examination)
    known = ~np.isnan(examination.value)
    known[examination.reference] = False
    held = (examination.low <= log.examination) & (log.examination <= examination.high)
    shown = showings.per_item(showings.shown) >= RARELY
    low, high = attraction.limits(0.95)
    threshold = float(np.nanmean(attraction.mean))
    above = attraction.above(threshold)
    graded = shown & (np.maximum(above, 1 - above) >= 0.95)
    inside = (low <= log.attraction) & (log.attraction <= high)
    right = (above > 0.5) == (log.attraction > threshold)
    mean = right[graded].mean() if graded.any() else np.nan
    return held[known].mean(), inside[shown].mean(), (high - low)[shown].mean(), graded[shown].mean(), mean


def _bias(lists: int) -> str:
    found, usual = [], []
    for seed in range(20):
        log = simulate(np.random.default_rng(seed), queries=6000 // lists, lists=lists)
        showings, clicks = counted(log)
        found.append(fit_examination(showings, clicks, 0.95).value[1:6])
        shown, clicked = next(iter(showings.blocks(showings.shown, showings.clicked)))
        usual.append(textbook_em(shown, clicked, 300)[1:6])
    rows = (log.examination[1:6], np.nanmean(found, axis=0), np.mean(usual, axis=0))
    return " | ".join(" ".join(f"{value:.2f}" for value in row) for row in rows)


def _speed() -> str:
    log = simulate(np.random.default_rng(0), queries=5000, lists=200, length=10, items=14)
    showings, clicks = counted(log)
    start = time.process_time()
    fit_attraction(showings, fit_examination(showings, clicks, 0.95)).limits(0.95)
    spent = time.process_time() - start
    return f"A million lists of ten (70,000 pairs, {len(clicks.item):,} clicks) are fitted in {spent:.1f} CPU seconds."


if __name__ == "__main__":
    main()
