"""Return over updates at every staleness, with the clip and with M2PO, at one rate; numbers on the bound of M2PO."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from paper_figures import _m2po_steps as steps
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

__all__ = ["EXPERIMENTS", "draw", "numbers"]

EXPERIMENTS = steps.drawn(task="chain", rate="best synchronous")
PUBLISHED = 0.04


def levels(rows: Any, arm: str, task: str = steps.TASK) -> list[int]:
    """Levels of staleness of an arm."""
    own = _script.pick(rows, over="updates", task=task, arm=arm)
    return sorted(int(each) for each in own.staleness.unique())


def draw_levels(ax: Axes, rows: Any, arm: str, rate: float) -> list[Line2D]:
    """Return over updates, a line per level of staleness; lines for a key."""
    shades = {**dict(_script.shades(levels(rows, arm))), 0: look.SYNCHRONOUS["color"]}
    for staleness, color in shades.items():
        steps.trace(ax, steps.curve(rows, arm, "return", rate, staleness=staleness), color=color)
    ax.set(xlabel="update", xlim=(0, None))
    names = {staleness: f"staleness {staleness}" if staleness else "fresh data" for staleness in shades}
    return [Line2D([], [], color=color, label=names[staleness]) for staleness, color in shades.items()]


def bounds(rows: Any, rate: float) -> Any:
    """Return at the end for every bound of M2PO."""
    own = _script.pick(rows, over="run", task=steps.TASK, arm="m2po", quantity="end")
    own = own[own.staleness == steps.oldest(rows)]
    own = own[(own.rate / rate - 1.0).abs() < 1e-6]
    return own.sort_values("tau").drop_duplicates("tau").reset_index(drop=True)


def row(rows: Any, arm: str, quantity: str, rate: float, staleness: int) -> Any:
    """A quantity of runs at a level of staleness, at the rate that is nearest; that of M2PO at the published bound."""
    own = _script.pick(rows, over="run", task=steps.TASK, arm=arm, quantity=quantity, staleness=staleness)
    own = own[(own.tau - PUBLISHED).abs() < 1e-9] if arm == "m2po" else own
    return own.loc[(own.rate / rate - 1.0).abs().idxmin()]


def final(rows: Any, arm: str, rate: float, staleness: int) -> float:
    """Return at the end at a level of staleness."""
    return float(row(rows, arm, "end", rate, staleness).value)


def span(values: list[float]) -> str:
    """A value, or the first and last of several."""
    return " to ".join(dict.fromkeys(f"{value:.2f}" for value in (values[:1] + values[-1:]))) or "none"


def draw(rows: Any) -> Figure:
    """The clip, then M2PO."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.8)
        clip, m2po = figure.subplots(1, 2, sharey=True)
        rate = steps.usual(rows)
        draw_levels(m2po, rows, "m2po", rate)
        handles = draw_levels(clip, rows, "clip", rate)
        m2po.set(title="M2PO")
        clip.set(title="PPO's clip", ylabel="return of the trained policy")
        look.below(figure, handles)
        _script.headline(figure, holds(rows, rate), "Return over updates, by staleness")
    return figure


def holds(rows: Any, rate: float) -> bool:
    """Whether staleness slows the clip more, and M2PO ends lower wherever the clip learns in time."""
    *between, oldest = levels(rows, "clip")
    clip, m2po = (steps.curve(rows, arm, "return", rate, staleness=oldest).value for arm in ("clip", "m2po"))
    ends = ((row(rows, arm, "end", rate, age) for arm in ("m2po", "clip")) for age in between[1:])
    return bool(m2po.mean() > clip.mean() + 0.1) and all(mask.high < other.low for mask, other in ends)


def numbers(rows: Any) -> dict[str, str]:
    """Means over updates and ends, over levels of staleness and bounds."""
    rate, found = steps.usual(rows), {}
    for arm in ("clip", "m2po"):
        ages = levels(rows, arm)
        least, between, most = ages[0], ages[1:-1], ages[-1]
        for key, ages in (("new", [least]), ("between", between), ("old", [most])):
            own = [steps.curve(rows, arm, "return", rate, staleness=age).value.mean() for age in ages]
            found[f"{arm}_mean_{key}"] = span(own)
            found[f"{arm}_end_{key}"] = span([final(rows, arm, rate, age) for age in ages])
    found |= {"most": str(most), "between": f"{between[0]} to {between[-1]}" if between else "none"}
    for key, times in (("chain", 1.0), ("bold", steps.BOLD)):
        own = bounds(rows, times * rate)
        if own.empty:
            found |= dict.fromkeys((f"{key}_tight", f"{key}_near", f"{key}_high"), "none")
            continue
        tight, near = own.tau <= 0.26 * PUBLISHED, (own.tau >= 0.49 * PUBLISHED) & (own.tau <= 2.1 * PUBLISHED)
        found |= {f"{key}_tight": ends(own[tight].value), f"{key}_near": ends(own[near].value)}
        found[f"{key}_high"] = f"{own.value.iloc[-1]:.2f}".replace("-", "−")
    return found | {"tau_high": f"{rows.tau.max():.3g}"}


def ends(values: Any) -> str:
    """The range of returns."""
    return " to ".join(dict.fromkeys(f"{value:.2f}" for value in (values.min(), values.max())))


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether M2PO returns more than the clip, by staleness, and whether its bound hardly changes the final return."""
    staler, bound = [], []
    for reading, times in (("best synchronous rate", 1.0), ("4× rate", steps.BOLD)):
        rate = times * steps.usual(rows)
        for quantity, word in (("return", "mean return"), ("end", "final return")):
            for staleness in levels(rows, "clip")[1:]:
                clip, mask = (row(rows, arm, quantity, rate, staleness) for arm in ("clip", "m2po"))
                answer = decided(mask.low > clip.high, mask.high < clip.low)
                staler.append(Setting((f"{word}, {reading}", f"{staleness}"), answer))
        own = bounds(rows, rate).set_index("tau")
        known = own.loc[min(own.index, key=lambda tau: abs(tau - PUBLISHED))]
        for tau, other in own.drop(known.name).iterrows():
            apart, reach = abs(other.value - known.value), math.hypot(*(r.high - r.low for r in (other, known))) / 2.0
            answer = decided(apart + reach < steps.NEAR, apart - reach > steps.NEAR)
            bound.append(Setting((f"{reading}, bound", f"{tau:.2g}"), answer))
    return {"staler": staler, "bound": bound}
