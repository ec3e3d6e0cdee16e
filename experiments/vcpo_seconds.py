"""How long is a training step when responses get longer, synchronous and asynchronous, and what part is generation?

Batches of 2 groups of 8 responses on 16 slots, as in `vcpo_hours`: responses of `length` tokens on average, lognormal
with spread 1, written at `RATE` tokens per second; training takes `TRAIN` seconds a token of the mean response, a
publish `PUBLISH` seconds. `staleness` 0 is the synchronous system, else generation runs ahead by so many batches
(preset `vcpo`). Rows, one `quantity` each, means over `samples` realizations with 95 percent `low` and `high`:
step        seconds from one update to the next, over the last half of the batches
training    seconds of an update, with its publish
generation  the rest of the step: time in which the trainer waits for responses
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import _vcpo

COLUMNS = ["staleness", "length", "quantity", "value", "low", "high", "samples", "note"]
GROUPS, SAMPLES, RATE, SPREAD = 2, 8, 30.0, 1.0
TRAIN, PUBLISH = 1.0 / 15.0, 5.0
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 12288)
LEVELS = (0, 2, 10)
"""The staleness of the paper's timings."""
SETTINGS = [{"staleness": s, "lengths": list(LENGTHS), "batches": 240, "realizations": 64, "seed": 0} for s in LEVELS]
QUICK = [{**setting, "lengths": list(LENGTHS[::3]), "batches": 40, "realizations": 4} for setting in SETTINGS]


def system(staleness: int, length: float) -> Any:
    """Sixteen slots under synchronous training, or under generation that runs so many batches ahead."""
    import asyncsim as sim

    timing: dict[str, Any] = {
        "length": f"lognormal:{length / RATE}:{SPREAD}",
        "train_time": TRAIN * length,
        "sync_time": PUBLISH,
    }
    if not staleness:
        return sim.systems.synchronous(GROUPS, **timing).replace(slots=GROUPS * SAMPLES)
    tickets = (staleness + 1) * GROUPS
    made = sim.systems.vcpo(GROUPS, staleness, concurrent_samples_per_replica=tickets, **timing)
    return made.replace(slots=GROUPS * SAMPLES)


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one staleness at all lengths."""
    rows, batches = [], setting["batches"]
    for length in setting["lengths"]:
        made = system(setting["staleness"], length)
        start = made.schedule(batches, SAMPLES, 1, setting["realizations"], setting["seed"]).seconds
        late = batches // 2
        step = (start[:, -1] - start[:, late]) / (batches - 1 - late)
        training = np.full_like(step, TRAIN * length + PUBLISH)
        for name, values in (("step", step), ("training", training), ("generation", step - training)):
            rows.append({"staleness": setting["staleness"], "length": length, "quantity": name, **_vcpo.mean(values)})
    return [{**dict.fromkeys(COLUMNS), **row} for row in rows]
