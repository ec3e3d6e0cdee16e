"""AReaL: generation runs ahead by a bounded number of versions and is interrupted by new weights, not restarted."""

from typing import Unpack

from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, count, preset
from asyncsim.systems._system import System


@preset
def areal(
    max_head_offpolicyness: int,
    consumer_batch_size: int,
    max_concurrent_rollouts: int | None = None,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """K = (eta + 1) P tickets that return at the publish, oldest start first, running samples keep their tokens.

    Where the cap binds the mean staleness is eta (`systems/cap-binds`); single samples may exceed it
    (`systems/straggler-tail`). A generator of C places that is the slower side stays near C / P whatever eta is
    (`systems/cap-idle`). AReaL stamps every token with a version and counts in publishes from the first of them. At an
    install a running sample is interrupted and reads again what it has: give `prompt` and `prefill_speedup` for the
    cost.

    Arguments: `max_head_offpolicyness` eta in versions; `consumer_batch_size` P in groups; `max_concurrent_rollouts` C
    in groups (P unless given); `length`, law of the work of a sample at one unit a second; exactly one of `load`,
    generation rate over training rate (C / E[T_group]) / (P / t_T), and `train_time`, seconds for a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: AReaL (2505.24298).

    >>> from asyncsim.base.laws import constant
    >>> system = areal(2, 4, 12, length=constant(1.0), load=2.0)
    >>> system.schedule(8, 1, 1, 1, seed=0).staleness().mean(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    eta = count("max_head_offpolicyness", max_head_offpolicyness, 0, "give a number of versions")
    batch = count("consumer_batch_size", consumer_batch_size)
    places = batch if max_concurrent_rollouts is None else count("max_concurrent_rollouts", max_concurrent_rollouts)
    return System(
        "areal",
        {"max_concurrent_rollouts": places},
        as_law("length", length),
        (1.0,) * places,
        groups_per_batch=batch,
        tickets=(eta + 1) * batch,
        release="publish",
        order="oldest_start",
        mode="reprefill",
        **times,
    )
