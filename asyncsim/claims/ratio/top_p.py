r"""A sampler that keeps the likeliest actions has ratios of mean S, the policy's mass on what is kept, and a blind ESS.

mu = pi_0 / S_0 on the kept set K of a row of the table, S_0 = pi_0(K); the trainer's pi is not cut. Every kept ratio is
S_0 pi/pi_0, so E_mu w = pi(K), and of sequences E W = sum of pi over those that only use kept tokens. With unchanged
weights every ratio is S_0, W = prod_t S_0t, KL(mu || pi_0) = -E log W, and ESS = N wherever that product is common:
rows of independent tokens. Where rows follow the previous token W varies, and ESS is a little below. K: of the `top_k`
largest (0: all), those that hold `top_p` with the fewest, equal ones together. Derivation: sum over the kept. Domain:
at least one action is cut; no sum of probabilities within 1e-9 of `top_p`; at most 2^20 sequences. Second route: every
sequence, with K as the largest level set that holds enough. Source: elementary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._bandit import SequencePair, enumerate_sequences, softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, Wrapped, checks
from asyncsim.claims._points import BEHAVIOR, sequence_point

_CLEAR = 1e-9


def _held(row: np.ndarray, top_k: int) -> np.ndarray:
    """Probabilities of the `top_k` largest, those equal to the last of them too, renormalized."""
    count = top_k if 0 < top_k < len(row) else len(row)
    held: np.ndarray = np.where(row >= np.sort(row)[-count], row, 0.0)
    return held / held.sum()


def _cut(row: np.ndarray, top_p: float, top_k: int) -> np.ndarray:
    """Which actions are kept: those before which the likelier ones hold less than `top_p`."""
    held = _held(row, top_k)
    return np.array([x > 0.0 and held[held > x].sum() < top_p for x in held])


def _level_set(row: np.ndarray, top_p: float, top_k: int) -> np.ndarray:
    """The same from the other side: the highest level whose actions hold `top_p`."""
    held = _held(row, top_k)
    levels = [x for x in np.unique(held) if x > 0.0 and held[held >= x].sum() >= top_p - 1e-12]
    return held >= max(levels)


def _quantities(mean: float, second: float, mismatch: float, staleness: float) -> dict[str, float]:
    divergences = {"kl_mismatch": mismatch, "kl_staleness": staleness}
    return {"mean_weight": mean, "second_moment": second, "ess": mean**2 / second, **divergences}


class _CutTwice(Wrapped):
    """A trainer that scores with what the engine makes of its weights."""

    def forward(self, view: lab.View, batch: lab.Batch, names: Iterable[str]) -> lab.Forward:
        cut = self._inner.install({"log_prob": view.weights["log_prob"][0]}, None)["sampled"]
        at = lab.View({**view.weights, "log_prob": cut[None]}, view.slot, view.realization)
        return self._inner.forward(at, batch, names)


def _engine_point(dependence: str, horizon: int, rows: int, **engine: Any) -> dict[str, Any]:
    """A point with unchanged weights."""
    unchanged = {"current_logits": BEHAVIOR[:rows], "top_p": 1.0, "top_k": 0}
    return sequence_point(dependence, horizon, rows) | unchanged | engine


_COMMON = _engine_point("position", 3, 3, top_p=0.7)
_STALE = sequence_point("markov", 4, 4, top_p=0.75, top_k=0)


class TopP(SequencePair, Claim):
    """ratios to a sampler cut by top-p or top-k have mean `S`, the policy's mass on what is kept, unseen by ESS"""

    kind, source = "identity", "derived"
    through = "oracle"

    top_p = Real(0.0, 1.0, open_low=True, typical=(0.3, 0.95), example=0.8, doc="probability that is kept at least")
    top_k = Integer(0, 64, typical=(0, 2), example=0, doc="actions kept at most, 0 for all")

    def joint(self) -> None:
        super().joint()
        self.kept = np.array([_cut(row, self.top_p, self.top_k) for row in softmax(self.behavior_logits)])
        remedy = "lower top_p, or set top_k"
        checks.require(not self.kept.all(), "top_p", self.top_p, "such that an action is cut", remedy)
        table = self.behavior_logits.tolist()
        for row in self.behavior_logits:
            gaps = np.diff(np.sort(row))
            apart = bool(((gaps == 0.0) | (gaps > _CLEAR)).all())
            checks.require(apart, "behavior_logits", table, f"equal or {_CLEAR:g} apart in a row", "move one")
            sums = np.sort(_held(softmax(row), self.top_k))[::-1].cumsum()
            clear = self.top_p == 1.0 or bool((np.abs(sums[:-1] - self.top_p) > _CLEAR).all())
            checks.require(clear, "top_p", self.top_p, f"{_CLEAR:g} away from a sum of probabilities", "move it")

    def _masses(s, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Probabilities of the sampler `[S, A]`, its kept mass `[S, 1]`, and the current policy on what is kept."""
        behavior, current = (softmax(logits) * kept for logits in (s.behavior_logits, s.current_logits))
        mass = behavior.sum(1, keepdims=True)
        return behavior / mass, mass, current

    def _chained(s, terms: np.ndarray, extra: np.ndarray | None = None) -> tuple[float, float]:
        """Sum over sequences of the product of `terms`, and of that times the sum of `extra`, `[S, A]` each."""
        total, added = np.ones(len(terms)), np.zeros(len(terms))
        extra = np.zeros_like(terms) if extra is None else extra
        for t in reversed(range(s.horizon)):
            last = t + 1 == s.horizon
            follow = np.array(
                [[0 if last else s.successor(row, a, t) for a in range(s.actions)] for row in range(len(terms))]
            ).clip(max=len(terms) - 1)
            total, added = ((terms * total[follow]).sum(1), (terms * (added[follow] + extra * total[follow])).sum(1))
        return float(total[0]), float(added[0])

    def _moments(s, sampler: np.ndarray, recorded: np.ndarray, current: np.ndarray) -> dict[str, float]:
        """Quantities of samples from `sampler` whose ratios are current/recorded."""
        behavior = softmax(s.behavior_logits)
        ratio, mismatch, staleness = (
            np.divide(above, below, out=np.ones_like(above), where=current > 0.0)
            for above, below in ((current, recorded), (behavior, recorded), (current, behavior))
        )
        mean, second = (s._chained(sampler * ratio**power)[0] for power in (1, 2))
        return _quantities(
            mean, second, *(0.0 - s._chained(sampler, np.log(part))[1] for part in (mismatch, staleness))
        )

    def predict(s, kept: np.ndarray | None = None, whole: bool = False, both: bool = False) -> dict[str, float]:
        """`kept` by the sampler; `whole`: ratios to probabilities not renormalized; `both`: the trainer cut as well."""
        sampler, mass, current = s._masses(s.kept if kept is None else kept)
        current = current / current.sum(1, keepdims=True) if both else current
        return s._moments(sampler, sampler * mass if whole else sampler, current)

    def _before(s) -> np.ndarray:
        """What is kept without the action at which the sum crosses `top_p`, unless it is the likeliest."""
        held = np.array([_held(row, s.top_k) for row in softmax(s.behavior_logits)])
        inside = [[held_row[held_row >= x].sum() <= s.top_p for x in held_row] for held_row in held]
        return s.kept & (np.array(inside) | (held == held.max(1, keepdims=True)))

    def check(s) -> dict[str, float]:
        sequences = enumerate_sequences(s)
        rows = s.rows(sequences.tokens)
        kept = np.array([_level_set(row, s.top_p, s.top_k) for row in softmax(s.behavior_logits)])
        possible = kept[rows, sequences.tokens].all(1)
        mass = (softmax(s.behavior_logits) * kept).sum(1)[rows].prod(1)[possible]
        chance = sequences.mass[possible] / mass
        ratio = sequences.ratio[possible] * mass
        first, second = (math.fsum(chance * ratio**power) for power in (1, 2))
        staleness = math.fsum(chance * (sequences.log_behavior - sequences.log_current)[possible].sum(1))
        return _quantities(first, second, -math.fsum(chance * np.log(ratio)) - staleness, staleness)

    wrong = {
        "kept mass forgotten": lambda s: TopP.predict(s, whole=True),
        "trainer cut as well": lambda s: TopP.predict(s, both=True),
        "action that crosses top_p left out": lambda s: TopP.predict(s, s._before()),
    }

    points = (_COMMON, _engine_point("markov", 5, 4, top_k=2), _STALE)
    more = (_engine_point("iid", 6, 1, top_p=0.8, top_k=2),)

    @staticmethod
    def measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        task = sim.tasks.token_bandit(point["actions"], point["horizon"], point["dependence"])
        policy = task.policy(top_p=point["top_p"], top_k=point["top_k"])
        spec = plant(lab.population(task, sim.methods.full_is()).replace(policy=policy))
        step = sim.oracle.population_step(task, spec.method, *lab.places(point), spec.policy)

        names = ("mean_weight", "chi_square", "ess", "kl_mismatch", "kl_staleness")
        found = {name: getattr(sim.diagnostics, name).measure(step).item() for name in names}
        found = {"second_moment": found.pop("chi_square") + 1.0, **found}
        # Equal policies have no divergence, without rounding.
        return {name: lab.exactly(value) if value else Estimate(value) for name, value in found.items()}

    defects = {
        "kept mass forgotten": lambda: (lab.with_policy(lab.Uncut), _COMMON),
        "trainer's log-probs recorded as the sampler's": lambda: (lab.with_policy(lab.Unscored), _STALE),
        "trainer cut as well": lambda: (lab.with_policy(_CutTwice), _COMMON),
        "action that crosses top_p left out": lambda: (lab.engine_replaced(top_p=1.0, top_k=1), _COMMON),
    }
