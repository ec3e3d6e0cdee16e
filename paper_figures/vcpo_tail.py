"""Hill's index of a stale batch's sequence ratios against staleness and length, with its exact expectation."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import special

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_ess import LONGEST, index, means, policies, readings

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit", "part": "start"}}
MARKERS = {16: "s", 64: "^"}
"""Lengths whose batches have a tail: ratios of four tokens of three kinds are too often equal."""
OLD = 32
"""Staleness from which on it is high."""
BOUNDS = {2.0: "variance", 1.0: "mean"}
"""Indices at and below which a Pareto law of that index has no finite variance, or mean."""


def largest(samples: int) -> int:
    """How many of the largest ratios Hill's estimate reads."""
    return math.ceil(min(samples / 5, 3 * math.sqrt(samples)))


@functools.cache
def reading(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Places u of a quantile function Q, and w(u) with 1/index = integral of Q dw for `samples` draws.

    The k-th largest of N has the expectation of Q at a Beta(N-k+1, k) place; w is the mean distribution function of the
    places of the m largest, less that of the next.
    """
    u, m = np.linspace(0.0, 1.0, 20_001), largest(samples)
    above = [special.betainc(samples - k + 1, k, u) for k in range(1, m + 2)]
    return u, np.mean(above[:m], axis=0) - above[m]


def exact(rows: Any) -> float:
    """Expected 1/index of one reading, from the policies that generated and train each replicate's batch."""
    batch, length = int(rows.batch.iloc[0]), int(rows.length.iloc[0])
    first, second = (x.reshape(-1) for x in np.mgrid[0 : length + 1, 0 : length + 1])
    counts = np.stack([first, second, length - first - second])[:, first + second <= length]
    ways = special.gammaln(length + 1) - special.gammaln(counts + 1).sum(0)
    found = []
    for behavior, current in policies(rows):
        chance, ratio = np.exp(ways + behavior @ counts), (current - behavior) @ counts
        order = np.argsort(ratio)
        weight = np.interp(np.cumsum(chance[order]), *reading(batch))
        found.append(float(ratio[order] @ np.diff(weight, prepend=0.0)))
    return float(np.mean(found))


def laws(rows: Any, length: int) -> list[float]:
    """Expected 1/index of all readings of a length."""
    return [exact(part) for part in readings(rows, tails(rows, length))]


def tails(rows: Any, length: int) -> Any:
    """Rows of 1/index amid training by staleness."""
    own = means(rows, "training", "inverse_tail")
    own = own[own.length == length].sort_values("staleness")
    # A tail of equal ratios has no index.
    return own[own.low > 0]


def inverted(own: Any) -> Any:
    """The index itself, with its interval."""
    return own.assign(value=1.0 / own.value, low=1.0 / own.high, high=1.0 / own.low)


def draw(rows: Any) -> Figure:
    """The index against staleness with the exact law."""
    samples, off = int(rows.batch.iloc[0]), 0.0
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        ax = figure.subplots()
        ax.set(xscale="log", yscale="log", xlabel="staleness (versions)")
        for length, marker in MARKERS.items():
            own, law = inverted(tails(rows, length)), np.array(laws(rows, length))
            ax.plot(own.staleness, 1.0 / law, **_style.PREDICTED)
            look.points(ax, own.staleness, own, color=look.COLOR["measured"], marker=marker)
            off = max(off, float(np.abs(own.value * law - 1.0).max()))
            rise = 1.5 if length < LONGEST else 0.6
            name: dict[str, Any] = {"ha": "left" if length < LONGEST else "right"}
            look.say(ax, *(own.iloc[len(own) // 3][["staleness", "value"]] * [1.0, rise]), f"{length} tokens", **name)
        for bound, moment in BOUNDS.items():
            ax.axhline(bound, **_style.REFERENCE)
            where: dict[str, Any] = {"va": "bottom", "transform": ax.get_yaxis_transform()}
            look.say(ax, 0.01, bound * 1.06, f"below {bound:g}: like infinite {moment}", look.COLOR["muted"], **where)
        look.ticks(ax.xaxis, sorted(tails(rows, min(MARKERS)).staleness.astype(int)))
        ax.set_ylabel(f"Hill's index of {samples} ratios\n(smaller: heavier tail)")
        spread = numbers(rows)["spread"]
        heavy = off < 0.15 and own.value.iloc[-1] < 1.0
        _script.headline(figure, heavy and math.isfinite(float(spread)), "Tail index of importance ratios")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Where the index falls below one, how far its law is off, and the bound on ratios."""
    own = tails(rows, LONGEST)
    found, below = {"longest": str(LONGEST)}, own[1.0 / own.low < 1.0]
    found["below_mean"] = str(int(below.staleness.min())) if len(below) else "no staleness"
    last = inverted(own).iloc[-1]
    found |= {"staleness": str(int(last.staleness)), "last": index(own.value.iloc[-1])}
    found["first"] = index(own.value.iloc[0])
    law = np.array(laws(rows, LONGEST))
    found["exact_off"] = f"{100 * np.abs(own.value / law - 1.0).max():.0f}"
    spread = means(rows, "training", "spread")
    spread = spread[spread.length == LONGEST].sort_values("staleness").value.iloc[-1]
    return found | {"spread": f"{spread:.0f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether tails are as heavy as those without a finite variance, by length and high staleness."""
    heavy = []
    for length in MARKERS:
        for row in inverted(tails(rows, length)).itertuples():
            if row.staleness >= OLD:
                answer = decided(row.high < max(BOUNDS), row.low > max(BOUNDS))
                heavy.append(Setting((f"{length} tokens", f"{row.staleness}"), answer))
    return {"heavy": heavy}
