"""Losses that leave out the first or the last token of a row, as a shift too many does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.conformance._loss_subject import TENSORS, Probe, Subject

FIRST = "first token left out"
LAST = "last token left out"


@dataclass(frozen=True)
class Trimmed:
    """What is left out, and whether the loss of rows with one more token there is one without that mistake."""

    name: str
    evidence: str
    mended: bool


def untrimmed(subject: Subject, probe: Probe) -> tuple[Subject, Trimmed | None]:
    """The loss as it is where no token is left out; else asked on rows with one more token there, if that helps."""
    gone = _gone(subject, probe)
    if gone is None:
        return subject, None
    kept = probe.mask > 0
    place = torch.arange(kept.shape[1]).expand(kept.shape)
    ends = kept & (place == (place * kept).amax(-1, keepdim=True))
    starts = kept & (place == torch.where(kept, place, kept.shape[1]).amin(-1, keepdim=True))
    found = next(
        (
            (name, at)
            for name, at, where in (
                (FIRST, 0, starts),
                (LAST, -1, ends),
                (LAST, -1, kept & (place == kept.shape[1] - 1)),
            )
            if torch.equal(gone, where)
        ),
        None,
    )
    if found is None:
        return subject, None
    name, at = found
    evidence = f"the {'first' if at == 0 else 'last'} generated token of a row has no gradient"
    for counted in (0.0, 1.0):
        other = _padded(subject, at, counted)
        if _gone(other, probe) is None:
            return other, Trimmed(name, evidence, True)
    return subject, Trimmed(name, evidence, False)


def _gone(subject: Subject, probe: Probe) -> Tensor | None:
    """Generated tokens with an advantage and without a gradient; None where it is none of them, or all."""
    sign = torch.where(probe.advantages < 0, -1.0, 1.0).to(probe.mask.dtype)
    answer = subject.quietly(probe.but(probe.name, advantages=sign))
    if answer is None or not answer.finite:
        return None
    gone = (answer.cotangent == 0) & (probe.mask > 0)
    return gone if bool(gone.any()) and not bool(gone[probe.mask > 0].all()) else None


def _padded(subject: Subject, at: int, counted: float) -> Subject:
    """The loss on rows with one more column in front (0) or behind (-1), of one policy and without an advantage."""
    fill = dict(zip(TENSORS, (-1.0, -1.0, -1.0, 0.0, counted), strict=True))

    def loss(log_prob: Tensor, behavior: Tensor, proximal: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
        given = dict(zip(TENSORS, (log_prob, behavior, proximal, advantages, mask), strict=True))
        columns = {name: torch.full_like(x[:, :1], fill[name]) for name, x in given.items()}
        ordered = {k: (columns[k], x) if at == 0 else (x, columns[k]) for k, x in given.items()}
        found: Tensor = subject.binding(*(torch.cat(pair, -1) for pair in ordered.values()))
        return found

    other = Subject(loss, attached=list(subject.attached))
    return other
