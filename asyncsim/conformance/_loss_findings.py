"""Known properties and mistakes of losses: one small experiment for each, with its name, its kind and a remedy."""

import itertools
import math
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from asyncsim.conformance._loss_case import Case
from asyncsim.conformance._loss_methods import expected_alone, plain, singles
from asyncsim.conformance._loss_parts import FIRST, LAST, REJECTING, RULES, Kink, fewest, idle, shape_of
from asyncsim.conformance._loss_probes import FURTHER, INSIDE, LONG, PADS, Points, emptied, garbage, points
from asyncsim.conformance._loss_readings import AVERAGED, LEVELS, NAMED, ROWS, TEXTS, Reading, of_the_sign, rounding
from asyncsim.conformance._loss_subject import Probe
from asyncsim.conformance.reports import KINDS, Finding
from asyncsim.methods._method import Method
from asyncsim.step import ratios

Experiment = Callable[[Case], "Finding | str | None"]
KNOWN: list[tuple[str, str, str, Experiment]] = []
"""In the order in which a report has them, inside a kind: the kind, the name and the remedy of what it may find.

An experiment answers with the evidence, with another finding, or with None.
"""


def finds(kind: str, name: str, remedy: str) -> Callable[[Experiment], Experiment]:
    """Decorator that registers the experiment that can establish a finding."""

    def add(experiment: Experiment) -> Experiment:
        KNOWN.append((kind, name, remedy, experiment))
        return experiment

    return add


bug, hazard, note = (partial(finds, kind) for kind in KINDS)


def findings(case: Case) -> list[Finding]:
    """Return all findings about a loss, bugs first."""
    shown = [(experiment(case), name, kind, remedy) for kind, name, remedy, experiment in KNOWN]
    results = [Finding(name, kind, x, remedy) if isinstance(x, str) else x for x, name, kind, remedy in shown if x]
    # What is wrong anyway is often worse in rare batches.
    if case.exact and case.trimmed is None and not any(one.kind == "bug" for one in results):
        others = ((group, case.first_off(group)) for group in case.further if not case.spared(group))
        # The first token of further batches that the method of the ordinary ones does not explain.
        group, off = next(((group, off) for group, off in others if off), ("", None))
        if off:
            found = f"expected {off.expected:.4g}, found {off.found:.4g}"
            found = "the loss fails there" if math.isnan(off.found) else found
            evidence = f"sequence {off.sequence}, token {off.token}: {found}; elsewhere it is {case.best.label}"
            results.append(Finding(FURTHER[group].mistake, "bug", evidence, FURTHER[group].remedy))
    return sorted(results, key=lambda finding: KINDS.index(finding.kind))


# The anchors are part of its name and of its remedy.
@note("anchor", "")
def _anchor(case: Case) -> Finding | None:
    """Report the requested method with the other anchor, which is not a mistake of the loss."""
    anchor, like = case.other_anchor, case.like
    if anchor is None or like is None:
        return None
    evidence = f"with anchor={anchor!r} {like.name} explains every token"
    remedy = f"compare with anchor={anchor!r}, or hand over {like.anchor} log-probs (adapter.old={like.anchor})"
    return Finding(f"anchor: {anchor} where {like.anchor} was asked for", "note", evidence, remedy)


@bug("ratio identically 1", "subtract stored log-probs, not log_prob.detach()")
def _one(case: Case) -> Finding | str | None:
    """Report a bug if a ratio is expected but a token's weight does not change with the current policy."""
    if case.reads:
        return None
    evidence = "other behavior or proximal log-probs change nothing"
    weights = case.curves.at("drift", 1, np.array([-2.0, -0.1, 0.0, 0.1, 2.0]))
    if case.like_reads and np.ptp(weights) <= 1e-9:
        return evidence
    return Finding("no ratio", "note", evidence, "right for REINFORCE; where a ratio was meant, hand over log-probs")


@bug("behavior weight not applied", "multiply by the ratio of pi_prox to mu, or of pi to mu")
def _unused(case: Case) -> Finding | str | None:
    if "behavior" in case.reads or not case.reads or case.other_anchor or case.swapped:
        return None
    evidence = "other behavior log-probs change nothing: in the first update of a batch staleness is invisible"
    if "behavior" in case.like_reads:
        return evidence
    return Finding("staleness is invisible", "note", evidence, "right for anchor='proximal'; say so beside results")


@bug("ratio applied twice", "with a surrogate anchored at mu leave the rollout correction out, or anchor it at pi_prox")
def _twice(case: Case) -> str | None:
    for ladder, moved in (("drift", "pi"), ("lag", "pi and pi_prox")) if case.reading is None else ():
        below, middle, above = case.curves.at(ladder, 1, np.array([-1e-4, 0.0, 1e-4]))
        slope = (above - below) / (2e-4 * middle) if middle != 0 else 0.0
        if abs(slope - 2.0) < 1e-2:
            return f"the weight grows like the square of the ratio to mu with a step of {moved} (power {slope:.3f})"
    return None


def _jumps(kinks: Iterable[Kink]) -> list[Kink]:
    """Positions at which a token's weight jumps as the current policy moves."""
    return [kink for kink in kinks if kink.kind == "jump" and kink.ladder == "drift"]


@bug("tokens above the cap lose their gradient", "detach the truncated ratio and multiply log_prob by it")
def _lost(case: Case) -> str | None:
    """Detect a differentiated min(r, C): both signs fall to 0 at one ratio above 1 while the value stays at the cap."""
    jumps = _jumps(case.curves.kinks)
    for up, down in ((up, down) for up in jumps for down in jumps if up.sign > 0 > down.sign):
        same = abs(up.log_ratio - down.log_ratio) < 1e-6 and up.log_ratio > 1e-6
        if not same or abs(up.above) > 1e-9 or abs(down.above) > 1e-9 or up.below * down.below > 0:
            continue
        beside = [points("drift", 1.0, np.array([up.log_ratio + more])) for more in (-0.3, 0.3, 0.9)]
        values = [case.subject.ask(at.probe(case.curves.pair)).value for at in beside]
        if abs(values[1] - values[2]) < 1e-9 * abs(values[2]) and values[2] != 0 and abs(values[0] - values[1]) > 1e-6:
            return f"above a ratio of {up.ratio:g} both signs have weight 0, and the loss a constant value"
    return None


@bug("bounds act on the inverse ratio", "mask by log pi - log mu; mean(log mu - log pi) has the other sign")
def _inverse(case: Case) -> str | None:
    """Detect a mask whose bounds are the inverses of those of the requested method."""
    methods = [method for method in (case.nearest if case.exact else None, case.like) if method]
    masks = [[x for x in (part.describe() for part in m.factors) if {"low", "high"} <= x.keys()] for m in methods]
    if len(methods) < 2 or not all(masks):
        return None
    ends, wanted = ((float(found[0]["low"]), float(found[0]["high"])) for found in masks)
    if ends == wanted or not np.allclose(np.prod([ends, wanted[::-1]], 0), 1.0, rtol=1e-6):
        return None
    cut, open_ = (f"{low:.5g} and {high:.5g}" for low, high in (ends, wanted))
    return f"weights are cut at ratios {cut} instead of {open_}"


def _smooth(case: Case) -> bool:
    """Whether the weight of a loss with ratios has no kink, although tokens would show it."""
    return not case.curves.kinks and bool(case.reads) and not (case.trimmed and not case.trimmed.mended)


@bug("clipping silently off", "check that the clip sees a ratio other than 1, and that its bounds arrive")
def _off(case: Case) -> str | None:
    if case.like is None or not _smooth(case) or not _unclipped(case.curves.at):
        return None

    def of_the_method(ladder: str, sign: int, x: np.ndarray) -> np.ndarray:
        at = points(ladder, float(sign), np.append(x, 0.0))
        weights = expected_alone(case.like, singles(at, False))  # type: ignore[arg-type]
        return (sign * weights / weights[-1]).numpy()[:-1]

    return None if _unclipped(of_the_method) else "no kink between ratios of 1/e^8 and e^8, where the method has some"


@note("no kink", "cap it if that was meant")
def _plain(case: Case) -> str | None:
    if not _smooth(case) or case.like is not None or case.coupling == "batch":
        return None
    return "the weight is the ratio itself, neither clipped nor capped" if _unclipped(case.curves.at) else None


def _unclipped(weights: Callable[[str, int, np.ndarray], np.ndarray]) -> bool:
    """Whether the weights of single tokens equal their ratios."""
    at = np.array([-3.0, -1.0, 1.0, 3.0])
    return all(np.allclose(weights("drift", sign, at), sign * np.exp(at), rtol=1e-6) for sign in (1, -1))


WRONG_SIDE, DIFFERENTIATED = "clip closes on the wrong side", "gradient of the weight in place of log_prob's"


@bug(WRONG_SIDE, "take the minimum of objectives, the maximum of losses; of a weight detach it, times log_prob")
def _wrong_side(case: Case) -> Finding | str | None:
    """Detect a clip on the wrong side: open only above a ratio of 1 at most for A > 0, closed only above for A < 0."""
    if case.exact:
        return None
    jumps = _jumps(case.curves.kinks)
    opens = [kink for kink in jumps if abs(kink.below) < 1e-9 < abs(kink.above)]
    closes = [kink for kink in jumps if abs(kink.above) < 1e-9 < abs(kink.below)]
    # Where a sign is cut on both sides it is a mask.
    ends = [[(kink.sign, kink.log_ratio < 1e-6 * kink.sign) for kink in side] for side in (opens, closes)]
    if ends != [[(1, True)], [(-1, False)]]:
        return None
    if opens[0].above * closes[0].below > 0:
        evidence = f"above a ratio of {opens[0].ratio:g} weights for A > 0 have the sign of those for A < 0"
        remedy = "detach the weight, and multiply it by log_prob: weight.detach() * advantages * log_prob"
        return Finding(DIFFERENTIATED, "bug", f"{evidence}, as the slope of a weight has", remedy)
    evidence = f"for A > 0 tokens have weight 0 below a ratio of {opens[0].ratio:g} and none is cut above 1; "
    evidence += f"for A < 0 they have weight 0 above {closes[0].ratio:g} and none is cut below 1"
    if case.curves.unit >= 0:
        return evidence
    remedy = "turn the sign of the advantages: a loss is descended"
    return Finding(WRONG_SIDE, "bug", f"{evidence}; the step goes down", remedy)


@bug("sign turned around", "return minus the objective: a loss is descended")
def _down(case: Case) -> str | None:
    """Detect an objective given as a loss: a method's weights times a negative number."""
    # Of the method that was named, or else of the one that it is.
    for fit, name in ((case.target, "the method"), (case.best, "what it is")):
        if fit.exact(case.tolerance) and fit.scale < 0:
            return f"-dL/d log pi is {fit.scale:.3g} times the weights of {name}: a step lowers the objective"
    return None


@bug("KL as a k1 loss", "its expected gradient is 0: use k2, or put the log ratio into the reward")
def _k1(case: Case) -> str | None:
    shape = shape_of(case.curves)
    if shape is None or shape[0] != "k1":
        return None
    return f"tokens without advantage have the constant weight {idle(case.curves, 'drift')[0]:.4g}"


@bug("negative KL coefficient", "add the penalty to the loss, or give its coefficient the other sign")
def _repelled(case: Case) -> str | None:
    shape = shape_of(case.curves)
    if shape is None or shape[2] >= 0 or shape[0] == "k1":
        return None
    return f"{shape[0]} with coefficient {shape[2]:.4g}: a step moves tokens away from {shape[1]}"


@note("a penalty", "none needed if it is meant")
def _penalty(case: Case) -> str | None:
    weights, shape = idle(case.curves, "drift"), shape_of(case.curves)
    named = shape and (shape[0] == "k1" or shape[2] < 0)
    if not np.isfinite(weights).all() or np.abs(weights).max() < 1e-12 or named:
        return None
    form = f"{shape[0]} with coefficient {shape[2]:.4g} toward {shape[1]}" if shape else "of no known shape"
    return f"tokens without advantage have a weight: {form}"


@bug("aggregator off by the number of sequences", "")
def _divisor(case: Case) -> Finding | None:
    """Report the denominator of the loss, with the exact factor."""
    divisor = case.divisor
    if divisor.rule is None or (case.meant and case.meant.name == divisor.name):
        return None
    some = [probe for probe in case.probes if float(probe.mask.sum()) > 0]
    kept = case.evidence.kept(case.nearest, some) if divisor.rule in REJECTING else [probe.mask for probe in some]
    return Finding(divisor.rule.finding, divisor.rule.kind, divisor.evidence(some, kept), divisor.rule.remedy)


@bug("inputs read in another way", "")
def _reading(case: Case) -> Finding | None:
    """Report the interpretation of the inputs under which a method explains every token, or their rounding."""
    one = case.reading or rounding(case.curves)
    if one and one.name == LEVELS[-1] and case.like and case.like.weight.level == "geometric":
        return Finding(LEVELS[0], "bug", *TEXTS["batches"]["summed"][1:3])
    if one is None or case.like is not None or one.name not in LEVELS:
        return Finding(one.name, one.kind, one.evidence, one.remedy) if one else None
    # Nobody said which of them is meant, and both are in use.
    remedy = f"a bug in {case.best.family.name}: {one.remedy}; else a method of its own"
    return Finding(one.name, "note", one.evidence, remedy)


@note("ratio of another level", "")
def _level(case: Case) -> Finding | None:
    """Report a loss that is another method than the asked one, whose ratios are of tokens or of rows."""
    if case.like is None or case.reading or not case.exact or case.conforms:
        return None
    found, meant = (TEXTS["ratios"].get(method.weight.level) for method in (case.nearest, case.like))
    if found == meant or None in (found, meant):
        return None
    remedy = f"take {meant}, or compare with --like {case.best.family.name}"
    return Finding("ratio of another level", "note", f"weights are of {found}; {case.like.name} has {meant}", remedy)


PADDED = "mean over padding"


@note(PADDED, "")
def _average(case: Case) -> Finding | None:
    """Report another denominator than that of the asked method, or a padded mean, which may be one by accident."""
    found, averages = case.divisor.aggregator, TEXTS["averages"]
    # A division by the longest row looks padded, but for some batches.
    padded = found == "constant" and not case.first_off(PADS)
    if case.reading or case.divisor.rule or not case.exact or found is None or (found == "constant" and not padded):
        return None
    evidence = f"it divides by {averages[found]}"
    if case.like is None:
        usual = f"GRPO divides by {averages['sequence_mean']}; DAPO by {averages['token_mean']}"
        remedy = f"{usual}; right where the columns are a constant, as in Dr. GRPO (verl's seq-mean-token-sum-norm)"
        return Finding(PADDED, "note", evidence, remedy) if padded else None
    meant = case.meant or case.divisor
    if meant.name == found:
        return None
    own = "aggregator" in case.like.weight.describe()
    words = f"divides by {averages[meant.name]}" if meant.name in averages else f"has another average ({meant.name})"
    other = f", change the average of {case.like.name}" if own else f": --set aggregator={found}"
    remedy = f"{case.like.name} {words}; if yours is meant{other}"
    return Finding(PADDED if padded else "another average", "bug" if padded else "note", evidence, remedy)


@note("depends on micro-batches", "divide by the token count of the whole step where steps are split")
def _halves(case: Case) -> str | None:
    """Compare averaged gradients of two half batches with those of the full batch."""
    if case.divisor.rule is not None:
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
    return f"gradients of two halves, averaged, are {low:.3g} to {high:.3g} times those of the whole"


bug(
    "ratio to the snapshot in place of behavior",
    "hand over the sampler's log-probs: staleness is invisible to the snapshot",
)(lambda case: f"with pi_prox in place of mu every token is that of {case.swapped}" if case.swapped else None)


@note("advantages of tokens in a ratio of rows", "where a row has one advantage, add --advantages-per sequence")
def _of_rows(case: Case) -> str | None:
    rows = INSIDE in case.further and case.coupling == "sequence" and not case.exact
    return "the ratio is one of the whole row, whose tokens have different advantages here" if rows else None


@bug("advantages standardized again", "standardize once, where advantages are made, over a stated scope")
def _again(case: Case) -> str | None:
    probe = case.probe("staleness and drift")
    one = case.ask(probe)
    others = [case.ask(probe.but(probe.name, advantages=x)) for x in (2 * probe.advantages, 1 + probe.advantages)]
    if not bool((one != 0).any()) or any(float((x - one).abs().max()) > 1e-3 * float(one.abs().max()) for x in others):
        return None
    return "twice the advantages, or all of them larger by 1, give the same gradient"


@bug("inputs changed in place", "leave out operations that end in _ and assignments into inputs")
def _mutated(case: Case) -> str | None:
    mutated = case.subject.mutated
    return f"{', '.join(mutated)} after the call differ from before" if mutated else None


@bug("depends on the order of sequences", "index nothing by position")
def _order(case: Case) -> str | None:
    """Test reversing the order of sequences inside groups, and of groups."""
    probe = case.probe("far")
    turned = torch.arange(len(probe.mask) - 1, -1, -1)
    back = case.ask(probe.rows(turned).but(probe.name, group=probe.group))[turned]
    size = float(case.ask(probe).abs().max())
    moved = float((back - case.ask(probe)).abs().max()) > 1e-9 * size
    return "the same sequences in reverse order have other gradients" if moved else None


@bug("advantages broadcast across sequences", "advantages are [B, T]: leave unsqueeze out, or use it where dim() == 1")
def _broadcast(case: Case) -> str | None:
    """Detect `advantages.unsqueeze(1)` on `[B, T]`: every sequence meets the advantages of all, but not for `[B]`."""
    if case.exact:
        return None
    probe = case.probe("far")
    other = probe.but(probe.name, advantages=torch.cat([probe.advantages[:-1], probe.advantages[-1:] + 1.0]))

    def moved(first: Tensor, then: Tensor) -> bool:
        return float((first - then)[:-1].abs().max()) > 1e-9 * float(first.abs().max())

    rows = [case.subject.quietly(each.but(each.name, advantages=each.advantages[:, 0])) for each in (probe, other)]
    if not moved(case.ask(probe), case.ask(other)) or None in rows or moved(*(row.cotangent for row in rows if row)):
        return None
    return "the gradient of one sequence depends on the advantages of another, unless advantages are [B]"


@bug("threshold depends on the split", "decide over the whole step, before it is split into micro-batches")
def _split(case: Case) -> Finding | None:
    """Find tokens that are cut, or weighed by different factors, when half of a batch is evaluated alone."""
    for name in ("far", "tail", "staleness and drift", "drift") if case.coupling == "batch" else ():
        probe = case.probe(name)
        half = len(probe.mask) // 2
        whole, part = case.ask(probe)[:half], case.ask(probe.rows(slice(0, half)))
        cut = int(((whole == 0) != (part == 0)).sum())
        both = (whole != 0) & (part != 0)
        factors = part[both] / whole[both]
        kind, tokens = "note" if case.exact else "bug", int((probe.mask[:half] > 0).sum())
        remedy = "decide over the whole step, before it is split into micro-batches"
        if cut:
            evidence = f"in half of the batch '{name}' {cut} of {tokens} tokens are cut differently"
            return Finding("threshold depends on the split", kind, evidence, remedy)
        if len(factors) > 1 and float((factors / factors.median() - 1.0).abs().max()) > 1e-6:
            evidence = f"in half of the batch '{name}' weights change, by more than one factor"
            return Finding("weights depend on the split", "note", evidence, remedy)
    return None


@note("dual clip", "none needed")
def _dual(case: Case) -> Finding | str | None:
    """Find ratios above 1 at which clips close for either sign."""
    closing = [k for k in case.curves.kinks if k.kind == "jump" and k.log_ratio > 0 and abs(k.above) < 1e-9]
    up = [kink.log_ratio for kink in closing if kink.sign > 0]
    bounds = [factor.describe().get("high", 0.0) for factor in case.evidence.factors]
    for kink in closing:
        # Where both signs close at one ratio it is a mask; so it is where that of behavior alone closes there.
        masked = any(abs(other - kink.log_ratio) < 1e-6 for other in up)
        masked |= any(math.isclose(bound, kink.ratio, rel_tol=1e-6) for bound in bounds)
        if kink.sign < 0 and kink.log_ratio > 0.4 and kink.ladder == "drift" and not masked:
            return f"for A < 0 the clip closes above a ratio of {kink.ratio:g}"
    last = float(case.curves.at("drift", -1, 6.0)[0])
    if not up or abs(last) <= 100.0:
        return None
    evidence = f"for A < 0 the weight is {last:.4g} at a ratio of {np.exp(6.0):.4g}"
    return Finding("no dual clip", "note", evidence, "bound it if single tokens blow up the step")


bug(FIRST, "")(lambda case: case.trimmed.finding if case.trimmed else None)


@note("bounds on the log ratio", "clip the ratio at 1 - low and 1 + high, or say that the log is bounded")
def _in_logs(case: Case) -> str | None:
    """Detect bounds whose logarithms are rounder numbers than the bounds."""
    low, high = (case.best.settings.get(key) for key in ("low", "high"))
    if not case.exact or not (isinstance(low, float) and isinstance(high, float) and low < 1.0 and high > 0.0):
        return None
    logs = math.log1p(-low), math.log1p(high)
    if any(fewest(x, 3, 1e-7) is None for x in logs) or fewest(high, 3, 1e-7) is not None:
        return None
    ends = f"ratios at {1 - low:.5g} and {1 + high:.5g}"
    return f"the clip stops log ratios at {logs[0]:.4g} and {logs[1]:.4g}, which are {ends}"


@bug("cap below 1", "give the cap itself, 5 for one; some trainers add no 1 to epsilon_high")
def _capped(case: Case) -> str | None:
    """Detect a CISPO cap that truncates tokens of an unchanged policy."""
    high = case.best.settings.get("high")
    if not case.exact or case.best.family.name != "cispo" or not high or high >= 0:
        return None
    cap = 1.0 + high
    return f"weights are those of min(ratio, {cap:.4g}): at a ratio of 1 a token has {cap:.4g} of its weight"


@bug("one token's sign decides for the whole row", "decide for every token by the sign of its own advantage")
def _advantages(case: Case) -> Finding | str | None:
    """Explain rows of different advantages when the known method does not."""
    if INSIDE not in case.further or not case.exact or case.first_off(INSIDE) is None:
        return None
    if case.spared(INSIDE):
        evidence = "a live ratio of the row gives every token the mean weight of its row"
        remedy = "right where rows have one advantage each; other advantages are averaged"
        return Finding(AVERAGED, "note", evidence, remedy) if case.spreads else None
    for one in ROWS:

        def of_that(method: Method, probe: Probe, of: Callable[[Probe], Probe], one: Reading = one) -> Tensor:
            return plain(method, probe, lambda given: one.of(of(given)))

        if case.first_off(INSIDE, weigh=of_that) is None:
            return Finding(one.name, "bug", one.evidence, one.remedy)

    def by_first(method: Method, probe: Probe, of: Callable[[Probe], Probe]) -> Tensor:
        # The row's first token says which side of a clip is closed.
        weights = plain(method, probe.but(probe.name, advantages=of_the_sign(probe)))
        return weights * (probe.advantages * probe.advantages[:, :1]).sign()

    return None if case.first_off(INSIDE, weigh=by_first) else "clips close by the sign of the row's first advantage"


@bug("tokens far back in a row are left out", "mask what was not generated, and nothing else")
def _long(case: Case) -> str | None:
    """Test rows of 40 tokens on which all policies agree."""
    probe = case.further[LONG][0].of_one_policy()
    answer = case.subject.quietly(probe)
    used = (probe.mask > 0) & (probe.advantages != 0)
    if answer is not None and answer.finite and case.trimmed is None:
        alive = (answer.cotangent != 0) & used
        # Rows without any gradient are left out for another reason than their length.
        used = used & alive.any(-1, keepdim=True)
        last = int(alive.any(0).nonzero().max()) + 1 if bool(alive.any()) else 0
        if 0 < last < int(used.any(0).nonzero().max()) - 2:
            return f"no token behind the {last}th of a row has a gradient"
    return None


LIMITED = "log ratio clamped live"
_CUSTOMS = {20.0: "verl, OpenRLHF and SkyRL do this", 10.0: "verl and SkyRL do this to the mean of a row"}
"""Log ratios at which trainers are known to clamp."""


@bug(LIMITED, "limit the log ratio at 20, or detach the ratio")
def _limited(case: Case) -> Finding | str | None:
    """Find where the log ratio is clamped, and its gradient with it."""
    if case.reading is not None and case.reading.shape:
        return None
    live = [k for k in case.curves.limits if k.kind == "jump" and abs(k.above if k.log_ratio > 0 else k.below) < 1e-12]
    if not live:
        return None
    at = min(abs(kink.log_ratio) for kink in live)
    bound = next((x for x in _CUSTOMS if math.isclose(x, at, rel_tol=1e-6)), None)
    rows = case.coupling in ("sequence", "batch")
    evidence = f"beyond a log ratio of {at:.4g} tokens have no gradient, where asyncsim keeps that of e^20"
    if bound is not None and (bound >= ratios.LOG_LIMIT or rows):
        return Finding(LIMITED, "note", f"{evidence}; {_CUSTOMS[bound]}", "detach the ratio to keep the gradient")
    if at < ratios.LOG_LIMIT - 1e-3:
        return f"beyond a log ratio of {at:.4g} tokens have no gradient, and the loss a constant value"
    return evidence


@note(
    "tokens selected by log-probs",
    "losses that select tokens by covariance do this: kl_cov, and clip_cov, which is not compared here",
)
def _selected(case: Case) -> str | None:
    """Test whether other probabilities with equal ratios in half of the batch affect tokens of the other half."""
    if case.coupling != "batch":
        return None
    for name in ("on policy", "staleness and drift", "far"):
        probe = case.probe(name)
        half = len(probe.mask) // 2
        steps = torch.from_numpy(np.random.default_rng(5).uniform(0.0, 6.0, tuple(probe.mask.shape)))
        steps[:half] = 0.0
        moved = {key: getattr(probe, key) - steps for key in ("log_prob", "behavior", "proximal")}
        one, two = case.ask(probe)[:half], case.ask(probe.but(probe.name, **moved))[:half]
        if float((one - two).abs().max()) > 1e-6 * float(one.abs().max()):
            return "tokens change with the probabilities of others, though all ratios stay"
    return None


@hazard("not finite where every token is rejected", "divide by the count, or by 1 where it is 0")
def _nothing_left(case: Case) -> str | None:
    broken = [p.name for p in case.probes if not bool(torch.isfinite(case.ask(p)).all())]
    return f"the gradient in the batch '{broken[0]}', of which nothing is left" if broken and case.exact else None


def _fails(case: Case, probe: Probe, where: str) -> str | None:
    answer = case.subject.quietly(probe)
    failure = "the loss fails" if answer is None else "loss or gradient is not finite"
    return None if answer is not None and answer.finite else f"{failure} in a batch {where}"


hazard("not finite with a fully masked sequence", "divide by max(T_i, 1)")(
    lambda case: _fails(case, emptied(case.probe("on policy")), "with one such sequence")
)
hazard("not finite with a single token", "use std(correction=0), or do not standardize one token")(
    lambda case: _fails(case, case.probe("single tokens").rows([0], "one token"), "of one token")
)


@bug("masked tokens matter", "apply the mask to log ratios before they are summed, and to the loss")
def _leaks(case: Case) -> str | None:
    """Test ordinary values on masked tokens."""
    probe = case.probe("staleness and drift")
    hidden = probe.mask == 0
    steps = {"log_prob": -0.4, "behavior": 0.3, "proximal": -0.1}
    moved = {key: torch.where(hidden, getattr(probe, key) + step, getattr(probe, key)) for key, step in steps.items()}
    one, two = case.subject.ask(probe), case.subject.ask(probe.but(probe.name, **moved))
    size = float(one.cotangent.abs().max())
    if one.masked > 1e-9 * size:
        return "their own gradient is not 0"
    changed = float((one.cotangent - two.cotangent).abs().max())
    return "other values there change other tokens" if changed > 1e-9 * size else None


def _weight(case: Case, log_ratio: float, sign: float, beside: bool = False) -> float:
    """Weight of a token with an extreme log ratio to both policies, or of an ordinary token in a batch with it."""
    high, low = -0.5, -0.5 - abs(log_ratio)
    now, then = (high, low) if log_ratio > 0 else (low, high)
    columns = [torch.tensor([x], dtype=torch.float64) for x in (now, then, then, sign)]
    if beside:
        columns = [torch.cat(pair) for pair in zip(columns, points("drift", sign, np.array([0.05])), strict=True)]
    answer = case.subject.quietly(Points(*columns).probe(case.curves.pair))
    if answer is None or not (beside or answer.finite):
        return math.nan
    return float(answer.cotangent[-1 if beside else 0, 0]) / case.curves.unit


@bug("infinite ratios get weight 0", "cap before infinities are replaced: the order decides")
def _zero(case: Case) -> str | None:
    for sign in (1.0, -1.0):
        near, far = _weight(case, 80.0, sign), _weight(case, 1000.0, sign)
        # Where the ordinary token beside it has no weight either, everything was closed on purpose.
        if math.isfinite(near) and abs(near) > 1e-6 and far == 0.0 and _weight(case, 1000.0, sign, True) != 0.0:
            return f"weight {near:.4g} at a log ratio of 80, 0 at 1000"
    return None


@hazard("not finite at extreme log ratios", "limit the log ratio to +-20 before exp")
def _overflow(case: Case) -> str | None:
    ends = itertools.product((1000.0, -1000.0), (1.0, -1.0))
    broken = [f"{x:g} (A {'>' if sign > 0 else '<'} 0)" for x, sign in ends if math.isnan(_weight(case, x, sign))]
    return f"loss or gradient at a log ratio of {', '.join(broken)}" if broken else None


@hazard(
    "not finite with garbage on masked tokens", "replace masked log ratios by 0 with where() before exp: 0 * inf is NaN"
)
def _masked(case: Case) -> str | None:
    probe = case.probe("staleness and drift")
    before = case.ask(probe)
    broken = []
    for name, value in (("a log ratio of 1000", -1000.0), ("infinity", -math.inf), ("NaN", math.nan)):
        answer = case.subject.quietly(garbage(probe, value))
        whole = answer is not None and answer.finite and math.isfinite(answer.masked)
        same = answer is not None and torch.allclose(answer.cotangent, before, rtol=1e-9, atol=1e-15)
        broken += [] if whole and same else [name]
    return f"loss or gradient with {', '.join(broken)} there" if broken else None


@note("inputs not detached", "detach them inside, or make sure that every caller does")
def _attached(case: Case) -> str | None:
    labels = {"advantages": "advantages", "behavior": "behavior log-probs", "proximal": "proximal log-probs"}
    reached = [labels[name] for name in case.subject.attached]
    return f"a gradient flows into {', '.join(reached)}" if reached else None


_ASKED = [name for kind, name, *_ in KNOWN if kind != "note"]
_DIVISORS = [one.finding for one in RULES if one.kind == "bug"]
_IN_BATCHES = [further.mistake for further in FURTHER.values()]
NAMES = tuple(dict.fromkeys((*_ASKED, PADDED, *_DIVISORS, *_IN_BATCHES, *NAMED, LAST, DIFFERENTIATED)))
"""Bugs and hazards by name."""
