"""Which distribution of staleness a run has, and whether its stamps can be right.

A distribution is tested by the shares of each staleness in stretches of consecutive steps, so that samples of one step
need not be independent. The warm-up, as long as the largest staleness, does not count.
"""

from typing import NamedTuple

import numpy as np
from scipy import stats

from asyncsim import claims
from asyncsim.base.records import Estimate
from asyncsim.diagnosing.findings import BATCHES, FEWEST, Draft, Saying, missing, outside
from asyncsim.diagnosing.telemetry import Telemetry

QUESTION = "distribution of staleness"
FITS = 0.01
"""P-value from which a named distribution is one that fits."""


class Law(NamedTuple):
    """A named distribution: probabilities of staleness 0, 1, ..., and the claim behind it."""

    name: str
    shares: np.ndarray
    claim: str
    number: float


class Ages(NamedTuple):
    """Staleness of samples after the warm-up: step index `[K]` and staleness `[K]`, and the number of steps."""

    row: np.ndarray
    staleness: np.ndarray
    steps: int


def ages(telemetry: Telemetry) -> Ages | None:
    """Staleness of every sample, or of every token if sequences are unknown; None if only means are logged."""
    tokens = telemetry.tokens
    if tokens is not None and tokens.staleness is not None:
        sequence = np.arange(len(tokens.row)) if tokens.sequence is None else tokens.sequence
        first = np.unique(sequence, return_index=True)[1]
        row, staleness = tokens.row[first], tokens.staleness[first].astype(int)
    else:
        low, high = telemetry.get("staleness_min"), telemetry.get("staleness_max")
        # Means over ranks are no whole numbers, and nothing is rounded here.
        if low is None or high is None or (low != high).any() or (low % 1 != 0).any():
            return None
        row, staleness = np.arange(len(low)), low.astype(int)
    return None if not len(row) or (staleness < 0).any() else after_warm_up(row, staleness)


def after_warm_up(row: np.ndarray, staleness: np.ndarray) -> Ages:
    """Drop the first steps, in which no sample can be as stale as the maximum staleness of the run."""
    steps = int(row.max()) + 1
    warm = min(int(staleness.max(initial=0)), steps // 2)
    kept = row >= warm
    return Ages(row[kept] - warm, staleness[kept], steps - warm)


def unknown(found: Ages | None) -> str:
    """Explain why staleness has no distribution: it is missing, or there are too few steps."""
    if found is None:
        return "The staleness of single samples is missing (its mean does not tell), or below 0."
    return f"Too few steps ({found.steps}) follow the warm-up, which lasts as long as the maximum staleness."


def distribution(telemetry: Telemetry) -> Draft:
    """Find the named distribution that staleness follows, and test staleness against the expected distribution."""
    return followed(ages(telemetry), telemetry.setup.staleness)


def followed(found: Ages | None, expected: str | None) -> Draft:
    """Find the named distribution of given stalenesses; without them, say that they are missing."""
    if found is None or found.steps < FEWEST:
        action = (
            f"Log the staleness of every sample (a column `staleness`), over {FEWEST} steps or more after the warm-up."
        )
        return missing(QUESTION, "systems/mean-staleness-identity", unknown(found), action)
    value = found.staleness.astype(float)
    measured = Estimate(float(value.mean()), float(_between(found, value)), max(1, min(BATCHES, found.steps // 2) - 1))
    laws = candidates(found)
    p = {law.name: fit(found, law, measured) for law in laws}
    fitting = [law for law in laws if p[law.name] >= FITS]
    best = fitting[0] if fitting else None
    if expected is not None:
        return _expected(found, laws, p, best, expected, measured)
    if best is None:
        action = "Compare with `asyncsim timeline` of your trainer: no simple distribution fits."
        saying = Saying("mixed staleness", "No named distribution fits the staleness of this run.", action)
        return Draft(QUESTION, "systems/mean-staleness-identity", saying, measured=measured, unit="versions")
    average = f"{measured.value:.3g} on average, for {best.number:.3g} predicted"
    words = {
        "constant": f"Every sample is {best.number:.3g} versions old.",
        "sawtooth": f"Staleness rises by one version per step and then drops, {average}.",
        "uniform": f"All staleness values are equally frequent, {average}.",
        "geometric": f"Staleness is geometric, as with {best.number + 1:.0f} equal workers that update on arrival.",
        "capped": f"Staleness is geometric up to a cap of {len(best.shares) - 1} versions.",
    }
    saying, goal = Saying(f"{best.name} staleness", words[best.name]), (best.number, best.number)
    return Draft(QUESTION, best.claim, saying, None, p[best.name], measured, goal, "versions")


def _expected(
    found: Ages, laws: list[Law], p: dict[str, float], best: Law | None, expected: str, measured: Estimate
) -> Draft:
    """Compare with the distribution that the user expects: a name, or name:number with its mean (constant:4)."""
    name, _, number = expected.partition(":")
    name = name if not name.replace(".", "").isdigit() else "constant"
    number = number or (expected if name == "constant" and expected != "constant" else "")
    law = next((law for law in laws if law.name == name), None)
    chance = 0.0 if law is None else p[name]
    claim = law.claim if law is not None else best.claim if best is not None else "systems/mean-staleness-identity"
    goal = float(number) if number else law.number if law is not None else None
    apart = abs(law.number - goal) if law is not None and goal is not None else 0.0
    if apart > (0.5 if name == "geometric" else 1e-9):
        chance = 0.0
    seen = "no named distribution" if best is None else f"{best.name} of mean {best.number:.3g}"
    # Of a distribution that cannot be that of these samples no mean is predicted, unless the user states it.
    none = "" if goal is not None else f" No mean is predicted: {expected} cannot be fitted to these samples."
    return Draft(
        QUESTION, claim,
        Saying(f"{name} staleness", f"Staleness follows the expected {expected}."),
        Saying(
            f"{'mixed' if best is None else best.name} staleness",
            f"Staleness is not {expected}: it follows {seen}.{none}",
            "Check admission, publish interval and the stamp's offset.",
        ),
        chance, measured, None if goal is None else (goal, goal), "versions",
    )  # fmt: skip


def candidates(found: Ages) -> list[Law]:
    """Named distributions that may fit the staleness of a run, simplest first."""
    staleness = found.staleness
    low, high, mean = int(staleness.min()), int(staleness.max()), float(staleness.mean())
    if low == high:
        return [Law("constant", np.eye(high + 1)[high], "systems/hard-bounds", float(high))]
    even = np.r_[np.zeros(low), np.full(high - low + 1, 1.0 / (high - low + 1))]
    # A sawtooth: each step has one staleness, which rises by one and falls from the top to the bottom.
    least, most = np.full(found.steps, high + 1), np.full(found.steps, low - 1)
    np.minimum.at(least, found.row, staleness)
    np.maximum.at(most, found.row, staleness)
    change = np.diff(most)
    if (least == most).all() and np.where(most[:-1] == high, change == low - high, change == 1).all():
        return [Law("sawtooth", even, "staleness/several-batches-a-publish", (low + high) / 2.0)]
    laws = [Law("uniform", even, "staleness/random-mean", (low + high) / 2.0)]
    if low == 0:
        workers = max(2, round(1.0 + mean))
        laws.append(
            Law("geometric", _geometric(workers, 8 * workers + high), "systems/arrivals-per-update", workers - 1.0)
        )
        # The number of workers whose share below the cap is nearest.
        below = float((staleness < high).mean())
        counts = range(2, 8 * (high + 1) + 2)
        shares = _geometric(min(counts, key=lambda m: abs(1.0 - (1.0 - 1.0 / m) ** high - below)), high)
        # What lies above the cap waits there.
        laws.append(Law("capped", shares, "systems/hard-bounds", float(shares @ np.arange(high + 1))))
    return laws


def _geometric(workers: int, cells: int) -> np.ndarray:
    """Predicted probabilities of staleness for equal exponential workers; the last cell holds the tail."""
    point = {"workers": workers, "rates": None, "groups_per_batch": 1, "law": "exponential:1", "cells": cells}
    values = claims.claim("systems/arrivals-per-update").predict(point)
    return np.array([*(values[f"p[{k}]"] for k in range(cells)), values["tail"]])


def fit(found: Ages, law: Law, measured: Estimate) -> float:
    """p-value of the deviation from a distribution: twice the smaller of those of its probabilities and its mean.

    Shares by Hotelling's test over stretches of steps. Stalenesses are joined until their expected share has a standard
    error; deterministic ones need no test.
    """
    if law.name in ("constant", "sawtooth"):
        return 1.0
    return min(1.0, 2.0 * min(_shares(found, law), outside(measured, law.number, law.number)))


def _shares(found: Ages, law: Law) -> float:
    stretches = min(BATCHES, found.steps // 2)
    cells = _cells(law.shares, found.staleness.max(), min(8, stretches // 2))
    shares = np.array([law.shares[list(cell)].sum() for cell in cells])
    place = np.searchsorted([cell.start for cell in cells], found.staleness, side="right") - 1
    part = np.minimum(found.row * stretches // found.steps, stretches - 1)
    table = np.zeros((stretches, len(cells)))
    np.add.at(table, (part, place), 1.0)
    table /= np.maximum(table.sum(axis=1, keepdims=True), 1.0)
    deviation = table[:, :-1] - shares[:-1]
    k = deviation.shape[1]
    if k == 0:
        return 0.0
    covariance = np.atleast_2d(np.cov(deviation.T)) + 1e-12 * np.eye(k)
    size = stretches * float(deviation.mean(0) @ np.linalg.solve(covariance, deviation.mean(0)))
    return float(stats.f.sf(size * (stretches - k) / (k * (stretches - 1)), k, stretches - k))


def _cells(shares: np.ndarray, highest: int, most: int) -> list[range]:
    """Partition stalenesses into at most `most` ranges with a probability of 5 percent or more each."""
    starts, mass = [0], 0.0
    for k, share in enumerate(shares):
        if mass >= 1.0 / most and float(shares[k:].sum()) >= 0.05:
            starts.append(k)
            mass = 0.0
        mass += float(share)
    ends = [*starts[1:], max(len(shares), int(highest) + 1)]
    return [range(a, min(b, len(shares))) for a, b in zip(starts, ends, strict=True)]


def _between(found: Ages, values: np.ndarray) -> float:
    """Standard error of a mean over samples, from the means of consecutive blocks of steps."""
    stretches = min(BATCHES, found.steps // 2)
    part = np.minimum(found.row * stretches // found.steps, stretches - 1)
    count = np.bincount(part, minlength=stretches)
    means = np.bincount(part, weights=values, minlength=stretches)[count > 0] / count[count > 0]
    return float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0


def stamps(telemetry: Telemetry) -> Draft:
    """Check that staleness stamps are possible: none below 0, and none larger than the age of the run."""
    claim, question = "systems/mean-staleness-identity", "stamps of staleness"
    tokens, low, high = telemetry.tokens, telemetry.get("staleness_min"), telemetry.get("staleness_max")
    # A mean lies between the two; trainers that log it alone count steps from different ones.
    only_mean = high is None and tokens is None
    high = telemetry.get("staleness_mean") if high is None else high
    if tokens is not None and tokens.staleness is not None:
        staleness, step, names = tokens.staleness, tokens.step[tokens.row], ["staleness"]
    elif high is not None:
        staleness, step = high, telemetry.quantities["step"]
        staleness = staleness if low is None else np.r_[low, staleness]
        step = step if low is None else np.r_[step, step]
        names = ["staleness_min"] * (low is not None) + ["staleness_mean" if only_mean else "staleness_max"]
    else:
        return missing(question, claim, "No staleness was logged.", "Log staleness_mean, _min and _max of each step.")
    first = float(step.min())
    above = staleness - (step - first if first in (0.0, 1.0) and not only_mean else np.inf)
    least, excess = float(np.nanmin(staleness)), float(np.nanmax(above))
    wrong, size = least < 0 or excess > 0, least if least < 0 else excess
    at = int(np.nanargmin(staleness) if least < 0 else np.nanargmax(above))
    name = names[at * len(names) // len(staleness)]
    where = f"in column {telemetry.names.get(name, name)} at step {step[at]:g}"
    mean = telemetry.quantities.get("staleness_mean", staleness[: len(staleness) * (low is None)])
    known = f" Staleness is {least:.3g} to {np.nanmax(staleness):.3g}"
    known += f", {np.nanmean(mean):.3g} on average." if np.isfinite(mean).any() else "."
    return Draft(
        question, claim,
        Saying("possible stamps", f"No sample is older than the run or younger than its weights.{known}"),
        Saying("off-by-one staleness" if abs(size) == 1.0 else "impossible stamps",
               f"Stamps lie up to {abs(size):g} {'below 0' if least < 0 else 'above the steps so far'}, {where}.",
               "Count stamps and steps in one unit, from the version at which training began."),
        0.0 if wrong else 1.0, Estimate(size if wrong else 0.0), (0.0, 0.0), "versions",
    )  # fmt: skip
