"""verl v1 with separate generators: some batches of warm-up, then one for one, with a limit on a sample's versions."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count, groups_of
from asyncsim.systems._system import System


def verl_separate_async(
    train_batch_size: int,
    num_warmup_batches: int = 1,
    parameter_sync_step: int = 4,
    max_off_policy_threshold: int = 8,
    max_off_policy_strategy: str = "drop",
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = (w + 1) M tickets back at the publish, oldest start first, staleness 0 .. threshold - 1.

    The threshold counts the versions from the first token to training, both included: the limit is m = threshold - 1
    publishes from the head. drop cuts what is older at packing and asks a new prompt for each, mean below w; wait forms
    no batch while a sample in flight is due, mean w. Laws `systems/cap-binds` and `systems/hard-bounds`.

    Arguments: `train_batch_size` M, groups of a publish, in mini-batches of P = M / S; `num_warmup_batches` w;
    `parameter_sync_step` S in batches; `max_off_policy_threshold` in versions; `max_off_policy_strategy`, drop or wait;
    `length`, law of a sample's work at one unit a second; `load`, generation over training rate, or `train_time`,
    seconds of a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: verl's v1
    trainer, separate_async.

    >>> verl_separate_async(4, 2, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    warm = count("num_warmup_batches", num_warmup_batches, 0, "count batches")
    every = count("parameter_sync_step", parameter_sync_step, 1, "count batches")
    batch = groups_of("train_batch_size", train_batch_size, every, "parameter_sync_step")
    how = checks.one_of("max_off_policy_strategy", max_off_policy_strategy, ("drop", "wait"), "say what too old means")
    limit = count("max_off_policy_threshold", max_off_policy_threshold, 1, "count versions, the first included") - 1
    bound = f"at least num_warmup_batches + 1 = {warm + 1} with strategy wait"
    checks.require(how == "drop" or limit >= warm, "max_off_policy_threshold", limit + 1, bound, "raise it")
    consumed = batch * every
    # A dropped group is replaced by one prompt; all others come a publish at a time.
    tickets, quantum = (warm + 1) * consumed, 1 if how == "drop" else consumed
    knobs = {
        "train_batch_size": consumed,
        "num_warmup_batches": warm,
        "parameter_sync_step": every,
        "max_off_policy_threshold": limit + 1,
        "max_off_policy_strategy": how,
    }
    return System(
        "verl_separate_async",
        knobs,
        as_law("length", length),
        alike("num_warmup_batches", warm, tickets),
        groups_per_batch=batch,
        batches_per_publish=every,
        tickets=tickets,
        release="publish",
        quantum=quantum,
        order="oldest_start",
        max_age=limit,
        age_action=how,
        mode="reprefill",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
