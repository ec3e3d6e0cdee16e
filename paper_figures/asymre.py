"""AsymRE: limits on frozen data on the projection, limits of limits, and tuned shifts of the baseline on stale data."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import theory
from asyncsim.plotting import _style
from experiments import asymre as lab
from paper_figures import _script
from paper_figures import _vcpo as look

EXPERIMENTS = ("asymre",)
TASKS = {"bandit": "tuned", "graded": "measured", "sparse": "contrast"}
TITLES = {"fresh": "fresh", "constant 32": "32 updates stale", "frozen": "frozen"}


def predicted(bandit: int, shift: float) -> np.ndarray:
    """Where the flow ends: the projection below shift 0, from there on the arm with the largest mu (r - V)."""
    logits, means = lab.LOGITS[bandit], lab.MEANS[bandit]
    mu = lab.softmax(logits)
    point = {"behavior_logits": logits.tolist(), "rewards": means.tolist()}
    if shift < 0:
        found = theory.claim("optimum/asymre-projection").predict({**point, "offset": float(mu @ means) + shift})
    else:
        found = theory.claim("optimum/frozen-mean-baseline").predict(point)
    return np.array([found[f"pi[{arm}]"] for arm in range(lab.ARMS)])


def shifts(rows: Any) -> list[float]:
    """Shifts on frozen bandits, rising."""
    return sorted(_script.pick(rows, part="frozen")["shift"].unique())


def distances(rows: Any) -> dict[float, np.ndarray]:
    """Half of the summed differences from the prediction, `[bandits]`, by shift."""
    own = _script.pick(rows, part="frozen")
    found: dict[float, list[float]] = {}
    for row in own.itertuples():
        far = 0.5 * np.abs(np.asarray(row.policy) - predicted(int(row.bandit), row.shift)).sum()
        found.setdefault(row.shift, []).append(float(far))
    return {shift: np.array(values) for shift, values in found.items()}


def draw_limit(ax: Axes, rows: Any, what: str, expected: Any) -> None:
    """A quantity of the limits, mean over bandits, on its prediction."""
    own = _script.pick(rows, part="frozen").groupby("shift")[what].mean()
    places = range(len(own))
    ax.plot(places, own, **{**_style.MEASURED, "markersize": 5}, color=look.COLOR["controlled"])
    known = [np.mean([expected(b, shift) for b in range(lab.BANDITS)]) for shift in own.index]
    ax.plot(places, known, **_style.PREDICTED)
    ax.axvline(list(own.index).index(0.0), **_style.REFERENCE)
    look.ticks(ax.xaxis, list(places)[::2], [f"{shift:g}".replace("-", "−") for shift in own.index[::2]])
    ax.set(xlabel="baseline less behavior's mean reward")


def draw_tuned(ax: Axes, rows: Any, law: str) -> None:
    """Differences from shift 0 at the best rates."""
    for place, (task, shade) in enumerate(TASKS.items()):
        own = _script.pick(rows, part="tuned", task=task, law=law).dropna(subset="difference").sort_values("shift")
        own = own.assign(value=own.difference)
        x = [sorted(lab.TUNED).index(shift) + 0.2 * (place - 1) for shift in own["shift"]]
        look.points(ax, x, own, color=look.COLOR[shade], marker="o^s"[place], markersize=3.5, label=task)
    ax.axhline(0.0, **_style.REFERENCE)
    look.ticks(ax.xaxis, range(len(lab.TUNED)), [f"{shift:g}".replace("-", "−") for shift in sorted(lab.TUNED)])
    ax.set(xlabel="shift of the baseline", title=TITLES[law])


def draw(rows: Any) -> Figure:
    """Two panels of limits, and one for each kind of data."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 5.0)
        above, below = figure.subfigures(2, 1)
        left, right = above.subplots(1, 2)
        draw_limit(left, rows, "value", lambda bandit, shift: predicted(bandit, shift) @ lab.MEANS[bandit])
        left.axhline(_script.pick(rows, part="frozen").behavior.mean(), **_style.REFERENCE)
        left.set(ylabel="mean reward", ylim=(0.0, 1.0), title="frozen bandits: better than behavior")
        draw_limit(right, rows, "support", lambda bandit, shift: (predicted(bandit, shift) > lab.SEEN).sum())
        right.set(ylabel="arms in use", ylim=(0.0, 10.3), title="…with fewer arms, from 0 on with one")
        axes = below.subplots(1, 3, sharey=True)
        for ax, law in zip(axes, lab.LAWS, strict=True):
            draw_tuned(ax, rows, law)
        axes[0].set(ylabel="return less that at shift 0")
        axes[0].legend(fontsize=7)
    return figure


def words(rows: Any, law: str, below: bool) -> str:
    """How many shifts below 0, or above, are better, equal and worse than 0, of all tasks."""
    own = _script.pick(rows, part="tuned", law=law)
    own = own[(own["shift"] < 0) if below else (own["shift"] > 0)]
    return ", ".join(str(int((own.word == word).sum())) for word in ("better", "equal", "worse"))


def numbers(rows: Any) -> dict[str, str]:
    """Distance from the prediction, what limits and their limits earn, and what tuned shifts do."""
    far = distances(rows)
    own = _script.pick(rows, part="frozen")
    means = own.groupby("shift").value.mean()
    found = {"off": f"{max(values.max() for shift, values in far.items() if shift < 0):.3f}"}
    found["off_above"] = f"{sum((values > 0.5).sum() for shift, values in far.items() if shift > 0)}"
    found["limits_above"] = f"{sum(values.size for shift, values in far.items() if shift > 0)}"
    found |= {"behavior": f"{own.behavior.mean():.2f}", "zero": f"{means[0.0]:.2f}", "tenth": f"{means[-0.1]:.2f}"}
    below = own[own["shift"] < 0]
    found |= {"improved": f"{int((below.value > below.behavior).sum())}", "below": f"{len(below)}"}
    again = _script.pick(rows, part="again")
    last = again[again["round"] == again["round"].max()].groupby("shift").value.mean()
    for name, shift in (("half", -0.5), ("tenth", -0.1), ("zero", 0.0)):
        found[f"again_{name}"] = f"{last[shift]:.2f}"
    found["best"] = f"{lab.MEANS.max(-1).mean():.2f}"
    for law, name in (("fresh", "fresh"), ("constant 32", "stale"), ("frozen", "frozen")):
        found |= {f"{name}_below": words(rows, law, True), f"{name}_above": words(rows, law, False)}
    return found
