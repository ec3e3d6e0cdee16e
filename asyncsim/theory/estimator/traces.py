r"""Advantages by token from rewards, values and ratios of one segment: GAE, returns of n steps, returns, Retrace.

A segment of T tokens holds the end of one episode, behind `ends` tokens, and a piece of the next one. That is cut at
T, with the critic's value `beyond`. An episode that ends with the segment has no value behind it. V' is the value
behind a token. gae: sum_k (g l)^k d_{t+k}, d = r + g V' - V, g the discount, l the trace. n_step: sum of n discounted
rewards and g^n V_{t+n}, less V. returns: discounted rewards up to the end or the cut. retrace: Q_t + sum_j g^{j-t}
(k_{t+1} ... k_j) (r_j + g U'_j - Q_j) - U_t, with U = p Q + (1 - p) Q of the other action, k = l min(1, ratio): the
product begins behind t. No sum crosses the end of an episode. Targets of the critic are gae + V. Derivation: the
papers' sums. Domain: one segment, two actions. First route: forward sums; second: recursions from the last token.
Source: 1506.02438 equation 16, 1602.01783 section 4, 1606.02647 equations 3 and 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Draw, Real, Vector
from asyncsim.theory._stated import indexed, stated

_VECTORS = ("rewards", "values", "action_values", "other_values", "chances", "ratios")


class _Setting(Declared):
    rewards = Vector(
        typical=(-1.0, 1.0), example=(0.5, -0.3, 1.0, 0.2, 0.7), unit="reward", doc="rewards of the tokens"
    )
    values = Vector(
        typical=(-1.0, 1.0), unit="reward", example=(0.4, 0.1, 0.8, -0.2, 0.3), doc="what the critic said of each state"
    )
    action_values = Vector(
        typical=(-1.0, 1.0), unit="reward", example=(0.6, -0.1, 0.9, 0.1, 0.5), doc="values of the actions taken"
    )
    other_values = Vector(
        typical=(-1.0, 1.0), unit="reward", example=(0.2, 0.3, 0.4, -0.5, 0.1), doc="values of the other actions"
    )
    chances = Vector(0.0, typical=(0.1, 0.9), example=(0.7, 0.4, 0.6, 0.2, 0.5), doc="current chances of the actions")
    ratios = Vector(0.0, typical=(0.3, 2.0), example=(1.6, 0.5, 1.2, 0.8, 1.9), doc="ratios to behavior of the tokens")
    beyond = Real(typical=(-1.0, 1.0), example=0.9, unit="reward", doc="value behind the cut")
    ends = Count(1, 64, typical=(1, 6), example=2, unit="tokens", doc="tokens of the episode that ends in the segment")
    discount = Real(0.0, 1.0, typical=(0.3, 1.0), example=0.9, doc="discount per token")
    trace = Real(0.0, 1.0, typical=(0.1, 1.0), example=0.7, doc="share of each error that is handed on")
    steps = Count(1, 64, typical=(1, 4), example=2, unit="tokens", doc="rewards of a return of n steps")

    def joint(self) -> None:
        """As many numbers as tokens; chances below 1; advantages that are not 0."""
        count = self.rewards.size
        for name in _VECTORS[1:]:
            checks.finite_array(name, getattr(self, name).tolist(), [count], "give one for every token")
        below = bool((self.chances < 1.0).all())
        checks.require(below, "chances", self.chances.tolist(), "below 1", "leave the other action a chance")
        inside = self.ends <= count
        checks.require(inside, "ends", self.ends, f"at most {count}", "give the tokens of the first episode")
        found = [_gae(self), _n_step(self), _returns(self), _retrace(self)]
        moves = min(float(np.abs(each).max()) for each in found) > 1e-3
        checks.require(moves, "rewards", self.rewards.tolist(), "such that advantages are not 0", "change one")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Vectors of one length."""
        point = {name: draw(p) for name, p in cls.parameters.items() if name not in _VECTORS}
        count = draw(Count(1, doc="tokens", typical=(point["ends"], point["ends"] + 3)))
        for name in _VECTORS:
            point[name] = draw(Vector(length=count, typical=cls.parameters[name].typical))
        return point

    def last(self, t: int) -> int:
        """Last token of the episode of a token, as far as the segment holds it."""
        return self.ends - 1 if t < self.ends else self.rewards.size - 1

    def behind(self, values: np.ndarray, t: int) -> float:
        """Value behind a token."""
        if t + 1 == self.ends:
            return 0.0
        return self.beyond if t + 1 == self.rewards.size else float(values[t + 1])

    @property
    def state_values(self) -> np.ndarray:
        """U."""
        return np.asarray(self.chances * self.action_values + (1.0 - self.chances) * self.other_values)

    def after(self, values: np.ndarray) -> np.ndarray:
        """V' of every token."""
        return np.array([self.behind(values, t) for t in range(self.rewards.size)])


def _episodes(s: _Setting) -> list[range]:
    return [range(t, s.last(t) + 1) for t in range(s.rewards.size)]


def _gae(s: _Setting, discount_of_values: float | None = None) -> np.ndarray:
    g = s.discount if discount_of_values is None else discount_of_values
    errors = s.rewards + g * s.after(s.values) - s.values
    return np.array([sum((s.discount * s.trace) ** (j - r[0]) * errors[j] for j in r) for r in _episodes(s)])


def _n_step(s: _Setting) -> np.ndarray:
    found = []
    for t in range(s.rewards.size):
        stop = min(t + s.steps, s.last(t) + 1)
        total = sum(s.discount ** (j - t) * s.rewards[j] for j in range(t, stop))
        found.append(total + s.discount ** (stop - t) * s.behind(s.values, stop - 1) - s.values[t])
    return np.array(found)


def _returns(s: _Setting) -> np.ndarray:
    return np.array([sum(s.discount ** (j - r[0]) * s.rewards[j] for j in r) for r in _episodes(s)])


def _retrace(s: _Setting, own: bool = False) -> np.ndarray:
    """`own`: the product of traces begins with the token's own."""
    kept = s.trace * np.minimum(1.0, s.ratios)
    errors = s.rewards + s.discount * s.after(s.state_values) - s.action_values
    found = []
    for r in _episodes(s):
        t = r[0]
        sums = sum(s.discount ** (j - t) * np.prod(kept[t + 1 - own : j + 1]) * errors[j] for j in r)
        found.append(s.action_values[t] + sums - s.state_values[t])
    return np.array(found)


def _quantities(
    s: _Setting, gae: np.ndarray, n_step: np.ndarray, returns: np.ndarray, retrace: np.ndarray
) -> dict[str, float]:
    vectors = {"gae": gae, "target": gae + s.values, "n_step": n_step, "returns": returns, "retrace": retrace}
    return {key: x for name, vector in vectors.items() for key, x in indexed(name, vector).items()}


def _predict(s: _Setting) -> dict[str, float]:
    return _quantities(s, _gae(s), _n_step(s), _returns(s), _retrace(s))


def _cross_check(s: _Setting) -> dict[str, float]:
    """Backward: what a token hands to the one before it."""
    count, g = s.rewards.size, s.discount
    gae, returns, retrace = np.zeros((3, count + 1))
    sums, kept = np.append(s.values, 0.0), np.append(s.trace * np.minimum(1.0, s.ratios), 0.0)
    u = s.state_values
    going = [t + 1 not in (s.ends, count) for t in range(count)]
    for t in reversed(range(count)):
        gae[t] = s.rewards[t] + g * s.behind(s.values, t) - s.values[t] + g * s.trace * going[t] * gae[t + 1]
        returns[t] = s.rewards[t] + g * going[t] * returns[t + 1]
        error = s.rewards[t] + g * s.behind(u, t) - s.action_values[t]
        retrace[t] = error + g * kept[t + 1] * going[t] * retrace[t + 1]
    for _ in range(min(s.steps, count)):
        sums = np.append(s.rewards + g * s.after(sums[:-1]), 0.0)
    return _quantities(s, gae[:-1], sums[:-1] - s.values, returns[:-1], s.action_values + retrace[:-1] - u)


claim = stated(
    id="estimator/traces",
    statement="advantages by token are sums of errors inside their episode, discounted by `(g l)^k` in GAE and by the "
    "truncated ratios behind the token in Retrace; behind an end stands 0, behind a cut the critic's value",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="1506.02438, equation 16; 1602.01783, section 4; 1606.02647, equations 3 and 4",
    formula_defects={
        "sums that cross the end": lambda s: _predict(s.but(ends=s.rewards.size)),
        "a cut taken for an end": lambda s: _predict(s.but(beyond=0.0)),
        "traces from the token's own": lambda s: _predict(s) | indexed("retrace", _retrace(s, own=True)),
        "values not discounted": lambda s: _predict(s) | indexed("gae", _gae(s, 1.0)),
        "discount and trace exchanged": lambda s: _predict(s.but(discount=s.trace, trace=s.discount)),
        "a step more": lambda s: _predict(s.but(steps=s.steps + 1)),
    },
    relative_to="norm",
)
