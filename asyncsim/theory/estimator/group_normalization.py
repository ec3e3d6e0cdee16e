r"""What a group's baseline and scale make of the gradient: a factor c(p) of each prompt, p its chance of success.

Rewards 0 and 1, group mean k, A_i = (r_i - k) / scale(k), fresh data: E (1/N) sum_i A_i s_i = c grad J with c =
E[k (1 - k) / scale(k)] / (p (1 - p)), N k binomial. So the direction stays inside a prompt, and prompts are weighed
anew by c(p). Leave-one-out has scale 1 - 1/N and c = 1; the group mean c = 1 - 1/N; the standard deviation weighs rare
success and rare failure most: c tends to sqrt(N - 1) for p to 0 and 1, and for many samples to 1/sqrt(p (1 - p)), the
gradient of 2 arcsin(sqrt p). Dividing by N - 1 in the variance multiplies c by sqrt(1 - 1/N). Divided by the mean
(MaxRL) c = (1 - (1 - p)^(N-1)) / p, near 1/p: rare success only. `eps` is added to a deviation or a mean; it matters
where it reaches their size. Derivation: E[A | r = 1] - E[A | r = 0] multiplies E[(r - p) s] = grad J, and E A = 0.
Domain: one prompt, on-policy, Bernoulli arms, 0 < p < 1. Second route: both conditional means, summed over arms.
Source: derived; leave-one-out 2402.14740, standard deviation 2402.03300, MaxRL 2602.02710.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, softmax
from asyncsim.theory._declared import Choice, Integer, Real, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(Arms):
    means = Vector(typical=(0.02, 0.98), sizes=(2, 3), example=(0.1, 0.3, 0.7), doc="success probabilities of the arms")
    logits = Vector(typical=(-1.5, 1.5), example=(0.5, 0.0, -0.5), doc="logits of the policy")
    samples = Integer(2, 4096, typical=(2, 5), example=4, unit="samples", doc="samples in a group")
    normalization = Choice(
        "leave_one_out", "mean", "std", "std_unbiased", "maxrl", example="std", doc="what the group's rewards become"
    )
    eps = Real(
        0.0, open_low=True, typical=(1e-6, 0.3), example=0.1, unit="reward", doc="added to a deviation or a mean"
    )

    def joint(self) -> None:
        """Probabilities in [0, 1], and arms that differ."""
        super().joint()
        inside = bool(((self.means >= 0.0) & (self.means <= 1.0)).all())
        checks.require(inside, "means", self.means.tolist(), "in [0, 1]", "give success probabilities")
        self.pi = softmax(self.logits)
        self.success = float(self.pi @ self.means)
        self.gradient = self.pi * (self.means - self.success)
        differ = float(np.abs(self.gradient).max()) > 1e-6 * float(self.means.max())
        checks.require(differ, "means", self.means.tolist(), "means that differ", "change one")


def _scale(s: _Setting, share: np.ndarray) -> np.ndarray:
    """What centered rewards are divided by, at a share of successes."""
    spread = share * (1.0 - share)
    scales = {
        "leave_one_out": np.full_like(share, 1.0 - 1.0 / s.samples),
        "mean": np.ones_like(share),
        "std": np.sqrt(spread) + s.eps,
        "std_unbiased": np.sqrt(spread / (1.0 - 1.0 / s.samples)) + s.eps,
        "maxrl": share + s.eps,
    }
    return scales[s.normalization]


def _of(s: _Setting, factor: float) -> dict[str, float]:
    return {"factor": factor} | indexed("mean", factor * s.gradient)


def _factor(s: _Setting) -> float:
    successes = np.arange(s.samples + 1)
    share = successes / s.samples
    moment = binom.pmf(successes, s.samples, s.success) @ (share * (1.0 - share) / _scale(s, share))
    return float(moment / (s.success * (1.0 - s.success)))


def _cross_check(s: _Setting) -> dict[str, float]:
    others = np.arange(s.samples)
    chance = binom.pmf(others, s.samples - 1, s.success)
    expected = []
    for reward in (0.0, 1.0):
        share = (others + reward) / s.samples
        expected.append(float(chance @ ((reward - share) / _scale(s, share))))
    mean = (s.pi * (expected[0] + s.means * (expected[1] - expected[0]))) @ (np.eye(len(s.pi)) - s.pi)
    return {"factor": float(mean @ s.gradient / (s.gradient @ s.gradient))} | indexed("mean", mean)


claim = stated(
    id="estimator/group-normalization",
    statement="a group's scale weighs each prompt by `c(p) = E[k (1 - k) / scale(k)] / (p (1 - p))`, direction kept",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=lambda s: _of(s, _factor(s)),
    cross_check=_cross_check,
    reference="derived; arXiv 2402.14740, 2402.03300 and 2602.02710 for the rules",
    formula_defects={
        "limit of many samples": lambda s: _of(s, float((s.success * (1.0 - s.success)) ** -0.5)),
        "other divisor of the variance": lambda s: _of(s, _factor(s.but(normalization="std_unbiased"))),
        "eps forgotten": lambda s: _of(s, _factor(s.but(eps=1e-12))),
        "a sample more": lambda s: _of(s, _factor(s.but(samples=s.samples + 1))),
    },
    relative_to="norm",
)
