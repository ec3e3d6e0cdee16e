"""Return against KL to the reference and against diversity, on fresh and on old data, beside the exact frontier."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim.plotting import _style
from experiments import tba_steps
from paper_figures import _script
from paper_figures import _tba_steps as tba
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

EXPERIMENTS = {"tba_steps": {"part": "grid", "task": "arms", "rate": "best synchronous", "steps": 15}}
LABELS = (
    ("TBA (wide line)", "TBA", 3.3, 1.07),
    (tba.LABELS[tba_steps.CURRENT], tba_steps.CURRENT, 3.3, 0.99),
    ("Dr. GRPO", "Dr. GRPO", 0.95, 0.18),
    ("RLOO, penalty under behavior policy", "RLOO", 3.6, 0.17),
)
"""Names of lines, their arms and places that are drawn; the entry has Proximal RLOO."""
FRONTIER = "frontier:\nmaximum return"
PRICES = np.geomspace(0.02, 2.0, 200)
RIVALS = ("RLOO", "Proximal RLOO", "Dr. GRPO")
"""Methods that the paper compares; RLOO with the current penalty is ours, and TBA's gradient up to a factor."""


def points(rows: Any, arm: str, steps: int, quantity: str, times: float | None = 1.0) -> Any:
    """A quantity at the end, a row a price."""
    found = [
        tba.at(rows, "grid", quantity, "end", times, task=tba.TASK, arm=arm, steps=steps, beta=beta)
        for beta in tba.betas(rows)
    ]
    return type(rows)(found)


def panel(ax: Axes, rows: Any, steps: int) -> None:
    """Return against KL, a line an arm from KL coefficient to coefficient; dashed, what the best policy has."""
    for _, arm, *_ in LABELS:
        x, y = points(rows, arm, steps, "kl"), points(rows, arm, steps, "return")
        reach = [x.value - x.low, x.high - x.value]
        wide: dict[str, Any] = {"markersize": 8.0, "linewidth": 4.0, "alpha": 0.35} if arm == "TBA" else {}
        style = {**look.CONNECTED, **tba.ARMS[arm], "markersize": 4.0, **wide}
        look.points(ax, x.value, y, xerr=reach, **style)
    kl, earned, _ = tba.frontier(PRICES)
    ax.plot(kl, earned, label=FRONTIER, **_style.PREDICTED)
    look.say(ax, 1.1, 0.72, FRONTIER)
    ax.set(ylim=(0.0, 1.12), xlim=(0.0, None))


def gap(rows: Any, arm: str, steps: int, times: float | None) -> float:
    """How far below the largest return at its KL an arm ends, the most over prices."""
    pairs = zip(
        points(rows, arm, steps, "kl", times).value, points(rows, arm, steps, "return", times).value, strict=True
    )
    return max(tba.best_at(kl) - earned for kl, earned in pairs)


def regret(rows: Any, arm: str, steps: int, times: float | None) -> list[float]:
    """The best objective less that of an arm at each price, nats of reward."""
    found = []
    for beta in tba.betas(rows):
        kl, earned, _ = tba.frontier(np.array([beta]))
        row = tba.at(rows, "grid", "objective", "end", times, task=tba.TASK, arm=arm, steps=steps, beta=beta)
        found.append(float(earned[0] - beta * kl[0]) - float(row.value))
    return found


def diverse(rows: Any, arm: str, steps: int, times: float | None = 1.0) -> str:
    """The most different good arms of an arm among prices at which it has nine tenths of the largest return."""
    earned, good = (points(rows, arm, steps, quantity, times).value for quantity in ("return", "distinct"))
    kept = [y for x, y in zip(earned, good, strict=True) if x >= 0.9 * tba_steps.MEANS.max()]
    return f"{max(kept):.1f}" if kept else "none"


def draw(rows: Any) -> Figure:
    """Old data."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        ax = figure.subplots()
        panel(ax, rows, tba.old(rows))
        ax.set(xlabel="KL to the reference at the end (nats); a mark per KL coefficient", ylabel="return at the end")
        worst = {arm: gap(rows, arm, tba.old(rows), 1.0) for arm in tba.ARMS}
        alike = ("TBA", tba_steps.CURRENT)
        near = max(worst.get(arm, 0.0) for arm in alike)
        holds = near < min(gap for arm, gap in worst.items() if arm not in alike) - 0.03
        _script.headline(figure, holds, "Return and KL of each method on stale data")
        for text, arm, x, y in LABELS:
            look.say(ax, x, y, text, tba.ARMS[arm]["color"])
    return figure


def numbers(rows: Any) -> dict[str, str]:
    """Losses of the objective, the most over prices, and and different arms."""
    old = tba.old(rows)
    found = {"old": str(old), "prices": str(len(tba.betas(rows))), "rate": f"{tba.usual(rows):g}"}
    for arm, key in tba.KEYS.items():
        for reading, times in (("usual", 1.0), ("best", None)):
            found[f"{key}_old_{reading}"] = f"{max(regret(rows, arm, old, times)):.2f}"
        found[f"{key}_diverse"], found[f"{key}_diverse_best"] = (diverse(rows, arm, old, t) for t in (1.0, None))
    smallest, largest = (points(rows, "TBA", old, "return").value.iloc[k] for k in (0, -1))
    return found | {"at_smallest": f"{smallest:.2f}", "at_largest": f"{largest:.2f}"}


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether TBA ends with a higher objective on stale data than the paper's methods, by rate and coefficient."""
    found = []
    for reading, times in (("one rate", 1.0), ("tuned rates", None)):
        for beta in tba.betas(rows):
            place = {"task": tba.TASK, "steps": tba.old(rows), "beta": beta}
            own, *rest = (tba.at(rows, "grid", "objective", "end", times, arm=arm, **place) for arm in ("TBA", *RIVALS))
            apart = [(own.value - other.value, tba.reach(own, other)) for other in rest]
            answer = decided(all(far > reach for far, reach in apart), any(far < -reach for far, reach in apart))
            found.append(Setting((f"{reading}, coefficient", f"{beta:g}"), answer))
    return {"objective": found}
