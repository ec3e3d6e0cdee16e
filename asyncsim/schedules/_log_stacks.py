"""How the logs of trainers name their stamps: a table from their columns, units and offsets to ours."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from asyncsim.base import checks
from asyncsim.schedules._log_files import Layout

UNITS: dict[str, tuple[str, ...]] = {
    "publishes": (),
    "updates": ("batches_per_publish", "updates_per_batch"),
    "batches": ("batches_per_publish",),
    "samples": ("samples_per_publish",),
}
"""What versions may count, and the counts that are needed then."""
STARTS = ("start", "submit", "end")
STAMPS = ("start_version", "end_version", "versions", "call_versions")
TIMES = ("t_submit", "t_start", "t_end", "t_ready", "t_train")
COLUMNS = (
    *("sample_id", "group_id", "attempt", "use", *STAMPS, "train_version", "train_step", "batch", *TIMES),
    *("prompt_tokens", "tokens", "fate", "server", "reward"),
)
"""Columns of a log under the names of this package."""

TRAINED = "trained"
FATES = (TRAINED, "dropped_age", "dropped_overflow", "dropped", "rejected", "failed", "unfinished")


class Stack(NamedTuple):
    """The conventions of one trainer.

    `columns`: ours -> theirs, the first that the file has ("a+b" joins columns into one name); `unit` of all versions;
    `train_offset` and `stamp_offset`, what is added to the trained and to the generating version; `start_is`, which
    stamp `start_version` is; `pinned`: a sample finishes under the weights that it started with; `layout` of its files;
    `paired`: the trained column -> the stamp offset beside it, where that differs;
    `traps`: (ours, theirs) -> why that column is wrong, and which one is right; `disk`: what the trainer writes itself,
    and what that lacks; `source` of these facts, read in November 2026.
    """

    columns: Mapping[str, tuple[str, ...]]
    unit: str = "publishes"
    train_offset: int = 0
    stamp_offset: int = 0
    start_is: str = "start"
    pinned: bool = False
    layout: Layout = Layout()
    paired: Mapping[str, int] = {}
    traps: Mapping[tuple[str, str], str] = {}
    disk: str = ""
    source: str = ""

    @property
    def whole(self) -> bool:
        """Whether what the trainer writes itself has all stamps; else its writer makes the log."""
        return "writer" not in self.disk


def _columns(text: str) -> dict[str, tuple[str, ...]]:
    """Columns ours=theirs, where several may be meant theirs|theirs."""
    return {ours: tuple(theirs.split("|")) for ours, theirs in (pair.split("=") for pair in text.split())}


_MILES = Stack(
    _columns(
        "sample_id=index group_id=group_index call_versions=weight_versions "
        "train_version=file:rollout_id tokens=response_length"
    ),
    start_is="end",
    # Weights are pushed once before the loop: the first version is 1, and rollout 0 is trained on it.
    paired={"file:rollout_id": -1},
    disk="a file of tensors for each rollout with `samples` and `rollout_id`, where `--save-debug-rollout-data` says",
    source="miles@31f1ca9 miles/ray/rollout/debug_data.py, miles/utils/types.py, train_async.py:50",
)
STACKS = {
    "verl": Stack(
        _columns("group_id=uid start_version=min_global_steps end_version=max_global_steps train_version=global_steps"),
        train_offset=-1,
        disk="`<step>.jsonl` with texts, scores and step, without a version: versions are tags of the transfer queue, "
        "which its writer keeps",
        source="verl@1dda039 verl/trainer/ppo/ray_trainer.py:455, verl/trainer/ppo/v1/trainer_base.py:1792, 1868",
    ),
    "verl_fully_async": Stack(
        _columns(
            "group_id=uid start_version=param_version_start|min_global_steps "
            "end_version=param_version_end|max_global_steps train_version=current_param_version"
        ),
        disk="as verl, with averages instead of versions: the batch has them in memory, which its writer keeps",
        source="verl@1dda039 verl/experimental/fully_async_policy/detach_utils.py:151",
    ),
    "areal": Stack(
        _columns("versions=versions train_version=version"),
        disk="`rollout/<tail>/<task>.jsonl` with head_version and tail_version, without the trained version, which its "
        "writer keeps",
        source="AReaL@4aef98d areal/infra/workflow_executor.py:876-920, areal/trainer/rl_trainer.py:573, 731",
        traps={
            ("start_version", "head_version"): "it is the least over all tokens, the -1 of the prompt too: use the "
            "versions of generated tokens",
            ("train_version", "tail_version"): "it is the newest that generated: no file has the trained one",
        },
    ),
    "prime_rl": Stack(
        _columns(
            "sample_id=id|row: group_id=group.id "
            "start_version=run.work.policy.start|run.metadata.policy.start|start "
            "end_version=run.work.policy.end|run.metadata.policy.end|end "
            "train_version=path:step_#|trained_step"
        ),
        train_offset=-1,
        layout=Layout("*/train/effective/traces.jsonl"),
        disk="`rollouts/step_N/train/effective/traces.jsonl`, nested: N counts trained steps from 1",
        source="prime-rl@559b447 src/prime_rl/monitors/file.py:50, orchestrator/dispatcher.py:640, utils.py:57-70",
        traps={
            ("train_version", name): "it is the step of dispatch: the trained step is in the folder's name, path:step_#"
            for name in ("step", "run.work.step")
        },
    ),
    "skyrl": Stack(
        _columns("group_id=uid start_version=global_step_when_scheduled train_version=global_step"),
        train_offset=-1,
        stamp_offset=-1,
        start_is="submit",
        disk="pickled tensors without a version: groups have one in memory, which its writer keeps",
        source="SkyRL@a956457 skyrl/train/fully_async_trainer.py:81, 934, 997",
    ),
    "roll": Stack(
        _columns("start_version=sampling_start_step|create_step train_version=global_step"),
        start_is="submit",
        layout=Layout(listed=True),
        disk="`rollout_dump_data.step_N.jsonl`, one record of lists a step, without the starting step, which its "
        "writer keeps",
        source="ROLL@8eb27cc roll/pipeline/rlvr/utils.py:19-45, roll/distributed/scheduler/generate_scheduler.py:709",
    ),
    "nemo_rl": Stack(
        _columns(
            "start_version=start_weight|trajectory_versions end_version=end_weight "
            "train_version=target_step|target_weight_versions"
        ),
        layout=Layout(listed=True),
        disk="`train_data_stepN.jsonl` with tokens and log-probs, without versions: the replay buffer has them, which "
        "its writer keeps",
        source="RL@7ea279a nemo_rl/algorithms/async_utils/replay_buffer.py:60-118, 293",
    ),
    "trl": Stack(
        _columns("start_version=model_version"),
        start_is="submit",
        disk="traces of trackio: the first 16 of each 8 buffered samples, under the version at which they were taken "
        "from the queue; its writer keeps all of them",
        source="trl@f2cd577 trl/experimental/async_grpo/async_grpo_trainer.py:206-300",
    ),
    "open_instruct": Stack(
        _columns("start_version=model_step"),
        start_is="submit",
        disk="`*_rollouts_NNNNNN.jsonl` with step, sample_idx and prompt_idx, without model_step, which its writer "
        "keeps",
        source="open-instruct@e6c3044 open_instruct/rl_utils.py:30-45, data_loader.py:893",
    ),
    "tinker_cookbook": Stack(
        _columns(
            "sample_id=iteration+group_idx+traj_idx|i_batch+group_idx+traj_idx group_id=group_idx "
            "start_version=sampling_client_step train_version=i_batch|iteration tokens=steps.ac_len "
            "reward=total_reward"
        ),
        pinned=True,
        layout=Layout("*train_rollout_summaries.jsonl"),
        disk="`train_rollout_summaries.jsonl` for each iteration, whole",
        source="tinker-cookbook@9dfcc3a tinker_cookbook/rl/rollout_logging.py:103-143",
    ),
    "miles": _MILES,
    "slime": _MILES._replace(source="slime@624b824 slime/utils/types.py:120"),
    "pipeline_rl": Stack(
        _columns(
            "group_id=group_id start_version=metadata.model_version|model_version tokens=output_tokens "
            "prompt_tokens=prompt_tokens reward=reward"
        ),
        unit="samples",
        disk="streams of JSON lines with nested metadata.model_version, without the trained version, which its writer "
        "keeps; versions count samples",
        source="PipelineRL@58d3934 pipelinerl/actor.py:216, rollouts.py:14-44, finetune_loop.py:938-947",
    ),
    "torchtitan": Stack(
        _columns(
            "sample_id=rollout_id group_id=group_id start_version=min_policy_version "
            "end_version=max_policy_version train_version=trainer_policy_version"
        ),
        disk="`rollout_samples.jsonl` with the highest and lowest rewards of each group only, and no trained version, "
        "which its writer keeps",
        source="torchtitan@b5bcd76 torchtitan/experiments/rl/rollout_recorder.py:100-125, components/batcher.py:192",
    ),
    "torchforge": Stack(
        _columns("start_version=generator_version|policy_version"),
        disk="nothing: episodes have a version in memory, which its writer keeps",
        source="torchforge@6e77f0b apps/grpo/main.py:40-58, 434",
    ),
}
"""Trainers by name. Where no train column is listed the log has to bring `train_version`, or `train_step` with its
offset. A convention that has changed shows: the first batch then does not train at the first version, or before it."""

PLAIN = Stack({})
"""A log under the names of this package."""

STAMPLESS = {
    "openrlhf": "OpenRLHF",
    "slime_train_async": "slime train_async",
    "verl_one_step": "verl one-step",
    "verl_one_step_off": "verl one-step",
    "m2po": "the M2PO harness",
}
"""Trainers that write no version for a sample: only batch counter and law of the system give the staleness."""


def stack_of(name: str | None) -> Stack:
    """The conventions of a trainer, in kebab or snake case; raises `InputError` for unknown and stampless ones."""
    if name is None:
        return PLAIN
    key = str(name).lower().replace("-", "_").replace(" ", "_")
    without = STAMPLESS.get(key)
    remedy = (
        f"{without} does not: use the preset of that system (`asyncsim list systems`), which gives the versions "
        "from the batch counter"
    )
    checks.require(without is None, "stack", name, "one that stamps its samples with a version", remedy)
    checks.one_of("stack", key, STACKS, "leave it out and map the columns: columns='start_version=THEIRS,...'")
    return STACKS[key]


def mapping_of(
    columns: Mapping[str, str] | str | None,
    known: Iterable[str] = COLUMNS,
    remedy: str = "write columns='sample_id=THEIRS,train_version=THEIRS'",
) -> dict[str, str]:
    """Column names ours -> theirs, ours among the known ones, from a mapping or from text "ours=theirs,ours=theirs"."""
    if columns is None:
        return {}
    if isinstance(columns, str):
        pairs = [pair.partition("=") for pair in columns.split(",") if pair.strip()]
        whole = all(ours.strip() and theirs.strip() for ours, _, theirs in pairs)
        checks.require(whole, "columns", columns, "pairs OURS=THEIRS separated by commas", remedy)
        columns = {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
    checks.require(isinstance(columns, Mapping), "columns", columns, "a mapping or text", remedy)
    for ours, theirs in columns.items():
        checks.one_of("columns", ours, known, remedy)
        checks.require(isinstance(theirs, str), f"columns[{ours}]", theirs, "the name of a column", remedy)
    return dict(columns)
