"""Does PPO on CartPole, put together from parts, learn as stable-baselines3's does?

The same networks, batches and hyperparameters on both sides, 64 seeds each: 8 environments, 32 steps, 20 epochs over
the whole batch. A row holds the mean return of the training episodes that ended in a window of 2,048 environment steps
(the last known one where none ended). The area under the curve is its mean over the windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ENVIRONMENTS, STEPS, EPOCHS, WINDOW = 8, 32, 20, 8
DISCOUNT, TRACE, RATE, CLIP, LARGEST = 0.98, 0.8, 1e-3, 0.2, 0.5
COLUMNS = ["side", "seed", "steps", "episode_return"]
BATCHES = 160

SETTINGS = [
    {"side": "asyncsim", "seeds": 64, "batches": BATCHES, "seed": 0},
    *({"side": "stable-baselines3", "seeds": 4, "batches": BATCHES, "seed": first} for first in range(0, 64, 4)),
]
QUICK = [
    {"side": "asyncsim", "seeds": 2, "batches": 16, "seed": 0},
    {"side": "stable-baselines3", "seeds": 2, "batches": 16, "seed": 0},
]


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Learning curves of one side."""
    side = ours if setting["side"] == "asyncsim" else theirs
    total, count = side(setting["seeds"], setting["batches"], setting["seed"])
    rows = []
    for index in range(setting["seeds"]):
        for window, value in enumerate(curve(total[:, index], count[:, index])):
            steps = (window + 1) * WINDOW * ENVIRONMENTS * STEPS
            rows.append(
                {"side": setting["side"], "seed": setting["seed"] + index, "steps": steps, "episode_return": value}
            )
    return rows


def curve(total: np.ndarray, count: np.ndarray, window: int = WINDOW) -> list[float]:
    """Mean return in each window of batches, from sums and numbers of the episodes that ended in each batch."""
    found: list[float] = []
    for start in range(0, len(total) - len(total) % window, window):
        ended = count[start : start + window].sum()
        known = found[-1] if found else 0.0
        found.append(float(total[start : start + window].sum() / ended) if ended else known)
    return found


def spec(
    batches: int,
    replicates: int,
    staleness: int = 0,
    anchor: Any = "proximal",
    epochs: int = EPOCHS,
    rate: Any = None,
    **changes: Any,
) -> Any:
    """PPO on segments, as stable-baselines3 configures it; `rate` is one number (default `RATE`) or one a replicate."""
    import asyncsim as sim

    advantage = sim.advantages.gae(DISCOUNT, TRACE, normalize=True)
    return sim.Spec(
        task=sim.tasks.gym("CartPole-v1", trajectory="segment", steps=STEPS),
        system=sim.schedules.fixed(staleness, groups_per_batch=ENVIRONMENTS),
        method=sim.methods.ppo_clip(CLIP, CLIP, anchor=anchor, advantage=advantage, critic=0.5),
        update=sim.chain(sim.updates.clip_norm(LARGEST), sim.updates.adam(RATE if rate is None else rate, eps=1e-5)),
        samples_per_group=1,
        updates=batches * epochs,
        epochs=epochs,
        replicates=replicates,
        **{"diagnostics": ["episode_return", "episodes"], "every": epochs, **changes},
    )


def ours(seeds: int, batches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the returns and number of the episodes that ended in each batch, `[batches, seeds]`."""
    import asyncsim as sim

    trace = sim.run(spec(batches, seeds), seed=seed, progress=False)
    count = trace["episodes"]
    return np.nan_to_num(trace["episode_return"]) * count, count


def theirs(seeds: int, batches: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of stable-baselines3."""
    total, count = np.zeros((batches, seeds)), np.zeros((batches, seeds))
    for index in range(seeds):
        learned(seed + index, batches, total[:, index], count[:, index])
    return total, count


def learned(seed: int, batches: int, total: np.ndarray, count: np.ndarray, steps: int = STEPS, **settings: Any) -> None:
    """One run of stable-baselines3, filling in sums and numbers of ended episodes by batch.

    `settings` are those of its PPO, by default of a batch that is not cut.
    """
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            batch = (self.num_timesteps - 1) // (ENVIRONMENTS * steps)
            for info in self.locals["infos"]:
                if "episode" in info:
                    total[batch] += info["episode"]["r"]
                    count[batch] += 1
            return True

    usual = {
        "learning_rate": RATE,
        "batch_size": ENVIRONMENTS * STEPS,
        "n_epochs": EPOCHS,
        "gamma": DISCOUNT,
        "gae_lambda": TRACE,
        "clip_range": CLIP,
        "max_grad_norm": LARGEST,
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        PPO(
            "MlpPolicy",
            make_vec_env("CartPole-v1", ENVIRONMENTS, seed=seed),
            seed=seed,
            device="cpu",
            **{"n_steps": steps, **(settings or usual)},
        ).learn(batches * ENVIRONMENTS * steps, callback=Watch())
    finally:
        torch.set_num_threads(threads)
