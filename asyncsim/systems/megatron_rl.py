"""Megatron-RL with partial rollouts: a gate of rollouts, groups or batches, consumed by groups or by batches."""

from __future__ import annotations

from typing import Any, Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset, share
from asyncsim.systems._system import System


@preset
def megatron_rl(
    grpo_prompts_per_step: int,
    rl_generation_lag: float,
    rl_submission_granularity: str = "B",
    rl_consumption_granularity: str = "B",
    grpo_group_size: int = 2,
    rl_kv_cache_management_mode: str = "persist",
    grpo_iterations: int = 2,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """Megatron-RL with `--rl-partial-rollouts`: generation runs (L + 1) batches deep, counted in units of submission.

    Batches: K = round(L + 1) P tickets back at the publish, in order: staleness min(version, L), exactly.

    Law `systems/hard-bounds`. Groups: K = round((L + 1) P) tickets back at the dequeue, mean L + 1 where generation is
    ahead (`systems/cap-binds`), long groups staler. Rollouts: so many sample permits for samples and no bound on what
    is finished, law `systems/mean-staleness-identity`. Consumption by batches keeps the order of submission,
    consumption by groups that of completion. Megatron stamps every token with the update of its weights; a publish
    comes before each collection. Samples keep their cache at an install, or read it again (recompute).

    Arguments: `grpo_prompts_per_step` P in groups; `rl_generation_lag` L >= 0 in batches, a fraction too;
    `rl_submission_granularity`, R, G or B, the unit that frees capacity; `rl_consumption_granularity`, G or B, no finer
    than that; `grpo_group_size`, samples of a group, as in the run; `rl_kv_cache_management_mode`, persist, offload or
    recompute; `grpo_iterations`, epochs, recommended. Source: Megatron-LM.

    >>> megatron_rl(4, 2, length="lognormal:1.0:0.8", load=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("grpo_prompts_per_step", grpo_prompts_per_step)
    lag = share("rl_generation_lag", rl_generation_lag, "0 is synchronous; below it less than a batch is generated")
    remedy = "name rollouts (R), groups (G) or batches (B)"
    unit = checks.one_of("rl_submission_granularity", rl_submission_granularity, ("R", "G", "B"), remedy)
    coarser = ("B",) if unit == "B" else ("G", "B")
    taken = checks.one_of("rl_consumption_granularity", rl_consumption_granularity, coarser, "no finer than submission")
    size = count("grpo_group_size", grpo_group_size, 1, "count samples")
    caches = ("persist", "offload", "recompute")
    cache = checks.one_of("rl_kv_cache_management_mode", rl_kv_cache_management_mode, caches, "say what becomes of it")
    epochs = count("grpo_iterations", grpo_iterations, 1, "count epochs")
    bound = f"such that at most {checks.LARGEST} samples are out"
    checks.require((lag + 1) * batch * size <= checks.LARGEST, "rl_generation_lag", lag, bound, "count batches")
    places, gate = _gate(unit, lag, batch, size)
    return System(
        "megatron_rl",
        {},
        as_law("length", length),
        alike("rl_generation_lag", lag, places),
        groups_per_batch=batch,
        order="target" if taken == "B" else "done",
        mode="reprefill" if cache == "recompute" else "keep",
        recommended={"epochs": epochs} if epochs > 1 else {},
        **gate,
        **times,
    )


def _gate(unit: str, lag: float, batch: int, size: int) -> tuple[int, dict[str, Any]]:
    """Groups in generation at most, and the settings that admit them."""
    # Halves are rounded to even, as by Python's round in Megatron.
    if unit == "B":
        tickets = round(lag + 1) * batch
        return tickets, {"tickets": tickets, "release": "publish", "quantum": batch}
    if unit == "G":
        tickets = round((lag + 1) * batch)
        return tickets, {"tickets": tickets, "release": "dequeue"}
    permits = round((lag + 1) * batch * size)
    return permits, {"permits": permits}
