"""What was found in the data and what was done about it: counted, with examples, shown in every report."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec

from karat.errors import shorten

_EXAMPLES = 3

# code → (what was found, what was done). Every code that any reader or rule can count is here.
EXPLANATIONS: dict[str, tuple[str, str]] = {
    "no_shared_items": (
        "relevant gold items, none of which the run returned for any query",
        "scored as failed; do run and gold set use the same ids?",
    ),
    "near_ids": (
        "gold items not found, although a hit has the same id in another spelling",
        "scored as not found; --normalize-ids treats such ids as equal",
    ),
    "ids_normalized": (
        "ids of the gold set that the run spells differently",
        "compared in normalized form, as requested",
    ),
    "spellings_joined": (
        "ids that the run also spells in another way, never both in one list",
        "treated as the same, as requested",
    ),
    "near_ids_apart": (
        "gold items not found, although a hit has nearly the same id, which --normalize-ids keeps apart",
        "scored as not found; if they are the same, write them in the same way in both files",
    ),
    "near_ids_searched": (
        "queries that were searched for other spellings of ids",
        "the number of gold items in another spelling is estimated from these queries",
    ),
    "near_queries": (
        "queries of the run that the gold set has under another spelling of the id",
        "left out; --normalize-ids treats such ids as equal",
    ),
    "queries_normalized": ("queries whose id the run spells differently", "compared in normalized form, as requested"),
    "ids_kept_apart": (
        "ids of the gold set that could stand for several ids, or share one with another id, once normalized",
        "compared as they are; use one spelling per item",
    ),
    # In saved results only: ids are no longer joined.
    "ids_joined": ("ids of the gold set that equal another id once normalized", "treated as one item, as requested"),
    "rising_scores": (
        "queries whose scores increase down the list",
        "the highest score counts as best; if these are distances, use --scores lower-is-better",
    ),
    "distance_scores": (
        "queries ordered by a field that is named like a distance",
        "the highest score counts as best; if these are distances, use --scores lower-is-better",
    ),
    "more_columns": (
        "lines of a TREC run with more than six columns",
        "the first six are read, as trec_eval does; white space in an id would move them",
    ),
    "row_order": (
        "queries of a table whose rows have neither rank nor score",
        "the order of the rows counts as the ranking",
    ),
    "rows_by_id": (
        "queries of a table without rank or score whose rows are sorted by id",
        "scored in that order; name the ranking column: --map rank=COLUMN or score=COLUMN",
    ),
    "rows_scattered": (
        "queries of a table without rank or score whose rows are not adjacent",
        "scored in the order of the file; name the ranking column: --map rank=COLUMN or score=COLUMN",
    ),
    "either_kind": (
        "rows with a query and an item, but no grade, rank or score",
        "read as gold; if this is a run, check it together with its gold set",
    ),
    "listed_distances": (
        "queries whose hits have a distance and no score",
        "the order of the list counts; distances rise in it",
    ),
    "order_as_said": ("queries whose hits are in ranking order, whatever their scores", "order kept, as requested"),
    "scores_unused": ("queries without scores, although --scores is set", "position in the list decides"),
    "other_times": ("queries whose rows have different latencies", "the first latency counts"),
    "turned_scores": ("queries whose scores are distances", "the lowest score counts as best"),
    "falling_distances": (
        "queries whose scores fall down the list, although the lowest counts as best",
        "ordered by the lowest score, as requested",
    ),
    "repeated_lines": ("lines that repeat an earlier line exactly", "counted once"),
    "split_traces": (
        "traces whose spans are too far apart in the file",
        "read as several traces; sort the export by trace, or export whole traces",
    ),
    "unrecorded_documents": (
        "traces whose retriever spans have no documents",
        "left out; turn on the recording of documents in the instrumentation",
    ),
    "unrecorded_queries": (
        "traces whose retriever spans have no question",
        "left out; turn on the recording of inputs, or use --query-from root",
    ),
    "repeated_traces": ("further traces of a query that already has one", "left out: the first trace counts"),
    "ambiguous_texts": (
        "traces whose question is the text of several queries of the gold set",
        "left out; name the attribute with the query's id: --map query_id=ATTRIBUTE",
    ),
    "matched_by_text": ("traces matched with the gold set by the text of their question", "scored as that query"),
    "ids_by_text": ("hits without an id that are the text of a chunk of the corpus", "given the id of that chunk"),
    "texts_unknown": (
        "hits without an id whose text is not in the corpus, or there more than once",
        "kept as unjudged, under their text",
    ),
    "text_ids": (
        "hits without an id",
        "their text is their id: give the corpus (--corpus) to find ids, or use metrics by evidence",
    ),
    "nameless_hits": ("hits with neither id nor text", "kept as unjudged"),
    "mixed_values": (
        "queries whose rows in the gold table have different values in a column",
        "the query has no value for it; use the same value in every row of a query",
    ),
    "mixed_columns": (
        "columns of the gold table with different values in the rows of more than 10% of the queries",
        "not a tag; to make it one, use the same value in every row of a query",
    ),
    "no_data": ("metrics that need data the run does not have", "undefined (null)"),
    "missing_queries": ("queries of the gold set that the run does not have", "scored as failed"),
    "missing_skipped": ("queries of the gold set that the run does not have", "left out, as requested"),
    "missing_no_answer": (
        "queries without an answer that the run does not have",
        "not a failure: undefined (null), and no false evidence",
    ),
    "unshared_queries": ("queries that the first run does not have", "left out"),
    "unknown_queries": ("queries of the run that the gold set does not have", "left out"),
    "no_answer_queries": ("queries marked as having no answer", "excluded from relevance metrics"),
    "no_relevant_gold": ("queries without any relevant gold item", "undefined (null) on relevance metrics"),
    "no_relevant_zero": ("queries without any relevant gold item", "scored 0 on relevance metrics, as requested"),
    "empty_results": ("queries for which the run returned no hits", "scored as failed"),
    "short_lists": (
        "queries with fewer hits than the k of redundancy",
        "empty places count as redundant; redundancy(by=returned) ignores them",
    ),
    "beyond_lists": (
        "metrics with a k beyond the longest list",
        "scored on the hits that there are; to measure them, log longer lists",
    ),
    "failed_queries": ("queries for which the run reports an error", "scored by the hits they have"),
    "duplicate_hits": (
        "hits that appear more than once in a query's list",
        "first one kept, the rest removed",
    ),
    "rank_gaps": ("queries whose ranks are not 1, 2, 3, …", "renumbered"),
    "rank_order": ("queries whose hits are not listed in rank order", "sorted by rank"),
    "rank_ties": ("queries in which two hits have the same rank", "their order in the list decides"),
    "rank_against_score": ("queries in which rank and score disagree", "rank decides"),
    "partial_order": ("queries in which only some hits have a rank or score", "position in the list decides"),
    "score_ties": ("queries with hits of equal score", "id decides, descending, as trec_eval does"),
    "listed_ties": ("queries with hits of equal score", "position in the list decides, as requested"),
    "score_width": (
        "queries with scores that differ only beyond 32 bits",
        "treated as equal, as trec_eval does; --score-width 64 distinguishes them",
    ),
    "cut_hits": ("hits after the first --top-k", "cut before evaluation"),
    "pruned_hits": ("hits below the score threshold", "cut before evaluation"),
    "unscored_hits": ("hits without a score", "kept: they may be above the threshold"),
    "future_hits": ("hits newer than their query's as_of", "removed before ranking, as requested"),
    "future_gold": (
        "relevant gold items newer than their query's as_of, among the removed hits",
        "still expected; are the labels right?",
    ),
    "undated_hits": ("hits without a version, of queries with as_of", "kept: they may be old enough"),
    "odd_versions": (
        "hits whose version cannot be compared with their query's as_of",
        "treated as hits without a version",
    ),
    "unchecked_hits": (
        "hits that a rule of --forbid could not check",
        "counted as allowed: a field is missing or cannot be compared",
    ),
    "estimated_tokens": ("hits without a token count", "estimated from their text, 4 bytes per token"),
    "unsized_queries": (
        "queries with a hit that has neither tokens nor text",
        "left out of metrics by tokens (null)",
    ),
    "untuned_queries": (
        "queries on which the metric is undefined for some setting",
        "not used for tuning",
    ),
    "unpriced_queries": ("queries whose cost is unknown", "undefined (null); complete the price table or the log"),
    "summed_latency_ms": (
        "queries whose searches have latency_ms, but not the query itself",
        "added up, as if one search waited for the other",
    ),
    "summed_usage": ("queries whose searches have usage, but not the query itself", "added up"),
    "untimed_searches": ("searches without latency_ms in their step", "left out of the times by search"),
    "unpriced_searches": (
        "searches of unknown cost: no usage in their step, or a model without a price",
        "left out of the costs by search",
    ),
    "doc_level_gold": ("gold items matched by document, not by chunk", "first chunk of the document counts"),
    "passages_found": ("passages of documents in the gold set", "matched by the chunks that hold them"),
    "passages_lost": ("passages of the gold set that no known chunk holds", "kept, and scored as not found"),
    "passages_by_document": (
        "passages of the gold set whose chunks have no text or no offsets",
        "matched by document, each document once",
    ),
    "passages_in_hits": (
        "passages of the gold set that were located in the run's own hits",
        "only returned chunks are known",
    ),
    "passages_repeated": ("quotes of the gold set that occur more than once in their document", "each place counts"),
    "passages_moved": ("passages whose quote is not where start and end say", "the quote decides"),
    "passages_beyond": ("passages that extend past the end of their document", "the part inside counts"),
    "offsets_unused": ("gold items with start and end, but no doc_id", "the chunk id decides"),
    "odd_offsets": ("chunks of the corpus with an invalid start or end", "start and end ignored"),
    "duplicate_gold": ("gold items listed twice with the same grade", "counted once"),
    "empty_evidence": ("evidence texts in the gold set that are empty", "left out"),
    "duplicate_evidence": ("evidence texts that occur twice in one query", "counted once"),
    "labels_added": ("labels for pairs that the gold set does not judge", "added to it"),
    "labels_overruled": ("labels that contradict the gold set", "the gold set decides"),
    "labels_missing": ("labels without a grade", "left out: unjudged, not irrelevant"),
    "labels_unknown": ("labels for queries that the gold set does not have", "left out"),
    "labels_no_answer": (
        "labels that mark an item as relevant to a query without an answer",
        "left out; does the query have an answer after all?",
    ),
    "large_gold": (
        "queries in the gold set, more than 5,000",
        "no change; at this size, consider graded labels and ndcg@10 in the gate",
    ),
    "gold_raised": ("gold items without grades, while labels have grades", "given the labels' highest grade"),
    "gold_stretched": (
        "gold items graded on another scale than the labels",
        "converted to the labels' scale, as requested",
    ),
    "gold_scale": (
        "relevant gold items whose highest grade differs from that of the labels",
        "kept as they are; to convert them, give the highest grade of the gold set's scale: --gold-scale N",
    ),
    "labels_below_scale": (
        "labels, none of which has the highest grade of their scale",
        "the scale decides; --max-grade N sets its highest grade",
    ),
    "gold_run_failed": (
        "queries that failed in the run that serves as gold",
        "undefined (null): what is right is unknown",
    ),
    "gold_run_empty": (
        "queries without hits in the run that serves as gold",
        "undefined (null): what is right is unknown",
    ),
    "gold_run_short": (
        "queries with fewer hits than --depth in the run that serves as gold",
        "the hits that there are count as relevant",
    ),
    "gold_run_ties": (
        "queries whose last relevant hits have the same score as hits after them",
        "equally relevant: any of them fills the remaining places",
    ),
    "gold_run_hidden_ties": (
        "queries whose list in the run that serves as gold ends at --depth with tied hits",
        "further ties are unknown; log more hits than --depth",
    ),
    "no_reference": (
        "queries that the reference run does not have, or for which it failed",
        "undefined (null) on rbo and jaccard",
    ),
    "gold_of_original": (
        "variants of a query without gold of their own",
        "the gold of the query that they rephrase (variant_of) counts",
    ),
    "lone_variants": (
        "groups of variants of which fewer than two queries were measured",
        "undefined (null) on metrics over groups",
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

    def __init__(self, known: Container[str] = ()) -> None:
        """`known`: codes that need no more examples."""
        self._known = known
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
        if code in self._known:
            return
        for example in examples:
            if len(shown) >= _EXAMPLES:
                break
            if (text := shorten(example, 100)) not in shown:
                shown.append(text)

    @property
    def shown(self) -> set[str]:
        """Codes that have all their examples."""
        return {code for code, examples in self._examples.items() if len(examples) == _EXAMPLES}

    def merge(self, other: Audit) -> None:
        for code, count in other._counts.items():
            self.count(code, count, other._examples.get(code, ()))

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
