"""One step off-policy (verl one-step-off): the next batch is generated while this one trains."""

from asyncsim import checks
from asyncsim.laws import Law, as_law
from asyncsim.systems._system import PLACES, System


def one_step_off(
    groups_per_batch: int = 1, *, length: Law | float | str = 1.0, train_time: Law | float = 1.0, sync_time: float = 0.0
) -> System:
    """Staleness min(version, 1): a batch is admitted when the one before is dequeued, and drained before a publish.

    K = q = C = P, tickets return at the dequeue: law `systems/cap-binds`, and since every sample is drained each single
    group has it. The recipe stamps nothing; a batch is one publish, in updates the staleness is U + j. With
    `train_time=0` the publish comes before the admission and nothing is stale.

    Arguments: `groups_per_batch` P; `length`, law of the work of a sample at one unit a second; `train_time`, seconds
    for a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: verl's one-step-off
    recipe.

    >>> one_step_off(4).schedule(4, 2, 1, 1, seed=0).staleness().max(axis=(0, 2, 3, 4)).tolist()
    [0.0, 1.0, 1.0, 1.0]
    """
    places = checks.integer("groups_per_batch", groups_per_batch, 1, "count groups", PLACES)
    knobs = {"groups_per_batch": groups_per_batch}
    return System(
        "one_step_off",
        knobs,
        as_law("length", length),
        (1.0,) * places,
        groups_per_batch=groups_per_batch,
        tickets=groups_per_batch,
        release="dequeue",
        quantum=groups_per_batch,
        mode="drain",
        train_time=train_time,
        sync_time=sync_time,
    )
