"""An upper bound for plain descent under bounded staleness, beside what is measured."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize

from asyncsim import claims
from asyncsim.plotting import _style
from experiments import gac_bound as experiment
from paper_figures import _script
from paper_figures._gac_points import points
from paper_figures._vcpo import ends, say

EXPERIMENTS = {"gac_bound": {"task": "quadratic", "rate": "largest that the bound allows"}}
SEARCHES = 24
"""Starts of the search for the policy with the noisiest gradient."""
DIGITS = 6
"""Decimals of the largest noise."""
COLOR, BOUND = _style.COLORS["measured"], "our upper bound"
FORMULA = r"bound: $2\Delta/(\eta T)+\eta L\sigma^2+(\eta L)^2\tau\sigma^2$"


@cache
def largest_noise() -> float:
    """Standard deviation of the bandit's gradient at the policy where it is largest, by search over policies.

    Rounded up to `DIGITS` decimals: the search stops at another eighth decimal on another processor.
    """
    claim = claims.claim("convergence/bandit-noise")
    shared = {"rewards": experiment.REWARDS, "samples": experiment.SAMPLES}

    def minus(logits: np.ndarray) -> float:
        return -claim.predict({**shared, "behavior_logits": tuple(logits)})["variance"]

    starts = 2.0 * np.random.default_rng(0).normal(size=(SEARCHES, len(experiment.REWARDS)))
    found = math.sqrt(max(-float(minimize(minus, start).fun) for start in starts))
    return math.ceil(found * 10**DIGITS) / 10**DIGITS


def scene(task: str) -> dict[str, float]:
    """What the bound needs of a task: smoothness, noise, and the distance at which L x^2 / 2 is the initial gap."""
    if task == "quadratic":
        spread = math.sqrt(experiment.DIRECTIONS)
        return {"curvature": 1.0, "noise": spread * experiment.NOISE, "start": spread * experiment.START}
    rewards = experiment.REWARDS
    smooth = claims.claim("convergence/bandit-smoothness").predict({"rewards": rewards})["bound"]
    gap = max(rewards) - sum(rewards) / len(rewards)
    return {"curvature": smooth, "noise": largest_noise(), "start": math.sqrt(2.0 * gap / smooth)}


def bound(found: Any) -> float:
    """The upper bound for a row, NaN outside its step condition."""
    delay: dict[str, float]
    if found.schedule == "constant":
        name, delay = "convergence/constant-delay", {"staleness": int(found.staleness)}
    else:
        name = "convergence/arbitrary-delay"
        delay = {"maximum": int(found.maximum), "mean": float(found["mean"]), "in_flight": int(found.in_flight)}
    point = {**scene(found.task), **delay, "step": float(found.step), "updates": int(found.updates)}
    claim = claims.claim(name)
    return claim.predict(point)["bound"] if claim.domain(point) is None else math.nan


def judged(rows: Any) -> Any:
    """The squares with their bound and the ratio to it, with its interval."""
    own = rows[rows.quantity == "square"].copy()
    own["bound"] = [bound(found) for _, found in own.iterrows()]
    for name in ("value", "low", "high"):
        own[f"{name}_ratio"] = own[name].astype(float) / own.bound
    return own


def largest(own: Any) -> Any:
    """Of every staleness the row with the largest learning rate that the condition allows."""
    held = own[own.bound.notna()]
    return held.loc[held.groupby("staleness").fraction.idxmax()].sort_values("staleness")


def draw(rows: Any) -> Figure:
    """Squared gradients of plain descent on a quadratic, divided by their bound."""
    own = judged(rows)
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 2.6)
        ax = figure.subplots()
        plain = own[(own.schedule == "constant") & (own.rule == "none") & own.bound.notna()]
        tight = largest(plain[plain.task == "quadratic"])
        ages = [int(age) for age in tight.staleness]
        places = range(len(ages))
        share = tight.assign(**{name: tight[f"{name}_ratio"] for name in ("value", "low", "high")})
        ax.axhline(1.0, label=BOUND, **_style.PREDICTED)
        points(ax, places, share, joined=True, color=COLOR, marker="o")
        ax.set(ylim=(0.0, 1.12), xticks=places, xticklabels=ages, xlabel="staleness (versions)")
        ax.set_ylabel("average squared norm of the\ngradient, divided by its bound")
        say(ax, 0.0, 0.2, FORMULA)
        ends(ax, {"measured": (float(share.value.iloc[-1]), COLOR), BOUND: (1.0, _style.INK)}, 0.1)
        met = tight[tight.high_ratio >= 0.97].staleness.tolist()
        holds = met == [0, 1] and plain.low_ratio.max() <= 1.0
        _script.headline(figure, holds, "Squared gradients of plain SGD on stale data and their upper bound")
    return figure


def with_interval(own: Any, digits: int = 2) -> str:
    """A ratio with its 95 percent interval."""
    return f"{own.value_ratio:.{digits}f} ({own.low_ratio:.{digits}f} to {own.high_ratio:.{digits}f})"


def numbers(rows: Any) -> dict[str, str]:
    """Largest ratios inside the condition, tightness, and how often projection exceeds the bound."""
    own = judged(rows)
    constant = own[own.schedule == "constant"]
    inside = constant[constant.bound.notna() & constant.value.notna()]
    plain = inside[inside.rule == "none"]
    tight = largest(plain[plain.task == "quadratic"]).reset_index()
    bandit = plain[plain.task == "bandit"].value_ratio
    less = inside[(inside.task == "quadratic") & (inside.rule == "project")]
    return {
        "points": f"{len(plain)}",
        "last": f"{int(constant.staleness.max())}",
        "exceeding": f"{int((plain.low_ratio > 1.0).sum())}",
        "tight_first": with_interval(tight.iloc[0], 3),
        "tight_late": with_interval(tight.iloc[1], 3),
        "bandit_most": f"{bandit.max():.2f}",
        "project_above": f"{int((less.low_ratio > 1.0).sum())} of {len(less)}",
    }
