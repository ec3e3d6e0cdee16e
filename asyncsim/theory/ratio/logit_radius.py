r"""Logits at most D apart leave E w^2 <= cosh(D)^{2 T} over T tokens, and stale REINFORCE moves them at a bounded pace.

"second_moment": ratios of one token have M/m <= e^{2D}, so E w^2 <= (m + M)^2/(4 m M) = cosh^2 D; attained by two arms,
the one with behavior probability e^{-D}/(2 cosh D) raised by D and the other lowered by D. "move": on a group of
N with rewards in a range `spread`, leave-one-out REINFORCE without ratio moves a logit by at most step * spread *
floor(N^2/4) / (N (N - 1)) per update. For even N this is step * spread * N / (4 (N - 1)). It is attained where half of
the group are one arm and earn all. "stale_second_moment": after S updates from one frozen policy D is S times that, so
ESS/N >= sech^2(S move). Derivation: Kantorovich's inequality; the covariance of reward and arm in a group. Domain: one
softmax row for all tokens, one context. Second route: the largest value over the share of the arm that rises, and over
how many of the group are of one arm. Source: derived; Kantorovich's inequality.
"""

from __future__ import annotations

import math

from scipy.optimize import minimize_scalar

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Integer, Positive, Real, Staleness
from asyncsim.theory._stated import stated

_MOST = 1e12


class _Setting(Declared):
    radius = Real(
        0.0, 5.0, open_low=True, typical=(0.05, 2.0), example=0.7, unit="nats", doc="D, largest change of a logit"
    )
    horizon = Integer(1, 64, typical=(1, 4), example=2, unit="tokens", doc="length of a sequence")
    samples = Count(2, typical=(2, 9), example=4, doc="samples of a group")
    spread = Positive(typical=(0.1, 2.0), example=1.0, unit="reward", doc="largest less least reward")
    step = Positive(typical=(0.05, 0.5), example=0.8, unit="logits per gradient", doc="learning rate")
    staleness = Staleness(1, typical=(1, 4), example=3)

    def joint(self) -> None:
        """Moments that a double holds beside 1."""
        largest = max(self.horizon * self.radius, self.staleness * _move(self))
        allowed = math.log(_MOST) / 2.0
        bound = f"such that the logits of a sequence ({largest:.3g}) move by at most {allowed:.3g}"
        checks.require(largest <= allowed, "horizon", self.horizon, bound, "lower the radius or the step")


def _move(s: _Setting) -> float:
    return float(s.step * s.spread * (s.samples**2 // 4) / (s.samples * (s.samples - 1)))


def _quantities(second: float, move: float, stale: float) -> dict[str, float]:
    return {"second_moment": second, "move": move, "stale_second_moment": stale}


def _predict(s: _Setting) -> dict[str, float]:
    move = _move(s)
    return _quantities(math.cosh(s.radius) ** (2 * s.horizon), move, math.cosh(s.staleness * move) ** 2)


def _cross_check(s: _Setting) -> dict[str, float]:
    N = s.samples

    def worst(radius: float) -> float:
        """Largest E w^2 of two arms over the log odds of the one that rises."""

        def second(log_odds: float) -> float:
            up = 1.0 / (1.0 + math.exp(log_odds))
            mean = up * math.exp(radius) + (1.0 - up) * math.exp(-radius)
            return (up * math.exp(2.0 * radius) + (1.0 - up) * math.exp(-2.0 * radius)) / mean**2

        bounds = (-1.0, 4.0 * radius + 1.0)
        return -float(
            minimize_scalar(lambda x: -second(x), bounds=bounds, method="bounded", options={"xatol": 1e-10}).fun
        )

    # Of k samples that earn `spread` each has the advantage spread (N - k)/(N - 1).
    move = max(s.step * k / N * s.spread * (N - k) / (N - 1) for k in range(N + 1))
    return _quantities(worst(s.radius) ** s.horizon, move, worst(s.staleness * move))


def _second_order(s: _Setting) -> dict[str, float]:
    move = _move(s)
    return _quantities((1.0 + s.radius**2) ** s.horizon, move, 1.0 + (s.staleness * move) ** 2)


def _group_mean(s: _Setting) -> dict[str, float]:
    move = _move(s) * (s.samples - 1) / s.samples
    return _predict(s) | {"move": move, "stale_second_moment": math.cosh(s.staleness * move) ** 2}


def _times(s: _Setting, quantity: str, factor: float) -> dict[str, float]:
    """The bounds with one of them multiplied."""
    found = _predict(s)
    return found | {quantity: factor * found[quantity]}


claim = stated(
    id="ratio/logit-radius",
    statement="logits within `D` leave `E w^2 <= cosh(D)^(2 T)`, and stale REINFORCE moves them by at most "
    "`step spread N/(4 (N - 1))` per update for even `N`",
    kind="bound",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; Kantorovich inequality",
    terms={
        "arms within the radius": lambda s, factor: _times(s, "second_moment", factor),
        "move of an update": lambda s, factor: _times(s, "move", factor),
        "moves add up": lambda s, factor: _times(s, "stale_second_moment", factor),
    },
    formula_defects={
        "second order, 1 + D^2": _second_order,
        "group mean in place of leave-one-out": _group_mean,
        "square forgotten": lambda s: _predict(s) | {"second_moment": math.cosh(s.radius) ** s.horizon},
    },
)
