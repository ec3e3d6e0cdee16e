"""How often 95 % bands hold what a run does afterwards, and at another setting, by number.

`python -m tests.forecasting.coverage [SEEDS]` prints the table of docs/forecast-accuracy.md. With `SEEDS --samples`
logs have a row a sample, beside seconds and ratios of steps; with `SEEDS --bare` they have no staleness.
"""

import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

import asyncsim as sim
from tests.forecasting.simulated import DRIFT, SMALL, given, part, sample_rows, simulated

PRESETS = {
    "areal": {"staleness_limit": 2},
    "verl": {"staleness_limit": 1, "partial_rollouts": True, "publish_every": 1},
    "skyrl": {"staleness_limit": 2},
    "prime_rl": {"staleness_limit": 2},
    "nemo_rl": {"staleness_limit": 2},
    "open_instruct": {"staleness_limit": 2},
    "miles": {"staleness_limit": 2},
    "torchtitan": {"staleness_limit": 2},
    "openrlhf": {"staleness_limit": 2},
    "trl": {"staleness_limit": 2},
    "roll": {"staleness_limit": 2},
    "colocated": {"staleness_limit": 1},
}
"""Trainers with the limit at which their run was logged."""
SYNCS = {"staleness_limit": 1, "partial_rollouts": True, "publish_every": 4, "sync_seconds": 8.0}
BARE = {"areal bare": PRESETS["areal"], "verl bare": SYNCS, "verl late": SYNCS}
"""Logs without staleness, of a sync every 4 steps the last two; a late one begins when staleness has settled."""
CHANGES = ({"staleness_limit": 4}, {"machines": 8}, {"staleness_limit": 4, "machines": 6})
"""Other settings; the last changes two at once."""
DRIFTS = (DRIFT, (0.0, 0.02, 0.0), (0.01, 0.0, 0.002), (0.002, 0.002, 0.0))
STEPS = ("step", "seconds_step", "seconds_wait", "seconds_sync", "kl_k3", "chi_square", "ess")
"""Columns of steps that stand beside rows of samples."""
FIRST, WHOLE, WARM = 100, 300, 60
"""Steps that calibrate, steps of the run, and steps that another setting takes to settle."""


def logs_of(system, columns, seed, samples, form=""):
    """The first steps as a log: of steps, or of samples with seconds and ratios of steps beside them."""
    first = part(columns, slice(WARM, WARM + FIRST) if form == "late" else slice(0, FIRST))
    if form:
        first.pop("staleness_mean")
    if not samples:
        return first
    path = Path(tempfile.mkdtemp(), "samples.csv")
    path.write_text(sample_rows(system, FIRST, seed), encoding="utf-8")
    return [path, {name: first[name] for name in STEPS}]


def cases(preset, seed, changes=CHANGES, samples=False):
    """(where, number, band, truth) of one run: the rest of it, and other settings."""
    trainer, _, form = preset.partition(" ")
    system = {
        "trainer": trainer,
        **SMALL,
        **{**PRESETS, **BARE}[preset],
        "train_seconds": f"gamma:{(12, 30)[seed % 2]}:50",
    }
    drift = DRIFTS[seed % len(DRIFTS)]
    columns, truth = simulated(system, WHOLE, 100 + seed, drift)
    made = sim.calibrate(logs_of(system, columns, 100 + seed, samples, form), trainer, **given(system))
    for at, change in enumerate([{}, *changes]):
        found = sim.forecast(made, seed=seed, **change)
        other = truth if not change else simulated({**system, **change}, WHOLE, 7000 + 10 * seed + at, drift)[1]
        where = (
            "rest of the run" if not change else "two settings changed" if len(change) > 1 else "one setting changed"
        )
        for name, values in other.items():
            held = float(values[FIRST if not change else WARM :].mean())
            yield where, name, found.line(name).forecasts[int(bool(change))], held


def counted(presets, seeds, changes=CHANGES, samples=False):
    """Bands that hold the truth, and all, by (where, number), with the widths over the truth."""
    found = defaultdict(list)
    for preset in presets:
        for seed in seeds:
            for where, name, band, held in cases(preset, seed, changes, samples):
                found[where, name].append(
                    (band.low <= held <= band.high, (band.high - band.low) / held, preset, seed, held, band)
                )
    return found


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    named = [name for name in sys.argv[2:] if name[:2] != "--"] or (BARE if "--bare" in sys.argv else PRESETS)
    table = counted(named, range(seeds), samples="--samples" in sys.argv)
    print("| where | number | bands that contain the truth | width of a band divided by the truth |\n|---|---|---|---|")
    for (where, name), rows in table.items():
        good = sum(held for held, *_ in rows)
        width = np.median([width for _, width, *_ in rows])
        print(f"| {where} | {name} | {good} of {len(rows)} ({good / len(rows):.0%}) | {width:.0%} |")
        for held, _, preset, seed, value, band in rows:
            if not held:
                print(f"    {preset} {seed} truth {value:.4g} band {band}", file=sys.stderr)
