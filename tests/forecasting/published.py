"""Seconds that two public projects published at several staleness limits, beside those of the event model.

`python -m tests.forecasting.published` prints the tables of docs/forecast-accuracy.md. Neither project published a log:
the model is fitted to two of the rows and forecasts the others.
"""

import math
from typing import Any

from scipy.optimize import brentq

import asyncsim as sim

# github.com/halflearned/rlvr-experiments at daa1354, experiments/2026-01-15-gsm8k-staleness-sweep-100steps/NOTES.md:
# seconds of a step by prompts of a step, prompts of a sync and the limit in steps.
SWEEP = {(16, 16, 0): 42.6, (8, 8, 0): 28.7, (16, 16, 1): 29.1, (8, 8, 1): 15.2, (8, 16, 1): 21.1}
# github.com/volcengine/verl at b178a3c, docs/advance/fully_async.md, stale ablation on 128 GPUs: seconds of a step,
# which is a sync, and of its updates, by staleness_threshold; and the trainer's wait at threshold 0.
VERL = {0.0: (231.34, 98.77), 0.1: (171.30, 109.12), 0.3: (146.11, 103.22), 0.5: (150.63, 113.16)}
WAIT = 128.47
SLOTS = (1024, 2048, 4096)
"""Samples in generation at once, which verl's page does not state."""


def swept() -> dict[tuple[int, int, int], float]:
    """Seconds of a step of every row of the sweep; training takes time by the prompt, a generation the same for all."""
    train = (SWEEP[16, 16, 0] - SWEEP[8, 8, 0]) / 8
    generate = SWEEP[8, 8, 0] - 8 * train
    found = {}
    for prompts, sync, limit in SWEEP:
        steps = sync // prompts
        # A limit below two steps is none between syncs of two: what was generated before the sync is too old.
        versions = max(limit + 1 - steps, 0)
        system = sim.systems.nemo_rl_windowed(sync, versions, length=generate, train_time=sync * train)
        found[prompts, sync, limit] = system.summary(60, warm=10)["seconds_per_update"] / steps
    return found


def verl(threshold: float, mean: float, sigma: float, slots: int) -> float:
    """Seconds between two syncs of verl's runs, whose samples take a log-normal time."""
    train, fixed = VERL[threshold][1] / 4, VERL[0.0][0] - WAIT - VERL[0.0][1]
    law: Any = sim.lognormal(mean=mean, sigma=sigma)
    partial, groups = threshold > 0.0, slots // 16
    system = sim.systems.verl_fully_async(
        32, threshold, 4, 4, partial, groups, length=law, train_time=train, sync_time=fixed
    )
    return 512 / float(system.summary(160, 16, warm=40)["throughput"])


def forecast(slots: int) -> dict[float, float]:
    """Seconds at every threshold, where mean and spread of a sample's time are fitted to the first two."""

    def mean(sigma: float) -> float:
        logs = math.log(0.5), math.log(300.0)
        return math.exp(brentq(lambda x: verl(0.0, math.exp(x), sigma, slots) - VERL[0.0][0], *logs, xtol=0.01))

    sigma = brentq(lambda s: verl(0.1, mean(s), s, slots) - VERL[0.1][0], 0.4, 1.4, xtol=0.01)
    return {threshold: verl(threshold, mean(sigma), sigma, slots) for threshold in VERL}


def main() -> None:
    """Print both tables."""
    print("| prompts of a step | prompts of a sync | limit | published | event model |\n|---|---|---|---|---|")
    for (prompts, sync, limit), seconds in swept().items():
        print(f"| {prompts} | {sync} | {limit} | {SWEEP[prompts, sync, limit]} s | {seconds:.1f} s |")
    found = {slots: forecast(slots) for slots in SLOTS}
    print(f"\n| threshold | published | {' | '.join(f'{slots:,} slots' for slots in SLOTS)} |\n|{'---|' * 5}")
    for threshold, (seconds, _) in VERL.items():
        cells = " | ".join(f"{each[threshold]:.0f} s" for each in found.values())
        print(f"| {threshold:g} | {seconds:.0f} s | {cells} |")


if __name__ == "__main__":
    main()
