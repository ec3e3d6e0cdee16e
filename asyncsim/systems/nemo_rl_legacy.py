"""NeMo-RL's first asynchronous GRPO: every group is generated for one training step ahead."""

from asyncsim import checks
from asyncsim.systems._knobs import Length, Time, gated
from asyncsim.systems._system import System


def nemo_rl_legacy(
    num_prompts_per_step: int,
    max_trajectory_age_steps: int = 1,
    in_flight_weight_updates: bool = False,
    *,
    length: Length,
    load: float | None = None,
    train_time: Time = None,
    sync_time: float = 0.0,
) -> System:
    """K = (N + 1) P^pub, targets up to N steps ahead: staleness 1 .. N after the first batch, hard.

    A collector at version V aims at steps V + 1 .. V + N, so nothing but the first batch is fresh, and all mass is on N
    when generation is ahead (`systems/hard-bounds`). NeMo-RL stamps the version a trajectory starts with and the step
    it is meant for; a step is a publish. A refit waits for running samples unless weights move in flight.

    Arguments: `num_prompts_per_step` P in groups; `max_trajectory_age_steps` N >= 1 in steps;
    `in_flight_weight_updates`, whether samples go on under new weights; `length`, law of a sample's work at one unit a
    second; `load`, generation over training rate, or `train_time`, seconds of a batch; `sync_time`, seconds of a
    publish. Returns a system. Raises `InputError`. Source: NVIDIA NeMo-RL.

    >>> nemo_rl_legacy(4, 2, length=1.0, train_time=2.0).staleness(6, 1, 0)[0].max(axis=1).tolist()
    [0.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    """
    moves = checks.boolean("in_flight_weight_updates", in_flight_weight_updates, "say whether weights move in flight")
    knobs = {
        "num_prompts_per_step": num_prompts_per_step,
        "max_trajectory_age_steps": max_trajectory_age_steps,
        "in_flight_weight_updates": moves,
    }
    return gated(
        "nemo_rl_legacy",
        knobs,
        "max_trajectory_age_steps",
        length=length,
        load=load,
        train_time=train_time,
        sync_time=sync_time,
        low=1,
        order="target",
        mode="keep" if moves else "drain",
    )
