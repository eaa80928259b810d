"""`diagnose`: find what stands out in a result and in a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.data.ids import DocRule
from karat.errors import ConfigError
from karat.results.analyses.label_health import LabelHealth, label_health
from karat.results.diagnosis import rules
from karat.results.diagnosis.evidence import Evidence
from karat.results.diagnosis.finding import Finding, Rule
from karat.results.diagnosis.rules.ranking import BM25_METRICS
from karat.results.doubts import READ_FIRST
from karat.results.summary import is_outage
from karat.scoring.metrics.cost import Latency
from karat.scoring.metrics.grammar import parse_metric

if TYPE_CHECKING:
    from karat.results.comparison.compare import CandidateComparison, Comparison
    from karat.results.result import Result


_TIME_AND_COST = {"latency", "cost", "entities"}
_TEXTS = {"evidence", "freshness"}


def diagnose(result: Result, comparison: Comparison | None = None) -> list[Finding]:
    """Return what to look at and what to try, with evidence. Leaves out anything that could be noise.

    `comparison`: has the result as its candidate; adds what the change did.
    """
    if comparison is None:
        return result.findings
    return [*result.findings, *_pair(result, comparison).findings]


def findings_of(result: Result) -> list[Finding]:
    """What stands out in one result. If metrics were named, only those are checked."""
    if result.known is not None and result.known.findings is not None:
        return [found for found in result.known.findings if found.code not in READ_FIRST]
    if result.gold.made_of != "labels":
        return []  # the rules are about labels
    background = result.measure(result.background).values
    if background:
        background = background | {str(Latency(stage=stage)): times for stage, times in result.stages.items()}
    values, doubts = background | result.values, result.doubts
    # Findings that follow from wrong ids, a wrong order or an outage are left out.
    if doubts or is_outage(result.audit, len(result.rows)):
        values = {name: column for name, column in values.items() if _is_believable(result, name)}
    found = rules.TABLE.apply(
        Evidence(
            values=values,
            ceilings=result.ceilings,
            floors=result.floors,
            depths=result.depths,
            clusters=result.columns.clusters,
            sampling=result.sampling,
            corpus_size=result.rules.corpus_size,
            repeats=result.audit["duplicate_hits"],
            wrong_hits_judged=bool(result.wrong_hits_judged),
            attributes=tuple(dict.fromkeys((*result.gold.tags, *result.segmented_by))),
            groups=result.groups,
            analyses=lambda: _believable(result) if background else {},
            bm25=result.bm25_scores(BM25_METRICS),
            labels=_labels(result),
            counted=result.columns.counted,
        )
    )
    # After an outage, the failed queries explain the short lists.
    return [one for one in found if one.code != "short_lists" or not is_outage(result.audit, len(result.rows))]


def _is_believable(result: Result, name: str) -> bool:
    metric = parse_metric(name)
    return result.doubts.about(metric) is None and not (metric.rests_on and is_outage(result.audit, len(result.rows)))


def _believable(result: Result) -> dict[str, Any]:
    """Analyses that do not depend on doubtful data."""
    found, doubts = result.analyses.found, result.doubts
    if is_outage(result.audit, len(result.rows)):
        return {name: one for name, one in found.items() if name in _TIME_AND_COST}
    unordered = doubts.scores is not None or (doubts.order is not None and doubts.order.sure)
    if not unordered and (doubts.ids is None or not doubts.ids.sure):
        return found
    kept = _TIME_AND_COST if unordered else _TIME_AND_COST | _TEXTS
    return {name: one for name, one in found.items() if name in kept}


def _labels(result: Result) -> LabelHealth | None:
    """Label health, only with a corpus: items that the run did not return may still exist."""
    if result.corpus is None:
        return None
    return label_health(result.gold, DocRule(result.rules.doc_of), result.corpus)


def _pair(result: Result, comparison: Comparison) -> CandidateComparison:
    if len(comparison.pairs) == 1:
        return comparison.pairs[0]
    name = result.system or result.run
    found = [pair for pair in comparison.pairs if pair.candidate == name]
    if len(found) != 1:
        there = ", ".join(pair.candidate for pair in comparison.pairs)
        raise ConfigError(
            f"the comparison has no single candidate {name!r}", code="unknown-candidate", hint=f"it has: {there}"
        )
    return found[0]


def reference() -> str:
    """The rules as Markdown, one heading each."""
    from karat.results.diagnosis import changes

    entries: list[Rule[Any]] = [*rules.TABLE, *changes.TABLE]
    parts = []
    for rule in entries:
        title = rule.title.format(attribute="NAME", values="VALUE", where="")
        tries = "\n".join(f"- {step}" for step in rule.what_to_try).format(attribute="NAME", values="VALUE", where="")
        parts.append(f"### {rule.code}\n\n**{title}**\n\nWhen: {rule.when}\n\nTry:\n\n{tries}\n")
    return "\n".join(parts)
