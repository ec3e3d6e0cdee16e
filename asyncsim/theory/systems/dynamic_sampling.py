r"""Rounds of generation that a filter of groups makes a batch take: whole rounds until P of their groups are accepted.

Each round generates R groups, each is accepted with probability a by itself, and rounds go on until P or more are; what
is beyond P is thrown away. N rounds, A accepted. P(N > r) = P(Bin(r R, a) < P), so E N = sum_{r>=0} P(Bin(r R, a) < P).
N is decided by rounds so far, so Wald gives E A = a R E N, and of the accepted groups the share P / E A is kept.
R = 1 replaces every rejected group by one other: N is negative binomial of mean P/a, and nothing accepted is lost. Any
system that does so, synchronous or not, generates as many: acceptance knows nothing of lengths. Domain: rounds one
after the other under one version, acceptance independent of the lengths and of other groups. Second route: the chain
of the number accepted so far, solved as a linear system. Source: derived; the filter is that of DAPO (2503.14476).
"""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr
from scipy.stats import binom

from asyncsim.theory import _engines
from asyncsim.theory._declared import Count, Real
from asyncsim.theory._stated import stated

_LARGEST, _LEAST = 1024, 0.01


class _Setting(_engines.Engines):
    groups_per_batch = _engines.groups(1, _LARGEST, typical=(1, 24), example=16)
    round = Count(1, _LARGEST, typical=(1, 24), example=12, unit="groups", doc="R, groups generated in a round")
    accept = Real(
        _LEAST, 1.0, typical=(0.1, 1.0), example=0.6, doc="a, probability that a group passes", remedy="accept some"
    )


def _quantities(s: _Setting, rounds: float) -> dict[str, float]:
    generated = s.round * rounds / s.groups_per_batch
    return {"rounds": rounds, "generated": generated, "kept": 1.0 / (s.accept * generated)}


def _more_than(s: _Setting, rounds: np.ndarray) -> np.ndarray:
    """P(N > r): fewer than P accepted in so many rounds."""
    drawn = rounds * s.round
    return np.where(drawn < s.groups_per_batch, 1.0, bdtr(np.minimum(s.groups_per_batch - 1, drawn), drawn, s.accept))


def _predict(s: _Setting) -> dict[str, float]:
    # Forty standard deviations of the number drawn until P are accepted.
    last = (s.groups_per_batch + 40.0 * np.sqrt(s.groups_per_batch) + 40.0) / (s.accept * s.round)
    return _quantities(s, float(_more_than(s, np.arange(int(last) + 2)).sum()))


def _cross_check(s: _Setting) -> dict[str, float]:
    size = s.groups_per_batch
    missing = np.arange(size)
    step = binom.pmf(missing[None, :] - missing[:, None], s.round, s.accept)
    return _quantities(s, float(np.linalg.solve(np.eye(size) - step, np.ones(size))[0]))


def _each_alone(s: _Setting) -> dict[str, float]:
    enough = 1.0 - float(_more_than(s, np.array([1]))[0])
    return _quantities(s, 1.0 / max(enough, 1e-3))


def _of_mean(s: _Setting) -> dict[str, float]:
    return _quantities(s, float(np.ceil(s.groups_per_batch / (s.accept * s.round))))


claim = stated(
    id="systems/dynamic-sampling",
    statement="a batch of `P` accepted groups takes `sum_r P(Bin(r R, a) < P)` rounds of `R` groups, each accepted "
    "with `a`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: binomial tails, Wald",
    formula_defects={
        "as many groups as the mean needs, rounded up": _of_mean,
        "parts of rounds": lambda s: _quantities(s, s.groups_per_batch / (s.accept * s.round)),
        "a round that is not enough is thrown away": _each_alone,
    },
)
