"""How the logs of trainers name their stamps: a table from their columns, units and offsets to ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from asyncsim.base import checks

UNITS = ("publishes", "updates", "batches", "samples")
STARTS = ("start", "submit", "end")
STAMPS = ("start_version", "end_version", "versions", "call_versions")
TIMES = ("t_submit", "t_start", "t_end", "t_ready", "t_train")
COLUMNS = (
    "sample_id",
    "group_id",
    "attempt",
    "use",
    *STAMPS,
    "train_version",
    "train_step",
    "batch",
    *TIMES,
    "prompt_tokens",
    "tokens",
    "fate",
    "server",
    "reward",
)
"""Columns of a log under the names of this package."""

TRAINED = "trained"
FATES = (TRAINED, "dropped_age", "dropped_overflow", "dropped", "rejected", "failed", "unfinished")


class Stack(NamedTuple):
    """The conventions of one trainer.

    `columns`: ours -> theirs, the first that the file has ("a+b" joins columns into one name); `unit` of all versions;
    `train_offset` and `stamp_offset`, what is added to the trained and to the generating version; `start_is`, which
    stamp `start_version` is; `pinned`: a sample finishes under the weights that it started with.
    """

    columns: Mapping[str, tuple[str, ...]]
    unit: str = "publishes"
    train_offset: int = 0
    stamp_offset: int = 0
    start_is: str = "start"
    pinned: bool = False


STACKS = {
    "verl": Stack(
        {
            "group_id": ("uid",),
            "start_version": ("min_global_steps",),
            "end_version": ("max_global_steps",),
            "train_version": ("global_steps",),
        },
        train_offset=-1,
    ),
    "verl_fully_async": Stack(
        {
            "start_version": ("param_version_start",),
            "end_version": ("param_version_end",),
            "train_version": ("current_param_version",),
        }
    ),
    "areal": Stack({"versions": ("versions",), "train_version": ("version",)}),
    "prime_rl": Stack(
        {"start_version": ("start",), "end_version": ("end",), "train_version": ("step",)}, train_offset=-1
    ),
    "skyrl": Stack(
        {"group_id": ("uid",), "start_version": ("global_step_when_scheduled",), "train_version": ("global_step",)},
        train_offset=-1,
        stamp_offset=-1,
        start_is="submit",
    ),
    "roll": Stack(
        {"start_version": ("sampling_start_step", "create_step"), "train_version": ("global_step",)}, start_is="submit"
    ),
    "nemo_rl": Stack(
        {
            "start_version": ("start_weight", "trajectory_versions"),
            "end_version": ("end_weight",),
            "train_version": ("target_step", "target_weight_versions"),
        }
    ),
    "trl": Stack({"start_version": ("model_version",)}, start_is="submit"),
    "open_instruct": Stack({"start_version": ("model_step",)}, start_is="submit"),
    "tinker_cookbook": Stack(
        {
            "sample_id": ("iteration+group_idx+traj_idx", "i_batch+group_idx+traj_idx"),
            "group_id": ("group_idx",),
            "start_version": ("sampling_client_step",),
            "train_version": ("i_batch", "iteration"),
        },
        pinned=True,
    ),
    "miles": Stack(
        {
            "sample_id": ("index",),
            "group_id": ("group_index",),
            "call_versions": ("weight_versions",),
            "tokens": ("response_length",),
        },
        start_is="end",
    ),
    "pipeline_rl": Stack({"start_version": ("model_version",)}, unit="samples"),
    "torchtitan": Stack({"start_version": ("min_policy_version",), "train_version": ("trainer_policy_version",)}),
    "torchforge": Stack({"start_version": ("generator_version", "policy_version")}),
}
STACKS["slime"] = STACKS["miles"]
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
    checks.require(
        without is None,
        "stack",
        name,
        "one that stamps its samples with a version",
        f"{without} does not: use the preset of that system (`asyncsim list systems`), which gives the versions "
        "from the batch counter",
    )
    checks.one_of("stack", key, STACKS, "leave it out and map the columns: columns='start_version=THEIRS,...'")
    return STACKS[key]


def mapping_of(columns: Mapping[str, str] | str | None) -> dict[str, str]:
    """Column names ours -> theirs, from a mapping or from text "ours=theirs,ours=theirs"."""
    if columns is None:
        return {}
    remedy = "write columns='sample_id=THEIRS,train_version=THEIRS'"
    if isinstance(columns, str):
        pairs = [pair.partition("=") for pair in columns.split(",") if pair.strip()]
        whole = all(ours.strip() and theirs.strip() for ours, _, theirs in pairs)
        checks.require(whole, "columns", columns, "pairs OURS=THEIRS separated by commas", remedy)
        columns = {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
    checks.require(isinstance(columns, Mapping), "columns", columns, "a mapping or text", remedy)
    for ours, theirs in columns.items():
        checks.one_of("columns", ours, COLUMNS, remedy)
        checks.require(isinstance(theirs, str), f"columns[{ours}]", theirs, "the name of a column", remedy)
    return dict(columns)
