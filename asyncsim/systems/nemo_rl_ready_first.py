"""NeMo-RL, sampler ready_first: whatever is finished is trained."""

from asyncsim.systems._knobs import Length, Time, gated
from asyncsim.systems._system import System


def nemo_rl_ready_first(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """The gate of K = (N + 1) P tickets, first done first trained, nothing evicted: mean staleness N when ahead; soft.

    Law `systems/cap-binds`; single groups are unbounded (`systems/straggler-tail` plus the queue). Stamped with the
    weight version at the start, in publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_ready_first(4, 2, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0]
    """
    knobs = {"num_prompts_per_step": num_prompts_per_step, "max_staleness_versions": max_staleness_versions}
    return gated(
        "nemo_rl_ready_first",
        knobs,
        "max_staleness_versions",
        length=length,
        load=load,
        train_time=train_time,
        sync_time=sync_time,
        order="done",
    )
