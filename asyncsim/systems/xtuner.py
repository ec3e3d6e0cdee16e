"""xtuner: a producer that fills one future step after another, and expires what is too many syncs old."""

import math
from typing import Any, Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset, share
from asyncsim.systems._system import System


@preset
def xtuner(
    train_batch_size: int,
    max_staleness: int = 0,
    over_sample_threshold: float = 0.0,
    sync_weights_interval: int = 1,
    enable_partial_rollout: bool = False,
    tail_batch_trigger_size: int = -1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """xtuner with separate generators: steps are filled in order, a bounded number of syncs ahead.

    K = (m + 1) M + B tickets back at the publish, C = P + B, B = ceil(threshold P): staleness 0 .. m, hard.

    Law `systems/hard-bounds`. Without oversampling a step's groups start when those of the step before are done, and
    nothing expires. With it the B groups of a publish that come last would be m + 1 old, and expire where generation is
    ahead. xtuner stamps each token with the step of its weights. A limit m allows (m + 1) S steps from the oldest token
    on, which is m publishes. It is checked when a batch is taken, for finished groups, and at the sync, for groups that
    still run too.

    Arguments: `train_batch_size` P in groups; `max_staleness` m in syncs; `over_sample_threshold`, share of a batch
    that may run beyond it; `sync_weights_interval` S in steps; `enable_partial_rollout`, whether samples go on after a
    sync or begin anew; `tail_batch_trigger_size`, -1 to drop expired groups, else their prompts are asked again.
    Source: xtuner.

    >>> xtuner(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("train_batch_size", train_batch_size)
    limit = count("max_staleness", max_staleness, 0, "count syncs")
    beyond = share("over_sample_threshold", over_sample_threshold, "give a share of a batch")
    every = count("sync_weights_interval", sync_weights_interval, 1, "count steps")
    partial = checks.boolean("enable_partial_rollout", enable_partial_rollout, "say whether samples go on after a sync")
    trigger = checks.integer("tail_batch_trigger_size", tail_batch_trigger_size, -1, "give -1, 0 or a number of groups")
    extra = math.ceil(beyond * batch)
    # Without oversampling steps are generated and trained one after the other, the last of them m publishes late.
    cut: dict[str, Any] = {"quantum": batch}
    if extra:
        action = "drop" if trigger < 0 else "requeue"
        cut = {"max_age": limit, "age_action": action, "age_at_publish": "all"}
    return System(
        "xtuner",
        {},
        as_law("length", length),
        alike("over_sample_threshold", beyond, batch + extra),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=(limit + 1) * batch * every + extra,
        release="publish",
        order="oldest_start",
        mode="reprefill" if partial else "restart",
        **cut,
        **times,
    )
