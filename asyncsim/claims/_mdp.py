"""Discounted decision processes on tables: values, occupancies, and the bandit over deterministic policies.

det(I - gamma P_pi) is linear in every row of pi, and so is det(I - gamma P_pi) J(pi), a bordered determinant. Hence
    J(pi) = sum_f W_f J_f,  W_f ~ prod_s pi(f_s|s) det(I - gamma P_f),
over all deterministic policies f. In the logits this is a softmax bandit: arm f has the logit sum_s theta(s, f_s) +
log det(I - gamma P_f) and the reward J_f. Source: derived.
"""

import itertools
import math
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.declared import Declared, Parsed, Real, Table
from asyncsim.claims._bandit import softmax

_POLICIES = 4096
"""Most deterministic policies that are listed."""
_TABLE = ("a table, a row for each state", "give a row of one number per action for each state")


def _transition(name: str, value: Any) -> np.ndarray:
    remedy = "give P(s'|s, a), what a row lacks to 1 ends the episode"
    table = checks.finite_array(name, value, [None, None, None], remedy)
    fits = bool((table >= 0.0).all() and (table.sum(-1) <= 1.0 + 1e-12).all())
    checks.require(fits, name, table.tolist(), "probabilities that add up to at most 1", remedy)
    return table


def logits(policy: str, *example: tuple[float, ...]) -> Table:
    """Declare a parameter that is a table of logits with one row per state."""
    doc = "logits of the policy" if policy == "policy" else f"logits of the {policy} policy"
    return Table(*_TABLE, example=example, doc=doc)


class Process(Declared):
    """Base class of claim points with policies on a decision process of S states and A actions, from state 0."""

    transition = Parsed(
        _transition,
        "probabilities, a table [A, S] for each state",
        example=(((0.1, 0.9), (0.7, 0.3)), ((0.6, 0.3), (0.2, 0.8))),
        doc="probabilities of the next state; the remainder to 1 ends the episode",
    )
    rewards = Table(*_TABLE, example=((0.3, -0.2), (1.0, 0.1)), unit="reward", doc="reward r(s, a)")
    discount = Real(0.0, 0.9999, typical=(0.0, 0.95), example=0.7, unit="per step", doc="discount")

    def joint(self) -> None:
        """Require tables of equal shape, unequal rewards, and few enough deterministic policies to enumerate."""
        S, A = self.rewards.shape
        checks.finite_array("transition", self.transition.tolist(), [S, A, S], "give a row for each state and action")
        self.require(np.ptp(self.rewards) > 0.0, "rewards", "rewards that differ", "equal ones leave no choice")
        checks.power("actions ** states", A, S, _POLICIES, "policies", "use fewer states")
        for name in self.policies():
            checks.finite_array(name, getattr(self, name).tolist(), [S, A], "give one logit per action for each state")
        # Largest difference of two rewards; the end pays 0.
        ends = bool((self.transition.sum(-1) < 1.0 - 1e-12).any())
        self.range = float(np.ptp(np.append(self.rewards, 0.0) if ends else self.rewards))

    @classmethod
    def policies(cls) -> list[str]:
        """Names of the parameters of this point that are tables of logits."""
        return [name for name in cls.parameters if name.endswith("logits")]

    def resolvent(self, policy: np.ndarray) -> np.ndarray:
        """Resolvent (I - gamma P_pi)^-1 of a policy given as a table `[S, A]`; the result is `[S, S]`."""
        led = np.einsum("sa,sat->st", policy, self.transition)
        return np.linalg.inv(np.eye(len(policy)) - self.discount * led)

    def visits_by_steps(self, policy: np.ndarray) -> np.ndarray:
        """Resolvent of a policy as a sum over steps; each iteration doubles the number of steps."""
        power = self.discount * np.einsum("sa,sat->st", policy, self.transition)
        total = np.eye(len(policy))
        for _ in range(24):
            total, power = total + power @ total, power @ power
        return total

    def occupancy(self, policy: np.ndarray) -> np.ndarray:
        """Expected discounted visits d = (I - gamma P_pi)^-T start, unnormalized, `[S]`."""
        return self.resolvent(policy)[0]

    def advantage(self, policy: np.ndarray) -> np.ndarray:
        """Advantage A(s, a) = Q(s, a) - V(s) of a policy, `[S, A]`."""
        value = self.resolvent(policy) @ (policy * self.rewards).sum(axis=1)
        return self.rewards + self.discount * self.transition @ value - value[:, None]


def arms(s: Process) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All deterministic policies: their actions `[F, S]`, det(I - gamma P_f) `[F]` and returns `[F]`."""
    S, A = s.rewards.shape
    chosen = np.array(list(itertools.product(range(A), repeat=S)))
    states = np.arange(S)
    system = np.eye(S) - s.discount * s.transition[states, chosen]
    values = np.linalg.solve(system, s.rewards[states, chosen][..., None])
    return chosen, np.linalg.det(system), values[:, 0, 0]


class Pair(Process):
    """Base class of claim points with a behavior policy, which generated the data, and a current policy."""

    behavior_logits = logits("behavior", (0.4, -0.3), (-0.8, 0.5))
    current_logits = logits("current", (1.1, -0.5), (0.2, -0.4))

    def joint(self) -> None:
        # Behavior and current policy, `[S, A]`, and the total variation between them in each state, `[S]`.
        self.pair = softmax(self.behavior_logits), softmax(self.current_logits)
        self.distances = 0.5 * np.abs(self.pair[1] - self.pair[0]).sum(axis=1)
        self.require(self.distances.max() > 1e-9, "current_logits", "a policy that differs", "move it")
        # E_{d_mu} TV/(1 - gamma): trajectories part where TV is, as often as mu is there.
        self.averaged = float(self.occupancy(self.pair[0]) @ self.distances) / (1.0 - self.discount)
        # sum_t gamma^t (1 - (1 - a)^(t+1)) = a/((1 - gamma)(1 - gamma (1 - a))), a the largest TV of a state.
        gamma, most = self.discount, float(self.distances.max())
        self.coupled = most / ((1.0 - gamma) * (1.0 - gamma * (1.0 - most)))

    def parted(self, mean: float = 1.0, largest: float = 1.0) -> float:
        """Bound on the discounted steps at which two coupled trajectories differ; the factors scale its two forms."""
        return min(mean * self.averaged, largest * self.coupled)

    def by_steps(self) -> tuple[float, float]:
        """The two bounds `averaged` and `coupled` on diverging trajectories, as sums over steps."""
        length = math.ceil(math.log(1e-18) / math.log(max(self.discount, 1e-9))) + 1
        still = np.exp(np.log1p(-self.distances.max()) * np.arange(1, length + 1))
        shares = self.discount ** np.arange(length)
        return float(self.visits_by_steps(self.pair[0])[0] @ self.distances * shares.sum()), float(shares @ (1 - still))
