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
        "{roll_flash:long_2} times at ratio 2; on 128 GPUs {roll_sizes:gpus_128}",
        "roll_flash",
        when="all lengths but equal ones, which lose",
        test="We vary asynchronous ratio and lengths, and measure relative speed",
    ),
    _claim(
        "Asynchronous training is 2.72 times faster on agentic tasks",
        "reproduced",
        "{roll_flash:agentic_4} times at ratio 4; {roll_agents:agents_both} with all its measures",
        "roll_flash",
        test="We vary ratio and rollout scheduling, and measure relative speed",
    ),
    _claim(
        "A modest asynchronous ratio has nearly all of the gain",
        "mixed",
        "ratio {roll_sizes:large} suffices for {roll_sizes:most} samples, {roll_sizes:small} for {roll_sizes:least}",
        "roll_sizes",
        when="large steps of even lengths do; small steps or long tails need more",
        test="We vary ratio and samples per step, and measure speed",
    ),
    _claim(
        "Off-policy methods end on par with synchronous training",
        "mixed",
        "{roll_returns:equal} equal on solved tasks; unsolved: {roll_parity:own_worse} of {roll_parity:judged} worse",
        "roll_parity",
        when="PPO and TOPR lose while tasks are unsolved",
        test="We vary method, task and ratio, each tuned, and compare returns",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Speed against the asynchronous ratio",
        "notes",
        "figure",
        "event model, no length limit, best split",
        figure="roll_flash",
        verdict="mostly",
        ours="{roll_flash:mild_2} times at ratio 2; long tails gain until {roll_flash:long_8} at 8",
        stated="ratio 2",
    ),
    _item(
        "Parity of off-policy methods",
        "notes",
        "figure",
        "tables, wrong first favorites, sampler-anchored clips",
        figure="roll_parity",
        verdict="mixed",
        ours="{roll_parity:own_worse} of {roll_parity:judged} worse unsolved, {roll_parity:end_own_worse} in the end",
    ),
    _item(
        "Environment-level asynchrony by latency",
        "notes",
        "figure",
        "gamma latencies, five turns, no failures",
        figure="roll_agents",
        verdict="reproduced",
        ours="{roll_agents:spread_1} times at 1 s, {roll_agents:spread_10} at 10 s",
        stated="2.46 times at 10 s",
    ),
    _item(
        "Speed on agentic tasks",
        "abstract",
        "figure",
        "one distribution of latencies, spare trajectories, ratio 2",
        figure="roll_agents",
        verdict="reproduced",
        ours="{roll_agents:agents_spare} times synchronous, {roll_agents:agents_both} asynchronous",
        stated="2.72 times",
    ),
    _item(
        "Speed with 16 to 128 GPUs",
        "notes",
        "figure",
        "4 slots a GPU, no limit of lengths",
        figure="roll_sizes",
        verdict="reproduced",
        ours="{roll_sizes:gpus_16} to {roll_sizes:gpus_128} times",
        stated="2.24 times at 128",
    ),
    _item(
        "Queue scheduling, redundant prompts",
        "notes",
        "figure",
        "half filtered out, mean 20 s, free slots",
        figure="roll_queue",
        verdict="mostly",
        ours="{roll_sizes:batch}, {roll_sizes:queue_0}, {roll_sizes:queue_16} s",
        stated="125, 58, 37 s",
    ),
    _item(
        "Prompt replication",
        "notes",
        "figure",
        "8 GPUs of 16 slots, mean 20 s",
        figure="roll_queue",
        verdict="reproduced",
        ours="{roll_sizes:whole} to {roll_sizes:alone} s; {roll_sizes:replicated_64_16} times for 64 × 16",
        stated="116 to 89 s; 1.84 times",
    ),
    _item(
        "Redundant groups against group size",
        "notes",
        "figure",
        "2 % stop, singly or by groups",
        figure="roll_spare",
        verdict="mixed",
        ours="36 × 9: {roll_agents:none} to {roll_agents:both_9} s, 36 × 12 {roll_agents:both_12}",
        stated="243 to 45, 46 s",
    ),
    _item(
        "Best ratio by rollout size",
        "notes",
        "figure",
        "64 slots, 95 % of the maximum speed",
        figure="roll_sizes",
        verdict="reproduced",
        ours="{roll_sizes:small} for 32 samples, {roll_sizes:large} for 256",
        stated="4 for 32, 2 for 256",
    ),
    _item(
        "Two propositions on time",
        "notes",
        "proxy",
        "bounds are rebuilt: list scheduling, and its pool divided by ratio + 1",
        figure="roll_bounds",
        verdict="reproduced",
        ours="{roll_agents:over_queue} and {roll_agents:over_asynchronous} exceed, most {roll_agents:bound}",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
