r"""A synchronous update waits for the longest of its samples, then trains, then synchronizes.

a synchronous update lasts `E[longest of all its samples]/rate + training + synchronization`

Seconds of a step = E[max of P N works]/rate + t_T + t_sync, P groups of N samples. Derivation: all samples start
together on engines that hold them all, none is admitted before the install, and training starts with the last end.
Steps are independent, so batches a second are the inverse of the mean step (renewal reward), not the mean of inverses.
Closed forms of the maximum: exponential mu H_n; Pareto x Gamma(n+1) Gamma(1-1/a) / Gamma(n+1-1/a); else the integral of
1 - F^n. Domain: every sample decodes from the start (slots for all groups, no limit of slots, speed independent of the
number active). Rewards come at once; lengths have a finite mean. Second route: quadrature of the quantile function.
"""

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Estimate, Plant, Point, Positive, checks, named, replaced, sampled

_STEPS = 400
_point = named("groups_per_batch", "samples_per_group", "length", "rate", "train_time", "sync_time")
_POINT = _point(8, 4, "exponential:1", 1.0, 1.0, 0.25)


class SynchronousThroughput(_engines.Engines):
    kind, source = "expectation", "derived: expectation of a maximum, renewal reward"

    groups_per_batch = _engines.groups(high=checks.LARGEST, typical=(1, 6), example=8)
    samples_per_group = _engines.samples(checks.LARGEST, typical=(1, 6), example=4)
    length = _engines.work(example="lognormal:1.0:0.8")
    rate = Positive(typical=(0.5, 2.0), example=2.0, unit="work per second", doc="speed of a generator slot")
    train_time = _engines.train_time(typical=(0.5, "exponential:1.5"), example="exponential:1.5")
    sync_time = _engines.sync_time(typical=(0.0, 1.0), example=0.25)

    def _step(s, work: float) -> dict[str, float]:
        return {"step_seconds": work / s.rate + s.train_time + s.sync_time}

    def predict(s) -> dict[str, float]:
        return s._step(_work.longest(s.length, s.batch))

    def check(s) -> dict[str, float]:
        return s._step(_work.longest_by_quantiles(s.length, s.batch))

    wrong = {
        "mean sample instead of the longest": lambda s: s._step(s.length.mean()),
        "longest of one group instead of the batch": lambda s: s._step(s.group),
    }

    points = (_POINT, _point(4, 8, "lognormal:1.0:0.8", 2.0, "exponential:1.5", 0.0))
    more = (_point(16, 2, "pareto:1:3", 1.0, 0.5, 0.5), _point(1, 1, "constant:2", 0.5, 1.0, 0.25))
    reach = staticmethod(sampled("length", "train_time", groups_per_batch=1024, samples_per_group=64))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        system = lab.synchronous(point, rates=(float(point["rate"]),) * point["groups_per_batch"])
        count = lab.realizations_for(0.03, effect, 0.0, comparisons=4)
        records = lab.timelines(plant(system), _STEPS, point["samples_per_group"], count, seed)
        # Every step begins like the first, with nothing out, so there is no warm-up.
        steps = [float(record.publishes["t_install"][-1]) / _STEPS for record in records]
        return {"step_seconds": lab.average(steps)}

    defects = {
        "the next batch begins before the install": lambda: replaced(tickets=16, mode="keep"),
        "slots for half of the samples": lambda: replaced(slots=16),
        "synchronization not waited for": lambda: replaced(sync_time=0.0),
    }
