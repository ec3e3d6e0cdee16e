"""Losses of trainers in the form that `check_loss` expects: five tensors `[B, T]` in, a scalar out.

`verl`, `areal`, `roll` and `openrlhf` take your function or module, written in the style of that trainer, with the
settings it needs; `trl` and `torchrl` take settings and ask the losses of those packages as they are installed.
"""

import inspect
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import calls, checks
from asyncsim.base.arguments import STYLES
from asyncsim.conformance._loss_subject import Loss

__all__ = ["areal", "openrlhf", "roll", "torchrl", "trl", "verl"]


def verl(fn: Callable[..., Any], old: str = "proximal", cap: float | None = None, **settings: Any) -> Loss:
    """fn(old_log_prob, log_prob, advantages, response_mask, ...) -> loss, or a tuple that begins with it.

    `old`: the log-probs that are handed over as old ones, "proximal" (recomputed) or "behavior" (bypass mode); `cap`:
    hand over `rollout_is_weights`, the ratio of pi_prox to mu truncated there. `settings` go to fn.

    >>> def compute_policy_loss(old_log_prob, log_prob, advantages, response_mask, cliprange=0.2):
    ...     ratio = torch.exp((log_prob - old_log_prob) * response_mask)
    ...     worse = torch.min(ratio * advantages, ratio.clamp(1 - cliprange, 1 + cliprange) * advantages)
    ...     return -(worse * response_mask).sum() / response_mask.sum(), "metrics"
    >>> from asyncsim.conformance import check_loss
    >>> check_loss(verl(compute_policy_loss), like="ppo_clip", bias=False).anchor
    'proximal'
    """
    return _adapted("verl", fn, old, settings, cap)


def areal(fn: Callable[..., Any], eps_clip: float = 0.2, **settings: Any) -> Loss:
    """fn(logprobs, proximal_logprobs, old_logprobs, advantages, eps_clip, loss_mask, ...) -> loss, or (loss, stats).

    `old_logprobs` are those of the behavior policy, the mask is boolean; `settings` go to fn.
    """
    return _adapted("areal", fn, "proximal", settings, eps_clip=eps_clip)


def roll(fn: Callable[..., Any], old: str = "proximal", **settings: Any) -> Loss:
    """fn(log_probs, old_log_probs, advantages, response_mask, ...) -> loss, or a tuple that begins with it.

    Where fn has an argument `infer_log_probs`, it gets those of the behavior policy; the mask holds integers. `old`:
    "proximal" or "behavior"; `settings` go to fn.
    """
    return _adapted("roll", fn, old, settings)


def openrlhf(module: Callable[..., Any], old: str = "proximal", **settings: Any) -> Loss:
    """module(log_probs, old_log_probs, advantages, action_mask=..., ...) -> loss, or a tuple that begins with it.

    Where it has an argument `rollout_log_probs`, it gets those of the behavior policy. `old`: "proximal" or "behavior";
    `settings` go to the call. For the command line, make the module in the file and name the instance: with
    `loss = PolicyLoss(0.3)` in file.py, `asyncsim conformance file.py:loss --adapter openrlhf`.
    """
    return _adapted("openrlhf", module, old, settings)


def trl(loss_type: str = "dapo", old: str = "proximal", **settings: Any) -> Loss:
    """Loss of GRPOTrainer in the installed trl, without a model: any `loss_type`, and settings of GRPOConfig.

    `old`: "proximal" (several updates on a batch) or "behavior". With `use_vllm=True` the loss is multiplied by pi_prox
    over mu as TRL does it: `vllm_importance_sampling_mode` (by default "sequence_mask": a sequence whose product of
    ratios is above the bound gets weight 0), `vllm_importance_sampling_clip_max` (3) and `_clip_min`. Nothing that
    needs a model or a reference can be set.
    """
    _choice(old)
    with _package("trl"):
        from trl import GRPOConfig
        from trl.trainer.grpo_trainer import GRPOTrainer
    for name in settings:
        remedy = "leave it out: it needs a model"
        checks.require(name not in _MODELED, f"trl {name}", settings[name], "left out", remedy)
        remedy, alone = "add use_vllm=True, without which GRPOTrainer does not read it", not settings.get("use_vllm")
        unread = alone and name.startswith("vllm_importance_sampling")
        checks.require(not unread, f"trl {name}", settings[name], "used with use_vllm", remedy)
    remedy = "settings are loss_type, old, and fields of GRPOConfig; a cap is vllm_importance_sampling_clip_max"
    quiet: dict[str, Any] = {"output_dir": "unused", "report_to": "none", "bf16": False, "use_cpu": True}
    with _understood("trl", settings, "GRPOConfig", remedy), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of its own defaults
        config = GRPOConfig(**quiet, loss_type=loss_type, **settings)
    corrected = config.use_vllm and config.vllm_importance_sampling_correction
    modes = [f"{level}_{way}" for level in ("sequence", "token") for way in ("mask", "truncate")]
    mode = config.vllm_importance_sampling_mode
    bounds = config.vllm_importance_sampling_clip_min, config.vllm_importance_sampling_clip_max
    checks.one_of("trl vllm_importance_sampling_mode", mode, modes, "name a mode of GRPOConfig")

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        trainer = _trainer(GRPOTrainer, config, log_prob, corrected)
        before = proximal if old == "proximal" else behavior
        inputs = trl_inputs(before, behavior, advantages, mask)
        if corrected:
            inputs["importance_sampling_ratio"] = _corrected(before, behavior, mask, mode, *bounds)
        return trainer._compute_loss(trainer.model, inputs)

    vars(loss).update(old=old, advantages_per="sequence")  # its trainer makes one for each
    return loss


def trl_inputs(old: Tensor, behavior: Tensor, advantages: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Inputs that GRPOTrainer passes to its loss for a batch in which the tokens themselves do not matter."""
    prompt = torch.zeros(len(mask), 1, dtype=torch.long)
    return {
        "prompt_ids": prompt, "prompt_mask": prompt + 1, "completion_ids": torch.zeros(mask.shape, dtype=torch.long),
        "completion_mask": mask, "advantages": advantages[:, 0], "old_per_token_logps": old,
        "sampling_per_token_logps": behavior, "num_items_in_batch": mask.sum(),
    }  # fmt: skip


def torchrl(old: str = "behavior", **settings: Any) -> Loss:
    """Objective of ClipPPOLoss in the installed torchrl, on the generated tokens of a batch.

    `old`: the log-probs that it gets as those of the samples; `settings` go to ClipPPOLoss (clip_epsilon, ...).
    """
    _choice(old)
    with _package("torchrl"):
        from tensordict import TensorDict
        from torchrl.objectives import ClipPPOLoss
    known = {name for kind in ClipPPOLoss.__mro__[:2] for name in inspect.signature(kind.__init__).parameters}
    for name in settings:
        remedy = "settings of this adapter are old, and the arguments of ClipPPOLoss"
        checks.require(name in known, f"torchrl {name}", settings[name], "an argument of ClipPPOLoss", remedy)
    with _understood("torchrl", settings, "ClipPPOLoss", "see its arguments"):
        objective = ClipPPOLoss(_Actor(), None, functional=False, entropy_bonus=False, **settings)
    objective.set_keys(sample_log_prob="old", action="action", advantage="advantage")

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        kept = mask > 0
        before = (proximal if old == "proximal" else behavior)[kept].detach()
        tokens = {"log_prob": log_prob[kept], "old": before, "advantage": advantages[kept].unsqueeze(-1)}
        tokens["action"] = torch.zeros_like(before)
        return objective(TensorDict(tokens, batch_size=[int(kept.sum())]))["loss_objective"]

    vars(loss)["old"] = old
    return loss


def __getattr__(name: str) -> Any:
    known = checks.hint(name, __all__, f"it has {', '.join(__all__)}; a function of other arguments is wrapped by hand")
    raise calls.unknown_name(__name__, name, known)


ADAPTERS: Mapping[str, Callable[..., Loss]] = {"verl": verl, "areal": areal, "roll": roll, "openrlhf": openrlhf}
"""Adapters of a caller's own function, by name."""
INSTALLED: Mapping[str, Callable[..., Loss]] = {"trl": trl, "torchrl": torchrl}
"""Losses of packages, by name."""


def own_settings(name: str) -> list[str]:
    """Settings of the adapter itself, in addition to settings of the loss."""
    first = 1 if name in ADAPTERS else 0
    parameters = list(inspect.signature({**ADAPTERS, **INSTALLED}[name]).parameters.values())[first:]
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


def _adapted(name: str, fn: Any, old: str, settings: Mapping[str, Any], cap: float | None = None, **fixed: Any) -> Loss:
    """Adapt a caller's loss to a style: its settings are checked, and `fixed` are set by the style."""
    checks.require(callable(fn), "loss", fn, "a function or module", "hand over the loss itself")
    _choice(old)
    style, parameters = STYLES[name], inspect.signature(getattr(fn, "forward", fn)).parameters
    # Refuse other arguments, and settings that neither the adapter nor the function has.
    if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        tensors = (*style.tensors, *style.optional)
        lacks = [each for each in list(style.tensors)[style.by_position :] if each not in parameters]
        bound = f"those of {(globals()[name].__doc__ or '').partition(' ->')[0]}"
        checks.require(not lacks, "loss", f"arguments {', '.join(parameters)}", bound, f"it lacks {', '.join(lacks)}")
        others = [each for each in parameters if each not in (*tensors, *own_settings(name))]
        remedy = f"settings of {name} are {', '.join(own_settings(name))}"
        remedy += f"; those of the loss {', '.join(others)}" if others else "; the loss has none"
        for key in settings:
            if "config" in others:
                remedy = f"write --set 'adapter.config={{\"{key}\": VALUE}}' if the loss reads config.{key}; {remedy}"
            checks.require(key in others, f"adapter {name}", key, "a setting of the adapter or of the loss", remedy)
    # A configuration is read by attribute, as verl does.
    settings = {key: SimpleNamespace(**each) if isinstance(each, dict) else each for key, each in settings.items()}
    sources = dict(style.tensors) | {key: of for key, of in style.optional.items() if key in parameters}

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        known = {"log_prob": log_prob, "behavior": behavior, "proximal": proximal, "advantages": advantages, **fixed}
        known |= {"old": known[old], "mask": style.mask(mask)}
        arguments = {key: known[of] for key, of in sources.items()}
        first = [arguments.pop(key) for key in list(arguments)[: style.by_position]]
        if cap is not None:
            arguments["rollout_is_weights"] = _truncated(proximal, behavior, mask, cap, 20.0)
        value = fn(*first, **arguments, **settings)
        if isinstance(value, (tuple, list)) and value:
            return value[0]
        return value["loss"] if isinstance(value, Mapping) and "loss" in value else value

    # What tells `check_loss` whose log-probs it gets as old ones.
    vars(loss)["old"] = old
    return loss


def _choice(old: str) -> None:
    checks.one_of("old", old, ("proximal", "behavior"), "say which log-probs are the old ones")


def _truncated(above: Tensor, below: Tensor, mask: Tensor, cap: float, limit: float = math.inf) -> Tensor:
    """Detached ratio of two policies, truncated from above; its log is clamped at `limit`."""
    gap = torch.where(mask > 0, above - below, torch.zeros_like(mask))
    return gap.clamp(-limit, limit).exp().clamp(max=cap).detach()


def _corrected(above: Tensor, below: Tensor, mask: Tensor, mode: str, low: float | None, high: float | None) -> Tensor:
    """Detached ratio of two policies in a mode of TRL: of tokens or their product, outside the bounds cut or 0."""
    gap = torch.where(mask > 0, above - below, torch.zeros_like(mask)).nan_to_num(0.0)
    ratio = (gap.sum(-1, keepdim=True) if mode.startswith("sequence") else gap).exp().detach()
    low, high = 0.0 if low is None else low, math.inf if high is None else high
    if mode.endswith("truncate"):
        return ratio.clamp(low, high)
    return ratio.masked_fill((ratio < low) | (ratio > high), 0.0)


@contextmanager
def _package(name: str) -> Iterator[None]:
    """Context in which a failed import is reported as a missing package."""
    try:
        yield
    except ImportError as error:
        raise checks.InputError(name, None, "installed", f"run `pip install {name}`") from error


@contextmanager
def _understood(name: str, settings: Mapping[str, Any], of: str, remedy: str) -> Iterator[None]:
    """Context in which refused settings are reported by name."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise checks.InputError(f"{name} settings", settings, f"those of {of} ({error})", remedy) from error


class _Actor(torch.nn.Module):
    """A policy for ClipPPOLoss that reads its log-probs from the batch."""

    in_keys = ("log_prob",)
    out_keys = ("action",)

    def get_dist(self, batch: Any) -> SimpleNamespace:
        """Distribution at every token: the given log-probs for any action."""
        return SimpleNamespace(log_prob=lambda action: batch["log_prob"])


_MODELED = ("beta", "top_entropy_quantile", "use_liger_kernel", "entropy_coef", "use_adaptive_entropy")
"""Settings of GRPOConfig that need a model."""


def _trainer(trainer_class: Any, arguments: Any, log_prob: Tensor, corrected: bool) -> Any:
    """An uninitialized object of the trainer's class with the attributes that its loss reads."""
    trainer = object.__new__(trainer_class)
    high = arguments.epsilon if arguments.epsilon_high is None else arguments.epsilon_high
    steps = arguments.steps_per_generation or arguments.gradient_accumulation_steps
    trainer.__dict__.update(
        args=SimpleNamespace(**{**vars(arguments), "steps_per_generation": steps}),
        model=SimpleNamespace(training=True),
        # An accelerator of one process.
        accelerator=SimpleNamespace(
            num_processes=1,
            sync_gradients=True,
            is_main_process=True,
            gather=lambda value: value.detach().reshape(-1),
            gather_for_metrics=lambda value: value.detach().reshape(-1),
            reduce=lambda value, reduction="sum": value,
        ),
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
