"""A method as one function: of a step, its advantages and its knobs, to the score weight c of every token.

    @estimator("2511.20347", advantage=advantages.group_std, aggregator="sequence_mean", anchored="behavior")
    def sapo(step: Step, a: Tensor, positive: Any = number(1.0, ...), negative: Any = number(1.05, ...)) -> Tensor:
        '''One line.'''
        return ...

`estimator` makes a weight of the function, or of a class with `score_weight` and more. Under `method` the function
makes the weight of its knobs itself. The public function has the knobs, then `anchor` where there is a choice,
`advantage` and `aggregator`, then the knobs behind a `*`.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.base import checks, parts
from asyncsim.base.parts import Knob, handed_on, number, real
from asyncsim.methods._method import Method
from asyncsim.methods._weights import Weight
from asyncsim.step.step import Step

CAP = number(2.0, "largest ratio", 1.0, remedy="a cap below 1 shrinks on-policy samples; use at least 1")
LOW = number(0.2, "the lower bound is 1 - low", 0.0, 1.0, remedy="the lower bound is 1 - low")
HIGH = number(0.2, "the upper bound is 1 + high", 0.0, remedy="the upper bound is 1 + high")
CRITIC = handed_on(0.5, "coefficient of the value loss, per unit of reward", ">= 0")
ENTROPY = real(
    0.0, "coefficient of an entropy bonus, reward per nat", remedy="give one coefficient for all replicates, 0 for none"
)
AT = handed_on("current", "the parameters at which scores are taken", '"current" or "behavior"')
_ANCHOR = '`anchor` of the ratio, "behavior" or "proximal"'
_MEANS = '`aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant"'


def method(source: str, **about: Any) -> Callable[[Callable[..., Weight]], Callable[..., Method]]:
    """Make a method from a function that turns knobs into a score weight; for `about` see `_public`."""
    return lambda body: _public(source, body, body.__name__, parts.declared(body), body, **about)


def estimator(
    source: str,
    *,
    level: str = "token",
    applied: Callable[..., Tensor] | None = None,
    flags: Mapping[str, Any] | None = None,
    **about: Any,
) -> Callable[[Any], Callable[..., Method]]:
    """Make a method with its own score weight: a function of step, advantages, knobs, or a class with `score_weight`.

    `applied(step, **knobs)`: c at A = 1 without masks, where it is another; `flags`: attributes of the weight.
    """

    def make(body: Any) -> Callable[..., Method]:
        name, own = body.__name__, parts.declared(body)
        inside = {n: knob for n, knob in own.items() if n not in about.get("outside", ())}

        def given(self: Any) -> dict[str, Any]:
            return {n: getattr(self, n) for n in inside}

        traits: dict[str, Any] = {"level": level, "anchored": bool(about.get("anchored")), **(flags or {})}
        traits["score_weight"] = lambda self, step, a: body(step, a, **given(self))
        if applied is not None:
            traits["applied"] = lambda self, step: applied(step, **given(self))
        kind = parts.kind_of(body, inside, (Weight,), **traits)
        return _public(source, body, name, own, kind, late=getattr(body, "late", {}), **about)

    return make


def _public(
    source: str,
    body: Any,
    name: str,
    own: Mapping[str, Knob],
    weigh: Callable[..., Weight],
    *,
    advantage: Callable[[], Any] = advantages.group_mean,
    compared: Callable[..., Any] | None = None,
    aggregator: str | Callable[..., str] = "token_mean",
    anchored: str = "",
    late: Mapping[str, Knob] | None = None,
    order: str = "",
    outside: tuple[str, ...] = (),
    joint: Callable[..., None] | None = None,
    shape: str = "T",
    raises: str = "",
    **fields: Any,
) -> Callable[..., Method]:
    """Make the public function of a method, which checks the knobs.

    `advantage`: what makes the usual one, or `compared`, from the knobs. `anchored`: the usual anchor, where there is a
    choice. `order`: names of all arguments where knobs do not come first. `outside`: knobs that the weight does not
    have. `joint` raises for arguments that do not go together. Fields of the `Method` may be functions of the knobs;
    knobs named `critic` and `at` are such fields, `entropy` is one of its constants.
    """
    behind = {} if isinstance(body, type) else inspect.signature(body).parameters
    last = {n: own[n] for n, p in behind.items() if n in own and p.kind is p.KEYWORD_ONLY} | dict(late or {})
    shared: dict[str, Any] = {"anchor": anchored} if anchored else {}
    shared |= {"advantage": None, "aggregator": aggregator if isinstance(aggregator, str) else None}
    knobs = {**own, **last}
    every = {**{n: knob for n, knob in own.items() if n not in last}, **shared, **last}
    every = {n: every[n] for n in order.split()} if order else every

    def build(**given: Any) -> Method:
        numbers = {n: given[n] for n in knobs}
        if joint is not None:
            joint(**given)
        made = {n: value(**numbers) if callable(value) else value for n, value in fields.items()}
        made |= {n: given[n] for n in ("anchor", "critic", "at") if n in given}
        made |= {"constants": {"entropy": given["entropy"]}} if given.get("entropy") else {}
        baseline, mean = given["advantage"], given["aggregator"]
        if baseline is None:
            baseline = compared(**numbers) if compared else advantage()
        if callable(aggregator):
            mean = aggregator(**numbers) if mean is None else mean
        weight = weigh(**{n: value for n, value in numbers.items() if n not in outside})
        low, high = (getattr(weight, end, None) if weight.banded else None for end in ("low", "high"))
        if isinstance(low, float) and isinstance(high, float) and low < 1.0 < high < 2.0:
            words = f"low and high are distances from 1: the range of the ratio is [{1.0 - low:g}, {1.0 + high:g}]"
            words += f"; for {low:g} to {high:g} write low={1.0 - low:.4g}, high={high - 1.0:.4g}"
            warnings.warn(checks.RunWarning(words), stacklevel=3)
        return Method(name, baseline, weight, mean, **made)

    usual = "" if compared else f" (default `{advantage.__name__}()`)"
    doc = parts.documented(
        body.__doc__,
        parts.told(knobs, *[_ANCHOR] * bool(anchored), f"`advantage`{usual}", _MEANS),
        f"Returns a `Method` whose weight is `[R, G, N, {shape}]`.",
        f"Raises `InputError` for settings outside their range and unknown names{raises and f', {raises}'}.",
        f"Source: {source}.",
        example=f">>> {name}().name\n{name!r}",
    )
    return parts.factory(name, body, every, build, doc)


def ones(step: Step, **_: Any) -> Tensor:
    """Score weight at advantage 1 of a method without ratio: 1 for every sample."""
    return torch.ones_like(step.mask[..., :1])
