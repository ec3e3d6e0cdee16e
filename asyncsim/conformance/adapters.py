"""Losses of trainers in the form that `check_loss` asks: five tensors `[B, T]` in, a scalar out.

`verl`, `areal`, `roll` and `openrlhf` take your function or module, written in the style of that trainer, with the
settings it needs; `trl` and `torchrl` take settings and ask the losses of those packages as they are installed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks
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
    _callable(fn)
    _choice(old)
    _own("verl", fn, ("old_log_prob", "log_prob", "advantages", "response_mask"), settings)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        given = {
            "old_log_prob": proximal if old == "proximal" else behavior,
            "log_prob": log_prob,
            "advantages": advantages,
            "response_mask": mask,
        }
        weights = {} if cap is None else {"rollout_is_weights": _truncated(proximal, behavior, mask, cap)}
        return _first(fn(**given, **weights, **settings))

    return _said(loss, old)


def areal(fn: Callable[..., Any], eps_clip: float = 0.2, **settings: Any) -> Loss:
    """fn(logprobs, proximal_logprobs, old_logprobs, advantages, eps_clip, loss_mask, ...) -> loss, or (loss, stats).

    `old_logprobs` are those of the behavior policy, the mask is boolean; `settings` go to fn.
    """
    _callable(fn)
    given_names = ("logprobs", "proximal_logprobs", "old_logprobs", "advantages", "loss_mask")
    _own("areal", fn, given_names, settings)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        given = {
            "logprobs": log_prob,
            "proximal_logprobs": proximal,
            "old_logprobs": behavior,
            "advantages": advantages,
            "loss_mask": mask > 0,
        }
        return _first(fn(**given, eps_clip=eps_clip, **settings))

    return _said(loss, "proximal")


def roll(fn: Callable[..., Any], old: str = "proximal", **settings: Any) -> Loss:
    """fn(log_probs, old_log_probs, advantages, response_mask, ...) -> loss, or a tuple that begins with it.

    Where fn has an argument `infer_log_probs`, it gets those of the behavior policy; the mask holds integers. `old`:
    "proximal" or "behavior"; `settings` go to fn.
    """
    _callable(fn)
    _choice(old)
    _own("roll", fn, ("log_probs", "old_log_probs", "advantages", "response_mask", "infer_log_probs"), settings)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        given = {
            "log_probs": log_prob,
            "old_log_probs": proximal if old == "proximal" else behavior,
            "advantages": advantages,
            "response_mask": mask.long(),
        }
        return _first(fn(**given, **_taken(fn, {"infer_log_probs": behavior}), **settings))

    return _said(loss, old)


def openrlhf(module: Callable[..., Any], old: str = "proximal", **settings: Any) -> Loss:
    """module(log_probs, old_log_probs, advantages, action_mask=..., ...) -> loss, or a tuple that begins with it.

    Where it has an argument `rollout_log_probs`, it gets those of the behavior policy. `old`: "proximal" or "behavior";
    `settings` go to the call. For the command line, make the module in the file and name the instance: with
    `loss = PolicyLoss(0.3)` in file.py, `asyncsim conformance file.py:loss --adapter openrlhf`.
    """
    _callable(module)
    _choice(old)
    given_names = ("log_probs", "old_log_probs", "advantages", "action_mask", "rollout_log_probs")
    _own("openrlhf", module, given_names, settings)

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        before = proximal if old == "proximal" else behavior
        called = getattr(module, "forward", module)
        named = _taken(called, {"action_mask": mask, "rollout_log_probs": behavior})
        return _first(module(log_prob, before, advantages, **named, **settings))

    return _said(loss, old)


def trl(loss_type: str = "dapo", **settings: Any) -> Loss:
    """What GRPOTrainer of the installed trl computes, without a model: any `loss_type`, and settings of GRPOConfig.

    Further settings: `old`, "proximal" (several updates on a batch) or "behavior"; `cap`, with the correction of the
    sampler's log-probs, pi_prox over mu truncated there. Nothing that needs a model or a reference can be set.
    """
    from asyncsim.conformance import _adapter_trl

    loss = _said(_adapter_trl.loss(loss_type, **settings), settings.get("old", "proximal"))
    vars(loss)["advantages_per"] = "sequence"  # its trainer makes one for each
    return loss


def torchrl(old: str = "behavior", **settings: Any) -> Loss:
    """What ClipPPOLoss of the installed torchrl computes for its objective, on the generated tokens of a batch.

    `old`: the log-probs that it gets as those of the samples; `settings` go to ClipPPOLoss (clip_epsilon, ...).
    """
    _choice(old)
    from asyncsim.conformance import _adapter_torchrl

    return _said(_adapter_torchrl.loss(old, **settings), old)


ADAPTERS: Mapping[str, Callable[..., Loss]] = {"verl": verl, "areal": areal, "roll": roll, "openrlhf": openrlhf}
"""Adapters of a caller's own function, by name."""
INSTALLED: Mapping[str, Callable[..., Loss]] = {"trl": trl, "torchrl": torchrl}
"""Losses of packages, by name."""


def _callable(fn: Any) -> None:
    checks.require(callable(fn), "loss", fn, "a function or module", "hand over the loss itself")


def _choice(old: str) -> None:
    checks.one_of("old", old, ("proximal", "behavior"), "say which log-probs are the old ones")


def _said(loss: Loss, old: str) -> Loss:
    """The loss, which tells `check_loss` whose log-probs it gets as old ones."""
    vars(loss)["old"] = old
    return loss


def own_settings(name: str) -> list[str]:
    """What the adapter itself can be told, beside settings of the loss."""
    first = 1 if name in ADAPTERS else 0
    parameters = list(inspect.signature({**ADAPTERS, **INSTALLED}[name]).parameters.values())[first:]
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


def _own(name: str, fn: Callable[..., Any], given: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Refuse settings that neither the adapter nor the function has."""
    parameters = inspect.signature(getattr(fn, "forward", fn)).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    left = [each for each in parameters if each not in (*given, *own_settings(name))]
    remedy = f"settings of {name} are {', '.join(own_settings(name))}"
    remedy += f"; those of the loss {', '.join(left)}" if left else "; the loss has none"
    for key in settings:
        checks.require(key in left, f"adapter {name}", key, "a setting of the adapter or of the loss", remedy)


def _first(value: Any) -> Any:
    """The loss among what was returned."""
    if isinstance(value, (tuple, list)) and value:
        return value[0]
    return value["loss"] if isinstance(value, Mapping) and "loss" in value else value


def _taken(fn: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that the function has an argument for."""
    parameters = inspect.signature(fn).parameters
    return {name: value for name, value in values.items() if name in parameters}


def _truncated(above: Tensor, below: Tensor, mask: Tensor, cap: float) -> Tensor:
    """Ratio of two detached policies, truncated from above."""
    gap = torch.where(mask > 0, above - below, torch.zeros_like(mask))
    return gap.clamp(-20.0, 20.0).exp().clamp(max=cap).detach()
