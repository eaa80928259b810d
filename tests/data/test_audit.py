"""The rules that the field gets wrong, one by one: what is scored, and what the audit says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.results.evaluate import evaluate_all
from karat.results.result import Result


def hits(*ids: str, **columns: list[Any]) -> list[dict[str, Any]]:
    """Hits with columns of their own: hits("a", "b", score=[2, 1]); None leaves a value out."""
    made = [{"chunk_id": i} for i in ids]
    for name, values in columns.items():
        for hit, value in zip(made, values, strict=True):
            if value is not None:
                hit[name] = value
    return made


def log(**queries: list[Any]) -> list[dict[str, Any]]:
    return [{"query_id": q, "topk": topk} for q, topk in queries.items()]


def audit(result: Result) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {e.code: (e.count, e.examples) for e in result.audit}


# Order


def test_rank_decides_where_it_is_given() -> None:
    result = karat.evaluate(log(q=hits("a", "b", "c", rank=[3, 1, 2])), {"q": ["c"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {"rank_order": (1, ("q",))}


def test_rank_wins_over_score_and_contradictions_are_counted() -> None:
    run = log(
        good=hits("a", "b", rank=[1, 2], score=[9, 1]),
        bad=hits("a", "b", rank=[1, 2], score=[1, 9]),
        equal=hits("a", "b", rank=[1, 2], score=[5, 5]),
    )
    result = karat.evaluate(run, {q: ["b"] for q in ("good", "bad", "equal")}, ["mrr"])
    assert result.score("mrr") == {"good": 0.5, "bad": 0.5, "equal": 0.5}
    assert audit(result) == {"rank_against_score": (1, ("bad",))}


def test_contradictions_are_found_in_any_order_of_the_list() -> None:
    """The first place has the lower score, and is listed second."""
    result = karat.evaluate(log(q=hits("b", "a", rank=[2, 1], score=[9, 1])), {"q": ["b"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {"rank_order": (1, ("q",)), "rank_against_score": (1, ("q",))}


def test_score_decides_where_there_is_no_rank() -> None:
    result = karat.evaluate(log(q=hits("a", "b", "c", score=[0.5, -1, 7])), {"q": ["a"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {}


def test_position_decides_where_there_is_nothing_else() -> None:
    result = karat.evaluate(log(q=hits("a", "b", "c")), {"q": ["c"]}, ["mrr"])
    assert result.means == {"mrr": pytest.approx(1 / 3)}
    assert audit(result) == {}


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_equal_scores_go_by_id_descending(order: tuple[str, ...]) -> None:
    run = log(q=hits(*order, score=[1, 1, 1]), other=hits("x", "y", score=[2, 1]))
    result = karat.evaluate(run, {"q": ["b"], "other": ["y"]}, ["mrr", "map", "ndcg@2", "hit@1", "hit@2"])
    assert result.score("mrr") == {"q": 0.5, "other": 0.5}
    assert result.score("map") == {"q": 0.5, "other": 0.5}
    assert result.score("hit@1") == {"q": 0.0, "other": 0.0}
    assert result.score("hit@2") == {"q": 1.0, "other": 1.0}
    assert audit(result) == {"score_ties": (1, ("q",))}


def test_ties_are_settled_the_same_way_for_metrics_of_unjudged_hits() -> None:
    run = log(q=hits("a#1", "b#1", "b#2", score=[1, 1, 1]))
    assert karat.evaluate(run, {"q": ["z"]}, ["distinct_docs@2"]).means == {"distinct_docs@2": 1.0}  # b#2, b#1


def test_ids_are_compared_as_trec_eval_does_byte_by_byte() -> None:
    """é comes after every ASCII letter, capitals before small letters, 10 before 9."""
    run = {"q": {"é": 1.0, "z": 1.0, "Z": 1.0, "9": 1.0, "10": 1.0}}
    expected = ["é", "z", "Z", "9", "10"]
    for place, item in enumerate(expected, 1):
        assert karat.evaluate(run, {"q": [item]}, ["target_rank"]).means == {"target_rank": place}


def test_partial_ranks_and_scores_leave_it_to_the_position() -> None:
    run = log(
        some_scores=hits("a", "b", "c", score=[1, None, 9]),
        some_ranks=hits("a", "b", "c", rank=[3, None, 1]),
        all_scores=hits("a", "b", "c", score=[1, 2, 9]),
        none=hits("a", "b", "c"),
    )
    gold = {q: ["c"] for q in ("some_scores", "some_ranks", "all_scores", "none")}
    result = karat.evaluate(run, gold, ["target_rank"])
    assert result.score("target_rank") == {"some_scores": 3.0, "some_ranks": 3.0, "all_scores": 1.0, "none": 3.0}
    assert audit(result) == {"partial_order": (2, ("some_scores", "some_ranks"))}


def test_partial_ranks_fall_back_to_scores_where_all_hits_have_one() -> None:
    result = karat.evaluate(log(q=hits("a", "b", rank=[1, None], score=[1, 2])), {"q": ["b"]}, ["mrr"])
    assert result.means == {"mrr": 1.0}


def test_rank_gaps_are_closed_and_counted() -> None:
    run = log(
        gap=hits("a", "b", "c", rank=[1, 5, 9]),
        from_zero=hits("a", "b", rank=[0, 1]),
        fine=hits("a", "b", rank=[1, 2]),
    )
    result = karat.evaluate(run, {"gap": ["c"], "from_zero": ["a"], "fine": ["b"]}, ["target_rank", "recall@3"])
    assert result.score("target_rank") == {"gap": 3.0, "from_zero": 1.0, "fine": 2.0}
    assert result.score("recall@3") == {"gap": 1.0, "from_zero": 1.0, "fine": 1.0}
    assert audit(result) == {"rank_gaps": (2, ("gap", "from_zero"))}


def test_rows_out_of_rank_order_are_sorted_and_counted() -> None:
    run = log(mixed=hits("a", "b", "c", rank=[2, 3, 1]), fine=hits("a", rank=[1]))
    result = karat.evaluate(run, {"mixed": ["c"], "fine": ["a"]}, ["mrr"])
    assert result.score("mrr") == {"mixed": 1.0, "fine": 1.0}
    assert audit(result) == {"rank_order": (1, ("mixed",))}


def test_equal_ranks_keep_the_order_of_the_list_and_are_counted() -> None:
    result = karat.evaluate(log(q=hits("a", "b", "c", rank=[1, 1, 3])), {"q": ["b"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result)["rank_ties"] == (1, ("q",))


def test_repairs_are_counted_also_beside_queries_without_ranks() -> None:
    """What is said of one query must not depend on what its neighbours look like."""
    odd = {
        "gap": hits("a", "b", rank=[1, 7]),
        "mixed": hits("a", "b", rank=[2, 1]),
        "tied": hits("a", "b", rank=[1, 1]),
        "against": hits("a", "b", rank=[1, 2], score=[1, 9]),
    }
    gold = {q: ["b"] for q in (*odd, "plain")}
    alone = audit(karat.evaluate(log(**odd), gold, ["mrr"], missing="skip"))
    beside = audit(karat.evaluate(log(**odd, plain=["a", "b"]), gold, ["mrr"], missing="skip"))
    alone.pop("missing_skipped")
    assert alone["rank_order"] == (1, ("mixed",))
    assert alone["rank_ties"] == (1, ("tied",))
    assert alone["rank_against_score"] == (1, ("against",))
    assert "gap" in alone["rank_gaps"][1]
    assert beside == alone


# Duplicates


def test_duplicates_count_at_their_first_place_only() -> None:
    run = {"q": ["x", "a", "x", "a", "b"], "fine": ["a"]}
    result = karat.evaluate(run, {"q": ["a", "b"], "fine": ["a"]}, ["recall@3", "precision@3", "map"])
    assert result.score("recall@3") == {"q": 1.0, "fine": 1.0}  # b moves up to the third place
    assert result.score("precision@3") == {"q": pytest.approx(2 / 3), "fine": pytest.approx(1 / 3)}
    assert result.score("map") == {"q": pytest.approx((1 / 2 + 2 / 3) / 2), "fine": 1.0}
    assert audit(result) == {"duplicate_hits": (2, ("q: x", "q: a"))}


def test_the_first_place_of_a_duplicate_goes_by_rank_not_by_line() -> None:
    run = log(q=hits("a", "x", "y", "a", rank=[4, 2, 3, 1]))
    result = karat.evaluate(run, {"q": ["a"]}, ["mrr"])
    assert result.means == {"mrr": 1.0}
    assert audit(result)["duplicate_hits"] == (1, ("q: a",))


def test_removing_duplicates_is_not_called_a_gap() -> None:
    result = karat.evaluate(log(q=hits("a", "a", "b", rank=[1, 2, 3])), {"q": ["b"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {"duplicate_hits": (1, ("q: a",))}


def test_a_gold_item_listed_twice_with_one_grade_counts_once() -> None:
    gold = [
        {"query_id": "q", "gold": [{"chunk_id": "a", "grade": 2}, {"chunk_id": "b"}, {"chunk_id": "a", "grade": 2}]}
    ]
    result = karat.evaluate({"q": ["a"]}, gold, ["recall@5"])
    assert result.means == {"recall@5": 0.5}
    assert audit(result) == {"duplicate_gold": (1, ("a",))}


# Queries on one side only


MISSING_METRICS = ["recall@5", "ndcg@5", "mrr", "map", "hit@5", "precision@5", "redundancy@5", "judged@5", "latency"]


def test_a_query_that_the_run_lacks_scores_worst_and_is_null_where_hits_are_described() -> None:
    run = [{"query_id": "q1", "topk": ["a"], "latency_ms": {"all": 7}}]
    result = karat.evaluate(run, {"q1": ["a"], "q2": ["b"], "q3": ["c"]}, MISSING_METRICS)
    for metric in ("recall@5", "ndcg@5", "mrr", "map", "hit@5", "precision@5"):
        assert result.score(metric)["q2"] == 0.0, metric
    for metric in ("redundancy@5", "judged@5", "latency"):
        assert result.score(metric)["q2"] is None, metric
    assert result.means["recall@5"] == pytest.approx(1 / 3)
    assert result.means["latency"] == 7.0
    assert audit(result) == {"missing_queries": (2, ("q2", "q3")), "short_lists": (1, ("q1",))}


def test_missing_queries_can_be_left_out() -> None:
    result = karat.evaluate({"q1": ["a"]}, {"q1": ["a"], "q2": ["b"]}, ["recall@5"], missing="skip")
    assert (result.score("recall@5"), result.means) == ({"q1": 1.0}, {"recall@5": 1.0})
    assert audit(result) == {"missing_skipped": (1, ("q2",))}


def test_another_word_for_missing_is_refused() -> None:
    with refused("bad-setting", ConfigError, got="ignore"):
        karat.evaluate({"q1": ["a"]}, {"q1": ["a"]}, ["recall@5"], missing="ignore")  # type: ignore[arg-type]


def test_a_query_that_the_gold_lacks_is_left_out_and_counted() -> None:
    result = karat.evaluate({"q1": ["a"], "q7": ["a"], "q8": ["a"], "q9": [], "q6": []}, {"q1": ["a"]}, ["recall@5"])
    assert result.score("recall@5") == {"q1": 1.0}
    assert audit(result) == {"unknown_queries": (4, ("q7", "q8", "q9"))}  # their empty lists are nobody's business


def test_missing_and_unknown_are_counted_for_each_system() -> None:
    run = [
        {"query_id": "q1", "system": "A", "topk": ["a"]},
        {"query_id": "q2", "system": "B", "topk": ["a"]},
        {"query_id": "q9", "system": "B", "topk": ["a"]},
    ]
    results = evaluate_all(run, {"q1": ["a"], "q2": ["a"]}, ["recall@5"])
    assert audit(results["A"]) == {"missing_queries": (1, ("q2",))}
    assert audit(results["B"]) == {"missing_queries": (1, ("q1",)), "unknown_queries": (1, ("q9",))}


# Gold without anything relevant


def test_without_relevant_gold_a_query_is_undefined_not_zero() -> None:
    gold: dict[str, Any] = {"q1": ["a"], "zero": {"a": 0}, "none": []}
    result = karat.evaluate({"q1": ["a"], "zero": ["a"], "none": ["a"]}, gold, ["recall@5", "ndcg@5", "judged@5"])
    assert result.score("recall@5") == {"q1": 1.0, "zero": None, "none": None}
    assert result.score("judged@5") == {"q1": 1.0, "zero": 1.0, "none": None}
    assert result.means["recall@5"] == 1.0
    row = result.summary_rows[0]
    assert (row.metric, row.n, row.undefined) == ("recall@5", 1, 2)
    assert audit(result) == {"no_relevant_gold": (2, ("zero", "none"))}


def test_no_answer_queries_never_enter_recall() -> None:
    gold = [
        {"query_id": "q1", "gold": ["a"]},
        {"query_id": "q2", "no_answer": True},
        {"query_id": "q3", "no_answer": True, "gold": {"a": 0}},
    ]
    result = karat.evaluate({"q1": ["a"], "q2": ["a"], "q3": ["a"]}, gold, ["recall@5", "mrr"])
    assert result.score("recall@5") == {"q1": 1.0, "q2": None, "q3": None}
    assert result.means == {"recall@5": 1.0, "mrr": 1.0}
    assert {code: count for code, (count, _) in audit(result).items()} == {"no_answer_queries": 2}


def test_a_level_of_relevance_that_no_item_reaches_is_undefined_too() -> None:
    result = karat.evaluate({"q1": ["a"], "q2": ["b"]}, {"q1": {"a": 1}, "q2": {"b": 2}}, ["recall(rel=2)@5"])
    assert result.score("recall(rel=2)@5") == {"q1": None, "q2": 1.0}


# Unjudged, short lists, grades


def test_an_unjudged_hit_is_not_relevant_and_judged_says_so() -> None:
    run, asked = {"q": ["x", "a", "y", "n"]}, ["precision@4", "judged@4", "judged@1"]
    result = karat.evaluate(run, {"q": {"a": 1, "n": 0}}, asked)
    assert result.means == {"precision@4": 0.25, "judged@4": 0.5, "judged@1": 0.0}


def test_the_panel_shows_judged_beside_the_scores() -> None:
    assert "judged@5" in karat.evaluate({"q": ["a"]}, {"q": ["a"]}).means


def test_precision_divides_by_k_also_when_there_are_fewer_hits() -> None:
    result = karat.evaluate({"q": ["a", "b"]}, {"q": ["a", "b"]}, ["precision@5", "judged@5", "redundancy@5"])
    assert result.means == {"precision@5": 0.4, "judged@5": 1.0, "redundancy@5": 0.6}


def test_a_negative_grade_is_unjudged() -> None:
    gold = {"q": {"a": 1, "b": 1, "n": 0, "u": -1}}
    result = karat.evaluate({"q": ["u", "n", "a"]}, gold, ["judged@3", "bpref", "recall@3"])
    without = karat.evaluate({"q": ["u", "n", "a"]}, {"q": {"a": 1, "b": 1, "n": 0}}, ["judged@3", "bpref", "recall@3"])
    assert result.means == without.means
    assert result.means["judged@3"] == pytest.approx(2 / 3)
    assert result.means["bpref"] == 0.0  # one judged hit above, of at most one
    assert audit(result) == {"negative_grades": (1, ("u",))}


def test_float_grades_are_kept() -> None:
    gold = {"q": {"a": 0.5, "b": 1.5, "c": 2}}
    result = karat.evaluate(
        {"q": ["a", "b"]}, gold, ["wrecall@5", "ndcg(gain=linear)@1", "recall@5", "recall(rel=1.5)@5"]
    )
    assert result.means["wrecall@5"] == 0.5
    assert result.means["ndcg(gain=linear)@1"] == 0.25
    assert result.means["recall@5"] == pytest.approx(2 / 3)
    assert result.means["recall(rel=1.5)@5"] == 0.5
    assert audit(result) == {}


@pytest.mark.filterwarnings("error")
def test_very_large_grades_do_not_make_a_score_undefined() -> None:
    """Any number from 0 on is a grade. 2 to the power of 2000 is no float, but its share of the ideal is."""
    result = karat.evaluate({"q": ["a"], "p": ["x", "b"]}, {"q": {"a": 2000}, "p": {"b": 3000, "c": 1}}, ["ndcg@5"])
    assert result.score("ndcg@5") == {"q": 1.0, "p": pytest.approx(0.6309, abs=1e-4)}


# Gold that names documents


def test_bare_ids_name_documents_where_the_run_has_chunks() -> None:
    run = {"q": ["x#1", "d1#3", "d1#1", "d2#2"]}
    asked = ["recall@2", "recall@4", "precision@4", "mrr", "map", "hit@2", "ndcg@4", "rprecision"]
    result = karat.evaluate(run, {"q": ["d1", "d2"]}, asked)
    assert result.means["recall@2"] == 0.5
    assert result.means["recall@4"] == 1.0
    assert result.means["precision@4"] == 0.75  # here every chunk counts
    assert result.means["mrr"] == 0.5
    assert result.means["map"] == (1 / 2 + 2 / 4) / 2  # the second chunk of d1 keeps its place and gains nothing
    assert result.means["rprecision"] == 0.5
    assert result.means["ndcg@4"] == pytest.approx((1 / 1.5849625 + 1 / 2.3219281) / (1 + 1 / 1.5849625))
    assert audit(result) == {"doc_level_gold": (2, ("d1", "d2"))}


def test_gold_with_the_separator_names_chunks() -> None:
    result = karat.evaluate({"q": ["d1#1", "d1#2"]}, {"q": ["d1#2"]}, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {}


def test_bare_ids_are_plain_ids_where_the_run_has_no_chunks() -> None:
    result = karat.evaluate({"q": ["x", "d1"]}, {"q": ["d1"]}, ["mrr", "precision@2"])
    assert result.means == {"mrr": 0.5, "precision@2": 0.5}
    assert audit(result) == {}


def test_gold_that_says_chunk_is_never_a_document() -> None:
    gold = [{"query_id": "q", "gold": [{"chunk_id": "d1"}]}]
    result = karat.evaluate({"q": ["d1#1", "d1"]}, gold, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {}


def test_gold_that_says_document_takes_its_chunks_and_the_documents_of_the_log() -> None:
    gold = [{"query_id": "q", "gold": [{"doc_id": "d1"}]}]
    assert karat.evaluate({"q": ["x", "d1#4"]}, gold, ["mrr"]).means == {"mrr": 0.5}
    run = log(q=[{"chunk_id": "c77", "doc_id": "d9"}, {"chunk_id": "c78", "doc_id": "d1"}])
    result = karat.evaluate(run, gold, ["mrr"])
    assert result.means == {"mrr": 0.5}
    assert audit(result) == {"doc_level_gold": (1, ("d1",))}


def test_the_document_of_the_log_wins_over_the_id() -> None:
    run = log(q=[{"chunk_id": "d1#1", "doc_id": "other"}, {"chunk_id": "z#1", "doc_id": "d1"}])
    assert karat.evaluate(run, {"q": ["d1"]}, ["mrr"]).means == {"mrr": 0.5}


def test_the_exact_id_wins_over_the_document() -> None:
    result = karat.evaluate({"q": ["d1#1", "d1#2"]}, {"q": {"d1#1": 3, "d1": 1}}, ["wrecall@1", "wrecall@2"])
    assert result.means == {"wrecall@1": 0.75, "wrecall@2": 1.0}


def test_grades_of_documents_also_zero() -> None:
    result = karat.evaluate({"q": ["n#1", "d1#1", "d1#2"]}, {"q": {"n": 0, "d1": 2}}, ["judged@3", "mrr", "bpref"])
    assert result.means == {"judged@3": 1.0, "mrr": 0.5, "bpref": 0.0}


@pytest.mark.parametrize(
    ("rule", "ids"),
    [
        ("#", ["x#1", "d1#1", "d1#2"]),
        ("/", ["x/1", "d1/1", "d1/2"]),
        ("::", ["x::1", "d1::1", "d1::2"]),
        (".p", ["x.p1", "d1.p1", "d1.p2"]),
        (r"^(.+)_\d+$", ["x_1", "d1_1", "d1_2"]),
        (r"^chunk-(\w+)-", ["chunk-x-1", "chunk-d1-1", "chunk-d1-2"]),
    ],
)
def test_another_rule_for_the_document_of_a_chunk(rule: str, ids: list[str]) -> None:
    asked = ["mrr", "recall@3", "precision@3", "distinct_docs@3"]
    result = karat.evaluate({"q": ids}, {"q": ["d1"]}, asked, doc_of=rule)
    assert result.means == {
        "mrr": 0.5,
        "recall@3": 1.0,
        "precision@3": pytest.approx(2 / 3),
        "distinct_docs@3": 2.0,
    }
    assert audit(result) == {"doc_level_gold": (1, ("d1",))}


def test_with_another_rule_the_hash_means_nothing() -> None:
    result = karat.evaluate({"q": ["d1#1", "d1/1"]}, {"q": ["d1"]}, ["mrr"], doc_of="/")
    assert result.means == {"mrr": 0.5}


@pytest.mark.parametrize(
    ("rule", "unusable"),
    [("(", True), ("(?:x)", True), ("^(a)?b", False), ("", False)],
    ids=["unfinished", "no group", "optional group", "empty"],
)
@pytest.mark.parametrize("in_table", [False, True], ids=["list", "polars"])
def test_a_rule_that_names_no_document_is_refused_or_finds_none(rule: str, unusable: bool, in_table: bool) -> None:
    """Whatever the rule: never a document out of nothing."""
    run: Any = {"q": ["b#1", "zx"]}
    if in_table:
        run = pl.DataFrame({"query_id": ["q", "q"], "chunk_id": ["b#1", "zx"]})
    gold, asked = {"q": ["b", "z", "None", " "]}, ["recall@5", "distinct_docs@5"]
    if unusable:
        with refused("bad-pattern", ConfigError):
            karat.evaluate(run, gold, asked, doc_of=rule)
    else:
        assert karat.evaluate(run, gold, asked, doc_of=rule).means == {"recall@5": 0.0, "distinct_docs@5": 2.0}


# Empty results, errors, thresholds


def test_an_empty_list_is_a_failure_not_a_missing_query() -> None:
    result = karat.evaluate(
        {"q1": [], "q2": ["a"]}, {"q1": ["a"], "q2": ["a"]}, ["recall@5", "precision@5", "judged@5"]
    )
    assert result.score("recall@5") == {"q1": 0.0, "q2": 1.0}
    assert result.score("judged@5")["q1"] is None
    assert audit(result) == {"empty_results": (1, ("q1",))}


def test_only_empty_lists() -> None:
    for empty in ({"q1": [], "q2": []}, {"q1": {}, "q2": {}}, log(q1=[], q2=[])):
        result = karat.evaluate(empty, {"q1": ["a"], "q2": ["b"]})
        assert result.means["recall@5"] == 0.0
        assert audit(result) == {"empty_results": (2, ("q1", "q2"))}


def test_queries_that_failed_are_counted_and_scored_by_what_is_there() -> None:
    run = [
        {"query_id": "q1", "topk": [], "error": "timeout"},
        {"query_id": "q2", "topk": ["a"], "error": {"code": 500}},
        {"query_id": "q3", "topk": ["a"], "error": None},
    ]
    result = karat.evaluate(run, {q: ["a"] for q in ("q1", "q2", "q3")}, ["recall@5"])
    assert result.score("recall@5") == {"q1": 0.0, "q2": 1.0, "q3": 1.0}
    assert audit(result) == {"empty_results": (1, ("q1",)), "failed_queries": (2, ("q1: timeout", "q2: {'code': 500}"))}


def test_hits_under_the_threshold_are_cut_and_counted() -> None:
    run = {"q1": {"a": 0.9, "x": 0.5, "b": 0.49}, "q2": {"c": 0.1}}
    gold = {"q1": ["a", "b"], "q2": ["c"]}
    asked = ["recall@5", "precision@2", "judged@5"]
    result = karat.evaluate(run, gold, asked, min_score=0.5)
    assert result.score("recall@5") == {"q1": 0.5, "q2": 0.0}
    assert result.score("judged@5") == {"q1": 0.5, "q2": None}
    assert audit(result)["pruned_hits"][0] == 2
    assert karat.evaluate(run, gold, asked, min_score=0.0).audit["pruned_hits"] == 0


def test_a_threshold_leaves_hits_without_a_score_alone() -> None:
    result = karat.evaluate(log(q=hits("a", "b", score=[0.1, None])), {"q": ["a", "b"]}, ["recall@5"], min_score=0.5)
    assert result.means == {"recall@5": 0.5}
    assert audit(result)["pruned_hits"][0] == 1


def test_a_cut_list_is_not_called_a_gap() -> None:
    run = log(q=hits("a", "x", "b", rank=[1, 2, 3], score=[9, 1, 8]))
    result = karat.evaluate(run, {"q": ["b"]}, ["mrr"], min_score=5)
    assert result.means == {"mrr": 0.5}
    assert "rank_gaps" not in audit(result)


# The cutoff


def test_k_in_the_name_then_the_querys_own_then_the_one_asked_for_then_five() -> None:
    gold = [{"query_id": "own", "gold": ["a"], "k": 2}, {"query_id": "none", "gold": ["a"]}]
    run = {"own": ["x", "y", "a"], "none": ["x", "y", "z", "w", "a"]}
    assert karat.evaluate(run, gold, ["hit"]).score("hit") == {"own": 0.0, "none": 1.0}
    assert karat.evaluate(run, gold, ["hit"], k=4).score("hit") == {"own": 0.0, "none": 0.0}
    assert karat.evaluate(run, gold, ["hit@3"], k=9).score("hit@3") == {"own": 1.0, "none": 0.0}
    assert karat.evaluate(run, gold, ["mrr"], k=1).score("mrr") == {"own": pytest.approx(1 / 3), "none": 0.2}


# The audit itself


def test_at_most_three_examples_are_kept_and_long_ones_are_cut() -> None:
    run: dict[str, list[str]] = {"q": ["a"], **{f"{i}" + "x" * 200: ["a"] for i in range(9)}}
    count, examples = audit(karat.evaluate(run, {"q": ["a"]}, ["mrr"]))["unknown_queries"]
    assert (count, len(examples)) == (9, 3)
    assert all(len(e) <= 100 for e in examples)


def test_every_entry_says_what_was_found_and_what_was_done() -> None:
    result = karat.evaluate({"q": ["a", "a"], "z": ["a"]}, {"q": ["a"], "y": ["a"]}, ["mrr"])
    entries = list(result.audit)
    assert {e.code for e in entries} == {"missing_queries", "unknown_queries", "duplicate_hits"}
    for entry in entries:
        assert entry.found
        assert entry.done
    with pytest.raises(KeyError):
        result.audit["no such code"]


def test_nothing_to_say_about_clean_data(tmp_path: Path) -> None:
    run = log(q1=hits("a", "b", rank=[1, 2], score=[2, 1]), q2=hits("c", rank=[1], score=[1]))
    assert audit(karat.evaluate(run, {"q1": ["a"], "q2": ["c"]})) == {}


def test_the_same_audit_whatever_the_order_of_the_queries() -> None:
    queries = {
        "a": hits("x", "y", rank=[1, 5]),
        "b": hits("x", "x"),
        "c": hits("x", "y", score=[1, 1]),
        "d": [],
        "e": hits("x", "y", score=[1, None]),
        "z": hits("x"),
    }
    gold = {q: ["y"] for q in "abcdef"}
    counts = []
    for order in (list(queries), list(reversed(queries)), ["c", "a", "z", "e", "b", "d"]):
        result = karat.evaluate(log(**{q: queries[q] for q in order}), gold, ["mrr", "ndcg@5"])
        counts.append(({c: n for c, (n, _) in audit(result).items()}, result.means))
    assert counts[0] == counts[1] == counts[2]
    assert counts[0][0] == {
        "missing_queries": 1,
        "unknown_queries": 1,
        "empty_results": 1,
        "duplicate_hits": 1,
        "rank_gaps": 1,
        "partial_order": 1,
        "score_ties": 1,
    }


# Run and gold that do not speak of the same things


def test_gold_whose_ids_never_occur_in_the_run_is_said_aloud_with_an_id_of_each_side() -> None:
    run = {"q1": ["doc-1", "doc-2"], "q2": ["doc-3"]}
    result = karat.evaluate(run, {"q1": {"0001": 1, "0002": 2, "0009": 0}, "q2": ["0003"]}, ["recall@5"])
    assert result.means == {"recall@5": 0.0}
    assert audit(result) == {"no_shared_items": (3, ("gold 0001", "run doc-1"))}


@pytest.mark.parametrize(
    ("run", "gold"),
    [
        ({"q1": ["a"], "q2": ["b"]}, {"q1": ["b"], "q2": ["c"]}),  # b is returned, if for the other query
        ({"q1": ["a#1"], "q2": ["b#1"]}, {"q1": ["b"], "q2": ["c"]}),  # likewise, as a document
        ({"q1": ["a"], "q2": ["b"]}, {"q1": {"c": 0}, "q2": {"d": 0}}),  # nothing should have been found
        ({"q1": [], "q2": []}, {"q1": ["a"], "q2": ["b"]}),  # nothing was returned at all
    ],
)
def test_an_honest_failure_is_not_called_another_way_of_naming(run: Any, gold: Any) -> None:
    assert "no_shared_items" not in audit(karat.evaluate(run, gold, ["recall@5"]))


def test_one_shared_item_in_a_later_system_or_slice_is_enough_only_for_itself() -> None:
    run = [{"query_id": "q", "system": s, "topk": [i]} for s, i in (("A", "x"), ("B", "a"))]
    results = evaluate_all(run, {"q": ["a"]}, ["recall@5"])
    assert audit(results["A"]) == {"no_shared_items": (1, ("gold a", "run x"))}
    assert audit(results["B"]) == {}


def test_a_no_answer_query_that_the_run_lacks_is_no_loss() -> None:
    gold = [
        {"query_id": "q1", "gold": ["a"]},
        {"query_id": "q2", "gold": ["b"]},
        {"query_id": "q3", "no_answer": True},
        {"query_id": "q4", "no_answer": True},
    ]
    result = karat.evaluate({"q1": ["a"], "q4": ["x"]}, gold, ["recall@5"])
    assert result.score("recall@5") == {"q1": 1.0, "q2": 0.0, "q3": None, "q4": None}
    assert audit(result) == {
        "missing_queries": (1, ("q2",)),
        "missing_no_answer": (1, ("q3",)),
        "no_answer_queries": (2, ("q3", "q4")),
    }
    assert "failed" not in next(e.done for e in result.audit if e.code == "missing_no_answer")


# Metrics that the run says nothing about


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("latency(stage=rernk)", "rerank"),  # which may be meant
        ("latency_p90(stage=x)", "rerank, retrieve"),
        ("novelty@5", "text"),
    ],
)
def test_a_metric_without_any_number_says_why(tmp_path: Path, metric: str, reason: str) -> None:
    record = {"query_id": "q", "topk": ["a"], "latency_ms": {"retrieve": 3, "rerank": 4}}
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(record) + "\n")
    for run in ([record], path):
        result = karat.evaluate(run, {"q": ["a"]}, [metric, "recall@5"])
        assert result.means == {metric: None, "recall@5": 1.0}
        count, (said,) = audit(result)["no_data"]
        assert (len(audit(result)), count) == (1, 1)
        assert said.startswith(f"{metric}: ")
        assert reason in said


def test_a_run_without_latencies_says_so_only_to_those_who_ask() -> None:
    asked = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["latency", "latency_p50"])
    count, said = audit(asked)["no_data"]
    assert (count, [reason.partition(":")[0] for reason in said]) == (2, ["latency", "latency_p50"])
    assert audit(karat.evaluate({"q": ["a"]}, {"q": ["a"]})) == {}


def test_data_on_some_queries_is_data() -> None:
    run = [{"query_id": "q", "topk": ["a"]}, {"query_id": "r", "topk": ["a"], "latency_ms": {"all": 2}}]
    result = karat.evaluate(run, {"q": ["a"], "r": ["a"]}, ["latency"])
    assert (result.means, audit(result)) == ({"latency": 2.0}, {})
