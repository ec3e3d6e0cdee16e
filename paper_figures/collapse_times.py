"""Updates until GRPO's collapse × learning rate against staleness; those of linear gradients are numbers."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.step_limits import COLOR, products, stale_constant

FLAWED = "flawed reward: pays a token that lowers the true return in the second half"
PLACE: dict[str, Any] = {"task": "tokens", "rate": "0.02 to 0.08", "staleness": "2 to 32"}
EXPERIMENTS = {"step_limits": {"quantity": "time", "arm": "grpo", **PLACE, "means": {"tokens": FLAWED}}}
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


def constant(rows: Any, task: str) -> float:
    """Updates until collapse × rate on fresh data at the smallest rate."""
    fresh = _script.pick(rows, quantity="time", task=task, arm=ARMS[task], staleness=0).nsmallest(1, "rate").iloc[0]
    return float(fresh.value * fresh.rate)


def fallen(rows: Any) -> float:
    """Most updates until collapse with linear gradients at the first staleness beyond each rate's predicted limit."""
    own = times(rows, "linear")
    return float(own[own.staleness > stale_constant() / own.rate - 0.5].value.max())


def unseen(rows: Any) -> list[tuple[float, float]]:
    """Rates at levels of staleness that are drawn at another rate, without a median."""
    own = times(rows, "tokens")
    there = {*zip(own.rate, own.staleness, strict=True)}
    return [(rate, s) for rate in RATES["tokens"] for s in sorted({*own.staleness}) if (rate, s) not in there]


def draw(rows: Any) -> Figure:
    """A curve of GRPO for each learning rate."""
    with _style.applied():
        figure, later, names = _style.picture(_style.WIDTH, 2.6), [], {}
        ax = figure.subplots()
        for (rate, own), mark in zip(times(rows, "tokens").groupby("rate"), "^os", strict=False):
            style = {**look.CONNECTED, "color": COLOR["tokens"], "marker": mark, "markersize": 3.5}
            look.points(ax, own.staleness, own, scale=rate, **style)
            names[f"rate {rate:g}"] = (float(own["product"].iloc[-1]), COLOR["tokens"])
            later.append(bool(own.low.iloc[-1] > 1.3 * own.value.iloc[0]))
        for rate, _level in unseen(rows):
            words = f"rate {rate:g}: too few\ncollapses"
            look.say(ax, 35.5, 5.6, words, COLOR["tokens"], ha="right")
        ax.set(xscale="log", yscale="log", xlabel="staleness (versions)", xlim=(1.8, 36.0), ylim=(3.0, 24.0))
        ax.set_ylabel("updates until collapse (half of\nthe gain is lost) × learning rate")
        look.ticks(ax.xaxis, (2, 4, 8, 16, 32))
        look.ticks(ax.yaxis, (4, 8, 16))
        ax.axhline(constant(rows, "tokens"), **_style.REFERENCE)
        look.ends(ax, names | {"fresh data": (constant(rows, "tokens"), look.COLOR["muted"])}, 0.1)
        ax.set_title("Claim: the product is constant (dotted line)")
        _script.headline(figure, later and all(later), "GRPO's collapse time × learning rate against staleness")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Most updates until collapse beyond the limit; other times stand beside the largest stable rates."""
    return {"fallen": f"{fallen(rows):.0f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether time times rate is within a quarter of that of the smallest rate on fresh data, at the drawn rates."""
    found = []
    for task in ARMS:
        for row in times(rows, task).itertuples():
            low, high = (end * row.rate / constant(rows, task) for end in (row.low, row.high))
            inside = task == "linear" and row.staleness + 0.5 < stale_constant() / row.rate
            place = (NAMES[task], f"rate {row.rate:g}", f"{row.staleness:.0f}")
            found.append(
                Setting(place, decided(low >= 1 / NEAR and high <= NEAR, high < 1 / NEAR or low > NEAR), inside)
            )
    return {"constant": found}
