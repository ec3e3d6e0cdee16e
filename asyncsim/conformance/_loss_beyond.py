"""What becomes of a loss beyond ordinary batches: advantages inside rows, large ones, long rows, far log ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from asyncsim.conformance import _loss_parts
from asyncsim.conformance._loss_case import Case, averaged, plain
from asyncsim.conformance._loss_parts import Reading, of_rows, of_the_sign
from asyncsim.conformance._loss_probes import BESIDE, INSIDE, LARGE, LENGTHS, LIKELY, LONG, PADDED, SMALL
from asyncsim.conformance._loss_search import BUDGET
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.reports import Finding
from asyncsim.learning import ratios
from asyncsim.methods._method import Method

SIDE = "one token's sign decides for the whole row"
ROWS = "other weights where advantages differ inside a row"
BIG = "other weights for large advantages"
CUT = "tokens far back in a row are left out"
LONGER = "other weights in long rows"
LIMITED = "log ratio clamped live"
OTHERS = {
    BESIDE: ("other weights beside a far token", "look for rules of whole rows where those of tokens are meant"),
    SMALL: ("other weights for small advantages", "no weight of a method depends on the size of the advantage"),
    LIKELY: ("other weights for likely tokens", "no weight of this method depends on the probability itself"),
    PADDED: ("other weights in odd batches with padding", "divide by counts of tokens or rows, not by the longest row"),
    LENGTHS: ("other weights at some lengths", "look for rows or tokens that are left out by length"),
}
"""Mistakes that show in rare batches alone, and what to look for."""
NAMES = (
    _loss_parts.CLAMPED,
    _loss_parts.ONE_TOKEN,
    _loss_parts.ONE_SIGN,
    _loss_parts.AVERAGED,
    _loss_parts.CHANGED,
    SIDE,
    ROWS,
    BIG,
    CUT,
    LONGER,
    LIMITED,
    *(name for name, _ in OTHERS.values()),
)
_KNOWN = {20.0: "verl, OpenRLHF and SkyRL do this", 10.0: "verl and SkyRL do this to the mean of a row"}
"""Log ratios at which trainers are known to clamp."""


def _advantages(case: Case) -> Finding | None:
    """What was read off where all policies agree, or what explains rows of different advantages elsewhere."""
    read = case.reading
    if read is not None and read.name in (_loss_parts.CLAMPED, _loss_parts.CHANGED):
        return Finding(read.name, "bug", read.evidence, read.remedy)
    if INSIDE not in case.further:
        return None
    if not case.best.exact(case.tolerance):
        # Where no method is known, a ratio of the row spreads advantages as well.
        known = read is not None and case.coupling in ("none", "token")
        return Finding(read.name, "bug", read.evidence, read.remedy) if known and read is not None else None
    if case.first_off(INSIDE) is None or case.nearest.weight.rewarded:
        return None
    if case.coupling in ("sequence", "batch") and case.first_off(INSIDE, weigh=averaged) is None:
        evidence = "a live ratio of the row gives every token the mean weight of its row"
        remedy = "right where rows have one advantage each; other advantages are averaged"
        return Finding(_loss_parts.AVERAGED, "note", evidence, remedy)
    for name in _loss_parts.ROWS:
        found = of_rows(name)

        def of_that(method: Method, probe: Probe, found: Reading = found) -> Tensor:
            return plain(method, found.on(probe))

        if case.first_off(INSIDE, weigh=of_that) is None:
            return Finding(found.name, "bug", found.evidence, found.remedy)
    if case.first_off(INSIDE, weigh=_by_first_sign) is None:
        remedy = "decide for every token by the sign of its own advantage"
        return Finding(SIDE, "bug", "clips close by the sign of the row's first advantage", remedy)
    if case.reading is None and case.first_off(LARGE) is not None:
        return None  # that they are large is enough
    return _unexplained(case, INSIDE, ROWS, "use every token's own advantage, in weights and in clips")


def _by_first_sign(method: Method, probe: Probe) -> Tensor:
    """Weights of the method where the row's first token says which side of a clip is closed."""
    found = plain(method, probe.but(probe.name, advantages=of_the_sign(probe)))
    return found * (probe.advantages * probe.advantages[:, :1]).sign()


def _large(case: Case) -> Finding | None:
    if not case.best.exact(case.tolerance) or case.reading is not None:
        return None
    return _unexplained(case, LARGE, BIG, "no weight of a method depends on the size of the advantage")


def _unexplained(case: Case, group: str, name: str, remedy: str) -> Finding | None:
    off = case.first_off(group)
    if off is None:
        return None
    where = f"sequence {off.sequence}, token {off.token}"
    shown = f"expected {off.wanted:.4g}, found {off.found:.4g}" if off.found == off.found else "the loss fails there"
    return Finding(name, "bug", f"{where}: {shown}; elsewhere it is {case.best.label}", remedy)


def _long(case: Case) -> Finding | None:
    """Rows of 40 tokens where all policies agree, then as they are."""
    probe = case.further[LONG][0]
    probe = probe.but(probe.name, log_prob=probe.behavior, proximal=probe.behavior)
    answer = case.subject.quietly(probe)
    used = (probe.mask > 0) & (probe.advantages != 0)
    if answer is not None and answer.finite and case.trimmed is None:
        alive = (answer.cotangent != 0) & used
        # Rows without any gradient are left out for another reason than their length.
        used = used & alive.any(-1, keepdim=True)
        last = int(alive.any(0).nonzero().max()) + 1 if bool(alive.any()) else 0
        if 0 < last < int(used.any(0).nonzero().max()) - 2:
            evidence = f"no token behind the {last}th of a row has a gradient"
            return Finding(CUT, "bug", evidence, "mask what was not generated, and nothing else")
    if not case.best.exact(case.tolerance):
        return None
    return _unexplained(case, LONG, LONGER, "look for constants that stand for the length of a row")


def _limited(case: Case) -> Finding | None:
    """Where the log ratio stops, and the gradient with it."""
    live = [k for k in case.curves.limits if k.kind == "jump" and abs(k.above if k.log_ratio > 0 else k.below) < 1e-12]
    if not live:
        return None
    at = min(abs(kink.log_ratio) for kink in live)
    bound = next((x for x in _KNOWN if math.isclose(x, at, rel_tol=1e-6)), None)
    rows = case.coupling in ("sequence", "batch")
    known = bound is not None and (bound >= ratios.LOG_LIMIT or rows)
    evidence = f"beyond a log ratio of {at:.4g} tokens have no gradient, where asyncsim keeps that of e^20"
    if known and bound is not None:
        return Finding(LIMITED, "note", f"{evidence}; {_KNOWN[bound]}", "detach the ratio to keep the gradient")
    if at < ratios.LOG_LIMIT - 1e-3:
        evidence = f"beyond a log ratio of {at:.4g} tokens have no gradient, and the loss a constant value"
    return Finding(LIMITED, "bug", evidence, "limit the log ratio at 20, or detach the ratio")


def _selected(case: Case) -> Finding | None:
    """Other probabilities with the same ratios in half of the batch: do tokens of the other half notice?"""
    if case.coupling != "batch":
        return None
    for name in ("on policy", "lag and drift", "far"):
        probe = case.probe(name)
        half = len(probe.mask) // 2
        steps = torch.from_numpy(np.random.default_rng(5).uniform(0.0, 6.0, tuple(probe.mask.shape)))
        steps[:half] = 0.0
        moved = {key: getattr(probe, key) - steps for key in ("log_prob", "behavior", "proximal")}
        one, two = case.ask(probe)[:half], case.ask(probe.but(probe.name, **moved))[:half]
        if float((one - two).abs().max()) > 1e-6 * float(one.abs().max()):
            evidence = "tokens change with the probabilities of others, though all ratios stay"
            remedy = "losses that select tokens by covariance do this (clip_cov, kl_cov); none is compared here"
            return Finding("tokens selected by log-probs", "note", evidence, remedy)
    return None


def rare(case: Case) -> Finding | None:
    """The first kind of rare batches on which a loss deviates that is right elsewhere."""
    if not case.best.exact(case.tolerance) or case.trimmed is not None:
        return None
    found = (_unexplained(case, group, *words) for group, words in OTHERS.items())
    return next((one for one in found if one is not None), None)


CHECKS: tuple[Callable[[Case], Finding | None], ...] = (_advantages, _large, _long, _limited, _selected)


def unchecked(case: Case) -> Iterator[str]:
    """What these probes leave out for this loss."""
    if INSIDE not in case.further:
        yield f"{INSIDE} (it takes one for each row)"
    elif case.best.exact(case.tolerance) and case.nearest.weight.rewarded:
        yield f"{INSIDE} ({case.nearest.name} reads one reward for each row)"
    if case.evidence.left[0] <= 0 and not case.best.exact(case.tolerance):
        yield f"further settings of methods (the search ended after {BUDGET} calls)"
