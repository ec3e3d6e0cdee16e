"""What the bounds of a fixed clip do to return and entropy."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo_steps as steps
from paper_figures import _script, bapo_steps
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"bapo_steps": {"part": "knob", "task": "long", "rate": "best synchronous"}}
TASK, MOVING = "long", "tokens"
"""The task that is drawn, and that on which the cap of c_high is moved."""
BOUNDS: dict[str, dict[str, Any]] = {
    "c_low": {"color": look.COLOR["measured"], "marker": "v"},
    "c_high": {"color": look.COLOR["contrast"], "marker": "^"},
}
MOVED = "high_cap"


def task(rows: Any) -> str:
    """The task that is drawn."""
    known = steps.tasks(rows[rows.part == "knob"])
    return TASK if TASK in known else known[0]


def swept(rows: Any, name: str, knob: str, quantity: str, times: float | None = 1.0) -> Any:
    """A quantity over values of a knob, at so many best synchronous rates or each at its best."""
    own = _script.pick(rows, part="knob", task=name, knob=knob, quantity=quantity)
    if times is not None:
        return steps.near(own, times * steps.usual(rows, name)).sort_values("number")
    mean = _script.pick(rows, part="knob", task=name, knob=knob, quantity="mean")
    best = mean.loc[mean.groupby("number").value.idxmax()].set_index("number").rate
    return own[[best[row.number] == row.rate for row in own.itertuples()]].sort_values("number")


def bounds(rows: Any, name: str, arm: str, side: str) -> Any:
    """A bound of BAPO over updates at the best synchronous rate, on the stalest data."""
    place = {"task": name, "arm": arm, "staleness": bapo_steps.oldest(rows), "epochs": 1}
    own = steps.grid(rows, part="course", quantity=side, **place)
    return steps.near(own, steps.usual(rows, name)).sort_values("number")


def draw_swept(ax: Axes, rows: Any, quantity: str) -> None:
    """A quantity against a fixed bound, whose values stand side by side."""
    values: list[tuple[int, float]] = []
    for knob, style in BOUNDS.items():
        own = swept(rows, task(rows), knob, quantity)
        values += [(len(values) + k, value) for k, value in enumerate(own.number)]
        look.points(ax, [x for x, _ in values[-len(own) :]], own, **look.CONNECTED, **style)
    ax.set(xlabel="← lower bound (upper: 1.2)        upper bound (lower: 0.8) →", ylim=(0.0, None))
    look.ticks(ax.xaxis, [x for x, _ in values], [f"{value:g}" for _, value in values])
    own = swept(rows, task(rows), "c_low", quantity).set_index("number").value
    if (plain := 0.8) in own:
        at = [x for x, value in values if value in (plain, 1.2)]
        ax.plot(at, [own[plain]] * len(at), "o", color=look.COLOR["muted"], markersize=9, mfc="none", zorder=0)
        above = own[plain] + 0.1 * ax.get_ylim()[1]
        look.say(ax, float(np.mean(at)), above, "PPO's clip (circles)", look.COLOR["muted"], ha="center")


def rises(rows: Any, name: str, knob: str, quantity: str, times: float | None = 1.0) -> int:
    """1 where a quantity rises from the tightest to the widest value of a bound, -1 where it falls, 0 if undecided."""
    own = swept(rows, name, knob, quantity, times)
    first, last = (own.iloc[0], own.iloc[-1]) if knob != "c_low" else (own.iloc[-1], own.iloc[0])
    return {"wins": 1, "ties": 0, "losses": -1}[steps.word(last, first)]


def draw(rows: Any) -> Figure:
    """Return and entropy against fixed bounds."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        axes = figure.subplots(1, 2)
        for ax, quantity, name in zip(axes, ("mean", "entropy_mean"), ("return", "entropy (nats)"), strict=True):
            draw_swept(ax, rows, quantity)
            ax.set(title=name.partition(" (")[0].capitalize(), ylabel=f"mean {name} over training")
        for ax, low, x in ((axes[0], 0.36, 0.8), (axes[1], 0.3, 0.92)):
            more: dict[str, Any] = {"transform": ax.transAxes}
            look.say(ax, 0.04, low, "lower bound", BOUNDS["c_low"]["color"], **more)
            look.say(ax, x, 0.62, "upper bound", BOUNDS["c_high"]["color"], ha="right", **more)
        name = task(rows)
        up = [rises(rows, name, knob, "mean") for knob in BOUNDS]
        entropy = rises(rows, name, "c_low", "entropy_mean")
        _script.headline(figure, up == [1, 1] and entropy == -1, "Return and entropy by bounds of a fixed clip")
    return figure


def spread(rows: Any, name: str, knob: str) -> float:
    """Largest minus least mean return over values of a knob, at the best synchronous rate."""
    own = swept(rows, name, knob, "mean").value
    return float(own.max() - own.min())


def numbers(rows: Any) -> dict[str, str]:
    """Returns and entropies at the ends of every sweep; how far bounds move."""
    name, found = task(rows), {}
    for knob in ("c_low", "c_high"):
        for key, quantity in (("return", "mean"), ("entropy", "entropy_mean")):
            own = swept(rows, name, knob, quantity)
            found[f"{knob}_{key}_least"], found[f"{knob}_{key}_most"] = (f"{own.value.iloc[k]:.2f}" for k in (0, -1))
            many = [rises(rows, each, knob, quantity) for each in steps.tasks(rows[rows.part == "knob"])]
            found[f"{knob}_{key}"] = f"{many.count(1)} of {len(many)}"
    targets = swept(rows, name, "rho_0", "mean").set_index("number").value
    for target in (0.4, 0.5):
        found[f"target_{target:g}".replace(".", "")] = f"{targets[target]:.2f}" if target in targets else "none"
    bold = swept(rows, name, "rho_0", "mean", steps.BOLD).value
    found["target_bold"] = f"{bold.min():.2f} to {bold.max():.2f}" if len(bold) else "none"
    known = set(rows[rows.part == "knob"].knob)
    found[f"spread_{MOVED}"] = f"{spread(rows, MOVING, MOVED):.2f}" if MOVED in known else "none"
    for arm in ("bapo", "half"):
        found[f"{arm}_low"], found[f"{arm}_high"] = (
            f"{bounds(rows, name, arm, s).value.max():.2f}" for s in ("low", "high")
        )
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether return and entropy rise as c_high is raised, and fall as c_low is lowered, by rate and task."""
    found: dict[str, list[Setting]] = {"c_high": [], "c_low": []}
    for knob, sign in (("c_high", 1), ("c_low", -1)):
        for reading, times in {"best synchronous rate": 1.0, "4× rate": steps.BOLD, "tuned rates": None}.items():
            for quantity, word in (("mean", "return"), ("entropy_mean", "entropy")):
                for name in steps.tasks(rows[rows.part == "knob"]):
                    way = sign * rises(rows, name, knob, quantity, times)
                    found[knob].append(Setting((f"{word}, {reading}", steps.TOLD[name]), decided(way == 1, way == -1)))
    return found
