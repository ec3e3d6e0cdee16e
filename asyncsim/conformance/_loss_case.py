"""All measurements of one loss, and how they are made."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.conformance import _loss_methods as methods
from asyncsim.conformance import _loss_parts as parts
from asyncsim.conformance import _loss_probes as batches
from asyncsim.conformance import _loss_search
from asyncsim.conformance._loss_readings import Reading, of_clipped, readings
from asyncsim.conformance._loss_search import Evidence, Fit, alike, apart, order, search
from asyncsim.conformance._loss_subject import Loss, Probe, Subject
from asyncsim.conformance.reports import Disagreement
from asyncsim.methods._method import ANCHORS, Method

Ask = Callable[[Probe], Tensor]
Weigh = Callable[[Method, Probe, Callable[[Probe], Probe]], Tensor]


def averaged(method: Method, probe: Probe, of: Callable[[Probe], Probe] = methods.as_given) -> Tensor:
    """A method's cotangents on a batch, averaged over the generated tokens of each row."""
    weights = methods.plain(method, probe, of) * probe.mask
    return probe.mask * weights.sum(-1, keepdim=True) / probe.mask.sum(-1, keepdim=True).clamp(min=1.0)


def shared(method: Method, probe: Probe, of: Callable[[Probe], Probe] = methods.as_given) -> Tensor:
    """A method's cotangents with each row's mean advantage, where each token is clipped by its own advantage."""
    mean = (probe.advantages * probe.mask).sum(-1, keepdim=True) / probe.mask.sum(-1, keepdim=True).clamp(min=1.0)
    return methods.plain(method, probe, of) / torch.where(probe.advantages == 0, 1.0, probe.advantages) * mean


@dataclass
class Case:
    """Measurements of a loss, with the nearest method and the intended method (`like`)."""

    subject: Subject
    probes: Sequence[Probe]
    curves: parts.Curves
    evidence: Evidence
    best: Fit
    like: Method | None
    tolerance: float
    original: Subject
    further: Mapping[str, Sequence[Probe]]
    trimmed: parts.Trimmed | None = None
    _weighed: dict[Any, tuple[Tensor, Method, Probe]] = field(default_factory=dict, init=False)

    @property
    def divisor(self) -> parts.Divisor:
        """Denominator of the loss's mean over tokens or sequences."""
        return self.best.divisor if self.best.divisor.aggregator else self.evidence.divisor

    @cached_property
    def meant(self) -> parts.Divisor | None:
        """Denominator of the requested method: that of the loss itself if that method is a loss and agrees with it."""
        if self.like is None or not getattr(self.like.weight, "averages", False):
            return None if self.like is None else parts.Divisor(self.like.aggregator)
        if self.target.exact(self.tolerance):
            return self.divisor
        fresh, plain = batches.on_policy(self.probes), methods.plain
        # What no advantage multiplies, as a penalty, says nothing of the average.
        pairs = ((p, p.but(p.name, advantages=torch.zeros_like(p.advantages))) for p in fresh)
        return parts.divisor_among([plain(self.like, p) - plain(self.like, q) for p, q in pairs], fresh)

    @property
    def reading(self) -> Reading | None:
        """Interpretation of the inputs under which a method explains every token; None if there is none."""
        return self.evidence.reading

    def probe(self, name: str) -> Probe:
        """Return a test batch by name."""
        return next(probe for probe in self.probes if probe.name == name)

    def ask(self, probe: Probe) -> Tensor:
        """Return the loss's -dL/d log_prob for every token of a batch."""
        return self.subject.ask(probe).cotangent

    @cached_property
    def nearest(self) -> Method:
        """The method nearest to the loss, with the penalties and factors that were found."""
        method = self.best.family.method(self.best.settings, self.evidence.divisor.aggregator)
        assert method is not None
        return self.evidence.full(method)

    @property
    def method(self) -> Method:
        """The method of comparison: the requested one, else the nearest."""
        return self.nearest if self.like is None else self.like

    @cached_property
    def target(self) -> Fit:
        """Fit of the requested or else nearest method to the loss; a requested method needs its usual divisor."""
        if self.like is None:
            return self.best
        usual = self.divisor.rule is parts.EMPTY and self.divisor.aggregator == self.like.aggregator
        return self.evidence.plain().beside(divisor=self.divisor if usual else parts.UNKNOWN).compare(self.like)

    @property
    def conforms(self) -> bool:
        """Whether every token of every batch agrees with the target method, and no advantage is modified first."""
        meant = self.reading is None or self.reading.kind == "note"
        meant &= self.trimmed is None or self.trimmed.finding.kind == "note"
        return meant and self.target.exact(self.evidence.tolerance) and all(self.holds(group) for group in self.further)

    def holds(self, group: str) -> bool:
        """Whether the target method also explains a group of further batches, or need not explain them."""
        return self.spared(group) or self.first_off(group, self.method, raw=True) is None

    def spared(self, group: str) -> bool:
        """Whether the method need not explain advantages per token: it reads rewards per row, or averages over rows."""
        return group == batches.INSIDE and (self.method.weight.rewarded or self.spreads)

    @property
    def excepted(self) -> tuple[str, ...]:
        """Names of further batches that the nearest method does not explain, and of tokens that the loss omits."""
        one = self if self.like is None else replace(self, like=None)
        lost = (self.trimmed.finding.name,) if self.trimmed else ()
        return lost if self.reading else (*lost, *(group for group in self.further if not one.holds(group)))

    def unchecked(self) -> Iterator[str]:
        """Cases that the test batches leave unchecked for this loss."""
        if batches.INSIDE not in self.further:
            yield f"{batches.INSIDE} (it takes one for each row)"
        elif self.exact and self.nearest.weight.rewarded:
            yield f"{batches.INSIDE} ({self.nearest.name} reads one reward for each row)"
        if self.evidence.left[0] <= 0 and not self.exact:
            yield f"further settings of methods (the search ended after {_loss_search.BUDGET} calls)"

    @cached_property
    def spreads(self) -> bool:
        """Whether a live ratio of the row gives every token the mean of its row's weights."""
        if batches.INSIDE not in self.further or self.coupling not in ("sequence", "batch"):
            return False
        return any(self.first_off(batches.INSIDE, weigh=weigh) is None for weigh in (averaged, shared))

    def first_off(
        self, group: str | None, method: Method | None = None, weigh: Weigh | None = None, raw: bool = False
    ) -> Disagreement | None:
        """First token in a group of batches (None: the ordinary ones) that a method (default: nearest) misses."""
        for probe, target, answer in self._beside(group, method, weigh, raw):
            if answer is None:
                return Disagreement(probe.name, 0, 0, 0.0, math.nan)
            off = (apart(answer, target) > self.evidence.tolerance) & (probe.mask > 0)
            if bool(off.any()):
                row, token = (int(x) for x in off.nonzero()[0])
                return Disagreement(probe.name, row, token, float(target[row, token]), float(answer[row, token]))
        return None

    def farthest(self, group: str) -> float:
        """Maximum deviation of the loss from the method on a group of further batches; 0 if the method holds there."""
        if self.holds(group):
            return 0.0
        comparisons = self._beside(group, self.method, None, True)
        return max(2.0 if x is None else float((apart(x, w) * p.mask).max()) for p, w, x in comparisons)

    def _beside(
        self, group: str | None, method: Method | None, weigh: Weigh | None, raw: bool
    ) -> Iterator[tuple[Probe, Tensor, Tensor | None]]:
        """Batches with expected and found cotangents; None if the loss fails."""
        method = self.nearest if method is None else method
        fitted = method is not self.like
        scale = self.best.scale if fitted else self.target.scale
        meant = self.reading is None or (raw and (self.reading.kind == "bug" or not fitted))
        of = methods.as_given if meant else self.evidence.of
        for probe in self.probes if group is None else self.further[group]:
            answer = self.subject.quietly(probe)
            divisor = self.divisor if fitted else self.target.divisor
            kept = self.evidence.kept(method, [probe])[0] if divisor.rule in parts.REJECTING else None
            times = divisor.times(probe, kept)
            key = id(method), id(probe), meant, weigh
            if key not in self._weighed:
                # Kept beside it: another method or batch must not come to have the same id.
                self._weighed[key] = (weigh or methods.plain)(method, probe, of), method, probe
            target = scale * times * self._weighed[key][0]
            if answer and self.reading and not meant:
                # How far out log ratios are limited is a custom of its own.
                target = torch.where(self.reading.inside(probe), target, answer.cotangent)
            yield probe, target, answer.cotangent if answer else None

    @cached_property
    def other_anchor(self) -> str | None:
        """The other anchor, if the requested method explains every token only with it; else None."""
        like = self.like
        if like is None or not like.weight.anchored or self.target.exact(self.tolerance):
            return None
        other = next(anchor for anchor in ANCHORS if anchor != like.anchor)
        return other if self.evidence.plain().compare(like.replace(anchor=other)).exact(self.tolerance) else None

    @cached_property
    def exact(self) -> bool:
        """Whether the nearest method explains the loss at every token."""
        return self.best.exact(self.evidence.tolerance)

    @cached_property
    def turned(self) -> tuple[Evidence, list[Fit]]:
        """Result of the search for a method with pi_prox in the place of mu."""
        evidence = self.evidence.beside(change=methods.SNAPSHOT)
        kinks = [kink for kink in self.curves.kinks if kink.ladder != "lag"]
        first = self.like.name if self.like else None
        return evidence, search(evidence, methods.families()[0], kinks, first, smooth=False)

    def explained(self, evidence: Evidence, best: Fit, like: Method | None = None) -> "Case":
        """The same measurements of the loss with another explanation."""
        return replace(self, evidence=evidence, best=best, like=like or self.like)

    @cached_property
    def swapped(self) -> str | None:
        """Label of the method that the loss matches with pi_prox instead of mu; None if none, or if not needed."""
        if self.exact or self.reads != ("proximal",) or self.target.exact(self.tolerance):
            return None
        fit = self.turned[1][0]
        return fit.label if fit.exact(self.tolerance) else None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Which log-probs, other than the current ones, affect the loss."""
        return read_by(self.ask, self._drifted)

    @cached_property
    def like_reads(self) -> tuple[str, ...]:
        """Which log-probs, other than the current ones, affect the intended method."""
        return () if self.like is None else read_by(partial(methods.plain, self.like), self._drifted)

    @property
    def _drifted(self) -> tuple[Probe, ...]:
        return tuple(self.probe(name) for name in ("staleness and drift", "hair's breadth", "far", "probable tokens"))

    @cached_property
    def coupling(self) -> str:
        """How far one token's ratio changes weights: "none", "token", "prefix", "suffix", "sequence" or "batch"."""
        close, drift, far, tail = (_whole(self.probe(name)) for name in ("hair's breadth", "drift", "far", "tail"))
        mu = drift.behavior
        near = drift.but("", log_prob=mu + 0.05 * (drift.log_prob - mu), proximal=mu)
        steps = [(close, 1e-5), (close, 0.05), (close, 2.0), (close, -4.0), (near, 0.01), (far, 2.0), (far, -2.0)]
        # Sums along rows of three tokens pass caps that longer ones are always beyond.
        steps += [(_whole(self.probe("pairs")), step) for step in (0.5, -0.5, -4.0)]
        places = itertools.product(steps, (0, 1), ("log_prob", *self.reads))
        reaches = {_reach(self.ask, probe, step, row, name) for (probe, step), row, name in places}
        pairs = ((near, far), (far, near), (drift, tail), (tail, near))
        reaches |= {_crowd(self.ask, one, other) for one, other in pairs}
        ranks = ("none", "token", "prefix", "suffix", "sequence", "batch")
        return max(reaches, key=ranks.index)


def read_by(ask: Ask, probes: Sequence[Probe]) -> tuple[str, ...]:
    """Names of the anchors (mu, pi_prox) whose log-probs change the gradient of a loss."""
    names = []
    for name in ("behavior", "proximal"):
        # A small step stays inside narrow bands; a large one closes the clip of a ratio that cancels otherwise; steps
        # that differ between tokens show where a common one cancels.
        mixed = [torch.from_numpy(np.random.default_rng(3).normal(0.0, 0.05, tuple(p.mask.shape))) for p in probes]
        steps = [(p, step) for p, other in zip(probes, mixed, strict=True) for step in (0.05, 0.5, other)]
        moved = [(p, p.but(p.name, **{name: getattr(p, name) - step})) for p, step in steps]
        if any(_differ(ask(one), ask(other), 1e-9) for one, other in moved):
            names.append(name)
    return tuple(names)


def _whole(probe: Probe) -> Probe:
    """The batch with no token masked or without an advantage."""
    advantages = torch.where(probe.advantages == 0, torch.ones_like(probe.advantages), probe.advantages)
    return probe.unmasked().but(probe.name, advantages=advantages)


def _reach(ask: Ask, probe: Probe, step: float, row: int, name: str) -> str:
    """Which tokens change with one token's log-prob of a policy."""
    at = probe.mask.shape[1] // 2
    moved = getattr(probe, name).clone()
    moved[row, at] += step
    before_it = ask(probe)
    change = (ask(probe.but(probe.name, **{name: moved})) - before_it).abs()
    affected = change > 1e-7 * abs(step) * before_it.abs().max()
    if bool(affected[torch.arange(len(affected)) != row].any()):
        return "batch"
    before, after = bool(affected[row, :at].any()), bool(affected[row, at + 1 :].any())
    if after or before:
        return "sequence" if before and after else "prefix" if after else "suffix"
    return "token" if bool(affected[row, at]) else "none"


def _crowd(ask: Ask, probe: Probe, other: Probe) -> str:
    """Whether two sequences change when all others have other log ratios."""
    moved = {name: getattr(probe, name).clone() for name in ("log_prob", "proximal")}
    for name, tensor in moved.items():
        tensor[2:] = probe.behavior[2:] + (getattr(other, name) - other.behavior)[2:]
    return "batch" if _differ(ask(probe)[:2], ask(probe.but(probe.name, **moved))[:2], 1e-9) else "none"


def _differ(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return bool(((one - other).abs() > tolerance * torch.maximum(one.abs().max(), other.abs().max())).any())


_NEAR = 12
"""Methods that are tried under every mask."""
_FEW = 4
"""Methods that are tried under every reading of the inputs that single tokens do not show."""
_CAPS = (None, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""Caps that trainers use."""


def measured(fn: Loss, like: Method | None, tolerance: float, seed: int, inside: bool) -> tuple[Case, list[Fit]]:
    """Measure a loss: its case, and the fits, best first; `inside` says that it takes an advantage per token."""
    probes, further, original = batches.ordinary(seed), batches.beyond(seed, inside), Subject(fn)
    original.admit(probes[:5])
    on_policy = next(probe for probe in probes if probe.name == "on policy")
    subject, trimmed = parts.untrimmed(original, on_policy)
    sparse_rows = batches.emptied(on_policy, 2)
    answer = subject.quietly(sparse_rows)
    probes = [*probes, *([sparse_rows] if answer and answer.finite else [])]
    curves = parts.Curves(subject)
    evidence = _evidence(subject, probes, curves, tolerance)
    # Fit every method; where none explains every token, also under what the loss may make of its inputs.
    fits, evidence = _fits(evidence, curves, like)
    case = Case(subject, probes, curves, evidence, fits[0], like, tolerance, original, further, trimmed)
    if like is None and not case.exact and case.reads == ("proximal",):
        evidence, turned = case.turned
        if turned[0].exact(tolerance):
            # Nobody said which policy is meant.
            fits, case = turned, case.explained(evidence, turned[0])
    explained = itertools.chain(_holding(case, fits), _read(case, fits), _shared(case, fits))
    return next(explained, (case, fits))


def _holding(case: Case, fits: list[Fit]) -> Iterator[tuple[Case, list[Fit]]]:
    """Rank methods that explain the ordinary batches, first those that also explain the others; else nothing."""
    within = case.evidence.tolerance
    exact = [fit for fit in fits if fit.exact(within)]
    cases = [case.explained(case.evidence, fit) for fit in exact]
    # What a loss with a ratio of the row makes of advantages inside it is another question than what it reads.
    aside = batches.INSIDE if case.reading and case.coupling == "sequence" else None
    holding = [one for one in cases if all(one.first_off(name) is None for name in one.further if name != aside)]
    if holding:
        yield holding[0], [*(one.best for one in holding), *(fit for fit in fits if not fit.exact(within))]


def _read(case: Case, fits: list[Fit]) -> Iterator[tuple[Case, list[Fit]]]:
    """The case under each interpretation of the inputs that explains every token of every batch."""
    first = case.like.name if case.like else None
    near = [fit for fit in fits if fit.curve <= case.tolerance][:_FEW]
    if not case.exact and case.coupling == "sequence":
        # A clip of tokens may be one of rows, with its numbers.
        rows = [one for one in methods.families()[0] if one.name == "gspo"]
        near += [x for fit in near for x in alike(case.evidence, "", {**fit.family.numbers, **fit.settings}, rows)]
    every = [*case.probes, *(probe for group in case.further.values() for probe in group)]
    sizes = torch.cat([probe.advantages.flatten() for probe in every]).unique()
    fresh, every_reading = batches.on_policy(case.probes), [*readings(case.curves, sizes, case.exact)]
    own = ({"anchor": "behavior", **fit.family.numbers, **fit.settings} for fit in near if fit.family.name == "gmpo")
    every_reading += [each for settings in own for each in of_clipped(settings)]
    read = ((x, parts.divisor_of(case.subject, fresh, [x.read(probe) for probe in fresh])) for x in every_reading)
    # One whose average is known goes before one that needs a factor beside it.
    for reading, divisor in sorted(read, key=lambda pair: pair[1].rule is not None):
        evidence = case.evidence.read(reading, divisor)
        found = [evidence.fit(fit.family, fit.settings) for fit in (fits[:_NEAR] if reading.shape else near)]
        if reading.shape:
            kinks = [reading.kink(kink) for kink in case.curves.kinks]
            found += search(evidence, methods.families()[0], kinks, first, smooth=False)
        found.sort(key=lambda fit: order(fit, evidence.divisor.aggregator, first))
        if found and found[0].exact(evidence.tolerance):
            yield from _holding(case.explained(evidence, found[0]), found)


def _shared(case: Case, fits: list[Fit]) -> Iterator[tuple[Case, list[Fit]]]:
    """The case of a known method times a row ratio, or divided by its batch mean, which single tokens do not show."""
    near = [] if case.exact or case.coupling != "batch" else [fit for fit in fits if fit.curve <= case.tolerance][:_FEW]
    for cap, ratio, over in itertools.product(_CAPS if near else (), "hr", ("tokens", "places")):
        evidence = case.evidence.beside(factors=(methods.Shared(cap, ratio, over),))
        tried = (evidence.fit(fit.family, fit.settings) for fit in near)
        found = [fit for fit in tried if fit.exact(case.evidence.tolerance)]
        yield from _holding(case.explained(evidence, found[0]), found) if found else ()
    ends = [k for k in case.curves.kinks if k.ladder == "lag" and k.log_ratio > 0 and k.sign > 0]
    cap, masked = next(iter({k.ratio: k.kind == "jump" for k in ends}.items()), (None, False))
    # Rejected rows that leave the denominator reach the whole batch.
    reaches = not case.exact and (case.coupling == "sequence" or (masked and case.coupling == "batch"))
    of_rows = reaches and len(case.reads) == 2
    kinks = [kink for kink in case.curves.kinks if kink.ladder != "lag"]
    for over in ("product", "mean") if of_rows else ():
        evidence = case.evidence.beside(factors=(methods.Shared(cap, "h", over, masked),))
        found = search(evidence, methods.families()[0], kinks, smooth=False)
        if found[0].exact(case.evidence.tolerance):
            yield from _holding(case.explained(evidence, found[0]), found)


def _evidence(subject: Subject, probes: Sequence[Probe], curves: parts.Curves, tolerance: float) -> Evidence:
    """Answers on batches, and on a ladder with both sides of every kink, where no log ratio is clamped."""
    pieces = [batches.points("drift", 1.0, np.zeros(1))]
    ends = [kink.log_ratio for kink in curves.limits]
    low, high = max((x for x in ends if x < 0), default=-np.inf), min((x for x in ends if x > 0), default=np.inf)
    bounds = np.array([kink.log_ratio for kink in curves.kinks])
    for ladder in batches.LADDERS:
        x = batches.sparse(ladder)
        # At a bound itself a gradient may be either one, or their mean.
        x = x[(x > low) & (x < high) & (np.abs(x[:, None] - bounds) > 1e-5).all(-1)]
        pieces += [batches.points(ladder, float(sign), x) for sign in (1, -1)]
    for kink in curves.kinks:
        sides = np.array([kink.log_ratio - 1e-6, kink.log_ratio + 1e-6])
        if low < sides[0] and sides[1] < high:
            pieces.append(batches.points(kink.ladder, float(kink.sign), sides))
    at = batches.Points(*(torch.cat(column) for column in zip(*pieces, strict=True)))
    answers = [subject.ask(probe).cotangent for probe in probes]
    divisor = parts.divisor_of(subject, batches.on_policy(probes), batches.on_policy(probes))
    return Evidence(probes, answers, at, curves(at), curves.pair, divisor, tolerance, curves.separable)


def _fits(evidence: Evidence, curves: parts.Curves, like: Method | None) -> tuple[list[Fit], Evidence]:
    """The nearest methods; if none is exact, also with the penalty or the mask that the tokens show."""
    first, tolerance, candidates = like.name if like else None, evidence.tolerance, methods.families()[0]
    # The asked method with the anchor that makes it the loss; None where none does.
    own = dict.fromkeys((like.anchor, *(ANCHORS if like.weight.anchored else ()))) if like else ()
    as_it_is = evidence.plain()
    asked = (as_it_is.compare(like.replace(anchor=anchor)) for anchor in own if like)
    known = next((fit for fit in asked if fit.exact(tolerance)), None)
    look = partial(search, kinks=curves.kinks, first=first)
    fits = look(evidence, candidates, known=known is not None)
    if known is not None:
        agrees = fits[0].exact(tolerance) and fits[0].family.name == first
        return (fits if agrees else [known, *fits]), evidence
    if fits[0].exact(tolerance):
        return fits, evidence
    low = methods.capped_low(curves, candidates)
    if low is not None:
        anchors = [{"anchor": anchor} for anchor in low.choices["anchor"]]
        capped = min((evidence.fit(low, {**low.numbers, **a}) for a in anchors), key=lambda fit: fit.score)
        if capped.exact(tolerance):
            return [capped, *fits], evidence
    # Try methods without their own penalty.
    beside = evidence.beside(change=methods.PAID)
    paid = look(beside, methods.pulled(), smooth=False) if not np.abs(parts.idle(curves, "drift")).max() > 0 else []
    if paid and paid[0].exact(tolerance):
        return paid, beside
    penalty = parts.penalty_of(curves)
    if penalty is not None:
        beside = evidence.beside(penalties=(penalty,))
        other = look(beside, candidates)
        fits, evidence = (other, beside) if other[0].score < fits[0].score else (fits, evidence)
    # Single tokens do not tell masks of tokens from those of rows: methods are searched under the first, the nearest of
    # them are tried under the others. Where a method explains single tokens, no mask is looked for.
    factors = [] if any(fit.curve <= tolerance for fit in fits) else methods.masks(curves)
    masked = [evidence.beside(penalties=evidence.penalties, factors=(factor,)) for factor in factors]
    under = look(masked[0], candidates, smooth=False)[:_NEAR] if masked else []
    best, chosen = fits, evidence
    for under_mask in masked:
        again = [under_mask.fit(fit.family, fit.settings) for fit in under]
        if not any(fit.exact(tolerance) for fit in again):
            # Single tokens do not show another cap where a mask of rows drops them. No cap is tried first.
            capped_fits = [fit for fit in again if fit.curve <= tolerance and "cap" in fit.family.numbers]
            for cap in _CAPS:
                other_caps = [under_mask.fit(fit.family, {**fit.settings, "cap": cap}) for fit in capped_fits]
                again += other_caps
                if any(fit.exact(tolerance) for fit in other_caps):
                    break
        again.sort(key=lambda fit: order(fit, evidence.divisor.aggregator, first))
        if again and again[0].score < best[0].score - 1e-9:
            best, chosen = again, under_mask
    return best, chosen
