"""Statements of papers beside the exact results that bear on them: status, claims, verdict and conditions.

A status is about the sentence, in its testable form. Claims are exact results set against it, and `asyncsim verify`
measures each; what a verdict says beyond them was not tested. Numbers are predictions of those claims. Sentences are in
our words, after abstracts; `2609.20807/score-drift`, `2607.01083/ballistic` and that of 2206.08307 after a summary.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from asyncsim.base import checks, plugins
from asyncsim.claims._registry import claim, paper_of, paper_row

STATUSES = ("exact", "asymptotic", "conditional", "open", "false as stated")


@dataclass(frozen=True)
class Statement:
    """One statement from a paper, with its status, verdict and prediction.

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
        """arXiv id of the paper."""
        return self.id.partition("/")[0]

    @property
    def doc(self) -> str:
        """Markdown of the statement with its status, verdict and prediction; two spaces break a line."""
        condition = [f"Condition: {self.when}."] * bool(self.when)
        about = [f"Status: {self.status}.", f"Verdict: {self.verdict}", *condition, f"Predicted: {self.number()}."]
        commands = ["Exact results, measured by:", *(f"`asyncsim verify {id}`" for id in self.claims)]
        return "\n\n".join([self.text, "  \n".join(about), "  \n".join(commands)])


def _at(id: str, quantity: str, **changes: Any) -> float:
    """Quantity that a claim predicts at its example point, with some parameters changed."""
    known = claim(id)
    return known.predict({**known.point.example(), **changes})[quantity]


def _mass(samples: int) -> float:
    """Norm of the gradient bias of a group whose mean ratio is capped."""
    known = claim("estimator/group-mass")
    bias = known.predict({**known.point.example(), "samples": samples})
    return math.hypot(*(value for name, value in bias.items() if name.startswith("bias")))


def _baseline_kept() -> str:
    """Fraction of the mean gradient that remains with the plug-in baseline."""
    lengths = []
    for out in (False, True):
        found = claim("estimator/plug-in-baseline")
        values = found.predict({**found.point.example(), "leave_one_out": out})
        lengths.append(sum(value**2 for name, value in values.items() if name.startswith("mean")) ** 0.5)
    return f"{lengths[0] / lengths[1]:.2f} of the gradient left by 3 samples"


def _steady() -> float:
    """Correlation of consecutive gradients whose mean has the same norm as their noise."""
    return _at("alignment/snr", "corr[1]", dimension=64, signal=1.0, noise=0.125, samples=1)


def _slope(noise: float) -> float:
    return _at("convergence/bias-slope", "slope", noise=noise)


def _scaled_step(staleness: int) -> float:
    point = {"staleness": staleness, "curvatures": (1.0,), "momentum": None}
    return (staleness + 0.5) * _at("staleness/stability-boundary", "step", **point)


def _step_at_one_mean() -> str:
    """Largest stable learning rates at mean staleness 4: publishes every 9 updates, and constant staleness."""
    cycles = _at("staleness/sawtooth", "step", updates=9, versions=0, curvatures=(1.0,))
    constant = _scaled_step(4) / 4.5
    return f"mean 4: step {cycles:.3f} in cycles, {constant:.3f} constant"


def _inflation(signal: float) -> float:
    point = {"dimension": 8, "signal": signal, "strength": 0.5, "reference": "known"}
    return _at("alignment/adam-inflation", "inflation", **point)


NUMBERS: dict[str, Callable[[], str]] = {
    "2603.01501/alignment": lambda: f"synchronous cosine {_steady():.2f} at signal = noise",
    "2603.01501/early-warning": lambda: f"cosine {_at('predictor/cosine-equals-norm', 'cosine'):.2f}, from two norms",
    "2603.01501/projection": lambda: (
        "largest step times curvature "
        f"{2.0 * _at('alignment/projection-restores-sync-boundary', 'step'):.0f} at staleness 4"
    ),
    "2602.17616/ess-predicts-collapse": lambda: (
        f"N/ESS {_at('estimator/is-variance', 'inverse_ess'):.2f}, "
        f"variance ratio {_at('estimator/is-variance', 'inflation'):.2f}"
    ),
    "2602.17616/root-of-ess": lambda: (
        f"exponent {_at('predictor/step-under-inflation', 'floor_adam', step=0.01):.2f} with Adam, "
        f"{_at('predictor/step-under-inflation', 'floor_sgd', step=0.01):.2f} with SGD"
    ),
    "2602.17616/baseline": _baseline_kept,
    "2610.01896/group-mass": lambda: f"bias {_mass(1):.3f} alone, {_mass(8):.3f} in groups of 8",
    "2607.01083/bias": lambda: f"slope {_slope(0.01):.2f} under drift, {_slope(100.0):.2f} under noise",
    "2607.01083/step-limit": lambda: f"(S + 1/2) step: {_scaled_step(1):.3f} at S = 1, {_scaled_step(64):.3f} at 64",
    "2607.01083/collapse-time": lambda: (
        f"{_at('convergence/step-size-law', 'drift'):.0f} under drift; under delay "
        f"{_at('convergence/step-size-law', 'delay', step=0.36):.0f}, then "
        f"{_at('convergence/step-size-law', 'delay', step=0.7):.0f}"
    ),
    "2607.01083/ballistic": lambda: (
        f"correlation {_at('alignment/lag1-closed-form', 'corr[1]', others=None):+.2f} without drift"
    ),
    "2510.01161/second-moment": lambda: (
        f"{100 * _at('ratio/unseen-support', 'accepted'):.0f} % of batches pass, missing "
        f"{100 * (1 - _at('ratio/unseen-support', 'mean_weight')):.0f} % of pi"
    ),
    "2609.20807/score-drift": lambda: "0 under a group's mean reward",
    "2604.22407/inflation": lambda: f"alpha 1/2: {_inflation(100.0):.2f} at low noise, {_inflation(0.03):.2f} at high",
    "2206.08307/average-delay": _step_at_one_mean,
}
"""The number that decides each sentence of `papers.toml`, in words."""


@cache
def papers() -> dict[str, Statement]:
    """Return the statements of papers by id, as `asyncsim list papers` shows them."""
    rows = checks.table(__file__, "papers.toml")
    return {id: Statement(id, number=NUMBERS[id], **row | {"claims": tuple(row["claims"])}) for id, row in rows.items()}


def papers_of(word: str) -> list[Statement]:
    """Return the statements by id, by arXiv id or its URL, or by the name of a method or system of the paper."""
    name = (bare := paper_row(word)[1] or paper_of(word)).replace("-", "_")
    kinds = {"methods", "systems"} & {*plugins.kinds_of(name)}
    about = (plugins.described(f"asyncsim.{kind}", name, plugins.PARTS[kind]) for kind in kinds)
    sources = " ".join(each["doc"].partition("Source:")[2] for each in about)
    return [each for each in papers().values() if bare in (each.paper, each.id) or each.paper in sources]
