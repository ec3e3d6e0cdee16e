"""What a loss makes of the advantages that it is given: read off where all policies agree, since c is then A."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.conformance._loss_curves import tidy
from asyncsim.conformance._loss_subject import Probe, Subject

CLAMPED = "advantages are clamped"
ONE_TOKEN = "one token's advantage for the whole row"
ONE_SIGN = "one token's sign for the whole row"
AVERAGED = "advantages averaged over the row"
CHANGED = "advantages are changed"
_SAME, _SMALL = 1e-6, 0.05


@dataclass(frozen=True)
class Reading:
    """The advantages that a loss uses in the place of given ones; `of` is None where they are no known function."""

    name: str
    evidence: str
    remedy: str
    of: Callable[[Probe], Tensor] | None = None

    def on(self, probe: Probe) -> Probe:
        """The batch with the advantages that the loss uses."""
        return probe if self.of is None else probe.but(probe.name, advantages=self.of(probe))

    def clamped(self, probe: Probe) -> Probe:
        """The same where they are only clamped: what else becomes of rows may have several causes."""
        return self.on(probe) if self.name == CLAMPED else probe


def _mean(probe: Probe, counted: bool) -> Tensor:
    """Mean of every row, over its generated tokens or over all."""
    kept = probe.mask if counted else torch.ones_like(probe.mask)
    mean = (probe.advantages * kept).sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1.0)
    return mean.expand_as(probe.mask)


def _last(probe: Probe) -> Tensor:
    at = (probe.mask * torch.arange(1, probe.mask.shape[1] + 1)).argmax(-1, keepdim=True)
    return probe.advantages.gather(-1, at).expand_as(probe.mask)


def of_the_sign(probe: Probe) -> Tensor:
    """|A| of every token with the sign of its row's first."""
    return probe.advantages.abs() * probe.advantages[:, :1].sign()


_OWN = "give every token its own advantage; where rows have one each, say advantages_per='sequence'"
_TOLD: Mapping[str, tuple[str, str]] = {
    "first": (ONE_TOKEN, "every token has the advantage of its row's first"),
    "last": (ONE_TOKEN, "every token has the advantage of its row's last"),
    "mean": (AVERAGED, "every token has the mean of its row's advantages"),
    "mean of all": (AVERAGED, "every token has the mean of its row's advantages, masked ones among them"),
    "sign": (ONE_SIGN, "every advantage has the sign of its row's first"),
}
ROWS: Mapping[str, Callable[[Probe], Tensor]] = {
    "first": lambda probe: probe.advantages[:, :1].expand_as(probe.mask),
    "last": _last,
    "mean": lambda probe: _mean(probe, True),
    "mean of all": lambda probe: _mean(probe, False),
    "sign": of_the_sign,
}
"""Advantages of rows in the place of those of tokens."""


def of_rows(name: str) -> Reading:
    """A reading by its name in `ROWS`."""
    title, evidence = _TOLD[name]
    return Reading(title, evidence, _OWN, ROWS[name])


def reading(subject: Subject, probe: Probe) -> Reading | None:
    """How advantages are read, from a batch of one policy whose rows have one each; None: as they are, or unclear."""
    found = _used(subject, probe)
    kept = probe.mask > 0
    if found is None or _agree(found, probe.advantages, kept):
        return None
    rows = [row[here] for row, here in zip(found, kept, strict=True)]
    if any(float(row.max() - row.min()) > _SAME * float(row.abs().max()) for row in rows):
        return None  # more than the advantage decides
    half = len(probe.mask) // 2
    other = torch.cat([probe.advantages[:half], 0.3 * probe.advantages[half:]])
    again = _used(subject, probe.but(probe.name, advantages=other))
    if again is None or not _agree(again[:half], found[:half], kept[:half]):
        return None  # the advantages of others decide, too
    return _clamp(found[kept], probe.advantages[kept])


def reading_of_rows(subject: Subject, probe: Probe) -> Reading | None:
    """The same from a batch of one policy whose advantages differ inside rows, where large ones are as they are."""
    found = _used(subject, probe)
    kept = probe.mask > 0
    if found is None or _agree(found, probe.advantages, kept):
        return None
    return next((of_rows(name) for name, of in ROWS.items() if _agree(found, of(probe), kept)), None)


def _used(subject: Subject, probe: Probe) -> Tensor | None:
    """Advantages in units of what a small one adds to the gradient; None where that is nothing."""
    small, zeros = torch.full_like(probe.mask, _SMALL), torch.zeros_like(probe.mask)
    answers = [subject.quietly(probe.but(probe.name, advantages=x)) for x in (probe.advantages, small, zeros)]
    if any(answer is None or not answer.finite for answer in answers):
        return None
    given, one, none = (answer.cotangent for answer in answers if answer is not None)
    unit = (one - none) / _SMALL
    if bool((unit[probe.mask > 0].abs() <= 1e-9 * one.abs().max()).any()):
        return None
    return torch.where(probe.mask > 0, (given - none) / torch.where(unit == 0, 1.0, unit), 0.0)


def _agree(found: Tensor, wanted: Tensor, kept: Tensor) -> bool:
    apart = (found - wanted).abs() <= _SAME * torch.maximum(found.abs(), wanted.abs())
    return bool(apart[kept].all())


def _clamp(found: Tensor, given: Tensor) -> Reading:
    """Advantages that stop at a bound on either side; else changed in a way that is not known."""
    cut = (found - given).abs() > _SAME * given.abs()
    high, low = (_stop(found[cut & (given * sign > 0)] * sign) for sign in (1.0, -1.0))
    top, bottom = (float("inf") if x is None else x for x in (high, low))
    if bool(((found - given.clamp(-bottom, top)).abs() <= _SAME * found.abs().clamp(min=1e-300)).all()):
        sides = [f"{word} {sign}{x:g}" for word, sign, x in (("above", "", high), ("below", "-", low)) if x is not None]
        evidence = f"an advantage {' or '.join(sides)} has the weight of that bound"
        remedy = "clamp advantages where they are made, or not at all"
        return Reading(CLAMPED, evidence, remedy, lambda probe: probe.advantages.clamp(-bottom, top))
    at = int((found - given).abs().argmax())
    evidence = f"an advantage of {float(given[at]):.4g} has the weight of {float(found[at]):.4g}"
    return Reading(CHANGED, evidence, "hand the advantages over as they are used")


def _stop(sizes: Tensor) -> float | None:
    """The size at which all of them stop; None where there are none, or where they differ."""
    if sizes.numel() == 0 or float(sizes.max() - sizes.min()) > _SAME * float(sizes.max().abs()):
        return None
    return tidy(float(sizes.mean()))
