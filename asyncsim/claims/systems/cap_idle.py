r"""If generation is the slower side, generator slots set the mean staleness: E[s] = C/P + rho + E[(Q - P)^+]/P.

if `C` generator slots are the slower side, mean staleness is `C/P + rho` plus random waits, whatever the limit

C slots always busy, P groups a batch, one batch a publish, constant train time t_T, no permit ever missing; X = C /
E[T_group] groups per second and rho = t_T X / P < 1. Derivation: mean-staleness identity. Outstanding at a publish are
the C groups in generation and Q groups that are ready and not yet taken. Where completions are a Poisson stream
(exactly: one exponential sample a group), Q' = (Q - P)^+ + A with A ~ Poisson(rho P). W = (Q - P)^+ is a random walk
reflected at 0: E W = sum_n E[(A_1 + .. + A_n - nP)^+]/n. C/P + rho alone omits batches that wait for a batch by chance.
With other lengths and larger groups, a slot that has just finished finishes again late, and batches queue less than
under a Poisson stream. The effect falls with the number of slots: the mean is 1 % lower at C = 4 P = 16, 0.2 % at 64.
Domain: lengths with a density; rho <= 0.95 for one exponential sample a group, else rho <= 0.6 and C >= 4 P. Second
route: roots of z^P = exp(rho P (z - 1)) in the unit disk. Source: derived; sum over n: Spitzer (1956).
"""

import math

import numpy as np
from scipy.special import lambertw
from scipy.stats import poisson

from asyncsim.base import laws
from asyncsim.claims import _engines, lab
from asyncsim.claims._claim import Estimate, Plant, Point, Positive, named, replaced

_BUSIEST, _MODERATE, _PLACES_PER_GROUP = 0.95, 0.6, 4
_GROUPS = 24_000
"""Groups that one realization trains, and a tenth more for the start to be forgotten."""
_point = named("places", "groups_per_batch", "length", "train_time", "samples_per_group", samples_per_group=1)
_EIGHT = _point(8, 1, "exponential:1.0", 0.0625)


def _poisson(point: Point) -> bool:
    """Whether completions are exactly a Poisson process."""
    return laws.as_law("length", point["length"]).kind == "exponential" and point["samples_per_group"] == 1


class CapIdle(_engines.Engines):
    kind, status = "expectation", "asymptotic"
    source = "derived: mean-staleness identity; batches of Poisson arrivals (Spitzer's identity)"

    places = _engines.places(example=4)
    groups_per_batch = _engines.groups(high=4096, typical=(1, 24), example=4)
    samples_per_group = _engines.samples(typical=(1, 4), example=1)
    length = _engines.smooth_length(
        typical=("exponential:1.0", "lognormal:1.0:0.8", "gamma:1.0:2.0"), example="exponential:1.0"
    )
    train_time = Positive(example=0.8, unit="seconds", doc="training time of a batch")

    def joint(self) -> None:
        places, groups = self.places, self.groups_per_batch
        seconds = self.length.expected_max(self.samples_per_group)
        poisson_stream = self.length.kind == "exponential" and self.samples_per_group == 1
        least = 1 if poisson_stream else _PLACES_PER_GROUP * groups
        reason = "completions of few generator slots are no Poisson stream"
        self.require(places >= least, "places", f">= {least}", reason)
        busy = self.busy = self.train_time * places / (seconds * groups)
        largest = _BUSIEST if poisson_stream else _MODERATE
        bound = f"at most {largest * seconds * groups / places:.6g}"
        remedy = f"the trainer is busy {busy:.4g} of the time; generation must be the slower side"
        # A train time computed from a share may round to just above it.
        self.require(busy <= largest * (1.0 + 1e-12), "train_time", bound, remedy)

    def waiting(s) -> float:
        """Mean excess E[(Q - P)^+], a sum over n whose terms decay at least as fast as exp(-n P (1 - rho)^2 / 2)."""
        last = 64 + int(80.0 / (s.groups_per_batch * (1.0 - s.busy) ** 2))
        n = np.arange(1, last + 1)
        rate, level = n * s.groups_per_batch * s.busy, n * s.groups_per_batch
        excess = rate * poisson.sf(level - 1, rate) - level * poisson.sf(level, rate)
        return math.fsum(excess / n)

    def predict(s) -> dict[str, float]:
        return {"mean": s.places / s.groups_per_batch + s.busy + s.waiting() / s.groups_per_batch}

    def check(s) -> dict[str, float]:
        turns = np.exp(2j * np.pi * np.arange(1, s.groups_per_batch) / s.groups_per_batch)
        roots = -lambertw(-s.busy * math.exp(-s.busy) * turns) / s.busy
        queue = s.groups_per_batch * s.busy / 2.0 + s.busy / (2.0 * (1.0 - s.busy)) - (s.groups_per_batch - 1) / 2.0
        queue += float((1.0 / (1.0 - roots)).sum().real)
        return {"mean": (s.places + queue) / s.groups_per_batch}

    wrong = {"chance queueing forgotten": lambda s: {"mean": s.places / s.groups_per_batch + s.busy}}

    points = (_EIGHT, _point(64, 16, "lognormal:1.0:0.8", 0.25, 4), _point(8, 1, "exponential:1.0", 0.1))
    more = (_point(64, 16, "gamma:1.0:4.0", 0.125),)

    def reach(self, point: Point) -> str | None:
        if not _poisson(point) and point["places"] < 64:
            return "at least 64 places; take more, so that completions are a Poisson stream to half a percent"
        law = laws.as_law("length", point["length"])
        if (law.kind == "pareto" and law.parameters[1] < 2.0) or (law.kind == "lognormal" and law.parameters[1] > 1.5):
            return "a Pareto index of at least 2, a log-normal sigma of at most 1.5; take a lighter tail"
        return None if point["places"] <= 4096 else "at most 4096 places"

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        count, batch = point["places"], point["groups_per_batch"]
        # How far completions of the fewest places within reach are from a Poisson stream (measured: 0.25 percent).
        tolerance = 0.0 if _poisson(point) else 0.004
        realizations = lab.realizations_for(0.012 if tolerance == 0.0 else 0.002, effect, tolerance, 8)
        warm_up, system = max(_GROUPS // 10, 40 * count) // batch, plant(lab.engine(point))
        size = warm_up + _GROUPS // batch, warm_up, realizations
        heads = lab.stationary_heads(system, *size, seed, point["samples_per_group"])
        estimate = lab.mean_over_realizations(heads)
        return {"mean": estimate._replace(tolerance=max(estimate.tolerance, tolerance * estimate.value))}

    defects = {
        "a generator slot freed twice": lambda: lab.kernel_defects.place_freed_twice,
        "an install not counted": lambda: lab.kernel_defects.version_off_by_one,
        "training takes longer": lambda: replaced(train_time=1.5 * 0.0625),
    }
