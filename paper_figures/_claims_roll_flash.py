"""Claims of ROLL Flash (arXiv 2510.11345)."""

from __future__ import annotations

from functools import partial

from paper_figures._claim import Claim, Item

_item = partial(Item, "ROLL Flash")
_claim = partial(Claim, "ROLL Flash")
CLAIMS = (
    _claim(
        "Asynchronous training is up to 2.24 times faster on reasoning tasks",
        "under conditions",
        "at spread {roll_flash:long}, it is {roll_flash:long_2} times as fast at ratio {roll_flash:first}, and "
        "{roll_flash:long_4} times at ratio {roll_flash:second}",
        "roll_flash",
        when="long tails and ratios from three; at ratio two, only with 128 GPUs",
        held="reasoning",
        also="roll_sizes",
        test="training reaches the paper's maximum, {roll_flash:rlvr} times synchronous speed",
    ),
    _claim(
        "Asynchronous training is up to 2.72 times faster on agentic tasks",
        "under conditions",
        "it is {roll_flash:agentic_2} times as fast at ratio {roll_flash:first}, and {roll_flash:agentic_4} times at "
        "ratio {roll_flash:second}",
        "roll_flash",
        when="ratios of four or more; at ratio two, only compared with lockstep rollouts",
        held="agentic",
        also="roll_agents",
        test="training reaches the paper's maximum, {roll_flash:agents} times synchronous speed",
    ),
    _claim(
        "A modest asynchronous ratio yields nearly all of the gain",
        "under conditions",
        "at spread {roll_sizes:tight}, {roll_sizes:most} samples per step need ratio {roll_sizes:large}, and "
        "{roll_sizes:least} samples ratio {roll_sizes:small}; at spread {roll_sizes:wide}, {roll_sizes:long_large} and "
        "{roll_sizes:long_small}",
        "roll_sizes",
        when="batches of 128 or more samples of similar lengths",
        held="modest",
        test="ratio 2 reaches {roll_sizes:share} % of the maximum speed",
    ),
    _claim(
        "Off-policy methods perform on par with synchronous training",
        "mixed",
        "final returns are equal in {token_ratios:par_equal} of {token_ratios:par} comparisons on easy tasks, and in "
        "{roll_parity:end_own_equal} of {roll_parity:judged} on harder ones; before, {roll_parity:own_worse} of "
        "{roll_parity:judged} are lower",
        "roll_parity",
        when="while tasks are unsolved, PPO and TOPR lose return; easy tasks are not counted",
        held="par",
        test="return is not worse than that of synchronous PPO, up to {roll_parity:smallest}",
    ),
    _claim(
        "The speed-up grows with the number of GPUs",
        "reproduced",
        "at spread {roll_sizes:tight}, it is {roll_sizes:gpus_16} on {roll_sizes:few} GPUs, and {roll_sizes:gpus_128} "
        "on {roll_sizes:many}",
        "roll_sizes",
        held="grows",
        test="on this many GPUs, the speed-up is larger than on half as many",
    ),
    _claim(
        "Smaller batches need larger asynchronous ratios",
        "mostly",
        "at spread {roll_sizes:tight}, {roll_sizes:least} samples need ratio {roll_sizes:small}, {roll_sizes:most} "
        "need {roll_sizes:large}",
        "roll_sizes",
        when="at spread 1, 32 and 64 samples do not differ clearly",
        held="smaller",
        test="at ratio 2, speed is a smaller share of its maximum than with twice as many samples",
    ),
    _claim(
        "Queue scheduling with spare prompts shortens generation",
        "mostly",
        "batches take {roll_sizes:batch} s, a queue {roll_sizes:queue_0} s, with {roll_sizes:more} spare prompts "
        "{roll_sizes:same_16} s",
        "roll_queue",
        when="at spread 0.5, a queue without spare prompts is slower than batches",
        held="queue",
        test="a queue is faster than batches",
    ),
    _claim(
        "Prompt replication makes generation faster",
        "reproduced",
        "{roll_sizes:replicated} times as fast at spread {roll_sizes:tight}, {roll_sizes:long_replicated} at spread "
        "{roll_sizes:wide}",
        "roll_queue",
        when="the paper's maximum is 1.95 times",
        held="placed",
        test="samples placed on any GPU are faster than one GPU per prompt",
    ),
    _claim(
        "The more latency varies, the faster environment-level rollouts are",
        "reproduced",
        "{roll_agents:spread_1} times as fast as lockstep rollouts at {roll_agents:narrow} s, {roll_agents:spread_10} "
        "at {roll_agents:broad} s",
        "roll_agents",
        when="one mean latency; the paper's maximum is 2.46 times",
        held="latency",
        test="the speed-up is larger than at the next smaller deviation of latency",
    ),
    _claim(
        "Spare groups are faster than larger groups",
        "under conditions",
        "with {roll_agents:extra} spare environments, {roll_agents:groups_slow_groups} instead of "
        "{roll_agents:samples_slow_groups} s if entire groups are slow, {roll_agents:groups} instead of "
        "{roll_agents:samples} s if environments hang",
        "roll_spare",
        when="entire groups are slow",
        held="groups",
        test="a rollout with spare groups takes less time than one with larger groups",
    ),
)
ITEMS: tuple[Item, ...] = (
    _item(
        "Speed against the asynchronous ratio",
        "notes",
        "figure",
        "best split of slots",
        "roll_flash",
        "",
        "ratio {roll_flash:mild_enough} suffices at spread {roll_flash:mild}; at spread {roll_flash:long}, speed grows "
        "from {roll_flash:long_2} to {roll_flash:long_8} times up to ratio {roll_flash:last}",
        "ratio 2",
        claim="A modest asynchronous ratio yields nearly all of the gain",
    ),
    _item(
        "Parity of off-policy methods",
        "notes",
        "figure",
        "tabular policies",
        "roll_parity",
        "",
        "worse at tuned rates: {roll_parity:own_worse} of {roll_parity:judged} while tasks are unsolved, "
        "{roll_parity:end_own_worse} at the end",
        claim="Off-policy methods perform on par with synchronous training",
    ),
    _item(
        "Environment-level asynchrony by latency",
        "notes",
        "figure",
        "gamma-distributed latency; no failures",
        "roll_agents",
        "",
        "{roll_agents:spread_1} times as fast at 1 s, {roll_agents:spread_10} times at 10 s",
        "2.46 times at 10 s",
        claim="The more latency varies, the faster environment-level rollouts are",
    ),
    _item(
        "Speed on agentic tasks",
        "abstract",
        "figure",
        "spare trajectories; ratio 2",
        "roll_agents",
        "",
        "compared with lockstep rollouts, {roll_agents:agents_spare} times as fast synchronously, "
        "{roll_agents:agents_both} times asynchronously",
        "2.72 times",
        claim="Asynchronous training is up to 2.72 times faster on agentic tasks",
    ),
    _item(
        "Speed with 16 to 128 GPUs",
        "notes",
        "figure",
        "4 slots per GPU",
        "roll_sizes",
        "",
        "at spread {roll_sizes:tight}, {roll_sizes:gpus_16} times as fast on 16 GPUs, {roll_sizes:gpus_128} times on "
        "128",
        "2.24 times at 128",
        claim="The speed-up grows with the number of GPUs",
    ),
    _item(
        "Queue scheduling, redundant prompts",
        "notes",
        "figure",
        "half of prompts filtered out",
        "roll_queue",
        "",
        "seconds per step: batches {roll_sizes:batch}, queue {roll_sizes:queue_0}, with 16 spare prompts "
        "{roll_sizes:same_16} on the same slots, {roll_sizes:queue_16} on more slots",
        "125, 58, 37 s",
        claim="Queue scheduling with spare prompts shortens generation",
    ),
    _item(
        "Prompt replication",
        "notes",
        "figure",
        "8 GPUs of 16 slots",
        "roll_queue",
        "",
        "32 × 16 samples take {roll_sizes:alone} s instead of {roll_sizes:whole} s; 64 × 16 samples are generated "
        "{roll_sizes:replicated_64_16} times as fast",
        "116 to 89 s; 1.84 times",
        claim="Prompt replication makes generation faster",
    ),
    _item(
        "Redundant groups against group size",
        "notes",
        "figure",
        "2 % of trajectories or groups fail",
        "roll_spare",
        "",
        "more and larger groups take {roll_agents:groups} and {roll_agents:samples} s if environments hang, "
        "{roll_agents:groups_slow_groups} and {roll_agents:samples_slow_groups} s if entire groups are slow",
        "243 to 45, 46 s",
        claim="Spare groups are faster than larger groups",
    ),
    _item(
        "Best ratio by rollout size",
        "notes",
        "figure",
        "64 slots",
        "roll_sizes",
        "",
        "at spread {roll_sizes:tight}, ratio {roll_sizes:small} for 32 samples, {roll_sizes:large} for 256",
        "4 for 32, 2 for 256",
        claim="Smaller batches need larger asynchronous ratios",
    ),
    _item("Two propositions on time", "notes", "none", "the notes do not give the bounds, and we do not test our own"),
)
"""Figures, tables and headline statements of the paper that a toy can show, in its order."""
