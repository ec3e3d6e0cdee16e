r"""V-trace learns the value of a policy between the old and the new; its trace cap sets only the speed.

at any trace cap, off-policy targets lead to the value of `pi_rho`, which is proportional to `min(rho mu, pi)`

Targets of segments of n steps: v_s = V_s + sum_t gamma^t (prod_(i<t) min(c, w_i)) min(rho, w_t) delta_t, w = pi/mu of
a token. `value`, where mean targets of all states reproduce V, is the value of pi_rho, proportional to min(rho mu, pi)
and renormalized: of pi for a large cap, nearer to mu for a small one. It depends neither on c nor on n, since the mean
of min(rho, w) delta is 0 there in every state. `first` is V after one sweep from V = 0: sum_(t<n) K^t D r_rho, D(s) =
sum_a min(rho mu, pi), K(s, s') = gamma sum_a min(c mu, pi) [s' follows]: a longer trace reaches further. So a critic of
stale data is no noisy critic of pi, but the right one of another policy. Domain: a ring of states where action a leads
a places on, rewards of pairs, no ends, c <= rho, A^n <= 4096. First route: linear algebra; second: where the
enumerated operator leaves values alone. Source: 1802.01561, theorem 1 and section 4.1.
"""

from __future__ import annotations

import itertools

import numpy as np

from asyncsim.base.declared import Integer, Positive, Real
from asyncsim.claims._bandit import of_states, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, checks, indexed, lab, replaced, sim

_BEHAVIOR, _CURRENT = ((0.3, -0.2), (0.0, 0.7), (-0.5, 0.2)), ((1.0, -0.6), (-0.4, 0.2), (0.9, -0.3))
_REWARDS = ((0.0, 0.3), (1.0, -0.2), (0.1, 0.6))
_POINT = {
    "behavior_logits": _BEHAVIOR, "current_logits": _CURRENT, "rewards": _REWARDS, "discount": 0.8, "steps": 3
}  # fmt: skip
_ONE = {**_POINT, "rho_cap": 1.0, "trace_cap": 0.7}


def _step(point: Point, method: lab.Method, values: np.ndarray) -> tuple[lab.Step, np.ndarray, np.ndarray]:
    """All segments under critics `[R, S]`, with their first states and probabilities, `[N]`."""
    names, double = ("current_logits", "behavior_logits"), lab.torch.float64
    tables = [lab.torch.log_softmax(lab.torch.tensor(point[name], dtype=double), -1) for name in names]
    # Every start with every sequence of actions, `[N, n + 1]` and `[N, n]`.
    states, actions = np.shape(point["rewards"])
    rows = np.array(list(itertools.product(range(states), *[range(actions)] * point["steps"])))
    state, action = np.cumsum(rows, axis=1) % states, rows[:, 1:]
    now, then = (table[state[:, :-1], action] for table in tables)

    def column(each: lab.Tensor) -> lab.Tensor:
        return each.expand(len(values), 1, *each.shape[-2:]).contiguous()

    critic = lab.torch.tensor(values)[:, None, state]
    beyond = lab.torch.zeros_like(critic[..., 1:])
    beyond[..., -1] = critic[..., -1]
    recorded = {"log_prob": column(then), "value": critic[..., :-1], "successor_value": beyond}
    outputs = {"log_prob": column(now), "value": critic[..., :-1]}
    step = lab.given(method, outputs, recorded, lab.torch.ones_like(beyond))
    step.batch.token_reward = column(lab.torch.tensor(point["rewards"], dtype=double)[state[:, :-1], action])
    return step, state[:, 0], then.sum(-1).exp().numpy()


class VTrace(Claim):
    kind, source = "identity", "arXiv 1802.01561, theorem 1"
    relative_to, through = "norm", "advantage"

    behavior_logits = of_states("logits of the behavior policy", "", *_BEHAVIOR)
    current_logits = of_states("logits of the current policy", "", *_CURRENT)
    rewards = of_states("rewards of states and actions", "reward", *_REWARDS)
    discount = Real(0.0, 0.99, typical=(0.0, 0.95), example=0.8, doc="weight of the next step")
    rho_cap = Positive(typical=(0.5, 3.0), example=1.0, doc="maximum ratio of an error")
    trace_cap = Positive(typical=(0.3, 3.0), example=0.8, doc="maximum ratio in the product of traces")
    steps = Integer(1, 12, typical=(1, 4), example=3, unit="tokens", doc="length of a segment")

    def joint(self) -> None:
        shape = list(self.behavior_logits.shape)
        for name in ("current_logits", "rewards"):
            checks.finite_array(name, getattr(self, name).tolist(), shape, "give as many as behavior_logits")
        few = shape[1] ** self.steps <= 4096
        self.require(few, "steps", f"such that {shape[1]}**steps <= 4096", "shorten the segments")
        self.require(self.trace_cap <= self.rho_cap, "trace_cap", "at most rho_cap", "lower it")
        self.mu, self.pi = softmax(self.behavior_logits), softmax(self.current_logits)
        paid = float(np.abs(self._sweep(*self._capped(self.rho_cap))).max()) > 1e-6
        self.require(paid, "rewards", "not all 0", "a value of 0 says nothing")

    def _lead(s, weight: np.ndarray) -> np.ndarray:
        """Sum weights `[S, A]` of state-action pairs into a transition matrix to the next states, `[S, S]`."""
        states = len(weight)
        matrix = np.zeros((states, states))
        for state, action in np.ndindex(*weight.shape):
            matrix[state, (state + action) % states] += weight[state, action]
        return matrix

    def _capped(s, cap: float) -> tuple[np.ndarray, np.ndarray]:
        """The policy proportional to min(cap mu, pi), and its normalizing sums, `[S, 1]`."""
        least = np.minimum(cap * s.mu, s.pi)
        total = least.sum(axis=1, keepdims=True)
        return least / total, total

    def _sweep(s, policy: np.ndarray, total: np.ndarray) -> np.ndarray:
        """State values after one sweep from 0."""
        carry = s.discount * s._lead(np.minimum(s.trace_cap * s.mu, s.pi))
        error = (total * policy * s.rewards).sum(axis=1)
        return sum(np.linalg.matrix_power(carry, t) @ error for t in range(s.steps))

    def _moves(s, values: np.ndarray) -> np.ndarray:
        """Mean target minus value for each state, summed over segments; with low caps nearly all terms cancel."""
        found = np.zeros(len(values))
        for start, *actions in itertools.product(range(len(values)), *[range(s.mu.shape[1])] * s.steps):
            state, chance, carried, total = start, 1.0, 1.0, 0.0
            for action in actions:
                after, ratio = (state + action) % len(values), s.pi[state, action] / s.mu[state, action]
                error = s.rewards[state, action] + s.discount * values[after] - values[state]
                total += carried * min(s.rho_cap, ratio) * error
                chance, carried = chance * s.mu[state, action], carried * s.discount * min(s.trace_cap, ratio)
                state = after
            found[start] += chance * total
        return found

    def predict(s, value_of: np.ndarray | None = None) -> dict[str, float]:
        policy, total = s._capped(s.rho_cap)
        of = policy if value_of is None else value_of
        value = np.linalg.solve(np.eye(len(of)) - s.discount * s._lead(of), (of * s.rewards).sum(axis=1))
        return indexed("value", value) | indexed("first", s._sweep(policy, total))

    def check(s) -> dict[str, float]:
        states = len(s.mu)
        first = s._moves(np.zeros(states))
        # The operator is affine: probe it once for each state.
        matrix = np.stack([s._moves(row) - first for row in np.eye(states)], axis=1)
        return indexed("value", np.linalg.solve(matrix, -first)) | indexed("first", first)

    wrong = {"value of the current policy": lambda s: s.predict(s.pi)}

    points = (_ONE, {**_POINT, "rho_cap": 1.5, "trace_cap": 1.0}, {**_POINT, "rho_cap": 5.0, "trace_cap": 1.0})
    more = ({**_ONE, "discount": 0.95, "steps": 6, "trace_cap": 0.2},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        states = len(point["rewards"])
        advantage = sim.advantages.vtrace(point["discount"], 1.0, point["rho_cap"], point["trace_cap"])
        method = plant(sim.methods.vtrace(advantage=advantage))
        # Targets are affine in the critic: a critic of 0, and one for each state.
        step, start, chance = _step(point, method, np.vstack([np.zeros(states), np.eye(states)]))
        targets = method.advantage.targets(step)[:, 0, :, 0].numpy()
        means = np.stack([(targets * chance)[:, start == s].sum(axis=1) for s in range(states)])
        first, matrix = means[:, 0], means[:, 1:] - means[:, :1]
        return lab.components("value", np.linalg.solve(np.eye(states) - matrix, first)) | lab.components("first", first)

    defects = {
        "ratios of errors not capped": lambda: replaced(advantage=sim.advantages.vtrace(0.8, 1.0, 9.0, 0.7)),
        "trace cap on the errors": lambda: replaced(advantage=sim.advantages.vtrace(0.8, 1.0, 0.7, 0.7)),
    }
