r"""When the ticket cap binds, mean staleness is K/M - 1 for K tickets and M groups per publish, K/M on early release.

K tickets, M groups consumed per publish. Outstanding at a publish: K - M where tickets return at the publish (the M
groups that were just trained hold theirs), all K where tickets return at the dequeue and training takes time, so that
new groups started meanwhile. Divide by M (mean-staleness identity). With training of zero length a dequeued ticket is
admitted after the publish of the same instant, which leaves K/M - 1. Domain: places for all K tickets, nothing
dropped, K >= M, one batch per publish where training takes no time. Second route: version stamps of an event
simulation with random lengths. Source: derived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points


class _Setting(NamedTuple):
    tickets: int
    groups: int
    early: bool
    instant: bool


def _read(point: Point) -> _Setting:
    tickets, groups, release, instant = _points.select(point, "tickets publish_groups release zero_train_time")
    groups = checks.integer("publish_groups", groups, 1, "consume at least one group per publish")
    tickets = checks.integer("tickets", tickets, groups, "give at least one ticket for each group of a publish")
    checks.one_of("release", release, ("publish", "dequeue"), "say when a ticket returns")
    checks.one_of("zero_train_time", instant, (True, False), "say whether training takes time")
    checks.require(
        tickets > groups or (release == "dequeue" and not instant),
        "tickets",
        tickets,
        f"above publish_groups = {groups}",
        "with as many the run is synchronous and the prediction 0",
    )
    return _Setting(tickets, groups, release == "dequeue", bool(instant))


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"mean": s.tickets / s.groups - (0.0 if s.early and not s.instant else 1.0)}


def _cross_check(point: Point) -> dict[str, float]:
    """Groups train in order of start, each (end, version at start); after one rotation all batches have one mean."""
    s = _read(point)
    generator, warm = np.random.default_rng(0), s.tickets // s.groups + 1
    queue = [(float(generator.exponential()), 0) for _ in range(s.tickets)]
    now, stamps = 0.0, []
    for version in range(warm + 20):
        batch, queue = queue[: s.groups], queue[s.groups :]
        now = max(now, max(end for end, _ in batch))
        if version >= warm:
            stamps += [version - start for _, start in batch]
        if s.early and not s.instant:
            queue += [(now + float(generator.exponential()), version) for _ in batch]
            now += float(generator.exponential())
        else:
            now += 0.0 if s.instant else float(generator.exponential())
            queue += [(now + float(generator.exponential()), version + 1) for _ in batch]
    return {"mean": float(np.mean(stamps))}


def _no_minus(point: Point) -> dict[str, float]:
    return {"mean": _predict(point)["mean"] + 1.0}


claim = Claim(
    id="systems/cap-binds",
    statement="with K tickets always in use and M groups per publish, mean staleness is K/M-1 (release at publish) "
    "or K/M (release at dequeue)",
    kind="expectation",
    status="exact",
    domain=_points.domain_of(_read),
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: mean-staleness identity with a constant number outstanding",
    formula_defects={"one publish too many": _no_minus},
)
