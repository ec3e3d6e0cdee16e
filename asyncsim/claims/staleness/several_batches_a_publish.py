r"""Staleness in updates is a sawtooth that counts every batch, epoch and minibatch between two publishes.

with `n` updates per publish, batches times epochs times minibatches, and data `m` versions old, staleness runs from `m
n` to `m n + n - 1` updates; published weights move by `-n * step * curvature` times those `m` versions before

With k batches per publish, E epochs of M minibatches and data generated m versions before it is trained, n = k E M
updates lie between two publishes. Update j of a version is m n + j updates stale, j = 0, ..., n - 1: on average m n +
(n - 1)/2. All of them read one published iterate, so iterates at publishes obey X_{v+1} = X_v - n a X_{max(v-m, 0)}.
Here a = step * curvature. Derivation: counting; a linear gradient of old weights is the same in every epoch and
minibatch. Domain: gradients taken at the weights that generated the data, without noise. Second route: the recursion
over single updates, each with its own staleness.
"""

import numpy as np

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._claim import Claim, Count, Estimate, Integer, Plant, Point, Positive, indexed, named, replaced

_point = named("batches", "epochs", "minibatches", "versions", "publishes", publishes=5, step=0.02, curvature=1.5)


class SeveralBatchesAPublish(Claim):
    kind, source, relative_to, through = "identity", "derived: counting", "norm", "loop"

    batches = Count(1, 32, typical=(1, 4), example=2, unit="batches", doc="batches between two publishes")
    epochs = Count(1, 32, typical=(1, 3), example=3, doc="passes through a batch")
    minibatches = Count(1, 32, typical=(1, 4), example=2, doc="parts of a batch, an update on each")
    versions = Integer(0, 16, typical=(0, 3), example=1, unit="versions", doc="versions from generation to training")
    publishes = Integer(2, 32, typical=(2, 6), example=5, doc="versions trained in all")
    step = Positive(typical=(0.001, 0.02), example=0.03, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.5, 2.0), example=1.5, doc="curvature of the loss")

    def joint(self) -> None:
        # Updates between two publishes.
        self.cycle = self.batches * self.epochs * self.minibatches
        self.require(self.cycle * self.publishes <= 2048, "publishes", "at most 2048 updates in all", "train fewer")
        share = self.cycle * self.step * self.curvature
        self.require(share <= 2.0, "step", "updates between publishes * step * curvature <= 2", "lower it")
        self.require(self.publishes > self.versions, "publishes", "more than versions", "train longer")

    def predict(s, late: int = 0) -> dict[str, float]:
        n, m = s.cycle, s.versions + late
        path = [1.0]
        for version in range(s.publishes):
            path.append(path[-1] - n * s.step * s.curvature * path[max(version - m, 0)])
        ages = {"mean_staleness": m * n + (n - 1) / 2.0, "largest_staleness": float(m * n + n - 1)}
        return ages | indexed("x", path[1:])

    def check(s) -> dict[str, float]:
        path, ages = [1.0], []
        for update in range(s.cycle * s.publishes):
            read = max(update // (s.epochs * s.minibatches) // s.batches - s.versions, 0) * s.cycle
            ages.append(update - read)
            path.append(path[-1] - s.step * s.curvature * path[read])
        last = ages[s.versions * s.cycle :]
        means = {"mean_staleness": float(np.mean(last)), "largest_staleness": float(max(last))}
        return means | indexed("x", path[s.cycle :: s.cycle])

    wrong = {
        "epochs not counted": lambda s: s.but(epochs=1).predict(),
        "version late by one more": lambda s: s.predict(late=1),
    }

    points = (_point(2, 3, 2, 1), _point(4, 1, 2, 0), _point(2, 2, 1, 4))
    more = (_point(1, 4, 4, 2), _point(6, 1, 1, 3, 8))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        cycle = point["batches"] * point["epochs"] * point["minibatches"]
        settings = {name: point[name] for name in ("epochs", "minibatches")}
        settings |= {"cut": "samples", "samples_per_group": point["minibatches"], "replicates": 1}
        settings |= {"updates": cycle * point["publishes"], "diagnostics": [lab.paths.ITERATE, "update_staleness"]}
        # A sawtooth where data is of the trained version, frozen where it never renews, else a fixed staleness.
        counts = {"groups_per_batch": 2, "batches_per_publish": point["batches"]}
        system = lab.fixed(point["versions"], **counts)
        if point["versions"] == point["publishes"] - 1:
            system = sim.schedules.frozen(**counts)
        if point["versions"] == 0:
            system = sim.schedules.sawtooth(point["batches"], groups_per_batch=2)
        task = sim.tasks.quadratic((point["curvature"],), noise=0.0, start=1.0)
        trace = lab.run(lab.descent(task, system, sim.updates.sgd(point["step"]), **settings), seed, plant)
        ages = trace["update_staleness"][point["versions"] * cycle :, 0]
        path = np.append(trace["iterate"][cycle::cycle, 0], trace.parameters[0, 0])
        found = {"mean_staleness": lab.exactly(float(ages.mean())), "largest_staleness": lab.exactly(float(ages.max()))}
        return found | lab.components("x", path)

    defects = {
        "off-by-one version": lambda: lab.off_by_one_version,
        "one epoch": lambda: replaced(epochs=1),
        "no minibatches": lambda: replaced(minibatches=1),
    }
