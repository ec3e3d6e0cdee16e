"""Statements of papers beside the exact results that bear on them: status, claims, verdict and conditions.

A status is about the sentence, in its testable form. Claims are exact results set against it, and `asyncsim verify`
measures each of them; what a verdict says beyond them was not tested. Numbers are predictions of those claims.
Sentences are in our words, after the abstracts; `2609.20807/score-drift`, `2607.01083/ballistic` and that of
2206.08307 after a summary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asyncsim.base import checks
from asyncsim.claims._registry import claim

STATUSES = ("exact", "asymptotic", "conditional", "open", "false as stated")


@dataclass(frozen=True)
class Statement:
    """One sentence of a paper.

    `id`: arXiv id and a name. `text`: the sentence in our words. `claims`: ids of exact results set against it.
    `verdict`: what they say; `when`: conditions, of a conditional one. `number`: the one that decides, predicted.
    """

    id: str
    text: str
    status: str
    claims: tuple[str, ...]
    verdict: str
    number: Callable[[], str]
    when: str = ""

    def __post_init__(self) -> None:
        checks.one_of("status", self.status, STATUSES, "choose one")
        needed = self.status == "conditional"
        checks.require(bool(self.when) == needed, "when", self.when, "given for a conditional one alone", "say it")

    @property
    def paper(self) -> str:
        """Its arXiv id."""
        return self.id.partition("/")[0]

    @property
    def doc(self) -> str:
        """All of it in words; two spaces break a line of Markdown."""
        condition = [f"Condition: {self.when}."] * bool(self.when)
        about = [f"Status: {self.status}.", f"Verdict: {self.verdict}", *condition, f"Predicted: {self.number()}."]
        commands = ["Exact results, measured by:", *(f"`asyncsim verify {id}`" for id in self.claims)]
        return "\n\n".join([self.text, "  \n".join(about), "  \n".join(commands)])


def _at(id: str, quantity: str, **changes: Any) -> float:
    """A quantity that a claim predicts at its stated point, but for some parameters."""
    known = claim(id)
    return known.predict({**known.point.example(), **changes})[quantity]


def _mass(samples: int) -> float:
    """Norm of the bias of a capped group."""
    known = claim("estimator/group-mass")
    bias = known.predict({**known.point.example(), "samples": samples})
    return math.hypot(*(value for name, value in bias.items() if name.startswith("bias")))


def _baseline_kept() -> str:
    """How much of the mean gradient the plug-in baseline leaves."""
    lengths = []
    for out in (False, True):
        found = claim("estimator/plug-in-baseline")
        values = found.predict({**found.point.example(), "leave_one_out": out})
        lengths.append(sum(value**2 for name, value in values.items() if name.startswith("mean")) ** 0.5)
    return f"{lengths[0] / lengths[1]:.2f} of the gradient left by 3 samples"


def _steady() -> float:
    """Correlation of consecutive gradients whose steady mean is as long as their noise."""
    return _at("alignment/snr", "corr[1]", dimension=64, signal=1.0, noise=0.125, samples=1)


def _slope(noise: float) -> float:
    return _at("convergence/bias-slope", "slope", noise=noise)


def _scaled_step(staleness: int) -> float:
    return (staleness + 0.5) * _at("staleness/stability-boundary", "step", staleness=staleness, curvatures=(1.0,))


def _step_at_one_mean() -> str:
    """Largest stable steps at mean staleness 4: weights published every 9 updates, and a constant staleness."""
    cycles = _at("staleness/sawtooth", "step", updates=9, versions=0, curvatures=(1.0,))
    constant = _at("staleness/stability-boundary", "step", staleness=4, curvatures=(1.0,))
    return f"mean 4: step {cycles:.3f} in cycles, {constant:.3f} constant"


def _inflation(signal: float) -> float:
    point = {"dimension": 8, "signal": signal, "strength": 0.5, "reference": "known"}
    return _at("alignment/adam-inflation", "inflation", **point)


STATEMENTS = (
    Statement(
        "2603.01501/alignment",
        "Consecutive gradients stay aligned in asynchronous training, and are near orthogonal in synchronous training.",
        "false as stated",
        ("alignment/lag1-closed-form", "alignment/snr", "alignment/random-delay-cosine", "alignment/drift-split"),
        "Staleness alone aligns them strongly only near the stability limit; a steady signal does so at any staleness.",
        lambda: f"synchronous cosine {_steady():.2f} at signal = noise",
    ),
    Statement(
        "2603.01501/early-warning",
        "A high cosine of consecutive gradients warns of instability.",
        "conditional",
        ("predictor/cosine-equals-norm", "alignment/noise-floor", "alignment/version-identity"),
        "Beyond the boundary the cosine follows from the two norms and the noise: it is worth both, no more.",
        lambda: f"cosine {_at('predictor/cosine-equals-norm', 'cosine'):.2f}, from two norms",
        when="one unstable mode in equal noise, constant staleness",
    ),
    Statement(
        "2603.01501/projection",
        "Projecting stale gradients on the ones before them keeps training stable.",
        "conditional",
        (
            "alignment/projection-restores-sync-boundary",
            "alignment/projection-second-moment",
            "alignment/partial-and-skip-control",
        ),
        "It restores the synchronous limit of the learning rate, and leaves a cycle of fixed size.",
        lambda: (
            "largest step times curvature "
            f"{2.0 * _at('alignment/projection-restores-sync-boundary', 'step'):.0f} at staleness 4"
        ),
        when="full projection on the raw gradient, plain descent, far from the optimum",
    ),
    Statement(
        "2602.17616/ess-predicts-collapse",
        "Collapse is reliably predicted by the effective sample size.",
        "conditional",
        ("ess/finite-sample", "ess/invariances", "ess/is-not-variance", "ess/clamp-floor"),
        "A batch reads too high, a common drift is invisible, and N/ESS is no variance ratio.",
        lambda: (
            f"N/ESS {_at('ess/is-not-variance', 'inverse_ess'):.2f}, "
            f"variance ratio {_at('ess/is-not-variance', 'inflation'):.2f}"
        ),
        when="full ratios whose spread drives the variance; the gallery measures the prediction itself",
    ),
    Statement(
        "2602.17616/root-of-ess",
        "The step should scale with the square root of the effective sample size.",
        "conditional",
        ("predictor/step-under-inflation", "ess/is-not-variance"),
        "The exponent depends on the aim and the optimizer, and needs the true variance ratio.",
        lambda: (
            f"exponent {_at('predictor/step-under-inflation', 'floor_adam', step=0.01):.2f} with Adam, "
            f"{_at('predictor/step-under-inflation', 'floor_sgd', step=0.01):.2f} with SGD"
        ),
        when="Adam at an equal noise floor; plain SGD needs the first power",
    ),
    Statement(
        "2602.17616/baseline",
        "A closed-form baseline has the least gradient variance off policy.",
        "conditional",
        ("estimator/optimal-baseline", "estimator/plug-in-baseline"),
        "Exact for a known constant and full ratios; estimated from its own batch it shortens the mean gradient.",
        _baseline_kept,
        when="untruncated ratios, a constant that does not come from the batch",
    ),
    Statement(
        "2610.01896/group-mass",
        "With a cap on a group's mean ratio, delay enters the bound only through the bias of the cap.",
        "exact",
        ("estimator/group-mass",),
        "The norm is bounded at any staleness. Above a cap of one the bias vanishes as groups grow.",
        lambda: f"bias {_mass(1):.3f} alone, {_mass(8):.3f} in groups of 8",
    ),
    Statement(
        "2607.01083/bias",
        "Stale rollouts bias each update by the order of staleness times learning rate.",
        "conditional",
        ("convergence/bias-slope", "estimator/token-is-bias"),
        "An upper bound, it stands. The slope is one in the learning rate, and a half to one in the staleness.",
        lambda: f"slope {_slope(0.01):.2f} under drift, {_slope(100.0):.2f} under noise",
        when="as a rate, where drift dominates noise",
    ),
    Statement(
        "2607.01083/step-limit",
        "Where staleness binds, the largest stable learning rate falls as one over the staleness.",
        "asymptotic",
        ("staleness/stability-boundary", "convergence/step-size-law", "staleness/two-point-field"),
        "Staleness and a half times the limit tends to a constant; a stale share of at most a half has no limit.",
        lambda: f"(S + 1/2) step: {_scaled_step(1):.3f} at S = 1, {_scaled_step(64):.3f} at 64",
    ),
    Statement(
        "2607.01083/collapse-time",
        "Where cumulative drift binds, collapse comes at a constant product of updates and learning rate.",
        "conditional",
        ("convergence/step-size-law", "predictor/lead-time"),
        "Cumulative drift from frozen data obeys it; under delay the product has no bound near the stability limit.",
        lambda: (
            f"{_at('convergence/step-size-law', 'drift'):.0f} under drift; under delay "
            f"{_at('convergence/step-size-law', 'delay', step=0.36):.0f}, then "
            f"{_at('convergence/step-size-law', 'delay', step=0.7):.0f}"
        ),
        when="cumulative drift alone, as the paper says too",
    ),
    Statement(
        "2607.01083/ballistic",
        "A positive cosine of consecutive gradients means ballistic drift.",
        "false as stated",
        ("alignment/lag1-closed-form", "convergence/bias-slope", "alignment/snr"),
        "Stationary noise under delay has a positive cosine and no drift.",
        lambda: f"correlation {_at('alignment/lag1-closed-form', 'corr[1]'):+.2f} without drift",
    ),
    Statement(
        "2510.01161/second-moment",
        "A bound on the second moment of log ratios makes very stale data usable.",
        "conditional",
        ("ratio/unseen-support", "ratio/divergence-chain"),
        "It bounds the spread of sampled ratios; actions that were never sampled are invisible to it.",
        lambda: (
            f"{100 * _at('ratio/unseen-support', 'accepted'):.0f} % of batches pass, missing "
            f"{100 * (1 - _at('ratio/unseen-support', 'mean_weight')):.0f} % of pi"
        ),
        when="batches that show all that the policy does",
    ),
    Statement(
        "2609.20807/score-drift",
        "Drift of the score is the main cause of instability on stale data.",
        "open",
        ("alignment/drift-split", "estimator/score-centering"),
        "The split is exact, and the drift vanishes with the mean advantage; training gains were not tested.",
        lambda: "0 under a group's mean reward",
    ),
    Statement(
        "2604.22407/inflation",
        "Projection in front of Adam inflates the projected direction by `1/(1 - alpha)`.",
        "conditional",
        ("alignment/adam-inflation",),
        "The second moment undoes projection only as far as the projected direction dominates it.",
        lambda: f"alpha 1/2: {_inflation(100.0):.2f} at low noise, {_inflation(0.03):.2f} at high",
        when="a signal that dominates the second moment",
    ),
    Statement(
        "2206.08307/average-delay",
        "Convergence of asynchronous SGD depends on the average delay, not on the largest.",
        "conditional",
        ("convergence/arbitrary-delay", "staleness/sawtooth", "staleness/stability-boundary"),
        "Our bound has the mean in its noise term, which no test here attains; the mean alone sets no stable step.",
        _step_at_one_mean,
        when="the noise term of a bound, at a step that the largest delay allows; 2206.07638 says the same",
    ),
)


def papers() -> dict[str, Statement]:
    """Statements of papers by id, as `asyncsim list papers` shows them.

    >>> papers()["2604.22407/inflation"].claims
    ('alignment/adam-inflation',)
    """
    return {each.id: each for each in STATEMENTS}
