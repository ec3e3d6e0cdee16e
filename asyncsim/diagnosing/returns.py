"""Whether the reward fell, updates grew or the sampler drifted away, beyond what their own noise explains."""

import numpy as np
from scipy import stats

from asyncsim.base.notation import plural
from asyncsim.base.records import Estimate
from asyncsim.diagnosing.aliases import APART, MOVES
from asyncsim.diagnosing.findings import BATCHES, BY_DEFINITION, LEVEL, Draft, Saying, missing
from asyncsim.diagnosing.telemetry import Telemetry

TIMES = 3.0
"""Growth of updates, and of the distance from the sampler, that a healthy run may show."""
CAUSES = "updates grew", "sampler drifts away"
ACTIONS = (
    "Check the learning rate, staleness and masks from that step on; use an earlier checkpoint.",
    "Compare the engines' log-probs and precision; look at weight syncs and staleness.",
)
"""What a growth is called, and what to do: of updates, and of the distance from the sampler."""
QUESTION = "reward"
SPIKE = 10.0
"""Times the median of a run from which on a value is mentioned."""
SIZE = BATCHES // 6
"""Stretches of the last part of a run, which is compared with every earlier one of its length."""
CLEAR = 6.0
"""Standard errors by which another column must have moved to be named beside the reward."""


def fall(telemetry: Telemetry) -> Draft | None:
    """Test whether the mean reward falls from an earlier to the last part of a run; None if no reward was logged.

    Parts are means of b stretches of steps, whose variance is mean (x_(k+1) - x_k)^2 / 2: a trend raises it. The
    p-value of the largest t is multiplied by the number of earlier parts.
    """
    series = telemetry.get("reward")
    if series is None:
        return None
    known = np.isfinite(series)
    if known.sum() < BATCHES:
        text = f"A reward was logged in {known.sum()} steps."
        return missing(QUESTION, BY_DEFINITION, text, f"Log the reward in {BATCHES} steps or more.")
    parts, error = _parts(series[known])
    before = parts[:-SIZE]
    best = int(before.argmax())
    drop = float(before[best] - parts[-1])
    # Squared differences of neighbors carry two thirds of the degrees of freedom of independent ones.
    freedom = (BATCHES - 1) * 2.0 / 3.0
    p = 1.0 if drop <= 0.0 else min(1.0, len(before) * float(stats.t.sf(drop / error, freedom)))
    end = np.array_split(telemetry.quantities["step"][known], BATCHES)[best + SIZE - 1][-1]
    words = f"The last sixth has mean reward {parts[-1]:.4g}"
    words += f"; the best earlier sixth, to step {end:g}, had {before[best]:.4g}"
    beside = _beside(telemetry, known, best)
    since = f" Since then {', '.join(beside)}." if beside else ""
    return Draft(
        QUESTION, BY_DEFINITION,
        Saying("no fall", f"{words}."),
        Saying("reward fell", f"{words}.{since}",
               "Return to a checkpoint before that step, and inspect the metrics that changed with the reward."),
        p, Estimate(drop, error, freedom), (-np.inf, 0.0), "reward",
    )  # fmt: skip


def grown(telemetry: Telemetry) -> list[Draft]:
    """Test whether update sizes, or distances from the sampler, end above `TIMES` those of the first half.

    Returns a draft for each quantity that is logged; growth that noise may explain stays open. Means of b stretches of
    steps are compared by their logarithms, whose variance is mean (x_(k+1) - x_k)^2 / 2.
    """
    drafts = []
    for name in (*MOVES, "clip_fraction", *APART):
        series = telemetry.quantities.get(name)
        if series is None or (known := np.isfinite(series)).sum() < BATCHES:
            continue
        stretches = np.array([part.mean() for part in np.array_split(series[known], BATCHES)])
        if stretches.min() <= 0.0:
            continue  # a mean of noise around 0 has no size
        telemetry.get(name)
        logs, half, column = np.log(stretches), BATCHES // 2, telemetry.names[name]
        error = max(float(np.sqrt(np.mean(np.diff(logs) ** 2) / 2.0 * (1.0 / SIZE + 1.0 / half))), 1e-12)
        (first, last), freedom = np.exp([logs[:half].mean(), logs[-SIZE:].mean()]), (BATCHES - 1) * 2.0 / 3.0
        steps = [part[0] for part in np.array_split(telemetry.quantities["step"][known], BATCHES)]
        start = next((steps[k] for k in range(BATCHES) if stretches[k:].min() > TIMES * first), steps[-1])
        words = f"{column} was {first:.3g} in the first half, and is {last:.3g} in the last sixth (geometric means)"
        middle, at = float(np.median(series[known])), int(np.nanargmax(series))
        spikes, step = int((series[known] > SPIKE * middle).sum()), telemetry.quantities["step"][at]
        many = f" In {plural(spikes, 'step')} it is above {SPIKE:g} times its median, {middle:.3g}"
        many = f"{many}, up to {series[at]:.3g} at step {step:g}." if spikes and middle > 0.0 else ""
        grown = f"{words}: above {TIMES:g} times the first from step {start:g} on."
        noisy = f"{words}, {last / first:.2g} times; more than {TIMES:g} times counts"
        steady = Saying("no such growth", f"{noisy}.{many}")
        if last > TIMES * first:
            steady = Saying("", f"{noisy}, but noise alone may do this.{many}", "Look at the largest values.")
            if stats.t.sf(np.log(last / first) / error, freedom) < LEVEL:
                sure = f"It did grow; whether by more than {TIMES:g} times, noise leaves open."
                steady = Saying("", f"{grown} {sure}{many}", ACTIONS[name in APART])
        sayings = steady, Saying(CAUSES[name in APART], grown, ACTIONS[name in APART])
        p = float(stats.t.sf(np.log(last / first / TIMES) / error, freedom))
        ratio = Estimate(float(last / first), float(last / first) * error, freedom)
        of = f"growth of {column}", BY_DEFINITION, *sayings
        drafts.append(Draft(*of, p, ratio, (0.0, TIMES), "times the first half", bool(last <= TIMES * first)))
    return drafts


def _parts(series: np.ndarray) -> tuple[np.ndarray, float]:
    """Means of all parts, and the standard error of the difference of two parts that do not overlap."""
    stretches = np.array([part.mean() for part in np.array_split(series, BATCHES)])
    noise = float(np.sqrt(np.mean(np.diff(stretches) ** 2) / SIZE))
    return np.lib.stride_tricks.sliding_window_view(stretches, SIZE).mean(axis=1), max(noise, 1e-300)


def _beside(telemetry: Telemetry, known: np.ndarray, best: int) -> list[str]:
    """Other columns that changed most from the best part to the last, in units of their standard error."""
    moved = {}
    for name in telemetry.quantities.keys() & telemetry.names:
        series, column = telemetry.quantities[name][known], telemetry.names[name]
        if name not in ("step", QUESTION) and np.isfinite(series).all():
            parts, error = _parts(series)
            size = abs(float(parts[-1] - parts[best])) / error
            if size > CLEAR:
                moved[f"{column} went from {parts[best]:.3g} to {parts[-1]:.3g}"] = size
    return sorted(moved, key=lambda text: -moved[text])[:3]
