"""Where a loss breaks: infinities, overflow, values on masked tokens, and what it does not detach."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_probes import Points, garbage, points
from asyncsim.conformance.reports import Finding

ZERO = "infinite ratios get weight 0"
OVERFLOW = "not finite at extreme log ratios"
MASKED = "not finite with garbage on masked tokens"
ATTACHED = "inputs not detached"


def _far(log_ratio: float, sign: float) -> Points:
    """One token whose log ratio to behavior and proximal policy is far out."""
    high, low = -0.5, -0.5 - abs(log_ratio)
    now, then = (high, low) if log_ratio > 0 else (low, high)
    return Points(*(torch.tensor([x], dtype=torch.float64) for x in (now, then, then, sign)))


def _weight(case: Case, log_ratio: float, sign: float) -> float:
    answer = case.subject.quietly(_far(log_ratio, sign).probe(case.curves.pair))
    if answer is None or not answer.finite:
        return math.nan
    return float(answer.cotangent[0, 0]) / case.curves.unit


def _beside(case: Case, log_ratio: float, sign: float) -> float:
    """Weight of an ordinary token in a batch with the extreme one: 0 where everything was closed on purpose."""
    listed = zip(_far(log_ratio, sign), points("drift", sign, np.array([0.05])), strict=True)
    answer = case.subject.quietly(Points(*(torch.cat(column) for column in listed)).probe(case.curves.pair))
    return 0.0 if answer is None else float(answer.cotangent[-1, 0])


def _zero(case: Case) -> Finding | None:
    for sign in (1.0, -1.0):
        near, far = _weight(case, 80.0, sign), _weight(case, 1000.0, sign)
        if math.isfinite(near) and abs(near) > 1e-6 and far == 0.0 and _beside(case, 1000.0, sign) != 0.0:
            evidence = f"weight {near:.4g} at a log ratio of 80, 0 at 1000"
            return Finding(ZERO, "bug", evidence, "cap before infinities are replaced: the order decides")
    return None


def _overflow(case: Case) -> Finding | None:
    broken = [
        f"{x:g} (A {'>' if sign > 0 else '<'} 0)"
        for x in (1000.0, -1000.0)
        for sign in (1.0, -1.0)
        if math.isnan(_weight(case, x, sign))
    ]
    if not broken:
        return None
    remedy = "limit the log ratio to +-20 before exp"
    return Finding(OVERFLOW, "hazard", f"loss or gradient at a log ratio of {', '.join(broken)}", remedy)


def _masked(case: Case) -> Finding | None:
    probe = case.probe("lag and drift")
    before = case.ask(probe)
    broken = []
    for name, value in (("a log ratio of 1000", -1000.0), ("infinity", -math.inf), ("NaN", math.nan)):
        answer = case.subject.quietly(garbage(probe, value))
        whole = answer is not None and answer.finite and math.isfinite(answer.masked)
        same = answer is not None and torch.allclose(answer.cotangent, before, rtol=1e-9, atol=1e-15)
        broken += [] if whole and same else [name]
    if not broken:
        return None
    remedy = "replace masked log ratios by 0 with where() before exp: 0 * inf is NaN"
    return Finding(MASKED, "hazard", f"loss or gradient with {', '.join(broken)} there", remedy)


def _attached(case: Case) -> Finding | None:
    if not case.subject.attached:
        return None
    named = {"advantages": "advantages", "behavior": "behavior log-probs", "proximal": "proximal log-probs"}
    evidence = f"a gradient flows into {', '.join(named[name] for name in case.subject.attached)}"
    return Finding(ATTACHED, "note", evidence, "detach them inside, or make sure that every caller does")


CHECKS: tuple[Callable[[Case], Finding | None], ...] = (_zero, _overflow, _masked, _attached)
NAMES = (ZERO, OVERFLOW, MASKED)
