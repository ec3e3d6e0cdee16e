"""Open loop with a bounded buffer: how often chance empties or fills it, and the mean of a rounded sum of ages.

Groups arrive about as a Poisson stream while many places work independently. Throughput and overflow rest on a law of
large numbers. It fails where that stream falls a buffer behind the trainer, or runs a buffer ahead of it.
"""

import numpy as np
from scipy.stats import poisson

from asyncsim.base import checks
from asyncsim.base.laws import Law
from asyncsim.claims import _engines, _lengths

STEADY = ("constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "empirical:1:2:2:7")
"""Works under which many places deliver about as many groups in every period."""
_RARE = 3e-3
"""Chance of an empty or full buffer below which it costs less than that share of the throughput."""
_PERIODS = np.arange(1, 400)

Nodes = tuple[np.ndarray, np.ndarray]


class Clocked(_engines.Engines):
    """Base class of claims on an open loop of single samples; the trainer publishes every `period` seconds.

    Places start again at once, so a sample's start falls anywhere in a period, independently of how long it will take.
    """

    length = _engines.smooth_length(example="lognormal:1.0:0.8")
    period = _engines.period(typical=(0.1, 3.0), example=0.4)
    places = _engines.places(typical=(16, 512), example=64)
    groups_per_batch = _engines.groups(typical=(1, 8), example=8)

    def joint(self) -> None:
        """Refuse a generator less than 25 % faster than the trainer, because the trainer would wait."""
        least = 1.25 * self.groups_per_batch * self.length.mean() / self.period
        remedy = "the trainer must never wait; give more places (generator slots) or a longer period"
        checks.real("places", self.places, remedy, least)


def refuse_chance(ratio: float, groups: int, capacity: int) -> None:
    """Refuse a buffer that Poisson arrivals, `ratio` per trained group, may leave without a batch or find full."""
    if ratio > 1.0:
        # A full buffer less a batch, then j periods of arrivals, of which j - 1 were taken.
        chance = poisson.cdf((_PERIODS + 1) * groups - capacity - 1, _PERIODS * ratio * groups).max()
        event = "that a run of few arrivals leaves the trainer without a batch"
    else:
        chance = poisson.sf(capacity + (_PERIODS - 1) * groups, _PERIODS * ratio * groups).max()
        event = "that a run of many arrivals finds it full"
    bound = f"so large that the chance {event} is below {_RARE:g}, not {chance:.2g}"
    remedy = "enlarge the buffer or the batch, or move the two rates apart"
    checks.require(float(chance) <= _RARE, "capacity", capacity, bound, remedy)


def _atoms(law: Law, n: int) -> Nodes | None:
    """Values and probabilities of the maximum of n draws from a distribution with finitely many values; else None."""
    if law.kind not in ("constant", "empirical"):
        return None
    values = np.unique(law.parameters)
    return values, np.diff((1.0 - law.survival(values)) ** n, prepend=0.0)


def _panels(law: Law, n: int, unit: float, *edges: float) -> Nodes:
    """Gauss nodes and weights on (0, inf) in units of `unit`, on panels of at most 2 percent, cut wherever a node plus
    an edge is an integer."""
    top = law.mean() / unit
    while float(law.survival(top * unit)) * n > 1e-17:
        top *= 1.5
    kinks = [np.arange(int(top) + 4) - edge for edge in edges]
    grid = np.concatenate([[0.0], np.geomspace(top * 1e-14, top, 1800), *kinks])
    return _lengths.panels(np.unique(grid[(grid >= 0.0) & (grid <= top)]))


def mean_floor_by_thresholds(law: Law, n: int, unit: float, low: float, high: float) -> float:
    """E floor(a + t) as sum over k of P(a + t >= k); a is uniform on (low, high), t the max of n draws / `unit`."""
    width = high - low
    atoms = _atoms(law, n)
    if atoms is not None:
        values, mass = atoms[0] / unit, atoms[1]
        k = np.arange(1, int(values.max() + high) + 2)
        return float(mass @ np.clip((values[:, None] + high - k) / width, 0.0, 1.0).sum(axis=1))
    # a + t >= k has probability E over a of the survival at k - a, which is 1 where a >= k.
    t, weight = _panels(law, n, unit, high, low)
    inside = np.floor(t + high) - np.floor(t + low)
    with np.errstate(divide="ignore"):
        survival = -np.expm1(n * np.log1p(-law.survival(t * unit)))
    k = np.arange(1, int(high) + 2)
    certain_part = np.clip(high - k, 0.0, None) - np.clip(low - k, 0.0, None)
    return float((certain_part.sum() + (weight * inside * survival).sum()) / width)


def mean_floor_by_density(law: Law, n: int, unit: float, low: float, high: float) -> float:
    """E floor(a + t) from the closed-form mean over a for each t, integrated over the density of the maximum."""
    width = high - low

    def mean_floor(t: np.ndarray) -> np.ndarray:
        return (_integral_of_floor(t + high) - _integral_of_floor(t + low)) / width

    atoms = _atoms(law, n)
    if atoms is not None:
        return float(atoms[1] @ mean_floor(atoms[0] / unit))
    t, weight = _panels(law, n, unit, high, low)
    x = t * unit
    density = n * (1.0 - law.survival(x)) ** (n - 1) * _lengths.frozen(law).pdf(x) * unit
    return float((weight * density * mean_floor(t)).sum())


def _integral_of_floor(x: np.ndarray) -> np.ndarray:
    whole = np.floor(x)
    return whole * (whole - 1.0) / 2.0 + whole * (x - whole)
