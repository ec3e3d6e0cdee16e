"""Does PPO on minibatches of tokens learn as stable-baselines3's own form does?

Both sides have stable-baselines3's default hyperparameters: batches of 2,048 steps, 10 epochs, minibatches of 64 steps
dealt anew in every epoch, advantages standardized in the minibatch, Adam at 3e-4. Here 8 environments take 256 steps
each. A row holds the mean return of the training episodes that ended in a batch (the last known one where none ended).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.cartpole_parity import curve, learned

ENVIRONMENTS, STEPS, EPOCHS, SIZE = 8, 256, 10, 64
BATCH = ENVIRONMENTS * STEPS
DISCOUNT, TRACE, RATE, CLIP, LARGEST = 0.99, 0.95, 3e-4, 0.2, 0.5
COLUMNS = ["side", "seed", "steps", "episode_return"]
BATCHES = 16

SETTINGS = [
    *({"side": "asyncsim", "seeds": 32, "batches": BATCHES, "seed": first} for first in (0, 32)),
    *({"side": "stable-baselines3", "seeds": 4, "batches": BATCHES, "seed": first} for first in range(0, 64, 4)),
]
QUICK = [
    {"side": "asyncsim", "seeds": 2, "batches": 1, "seed": 0},
    {"side": "stable-baselines3", "seeds": 1, "batches": 1, "seed": 0},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Learning curves of one side."""
    side = ours if setting["side"] == "asyncsim" else theirs
    total, count = side(setting["seeds"], setting["batches"], setting["seed"])
    return [
        {
            "side": setting["side"],
            "seed": setting["seed"] + index,
            "steps": (batch + 1) * BATCH,
            "episode_return": value,
        }
        for index in range(setting["seeds"])
        for batch, value in enumerate(curve(total[:, index], count[:, index], 1))
    ]


def spec(batches: int, replicates: int, **changes: Any) -> Any:
    """PPO on segments, as stable-baselines3 does it by default."""
    import asyncsim as sim

    advantage = sim.advantages.gae(DISCOUNT, TRACE, normalize=True)
    settings: dict[str, Any] = {"epochs": EPOCHS, "minibatches": BATCH // SIZE, "cut": "tokens", **changes}
    each = settings["epochs"] * settings["minibatches"]
    return sim.Spec(
        task=sim.tasks.gym("CartPole-v1", trajectory="segment", steps=STEPS),
        system=sim.schedules.fixed(0, groups_per_batch=ENVIRONMENTS),
        method=sim.methods.ppo_clip(CLIP, CLIP, anchor="proximal", advantage=advantage, critic=0.5),
        update=sim.chain(sim.updates.clip_norm(LARGEST), sim.updates.adam(RATE, eps=1e-5)),
        samples_per_group=1,
        updates=batches * each,
        replicates=replicates,
        advantages_from="minibatch",
        diagnostics=["episode_return", "episodes"],
        every=each,
        **settings,
    )


def ours(seeds: int, batches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the returns and number of the episodes that ended in each batch, `[batches, seeds]`."""
    import asyncsim as sim

    trace = sim.run(spec(batches, seeds), seed=seed, progress=False)
    count = trace["episodes"]
    return np.nan_to_num(trace["episode_return"]) * count, count


def theirs(seeds: int, batches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of stable-baselines3, whose defaults are written out."""
    total, count = np.zeros((batches, seeds)), np.zeros((batches, seeds))
    settings = {
        "learning_rate": RATE,
        "batch_size": SIZE,
        "n_epochs": EPOCHS,
        "gamma": DISCOUNT,
        "gae_lambda": TRACE,
        "clip_range": CLIP,
        "max_grad_norm": LARGEST,
    }
    for index in range(seeds):
        learned(seed + index, batches, total[:, index], count[:, index], STEPS, **settings)
    return total, count
