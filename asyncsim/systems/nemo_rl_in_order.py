"""NeMo-RL, sampler in_order: batches are trained in the order of their dispatch."""

from asyncsim.systems._knobs import Length, Time, gated
from asyncsim.systems._system import System


def nemo_rl_in_order(
    num_prompts_per_step: int,
    max_lookahead_versions: int = 1,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """Batch i of prompts starts once version i - N is installed and is trained as batch i: staleness 0 .. N, hard.

    K = (N + 1) P tickets back at the publish, targets: all mass is on N when the gate is what limits generation
    (`systems/hard-bounds`). NeMo-RL stamps the weight version at the start and the step a group is meant for, in
    publishes.

    Arguments: `num_prompts_per_step` P in groups; `max_lookahead_versions` N in versions; `length`, law of a sample's
    work at one unit a second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`,
    seconds of a publish. Returns a system. Raises `InputError`. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_in_order(4, length=1.0, train_time=2.0).staleness(5, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 1.0, 1.0, 1.0]
    """
    knobs = {"num_prompts_per_step": num_prompts_per_step, "max_lookahead_versions": max_lookahead_versions}
    return gated(
        "nemo_rl_in_order",
        knobs,
        "max_lookahead_versions",
        length=length,
        load=load,
        train_time=train_time,
        sync_time=sync_time,
        order="target",
    )
