"""Mistakes of masks: rejected tokens, sequences without tokens, values where nothing was generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_probes import emptied
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.reports import Finding

SHRINKS = "rejected tokens shrink the denominator"
EMPTY = "a fully masked sequence leaves the count"
EMPTY_NAN = "not finite with a fully masked sequence"
LEAKS = "masked tokens matter"


def _shrinks(case: Case) -> Finding | None:
    """Half of the tokens go where they are rejected; the others must not notice."""
    base = case.probe("on policy")
    base = base.but("rejected tokens", advantages=torch.ones_like(base.advantages))
    for sign, step, pattern in _variants(base):
        signed = base.but(base.name, advantages=sign * base.advantages)
        before = case.ask(signed)
        for moved in _moved(signed, step, pattern):
            after = case.ask(moved)
            out, kept = (pattern > 0) & (base.mask > 0), (pattern == 0) & (base.mask > 0)
            if bool((after[out] != 0).any()) or bool((before[kept] == 0).any()):
                continue
            factors = torch.where(kept, after / before, torch.ones_like(after))
            if name := _explained(factors, kept, base.mask):
                largest = float(factors.max())
                evidence = f"tokens that stay have {largest:.4g} times their gradient when others are rejected: {name}"
                remedy = "count the generated tokens before rejection: the mask belongs to the numerator alone"
                return Finding(SHRINKS, "bug", evidence, remedy)
    return None


def _variants(base: Probe) -> Iterator[tuple[float, float, Tensor]]:
    tokens = torch.zeros_like(base.mask)
    tokens[::2, 0] = 1.0
    tokens[1::2, 1:2] = 1.0
    sequences = torch.zeros_like(base.mask)
    sequences[1:4] = 1.0
    for pattern in (tokens, sequences):
        for sign in (1.0, -1.0):
            for step in (3.0, -3.0):
                yield sign, step, pattern


def _moved(probe: Probe, step: float, pattern: Tensor) -> Iterator[Probe]:
    """The chosen tokens far from behavior: by drift, and by lag."""
    now = probe.behavior + step * pattern
    yield probe.but(probe.name, log_prob=now)
    yield probe.but(probe.name, log_prob=now, proximal=now)


def _explained(factors: Tensor, kept: Tensor, mask: Tensor) -> str:
    """Which smaller denominator explains the factors of the kept tokens; "" where none does."""
    if float((factors[kept] - 1.0).abs().max()) < 1e-6:
        return ""
    left = kept.sum(-1, keepdim=True).to(mask.dtype)
    lengths = mask.sum(-1, keepdim=True)
    full = lengths[:, 0] > 0
    rules = {
        "divided by the tokens that are left": (mask.sum() / kept.sum()).expand(mask.shape),
        "divided by the tokens that are left of each sequence": (lengths / left.clamp(min=1.0)).expand(mask.shape),
        "divided by the sequences that are left": (full.sum() / (left[:, 0] > 0).sum()).expand(mask.shape),
    }
    for name, rule in rules.items():
        if float((factors - rule)[kept].abs().max()) < 1e-5:
            return name
    return ""


def _empty(case: Case) -> Finding | None:
    base = case.probe("on policy")
    probe = emptied(base)
    answer = case.subject.quietly(probe)
    if answer is None or not answer.finite:
        said = "the loss fails" if answer is None else "loss or gradient is not finite"
        return Finding(EMPTY_NAN, "hazard", f"{said} in a batch with one such sequence", "divide by max(T_i, 1)")
    kept = (probe.mask > 0) & (probe.advantages != 0)
    before = case.ask(base)
    used = kept & (before != 0)
    if not bool(used.any()):
        return None
    factors = (answer.cotangent / before)[used]
    by_tokens = case.divisor is not None and case.divisor.aggregator == "token_mean"
    fair = float(base.mask.sum() / probe.mask.sum()) if by_tokens else 1.0
    B = len(base.mask)
    if float((factors / fair - B / (B - 1)).abs().max()) < 1e-6:
        evidence = f"one such sequence among {B} makes the gradient of the others {B / (B - 1):.4g} times as large"
        return Finding(EMPTY, "bug", evidence, "divide by the number of sequences of the step, with or without tokens")
    return None


def _leaks(case: Case) -> Finding | None:
    """Ordinary values on masked tokens."""
    probe = case.probe("lag and drift")
    hidden = probe.mask == 0
    other = probe.but(
        probe.name,
        log_prob=torch.where(hidden, probe.log_prob - 0.4, probe.log_prob),
        behavior=torch.where(hidden, probe.behavior + 0.3, probe.behavior),
        proximal=torch.where(hidden, probe.proximal - 0.1, probe.proximal),
    )
    one, two = case.subject.ask(probe), case.subject.ask(other)
    size = float(one.cotangent.abs().max())
    changed = float((one.cotangent - two.cotangent).abs().max())
    if changed <= 1e-9 * size and one.masked <= 1e-9 * size:
        return None
    what = "their own gradient is not 0" if one.masked > 1e-9 * size else "other values there change other tokens"
    return Finding(LEAKS, "bug", what, "apply the mask to log ratios before they are summed, and to the loss")


CHECKS: tuple[Callable[[Case], Finding | None], ...] = (_shrinks, _empty, _leaks)
NAMES = (SHRINKS, EMPTY, EMPTY_NAN, LEAKS)
