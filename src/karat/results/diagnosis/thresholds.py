"""The thresholds of all rules, and where in the seeds they come from.

"bands": the table of typical ranges for recall (`bands.py`). "gates": the suggested gates of the lesson on retrieval
metrics (recall@5 ≥ 0.90, nDCG@5 ≥ 0.80, precision@5 ≥ 0.60, distinct_docs@5 ≥ 3.0, median retrieval ≤ 60 ms, rerank ≤
50 ms) and the criteria file of the decision record (recall may drop by 0.03; MRR ≥ 0.62). "rows": the table of example
systems (good ranking: recall@1 0.60, recall@5 0.85, MRR 0.70; poor ranking: 0.30, 0.85, 0.40).
"""

from __future__ import annotations

# bands: "poor" ends here; the table ends at 10, and what is poor at 10 is poor at 50
NO_BETTER = 0.02  # recall above the random floor that counts as none; no number in the seeds
LOW_RECALL = {5: 0.60, 10: 0.70, 20: 0.70, 50: 0.70}
GOOD_RECALL_AT_5 = 0.80  # bands: "good" begins
FINE_BY_DOCUMENT = 0.85  # bands: "good" begins for recall@10
WIDE = 0.10  # bands: most are ten percentage points wide
LOW_MRR = 0.62  # gates
HIGH_MRR = 0.70  # rows: good ranking
ORDER_COST = 0.20  # rows: recall@5 − nDCG@5 is about 0.12 for the good ranking and 0.26 for the poor one
LOW_PRECISION = 0.60  # gates
REDUNDANT = 0.40  # gates: 3 distinct documents among 5 hits
SLOW_MS = 110.0  # gates: 60 ms to retrieve and 50 ms to rerank
LONG_TAIL = 3.0  # p90 in medians; no number in the seeds
SHORT_LISTS = 0.05  # share of the queries with fewer than 5 hits; no number in the seeds
REPEATED = 0.01  # share of all hits; no number in the seeds
UNJUDGED = 0.80  # judged@5 if wrong hits were judged too; no number in the seeds
CAPTURED = 0.50  # share of what a reranker could gain; no number in the seeds
ROUTED_RIGHT = 0.90  # share of queries; no number in the seeds
HARMED = 0.20  # share of queries that rewriting may harm; no number in the seeds
NEWER = 0.05  # share of the first hits that are newer than as_of; no number in the seeds
CREDIT = 0.02  # recall that may come from newer documents; as for a drop of nDCG
APART = 0.70  # AUROC: usually called acceptable from here; no number in the seeds
FALSE_EVIDENCE = 0.20  # share of the queries without an answer that may get hits; no number in the seeds
RECALL_HOLDS = 0.03  # gates: the drop of recall that is allowed
NDCG_DROPS = 0.02  # a smaller drop is not reported
SLOWER = 0.10  # share of the baseline's time that a change may add unreported; no number in the seeds
COSTLIER = 0.10  # the same share of its cost; no number in the seeds
NOTICED = 1.0  # milliseconds: less is not noticeable; no number in the seeds

DEPTHS = (50, 20, 10, 5)  # playbook: recall@50; for shorter lists, the depths of the k-sweep
DEEP_ENOUGH = 20  # k-sweep: "if recall@20 is still low", the index is the cause, not the order
