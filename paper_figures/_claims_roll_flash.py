"""Claims of ROLL Flash (arXiv 2510.11345)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "ROLL Flash")
_claim = partial(Claim, "ROLL Flash")
CLAIMS = (
    _claim(
        "Asynchronous training is 2.24 times faster on reasoning tasks",
        "mostly",
        "{roll_flash:long_2} times as fast at ratio 2; on 128 GPUs {roll_sizes:gpus_128} times",
        "roll_flash",
        when="faster for all spreads of length; slower only when all lengths are equal",
    ),
    _claim(
        "Asynchronous training is 2.72 times faster on agentic tasks",
        "reproduced",
        "{roll_flash:agentic_4} times as fast at ratio 4; {roll_agents:agents_both} times with "
        "environment-level rollouts and spare samples",
        "roll_flash",
    ),
    _claim(
        "A modest asynchronous ratio yields nearly all of the gain",
        "mixed",
        "ratio {roll_sizes:large} suffices for {roll_sizes:most} samples, ratio {roll_sizes:small} for "
        "{roll_sizes:least}",
        "roll_sizes",
        when="this holds for large batches with similar lengths; small batches or long tails need a larger ratio",
    ),
    _claim(
        "Off-policy methods end on par with synchronous training",
        "mixed",
        "all {roll_returns:equal} final returns equal the synchronous one on solved tasks; on unsolved tasks, "
        "{roll_parity:own_worse} of {roll_parity:judged} are lower",
        "roll_parity",
        when="PPO and TOPR lose return while tasks are unsolved",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Speed against the asynchronous ratio",
        "notes",
        "figure",
        "event model; no limit on lengths; best split of slots",
        figure="roll_flash",
        verdict="mostly",
        ours="{roll_flash:mild_2} times as fast at ratio 2; with long tails, {roll_flash:long_8} times at ratio 8",
        stated="ratio 2",
    ),
    _item(
        "Parity of off-policy methods",
        "notes",
        "figure",
        "tabular policies that first favor wrong actions; clips around the behavior policy",
        figure="roll_parity",
        verdict="mixed",
        ours="{roll_parity:own_worse} of {roll_parity:judged} comparisons are worse on unsolved tasks, "
        "{roll_parity:end_own_worse} at the end",
    ),
    _item(
        "Environment-level asynchrony by latency",
        "notes",
        "figure",
        "gamma-distributed latencies; five turns; no failures",
        figure="roll_agents",
        verdict="reproduced",
        ours="{roll_agents:spread_1} times as fast at 1 s, {roll_agents:spread_10} times at 10 s",
        stated="2.46 times at 10 s",
    ),
    _item(
        "Speed on agentic tasks",
        "abstract",
        "figure",
        "one distribution of latencies; spare trajectories; ratio 2",
        figure="roll_agents",
        verdict="reproduced",
        ours="{roll_agents:agents_spare} times as fast in synchronous training, {roll_agents:agents_both} times "
        "in asynchronous training",
        stated="2.72 times",
    ),
    _item(
        "Speed with 16 to 128 GPUs",
        "notes",
        "figure",
        "4 slots per GPU; no limit on lengths",
        figure="roll_sizes",
        verdict="reproduced",
        ours="{roll_sizes:gpus_16} times as fast on 16 GPUs, {roll_sizes:gpus_128} times on 128",
        stated="2.24 times at 128",
    ),
    _item(
        "Queue scheduling, redundant prompts",
        "notes",
        "figure",
        "half of the prompts filtered out; mean 20 s; samples on any GPU",
        figure="roll_queue",
        verdict="mostly",
        ours="batches {roll_sizes:batch} s, queue {roll_sizes:queue_0} s, with 16 spare prompts "
        "{roll_sizes:queue_16} s",
        stated="125, 58, 37 s",
    ),
    _item(
        "Prompt replication",
        "notes",
        "figure",
        "8 GPUs of 16 slots; mean 20 s",
        figure="roll_queue",
        verdict="reproduced",
        ours="time falls from {roll_sizes:whole} to {roll_sizes:alone} s; {roll_sizes:replicated_64_16} times "
        "as fast for 64 × 16",
        stated="116 to 89 s; 1.84 times",
    ),
    _item(
        "Redundant groups against group size",
        "notes",
        "figure",
        "2 % of trajectories stop, singly or by groups",
        figure="roll_spare",
        verdict="mixed",
        ours="time falls from {roll_agents:none} to {roll_agents:both_9} s with 36 × 9, to "
        "{roll_agents:both_12} s with 36 × 12",
        stated="243 to 45, 46 s",
    ),
    _item(
        "Best ratio by rollout size",
        "notes",
        "figure",
        "64 slots; 95 % of the maximum speed",
        figure="roll_sizes",
        verdict="reproduced",
        ours="ratio {roll_sizes:small} for 32 samples, ratio {roll_sizes:large} for 256",
        stated="4 for 32, 2 for 256",
    ),
    _item(
        "Two propositions on time",
        "notes",
        "proxy",
        "we reconstructed the bounds: list scheduling, and its pool divided by ratio + 1",
        figure="roll_bounds",
        verdict="reproduced",
        ours="{roll_agents:over_queue} and {roll_agents:over_asynchronous} settings exceed their bound; the "
        "highest reaches {roll_agents:bound} of it",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
