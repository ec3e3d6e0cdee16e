"""Parameters that points of event systems have in common, each with its bound, unit and meaning.

A claim adds `example` and `typical`, and changes what differs there.
"""

from functools import partial
from typing import Any

from asyncsim.base.laws import Law
from asyncsim.claims import _lengths, _work
from asyncsim.claims._claim import Choice, Claim, Count, Flag, Integer, Parsed, Positive, Real

WORKS = ("constant:2", "exponential:1", "lognormal:1:0.8", "gamma:2:3", "pareto:1:1.5", "empirical:1:2:2:7")
"""Typical works of a sample: one value, light and heavy tails, few values."""


class Engines(Claim):
    """Base class of claims on an event system; tests draw parameters that lack `typical` given the others."""

    through = "kernel"

    @property
    def group(self: Any) -> float:
        """E[T], mean seconds in which a slot of rate 1 generates a group, the mean of its longest sample."""
        return _work.longest(self.length, self.samples_per_group)

    @property
    def group_by_quantiles(self: Any) -> float:
        """E[T], mean seconds in which a slot of rate 1 generates a group, integrated over quantiles."""
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
