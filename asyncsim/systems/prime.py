"""prime-rl, as it is and as it was."""

from __future__ import annotations

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, groups_of, preset, renamed
from asyncsim.systems._system import System


@renamed(rollouts_per_example="group_size")
@preset
def prime_rl(
    batch_size: int,
    max_off_policy_steps: int = 8,
    max_inflight: int = 1024,
    group_size: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """prime-rl since May 2026: an open loop with a fixed lead, which drops what is too many steps off-policy.

    So many rollouts in flight, one packed batch waits, admission stops one step ahead: staleness 0 .. m, hard.

    Law `systems/mean-staleness-identity`: the mean is (in flight + ready + packed at a publish) / P where nothing is
    dropped. Groups that would be more than m versions old are cut: ready ones at the dequeue, running ones only when a
    version arrives. A batch that waits packed is trained as planned. prime-rl stamps the policy versions of a sample's
    first and last token and counts steps, of which each is a publish. A permit returns with each rollout, and a group
    begins when one is free. Its concurrency adapts below the ceiling to what the engines' caches hold; here it is the
    ceiling.

    Arguments: `batch_size` in rollouts; `max_off_policy_steps` m in steps; `max_inflight` in rollouts; `group_size`,
    samples of a group, as in the run (`rollouts_per_example` in earlier revisions). Source: prime-rl.

    >>> prime_rl(4, 8, 8, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    """
    size = count("group_size", group_size, 1, "count rollouts")
    batch = groups_of("batch_size", batch_size, size, "group_size")
    limit = count("max_off_policy_steps", max_off_policy_steps, 0, "count steps")
    ceiling = checks.integer("max_inflight", max_inflight, size, "let one group run at least", checks.LARGEST)
    return System(
        "prime_rl",
        {},
        as_law("length", length),
        alike("max_inflight", ceiling, ceiling),
        groups_per_batch=batch,
        permits=ceiling,
        prefetch=1,
        lead=1,
        order="done",
        max_age=limit,
        age_action="drop",
        age_at_publish="all",
        mode="keep",
        **times,
    )


@preset
def prime_rl_before(
    batch_size: int,
    max_async_level: int = 1,
    strict_async_level: bool = False,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """prime-rl until May 2026: whole batches of rollouts, each for one step, a bounded number of steps ahead.

    K = (L + 1) P tickets back at the publish, batch by batch: staleness 0 .. L, hard.

    One batch is generated at a time (C = P), so a slow generator stays 1 step behind and a slow trainer L. The strict
    level waits for the weights of exactly step b - L: staleness min(version, L), here by generating (L + 1) batches at
    once. Law `systems/hard-bounds`; a step is a publish.

    Arguments: `batch_size` P in groups; `max_async_level` L in steps; `strict_async_level`, whether batches use no
    newer weights than they must. Source: prime-rl.

    >>> [prime_rl_before(4, 2, length=1.0, load=x).staleness(6, 1, 0)[0].max(axis=1).tolist() for x in (0.5, 4.0)]
    [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]]
    """
    batch = count("batch_size", batch_size)
    level = count("max_async_level", max_async_level, 0, "count steps")
    strict = checks.boolean("strict_async_level", strict_async_level, "say whether the level is exact")
    tickets = (level + 1) * batch
    return System(
        "prime_rl_before",
        {},
        as_law("length", length),
        alike("max_async_level", level, tickets if strict else batch),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        quantum=batch,
        order="target",
        mode="keep",
        **times,
    )
