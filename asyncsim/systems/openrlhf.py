"""OpenRLHF asynchronous: a queue of whole batches between generator and trainer."""

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset
from asyncsim.systems._system import System


@preset
def openrlhf(
    rollout_batch_size: int,
    async_queue_size: int = 1,
    partial_rollout_enable: bool = False,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """K = Q P tickets back at the dequeue, a batch at a time (q = C = P): staleness 1 .. Q after the first batch, hard.

    A slow generator is one batch behind, a slow trainer Q (`systems/cap-binds` at the dequeue). A lock keeps weights
    from moving while a batch is generated (drain); partial rollouts pause and go on instead. OpenRLHF stamps no
    version, a batch is a publish.

    Arguments: `rollout_batch_size` P in groups; `async_queue_size` Q in batches; `partial_rollout_enable`, whether
    weights move under running samples. Source: OpenRLHF.

    >>> [openrlhf(4, 2, length=1.0, load=x).staleness(6, 1, 0)[0].max(axis=1).tolist() for x in (0.5, 4.0)]
    [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]]
    """
    batch = count("rollout_batch_size", rollout_batch_size)
    queue = count("async_queue_size", async_queue_size, 1, "count batches")
    partial = checks.boolean("partial_rollout_enable", partial_rollout_enable, "say whether samples are interrupted")
    return System(
        "openrlhf",
        {},
        as_law("length", length),
        alike("rollout_batch_size", batch, batch),
        groups_per_batch=batch,
        tickets=queue * batch,
        release="dequeue",
        quantum=batch,
        order="done",
        mode="keep" if partial else "drain",
        **times,
    )
