"""Hill's index of a stale batch's sequence ratios against staleness, length and the variance of their logarithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import integrate, special, stats

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._vcpo_ess import LONGEST, index, means, policies, readings

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = {"vcpo_ess": {"task": "token bandit", "part": "start"}}
MARKERS = {16: "s", 64: "^"}
"""Lengths whose batches have a tail: ratios of four tokens of three kinds are too often equal."""
BOUNDS = {2.0: "variance", 1.0: "mean"}
"""Indices at and below which a Pareto law of that index has no finite variance, or mean."""


def largest(samples: int) -> int:
    """How many of the largest ratios Hill's estimate reads."""
    return math.ceil(min(samples / 5, 3 * math.sqrt(samples)))


@functools.cache
def normal_excess(samples: int) -> float:
    """Expected 1/index of log-normal ratios over the standard deviation of their logarithm.

    Above the (m+1)-th largest t the others are normal numbers beyond t, whose mean excess is phi(t)/Q(t) - t; Q(t) of
    the (m+1)-th of N has the law Beta(m+1, N-m).
    """
    m = largest(samples)
    law = stats.beta(m + 1, samples - m)

    def excess(q: float) -> float:
        t = stats.norm.isf(q)
        return float(law.pdf(q) * (stats.norm.pdf(t) / q - t))

    return float(integrate.quad(excess, 0.0, 1.0, limit=200)[0])


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
    """Rows of 1/index amid training by staleness, with the variance of log W beside them."""
    own, variance = (means(rows, "training", name) for name in ("inverse_tail", "log_variance"))
    own = own[own.length == length].sort_values("staleness")
    beside = variance[variance.length == length].set_index("staleness").value
    own = own.assign(variance=beside.reindex(own.staleness).to_numpy())
    # A tail of equal ratios has no index.
    return own[own.low > 0]


def inverted(own: Any) -> Any:
    """The index itself, with its interval."""
    return own.assign(value=1.0 / own.value, low=1.0 / own.high, high=1.0 / own.low)


def draw_panel(ax: Axes, title: str, label: str) -> None:
    """Axes of both panels."""
    for bound in BOUNDS:
        ax.axhline(bound, **_style.REFERENCE)
    ax.set(xscale="log", yscale="log", xlabel=label, title=title)


def draw(rows: Any) -> Figure:
    """The index against staleness with the exact law, and against the variance of log W with the log-normal one."""
    samples = int(rows.batch.iloc[0])
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.1)
        left, right = figure.subplots(1, 2, sharey=True)
        for length in MARKERS:
            own = tails(rows, length)
            style = {"color": look.COLOR["measured"], "marker": MARKERS[length]}
            predicted = [1.0 / law for law in laws(rows, length)]
            left.plot(own.staleness, predicted, **_style.PREDICTED)
            look.points(left, own.staleness, inverted(own), **style)
            look.points(right, own.variance, inverted(own), **style)
            middle, side = inverted(own).iloc[len(own) // 2], "left" if length < LONGEST else "right"
            x = middle.staleness * (1.2 if side == "left" else 0.8)
            look.say(left, x, middle.value, f"{length} tokens", look.COLOR["measured"], ha=side)
        spread = np.geomspace(2e-4, 20.0, 60)
        right.plot(spread, 1.0 / (normal_excess(samples) * np.sqrt(spread)), **_style.PREDICTED)
        crossed = 1.0 / tails(rows, LONGEST).value.iloc[-1] < 1.0
        draw_panel(left, "By staleness, predicted exactly", "staleness (versions)")
        label = "variance of a sequence's log ratio (nats²)"
        draw_panel(right, "By variance, predicted for log-normal ratios", label)
        words = "Hill's index of old ratios falls below 1, as for log-normal ratios"
        figure.suptitle(_script.finding(crossed, words, "Hill's index of ratios"), x=0.01, ha="left")
        look.ticks(left.xaxis, sorted(tails(rows, min(MARKERS)).staleness.astype(int)))
        more: dict[str, Any] = {"va": "top", "transform": left.get_yaxis_transform()}
        for bound, moment in BOUNDS.items():
            look.say(left, 0.02, bound * 0.95, f"below {bound:g}: as if without {moment}", look.COLOR["muted"], **more)
        left.set_ylabel(f"Hill's index (tail exponent) of {samples} ratios")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Where the index crosses both bounds, how far both laws are off, and the bound on ratios."""
    own = tails(rows, LONGEST)
    samples = int(own.batch.iloc[0])
    found = {"batch": str(samples), "longest": str(LONGEST), "replicates": str(int(own.samples.iloc[0]))}
    found["variance"] = f"{normal_excess(samples) ** -2:.1f}"
    for bound, moment in BOUNDS.items():
        below = own[1.0 / own.low < bound]
        found[f"below_{moment}"] = str(int(below.staleness.min())) if len(below) else "no staleness"
    last = inverted(own).iloc[-1]
    found |= {"staleness": str(int(last.staleness)), "last": index(own.value.iloc[-1])}
    found["first"] = index(own.value.iloc[0])
    found["reach"] = f"{last.low:.2f} to {last.high:.2f}"
    law = np.array(laws(rows, LONGEST))
    wide = own[own.variance > 0.1]
    normal = normal_excess(samples) * np.sqrt(wide.variance)
    found["exact_off"] = f"{100 * np.abs(own.value / law - 1.0).max():.0f}"
    found["normal_off"] = f"{100 * np.abs(wide.value / normal - 1.0).max():.0f}"
    spread = means(rows, "training", "spread")
    spread = spread[spread.length == LONGEST].sort_values("staleness").value.iloc[-1]
    return found | {"spread": f"{spread:.0f}"}
