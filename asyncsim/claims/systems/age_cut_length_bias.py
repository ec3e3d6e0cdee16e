r"""A staleness limit favors short samples: it keeps those of length L with probability clip(m + 1 - L/tau, 0, 1).

a staleness limit `m` keeps a sample of length `L` with probability `clip(m + 1 - L/tau, 0, 1)`, `tau` as realized

Open loop, C slots, P groups a batch, one sample a group, training takes no time. A sample older than m versions when
it is done (planned version less version at start) is dropped. Derivation: nothing waits over a publish, so the age at
the cut is floor(L/tau + phi) with phi uniform (`systems/in-flight`). Hence kappa(L) = P(age <= m) = clip(m + 1 - x, 0,
1), x = L/tau. Kept fraction E kappa, mean length of the trained E[L kappa]/E[kappa]; if all waited q publishes, m - q
would stand for m. The period is realized, not set: C slots deliver C/E[L] samples per second, of which E kappa are
kept. So tau = P E[L]/(C E[kappa(tau)]), whose right side falls in tau: one solution. Exact as P grows, when P kept
deliveries are a clock; the mean length is off by about 1/(3 P) of itself. Domain: lengths with a density, P >= 16, C >=
P. Without the cut, and under permits without drops, lengths are unbiased. Second route: quadrature over the density.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from asyncsim.base import checks, laws
from asyncsim.claims import _engines, _lengths, lab
from asyncsim.claims._claim import Estimate, Integer, Plant, Point, named, replaced, sampled

_Moments = Callable[[float], tuple[float, float]]
_CLOCK = {"mean_length": 0.5, "kept": 0.25, "period": 0.25}
"""How far P kept deliveries are from a clock, by 1/P (measured)."""
_point = named("length", "places", "groups_per_batch", "max_age")


class AgeCutLengthBias(_engines.Engines):
    kind, status, source = "expectation", "asymptotic", "derived: uniform phase"

    length = _engines.smooth_length(example="lognormal:1.0:0.8")
    places = _engines.places(example=256)
    groups_per_batch = _engines.groups(low=16, typical=(16, 64), example=64, remedy="few deliveries make no clock")
    max_age = Integer(
        0, typical=(0, 8), example=1, unit="versions", remedy="count versions",
        doc="maximum staleness of a finished sample, in versions from its start",
    )  # fmt: skip

    def joint(self) -> None:
        reason = "with fewer generator slots hardly anything is cut"
        checks.integer("places", self.places, self.groups_per_batch, reason)
        # Seconds between two publishes where nothing is cut.
        self.uncut = self.groups_per_batch * self.length.mean() / self.places

    def quantities(s, period: float, moments: _Moments) -> dict[str, float]:
        share, length = moments(period)
        return {"kept": share, "mean_length": length / share, "period": period}

    def solved(s, moments: _Moments) -> dict[str, float]:
        """Predictions at the publish period for which as many groups survive the staleness limit as are trained."""

        def surplus(log_period: float) -> float:
            period = float(np.exp(log_period))
            return period * moments(period)[0] - s.uncut

        # tau E kappa(tau) grows from 0 to infinity, below tau itself.
        low = high = float(np.log(s.uncut))
        while surplus(high) < 0.0:
            high += 1.0
        period = float(np.exp(brentq(surplus, low - 1e-9, high, xtol=1e-15, rtol=1e-15)))
        return s.quantities(period, moments)

    def moments(s, period: float) -> tuple[float, float]:
        """Kept fraction E kappa and mean kept length E[L kappa] of samples, in closed form."""
        high = (s.max_age + 1) * period
        low = high - period
        below = [(s.length.moment_below(p, low), s.length.moment_below(p, high)) for p in (0, 1, 2)]
        (zero, zero_high), (one, one_high), (two, two_high) = below
        share = zero + (s.max_age + 1) * (zero_high - zero) - (one_high - one) / period
        length = one + (s.max_age + 1) * (one_high - one) - (two_high - two) / period
        return share, length

    def predict(s) -> dict[str, float]:
        return s.solved(s.moments)

    def check(s) -> dict[str, float]:
        def integrals(period: float) -> tuple[float, float]:
            def kappa(x: np.ndarray) -> np.ndarray:
                return np.asarray(np.clip(s.max_age + 1 - x / period, 0.0, 1.0))

            breaks = (s.max_age * period, (s.max_age + 1) * period)
            share = _lengths.expectation(s.length, kappa, breaks, power=0.0)
            return share, _lengths.expectation(s.length, lambda x: x * kappa(x), breaks, power=0.0)

        return s.solved(integrals)

    wrong = {
        "the period without the cut": lambda s: s.quantities(s.uncut, s.moments),
        "lengths taken to be unbiased": lambda s: {"mean_length": s.length.mean()},
    }

    points = (_point("exponential:1.0", 512, 256, 1), _point("lognormal:1.0:0.8", 1024, 256, 1))
    more = (_point("lognormal:1.0:0.8", 1024, 256, 4), _point("gamma:1.0:4.0", 1024, 256, 2))

    def reach(self, point: Point) -> str | None:
        """Limit heavy tails, since slots stay occupied to the end of cut samples, and require large batches."""
        if point["groups_per_batch"] < 64:
            return "at least 64 groups a batch; take more, so that deliveries are a clock to a percent"
        return sampled("length", places=8192)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        batch = point["groups_per_batch"]
        spread = 0.014 if laws.as_law("length", point["length"]).kind == "exponential" else 0.009
        realizations = lab.realizations_for(spread, effect, _CLOCK["mean_length"] / batch, 12)
        system = plant(lab.engine(point, train_time=0.0))
        warm_up = 10 * -(-point["places"] // batch) + 4 * point["max_age"] + 10
        last = warm_up + max(8000 // batch, 20)
        lengths, fates, periods = [], [], []
        for record in lab.timelines(system, last, 1, realizations, seed):
            samples, times = record.samples, record.batches["t_start"]
            lengths.append(samples["work"][samples["batch"] >= warm_up])
            # The fate of samples ready in time for the last batch is known.
            decided = (samples["t_ready"] > times[warm_up]) & (samples["t_ready"] <= times[-1])
            fates.append((samples["fate"] == "trained")[decided])
            periods.append((times[-1] - times[warm_up]) / (last - 1 - warm_up))
        estimates = {"mean_length": lab.per_sample(lengths), "kept": lab.per_sample(fates)}
        estimates["period"] = lab.mean_over_realizations(np.array(periods))
        return {name: each._replace(tolerance=_CLOCK[name] / batch * each.value) for name, each in estimates.items()}

    defects = {
        "dropped work counted as trained": lambda: lab.kernel_defects.dropped_counted_as_trained,
        "an install not counted": lambda: lab.kernel_defects.version_off_by_one,
        "the end compared instead of the start": lambda: replaced(age_reference="end"),
    }
