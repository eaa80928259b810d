"""Parses metric names: `recall@5`, `ndcg(gain=linear)@10`, `recall@2000tok`, and the names in other tools."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, get_args, get_origin

import msgspec

from karat.errors import ConfigError, UnknownName, did_you_mean, shorten
from karat.files.decode_errors import refusal
from karat.registry import Registry
from karat.scoring.metrics.base import CUTOFFS, LARGEST_CUTOFF, Metric

REGISTRY: Registry[Metric] = Registry("metric", "karat.scoring.metrics", Metric, "karat.metrics")

# Compiled when used: the usual names are read without them.
_FORM = r"(?i)\s*(?P<name>[\w.-]+?)\s*(?:\((?P<given>[^()]*)\))?\s*(?:@\s*(?P<k>k|\d+(?:\s*tok(?:ens?)?)?))?\s*"
_COMMA = r",(?![^(]*\))"  # not between parentheses
# Metrics of ragas that need a model → the nearest metric of Karat.
_NEAREST = {
    "contextrecall": "evidence_recall@5 (texts) or recall@5 (ids)",
    "llmcontextrecall": "evidence_recall@5 (texts) or recall@5 (ids)",
    "nonllmcontextrecall": "evidence_recall@5 (texts)",
    "idbasedcontextrecall": "recall@5",
    "contextprecision": "map@5 or precision@5 (ids), evidence_precision@5 (texts)",
    "llmcontextprecisionwithreference": "map@5 or precision@5 (ids), evidence_precision@5 (texts)",
    "llmcontextprecisionwithoutreference": "map@5 or precision@5 with a judge's labels (`karat labels judge`)",
    "nonllmcontextprecisionwithreference": "evidence_precision@5 (texts)",
    "idbasedcontextprecision": "precision@5",
    "contextentityrecall": "entity_recall",
    "contextentitiesrecall": "entity_recall",
    "contextrelevance": "precision@5 with a judge's labels (`karat labels judge`)",
    "contextrelevancy": "precision@5 with a judge's labels (`karat labels judge`)",
    "noisesensitivity": "precision@5 and redundancy@5",
}
_OF_ANSWERS = {
    *("faithfulness", "groundedness", "responsegroundedness", "hallucination"),
    *("answerrelevancy", "answerrelevance", "responserelevancy", "answercorrectness", "answersimilarity"),
    *("semanticsimilarity", "factualcorrectness", "aspectcritic", "summarizationscore", "bleuscore", "rougescore"),
}
_AS_NEAR = 0.05  # names that are this much less alike are not proposed
_LONGEST = 1000  # characters of a name with its parameters
_CUTOFF_NAMES = {"k": "cutoff", "budget": "token budget"}
# retrieval-recall-at-k, recall_at_5, ndcg_cut_10, P_5
_TAIL = r"(?i)(?:[-_ ]at[-_ ](?P<at>k|\d+)|(?:_cut)?_(?P<cut>\d+))$"


def parse_metric(text: str | Metric) -> Metric:
    """The metric that `text` names.

    >>> str(parse_metric("nDCG(gain=linear) @ 10"))
    'ndcg(gain=linear)@10'
    >>> str(parse_metric("retrieval-recall-at-k")), str(parse_metric("P_5")), str(parse_metric("hit_rate@10"))
    ('recall@k', 'precision@5', 'hit@10')
    """
    return text if isinstance(text, Metric) else _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Metric:
    form = _parts(text) if len(text) <= _LONGEST else None
    if form is None:
        raise ConfigError(
            f"cannot read the metric {shorten(text)!r}",
            code="bad-metric",
            hint="examples: recall@5, ndcg(gain=linear)@10, recall@2000tok, map",
        )
    asked, given, k = form
    name, k = _resolve(asked, k)
    base = _parts(name)
    found = None if base is None else REGISTRY.get(base[0])
    if found is None or base is None:  # the lower case of a letter may be two characters
        _refuse_of_answers(asked)
        known = sorted({*REGISTRY.everything(), *aliases()})
        error = UnknownName("metric", asked, known, hint="`karat metrics` lists them all")
        error.hint = _nearest(asked, form[2], known) or error.hint
        raise error
    return _build(found, {**_parameters(base[1], text), **_parameters(given, text)}, k, text)


def _parts(text: str) -> tuple[str, str | None, str | None] | None:
    """Name, parameters and cutoff, as they are written."""
    name, at, k = text.partition("@")
    if name.isascii() and name.isidentifier() and (k.isascii() and k.isdecimal() if at else True):
        return name, None, k or None
    form = re.fullmatch(_FORM, text)
    return None if form is None else (form["name"], form["given"], form["k"])


def _nearest(name: str, k: str | None, known: list[str]) -> str | None:
    """The nearest metrics with the cutoff that was asked for: `recal@5` and `recall5` are probably recall@5."""
    from difflib import SequenceMatcher, get_close_matches

    lower = name.lower()
    stem = lower if k else lower.rstrip("0123456789")
    cut = k or lower.removeprefix(stem)
    near = get_close_matches(stem, known, n=3, cutoff=0.6)
    if not near:
        return None
    alike = [SequenceMatcher(None, each, stem).ratio() for each in near]
    near = [each for each, ratio in zip(near, alike, strict=True) if ratio > alike[0] - _AS_NEAR]
    cuts = (REGISTRY.get(each) for each in near)
    shown = (
        f"{each}@{cut}" if cut and (found is None or found.cutoff != "none") else each
        for each, found in zip(near, cuts, strict=True)
    )
    return f"did you mean {' or '.join(shown)}?"


def _refuse_of_answers(name: str) -> None:
    """Raise for metrics of ragas: name the nearest metric, or say that Karat does not measure answers."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    near = _NEAREST.get(plain)
    if near is not None:
        raise ConfigError(
            f"{name} is a metric of ragas, not of Karat", code="metric-of-another-tool", hint=f"the nearest: {near}"
        )
    if plain in _OF_ANSWERS:
        raise ConfigError(
            f"{name} measures answers; Karat measures retrieval only",
            code="metric-of-another-tool",
            hint="`karat metrics` lists all metrics; docs/comparability.md describes other tools",
        )


def parse_metrics(texts: Iterable[str | Metric]) -> list[Metric]:
    """Metrics in the requested order, each once. A text may name several: `recall@5, mrr`.

    >>> [str(metric) for metric in parse_metrics("recall@5, rbp(p=0.5), mrr")]
    ['recall@5', 'rbp(p=0.5)', 'mrr']
    """
    return list(dict.fromkeys(map(parse_metric, split_names(texts))))


def split_names(texts: Iterable[str | Metric]) -> list[str | Metric]:
    """One entry per metric: a text may name several."""
    asked = [texts] if isinstance(texts, (str, Metric)) else texts
    return [name for text in asked for name in (_split(text) if isinstance(text, str) else [text])]


def _split(text: str) -> list[str]:
    return re.split(_COMMA, text) if "," in text else [text]


def all_metrics() -> dict[str, type[Metric]]:
    """Every metric by name, built in or from a plug-in."""
    return dict(sorted(REGISTRY.everything().items()))


def aliases() -> dict[str, str]:
    return {alias.lower(): text for metric in REGISTRY.everything().values() for alias, text in metric.aliases.items()}


def _resolve(name: str, k: str | None) -> tuple[str, str | None]:
    """The registered name behind a name, and the cutoff that may be part of it."""
    lower = name.lower()
    if REGISTRY.get(lower) is not None:
        return lower, k
    for candidate, cut in ((lower, k), _without_tail(lower, k)):
        for form in (candidate, re.sub(r"^retrieval[-_]", "", candidate)):
            if REGISTRY.get(form) is not None:
                return form, cut
            if form in aliases():
                return aliases()[form], cut
    return lower, k


def _without_tail(name: str, k: str | None) -> tuple[str, str | None]:
    tail = re.search(_TAIL, name)
    if tail is None or k is not None:
        return name, k
    head = name[: tail.start()]
    return (head + "_cut" if "_cut_" in tail[0] else head), tail["at"] or tail["cut"]


def _parameters(given: str | None, text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in (given or "").split(","):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ConfigError(
                f"cannot read {part.strip()!r} in the metric {text!r}", code="bad-metric", hint="write name=value"
            )
        if name.strip() in pairs:
            raise ConfigError(f"{name.strip()!r} is given twice in the metric {text!r}", code="bad-metric")
        pairs[name.strip()] = value.strip()
    return pairs


def _build(found: type[Metric], given: dict[str, str], k: str | None, text: str) -> Metric:
    fields = [name for name in found.__struct_fields__ if name not in CUTOFFS]
    for name in given:
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise ConfigError(
                f"{found.name} has no parameter {name!r} (in {text!r})", code="bad-metric", hint=f"it has: {known}"
            )
    values: dict[str, object] = dict(given)
    if k is not None and "tok" in k.lower():
        if not found.by_tokens:
            raise ConfigError(
                f"{found.name} counts ranks, not tokens (in {text!r})",
                code="bad-metric",
                hint=f"write {found.name}@10",
            )
        values["budget"] = k.lower().partition("tok")[0].strip()
    elif k is not None and k.lower() != "k":
        values["k"] = k
    elif k is not None and found.cutoff == "optional":
        raise ConfigError(
            f"{found.name} has no default cutoff for k (in {text!r})",
            code="bad-metric",
            hint=f"write {found.name}@10 for a cutoff, {found.name} for the whole list",
        )
    if found.cutoff == "none" and k is not None:
        raise ConfigError(f"{found.name} takes no cutoff (in {text!r})", code="bad-metric", hint=f"write {found.name}")
    if not values:
        return found()
    if values == {"k": k} and k is not None and 0 < int(k) <= LARGEST_CUTOFF:
        return found(k=int(k))  # the usual case; msgspec would inspect the types of the class first
    try:
        return msgspec.convert(values, found, strict=False)
    except msgspec.ValidationError as error:
        raise _refused(found, values, text, error) from error


def _refused(found: type[Metric], values: dict[str, object], text: str, error: msgspec.ValidationError) -> ConfigError:
    """What is wrong with a parameter, in terms of the metric."""
    problem = refusal(error, text, None, values)
    name = problem.field or ""
    kinds = {f.name: f.type for f in msgspec.structs.fields(found)}
    choices = [str(choice) for choice in get_args(kinds.get(name)) if get_origin(kinds[name]) is Literal]
    return ConfigError(
        f"invalid {_CUTOFF_NAMES.get(name, f'parameter {name}')} in the metric {text!r}",
        code="bad-metric",
        expected=" or ".join(choices) or (problem.expected or "a valid value").removesuffix(" or null"),
        got=values.get(name),
        hint=did_you_mean(str(values.get(name)), choices) if choices else None,
    )
