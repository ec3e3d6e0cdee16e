"""Parameters that points of event systems have in common, each with its bound, unit and meaning.

A claim adds `example` and `typical`, and changes what differs there.

Workers that read the newest parameters, work, deliver (one update), and read again have lags that are counted on the
order of deliveries: the second route to the conservation laws of staleness. Lags are integers, so an identity that
holds for every order can be checked on any.
"""

import heapq
from functools import partial
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.base.laws import Law
from asyncsim.claims import _lengths, _work
from asyncsim.claims._claim import Choice, Claim, Count, Flag, Integer, Parsed, Positive, Real, Vector

WORKS = ("constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "pareto:1:1.5", "empirical:1:2:2:7")
"""Typical works of a sample: one value, light and heavy tails, few values."""


class Engines(Claim):
    """Base of claims on an event system; tests draw parameters without `typical`, since they depend on others."""

    through = "kernel"

    @property
    def group(self: Any) -> float:
        """E[T], mean seconds of a group at rate 1, which is the mean of its longest sample."""
        return _work.longest(self.length, self.samples_per_group)

    @property
    def group_by_quantiles(self: Any) -> float:
        """E[T], mean seconds of a group at rate 1, integrated over quantiles."""
        return _work.longest_by_quantiles(self.length, self.samples_per_group)

    @property
    def batch(self: Any) -> int:
        """Q, number of samples per batch."""
        return int(self.groups_per_batch * self.samples_per_group)

    @property
    def publish(self: Any) -> int:
        """M, number of groups per publish."""
        return int(self.groups_per_batch * self.batches_per_publish)


places = partial(Count, 1, unit="groups", doc="groups in generation at once (slots)")
tickets = partial(Count, 1, unit="groups", doc="group permits: groups outstanding at once")
groups = partial(Count, low=1, unit="groups", doc="groups of a batch")
batches = partial(Count, 1, unit="batches", doc="batches of a publish")
samples = partial(Count, 1, unit="samples", doc="samples of a group")
slots = partial(Count, low=1, unit="samples", doc="samples decoded at once")
capacity = partial(Count, 1, unit="groups", doc="finished groups that the buffer holds")
cells = partial(Integer, 1, doc="cells of the distribution that are asked for", remedy="ask for at least one cell")
work = partial(
    Parsed[Law], _work.law_of, "the text of a distribution of finite mean, or a positive number", typical=WORKS,
    unit="seconds", doc="distribution of the work of a sample, seconds at rate 1",
)  # fmt: skip
smooth_length = partial(
    Parsed[Law], _lengths.read_law, f"the text of a distribution with a density: {', '.join(_lengths.SMOOTH)}",
    typical=_lengths.HEAVY, unit="seconds", doc="distribution of the seconds of a sample",
)  # fmt: skip
OF_ONE_GROUP = "training time of a batch of one group"
_training: dict[str, Any] = {"unit": "seconds", "doc": "training time of a batch"}
train_time = partial(Parsed[float], _work.seconds, "number >= 0, or the text of a distribution", **_training)
some_train_time = partial(Parsed[float], _work.some_seconds, "number > 0, or the text of a distribution", **_training)
period = partial(Positive, unit="seconds", doc="time from publish to publish, the training of a batch")
sync_time = partial(Real, 0.0, unit="seconds", doc="seconds of a synchronization, from the snapshot to the install")
generator_pauses = partial(Flag, doc="whether a synchronization stops the generators")
release = partial(Choice, "publish", "dequeue", doc="when a group permit returns")


class Workers(Engines):
    """Base of claims on workers that deliver an update and restart at once, each at its own rate."""

    workers = Integer(
        2, typical=(2, 12), example=3, doc="workers that update on arrival",
        remedy="one worker is never stale; give at least two",
    )  # fmt: skip
    rates = Vector(
        0.0, typical=(0.5, 4.0), example=(1.0, 2.0, 5.5), optional=True, unit="work per second",
        doc="speed of each worker (default: all equal)",
    )  # fmt: skip

    def joint(self) -> None:
        """Require one rate per worker, and set each worker's fraction of the total rate."""
        if self.rates is not None:
            checks.finite_array("rates", self.rates.tolist(), [self.workers], "give each worker a rate")
        rates = np.ones(self.workers) if self.rates is None else self.rates
        # Share of the speed of all that each worker has.
        self.shares = rates / rates.sum()


def service(**details: Any) -> Parsed[Law]:
    """Declare the distribution of the service time of a worker at rate 1."""
    doc = "distribution of the time from reading to delivering at rate 1"
    details = {"unit": "seconds", "doc": doc, **details}
    return Parsed(_work.law_text, "the text of a distribution of finite mean", **details)


def order(workers: int, updates: int, rates: np.ndarray | None = None, *, seed: int = 0) -> np.ndarray:
    """Worker that makes each update, int `[updates]`; log-normal service times (sigma 1) divided by the given rates."""
    generator = np.random.default_rng(seed)
    rates = np.ones(workers) if rates is None else rates
    work = iter(generator.lognormal(0.0, 1.0, updates + workers))
    queue = [(next(work) / rates[w], w) for w in range(workers)]
    heapq.heapify(queue)
    sequence = np.empty(updates, dtype=np.int64)
    for t in range(updates):
        now, w = queue[0]
        sequence[t] = w
        heapq.heapreplace(queue, (now + next(work) / rates[w], w))
    return sequence


def cyclic_mean_lag(sequence: np.ndarray, groups: int = 1) -> float:
    """Mean staleness in versions of `groups` deliveries each, when the order of workers repeats forever."""
    # So many rounds close a cycle of versions, behind as many in which every worker has begun.
    deliveries = np.tile(sequence, 2 * groups)
    restarts, stalenesses = dict.fromkeys(sequence.tolist(), 0), []
    for t, worker in enumerate(deliveries.tolist()):
        stalenesses.append(t // groups - restarts[worker])
        restarts[worker] = (t + 1) // groups
    return sum(stalenesses[len(deliveries) // 2 :]) / (len(deliveries) // 2)
