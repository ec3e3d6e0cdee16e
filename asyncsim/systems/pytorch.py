"""Trainers of the PyTorch team."""

from __future__ import annotations

import math
from typing import Any

from asyncsim.base import checks
from asyncsim.systems._knobs import ahead, count, given, optional, preset, settings, source


@source("meta-pytorch/torchforge@6e77f0b", "2025-11-15", "src/forge/actors/replay_buffer.py")
@preset("torchforge", "rollout_threads")
def torchforge(
    batch_size: int = count("P in groups"),
    max_policy_age: int = count("m in versions", 1, "count versions", 0),
    max_buffer_size: int | None = given("in groups, P at least, or None", None),
    max_resample_count: int = count("how often a group may be used again", 0, "count further uses", 0),
    rollout_threads: int = count("C in groups", 1),
) -> dict[str, Any]:
    """torchforge: a replay buffer sampled at random, from which what is older than a step or so is evicted.

    An open loop of C groups, random batches of what is at most m versions old: staleness 0 .. m, hard.

    With a slow trainer all of a default run is 1 version old; law `systems/mean-staleness-identity` with drops. A full
    buffer loses its oldest; in the revision read it forgets its size at the first eviction. The stamp is the
    generator's version, in publishes; a generator finishes its requests before it takes new weights (drain), so all
    tokens of a sample have it.

    >>> torchforge(2, rollout_threads=2, length=1.0, train_time=2.5).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    return settings(
        rollout_threads,
        batch_size,
        capacity=optional("max_buffer_size", max_buffer_size, batch_size, f"hold a batch of batch_size = {batch_size}"),
        overflow="drop_oldest",
        max_uses=1 + max_resample_count,
        order="random",
        max_age=max_policy_age,
        mode="drain",
    )


_FRACTION = 0.3


@source("pytorch/torchtitan@b5bcd76", "2026-08-21", "torchtitan/experiments/rl/controller.py")
@preset("torchtitan; the window is that of MiniMax (2605.26494)", "target_offpolicy_steps")
def torchtitan(
    num_prompts_per_train_step: int = count("P in groups"),
    target_offpolicy_steps: int = count("S' in steps", remedy="count steps", low=0),
    window_fraction: float | None = given("f in 0 .. 1, or None", _FRACTION),
    windowed_fifo_batches: int | str | None = given(
        'w in batches, or None, or "unset" for the earlier revision, beside which f has its default', "unset"
    ),
) -> dict[str, Any]:
    """torchtitan RL: an active buffer sized by the target staleness, consumed first in first out within a window.

    K = (S' + 1) P tickets back after the weight pull, window W: mean staleness S', S' + ceil((W - 1) / P) at most.

    Laws `systems/cap-binds` and `systems/hard-bounds`. A window that is a share f of the buffer has W = max(1, floor(f
    K)). Without f the order is strict, W = 1: exactly S'. Later revisions have a window of w batches instead, W = w P,
    bound S' + w, and None means no window: soft. Torchtitan stamps the oldest version of a sample; a step is a publish.
    Groups that are filtered out give their slot back at once.

    >>> torchtitan(4, 2, None, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch, target = num_prompts_per_train_step, target_offpolicy_steps
    window = _window(window_fraction, windowed_fifo_batches, batch, (target + 1) * batch)
    return ahead(batch, target, order="oldest_start", window=window)


def _window(fraction: float | None, batches: int | str | None, batch: int, tickets: int) -> int | None:
    """Groups of the window in either revision."""
    if batches != "unset":
        bound, remedy = "left out beside windowed_fifo_batches", "no revision has both; choose one window"
        checks.require(fraction == _FRACTION, "window_fraction", fraction, bound, remedy)
        number = optional("windowed_fifo_batches", batches, 1, "count batches")
        return None if number is None else number * batch
    if fraction is None:
        return 1
    remedy = "give a share of the buffer, or None for strict order"
    return max(1, math.floor(checks.real("window_fraction", fraction, remedy, 0.0, 1.0, open_low=True) * tickets))
