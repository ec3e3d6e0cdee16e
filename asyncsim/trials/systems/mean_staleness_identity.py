"""Staleness summed over groups against groups outstanding summed over publishes, on the event kernel."""

from __future__ import annotations

import numpy as np

from asyncsim import laws, systems
from asyncsim.records import Estimate, Point
from asyncsim.trials._trial import Defect, Plant, Trial
from asyncsim.trials.systems._heads import LateStamp

_BATCHES = 300


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    eta, groups = point["max_head_offpolicyness"], point["consumer_batch_size"]
    system = plant(
        systems.areal(
            eta,
            groups,
            point["max_concurrent_rollouts"],
            length=laws.as_law("length", point["length"]),
            load=point["load"],
        )
    )
    record = system.timeline(_BATCHES, seed=seed)
    samples, publishes = record.samples, record.publishes
    published = len(publishes["version"])
    # A group is outstanding from its start to the start of its training, or to the end of the record.
    until = np.where(samples["batch"] >= 0, samples["batch"] // system.batches_per_publish, published)
    seen = int((until - samples["v_start"]).sum())
    return {"ratio": Estimate(seen / int(publishes["outstanding"].sum()), tolerance=1e-12)}


_POINT = {
    "max_head_offpolicyness": 4,
    "consumer_batch_size": 8,
    "max_concurrent_rollouts": 40,
    "length": "lognormal:1.0:0.8",
    "load": 1.5,
}

trial = Trial(
    claim="systems/mean-staleness-identity",
    points=(_POINT, {**_POINT, "max_concurrent_rollouts": 8, "length": "pareto:1.0:1.3"}, {**_POINT, "load": 0.5}),
    more=({**_POINT, "max_head_offpolicyness": 2, "consumer_batch_size": 64, "max_concurrent_rollouts": 192},),
    measure=_measure,
    defects={"stamp taken at completion": Defect(LateStamp, _POINT)},
    effect=0.02,
    through="kernel",
)
