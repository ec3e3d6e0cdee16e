"""Which argument of a loss is which tensor: told by its name, or by its position where no name says otherwise."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim.base import checks

DOCUMENTED = ("log_prob", "behavior_log_prob", "proximal_log_prob", "advantages", "mask")
"""The five tensors in the order in which a loss without known names gets them."""

_LOG_PROB = {"log", "logs", "prob", "probs", "logprob", "logprobs", "logp", "logps", "lp", "lps", "logpi"}
_POLICIES: Mapping[str, set[str]] = {
    "log_prob": {"current", "curr", "cur", "new", "now", "pi", "live", "trainer", "training", "learner"},
    "behavior_log_prob": {
        "behavior",
        "behaviour",
        "behav",
        "mu",
        "rollout",
        "rollouts",
        "sampler",
        "sampling",
        "sampled",
        "inference",
        "infer",
        "generator",
        "generation",
        "gen",
        "vllm",
        "sglang",
    },
    "proximal_log_prob": {"proximal", "prox", "snapshot", "recomputed"},
    "old": {"old", "previous", "prev"},
}
_FILLERS = {
    "per",
    "token",
    "tokens",
    "policy",
    "model",
    "action",
    "actions",
    "response",
    "responses",
    "completion",
    "completions",
}
_ADVANTAGES = {"advantage", "advantages", "adv", "advs"}
_MASKS = {"mask", "masks"}
_MASKED = _FILLERS | {"loss", "valid", "label", "labels", "assistant", "sequence", "sequences", "seq"}

_WRAP = f"rename it, give it a default, or wrap the loss: lambda {', '.join(DOCUMENTED)}: ..."


@dataclass(frozen=True)
class Binding:
    """How a loss is called with the five tensors: by `words` (argument: tensor), or as they are where there are none.

    `told`: what a reader of the report should know of it.
    """

    fn: Callable[..., Any]
    words: Mapping[str, str]
    first: tuple[str, ...] = ()
    """Arguments that are given by position."""
    told: tuple[str, ...] = ()

    def __call__(self, *tensors: Any) -> Any:
        """The loss of the five tensors in their documented order."""
        if not self.words:
            return self.fn(*tensors)
        given = dict(zip(DOCUMENTED, tensors, strict=True))
        positional = [given[self.words[name]] for name in self.first]
        return self.fn(*positional, **{k: given[v] for k, v in self.words.items() if k not in self.first})


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
    own = words - _LOG_PROB - _FILLERS
    # The letter of a policy beside its name, as in pi_old.
    own = own - {"pi"} or own
    said = [role for role, known in _POLICIES.items() if own and own <= known]
    if said:
        return said[0]
    return "log_prob" if words & _LOG_PROB and not own else None


def bind(fn: Callable[..., Any]) -> Binding:
    """The call of a loss; raises `InputError` for arguments that are ambiguous, unknown or missing."""
    called = getattr(fn, "forward", fn)
    try:
        parameters = list(inspect.signature(called).parameters.values())
    except (TypeError, ValueError):
        return Binding(fn, {})
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not named and not several:
        # Only **words, or nothing at all: the documented names are given.
        return Binding(fn, dict(zip(DOCUMENTED, DOCUMENTED, strict=True)))
    roles = _settled(named)
    words = _words(named, roles)
    unknown = [p.name for p in named if roles[p.name] is None and p.default is p.empty]
    missing = {"log_prob", "advantages", "mask"} - set(words.values())
    if not (unknown or missing):
        first = tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY and p.name in words)
        return Binding(fn, words, first, _told(named, words))
    if _in_order(named, roles, several):
        told = [f"{name} is {DOCUMENTED[[p.name for p in named].index(name)]}" for name in unknown]
        lines = (f"by position, for the names say nothing: {', '.join(told)}", *_defaults(named[5:])) if told else ()
        return Binding(fn, {}, told=lines)
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
        found = [p for p in named if roles[p.name] == role]
        needed = [p for p in found if p.default is p.empty]
        chosen = needed or found
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


def _told(named: Sequence[inspect.Parameter], words: Mapping[str, str]) -> tuple[str, ...]:
    """What is not plain from the documented order."""
    lines = []
    if list(words.values()) != list(DOCUMENTED):
        renamed = ", ".join(f"{name} is {role}" for name, role in words.items() if name != role)
        absent = [role for role in DOCUMENTED if role not in words.values()]
        told = [f"by name: {renamed}" if renamed else "by name"]
        lines.append("; ".join(told + ([f"it takes no {' and no '.join(absent)}"] if absent else [])))
    return (*lines, *_defaults([p for p in named if p.name not in words]))


def _defaults(left: Sequence[inspect.Parameter]) -> tuple[str, ...]:
    told = ", ".join(f"{p.name}={checks.shown(p.default)}" for p in left)
    return (f"left at their defaults: {told}",) if told else ()
