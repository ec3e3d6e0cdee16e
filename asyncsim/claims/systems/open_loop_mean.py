r"""Mean staleness of an open loop with a buffer of q batches that drops its oldest group, and what is lost there.

an open loop that drops its oldest group has mean staleness `C/P + rho` if `rho < 1`; if `rho > 1`, it has `1 + E
floor(a + t)` and drops `1 - 1/rho` of its groups, without a bias in length

C slots, batches of P groups, T = E[max of N works], training t_T seconds, rho = C t_T/(P T), q = capacity/P.
Generator-bound (rho <= 0.6): mean = C/P + rho. Trainer-bound (rho >= 1.5): mean = 1 + E floor(a + t), in_queue = 1 + E
floor(a), t = group seconds / t_T, a uniform on ((q-1)/rho, q/rho). There dropped_fraction = 1 - 1/rho of all finished
groups, since C/T finish each second and P/t_T are trained. The mean_length of trained samples is E[length]: which group
is dropped depends on how many finish behind it, not on its length or age. That is unbiased up to an order of 1/C.
Derivation, in periods t_T: batches begin and versions are installed at whole times. A full buffer just before a dequeue
holds ages 0..q/rho and the oldest P are taken, ages a. For a group begun a + t before a whole time, 1 + floor(a + t)
versions are installed until it trains. Below rho = 1: slots are always busy, so C are in flight at a publish; the rho P
groups finished during training wait. Divide by P (mean-staleness identity). Replacing E floor(x) by E[x] - 1/2 gives
the closed form C/(P rho) + (2q + rho - 1)/(2 rho). It errs where a + t is not spread over whole periods. Examples are
constant works (rho = 2.5, q = 4, C = P: 2.3 instead of 2.0), and in_queue at q = 1 (less than 1, which no group can
have). Conditional: ages are those of a steady stream. Random arrivals blur them by sqrt(age/(rho P)) periods. Hence P
>= 8, C >= 4 P unless works are constant, and for in_queue edges a quarter away from whole periods. The mean is high by
about 0.14 / P (measured: 1.4 percent at P = 8, 0.7 at 16, 0.2 at 64). Below rho = 1 the part rho is too high by up to a
share 1/C: the slot that completes a batch has just restarted. So it is no separate quantity. Between the two domains
the buffer runs empty and full by chance. One batch a publish, no synchronization time, mode keep or pin, order done,
constant training time. Below rho = 1 works must vary, since slots in step deliver in a pattern. Second route: the mean
over a in closed form, then the density of t. Below rho = 1 it takes a start uniform in the period, and Poisson counts.
Source: Applied Compute (2026) for the closed form, not read; the form with floors is derived.
"""

import math

import numpy as np
from scipy.stats import poisson

from asyncsim.base import checks, laws
from asyncsim.claims import _engines, _openloop, _work, lab
from asyncsim.claims._claim import Estimate, Plant, Point, Positive, Timeline, replaced, sampled

_SLOW, _FAST = 0.6, 1.5
_CLEAR = 0.25
"""Distance of the edges of the ages from whole periods within which chance moves groups across."""
_POINT = {
    "places": 256, "samples_per_group": 4, "groups_per_batch": 64, "length": "lognormal:1.0:0.8", "train_time": 0.74,
    "capacity": 128,
}  # fmt: skip
_FAST_POINT = _POINT | {"samples_per_group": 1, "length": "exponential:1", "train_time": 0.15, "capacity": 256}
_STEP = _POINT | {"places": 16, "samples_per_group": 1, "groups_per_batch": 16, "capacity": 32, "length": "constant:1"}


class OpenLoopMean(_engines.Engines):
    kind, status = "expectation", "conditional"
    source = "derived: staleness at the dequeue; mean-staleness identity below rho = 1"

    places = _engines.places(example=40)
    samples_per_group = _engines.samples(typical=(1, 4), example=4)
    groups_per_batch = _engines.groups(
        low=8, typical=(8, 16), example=8, remedy="the staleness of small batches is blurred by chance"
    )
    length = _engines.work(typical=_openloop.STEADY, example="lognormal:1.0:0.8")
    train_time = Positive(example=0.976, unit="seconds", doc="constant training time of a batch")
    capacity = _engines.capacity(example=8)

    def joint(self) -> None:
        checks.integer("capacity", self.capacity, self.groups_per_batch, "give the buffer room for a batch")
        ratio = self.ratio = self.places * self.train_time / (self.groups_per_batch * self.group)
        # Smallest and largest age at the dequeue, in periods.
        batches = self.capacity / self.groups_per_batch
        self.ages = (batches - 1.0) / ratio, batches / ratio
        bound = f"such that groups generated for each one trained are at most {_SLOW:g} or at least {_FAST:g}, "
        remedy = "in between the buffer runs empty and full by chance; make one side faster"
        self.require(ratio <= _SLOW or ratio >= _FAST, "train_time", f"{bound}not {ratio:.4g}", remedy)
        _openloop.refuse_chance(ratio, self.groups_per_batch, self.capacity)
        # Sums over whole training times would be cut off.
        far = float(self.length.survival(1e5 * self.train_time)) * self.samples_per_group
        bound, remedy = "within 100000 training times", "choose a distribution of a lighter tail"
        checks.require(far <= 1e-17, "length", str(self.length), bound, remedy)
        least = 4 * self.groups_per_batch
        many, bound = self.places >= least, f"at least {least}, four times the groups of a batch"
        remedy = "few places deliver in bursts of their own long and short works; add places"
        self.require(many or not self.length.random, "places", bound, remedy)
        if ratio < 1.0:
            reason = "works in step deliver in a pattern"
            checks.require(self.length.random, "length", str(self.length), "a distribution that varies", reason)
            return
        low, high = self.ages
        distance = min(abs(edge - round(edge)) if edge >= 0.5 else 1.0 for edge in (low, high))
        bound = f"such that staleness of {low:.3g} to {high:.3g} periods ends {_CLEAR:g} or more away from whole ones"
        remedy = "chance moves groups across whole periods; change capacity or train_time"
        self.require(distance >= _CLEAR, "capacity", bound, remedy)

    def predict(s) -> dict[str, float]:
        if s.ratio < 1.0:
            return {"mean": s.places / s.groups_per_batch + s.ratio}
        total = _openloop.mean_floor_by_thresholds(s.length, s.samples_per_group, s.train_time, *s.ages)
        low, high = s.ages
        k = np.arange(1, int(high) + 2)
        queue_floor = float(np.clip((high - k) / (high - low), 0.0, 1.0).sum())
        return {"mean": 1.0 + total, "in_queue": 1.0 + queue_floor} | s.lost(1.0 - 1.0 / s.ratio, s.length.mean())

    def lost(s, share: float, length: float) -> dict[str, float]:
        return {"dropped_fraction": share, "mean_length": length}

    def check(s) -> dict[str, float]:
        if s.ratio < 1.0:
            group = s.group_by_quantiles
            period = s.groups_per_batch * group / s.places
            in_flight = _openloop.mean_floor_by_density(s.length, s.samples_per_group, period, 0.0, 1.0)
            arrivals = s.train_time / group * s.places
            j = np.arange(int(arrivals + 40.0 * np.sqrt(arrivals) + 60.0))
            return {"mean": in_flight + float(j @ poisson.pmf(j, arrivals)) / s.groups_per_batch}
        total = _openloop.mean_floor_by_density(s.length, s.samples_per_group, s.train_time, *s.ages)
        low, high = s.ages
        edges = np.unique(np.clip([low, *range(int(high) + 2), high], low, high))
        middle = (edges[:-1] + edges[1:]) / 2.0
        queue_floor = float((np.diff(edges) * np.floor(middle)).sum()) / (high - low)
        # A full buffer loses the inflow of a period minus one batch.
        inflow = s.places / s.group_by_quantiles * s.train_time
        lost = s.lost((inflow - s.groups_per_batch) / inflow, _work.longest_by_quantiles(s.length, 1))
        return {"mean": 1.0 + total, "in_queue": 1.0 + queue_floor} | lost

    def unrounded(s) -> dict[str, float]:
        """Approximate closed form that replaces E floor(x) by E[x] - 1/2."""
        waiting = (2.0 * s.capacity / s.groups_per_batch + s.ratio - 1.0) / (2.0 * s.ratio)
        above = {"mean": s.places / (s.groups_per_batch * s.ratio) + waiting, "in_queue": waiting}
        return above if s.ratio > 1.0 else {}

    wrong = {
        "rounding replaced by one half": lambda s: s.unrounded(),
        "the install before training forgotten": lambda s: {"mean": s.predict()["mean"] - 1.0},
        "mean sample instead of the longest of a group": lambda s: (
            s.lost(1.0 - s.length.mean() / s.group / s.ratio, s.length.mean()) if s.ratio > 1.0 else {}
        ),
    }

    points = (_POINT, _FAST_POINT, _STEP | {"train_time": 2.8})
    more = (_POINT | {"train_time": 1.2206, "capacity": 64}, _FAST_POINT | {"train_time": 0.7, "capacity": 128})

    def reach(self, point: Point) -> str | None:
        if point["groups_per_batch"] < 16 and laws.as_law("length", point["length"]).random:
            return "groups_per_batch of at least 16; raise it, staleness varies with smaller ones"
        limits = sampled("length", places=1024, groups_per_batch=1024, samples_per_group=64, capacity=8192)
        return limits(point) or lab.overproduced(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        groups, samples = point["groups_per_batch"], point["samples_per_group"]
        system = lab.staggered(lab.engine(point, overflow="drop_oldest"), samples)
        batches = lab.publishes_for(point["places"], groups)
        # By which arrivals by chance move the means (0.4 percent at P = 32, 0.7 at P = 16, measured).
        tolerance = 0.14 / (groups if system.length.random else 100.0)
        realizations = lab.realizations_for(0.005, effect, tolerance, comparisons=5)

        def numbers(record: Timeline) -> dict[str, float]:
            late = record.groups["batch"] >= batches // 10
            trained, head, done = (record.groups[name][late] for name in ("v_train", "v_start", "v_done"))
            means = {"mean": float((trained - head).mean()), "in_queue": float((trained - done).mean())}
            left = record.groups["t_left"] >= record.batches["t_start"][batches // 10]
            kept, lost = (left & (record.groups["fate"] == fate) for fate in ("trained", "dropped_overflow"))
            works = record.samples["work"].reshape(-1, samples)[kept]
            share = float(lost.sum()) / float(kept.sum() + lost.sum())
            return means | {"dropped_fraction": share, "mean_length": float(works.mean()) if works.size else math.nan}

        return lab.means(lab.timelines(plant(system), batches, samples, realizations, seed), numbers, tolerance)

    defects = {
        "versions one behind": lambda: (lab.kernel_defects.version_off_by_one, _FAST_POINT),
        "freshest group first": lambda: replaced(order="freshest"),
        "a full buffer blocks": lambda: replaced(overflow="block"),
        "dropped groups counted as trained": lambda: lab.kernel_defects.dropped_counted_as_trained,
        "old groups cut in generation": lambda: replaced(max_age=1, age_at_pack="all"),
    }
