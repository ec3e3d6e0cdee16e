"""Whether the reward fell from where it had been, beyond what its own noise explains."""

import numpy as np
from scipy import stats

from asyncsim.base.records import Estimate
from asyncsim.diagnosing.findings import BATCHES, BY_DEFINITION, Draft, Saying, missing
from asyncsim.diagnosing.telemetry import Telemetry

QUESTION = "reward"
LAST = 6
"""A part of the run in so many is compared with every earlier one of its length."""


def fall(telemetry: Telemetry) -> Draft | None:
    """Whether the mean reward of the last part is below that of some earlier part; None where no reward was logged.

    Parts have b of B stretches of steps, whose noise is sigma^2 = mean (x_(k+1) - x_k)^2 / 2: a trend raises it. The
    p-value of the largest t is multiplied by the number of earlier parts.
    """
    series = telemetry.get("reward")
    if series is None:
        return None
    known = np.flatnonzero(np.isfinite(series))
    if len(known) < BATCHES:
        text = f"A reward was logged in {len(known)} steps."
        return missing(QUESTION, BY_DEFINITION, text, f"Log it in {BATCHES} steps or more.")
    stretches = np.array([part.mean() for part in np.array_split(series[known], BATCHES)])
    size = BATCHES // LAST
    parts = np.lib.stride_tricks.sliding_window_view(stretches, size).mean(axis=1)
    before = parts[:-size]
    error = float(np.sqrt(np.mean(np.diff(stretches) ** 2) / size))
    best = int(before.argmax())
    drop = float(before[best] - parts[-1])
    # Squared differences of neighbors carry two thirds of the degrees of freedom of independent ones.
    freedom = (BATCHES - 1) * 2.0 / 3.0
    p = 1.0 if drop <= 0.0 else min(1.0, len(before) * float(stats.t.sf(drop / max(error, 1e-300), freedom)))
    steps = [each[-1] for each in np.array_split(telemetry.quantities["step"][known], BATCHES)]
    words = f"The mean reward of the last sixth is {parts[-1]:.4g}; the best sixth had {before[best]:.4g}."
    return Draft(
        QUESTION, BY_DEFINITION,
        Saying("no fall", words),
        Saying("reward fell", f"{words[:-1]} and ended at step {steps[best + size - 1]:g}.",
               "See what else changed from that step on: clipping, mismatch, entropy, lengths. Start again before it."),
        p, Estimate(drop, error, freedom), (-np.inf, 0.0), "reward",
    )  # fmt: skip
