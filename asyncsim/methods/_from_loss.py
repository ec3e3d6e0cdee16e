"""A method from a loss as one writes it: autograd finds the weight of every score."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._advantage import Advantage
from asyncsim.base import arguments, checks, outside
from asyncsim.methods._method import AGGREGATORS, Method
from asyncsim.methods._weights import Weight
from asyncsim.step.step import Step

OWN = "the loss's own"
_TRIAL = (4, 3)
"""Samples and tokens of the batch that a loss is tried on."""


@dataclass(frozen=True)
class Loss(Weight):
    """Score weights c = -d loss / d log pi of a user's loss, divided by the token's share if the loss is an average."""

    binding: arguments.Binding
    averages: bool
    vectorized: bool

    level: ClassVar[str] = "token"  # type: ignore[misc]

    @property
    def proximal(self) -> bool:  # type: ignore[override]
        """Whether the user's loss takes log-probs of the proximal policy."""
        return "proximal_log_prob" in self.binding.asked

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        # An average of the loss's own knows nothing of masses.
        alike = math.isfinite(step.size) and bool((step.batch.mass == step.batch.mass.reshape(-1)[0]).all())
        remedy = "return one number per token [B, T], which the method averages by mass"
        checks.require(alike or not self.averages, "sampling", "outcomes with masses", "monte_carlo samples", remedy)
        shape = step.mask.shape
        rows = {name: self._rows(name, step, advantage) for name in self.binding.asked}
        if step.empty is None:
            gradient = _gradients(self.binding.of, rows, self.vectorized).reshape(shape)
        else:
            # The loss of the samples that are left, and 0 for those of dropped groups.
            gradient, left = torch.zeros_like(rows["log_prob"]), step.mass.flatten(1) > 0
            counts = left.sum(1)
            # Replicates with as many samples are one call.
            for count in [int(each) for each in counts.unique() if each > 0]:
                chosen = left & (counts == count).unsqueeze(1)
                parts = {name: values[chosen].unflatten(0, (-1, count)) for name, values in rows.items()}
                gradient[chosen] = _gradients(self.binding.of, parts, self.vectorized).flatten(0, 1)
            gradient = gradient.reshape(shape)
        if not self.averages:
            return -gradient
        share = AGGREGATORS["sequence_sum"](step).expand(shape)
        return torch.where(share > 0, -gradient / torch.where(share > 0, share, torch.ones_like(share)), 0.0)

    def _rows(self, name: str, step: Step, advantage: Tensor) -> Tensor:
        """One argument of the loss, `[R, B, T]`, 0 on masked tokens."""
        policies = {"log_prob": "current", "behavior_log_prob": "behavior", "proximal_log_prob": "proximal"}
        if name in policies:
            values = getattr(step, policies[name])["log_prob"]
        else:
            values = advantage if name == "advantages" else getattr(step, name)
        values = values.expand(step.mask.shape)
        used = torch.where(step.mask > 0, values, torch.zeros_like(values))
        return used.reshape(used.shape[0], -1, used.shape[-1])

    def describe(self) -> dict[str, Any]:
        loss = self.binding.fn
        # What a name says by itself is not told.
        words = self.binding.words or {name: name for name in self.binding.asked}
        asked = [name if role.startswith(name) else f"{name} is {role}" for name, role in words.items()]
        name = getattr(loss, "__name__", type(loss).__name__)
        settings = getattr(loss, "keywords", {})
        own = {"aggregator": OWN} if self.averages else {}
        return {"weight": "loss", "level": OWN, "loss": name, "asked": asked, **own, **settings}


def _gradients(loss: Callable[..., Tensor], rows: dict[str, Tensor], vectorized: bool) -> Tensor:
    """Gradient d loss / d log_prob for each replicate separately, `[R, B, T]`."""

    def total(log_prob: Tensor, others: dict[str, Tensor]) -> Tensor:
        return loss(log_prob=log_prob, **others).sum()

    others = {name: values for name, values in rows.items() if name != "log_prob"}
    if vectorized:
        # Replicates do not mix in the sum of their losses.
        return _gradient(torch.func.vmap(total), rows["log_prob"], others)
    each = enumerate(rows["log_prob"])
    return torch.stack([_gradient(total, now, {k: v[r] for k, v in others.items()}) for r, now in each])


def _gradient(total: Callable[..., Tensor], log_prob: Tensor, others: dict[str, Tensor]) -> Tensor:
    """Gradient of a sum; `torch.func.grad` is avoided because it loads torch's compiler, which takes a second."""
    with torch.enable_grad():
        live = log_prob.detach().requires_grad_()
        value = total(live, others).sum()
    if not value.requires_grad:
        return torch.zeros_like(log_prob)
    return torch.autograd.grad(value, live, allow_unused=True, materialize_grads=True)[0]


def from_loss(
    loss: Callable[..., Tensor] | str,
    advantage: Advantage | None = None,
    aggregator: str | None = None,
    name: str | None = None,
    **settings: Any,
) -> Method:
    """A method from your own loss, a function of log-probs: autograd finds the weights c = -d loss / d log pi.

    A loss that returns one number for the batch is taken as it is, with its own average. One that returns a number for
    each token, `[B, T]`, is averaged by `aggregator`. Replicates never mix: the loss sees one at a time, by `vmap`. A
    loss that `vmap` cannot run, as one with `if` on a value, runs replicate after replicate, more slowly.

    Arguments: `loss`, a function of arguments among `log_prob` (carries the graph), `behavior_log_prob`,
    `proximal_log_prob` (start of the batch), `advantage`, `mask`, `staleness` (versions), each `[B, T]` of one
    replicate's B samples, 0 on masked tokens; what it detaches has no gradient. Other spellings are those of
    `conformance.check_loss`: `old_log_prob` is the behavior policy, or the proximal one where another argument names
    the behavior policy. Samples of groups that the method drops are left out. Or its place, as my.py:name, so that a
    spec with it can be written to a file. `advantage` (default group mean); `aggregator` of per-token losses (default
    "token_mean"); `name` (default the function's); `settings` of the loss's own arguments, such as eps=0.1. Returns a
    `Method`. Raises `InputError` for unknown arguments, another shape, or a loss without a gradient in `log_prob`.
    Assumes that the loss depends on the policy through the log-probs of the sampled tokens only. Source: this package.

    >>> import asyncsim as sim
    >>> def truncated(log_prob, behavior_log_prob, advantage):
    ...     ratio = (log_prob - behavior_log_prob).exp().detach()
    ...     return -ratio.clamp(max=2.0) * advantage * log_prob
    >>> now, then = torch.tensor([[-0.5], [-1.5]]), torch.tensor([[-2.0], [-1.0]])
    >>> found = from_loss(truncated).weigh(now, then, advantages=torch.tensor([1.0, -1.0]))
    >>> [round(c, 3) for c in found.score_weight.flatten().tolist()]
    [2.0, -0.607]
    """
    loss = outside.loaded(loss, "loss") if isinstance(loss, str) else loss
    remedy = "write def my_loss(log_prob, advantage, ...)"
    checks.require(callable(loss), "loss", loss, "a function of log_prob", remedy)
    arguments.refuse(loss)
    made: Any = arguments.with_settings(loss, settings, ("advantage", "aggregator", "name")) if settings else loss
    binding = arguments.bind(made, ("log_prob",), ("staleness",))
    averages, vectorized = _tried(binding)
    remedy = "leave it out: the loss returns one number, with an average of its own"
    checks.require(not (averages and aggregator), "aggregator", aggregator, "absent", remedy)
    weight = Loss(binding, averages, vectorized)
    over = "sequence_sum" if averages else aggregator or "token_mean"
    called = name or str(getattr(loss, "__name__", "loss"))
    baseline = advantages.group_mean() if advantage is None else advantage
    return Method(called, baseline, weight, over, on_policy="not stated")


def _refuse_ascent(binding: arguments.Binding, rows: dict[str, Tensor]) -> None:
    """Refuse a loss that lowers log-probs of good actions: its gradient must decrease with the advantage."""
    if "advantages" not in rows:
        return
    slopes = (_gradients(binding.of, rows | {"advantages": way * rows["advantages"]}, False) for way in (1.0, -1.0))
    rise = torch.sub(*slopes)
    bound = "one whose gradient in log_prob falls as the advantage rises (ratio 1, advantages 1 and -1)"
    remedy = "put a minus in front of what it returns: a loss is minimized"
    wrong = bool((rise >= 0).all() and (rise > 0).any())
    checks.require(not wrong, "loss", getattr(binding.fn, "__name__", binding.fn), bound, remedy)


def _tried(binding: arguments.Binding) -> tuple[bool, bool]:
    """Call the loss once on a small batch to find whether it averages itself, and whether `vmap` can run it."""
    asked = binding.asked
    rows = {name: torch.full((2, *_TRIAL), -1.0, dtype=torch.float64) for name in asked}
    rows |= {name: torch.ones(2, *_TRIAL, dtype=torch.float64) for name in ("advantages", "mask") if name in asked}
    first = {name: values[0].clone().requires_grad_(name == "log_prob") for name, values in rows.items()}
    remedy = "let it return one number, or one per token [B, T], made from log_prob by torch"
    with torch.enable_grad():
        try:
            value = binding.of(**first)
        except Exception as error:
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            if "size of tensor" in text or "shape" in text:
                remedy = f"{', '.join(asked)} are all [B, T], advantages too: leave unsqueeze and [:, None] out"
            refused = outside.part_error(error)
            if refused is error:
                refused = checks.InputError("loss", text, "callable on [B, T] tensors", remedy)
            refused.add_note(remedy)
            raise refused from error
    alone = f"return the loss alone, a tensor, without item() or numpy(); {remedy}"
    checks.require(isinstance(value, Tensor), "loss", f"a {type(value).__name__}", "a tensor", alone)
    shape = tuple(value.shape)
    checks.require(shape in ((), (1,), _TRIAL), "shape of the loss", shape, f"() or [B, T] = {_TRIAL}", remedy)
    checks.require(bool(value.requires_grad), "loss", "without a graph", "differentiable in log_prob", remedy)
    _refuse_ascent(binding, rows)
    try:
        _gradients(binding.of, rows, vectorized=True)
    except Exception:
        # What vmap cannot run, a loop over replicates can; a true mistake was seen above.
        return shape != _TRIAL, False
    return shape != _TRIAL, True
