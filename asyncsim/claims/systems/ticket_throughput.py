r"""Generator slots, trainer and group permits each bound the throughput: none is busy for more than all the time.

groups per second are at most `min(C/T, P/t_T, K/hold)`, if a group keeps its permit for `hold` seconds

groups per second <= 1 / (max(T/C, t_T/P, hold/K) + t_sync/M) where a synchronization stops generators and trainer
alike. Where the generators go on, it is 1 / max(T/C, t_T/P + t_sync/M, hold'/K). T = E[max of N works], C slots, P
groups a batch, M = S P a publish, K permits. A permit that returns at the install is held for hold = T + (S+1)/2 t_T:
generation, its own batch, and on average half of the other S - 1. There hold' = hold + t_sync. Where it returns at the
dequeue it is held for T alone. Derivation: a resource of which there are c, used for u seconds by each group, lets at
most c/u groups per second through (utilization law; Little for permits); waiting only adds. Nothing is dropped, so
groups in generation have the mean T whatever the order. Attained, to a few parts in a thousand, wherever slots or the
trainer alone are scarce. Scarce permits attain it with P = S = 1; in batches of 16 they give half of the bound. With
several batches to a publish finished groups wait for the trainer: 0.92 of the bound at best. Domain: the trainer waits
for the install, every admitted group is trained, works of finite mean. The form K/(T + t_T) for all releases is wrong
at the dequeue, where permits do not wait for training. Second route: seconds of use added up over one publish.
"""

import math

import numpy as np

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Estimate, Plant, Point, checks, each_term, sampled

_POINT = {
    "places": 64, "samples_per_group": 4, "groups_per_batch": 16, "batches_per_publish": 1, "tickets": 64,
    "release": "publish", "length": "lognormal:1.0:0.8", "train_time": 1.0, "sync_time": 0.0, "generator_pauses": False,
}  # fmt: skip
_FEW_PLACES = _POINT | {"places": 32, "groups_per_batch": 8, "tickets": 96, "train_time": 0.15}
_SINGLE = _POINT | {"places": 64, "tickets": 16, "groups_per_batch": 1, "samples_per_group": 2, "train_time": 0.01}
_PAUSED = _SINGLE | {"length": "exponential:1", "sync_time": 0.05, "generator_pauses": True}
_ONE_TICKET = _SINGLE | {"places": 4, "tickets": 1, "length": "constant:1", "train_time": 0.6, "sync_time": 0.4}
"""One group after the other: generation, training and synchronization are all that the ticket is held for."""
_TWO_BATCHES = _SINGLE | {
    "places": 2, "tickets": 2, "batches_per_publish": 2, "samples_per_group": 1, "length": "empirical:1:2",
    "train_time": 1.0,
}  # fmt: skip
"""Half of the groups end as the one before leaves the trainer: 0.92 of the bound, the most that was found."""
_IN_STEP = _POINT | {"places": 8, "tickets": 8, "groups_per_batch": 8, "samples_per_group": 1, "train_time": 0.9}


class TicketThroughput(_engines.Engines):
    kind, source = "bound", "derived: utilization law of generator slots, trainer and group permits"
    loose = frozenset({"group permits behind other batches"})

    places = _engines.places(typical=(1, 12), example=16)
    samples_per_group = _engines.samples(typical=(1, 6), example=2)
    groups_per_batch = _engines.groups(typical=(1, 6), example=2)
    batches_per_publish = _engines.batches(typical=(1, 3), example=2)
    tickets = _engines.tickets(example=6)
    release = _engines.release(example="publish")
    length = _engines.work(example="exponential:1")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example=0.5)
    sync_time = _engines.sync_time(typical=(0.0, 1.0), example=0.1)
    generator_pauses = _engines.generator_pauses(example=False)

    def joint(self) -> None:
        self.early = self.release == "dequeue"
        least = self.groups_per_batch if self.early else self.publish
        reason = "give a group permit to each group that must be out before one returns"
        checks.integer("tickets", self.tickets, least, reason)

    def rate(self, group: float, factor: float = 1.0, term: str = "") -> dict[str, float]:
        """Bound on throughput if a group takes `group` seconds of a slot; a factor divides one term's seconds."""
        share, both = self.sync_time / self.publish, self.generator_pauses
        # Seconds for which a ticket that returns at the install is held at least.
        hold = {
            "tickets": group,
            "group permits in training": self.train_time,
            "group permits behind other batches": (self.batches_per_publish - 1) / 2.0 * self.train_time,
            "group permits in synchronization": 0.0 if both else self.sync_time,
        }
        # Seconds for which a group uses a place, the trainer, a ticket, over how many there are; then nothing goes on.
        training = {"trainer": self.train_time / self.groups_per_batch, "trainer's synchronization": share * (not both)}
        tickets = {name: part / self.tickets for name, part in ({"dequeue": group} if self.early else hold).items()}
        each = {"places": group / self.places}, training, tickets, {"stop of all": share * both}
        *uses, stop = (math.fsum(x / (factor if name == term else 1.0) for name, x in use.items()) for use in each)
        return {"groups_per_second": 1.0 / (max(uses) + stop)}

    def predict(s) -> dict[str, float]:
        return s.rate(s.group)

    def check(s) -> dict[str, float]:
        """Sum the slot, trainer and permit seconds of one publish, with its batches trained one after another."""
        group = s.group_by_quantiles
        begins = np.repeat(np.arange(s.batches_per_publish) * s.train_time, s.groups_per_batch)
        install = s.batches_per_publish * s.train_time + (0.0 if s.generator_pauses else s.sync_time)
        held = float(sum(group + (0.0 if s.early else install - begin) for begin in begins))
        use = {"places": begins.size * group, "trainer": install, "tickets": held}
        available = {"places": s.places, "trainer": 1, "tickets": s.tickets}
        seconds = max(use[name] / available[name] for name in use) + (s.sync_time if s.generator_pauses else 0.0)
        return {"groups_per_second": s.publish / seconds}

    wrong = {
        "every group as slow as the slowest of its batch": lambda s: s.rate(
            _work.longest(s.length, s.samples_per_group * s.groups_per_batch)
        )
    }

    # Its seconds divided by the factor: a smaller one makes the bound lower. Seconds without end let nothing through.
    terms = each_term(
        lambda s, term, factor: s.rate(s.group, max(factor, 1e-12), term),
        *("places", "trainer", "trainer's synchronization", "dequeue", "tickets", "group permits in training"),
        *("group permits behind other batches", "group permits in synchronization", "stop of all"),
    )

    points = (
        *(
            _POINT | {"sync_time": 0.5},
            _FEW_PLACES,
            _PAUSED,
            _SINGLE | {"length": "exponential:1", "release": "dequeue"},
        ),
        *(_ONE_TICKET, _ONE_TICKET | {"generator_pauses": True}, _TWO_BATCHES),
        # Tickets are back before the training that they would wait for elsewhere.
        _IN_STEP | {"length": "constant:1", "release": "dequeue"},
    )
    more = (
        _POINT,
        _POINT | {"groups_per_batch": 8, "tickets": 16, "train_time": 0.3},
        _POINT | {"batches_per_publish": 2, "sync_time": 0.2},
        _FEW_PLACES | {"sync_time": 0.2, "generator_pauses": True},
    )
    reach = staticmethod(
        sampled("length", "train_time", places=1024, tickets=4096, groups_per_batch=1024, samples_per_group=64)
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        batches, out = point["batches_per_publish"], max(point["places"], point["tickets"])
        publishes = lab.publishes_for(out, batches * point["groups_per_batch"])
        count = lab.realizations_for(0.015, effect, 0.0, comparisons=12, kind="bound")
        size = publishes * batches, point["samples_per_group"], publishes // 10, count
        return lab.groups_per_second(plant(lab.engine(point)), *size, seed)

    defects = {
        "group permits that are out handed out again": lambda: (lab.kernel_defects.counter_lost, _PAUSED),
        "eight generator slots freed twice": lambda: (lab.kernel_defects.eight_places_freed_twice, _FEW_PLACES),
    }
