"""ROLL: single turns, and groups of environments."""

from __future__ import annotations

import math
from typing import Any

from asyncsim.systems._knobs import ahead, count, preset, settings, share, source, whether

_SOURCE = "ROLL Flash (2510.11345)"


@source("alibaba/ROLL@8eb27cc", "2026-08-19", "roll/distributed/scheduler/generate_scheduler.py")
@preset(_SOURCE, "async_generation_ratio")
def roll_single_turn(
    rollout_batch_size: int = count("P in groups"),
    async_generation_ratio: float = share("a >= 1 in batches", 1, "0 is synchronous; give batches ahead", 1.0),
    is_use_additional_prompts: bool = whether("additional groups run", False, "say whether more prompts run"),
    max_additional_running_prompts: int = count("how many", 16, low=0),
) -> dict[str, Any]:
    """ROLL Flash, single turn: prompts of the oldest step first, and what is older than the ratio is aborted.

    K = P + ceil(a P) tickets back at the publish, strictly by the step of submission: staleness 0 .. ceil(a), hard.

    No group of a later step is trained while one of an earlier step runs (`systems/hard-bounds`). With an integer a all
    mass is on a when generation is ahead. At every install what is older than ceil(a) is cut, ready or running; that
    happens with additional prompts only, which K grows by. There they start while fewer than so many run, however many
    are finished. ROLL stamps the step at which sampling was asked for.

    >>> roll_single_turn(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, extra = rollout_batch_size, max_additional_running_prompts * is_use_additional_prompts
    tickets, oldest = batch + math.ceil(batch * async_generation_ratio) + extra, math.ceil(async_generation_ratio)
    age = {"max_age": oldest, "age_at_pack": "none", "age_at_publish": "all", "age_reference": "submit"}
    return settings(tickets, batch, tickets=tickets, order="version_strict", mode="reprefill", **age)


@source("alibaba/ROLL@8eb27cc", "2026-08-19", "roll/distributed/scheduler/rollout_scheduler.py")
@preset(_SOURCE, "num_env_groups")
def roll_environment_groups(
    num_env_groups: int = count("E"),
    max_traj_per_env: int = count("T, episodes of an environment in a batch", 1, "count episodes"),
    async_generation_ratio: int = count("a >= 1 in whole steps", 1, "0 is synchronous; give whole steps ahead"),
    group_size_redundancy: int = count(
        "samples of an episode beyond those of a group", 0, "count samples beyond those of a group", 0
    ),
) -> dict[str, Any]:
    """ROLL Flash with environment groups: a queue for each, consumed in order, with a head start of whole steps.

    E places, batches of P = E T, K = (a + 1) P tickets back at the publish, in order: staleness 0 .. a, hard.

    Every environment group plays its episodes one after the other, and a batch takes T of each in their order. No
    episode overtakes another (`systems/hard-bounds`); targets of whole batches model this. An episode is stamped with
    the step that created it. It is cut when that is more than a steps ago: ready at the dequeue, running or ready at
    the install. With whole batches that never happens. With a redundancy so many samples more are started, and the
    first that are in are kept (`systems/first-k-length-bias`). In ROLL the others run on in vain, here they are
    cancelled.

    >>> roll_environment_groups(3, 1, 2, length=1.0, train_time=3.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    age: dict[str, Any] = {"max_age": async_generation_ratio, "age_at_publish": "all", "age_reference": "submit"}
    batch, extra = num_env_groups * max_traj_per_env, group_size_redundancy
    return ahead(batch, async_generation_ratio, num_env_groups, redundant=extra, order="target", **age)
