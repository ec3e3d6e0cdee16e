r"""A proximal policy that is interpolated by staleness shifts all log ratios of the clip by the same constant.

interpolating the proximal policy shifts all log ratios of the clip by the same amount, `(1 - alpha) D_alpha(pi || mu)`

Logits move steadily from mu to pi in d versions. The true snapshot is the version before pi, at the share alpha = 1 -
1/d of the way; A-3PO takes log pi_prox = alpha log pi + (1 - alpha) log mu, which is not normalized. So the clip sees
`seen` = log(pi/mu)/d in place of log(pi/pi_prox) of the true one, too large by `shift` = -log sum_a pi_a^alpha mu_a^(1
- alpha) = (1 - alpha) D_alpha(pi || mu) >= 0 for every action alike (D_alpha: Renyi divergence), near alpha (1 - alpha)
Var_pi(difference of logits)/2. The gate for A > 0 closes a little early, the one for A < 0 a little late; what is let
through has the full ratio and no error. Derivation: both are log-linear in the action, so they differ by their
normalizers. Domain: one softmax, a straight path of logits, d >= 2 (at 1 both are mu), log ratios below 20. On other
paths it is an approximation. Second route: the snapshot's own log-probs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import log_softmax

from asyncsim.claims._bandit import PolicyPair
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Staleness, indexed, lab, sim

_POINT = {"behavior_logits": (0.3, -0.2, 0.5), "current_logits": (1.5, -0.9, 0.1), "staleness": 4}


def _seen(method: lab.Method, log_probs: tuple[lab.Tensor, ...], staleness: int) -> np.ndarray:
    """Log of the ratio that the clip uses for each action, `[A]`, found as the bound at which its gate closes."""
    actions = len(log_probs[0])
    # Every action with both signs: above 1 one gate closes, below the other.
    sign = lab.torch.tensor([1.0] * actions + [-1.0] * actions, dtype=lab.torch.float64).reshape(-1, 1, 1)
    twice = [each.repeat(2, 1, 1, 1) for each in log_probs]
    shut_at, open_at = np.zeros(2 * actions), np.full(2 * actions, 20.0)
    for _ in range(50):
        middle = 0.5 * (shut_at + open_at)
        low, high = (tuple(x.tolist()) for x in (-np.expm1(-middle), np.expm1(middle)))
        weight: Any = dataclasses.replace(method.weight, low=low, high=high)  # type: ignore[type-var]
        age = lab.torch.full_like(twice[0], staleness)
        found = method.replace(weight=weight).weigh(*twice, advantages=sign, staleness=age)
        shut = found.score_weight.flatten().numpy() == 0.0
        shut_at, open_at = np.where(shut, middle, shut_at), np.where(shut, open_at, middle)
    return shut_at[:actions] - shut_at[actions:]


class A3poInterpolation(PolicyPair, Claim):
    kind, source = "identity", "arXiv 2512.06547"
    relative_to, through = "norm", "oracle"

    staleness = Staleness(2, typical=(2, 16), example=4)

    def joint(self) -> None:
        # The share of the way at which the snapshot stands.
        self.alpha = 1.0 - 1.0 / self.staleness
        self.mu, self.pi = map(log_softmax, self.logits)
        self.log_ratio = self.pi - self.mu
        apart = self._renyi(self.alpha) > 1e-6
        self.require(apart, "current_logits", "another policy", "without a difference no gate closes")
        near = float(np.abs(self.log_ratio).max()) < 20.0
        self.require(near, "current_logits", "within 20 of behavior in log-probs", "move them closer")

    def _renyi(s, alpha: float) -> float:
        """Scaled Renyi divergence (1 - alpha) D_alpha(pi || mu)."""
        return -float(np.log(np.exp(alpha * s.pi + (1.0 - alpha) * s.mu).sum()))

    def predict(s) -> dict[str, float]:
        shift = np.full(len(s.mu), s._renyi(s.alpha))
        return indexed("seen", (1.0 - s.alpha) * s.log_ratio) | indexed("shift", shift)

    def check(s) -> dict[str, float]:
        snapshot = s.behavior_logits + s.alpha * (s.current_logits - s.behavior_logits)
        seen = s.log_ratio - (s.alpha * s.pi + (1.0 - s.alpha) * s.mu - s.mu)
        return indexed("seen", seen) | indexed("shift", seen - (s.pi - log_softmax(snapshot)))

    wrong = {"snapshot taken to be normalized": lambda s: indexed("shift", 0.0 * s.mu)}

    points = (_POINT, {**_POINT, "staleness": 2})
    more = ({"behavior_logits": (0.0, 0.0, 0.0, 0.0), "current_logits": (2.0, -1.0, 0.5, 0.0), "staleness": 16},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        (current, behavior), staleness = lab.places(point), point["staleness"]
        task = sim.tasks.softmax_bandit(len(behavior), rewards="fixed")
        spec = plant(lab.population(task, sim.methods.a3po()))

        def scored(parameters: np.ndarray) -> lab.Tensor:
            step = sim.oracle.population_step(task, spec.method, parameters, behavior, spec.policy)
            return step.current["log_prob"].reshape(-1, 1, 1, 1)

        now, then = scored(current), scored(behavior)
        before = scored(current - (current - behavior) / staleness)
        seen = _seen(spec.method, (now, then), staleness)
        true = _seen(sim.methods.decoupled_ppo(cap=None), (now, then, before), staleness)
        return lab.components("seen", seen) | lab.components("shift", seen - true)

    defects = {"scored at another temperature": lambda: lab.with_policy(lab.Tempered)}
