r"""A bound on the second moment of a batch's log ratios says nothing of actions that the batch never drew.

N samples of mu, M2 = (1/N) sum_i (ln w_i)^2. A batch passes where M2 <= tau: then nothing of it is dropped. Given are
`accepted` = P(M2 <= tau), and in batches that pass the mean of M2 (`second_moment`) and of w (`mean_weight`). Let one
action of probability q under mu be such that a single sample of it exceeds N tau, and let batches without it pass. Then
accepted = (1 - q)^N and the mean of w is (1 - p)/(1 - q), p the policy's own probability of that action: what passes
reads 1 - p, however large p is, and M2 of the population, E_mu (ln w)^2, may be as large as it likes. Derivation:
batches are counts of the actions. Domain: one softmax, policies that differ, some batches that pass and some that do
not; no M2 within 1e-9 of tau; at most 20,000 counts. Second route: sample by sample, the law of the sum of squares and
of the sum of ratios. Source: derived; the bound is that of arXiv 2510.01161.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, log_softmax

from asyncsim.base import checks
from asyncsim.theory._bandit import PolicyPair, compositions
from asyncsim.theory._declared import Count, Draw, Positive, Vector
from asyncsim.theory._stated import stated

_ATOMS, _CLEAR = 20_000, 1e-9


class _Setting(PolicyPair):
    behavior_logits = Vector(
        typical=(-1.5, 1.5), sizes=(2, 3), example=(0.6, 0.3, -2.3), doc="logits of the behavior policy"
    )
    current_logits = Vector(typical=(-1.5, 1.5), example=(0.5, 0.2, -0.6), doc="logits of the current policy")
    samples = Count(2, 256, typical=(2, 24), example=12, doc="samples of a batch")
    bound = Positive(example=0.05, unit="nats^2", doc="largest second moment of log ratios that passes")

    def joint(self) -> None:
        """Few enough counts; the bound decides, and rounding does not."""
        super().joint()
        arms = self.behavior_logits.size
        atoms = math.comb(self.samples + arms - 1, arms - 1)
        bound = f"such that counts of actions ({atoms}) <= {_ATOMS}"
        checks.require(atoms <= _ATOMS, "samples", self.samples, bound, "take fewer samples or arms")
        self.batches = _Batches(self)
        second = self.batches.second
        between = bool(second.min() <= self.bound < second.max())
        remedy = "let some batches pass and some not"
        bound = f"between the least and the largest M2, {second.min():.4g} and {second.max():.4g}"
        checks.require(between, "bound", self.bound, bound, remedy)
        clear = bool((np.abs(second - self.bound) > _CLEAR).all())
        checks.require(clear, "bound", self.bound, f"{_CLEAR:g} away from the M2 of a batch", "move it")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, object]:
        """A bound between the least and the largest squared log ratio."""
        point = super().drawn(draw)
        log = np.subtract(*(log_softmax(point[name]) for name in ("current_logits", "behavior_logits")))
        low, high = (log**2).min(), (log**2).max()
        return point | {"bound": float(low + draw(Positive(typical=(0.05, 0.95))) * (high - low)) + 1e-7}


class _Batches:
    """Every batch as counts of actions `[K, A]`: its probability, M2 and mean ratio, each `[K]`."""

    def __init__(self, s: _Setting) -> None:
        log_mu, log_pi = (log_softmax(logits) for logits in s.logits)
        counts = compositions(s.samples, len(log_mu))
        self.log = log_pi - log_mu
        ways = gammaln(s.samples + 1.0) - gammaln(counts + 1.0).sum(1)
        self.mass = np.exp(ways + counts @ log_mu)
        self.second = counts @ self.log**2 / s.samples
        self.mean = counts @ np.exp(self.log) / s.samples


def _given(mass: np.ndarray, second: np.ndarray, mean: np.ndarray) -> dict[str, float]:
    """Means over batches of these probabilities."""
    accepted = math.fsum(mass)
    found = (math.fsum(mass * x) / accepted for x in (second, mean))
    return dict(zip(("accepted", "second_moment", "mean_weight"), (accepted, *found), strict=True))


def _predict(s: _Setting) -> dict[str, float]:
    batches = s.batches
    passes = batches.second <= s.bound
    return _given(*(x[passes] for x in (batches.mass, batches.second, batches.mean)))


def _cross_check(s: _Setting) -> dict[str, float]:
    mu, log = np.exp(log_softmax(s.behavior_logits)), s.batches.log
    # Sums of squares and of ratios with their probabilities; sums that differ by rounding are one.
    law = {(0.0, 0.0): 1.0}
    for _ in range(s.samples):
        after: dict[tuple[float, float], float] = {}
        for (second, mean), mass in law.items():
            for q, x in zip(mu, log, strict=True):
                key = round(second + x * x, 12), round(mean + math.exp(x), 12)
                after[key] = after.get(key, 0.0) + mass * float(q)
        law = after
    seconds, means = (np.array([key[k] for key in law]) / s.samples for k in (0, 1))
    passes = seconds <= s.bound
    return _given(*(x[passes] for x in (np.array(list(law.values())), seconds, means)))


def _once(s: _Setting) -> dict[str, float]:
    """The rare action absent from a single sample."""
    mu = np.exp(log_softmax(s.behavior_logits))
    return _predict(s) | {"accepted": 1.0 - float(mu[np.abs(s.batches.log).argmax()])}


claim = stated(
    id="ratio/unseen-support",
    statement="batches of small mean squared log ratio are those without the rare action, a share `(1 - q)^N`, with "
    "mean ratio `(1 - p)/(1 - q)`: the policy's mass `p` there is unseen",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; the bound of arXiv 2510.01161",
    formula_defects={
        "batches that pass have mean ratio 1": lambda s: _predict(s) | {"mean_weight": 1.0},
        "second moment of the population in batches that pass": lambda s: (
            _predict(s) | {"second_moment": float(np.exp(log_softmax(s.behavior_logits)) @ s.batches.log**2)}
        ),
        "the rare action absent from one sample": _once,
    },
)
