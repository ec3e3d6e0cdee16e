"""Synchronous training: generate, then train, never both."""

from asyncsim import checks
from asyncsim.laws import Law, as_law
from asyncsim.systems._system import PLACES, System


def synchronous(
    groups_per_batch: int = 1, *, length: Law | float | str = 1.0, train_time: Law | float = 1.0, sync_time: float = 0.0
) -> System:
    """Every batch is generated under the version that it trains: staleness 0, update staleness 0 .. U - 1.

    All P groups of a batch are admitted together and all finish before it trains (K = q = P tickets that return at the
    publish, drain); every batch is published. With several batches to a publish the shortest groups would be trained
    first, while others are still generated: that is another system. Law `systems/cap-binds` at K = M, for every group.

    Arguments: `groups_per_batch` P; `length`, law of the work of a sample at one unit a second; `train_time`, seconds
    for a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: textbook.

    >>> float(synchronous(4).schedule(6, 2, 1, 1, seed=0).staleness().max())
    0.0
    """
    batch = checks.integer("groups_per_batch", groups_per_batch, 1, "count groups", PLACES)
    knobs = {"groups_per_batch": groups_per_batch}
    return System(
        "synchronous",
        knobs,
        as_law("length", length),
        (1.0,) * batch,
        groups_per_batch=batch,
        tickets=batch,
        release="publish",
        quantum=batch,
        mode="drain",
        train_time=train_time,
        sync_time=sync_time,
    )
