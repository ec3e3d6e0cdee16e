"""NeMo-RL, sampler weight_fifo: the groups of an older weight version go first."""

from asyncsim.systems._knobs import Length, Time, gated
from asyncsim.systems._system import System


def nemo_rl_weight_fifo(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """The gate of K = (N + 1) P tickets, no group before all of an older version: staleness 0 .. N, hard.

    Law `systems/hard-bounds`. Finished groups older than N would be evicted at the dequeue, and since the gate counts
    dispatched batches their tickets would be lost; order and gate together leave none. Stamped with the weight version
    at the start, in publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_weight_fifo(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    knobs = {"num_prompts_per_step": num_prompts_per_step, "max_staleness_versions": max_staleness_versions}
    return gated(
        "nemo_rl_weight_fifo",
        knobs,
        "max_staleness_versions",
        length=length,
        load=load,
        train_time=train_time,
        sync_time=sync_time,
        order="version_strict",
        max_age=max_staleness_versions,
        release_dropped="never",
    )
