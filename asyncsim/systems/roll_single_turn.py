"""ROLL Flash, single turn: prompts of the oldest step first, and what is older than the ratio is aborted."""

import math

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count, share
from asyncsim.systems._system import System


def roll_single_turn(
    rollout_batch_size: int,
    async_generation_ratio: float = 1,
    is_use_additional_prompts: bool = False,
    max_additional_running_prompts: int = 16,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = P + ceil(a P) tickets back at the publish, strictly by the step of submission: staleness 0 .. ceil(a), hard.

    No group of a later step is trained while one of an earlier step runs, so an integer a puts all mass on a when
    generation is ahead (`systems/hard-bounds`). At every install what is older than ceil(a) is cut, ready or running;
    that happens with additional prompts only, which K grows by. ROLL stamps the step at which sampling was asked for.

    Arguments: `rollout_batch_size` P in groups; `async_generation_ratio` a >= 1 in batches;
    `is_use_additional_prompts`, whether `max_additional_running_prompts` more groups run; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: ROLL Flash (2510.11345).

    >>> roll_single_turn(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    more = checks.boolean("is_use_additional_prompts", is_use_additional_prompts, "say whether more prompts run")
    extra = count("max_additional_running_prompts", max_additional_running_prompts, 0)
    ratio = async_generation_ratio
    ahead = math.ceil(batch * share("async_generation_ratio", ratio, "0 is synchronous; give batches ahead", 1.0))
    tickets = batch + ahead + extra * more
    knobs = {
        "rollout_batch_size": batch,
        "async_generation_ratio": ratio,
        "is_use_additional_prompts": more,
        "max_additional_running_prompts": extra,
    }
    return System(
        "roll_single_turn",
        knobs,
        as_law("length", length),
        alike("async_generation_ratio", ratio, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="version_strict",
        max_age=math.ceil(ratio),
        age_checks=("publish",),
        age_reach="all",
        age_reference="submit",
        mode="reprefill",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
