"""A user's loss, evaluated on batches: roles of its arguments, its value, its gradient, and inputs that it changed."""

import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, outside
from asyncsim.base.arguments import DOCUMENTED, bind

Loss = Callable[..., Any]
"""fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) -> scalar, every tensor `[B, T]`."""
TENSORS = ("log_prob", "behavior", "proximal", "advantages", "mask")


@dataclass(frozen=True)
class Probe:
    """One test batch for a loss, every tensor `[B, T]`; `group` consecutive sequences share a prompt."""

    name: str
    log_prob: Tensor
    behavior: Tensor
    proximal: Tensor
    advantages: Tensor
    mask: Tensor
    group: int

    @classmethod
    def of(cls, name: str, tensors: Iterable[Tensor], group: int) -> "Probe":
        """Make a test batch from its five tensors in order."""
        now, then, before, advantages, mask = tensors
        return cls(name, now, then, before, advantages, mask, group)

    def but(self, name: str, **changes: Any) -> "Probe":
        """The same batch with other tensors."""
        return replace(self, name=name, **changes)

    def paid(self, *advantages: float) -> "Probe":
        """The same batch with one given advantage for each row."""
        rows = torch.tensor(advantages, dtype=torch.float64).unsqueeze(-1)
        return self.but(self.name, advantages=rows.repeat(1, self.mask.shape[1]))

    def unmasked(self) -> "Probe":
        """The same batch with all tokens generated."""
        return self.but(self.name, mask=torch.ones_like(self.mask))

    def of_one_policy(self) -> "Probe":
        """The same batch with all policies equal."""
        return self.but(self.name, log_prob=self.behavior, proximal=self.behavior)

    def rows(self, index: Any, name: str = "") -> "Probe":
        """A batch of some of these sequences, as one group."""
        picked = {key: getattr(self, key)[index] for key in TENSORS}
        return replace(self, name=name or self.name, group=len(picked["mask"]), **picked)


class Answer(NamedTuple):
    """Answer of a loss on a batch: its value, and -dL/d log_prob of every token `[B, T]`, 0 where masked."""

    value: float
    cotangent: Tensor
    finite: bool
    masked: float
    """Largest gradient of a masked token; infinite where it is not finite."""


@dataclass
class Subject:
    """A caller's loss; `mutated` names the inputs that it modified, `attached` those that receive a gradient."""

    fn: Loss
    mutated: list[str] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    answers: dict[Any, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        remedy = "give a function (log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) -> scalar"
        checks.require(callable(self.fn), "loss", self.fn, "a function of five tensors [B, T]", remedy)
        bound = "a function or an instance, not a class"
        own = getattr(self.fn, "__name__", "")
        remedy = f"give {own}(), on the command line FILE.py:loss with loss = {own}() in the file"
        checks.require(not inspect.isclass(self.fn), "loss", own, bound, remedy)
        self.binding = bind(self.fn)
        roles = {"mask", *(self.binding.words.values() or DOCUMENTED)}
        self.given = [name for name, role in zip(TENSORS, DOCUMENTED, strict=True) if role in roles]

    def ask(self, probe: Probe) -> Answer:
        """Return the loss's answer on a batch; raise `InputError` if the loss cannot be evaluated."""
        key = probe.mask.shape, *(getattr(probe, name).numpy().tobytes() for name in self.given)
        if key not in self.answers:
            self.answers[key] = self._asked(probe)
        return self.answers[key]

    def _asked(self, probe: Probe) -> Answer:
        given = [getattr(probe, name) for name in TENSORS]
        leaf = given[0].clone().requires_grad_()
        # A copy, so that a loss that works in place is found out instead of being stopped by autograd.
        copies = [leaf + 0.0, *(x.clone() for x in given[1:])]
        value = self._value(copies)
        for name, before, after in zip(TENSORS, given, copies, strict=True):
            old, new = before.numpy(), after.detach().numpy()
            same = old.shape == new.shape and old.tobytes() == new.tobytes()
            if not (same or np.array_equal(old, new, equal_nan=True)) and name not in self.mutated:
                self.mutated.append(name)
        (gradient,) = torch.autograd.grad(value, leaf, allow_unused=True) if value.requires_grad else (None,)
        gradient = torch.zeros_like(leaf) if gradient is None else gradient
        number, numbers, tokens = value.item(), gradient.numpy(), probe.mask.numpy() > 0
        finite = math.isfinite(number) and bool(np.isfinite(numbers[tokens]).all())
        masked = float(np.nan_to_num(np.abs(numbers[~tokens]), nan=np.inf).max(initial=0.0))
        return Answer(number, torch.from_numpy(np.where(tokens, -numbers, 0.0)), finite, masked)

    def _value(self, tensors: Sequence[Tensor]) -> Tensor:
        try:
            value = self.binding(*tensors)
        except checks.InputError:
            raise
        except Exception as error:
            names, text = ", ".join(self.binding.words) or ", ".join(DOCUMENTED), str(error)
            remedy = f"it is called with ({names}), each [B, T]; for advantages [B] wrap it, with advantages[:, 0]"
            if "numpy" in text:
                remedy = "write it in torch (torch.exp, torch.minimum), not numpy, so that gradients exist"
            elif isinstance(error, AttributeError) and "NoneType" in text:
                remedy = "give it, as --set 'adapter.config={\"clip_ratio_c\": 3}' (Python: verl(fn, config={...}))"
            remedy = "; ".join(filter(None, (outside.fix(error), remedy)))
            raise checks.InputError("loss", f"{type(error).__name__}: {error}", "a loss that runs", remedy) from error
        scalar = torch.is_tensor(value) and value.numel() == 1
        form = tuple(value.shape) if torch.is_tensor(value) else type(value).__name__
        remedy = "its mean over real tokens, (loss * mask).sum() / mask.sum()"
        remedy = "the loss alone, the first of what it returns" if isinstance(value, tuple) else remedy
        checks.require(scalar, "loss", form, "a tensor with one number", f"return {remedy}, or use an adapter")
        return value.reshape(())

    def admit(self, probes: Sequence[Probe]) -> None:
        """Refuse a function that is not a loss of log-probs; record which inputs receive a gradient."""
        reached: list[str] = []
        for probe in probes:
            tensors = [getattr(probe, name).clone().requires_grad_() for name in TENSORS[:4]]
            value = self._value([*(x + 0.0 for x in tensors), probe.mask.clone()])
            whole = bool(torch.isfinite(value.detach()).all())
            bound = f"finite on the batch '{probe.name}'"
            checks.require(whole, "loss", float(value.detach()), bound, "look for 0 / 0")
            gradients = torch.autograd.grad(value, tensors, allow_unused=True) if value.requires_grad else (None,) * 4
            moved = [x is not None and bool((x != 0).any()) for x in gradients]
            reached += [name for name, hit in zip(TENSORS[:4], moved, strict=True) if hit]
        remedy = "keep the graph: no detach(), item() or no_grad() around log_prob"
        bound = "a function of log_prob with a gradient where every row has one advantage"
        checks.require("log_prob" in reached, "loss", "no gradient", bound, remedy)
        self.attached = [name for name in TENSORS[1:4] if name in reached]
        once, twice = self._asked(probes[-1]), self._asked(probes[-1])
        same = torch.equal(once.cotangent, twice.cotangent)
        remedy = "seed or leave out what is random, and keep no state between calls"
        checks.require(same, "loss", "two gradients of one batch", "a function of its inputs", remedy)

    def quietly(self, probe: Probe) -> Answer | None:
        """Return the answer on a batch that the loss may reject; None if the loss raises an error."""
        try:
            return self.ask(probe)
        except checks.InputError:
            return None
