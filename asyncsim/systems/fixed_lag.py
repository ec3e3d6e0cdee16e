"""Fixed lag: every batch is exactly so many versions old."""

from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def fixed_lag(
    lag: int,
    groups_per_batch: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """Staleness min(version, L) of every token's head: K = (L + 1) P^pub, a place for each, strictly in order (W = 1).

    Law `systems/hard-bounds`: nobody overtakes and the cap always binds, so batch b was admitted with version b - L.
    Where no clock is wanted, `schedules.fixed` imposes the same staleness.

    Arguments: `lag` L in versions; `groups_per_batch` P; `length`, law of a sample's work at one unit a second; `load`,
    generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a publish. Returns a
    system. Raises `InputError`. Source: textbook.

    >>> fixed_lag(2, 3, length="lognormal:1.0:0.8", load=0.7).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    behind = count("lag", lag, 0, "give a number of versions")
    batch = count("groups_per_batch", groups_per_batch)
    tickets = (behind + 1) * batch
    return System(
        "fixed_lag",
        {"lag": behind, "groups_per_batch": batch},
        as_law("length", length),
        alike("lag", behind, tickets),
        groups_per_batch=batch,
        tickets=tickets,
        release="publish",
        order="oldest_start",
        window=1,
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
