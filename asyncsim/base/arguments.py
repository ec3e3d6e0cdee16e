"""Match the arguments of a user's loss to tensors by name, and recognize the calling conventions of trainers."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsim.base import checks

DOCUMENTED = ("log_prob", "behavior_log_prob", "proximal_log_prob", "advantages", "mask")
"""The five tensors, in the order in which they are passed to a loss whose argument names are unknown."""


def words_of(words: str) -> frozenset[str]:
    """Set of the words in a string, which spaces separate."""
    return frozenset(words.split())


_WORDS = {name: frozenset(words) for name, words in checks.NAMES["loss"].items()}
_LOG_PROB, _FILLERS, _ADVANTAGES, _MASKS = (_WORDS[name] for name in ("log", "fillers", "advantages", "mask"))
_POLICIES = {name: _WORDS[name] for name in ("log_prob", "behavior_log_prob", "proximal_log_prob", "old")}
_MASKED = _FILLERS | _WORDS["beside_mask"]
_TELLING = frozenset[str]().union(*_WORDS.values())
GUESSED = "by position, for the names say nothing"
ADVANTAGE = checks.NAMES["advantage"]
"""What each argument of an advantage may be, with its names at trainers."""
MASKED = "add an argument mask, and return the mean over real tokens, (loss * mask).sum() / mask.sum()"
WITHOUT_KL = ", which leaves out the KL to the reference"
_WRAP = f"rename it, give it a default, or wrap the loss: lambda {', '.join(DOCUMENTED)}: ..."


@dataclass(frozen=True)
class Binding:
    """How to call a loss with the five tensors: by keyword as in `words` (argument: tensor), else by position."""

    fn: Callable[..., Any]
    words: Mapping[str, str]
    first: tuple[str, ...] = ()
    """Arguments that are given by position."""
    notes: tuple[str, ...] = ()

    def __call__(self, *tensors: Any) -> Any:
        """Call the loss with the five tensors in their documented order."""
        return self.of(**dict(zip(DOCUMENTED, tensors, strict=True)))

    @property
    def asked(self) -> tuple[str, ...]:
        """Names of the tensors that the loss takes as arguments."""
        return tuple(self.words.values()) or DOCUMENTED

    def of(self, **by_name: Any) -> Any:
        """Call the loss with tensors given by name."""
        if not self.words:
            return self.fn(*(by_name[name] for name in DOCUMENTED))
        positional = [by_name[self.words[name]] for name in self.first]
        return self.fn(*positional, **{k: by_name[v] for k, v in self.words.items() if k not in self.first})


def role_of(name: str) -> str | None:
    """The tensor that an argument's name means, "old" if it may be either old policy, None if the name is unknown."""
    words = _words_in(name)
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


def role_of_reward(name: str) -> str | None:
    """The role of an argument of a user's advantage, by its name; else the role that `role_of` gives."""
    return next((role for role, names in ADVANTAGE.items() if name.lower() in names), role_of(name))


def libraries(fn: Any) -> tuple[str, str]:
    """Libraries whose arrays are tried in calls of a user's advantage, in order: torch first if the code names it."""
    names = getattr(getattr(fn, "__code__", None), "co_names", ())
    return ("torch", "numpy") if "torch" in names else ("numpy", "torch")


def is_advantage(part: Any) -> bool:
    """Whether a function of a user's file computes advantages: it takes rewards."""
    return inspect.isfunction(part) and "rewards" in map(role_of_reward, inspect.signature(part).parameters)


def is_loss(part: Any) -> bool:
    """Whether a function of a user's file is a loss: it takes an argument `log_prob`, or log-probs and advantages."""
    part = getattr(part, "forward", part)  # of a module
    names = list(inspect.signature(part).parameters) if inspect.isroutine(part) else []
    return "log_prob" in names or {"log_prob", "advantages"} <= {role_of(name) for name in names}


def with_settings(fn: Any, settings: Mapping[str, Any], beside: Sequence[str] = ()) -> Any:
    """A loss with other defaults of its arguments; raises `InputError` for an unknown argument."""
    given = inspect.signature(fn).parameters.values() if inspect.isfunction(fn) else ()
    takes = [each.name for each in given if each.default is not each.empty]
    remedy = "name an argument of the loss that has a default" if takes else "give it one in the loss, as its default"
    checks.each_of("loss argument", settings, [*beside, *takes], remedy)
    made = functools.partial(fn, **settings)
    made.__name__ = fn.__name__  # type: ignore[attr-defined]
    return made


def bind(
    fn: Callable[..., Any], needed: Sequence[str] = ("advantages", "log_prob", "mask"), more: Sequence[str] = ()
) -> Binding:
    """Bind a loss to the tensors; raises `InputError` for ambiguous, unknown or missing (of the `needed`) arguments."""
    made, own = not isinstance(fn, type) or not hasattr(fn, "forward"), getattr(fn, "__name__", fn)
    remedy = f"give {own}(), on the command line FILE.py:loss with loss = {own}() in the file"
    checks.require(made, "loss", fn, "a module, not its class", remedy)
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
    roles = _settled(named) | {p.name: p.name for p in named if p.name in more}
    words = _words(named, roles)
    unknown = [p.name for p in named if roles[p.name] is None and p.default is p.empty]
    missing = [role for role in needed if role not in words.values()]
    if not (unknown or missing):
        first = tuple(p.name for p in named if p.kind is p.POSITIONAL_ONLY and p.name in words)
        return Binding(fn, words, first, _notes(fn, named, words))
    # Else bind by position, or refuse. A name that means something else is not taken for a tensor.
    telling = [name for name in unknown if len(name) > 1 and _words_in(name) & _TELLING]
    if _in_order(named, roles, several) and not telling:
        notes = [f"{name} is {DOCUMENTED[[p.name for p in named].index(name)]}" for name in unknown]
        lines = (f"{GUESSED}: {', '.join(notes)}", *_defaults(fn, named[5:])) if notes else ()
        return Binding(fn, {}, notes=lines)
    if unknown:
        bound = f"a name that says which tensor it is ({', '.join((*DOCUMENTED, *more))})"
        asked = f"argument {(telling or unknown)[0]!r}"
        raise checks.InputError("loss", asked, bound, _remedy(fn, named, words, unknown))
    bound = f"a function with an argument for {' and '.join(missing)}"
    remedy = MASKED if missing == ["mask"] else _WRAP
    raise checks.InputError("loss", f"arguments {', '.join(p.name for p in named)}", bound, remedy)


def _words_in(name: str) -> frozenset[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return words_of(spaced.lower().replace("_", " "))


def _remedy(fn: Any, named: Sequence[inspect.Parameter], words: Mapping[str, str], unknown: Sequence[str]) -> str:
    """How to wrap a loss of other arguments, as one line of code that is ready but for what nobody can know."""
    means = {name: _words_in(name) for name in unknown}
    paid = [name for name, own in means.items() if own & _WORDS["rewards"]]
    if paid:
        split = "a loss is checked from its advantages on: move what makes them of"
        return f"{split} {paid[0]} into a function of its own (--kind advantage checks it), and take advantages"
    live = next((name for name, role in words.items() if role == "log_prob"), None)
    if live is None or not all(own & _WORDS["reference"] for own in means.values()):
        return _WRAP
    passed = ", ".join(p.name if p.name in words else f"{live}.detach()" for p in named if p.name in {*words, *means})
    code = f"def checked({', '.join(words)}): return {getattr(fn, '__name__', 'loss')}({passed})"
    return f"write {code} in your file, and name checked{WITHOUT_KL}"


def _settled(named: Sequence[inspect.Parameter]) -> dict[str, str | None]:
    """Tensor of each argument; "old" log-probs go to the policy that no other argument names, behavior first."""
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
    """Arguments with the tensors that they get; of two arguments for one tensor, the one without a default."""
    words: dict[str, str] = {}
    for role in dict.fromkeys(filter(None, roles.values())):
        candidates = [p for p in named if roles[p.name] == role]
        needed = [p for p in candidates if p.default is p.empty]
        chosen = needed or candidates
        also = ", ".join(repr(p.name) for p in chosen)
        remedy = "rename one, or wrap the loss"
        checks.require(len(chosen) <= 1, "loss", f"arguments {also}", f"a single one for {role}", remedy)
        words |= {p.name: role for p in chosen}
    return {p.name: words[p.name] for p in named if p.name in words}


def _in_order(named: Sequence[inspect.Parameter], roles: Mapping[str, str | None], several: bool) -> bool:
    """Whether five tensors can be passed by position: the count fits, and no known name is at another position."""
    positional = [p for p in named if p.kind is not p.KEYWORD_ONLY]
    needed = [p for p in positional if p.default is p.empty]
    others = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in named)
    fits = len(needed) <= 5 if several else len(needed) == 5 or len(positional) == 5
    placed = all(roles[p.name] in (None, DOCUMENTED[i]) for i, p in enumerate(positional[:5]))
    return fits and placed and not others


def _notes(fn: Any, named: Sequence[inspect.Parameter], words: Mapping[str, str]) -> tuple[str, ...]:
    """Where the binding differs from the documented names and order."""
    lines = []
    if list(words.values()) != list(DOCUMENTED):
        renamed = ", ".join(f"{name} is {role}" for name, role in words.items() if name != role)
        absent = [role for role in DOCUMENTED if role not in words.values()]
        notes = [f"by name: {renamed}" if renamed else "by name"]
        lines.append("; ".join(notes + ([f"it takes no {' and no '.join(absent)}"] if absent else [])))
    return (*lines, *_defaults(fn, [p for p in named if p.name not in words]))


def _defaults(fn: Any, others: Sequence[inspect.Parameter]) -> tuple[str, ...]:
    texts = [(p.name in getattr(fn, "keywords", ()), f"{p.name}={checks.shown(p.default)}") for p in others]
    kinds = (("set", True), ("left at their defaults", False))
    found = ((kind, ", ".join(text for given, text in texts if given == own)) for kind, own in kinds)
    return tuple(f"{kind}: {names}" for kind, names in found if names)


@dataclass(frozen=True)
class Style:
    """Calling convention of a trainer; "old" means the log-probs that the caller chooses. See `loss_styles.toml`."""

    tensors: Mapping[str, str]
    optional: Mapping[str, str] = field(default_factory=dict)
    mask: Callable[[Any], Any] = lambda mask: mask
    by_position: int = 0
    known_by: int = 4


_CAST: dict[str, Any] = {"areal": {"mask": lambda mask: mask > 0}, "roll": {"mask": lambda mask: mask.long()}}
_ROWS = checks.table(__file__, "loss_styles.toml")
STYLES = {name: Style(**row, **_CAST.get(name, {})) for name, row in _ROWS.items()}


def refuse(fn: Any) -> None:
    """Raise `InputError` for a loss in a trainer's style without its adapter: it would get the wrong old log-probs."""
    try:
        names = tuple(inspect.signature(getattr(fn, "forward", fn)).parameters)
    except (TypeError, ValueError):  # what is not callable is refused with the other losses
        return
    names = names[1:] if names[:1] == ("self",) else names
    begins = {one: (*known.tensors, *known.optional)[: known.known_by] for one, known in STYLES.items()}
    style = next((one for one, known in begins.items() if names[: len(known)] == known), None)
    name = getattr(fn, "__name__", type(fn).__name__)
    bound = f"wrapped, for its arguments are those of losses of {style}"
    remedy = f"write adapters.{style}({name}) of asyncsim.conformance; asyncsim conformance: add --adapter {style}"
    checks.require(style is None, "loss", name, bound, remedy)
