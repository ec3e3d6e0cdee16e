"""open-instruct: several steps of prompts are out, batches are packed ahead, stale results are refilled."""

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, preset
from asyncsim.systems._system import System


@preset
def open_instruct(
    num_unique_prompts_rollout: int,
    async_steps: int = 8,
    inflight_updates: bool = True,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """K = a P tickets back at packing, a packed batches may wait, older than a is dropped at packing: 0 .. a, hard.

    Tickets and packed batches together reach 2 a batches, so with a slow trainer the mass sits at a with discards: law
    `systems/mean-staleness-identity` with drops. Each discarded group is replaced. The stamp is the step at which the
    engine got the prompt, compared with the step the batch is packed for; a step is a publish.

    Arguments: `num_unique_prompts_rollout` P in groups; `async_steps` a >= 1 in steps; `inflight_updates`, whether
    samples go on under new weights, else they are drained. Source: open-instruct.

    >>> open_instruct(2, 2, length=1.0, train_time=1.5).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    batch = count("num_unique_prompts_rollout", num_unique_prompts_rollout)
    steps = count("async_steps", async_steps, 1, "count steps")
    moves = checks.boolean("inflight_updates", inflight_updates, "say whether weights move in flight")
    tickets = steps * batch
    return System(
        "open_instruct",
        {},
        as_law("length", length),
        alike("async_steps", steps, tickets),
        groups_per_batch=batch,
        prefetch=steps,
        tickets=tickets,
        release="dequeue",
        release_dropped="now",
        order="done",
        max_age=steps,
        age_action="drop",
        age_reference="submit",
        mode="keep" if moves else "drain",
        **times,
    )
