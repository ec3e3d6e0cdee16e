"""Batches on which a loss is evaluated: drawn from a seed, with every situation that distinguishes methods."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance._loss_subject import Probe

LARGEST, LONGEST, FARTHEST = 20.0, 40, 25.0
"""Advantages, rows and log ratios of single tokens that are probed, at most."""
INSIDE, LARGE, LONG = "advantages that differ inside a row", "large advantages", "long rows"
PADS = "odd batches with padding in every row"
_OTHER_LENGTHS = (7, 8, 13, *range(17, 32), 33, 34, 35, 37, 38, 39)


@lru_cache(8)
def ordinary(seed: int) -> list[Probe]:
    """Test batches that every loss should handle: several shapes, and advantages of every sign."""
    probes = [_drawn(seed, index, *row) for index, row in enumerate(ORDINARY)]
    # Tokens of middling probability come last, where masks on probabilities bind.
    middling = _likely(seed, 99, "probable tokens", lambda rng: np.log(rng.uniform(0.15, 0.95, (8, 6))))
    others = ((_balanced, 97), (_outliers, 98))
    return [*probes, *(make(np.random.default_rng([seed, index])) for make, index in others), middling]


_MIXED = ((0.4, 0.4), (0.0, 2.0), (1.2, 0.8), (0.0, 4e-4))
"""Lag and drift of the batches with advantages that differ."""


class Further(NamedTuple):
    """More demanding batches: how to draw them from a seed, and the mistake of a loss that fails only there."""

    drawn: Callable[[int], list[Probe]]
    mistake: str
    remedy: str


_DRAWN: dict[str, Callable[[int], list[Probe]]] = {
    LARGE: lambda seed: [_drawn(seed, 60, "", 8, 4, 16, 0.1, 0.2).paid(LARGEST, -LARGEST, 6, -9, 14, -3, 10, -7)],
    LONG: lambda seed: [_drawn(seed, 61, "", 4, 2, LONGEST, 0.1, 0.15)],
    "a far token among near ones": lambda seed: [_beside(seed, 90, drift=True), _beside(seed, 91, drift=False)],
    "small advantages": lambda seed: [
        _drawn(seed, 92, "", 8, 4, 6, 0.2, 0.3).paid(0.2, -0.1, 0.05, -0.02, 0.01, -0.005, 0.001, -0.2)
    ],
    # Of a probability from .74 to .9999.
    "likely tokens": lambda seed: [
        _likely(seed, 93, "", lambda rng: -np.exp(rng.uniform(math.log(1e-4), math.log(0.3), (8, 6))))
    ],
    PADS: lambda seed: [_padded(_drawn(seed, index, "", n, n, 10, 0.2, 0.4)) for index, n in ((94, 5), (95, 7))],
    "rows of other lengths": lambda seed: [
        _lengths(seed, _drawn(seed, 96, "", len(_OTHER_LENGTHS), 4, LONGEST, 0.05, 0.1))
    ],
    INSIDE: lambda seed: [_mixed(seed, index, *row) for index, row in enumerate(_MIXED)],
}
_TEXTS = checks.table(__file__, "loss_batches.toml")
LIMITS = tuple(x.format(LARGEST, LONGEST, len(_OTHER_LENGTHS), FARTHEST) for x in _TEXTS.pop("limits"))
"""What is not probed."""
ORDINARY = _TEXTS.pop("ordinary")
"""Log ratios of proximal to behavior and of current to proximal policy are normal with these deviations, in nats."""
FURTHER = {name: Further(drawn, *_TEXTS[name]) for name, drawn in _DRAWN.items()}
"""What a loss meets beside the ordinary batches, by what it adds."""


@lru_cache(8)
def beyond(seed: int, inside: bool = True) -> dict[str, list[Probe]]:
    """The further batches by name; without `inside`, those with several advantages in a row are left out."""
    names = [name for name in FURTHER if inside or name != INSIDE]
    return {name: [probe.but(name) for probe in FURTHER[name].drawn(seed)] for name in names}


def _mixed(seed: int, index: int, lag: float, drift: float) -> Probe:
    """A batch with a separate advantage per token, of either sign and of size 0.2 to 20."""
    probe = _drawn(seed, 70 + index, "", 8, 4, 6, lag, drift)
    rng = np.random.default_rng([seed, 80 + index])
    size = np.exp(rng.uniform(math.log(0.2), math.log(LARGEST), tuple(probe.mask.shape)))
    size[0, 0], size[1, 1] = LARGEST, LARGEST
    sign = np.where(rng.random(size.shape) < 0.5, 1.0, -1.0)
    # Rows whose tokens agree would hide who decides.
    sign[:, 1] = -sign[:, 0]
    return probe.but(probe.name, advantages=torch.from_numpy(size * sign))


def _beside(seed: int, index: int, drift: bool) -> Probe:
    """Rows of tokens near ratio 1 with one far away, in drift or lag, which shows which tokens affect others."""
    rng = np.random.default_rng([seed, index])
    behavior = -20.0 - 3.0 * rng.random((8, 10))
    step = 0.02 * rng.standard_normal((8, 10))
    step[np.arange(8), rng.permutation(10)[:8]] += [5.5, -5.5, 8.0, -8.0, 11.0, -11.0, 3.5, -3.5]
    proximal = behavior + (0.0 if drift else step)
    current = proximal + (step if drift else 0.02 * rng.standard_normal((8, 10)))
    probe = _probe(rng, "", 4, current, behavior, proximal)
    return probe.unmasked().paid(1.0, -0.7, -1.3, 0.6, 0.8, -1.1, -0.9, 1.2)


def _likely(seed: int, index: int, name: str, draw: Callable[[np.random.Generator], np.ndarray]) -> Probe:
    """Tokens whose three log-probs are drawn from one distribution."""
    rng = np.random.default_rng([seed, index])
    now, before, then = (draw(rng) for _ in range(3))
    return _probe(rng, name, 4, now, then, before)


def _padded(probe: Probe) -> Probe:
    """The batch with at least two unused columns."""
    mask = probe.mask.clone()
    mask[:, -2:] = 0.0
    return probe.but(probe.name, mask=mask)


def _lengths(seed: int, probe: Probe) -> Probe:
    """Rows of lengths that no other batch has, with advantages of size up to 20."""
    rng = np.random.default_rng([seed, 97])
    mask = torch.arange(probe.mask.shape[1]) < torch.tensor(_OTHER_LENGTHS).unsqueeze(-1)
    size = np.exp(rng.uniform(math.log(0.3), math.log(LARGEST), (len(mask), 1)))
    level = np.repeat(size * np.where(rng.random(size.shape) < 0.5, 1.0, -1.0), mask.shape[1], 1)
    return probe.but(probe.name, mask=mask.double(), advantages=torch.from_numpy(level))


def on_policy(probes: Sequence[Probe]) -> list[Probe]:
    """Test batches of different shapes, on which all policies are equal."""
    names = ("on policy", "one group", "pairs", "single tokens", "holes in the mask", EMPTIED)
    return [probe.of_one_policy() for probe in probes if probe.name in names]


EMPTIED = "rows without tokens"


def emptied(probe: Probe, rows: int = 1) -> Probe:
    """A copy of the batch in which `rows` sequences have no generated token."""
    mask = probe.mask.clone()
    mask[1 : 1 + 4 * rows : 4] = 0.0
    return probe.but(EMPTIED, mask=mask)


def garbage(probe: Probe, value: float) -> Probe:
    """A copy of the batch with a given value in the log-probs of masked tokens."""
    hidden = probe.mask == 0
    now = torch.where(hidden, torch.full_like(probe.log_prob, 0.0 if math.isfinite(value) else value), probe.log_prob)
    filled = torch.full_like(probe.behavior, value)
    then, before = (torch.where(hidden, filled, x) for x in (probe.behavior, probe.proximal))
    return probe.but("masked tokens", log_prob=now, behavior=then, proximal=before)


def _drawn(seed: int, index: int, name: str, rows: int, group: int, tokens: int, lag: float, drift: float) -> Probe:
    rng, shape = np.random.default_rng([seed, index]), (rows, tokens)
    behavior = -7.0 - 3.0 * rng.random(shape)
    proximal = behavior + np.clip(lag * rng.standard_normal(shape), -3.0, 3.0)
    current = proximal + np.clip(drift * rng.standard_normal(shape), -3.0, 3.0)
    return _probe(rng, name, group, current, behavior, proximal)


def _balanced(rng: np.random.Generator) -> Probe:
    """Rows whose log ratios nearly cancel: masks of rows keep what masks of tokens drop."""
    behavior = -7.0 - 3.0 * rng.random((8, 6))
    proximal = behavior + np.tile([1.8, -1.8], (8, 3)) + 3e-4 * rng.standard_normal((8, 6))
    current = proximal + np.where(np.arange(8)[:, None] < 4, 1e-4, 0.1) * rng.standard_normal((8, 6))
    return _probe(rng, "balanced rows", 4, current, behavior, proximal).unmasked()


def _outliers(rng: np.random.Generator) -> Probe:
    """Many tokens near ratio 1 and a few inside any usual clip, so that thresholds from the batch bind."""
    behavior = -7.0 - 3.0 * rng.random((8, 6))
    moved = behavior + 0.01 * rng.standard_normal((8, 6))
    moved[0, 1], moved[1, 0] = behavior[0, 1] + 0.15, behavior[1, 0] - 0.15
    return _probe(rng, "outliers", 4, moved, behavior, behavior).unmasked()


def _probe(
    rng: np.random.Generator, name: str, group: int, now: np.ndarray, then: np.ndarray, before: np.ndarray
) -> Probe:
    sequences, tokens = now.shape
    lengths = rng.integers(1, tokens + 1, sequences)
    lengths[0] = tokens
    mask = (np.arange(tokens) < lengths[:, None]).astype(np.float64)
    if name.startswith("holes"):
        mask[0, 1] = mask[3, 0] = 0.0
        mask[3, 2] = 1.0
    level = rng.uniform(0.3, 2.0, sequences) * np.where(np.arange(sequences) % 2 == 0, 1.0, -1.0)
    if sequences > 2:
        level[2] = 0.0
    advantages = np.repeat(level[:, None], tokens, 1)
    return Probe.of(name, (torch.from_numpy(x) for x in (now, then, before, advantages, mask)), group)


class Points(NamedTuple):
    """Single tokens, each its own batch: log-probs and advantage, `[K]`."""

    log_prob: Tensor
    behavior: Tensor
    proximal: Tensor
    advantage: Tensor

    def probe(self, pair: bool) -> Probe:
        """One batch of all points; with `pair`, each token is beside a copy whose advantage has the opposite sign."""
        columns = [x.unsqueeze(-1) for x in (self.log_prob, self.behavior, self.proximal, self.advantage)]
        if pair:
            columns = [torch.stack([x, -x if i == 3 else x], 1).reshape(-1, 1) for i, x in enumerate(columns)]
        return Probe.of("ladder", [*columns, torch.ones_like(columns[0])], len(columns[0]))

    def part(self, index: object) -> "Points":
        """The points of some of the tokens."""
        return Points(*(x[index] for x in self))  # type: ignore[index]


LADDERS = ("drift", "lag", "snapshot", "probable")
_BASE, _HIGHEST = -9.0, -1.0
_FINE = np.array([2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2])
"""Between 0 and the first step of the grid, where narrow bands close."""
_FAR = np.array([9.5, 12.0, 15.5, 19.5])


def points(ladder: str, sign: float, log_ratio: np.ndarray | Tensor) -> Points:
    """Single tokens at the given log ratios of a ladder, with the advantage `sign`.
    "drift" ("probable" from 1/2): pi to mu = pi_prox; "lag": pi = pi_prox to mu; "snapshot": pi = mu to pi_prox.
    """
    x = torch.as_tensor(log_ratio, dtype=torch.float64)
    # Far out the other policy gives way, so that no token has a probability above 1.
    base = torch.full_like(x, math.log(0.5)) if ladder == "probable" else (_HIGHEST - x).clamp(max=_BASE)
    moved = base + x
    others = {"lag": (base, moved), "snapshot": (moved, base)}
    return Points(moved, *others.get(ladder, (base, base)), torch.full_like(x, sign))


def grid(ladder: str, thin: int = 1) -> np.ndarray:
    """Log ratios of a ladder: fine around 0, including 0, up to 25 in either direction, or to 12 if thinned."""
    near = np.arange(-100 // thin, 100 // thin + 1) * 0.02 * thin
    near = np.sort(np.concatenate([near, _FINE, -_FINE])) if thin == 1 else near
    if ladder == "probable":
        return near[near < 0.68]
    far = np.arange(21, 81, thin) * 0.1
    # With wider steps the curve of a plain ratio would look bent.
    last = np.arange(far[-1] + 0.25, FARTHEST, 0.25) if thin == 1 else np.arange(far[-1] + 0.4, 12.0, 0.4)
    far = np.concatenate([far, last])
    return np.concatenate([-far[::-1], near, far])


def sparse(ladder: str) -> np.ndarray:
    """A few log ratios of a ladder, at which methods are compared with a loss."""
    near = np.arange(-100, 101)[::9] * 0.02
    if ladder == "probable":
        return near[near < 0.68]
    far = np.concatenate([np.arange(21, 81, 9) * 0.1, _FAR])
    return np.concatenate([-far[::-1], near, far])
