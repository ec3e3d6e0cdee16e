r"""When a run has collapsed, and what the horizon of a score is worth by itself.

Returns of 1 fall to f < 1/2 at update s. The mean of the last w is below half of its peak once k of them are low, (w -
k + k f)/w < 1/2, so k > w/(2 (1 - f)) and t_c = s + floor(w/(2 (1 - f))). Scores that are maxima of n_+ and of n_-
independent equal draws tell collapse with area n_+/(n_+ + n_-), the chance that the largest of all stands among the
n_+; "longer_above" is the rest, n_-/(n_+ + n_-). Runs cut at times of collapses give 1/2. Derivation: exchangeability.
Domain: w/(2 (1 - f)) is no whole number, and the run goes on behind t_c. Second route: trailing means update by update;
the integral of P(max_- < u) over the law of max_+. Source: derived.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.base import checks
from asyncsim.base.declared import Count, Real
from asyncsim.base.records import Estimate, Point
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim
from asyncsim.claims._trial import Defect, Plant, units_for


def _time(s: Protocol) -> int:
    return s.fall + math.floor(s.window / (2.0 * (1.0 - s.left)))


def _quantities(time: float, matched: float, unmatched: float) -> dict[str, float]:
    return {"collapse": float(time), "area_matched": matched, "longer_above": 1.0 - unmatched}


_SPREAD = 0.21
"""Of one run of each kind, in the share of pairs whose longer run scores higher, over that share: at most 0.18 at the
points below."""
_Asked = Callable[..., Any]


def _uncut(ask: _Asked) -> _Asked:
    """Healthy runs are watched to their end."""
    return lambda *runs, **options: ask(*runs, **options | {"cut": "end"})


def _early(ask: _Asked) -> _Asked:
    """Collapse at the first low return."""

    def asked(*runs: Any, **options: Any) -> lab.Prediction:
        return ask(*runs, **options | {"window": 1})

    return asked


_POINT: dict[str, Any] = {"fall": 12, "window": 5, "left": 0.15, "length": 200}


class Protocol(Claim):
    """maxima over `n_+` and `n_-` updates tell collapse with area `n_+/(n_+ + n_-)` by chance, `1/2` where cut; a
    fall to the share `f` counts `floor(w/(2 (1 - f)))` updates later
    """

    kind, source = "expectation", "derived"
    through = "predict"

    fall = Count(2, typical=(26, 60), example=12, unit="updates", doc="updates before the return falls")
    window = Count(1, typical=(1, 12), example=5, unit="updates", doc="updates over which returns are averaged")
    left = Real(0.0, 0.49, typical=(0.0, 0.4), example=0.15, doc="return that is left, of what was gained")
    length = Count(4, typical=(100, 200), example=96, unit="updates", doc="updates of a run that does not collapse")

    def joint(self) -> None:
        """No tie decides, and the run goes on behind its collapse."""
        ratio = self.window / (2.0 * (1.0 - self.left))
        clear = abs(ratio - round(ratio)) > 1e-6
        checks.require(clear, "left", self.left, "such that window/(2 (1 - left)) is no whole number", "move it")
        late = self.fall >= 2 * self.window + 2 and self.length > self.fall + 2 * self.window
        bound = f"at least {2 * self.window + 2}, with `length` above fall + {2 * self.window}"
        checks.require(late, "fall", self.fall, bound, "let runs learn before they fall, and go on behind it")

    def predict(s) -> dict[str, float]:
        time = _time(s)
        return _quantities(time, 0.5, time / (time + s.length))

    def check(s) -> dict[str, float]:
        returns = np.where(np.arange(s.length) < s.fall, 1.0, s.left)
        means = np.array([returns[max(0, t + 1 - s.window) : t + 1].mean() for t in range(s.length)])
        high = np.flatnonzero(means >= 0.5)
        time = int(high[-1]) + 1
        nodes, weights = np.polynomial.legendre.leggauss(time + s.length)
        u, share = (nodes + 1.0) / 2.0, weights / 2.0
        # Chance that all other draws lie below the largest, which has density n u^(n-1).
        equal, longer = (float(share @ (time * u ** (time - 1 + n))) for n in (time, s.length))
        return _quantities(time, equal, longer)

    wrong = {
        "area 1/2 whatever the horizons": lambda s: _quantities(_time(s), 0.5, 0.5),
        "horizons exchanged": lambda s: _quantities(_time(s), 0.5, s.length / (_time(s) + s.length)),
        "collapse at the fall": lambda s: _quantities(s.fall, 0.5, s.fall / (s.fall + s.length)),
    }

    points = (_POINT, {"fall": 10, "window": 4, "left": 0.3, "length": 160})

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        half = units_for(_SPREAD, effect, 3 * len(Protocol.points))
        values = lab.noise.noise(seed, point["length"], 2 * half)
        # Both kinds of runs have the same numbers: what tells them apart can only be the times at which they are read.
        same = np.tile(values[:, :half], 2)
        asked = functools.partial(
            sim.predicting.predict,
            signal=sim.predicting.Signal("noise", window=1),
            start=0.0,
            best=1.0,
            lead=(0,),
            confirm=0,
        )
        ask: _Asked = plant(functools.partial(asked, window=point["window"]))
        matched = ask(lab.noise.columns(same, point["fall"], point["left"]))
        unmatched = ask(lab.noise.columns(values, point["fall"], point["left"]), cut="end").alarms["noise"].area[0]
        return {
            "collapse": Estimate(float(matched.course.collapsed[:half].mean()), tolerance=1e-9, samples=half),
            "area_matched": Estimate(matched.alarms["noise"].area[0].value, tolerance=1e-9, samples=2 * half),
            "longer_above": unmatched._replace(value=1.0 - unmatched.value),
        }

    @staticmethod
    def defects() -> dict[str, Defect]:
        return {
            "healthy runs never cut": Defect(_uncut, _POINT),
            "collapse at the first low return": Defect(_early, _POINT),
        }
