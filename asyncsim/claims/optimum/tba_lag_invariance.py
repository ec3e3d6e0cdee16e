r"""Without noise, trajectory balance converges to reference e^{r/beta}, and its step limit ignores staleness.

trajectory balance on data of any staleness converges to `reference * e^(r/beta)`, without noise; it is stable iff `step
* lambda_max(F) < 1`, with `F` at that optimum, or at the policy of frozen data

A group's residuals are x_a = r_a/beta - log(pi_a / reference_a), less their mean over the group; the direction is 2
E_mu[x score]. All are 0 at pi* ~ reference e^{r/beta}, so nothing is left to sample, and how data were drawn does not
matter there. Logits enter x linearly: with theta = theta* + y the direction is -2 F(mu) y, F = diag mu - mu mu^T. So
lagged data, whose mu tends to pi*, are stable near the optimum for step lambda_max(F(pi*)) < 1, and frozen data for
step lambda_max(F(mu)) < 1. Domain: one softmax of full support, means within the group, rewards without noise, every
arm above 1e-6 at the optimum. Second route: pi* by linear equations, complex-step Jacobians of the field in both
policies, radius of the companion matrix.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._bandit import Arms, arm_rewards, complex_gradient, fisher, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Positive, Staleness, Vector, checks, indexed, replaced
from asyncsim.claims._delay import critical
from asyncsim.claims._recursion import radius

_UPDATES, _LENGTH, _SAMPLES = 200, 60, 8
_TOLERANCE, _RESOLUTION, _NUDGE, _FLOOR = 1e-4, 0.004, 1e-5, 1e-12
_RATES = np.geomspace(1.9, 60.0, 1200)
"""No two neighbors differ by more than the resolution; no limit is below 2, since lambda_max(F) <= 1/2."""
_BETA = 0.5
_ARMS = {"rewards": (0.0, 0.5, 1.0), "reference_logits": (0.5, 0.0, -0.3), "behavior_logits": (1.6, -0.9, 0.2)}
_POINT = {**_ARMS, "beta": _BETA, "staleness": 5}


class TbaLagInvariance(Arms, Claim):
    kind, source = "identity", "arXiv 2503.18929 (method); derived"
    relative_to = "norm"

    rewards = arm_rewards(0.0, 0.5, 1.0, doc="rewards of the arms")
    reference_logits = Vector(typical=(-1.0, 1.0), example=(0.5, 0.0, -0.3), doc="logits of the reference policy")
    behavior_logits = Vector(typical=(-1.0, 1.0), example=(1.6, -0.9, 0.2), doc="initial logits")
    beta = Positive(typical=(0.5, 2.0), example=0.4, unit="reward per nat", doc="KL coefficient")
    staleness = Staleness(0, 64, typical=(0, 8), example=5)

    def joint(self) -> None:
        self.optimum = softmax(self.reference_logits + self.rewards / self.beta)
        least = float(self.optimum.min())
        self.require(least > 1e-6, "beta", "large enough that every arm keeps 1e-6", "raise beta")

        # lambda_max(F) at the optimum and at the behavior.
        at = (self.optimum, softmax(self.behavior_logits))
        self.largest = [float(np.linalg.eigvalsh(fisher(p))[-1]) for p in at]

    def _field(s, current: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        pi, mu = softmax(current), softmax(behavior)
        residual = s.rewards / s.beta - np.log(pi) + np.log(softmax(s.reference_logits))
        weight = 2.0 * mu * (residual - mu @ residual)
        return weight - weight.sum() * pi

    def predict(s) -> dict[str, float]:
        return indexed("pi", s.optimum) | {"lagged_step": 1.0 / s.largest[0], "frozen_step": 1.0 / s.largest[1]}

    def check(s) -> dict[str, float]:
        # Equal residuals: r/beta - log pi + log reference is the same for every arm; the first logit is held at 0.
        A = s.rewards.size
        relative = np.eye(A)[1:] - np.eye(A)[0]
        theta = np.linalg.lstsq(relative, relative @ (s.rewards / s.beta + s.reference_logits), rcond=None)[0]
        # Logits matter up to a constant: the direction (1, .., 1) has no dynamics and is projected out.
        basis = np.linalg.qr(np.column_stack([np.ones(A), np.eye(A)[:, 1:]]))[0][:, 1:]

        def jacobian(at: np.ndarray, behavior: np.ndarray) -> np.ndarray:
            return basis.T @ complex_gradient(lambda x: s._field(x, behavior), at) @ basis

        now = jacobian(theta, theta)
        then = basis.T @ complex_gradient(lambda x: s._field(theta, x), theta) @ basis
        lagged = float(brentq(lambda x: radius(then, x, s.staleness, now) - 1.0, 0.5, 1e9, xtol=1e-14, rtol=1e-14))
        offline = jacobian(np.cos(np.arange(A)), s.behavior_logits)
        frozen = 2.0 / float(np.abs(np.linalg.eigvals(offline)).max())
        return indexed("pi", softmax(theta)) | {"lagged_step": lagged, "frozen_step": frozen}

    wrong = {"limit that falls with the lag": lambda s: {"lagged_step": 0.5 * critical(s.staleness) / s.largest[0]}}

    points = (_POINT,)
    more = (
        {**_POINT, "staleness": 0, "beta": 1.0},
        {**_POINT, "staleness": 24},
        {**_POINT, "rewards": (1.0, 0.2, 0.0), "staleness": 8},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, start = point["rewards"], np.array(point["behavior_logits"])
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed", reference=point["reference_logits"])
        method, lagged = sim.methods.tba(point["beta"]), lab.fixed(point["staleness"])
        # The product itself computes the optimum; a step of 1 shrinks deviations for every behavior.
        plain = lab.ascent(task, sim.schedules.frozen(), method, 1.0, _UPDATES, initial=start)
        sampled = plain.replace(system=lagged, sampling="monte_carlo", samples_per_group=_SAMPLES)
        optimum = lab.settled(
            lambda n: lab.running.run(plain.replace(updates=n), progress=False).parameters[0], _UPDATES, 1e-6
        )
        end = lab.settled(
            lambda n: lab.probabilities(lab.run(sampled.replace(updates=n), seed, plant).parameters[0]), _UPDATES, 1e-5
        )

        def limit(system: Any, initial: np.ndarray) -> Estimate:
            options = {"initial": initial, "replicates": _RATES.size, "diagnostics": ["gradient_norm"]}
            trace = lab.run(lab.ascent(task, system, method, tuple(_RATES), _LENGTH, **options), seed, plant)
            # The fastest mode changes sign in every update. One that grew until an arm vanished stands still far away.
            size, away = trace["gradient_norm"], np.linalg.norm(trace.parameters - optimum, axis=1)
            shrunk = (size[-1] < size[-3]) | (size[-1] < _FLOOR)
            stable = shrunk & (away < 10.0 * np.linalg.norm(initial - optimum))
            both, bound = bool(stable[0]) and not bool(stable[-1]), f"between {_RATES[0]:g} and {_RATES[-1]:g}"
            remedy = "make no arm much rarer than the others"
            checks.require(both, "largest stable step", "outside the grid", bound, remedy)
            low, high = _RATES[np.argmin(stable) - 1], _RATES[np.argmin(stable)]
            return Estimate(float(np.sqrt(low * high)), tolerance=_RESOLUTION * float(high))

        nudge = np.linspace(-_NUDGE, _NUDGE, len(rewards))
        steps = {"lagged_step": limit(lagged, optimum + nudge), "frozen_step": limit(sim.schedules.frozen(), start)}
        return {**lab.arms("pi", end, _TOLERANCE), **steps}

    defects = {"frozen data refreshed": lambda: replaced(system=lab.fixed(0))}
