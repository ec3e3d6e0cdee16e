"""Open loops under a clock: a trainer that never waits publishes every `period` seconds whatever the generators do.

Places start again at once, so a sample's start falls anywhere in a period, independently of how long it will take.
"""

from __future__ import annotations

from asyncsim.base import checks
from asyncsim.base.declared import Declared
from asyncsim.claims import _engines

_SUPPLY = 1.25


class Clocked(Declared):
    """Law of the generation seconds of a sample, and the seconds between two publishes; one sample a group."""

    length = _engines.smooth_length(example="lognormal:1.0:0.8")
    period = _engines.period(typical=(0.1, 3.0), example=0.4)
    places = _engines.places(typical=(16, 512), example=64)
    groups_per_batch = _engines.groups(typical=(1, 8), example=8)

    def joint(self) -> None:
        """Where generation feeds the trainer by less than a quarter too much it would wait, and the clock stop."""
        least = _SUPPLY * self.groups_per_batch * self.length.mean() / self.period
        remedy = "the trainer must never wait; give more places (generator slots) or a longer period"
        checks.real("places", self.places, remedy, least)
