"""Trainers of the PyTorch team."""

from __future__ import annotations

import math
from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, optional, preset, share
from asyncsim.systems._system import System


@preset
def torchforge(
    batch_size: int,
    max_policy_age: int = 1,
    max_buffer_size: int | None = None,
    max_resample_count: int = 0,
    rollout_threads: int = 1,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """torchforge: a replay buffer sampled at random, from which what is older than a step or so is evicted.

    An open loop of C groups, random batches of what is at most m versions old: staleness 0 .. m, hard.

    With a slow trainer all of a default run is 1 version old; law `systems/mean-staleness-identity` with drops. A full
    buffer loses its oldest; in the revision read it forgets its size at the first eviction. The stamp is the
    generator's version, in publishes; a generator finishes its requests before it takes new weights (drain), so all
    tokens of a sample have it.

    Arguments: `batch_size` P in groups; `max_policy_age` m in versions; `max_buffer_size` in groups, P at least, or
    None; `max_resample_count`, how often a group may be used again; `rollout_threads` C in groups. Source: torchforge.

    >>> torchforge(2, rollout_threads=2, length=1.0, train_time=2.5).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("batch_size", batch_size)
    limit = count("max_policy_age", max_policy_age, 0, "count versions")
    capacity = optional("max_buffer_size", max_buffer_size, batch, f"hold a batch of batch_size = {batch}")
    further_uses = count("max_resample_count", max_resample_count, 0, "count further uses")
    threads = count("rollout_threads", rollout_threads)
    return System(
        "torchforge",
        {},
        as_law("length", length),
        alike("rollout_threads", threads, threads),
        groups_per_batch=batch,
        capacity=capacity,
        overflow="drop_oldest",
        max_uses=1 + further_uses,
        order="random",
        max_age=limit,
        age_action="drop",
        mode="drain",
        **times,
    )


_FRACTION = 0.3


@preset
def torchtitan(
    num_prompts_per_train_step: int,
    target_offpolicy_steps: int,
    window_fraction: float | None = _FRACTION,
    windowed_fifo_batches: int | str | None = "unset",
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """torchtitan RL: an active buffer sized by the target staleness, consumed first in first out within a window.

    K = (S' + 1) P tickets back after the weight pull, window W: mean staleness S', S' + ceil((W - 1) / P) at most.

    Laws `systems/cap-binds` and `systems/hard-bounds`. A window that is a share f of the buffer has W = max(1, floor(f
    K)). Without f the order is strict, W = 1: exactly S'. Later revisions have a window of w batches instead, W = w P,
    bound S' + w, and None means no window: soft. Torchtitan stamps the oldest version of a sample; a step is a publish.
    Groups that are filtered out give their slot back at once.

    Arguments: `num_prompts_per_train_step` P in groups; `target_offpolicy_steps` S' in steps; `window_fraction` f in 0
    .. 1, or None; `windowed_fifo_batches` w in batches, or None, or "unset" for the earlier revision, beside which f
    has its default. Source: torchtitan; the window is that of MiniMax (2605.26494).

    >>> torchtitan(4, 2, None, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    # Size the buffer and its window.
    batch = count("num_prompts_per_train_step", num_prompts_per_train_step)
    target = count("target_offpolicy_steps", target_offpolicy_steps, 0, "count steps")
    tickets = (target + 1) * batch
    window = _window(window_fraction, windowed_fifo_batches, batch, tickets)
    return System(
        "torchtitan",
        {},
        as_law("length", length),
        alike("target_offpolicy_steps", target, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        window=window,
        mode="keep",
        **times,
    )


def _window(fraction: float | None, batches: int | str | None, batch: int, tickets: int) -> int | None:
    """Groups of the window in either revision."""
    if batches != "unset":
        checks.require(
            fraction == _FRACTION,
            "window_fraction",
            fraction,
            "left out beside windowed_fifo_batches",
            "no revision has both; choose one window",
        )
        number = optional("windowed_fifo_batches", batches, 1, "count batches")
        return None if number is None else number * batch
    if fraction is None:
        return 1
    remedy = "give a share of the buffer, or None for strict order"
    return max(1, math.floor(share("window_fraction", fraction, remedy, 0.0, 1.0, open_low=True) * tickets))
