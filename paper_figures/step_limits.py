"""Largest stable rate against staleness, where theory is exact, and where REINFORCE over-optimizes a proxy."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import step_limits as lab
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

STABLE = "stable: half of the runs keep half of their largest gain"
NAMED = {"names": {"linear": "quadratic objective"}, "means": {"quadratic objective": STABLE}}
EXPERIMENTS = {"step_limits": {"task": "linear", **NAMED}}
LONG, SHORT, STALE = 512, 128, 64
MOST = 3.0
"""Largest staleness times rate that is drawn."""
RISE = 1.2
"""Factor from which on a limit rises."""
COLOR = {
    "linear": look.COLOR["measured"],
    "tokens": look.COLOR["controlled"],
    **{task: style["color"] for task, style in look.TASK.items()},
}
RULE = "predicted: limited by updates,\nthen by staleness"
MARKER = {2048: "s", LONG: "o", SHORT: "^"}


def drift_constant() -> float:
    """Time times rate after which fresh descent on `linear` has lost half of its largest gain."""
    s = np.linspace(0.0, 4.0 / lab.CURVATURES[1], 400_001)
    fast, slow = (np.exp(-c * s) for c in lab.CURVATURES)
    gain = 0.5 * (1.0 - fast**2 - (1.0 - slow) ** 2)
    lost = (gain < lab.LOST * gain.max()) & (s > s[gain.argmax()])
    return float(s[lost.argmax()])


@cache
def stale_constant(staleness: int = 400) -> float:
    """Staleness and a half times the rate at which the fast mode's overshoot loses half of what it gained."""
    rates = np.linspace(0.5, 2.0, 301) / (staleness + 0.5)
    path = [np.ones(rates.size)]
    for t in range(8 * staleness):
        path.append(path[t] - rates * path[max(0, t - staleness)])
    lost = (np.min(path, axis=0) < -math.sqrt(1.0 - lab.LOST)).argmax()
    return float(rates[lost] * (staleness + 0.5))


def rule(staleness: Any, horizon: int) -> np.ndarray:
    """The smaller of C/T and R/(S + 1/2)."""
    return np.minimum(drift_constant() / horizon, stale_constant() / (np.asarray(staleness) + 0.5))


def limits(rows: Any, task: str, arm: str, horizon: int) -> Any:
    """Limits of an arm, by staleness."""
    own = _script.pick(rows, quantity="limit", task=task, arm=arm, horizon=horizon)
    return own.sort_values("staleness").astype({"staleness": int})


def grown(rows: Any, task: str, arm: str, since: int = 0) -> float:
    """Limit at the largest staleness inside the grid over that at the least one, from `since` on; NaN without two."""
    own = limits(rows, task, arm, LONG)
    own = own[own.value.notna() & (own.staleness >= since)]
    return float(own.value.iloc[-1] / own.value.iloc[0]) if len(own) > 1 else math.nan


def plot(ax: Axes, own: Any, color: str, horizon: int, label: str = "") -> None:
    """Limits with their intervals; an open end reaches to the top."""
    own = own[own.value.notna()]
    high = own.high.fillna(1e6)
    reach = [own.value - own.low, high - own.value]
    style = {**_style.MEASURED, **look.CONNECTED, "color": color, "marker": MARKER[horizon], "markersize": 3.5}
    fill = {} if horizon != SHORT or "linear" in set(own.task) else look.HOLLOW
    ax.errorbar(own.staleness + 0.5, own.value, reach, label=label, **{**style, **fill})


def axis(ax: Axes, title: str, **more: Any) -> None:
    """Staleness from 0 on a logarithmic axis."""
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="staleness $S$ (versions)",
        ylabel="maximum stable learning rate",
        title=title,
        **more,
    )
    places = (0, 1, 2, 4, 8, 16, 32, 64, 128)
    look.ticks(ax.xaxis, [s + 0.5 for s in places], [f"{s}" for s in places])


def draw_linear(ax: Axes, rows: Any) -> None:
    """Measured limits on the rule."""
    fine = np.geomspace(0.5, 128.5, 200) - 0.5
    for horizon, shade in zip((LONG, 2048), ("measured", "tuned"), strict=True):
        plot(ax, limits(rows, "linear", "gradient", horizon), look.COLOR[shade], horizon)
        ax.plot(fine + 0.5, rule(fine, horizon), label=RULE, **_style.PREDICTED)
        look.say(ax, 0.46, float(rule(0, horizon)), f"{horizon} updates", look.COLOR[shade], ha="right")
    look.say(ax, 12.0, 0.25, RULE)
    axis(ax, "", ylim=(0.005, 0.7), xlim=(0.2, 150.0))


def products(own: Any) -> Any:
    """Staleness times rate, and median update of the collapse times rate, where both say something."""
    own = own.assign(drift=own.staleness * own.rate, product=own.value * own.rate)
    return own[(own.drift > 0) & (own.drift <= MOST) & np.isfinite(own["product"])]


def draw(rows: Any) -> Figure:
    """Linear gradients."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.2)
        draw_linear(figure.subplots(), rows)
        early = limits(rows, "linear", "gradient", LONG).set_index("staleness").value
        flat = early.iloc[1] == early.iloc[0] and grown(rows, "linear", "gradient", 16) < 0.2
        _script.headline(figure, flat, "Maximum stable learning rates against staleness, linear gradients")
    return figure


def inside(rows: Any, predicted: Any) -> tuple[int, int]:
    """How many limits have the prediction in their interval, of how many."""
    own = rows[rows.value.notna()]
    hits = [row.low <= predicted(row) <= (math.inf if math.isnan(row.high) else row.high) for row in own.itertuples()]
    return sum(hits), len(hits)


def numbers(rows: Any) -> dict[str, str]:
    """Where predictions lie, how limits change with staleness, and what collapse times come to."""
    linear = _script.pick(rows, quantity="limit", task="linear")
    hits, n = inside(linear, lambda row: float(rule(row.staleness, int(row.horizon))))
    found = {"stale": str(STALE), "rule_inside": str(hits), "rule_points": str(n)}
    for task in lab.START:
        own = limits(rows, task, "grpo", LONG).set_index("staleness").value
        known = bool(np.isfinite(own.get(STALE, math.nan))) and bool(np.isfinite(own[0]))
        found[task] = f"{own[STALE] / own[0]:.1f} times" if known else "beyond the grid"
    first = []
    for task in ("graded", "sparse"):
        own = limits(rows, task, "grpo", LONG)
        own = own[own.value.notna() & (own.staleness > 0)]
        first += own.staleness.tolist()
        found |= {"levels": ", ".join(f"{s}" for s in own.staleness)}
        found[f"{task}_limits"] = ", ".join(f"{value:.2f}" for value in own.value)
    found["none_tokens"] = f"{grown(rows, 'tokens', 'none'):.1f}"
    found["first"] = f"{min(first, default=math.nan):.0f}"
    times = products(_script.pick(rows, quantity="time", task="tokens", arm="grpo"))
    for name, low, high in (("little", 0.0, 0.1), ("middle", 0.1, 1.0), ("much", 1.0, MOST)):
        own = times[(times.drift > low) & (times.drift <= high)]["product"]
        found[f"time_{name}"] = f"{own.min():.1f} to {own.max():.1f}"
    return found | _fresh(rows) | _flat(rows)


def _fresh(rows: Any) -> dict[str, str]:
    """GRPO's maximum rate on the token task after the short training, over that on fresh data."""
    own = limits(rows, "tokens", "grpo", SHORT).set_index("staleness").value
    return {"tokens_short": f"{own[STALE] / own[0]:.1f}", "short": str(SHORT), "long": str(LONG)}


def _flat(rows: Any) -> dict[str, str]:
    """Collapse time times rate with linear gradients, at stale places before the predicted limit."""
    own = products(_script.pick(rows, quantity="time", task="linear", arm="gradient"))
    own = own[own.staleness + 0.5 < 0.9 * stale_constant() / own.rate]["product"]
    found = {"time_linear": f"{own.min():.0f} to {own.max():.0f}"}
    fresh = _script.pick(rows, quantity="time", task="tokens", arm="grpo", staleness=0).sort_values("rate")
    for name, rate in (("small", 0.01), ("large", 0.32)):
        row = fresh.loc[(fresh.rate / rate - 1.0).abs().idxmin()]
        found |= {f"fresh_{name}": f"{row.value * row.rate:.1f}", f"rate_{name}": f"{row.rate:g}"}
    return found


def ruled(own: Any) -> bool | None:
    """Whether limits are the smaller of some c and r / (S + 1/2); None where no fall or no flat part is seen.

    Where staleness is not below the number of updates, all data are of the first policy.
    """
    own = own[own.low.notna() & (own.staleness < own.horizon)]
    lows, highs = own.low.to_numpy(), own.high.fillna(math.inf).to_numpy()
    late = own.staleness.to_numpy() + 0.5
    if not len(own):
        return None
    # The smallest c and r that reach all lower ends reach no upper end if any do.
    least = np.minimum(lows.max(), (lows * late).max() / late)
    fits = bool((least <= highs).all())
    seen = own.staleness.min() == 0 and highs[-1] < lows[0]
    return decided(fits and seen, not fits)


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether limits are flat and then fall as 1/S, by method, task and number of updates."""
    found = []
    for arm, task in (("gradient", "linear"), *((arm, task) for arm in ("none", "grpo") for task in lab.TASKS)):
        for horizon in (SHORT, LONG, 2048):
            own = limits(rows, task, arm, horizon)
            if len(own):
                place = {"gradient": ("linear gradients",), "none": ("REINFORCE", task), "grpo": ("GRPO", task)}[arm]
                found.append(Setting((*place, f"{horizon}"), ruled(own), arm == "gradient"))
    return {"limit": found}
