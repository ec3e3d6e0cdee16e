"""Updates until collapse against staleness at three learning rates: of linear gradients, and of GRPO."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.step_limits import COLOR, drift_constant, products, stale_constant

EXPERIMENTS = {
    "step_limits": {"quantity": "time", "task": ("linear", "tokens"), "rate": "0.02 to 0.64", "staleness": "1 to 32"}
}
ARMS = {"linear": "gradient", "tokens": "grpo"}
RATES = {"linear": (0.16, 0.32, 0.64), "tokens": (0.02, 0.04, 0.08)}
"""Learning rates that are drawn."""
NAMES = {"linear": "linear gradients", "tokens": "GRPO"}
NEAR = 1.25
"""Factor up to which a product is constant."""


def times(rows: Any, task: str) -> Any:
    """Median updates until collapse at the drawn rates, by rate and staleness."""
    own = products(_script.pick(rows, quantity="time", task=task, arm=ARMS[task]))
    return own[own.rate.isin(RATES[task])].sort_values(["rate", "staleness"])


def fallen(rows: Any) -> float:
    """Most updates until collapse with linear gradients at the first staleness beyond each rate's predicted limit."""
    own = times(rows, "linear")
    return float(own[own.staleness > stale_constant() / own.rate - 0.5].value.max())


def draw_panel(ax: Axes, rows: Any, task: str, title: str) -> list[float]:
    """A curve for each learning rate; the times at the largest staleness, divided by those at the smallest."""
    grown = []
    for (rate, own), mark in zip(times(rows, task).groupby("rate"), "^os", strict=False):
        style = {**look.CONNECTED, "color": COLOR[task], "marker": mark, "markersize": 3.5}
        look.points(ax, own.staleness, own, **style)
        look.say(ax, 0.85 * own.staleness.iloc[0], own.value.iloc[0], f"rate {rate:g}", COLOR[task], ha="right")
        grown.append(float(own.value.iloc[-1] / own.value.iloc[0]))
    ax.set(
        xscale="log", yscale="log", xlabel="staleness (versions)", title=title, xlim=(0.35, 40.0), ylim=(2.0, 1500.0)
    )
    look.ticks(ax.xaxis, (1, 2, 4, 8, 16, 32))
    look.ticks(ax.yaxis, (3, 10, 30, 100, 300, 1000))
    return grown


def draw(rows: Any) -> Figure:
    """Linear gradients beside the prediction on the left, GRPO on the right."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        left, right = figure.subplots(1, 2, sharey=True)
        linear = draw_panel(left, rows, "linear", "Linear gradients (quadratic objective)")
        left.set_ylabel("updates until collapse (the return\nloses half of its largest gain)")
        known = f"predicted: after {drift_constant():.0f} / rate updates, at once beyond the stability limit"
        for rate in times(rows, "linear").rate.unique():
            limit, flat = stale_constant() / rate - 0.5, drift_constant() / rate
            left.plot([1.0, limit, limit], [flat, flat, 2.0], label=known, **_style.PREDICTED)
        tokens = draw_panel(right, rows, "tokens", "GRPO, 8 tokens, reward with a harmful shortcut")
        soon = f"Beyond the stability limit, linear gradients collapse within {fallen(rows):.0f} updates"
        words = f"{soon}; at these rates, GRPO collapses later on staler data"
        holds = linear and tokens and max(linear) < 0.1 and min(tokens) > 1.3
        title = _script.finding(holds, words, "Updates until collapse against staleness")
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Most updates until collapse beyond the limit; other times stand beside the largest stable rates."""
    return {"fallen": f"{fallen(rows):.0f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether time times rate is within a quarter of that of the smallest rate on fresh data, at the drawn rates."""
    found = []
    for task, arm in ARMS.items():
        fresh = _script.pick(rows, quantity="time", task=task, arm=arm, staleness=0).nsmallest(1, "rate").iloc[0]
        for row in times(rows, task).itertuples():
            low, high = (end * row.rate / (fresh.value * fresh.rate) for end in (row.low, row.high))
            inside = task == "linear" and row.staleness + 0.5 < stale_constant() / row.rate
            place = (NAMES[task], f"rate {row.rate:g}", f"{row.staleness:.0f}")
            found.append(
                Setting(place, decided(low >= 1 / NEAR and high <= NEAR, high < 1 / NEAR or low > NEAR), inside)
            )
    return {"constant": found}
