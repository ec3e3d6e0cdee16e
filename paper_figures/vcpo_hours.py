"""How much sooner asynchronous training reaches a return, against staleness; other machines are numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import vcpo_hours
from experiments.vcpo_hours import MAIN, PAPER
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided
from paper_figures._vcpo_hours import gain, machine, predicted, throughput

EXPERIMENTS = {"vcpo_hours": {"task": "bits with a penalty", "tuned": True}}
ARMS: dict[str, dict[str, Any]] = {"tis": look.TRUNCATED, "vcpo": look.VCPO}
FASTER = 2.5
"""The paper's speed-up."""
LIMIT = "predicted maximum speed"
SPEED: dict[str, Any] = {"color": look.COLOR["muted"], "marker": "D", **look.HOLLOW}


def errors(ax: Axes, found: list[tuple[float, tuple[float, ...] | None]], **style: Any) -> None:
    """Points with intervals; what has no value is left out."""
    known = [(x, *one) for x, one in found if one is not None]
    if known:
        x, value, low, high = np.array(known).T
        ax.errorbar(x, value, yerr=[value - low, high - value], **{**_style.MEASURED, **style})


def draw_staleness(ax: Axes, rows: Any) -> bool:
    """Speed-up against staleness, each arm at its own step; whether it is largest near the paper's staleness."""
    levels = levels_of(rows)
    errors(ax, [(s, throughput(rows, *MAIN, s)) for s in levels], **SPEED, **look.CONNECTED)
    limit = predicted(*MAIN)
    ax.axhline(limit, label=LIMIT, **_style.PREDICTED)
    for shift, (name, style) in zip((0.97, 1.03), ARMS.items(), strict=True):
        places = [(s, {**machine(*MAIN), "staleness": s, "method": name}) for s in levels]
        errors(ax, [(s * shift, gain(rows, place)) for s, place in places], **style, **look.CONNECTED)
    ax.set_xscale("log", base=2)
    ax.axhline(1.0, **_style.REFERENCE)
    ax.set(xlim=(0.85 * levels[0], 1.2 * levels[-1]), ylim=(0.0, 3.6), ylabel="speed divided by synchronous speed")
    ax.set_xlabel("staleness limit (versions)")
    look.ticks(ax.xaxis, levels)
    found = {name: {s: gain(rows, {**machine(*MAIN), "staleness": s, "method": name}) for s in levels} for name in ARMS}
    most = [max((s for s in own if own[s]), key=lambda s, own=own: own[s][0], default=0) for own in found.values()]  # type: ignore[misc]
    near = all(PAPER / 2 <= s <= 2 * PAPER for s in most)
    look.say(ax, 4.2, 2.85, "updates per hour", look.COLOR["muted"])
    look.say(ax, 4.4, 2.25, "VCPO, to a target return", look.COLOR["controlled"])
    look.say(ax, 2.05, 1.72, "truncated IS,\nto a target return", look.TRUNCATED["color"])
    look.say(ax, 1, 3.3, LIMIT)
    return near


def draw(rows: Any) -> Figure:
    """Speeds against staleness on the main machine."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        _script.headline(figure, draw_staleness(figure.subplots(), rows), "Speed in updates and to a return")
    return figure


def ratio(found: tuple[float, ...] | None) -> str:
    """A ratio with its interval."""
    return "no value" if found is None else f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f})"


def numbers(rows: Any) -> dict[str, str]:
    """What the entry quotes."""
    found = {"paper": f"{PAPER}", "limit": f"{predicted(*MAIN):.2f}"}
    for name in ARMS:
        paper = {**machine(*MAIN), "staleness": PAPER, "method": name}
        found[f"{name}_paper_speed"] = ratio(gain(rows, paper))
    return {**found, **quick(rows)}


def levels_of(rows: Any) -> list[int]:
    """Levels of staleness above none."""
    return sorted(int(s) for s in set(rows.staleness) if s > 0)


def quick(rows: Any) -> dict[str, str]:
    """VCPO's speed-ups at the staleness of the paper where lengths vary and training is quick, and elsewhere."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for sigma, train in sorted(set(zip(rows.sigma, rows.train, strict=True))):
        own = gain(rows, {**machine(sigma, train), "staleness": PAPER, "method": "vcpo"}, draws=2)
        if own is not None:
            found[sigma >= MAIN[0] and train <= MAIN[1]].append(own[0])
    spans = {here: f"{min(own):.2f} to {max(own):.2f}" if own else "no value" for here, own in found.items()}
    return {"wide": f"{MAIN[0]:g}", "brief": f"{MAIN[1]:g}", "quick": spans[True], "slow": spans[False]}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether VCPO is as much faster as in the paper, by spread of lengths and training time."""
    found = []
    for sigma in sorted(set(rows.sigma)):
        for train in vcpo_hours.TRAINS:
            speed = gain(rows, {**machine(sigma, train), "staleness": PAPER, "method": "vcpo"})
            if speed is not None:
                place = (f"spread {sigma:g}", f"{train:g}")
                found.append(Setting(place, decided(speed[1] >= FASTER, speed[2] < FASTER)))
    return {"faster": found}
