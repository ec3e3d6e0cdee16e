"""prime-rl since May 2026: an open loop with a fixed lead, which drops what is too many steps off-policy."""

from asyncsim import checks
from asyncsim.laws import as_law
from asyncsim.systems._knobs import Length, Time, alike, count, groups_of, renamed
from asyncsim.systems._system import System


@renamed(rollouts_per_example="group_size")
def prime_rl(
    batch_size: int,
    max_off_policy_steps: int = 8,
    max_inflight: int = 1024,
    group_size: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """So many rollouts in flight, one packed batch waits, admission stops one step ahead: staleness 0 .. m, hard.

    Law `systems/mean-staleness-identity`: the mean is (in flight + ready + packed at a publish) / P where nothing is
    dropped. What would be more than m versions old is cut at the dequeue and at the install, ready or running; a batch
    that waits packed is trained as planned. prime-rl stamps the policy versions of a sample's first and last token and
    counts steps, of which each is a publish. A permit returns with each rollout, and a group begins when one is free.
    Its concurrency adapts below the ceiling; here it is the ceiling.

    Arguments: `batch_size` in rollouts; `max_off_policy_steps` m in steps; `max_inflight` in rollouts; `group_size`,
    samples of a group, as in the run (`rollouts_per_example` in earlier revisions); `length`, law of a sample's work at
    one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds
    of a publish. Returns a system. Raises `InputError`. Source: prime-rl.

    >>> prime_rl(4, 8, 8, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 2.0, 1.0, 2.0]
    """
    size = count("group_size", group_size, 1, "count rollouts")
    batch = groups_of("batch_size", batch_size, size, "group_size")
    limit = count("max_off_policy_steps", max_off_policy_steps, 0, "count steps")
    ceiling = checks.integer("max_inflight", max_inflight, size, "let one group run at least", checks.LARGEST)
    knobs = {"batch_size": batch * size, "max_off_policy_steps": limit, "max_inflight": ceiling, "group_size": size}
    return System(
        "prime_rl",
        knobs,
        as_law("length", length),
        alike("max_inflight", ceiling, ceiling),
        groups_per_batch=batch,
        permits=ceiling,
        prefetch=1,
        lead=1,
        order="done",
        max_age=limit,
        age_action="drop",
        age_checks=("pack", "publish"),
        age_reach="all",
        mode="keep",
        train_time=train_time,
        load=load,
        sync_time=sync_time,
    )
