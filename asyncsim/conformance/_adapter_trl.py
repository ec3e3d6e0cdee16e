"""GRPOTrainer's loss on given log-probs: the trainer's own method, called on an object with what that method reads."""

from __future__ import annotations

import warnings
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance._loss_subject import Loss

_OWN = "settings of this adapter are loss_type, old, cap, and the fields of GRPOConfig"
_REFUSED = ("beta", "top_entropy_quantile", "use_liger_kernel", "entropy_coef", "use_adaptive_entropy")


class _Alone:
    """An accelerator of one process."""

    num_processes = 1
    sync_gradients = True
    is_main_process = True

    def gather(self, value: Tensor) -> Tensor:
        """The tensor itself."""
        return value.detach().reshape(-1)

    gather_for_metrics = gather

    def reduce(self, value: Tensor, reduction: str = "sum") -> Tensor:
        """The tensor itself."""
        return value


def loss(loss_type: str, old: str = "proximal", cap: float | None = None, **settings: Any) -> Loss:
    """A loss of the installed trl; see `adapters.trl`."""
    checks.one_of("old", old, ("proximal", "behavior"), "say which log-probs are the old ones")
    trainer_class, arguments = _installed(loss_type, settings)

    def asked(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        trainer = _trainer(trainer_class, arguments, log_prob, cap is not None)
        before = proximal if old == "proximal" else behavior
        inputs = {
            "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
            "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
            "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
            "completion_mask": mask,
            "advantages": advantages[:, 0],
            "old_per_token_logps": before,
            "sampling_per_token_logps": behavior,
            "num_items_in_batch": mask.sum(),
        }
        if cap is not None:
            gap = torch.where(mask > 0, before - behavior, torch.zeros_like(mask))
            inputs["importance_sampling_ratio"] = gap.exp().clamp(max=cap).detach()
        found: Tensor = trainer._compute_loss(trainer.model, inputs)
        return found

    return asked


def _installed(loss_type: str, settings: dict[str, Any]) -> tuple[Any, Any]:
    try:
        from trl import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer
    except ImportError as error:
        raise checks.InputError("trl", None, "installed", "run `pip install trl`") from error
    for name in settings:
        remedy = "leave it out: it needs a model"
        checks.require(name not in _REFUSED, f"trl {name}", settings[name], "left out", remedy)
    try:
        quiet: dict[str, Any] = {"output_dir": "unused", "report_to": "none", "bf16": False, "use_cpu": True}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of its own defaults
            arguments = GRPOConfig(**quiet, loss_type=loss_type, **settings)
    except (TypeError, ValueError) as error:
        raise checks.InputError("trl settings", settings, f"those of GRPOConfig ({error})", _OWN) from error
    return GRPOTrainer, arguments


def _trainer(trainer_class: Any, arguments: Any, log_prob: Tensor, corrected: bool) -> Any:
    """An object of the trainer's class that was never initialized, with the attributes that its loss reads."""
    trainer = object.__new__(trainer_class)
    high = arguments.epsilon if arguments.epsilon_high is None else arguments.epsilon_high
    steps = arguments.steps_per_generation or arguments.gradient_accumulation_steps
    trainer.__dict__.update(
        args=SimpleNamespace(**{**vars(arguments), "steps_per_generation": steps}),
        model=SimpleNamespace(training=True),
        accelerator=_Alone(),
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
        loss_type=arguments.loss_type,
        epsilon_low=arguments.epsilon,
        epsilon_high=high,
        beta=0.0,
        importance_sampling_level=arguments.importance_sampling_level,
        top_entropy_quantile=1.0,
        max_completion_length=log_prob.shape[1],
        off_policy_mask_threshold=arguments.off_policy_mask_threshold,
        use_vllm=corrected,
        vllm_importance_sampling_correction=corrected,
        aux_loss_enabled=False,
        current_gradient_accumulation_steps=steps,
        _entropy_bonus_enabled=False,
        use_adaptive_entropy=False,
    )
    rows = log_prob, torch.zeros_like(log_prob), None
    trainer.__dict__["_get_per_token_logps_and_entropies"] = lambda *_, **__: rows
    return trainer
