r"""When a run has collapsed, and what the horizon of a score is worth by itself.

Returns of 1 fall to f < 1/2 at update s. The mean of the last w is below half of its peak once k of them are low, (w -
k + k f)/w < 1/2, so k > w/(2 (1 - f)) and t_c = s + floor(w/(2 (1 - f))). Scores that are maxima of n_+ and of n_-
independent equal draws tell collapse with area n_+/(n_+ + n_-), the chance that the largest of all stands among the
n_+; "longer_above" is the rest, n_-/(n_+ + n_-). Runs cut at times of collapses give 1/2. Derivation: exchangeability.
Domain: w/(2 (1 - f)) is no whole number, and the run goes on behind t_c. Second route: trailing means update by update;
the integral of P(max_- < u) over the law of max_+. Source: derived.
"""

from __future__ import annotations

import math

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Real
from asyncsim.theory._stated import stated


class _Setting(Declared):
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


def _time(s: _Setting) -> int:
    return s.fall + math.floor(s.window / (2.0 * (1.0 - s.left)))


def _quantities(time: float, matched: float, unmatched: float) -> dict[str, float]:
    return {"collapse": float(time), "area_matched": matched, "longer_above": 1.0 - unmatched}


def _predict(s: _Setting) -> dict[str, float]:
    time = _time(s)
    return _quantities(time, 0.5, time / (time + s.length))


def _cross_check(s: _Setting) -> dict[str, float]:
    returns = np.where(np.arange(s.length) < s.fall, 1.0, s.left)
    means = np.array([returns[max(0, t + 1 - s.window) : t + 1].mean() for t in range(s.length)])
    high = np.flatnonzero(means >= 0.5)
    time = int(high[-1]) + 1
    nodes, weights = np.polynomial.legendre.leggauss(time + s.length)
    u, share = (nodes + 1.0) / 2.0, weights / 2.0
    # Chance that all other draws lie below the largest, which has density n u^(n-1).
    equal, longer = (float(share @ (time * u ** (time - 1 + n))) for n in (time, s.length))
    return _quantities(time, equal, longer)


claim = stated(
    id="predictor/protocol",
    statement="maxima over `n_+` and `n_-` updates tell collapse with area `n_+/(n_+ + n_-)` by chance, `1/2` "
    "where cut; "
    "a fall to the share `f` counts `floor(w/(2 (1 - f)))` updates later",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived",
    formula_defects={
        "area 1/2 whatever the horizons": lambda s: _quantities(_time(s), 0.5, 0.5),
        "horizons exchanged": lambda s: _quantities(_time(s), 0.5, s.length / (_time(s) + s.length)),
        "collapse at the fall": lambda s: _quantities(s.fall, 0.5, s.fall / (s.fall + s.length)),
    },
)
