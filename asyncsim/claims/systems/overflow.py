r"""A generator rho times as fast as the trainer loses a share 1 - 1/rho of its groups, without a bias in length.

a generator `rho` times as fast as the trainer loses `1-1/rho` of its groups, without a bias in length

dropped_fraction = 1 - 1/rho of all finished groups, rho = C t_T / (P T) with C slots, T = E[max of N works], batches
of P groups. mean_length of trained samples = E[length]. Derivation: an open loop with a buffer that drops its oldest
never blocks a slot, so C/T groups finish each second. A trainer that always has a batch takes P/t_T. Which group is
dropped depends on how many finish behind it, not on its length or age. Domain: rho >= 1.25, drop_oldest, no age rule,
no synchronization time, and a buffer so large that the trainer is seldom left without a batch. Lengths are unbiased up
to an order of 1/C: behind a long sample its own slot has delivered nothing for a while. Second route: a fluid that
fills the buffer and runs over, batches taken out at a fixed period.
"""

import math

from asyncsim.claims import _engines, _openloop, _work, lab
from asyncsim.claims._claim import Estimate, Plant, Point, Timeline, checks, replaced, sampled

_TOLERANCE = 0.002
"""A buffer empty by chance, and lengths biased by an order of 1/places (both below 0.1 percent at 16 places)."""
_POINT = {
    "places": 64, "samples_per_group": 4, "groups_per_batch": 16, "length": "lognormal:1.0:0.8", "train_time": 0.7323,
    "capacity": 32,
}  # fmt: skip


class Overflow(_engines.Engines):
    kind, status, source = "expectation", "asymptotic", "derived: finished less trained"

    places = _engines.places(example=32)
    samples_per_group = _engines.samples(typical=(1, 4), example=4)
    groups_per_batch = _engines.groups(typical=(8, 16), example=8)
    length = _engines.work(typical=_openloop.STEADY, example="exponential:1")
    train_time = _engines.some_train_time(example=1.0)
    capacity = _engines.capacity(example=16)

    def joint(self) -> None:
        checks.integer("capacity", self.capacity, self.groups_per_batch, "give the buffer room for a batch")
        ratio = self.places * self.train_time / (self.groups_per_batch * self.group)
        bound = f"such that 1.25 groups or more are generated for each one trained, not {ratio:.4g}"
        remedy = "near equality drops are a matter of chance; train for longer or add places"
        self.require(ratio >= 1.25, "train_time", bound, remedy)
        _openloop.refuse_chance(ratio, self.groups_per_batch, self.capacity)

    def lost(s, group: float) -> dict[str, float]:
        ratio = s.places * s.train_time / (s.groups_per_batch * group)
        return {"dropped_fraction": 1.0 - 1.0 / ratio, "mean_length": s.length.mean()}

    def predict(s) -> dict[str, float]:
        return s.lost(s.group)

    def check(s) -> dict[str, float]:
        """Fluid limit: a full buffer loses the inflow of a period minus one batch."""
        inflow = s.places / s.group_by_quantiles * s.train_time
        lost = (inflow - s.groups_per_batch) / inflow
        return {"dropped_fraction": lost, "mean_length": _work.longest_by_quantiles(s.length, 1)}

    wrong = {"mean sample instead of the longest of a group": lambda s: s.lost(s.length.mean())}

    points = (_POINT, _POINT | {"samples_per_group": 1, "length": "exponential:1", "train_time": 0.75})
    more = (_POINT | {"train_time": 1.2206},)

    def reach(self, point: Point) -> str | None:
        if point["places"] < 16:
            return "places of at least 16; raise them, few places bias the lengths that are trained"
        limits = sampled("length", "train_time", places=1024, groups_per_batch=1024, samples_per_group=64)
        return limits(point) or lab.overproduced(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        samples = point["samples_per_group"]
        system = plant(lab.staggered(lab.engine(point, overflow="drop_oldest"), samples))
        batches = lab.publishes_for(point["places"], point["groups_per_batch"])
        realizations = lab.realizations_for(0.015, effect, _TOLERANCE, comparisons=6)

        def numbers(record: Timeline) -> dict[str, float]:
            late = record.groups["t_left"] >= record.batches["t_start"][batches // 10]
            trained, dropped = (late & (record.groups["fate"] == fate) for fate in ("trained", "dropped_overflow"))
            work = record.samples["work"].reshape(-1, samples)[trained]
            share = float(dropped.sum()) / float(trained.sum() + dropped.sum())
            return {"dropped_fraction": share, "mean_length": float(work.mean()) if work.size else math.nan}

        return lab.means(lab.timelines(system, batches, samples, realizations, seed), numbers, _TOLERANCE)

    defects = {
        "dropped groups counted as trained": lambda: lab.kernel_defects.dropped_counted_as_trained,
        "a full buffer blocks": lambda: replaced(overflow="block"),
        "old groups cut in generation": lambda: replaced(max_age=1, age_at_pack="all"),
    }
