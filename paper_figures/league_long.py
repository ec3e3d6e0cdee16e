"""Every stabilizer on long sequences from a peaked start: at one rate for all, and each at its own best."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asyncsim.plotting import _style
from experiments import league, league_long
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures.one_rate import AS_GOOD, key_of

EXPERIMENTS = {"league_long": {"law": "old", "task": "chain of tokens", "staleness": "32"}}
ONE: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "color": look.COLOR["muted"]}
OWN: dict[str, Any] = {"marker": "o", "color": look.INK}
EDGE: dict[str, Any] = {**OWN, "marker": ">"}
"""Best at the largest or least rate of the grid: no verdict."""
CLIPS = ("PPO", "GRPO", "BAPO", "M2PO", "GSPO")
"""Methods that clip or mask around recorded log-probs."""
GROUPS = {
    "Clips around recorded log-probs": CLIPS,
    "Other methods": ("RLOO", "PPO, recomputed", "CISPO", "TIS, token", "VCPO"),
}
"""Methods that are drawn."""
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
    """Two marks for each arm, hollow at the one rate and full at its own best; dotted: RLOO on fresh data."""
    ax.axvline(at(rows, place, league.BASE, law="fresh").value, **_style.REFERENCE)
    for arm, y in heights.items():
        own = at(rows, place, arm)
        for row, aside, style in (
            (at(rows, place, arm, usual(rows, place)), -0.17, ONE),
            (own, 0.17, OWN if inside(rows, own) else EDGE),
        ):
            # No return is below 0 or above 1, nor is an interval.
            reach = [[row.value - max(row.low, 0.0)], [max(min(row.high, 1.0) - row.value, 0.0)]]
            ax.errorbar(row.value, y + aside, xerr=reach, markersize=3.5, linestyle="none", **style)
    ax.set(xlim=(-0.03, 1.05), ylim=(max(heights.values()) + 0.7, -1.5), title=f"{place[0]} tokens")
    ax.tick_params(axis="y", length=0)
    look.ticks(ax.xaxis, [0.0, 0.5, 1.0])


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
    ran = [place for place in places(rows) if place[1] == league_long.PLACES[0][1]]
    first, last = min(ran), max(ran)
    where = [first, last] if first != last else [last]
    heights, heads = rise(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 1.3 + 0.17 * len(heights | heads))
        axes = figure.subplots(1, len(where), sharey=True, squeeze=False)[0]
        for ax, place in zip(axes, where, strict=True):
            draw_place(ax, rows, place, heights)
            ax.set_xlabel("mean return over training")
        named = sorted((heads | heights).items(), key=lambda each: each[1])
        look.ticks(axes[0].yaxis, [y for _, y in named], [name for name, _ in named])
        for label in axes[0].get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in heads else "normal")
        words = (
            "one learning rate for all: the best of RLOO on fresh data",
            "own best learning rate",
            "own best, at the edge of the rates tried",
        )
        handles = [
            Line2D([], [], linestyle="none", markersize=3.5, label=label, **style)
            for label, style in zip(words, (ONE, OWN, EDGE), strict=True)
        ]
        handles.append(Line2D([], [], label="RLOO on fresh data", **_style.REFERENCE))
        clipped = max(at(rows, last, arm, usual(rows, last)).value for arm in CLIPS if arm in set(rows.arm))
        plain = at(rows, last, league.BASE, usual(rows, last)).value
        tuned = min(at(rows, last, arm).value for arm in CLIPS if arm in set(rows.arm))
        holds = last[0] > first[0] and clipped < 0.25 * plain and tuned > 0.5 * plain
        _script.headline(figure, holds, "Methods on stale data, at one rate and at their own best")
        look.below(figure, handles, ncols=2)
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
