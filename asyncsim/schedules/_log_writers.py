"""Writers to paste into a trainer that keeps no stamps on disk: one JSON line a sample, under this package's names.

Each is called where its docstring says, and needs nothing of this package. Versions count
publishes from 0, so that `replay(path, stack=...)` reads what they write.
"""

from __future__ import annotations

import json
from typing import Any


def areal(path: str, global_step: int, trajectories: list[dict[str, Any]]) -> None:
    """In areal/trainer/rl_trainer.py behind `rollout_batch = self.actor.prepare_batch(...)`: pass that list."""
    with open(path, "a") as file:
        for group, each in enumerate(trajectories):
            rows = zip(each["versions"].tolist(), each["loss_mask"].tolist(), strict=True)
            for number, (versions, mask) in enumerate(rows):
                generated = [v for v, m in zip(versions, mask, strict=True) if m]
                row = {"sample_id": f"{global_step}.{group}.{number}", "group_id": f"{global_step}.{group}"}
                file.write(json.dumps(row | {"versions": generated, "train_version": global_step}) + "\n")


def verl(path: str, global_steps: int, uid: list[Any], tags: list[dict[str, int]]) -> None:
    """In verl/trainer/ppo/v1/trainer_base.py beside `trajectory_staleness`: `batch.tags` without padding."""
    with open(path, "a") as file:
        for number, (group, tag) in enumerate(zip(uid, tags, strict=True)):
            row = {"sample_id": f"{global_steps}.{number}", "group_id": str(group), "train_version": global_steps - 1}
            ends = {"start_version": int(tag["min_global_steps"]), "end_version": int(tag["max_global_steps"])}
            file.write(json.dumps(row | ends) + "\n")


def verl_fully_async(path: str, current_param_version: int, step: int, batch: dict[str, Any]) -> None:
    """In the trainer of verl's fully asynchronous policy, behind batch assembly: pass `batch.non_tensor_batch`."""
    rows = zip(batch["uid"], batch["min_global_steps"], batch["max_global_steps"], strict=True)
    with open(path, "a") as file:
        for number, (group, first, last) in enumerate(rows):
            row = {"sample_id": f"{step}.{number}", "group_id": str(group), "batch": step}
            ends = {"start_version": int(first), "end_version": int(last), "train_version": current_param_version}
            file.write(json.dumps(row | ends) + "\n")


def skyrl(path: str, global_step: int, groups: list[Any]) -> None:
    """In skyrl/train/fully_async_trainer.py where the groups of a mini-batch become training input."""
    with open(path, "a") as file:
        for group in groups:
            for number, tokens in enumerate(group.generator_output["response_ids"]):
                row = {"sample_id": f"{global_step}.{group.uid}.{number}", "group_id": f"{global_step}.{group.uid}"}
                steps = {"start_version": group.global_step_when_scheduled - 1, "train_version": global_step - 1}
                file.write(json.dumps(row | steps | {"tokens": len(tokens)}) + "\n")


def roll(path: str, current_step: int, finished_items: list[Any]) -> None:
    """In roll/distributed/scheduler/generate_scheduler.py, at the head of `collect_items_as_batch`."""
    with open(path, "a") as file:
        for number, item in enumerate(finished_items):
            row = {"sample_id": f"{current_step}.{number}", "group_id": f"{current_step}.{item.prompt_id}"}
            steps = {"start_version": item.sampling_start_step, "train_version": current_step}
            file.write(json.dumps(row | steps) + "\n")


def nemo_rl(path: str, current_weight_version: int, sampled_weights: list[int], group_size: int) -> None:
    """In nemo_rl/algorithms/async_utils/replay_buffer.py behind `sampled_weights = [...]`, a version for each group."""
    with open(path, "a") as file:
        for group, version in enumerate(sampled_weights):
            for number in range(group_size):
                name = f"{current_weight_version}.{group}"
                row = {"sample_id": f"{name}.{number}", "group_id": name, "start_version": version}
                file.write(json.dumps(row | {"train_version": current_weight_version}) + "\n")


def trl(path: str, number: int, sample: Any, model_version: int) -> None:
    """In trl/experimental/async_grpo/async_grpo_trainer.py before `yield`, for every sample; versions begin at 1."""
    row = {"sample_id": number, "group_id": sample.group_id, "tokens": int(sum(sample.completion_mask))}
    steps = {"start_version": sample.model_version - 1, "train_version": model_version - 1}
    with open(path, "a") as file:
        file.write(json.dumps(row | steps) + "\n")


def open_instruct(path: str, training_step: int, results: list[Any]) -> None:
    """In open_instruct/data_loader.py where the results of a batch are joined; the first step is 1, on version 0."""
    with open(path, "a") as file:
        for group, result in enumerate(results):
            for number, response in enumerate(result.responses):
                name = f"{training_step}.{group}"
                row = {"sample_id": f"{name}.{number}", "group_id": name, "tokens": len(response)}
                steps = {"start_version": result.model_step, "train_version": training_step - 1}
                file.write(json.dumps(row | steps) + "\n")


def pipeline_rl(path: str, passes: int, last_broadcasted_version: int, model_version: int) -> None:
    """In pipelinerl/finetune_loop.py at `training_metrics.passes += 1`; versions count samples, oldest of the pack."""
    row = {"sample_id": passes, "start_version": model_version, "train_version": last_broadcasted_version}
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def torchtitan(path: str, policy_version: int, training_samples: list[Any]) -> None:
    """In torchtitan/experiments/rl/components/batcher.py where a batch is built: its samples, the trainer's version."""
    with open(path, "a") as file:
        for number, sample in enumerate(training_samples):
            name = {"sample_id": f"{policy_version}.{number}", "group_id": f"{sample.rollout_id.group_id}"}
            ends = {"start_version": sample.min_policy_version, "end_version": sample.max_policy_version}
            row = name | ends | {"train_version": policy_version, "tokens": int(sum(sample.loss_mask))}
            file.write(json.dumps(row) + "\n")


def torchforge(path: str, training_step: int, episodes: list[Any]) -> None:
    """In apps/grpo/main.py behind `replay_buffer.sample.call_one(...)`: the episodes of this step."""
    with open(path, "a") as file:
        for number, episode in enumerate(episodes):
            row = {"sample_id": f"{training_step}.{number}", "tokens": len(episode.completion.token_ids)}
            steps = {"start_version": episode.policy_version, "train_version": training_step}
            file.write(json.dumps(row | steps) + "\n")


WRITERS = {
    f.__name__: f
    for f in (areal, verl, verl_fully_async, skyrl, roll, nemo_rl, trl, open_instruct, pipeline_rl, torchtitan)
} | {"torchforge": torchforge}
"""By the name of the trainer."""
