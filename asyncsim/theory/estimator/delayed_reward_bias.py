r"""What late rewards that are not reinjected cost the gradient: a bias linear in their share.

Of rewards r a share s(r) is late, of which phi = 1 - reinjected never comes back. A generated sample is then trained
with probability 1 - phi s(r), now or later. With A = r - b, rewards 0 and 1 and the same policy throughout, it adds

    E[(1 - phi s(r)) A grad log pi] = (1 - phi c) grad J,   c = s(1) (1 - b) + s(0) b,

on average, since E[1{r = 1} grad log pi] = grad J and E[grad log pi] = 0. So for one prompt and such rewards the bias
-phi c grad J changes the length only. Trained is the share 1 - phi E s(r). Staleness adds up to `staleness` of each of
these and `by` versions of each that comes back. A step that is a mean over what it trains divides by the share; with
s(0) = s(1) that gives grad J again. Domain: one softmax, Bernoulli arms, constant baseline, lateness independent
between samples. Second route: the sum over arms, rewards and fates. Source: derived; a reconstruction of what
2606.29526 and 2606.27580 are said to state, which were not read.
"""

from __future__ import annotations

import itertools

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, softmax
from asyncsim.theory._declared import Count, Real, Staleness, Vector
from asyncsim.theory._stated import indexed, stated


class _Setting(Arms):
    means = Vector(typical=(0.05, 0.95), sizes=(2, 4), example=(0.1, 0.5, 0.9), doc="success probabilities of the arms")
    logits = Vector(typical=(-1.0, 1.0), example=(0.2, 0.0, -0.1), doc="logits of the policy")
    share_low = Real(0.0, 1.0, typical=(0.1, 0.9), example=0.6, doc="share of rewards 0 that are late")
    share_high = Real(0.0, 1.0, typical=(0.1, 0.9), example=0.2, doc="share of rewards 1 that are late")
    reinjected = Real(0.0, 1.0, typical=(0.0, 0.9), example=0.3, doc="share of late samples that come back")
    offset = Real(typical=(0.1, 0.9), example=0.4, unit="reward", doc="constant baseline")
    by = Count(1, typical=(1, 4), example=3, unit="batches", doc="batches until a late reward is there")
    staleness = Staleness(typical=(0, 3), example=2)

    def joint(self) -> None:
        """Vectors of one length, probabilities inside [0, 1], and a bias that is not 0."""
        super().joint()
        inside = bool(((self.means >= 0.0) & (self.means <= 1.0)).all())
        checks.require(inside, "means", self.means.tolist(), "in [0, 1]", "give success probabilities")
        remedy = "without a bias there is nothing to measure"
        checks.require(self.reinjected < 1.0, "reinjected", self.reinjected, "below 1", remedy)
        self.pi = softmax(self.logits)
        self.success = float(self.pi @ self.means)
        self.gradient = self.pi * (self.means - self.success)
        scale = _coefficient(self) * float(np.abs(self.gradient).max())
        checks.require(abs(scale) > 1e-6, "share_low, share_high", (self.share_low, self.share_high), "biased", remedy)


def _coefficient(s: _Setting) -> float:
    return s.share_high * (1.0 - s.offset) + s.share_low * s.offset


def _lost(s: _Setting) -> float:
    return 1.0 - s.reinjected


def _late(s: _Setting) -> float:
    return s.success * s.share_high + (1.0 - s.success) * s.share_low


def _of(s: _Setting, bias: float, trained: float, back: float) -> dict[str, float]:
    ages = {"trained": trained, "age": s.staleness * trained + s.by * back}
    return indexed("bias", bias * s.gradient) | ages


def _predict(s: _Setting) -> dict[str, float]:
    return _of(s, -_lost(s) * _coefficient(s), 1.0 - _lost(s) * _late(s), s.reinjected * _late(s))


def _cross_check(s: _Setting) -> dict[str, float]:
    arms = len(s.pi)
    total, trained, age = np.zeros(arms), 0.0, 0.0
    for arm, reward, late, back in itertools.product(range(arms), (0, 1), (False, True), (False, True)):
        share = (s.share_low, s.share_high)[reward]
        chance = s.pi[arm] * (s.means[arm] if reward else 1.0 - s.means[arm])
        chance *= (share if late else 1.0 - share) * (s.reinjected if back else 1.0 - s.reinjected)
        score = (reward - s.offset) * (np.eye(arms)[arm] - s.pi)
        if late and not back:
            total -= chance * score
        else:
            trained, age = trained + chance, age + chance * (s.staleness + (s.by if late else 0))
    return indexed("bias", total) | {"trained": float(trained), "age": float(age)}


def _wrong_constant(s: _Setting) -> dict[str, float]:
    return _of(s, -1.03 * _lost(s) * _coefficient(s), 1.0 - _lost(s) * _late(s), s.reinjected * _late(s))


def _classes_swapped(s: _Setting) -> dict[str, float]:
    coefficient = s.share_low * (1.0 - s.offset) + s.share_high * s.offset
    return _of(s, -_lost(s) * coefficient, 1.0 - _lost(s) * _late(s), s.reinjected * _late(s))


claim = stated(
    id="estimator/delayed-reward-bias",
    statement="late rewards that are not reinjected bias the gradient by `-phi E[s(r) A grad log pi]`, linear in `phi`",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; a reconstruction after arXiv 2606.29526 and 2606.27580",
    formula_defects={
        "constant wrong by 3 percent": _wrong_constant,
        "shares of the two rewards swapped": _classes_swapped,
        "mean lateness in place of its product with A": lambda s: _of(
            s, -_lost(s) * _late(s), 1.0 - _lost(s) * _late(s), s.reinjected * _late(s)
        ),
        "what comes back is as fresh as the rest": lambda s: _of(
            s, -_lost(s) * _coefficient(s), 1.0 - _lost(s) * _late(s), 0.0
        ),
    },
    relative_to="norm",
)
