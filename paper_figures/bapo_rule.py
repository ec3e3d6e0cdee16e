"""What clips block of token updates that raise and lower entropy, and how wrong the Entropy-Clip Rule's formula is."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from paper_figures import _bapo as arms
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting
from paper_figures._script import pick

EXPERIMENTS = {"bapo": {"part": "blocked", "law": "constant 32", "tuned": True}}
RULES = ("clip", "higher", "bapo")
RUN = "clip"
"""The arm whose steps every rule is applied to."""
TITLES = {"bandit": "bandit", "graded": "graded reward", "bits": "pass or fail"}
WAYS = {
    "up": ("token updates that raise entropy", look.COLOR["controlled"], "^"),
    "down": ("token updates that lower entropy", look.COLOR["stale"], "v"),
}


def table(rows: Any) -> Any:
    """Slopes of entropy, a row a draw."""
    return pick(rows, part="formula").pivot(index="number", columns="quantity", values="value")


def pushes(rows: Any, task: str, rule: str, quantity: str, kind: str = "plain") -> Any:
    """The row of a share that a rule blocks of the steps of the run on the stalest data."""
    law = arms.laws(rows)[-1]
    return pick(rows, part="blocked", task=task, law=law, arm=RUN, rule=rule, quantity=f"{kind} {quantity}").iloc[0]


def blocked(ax: Axes, rows: Any, task: str) -> None:
    """What every rule blocks of pushes up and of pushes down."""
    for y, rule in enumerate(RULES):
        ends = [pushes(rows, task, rule, way).value for way in WAYS]
        ax.plot(ends, [y, y], color=look.COLOR["muted"], linewidth=0.7, zorder=0)
    for way, (_, color, marker) in WAYS.items():
        for y, rule in enumerate(RULES):
            row = pushes(rows, task, rule, way).to_frame().T.infer_objects()
            look.points(ax, [y], row, sideways=True, color=color, marker=marker)
    ax.set(xlim=(-0.02, 1.02), ylim=(len(RULES) - 0.5, -0.5), title=TITLES[task], xlabel="share that the rule blocks")
    look.ticks(ax.xaxis, [0, 0.5, 1], ["0", "50 %", "100 %"])
    look.ticks(ax.yaxis, range(len(RULES)), [arms.NAMES[rule] for rule in RULES])


def draw(rows: Any) -> Figure:
    """A panel for each task."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.3)
        axes = figure.subplots(1, len(arms.TASKS))
        for ax, task in zip(axes, arms.TASKS, strict=True):
            blocked(ax, rows, task)
        for ax in axes[1:]:
            ax.set_yticklabels([])
        axes[0].set_ylabel("clipping rule")
        style = {"linestyle": "none", "markersize": 4.0}
        drawn = [axes[1].plot([], [], color=color, marker=marker, **style)[0] for _, color, marker in WAYS.values()]
        names = [name for name, _, _ in WAYS.values()]
        down = [pushes(rows, task, rule, "down").value > pushes(rows, task, rule, "up").value
                for task in arms.TASKS for rule in RULES]  # fmt: skip
        more: dict[str, Any] = {"loc": "outside upper left", "alignment": "left", "frameon": False}
        figure.legend(drawn, names, ncols=2, title=" ", **more)
        _script.headline(figure, all(down), "What each rule blocks of updates that raise and lower entropy")
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Blocked shares in percent, and how far the formula of the rule is off for the plain gradient."""
    own = table(rows)
    found = {
        "draws": f"{len(own)}",
        "staleness": f"{arms.age(arms.laws(rows)[-1])}",
        "signs": percent(np.mean(own.natural * own.measured < 0)),
        "tasks": f"{len(arms.TASKS)}",
    }
    ups, downs = ([pushes(rows, task, "clip", way, "plain").value for task in arms.TASKS] for way in WAYS)
    found["plain_biased"] = f"{sum(up > down for up, down in zip(ups, downs, strict=True))}"
    return found | {"up": span(ups), "down": span(downs)}


def span(values: list[float]) -> str:
    """Least and largest share in percent."""
    return f"{100 * min(values):.0f} to {100 * max(values):.0f} %"


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.0f} %" if np.isfinite(value) else "none"


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether the formula has the sign of the change of entropy along the plain gradient, by random policy."""
    own = table(rows)
    return {"sign": [Setting(("random policies",), bool(same)) for same in own.natural * own.measured > 0]}
