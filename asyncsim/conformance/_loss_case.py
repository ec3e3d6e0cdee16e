"""Everything that was measured of one loss, as the search for known mistakes reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from asyncsim.conformance._loss_aggregators import Divisor
from asyncsim.conformance._loss_curves import Curves, Kink
from asyncsim.conformance._loss_methods import Evidence, Family, Fit, expected
from asyncsim.conformance._loss_probes import by_name
from asyncsim.conformance._loss_search import search
from asyncsim.conformance._loss_subject import Probe, Subject
from asyncsim.methods._method import ANCHORS, Method

Ask = Callable[[Probe], Tensor]


@dataclass
class Case:
    """A loss with its answers, the nearest method and the one that it is meant to be (`like`)."""

    subject: Subject
    probes: Sequence[Probe]
    curves: Curves
    divisor: Divisor | None
    evidence: Evidence
    best: Fit
    like: Method | None
    tolerance: float
    families: Sequence[Family] = ()

    def probe(self, name: str) -> Probe:
        """A batch by its name."""
        return by_name(list(self.probes), name)

    def ask(self, probe: Probe) -> Tensor:
        """-dL/d log_prob of every token."""
        return self.subject.ask(probe).cotangent

    @cached_property
    def method(self) -> Method:
        """The method that it is compared with: the asked one, else the nearest."""
        if self.like is not None:
            return self.like
        assert self.best.family is not None
        found = self.best.family.method(self.best.settings, self.evidence.aggregator)
        assert found is not None
        return found.replace(penalties=(*found.penalties, *self.evidence.penalties))

    @cached_property
    def target(self) -> Fit:
        """How well that method explains the loss; a wrong divisor is held against it where it was asked for."""
        if self.like is None:
            return self.best
        return self._apart(self.like)

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
        one = Evidence(
            self.probes, self.evidence.answers, self.evidence.points, self.evidence.alone, self.evidence.pair,
            None, [1.0] * len(self.probes),
        )
        return one.compare(method, None, {})

    @cached_property
    def exact(self) -> bool:
        """Whether some method explains every token."""
        return self.best.exact(self.tolerance)

    @cached_property
    def swapped(self) -> str | None:
        """The method that the loss is where pi_prox stands in the place of mu; None: none, or there is no need."""
        if self.exact or self.reads != ("proximal",):
            return None
        other = replace(
            self.evidence, probes=[p.but(p.name, behavior=p.proximal) for p in self.probes],
            points=self.evidence.points._replace(behavior=self.evidence.points.proximal), cache={}, lines={},
        )
        kinks = [kink for kink in self.curves.kinks if kink.ladder != "lag"]
        fit = search(other, self.families, kinks, self.tolerance, self.like.name if self.like else None)[0]
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
