"""Tinker's cookbook: plain and pipelined."""

from __future__ import annotations

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset
from asyncsim.systems._system import System


@preset
def tinker_cookbook(
    groups_per_batch: int, max_steps_off_policy: int, *, length: Length, **times: Unpack[Times]
) -> System:
    """tinker-cookbook asynchronous: workers that never stop; a prompt whose answer is too old is asked again.

    An open loop of C = P workers, older than m is asked again at the dequeue: staleness 0 .. m, hard.

    Prompts that take long are asked again and again, so batches are biased to the quick ones
    (`systems/age-cut-length-bias`); a slow generator is at `systems/cap-idle`. A sample keeps the sampling client that
    it started with (pin), whose step is its stamp; a step is a publish.

    Arguments: `groups_per_batch` P in groups; `max_steps_off_policy` m in steps. Source: tinker-cookbook.

    >>> tinker_cookbook(4, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    limit = count("max_steps_off_policy", max_steps_off_policy, 0, "count steps")
    return System(
        "tinker_cookbook",
        {},
        as_law("length", length),
        alike("groups_per_batch", batch, batch),
        groups_per_batch=batch,
        order="done",
        max_age=limit,
        age_action="requeue",
        mode="pin",
        **times,
    )


@preset
def tinker_cookbook_pipelined(
    groups_per_batch: int, max_steps_off_policy: int, pipeline_depth: int = 1, *, length: Length, **times: Unpack[Times]
) -> System:
    """tinker-cookbook with a pipeline of batches, as proposed: the trainer waits for the oldest instead of dropping it.

    K = (k + 1) P tickets back at the publish, no batch while a running group is due: staleness 0 .. m, mean k.

    Laws `systems/cap-binds` and `systems/hard-bounds`; nothing is dropped, so lengths are unbiased. A sample keeps the
    sampling client that it started with (pin), whose step is its stamp; a step is a publish. From a pull request,
    number 822, that was not checked against running code.

    Arguments: `groups_per_batch` P in groups; `max_steps_off_policy` m >= k in steps; `pipeline_depth` k in steps.
    Source: tinker-cookbook.

    >>> tinker_cookbook_pipelined(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    depth = count("pipeline_depth", pipeline_depth, 0, "count steps")
    limit = count("max_steps_off_policy", max_steps_off_policy, 0, "count steps")
    checks.require(
        limit >= depth,
        "max_steps_off_policy",
        limit,
        f"at least pipeline_depth = {depth}",
        "a full pipeline is that old; with a lower limit the trainer would wait for ever",
    )
    tickets = (depth + 1) * batch
    return System(
        "tinker_cookbook_pipelined",
        {},
        as_law("length", length),
        alike("pipeline_depth", depth, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        max_age=limit,
        age_action="wait",
        mode="pin",
        **times,
    )
