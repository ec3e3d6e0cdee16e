"""verl fully asynchronous: generation runs ahead by a fraction of a publish window."""

from asyncsim.systems._knobs import Length, Time, verl
from asyncsim.systems._system import System


def verl_fully_async(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 0.1,
    trigger_parameter_sync_step: int = 4,
    require_batches: int = 1,
    partial_rollout: bool = True,
    concurrent_samples_per_replica: int = 16,
    replicas: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """M = P S groups a publish, K = int((1 + tau) M) tickets: mean staleness K / M - 1 publishes where the cap binds.

    tau is a share of a publish window, not a number of steps: a group may wait S U updates and more. Law
    `systems/cap-binds`; with partial rollouts single samples are unbounded, without them (drain) `systems/hard-bounds`:
    0 .. ceil(tau). verl stamps the parameter version at start and end of a sample; its histogram uses the end. The
    queue holds K groups and drops the oldest, which the tickets never let happen; a dropped group counts until the
    publish.

    Arguments: `ppo_mini_batch_size` times `require_batches`, P in groups; `staleness_threshold` tau >= 0;
    `trigger_parameter_sync_step` S in batches; `partial_rollout`, whether samples go on after a publish;
    `concurrent_samples_per_replica` times `replicas`, groups generated at once, K at most; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: verl's fully asynchronous policy.

    >>> verl_fully_async(2, 0.5, 2, length=1.0, train_time=1.0).staleness(8, 1, 0)[0].mean(axis=1).tolist()
    [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    """
    knobs = {
        "ppo_mini_batch_size": ppo_mini_batch_size,
        "staleness_threshold": staleness_threshold,
        "trigger_parameter_sync_step": trigger_parameter_sync_step,
        "require_batches": require_batches,
        "partial_rollout": partial_rollout,
        "concurrent_samples_per_replica": concurrent_samples_per_replica,
        "replicas": replicas,
    }
    return verl("verl_fully_async", knobs, length=length, load=load, train_time=train_time, sync_time=sync_time)
