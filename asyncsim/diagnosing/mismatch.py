"""Mismatch of sampler and trainer: its floor at staleness 0, and how it grows with staleness.

v(s) is the variance of a token's log ratio at staleness s. Engines that differ give v(0) at every version, and the
weights' movement adds v_1 ((1 - f) s + f s^2) to it, f the share of v_1 that is drift. Axes: `U` steps, `S` levels.
"""

import math
from typing import NamedTuple

import numpy as np

from asyncsim.base.records import Estimate
from asyncsim.diagnosing import findings
from asyncsim.diagnosing.ages import stamps
from asyncsim.diagnosing.findings import FEWEST, HARMLESS, Draft, Saying, above, interval, mean, missing, outside
from asyncsim.diagnosing.telemetry import Telemetry

FLOOR, FRESH, DRIFT = "engine floor", "fresh data are fresh", "drift with staleness"
TIMES = 1.25
"""How many times the first step's floor the fresh data of the next steps may show."""
GROWS = 1.5
"""How many times their size of the first steps fresh data show at the end where mismatch itself grows with training."""
UNSURE = 0.05
"""P below which stamps are in doubt."""
WIDELY = 0.75
"""Share of stretches in which a staleness must occur to count for the slope."""
STILL = 0.5
"""Upper end of a slope's interval below which nothing grows to speak of."""
TOP = 0.5
"""Variance of a token's log ratio above which a few ratios carry every mean, in nats^2."""


class Levels(NamedTuple):
    """Stalenesses `[S]`, and the variance of log ratios at each of them per step `[U, S]`, NaN without data."""

    staleness: np.ndarray
    square: np.ndarray


def levels(telemetry: Telemetry) -> Levels | None:
    """Variances of log ratios by staleness: from tokens, or twice k3 at steps whose samples share one staleness."""
    tokens = telemetry.tokens
    if tokens is not None and tokens.staleness is not None:
        known, place = np.unique(tokens.staleness, return_inverse=True)
        size = (len(tokens.step), len(known))
        cell = tokens.row * len(known) + place.ravel()
        count = np.bincount(cell, minlength=size[0] * size[1])
        middle = np.bincount(place.ravel(), weights=tokens.log_ratio) / np.bincount(place.ravel())
        deviation = tokens.log_ratio - middle[place.ravel()]
        total = np.bincount(cell, weights=deviation**2, minlength=size[0] * size[1])
        with np.errstate(invalid="ignore", divide="ignore"):
            return Levels(known, np.where(count > 0, total / count, np.nan).reshape(size))
    buckets = sorted(int(name.rpartition("_")[2]) for name in telemetry.quantities if name.startswith("k3_at_"))
    if buckets:
        telemetry.used.update(f"k3_at_{s}" for s in buckets)
        columns = [2.0 * telemetry.quantities[f"k3_at_{s}"] for s in buckets]
        return Levels(np.array(buckets, dtype=float), np.stack(columns, axis=1))
    low, high, k3 = (telemetry.get(name) for name in ("staleness_min", "staleness_max", "kl_k3"))
    if low is None or high is None or k3 is None:
        return None
    alike = (low == high) & np.isfinite(k3)
    known = np.unique(low[alike])
    square = np.where(alike[:, None] & (low[:, None] == known), 2.0 * k3[:, None], np.nan)
    return Levels(known, square) if len(known) else None


def _doubtful(telemetry: Telemetry) -> bool:
    """Whether staleness stamps may be wrong, so that data stamped fresh may be stale."""
    return any(draft.p is not None and draft.p < UNSURE for draft in (stamps(telemetry), fresh(telemetry)))


def first_step(telemetry: Telemetry) -> Estimate | None:
    """Variance of log ratios in the run's first step, whose data are fresh; None if the log begins later."""
    tokens, found = telemetry.tokens, levels(telemetry)
    steps = tokens.step if tokens is not None else telemetry.get("step")
    if found is None or steps is None or float(steps[0]) not in (0.0, 1.0) or not np.isfinite(found.square[0]).any():
        return None
    if tokens is None:
        value = float(np.nanmean(found.square[0]))
        later = found.square[1:, found.staleness == 0.0].ravel()
        later = later[np.isfinite(later)][: findings.BATCHES]
        size = float(later.std(ddof=1) / max(later.mean(), 1e-300)) if len(later) > 2 else math.inf
        return Estimate(value, value * min(size, 1.0), max(len(later) - 1.0, 1.0))
    here = tokens.row == 0
    square = (tokens.log_ratio[here] - tokens.log_ratio[here].mean()) ** 2
    if tokens.sequence is not None:
        count = np.bincount(tokens.sequence[here])
        square = (np.bincount(tokens.sequence[here], weights=square) / np.maximum(count, 1))[count > 0]
    if len(square) < FEWEST:
        return None
    return Estimate(float(square.mean()), float(square.std(ddof=1)) / math.sqrt(len(square)), len(square) - 1.0)


def floor(telemetry: Telemetry) -> Draft:
    """Test whether log-probs of sampler and trainer agree on fresh data, up to the allowed floor."""
    claim, limit = "ratio/engine-floor", telemetry.setup.floor
    found = levels(telemetry)
    known = found is not None and 0.0 in found.staleness
    fresh_data = mean(found.square[:, found.staleness == 0.0].ravel()) if found is not None and known else None
    # Where stamps are in doubt, or no data are stamped fresh, the first step is fresh all the same.
    if fresh_data is None or _doubtful(telemetry):
        fresh_data = first_step(telemetry)
    if fresh_data is None:
        return missing(
            FLOOR, claim, "Too few data are known to be fresh to distinguish engine mismatch from staleness.",
            f"Log log-probs and staleness per token, from the first step on, with {FEWEST} steps that have fresh data.",
        )  # fmt: skip
    # Mean tokens of a sequence; 1 where no sequence is known.
    of = None if telemetry.tokens is None else telemetry.tokens.sequence
    length = 1.0 if of is None else len(of) / (int(of.max()) + 1)
    cost = math.exp(-length * fresh_data.value)
    size = math.sqrt(max(fresh_data.value, 0.0))
    words = f"On fresh data, engines differ by {size:.2g} nats per token: ESS/N {cost:.2g} at {length:.0f} tokens."
    agree, more = fresh_data.value <= limit, f"{words} Noise may be what makes it more than {math.sqrt(limit):.2g}."
    return Draft(
        FLOOR, claim,
        Saying("engines agree", words) if agree else Saying("", more, "Log more data that are fresh."),
        Saying("engine mismatch", words,
               "Compare temperature, top-p and precision of sampler and trainer; weight by the recorded log-probs."),
        above(fresh_data, limit), fresh_data, (0.0, limit), "nats^2 per token", agree,
    )  # fmt: skip


def fresh(telemetry: Telemetry) -> Draft:
    """Test whether data stamped fresh have the log-ratio variance of the first step, whose data are all fresh."""
    claim, found, first = "ratio/drift-growth", levels(telemetry), first_step(telemetry)
    at = np.zeros(0) if found is None else found.square[1:, found.staleness == 0.0].ravel()
    at = at[np.isfinite(at)]
    part = max(FEWEST, len(at) // 4)
    early, late = mean(at[: 2 * part]), mean(at[-part:])
    possible = stamps(telemetry).p == 1.0
    if not (first and early and late and possible) or late.value > GROWS * early.value:
        return missing(
            FRESH, claim, "Stamps, first step or later fresh data are missing or wrong, so no fresh data are known.",
            "Log tokens from the first step on, including data that are stamped fresh.",
        )  # fmt: skip
    limit = max(TIMES * first.value, 1e-12)
    errors = np.array([early.error, TIMES * first.error]) ** 2
    freedom = errors.sum() ** 2 / max(float(errors**2 @ [1.0 / early.freedom, 1.0 / first.freedom]), 1e-300)
    both = early._replace(error=math.sqrt(errors.sum()), freedom=max(freedom, 1.0))
    p = above(both, limit)
    words = f"The variance on data stamped fresh is {early.value:.2g} nats^2, in the first step {first.value:.2g}."
    return Draft(
        FRESH, claim,
        Saying("fresh stamps" if p >= UNSURE else "", words, HARMLESS if p >= UNSURE else "Log more steps."),
        Saying("stale data stamped fresh", words,
               "Stamp samples when they are generated, and count updates where several share a version."),
        p, early, (0.0, limit), "nats^2 per token", p >= UNSURE,
    )  # fmt: skip


def drift(telemetry: Telemetry) -> Draft:
    """Slope of log(v(s) - v(0)), v the log-ratio variance, against log s: 1 for noisy updates, 2 for drift."""
    claim, found = "ratio/drift-growth", levels(telemetry)
    if found is None or 0.0 not in found.staleness:
        return missing(DRIFT, claim, "Without fresh data, floor and slope are unknown.",
                       "Log log-probs and staleness per token, also of fresh data.")  # fmt: skip
    if _doubtful(telemetry):
        return missing(DRIFT, claim, "The stamps may be wrong, so floor and slope are unknown.",
                       "Correct the stamps first.")  # fmt: skip
    slope = _slope(found)
    if slope is None:
        return missing(DRIFT, claim, "Fewer than three staleness values are well measured, so the slope is unknown.",
                       "Log more steps, or a run with more staleness.")  # fmt: skip
    low, value, high = interval(slope)
    kind, words, decisive = _kind(low, high)
    slow = "no growth with staleness" if high < STILL else "growth slower than linear"
    wrong = slow if high < 1.0 else "growth faster than drift"
    sentence = f"The variance of log ratios grows as staleness to the power {value:.2f}: {words}."
    return Draft(
        DRIFT, claim,
        Saying(kind, sentence, HARMLESS if decisive else "Log more steps, or more staleness."),
        Saying(wrong, sentence,
               "Check the stamps, the mask and which log-probs are logged: growth is between linear and quadratic."),
        outside(slope, 1.0, 2.0), slope, (1.0, 2.0), "", decisive,
    )  # fmt: skip


def _kind(low: float, high: float) -> tuple[str, str, bool]:
    if low <= 1.0 and high >= 2.0:
        return "", "the interval is too wide", False
    if high < 1.0:
        return "", "slower than independent steps", False
    if low > 2.0:
        return "", "faster than aligned steps", False
    if low <= 1.0:
        return "independent steps", "independent steps", True
    if high >= 2.0:
        return "aligned steps", "aligned steps", True
    return "noise and drift", "steps of noise and drift", True


def _slope(found: Levels) -> Estimate | None:
    """Weighted least-squares slope over stalenesses, with a jackknife over blocks of steps."""
    # All levels over the same steps: the oldest data come last, and drift changes as training goes on.
    warm = min(int(found.staleness.max()), len(found.square) // 2)
    found = found._replace(square=found.square[warm:])
    steps = len(found.square)
    stretches = min(findings.BATCHES, steps // 2)
    if stretches < FEWEST // 2:
        return None
    part = np.minimum(np.arange(steps) * stretches // steps, stretches - 1)
    known = np.isfinite(found.square)
    total = np.zeros((stretches, len(found.staleness)))
    count = np.zeros_like(total)
    np.add.at(total, part, np.where(known, found.square, 0.0))
    np.add.at(count, part, known.astype(float))
    whole = total.sum(0) / np.maximum(count.sum(0), 1.0)
    left = (total.sum(0) - total) / np.maximum(count.sum(0) - count, 1.0)
    error = np.sqrt((stretches - 1) * left.var(axis=0))
    base = int(np.flatnonzero(found.staleness == 0.0)[0])
    rise = whole - whole[base]
    # A level of a few stretches has no error of its own: it could be small by chance.
    widely = (count > 0).mean(0) >= WIDELY
    chosen = widely & (found.staleness > 0) & (rise > 4.0 * np.hypot(error, error[base]))
    if chosen.sum() < 3 or (whole[chosen] > TOP).any():
        return None
    x, weight = np.log(found.staleness[chosen]), (rise[chosen] / error[chosen].clip(1e-300)) ** 2
    weight = weight / weight.max() + 0.01
    center = x - (weight @ x) / weight.sum()
    row = weight * center / float((weight * center) @ center)
    rises = left[:, chosen] - left[:, [base]]
    if (rises <= 0).any():
        return None
    each = np.log(rises) @ row
    error_of = math.sqrt((stretches - 1) / stretches * float(((each - each.mean()) ** 2).sum()))
    return Estimate(float(np.log(rise[chosen]) @ row), error_of, stretches - 1.0, samples=stretches)


def mean_ratio(telemetry: Telemetry) -> Draft:
    """Test whether the mean ratio is 1, as at any staleness if the logged log-probs are the sampler's."""
    question, claim = "mean ratio", "ratio/engine-floor"
    tokens = telemetry.tokens
    series = telemetry.get("ratio_mean") if tokens is None else tokens.means(np.exp(np.clip(tokens.log_ratio, -50, 50)))
    if series is None:
        return missing(question, claim, "The mean of unclipped ratios was not logged, and a clip changes the mean.",
                       "Log the mean ratio before any clip, clamp or mask.")  # fmt: skip
    value, spread = mean(series), _spread(telemetry)
    if value is None or spread is None or spread > TOP:
        return missing(question, claim, "Steps are too few, few ratios dominate the mean, or their spread is unknown.",
                       "Log ESS or chi-square of the same tokens, over more steps.")  # fmt: skip
    cut = ", or top-p or top-k is on, and the mean is the mass of the kept tokens" if value.value < 1.0 else ""
    return Draft(
        question, claim,
        Saying("mean ratio one", f"The mean ratio is {value.value:.4g}; the prediction is 1 at any staleness."),
        Saying(
            "wrong log-probs", f"The mean ratio is {value.value:.4g}: the logged log-probs are not the sampler's{cut}.",
            "Check the mask, temperature, top-p, and that log-probs are recorded at sampling.",
        ),
        outside(value, 1.0 - 1e-3, 1.0 + 1e-3), value, (1.0, 1.0),
    )  # fmt: skip


def _spread(telemetry: Telemetry) -> float | None:
    """Variance of a token's ratio, from chi-square, from 1/ESS - 1, or from tokens."""
    if telemetry.tokens is not None:
        return float(np.var(telemetry.tokens.log_ratio))
    chi, ess = telemetry.get("chi_square"), telemetry.get("ess")
    if chi is not None and np.isfinite(chi).any():
        return float(np.nanmean(chi))
    if ess is not None and np.isfinite(ess).any() and float(np.nanmin(ess)) > 0.0:
        return float(np.nanmean(1.0 / ess)) - 1.0
    return None
