"""TBA: searchers fill a replay buffer, the trainer draws from what came last or from everything."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count
from asyncsim.systems._system import System


def tba(
    groups_per_batch: int,
    sync_interval: int = 2,
    on_policy_prob: float = 0.95,
    n_searchers: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """Weights and samples change hands every k batches: what came last is 1 publish old, the rest older.

    Recent groups are k U .. 2 k U - 1 updates old. A group is drawn from those of the last exchange with probability p,
    else from all since the start, and may be used without limit: replay has a long tail of weight 1 - p. Searchers
    finish what they run before an exchange (drain), so nothing straddles it. The trainer never waits for data once the
    first P groups are there (`initial_fill`). Counted in updates by TBA, which stamps nothing; law
    `systems/mean-staleness-identity` does not hold for what is used twice.

    Arguments: `groups_per_batch` P; `sync_interval` k in batches; `on_policy_prob` p; `n_searchers` C in groups;
    `length`, law of a sample's work at one unit a second; `load`, generation over training rate, or `train_time`,
    seconds of a batch; `sync_time`, seconds of a publish. Returns a system. Raises `InputError`. Source: TBA
    (2503.18929).

    >>> tba(2, 2, 1.0, 4, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].max(axis=1).tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    batch = count("groups_per_batch", groups_per_batch)
    every = count("sync_interval", sync_interval, 1, "count batches")
    recent = checks.real("on_policy_prob", on_policy_prob, "give a probability", 0.0, 1.0)
    searchers = count("n_searchers", n_searchers, 1, "count searchers")
    knobs = {"groups_per_batch": batch, "sync_interval": every, "on_policy_prob": recent, "n_searchers": searchers}
    return System(
        "tba",
        knobs,
        as_law("length", length),
        alike("n_searchers", searchers, searchers),
        groups_per_batch=batch,
        batches_per_publish=every,
        visible="publish",
        initial_fill=batch,
        max_uses=None,
        order="random",
        recent=recent,
        mode="drain",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
