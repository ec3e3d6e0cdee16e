r"""Total staleness of all groups equals total outstanding groups over all publishes, in any system.

sum over groups of staleness / sum over publishes of outstanding groups = 1. Derivation: a group's staleness is the
number of publishes during which it is outstanding; count the pairs (group, publish) by rows or by columns. Domain:
any lengths, speeds, orders and failures; groups unfinished at the end count the publishes they have seen; outstanding
is counted just before tickets return. Second route: both counts on a random history. Source: derived.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from asyncsim.base import checks
from asyncsim.base.records import Point
from asyncsim.theory._declared import Declared
from asyncsim.theory._stated import stated


class _Setting(Declared):
    """Any settings, under whatever names: none of them enters."""

    def __init__(self, point: Point) -> None:
        checks.require(isinstance(point, Mapping), "point", point, "a mapping", "give the parameters by name")


def _predict(s: _Setting) -> dict[str, float]:
    return {"ratio": 1.0}


def _cross_check(s: _Setting) -> dict[str, float]:
    generator, publishes = np.random.default_rng(0), 200
    begun = generator.uniform(0, publishes, 1000)
    done = np.minimum(begun + generator.pareto(1.2, 1000), publishes)
    instants = np.arange(publishes) + 0.5
    staleness = np.searchsorted(instants, done) - np.searchsorted(instants, begun)
    outstanding = [int(((begun < t) & (t <= done)).sum()) for t in instants]
    return {"ratio": int(staleness.sum()) / sum(outstanding)}


claim = stated(
    id="systems/mean-staleness-identity",
    statement="the staleness of all groups sums to the groups outstanding at all publishes",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: exchange of the sums over groups and publishes",
    formula_defects={"an outstanding group counted as half a version": lambda s: {"ratio": 0.5}},
)
