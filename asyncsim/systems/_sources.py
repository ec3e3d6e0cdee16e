"""Where each preset was read: repository and commit, or paper, and when."""

from __future__ import annotations

from typing import NamedTuple


class Source(NamedTuple):
    """What a preset was read from: a repository at a commit, a paper or a textbook, and the date of what was read."""

    origin: str
    date: str
    path: str
    kind: str = "source"

    def line(self) -> str:
        """One line for a reader.

        >>> Source("owner/name@1234567", "2026-08-22", "name/gate.py").line()
        'Read: owner/name@1234567 name/gate.py, of 2026-08-22 (source)'
        """
        place = f"{self.origin} {self.path}".strip()
        dated = ", ".join(part for part in (place, f"of {self.date}" if self.date else "") if part)
        return f"Read: {dated} ({self.kind})" if dated else f"Read: no trainer's source ({self.kind})"


_AREAL = ("inclusionAI/AReaL@4aef98d", "2026-05-21")
_COOKBOOK = ("thinking-machines-lab/tinker-cookbook@9dfcc3a", "2026-08-19")
_NEMO = ("NVIDIA-NeMo/RL@7ea279a", "2026-08-22")
_PRIME = ("PrimeIntellect-ai/prime-rl@559b447", "2026-08-21")
_ROLL = ("alibaba/ROLL@8eb27cc", "2026-08-19")
_SLIME = ("THUDM/slime@624b824", "2026-08-21")
_VERL = ("verl-project/verl@1dda039", "2026-08-22")
_SAMPLERS = "nemo_rl/algorithms/async_utils/staleness_sampler.py"
_TEXTBOOK = Source("", "", "", "textbook")

SOURCES = {
    "areal": Source(*_AREAL, "areal/infra/staleness_manager.py"),
    "buffered": _TEXTBOOK,
    "fixed_lag": _TEXTBOOK,
    "m2po": Source("Infini-AI-Lab/M2PO@af54a3e", "2025-10-08", "verl/trainer/ppo/ray_trainer.py"),
    "megatron_rl": Source("NVIDIA/Megatron-LM@d98e8a6", "2026-08-22", "megatron/rl/agent/rollout_pipeline.py"),
    "miles": Source("radixark/miles@31f1ca9", "2026-08-21", "miles/rollout/fully_async_data_buffer.py"),
    "minimax_forge": Source("arXiv 2605.26494", "2026-05-26", "section 6.2.4", "reconstruction from a paper"),
    "nemo_rl_in_order": Source(*_NEMO, _SAMPLERS),
    "nemo_rl_legacy": Source(*_NEMO, "nemo_rl/algorithms/async_utils/trajectory_collector.py"),
    "nemo_rl_ready_first": Source(*_NEMO, _SAMPLERS),
    "nemo_rl_weight_fifo": Source(*_NEMO, _SAMPLERS),
    "nemo_rl_windowed": Source(*_NEMO, _SAMPLERS),
    "oapl": Source("arXiv 2602.19362", "2026-02", "", "reconstruction from a paper"),
    "one_step_off": Source(*_VERL, "verl/experimental/one_step_off_policy/ray_trainer.py"),
    "open_instruct": Source("allenai/open-instruct@e6c3044", "2026-08-20", "open_instruct/data_loader.py"),
    "openrlhf": Source("OpenRLHF/OpenRLHF@3c3be62", "2026-08-13", "openrlhf/trainer/ppo_trainer_async.py"),
    "pipeline_rl": Source("ServiceNow/PipelineRL@58d3934", "2026-06-19", "pipelinerl/actor.py"),
    "prime_rl": Source(*_PRIME, "src/prime_rl/orchestrator/dispatcher.py"),
    "prime_rl_before": Source("PrimeIntellect-ai/prime-rl", "2026-05", "", "an earlier revision, not read again"),
    "roll_environment_groups": Source(*_ROLL, "roll/distributed/scheduler/rollout_scheduler.py"),
    "roll_single_turn": Source(*_ROLL, "roll/distributed/scheduler/generate_scheduler.py"),
    "skyrl": Source("NovaSky-AI/SkyRL@a956457", "2026-08-21", "skyrl/train/fully_async_trainer.py"),
    "slime_fully_async": Source(*_SLIME, "slime/rollout/fully_async_rollout.py"),
    "slime_train_async": Source(*_SLIME, "train_async.py"),
    "synchronous": _TEXTBOOK,
    "tba": Source("bbartoldson/TBA@c6075e2", "2025-04-09", "src/tba_trainer_gsm8k.py"),
    "tinker_cookbook": Source(*_COOKBOOK, "tinker_cookbook/rl/train.py"),
    "tinker_cookbook_pipelined": Source(
        "thinking-machines-lab/tinker-cookbook", "", "pull request 822", "a proposal, not in the trainer"
    ),
    "torchforge": Source("meta-pytorch/torchforge@6e77f0b", "2025-11-15", "src/forge/actors/replay_buffer.py"),
    "torchtitan": Source("pytorch/torchtitan@b5bcd76", "2026-08-21", "torchtitan/experiments/rl/controller.py"),
    "trl": Source("huggingface/trl@f2cd577", "2026-07-24", "trl/experimental/async_grpo/async_rollout_worker.py"),
    "unirl": Source("Tencent-Hunyuan/UniRL@7fc7f53", "2026-08", "unirl/trainer/async_rollout.py"),
    "update_on_arrival": _TEXTBOOK,
    "vcpo": Source("mit-han-lab/vcpo@c7f030f", "2026-03-02", "recipe/fully_async_policy/fully_async_rollouter.py"),
    "verl_fully_async": Source(*_VERL, "verl/experimental/fully_async_policy/fully_async_rollouter.py"),
    "verl_separate_async": Source(*_VERL, "verl/trainer/ppo/v1/replay_buffer.py"),
    "xtuner": Source("InternLM/xtuner@b934f46", "2026-08-21", "xtuner/v1/rl/agent_loop_manager/disagg_producer.py"),
}
"""What each preset of this folder was read from, in November 2026; dates are those of the commit or the paper."""


def table() -> str:
    """The table of `PRESETS.md`: its rows are those of `SOURCES`."""
    rows = [f"| `{name}` | {s.origin} | {s.path} | {s.date} | {s.kind} |" for name, s in SOURCES.items()]
    return "\n".join(("| preset | repository or paper | path | of | read |", "|---|---|---|---|---|", *rows))
