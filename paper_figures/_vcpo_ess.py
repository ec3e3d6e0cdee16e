"""Predictions beside the rows of `vcpo_ess`, and the numbers that its entries quote."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from asyncsim import claims

LENGTHS = (4, 16, 64)
"""Tokens of the runs that go on into training."""
LONGEST = 64
FEW = 16
"""Replicates that give a dashed line; all of them give one less than 0.01 away."""


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
    found = claims.claim("ess/finite-sample").predict(point | pair)
    # The second moment of a sequence is the product over its tokens (claim `ratio/markov-moments`).
    limit = claims.claim("ess/limit").predict(pair)["ess"] ** length
    return Expected(found["ess"], limit, found["largest_share"])


def realized(rows: Any, most: int | None = None) -> list[Expected]:
    """Predictions for each replicate of one reading, or the first `most`, from its own policies."""
    batch, length = int(rows.batch.iloc[0]), int(rows.length.iloc[0])
    return [expected(batch, length, tuple(mu), tuple(pi)) for mu, pi in policies(rows)[:most]]


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
    """What the entry on ESS quotes."""
    ess, share = (
        own[own.length == LONGEST].sort_values("staleness")
        for own in (means(rows, "training", name) for name in ("ess", "largest_share"))
    )
    least, most = share.iloc[0], share.iloc[-1]
    found = {"batch": str(int(rows.batch.iloc[0])), "replicates": str(int(ess.samples.iloc[0]))}
    oldest = ess.iloc[[-1]]
    (row,), (part,) = oldest.itertuples(), readings(rows, oldest)
    predicted = realized(part)
    brief = means(rows, "training", "largest_share")
    brief = brief[(brief.length == LENGTHS[0]) & (brief.staleness == row.staleness)]
    return found | {
        "staleness": str(int(row.staleness)),
        "ess": f"{100 * row.value:.1f} ± {100 * (row.high - row.low) / 2:.1f}",
        "predicted": f"{100 * np.mean([each.ess for each in predicted]):.1f}",
        "longest": str(LONGEST),
        "shortest": str(LENGTHS[0]),
        "share_short": f"{100 * brief.value.iloc[0]:.1f}" if len(brief) else "no value",
        "share_least": f"{100 * least.value:.1f}",
        "share_most": f"{100 * most.value:.0f} ± {100 * (most.high - most.low) / 2:.0f}",
    }


def drift(rows: Any) -> dict[str, str]:
    """What the entry on drift quotes: the law of the first update against batches of the initial policy, and late."""
    found = {}
    for reward in ("tokens", "chance"):
        own = means(rows, "start", "log_variance", reward)
        own = own[own.staleness > 1]
        predicted = own.length * law(rows, reward, own.staleness.to_numpy(dtype=float))
        found[f"{reward}_off"] = f"{100 * (own.value / predicted - 1).abs().max():.0f}"
    wide = means(rows, "start", "ess", "chance").sort_values("staleness").iloc[-1]
    found["chance_staleness"] = str(int(wide.staleness))
    found["chance_ess"] = f"{100 * wide.value:.0f}"
    found["chance_law"] = percent(math.exp(-wide.length * law(rows, "chance", float(wide.staleness))))
    late = means(rows, "training", "log_variance")
    late = late[late.length == 16]
    off = late.value / late.length / law(rows, "tokens", late.staleness.to_numpy(dtype=float))
    found |= {"late_least": f"{off.min():.2f}", "late_most": f"{off.max():.2f}"}
    ess = means(rows, "start", "ess")
    told = [
        forecast(rows, int(own.length), [own.length * law(rows, "tokens", own.staleness)])[0].ess for own in drawn(ess)
    ]
    held = sum(own.low <= value <= own.high for own, value in zip(drawn(ess), told, strict=True))
    return found | {"forecast_readings": str(len(told)), "forecast_inside": str(held)}


def percent(share: float) -> str:
    """A share in percent; small ones by their first digit."""
    return f"{100 * share:.1f}" if share > 0.01 else f"{100 * share:.1g}"


def index(inverse: float) -> str:
    """Hill's index from its inverse."""
    return f"{1.0 / inverse:.0f}" if inverse < 0.1 else f"{1.0 / inverse:.1f}"
