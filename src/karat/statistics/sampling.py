"""Options of intervals."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from karat.options.option import OptionList, option, values_of

Method: TypeAlias = Literal["bayes", "percentile", "bca", "strict"]

_MOST = 1_000_000  # resamples


class Sampling(OptionList):
    """How intervals are computed. The same values give the same digits."""

    method: Method = option(
        "bayes",
        "Method for intervals.",
        flags=["--interval"],
        wrong="unknown interval method",
        code="unknown-interval",
    )
    level: float = option(
        0.95,
        "Confidence level of intervals.",
        gt=0,
        lt=1,
        flags=["--confidence"],
        wrong="the interval level must be between 0 and 1",
        expected="such as 0.95",
    )
    resamples: int = option(
        10_000,
        "Number of resamples per interval.",
        ge=100,
        le=_MOST,
        wrong="too few or too many resamples",
        expected=f"between 100 and {_MOST:,}",
    )
    seed: int = option(
        0, "Random seed. The same seed gives the same digits.", ge=0, wrong="the seed must not be negative"
    )

    @property
    def tails(self) -> tuple[float, float]:
        """The quantiles at which the interval is cut off."""
        return (1 - self.level) / 2, (1 + self.level) / 2

    @property
    def strict(self) -> Sampling:
        """The same with intervals that are never too narrow."""
        return self.replace(method="strict")

    def saved(self, cluster: str | None) -> dict[str, Any]:
        """In the form of a saved file; `cluster`: the attribute by which queries belong together."""
        return {**values_of(self), "cluster": cluster}
