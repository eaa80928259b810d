"""Makes the data of the benchmarks in benchmarks/data/: the same bytes every time, skipped where they are there.

    python benchmarks/workloads.py [--force]

W1 and the three sizes L1–L3 look like MS MARCO passage ranking (number ids, about 1.1 relevant passages a query),
W2 like a TREC deep learning track (chunk ids, 200 judged a query with grades 0, 1, 2), W3 like the log of a RAG
system with graded gold, W3-changed like the log of the system that is to replace it. Q1 and Q3 are W1 and W3 at a tenth
of the size. Scores of TREC runs have two decimals, so that about a third of neighbours are tied.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import numpy as np
from shapes import DATA, LINEAR, SHAPES, changed, gold_file, is_jsonl, run_file, without_rank

SEED = 20_240_611
PASSAGES = 8_841_823
CHUNKS = 400_000
Random = np.random.Generator


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the data of the benchmarks.")
    parser.add_argument("--force", action="store_true", help="make the files anew even where they are there")
    force = parser.parse_args().force
    os.makedirs(DATA, exist_ok=True)
    for number, workload in enumerate(SHAPES):
        files = [run_file(workload), gold_file(workload)]
        if is_jsonl(workload):
            files += [run_file(without_rank(workload)), run_file(changed(workload))]
        if force or not all(map(os.path.exists, files)):
            print(f"making {workload} …", flush=True)
            random = np.random.default_rng([SEED, number])
            _write(files, _log_lines(random, workload) if is_jsonl(workload) else _trec_lines(random, workload))


def _write(files: list[str], lines: Iterable[tuple[str, ...]]) -> None:
    """Lines for each file side by side. The names appear when all is written, so that no half file is ever used."""
    with ExitStack() as stack:
        streams = [stack.enter_context(open(f"{file}.part", "w", encoding="utf-8")) for file in files]
        for texts in lines:
            for stream, text in zip(streams, texts, strict=True):
                stream.write(text)
    for file in files:
        os.replace(f"{file}.part", file)


def _trec_lines(random: Random, workload: str) -> Iterator[tuple[str, str]]:
    """Run and qrels of one query after the other."""
    queries, depth = SHAPES[workload]
    judge, name = (_few_judged, str) if workload in ("W1", "Q1", *LINEAR) else (_many_judged, _passage)
    for number in range(queries):
        query = 1_000_000 + 7 * number
        passages = _sample(random, depth)
        scores = np.sort(random.gamma(2.0, 3.0, depth) + 5)[::-1].round(2)
        ranked = enumerate(zip(passages, scores.tolist(), strict=True), 1)
        yield (
            "".join(f"{query} Q0 {name(p)} {rank} {score:.4f} sys\n" for rank, (p, score) in ranked),
            "".join(f"{query} 0 {name(p)} {grade}\n" for p, grade in judge(random, passages).items()),
        )


def _sample(random: Random, size: int) -> list[int]:
    """Different passages in random order."""
    drawn = np.unique(random.integers(0, PASSAGES, size + size // 8 + 16))
    return random.permutation(drawn)[:size].tolist()


def _few_judged(random: Random, passages: list[int]) -> dict[int, int]:
    """One relevant passage, now and then two, most of them found and near the top."""
    grades: dict[int, int] = {}
    for _ in range(1 + int(random.random() < 0.1)):
        place = min(int(random.geometric(0.03)), len(passages)) - 1
        passage = passages[place] if random.random() < 0.85 else int(random.integers(PASSAGES))
        grades[passage] = 2 if random.random() < 0.1 else 1
    return grades


def _many_judged(random: Random, passages: list[int], size: int = 200) -> dict[int, int]:
    """A pool: the upper ranks judged densely, the lower ones thinly, and passages of other systems."""
    places = np.unique(np.minimum(random.geometric(0.01, size), len(passages)) - 1)
    others = random.integers(0, PASSAGES, size - len(places))
    pool = dict.fromkeys([*(passages[i] for i in places), *others.tolist()])
    return dict(zip(pool, random.choice(3, len(pool), p=(0.6, 0.25, 0.15)).tolist(), strict=True))


def _passage(number: int) -> str:
    return f"doc_{number // 8:07d}#p{number % 8}"


def _log_lines(random: Random, workload: str) -> Iterator[tuple[str, str, str, str]]:
    """Run log, gold, the run log without ranks, and that of a changed system, one query after the other."""
    queries, depth = SHAPES[workload]
    change = np.random.default_rng([SEED, len(SHAPES)])  # of its own: what was there before stays the same
    for number in range(queries):
        chunks = list(dict.fromkeys(random.integers(0, CHUNKS, depth + 4).tolist()))[:depth]
        # Systems that log two decimals have many ties, those that log three have few.
        scores = np.sort(random.beta(5, 2, len(chunks)))[::-1].round(3 if number % 3 else 2).tolist()
        hits = _log_hits(chunks, scores)
        times = random.gamma(4, 6, 2)
        start = f'{{"query_id":"q_{number:07d}","system":"sysA","k_raw":50,"topk":['
        end = _log_end(number, times)
        gold = ",".join(f'{{"chunk_id":"{_chunk(c)}","grade":{g}}}' for c, g in _log_gold(random, chunks).items())
        yield (
            start + _ranked(hits) + end,
            f'{{"query_id":"q_{number:07d}","segment":"seg_{random.integers(20):02d}","gold":[{gold}]}}\n',
            start + ",".join("{" + hit for hit in hits) + end,
            start.replace("sysA", "sysB")
            + _ranked(_log_hits(_changed(change, chunks), scores))
            + _log_end(number, times * change.uniform(0.8, 1.1, 2)),
        )


def _log_hits(chunks: list[int], scores: list[float]) -> list[str]:
    return [
        f'"chunk_id":"{_chunk(c)}","score":{score},"doc_version":"v{c % 5}"}}'
        for c, score in zip(chunks, scores, strict=True)
    ]


def _log_end(number: int, times: np.ndarray) -> str:
    retrieve, rerank = times.round(2).tolist()
    return (
        f'],"latency_ms":{{"retrieve":{retrieve},"rerank":{rerank}}}'
        f',"index_version":"2024-11-{1 + number % 28:02d}"'
        ',"chunker":{"name":"recursive","size":600,"overlap":80}}\n'
    )


def _ranked(hits: list[str]) -> str:
    return ",".join(f'{{"rank":{rank},{hit}' for rank, hit in enumerate(hits, 1))


def _changed(random: Random, chunks: list[int]) -> list[int]:
    """Nearly three lists in ten have two hits swapped, one in ten has a new hit."""
    chunks, kind = chunks.copy(), random.random()
    if kind < 0.3:
        one, other = random.integers(0, len(chunks), 2).tolist()
        chunks[one], chunks[other] = chunks[other], chunks[one]
    elif kind < 0.4:
        new = int(random.integers(CHUNKS))
        if new not in chunks:
            chunks[int(random.integers(len(chunks)))] = new
    return chunks


def _log_gold(random: Random, chunks: list[int]) -> dict[int, int]:
    """One to three gold chunks, most of them found and near the top."""
    grades: dict[int, int] = {}
    for _ in range(int(random.integers(1, 4))):
        place = min(int(random.geometric(0.3)), len(chunks)) - 1
        chunk = chunks[place] if random.random() < 0.7 else int(random.integers(CHUNKS))
        grades.setdefault(chunk, 2 if random.random() < 0.4 else 1)
    return grades


def _chunk(number: int) -> str:
    return f"doc_{number // 8:06d}#p{number % 8}"


if __name__ == "__main__":
    main()
