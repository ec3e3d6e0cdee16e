r"""A small step changes the entropy by a covariance of log pi with the change of logits, not with the advantages.

a step changes the entropy by `-step * Cov_pi(log pi, y)`, with `y` the direction of the logits: `mu (r - mu.r)` for
REINFORCE on data of `mu`, the advantages `r - pi.r` for the natural gradient

Logits that move by step y change the entropy of one softmax by dH = -step Cov_pi(log pi, y) to first order: dpi = step
pi (y - pi . y) and dH = -sum dpi log pi. REINFORCE with the mean as baseline on data of mu moves by y = mu (r - mu .
r). Only the natural gradient moves by y = A = r - pi . r. The form with A is often quoted for both, and can even have
the other sign. Regression on fresh data solved fully, pi' ~ pi e^{r/beta}, is that natural step of length 1/beta.
Domain: one softmax, every sample counted. Second route: complex-step derivative of the entropy along the gradient of
E_mu[(r - mu . r) log pi], and along pi e^{step r}.
"""

from typing import Any

import numpy as np

from asyncsim.claims._bandit import PolicyPair, complex_gradient, softmax
from asyncsim.claims._claim import PAIR, Claim, Estimate, Plant, Point, Vector, lab, replaced, sim

_STEP, _UPDATES, _BETAS = 1e-3, 300, np.array([50.0, 100.0])
_POINT = {**PAIR, "rewards": (0.2, 1.0, 0.5)}
_FRESH = (0.7, 1.4, -0.9)
# Here entropy falls with the policy gradient and rises with the natural one, on fresh data.
_APART = {"behavior_logits": _FRESH, "current_logits": _FRESH, "rewards": (0.0, 0.4, 0.9)}


def _change(p: np.ndarray, y: np.ndarray) -> float:
    """Change of entropy to first order, -Cov_p(log p, y)."""
    return -float(p @ (np.log(p) * (y - p @ y)))


class EntropyDerivative(PolicyPair, Claim):
    kind, source = "expectation", "derived; quoted form arXiv 2510.18927"
    through = "loop, oracle"

    rewards = Vector(typical=(0.0, 1.0), example=(0.2, 1.0, 0.5), unit="reward", doc="rewards of the arms")

    def predict(s) -> dict[str, float]:
        move = s.mu * (s.rewards - s.mu @ s.rewards)
        return {"policy_gradient": _change(s.pi, move), "natural_gradient": _change(s.pi, s.rewards)}

    def check(s) -> dict[str, float]:
        def entropy_at(logits: np.ndarray) -> np.ndarray:
            p = softmax(logits)
            return -(p * np.log(p)).sum()

        def objective(logits: np.ndarray) -> np.ndarray:
            return (s.mu * (s.rewards - s.mu @ s.rewards) * np.log(softmax(logits))).sum()

        def along(y: np.ndarray) -> float:
            return float(complex_gradient(lambda step: entropy_at(s.current_logits + step * y), np.zeros(1))[0])

        plain = along(complex_gradient(objective, s.current_logits))
        return {"policy_gradient": plain, "natural_gradient": along(s.rewards)}

    wrong = {"natural form for the policy gradient": lambda s: {"policy_gradient": _change(s.pi, s.rewards)}}

    points = (_POINT, _APART)
    more = ({**_POINT, "rewards": (1.0, 0.1, 0.4)},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rewards, (now, then) = point["rewards"], lab.places(point)
        task = sim.tasks.softmax_bandit(len(rewards), rewards, rewards="fixed")
        spec = plant(lab.population(task, sim.methods.reinforce(sim.advantages.group_mean())))

        def entropy(parameters: Any) -> np.ndarray:
            bonus = sim.methods.reinforce(entropy=1.0)  # only so that the step holds the entropy
            step = sim.oracle.population_step(spec.task, bonus, parameters, parameters, spec.policy)
            return sim.diagnostics.entropy.measure(step).numpy()

        # A step of either sign along the method's gradient: the error is that of a third derivative.
        gradient = sim.oracle.limit(spec.task, spec.method, now, then, spec.policy)
        both = entropy(now + np.outer((1.0, -1.0), _STEP * gradient))
        plain = float(both[0] - both[1]) / (2.0 * _STEP)
        # A regression that is solved fully moves logits by r/beta; two values of beta give the limit of small steps.
        # Momentum solves it for rare arms too.
        links = sim.chain(sim.updates.momentum(0.9), sim.updates.sgd(tuple(1.5 / _BETAS**2)))

        def changed(count: int) -> np.ndarray:
            method, settings = sim.methods.oapl(tuple(_BETAS)), {"replicates": _BETAS.size, "initial": now}
            spec = lab.ascent(task, sim.schedules.frozen(), method, 1.0, count, **settings)
            return (entropy(lab.run(spec.replace(update=links), seed, plant).parameters) - entropy(now)) * _BETAS

        few = float(np.abs(changed(_UPDATES)).max())
        coarse, fine = map(float, lab.settled(changed, _UPDATES, 3e-4 * few))
        natural = 2.0 * fine - coarse
        return {
            "policy_gradient": Estimate(plain, tolerance=1e-4 * abs(plain)),
            "natural_gradient": Estimate(natural, tolerance=0.05 * abs(fine - coarse) + 1e-3 * abs(natural)),
        }

    defects = {
        "ratio inserted": lambda: lab.with_method(weight=lab.Ratio("sequence", None)),
        "regression never solved": lambda: replaced(system=lab.fixed(0)),
    }
