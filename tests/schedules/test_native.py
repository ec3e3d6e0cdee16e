"""Logs as trainers write them today: each stack's own format, or its writer fed with a stub of its records.

A run of 6 batches of 3 groups of 2 samples with versions known in advance is written as the trainer would write it; the
staleness that is read back is compared exactly. Facts about formats stand beside each test, with path and commit.
"""

import gzip
import io
import json
import pickle
from pathlib import Path
from types import SimpleNamespace as Record
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.app import cli, logs
from asyncsim.base import files
from asyncsim.base.checks import InputError
from asyncsim.schedules import _log_cells, _log_files, _log_places, _log_stacks, replay
from asyncsim.schedules._log_stacks import STACKS, STAMPS
from tests.refusals import refused

BATCHES, GROUPS, SAMPLES = 6, 3, 2
WRITERS: dict[str, Any] = {}
"""As they are pasted: with what they need, and nothing else."""
exec(logs.NEEDED + "\n".join(logs.writers().values()), WRITERS)
WRITERS = {name: WRITERS[name] for name in logs.writers()}


def start_of(batch: int, group: int) -> int:
    """The version that a group was generated under: 0 to 2 publishes before it is trained."""
    return max(0, batch - (group + batch) % 3)


HEADS = np.array([[[b - start_of(b, g)] * SAMPLES for g in range(GROUPS)] for b in range(BATCHES)], dtype=float)
EVERY = [(b, g, n) for b in range(BATCHES) for g in range(GROUPS) for n in range(SAMPLES)]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def heads(path: Path, stack: str, **more: Any) -> np.ndarray:
    log = replay(path, stack=stack, **more).log
    return log.samples["head"][log.grid]


# What the trainer writes itself is enough.


def prime_rl(folder: Path) -> Path:
    """prime-rl@559b447 monitors/file.py:50: a folder for each step from 1; dispatcher.py:640: nested policy span."""
    for b in range(BATCHES):
        rows = []
        for g in range(GROUPS):
            policy = {"start": start_of(b, g), "end": b}
            work = {"type": "train", "step": start_of(b, g) + 1, "policy": policy}
            for n in range(SAMPLES):
                run = {"type": "train", "id": "r", "name": "r", "work": work}
                rows.append({"id": f"e{b}{g}{n}", "group": {"id": f"g{b}{g}"}, "run": run, "ok": True, "traces": [{}]})
        lines(folder / f"rollouts/step_{b + 1}/train/effective/traces.jsonl", rows)
        lines(folder / f"rollouts/step_{b + 1}/train/all/traces.jsonl", [*rows, rows[0]])
    return folder


def tinker_cookbook(folder: Path) -> Path:
    """tinker-cookbook@9dfcc3a rl/rollout_logging.py:127-143: one file an iteration; lengths stand in the turns."""
    for b in range(BATCHES):
        rows = [
            {"schema_version": 1, "split": "train", "iteration": b, "group_idx": g, "traj_idx": n, "tags": ["math"],
             "sampling_client_step": start_of(b, g), "total_reward": 1.0, "final_reward": 1.0,
             "trajectory_metrics": {}, "steps": [{"step_idx": 0, "ac_len": 3}, {"step_idx": 1, "ac_len": 4}]}
            for g in range(GROUPS) for n in range(SAMPLES)
        ]  # fmt: skip
        lines(folder / f"iteration_{b:06d}/train_rollout_summaries.jsonl", rows)
        lines(folder / f"iteration_{b:06d}/test_rollout_summaries.jsonl", rows)
    return folder


def miles(folder: Path) -> Path:
    """miles@31f1ca9 ray/rollout/debug_data.py: Sample.to_dict in a dictionary; train_async.py:50: version 1 first."""
    for b in range(BATCHES):
        samples = [
            {"group_index": b * GROUPS + g, "index": (b * GROUPS + g) * SAMPLES + n, "prompt": "?", "tokens": [1, 2, 3],
             "response_length": 2, "weight_versions": [str(start_of(b, g) + 1)], "loss_mask": None, "metadata": {},
             "status": "completed", "rollout_log_probs": [-0.5, -0.1]}
            for g in range(GROUPS) for n in range(SAMPLES)
        ]  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        torch.save({"rollout_id": b, "metadata": {}, "samples": samples}, folder / f"rollout_{b}.pt")
    return folder


NATIVE = {"prime_rl": (prime_rl, {}), "tinker_cookbook": (tinker_cookbook, {})}
NATIVE |= {name: (miles, {"start_is": "start"}) for name in ("miles", "slime")}


@pytest.mark.parametrize("stack", NATIVE)
def test_what_the_trainer_writes_gives_back_the_staleness(stack: str, tmp_path: Path) -> None:
    write, more = NATIVE[stack]
    assert np.array_equal(heads(write(tmp_path / "run"), stack, **more), HEADS)
    assert STACKS[stack].whole and stack not in WRITERS


def test_stamps_at_the_end_of_a_call_leave_the_first_token_unknown(tmp_path: Path) -> None:
    log = replay(miles(tmp_path / "run"), stack="miles", unknown="keep").log
    assert np.isnan(log.samples["head"]).all() and np.array_equal(log.samples["newest"][log.grid], HEADS)


def test_turns_have_their_lengths_summed(tmp_path: Path) -> None:
    log = replay(tinker_cookbook(tmp_path / "run"), stack="tinker_cookbook").log
    assert (log.steps.length == 7).all()


def test_steps_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Ten comes behind nine: names alone would put step_10 before step_2."""
    for b in range(12):
        run = {"work": {"policy": {"start": b, "end": b}}}
        lines(tmp_path / f"rollouts/step_{b + 1}/train/effective/traces.jsonl", [{"id": f"e{b}", "run": run}])
    log = replay(tmp_path, stack="prime_rl").log
    assert log.samples["trajectory"][log.grid].ravel().tolist() == list(range(12))


# The writer makes the log.


def areal(path: Path) -> None:
    """AReaL@4aef98d trainer/rl_trainer.py:573: trajectories with `versions` and `loss_mask`, -1 on the prompt."""
    for b in range(BATCHES):
        groups = []
        for g in range(GROUPS):
            row = [-1, -1, start_of(b, g), start_of(b, g), -1]
            mask = [0, 0, 1, 1, 0]
            groups.append({"versions": torch.tensor([row] * SAMPLES), "loss_mask": torch.tensor([mask] * SAMPLES)})
        WRITERS["areal"](str(path), b, groups)


def verl(path: Path) -> None:
    """verl@1dda039 trainer/ppo/v1/trainer_base.py:1792, 1868: tags, and trained steps that count from 1."""
    for b in range(BATCHES):
        pairs = [(g, n) for g in range(GROUPS) for n in range(SAMPLES)]
        tags = [{"min_global_steps": start_of(b, g), "max_global_steps": start_of(b, g)} for g, _ in pairs]
        WRITERS["verl"](str(path), b + 1, [f"u{b}{g}" for g, _ in pairs], tags)


def verl_fully_async(path: Path) -> None:
    """verl@1dda039 experimental/fully_async_policy/detach_utils.py:151: arrays of the batch."""
    for b in range(BATCHES):
        pairs = [(g, n) for g in range(GROUPS) for n in range(SAMPLES)]
        versions = np.array([start_of(b, g) for g, _ in pairs], dtype=object)
        names = np.array([f"u{b}{g}" for g, _ in pairs], dtype=object)
        batch = {"uid": names, "min_global_steps": versions, "max_global_steps": versions}
        WRITERS["verl_fully_async"](str(path), b, b, batch)


def skyrl(path: Path) -> None:
    """SkyRL@a956457 train/fully_async_trainer.py:81, 997: steps count from 1 on both sides."""
    for b in range(BATCHES):
        groups = [
            Record(
                generator_output={"response_ids": [[1, 2]] * SAMPLES},
                uid=f"u{g}",
                global_step_when_scheduled=start_of(b, g) + 1,
            )
            for g in range(GROUPS)
        ]
        WRITERS["skyrl"](str(path), b + 1, groups)


def roll(path: Path) -> None:
    """ROLL@8eb27cc distributed/scheduler/generate_scheduler.py:709: current step less `sampling_start_step`."""
    for b in range(BATCHES):
        items = [Record(sampling_start_step=start_of(b, g), prompt_id=g) for g in range(GROUPS) for _ in range(SAMPLES)]
        WRITERS["roll"](str(path), b, items)


def nemo_rl(path: Path) -> None:
    """RL@7ea279a algorithms/async_utils/replay_buffer.py:293: a weight version for each group that is selected."""
    for b in range(BATCHES):
        WRITERS["nemo_rl"](str(path), b, [start_of(b, g) for g in range(GROUPS)], SAMPLES)


def trl(path: Path) -> None:
    """trl@f2cd577 experimental/async_grpo/async_grpo_trainer.py:277: versions begin at 1, with the first push."""
    for number, (b, g, _) in enumerate(EVERY):
        sample = Record(model_version=start_of(b, g) + 1, group_id=b * GROUPS + g, completion_mask=[0, 1, 1])
        WRITERS["trl"](str(path), number, sample, b + 1)


def open_instruct(path: Path) -> None:
    """open-instruct@e6c3044 data_loader.py:893, 970: training steps count from 1, model steps from 0."""
    for b in range(BATCHES):
        results = [Record(model_step=start_of(b, g), responses=[[5, 6]] * SAMPLES) for g in range(GROUPS)]
        WRITERS["open_instruct"](str(path), b + 1, results)


def pipeline_rl(path: Path) -> None:
    """PipelineRL@58d3934 finetune_loop.py:938-947: versions count samples; here 6 of them are one publish."""
    for number, (b, g, _) in enumerate(EVERY):
        WRITERS["pipeline_rl"](str(path), number, 6 * b, 6 * start_of(b, g))


def torchtitan(path: Path) -> None:
    """torchtitan@b5bcd76 experiments/rl/types.py:71, components/batcher.py:192: a sample's versions, the trainer's."""
    for b in range(BATCHES):
        samples = [
            Record(
                rollout_id=Record(group_id=f"{b}.{g}"),
                min_policy_version=start_of(b, g),
                max_policy_version=start_of(b, g),
                loss_mask=[False, True, True],
            )
            for g in range(GROUPS)
            for _ in range(SAMPLES)
        ]
        WRITERS["torchtitan"](str(path), b, samples)


def torchforge(path: Path) -> None:
    """torchforge@6e77f0b apps/grpo/main.py:40-58, 434: an episode's generator version, the training step."""
    for b in range(BATCHES):
        completion = Record(token_ids=torch.tensor([1, 2]))
        episodes = [
            Record(policy_version=start_of(b, g), completion=completion) for g in range(GROUPS) for _ in range(SAMPLES)
        ]
        WRITERS["torchforge"](str(path), b, episodes)


STUBS = [areal, verl, verl_fully_async, skyrl, roll, nemo_rl, trl, open_instruct, pipeline_rl, torchtitan, torchforge]


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: stub.__name__)
def test_what_the_writer_keeps_gives_back_the_staleness(stub: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    stub(path)
    more = {"samples_per_publish": 6} if stub is pipeline_rl else {}
    found = heads(path, stub.__name__, **more)
    assert np.array_equal(found.ravel(), HEADS.ravel())
    if stub not in (pipeline_rl, torchforge):
        assert found.shape == HEADS.shape, "groups of two"


def test_every_stack_is_read_as_written_or_has_a_writer_of_15_lines() -> None:
    assert set(NATIVE) | {stub.__name__ for stub in STUBS} == set(STACKS)
    assert {name for name, stack in STACKS.items() if not stack.whole} == set(WRITERS)
    for name, text in logs.writers().items():
        assert len(text.splitlines()) <= 15, name
    assert all("@" in stack.source and stack.disk for stack in STACKS.values())


# A wrong column is refused, and the right one named.


@pytest.mark.parametrize(
    ("stack", "columns", "right"),
    [
        ("prime_rl", "train_version=run.work.step", "path:step_#"),
        ("prime_rl", {"train_version": "step"}, "the step at which the sample was dispatched"),
        ("areal", "start_version=head_version", "versions of generated tokens"),
        ("areal", "train_version=tail_version", "no file has the trained version"),
    ],
)
def test_a_wrong_column_is_refused(stack: str, columns: Any, right: str, tmp_path: Path) -> None:
    # AReaL@4aef98d infra/workflow_executor.py:876-920: the dump of a task.
    row = {"task_id": 7, "sample_idx": 0, "seqlen": 9, "prompt_len": 4, "head_version": -1, "tail_version": 3}
    path = prime_rl(tmp_path / "run") if stack == "prime_rl" else lines(tmp_path / "3/7.jsonl", [row])
    caught = refused("the right column of this trainer", replay, path, stack=stack, columns=columns)
    assert right in str(caught)


STAMPED = {
    name: {theirs for ours in STAMPS for theirs in stack.columns.get(ours, ())} for name, stack in STACKS.items()
}


@pytest.mark.parametrize("named", STACKS)
def test_a_log_of_another_trainer_is_refused_by_the_name_of_its_own(named: str, tmp_path: Path) -> None:
    own = STAMPED[named] | (set() if STACKS[named].whole else {*STAMPS} & {*STACKS[named].columns})
    for other, stamps in STAMPED.items():
        theirs = sorted(stamps)[0]
        row = {"sample_id": 0, "train_version": 3, theirs: [2] if theirs.endswith("versions") else 2}
        path = lines(tmp_path / f"{other}.jsonl", [row])
        if theirs in own:
            continue
        caught = refused("^stack = ", replay, path, stack=named)
        assert f"{theirs} of {other}" in str(caught) and f"stack='{other}'" in str(caught)


def test_a_log_under_our_names_is_of_trainers_with_a_writer_only(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.jsonl", [{"sample_id": k, "start_version": k, "train_version": k} for k in range(3)])
    assert np.array_equal(heads(path, "skyrl"), np.zeros((3, 1, 1)))
    assert "leave stack out" in str(refused("stack", replay, path, stack="prime_rl"))


def test_a_dump_without_the_trained_version_leads_to_the_writer(tmp_path: Path) -> None:
    row = {"task_id": 7, "sample_idx": 0, "seqlen": 9, "prompt_len": 4, "head_version": -1, "tail_version": 3}
    path = lines(tmp_path / "3/7.jsonl", [row])
    with pytest.raises(InputError, match="asyncsim list logs areal"):
        replay(path.parent.parent, stack="areal", columns="sample_id=task_id+sample_idx")


def test_a_single_file_lacks_the_step_of_its_folder(tmp_path: Path) -> None:
    path = prime_rl(tmp_path / "run") / "rollouts/step_1/train/effective/traces.jsonl"
    assert np.array_equal(heads(path, "prime_rl"), HEADS[:1])
    moved = tmp_path / "traces.jsonl"
    moved.write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="path:step_#"):
        replay(moved, stack="prime_rl")


# Names inside names, lists, packed files.


def test_names_with_dots() -> None:
    record = {"a": {"b": 1, "c.d": 2}, "a.b": 9, "turns": [{"v": 1}, {"v": 2}], "empty": [], "mixed": [{"v": 1}, {}]}
    assert _log_cells.inner(record, "a.b") == 9, "a name as it stands comes first"
    assert _log_cells.inner({"a": {"b": 1}}, "a.b") == 1
    assert _log_cells.inner(record, "turns.v") == [1, 2]
    for name in ("a.x", "x.y", "turns.w", "empty.v", "mixed.v", "turns.v.w"):
        assert _log_cells.inner(record, name) is _log_cells.LACKING, name


PLAIN = "sample_id={0}id,start_version={0}v,train_version={0}t"
ROWS = [{"id": i, "v": max(0, i - 1), "t": i} for i in range(5)]


def nested(kind: str, path: Path) -> Path:
    rows = [{"run": {"policy": row}} for row in ROWS]
    if kind == "parquet":
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path / "log.parquet")
        return path / "log.parquet"
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    place = path / f"log.{kind}"
    if kind.endswith("zst"):
        import pyarrow as pa

        with pa.output_stream(str(place), compression="zstd") as file:
            file.write(text)
    elif kind.endswith("gz"):
        place.write_bytes(gzip.compress(text))
    elif kind == "pt":
        torch.save(rows, place)
    elif kind == "pkl":
        place.write_bytes(pickle.dumps(rows))
    else:
        place.write_bytes(text)
    return place


@pytest.mark.parametrize("kind", ["jsonl", "ndjson", "jsonl.gz", "jsonl.zst", "parquet", "pt", "pkl"])
def test_nested_names_in_every_kind_of_file(kind: str, tmp_path: Path) -> None:
    log = replay(nested(kind, tmp_path), columns=PLAIN.format("run.policy."), unit="publishes").log
    assert log.samples["head"][log.grid].ravel().tolist() == [0, 1, 1, 1, 1]


def test_one_file_and_many_shards_are_one_log(tmp_path: Path) -> None:
    for i, row in enumerate(ROWS):
        lines(tmp_path / f"shard-{i}.jsonl", [row])
    whole = lines(tmp_path / "all" / "log.jsonl", ROWS)
    for place in (tmp_path / "shard-*.jsonl", whole, whole.parent):
        log = replay(place, columns=PLAIN.format(""), unit="publishes").log
        assert log.samples["head"][log.grid].ravel().tolist() == [0, 1, 1, 1, 1] and log.rows == 5
    # The name of a log of many files depends on each of them.
    first = replay(tmp_path / "shard-*.jsonl", columns=PLAIN.format(""), unit="publishes").log.digest
    lines(tmp_path / "shard-4.jsonl", [])
    (tmp_path / "shard-4.jsonl").write_text(json.dumps(ROWS[4]) + " \n")
    assert replay(tmp_path / "shard-*.jsonl", columns=PLAIN.format(""), unit="publishes").log.digest != first


def test_a_record_of_lists_is_a_row_for_each_sample(tmp_path: Path) -> None:
    """ROLL@8eb27cc pipeline/rlvr/utils.py:19-45: one record a step; here with the stamp that it lacks today."""
    for step in range(4):
        row = {"global_step": [step] * 2, "id": [f"{step}a", f"{step}b"], "sampling_start_step": [max(0, step - 1)] * 2}
        lines(tmp_path / f"rollout_dump_data.step_{step}.jsonl", [row])
    log = replay(tmp_path, stack="roll", columns="sample_id=id").log
    assert log.samples["head"][log.grid].ravel().tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    lines(tmp_path / "rollout_dump_data.step_4.jsonl", [{"global_step": [4], "id": ["a", "b"]}])
    with pytest.raises(InputError, match=r"record 1, column id = 2: must be 1 entries|column global_step = 1"):
        replay(tmp_path, stack="roll", columns="sample_id=id")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(["step_", "rank", "a"]), st.integers(0, 10**6)), min_size=1, max_size=3))
def test_numbers_of_paths(parts: list[tuple[str, int]]) -> None:
    name = "/".join(f"{text}{number}" for text, number in parts) + "/x.jsonl"
    wanted = [number for text, number in parts if text == "step_"]
    found = _log_places.number("path:step_#", _log_places.Place(Path(name), name))
    assert found == (wanted[0] if wanted else None)


# Files of tensors and pickles hold values, never code.


class Code:
    """Runs when it is unpickled."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('code of a log ran')",))


@pytest.mark.parametrize("kind", ["pkl", "pt"])
def test_code_in_a_file_is_refused_and_not_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{kind}"
    rows = [{"id": 0, "v": 0, "t": 0, "extra": Code()}]
    if kind == "pkl":
        path.write_bytes(pickle.dumps(rows))
    else:
        torch.save(rows, path)
    with pytest.raises(InputError, match="must be a whole file of tensors and plain values"):
        replay(path, columns=PLAIN.format(""), unit="publishes")


@pytest.mark.parametrize("kind", ["pkl", "pt"])
def test_tensors_and_arrays_are_columns(kind: str, tmp_path: Path) -> None:
    columns = {"id": list(range(5)), "v": np.array([0, 0, 1, 2, 3]), "t": torch.arange(5)}
    path = tmp_path / f"log.{kind}"
    if kind == "pkl":
        path.write_bytes(pickle.dumps(columns | {"t": np.arange(5)}))
    else:
        torch.save(columns | {"v": torch.tensor([0, 0, 1, 2, 3])}, path)
    log = replay(path, columns=PLAIN.format(""), unit="publishes").log
    assert log.samples["head"][log.grid].ravel().tolist() == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("kind", ["pkl", "pt", "jsonl.zst"])
@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_truncated_files_are_refused(kind: str, cut: int, tmp_path: Path) -> None:
    path = nested(kind, tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    refused(r"path|sample_id", lambda: replay(path, columns=PLAIN.format("run.policy."), unit="publishes"))


def test_a_pickle_larger_than_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.pkl"
    path.write_bytes(pickle.dumps([{"id": i, "v": 0, "t": 0} for i in range(20_000)]))
    monkeypatch.setenv(files.LIMIT, "1000000")
    refused("ASYNCSIM_READ_LIMIT", lambda: replay(path, columns=PLAIN.format(""), unit="publishes"))


def test_names_that_a_pickle_may_have_build_nothing_else() -> None:
    for module, name in _log_files.NAMED:
        assert module.split(".")[0] in ("collections", "numpy", "builtins") and name not in ("eval", "exec", "getattr")
    with pytest.raises(_log_files._Refused):
        _log_files._Plain(io.BytesIO(pickle.dumps(Path("x")))).load()


def test_a_folder_without_logs_and_a_pattern_that_nothing_fits(tmp_path: Path) -> None:
    for place, bound in (
        (tmp_path, "a folder with files ending in"),
        (tmp_path / "*.jsonl", "a pattern that some file fits"),
    ):
        refused(bound, replay, place, unit="publishes")
    (tmp_path / "x.jsonl").write_text("{}\n")
    refused(r"train/effective/traces\.jsonl", replay, tmp_path, stack="prime_rl")


# On the command line.


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return int(end.value.code or 0)


def test_the_command_reports_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = prime_rl(tmp_path / "run")
    picture, data = tmp_path / "log.png", tmp_path / "log.json"
    assert call("log", str(path), "--stack", "prime-rl", "--plot", str(picture), "--json", str(data)) == 0
    out = capsys.readouterr().out
    assert f"mean {HEADS.mean():.3f}, p99 2, max 2" in out and "cannot be told" in out
    assert picture.stat().st_size > 10_000
    assert json.loads(data.read_text())["staleness"]["head"]["mean"] == HEADS.mean()
    assert call("log", str(path), "--stack", "prime-rl", "--set", "speed=3") == 2
    assert "--set = 'speed'" in capsys.readouterr().err


def test_formats_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "logs") == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == len(STACKS) and sum("read as written" in row for row in rows) == len(NATIVE)
    assert call("list", "logs", "areal") == 0
    page = capsys.readouterr().out
    assert "def areal(" in page and "not head_version for start_version" in page and "4aef98d" in page
    assert logs.described("prime-rl")["writer"] is None
    assert call("list", "logs", "nobody") == 2


def test_a_planted_defect_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An offset forgotten, the order of names for that of numbers, the wrong folder: each changes what is read."""
    path = prime_rl(tmp_path / "run")
    for change in ({"train_offset": 0}, {"layout": _log_files.Layout("*/train/all/traces.jsonl")}):
        with monkeypatch.context() as patch:
            patch.setitem(_log_stacks.STACKS, "prime_rl", STACKS["prime_rl"]._replace(**change))
            refused("", heads, path, "prime_rl")
    with monkeypatch.context() as patch:
        patch.setitem(_log_stacks.STACKS, "miles", STACKS["miles"]._replace(paired={}))
        with pytest.raises(InputError, match="data cannot be trained on before its weights exist"):
            heads(miles(tmp_path / "m"), "miles", start_is="start")
