"""VCPO: the fully asynchronous recipe of verl, published after every batch, run far ahead."""

from asyncsim.systems._knobs import Length, Time, verl
from asyncsim.systems._system import System


def vcpo(
    ppo_mini_batch_size: int,
    staleness_threshold: float = 128,
    trigger_parameter_sync_step: int = 1,
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
    """K = int((1 + k) M) tickets back at the publish, S = 1: staleness k on average, the version at most.

    Law `systems/cap-binds` where `replicas` carry K groups, else `systems/cap-idle`. The first K groups start under
    version 0, so no batch is older than its own number and k = 128 needs 128 batches before it is seen. The recipe logs
    the gap to the version at a sample's end, which understates that of its head.

    Arguments: `ppo_mini_batch_size` times `require_batches`, P in groups; `staleness_threshold` k >= 0 (up to 128 in
    the recipes); `trigger_parameter_sync_step` S in batches; `partial_rollout`, whether samples go on after a publish;
    `concurrent_samples_per_replica` times `replicas`, groups generated at once, K at most; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: VCPO (2602.17616).

    >>> vcpo(2, 3, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]
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
    return verl("vcpo", knobs, length=length, load=load, train_time=train_time, sync_time=sync_time)
