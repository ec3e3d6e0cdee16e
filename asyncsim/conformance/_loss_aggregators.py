"""How a loss averages tokens: the divisor of each token, read off where all policies agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from asyncsim.conformance._loss_subject import Probe, Subject

_SAME = 1e-6


@dataclass(frozen=True)
class Divisor:
    """An aggregator, and the factor that a loss has over it; `wrong` says what the factor is."""

    name: str
    aggregator: str
    times: Callable[[Probe], float]
    wrong: str = ""

    def share(self, probe: Probe) -> Tensor:
        """a m of every token `[B, T]`."""
        mask, (B, T) = probe.mask, probe.mask.shape
        lengths = mask.sum(-1, keepdim=True).clamp(min=1.0)
        plain = {
            "token_mean": mask / mask.sum(),
            "sequence_sum": mask / B,
            "sequence_mean": mask / (B * lengths),
            "constant": mask / (B * T),
        }[self.aggregator]
        return plain * self.times(probe)


def _sequences(probe: Probe) -> float:
    return float(len(probe.mask))


_GROWS = "not divided by the number of sequences: the step grows with the batch"
_SHRINKS = "divided by the number of sequences once more: the step shrinks with the batch"

KNOWN = (
    *(Divisor(name, name, lambda probe: 1.0) for name in ("token_mean", "sequence_sum", "sequence_mean", "constant")),
    Divisor("sum over tokens", "sequence_sum", _sequences, _GROWS),
    Divisor("sum over sequences of token means", "sequence_mean", _sequences, _GROWS),
    Divisor("sum over tokens / T_max", "constant", _sequences, _GROWS),
    Divisor("token_mean / B", "token_mean", lambda probe: 1.0 / _sequences(probe), _SHRINKS),
    Divisor("sequence_mean / B", "sequence_mean", lambda probe: 1.0 / _sequences(probe), _SHRINKS),
    Divisor("sequence_sum / B", "sequence_sum", lambda probe: 1.0 / _sequences(probe), _SHRINKS),
)


def aggregator_of(subject: Subject, probes: Sequence[Probe], seen: Sequence[Probe]) -> Divisor | None:
    """The divisor that explains every batch on which all policies agree; None where none does.

    `seen` are the batches with the advantages that the loss uses.
    """
    answers = [_sloped(subject, probe) for probe in probes]
    for divisor in KNOWN:
        if _spread(divisor, seen, answers) < _SAME:
            return divisor
    return None


def _sloped(subject: Subject, probe: Probe) -> Tensor:
    """What the advantages add to the gradient: a penalty that knows none is taken off."""
    without = subject.quietly(probe.but(probe.name, advantages=torch.zeros_like(probe.advantages)))
    answer = subject.ask(probe).cotangent
    return answer - without.cotangent if without is not None and without.finite else answer


def _spread(divisor: Divisor, probes: Sequence[Probe], answers: Sequence[Tensor]) -> float:
    factors = []
    for probe, answer in zip(probes, answers, strict=True):
        wanted = divisor.share(probe) * probe.advantages
        used = wanted != 0
        factors.append(answer[used] / wanted[used])
    every = torch.cat(factors)
    middle = every.median()
    apart = (every / middle - 1.0).abs()
    return float(apart.max()) if bool(torch.isfinite(apart).all()) else float("inf")
