r"""For gradient descent with biased gradients, the bound on the mean squared gradient adds the mean squared bias.

for `a <= 1/L`, descent on biased gradients has a mean squared gradient `<= 2 Delta/(a T) + mean |b|^2 + a L s^2`

(1/T) sum_t E|grad f(x_t)|^2 <= 2 Delta/(step T) + (1/T) sum_t E|b_t|^2 + step L noise^2 for step <= 1/L, with b_t =
E[g_t | past] - grad f(x_t). Derivation: smoothness and <u, u + b> = (|u|^2 + |u + b|^2 - |b|^2)/2 for u = grad f(x_t);
the part (1 - step L) |u + b|^2 is left out, and f(x_T) set to its least value. Evaluated for f = L x^2/2 from x =
start, where g_t is read `staleness` updates ago: b_t = L (x_{t-tau} - x_t), of which the bound needs no condition on
the staleness. Attained at step 1/L where x_T = 0; at staleness 1 the bias then carries nearly all of it. Domain: the
step condition, noise of variance at most noise^2. Second route: the impulse response of the recursion gives E|b_t|^2
update by update, against moments of a covariance recursion.
"""

import math

import numpy as np

from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, Staleness, lab
from asyncsim.claims.convergence._descent import Descent

_FRESH = {"curvature": 1.0, "staleness": 0, "step": 1.0, "noise": 1.0, "start": 0.0, "updates": 400}
_BIASED = {**_FRESH, "staleness": 1, "noise": 0.0, "start": 1.0, "updates": 601}
"""The path 1, 0, -1, -1, 0, 1 repeats: bias and gradient are of one size."""


class BiasedGradient(Descent, Claim):
    kind, source = "bound", "elementary"

    staleness = Staleness(0, 64, typical=(0, 6), example=1)
    step = Positive(example=0.4, unit="parameter per gradient", doc="learning rate")
    updates = Count(1, 5000, typical=(1, 60), example=8, unit="updates", doc="length of the run")

    def joint(self) -> None:
        # At the largest allowed step the product may round to just above 1.
        small = self.step * self.curvature <= 1.0 + 1e-12
        self.require(small, "step", f"at most 1 / L = {1.0 / self.curvature:.6g}", "lower it")

    def predict(s, bias: float = 1.0, noise: float = 1.0, descent: float = 2.0) -> dict[str, float]:
        """Predict with E|b_t|^2 equal to the squared mean plus squared differences of the impulse response."""
        a, tau = s.step * s.curvature, s.staleness
        mean, impulse = np.full(s.updates + tau, s.start), np.zeros(s.updates + tau)
        # Entry tau + t is at update t. Noise of update -1 would be the impulse: it has moved x_0 by 1.
        impulse[tau] = 1.0
        for t in range(tau, s.updates + tau - 1):
            mean[t + 1] = mean[t] - a * mean[t - tau]
            impulse[t + 1] = impulse[t] - a * impulse[t - tau]
        gap, spread = (path[: s.updates] - path[tau:] for path in (mean, impulse))
        energy = np.concatenate([[0.0], np.cumsum(spread[:-1] ** 2)])
        squares = s.curvature**2 * (gap**2 + (s.step * s.noise) ** 2 * energy)
        first, floor = s.curvature * s.start**2 / 2.0, noise * s.step * s.curvature * s.noise**2
        return {"bound": descent * first / (s.step * s.updates) + bias * float(squares.mean()) + floor}

    def check(s) -> dict[str, float]:
        """Sum the bound over updates, with the covariance matrix of iterates (newest first) propagated."""
        size, a = s.staleness + 1, s.step * s.curvature
        companion = np.eye(size, k=-1)
        companion[0, 0] = 1.0
        companion[0, -1] -= a
        moments = np.full((size, size), s.start**2)
        terms, gradients = [s.curvature * s.start**2 / (s.step * s.updates)], []
        for _ in range(s.updates):
            gradients.append(s.curvature**2 * moments[0, 0] / s.updates)
            squared = moments[0, 0] + moments[-1, -1] - 2.0 * moments[0, -1]
            terms += [s.curvature**2 * squared / s.updates, a * s.noise**2 / s.updates]
            moments = companion @ moments @ companion.T
            moments[0, 0] += (s.step * s.noise) ** 2
        bound, exact = math.fsum(terms), math.fsum(gradients)
        # Rounding must not make a bound that is attained count as exceeded.
        return {"bound": bound if exact <= bound * (1.0 + 1e-12) else exact}

    wrong = {"bias forgotten": lambda s: s.predict(bias=0.0)}

    terms = {
        "initial gap": lambda s, factor: s.predict(descent=2.0 * factor),
        "bias": lambda s, factor: s.predict(bias=factor),
        "noise": lambda s, factor: s.predict(noise=factor),
    }

    points = (_FRESH, {**_FRESH, "start": 50.0, "updates": 4}, _BIASED, {**_BIASED, "start": 3.0, "updates": 160})
    more = ({**_BIASED, "curvature": 2.0, "step": 0.5, "start": -3.0},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        bound = lab.quadratics.mean_square(point, lab.fixed(point["staleness"]), 4, effect, seed, plant)["bound"]
        # Where the bound is attained, rounding decides which is larger.
        return {"bound": bound._replace(tolerance=1e-9 * abs(bound.value))}

    defects = {"off-by-one version": lambda: lab.off_by_one_version, "momentum inserted": lambda: lab.momentum_inserted}
