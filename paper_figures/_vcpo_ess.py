"""Predictions beside the rows of `vcpo_ess`, and the numbers that its entry quotes."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
from scipy import integrate, stats

from asyncsim import theory

LENGTHS = (4, 16, 64)
"""Tokens of the runs that go on into training."""
LONGEST = 64


class Expected(NamedTuple):
    """Predicted for one batch: ESS/N of N samples, of infinitely many, and the largest share."""

    ess: float
    limit: float
    share: float


@functools.lru_cache(maxsize=8192)
def expected(batch: int, length: int, behavior: tuple[float, ...], current: tuple[float, ...]) -> Expected:
    """From the policies that generated and train a batch."""
    point: dict[str, Any] = {"samples": batch, "horizon": length}
    pair = {"behavior_logits": behavior, "current_logits": current}
    found = theory.claim("ess/finite-sample").predict(point | pair)
    # The second moment of a sequence is the product over its tokens (claim `ratio/sequence-product`).
    limit = theory.claim("ess/limit").predict(pair)["ess"] ** length
    return Expected(found["ess"], limit, found["largest_share"])


def realized(rows: Any) -> list[Expected]:
    """Predictions for each replicate of one reading, from its own policies."""
    batch, length = int(rows.batch.iloc[0]), int(rows.length.iloc[0])
    return [expected(batch, length, tuple(mu), tuple(pi)) for mu, pi in policies(rows)]


def policies(rows: Any) -> list[tuple[Any, Any]]:
    """Log-probabilities under the policies that generated and train each replicate's batch."""
    single = rows[rows.replicate.notna()]
    tables = [
        single[single.quantity == name].pivot_table(index="replicate", columns="token", values="value").to_numpy()
        for name in ("log_mu", "log_pi")
    ]
    return list(zip(*tables, strict=True))


def law(rows: Any, reward: str, staleness: Any) -> Any:
    """Variance of a token's log ratio from the drift and noise of the first update: noise S + drift S^2."""
    own = rows[(rows.part == "update") & (rows.reward == reward)].set_index("quantity").value
    return own.noise * staleness + own.drift * staleness**2


def forecast(rows: Any, length: int, variance: Any) -> list[Expected]:
    """ESS of a batch of the untrained policy from the forecast variance of a sequence's log ratio.

    Equal chances drift along the exact gradient, which moves the logit of token 0 alone: for `k` kinds of tokens a
    logit of `a` gives log ratios a variance of `a^2 (k - 1) / k^2`.
    """
    kinds = 1 + int(rows.token.max())
    start = np.full(kinds, -math.log(kinds))
    found = []
    for token in np.asarray(variance, dtype=float) / length:
        logits = np.zeros(kinds)
        logits[0] = kinds * math.sqrt(token / (kinds - 1))
        found.append(expected(int(rows.batch.iloc[0]), length, tuple(start), tuple(logits)))
    return found


def trusted(rows: Any) -> float:
    """Variance of log W up to which a batch's ESS is near exp(-variance): a quarter of log N."""
    return 0.25 * math.log(float(rows.batch.iloc[0]))


def means(rows: Any, part: str, quantity: str, reward: str = "tokens") -> Any:
    """The rows of one quantity with intervals."""
    return rows[(rows.part == part) & (rows.quantity == quantity) & (rows.reward == reward) & rows.replicate.isna()]


def drawn(ess: Any) -> list[Any]:
    """Readings of ESS of the lengths that the figure draws."""
    return list(ess[ess.length.isin(LENGTHS)].itertuples())


def readings(rows: Any, own: Any) -> list[Any]:
    """All rows of the readings amid training that the rows of one length and quantity summarize."""
    training = rows[(rows.part == "training") & (rows.length == own.length.iloc[0])]
    return [training[training.staleness == staleness] for staleness in own.staleness]


def numbers(rows: Any) -> dict[str, str]:
    """What the gallery quotes."""
    return {**_setting(rows), **_law_numbers(rows), **_exact_numbers(rows), **_tail_numbers(rows)}


def _setting(rows: Any) -> dict[str, str]:
    training = means(rows, "training", "ess")
    return {"batch": str(int(rows.batch.iloc[0])), "replicates": str(int(training.samples.iloc[0]))}


def _law_numbers(rows: Any) -> dict[str, str]:
    """The law of the first update against the batches that the initial policy wrote, and amid learning."""
    found: dict[str, str] = {}
    for reward in ("tokens", "chance"):
        own = means(rows, "start", "log_variance", reward)
        own = own[own.staleness > 1]
        value, reach = own.value / own.length, (own.high - own.low) / 2 / own.length
        predicted = law(rows, reward, own.staleness.to_numpy(dtype=float))
        found |= {
            f"{reward}_readings": str(len(own)),
            f"{reward}_off": f"{100 * (value / predicted - 1).abs().max():.0f}",
            f"{reward}_inside": str(int(((value - predicted).abs() <= reach).sum())),
        }
    wide = means(rows, "start", "ess", "chance").sort_values("staleness").iloc[-1]
    found["chance_staleness"] = str(int(wide.staleness))
    found["chance_ess"] = f"{100 * wide.value:.0f}"
    found["chance_law"] = percent(math.exp(-wide.length * law(rows, "chance", float(wide.staleness))))
    first = rows[(rows.part == "update") & (rows.reward == "tokens")].set_index("quantity").value
    found["tokens_drift"] = f"{100 * first.drift / (first.drift + first.noise):.0f}"
    late = means(rows, "training", "log_variance")
    late = late[late.length == 16]
    off = late.value / late.length / law(rows, "tokens", late.staleness.to_numpy(dtype=float))
    found |= {"late_least": f"{off.min():.2f}", "late_most": f"{off.max():.2f}"}
    ess = means(rows, "start", "ess")
    sure = ess.length * law(rows, "tokens", ess.staleness.to_numpy(dtype=float))
    inside = sure <= trusted(rows)
    gap = (ess.value / np.exp(-sure) - 1.0)[inside].abs().max()
    worst = ess.loc[sure.idxmax()]
    told = [
        forecast(rows, int(own.length), [own.length * law(rows, "tokens", own.staleness)])[0].ess for own in drawn(ess)
    ]
    held = sum(own.low <= value <= own.high for own, value in zip(drawn(ess), told, strict=True))
    return found | {
        "forecast_readings": str(len(told)),
        "forecast_inside": str(held),
        "trusted": f"{trusted(rows):.2f}",
        "length_off": f"{100 * gap:.0f}",
        "length_readings": str(int(inside.sum())),
        "beyond": f"{100 * worst.value:.1f}",
        "beyond_law": percent(math.exp(-sure.max())),
        "beyond_staleness": str(int(worst.staleness)),
        "beyond_length": str(int(worst.length)),
    }


def compared(rows: Any, quantity: str) -> list[tuple[int, int, float, float, float]]:
    """Length, staleness, measured and predicted mean, and the standard error of their paired difference."""
    found = []
    for length in LENGTHS:
        own = means(rows, "training", quantity)
        own = own[own.length == length]
        for staleness, part in zip(own.staleness, readings(rows, own), strict=True):
            single = (
                part[part.replicate.notna() & (part.quantity == quantity)].sort_values("replicate").value.to_numpy()
            )
            name = {"ess": "ess", "largest_share": "share"}[quantity]
            predicted = np.array([getattr(each, name) for each in realized(part)])
            error = float((single - predicted).std(ddof=1)) / math.sqrt(len(single))
            found.append((length, int(staleness), float(single.mean()), float(predicted.mean()), error))
    return found


def _exact_numbers(rows: Any) -> dict[str, str]:
    """Batches amid training against what the policies that realized say."""
    ess, share = compared(rows, "ess"), compared(rows, "largest_share")
    worst = max(abs(value - predicted) / error for _, _, value, predicted, error in ess + share)
    freedom = int(means(rows, "training", "ess").samples.iloc[0]) - 1
    count = len(ess) + len(share)
    longest = [each for each in ess if each[0] == LONGEST]
    _, oldest, value, _, _ = longest[-1]
    own = means(rows, "training", "ess")
    last = readings(rows, own[own.length == LONGEST])[-1]
    limit = float(np.mean([each.limit for each in realized(last)]))
    return {
        "longest": str(LONGEST),
        "exact_readings": str(count),
        "exact_errors": f"{worst:.1f}",
        "exact_expected": f"{furthest(count, freedom):.1f}",
        "exact_chance": f"{100 * (1.0 - within(worst, freedom) ** count):.0f}",
        "ess_stalenesses": _listed([str(each[1]) for each in longest]),
        "ess_longest": _listed([f"{100 * each[2]:.1f}" for each in longest]),
        "ess_predicted": _listed([f"{100 * each[3]:.1f}" for each in longest]),
        "last_staleness": str(oldest),
        "last_ess": f"{100 * value:.1f}",
        "last_limit": percent(limit),
    }


def within(errors: float, freedom: int) -> float:
    """Chance that a right prediction is missed by no more than so many standard errors."""
    return float(2.0 * stats.t.cdf(errors, freedom) - 1.0)


def furthest(count: int, freedom: int) -> float:
    """Expected standard errors of the furthest of several independent right predictions."""
    return float(integrate.quad(lambda errors: 1.0 - within(errors, freedom) ** count, 0.0, 40.0)[0])


class Shape(NamedTuple):
    """Log ratio of a sequence, exactly, beside a normal variable of its mean and variance.

    gap: largest difference of the two distribution functions; top: largest possible value, in deviations above the
    mean; source: where the second moment of the log-normal ratio would come from; limit: ESS/N of infinitely many.
    """

    gap: float
    top: float
    source: float
    limit: float


def shape(length: int, behavior: Any, current: Any) -> Shape:
    """Over all counts of three kinds of tokens."""
    counts = np.array([(a, b, length - a - b) for a in range(length + 1) for b in range(length + 1 - a)])
    prob, ratio = np.exp(behavior), np.asarray(current) - np.asarray(behavior)
    mean = float(prob @ ratio)
    deviation = math.sqrt(length * float(prob @ (ratio - mean) ** 2))
    score = (counts @ ratio - length * mean) / deviation
    order = np.argsort(score)
    mass = stats.multinomial.pmf(counts, length, prob / prob.sum())[order]
    normal = stats.norm.cdf(score[order])
    gap = max(np.abs(mass.cumsum() - shift - normal).max() for shift in (0.0, mass))
    # Weights exp(2 x) move a normal variable by twice its variance.
    return Shape(float(gap), float(score.max()), 2.0 * deviation, math.exp(-(deviation**2)))


def shapes(rows: Any) -> Shape:
    """Means over the replicates of the longest sequences at the largest staleness."""
    own = means(rows, "training", "ess")
    pairs = policies(readings(rows, own[own.length == LONGEST])[-1])
    return Shape(*np.mean([shape(LONGEST, *pair) for pair in pairs], axis=0))


def _tail_numbers(rows: Any) -> dict[str, str]:
    """The heaviest sample and Hill's index of the longest sequences."""
    share, hill, spread = (means(rows, "training", name) for name in ("largest_share", "inverse_tail", "spread"))
    share, hill, spread = (each[each.length == LONGEST] for each in (share, hill, spread))
    least, most = share.iloc[0], share.iloc[-1]
    last = shapes(rows)
    return {
        "bulk_gap": f"{100 * last.gap:.0f}",
        "normal_source": f"{last.source:.1f}",
        "top": f"{last.top:.1f}",
        "normal_limit": percent(last.limit),
        "share_least": f"{100 * least.value:.1f}",
        "share_most": f"{100 * most.value:.0f} ± {100 * (most.high - most.low) / 2:.0f}",
        "hill_first": index(hill.value.iloc[0]),
        "hill_last": index(hill.value.iloc[-1]),
        "spread": f"{spread.value.iloc[-1]:.0f}",
    }


def _listed(words: list[str]) -> str:
    return ", ".join(words)


def percent(share: float) -> str:
    """A share in percent; small ones by their first digit."""
    return f"{100 * share:.1f}" if share > 0.01 else f"{100 * share:.1g}"


def index(inverse: float) -> str:
    """Hill's index from its inverse."""
    return f"{1.0 / inverse:.0f}" if inverse < 0.1 else f"{1.0 / inverse:.1f}"
