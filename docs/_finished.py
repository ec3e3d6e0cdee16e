"""Logs of docs/judge.md: seeds of two pairs of settings, made up. `python -m docs._finished` writes them again."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).with_name("judge")
STEPS = 200
SETTINGS = {
    "grpo": (0.600, 35.0, 95.0, 3),
    "gspo": (0.612, 35.0, 118.0, 3),
    "sync": (0.620, 60.0, 140.0, 5),
    "async": (0.620, 110.0, 50.0, 5),
}
"""Mean reward in the end, which seeds vary around, steps in which 63 % of the gain arises, seconds of a step, seeds."""
SPREAD, NOISE = 0.02, 0.015


def log(name: str, seed: int) -> str:
    """The text of one log: a curve that rises to its own level, with noise of a batch, as verl writes it."""
    random = np.random.default_rng([seed, *name.encode()])
    level, rise, seconds, _ = SETTINGS[name]
    step = np.arange(1, STEPS + 1)
    level += SPREAD * random.normal()
    reward = level - (level - 0.25) * np.exp(-step / rise) + NOISE * random.normal(size=STEPS)
    timing = seconds * (1 + 0.04 * random.normal(size=STEPS))
    rows = [f"{k},{x:.5f},{s:.2f}" for k, x, s in zip(step, reward, timing, strict=True)]
    return "\n".join(["training/global_step,critic/rewards/mean,timing_s/step", *rows, ""])


def logs() -> dict[str, str]:
    """Text of every log by its name."""
    return {
        f"{name}-{seed}.csv": log(name, seed) for name, (*_, seeds) in SETTINGS.items() for seed in range(1, seeds + 1)
    }


if __name__ == "__main__":
    for name, text in logs().items():
        (HERE / name).write_text(text, encoding="utf-8")
