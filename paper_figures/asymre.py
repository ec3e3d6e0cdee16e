"""AsymRE: limits on frozen data on the projection, limits of limits, and tuned shifts of the baseline on stale data."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import asymre as lab
from paper_figures import _script
from paper_figures import _vcpo as look
from paper_figures._claim import Setting, decided

MEANS = {"10-armed bandits": f"means of {lab.BANDITS}"}
EXPERIMENTS = {"asymre": {"part": "frozen", "task": "10-armed bandits", "staleness": "frozen data", "means": MEANS}}


MUTED = look.COLOR["muted"]
CLEAR = 0.05
"""Least distance of a baseline below the mean reward at which policies keep several arms on average."""
LABELED = (-1.0, -0.2, -0.05, 0.0, 0.02, 0.1)
"""Shifts with a tick."""


def predicted(bandit: int, shift: float) -> np.ndarray:
    """Where the flow ends: the projection below shift 0, from there on the arm with the largest mu (r - V)."""
    logits, means = lab.LOGITS[bandit], lab.MEANS[bandit]
    mu = lab.softmax(logits)
    point = {"behavior_logits": logits.tolist(), "rewards": means.tolist()}
    if shift < 0:
        found = claims.claim("optimum/asymre-projection").predict({**point, "offset": float(mu @ means) + shift})
    else:
        found = claims.claim("optimum/frozen-mean-baseline").predict(point)
    return np.array([found[f"pi[{arm}]"] for arm in range(lab.ARMS)])


def limits(rows: Any) -> dict[float, np.ndarray]:
    """Policies at the end, `[bandits, arms]`, by shift."""
    own = _script.pick(rows, part="frozen").sort_values(["shift", "bandit", "action"])
    return {float(shift): one.value.to_numpy().reshape(lab.BANDITS, lab.ARMS) for shift, one in own.groupby("shift")}


@cache
def expected(shift: float) -> np.ndarray:
    """Predictions for all bandits, `[bandits, arms]`."""
    return np.array([predicted(bandit, shift) for bandit in range(lab.BANDITS)])


def reward(policy: np.ndarray) -> np.ndarray:
    """Mean reward of each bandit."""
    return np.asarray((policy * lab.MEANS).sum(-1))


def support(policy: np.ndarray) -> np.ndarray:
    """Arms in use of each bandit."""
    return np.asarray((policy > lab.SEEN).sum(-1))


def draw_limit(ax: Axes, rows: Any, read: Any) -> None:
    """A reading of the limits, mean over bandits, on its prediction."""
    found = limits(rows)
    values, below = [read(policy).mean() for policy in found.values()], [shift for shift in found if shift <= 0.0]
    ax.set_xscale("symlog", linthresh=0.01, linscale=0.5)
    ax.plot(list(found), values, linestyle="none", marker="o", markersize=5, color=look.COLOR["controlled"])
    ax.plot(below, [read(expected(shift)).mean() for shift in below], **_style.PREDICTED)
    ax.axvline(0.0, **_style.REFERENCE)
    look.ticks(ax.xaxis, LABELED, [f"{shift:g}".replace("-", "−") for shift in LABELED])
    ax.set(xlabel="baseline minus the behavior policy's mean reward")


def draw(rows: Any) -> Figure:
    """Reward and arms in use of the limits."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.9)
        left, right = figure.subplots(1, 2)
        draw_limit(left, rows, support)
        left.set(ylabel="number of arms played", ylim=(0.0, 10.3), title="Arms still played")
        draw_limit(right, rows, reward)
        right.axhline(reward(lab.softmax(lab.LOGITS)).mean(), **_style.REFERENCE)
        look.say(right, 0.12, reward(lab.softmax(lab.LOGITS)).mean() - 0.022, "behavior policy", MUTED, ha="right")
        right.set(ylabel="mean reward", ylim=(0.5, 0.93), title="Return after training on frozen data")
        look.say(left, 0.002, 9.7, "baseline = mean reward", MUTED)
        below = {shift: policy for shift, policy in limits(rows).items() if shift <= 0.0}
        kept, paid = ([read(policy).mean() for policy in below.values()] for read in (support, reward))
        more = kept == sorted(kept, reverse=True) and support(below[-CLEAR]).mean() > 2.0
        _script.headline(figure, more and paid == sorted(paid), "Limits of shifted baselines on frozen bandits")
    return figure


def _last(rows: Any) -> Any:
    """Mean reward after the last round of frozen data, by shift."""
    again = _script.pick(rows, part="again")
    return again[again["round"] == again["round"].max()].groupby("shift").value.mean()


def worse(rows: Any, law: str) -> str:
    """How many shifts below 0 are worse than 0, over all tasks, of how many."""
    own = _script.pick(rows, part="tuned", law=law)
    own = own[own["shift"] < 0]
    return f"{int((own.word == 'worse').sum())} of {len(own)}"


def numbers(rows: Any) -> dict[str, str]:
    """Distance from the prediction, what limits and their limits earn, and what tuned shifts do."""
    found, policies, behavior = {}, limits(rows), reward(lab.softmax(lab.LOGITS))
    below = [shift for shift in policies if shift < 0]
    found["off"] = f"{max(np.abs(policies[s] - expected(s)).sum(-1).max() / 2 for s in below):.3f}"
    found["improved"] = str(sum(int((reward(policies[s]) > behavior).sum()) for s in below))
    found["below"] = str(len(below) * lab.BANDITS)
    for name, shift in (("tenth", -0.1), ("zero", 0.0)):
        found[name] = f"{reward(policies[shift]).mean():.2f}"
    for name, shift in (("tenth", -0.1), ("zero", 0.0), ("above", 0.1)):
        found[f"support_{name}"] = f"{support(policies[shift]).mean():.1f}"
    last = _last(rows)
    for name, shift in (("tenth", -0.1), ("zero", 0.0)):
        found[f"again_{name}"] = f"{last[shift]:.2f}"
    found["clear"] = f"−{CLEAR:g}"
    found["best"] = f"{lab.MEANS.max(-1).mean():.2f}"
    for law, name in (("constant 32", "stale"), ("frozen", "frozen")):
        found[name] = worse(rows, law)
    return found


def held(rows: Any) -> dict[str, list[Setting]]:
    """Whether policies keep arms below shift 0 and one from there on, by shift; whether shift -0.1 returns more."""
    behavior, found, better = reward(lab.softmax(lab.LOGITS)), {"several": [], "one": []}, []
    for shift, policy in limits(rows).items():
        arms, place = support(policy), (f"{shift:+g}".replace("-", "−"),)
        if shift < 0:
            several = arms.mean() >= 2.0 and (reward(policy) > behavior).all()
            found["several"].append(Setting(("shift", *place), bool(several), shift <= -CLEAR))
        else:
            found["one"].append(Setting(("shift", *place), bool((arms == 1).all())))
    for row in _script.pick(rows, part="tuned", shift=-0.1).itertuples():
        where = "stale data" if row.law == "constant 32" else "frozen data"
        better.append(Setting((where, row.task), decided(row.low > 0.0, row.high < 0.0)))
    ends = {shift: _last(rows)[shift] for shift in (-0.1, 0.0)}
    return {
        **found,
        "better": [*better, Setting(("five rounds of frozen data, bandit",), bool(ends[-0.1] > ends[0.0]))],
    }
