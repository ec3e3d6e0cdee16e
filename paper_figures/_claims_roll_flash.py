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
        "it is {roll_flash:long_2} times as fast on 64 slots, and {roll_sizes:gpus_128} times on 128 GPUs",
        "roll_flash",
        when="asynchronous training is slower only with equal lengths",
    ),
    _claim(
        "Asynchronous training is 2.72 times faster on agentic tasks",
        "reproduced",
        "it is {roll_flash:agentic_4} times as fast at ratio 4, and {roll_agents:agents_both} times with spare samples",
        "roll_flash",
    ),
    _claim(
        "A modest asynchronous ratio yields nearly all of the gain",
        "mixed",
        "{roll_sizes:most} samples per step need ratio {roll_sizes:large}, {roll_sizes:least} samples need ratio "
        "{roll_sizes:small}",
        "roll_sizes",
        when="the claim holds for large batches of similar lengths, but not for small batches or long tails",
    ),
    _claim(
        "Off-policy methods end on par with synchronous training",
        "mixed",
        "all {roll_returns:equal} final returns are equal on solved tasks; {roll_parity:own_worse} of "
        "{roll_parity:judged} returns are lower on unsolved tasks",
        "roll_parity",
        when="PPO and TOPR lose return while tasks are unsolved",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Speed against the asynchronous ratio",
        "notes",
        "figure",
        "best split of slots",
        "roll_flash",
        "mostly",
        "{roll_flash:mild_2} times as fast at ratio 2; with long tails, {roll_flash:long_8} times at ratio 8",
        "ratio 2",
    ),
    _item(
        "Parity of off-policy methods",
        "notes",
        "figure",
        "tabular policies",
        "roll_parity",
        "mixed",
        "comparisons that are worse: {roll_parity:own_worse} of {roll_parity:judged} on unsolved tasks, "
        "{roll_parity:end_own_worse} at the end",
    ),
    _item(
        "Environment-level asynchrony by latency",
        "notes",
        "figure",
        "gamma-distributed latency; no failures",
        "roll_agents",
        "reproduced",
        "{roll_agents:spread_1} times as fast at 1 s, {roll_agents:spread_10} times at 10 s",
        "2.46 times at 10 s",
    ),
    _item(
        "Speed on agentic tasks",
        "abstract",
        "figure",
        "spare trajectories; ratio 2",
        "roll_agents",
        "reproduced",
        "{roll_agents:agents_spare} times as fast synchronously, {roll_agents:agents_both} times asynchronously",
        "2.72 times",
    ),
    _item(
        "Speed with 16 to 128 GPUs",
        "notes",
        "figure",
        "4 slots per GPU",
        "roll_sizes",
        "reproduced",
        "{roll_sizes:gpus_16} times as fast on 16 GPUs, {roll_sizes:gpus_128} times on 128",
        "2.24 times at 128",
    ),
    _item(
        "Queue scheduling, redundant prompts",
        "notes",
        "figure",
        "half of prompts filtered out",
        "roll_queue",
        "mostly",
        "seconds per step: batches {roll_sizes:batch}, queue {roll_sizes:queue_0}, with 16 spare prompts "
        "{roll_sizes:queue_16}",
        "125, 58, 37 s",
    ),
    _item(
        "Prompt replication",
        "notes",
        "figure",
        "8 GPUs of 16 slots",
        "roll_queue",
        "reproduced",
        "a step takes {roll_sizes:alone} s instead of {roll_sizes:whole} s; 64 × 16 samples are generated "
        "{roll_sizes:replicated_64_16} times as fast",
        "116 to 89 s; 1.84 times",
    ),
    _item(
        "Redundant groups against group size",
        "notes",
        "figure",
        "2 % of trajectories stop",
        "roll_spare",
        "mixed",
        "seconds per rollout: {roll_agents:none} without spares, {roll_agents:both_9} with 36 groups of 9, "
        "{roll_agents:both_12} with 36 groups of 12",
        "243 to 45, 46 s",
    ),
    _item(
        "Best ratio by rollout size",
        "notes",
        "figure",
        "64 slots",
        "roll_sizes",
        "reproduced",
        "ratio {roll_sizes:small} for 32 samples, ratio {roll_sizes:large} for 256",
        "4 for 32, 2 for 256",
    ),
    _item(
        "Two propositions on time",
        "notes",
        "proxy",
        "reconstructed bounds",
        "roll_bounds",
        "reproduced",
        "settings that exceed their bound: {roll_agents:over_queue} synchronous, {roll_agents:over_asynchronous} "
        "asynchronous; a step takes at most {roll_agents:bound} of it",
    ),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
