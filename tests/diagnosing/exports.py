"""Files as W&B and TensorBoard export them, of a run that is made up: its reward falls from step 80 on.

`python -m tests.diagnosing.exports` writes `verl-wandb.csv`, and the two files of the first example of `diagnose.md`.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from tests.diagnosing import simulated

WANDB = Path(__file__).with_name("verl-wandb.csv")
EXAMPLE = Path(__file__).parents[2] / "docs" / "diagnose"
RUN = "grpo-7b - async"


def example():
    """Tables of steps and of tokens of a run that averages its ESS over micro-batches."""
    run = simulated.Run(number=4, growth=1e-2, steps=60, sequences=16, length=6)
    steps, tokens = simulated.table(run, "micro-batches")
    names = {"step": "step", "rl/ess": "ess", "gradient_cosine": "gradient_cosine_1", "half_cosine": "half_cosine"}
    small = {name: column.astype("f4" if "prob" in name else "i2") for name, column in tokens.items()}
    return pd.DataFrame({name: steps[own] for name, own in names.items()}), pd.DataFrame(small)


def columns():
    random = np.random.default_rng(39)
    step = np.arange(1, 121)
    late = np.clip((step - 80) / 40, 0, 1)
    noise = random.normal(size=(8, 120))
    reward = 0.62 - 0.4 * np.exp(-step / 30) - 0.35 * late + 0.015 * noise[0]
    length = 900 + 300 * late + 20 * noise[1]
    return {
        "Step": step,
        "actor/ppo_kl": 4e-4 + 3e-3 * late + 1e-4 * noise[2],
        "actor/pg_clipfrac": np.clip(0.012 + 0.11 * late + 0.001 * noise[3], 0, 1),
        "critic/rewards/mean": reward,
        "response_length/mean": length,
        "response_length/clip_ratio": np.clip(0.02 + 0.3 * late + 0.004 * noise[4], 0, 1),
        "timing_s/gen": 61 + 24 * late + noise[5],
        "timing_s/step": 102 + 24 * late + noise[6],
        "fully_async/trainer/idle_ratio": np.where(step == 97, 1.3, 0.31 + 0.02 * noise[7]),
        "actor/pg_clip_frac_upper": np.clip(0.01 + 0.1 * late, 0, 1),
    }


def chart(table=None, runs=(RUN,)):
    """Text of a chart's file: `run - metric` with its range, and the step."""
    table = columns() if table is None else table
    heads, cells = ["Step"], [[f"{x:g}" for x in table["Step"]]]
    for run in runs:
        for name, column in table.items():
            for ending in ("", "__MIN", "__MAX") if name != "Step" else ():
                heads.append(f"{run} - {name}{ending}")
                cells.append([f"{x:.6g}" for x in column])
    lines = [",".join(f'"{head}"' for head in heads), *(",".join(row) for row in zip(*cells, strict=True))]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    WANDB.write_text(chart())
    example()[0].to_csv(EXAMPLE / "steps.csv", index=False, float_format="%.6g")
    example()[1].to_parquet(EXAMPLE / "tokens.parquet", compression="zstd")
