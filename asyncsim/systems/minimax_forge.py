"""MiniMax's Forge: a queue of generation tasks, consumed out of order only within a window at its head."""

import math
from typing import Unpack

from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset, share
from asyncsim.systems._system import System


@preset
def minimax_forge(
    train_batch_size: int,
    generation_batch_size: int,
    window_fraction: float = 0.3,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """Forge, reconstructed: N tasks are queued or running, and the trainer takes what is done among the first W.

    K = N tickets back at the dequeue, window W: mean N / P where generation is ahead, 1 + floor((N + W - 2) / P) hard.

    Laws `systems/cap-binds` and `systems/hard-bounds`. W = max(1, floor(w N)); only what stands less than W behind the
    oldest task not yet consumed may be taken. The report counts a lag in tasks, N + W - 2 at most. Its code is not
    public: what a task is, when weights are published and what running tasks do then are choices made here.

    Arguments: `train_batch_size` P in groups; `generation_batch_size` N >= P in groups; `window_fraction` w in 0 .. 1,
    W / N. The names are chosen here. Source: MiniMax-M2 (2605.26494), section 6.2.4; a reconstruction.

    >>> minimax_forge(4, 8, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("train_batch_size", train_batch_size)
    tasks = count("generation_batch_size", generation_batch_size, batch, f"queue a batch of {batch} at least")
    fraction = share("window_fraction", window_fraction, "give a share of the queue", 0.0, 1.0, open_low=True)
    return System(
        "minimax_forge",
        {},
        as_law("length", length),
        alike("generation_batch_size", tasks, tasks),
        groups_per_batch=batch,
        tickets=tasks,
        release="dequeue",
        order="oldest_start",
        window=max(1, math.floor(fraction * tasks)),
        mode="keep",
        **times,
    )
