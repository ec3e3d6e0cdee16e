r"""A bound on the second moment of a batch's log ratios does not cover actions that the batch never sampled.

a share `(1 - q)^N` of batches lacks the rare action; their mean squared log ratio is small and their mean ratio is `(1
- p)/(1 - q)`, so they do not show the policy's mass `p` on this action

N samples of mu, M2 = (1/N) sum_i (ln w_i)^2. A batch passes where M2 <= tau: then nothing of it is dropped. Given are
`accepted` = P(M2 <= tau), and in batches that pass the mean of M2 (`second_moment`) and of w (`mean_weight`). Let one
action of probability q under mu be such that a single sample of it exceeds N tau, and let batches without it pass. Then
accepted = (1 - q)^N and the mean of w is (1 - p)/(1 - q), p the policy's own probability of that action: what passes
reads 1 - p, however large p is, and M2 of the population, E_mu (ln w)^2, may be as large as it likes. Derivation:
batches are counts of the actions. Domain: one softmax, policies that differ, some batches that pass and some that do
not; no M2 within 1e-9 of tau; at most 20,000 counts. Second route: sample by sample, the law of both sums.
"""

import math

import numpy as np
from scipy.special import log_softmax, softmax

from asyncsim.claims._bandit import PolicyPair, arm_logits, counted
from asyncsim.claims._claim import Claim, Count, Estimate, Plant, Point, Positive, lab, replaced, sim, units_for, within

_ATOMS, _CLEAR = 20_000, 1e-9
_BATCHES, _ROUNDING = 64, 1e-9
_LEAST, _MOST, _DRAWN = 0.05, 256, 16_000_000
"""Least share of batches that pass, and most samples of a batch and of all."""
_PUBLISHED = {"behavior_logits": (0.6, 0.3, -2.7), "current_logits": (0.5, 0.2, -1.0), "samples": 16, "bound": 0.04}


def _guess(point: Point) -> tuple[float, float]:
    """Fraction of batches that pass, and the largest relative standard deviation, from 1000 batches at a fixed seed."""
    mu, pi = (softmax(np.array(point[name])) for name in ("behavior_logits", "current_logits"))
    counts = np.random.default_rng(0).multinomial(point["samples"], mu, 1000) / point["samples"]
    second, mean = counts @ np.log(pi / mu) ** 2, counts @ (pi / mu)
    passed = second <= point["bound"]
    share = float(passed.mean())
    if share < _LEAST:
        return share, math.inf
    spreads = [float(np.std(x[passed]) / np.mean(x[passed])) for x in (second, mean)]
    return share, max(math.sqrt(1.0 - share), *spreads, 0.2) / math.sqrt(share)


class UnseenSupport(PolicyPair, Claim):
    kind, source = "expectation", "derived; the bound of arXiv 2510.01161"

    behavior_logits = arm_logits("behavior", 0.6, 0.3, -2.3, most=1.5, sizes=(2, 3))
    current_logits = arm_logits("current", 0.5, 0.2, -0.6, most=1.5)
    samples = Count(2, 256, typical=(2, 24), example=12, doc="samples of a batch")
    bound = Positive(typical=(0.05, 1.0), example=0.05, unit="nats^2", doc="limit of the second moment of log ratios")

    def joint(self) -> None:
        arms = self.behavior_logits.size
        atoms = math.comb(self.samples + arms - 1, arms - 1)
        bound = f"such that counts of actions ({atoms}) <= {_ATOMS}"
        self.require(atoms <= _ATOMS, "samples", bound, "take fewer samples or arms")
        # Every batch as counts of actions: its probability, M2 and mean ratio, each `[K]`.
        log_mu, log_pi = (log_softmax(logits) for logits in self.logits)
        counts, log_mass = counted(self.samples, log_mu)
        self.log = log_pi - log_mu
        second, mean = counts @ self.log**2 / self.samples, counts @ np.exp(self.log) / self.samples
        self.batches = np.exp(log_mass), second, mean
        bound = f"between the least and the largest M2, {second.min():.4g} and {second.max():.4g}"
        self.require(second.min() <= self.bound < second.max(), "bound", bound, "let some batches pass and some not")
        clear = bool((np.abs(second - self.bound) > _CLEAR).all())
        self.require(clear, "bound", f"{_CLEAR:g} away from the M2 of a batch", "move it")

    def _given(s, mass: np.ndarray, second: np.ndarray, mean: np.ndarray) -> dict[str, float]:
        """Means over accepted batches with the given probabilities."""
        accepted = math.fsum(mass)
        found = (math.fsum(mass * x) / accepted for x in (second, mean))
        return dict(zip(("accepted", "second_moment", "mean_weight"), (accepted, *found), strict=True))

    def predict(s) -> dict[str, float]:
        return s._given(*(x[s.batches[1] <= s.bound] for x in s.batches))

    def check(s) -> dict[str, float]:
        # Sums of squares and of ratios with their probabilities; sums that differ by rounding are one.
        law = {(0.0, 0.0): 1.0}
        for _ in range(s.samples):
            after: dict[tuple[float, float], float] = {}
            for (second, mean), mass in law.items():
                for q, x in zip(s.mu, s.log, strict=True):
                    key = round(second + x * x, 12), round(mean + math.exp(x), 12)
                    after[key] = after.get(key, 0.0) + mass * float(q)
            law = after
        seconds, means = (np.array([key[k] for key in law]) / s.samples for k in (0, 1))
        passes = seconds <= s.bound
        return s._given(*(x[passes] for x in (np.array(list(law.values())), seconds, means)))

    wrong = {"batches that pass have mean ratio 1": lambda s: {"mean_weight": 1.0}}

    points = (_PUBLISHED, {"behavior_logits": (0.2, 0.0), "current_logits": (0.5, -0.2), "samples": 6, "bound": 0.07})
    more = ({**_PUBLISHED, "samples": 32},)

    def reach(self, point: Point) -> str | None:
        share = _guess(point)[0]
        if share < _LEAST:
            return f"a share of batches that pass of {_LEAST:g} or more, not {share:.2g}; raise the bound"
        return within(samples=_MOST)(point)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        spread = 1.2 * _guess(point)[1] / math.sqrt(_BATCHES)
        most = _DRAWN // (_BATCHES * point["samples"])
        replicates = max(16, min(units_for(spread, effect, 3 * len(self.points)), most))
        places = lab.places(point)[::-1]
        task = sim.tasks.token_bandit(len(places[0]), 1)
        size = point["samples"], _BATCHES, replicates
        method = sim.methods.m2po_areal(tau=point["bound"])
        trace = lab.run(lab.displaced(task, places, ["m2_all", "mean_weight"], size, method), seed, plant)
        # Nothing is dropped by rule where the largest that is left has no bound.
        passed = np.isinf(trace["m2po_theta"][1:]).astype(np.float64)
        found = {"accepted": lab.share_of(passed)}
        for name, metric in {"second_moment": "m2_all", "mean_weight": "mean_weight"}.items():
            found[name] = lab.ratio((passed * trace[metric][1:]).mean(axis=0), passed.mean(axis=0))
        return {name: one._replace(tolerance=one.tolerance + _ROUNDING * one.value) for name, one in found.items()}

    defects = {"a sample fewer in a batch": lambda: replaced(samples_per_group=15)}
