r"""Between two publishes every update counts: staleness in updates is a sawtooth of batches, epochs and minibatches.

With k batches a publish, E epochs of M minibatches and data generated m versions before it is trained, n = k E M
updates lie between two publishes. Update j of a version is m n + j updates stale, j = 0, ..., n - 1: on average m n +
(n - 1)/2. All of them read one published iterate, so iterates at publishes obey X_{v+1} = X_v - n a X_{max(v-m, 0)}.
Here a = step * curvature. Derivation: counting; a linear gradient of old weights is the same in every epoch and
minibatch. Domain: gradients taken at the weights that generated the data, without noise. Second route: the recursion
over single updates, each with its own staleness. Source: derived.
"""

from __future__ import annotations

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._declared import Count, Declared, Integer, Positive
from asyncsim.theory._stated import indexed, stated


class _Setting(Declared):
    batches = Count(1, 32, typical=(1, 4), example=2, unit="batches", doc="batches between two publishes")
    epochs = Count(1, 32, typical=(1, 3), example=3, doc="passes through a batch")
    minibatches = Count(1, 32, typical=(1, 4), example=2, doc="parts of a batch, an update on each")
    versions = Integer(0, 16, typical=(0, 3), example=1, unit="versions", doc="versions from generation to training")
    publishes = Integer(2, 32, typical=(2, 6), example=5, doc="versions trained in all")
    step = Positive(typical=(0.001, 0.02), example=0.03, unit="parameter per gradient", doc="learning rate")
    curvature = Positive(typical=(0.5, 2.0), example=1.5, doc="curvature of the loss")

    def joint(self) -> None:
        """What a path of numbers of moderate size holds."""
        total = self.cycle * self.publishes
        checks.require(total <= 2048, "publishes", self.publishes, "at most 2048 updates in all", "train fewer")
        share = self.cycle * self.step * self.curvature
        checks.require(share <= 2.0, "step", self.step, "updates between publishes * step * curvature <= 2", "lower it")
        reached = self.publishes > self.versions
        checks.require(reached, "publishes", self.publishes, "more than versions", "train longer")

    @property
    def cycle(self) -> int:
        """Updates between two publishes."""
        return self.batches * self.epochs * self.minibatches


def _quantities(path: list[float], mean: float, largest: float) -> dict[str, float]:
    return {"mean_staleness": mean, "largest_staleness": largest} | indexed("x", path)


def _predict(s: _Setting, late: int = 0) -> dict[str, float]:
    n, m = s.cycle, s.versions + late
    path = [1.0]
    for version in range(s.publishes):
        path.append(path[-1] - n * s.step * s.curvature * path[max(version - m, 0)])
    return _quantities(path[1:], m * n + (n - 1) / 2.0, float(m * n + n - 1))


def _cross_check(s: _Setting, fresh: bool = False) -> dict[str, float]:
    """Update by update; `fresh`: later epochs and minibatches read current weights."""
    path, ages = [1.0], []
    for update in range(s.cycle * s.publishes):
        batch, inside = divmod(update, s.epochs * s.minibatches)
        trained = batch // s.batches
        read = max(trained - s.versions, 0) * s.cycle
        ages.append(update - read)
        path.append(path[-1] - s.step * s.curvature * path[update if fresh and inside else read])
    last = ages[s.versions * s.cycle :]
    return _quantities(path[s.cycle :: s.cycle], float(np.mean(last)), float(max(last)))


claim = stated(
    id="staleness/several-batches-a-publish",
    statement="with `n` updates between two publishes, in all batches, epochs and minibatches, and data `m` versions "
    "old, staleness runs from `m n` to `m n + n - 1` updates, and a published iterate moves by `-n * step * curvature` "
    "times the one `m` versions before",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: counting",
    formula_defects={
        "epochs not counted": lambda s: _predict(s.but(epochs=1)),
        "minibatches not counted": lambda s: _predict(s.but(minibatches=1)),
        "published after every batch": lambda s: _predict(s.but(batches=1)),
        "version late by one more": lambda s: _predict(s, 1),
        "weights read anew inside a batch": lambda s: _cross_check(s, fresh=True),
    },
    relative_to="norm",
)
