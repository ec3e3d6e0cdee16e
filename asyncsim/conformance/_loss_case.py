"""Everything that was measured of one loss, as the search for known mistakes reads it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from asyncsim.conformance._loss_advantages import Reading
from asyncsim.conformance._loss_aggregators import Divisor
from asyncsim.conformance._loss_around import SNAPSHOT
from asyncsim.conformance._loss_curves import Curves, Kink
from asyncsim.conformance._loss_evidence import Evidence, Fit, apart
from asyncsim.conformance._loss_methods import Family, expected
from asyncsim.conformance._loss_probes import INSIDE, by_name
from asyncsim.conformance._loss_search import search
from asyncsim.conformance._loss_subject import Probe, Subject
from asyncsim.conformance._loss_trimmed import Trimmed
from asyncsim.methods._method import ANCHORS, Method

Ask = Callable[[Probe], Tensor]
Weigh = Callable[[Method, Probe], Tensor]


def plain(method: Method, probe: Probe) -> Tensor:
    """The cotangents of a method."""
    return expected(method, [probe])[0]


def averaged(method: Method, probe: Probe) -> Tensor:
    """Cotangents that the tokens of a row share: the mean over its generated tokens."""
    found = plain(method, probe) * probe.mask
    return probe.mask * found.sum(-1, keepdim=True) / probe.mask.sum(-1, keepdim=True).clamp(min=1.0)


class Off(NamedTuple):
    """The first token with another weight: its sequence and place, and -dL/d log_prob wanted and found."""

    sequence: int
    token: int
    wanted: float
    found: float


@dataclass
class Case:
    """A loss with its answers, the nearest method and the one that it is meant to be (`like`).

    `subject` is asked in the place of the `given` loss, `trimmed` says why they differ; `reading`, what it makes of
    advantages; `further`, batches beyond the ordinary ones.
    """

    subject: Subject
    probes: Sequence[Probe]
    curves: Curves
    divisor: Divisor | None
    evidence: Evidence
    best: Fit
    like: Method | None
    tolerance: float
    families: Sequence[Family]
    given: Subject
    further: Mapping[str, Sequence[Probe]]
    reading: Reading | None = None
    trimmed: Trimmed | None = None

    def probe(self, name: str) -> Probe:
        """A batch by its name."""
        return by_name(list(self.probes), name)

    def ask(self, probe: Probe) -> Tensor:
        """-dL/d log_prob of every token."""
        return self.subject.ask(probe).cotangent

    def ask_given(self, probe: Probe) -> Tensor:
        """The same of the loss as it was given."""
        return self.given.ask(probe).cotangent

    @cached_property
    def nearest(self) -> Method:
        """The method that comes nearest, with what stands beside it."""
        assert self.best.family is not None
        found = self.best.family.method(self.best.settings, self.evidence.aggregator)
        assert found is not None
        return self.evidence.full(found)

    @property
    def method(self) -> Method:
        """The method that it is compared with: the asked one, else the nearest."""
        return self.nearest if self.like is None else self.like

    @cached_property
    def target(self) -> Fit:
        """How well that method explains the loss; a wrong divisor is held against it where it was asked for."""
        if self.like is None:
            return self.best
        return self._apart(self.like)

    @property
    def conforms(self) -> bool:
        """Whether no token of any batch deviates from that method, and no advantage is changed before."""
        inside = all(self.holds(group) for group in self.further)
        return self.target.exact(self.tolerance) and inside and self.trimmed is None

    def holds(self, group: str) -> bool:
        """Whether the method explains these batches, too; of rows, one advantage each may be all that it knows."""
        if group == INSIDE and (self.method.weight.rewarded or self.spreads):
            return True
        return self.first_off(group, self.method, raw=True) is None

    @property
    def excepted(self) -> tuple[str, ...]:
        """Batches beyond the ordinary ones that the nearest method does not explain, and what rows lose."""
        one = replace(self, like=None)
        lost = (self.trimmed.name,) if self.trimmed else ()
        return (*lost, *(group for group in self.further if not one.holds(group)))

    @cached_property
    def spreads(self) -> bool:
        """Whether a live ratio of the row gives every token the mean of its row's weights."""
        if INSIDE not in self.further or self.coupling not in ("sequence", "batch"):
            return False
        return self.first_off(INSIDE, self.method, averaged, raw=True) is None

    def first_off(
        self, group: str, method: Method | None = None, weigh: Weigh | None = None, raw: bool = False
    ) -> Off | None:
        """The first token of further batches that the method (default: the nearest) does not explain."""
        for probe, wanted, found in self._beside(group, method, weigh, raw):
            if found is None:
                return Off(0, 0, 0.0, math.nan)
            off = (apart(found, wanted) > self.tolerance) & (probe.mask > 0)
            if bool(off.any()):
                row, token = (int(x) for x in off.nonzero()[0])
                return Off(row, token, float(wanted[row, token]), float(found[row, token]))
        return None

    def farthest(self, group: str) -> float:
        """Largest deviation of a token of further batches from the method; 0 where it holds."""
        if self.holds(group):
            return 0.0
        listed = self._beside(group, self.method, None, True)
        return max(2.0 if x is None else float((apart(x, w) * p.mask).max()) for p, w, x in listed)

    def _beside(
        self, group: str, method: Method | None, weigh: Weigh | None, raw: bool
    ) -> Iterator[tuple[Probe, Tensor, Tensor | None]]:
        """Batches with the cotangents wanted and found; None where the loss fails.

        With `raw` advantages are as given, not as the loss reads them.
        """
        method = self.nearest if method is None else method
        fitted = method is not self.like
        scale = self.best.scale if fitted else self.target.scale
        for probe in self.further[group]:
            seen = probe if raw or self.reading is None else self.reading.clamped(probe)
            answer = self.subject.quietly(probe)
            times = self.divisor.times(probe) if self.divisor and fitted else 1.0
            yield probe, scale * times * (weigh or plain)(method, seen), answer.cotangent if answer else None

    @cached_property
    def other_anchor(self) -> str | None:
        """The anchor with which the asked method explains every token, where with its own it does not."""
        like = self.like
        if like is None or not like.weight.anchored or self.target.exact(self.tolerance):
            return None
        other = next(anchor for anchor in ANCHORS if anchor != like.anchor)
        return other if self._apart(like.replace(anchor=other)).exact(self.tolerance) else None

    def at(self, anchor: str) -> Case:
        """The same measurements, beside the asked method with this anchor."""
        return self if self.like is None else replace(self, like=self.like.replace(anchor=anchor))

    def _apart(self, method: Method) -> Fit:
        return self.evidence.undivided(self.probes).compare(method, None, {})

    @cached_property
    def exact(self) -> bool:
        """Whether some method explains every token."""
        return self.best.exact(self.tolerance)

    @cached_property
    def turned(self) -> tuple[Evidence, list[Fit]]:
        """The search with pi_prox in the place of mu."""
        evidence = self.evidence.beside(change=SNAPSHOT)
        kinks = [kink for kink in self.curves.kinks if kink.ladder != "lag"]
        first = self.like.name if self.like else None
        return evidence, search(evidence, self.families, kinks, self.tolerance, first, smooth=False)

    def explained(self, evidence: Evidence, best: Fit, like: Method | None = None) -> Case:
        """The same measurements with another explanation."""
        return replace(self, evidence=evidence, best=best, like=like or self.like)

    @cached_property
    def swapped(self) -> str | None:
        """The method that the loss is where pi_prox stands in the place of mu; None: none, or there is no need."""
        if self.exact or self.reads != ("proximal",) or self.target.exact(self.tolerance):
            return None
        fit = self.turned[1][0]
        return fit.label if fit.exact(self.tolerance) else None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Which log-probs beside the current ones matter."""
        return read_by(self.ask, self._drifted)

    @cached_property
    def like_reads(self) -> tuple[str, ...]:
        """Which of them matter to the method that it is meant to be."""
        like = self.like
        if like is None:
            return ()
        return read_by(lambda probe: expected(like, [probe])[0], self._drifted)

    @property
    def _drifted(self) -> tuple[Probe, ...]:
        return tuple(self.probe(name) for name in ("lag and drift", "hair's breadth", "far"))

    @cached_property
    def like_kinks(self) -> tuple[Kink, ...]:
        """Where the weight of that method jumps or bends, measured as that of the loss is."""
        like = self.like
        if like is None:
            return ()
        if self.target.exact(self.tolerance):
            return self.curves.kinks

        def loss(now: Tensor, then: Tensor, before: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
            told = {"advantages": advantages, "rewards": advantages[:, 0], "mask": mask}
            return like.loss(now, then, before, **told, categorical=False)

        return Curves(Subject(loss)).kinks

    @property
    def anchor(self) -> str:
        """Which policy ratios refer to."""
        return " and ".join(self.reads) or "none"

    @cached_property
    def coupling(self) -> str:
        """How far the ratio of one token reaches: "none", "token", "prefix", "suffix", "sequence" or "batch"."""
        close, near, far = _whole(self.probe("hair's breadth")), _calm(self.probe("drift")), _whole(self.probe("far"))
        steps = ((close, 1e-5), (close, 0.05), (close, 2.0), (near, 0.01), (far, 2.0))
        found = {_reach(self.ask, probe, step, row) for probe, step in steps for row in (0, 1)}
        drift, tail = _whole(self.probe("drift")), _whole(self.probe("tail"))
        pairs = ((near, far), (far, near), (drift, tail), (tail, near))
        found |= {_crowd(self.ask, one, other) for one, other in pairs}
        ranks = ("none", "token", "prefix", "suffix", "sequence", "batch")
        return max(found, key=ranks.index)


def read_by(ask: Ask, probes: Sequence[Probe]) -> tuple[str, ...]:
    """Names of the anchors whose log-probs change the gradient."""
    found = []
    for name in ("behavior", "proximal"):
        # A small step stays inside narrow bands; a large one closes the clip of a ratio that cancels otherwise.
        moved = [(p, p.but(p.name, **{name: getattr(p, name) - step})) for p in probes for step in (0.05, 0.5)]
        if any(_differ(ask(one), ask(other), 1e-9) for one, other in moved):
            found.append(name)
    return tuple(found)


def _whole(probe: Probe) -> Probe:
    """The batch without masked tokens, and no token without an advantage."""
    advantages = torch.where(probe.advantages == 0, torch.ones_like(probe.advantages), probe.advantages)
    return probe.but(probe.name, mask=torch.ones_like(probe.mask), advantages=advantages)


def _calm(probe: Probe) -> Probe:
    """The batch with a twentieth of its log ratios."""
    near = probe.behavior + 0.05 * (probe.log_prob - probe.behavior)
    return _whole(probe.but(probe.name, log_prob=near, proximal=probe.behavior))


def _reach(ask: Ask, probe: Probe, step: float, row: int) -> str:
    """Which tokens feel one token's log-prob."""
    at = 2
    moved = probe.log_prob.clone()
    moved[row, at] += step
    change = (ask(probe.but(probe.name, log_prob=moved)) - ask(probe)).abs()
    felt = change > 1e-7 * step * ask(probe).abs().max()
    if bool(felt[torch.arange(len(felt)) != row].any()):
        return "batch"
    before, after = bool(felt[row, :at].any()), bool(felt[row, at + 1 :].any())
    if before and after:
        return "sequence"
    if after or before:
        return "prefix" if after else "suffix"
    return "token" if bool(felt[row, at]) else "none"


def _crowd(ask: Ask, probe: Probe, other: Probe) -> str:
    """Whether two sequences feel that all the others have other log ratios."""
    moved = {name: getattr(probe, name).clone() for name in ("log_prob", "proximal")}
    for name, tensor in moved.items():
        tensor[2:] = probe.behavior[2:] + (getattr(other, name) - other.behavior)[2:]
    return "batch" if _differ(ask(probe)[:2], ask(probe.but(probe.name, **moved))[:2], 1e-9) else "none"


def _differ(one: Tensor, other: Tensor, tolerance: float) -> bool:
    return bool(((one - other).abs() > tolerance * torch.maximum(one.abs().max(), other.abs().max())).any())
