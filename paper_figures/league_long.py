"""Every stabilizer on long sequences from a peaked start: at one rate for all, and each at its own best."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import league, league_long
from paper_figures import _methods, _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.one_rate import AS_GOOD, key_of

EXPERIMENTS = {"league_long": {"law": "old", "task": "chain of tokens", "staleness": "32"}}
ONE: dict[str, Any] = look.HOLLOW
CLIPS = ("PPO", "GRPO", "BAPO", "M2PO", "GSPO")
"""Methods that clip or mask around recorded log-probs."""
GROUPS = {
    "Clips around sampler's log-probs": CLIPS,
    "Other methods": ("RLOO", "PPO, recomputed", "CISPO", "TIS, token", "VCPO"),
}
"""Methods that are drawn."""
CALLED = {"PPO, recomputed": "PPO, log-probs recomputed"}
QUOTED = ("RLOO", "CISPO", "M2PO", "GSPO", "PPO")
"""Methods whose returns are quoted."""


def places(rows: Any) -> list[tuple[int, int]]:
    """Tokens and sequences of a batch, in the order of the experiment."""
    found = set(zip(rows.tokens, rows.batch, strict=True))
    return [place for place in league_long.PLACES if place in found]


def usual(rows: Any, place: tuple[int, int]) -> float:
    """The best synchronous rate: the least at which RLOO on fresh data returns as much as at any, within `AS_GOOD`."""
    own = _script.pick(rows, tokens=place[0], batch=place[1], law="fresh", quantity="return")
    return float(own[own.value >= own.value.max() - AS_GOOD].rate.min())


def at(rows: Any, place: tuple[int, int], arm: str, rate: float | None = None, law: str = "old") -> Any:
    """The row of an arm at a rate, or at the least rate at which it returns as much as at any, within `AS_GOOD`."""
    own = _script.pick(rows, tokens=place[0], batch=place[1], law=law, arm=arm, quantity="return").sort_values("rate")
    best = (own.value >= own.value.max() - AS_GOOD).idxmax()
    return own.loc[best if rate is None else (own.rate / rate - 1.0).abs().idxmin()]


def inside(rows: Any, row: Any) -> bool:
    """Whether a best rate is neither the least nor the largest that was tried."""
    return bool(rows.rate.min() < row.rate < rows.rate.max())


def draw_place(ax: Axes, rows: Any, place: tuple[int, int], heights: dict[str, float]) -> None:
    """Two marks for each arm: its return at the one rate and at its own best; dotted: RLOO on fresh data."""
    fresh = at(rows, place, league.BASE, law="fresh").value
    ax.axvline(fresh, **_style.REFERENCE)
    look.say(ax, fresh - 0.01, -1.1, "RLOO on fresh data", look.COLOR["muted"], ha="right")
    for arm, y in heights.items():
        one, own = at(rows, place, arm, usual(rows, place)), at(rows, place, arm)
        times = "≥ " * (not inside(rows, own)) + f"{own.rate / usual(rows, place):g}×"
        look.say(ax, own.low - 0.012, y - 0.17, times, look.COLOR["muted"], ha="right")
        for row, side, style in ((one, 0.17, ONE), (own, -0.17, {})):
            # No return is below 0 or above 1, nor is an interval.
            reach = [[row.value - max(row.low, 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
            look_of = {**_methods.look(_methods.called(arm)), **style}
            ax.errorbar(row.value, y + side, xerr=reach, **{**_style.MEASURED, "elinewidth": 0.7, **look_of})
    ax.set(xlim=(-0.03, 1.05), ylim=(max(heights.values()) + 0.7, -1.5))
    ax.tick_params(axis="y", length=0)
    look.ticks(ax.xaxis, [0.0, 0.25, 0.5, 0.75, 1.0])


def rise(rows: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Heights of methods and of the heads of their groups."""
    ran, heights, heads, y = set(rows[rows.law == "old"].arm), {}, {}, -1.0
    for head, arms in GROUPS.items():
        heads[head], y = y, y + 1.0
        for arm in (each for each in arms if each in ran):
            heights[arm], y = y, y + 1.0
    return heights, heads


def draw(rows: Any) -> Figure:
    """A panel for the least and the largest length, at the usual batch: methods in two groups."""
    last = max(place for place in places(rows) if place[1] == league_long.PLACES[0][1])
    heights, heads = rise(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.1 + 0.21 * len(heights | heads))
        ax = figure.subplots()
        draw_place(ax, rows, last, heights)
        ax.set_xlabel(f"mean return over training, {last[0]} tokens")
        named = sorted((heads | heights).items(), key=lambda each: each[1])
        look.ticks(ax.yaxis, [y for _, y in named], [CALLED.get(name) or _methods.called(name) for name, _ in named])
        for label in ax.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in heads else "normal")
        marks = {
            "hollow: at RLOO's best synchronous rate": {"marker": "o", **ONE},
            "filled: at own best rate, in multiples of RLOO's (≥: largest rate tried)": {"marker": "o"},
        }
        handles = [
            Line2D([], [], linestyle="none", markersize=4.5, label=label, **{"color": look.INK, **style})
            for label, style in marks.items()
        ]
        clipped = max(at(rows, last, arm, usual(rows, last)).value for arm in CLIPS if arm in set(rows.arm))
        plain = at(rows, last, league.BASE, usual(rows, last)).value
        tuned = min(at(rows, last, arm).value for arm in CLIPS if arm in set(rows.arm))
        own = min(at(rows, last, arm).rate for arm in CLIPS if arm in set(rows.arm))
        holds = clipped < 0.25 * plain and tuned > 0.5 * plain and own > 4.0 * usual(rows, last)
        _script.headline(figure, holds, "Methods on stale data, at one rate and at their own best")
        look.below(figure, handles)
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Returns at the one rate and at own best rates, and how many arms trail RLOO."""
    where = places(rows)
    last = max(where)
    found = {"samples": str(int(rows.samples.max())), "methods": str(rows.arm.nunique())}
    ends = {"short": min(where), "last": last}
    found |= {name: str(tokens) for name, (tokens, _) in ends.items()}
    for arm in QUOTED:
        key = key_of(arm)
        for name, place in ends.items():
            found[f"{key}_{name}"] = f"{at(rows, place, arm, usual(rows, place)).value:.2f}"
        own = at(rows, last, arm)
        found[f"{key}_best"] = "≥ " * (not inside(rows, own)) + f"{own.value:.2f}"
    for name, known in (("one", judged(rows, False)), ("own", judged(rows, True))):
        ends = [each for place in known.values() for each in place]
        found[f"judged_{name}"] = str(len(ends))
        found[f"better_{name}"] = str(sum(low > 0.0 for low, _ in ends))
        found[f"worse_{name}"] = str(sum(high < 0.0 for _, high in ends))
    return found


def judged(rows: Any, own: bool) -> dict[tuple[int, int], list[tuple[float, float]]]:
    """Intervals of returns less RLOO's by place: at the one rate, or of methods whose best rate lies inside."""
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for place in places(rows):
        rate = None if own else usual(rows, place)
        base, found[place] = at(rows, place, league.BASE, rate), []
        for arm in sorted(set(rows.arm) - {league.BASE}):
            row = at(rows, place, arm, rate)
            if not own or (inside(rows, row) and inside(rows, base)):
                value, reach = row.value - base.value, math.hypot(row.high - row.low, base.high - base.low) / 2.0
                found[place].append((value - reach, value + reach))
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether a stabilizer returns more than RLOO, by reading of the rate and place."""
    found = []
    for own, reading in ((False, "one rate"), (True, "tuned rates")):
        for (tokens, batch), ends in judged(rows, own).items():
            place = (f"{reading}, tokens {tokens}", f"batch {batch}")
            found += [Setting(place, decided(low > 0.0, high < 0.0)) for low, high in ends]
    return {"better": found}
