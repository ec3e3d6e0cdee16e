r"""V-trace learns the value of a policy between the old one and the new; its trace cap decides only how fast.

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
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import drawn_tables, of_states, softmax
from asyncsim.theory._declared import Declared, Draw, Integer, Positive, Real, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(Declared):
    behavior_logits = of_states("logits of the behavior policy", "", (0.3, -0.2), (0.0, 0.7), (-0.5, 0.2))
    current_logits = of_states("logits of the current policy", "", (1.0, -0.6), (-0.4, 0.2), (0.9, -0.3))
    rewards = of_states("rewards of states and actions", "reward", (0.0, 0.3), (1.0, -0.2), (0.1, 0.6))
    discount = Real(0.0, 0.99, typical=(0.0, 0.95), example=0.8, doc="weight of the next step")
    rho_cap = Positive(typical=(0.5, 3.0), example=1.0, doc="largest ratio of an error")
    trace_cap = Positive(typical=(0.3, 3.0), example=0.8, doc="largest ratio in the product of traces")
    steps = Integer(1, 12, typical=(1, 4), example=3, unit="tokens", doc="length of a segment")

    def joint(self) -> None:
        """Tables of one shape, a trace cap up to the other one, and rewards that are not 0."""
        shape = list(self.behavior_logits.shape)
        for name in ("current_logits", "rewards"):
            checks.finite_array(name, getattr(self, name).tolist(), shape, "give as many as behavior_logits")
        few = shape[1] ** self.steps <= 4096
        checks.require(few, "steps", self.steps, f"such that {shape[1]}**steps <= 4096", "shorten the segments")
        checks.require(self.trace_cap <= self.rho_cap, "trace_cap", self.trace_cap, "at most rho_cap", "lower it")
        self.mu, self.pi = softmax(self.behavior_logits), softmax(self.current_logits)
        paid = float(np.abs(_sweep(self, *_capped(self, self.rho_cap))).max()) > 1e-6
        checks.require(paid, "rewards", self.rewards.tolist(), "not all 0", "a value of 0 says nothing")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables of one shape, and caps in their order."""
        states, actions = draw(Integer(2, 4, typical=(2, 4))), draw(Integer(2, 3, typical=(2, 3)))
        row = Vector(length=actions, typical=(-1.0, 1.0))
        point = {name: draw(cls.parameters[name]) for name in ("discount", "steps")}
        trace, rho = sorted((draw(cls.trace_cap), draw(cls.rho_cap)))
        tables = {"rewards": tuple(draw(row) for _ in range(states)), **drawn_tables(draw, states, actions)}
        return {**tables, **point, "rho_cap": rho, "trace_cap": trace}


def _lead(s: _Setting, weight: np.ndarray) -> np.ndarray:
    """Weights of pairs `[S, A]` carried to the states that follow, `[S, S]`."""
    states = len(weight)
    matrix = np.zeros((states, states))
    for state, action in np.ndindex(*weight.shape):
        matrix[state, (state + action) % states] += weight[state, action]
    return matrix


def _capped(s: _Setting, cap: float) -> tuple[np.ndarray, np.ndarray]:
    """The policy proportional to min(cap mu, pi), and the sums that it is renormalized by, `[S, 1]`."""
    least = np.minimum(cap * s.mu, s.pi)
    total = least.sum(axis=1, keepdims=True)
    return least / total, total


def _value(s: _Setting, policy: np.ndarray) -> np.ndarray:
    return np.linalg.solve(np.eye(len(policy)) - s.discount * _lead(s, policy), (policy * s.rewards).sum(axis=1))


def _sweep(s: _Setting, policy: np.ndarray, total: np.ndarray) -> np.ndarray:
    """V after one sweep from 0."""
    carry = s.discount * _lead(s, np.minimum(s.trace_cap * s.mu, s.pi))
    error = (total * policy * s.rewards).sum(axis=1)
    swept: np.ndarray = sum(np.linalg.matrix_power(carry, t) @ error for t in range(s.steps))
    return swept


def _of(value: np.ndarray, first: np.ndarray) -> dict[str, float]:
    return indexed("value", value) | indexed("first", first)


def _predict(s: _Setting) -> dict[str, float]:
    policy, total = _capped(s, s.rho_cap)
    return _of(_value(s, policy), _sweep(s, policy, total))


def _moves(s: _Setting, values: np.ndarray) -> np.ndarray:
    """Mean target of each state less its value, segment by segment: where caps are low, nearly all of it cancels."""
    found = np.zeros(len(values))
    for start, actions in itertools.product(
        range(len(values)), itertools.product(range(s.mu.shape[1]), repeat=s.steps)
    ):
        state, chance, carried, total = start, 1.0, 1.0, 0.0
        for action in actions:
            after, ratio = (state + action) % len(values), s.pi[state, action] / s.mu[state, action]
            error = s.rewards[state, action] + s.discount * values[after] - values[state]
            total += carried * min(s.rho_cap, ratio) * error
            chance, carried = chance * s.mu[state, action], carried * s.discount * min(s.trace_cap, ratio)
            state = after
        found[start] += chance * total
    return found


def _cross_check(s: _Setting) -> dict[str, float]:
    states = len(s.mu)
    first = _moves(s, np.zeros(states))
    # The operator is affine: probe it once for each state.
    matrix = np.stack([_moves(s, row) - first for row in np.eye(states)], axis=1)
    return _of(np.linalg.solve(matrix, -first), first)


def _not_renormalized(s: _Setting) -> dict[str, float]:
    policy, total = _capped(s, s.rho_cap)
    return _of(_value(s, total * policy), _sweep(s, policy, total))


def _of_policy(s: _Setting, policy: np.ndarray) -> dict[str, float]:
    return _of(_value(s, policy), _sweep(s, policy, np.ones((len(policy), 1))))


claim = stated(
    id="estimator/v-trace",
    statement="the fixed point of off-policy targets is the value of `pi_rho`, proportional to "
    "`min(rho mu, pi)`, at any trace cap",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="arXiv 1802.01561, theorem 1",
    formula_defects={
        "least of both not renormalized": _not_renormalized,
        "value of the current policy": lambda s: _of_policy(s, s.pi),
        "value of the behavior policy": lambda s: _of_policy(s, s.mu),
        "trace cap decides the fixed point": lambda s: _predict(s.but(rho_cap=s.trace_cap)),
        "a step more": lambda s: _predict(s.but(steps=s.steps + 1)),
    },
    relative_to="norm",
)
