"""Losses in the style of a trainer, told by their first arguments: they need an adapter."""

from __future__ import annotations

import inspect
from typing import Any

from asyncsim.base import checks

_STYLES = {
    "verl": ("old_log_prob", "log_prob", "advantages", "response_mask"),
    "areal": ("logprobs", "proximal_logprobs", "old_logprobs", "advantages", "eps_clip"),
    "roll": ("log_probs", "old_log_probs", "advantages", "response_mask"),
    "openrlhf": ("log_probs", "old_log_probs", "advantages", "action_mask"),
}
"""First arguments of trainers' losses: their adapters know which log-probs the old ones are, and settings."""


def refuse(fn: Any) -> None:
    """Raise `InputError` for a loss that would take its tensors for others, naming the adapter."""
    style = _style(fn)
    name = getattr(fn, "__name__", type(fn).__name__)
    bound = f"wrapped, for its arguments are those of losses of {style}"
    remedy = f"write adapters.{style}({name}), or on the command line add --adapter {style}"
    checks.require(style is None, "loss", name, bound, remedy)


def _style(fn: Any) -> str | None:
    called = getattr(fn, "forward", fn)
    try:
        names = tuple(inspect.signature(called).parameters)
    except (TypeError, ValueError):  # what is not callable is refused with the other losses
        return None
    names = names[1:] if names[:1] == ("self",) else names
    return next((style for style, known in _STYLES.items() if names[: len(known)] == known), None)
