"""Many claims at once: Holm's correction over a page, and bets against a claim that may be judged after every run."""

import math
from collections.abc import Iterable, Mapping

from asyncsim.base import checks

SURE = 1e-12
"""Least p-value that a bet believes: nobody has checked tails beyond it."""


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values: p_(k) becomes the largest (m - j + 1) p_(j) over j <= k, at most 1.

    Whoever rejects those up to a level rejects any true claim with at most that probability, whatever depends on what.

    Arguments: `values`, p-values by name; those that are not a number were not judged and stay so. m counts the others.
    Returns adjusted p-values by name. Source: Holm 1979.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    order = sorted((name for name in values if not math.isnan(values[name])), key=values.__getitem__)
    adjusted, largest = dict(values), 0.0
    for k, name in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - k) * values[name]))
        adjusted[name] = largest
    return adjusted


def e_value(p: float) -> float:
    """What a unit of money becomes in a fair bet against a claim: e = (1 - p + p log p) / (p log(p)^2).

    It is the mean of k p^(k-1) over k in (0, 1), so its mean is 1 where p is uniform, and at most 1 where p is too
    large. A p-value below 1e-12 counts as 1e-12.

    Arguments: `p` in [0, 1]. Returns a pure number from 1/2 at p = 1 to 1.3e9. Raises `InputError` for another p.
    Source: Vovk and Wang 2021, section 2 (1912.06116).

    >>> e_value(1.0), round(e_value(0.05), 2), round(e_value(1e-3), 1)
    (0.5, 1.78, 20.8)
    """
    t = -math.log(max(SURE, checks.real("p", p, "give a p-value", 0.0, 1.0)))
    # The difference cancels where p is close to 1.
    return 0.5 + t / 6.0 if t < 1e-6 else (math.expm1(t) - t) / (t * t)


def wealth(values: Iterable[float]) -> list[float]:
    """Money after each bet of a series, from 1: run t opens a bet with 1/(t (t+1)), which then stays in play.

        A_t = (A_{t-1} + 1/(t (t+1))) e_t,    E_t = A_t + 1/(t+1),
    the second term what was not yet staked. A true claim lets E grow in the mean never, so E ever reaches x with a
    probability of at most 1/x (Ville). Many runs of a true claim cost a later deviation a factor of t^2, not 2^t.

    Arguments: `values`, p-values of runs in order, each too large or uniform given those before. Returns E_1, E_2, ...,
    at most 1e300. Raises `InputError` as `e_value`. Assumes that each run has draws of its own.

    >>> [round(e, 3) for e in wealth([1.0, 1.0, 1e-6])]
    [0.75, 0.542, 1528.331]
    """
    staked, money = 0.0, []
    for t, p in enumerate(values, 1):
        staked = min(1e300, (staked + 1.0 / (t * (t + 1))) * e_value(p))
        money.append(staked + 1.0 / (t + 1))
    return money
