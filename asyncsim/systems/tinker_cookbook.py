"""tinker-cookbook asynchronous: workers that never stop; a prompt whose answer is too old is asked again."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def tinker_cookbook(
    groups_per_batch: int,
    max_steps_off_policy: int,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """An open loop of C = P workers, older than m is asked again at the dequeue: staleness 0 .. m, hard.

    Prompts that take long are asked again and again, so batches are biased to the quick ones
    (`systems/age-cut-length-bias`); a slow generator is at `systems/cap-idle`. A sample keeps the sampling client that
    it started with (pin), whose step is its stamp; a step is a publish.

    Arguments: `groups_per_batch` P in groups; `max_steps_off_policy` m in steps; `length`, law of a sample's work at
    one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds
    of a publish. Returns a system. Raises `InputError`. Source: tinker-cookbook.

    >>> tinker_cookbook(4, 1, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    limit = count("max_steps_off_policy", max_steps_off_policy, 0, "count steps")
    knobs = {"groups_per_batch": batch, "max_steps_off_policy": limit}
    return System(
        "tinker_cookbook",
        knobs,
        as_law("length", length),
        alike("groups_per_batch", batch, batch),
        groups_per_batch=batch,
        order="done",
        max_age=limit,
        age_action="requeue",
        mode="pin",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
