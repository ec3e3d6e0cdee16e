"""ROLL: single turns, and groups of environments."""

from __future__ import annotations

import math
from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset, share
from asyncsim.systems._system import System


@preset
def roll_single_turn(
    rollout_batch_size: int,
    async_generation_ratio: float = 1,
    is_use_additional_prompts: bool = False,
    max_additional_running_prompts: int = 16,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """ROLL Flash, single turn: prompts of the oldest step first, and what is older than the ratio is aborted.

    K = P + ceil(a P) tickets back at the publish, strictly by the step of submission: staleness 0 .. ceil(a), hard.

    No group of a later step is trained while one of an earlier step runs (`systems/hard-bounds`). With an integer a all
    mass is on a when generation is ahead. At every install what is older than ceil(a) is cut, ready or running; that
    happens with additional prompts only, which K grows by. There they start while fewer than so many run, however many
    are finished. ROLL stamps the step at which sampling was asked for.

    Arguments: `rollout_batch_size` P in groups; `async_generation_ratio` a >= 1 in batches;
    `is_use_additional_prompts`, whether `max_additional_running_prompts` more groups run. Source: ROLL Flash
    (2510.11345).

    >>> roll_single_turn(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    has_extra = checks.boolean("is_use_additional_prompts", is_use_additional_prompts, "say whether more prompts run")
    extra = count("max_additional_running_prompts", max_additional_running_prompts, 0)
    # Count the tickets.
    ratio = async_generation_ratio
    ahead = math.ceil(batch * share("async_generation_ratio", ratio, "0 is synchronous; give batches ahead", 1.0))
    tickets = batch + ahead + extra * has_extra
    return System(
        "roll_single_turn",
        {},
        as_law("length", length),
        alike("async_generation_ratio", ratio, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="version_strict",
        max_age=math.ceil(ratio),
        age_at_pack="none",
        age_at_publish="all",
        age_reference="submit",
        mode="reprefill",
        **times,
    )


@preset
def roll_environment_groups(
    num_env_groups: int,
    max_traj_per_env: int = 1,
    async_generation_ratio: int = 1,
    group_size_redundancy: int = 0,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """ROLL Flash with environment groups: a queue for each, consumed in order, with a head start of whole steps.

    E places, batches of P = E T, K = (a + 1) P tickets back at the publish, in order: staleness 0 .. a, hard.

    Every environment group plays its episodes one after the other, and a batch takes T of each in their order. No
    episode overtakes another (`systems/hard-bounds`); targets of whole batches model this. An episode is stamped with
    the step that created it. It is cut when that is more than a steps ago: ready at the dequeue, running or ready at
    the install. With whole batches that never happens. With a redundancy so many samples more are started, and the
    first that are in are kept (`systems/first-k-length-bias`). In ROLL the others run on in vain, here they are
    cancelled.

    Arguments: `num_env_groups` E; `max_traj_per_env` T, episodes of an environment in a batch; `async_generation_ratio`
    a >= 1 in whole steps; `group_size_redundancy`, samples of an episode beyond those of a group. Source: ROLL Flash
    (2510.11345).

    >>> roll_environment_groups(3, 1, 2, length=1.0, train_time=3.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    groups = count("num_env_groups", num_env_groups)
    episodes = count("max_traj_per_env", max_traj_per_env, 1, "count episodes")
    ratio = count("async_generation_ratio", async_generation_ratio, 1, "0 is synchronous; give whole steps ahead")
    extra = count("group_size_redundancy", group_size_redundancy, 0, "count samples beyond those of a group")
    return System(
        "roll_environment_groups",
        {},
        as_law("length", length),
        alike("num_env_groups", groups, groups),
        groups_per_batch=groups * episodes,
        redundant=extra,
        tickets=(ratio + 1) * groups * episodes,
        release="publish",
        order="target",
        max_age=ratio,
        age_at_publish="all",
        age_reference="submit",
        mode="keep",
        **times,
    )
