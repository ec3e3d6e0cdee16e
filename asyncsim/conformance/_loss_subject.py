"""A loss from outside, asked on batches: which argument is which, its value, its gradient, what it changed."""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks

DOCUMENTED = ("log_prob", "behavior_log_prob", "proximal_log_prob", "advantages", "mask")
"""The five tensors in the order in which a loss without known names gets them."""


def words_of(words: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(words.split())


_NAMES = checks.words_by_name(Path(__file__).with_name("loss_names.txt"))
_WORDS = {name: frozenset(words) for name, words in _NAMES.items()}
_LOG_PROB, _FILLERS, _ADVANTAGES, _MASKS = (_WORDS[name] for name in ("log", "fillers", "advantages", "mask"))
_POLICIES = {name: _WORDS[name] for name in ("log_prob", "behavior_log_prob", "proximal_log_prob", "old")}
_MASKED = _FILLERS | _WORDS["beside mask"]
_WRAP = f"rename it, give it a default, or wrap the loss: lambda {', '.join(DOCUMENTED)}: ..."


@dataclass(frozen=True)
class Binding:
    """How a loss is called with the five tensors: by `words` (argument: tensor), or as they are where there are none.

    `notes`: what a reader of the report should know of it.
    """

    fn: Callable[..., Any]
    words: Mapping[str, str]
    first: tuple[str, ...] = ()
    """Arguments that are given by position."""
    notes: tuple[str, ...] = ()

    def __call__(self, *tensors: Any) -> Any:
        """The loss of the five tensors in their documented order."""
        if not self.words:
            return self.fn(*tensors)
        by_name = dict(zip(DOCUMENTED, tensors, strict=True))
        positional = [by_name[self.words[name]] for name in self.first]
        return self.fn(*positional, **{k: by_name[v] for k, v in self.words.items() if k not in self.first})


def role_of(name: str) -> str | None:
    """The tensor that an argument's name means, "old" where it may be two of them, None where it says nothing.

    >>> role_of("rollout_log_probs"), role_of("logp"), role_of("old_logp"), role_of("response_mask"), role_of("eps")
    ('behavior_log_prob', 'log_prob', 'old', 'mask', None)
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    words = {word for word in spaced.lower().split("_") if word}
    if name == "A" or (words & _ADVANTAGES and words <= _ADVANTAGES | _FILLERS):
        return "advantages"
    if words & _MASKS and words <= _MASKS | _MASKED:
        return "mask"
    rest = words - _LOG_PROB - _FILLERS
    # The letter of a policy beside its name, as in pi_old.
    rest = rest - {"pi"} or rest
    roles = [role for role, known in _POLICIES.items() if rest and rest <= known]
    if roles:
        return roles[0]
    return "log_prob" if words & _LOG_PROB and not rest else None


def bind(fn: Callable[..., Any]) -> Binding:
    """The call of a loss; raises `InputError` for arguments that are ambiguous, unknown or missing."""
    target = getattr(fn, "forward", fn)
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return Binding(fn, {})
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not named and not several:
        # Only **words, or nothing at all: the documented names are given.
        return Binding(fn, dict(zip(DOCUMENTED, DOCUMENTED, strict=True)))
    # Bind by name where every role is known.
    roles = _settled(named)
    words = _words(named, roles)
    unknown = [p.name for p in named if roles[p.name] is None and p.default is p.empty]
    missing = {"log_prob", "advantages", "mask"} - set(words.values())
    if not (unknown or missing):
        first = tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY and p.name in words)
        return Binding(fn, words, first, _notes(named, words))
    # Else bind by position, or refuse.
    if _in_order(named, roles, several):
        notes = [f"{name} is {DOCUMENTED[[p.name for p in named].index(name)]}" for name in unknown]
        lines = (f"by position, for the names say nothing: {', '.join(notes)}", *_defaults(named[5:])) if notes else ()
        return Binding(fn, {}, notes=lines)
    if unknown:
        bound = f"a name that says which tensor it is ({', '.join(DOCUMENTED)})"
        raise checks.InputError("loss", f"argument {unknown[0]!r}", bound, _WRAP)
    bound = f"a function with an argument for {' and '.join(sorted(missing))}"
    raise checks.InputError("loss", f"arguments {', '.join(p.name for p in named)}", bound, _WRAP)


def _settled(named: Sequence[inspect.Parameter]) -> dict[str, str | None]:
    """Roles by argument; old log-probs are those of the policy that no other one names, of behavior where none is."""
    roles = {p.name: role_of(p.name) for p in named}
    old = [p for p in named if roles[p.name] == "old"]
    needed = [p.name for p in old if p.default is p.empty] or [p.name for p in old[:1]]
    others = {role for role in roles.values() if role in DOCUMENTED[1:3]}
    free = [role for role in DOCUMENTED[1:3] if role not in others]
    roles |= {p.name: None for p in old}
    if needed and (free or named[[p.name for p in named].index(needed[0])].default is inspect.Parameter.empty):
        bound = "the behavior or the proximal policy by name" if free else "left out beside both policies by name"
        checks.require(len(needed) == 1 and bool(free), "loss", f"argument {needed[-1]!r}", bound, _WRAP)
        roles[needed[0]] = free[0]
    return roles


def _words(named: Sequence[inspect.Parameter], roles: Mapping[str, str | None]) -> dict[str, str]:
    """Argument by argument, the tensor that it gets; of two for one tensor, the one without a default."""
    words: dict[str, str] = {}
    for role in DOCUMENTED:
        candidates = [p for p in named if roles[p.name] == role]
        needed = [p for p in candidates if p.default is p.empty]
        chosen = needed or candidates
        also = ", ".join(repr(p.name) for p in chosen)
        remedy = "rename one, or wrap the loss"
        checks.require(len(chosen) <= 1, "loss", f"arguments {also}", f"a single one for {role}", remedy)
        words |= {p.name: role for p in chosen}
    return {p.name: words[p.name] for p in named if p.name in words}


def _in_order(named: Sequence[inspect.Parameter], roles: Mapping[str, str | None], several: bool) -> bool:
    """Whether five tensors can be given by position: the count fits, and no known name stands elsewhere."""
    positional = [p for p in named if p.kind is not p.KEYWORD_ONLY]
    needed = [p for p in positional if p.default is p.empty]
    others = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in named)
    fits = len(needed) <= 5 if several else len(needed) == 5 or len(positional) == 5
    placed = all(roles[p.name] in (None, DOCUMENTED[i]) for i, p in enumerate(positional[:5]))
    return fits and placed and not others


def _notes(named: Sequence[inspect.Parameter], words: Mapping[str, str]) -> tuple[str, ...]:
    """What is not plain from the documented order."""
    lines = []
    if list(words.values()) != list(DOCUMENTED):
        renamed = ", ".join(f"{name} is {role}" for name, role in words.items() if name != role)
        absent = [role for role in DOCUMENTED if role not in words.values()]
        notes = [f"by name: {renamed}" if renamed else "by name"]
        lines.append("; ".join(notes + ([f"it takes no {' and no '.join(absent)}"] if absent else [])))
    return (*lines, *_defaults([p for p in named if p.name not in words]))


def _defaults(others: Sequence[inspect.Parameter]) -> tuple[str, ...]:
    names = ", ".join(f"{p.name}={checks.shown(p.default)}" for p in others)
    return (f"left at their defaults: {names}",) if names else ()


Loss = Callable[..., Any]
"""fn(log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) -> scalar, every tensor `[B, T]`."""
TENSORS = ("log_prob", "behavior", "proximal", "advantages", "mask")


@dataclass(frozen=True)
class Probe:
    """One batch, every tensor `[B, T]`; `group` consecutive sequences answer one prompt."""

    name: str
    log_prob: Tensor
    behavior: Tensor
    proximal: Tensor
    advantages: Tensor
    mask: Tensor
    group: int

    @classmethod
    def of(cls, name: str, tensors: Iterable[Tensor], group: int) -> "Probe":
        """A batch of the five tensors in their order."""
        now, then, before, advantages, mask = tensors
        return cls(name, now, then, before, advantages, mask, group)

    def but(self, name: str, **changes: Any) -> "Probe":
        """The same batch with other tensors."""
        return replace(self, name=name, **changes)

    def paid(self, *advantages: float) -> "Probe":
        """The same batch with these advantages of its rows."""
        rows = torch.tensor(advantages, dtype=torch.float64).unsqueeze(-1)
        return self.but(self.name, advantages=rows.repeat(1, self.mask.shape[1]))

    def unmasked(self) -> "Probe":
        """The same batch where every token was generated."""
        return self.but(self.name, mask=torch.ones_like(self.mask))

    def of_one_policy(self) -> "Probe":
        """The same batch where all policies agree."""
        return self.but(self.name, log_prob=self.behavior, proximal=self.behavior)

    def rows(self, index: Any, name: str = "") -> "Probe":
        """Some of its sequences, as one group."""
        picked = {key: getattr(self, key)[index] for key in TENSORS}
        return replace(self, name=name or self.name, group=len(picked["mask"]), **picked)


class Answer(NamedTuple):
    """What a loss says: its value, and -dL/d log_prob of every token `[B, T]`, 0 where masked."""

    value: float
    cotangent: Tensor
    finite: bool
    masked: float
    """Largest gradient of a masked token; infinite where it is not finite."""


@dataclass
class Subject:
    """The loss of a caller; `mutated` names inputs that it has changed, `attached` those that a gradient reaches.

    It is a function of what it is `given`, which `admit` checks: equal ones are asked once; `answers` has these.
    """

    fn: Loss
    mutated: list[str] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    answers: dict[Any, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        remedy = "give a function (log_prob, behavior_log_prob, proximal_log_prob, advantages, mask) -> scalar"
        checks.require(callable(self.fn), "loss", self.fn, "a function of five tensors [B, T]", remedy)
        bound = "a function or an instance, not a class"
        checks.require(not inspect.isclass(self.fn), "loss", getattr(self.fn, "__name__", ""), bound, "make one of it")
        self.binding = bind(self.fn)
        roles = {"mask", *(self.binding.words.values() or DOCUMENTED)}
        self.given = [name for name, role in zip(TENSORS, DOCUMENTED, strict=True) if role in roles]

    def ask(self, probe: Probe) -> Answer:
        """The answer on a batch; raises `InputError` where the loss cannot be asked."""
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
            names = ", ".join(self.binding.words) or ", ".join(DOCUMENTED)
            remedy = f"it is called with ({names}), each [B, T]"
            raise checks.InputError("loss", f"{type(error).__name__}: {error}", "a loss that runs", remedy) from error
        scalar = torch.is_tensor(value) and value.numel() == 1
        form = tuple(value.shape) if torch.is_tensor(value) else type(value).__name__
        checks.require(scalar, "loss", form, "a tensor with one number", "return the loss alone, or use an adapter")
        return value.reshape(())

    def admit(self, probes: Sequence[Probe]) -> None:
        """Refuse, by name, what is no loss of log-probs; note which inputs a gradient flows into."""
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
        """The answer on a batch that a loss need not survive; None where it raises."""
        try:
            return self.ask(probe)
        except checks.InputError:
            return None
