"""Gates as text: `recall@5 >= 0.85`, `ndcg@5 drop <= 0.02`, `recall@5 >= 85% in language=pt-BR on bound`."""

from __future__ import annotations

import re

from karat.errors import ConfigError
from karat.gates.criteria import Gate, check_gates

_FORM = re.compile(
    r"\s*(?P<metric>\S.*?)\s+(?:(?P<drop>drop|rise)\s*)?(?P<sign>>=|<=|≥|≤)\s*(?P<number>[-+.\d]+(?:e-?\d+)?)\s*(?P<unit>%|pp|ms)?"
    r"(?:\s+in\s+(?:each\s+(?P<each>\S+)|(?P<attribute>[^\s=]+)=(?P<value>.+?)))?(?:\s+on\s+(?P<on>mean|bound))?\s*",
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
        raise ConfigError(f"cannot read the gate {text!r}", hint=_HINT)
    number = _number(found["number"], text) / (100 if found["unit"] in ("%", "pp") else 1)
    at_most = found["sign"] in ("<=", "≤")
    if found["drop"] and not at_most:
        raise ConfigError(f"a drop is limited from above (in {text!r})", hint=_HINT)
    field = "regression_max" if found["drop"] else "max" if at_most else "threshold"
    segment = {found["attribute"]: found["value"].strip()} if found["attribute"] else None
    gate = Gate(metric=found["metric"], on=(found["on"] or "mean").lower(), segment=segment, each=found["each"])  # type: ignore[arg-type]
    setattr(gate, field, number)
    return check_gates([gate])[0]


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"no number in the gate {whole!r}", got=text, hint=_HINT) from None
