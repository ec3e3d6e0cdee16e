r"""The staleness of all groups adds up to the groups outstanding, summed over all publishes, in any system.

the staleness of all groups adds up to the number of outstanding groups, summed over all publishes

sum over groups of staleness / sum over publishes of outstanding groups = 1. Derivation: a group's staleness is the
number of publishes during which it is outstanding; count the pairs (group, publish) by rows or by columns. Domain: any
lengths, speeds, orders and failures; groups unfinished at the end count the publishes they have seen; outstanding is
counted just before permits return. Second route: both counts on a random history.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks, laws
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, lab, sim

_TROUBLE: dict[str, dict[str, Any]] = {
    "none": {},
    "age cut": {"max_age": 3, "age_action": "requeue", "age_at_pack": "all", "age_at_publish": "all"},
    "overflow": {"tickets": None, "capacity": 16, "overflow": "drop_oldest"},
    "slots": {"slots": 10, "servers": 2, "accept": 0.8},
    "failures": {"failure_rate": 0.2, "restart_delay": 0.3, "slots": 30},
    "slow publishes": {"sync_time": 0.3, "batches_per_publish": 3, "tickets": 120},
    "publishes that stop generation": {"sync_time": 0.3, "generator_pauses": True, "mode": "reprefill"},
}
_POINT = {
    "max_head_offpolicyness": 4, "consumer_batch_size": 8, "max_concurrent_rollouts": 40,
    "length": "lognormal:1.0:0.8", "load": 1.5, "trouble": "none",
}  # fmt: skip


class MeanStalenessIdentity(Claim):
    kind, source, through = "identity", "derived: exchange of the sums over groups and publishes", "kernel"

    # Any settings, under whatever names: none of them enters.
    def __init__(self, point: Point) -> None:
        checks.require(isinstance(point, Mapping), "point", point, "a mapping", "give the parameters by name")

    def predict(s) -> dict[str, float]:
        return {"ratio": 1.0}

    def check(s) -> dict[str, float]:
        generator, publishes = np.random.default_rng(0), 200
        begun = generator.uniform(0, publishes, 1000)
        done = np.minimum(begun + generator.pareto(1.2, 1000), publishes)
        instants = np.arange(publishes) + 0.5
        staleness = np.searchsorted(instants, done) - np.searchsorted(instants, begun)
        outstanding = [int(((begun < t) & (t <= done)).sum()) for t in instants]
        return {"ratio": int(staleness.sum()) / sum(outstanding)}

    wrong = {"an outstanding group counted as half a version": lambda s: {"ratio": 0.5}}

    points = (
        _POINT,
        {**_POINT, "max_concurrent_rollouts": 8, "length": "pareto:1.0:1.3"},
        {**_POINT, "load": 0.5},
        *({**_POINT, "trouble": trouble} for trouble in _TROUBLE if trouble != "none"),
    )
    more = (
        {**_POINT, "max_head_offpolicyness": 2, "consumer_batch_size": 64, "max_concurrent_rollouts": 192},
        {**_POINT, "trouble": "failures", "length": "pareto:1.0:1.3", "load": 0.7},
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        sizes = (point[name] for name in ("max_head_offpolicyness", "consumer_batch_size", "max_concurrent_rollouts"))
        system = sim.systems.areal(*sizes, length=laws.as_law("length", point["length"]), load=point["load"])
        system = system.replace(**_TROUBLE[point["trouble"]])
        record = plant(system).timeline(300, seed=seed)
        samples, publishes = record.samples, record.publishes
        count = len(publishes["version"])
        # A group is outstanding from its start to the start of its training, to its drop, or to the end of the record.
        training_version, exit_version = samples["batch"] // system.batches_per_publish, record.groups["v_left"]
        untrained = np.where(exit_version >= 0, exit_version, count)
        end_version = np.where(samples["batch"] >= 0, training_version, untrained)
        # A failure stamps the start anew, so groups count from their admission; elsewhere those without a start do not.
        fails = point["trouble"] == "failures"
        stamp = samples["v_submit"] if fails else samples["v_start"]
        outstanding = publishes["outstanding"] - (0 if fails else publishes["unstarted"])
        total = int((end_version - stamp)[stamp >= 0].sum())
        return {"ratio": Estimate(total / int(outstanding.sum()), tolerance=1e-12)}

    defects = {
        "stamp taken at completion": lambda: lab.late_stamp,
        "an install not counted": lambda: (lab.kernel_defects.version_off_by_one, {**_POINT, "trouble": "age cut"}),
        "an install counted twice": lambda: (lab.kernel_defects.publish_counted_twice, {**_POINT, "trouble": "slots"}),
    }
