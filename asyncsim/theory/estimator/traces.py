r"""What an actor and its critic learn from segments of stale data: advantages and targets along a trajectory.

Forward views, K tokens from t to the end of the episode or the cut. G_k = sum_(j<k) gamma^j r + gamma^k V of what
follows: 0 behind an end, the recorded value behind a cut. `gae`: A = (1 - lambda) sum_(k<K) lambda^(k-1) G_k +
lambda^(K-1) G_K - V; `n_step`: G_min(n, K) - V; `vtrace`: v = V + sum_j gamma^j (prod_(i<j) lambda min(c, w_i))
min(rho, w_j) delta_j and A = r + gamma (lambda v' + (1 - lambda) V') - V; `retrace`: Q + sum_j gamma^j
(prod_(0<i<=j) lambda min(1, w_i)) (r_j + gamma V_(j+1) - Q_j), less V = sum pi Q. The actor weighs by 1 (A2C), by
min(w, cap), or adds sum_v [pi - cap mu]_+ (Q_v - V) grad log pi_v (ACER). `actor` and `critic` are mean updates of
logits and values by token, the latter target less value (loss 1/2 of the square). Domain: a ring of states where action
a leads a places on, ends behind the last action of the last state, A^n <= 256. Second route: backward recursions.
Source: 1506.02438, equation 16; 1602.01783; 1802.01561, equation 1; 1606.02647, equation 4; 1611.01224, equation 7.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import of_states, softmax
from asyncsim.theory._declared import Choice, Declared, Draw, Integer, Parsed, Positive, Real, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(Declared):
    behavior_logits = of_states("logits of the behavior policy", "", (0.3, -0.2), (0.0, 0.7), (-0.5, 0.2))
    current_logits = of_states("logits of the current policy", "", (1.0, -0.6), (-0.4, 0.2), (0.9, -0.3))
    rewards = of_states("rewards of states and actions", "reward", (0.1, 0.3), (1.0, -0.2), (0.1, 0.6))
    values = of_states("critic's values of states and actions", "reward", (0.5, 0.9), (1.1, 0.2), (0.3, 0.8))
    rule = Choice("gae", "n_step", "vtrace", "retrace", "acer", example="vtrace", doc="advantage and its method")
    discount = Real(0.0, 0.99, typical=(0.1, 0.95), example=0.8, doc="weight of the next token")
    trace = Real(0.0, 1.0, typical=(0.1, 1.0), example=0.6, doc="weight of what lies a token further")
    rho_cap = Positive(typical=(0.5, 2.0), example=1.1, doc="largest ratio of an error in V-trace")
    trace_cap = Positive(typical=(0.3, 2.0), example=0.8, doc="largest ratio in the product of traces")
    cap = Positive(typical=(0.5, 2.0), example=1.2, doc="largest ratio on the score")
    look = Integer(1, 12, typical=(1, 3), example=2, unit="tokens", doc="tokens that an n-step return looks ahead")
    steps = Integer(1, 8, typical=(1, 4), example=3, unit="tokens", doc="length of a segment")

    def joint(self) -> None:
        """Tables of one shape, and few segments."""
        shape = list(self.behavior_logits.shape)
        for name in ("current_logits", "rewards", "values"):
            checks.finite_array(name, getattr(self, name).tolist(), shape, "give as many as behavior_logits")
        few = shape[1] ** self.steps <= 256
        checks.require(few, "steps", self.steps, f"such that {shape[1]}**steps <= 256", "shorten the segments")
        self.mu, self.pi = softmax(self.behavior_logits), softmax(self.current_logits)
        self.ratio = self.pi / self.mu
        self.of_actions = self.rule in ("retrace", "acer")
        # A critic of states has the value of the first action here; a critic of actions gives that of pi.
        self.critic = (self.pi * self.values).sum(1) if self.of_actions else self.values[:, 0]
        self.behind = (self.mu * self.values).sum(1) if self.of_actions else self.values[:, 0]

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Two or three states and two actions."""
        states, row = draw(Integer(2, typical=(2, 3))), Vector(length=2, typical=(-1.5, 1.5))
        return {
            name: tuple(draw(row) for _ in range(states)) if isinstance(p, Parsed) else draw(p)
            for name, p in cls.parameters.items()
        }


def _segments(s: _Setting) -> list[tuple[float, list[tuple[int, int]], int]]:
    """Chance, states with actions, and the state behind, of every segment."""
    states, actions = s.mu.shape
    found = []
    for start, *taken in itertools.product(range(states), *[range(actions)] * s.steps):
        rows, state, chance = [], start, 1.0 / states
        for a in taken:
            rows.append((state, a))
            chance *= float(s.mu[state, a])
            state = (state + a) % states
        found.append((chance, rows, state))
    return found


def _ends(s: _Setting, at: tuple[int, int]) -> bool:
    return at == (s.mu.shape[0] - 1, s.mu.shape[1] - 1)


def _forward(s: _Setting, rows: list[tuple[int, int]], last: int) -> list[tuple[float, float]]:
    """Advantage and target of every token of a segment, as sums over what follows."""
    found = []
    for t in range(len(rows)):
        stops = [k for k in range(t, len(rows)) if _ends(s, rows[k])] or [len(rows) - 1]
        ahead = range(t, stops[0] + 1)
        ended, count = _ends(s, rows[ahead[-1]]), len(ahead)
        follow = [float(s.critic[rows[k][0]]) for k in ahead[1:]] + [0.0 if ended else float(s.behind[last])]
        found.append(_looked(s, [rows[k] for k in ahead], follow, count))
    return found


def _looked(s: _Setting, rows: list[tuple[int, int]], follow: list[float], count: int) -> tuple[float, float]:
    gamma, lam = s.discount, s.trace
    paid, ratio = [float(s.rewards[at]) for at in rows], [float(s.ratio[at]) for at in rows]
    value = float(s.critic[rows[0][0]])

    def returned(k: int) -> float:
        return sum(gamma**j * paid[j] for j in range(k)) + gamma**k * follow[k - 1]

    if s.rule == "gae":
        total = sum((1.0 - lam) * lam ** (k - 1) * returned(k) for k in range(1, count))
        total += lam ** (count - 1) * returned(count)
        return total - value, total
    if s.rule == "n_step":
        return returned(min(s.look, count)) - value, returned(min(s.look, count))
    here = [float(s.values[at]) if s.of_actions else float(s.critic[at[0]]) for at in rows]
    errors = [paid[j] + gamma * follow[j] - here[j] for j in range(count)]
    if s.of_actions:
        keep = [lam * min(1.0, w) for w in ratio]
        parts = [gamma**j * float(np.prod(keep[1 : j + 1])) * errors[j] for j in range(count)]
        return here[0] + sum(parts) - value, here[0] + sum(parts)
    keep, rho = [lam * min(s.trace_cap, w) for w in ratio], [min(s.rho_cap, w) for w in ratio]

    def shift(t: int) -> float:
        return sum(gamma ** (j - t) * float(np.prod(keep[t:j])) * rho[j] * errors[j] for j in range(t, count))

    after = follow[0] + (lam * shift(1) if count > 1 else 0.0)
    return paid[0] + gamma * after - value, value + shift(0)


def _backward(s: _Setting, rows: list[tuple[int, int]], last: int) -> list[tuple[float, float]]:
    """The same by recursion from the end of the segment."""
    found: list[tuple[float, float]] = []
    value_after, shift_after, ratio_after, steps_after = float(s.behind[last]), 0.0, 1.0, [float(s.behind[last])]
    for at in reversed(rows):
        if _ends(s, at):
            value_after, shift_after, steps_after = 0.0, 0.0, [0.0]
        paid, ratio, value = float(s.rewards[at]), float(s.ratio[at]), float(s.critic[at[0]])
        error = paid + s.discount * value_after - value
        # Returns of 1, 2, ... tokens; one that would look further ends where the trajectory does.
        steps = [value, *(paid + s.discount * x for x in steps_after)]
        if s.rule == "gae":
            shift = error + s.discount * s.trace * shift_after
            found.append((shift, value + shift))
        elif s.rule == "n_step":
            target = steps[min(s.look, len(steps) - 1)]
            found.append((target - value, target))
            shift = 0.0
        elif s.rule == "vtrace":
            shift = min(s.rho_cap, ratio) * error + s.discount * s.trace * min(s.trace_cap, ratio) * shift_after
            found.append((error + s.discount * s.trace * shift_after, value + shift))
        else:
            own = float(s.values[at])
            shift = paid + s.discount * value_after - own + s.discount * s.trace * min(1.0, ratio_after) * shift_after
            found.append((own + shift - value, own + shift))
        value_after, shift_after, ratio_after, steps_after = value, shift, ratio, steps
    return found[::-1]


def _updates(s: _Setting, pairs: Any = _forward) -> dict[str, float]:
    """Mean updates of logits `[S, A]` and of the critic, `[S]` or `[S, A]`."""
    actor, critic = np.zeros_like(s.pi), np.zeros_like(s.pi)
    for chance, rows, last in _segments(s):
        for at, (gain, target) in zip(rows, pairs(s, rows, last), strict=True):
            share, state = chance / len(rows), at[0]
            weight = 1.0 if s.rule in ("gae", "n_step") else min(s.cap, float(s.ratio[at]))
            wide = weight * gain * np.eye(s.pi.shape[1])[at[1]]
            if s.rule == "acer":
                wide = wide + np.maximum(s.pi[state] - s.cap * s.mu[state], 0.0) * (s.values[state] - s.critic[state])
            actor[state] += share * (wide - wide.sum() * s.pi[state])
            own = float(s.values[at]) if s.of_actions else float(s.critic[state])
            critic[at if s.of_actions else (state, 0)] += share * (target - own)
    return indexed("actor", actor) | indexed("critic", critic if s.of_actions else critic[:, 0])


claim = stated(
    id="estimator/traces",
    statement="mean updates of actor and critic are those of the forward view of their traces, capped ratios included",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_updates,
    cross_check=lambda s: _updates(s, _backward),
    reference="arXiv 1506.02438, 1602.01783, 1802.01561, 1606.02647, 1611.01224",
    formula_defects={
        "discount and trace exchanged": lambda s: _updates(s.but(discount=s.trace, trace=s.discount)),
        "a product one token off": lambda s: _updates(s.but(trace=0.5 * s.trace)),
        "cap of the score forgotten": lambda s: _updates(s.but(cap=1e9, discount=0.9 * s.discount)),
    },
    relative_to="norm",
)
