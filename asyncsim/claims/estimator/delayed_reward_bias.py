r"""Late rewards that are never reinjected bias the gradient, in proportion to their share.

if late rewards are never used, they bias the gradient by `-phi E[s(r) A grad log pi]`

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

import dataclasses
import itertools
from typing import Any

import numpy as np

from asyncsim.base.declared import Count, Real, Staleness, Vector
from asyncsim.claims._bandit import Arms, softmax
from asyncsim.claims._claim import Claim, Estimate, Plant, Point, checks, indexed, lab, sim, units_for

_SAMPLES, _BATCHES = 64, 16
_SPREAD = 0.12
"""Standard deviation of one replicate's mean over its batches, relative to the bias at the points below (measured)."""
_POINT = {
    "means": (0.1, 0.9), "logits": (0.2, -0.1), "share_low": 0.7, "share_high": 0.3, "reinjected": 0.0,
    "offset": 0.5, "by": 2, "staleness": 1,
}  # fmt: skip
_HALF = {**_POINT, "reinjected": 0.5, "share_low": 0.3, "share_high": 0.9, "offset": 0.4, "by": 3}


def _trained(step: lab.Step) -> lab.Tensor:
    """Mass of trained samples divided by the mass of generated samples, `[R]`."""
    own = step.batch.generated.mass.expand(step.batch.reward.shape)
    return step.mass.expand(own.shape).sum((1, 2)) / own.sum((1, 2))


def _twice(spec: Any) -> Any:
    """Plant that counts late rewards twice."""

    def arriving(rewards: Any, *arguments: Any) -> lab.Batch:
        batch = rewards.arriving(*arguments)
        return dataclasses.replace(batch, kept=batch.kept * (1.0 + batch.arrivals["late"]))

    return spec.replace(rewards=lab.overriding(arriving=arriving)(spec.rewards))


class DelayedRewardBias(Arms, Claim):
    kind, source = "expectation", "derived; a reconstruction after arXiv 2606.29526 and 2606.27580"
    relative_to = "norm"

    means = Vector(typical=(0.05, 0.95), sizes=(2, 4), example=(0.1, 0.5, 0.9), doc="success probabilities of the arms")
    logits = Vector(typical=(-1.0, 1.0), example=(0.2, 0.0, -0.1), doc="logits of the policy")
    share_low = Real(0.0, 1.0, typical=(0.1, 0.9), example=0.6, doc="share of rewards 0 that are late")
    share_high = Real(0.0, 1.0, typical=(0.1, 0.9), example=0.2, doc="share of rewards 1 that are late")
    reinjected = Real(0.0, 1.0, typical=(0.0, 0.9), example=0.3, doc="share of late samples that are reinjected")
    offset = Real(typical=(0.1, 0.9), example=0.4, unit="reward", doc="constant baseline")
    by = Count(1, typical=(1, 4), example=3, unit="batches", doc="batches by which rewards are late")
    staleness = Staleness(typical=(0, 3), example=2)

    def joint(self) -> None:
        inside = bool(((self.means >= 0.0) & (self.means <= 1.0)).all())
        self.require(inside, "means", "in [0, 1]", "give success probabilities")
        remedy = "without a bias there is nothing to measure"
        self.require(self.reinjected < 1.0, "reinjected", "below 1", remedy)
        self.pi = softmax(self.logits)
        self.success = float(self.pi @ self.means)
        self.gradient = self.pi * (self.means - self.success)
        self.coefficient = self.share_high * (1.0 - self.offset) + self.share_low * self.offset
        self.late = self.success * self.share_high + (1.0 - self.success) * self.share_low
        biased = abs(self.coefficient * float(np.abs(self.gradient).max())) > 1e-6
        checks.require(biased, "share_low, share_high", (self.share_low, self.share_high), "biased", remedy)

    def predict(s, coefficient: float | None = None) -> dict[str, float]:
        lost = 1.0 - s.reinjected
        bias, trained = -lost * (s.coefficient if coefficient is None else coefficient), 1.0 - lost * s.late
        ages = {"trained": trained, "age": s.staleness * trained + s.by * (s.reinjected * s.late)}
        return indexed("bias", bias * s.gradient) | ages

    def check(s) -> dict[str, float]:
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

    wrong = {"mean lateness in place of its product with A": lambda s: s.predict(s.late)}

    points = (_POINT, _HALF)
    more = ({**_POINT, "means": (0.1, 0.5, 0.9), "logits": (0.0, 0.3, 0.0), "reinjected": 0.3, "staleness": 0},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        def metric(name: str, measure: Any, *outputs: str) -> lab.Metric:
            return lab.Metric(name, lambda step: measure(step) * _trained(step), outputs, subject="policy")

        # Gradient that a generated sample adds; the share that is trained, and its age.
        means, shares = point["means"], (point["share_low"], point["share_high"])
        scores = [metric(f"score[{a}]", lambda s, a=a: s.gradient[:, a], "log_prob") for a in range(len(means))]
        age = metric("age", lambda step: step.mean(step.staleness[..., 0]))
        task = sim.tasks.softmax_bandit(len(means), means, logits=point["logits"])
        behind = point["by"] + point["staleness"]
        method, still = sim.methods.reinforce(sim.advantages.offset(point["offset"])), sim.chain(sim.updates.scale(0.0))
        replicates = max(48, units_for(_SPREAD, effect, len(means) + 2))
        size = {"samples_per_group": _SAMPLES, "updates": behind + _BATCHES, "replicates": replicates}
        size["diagnostics"] = [*scores, lab.Metric("trained", _trained, subject="policy"), age]
        late = sim.rewards.late(shares, "reinject", point["by"], point["reinjected"])
        spec = sim.Spec(task, lab.fixed(point["staleness"]), method, still, rewards=late, **size)
        trace = lab.run(spec, seed, plant)
        # In front of that, less comes back, or is as old as the run.
        found = {name: lab.between(values[behind:].mean(axis=0)) for name, values in trace.metrics.items()}
        for a, exact in enumerate(sim.oracle.exact(task, point["logits"])[1]):
            score = found.pop(f"score[{a}]")
            found[f"bias[{a}]"] = score._replace(value=score.value - exact)
        return found

    defects = {"reinjected twice": lambda: (_twice, _HALF)}
