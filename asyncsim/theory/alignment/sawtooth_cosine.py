r"""Gradients between two publishes agree, those across a publish disagree: a block pattern.

Weights are published every s updates; a = step * curvature. Any two gradients of one cycle correlate at rho = a / (2 -
(s-1) a), any gradient of a cycle with any of the next at -rho. E g^2 / sigma^2 = (2 - (s-1) a) / (2 - s a), and over
all phases neighbors correlate at (s-2) rho / s. Derivation: x at cycle starts is an AR(1) of factor 1 - s a, hence E
x^2 = step^2 sigma^2 / (a (2 - s a)). All gradients of a cycle are taken at this x, and the next x contains each of
their noises once. Domain: one mode, white noise, stationary, s a < 2. Second route: Lyapunov equation of (newest,
published) iterate, solved around one cycle. Source: derived.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Draw, Positive, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
    updates = Count(1, typical=(1, 16), example=4, unit="updates", doc="updates between two publishes")
    curvature = Positive(typical=(0.1, 5.0), example=2.0, unit="gradient per parameter", doc="curvature of the mode")
    noise = Positive(typical=(0.1, 3.0), example=0.5, unit="gradient", doc="noise of one gradient")
    step = Positive(example=0.15, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        """Cycles of longer steps grow without end."""
        limit = 2.0 / self.updates / self.curvature
        bound = f"below {limit:.6g} = 2/(updates curvature)"
        checks.require(self.step < limit, "step", self.step, bound, "publish more often")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Inside the boundary, which the updates and the curvature set."""
        updates, curvature, noise = draw(cls.updates), draw(cls.curvature), draw(cls.noise)
        step = draw(Real(typical=(0.02, 0.98))) * 2.0 / updates / curvature
        return {"updates": updates, "curvature": curvature, "noise": noise, "step": step}

    @property
    def share(self) -> float:
        return self.step * self.curvature


def _quantities(s: _Setting, energy: float, inside: float, across: float, lag1: float) -> dict[str, float]:
    """A cycle of one update has no two gradients; with two the mean of neighbors is exactly 0, which has no scale."""
    values = {"amplification": energy, "across": across}
    if s.updates > 1:
        values["inside"] = inside
    if s.updates != 2:
        values["lag1"] = lag1
    return values


def _predict(s: _Setting) -> dict[str, float]:
    n, a = s.updates, s.share
    rho = a / (2.0 - (n - 1) * a)
    return _quantities(s, (2.0 - (n - 1) * a) / (2.0 - n * a), rho, -rho, (n - 2) * rho / n)


def _cross_check(s: _Setting) -> dict[str, float]:
    """The state (x, published x) through every update of a cycle, with the last publish folded in."""
    # Write every update as a linear move.
    n = s.updates
    moves = [np.array([[1.0, -s.share], [0.0, 1.0]])] * n
    moves[-1] = np.array([[1.0, 0.0], [1.0, 0.0]]) @ moves[-1]
    pushes = [np.array([-s.step, 0.0])] * (n - 1) + [np.array([-s.step, -s.step])]
    # Compose the moves of one cycle.
    cycle, noise = np.eye(2), np.zeros((2, 2))
    for move, push in zip(moves, pushes, strict=True):
        cycle, noise = move @ cycle, move @ noise @ move.T + s.noise**2 * np.outer(push, push)
    # At a cycle's start both coordinates are equal; the singular direction has factor 0 and does no harm.
    law, readout = solve_discrete_lyapunov(cycle, noise), np.array([0.0, s.curvature])
    # Follow covariances through this cycle and the next.
    power, products = float(readout @ law @ readout) + s.noise**2, np.zeros((n, 2 * n))
    for phase in range(n):
        covariance = moves[phase] @ law @ readout + s.noise**2 * pushes[phase]
        for lag in range(1, 2 * n - phase):
            products[phase, lag] = readout @ covariance / power
            covariance = moves[(phase + lag) % n] @ covariance
        law = moves[phase] @ law @ moves[phase].T + s.noise**2 * np.outer(pushes[phase], pushes[phase])
    # Average pairs by the publish between them.
    phases, lags = np.indices(products.shape)
    last = phases + lags
    inside, across = products[(lags > 0) & (last < n)], products[(last >= n) & (last < 2 * n)]
    inside_mean = float(inside.mean()) if n > 1 else 0.0
    return _quantities(s, power / s.noise**2, inside_mean, float(across.mean()), float(products[:, 1].mean()))


def _refresh_ignored(s: _Setting) -> dict[str, float]:
    """Neighbors across a publish counted as if they were of one cycle."""
    prediction = _predict(s)
    return prediction | ({"lag1": -prediction["across"]} if "lag1" in prediction else {"across": -prediction["across"]})


def _largest_delay(s: _Setting) -> dict[str, float]:
    """One update fewer in the cycle."""
    n, a = s.updates, s.share
    rho = a / (2.0 - n * a)
    return _quantities(s, (2.0 - n * a) / (2.0 - (n + 1) * a), rho, -rho, (n - 1) * rho / (n + 1))


claim = stated(
    id="alignment/sawtooth-cosine",
    statement="gradients correlate at `a/(2-(s-1)a)` inside a publish cycle of `s` updates and at minus that with the "
    "next",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: cycle starts are an AR(1) of factor 1 - s a",
    formula_defects={
        "publish between neighbors ignored": _refresh_ignored,
        "cycle counted one update longer": _largest_delay,
    },
)
