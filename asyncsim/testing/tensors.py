"""Batches as a trainer's loss takes them, and methods of this package as such losses."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.arguments import bind
from asyncsim.conformance._loss_methods import Family, families
from asyncsim.conformance.losses import PER
from asyncsim.conformance.reports import called
from asyncsim.methods._method import Method

AXES = ("NT", "RGNT")
POLICIES = ("equal", "current = proximal", "proximal = behavior", "all differ")
"""Which of the three policies are the same in a whole batch."""
_SURE, _LARGEST = 10.0, 20.0
"""Least log-prob of a token where policies agree, and largest reward."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Tensors of one rectangular batch for a loss, `[N, T]` (one group) or `[R, G, N, T]`, in float64.

    `log_prob`, `behavior_log_prob`, `proximal_log_prob` in nats, at most 0; `advantages` and `mask` (0 or 1) of the
    same shape; `rewards` without the axis T.
    """

    log_prob: Tensor
    behavior_log_prob: Tensor
    proximal_log_prob: Tensor
    advantages: Tensor
    mask: Tensor
    rewards: Tensor

    @property
    def arguments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Arguments of a loss by name: log_prob, behavior_log_prob, proximal_log_prob, advantages, mask."""
        return self.log_prob, self.behavior_log_prob, self.proximal_log_prob, self.advantages, self.mask

    def gradient(self, loss: Callable[..., Tensor]) -> Tensor:
        """Gradient dL / d log_prob of a loss, shaped like `log_prob`; arguments are matched as in `check_loss`."""
        now = self.log_prob.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(bind(loss)(now, *self.arguments[1:]), now)
        return gradient


def batches(
    axes: str = "NT",
    *,
    replicates: int = 2,
    groups: int = 3,
    samples: int = 6,
    tokens: int = 8,
    far: float = 20.0,
    advantages_per: str = "sequence",
    empty: bool = False,
) -> st.SearchStrategy[Batch]:
    """Hypothesis strategy for the tensors of one `Batch`: `[N, T]`, or `[R, G, N, T]` with `axes="RGNT"`.

    Edges are drawn too: one sample, one token, samples without tokens, holes in the mask, equal policies, the first
    update (current = proximal). So are log ratios of exactly `far`, certain tokens (log-prob 0) and rewards that are
    all equal. Advantages are the rewards, or rewards minus their group's mean. A batch shrinks towards one sample of
    one certain token.

    Arguments: `replicates` R, `groups` G, `samples` N, `tokens` T, the largest counts, each at least 1; `far`, the
    largest log ratio between two policies, in nats, at most 700; `advantages_per`, "sequence" or "token": whether
    advantages differ inside a row; `empty`, whether a replicate may have no token at all (`Method.weigh` refuses such
    a step). Raises `InputError`. Source: textbook.

    >>> from hypothesis import find
    >>> find(batches("RGNT"), lambda batch: True).log_prob.shape
    torch.Size([1, 1, 1, 1])
    """
    checks.one_of("axes", axes, AXES, "say which axes a batch has")
    remedy = "give the largest count that may be drawn"
    most = {"replicates": replicates, "groups": groups, "samples": samples, "tokens": tokens}
    sizes = tuple(checks.integer(name, value, 1, remedy, 1000) for name, value in most.items())[-len(axes) :]
    far = checks.real("far", far, "give the largest log ratio, in nats", 0.0, 700.0)
    checks.one_of("advantages_per", advantages_per, PER, "say whether advantages differ inside a row")
    checks.boolean("empty", empty, "say whether a replicate may have no token")
    return _batches(sizes, _pools(_between(0.0, far)), _pools(st.integers(0, tokens)), advantages_per, empty)


Pools = st.SearchStrategy[tuple[list[float], int]]


def _between(low: float, high: float) -> st.SearchStrategy[float]:
    """Strategy for numbers in [low, high], both ends included."""
    return st.sampled_from([low, high]) | st.floats(low, high, allow_subnormal=False)


def _pools(elements: st.SearchStrategy[Any]) -> Pools:
    """Strategy for a few numbers and a seed for their positions, since arrays drawn one by one would not shrink."""
    return st.tuples(st.lists(elements, min_size=1, max_size=8), st.integers(0, 255))


_RIGHT = st.sampled_from([0.0, 1.0])
_LEVELS, _HOLES = _pools(_between(0.0, _SURE)), _pools(_RIGHT)
_REWARDS = _pools(_RIGHT) | _pools(_RIGHT | _between(-_LARGEST, _LARGEST))


def _laid_out(pool: tuple[list[float], int], shape: tuple[int, ...]) -> np.ndarray:
    """Array with the numbers of a pool in turn (seed 0), or at random positions."""
    (numbers, seed), size = pool, math.prod(shape)
    index = np.random.default_rng(seed).integers(0, len(numbers), size) if seed else np.arange(size) % len(numbers)
    return np.array(numbers, dtype=np.float64)[index].reshape(shape)


@st.composite
def _batches(draw: Any, sizes: tuple[int, ...], gaps: Pools, lengths: Pools, per: str, empty: bool) -> Batch:
    shape = tuple(draw(st.integers(1, most)) for most in sizes)
    # Each policy stands below a common level, so that no log-prob is above 0 and no log ratio beyond the largest gap.
    level = _laid_out(draw(_LEVELS), shape)
    below = {name: _laid_out(draw(gaps), shape) for name in ("behavior", "proximal", "current")}
    policies = draw(st.sampled_from(POLICIES))
    if policies in ("equal", "proximal = behavior"):
        below["proximal"] = below["behavior"]
    if policies in ("equal", "current = proximal"):
        below["current"] = below["proximal"]
    rewards = _laid_out(draw(_REWARDS), shape[:-1])
    advantages = rewards - rewards.mean(-1, keepdims=True) if draw(st.booleans()) else rewards
    advantages = np.repeat(advantages[..., None], shape[-1], -1)
    if per == "token":
        advantages = advantages + _laid_out(draw(_REWARDS), shape)
    # Every token, samples of any length, or any tokens.
    kind, mask = draw(st.sampled_from(("full", "lengths", "holes"))), np.ones(shape)
    if kind == "lengths":
        mask = (np.arange(shape[-1]) < _laid_out(draw(lengths), shape[:-1])[..., None]).astype(np.float64)
    if kind == "holes":
        mask = _laid_out(draw(_HOLES), shape)
    rows = mask.reshape(shape[0] if len(shape) == 4 else 1, -1)
    if not empty:
        rows[rows.sum(-1) == 0, 0] = 1.0
    columns = (*(-level - below[name] for name in ("current", "behavior", "proximal")), advantages, mask, rewards)
    return Batch(*(torch.from_numpy(np.ascontiguousarray(column)) for column in columns))


@dataclass(frozen=True)
class DrawnLoss:
    """Generated loss with the tensors of `check_loss`: a method of this package with random settings."""

    method: Method
    label: str
    """The call that makes the method."""

    def __call__(
        self, log_prob: Tensor, behavior_log_prob: Tensor, proximal_log_prob: Tensor, advantages: Tensor, mask: Tensor
    ) -> Tensor:
        """-sum a m c over `[N, T]` or more axes, whose gradient descends along the method (`Method.loss`)."""
        given: dict[str, Any] = {"advantages": advantages, "rewards": advantages[..., 0], "mask": mask}
        return self.method.loss(log_prob, behavior_log_prob, proximal_log_prob, **given, categorical=False)


def losses(*names: str) -> st.SearchStrategy[DrawnLoss]:
    """Hypothesis strategy for losses: this package's methods with random settings, as references for your own loss.

    Each takes the five tensors `[N, T]` of a `Batch`, has the `method` (`weigh` gives its score weights c, `[N, T]`)
    and the `label` of the call that makes it. Numbers are a method's own, halved or doubled where it takes them;
    choices are any that it has. It shrinks towards defaults.

    Arguments: `names` of methods, all that are weights on log-probs where none is given. Raises `InputError` for other
    names. Source: this package.

    >>> from hypothesis import find
    >>> find(losses("dapo"), lambda loss: True).label, find(losses(), lambda loss: loss.method.proximal).label
    ('dapo()', ...)
    """
    known = {family.name: family for family in families()[0]}
    for name in names:
        checks.one_of("names", name, known, "name methods that weigh log-probs, as `asyncsim list methods` does")
    return st.one_of(*(_drawn_losses(known[name]) for name in names or known))


@st.composite
def _drawn_losses(draw: Any, family: Family) -> DrawnLoss:
    settings: dict[str, Any] = {name: draw(st.sampled_from(choices)) for name, choices in family.choices.items()}
    for name, usual in family.numbers.items():
        if usual is not None:
            settings[name] = usual * draw(st.sampled_from([1.0, 0.5, 2.0]))
    usual_settings = {**{name: choices[0] for name, choices in family.choices.items()}, **family.numbers}
    settings = {name: value for name, value in settings.items() if value != usual_settings[name]}
    method = family.method(settings)
    if method is None:
        # These settings contradict one another.
        settings, method = {}, family.method({})
    assert method is not None, f"the defaults of {family.name} contradict one another"
    return DrawnLoss(method, called(family.name, settings))
