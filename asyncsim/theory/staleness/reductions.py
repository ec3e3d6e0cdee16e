r"""One staircase of versions has many stalenesses: the oldest token's, the newest's, and means over tokens or samples.

Weights are installed behind every `every` tokens, so that token t = 0, 1, ... is m - min(t // every, m) versions old,
m at the head. A sample ends with its last kind of token or at T tokens, n in all. `age`: of the first and of the
oldest token m; of the newest E[m - min((n - 1) // every, m)]; of all tokens E[sum of ages] / E n, so that long
samples count more; their span in a sample; `mixed`, P(n > every). Each token was drawn by its own version, here
behavior before the first install and the current weights since: so ratios differ from 1 in the first `every` tokens
alone. E W = 1, and with q = sum of pi^2 / mu over tokens that do not end, e the same of the one that does, E W^2 = e
(1 + q + ... + q^(c - 1)) + q^c, c = min(every, T); `weight`, ESS/N = 1 / E W^2. Derivation: sums over n. Domain: one
row of logits, m >= 1. Second route: every sequence listed. Source: derived; versions by token as in arXiv 2505.24298.
"""

from __future__ import annotations

import itertools

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, softmax
from asyncsim.theory._declared import Count
from asyncsim.theory._stated import stated


class _Setting(PolicyPair):
    versions = Count(1, 8, typical=(1, 3), example=2, unit="versions", doc="versions that the first token is old")
    every = Count(1, 8, typical=(1, 3), example=2, unit="tokens", doc="tokens between two installs")
    horizon = Count(1, 8, typical=(2, 6), example=6, unit="tokens", doc="largest length")

    def joint(self) -> None:
        """Few enough sequences to be listed; an install that a sample may see; policies that differ."""
        super().joint()
        arms = self.behavior_logits.size
        few = arms**self.horizon <= 1 << 16
        checks.require(few, "horizon", self.horizon, f"such that {arms}**horizon <= 65536", "shorten the samples")
        seen = self.every < self.horizon
        checks.require(seen, "every", self.every, "below the horizon", "no sample would see an install")
        self.mu, self.pi = map(softmax, self.logits)
        apart = float(np.abs(self.mu - self.pi).max()) > 1e-3
        checks.require(apart, "current_logits", self.current_logits.tolist(), "not those of behavior", "change one")

    def age(self, token: int) -> int:
        """Versions that a token is old."""
        return self.versions - min(token // self.every, self.versions)


def _lengths(s: _Setting) -> np.ndarray:
    """P(n > t), t = 0, ..., T - 1."""
    going = [1.0 - float((s.mu if t < s.every else s.pi)[-1]) for t in range(s.horizon - 1)]
    return np.cumprod([1.0, *going])


def _quantities(
    s: _Setting, newest: float, tokens: float, mixed: float, square: float, first: float = 1.0
) -> dict[str, float]:
    head = float(s.versions)
    ages = {"first": head, "oldest": head, "largest": head, "newest": newest, "tokens": tokens, "span": head - newest}
    return {f"age[{name}]": x for name, x in ages.items()} | {
        "mixed": mixed,
        "weight[mean]": first,
        "weight[ess]": 1.0 / square,
    }


def _predict(s: _Setting) -> dict[str, float]:
    alive = _lengths(s)
    ages = np.array([s.age(t) for t in range(s.horizon)], dtype=float)
    # Sum by parts: the newest age falls where a sample goes on beyond an install.
    newest = ages[0] + float(np.diff(ages) @ alive[1:])
    squares = s.pi**2 / s.mu
    before = min(s.every, s.horizon)
    q, e = float(squares[:-1].sum()), float(squares[-1])
    square = e * float((q ** np.arange(before)).sum()) + q**before
    return _quantities(s, newest, float(alive @ ages / alive.sum()), float(alive[s.every]), square)


def _cross_check(s: _Setting, stamped: str = "token", tokens: str = "all") -> dict[str, float]:
    """Sequences, one after the other; continuations of those that ended are not told apart."""
    total = dict.fromkeys(("newest", "ages", "tokens", "mixed", "first", "square"), 0.0)
    for sequence in itertools.product(range(s.mu.size), repeat=s.horizon):
        chance = np.prod([(s.mu if t < s.every else s.pi)[a] for t, a in enumerate(sequence)])
        ends = [t for t, a in enumerate(sequence) if a == s.mu.size - 1]
        n = min(ends[0] + 1, s.horizon) if ends else s.horizon
        weight = np.prod([s.pi[a] / s.mu[a] for a in sequence[: min(n, s.every)]])
        ages = [s.age({"token": t, "end": n - 1, "head": 0}[stamped]) for t in range(n)]
        scale = 1.0 if tokens == "all" else 1.0 / n
        parts = {"newest": ages[-1], "ages": scale * sum(ages), "tokens": scale * n, "mixed": ages[0] > ages[-1]}
        for name, x in {**parts, "first": weight, "square": weight**2}.items():
            total[name] += chance * x
    mean = total["ages"] / total["tokens"]
    found = _quantities(s, total["newest"], mean, total["mixed"], total["square"], total["first"])
    return {name: float(x) for name, x in found.items()}


def _all_old(s: _Setting) -> dict[str, float]:
    """Every token weighted as if the first version had drawn it."""
    return _predict(s) | {"weight[ess]": _predict(s.but(every=s.horizon - 1))["weight[ess]"]}


claim = stated(
    id="staleness/reductions",
    statement="where weights are installed behind every `c` tokens, the head is `m` versions old, the newest token "
    "`E[m - min((n - 1) / c, m)]`, rounded down, and ratios differ from 1 in tokens of older versions alone",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; versions by token as in 2505.24298",
    formula_defects={
        "stamped at the end": lambda s: _cross_check(s, stamped="end"),
        "stamped at the start": lambda s: _cross_check(s, stamped="head"),
        "mean of means over samples": lambda s: _cross_check(s, tokens="sample"),
        "all tokens of the first version": _all_old,
        "an install more": lambda s: _predict(s.but(every=max(s.every - 1, 1))),
    },
    relative_to="norm",
)
