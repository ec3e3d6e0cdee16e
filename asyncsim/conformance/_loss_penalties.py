"""The penalty in a loss: what weight tokens have that have no advantage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from asyncsim.base import plugins
from asyncsim.conformance._loss_curves import Curves, tidy

_SHAPES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "k1": lambda x: -np.ones_like(x),
    "k2": lambda x: -x,
    "k3": lambda x: -(1.0 - np.exp(-x)),
}
_AT = np.array([-1.5, -0.7, -0.2, 0.0, 0.3, 0.9, 1.6])


def idle(curves: Curves, ladder: str) -> np.ndarray:
    """Weights of tokens with A = 0, in units of what an advantage of 1 adds at log ratio 0."""
    both = float(curves.at("drift", 1, 0.0)[0]), float(curves.at("drift", 0, 0.0)[0])
    found: np.ndarray = curves.at(ladder, 0, _AT) / ((both[0] - both[1]) or 1.0)
    return found + 0.0


def shape_of(curves: Curves) -> tuple[str, str, float] | None:
    """Name of the penalty, the policy that it refers to and its coefficient; None where nothing known fits."""
    found = idle(curves, "drift")
    if not np.isfinite(found).all() or np.abs(found).max() < 1e-12:
        return None
    for name, shape in _SHAPES.items():
        wanted = shape(_AT)
        coefficient = float(found @ wanted / (wanted @ wanted))
        if np.abs(found - coefficient * wanted).max() < 1e-6 * np.abs(found).max():
            moved = float(np.ptp(idle(curves, "snapshot"))) > 1e-12
            return name, "proximal" if moved else "behavior", tidy(coefficient)
    return None


def penalty_of(curves: Curves) -> Any:
    """The penalty as a part of a method; None where there is none, or none that is known."""
    found = shape_of(curves)
    if found is None or found[2] <= 0:
        return None
    name, to, coefficient = found
    if name not in plugins.summaries("asyncsim.penalties"):
        return None
    return plugins.load("asyncsim.penalties", name, "penalty")(coefficient, to=to)
