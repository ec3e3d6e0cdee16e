r"""A live run learns exactly what a simulation on its own log learns: versions decide, seconds do not.

same = (parameters of the live run that equal those of a simulated run with the same versions and draws)/(all) = 1, to
the last bit. Derivation: an update is a function of weights, draws and the versions of the tokens. Draws are keyed by
group, not by time or process. So two runs in which each group has the same versions and the same batch are the same
function. A stamp that is off by one version, a weight read while it was written, or a sample trained twice would show.
The learning curve of an asynchronous trainer is therefore predicted by its schedule of versions alone, and every claim
on schedules applies to it. Domain: tables, whose arithmetic does not depend on how many samples share a call. Second
route: a toy learner, theta += (theta of the group's version + its draw)/8, run once in the order of events and once
from its log. Source: derived.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, within
from asyncsim.claims.live._permits import Path, Permits, path

_BATCHES = 40


def _learned(made: Path, seen: dict[int, int]) -> list[float]:
    """Parameters after each batch, every group generated at the version that `seen` says."""
    theta = [1.0]
    for batch in range(_BATCHES):
        groups = sorted(group for group, version in made.trained.items() if version == batch)
        step = sum((theta[seen[group]] + (group * 0.618) % 1.0 - 0.5) / 8.0 for group in groups)
        theta.append(theta[-1] - step / len(groups))
    return theta


def _shared(made: Path, seen: dict[int, int]) -> dict[str, float]:
    first, second = _learned(made, dict(enumerate(made.admitted))), _learned(made, seen)
    return {"same": sum(a == b for a, b in zip(first, second, strict=True)) / len(first)}


def _late(s: Permits) -> dict[str, float]:
    """Every group stamped one version late, as far as its training allows."""
    made = path(s, _BATCHES)
    return _shared(made, {group: min(made.admitted[group] + 1, last) for group, last in made.trained.items()})


_TRAINED = 40


def _as_fresh(live: Any) -> Any:
    """The replay without staleness.

    Permits for three batches are out at once, so some groups train stale whatever the clocks do. The mean staleness
    for every sample is no defect: runs whose processes happen to take turns have it exactly."""
    return replace(live, schedule=lab.fixed(0, groups_per_batch=live.spec.system.groups_per_batch))


_POINT = {"tickets": 6, "publish_groups": 2, "release": "publish"}


class Learning(Permits, Claim):
    """the parameters of a live run `=` those of a simulated run on its log, to the last bit"""

    kind, source = "identity", "derived: an update depends on weights, draws and versions alone"
    through = "live"

    def predict(s) -> dict[str, float]:
        return {"same": 1.0}

    def check(s) -> dict[str, float]:
        made = path(s, _BATCHES)
        rows = [(group, made.admitted[group]) for group in sorted(made.trained, reverse=True)]
        return _shared(made, dict(rows))

    wrong = {"stamps one version late": _late}

    points = (_POINT, {"tickets": 4, "publish_groups": 4, "release": "dequeue"})

    reach = staticmethod(within(tickets=32))

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        live = lab.live_runs.ran(point, _TRAINED, seed, plant, None).live
        again = sim.run(replace(live.spec, system=live.schedule), seed=live.seed, progress=False)
        same = live.trace.parameters == again.parameters
        return {"same": Estimate(float(same.mean()), samples=same.size)}

    defects = {"every sample as if it were fresh": lambda: (lab.live_runs.on_runs(_as_fresh), _POINT)}
