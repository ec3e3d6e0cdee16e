"""prime-rl until May 2026: whole batches of rollouts, each for one step, a bounded number of steps ahead."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def prime_rl_before(
    batch_size: int,
    max_async_level: int = 1,
    strict_async_level: bool = False,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = (L + 1) P tickets back at the publish, batch by batch: staleness 0 .. L, hard.

    One batch is generated at a time (C = P), so a slow generator stays 1 step behind and a slow trainer L. The strict
    level waits for the weights of exactly step b - L: staleness min(version, L), here by generating (L + 1) batches at
    once. Law `systems/hard-bounds`; a step is a publish.

    Arguments: `batch_size` P in groups; `max_async_level` L in steps; `strict_async_level`, whether batches use no
    newer weights than they must; `length`, law of a sample's work at one unit a second; `load`, generation over
    training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a publish. Returns a system. Raises
    `InputError`. Source: prime-rl.

    >>> [prime_rl_before(4, 2, length=1.0, load=x).staleness(6, 1, 0)[0].max(axis=1).tolist() for x in (0.5, 4.0)]
    [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]]
    """
    batch = count("batch_size", batch_size)
    level = count("max_async_level", max_async_level, 0, "count steps")
    strict = checks.boolean("strict_async_level", strict_async_level, "say whether the level is exact")
    tickets = (level + 1) * batch
    knobs = {"batch_size": batch, "max_async_level": level, "strict_async_level": strict}
    return System(
        "prime_rl_before",
        knobs,
        as_law("length", length),
        alike("max_async_level", level, tickets if strict else batch),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        quantum=batch,
        order="target",
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
