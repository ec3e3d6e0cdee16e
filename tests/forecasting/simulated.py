"""Logs of made-up runs whose truth is known: the event model, and log ratios whose variance grows as it is told."""

import json
from pathlib import Path

import numpy as np

from asyncsim.base import files
from asyncsim.sweeping import advising
from asyncsim.systems import _record
from tests.diagnosing.exports import chart

SMALL = {
    "machines": 4,
    "slots_per_machine": 8,
    "tokens_per_second": {1: 60, 8: 40},
    "response_lengths": "lognormal:900:0.7",
    "prompts_per_batch": 8,
    "samples_per_prompt": 4,
    "train_seconds": "gamma:30:200",
    "sync_seconds": 2.0,
    "staleness_limit": 2,
}
"""A description as an owner has it."""
TOKENS = 300
"""Variance of a token's log ratio over that of the mean of a sequence."""
PAGE = Path(__file__).parents[2] / "docs" / "your-run"
VERL = {
    "step": "Step",
    "seconds_step": "timing_s/step",
    "seconds_wait": "timing_s/gen",
    "seconds_sync": "timing_s/timing_s/param_sync",
    "length_mean": "response_length/mean",
    "length_max": "response_length/max",
    "length_cut": "response_length/clip_ratio",
    "kl_k3": "rollout_corr/k3_kl",
    "chi_square": "rollout_corr/chi2_token",
    "geometric_abs": "rollout_corr/log_ppl_abs_diff",
}
"""Columns as verl names them."""
DRIFT = (0.004, 0.012, 0.0015)
"""Floor, and growth with staleness and its square, in nats^2 per token."""


def simulated(system, updates=300, seed=11, drift=DRIFT, noise=0.08, persists=0.5):
    """Columns of a log with a row a step, and truth by step: what `forecast` has names for."""
    given = advising.read(system, Path())
    now, _ = advising.system_of(given, given["staleness_limit"][0], given["machines"][0], given["partial_rollouts"][0])
    size = given["samples_per_prompt"]
    state = now.simulate(updates, size, 0, seed, warm=0)
    version, _, work, _ = _record.trained(state, 64)
    count = len(version)
    stale = (state.batch.version[:count].reshape(-1, 1, 1, 1) - version).astype(float)
    weight = np.broadcast_to(work[..., None], stale.shape)
    start, end = (state.batch[name][:count].astype(float) for name in ("t_start", "t_end"))
    step, each = np.arange(count), now.batches_per_publish
    sync = np.where(step % each == each - 1, given["sync_seconds"], 0.0)
    wait = np.maximum(start - np.append(0.0, (end + sync)[:-1]), 0.0)
    random = np.random.default_rng([seed, 5])
    # Every step moves the trained weights, also those between two syncs.
    age = each * stale + (step % each).reshape(-1, 1, 1, 1)
    v = drift[0] + drift[1] * age + drift[2] * age**2

    def mean(values):
        return np.average(values, (1, 2, 3), weight)

    def noisy(values):
        """With noise in proportion, whose neighbours are alike, and mean 1."""
        shock = random.normal(size=(count, 8))
        level = np.zeros(count)
        for k in range(count):
            level[k] = persists * level[k - 1] + np.sqrt(1 - persists**2) * shock[k, 0]
        return values * (1 + noise * level)

    length = work.reshape(count, -1)
    head = stale[..., 0] if stale.shape[-1] == 1 else stale[..., :1][..., 0]
    # Compiling takes time in the first step.
    whole = wait + (end - start) + sync + np.where(step == 0, 60.0, 0.0)
    truth = {
        "staleness": mean(stale),
        "seconds per update": wait + (end - start) + sync,
        "k3": mean(v) / 2,
        "token ESS": 1 / mean(np.exp(v)),
    }
    second = noisy(mean(np.exp(v)) - 1)
    columns = {
        "step": step + 1,
        "seconds_step": whole,
        "seconds_wait": wait,
        "seconds_sync": sync,
        "length_mean": length.mean(1),
        "length_max": length.max(1),
        "length_cut": (length == length.max()).mean(1),
        "staleness_mean": head.mean((1, 2)),
        "kl_k3": noisy(truth["k3"]),
        "chi_square": second,
        "ess": 1 / (1 + second),
        "geometric_abs": noisy(np.sqrt(2 / np.pi * mean(v) / TOKENS)),
    }
    return columns, truth


def given(system):
    """What no such log has."""
    names = ("machines", "slots_per_machine", "tokens_per_second", "prompts_per_batch", "samples_per_prompt",
             "staleness_limit", "publish_every", "partial_rollouts")  # fmt: skip
    return {name: system[name] for name in names if name in system}


def part(columns, rows):
    return {name: column[rows] for name, column in columns.items()}


def sample_rows(system, updates=100, seed=11):
    """Text of a log with a row a sample of the first updates, in publishes, with all times."""
    given = advising.read(system, Path())
    now, _ = advising.system_of(given, given["staleness_limit"][0], given["machines"][0], given["partial_rollouts"][0])
    record = now.timeline(updates, given["samples_per_prompt"], seed=seed)
    s, version = record.samples, record.batches["version"]
    lines = ["sample_id,group_id,start_version,end_version,train_version,batch,tokens,t_start,t_end,t_ready,t_train"]
    for k in np.flatnonzero(s["batch"] >= 0):
        at = s["batch"][k]
        stamps = f"{s['sample'][k]},{s['group'][k]},{s['v_start'][k]},{s['v_end'][k]},{version[at]},{at}"
        times = ",".join(f"{s[name][k]:.6f}" for name in ("t_start", "t_end", "t_ready", "t_train"))
        lines.append(f"{stamps},{max(1, round(s['work'][k]))},{times}")
    return "\n".join([*lines, ""])


def verl(updates=100, seed=3, **change):
    """Columns and truth of a verl run, on the system of docs/which-limit at half a batch of staleness."""
    system = files.read_mapping(PAGE.parent / "which-limit" / "system.yaml", "system")
    system |= {"machines": 16, "staleness_limit": 0.5, "partial_rollouts": True, "train_seconds": "gamma:45:400"}
    system["response_lengths"] = f"{PAGE.parent}/which-limit/{system['response_lengths']}"
    return simulated(system | change, updates, seed=seed, drift=(0.006, 0.03, 0.004))


def exported():
    """The file of a W&B chart of that run."""
    return chart({theirs: verl()[0][ours] for ours, theirs in VERL.items()}, ["grpo-7b"])


def held_out():
    """Means over 100 steps of two runs that the page's forecast has not read: at today's setting and at the other."""
    runs = [verl(160, 77, **change)[1] for change in ({}, {"machines": 24, "staleness_limit": 4})]
    return {name: [float(f"{run[name][60:].mean():.4g}") for run in runs] for name in runs[0]}


if __name__ == "__main__":
    (PAGE / "verl-wandb.csv").write_text(exported())
    (PAGE / "held-out.json").write_text(json.dumps(held_out()) + "\n")
