r"""Orders and syncs that bound the staleness of every single group, and the bound of each.

K tickets that return at the publish, M = S P groups consumed per publish, K > M, a place for every ticket.
  window:W         oldest ready group first, only numbers below F + W (F: first number still generated): (K + W - 2)//M
  window:1, target, version_strict, drain     ceil(K/M) - 1, never less than floor(K/M) - 1
  wait:m           oldest first, no batch while a group in generation has planned staleness m >= ceil(K/M) - 1: m
Derivation: group i is admitted with version v = max(0, ceil((i + 1 - K)/M)). Before it is ready at most W - 1 younger
groups train, afterwards none: its batch is at most (i + W - 1)//P, its staleness (i + W - 1)//M - v, largest where
M divides i + W - 1. Strict orders are W = 1 up to order inside a version. Under drain what is outstanding at an install
is ready, K - M groups at most, and trains first. Under wait all groups of planned staleness m are ready, and since M
start with each version they fit one publish; the first K share a version, so the bound holds from version 2 m on.
K = (h + 1) M gives h + ceil((W - 1)/M), h and m; a fraction tau ahead, K = floor((1 + tau) M), gives ceil(K/M) - 1,
which is ceil(tau) unless tau M < 1 (then 0). Bounds are attained. Second route: the largest staleness that an adversary
reaches who picks what finishes next. Domain: steady state, nothing dropped; the trainer waits for the install, however
long it takes. Source: derived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _points

_STRICT = ("target", "version_strict", "drain")
_LARGEST = 4096


class _Setting(NamedTuple):
    rule: str
    number: int
    tickets: int
    groups: int
    batches: int

    @property
    def consumed(self) -> int:
        """M, groups consumed per publish."""
        return self.groups * self.batches

    @property
    def strict(self) -> bool:
        return self.rule in _STRICT or (self.rule == "window" and self.number == 1)


def _read(point: Point) -> _Setting:
    text, tickets, groups, batches, length, train_time, sync_time = _points.select(
        point, "rule tickets groups_per_batch batches_per_publish length train_time sync_time"
    )
    rule, number = _rule(text)
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch", _LARGEST)
    batches = checks.integer("batches_per_publish", batches, 1, "publish after every so many batches", _LARGEST)
    reason = "with as many tickets as groups of a publish the run is synchronous; raise the tickets"
    tickets = checks.integer("tickets", tickets, groups * batches + 1, reason, _LARGEST)
    least = -(-tickets // (groups * batches)) - 1
    if rule == "wait":
        checks.require(number >= least, "rule", text, f"wait:{least} or more", "fewer never let the tickets be used")
    written = isinstance(length, str) and ":" in length
    checks.require(written, "length", length, "the text of a law", "write it as name:numbers")
    _points.positive("train_time", train_time)
    checks.real("sync_time", sync_time, "give the seconds from the snapshot to the install", 0.0)
    return _Setting(rule, number, tickets, groups, batches)


def _rule(text: object) -> tuple[str, int]:
    """Name and number of a rule written as window:4, wait:2, target, version_strict or drain."""
    name, _, number = str(text).partition(":")
    known = text in _STRICT or (name in ("window", "wait") and number.isdecimal())
    checks.require(
        known and (name != "window" or 1 <= int(number) <= _LARGEST), "rule", text,
        "window:W with W >= 1, wait:m, target, version_strict or drain", "name the rule that bounds staleness",
    )
    return name, int(number or 0)


def _bounds(s: _Setting, largest: int) -> dict[str, float]:
    spread = {"spread": float(s.tickets % s.consumed > 0)} if s.strict else {}
    return {"largest": float(largest)} | spread


def _largest(s: _Setting) -> int:
    if s.rule == "wait":
        return s.number
    return (s.tickets + (s.number if s.rule == "window" else 1) - 2) // s.consumed


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return _bounds(s, _largest(s))


class _Game:
    """The order of events without a clock: who finishes next is the adversary's choice, batches form when they can."""

    def __init__(self, s: _Setting) -> None:
        self.s, self.version, self.batch, self.admitted = s, 0, 0, 0
        self.running: dict[int, int] = {}
        self.ready: list[tuple[int, int]] = []
        self.admit(s.tickets)

    def admit(self, groups: int) -> None:
        self.running |= dict.fromkeys(range(self.admitted, self.admitted + groups), self.version)
        self.admitted += groups

    def finish(self, group: int) -> None:
        self.ready.append((group, self.running.pop(group)))

    def choose(self) -> list[tuple[int, int]]:
        """The next batch, (number, version) of each group; empty where the rule lets none form."""
        s, first = self.s, min(self.running, default=self.admitted)
        if s.rule == "drain":
            allowed = self.ready
        elif s.rule == "version_strict":
            # With nothing in generation every version is complete.
            allowed = [g for g in self.ready if g[1] <= self.running.get(first, self.version)]
            allowed.sort(key=lambda g: g[1])
        elif s.rule == "target":
            allowed = sorted(g for g in self.ready if g[0] // s.groups == self.batch)
        elif s.rule == "wait":
            late = first in self.running and self.version - self.running[first] >= s.number
            allowed = [] if late else sorted(self.ready)
        else:
            allowed = sorted(g for g in self.ready if g[0] < first + s.number)
        return allowed[: s.groups] if len(allowed) >= s.groups else []

    def train(self) -> list[int] | None:
        """Staleness of the groups of the next batch; None where there is none. A publish follows where it is due."""
        chosen = self.choose()
        if not chosen:
            return None
        self.ready = [g for g in self.ready if g not in chosen]
        staleness = [self.version - version for _, version in chosen]
        self.batch += 1
        if self.batch % self.s.batches == 0:
            for group in list(self.running) if self.s.rule == "drain" else []:
                self.finish(group)
            self.version += 1
            self.admit(self.s.consumed)
        return staleness


def _play(s: _Setting, publishes: int, pick: Callable[[_Game], list[int]]) -> list[int]:
    """Staleness of what trains after the start-up, when `pick` names who finishes before the next try of a batch."""
    game, seen = _Game(s), []
    while game.version < publishes:
        for group in pick(game):
            game.finish(group)
        # One batch at a time: what is admitted behind a publish may finish before the next.
        staleness = game.train()
        if staleness is not None and game.version > _warm_up(s):
            seen += staleness
    return seen


def _warm_up(s: _Setting) -> int:
    return 2 * (_largest(s) + s.tickets // s.consumed) + 2


def _stragglers(residue: int, s: _Setting) -> Callable[[_Game], list[int]]:
    """All finish at once but numbers of one residue modulo so many publishes, which finish when nothing else can."""
    cycle = s.consumed * (_largest(s) + 2 + s.tickets // s.consumed)

    def pick(game: _Game) -> list[int]:
        others = [g for g in game.running if g % cycle != residue]
        return others or (list(game.running) if not game.choose() else [])

    return pick


def _chance(seed: int) -> Callable[[_Game], list[int]]:
    generator = np.random.default_rng(seed)

    def pick(game: _Game) -> list[int]:
        groups = list(game.running)
        count = min(len(groups), int(generator.geometric(0.5)))
        return [int(g) for g in generator.choice(groups, count, replace=False)] if groups else []

    return pick


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    publishes = _warm_up(s) + 4 * (_largest(s) + s.tickets // s.consumed + 2)
    # Residues of one publish cover every position of a group in its version and in its batch.
    picks = [_stragglers(residue, s) for residue in range(s.consumed)] + [_chance(seed) for seed in range(4)]
    seen = [staleness for pick in picks for staleness in _play(s, publishes, pick)]
    return {"largest": float(max(seen))} | ({"spread": float(max(seen) - min(seen))} if s.strict else {})


def _whole_batches(point: Point) -> dict[str, float]:
    s = _read(point)
    return _bounds(s, -(-s.tickets // s.consumed) - 1 + (s.number - 1) // s.consumed)


def _mean_as_bound(point: Point) -> dict[str, float]:
    s = _read(point)
    return _bounds(s, -(-s.tickets // s.consumed) - 1)


def _own_batch_out(point: Point) -> dict[str, float]:
    """Tickets of the groups of one publish taken to be those in training."""
    s = _read(point)
    return _bounds(s, _largest(s) - 1)


def _of(regime: str) -> Callable[[Point, float], dict[str, float]]:
    """The bounds with those of one regime, which has a formula or an order of its own, multiplied by a factor."""

    def scaled(point: Point, factor: float) -> dict[str, float]:
        s = _read(point)
        own = "window:1" if s.rule == "window" and s.number == 1 else s.rule
        return {name: value * (factor if own == regime else 1.0) for name, value in _bounds(s, _largest(s)).items()}

    return scaled


claim = Claim(
    id="systems/hard-bounds",
    statement="no group exceeds (K+W-2)//M under a window W, ceil(K/M)-1 in strict order or drain, m under wait(m)",
    kind="bound",
    status="exact",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: counting of the groups that can overtake",
    formula_defects={
        "window rounded down to whole batches": _whole_batches,
        "the mean taken for the bound": _mean_as_bound,
        "the groups in training taken out of the tickets": _own_batch_out,
    },
    terms={regime: _of(regime) for regime in ("window:1", "window", "wait", *_STRICT)},
)
