r"""A group that keeps the first k of its n samples keeps the k shortest.

a group that ends with the first `k` of its `n` samples keeps the `k` shortest: this sets its mean length, end and waste

All n start together, each is written by itself, and the n - k that are left are cancelled when the k-th ends. With
X_(1) <= ... <= X_(n) the works in order: mean length of a trained sample (1/k) sum_{j<=k} E X_(j), work of the group's
end E X_(k), and of what is written the share (n - k) E X_(k) / (sum_{j<=k} E X_(j) + (n - k) E X_(k)) wasted.
Derivation: a sample of work x is kept iff fewer than k of the n - 1 others are shorter. So the sum is n E[X P(Bin(n -
1, F(X)) < k)]; a cancelled one has written X_(k). Quantiles turn both into integrals over u = F(x). Values that tie are
kept by number, which changes no length. Exponential of mean mu: E X_(j) = mu (1/n + 1/(n-1) + ... + 1/(n-j+1)). Domain:
k <= n; a slot for every sample from the start, one speed, rewards at once. Any law of finite mean, with prompts that
all have one difficulty. Second route: the exponential's closed form, else the integral of P(X_(j) > x) for each j.
"""

import numpy as np
from scipy.special import bdtr, betainc, betaln

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Count, Estimate, Plant, Point, Timeline, checks, named, sampled

_MOST = 256
_STEP = 1.0 / 64.0
"""Spacing of the trapezoidal rule in the log odds of u: the integrand is analytic, so only rounding remains."""
_PLACES, _GROUPS = 8, 4
_point = named("length", "started", "kept")


class FirstKLengthBias(_engines.Engines):
    kind, source = "expectation", "derived: order statistics"

    length = _engines.work(example="lognormal:1.0:0.8")
    started = Count(1, _MOST, typical=(2, 12), example=12, unit="samples", doc="n, samples started per group")
    kept = Count(1, _MOST, typical=(1, 12), example=8, unit="samples", doc="k, samples kept per group")

    def joint(self) -> None:
        checks.integer("kept", self.kept, 1, "start more samples than are kept, or as many", self.started)

    def quantities(s, total: float, last: float) -> dict[str, float]:
        """Quantities from the mean sum of the k smallest works and the mean of the k-th."""
        cancelled = (s.started - s.kept) * last
        return {"mean_length": total / s.kept, "last": last, "wasted": cancelled / (total + cancelled)}

    def predict(s) -> dict[str, float]:
        n, k, law = s.started, s.kept, s.length
        if law.kind in ("constant", "empirical"):
            # From the gaps between values: P(X_(j) > v) for each j.
            values = np.concatenate([[0.0], np.unique(law.parameters)])
            less = 1.0 - law.survival(values[:-1])
            beyond = np.diff(values) @ np.stack([bdtr(j - 1, n, less) for j in range(1, k + 1)], axis=1)
            return s.quantities(float(beyond.sum()), float(beyond[-1]))
        # Far out a Pareto law's quantile grows as a power of the odds.
        decay = 1.0 - 1.0 / law.parameters[1] if law.kind == "pareto" and k == n else 1.0
        odds = np.arange(-42.0, 42.0 / decay, _STEP)
        above = 1.0 / (1.0 + np.exp(odds))
        below = 1.0 / (1.0 + np.exp(-odds))
        x = _work.exceeded(law, above) * below * above * _STEP
        is_kept = betainc(n - k, k, above) if k < n else np.ones_like(above)
        is_last = np.exp((k - 1) * np.log(below) + (n - k) * np.log(above) - betaln(k, n - k + 1))
        return s.quantities(float(n * (x @ is_kept)), float(x @ is_last))

    def check(s) -> dict[str, float]:
        n, k, law = s.started, s.kept, s.length
        if law.kind == "exponential":
            each = law.mean() * np.cumsum(1.0 / (n - np.arange(k)))
        else:
            each = np.array([law.expected_least(j, n) for j in range(1, k + 1)])
        return s.quantities(float(each.sum()), float(each[-1]))

    wrong = {"lengths taken to be unbiased": lambda s: {"mean_length": s.length.mean()}}

    points = (_point("lognormal:1.0:0.8", 12, 8), _point("exponential:1", 6, 4))
    more = (_point("empirical:1:2:2:7", 4, 2), _point("gamma:2:3", 20, 16))
    reach = staticmethod(sampled("length", started=64))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        kept, extra = point["kept"], point["started"] - point["kept"]
        # In strict order the groups of a run are the first by number: none is left out since it is long.
        settings = {"tickets": _PLACES + _GROUPS, "order": "target", "redundant": extra}
        system = lab.engine(point, places=_PLACES, groups_per_batch=_GROUPS, train_time=0.1, **settings)

        def numbers(record: Timeline) -> dict[str, float]:
            groups, samples = record.groups, record.samples
            trained = groups["fate"] == "trained"
            work, seconds = samples["work"][samples["fate"] == "trained"], groups["t_done"] - groups["t_submit"]
            wasted = float(samples["wasted"][trained[samples["group"]]].sum())
            means = {"mean_length": float(work.mean()), "last": float(np.mean(seconds[trained]))}
            return means | {"wasted": wasted / (wasted + float(work.sum()))}

        count = lab.realizations_for(0.02, effect, 0.0, comparisons=6)
        return lab.means(lab.timelines(plant(system), 1000 // _GROUPS, kept, count, seed), numbers)

    defects = {
        "the first by number kept": lambda: lab.kernel_defects.keeps_any,
        "cancelled samples counted as trained": lambda: lab.kernel_defects.cancelled_counted_as_trained,
        "cancelled samples written to their end": lambda: lab.kernel_defects.cancelled_run_on,
    }
