"""How intervals are made: the one list of options for them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from karat.options.option import OptionList, option, values_of

Method: TypeAlias = Literal["bayes", "percentile", "bca", "strict"]

_MOST = 1_000_000  # resamples


class Sampling(OptionList):
    """How intervals are made. The same values give the same digits."""

    method: Method = option(
        "bayes",
        "How intervals are made.",
        flags=["--interval"],
        wrong="unknown interval method",
        code="unknown-interval",
    )
    level: float = option(
        0.95,
        "Level of the intervals.",
        gt=0,
        lt=1,
        flags=["--confidence"],
        wrong="the level of an interval lies between 0 and 1",
        expected="such as 0.95",
    )
    resamples: int = option(
        10_000,
        "Resamples behind an interval.",
        ge=100,
        le=_MOST,
        wrong="too few or too many resamples",
        expected=f"between 100 and {_MOST:,}",
    )
    seed: int = option(0, "The same seed gives the same digits.", ge=0, wrong="the seed must not be negative")

    @property
    def tails(self) -> tuple[float, float]:
        """Where the interval is cut off below and above."""
        return (1 - self.level) / 2, (1 + self.level) / 2

    def saved(self, cluster: str | None) -> dict[str, Any]:
        """As a file says it; `cluster`: the attribute by which queries belong together."""
        return {**values_of(self), "cluster": cluster}
