"""Why consecutive gradients agree, and how near the learning rate is to the boundary of its staleness.

c_k is the mean cosine of gradients k updates apart. A steady mean gradient makes all c_k equal to the share S of its
energy, which the cosine h of two halves of a batch gives as S = 2 h / (1 + h). Momentum b of what is logged adds
(1 - S') b^k. Batches that share samples raise c_1 alone. Staleness tau makes c_tau - c_(tau+1) the mean step *
curvature, whatever S is.
"""

import math

import numpy as np

from asyncsim import claims
from asyncsim.base.records import Estimate
from asyncsim.diagnosing.ages import ages, candidates, unknown
from asyncsim.diagnosing.findings import FEWEST, Draft, Saying, above, mean, missing, outside
from asyncsim.diagnosing.telemetry import Telemetry

COSINE, BOUNDARY = "cosine of consecutive gradients", "distance to the stability boundary"
SNR = "alignment/snr"
TOLERANCE = 0.02
"""Cosines nearer than this count as equal: the mean of a cosine is not a ratio of means in few dimensions."""
NEAR = 0.8
"""Share of the boundary from which a step is called near it."""
LONGEST = 25
"""Stalenesses of a distribution whose boundary is computed; older ones count as the oldest of these."""
LOW = 0.02
"""Signal share below which a cosine is chance."""


def lags(telemetry: Telemetry) -> dict[int, Estimate]:
    """Mean gradient cosines by the lag between the two gradients, in updates."""
    logged = {name: series for name, series in telemetry.quantities.items() if name.startswith("cosine_")}
    telemetry.used.update(logged)
    found = {int(name.removeprefix("cosine_")): mean(series) for name, series in logged.items()}
    return {apart: cosine for apart, cosine in sorted(found.items()) if cosine is not None}


def signal_share(telemetry: Telemetry) -> Estimate | None:
    """Signal fraction S = 2 h/(1 + h) of a gradient, from the cosine h between two half batches."""
    series = telemetry.get("half_cosine")
    half = None if series is None else mean(series)
    if half is None or half.value <= -0.5:
        return None
    return half._replace(value=2.0 * half.value / (1.0 + half.value), error=2.0 * half.error / (1.0 + half.value) ** 2)


def cosine(telemetry: Telemetry) -> Draft:
    """Test whether the signal-to-noise ratio, or else momentum or shared batches, explains the gradient cosine."""
    found, share = lags(telemetry), signal_share(telemetry)
    if 1 not in found:
        return missing(COSINE, SNR, "Too few cosines of consecutive gradients were logged.", "Log one at every update.")
    later = [k for k in found if k > 1]
    if share is None and len(later) < 2:
        return missing(COSINE, SNR, "A cosine alone does not separate signal from momentum and from shared batches.",
                       "Log the cosine of two halves of a batch, or cosines two and three updates apart.")  # fmt: skip
    echo = _echo(telemetry, found)
    if echo is not None and above(echo, 2.0 * TOLERANCE) < 0.01:
        known, why = "alignment/lag1-closed-form", "Stale gradients repeat, which hides the signal in cosines."
        return missing(COSINE, known, why, "Lower the learning rate first, then measure again.")
    base = share if share is not None else found[later[-1]]
    predicted = _with_momentum(base.value, telemetry.setup.momentum)
    error, freedom = math.hypot(found[1].error, base.error), min(found[1].freedom, base.freedom)
    excess = Estimate(found[1].value - predicted, error, freedom)
    cause, because, remedy = _cause(found, base.value, excess)
    small = base.value < LOW
    words = f"The cosine is {found[1].value:.3f}; the signal-to-noise ratio predicts {predicted:.3f}."
    return Draft(
        COSINE, SNR,
        Saying(*(("low signal", words, "Increase the batch size.") if small else ("signal to noise", words))),
        Saying(cause, f"{words[:-1]}, and {because}.", remedy),
        outside(excess, -TOLERANCE, TOLERANCE), found[1], (predicted, predicted),
    )  # fmt: skip


def _with_momentum(share: float, momentum: float | None) -> float:
    """Cosine c_1 that momentum b produces from gradients with signal fraction S: (S + V b)/(S + V)."""
    if not momentum:
        return share
    signal, noise = share / (1.0 - momentum) ** 2, (1.0 - share) / (1.0 - momentum**2)
    return (signal + noise * momentum) / (signal + noise)


def _cause(found: dict[int, Estimate], share: float, excess: Estimate) -> tuple[str, str, str]:
    """Cause of an excess cosine from its decay with the lag, with the evidence and the recommended action."""
    if excess.value < 0:
        remedy = "Compare with the publish interval: gradients across a publish disagree."
        return "gradients that answer each other", "neighbors answer each other", remedy
    second = found.get(2)
    if second is None:
        remedy = "Log cosines two and three updates apart to separate them."
        return "momentum or shared batches", "momentum or shared batches add to it", remedy
    if above(second._replace(value=second.value - share), TOLERANCE) < 0.01:
        remedy = "Log the cosine of raw gradients, before momentum; or give `momentum`."
        return "momentum", "the excess decays geometrically, as with momentum", remedy
    remedy = "Check replay, epochs and the sampler: consecutive updates use the same samples."
    return "shared batches", "only consecutive gradients agree more", remedy


def constant_staleness(telemetry: Telemetry) -> int | None:
    """The constant staleness of all samples, measured or given; None if it varies."""
    found, given = ages(telemetry), telemetry.setup.staleness
    if found is not None:
        return int(found.staleness[0]) if len(found.staleness) and np.ptp(found.staleness) == 0 else None
    number = str(given).removeprefix("constant:") if given is not None else ""
    return int(number) if number.isdigit() else None


def _echo(telemetry: Telemetry, found: dict[int, Estimate]) -> Estimate | None:
    """Mean of step * curvature, estimated as c_tau - c_(tau+1); None if staleness varies or a cosine is missing."""
    tau = constant_staleness(telemetry)
    if not tau or tau not in found or tau + 1 not in found:
        return None
    return mean(telemetry.quantities[f"cosine_{tau}"] - telemetry.quantities[f"cosine_{tau + 1}"])


def boundary(telemetry: Telemetry) -> Draft:
    """Test whether the learning rate is stable, from settings or from gradient correlation at the staleness."""
    setup = telemetry.setup
    limit, claim = _limit(telemetry)
    if limit is None:
        varies = setup.momentum and ages(telemetry) is not None
        words = "No boundary is known for momentum where staleness varies." if varies else unknown(ages(telemetry))
        return missing(BOUNDARY, claim, words, f"Log staleness over {FEWEST} steps or more, or give `staleness`.")
    if setup.learning_rate is not None and setup.curvature is not None:
        share: Estimate | None = Estimate(setup.learning_rate * setup.curvature / limit)
    else:
        share = None if setup.momentum else _echo(telemetry, lags(telemetry))
        if share is not None:
            share = share._replace(value=share.value / limit, error=share.error / limit)
    if share is None:
        return missing(
            BOUNDARY, claim, "Learning rate times curvature is unknown, and so are cosines across the staleness.",
            "Give `learning_rate` and `curvature`, or log cosines staleness and staleness + 1 updates apart.",
        )  # fmt: skip
    where = "" if share.value >= 1.0 else ", where gradients oscillate"
    return Draft(
        BOUNDARY, claim,
        Saying("stable step", f"The learning rate is {share.value:.2f} times the stability boundary."),
        Saying("step near boundary", f"The learning rate is {share.value:.2f} times the stability boundary{where}.",
               f"Divide the learning rate by {max(share.value / 0.5, 1.0):.2g}, or lower the staleness."),
        above(share, NEAR), share, (0.0, NEAR), "share of the boundary",
    )  # fmt: skip


def _limit(telemetry: Telemetry) -> tuple[float | None, str]:
    """Largest stable step * curvature, and its claim: for constant, momentum, sawtooth or random staleness."""
    tau, momentum = constant_staleness(telemetry), telemetry.setup.momentum
    if tau is not None:
        point = {"staleness": tau, "momentum": momentum or None, "curvatures": (1.0,)}
        return claims.claim("staleness/stability-boundary").predict(point)["step"], "staleness/stability-boundary"
    found = ages(telemetry)
    if found is None or momentum or found.steps < FEWEST:
        return None, "staleness/stability-boundary"
    best = candidates(found)[0]
    low, count = int(found.staleness.min()), len(best.shares) - int(found.staleness.min())
    if best.name == "sawtooth" and low % count == 0:
        point = {"updates": count, "versions": low // count, "curvatures": (1.0,)}
        return claims.claim("staleness/sawtooth").predict(point)["step"], "staleness/sawtooth"
    shares = np.bincount(np.minimum(found.staleness, LONGEST - 1)) / len(found.staleness)
    point = {"law": tuple(shares.tolist()), "curvature": 1.0, "share": 0.1, "updates": 1}
    return claims.claim("staleness/random-mean").predict(point)["step"], "staleness/random-mean"
