"""What was found in the data and what was done about it: counted, with examples, shown in every report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from karat.errors import shorten

_EXAMPLES = 3

# code → (what was found, what was done). Every code that any reader or rule can count is here.
EXPLANATIONS: dict[str, tuple[str, str]] = {
    "no_shared_items": (
        "relevant gold items, not one of which the run returned for any query",
        "scored as failed; do run and gold name items alike?",
    ),
    "near_ids": (
        "gold items not found, although the id of a hit differs only in how it is written",
        "scored as not found; --normalize-ids takes such ids as the same",
    ),
    "ids_normalized": ("ids of the gold set that are written in another way", "compared in one form, as asked"),
    "near_queries": (
        "queries of the run that the gold set has under an id that differs only in how it is written",
        "left out; --normalize-ids takes such ids as the same",
    ),
    "queries_normalized": ("queries of the run whose id is written in another way", "compared in one form, as asked"),
    "ids_joined": ("ids of the gold set that are the same in one form as another id", "taken as one item, as asked"),
    "rising_scores": (
        "queries whose scores rise along the list",
        "the highest score counts as the best; --scores lower-is-better, if these are distances",
    ),
    "distance_scores": (
        "queries ordered by a field whose name is that of a distance",
        "the highest score counts as the best; --scores lower-is-better, if these are distances",
    ),
    "row_order": (
        "queries of a table whose rows have neither rank nor score",
        "the order of the rows counts as the ranking",
    ),
    "rows_by_id": (
        "queries of such a table whose rows are sorted by id",
        "scored in that order; name the column that ranks them: --map rank=COLUMN or score=COLUMN",
    ),
    "rows_scattered": (
        "queries of such a table whose rows are not together",
        "scored in the order of the file; name the column that ranks them: --map rank=COLUMN or score=COLUMN",
    ),
    "either_kind": (
        "rows with a query and an item, and without grade, rank or score",
        "taken for gold; with --gold FILE they are read as a run",
    ),
    "order_as_said": ("queries whose hits are in ranking order, whatever their scores are", "taken so, as asked"),
    "scores_unused": ("queries without scores, although --scores says what they mean", "position in the list decides"),
    "other_times": ("queries whose rows have different latencies", "the first one counts as the latency of the query"),
    "turned_scores": ("queries whose scores are distances", "the lowest score counts as the best, as said"),
    "no_data": ("metrics that need what the run does not have", "undefined (null)"),
    "missing_queries": ("queries of the gold set that the run does not have", "scored as failed"),
    "missing_skipped": ("queries of the gold set that the run does not have", "left out, as asked"),
    "missing_no_answer": (
        "queries without an answer that the run does not have",
        "no loss: undefined (null), and no false evidence",
    ),
    "unknown_queries": ("queries of the run that the gold set does not have", "left out"),
    "no_answer_queries": ("queries marked as having no answer", "kept out of the relevance metrics"),
    "no_relevant_gold": ("queries without any relevant gold item", "undefined (null) on relevance metrics"),
    "no_relevant_zero": ("queries without any relevant gold item", "scored 0 on relevance metrics, as asked"),
    "empty_results": ("queries for which the run returned no hit", "scored as failed"),
    "short_lists": (
        "queries with fewer hits than the k of redundancy",
        "empty places bring no document; redundancy(by=returned) leaves them out",
    ),
    "failed_queries": ("queries for which the run reports an error", "scored by the hits that are there"),
    "duplicate_hits": (
        "hits that stand in a query's list more than once",
        "first place kept, the rest removed",
    ),
    "rank_gaps": ("queries whose ranks are not 1, 2, 3, …", "renumbered"),
    "rank_order": ("queries whose hits are not listed in rank order", "sorted by rank"),
    "rank_ties": ("queries in which two hits have the same rank", "their order in the list decides"),
    "rank_against_score": ("queries in which rank and score disagree", "rank decides"),
    "partial_order": ("queries in which only some hits have a rank or score", "position in the list decides"),
    "score_ties": ("queries with hits of equal score", "id decides, descending, as trec_eval does"),
    "listed_ties": ("queries with hits of equal score", "position in the list decides, as asked"),
    "score_width": (
        "queries with scores that differ only beyond 32 bits",
        "taken as equal, as trec_eval does; --score-width 64 tells them apart",
    ),
    "cut_hits": ("hits after the first --top-k", "cut before evaluation"),
    "pruned_hits": ("hits under the score threshold", "cut before evaluation"),
    "unscored_hits": ("hits without a score", "kept: nothing says that they are under the threshold"),
    "future_hits": ("hits newer than their query's as_of", "removed before ranking, as asked"),
    "future_gold": (
        "relevant gold items newer than their query's as_of, among those hits",
        "still asked for; are the labels right?",
    ),
    "undated_hits": ("hits without a version, of queries with as_of", "kept: nothing says that they are newer"),
    "odd_versions": (
        "hits whose version cannot be compared with their query's as_of",
        "taken as hits without a version",
    ),
    "estimated_tokens": ("hits that say no number of tokens", "estimated from their text, 4 bytes a token"),
    "unpriced_queries": ("queries whose cost is not known", "undefined (null); complete the price table or the log"),
    "doc_level_gold": ("gold items matched by document, not by chunk", "first chunk of the document counts"),
    "passages_found": ("passages of documents in the gold set", "matched by the chunks that hold them"),
    "passages_lost": ("passages of the gold set that no known chunk holds", "kept, and scored as not found"),
    "passages_by_document": (
        "passages of the gold set for which chunks lack the text or the offsets",
        "matched by document, each document once",
    ),
    "passages_in_hits": (
        "passages of the gold set looked for in the run's own hits",
        "only chunks that were ever returned are known",
    ),
    "passages_repeated": ("quotes of the gold set that stand in their document more than once", "each place counts"),
    "passages_moved": ("passages whose quote stands elsewhere than start and end say", "the quote decides"),
    "passages_beyond": ("passages that reach beyond the end of their document", "what lies inside decides"),
    "offsets_unused": ("gold items with start and end, but no doc_id to count them in", "the chunk id decides"),
    "odd_offsets": ("chunks of the corpus whose start and end are no offsets", "taken as not given"),
    "duplicate_gold": ("gold items listed twice with the same grade", "counted once"),
    "empty_evidence": ("evidence texts in the gold set that are empty", "left out"),
    "duplicate_evidence": ("evidence texts that stand twice in one query", "counted once"),
    "labels_added": ("labels of pairs that the gold set does not judge", "added to it"),
    "labels_overruled": ("labels that contradict the gold set", "the gold set decides"),
    "labels_missing": ("labels without a grade", "left out: unjudged, not irrelevant"),
    "labels_unknown": ("labels of queries that the gold set does not have", "left out"),
    "labels_no_answer": (
        "labels that call something relevant to a query without an answer",
        "left out; does the query have an answer after all?",
    ),
    "large_gold": (
        "queries in the gold set, more than 5,000",
        "nothing; at this size graded labels, and ndcg@10 in the gate, are worth considering",
    ),
    "gold_raised": ("gold items of lists without grades, beside labels with grades", "given the labels' highest grade"),
    "gold_stretched": ("gold items with grades on another scale than the labels", "brought onto theirs, as asked"),
    "gold_scale": (
        "relevant gold items with grades that end elsewhere than those of the labels",
        "kept as they are; --gold-scale N says where the gold set's own scale ends, and brings them onto the labels'",
    ),
    "labels_below_scale": (
        "labels, none of which has the highest grade of their scale",
        "the scale decides; --max-grade N says where it ends",
    ),
    "negative_grades": ("gold items with a grade below 0", "treated as unjudged, as trec_eval does"),
}


class Entry(msgspec.Struct, frozen=True):
    """One line of the audit."""

    code: str
    count: int
    found: str
    done: str
    examples: tuple[str, ...] = ()


class Audit:
    """Counts by code, with the first few examples of each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Audit:
        """The audit that was saved as these entries."""
        audit = cls()
        for entry in entries:
            audit._counts[entry.code] = entry.count
            audit._examples[entry.code] = list(entry.examples)
        return audit

    @classmethod
    def merged(cls, *audits: Audit) -> Audit:
        whole = cls()
        for audit in audits:
            whole.merge(audit)
        return whole

    def count(self, code: str, n: int = 1, examples: Iterable[str] = ()) -> None:
        if code not in EXPLANATIONS:
            raise KeyError(code)
        if n <= 0:
            return
        self._counts[code] = self._counts.get(code, 0) + n
        shown = self._examples.setdefault(code, [])
        for example in examples:
            if len(shown) >= _EXAMPLES:
                break
            if (text := shorten(example, 100)) not in shown:
                shown.append(text)

    def merge(self, other: Audit) -> None:
        for entry in other:
            self.count(entry.code, entry.count, entry.examples)

    def __getitem__(self, code: str) -> int:
        if code not in EXPLANATIONS:
            raise KeyError(code)
        return self._counts.get(code, 0)

    def __iter__(self) -> Iterator[Entry]:
        for code, (found, done) in EXPLANATIONS.items():
            if code in self._counts:
                yield Entry(code, self._counts[code], found, done, tuple(self._examples.get(code, ())))

    def __repr__(self) -> str:
        return f"Audit({', '.join(f'{e.code}={e.count}' for e in self)})"
