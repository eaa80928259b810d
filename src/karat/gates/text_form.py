"""Gates as text: `recall@5 >= 0.85`, `ndcg@5 drop <= 0.02`, `recall@5 >= 85% in language=pt-BR on bound`."""

from __future__ import annotations

import re

from karat.errors import ConfigError
from karat.gates.criteria import Gate, check_gates

_FORM = re.compile(
    r"\s*(?P<metric>\S.*?)(?:\s+(?P<change>drop|rise))?\s*(?P<sign>>=|<=|≥|≤)"
    r"\s*(?P<number>[-+.\d]+(?:e[-+]?\d+)?)\s*(?P<unit>%|pp|ms)?"
    r"(?:\s+in\s+(?:each\s+(?P<each>\S+)|(?P<attribute>[^\s=]+)=(?P<value>\S.*?)))?(?:\s+on\s+(?P<on>mean|bound))?\s*",
    re.I,
)
_HINT = "write it like 'recall@5 >= 0.85', 'ndcg@5 drop <= 0.02' or 'recall@5 >= 0.8 in language=pt-BR on bound'"


def parse_gate(text: str) -> Gate:
    """The gate that a text describes.

    >>> gate = parse_gate("recall@5 >= 85% in language=pt-BR on bound")
    >>> gate.metric, gate.threshold, gate.segment, gate.on
    ('recall@5', 0.85, {'language': 'pt-BR'}, 'bound')
    >>> parse_gate("ndcg@5 drop <= 2pp").regression_max, parse_gate("latency_p90 <= 60 ms").max
    (0.02, 60.0)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"cannot read the gate {text!r}", code="bad-gate", hint=_HINT)
    at_most = found["sign"] in ("<=", "≤")
    if found["change"] and not at_most:
        raise ConfigError(
            f"a change for the worse is limited from above (in {text!r})", code="wrong-direction", hint=_HINT
        )
    field = "regression_max" if found["change"] else "max" if at_most else "threshold"
    segment = {found["attribute"]: found["value"].strip()} if found["attribute"] else None
    gate = Gate(metric=found["metric"], on=(found["on"] or "mean").lower(), segment=segment, each=found["each"])  # type: ignore[arg-type]
    unit = (found["unit"] or "").lower()
    setattr(gate, field, _number(found["number"], text) / (100 if unit in ("%", "pp") else 1))
    try:
        _refuse_misreading(gate, found["change"], unit)
        return check_gates([gate])[0]
    except ConfigError as error:
        error.what += f" (in {text!r})"
        raise


def _refuse_misreading(gate: Gate, change: str | None, unit: str) -> None:
    """What has a meaning for other metrics only."""
    metric = gate.parsed
    if gate.threshold is not None and metric.direction == "lower":
        raise ConfigError(
            f"{metric} is better when lower", code="wrong-direction", hint=f"limit it from above: '{metric} <= …'"
        )
    if gate.max is not None and metric.direction == "higher":
        raise ConfigError(
            f"{metric} is better when higher", code="wrong-direction", hint=f"ask for a least value: '{metric} >= …'"
        )
    worse = "drop" if metric.direction == "higher" else "rise"
    if change is not None and change.lower() != worse:
        raise ConfigError(
            f"{metric} gets worse when it {worse}s",
            code="wrong-direction",
            hint=f"limit its {worse}: '{metric} {worse} <= …'",
        )
    if unit and not (metric.unit == "ms" if unit == "ms" else metric.range == (0.0, 1.0)):
        raise ConfigError(f"{metric} is not measured in {unit}", code="wrong-unit", hint="leave the unit out")


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"no number in the gate {whole!r}", code="bad-gate", got=text, hint=_HINT) from None
