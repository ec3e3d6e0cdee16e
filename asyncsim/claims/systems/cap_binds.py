r"""If the cap binds, mean staleness is K/M - 1 for K permits and M groups per publish, or K/M on early release.

with all `K` group permits in use and `M` groups per publish, mean staleness is `K/M - 1` if permits return at the
publish, or `K/M` if they return at the dequeue

K permits, M groups consumed per publish. Outstanding at a publish: K - M where permits return at the publish, as the M
groups just trained hold theirs. All K where permits return at the dequeue and training takes time, so that new groups
started meanwhile. Divide by M (mean-staleness identity). With training of zero length a dequeued permit is admitted
after the publish of the same instant, which leaves K/M - 1. Domain: nothing dropped, K >= M, one batch per publish
where training takes no time; and the permits are used. They are for any lengths with C >= K - M slots (C >= K where
permits return at the dequeue). Then each group left over when the last batch trains has a slot. With fewer slots they
are where generation outruns training: M permits return every `period` seconds. The mean F of those without a slot
before the next return is bounded by a queue (`staleness_rules`). The mean is then K/M - 1 - F/M, and a point is inside
where F/M is below a thousandth. Second route: version stamps of an event simulation with random lengths.
"""

import itertools

import numpy as np

from asyncsim.base import checks, laws, rng
from asyncsim.base.declared import Flag, Integer, Parsed, Positive
from asyncsim.claims import _engines, _events, _work, lab
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, named, replaced, sim, units_for
from asyncsim.claims.staleness_rules import _few_places

_UNUSED = 1e-3
"""Versions by which tickets without a place may lower the mean."""
_PUBLISHES = 200
_FEW = {"length": "lognormal:1:0.8", "samples_per_group": 4}
"""Settings for `places` that hold fewer groups than there are tickets, fast enough to use all tickets."""
_point = named("tickets", "publish_groups", "release", "zero_train_time", release="publish", zero_train_time=False)
_CROWDED = _point(40, 8, places=16, period=2.5, **_FEW)


class CapBinds(Claim):
    kind, source = "expectation", "derived: mean-staleness identity with a constant number outstanding"
    through = "kernel"

    tickets = _engines.tickets(example=7)
    publish_groups = Integer(
        1, typical=(1, 6), example=3, unit="groups", doc="groups consumed per publish",
        remedy="consume at least one group per publish",
    )  # fmt: skip
    release = _engines.release(example="publish")
    zero_train_time = Flag(example=False, doc="whether training takes no time")
    places = _engines.places(optional=True)
    length = Parsed(
        _work.law_text, "the text of a distribution", typical=("lognormal:1:0.8", "exponential:1", "constant:1"),
        optional=True, unit="seconds", doc="distribution of the seconds of a sample, where generator slots are few",
    )  # fmt: skip
    samples_per_group = _engines.samples(optional=True)
    period = Positive(optional=True, unit="seconds", doc="time in which the groups of a publish train")

    def joint(self) -> None:
        tickets, groups = self.tickets, self.publish_groups
        checks.integer("tickets", tickets, groups, "give at least one group permit for each group of a publish")
        self.early, instant = self.release == "dequeue", self.zero_train_time
        more = tickets > groups or (self.early and not instant)
        reason = "with as many the run is synchronous and the prediction 0"
        self.require(more, "tickets", f"above publish_groups = {groups}", reason)
        spare = 0 if self.early or instant else groups
        self.few = self.places is not None and self.places < tickets - spare
        if not self.few:
            return
        self.require(not instant, "places", "as many as tickets", "without training none are left over")
        for name in ("length", "samples_per_group", "period"):
            p = self.parameters[name]
            self.require(getattr(self, name) is not None, name, f"{p.domain} where generator slots are few", p.remedy)
        # Keep the queue of tickets for places short.
        queue = self.length, self.samples_per_group, self.places, groups, self.period
        unused = _few_places.of_places(*queue) / groups
        bound = f"such that group permits wait for less than {_UNUSED:g} of a version"
        remedy = f"up to {unused:.2g} may be missing; give more places or a longer period"
        self.require(unused <= _UNUSED, "places", bound, remedy)

    def predict(s) -> dict[str, float]:
        return {"mean": s.tickets / s.publish_groups - (0.0 if s.early and not s.zero_train_time else 1.0)}

    def check(s) -> dict[str, float]:
        """Count the groups outstanding at publishes of an event simulation, just before permits return."""
        stream, instant = rng.Stream(0, "cap-binds, second route"), s.zero_train_time
        law, samples = (s.length, s.samples_per_group) if s.few else (laws.exponential(1.0), 1)
        warm = 2 * (s.tickets // s.publish_groups) + 20
        numbers = np.arange((warm + _PUBLISHES) * s.publish_groups + s.tickets)[:, None] * samples + np.arange(samples)
        seconds = law.sample(stream, 0, numbers).max(axis=1)
        training = itertools.repeat(s.period if s.few else 0.0 if instant else 1.0)
        places = s.places if s.few else s.tickets
        early, works = s.early and not instant, iter(seconds.tolist())
        loop = _events.Loop(works, training, places, s.publish_groups, tickets=s.tickets, early=early)
        publishes = loop.run(warm + _PUBLISHES)[warm:]
        begun = np.searchsorted(loop.started, publishes)
        trained = (np.arange(warm, warm + _PUBLISHES) + 1) * s.publish_groups
        return {"mean": float((begun - trained).mean()) / s.publish_groups}

    wrong = {"one publish too many": lambda s: {"mean": s.predict()["mean"] + 1.0}}

    points = (
        *(_point(8, 4), _point(40, 8), _point(33, 8), _point(12, 4, "dequeue"), _point(12, 4, "dequeue", True)),
        _CROWDED,
    )
    more = (
        *(_point(144, 16), _point(10, 4), _point(160, 32, places=64, period=2.0, **_FEW)),
        _point(40, 8, "dequeue", places=6, period=6.0, **_FEW),
    )

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        realizations = max(16, units_for(0.01, effect, 7))
        tickets, groups = point["tickets"], point["publish_groups"]
        # AReaL with twice as many places as tickets, so that tickets and nothing else limit generation.
        free = {"places": 2 * tickets, "length": laws.lognormal(1.0, 0.8), "samples_per_group": 1}
        places, length, samples = (free | {name: point[name] for name in free if name in point}).values()
        speed = {"train_time": point["period"]} if "period" in point else {"load": 2.0 if tickets > 20 else 0.7}
        system = sim.systems.areal(1, groups, places, length=length, **speed)
        system = system.replace(tickets=tickets, release=point["release"])
        if point["zero_train_time"]:
            system = system.replace(train_time=0.0, load=None)
        # Many permits for a batch forget the start slowly.
        warm = 2 * tickets // groups + 20 + 20 * max(0, tickets // groups - 9)
        heads = lab.stationary_heads(plant(system), max(400, 2 * warm), warm, realizations, seed, samples)
        return {"mean": lab.mean_over_realizations(heads)}

    defects = {
        "group permits returned at the dequeue": lambda: (replaced(release="dequeue"), _point(40, 8)),
        "a group permit lost": lambda: (lab.ticket_lost, _point(40, 8)),
        "an install not counted": lambda: (lab.kernel_defects.version_off_by_one, _point(12, 4, "dequeue")),
        "a quarter of the generator slots": lambda: (replaced(rates=(1.0,) * 4), _CROWDED),
    }
