"""SkyRL fully asynchronous: a capacity that grows with every publish, workers that never stop."""

from typing import Unpack

from asyncsim.base import checks
from asyncsim.base.laws import as_law
from asyncsim.systems._knobs import Length, Times, alike, count, optional, preset
from asyncsim.systems._system import System


@preset
def skyrl(
    policy_mini_batch_size: int = 256,
    max_staleness_steps: int = 4,
    num_parallel_generation_workers: int = 768,
    num_steps_per_epoch: int | None = None,
    *,
    length: Length,
    **times: Unpack[Times],
) -> System:
    """K = (S' + 1) P tickets back at the publish, C workers, first done first trained: mean staleness S' at most.

    Where the cap binds the mean is S' (`systems/cap-binds`), else near C / P (`systems/cap-idle`); a single group may
    exceed S', SkyRL counts the violation and trains it. It drains at the end of every epoch: the workers of the next
    begin when all groups of this one are trained. So over whole epochs of E steps the mean is S' - S' (S' + 1) / (2 E).
    It stamps a group with the step at which it was scheduled and counts in steps, of which each is a publish. Samples
    are paused at an install and go on.

    Arguments: `policy_mini_batch_size` P in groups; `max_staleness_steps` S' in steps;
    `num_parallel_generation_workers` C in groups, within P .. P (S' + 1); `num_steps_per_epoch` E, prompts of the data
    set over P, or None for an epoch without an end. Source: SkyRL.

    >>> skyrl(4, 2, 12, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    >>> skyrl(4, 2, 12, 4, length=1.0, train_time=2.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 0.0, 1.0, 2.0, 2.0]
    """
    batch = count("policy_mini_batch_size", policy_mini_batch_size)
    ahead = count("max_staleness_steps", max_staleness_steps, 0, "count steps")
    workers = checks.integer(
        "num_parallel_generation_workers",
        num_parallel_generation_workers,
        batch,
        "fewer never fill a batch, more could never all be busy",
        batch * (ahead + 1),
    )
    epoch = optional("num_steps_per_epoch", num_steps_per_epoch, 1, "count steps")
    return System(
        "skyrl",
        {},
        as_law("length", length),
        alike("num_parallel_generation_workers", workers, workers),
        groups_per_batch=batch,
        tickets=(ahead + 1) * batch,
        release="publish",
        epoch=epoch,
        order="done",
        mode="keep",
        **times,
    )
