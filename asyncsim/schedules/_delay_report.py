"""The page on a record of delays: its distribution, its order, and what drawing them independently would change."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from asyncsim.base.records import Estimate
from asyncsim.schedules import _delay_statistics as statistics
from asyncsim.schedules._delay_statistics import Order, interval

QUANTILES = (0.05, 0.5, 0.95, 0.99)


class Report(NamedTuple):
    """A record of n delays: mean, quantiles, and its order, None where nothing can be said of it.

    `order.time` is the integrated autocorrelation time in delays; n / time is the effective number of independent ones.
    """

    source: str
    unit: str
    delays: int
    mean: float
    deviation: float
    least: float
    largest: float
    quantiles: dict[float, float]
    order: Order | None

    @classmethod
    def of(cls, source: str, unit: str, numbers: np.ndarray) -> Report:
        """The report on numbers in their order, float64 `[n]`."""
        quantiles = dict(zip(QUANTILES, np.quantile(numbers, QUANTILES).tolist(), strict=True))
        moments = float(numbers.mean()), float(numbers.std()), float(numbers.min()), float(numbers.max())
        return cls(source, unit, len(numbers), *moments, quantiles, statistics.order(numbers))

    @property
    def independent(self) -> float | None:
        """Effective number of independent delays, n over the correlation time; None where that is not known."""
        return None if self.order is None or self.order.time is None else self.delays / self.order.time.value

    def row(self) -> dict[str, Any]:
        """The JSON object of this report."""
        row = self._asdict() | {"quantiles": {str(k): v for k, v in self.quantiles.items()}}
        if self.order is None:
            return row
        row["order"] = {
            "lag1": _plain(self.order.lag1),
            "correlated": self.order.correlated,
            "shows_from": self.order.shows,
            "correlation_time": None if self.order.time is None else _plain(self.order.time, True),
            "independent_delays": self.independent,
            "windows": [
                {
                    "delays": each.size,
                    "variance_of_mean_over_independent": _plain(each.ratio, True),
                    "largest": _plain(each.largest),
                    "largest_independent": each.independent,
                }
                for each in self.order.windows
            ],
        }
        return row

    def __str__(self) -> str:
        """The report on one page."""
        five, half, most, extreme = self.quantiles.values()
        lines = [
            f"delays {self.source} ({self.delays} in {self.unit}, in their order)",
            f"mean {self.mean:.4g}, standard deviation {self.deviation:.3g}; from {self.least:g} to {self.largest:g}",
            f"quantiles: 5 % {five:.4g}, median {half:.4g}, 95 % {most:.4g}, 99 % {extreme:.4g}",
        ]
        if self.unit != "seconds" and self.largest > 0:
            lines.append("a delay above the age of the run is clipped at version 0")
        return "\n".join(lines + self._order())

    def _order(self) -> list[str]:
        """Lines on the order of the delays."""
        if self.order is None:
            why = "all delays are equal" if self.least == self.largest else f"give {statistics.FEWEST} delays or more"
            return [f"correlation: cannot tell, {why}"]
        lag1, shows = self.order.lag1, f"{self.order.shows:.2g}"
        lines = [f"autocorrelation at lag 1: {_shown(lag1)}"]
        if not self.order.correlated:
            return [
                *lines,
                f"correlation: cannot tell from none (false alarms 1 %); at lag 1 one above {shows} would show",
                "drawing them independently changes nothing that this record can show",
            ]
        return lines + self._correlated()

    def _correlated(self) -> list[str]:
        """Lines on what independent draws would throw away."""
        assert self.order is not None
        if self.order.time is None:
            lines = [f"correlation time: cannot tell; log {statistics.LONG} of them or more (none: it repeats)"]
        else:
            lines = [
                f"correlation time: {_shown(self.order.time, True)} delays; as many as {self.independent:.4g} "
                "independent ones"
            ]
        lines.append("drawing them independently throws away (correlated by 99 shuffles, false alarms 1 %):")
        for each in self.order.windows:
            lines.append(f"  mean of {each.size}: {_shown(each.ratio, True)} times the variance of independent ones")
            lines.append(
                f"  largest of {each.size}: {_shown(each.largest)}; of independent ones {each.independent:.4g}"
            )
        return lines


def _plain(estimate: Estimate, logarithmic: bool = False) -> dict[str, float]:
    low, high = interval(estimate, logarithmic)
    return {"value": estimate.value, "low": low, "high": high}


def _shown(estimate: Estimate, logarithmic: bool = False) -> str:
    low, high = interval(estimate, logarithmic)
    return f"{estimate.value:.3g} ({low:.3g} to {high:.3g})"
