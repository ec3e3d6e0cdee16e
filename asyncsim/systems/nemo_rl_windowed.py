"""NeMo-RL, sampler windowed: generation never waits for the trainer, what ages out of the window is dropped."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count, optional
from asyncsim.systems._system import System


def nemo_rl_windowed(
    num_prompts_per_step: int,
    max_staleness_versions: int = 1,
    sample_freshest_first: bool = False,
    max_inflight_prompts: int | None = None,
    max_buffered_rollouts: int | None = None,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """An open loop before a bounded buffer, older than N is cut: staleness 0 .. N, hard, biased to the fresh.

    Law `systems/mean-staleness-identity` with drops; what is over age at the dequeue is cut, ready or running. Long
    samples are lost more often (`systems/age-cut-length-bias`). Stamped with the weight version at the start, in
    publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_staleness_versions` N in versions; `sample_freshest_first`,
    whether the latest start goes first; `max_inflight_prompts` C in groups (P unless given); `max_buffered_rollouts`,
    groups that the buffer holds ((N + 1) P unless given); `length`, law of a sample's work at one unit a second;
    `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a publish.
    Returns a system. Raises `InputError`. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_windowed(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("num_prompts_per_step", num_prompts_per_step)
    limit = count("max_staleness_versions", max_staleness_versions, 0, "count versions")
    fresh = checks.boolean("sample_freshest_first", sample_freshest_first, "say whether the latest start goes first")
    places = optional("max_inflight_prompts", max_inflight_prompts, 1, "count groups") or batch
    room = f"hold a batch of num_prompts_per_step = {batch}"
    held = optional("max_buffered_rollouts", max_buffered_rollouts, batch, room) or (limit + 1) * batch
    knobs = {
        "num_prompts_per_step": batch,
        "max_staleness_versions": limit,
        "sample_freshest_first": fresh,
        "max_inflight_prompts": places,
        "max_buffered_rollouts": held,
    }
    return System(
        "nemo_rl_windowed",
        knobs,
        as_law("length", length),
        alike("max_inflight_prompts", places, places),
        groups_per_batch=batch,
        capacity=held,
        overflow="block",
        order="freshest" if fresh else "done",
        max_age=limit,
        age_action="drop",
        age_reach="all",
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
