r"""The cosine of consecutive gradients shows no more than their norms do: both measure one signal against noise.

the norms of consecutive gradients determine their cosine, `sqrt((1 - n^2/|g_t|^2) (1 - n^2/|g_(t-1)|^2))`

g_t = m_t u + xi_t with a fixed direction u and noise of energy n^2 = P sigma^2/N in P coordinates. As P grows
<g_t, g_{t-1}> -> m_t m_{t-1} and |g_t|^2 -> m_t^2 + n^2, so |c_t| = sqrt((1 - n^2/|g_t|^2)(1 - n^2/|g_(t-1)|^2)), up to
terms of order 1/P in the mean. Here m_t = curvature x_{t-tau} with x_{t+1} = x_t - step m_t from x = start. Domain: one
mode, noise alike in all coordinates, m_t^2 >= 2 n^2, step so small that noise moves nothing. Second route: lengths and
angles of explicit vectors, signal and orthogonal noise. Source: derived.

Near the noise, as an alarm, one cosine is worth both norms and more than one of them. With k = m^2 sqrt(P)/n^2 its area
against runs without signal tends to Phi(k/sqrt 2), as that of the two squared norms' sum; one norm has Phi(k/2). A test
compares them through the loop; as a claim, 2 percent of an area would take a billion draws.
"""

import numpy as np

from asyncsim.claims._claim import Claim, Count, Estimate, Point, Positive, Staleness, indexed, lab, sim
from asyncsim.claims._trial import Plant, replaced, units_for, within

_PARAMETERS, _FLAT = 1000, 1e-9
_SPREAD = 0.05
"""Of one replicate, relative: noise crosses the signal with 1/sqrt(P) of its length (measured: at most 0.03)."""
_FINITE = 2e-3
"""Allowance for terms of order 1/P, relative: 1000 coordinates."""
_STALE = {"staleness": 2, "share": 0.06, "signal": 2.5, "samples": 1, "updates": 8}


class CosineEqualsNorm(Claim):
    kind, status, source, through = "expectation", "asymptotic", "derived", "loop"

    staleness = Staleness(0, 32, typical=(0, 4), example=2)
    share = Positive(typical=(0.01, 0.06), example=0.06, doc="step * curvature of the mode")
    signal = Positive(typical=(2.5, 5.0), example=2.5, doc="initial gradient of the mode / norm of the noise")
    samples = Count(1, 64, typical=(1, 8), example=2, doc="samples of a batch, over which noise is averaged")
    updates = Count(2, 64, typical=(2, 8), example=6, unit="updates", doc="updates; the last two are compared")

    def joint(self) -> None:
        self.require(self.share <= 0.1, "share", "at most 0.1", "noise moves the mode at larger steps")
        bound = "such that m_t^2 stays above 2 n^2"
        self.require(min(self._signal()) ** 2 >= 2.0, "signal", bound, "raise signal or lower share")

    def _signal(s) -> list[float]:
        """Mean gradient m_t at the last update and at the one before, in units of n."""
        places = [1.0]
        for t in range(s.updates):
            places.append(places[-1] - s.share * places[max(0, t - s.staleness)])
        return [s.signal * places[max(0, t - s.staleness)] for t in (s.updates - 1, s.updates - 2)]

    def predict(s) -> dict[str, float]:
        squares = np.array([m**2 + 1.0 for m in s._signal()])
        return {"cosine": float(np.sqrt(np.prod(1.0 - 1.0 / squares))), **indexed("norm", np.sqrt(squares))}

    def check(s) -> dict[str, float]:
        now, before = (np.array([m, *noise]) for m, noise in zip(s._signal(), ((1.0, 0.0), (0.0, 1.0)), strict=True))
        lengths = [float(np.linalg.norm(g)) for g in (now, before)]
        return {"cosine": float(now @ before) / (lengths[0] * lengths[1]), **indexed("norm", lengths)}

    wrong = {
        "noise forgotten": lambda s: {"cosine": 1.0},
        "one norm in place of both": lambda s: {"cosine": float(np.sqrt(1.0 - 1.0 / (s._signal()[0] ** 2 + 1.0)))},
    }

    points = ({"staleness": 0, "share": 0.05, "signal": 2.0, "samples": 2, "updates": 4}, _STALE)
    reach = staticmethod(within(samples=16))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        """Start the one curved mode where its gradient is `signal` times the noise norm of a batch's gradient."""
        noise = np.sqrt(_PARAMETERS / point["samples"])
        modes, start = (1.0,) + (_FLAT,) * (_PARAMETERS - 1), float(point["signal"] * noise)
        replicates = max(16, units_for(_SPREAD, effect - 2.0 * _FINITE, 3 * len(self.points)))
        settings = {"samples_per_group": point["samples"], "updates": point["updates"], "replicates": replicates}
        task, link = sim.tasks.quadratic(modes, noise=1.0, start=start), sim.updates.sgd(point["share"])
        spec = lab.descent(task, lab.fixed(point["staleness"]), link, **settings)
        trace = lab.run(spec.replace(diagnostics=["gradient_norm", "gradient_cosine"]), seed, plant)
        found = {"cosine": lab.between(np.abs(trace["gradient_cosine"][-1]))}
        found |= {f"norm[{k}]": lab.between(trace["gradient_norm"][-1 - k] / noise) for k in range(2)}
        return {name: one._replace(tolerance=_FINITE * one.value) for name, one in found.items()}

    defects = {
        "one sample more in a batch": lambda: replaced(samples_per_group=3),
        "off-by-one version": lambda: (lab.off_by_one_version, _STALE),
        "momentum inserted": lambda: (lab.momentum_inserted, _STALE),
    }
