r"""Training orders and sync rules that bound the staleness of every single group, each with its bound.

no staleness exceeds `floor((K+W-2)/M)` in a window `W`, `ceil(K/M)-1` in strict order or drain, `m` under `wait(m)`

K permits that return at the publish, M = S P groups consumed per publish, K > M, a slot for every permit.
  window:W         oldest ready group first, only numbers below F + W (F: first number still generated): (K + W - 2)//M
  window:1, target, version_strict, drain     ceil(K/M) - 1, never less than floor(K/M) - 1
  wait:m           oldest first, no batch while a group in generation has planned staleness m >= ceil(K/M) - 1: m
Derivation: group i is admitted with version v = max(0, ceil((i + 1 - K)/M)). Before it is ready at most W - 1 younger
groups train, afterwards none. So its batch is at most (i + W - 1)//P, its staleness (i + W - 1)//M - v, largest where M
divides i + W - 1. Strict orders are W = 1 up to order inside a version. Under drain all groups outstanding at an
install, K - M at most, are ready and train first. Under wait all groups of planned staleness m are ready, and since M
start with each version they fit one publish. The first K share a version, so the bound holds from version 2 m on. K =
(h + 1) M gives h + ceil((W - 1)/M), h and m. A fraction tau ahead, K = floor((1 + tau) M), gives ceil(K/M) - 1, which
is ceil(tau) unless tau M < 1 (then 0). Bounds are attained. Second route: the worst that an adversary reaches who picks
what finishes next. Domain: steady state, nothing dropped; the trainer waits for the install, however long it takes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from asyncsim.claims import _engines, _work, lab
from asyncsim.claims._claim import Estimate, Parsed, Plant, Point, Positive, checks, each_term, named, replaced, within

_STRICT = ("target", "version_strict", "drain")
_LARGEST = 4096
_Groups = list[tuple[int, int]]
"""Number and version of each."""
_point = named(
    "rule", "tickets", "groups_per_batch", "batches_per_publish", "sync_time",
    groups_per_batch=4, batches_per_publish=1, length="pareto:0.5:1.5", train_time=1.0, sync_time=0.0,
)  # fmt: skip


def _rule(field: str, value: Any) -> tuple[str, int]:
    """Parse the name of a rule and its number (0 if it has none)."""
    name, _, number = str(value).partition(":")
    known = value in _STRICT or (name in ("window", "wait") and number.isdecimal())
    known = known and (name != "window" or 1 <= int(number) <= _LARGEST)
    accepted = "window:W with W >= 1, wait:m, target, version_strict or drain"
    checks.require(known, field, value, accepted, "name the rule that bounds staleness")
    return name, int(number or 0)


class HardBounds(_engines.Engines):
    kind, source, effect = "bound", "derived: counting of the groups that can overtake", 0.05

    rule = Parsed(
        _rule, "window:W, wait:m, target, version_strict or drain", example="window:3",
        typical=(*_STRICT, "window:1", "window:3", "window:4", "window:9", "wait:2", "wait:5", "wait:9"),
        doc="order of training or sync rule that bounds staleness",
    )  # fmt: skip
    tickets = _engines.tickets(_LARGEST, example=9)
    groups_per_batch = _engines.groups(high=_LARGEST, typical=(1, 3), example=3)
    batches_per_publish = _engines.batches(_LARGEST, typical=(1, 2), example=1)
    length = Parsed(
        _work.text, "the text of a distribution", typical=("pareto:0.5:1.5",), example="pareto:0.5:1.5",
        unit="seconds", doc="distribution of the seconds of a sample (any)",
    )  # fmt: skip
    train_time = Positive(typical=(0.5, 2.0), example=1.0, unit="seconds", doc="training time of a batch")
    sync_time = _engines.sync_time(typical=(0.0, 0.4), example=0.0)

    def joint(self) -> None:
        self.name, self.number = self.rule
        reason = "with as many tickets as groups of a publish the run is synchronous; raise the tickets"
        checks.integer("tickets", self.tickets, self.publish + 1, reason, _LARGEST)
        least = -(-self.tickets // self.publish) - 1
        enough = self.name != "wait" or self.number >= least
        text, remedy = f"{self.name}:{self.number}", "fewer never let the group permits be used"
        checks.require(enough, "rule", text, f"wait:{least} or more", remedy)
        # W, numbers that the batch is chosen from.
        window = self.number if self.name == "window" else 1
        self.regime = "window:1" if self.rule == ("window", 1) else self.name
        self.strict = self.regime in (*_STRICT, "window:1")
        reached = (self.tickets + window - 2) // self.publish
        self.largest = self.number if self.name == "wait" else reached

    def bounds(s, largest: int, spread: int | None = None) -> dict[str, float]:
        spread = int(s.tickets % s.publish > 0) if spread is None else spread
        return {"largest": float(largest)} | ({"spread": float(spread)} if s.strict else {})

    def choose(s, ready: _Groups, running: dict[int, int], version: int, batch: int) -> _Groups:
        """Return the groups of the next batch, or an empty list if the training rule allows none."""
        # With nothing in generation every version is complete.
        first, in_order = min(running, default=s.tickets + version * s.publish), sorted(ready)
        oldest = running.get(first, version)
        candidates = {
            "drain": ready,
            "version_strict": sorted((g for g in ready if g[1] <= oldest), key=lambda g: g[1]),
            "target": [g for g in in_order if g[0] // s.groups_per_batch == batch],
            "wait": in_order if version - oldest < s.number else [],
            "window": [g for g in in_order if g[0] < first + s.number],
        }[s.name]
        return candidates[: s.groups_per_batch] if len(candidates) >= s.groups_per_batch else []

    def play(s, pick: Callable[[list[int], bool], list[int]]) -> list[int]:
        """Staleness of groups trained after the start-up, simulated by the order of events without a clock."""
        ready, running, version, batch = _Groups(), dict.fromkeys(range(s.tickets), 0), 0, 0
        stalenesses, warm = list[int](), 2 * (s.largest + s.tickets // s.publish) + 2
        while version < 3 * warm + 4:
            done = pick(list(running), bool(s.choose(ready, running, version, batch)))
            ready += [(group, running.pop(group)) for group in done]
            # One batch at a time: groups admitted behind a publish may finish before the next.
            chosen = s.choose(ready, running, version, batch)
            ready = [g for g in ready if g not in chosen]
            staleness, batch = [version - begun for _, begun in chosen], batch + bool(chosen)
            if chosen and batch % s.batches_per_publish == 0:
                if s.name == "drain":
                    ready, running = ready + list(running.items()), {}
                admitted, version = s.tickets + version * s.publish, version + 1
                running |= dict.fromkeys(range(admitted, admitted + s.publish), version)
            stalenesses += staleness if version > warm else []
        return stalenesses

    def predict(s) -> dict[str, float]:
        return s.bounds(s.largest)

    def check(s) -> dict[str, float]:
        def stragglers(residue: int, running: list[int], formed: bool) -> list[int]:
            """Finish all groups at once except one residue class, which finishes when nothing else can."""
            others = [g for g in running if g % (s.publish * (s.largest + 2 + s.tickets // s.publish)) != residue]
            return others or ([] if formed else running)

        def chance(generator: np.random.Generator, running: list[int], formed: bool) -> list[int]:
            count = min(len(running), int(generator.geometric(0.5)))
            return generator.choice(running, count, replace=False).tolist() if running else []

        # Residues of one publish cover every position of a group in its version and in its batch.
        picks = [partial(stragglers, residue) for residue in range(s.publish)]
        picks += [partial(chance, np.random.default_rng(seed)) for seed in range(4)]
        stalenesses = [staleness for pick in picks for staleness in s.play(pick)]
        return s.bounds(max(stalenesses), max(stalenesses) - min(stalenesses))

    wrong = {"the mean taken for the bound": lambda s: s.bounds(-(-s.tickets // s.publish) - 1)}

    def scaled(s, regime: str, factor: float) -> dict[str, float]:
        """The prediction, multiplied by a factor if the point is in the given regime."""
        return {name: x * (factor if s.regime == regime else 1.0) for name, x in s.predict().items()}

    terms = each_term(scaled, "window:1", "window", "wait", *_STRICT)

    points = (
        *(_point(*each) for each in (("window:1", 10), ("window:5", 12), ("window:2", 12), ("wait:2", 12))),
        *(_point(*each) for each in (("drain", 10), ("version_strict", 10), ("target", 10))),
        _point("window:5", 12, 2, 2),
        _point("wait:3", 12, 2, 2, 0.4),
        _point("drain", 10, 2, 2, 0.4),
        _point("version_strict", 10, 4, 1, 0.4),
    )
    more = tuple(_point(*x) for x in (("window:1", 12), ("target", 12), ("drain", 6), ("window:9", 8), ("wait:4", 12)))
    reach = staticmethod(within(tickets=256))

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        rule, _, number = point["rule"].partition(":")
        tickets, batch, batches = point["tickets"], point["groups_per_batch"], point["batches_per_publish"]
        options: dict[str, dict[str, Any]] = {
            "window": {"order": "oldest_start", "window": int(number or 0)},
            "wait": {"order": "oldest_start", "max_age": int(number or 0), "age_action": "wait"},
            "drain": {"mode": "drain"},
        }
        system = lab.engine(point, places=tickets, **options.get(rule, {"order": rule}))
        # The groups of the start share a version; under wait they leave within twice the age.
        versions = int(number or 0) + 2 * (tickets // (batch * batches) + 2)
        warm_up = 2 * batches * versions
        # Stragglers of a heavy tail reach every bound at the points in the first of eight realizations (measured).
        staleness = plant(system).staleness(warm_up + 400 * batches, 8, seed)[:, warm_up:]
        largest = float(np.max(staleness))
        return {"largest": Estimate(largest), "spread": Estimate(largest - float(np.min(staleness)))}

    defects = {
        "an install not counted": lambda: (lab.kernel_defects.version_off_by_one, _point("version_strict", 10)),
        "the drain forgotten": lambda: (replaced(mode="keep"), _point("drain", 10)),
        "waiting a version late": lambda: (replaced(max_age=3), _point("wait:2", 12)),
        "a window too wide": lambda: (replaced(window=2), _point("window:1", 12)),
    }
