"""Known mistakes of losses in the field: one small experiment for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch

from asyncsim.conformance import _loss_beyond, _loss_hazards, _loss_masks, _loss_parts
from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_parts import Kink, idle, shape_of
from asyncsim.conformance._loss_probes import points
from asyncsim.conformance.reports import Finding

Check = Callable[[Case], "Finding | None"]

ONE = "ratio identically 1"
UNUSED = "behavior weight not applied"
TWICE = "ratio applied twice"
LOST = "tokens above the cap lose their gradient"
INVERSE = "bounds act on the inverse ratio"
OFF = "clipping silently off"
K1 = "KL as a k1 loss"
DIVISOR = "aggregator off by the number of sequences"
AGAIN = "advantages standardized again"
CHANGED = "inputs changed in place"
ORDER = "depends on the order of sequences"
SPLIT = "threshold depends on the split"
HALVES = "depends on micro-batches"
SWAPPED = "ratio to the snapshot in place of behavior"
WRONG_SIDE = "clip closes on the wrong side"
DOWN = "sign turned around"
CAPPED = "cap below 1"


def findings(case: Case) -> Iterator[Finding]:
    """Everything that is found, bugs first."""
    found = [one for check in CHECKS if (one := check(case)) is not None]
    # What is wrong anyway is often worse in rare batches.
    if not any(one.kind == "bug" for one in found) and (other := _loss_beyond.rare(case)) is not None:
        found.append(other)
    kinds = {"bug": 0, "hazard": 1, "note": 2}
    yield from sorted(found, key=lambda finding: kinds[finding.kind])


def _one(case: Case) -> Finding | None:
    if case.reads:
        return None
    evidence = "other behavior or proximal log-probs change nothing"
    if case.like_reads:
        return Finding(ONE, "bug", evidence, "subtract stored log-probs, not log_prob.detach()")
    remedy = "right for REINFORCE; where a ratio was meant, it is identically 1"
    return Finding("no ratio", "note", evidence, remedy)


def _anchor(case: Case) -> Finding | None:
    """The asked method with the other anchor: no mistake of the loss."""
    found, like = case.other_anchor, case.like
    if found is None or like is None:
        return None
    evidence = f"with anchor={found!r} {like.name} explains every token"
    remedy = f"compare with anchor={found!r}, or hand over {like.anchor} log-probs (adapter.old={like.anchor})"
    return Finding(f"anchor: {found} where {like.anchor} was asked for", "note", evidence, remedy)


def _unused(case: Case) -> Finding | None:
    if "behavior" in case.reads or not case.reads or case.other_anchor or case.swapped:
        return None
    evidence = "other behavior log-probs change nothing: in the first update of a batch the lag is invisible"
    if "behavior" in case.like_reads:
        return Finding(UNUSED, "bug", evidence, "multiply by the ratio of pi_prox to mu, or of pi to mu")
    return Finding("the lag is invisible", "note", evidence, "right for anchor='proximal'; say so beside results")


def _twice(case: Case) -> Finding | None:
    for ladder, moved in (("drift", "pi"), ("lag", "pi and pi_prox")):
        below, middle, above = case.curves.at(ladder, 1, np.array([-1e-4, 0.0, 1e-4]))
        slope = (above - below) / (2e-4 * middle) if middle != 0 else 0.0
        if abs(slope - 2.0) < 1e-2:
            evidence = f"the weight grows like the square of the ratio to mu with a step of {moved} (power {slope:.3f})"
            remedy = "with a surrogate anchored at mu leave the rollout correction out, or anchor it at pi_prox"
            return Finding(TWICE, "bug", evidence, remedy)
    return None


def _lost(case: Case) -> Finding | None:
    """Both signs fall to 0 at one ratio above 1 while the value stays at the cap: min(r, C) was differentiated."""
    for up, down in _both_signs(case, "drift"):
        same = abs(up.log_ratio - down.log_ratio) < 1e-6 and up.log_ratio > 1e-6
        if not same or abs(up.above) > 1e-9 or abs(down.above) > 1e-9:
            continue
        values = [_value(case, up.log_ratio + more) for more in (-0.3, 0.3, 0.9)]
        if abs(values[1] - values[2]) < 1e-9 * abs(values[2]) and values[2] != 0 and abs(values[0] - values[1]) > 1e-6:
            evidence = f"above a ratio of {up.ratio:g} both signs have weight 0, and the loss a constant value"
            remedy = "detach the truncated ratio and multiply log_prob by it"
            return Finding(LOST, "bug", evidence, remedy)
    return None


def _both_signs(case: Case, ladder: str) -> Iterator[tuple[Kink, Kink]]:
    jumps = [kink for kink in case.curves.kinks if kink.kind == "jump" and kink.ladder == ladder]
    for up in jumps:
        yield from ((up, down) for down in jumps if up.sign > 0 > down.sign)


def _value(case: Case, log_ratio: float) -> float:
    return case.subject.ask(points("drift", 1.0, np.array([log_ratio])).probe(case.curves.pair)).value


def _inverse(case: Case) -> Finding | None:
    """The jumps are at the inverses of where those of the method are, or of rounder numbers."""
    found = _bounds(case.curves.kinks)
    if len(found) < 2:
        return None
    turned = sorted(1.0 / bound for bound in found)
    shown = f"weights are cut at ratios {_listed(found)}"
    remedy = "mask by log pi - log mu; mean(log mu - log pi) has the other sign"
    if case.like is not None:
        wanted = _bounds(case.like_kinks)
        swapped = len(wanted) == len(found) and bool(np.allclose(turned, wanted, rtol=1e-6))
        if swapped and not np.allclose(found, wanted, rtol=1e-6):
            return Finding(INVERSE, "bug", f"{shown} instead of {_listed(wanted)}", remedy)
        return None
    round_ones = [all(abs(x * 100 - round(x * 100)) < 1e-6 for x in bounds) for bounds in (found, turned)]
    if not round_ones[0] and round_ones[1]:
        return Finding(INVERSE, "note", f"{shown}, the inverses of {_listed(turned)}", remedy)
    return None


def _bounds(kinks: tuple[Kink, ...]) -> list[float]:
    """Ratios at which weights of both signs are cut."""
    jumps = [kink for kink in kinks if kink.kind == "jump" and kink.ladder == "drift"]
    up = {round(k.log_ratio, 6): k.ratio for k in jumps if k.sign > 0}
    down = {round(k.log_ratio, 6) for k in jumps if k.sign < 0}
    return sorted(ratio for at, ratio in up.items() if at in down)


def _listed(bounds: list[float]) -> str:
    return " and ".join(f"{bound:.5g}" for bound in bounds)


def _off(case: Case) -> Finding | None:
    if case.curves.kinks or not case.reads or (case.trimmed and not case.trimmed.mended):
        return None
    weights = case.curves.at("drift", 1, np.array([-3.0, -1.0, 1.0, 3.0]))
    if case.like_kinks:
        evidence = f"no kink between ratios of 1/e^8 and e^8, where the method has {len(case.like_kinks)}"
        remedy = "check that the clip sees a ratio other than 1, and that its bounds arrive"
        return Finding(OFF, "bug", evidence, remedy)
    plain = np.allclose(weights, np.exp([-3.0, -1.0, 1.0, 3.0]), rtol=1e-6)
    if case.like is None and case.coupling != "batch" and plain:
        evidence = "the weight is the ratio itself, neither clipped nor capped"
        return Finding("no kink", "note", evidence, "cap it if that was meant")
    return None


def _wrong_side(case: Case) -> Finding | None:
    """For A > 0 the weight opens below a ratio of 1 and never closes, for A < 0 it is open until it closes above 1."""
    if case.exact:
        return None
    jumps = [kink for kink in case.curves.kinks if kink.kind == "jump" and kink.ladder == "drift"]
    opens = [kink for kink in jumps if _closed(kink.below, kink.above)]
    closes = [kink for kink in jumps if _closed(kink.above, kink.below)]
    # Where a sign is cut on both sides it is a mask.
    if [(kink.sign, kink.log_ratio < 0) for kink in (*opens, *closes)] != [(1, True), (-1, False)]:
        return None
    evidence = (
        f"for A > 0 tokens have weight 0 below a ratio of {opens[0].ratio:g} and none is cut above 1; "
        f"for A < 0 they have weight 0 above {closes[0].ratio:g} and none is cut below 1"
    )
    remedy = "take the minimum of objectives, the maximum of losses"
    if case.curves.unit < 0:
        evidence, remedy = f"{evidence}; the step goes down", "turn the sign of the advantages: a loss is descended"
    return Finding(WRONG_SIDE, "bug", evidence, remedy)


def _down(case: Case) -> Finding | None:
    """The weights of a method times a negative number: an objective that was handed over as a loss."""
    if not case.target.exact(case.tolerance) or case.target.scale >= 0:
        return None
    evidence = f"-dL/d log pi is {case.target.scale:.3g} times the weights of the method: a step lowers the objective"
    return Finding(DOWN, "bug", evidence, "return minus the objective: a loss is descended")


def _closed(inside: float, outside: float) -> bool:
    return abs(inside) < 1e-9 < abs(outside)


def _k1(case: Case) -> Finding | None:
    weights = idle(case.curves, "drift")
    if not np.isfinite(weights).all() or np.abs(weights).max() < 1e-12:
        return None
    shape = shape_of(case.curves)
    if shape and shape[0] == "k1":
        evidence = f"tokens without advantage have the constant weight {weights[0]:.4g}"
        remedy = "its expected gradient is 0: use k2, or put the log ratio into the reward"
        return Finding(K1, "bug", evidence, remedy)
    shown = f"{shape[0]} with coefficient {shape[2]:.4g} toward {shape[1]}" if shape else "of no known shape"
    evidence = f"tokens without advantage have a weight: {shown}"
    return Finding("a penalty", "note", evidence, "none needed if it is meant")


def _divisor(case: Case) -> Finding | None:
    if case.divisor is None or not case.divisor.wrong:
        return None
    evidence = f"{case.divisor.name}: {case.divisor.wrong}"
    return Finding(DIVISOR, "bug", evidence, "divide by what the whole step contains")


def _halves(case: Case) -> Finding | None:
    """Gradients of two halves, averaged, against those of the whole."""
    if case.divisor is not None and case.divisor.wrong:
        return None
    probe = case.probe("on policy")
    half = len(probe.mask) // 2
    parts = [case.ask(probe.rows(slice(*ends))) for ends in ((0, half), (half, 2 * half))]
    whole, split = case.ask(probe), torch.cat(parts) / 2
    used = whole != 0
    factors = split[used] / whole[used]
    if not bool(used.any()) or float((factors - 1.0).abs().max()) < 1e-6:
        return None
    low, high = float(factors.min()), float(factors.max())
    evidence = f"gradients of two halves, averaged, are {low:.3g} to {high:.3g} times those of the whole"
    return Finding(HALVES, "note", evidence, "divide by the token count of the whole step where steps are split")


def _swapped(case: Case) -> Finding | None:
    if case.swapped is None:
        return None
    evidence = f"with pi_prox in place of mu every token is that of {case.swapped}"
    return Finding(SWAPPED, "bug", evidence, "hand over the sampler's log-probs: the lag is invisible to the snapshot")


def _again(case: Case) -> Finding | None:
    probe = case.probe("lag and drift")
    one = case.ask(probe)
    double = case.ask(probe.but(probe.name, advantages=2.0 * probe.advantages))
    if not bool((one != 0).any()) or float((double - one).abs().max()) > 1e-3 * float(one.abs().max()):
        return None
    evidence = "twice the advantages give the same gradient"
    return Finding(AGAIN, "bug", evidence, "standardize once, where advantages are made, over a stated scope")


def _changed(case: Case) -> Finding | None:
    if not case.subject.mutated:
        return None
    evidence = f"{', '.join(case.subject.mutated)} after the call differ from before"
    return Finding(CHANGED, "bug", evidence, "leave out operations that end in _ and assignments into inputs")


def _order(case: Case) -> Finding | None:
    """Sequences change places inside their groups, and groups with one another."""
    probe = case.probe("far")
    turned = torch.arange(len(probe.mask) - 1, -1, -1)
    back = case.ask(probe.rows(turned).but(probe.name, group=probe.group))[turned]
    size = float(case.ask(probe).abs().max())
    if float((back - case.ask(probe)).abs().max()) <= 1e-9 * size:
        return None
    evidence = "the same sequences in reverse order have other gradients"
    return Finding(ORDER, "bug", evidence, "index nothing by position")


def _split(case: Case) -> Finding | None:
    """Other weights, up to one factor, in a half of the batch."""
    if case.coupling != "batch":
        return None
    for name in ("far", "tail", "lag and drift", "drift"):
        probe = case.probe(name)
        half = len(probe.mask) // 2
        whole, part = case.ask(probe)[:half], case.ask(probe.rows(slice(0, half)))
        cut = int(((whole == 0) != (part == 0)).sum())
        both = (whole != 0) & (part != 0)
        factors = part[both] / whole[both]
        if cut or (len(factors) > 1 and float((factors / factors.median() - 1.0).abs().max()) > 1e-6):
            tokens = int((probe.mask[:half] > 0).sum())
            told = f"{cut} of {tokens} tokens are cut differently" if cut else "weights change"
            remedy = "decide over the whole optimizer step, before it is split into micro-batches"
            return Finding(SPLIT, "note" if case.exact else "bug", f"in half of the batch '{name}' {told}", remedy)
    return None


def _dual(case: Case) -> Finding | None:
    closing = [k for k in case.curves.kinks if k.kind == "jump" and k.log_ratio > 0 and abs(k.above) < 1e-9]
    up = [kink.log_ratio for kink in closing if kink.sign > 0]
    bounds = [factor.describe()["high"] for factor in case.evidence.factors]
    for kink in closing:
        # Where both signs close at one ratio it is a mask; so it is where that of behavior alone closes there.
        masked = any(abs(other - kink.log_ratio) < 1e-6 for other in up)
        masked |= any(math.isclose(bound, kink.ratio, rel_tol=1e-6) for bound in bounds)
        if kink.sign < 0 and kink.log_ratio > 0.4 and kink.ladder == "drift" and not masked:
            evidence = f"for A < 0 the clip closes above a ratio of {kink.ratio:g}"
            return Finding("dual clip", "note", evidence, "none needed")
    last = float(case.curves.at("drift", -1, 6.0)[0])
    if up and abs(last) > 100.0:
        evidence = f"for A < 0 the weight is {last:.4g} at a ratio of {np.exp(6.0):.4g}"
        return Finding("no dual clip", "note", evidence, "bound it if single tokens blow up the step")
    return None


def _changed_weight(case: Case) -> Finding | None:
    change = case.evidence.change
    if change is None or not change.note:
        return None
    return Finding("rollout weight limited from below", "note", change.note, "none needed; OpenRLHF and slime do this")


def _trimmed(case: Case) -> Finding | None:
    if case.trimmed is None:
        return None
    remedy = "log-probs are those of the tokens already: shift neither them nor the mask"
    return Finding(case.trimmed.name, "bug", case.trimmed.evidence, remedy)


def _capped(case: Case) -> Finding | None:
    """CISPO whose cap cuts tokens of an unchanged policy."""
    high = case.best.settings.get("high")
    if not case.exact or case.best.family is None or case.best.family.name != "cispo" or not high or high >= 0:
        return None
    cap = 1.0 + high
    evidence = f"weights are those of min(ratio, {cap:.4g}): at a ratio of 1 a token has {cap:.4g} of its weight"
    return Finding(CAPPED, "bug", evidence, "give the cap itself, 5 for one; some trainers add no 1 to epsilon_high")


CHECKS: tuple[Check, ...] = (
    _anchor,
    _one,
    _unused,
    _twice,
    _lost,
    _inverse,
    _off,
    _wrong_side,
    _down,
    _k1,
    _divisor,
    _halves,
    _swapped,
    _again,
    _changed,
    _order,
    _split,
    _dual,
    _trimmed,
    _capped,
    _changed_weight,
    *_loss_beyond.CHECKS,
    *_loss_masks.CHECKS,
    *_loss_hazards.CHECKS,
)

NAMES = (
    ONE,
    UNUSED,
    TWICE,
    LOST,
    INVERSE,
    OFF,
    K1,
    DIVISOR,
    AGAIN,
    CHANGED,
    ORDER,
    SPLIT,
    SWAPPED,
    WRONG_SIDE,
    DOWN,
    CAPPED,
    _loss_parts.FIRST,
    _loss_parts.LAST,
    *_loss_beyond.NAMES,
    *_loss_masks.NAMES,
    *_loss_hazards.NAMES,
)
"""Bugs and hazards by name."""
