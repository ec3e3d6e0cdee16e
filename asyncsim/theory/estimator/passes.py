r"""Several passes through a batch: every ratio keeps the denominator that the batch had when its training began.

E epochs of M minibatches are E M updates on one batch. Where all of its samples are alike, a minibatch is the batch, so
that nothing depends on how it is cut, nor on micro-batches, whose sums make one gradient. Here a greedy engine always
draws the likeliest arm a: mu = 1. With pi_prox the policy in front of the first of the E M updates, u = pi/pi_prox. The
printed objectives are min(rho A, clip(rho) A), rho = pi/mu ("behavior") or u ("proximal"), and h min(u A, clip(u) A), h
= pi_prox/mu ("decoupled"). So logits move by step c A (e_a - pi), c = rho or h u where the clip is open, 0 where A > 0
and the clipped ratio exceeds 1 + clip, or A < 0 and it is below 1 - clip. With several batches a publish the
denominator still is renewed with every batch. Derivation: the derivative of the objectives. Domain: the arm stays the
likeliest, no ratio within 1e-9 of a bound. Second route: complex steps through the objectives. Source: arXiv 1707.06347
equation 7, 2110.00641 equation 6.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient, softmax
from asyncsim.theory._declared import Choice, Count, Declared, Draw, Flag, Positive, Real, Vector
from asyncsim.theory._stated import indexed, stated

_CLEAR = 1e-9


class _Setting(Declared):
    initial_logits = Vector(typical=(-1.0, 0.5), sizes=(2, 4), example=(0.8, 0.1, -0.5), doc="logits at the start")
    advantage = Real(-5.0, 5.0, typical=(-0.3, 1.0), example=0.9, unit="reward", doc="reward of every arm")
    anchor = Choice("behavior", "proximal", "decoupled", example="decoupled", doc="denominators of the ratios")
    clip = Positive(typical=(0.05, 0.5), example=0.15, doc="how far the clipped ratio may go from 1")
    step = Positive(typical=(0.01, 0.3), example=0.3, unit="parameter per direction", doc="learning rate")
    batches = Count(1, 16, typical=(1, 3), example=2, unit="batches", doc="batches of the run")
    epochs = Count(1, 16, typical=(1, 3), example=3, doc="passes through a batch")
    minibatches = Count(1, 16, typical=(1, 4), example=2, doc="parts of a batch, an update on each")
    cut = Choice("groups", "parts", "samples", "tokens", example="samples", doc="what a batch is cut between")
    micro_batches = Count(1, 8, typical=(1, 2), example=2, doc="passes in which a gradient is computed")

    def joint(self) -> None:
        """One arm that is and stays the likeliest, an advantage, ratios away from the bounds."""
        order = np.sort(self.initial_logits)
        clear = order.size >= 2 and order[-1] - order[-2] > 0.01
        remedy = "raise the largest"
        checks.require(clear, "initial_logits", self.initial_logits.tolist(), "one largest by 0.01", remedy)
        moves = abs(self.advantage) > 1e-3
        checks.require(moves, "advantage", self.advantage, "at least 0.001 away from 0", "else nothing moves")
        path, seen, closed = _run(self, _step)
        stays = bool((np.argmax(path, axis=1) == np.argmax(path[0])).all())
        checks.require(stays, "advantage", self.advantage, "such that one arm stays the likeliest", "raise it")
        checks.require(not all(closed), "clip", self.clip, "open at some update", "widen it")
        gaps = np.abs(np.abs(np.array(seen) - 1.0) - self.clip)
        checks.require(bool((gaps > _CLEAR).all()), "clip", self.clip, "off every ratio", "move it")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """One arm ahead of the others, and as often a loss as a gain."""
        point = {name: draw(p) for name, p in cls.parameters.items()}
        point["initial_logits"] = (1.0, *point["initial_logits"][1:])
        point["advantage"] = draw(Real(typical=(0.1, 0.3))) * (1.0 if draw(Flag()) else -1.0)
        return point

    @property
    def arm(self) -> int:
        """The likeliest one, which is always drawn."""
        return int(np.argmax(self.initial_logits))


_Rule = Callable[[_Setting, np.ndarray, float], np.ndarray]


def _clipped_ratio(s: _Setting, p: float, proximal: float) -> float:
    return p if s.anchor == "behavior" else p / proximal


def _closed(s: _Setting, ratio: float) -> bool:
    return ratio > 1.0 + s.clip if s.advantage > 0.0 else ratio < 1.0 - s.clip


def _step(s: _Setting, logits: np.ndarray, proximal: float) -> np.ndarray:
    """The score weight times the score."""
    pi = softmax(logits)
    ratio = _clipped_ratio(s, pi[s.arm], proximal)
    weight = 0.0 if _closed(s, ratio) else ratio * (proximal if s.anchor == "decoupled" else 1.0)
    return np.asarray(weight * s.advantage * (np.eye(len(pi))[s.arm] - pi))


def _by_objective(s: _Setting, logits: np.ndarray, proximal: float) -> np.ndarray:
    """Derivative of the printed objective; real parts decide which branch is the smaller."""

    def objective(z: np.ndarray) -> complex:
        chance = softmax(z)[s.arm]
        ratio = chance if s.anchor == "behavior" else chance / proximal
        bounded = min(max(ratio.real, 1.0 - s.clip), 1.0 + s.clip)
        open_ = bounded == ratio.real or ratio.real * s.advantage <= bounded * s.advantage
        surrogate = (ratio if open_ else bounded) * s.advantage
        return complex(surrogate * (proximal if s.anchor == "decoupled" else 1.0))

    return complex_gradient(objective, logits)


def _run(s: _Setting, rule: _Rule, renewed: int = 0) -> tuple[np.ndarray, list[float], list[bool]]:
    """Path of the logits `[U + 1, A]`, ratios that the clip sees, and where it is closed.

    `renewed`: updates between two renewals of the denominator (0: a whole batch).
    """
    path, seen = [s.initial_logits], []
    passes = s.epochs * s.minibatches
    for update in range(s.batches * passes):
        if update % (renewed or passes) == 0:
            proximal = float(softmax(path[-1])[s.arm])
        seen.append(_clipped_ratio(s, float(softmax(path[-1])[s.arm]), proximal))
        path.append(path[-1] + s.step * rule(s, path[-1], proximal))
    return np.array(path), seen, [_closed(s, ratio) for ratio in seen]


def _predict(s: _Setting, rule: _Rule = _step, renewed: int = 0) -> dict[str, float]:
    path, _, closed = _run(s, rule, renewed)
    chances = np.log(softmax(path)[:, s.arm])
    return {"open": 1.0 - float(np.mean(closed))} | indexed("log_prob", chances) | indexed("logit", path[-1])


def _at(s: _Setting, **values: Any) -> _Setting:
    """Other values, also where one arm does not stay the likeliest: wrong formulas do not mind."""
    other = copy.copy(s)
    vars(other).update(values)
    return other


def _counted(s: _Setting) -> dict[str, float]:
    """Micro-batches taken for updates."""
    return _padded(s, _predict(_at(s, minibatches=s.minibatches * s.micro_batches)))


def _padded(s: _Setting, found: dict[str, float]) -> dict[str, float]:
    """The quantities of the claim out of those of another number of updates."""
    last = [value for name, value in found.items() if name.startswith("log_prob")][-1]
    return {name: found.get(name, last) for name in _predict(s)}


claim = stated(
    id="estimator/passes",
    statement="in `E` epochs of `M` minibatches ratios keep the denominator of the batch's first update, "
    "so that a clip can act from the second on, and micro-batches change nothing",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=lambda s: _predict(s, _by_objective),
    reference="1707.06347, equation 7; 2110.00641, equation 6",
    formula_defects={
        "denominator renewed by every update": lambda s: _predict(s, renewed=1),
        "denominator renewed by every epoch": lambda s: _predict(s, renewed=s.minibatches),
        "denominator of the first batch": lambda s: _predict(s, renewed=s.batches * s.epochs * s.minibatches),
        "no correction of the start": lambda s: _predict(_at(s, anchor="proximal")),
        "micro-batches taken for updates": _counted,
        "no clip": lambda s: _predict(_at(s, clip=100.0)),
    },
    relative_to="norm",
)
