r"""Ratios to a top-p sampler have mean S, the policy's mass on the kept actions; the ESS does not detect the loss.

ratios to a sampler cut by top-p or top-k have mean `S`, the policy's mass on the kept actions; the ESS does not show it

mu = pi_0 / S_0 on the kept set K of a row of the table, S_0 = pi_0(K); the trainer's pi is not cut. Every kept ratio is
S_0 pi/pi_0, so E_mu w = pi(K), and of sequences E W = sum of pi over those that only use kept tokens. With unchanged
weights every ratio is S_0, W = prod_t S_0t, KL(mu || pi_0) = -E log W, and ESS = N wherever that product is common:
rows of independent tokens. Where rows follow the previous token W varies, and ESS is a little below. K: of the `top_k`
largest (0: all), those that hold `top_p` with the fewest, equal ones together. Derivation: sum over the kept. Domain:
at least one action is cut; no sum of probabilities within 1e-9 of `top_p`; at most 2^20 sequences. Second route: every
sequence, with K as the largest level set that holds enough. Source: elementary.
"""

import math

import numpy as np

from asyncsim.claims._bandit import SequencePair, enumerate_sequences, softmax
from asyncsim.claims._claim import BEHAVIOR, Claim, Estimate, Integer, Plant, Point, Real, lab, sequence_point, sim

_CLEAR = 1e-9
_COMMON = sequence_point("position", 3, 3, current_logits=BEHAVIOR[:3], top_p=0.7, top_k=0)
_STALE = sequence_point("markov", 4, 4, top_p=0.75, top_k=0)


def _held(row: np.ndarray, top_k: int) -> np.ndarray:
    """Renormalized probabilities of the `top_k` most likely actions, including ties with the last."""
    count = top_k if 0 < top_k < len(row) else len(row)
    held: np.ndarray = np.where(row >= np.sort(row)[-count], row, 0.0)
    return held / held.sum()


class TopP(SequencePair, Claim):
    kind, source = "identity", "derived"
    through = "oracle"

    top_p = Real(0.0, 1.0, open_low=True, typical=(0.3, 0.95), example=0.8, doc="minimum probability mass that is kept")
    top_k = Integer(0, 64, typical=(0, 2), example=0, doc="maximum number of kept actions, 0 for all")

    def joint(self) -> None:
        # Those are kept before which the likelier ones hold less than `top_p`.
        held = [_held(row, self.top_k) for row in softmax(self.behavior_logits)]
        self.kept = np.array([[x > 0.0 and row[row > x].sum() < self.top_p for x in row] for row in held])
        self.require(not self.kept.all(), "top_p", "such that an action is cut", "lower top_p, or set top_k")
        for row in self.behavior_logits:
            gaps = np.diff(np.sort(row))
            apart = bool(((gaps == 0.0) | (gaps > _CLEAR)).all())
            self.require(apart, "behavior_logits", f"equal or {_CLEAR:g} apart in a row", "move one")
            sums = np.sort(_held(softmax(row), self.top_k))[::-1].cumsum()
            clear = self.top_p == 1.0 or bool((np.abs(sums[:-1] - self.top_p) > _CLEAR).all())
            self.require(clear, "top_p", f"{_CLEAR:g} away from a sum of probabilities", "move it")

    def _chained(s, terms: np.ndarray, extra: np.ndarray | None = None) -> tuple[float, float]:
        """Sum over sequences of the product of `terms`, and of the product times the sum of `extra`, `[S, A]` each."""
        total, added = np.ones(len(terms)), np.zeros(len(terms))
        extra = np.zeros_like(terms) if extra is None else extra
        for t in reversed(range(s.horizon)):
            product, behind = s.behind(total, t, 1.0), s.behind(added, t)
            total, added = (terms * product).sum(1), (terms * (behind + extra * product)).sum(1)
        return float(total[0]), float(added[0])

    def _quantities(s, mean: float, second: float, mismatch: float, staleness: float) -> dict[str, float]:
        divergences = {"kl_mismatch": mismatch, "kl_staleness": staleness}
        return {"mean_weight": mean, "second_moment": second, "ess": mean**2 / second, **divergences}

    def predict(s, whole: bool = False) -> dict[str, float]:
        """Predict the moments; `whole` divides by probabilities that are not renormalized."""
        behavior = softmax(s.behavior_logits)
        mass, current = (behavior * s.kept).sum(1, keepdims=True), softmax(s.current_logits) * s.kept
        sampler = behavior * s.kept / mass
        recorded = sampler * mass if whole else sampler
        ratio, mismatch, staleness = (
            np.divide(above, below, out=np.ones_like(above), where=current > 0.0)
            for above, below in ((current, recorded), (behavior, recorded), (current, behavior))
        )
        mean, second = (s._chained(sampler * ratio**power)[0] for power in (1, 2))
        divergences = (0.0 - s._chained(sampler, np.log(part))[1] for part in (mismatch, staleness))
        return s._quantities(mean, second, *divergences)

    def check(s) -> dict[str, float]:
        sequences = enumerate_sequences(s)
        rows = s.rows(sequences.tokens)
        # The highest level whose actions hold `top_p`.
        held = [_held(row, s.top_k) for row in softmax(s.behavior_logits)]
        enough = [[x for x in row if x > 0.0 and row[row >= x].sum() >= s.top_p - 1e-12] for row in held]
        kept = np.array([row >= max(levels) for row, levels in zip(held, enough, strict=True)])
        possible = kept[rows, sequences.tokens].all(1)
        mass = (softmax(s.behavior_logits) * kept).sum(1)[rows].prod(1)[possible]
        chance = sequences.mass[possible] / mass
        ratio = sequences.ratio[possible] * mass
        first, second = (math.fsum(chance * ratio**power) for power in (1, 2))
        staleness = math.fsum(chance * (sequences.log_behavior - sequences.log_current)[possible].sum(1))
        return s._quantities(first, second, -math.fsum(chance * np.log(ratio)) - staleness, staleness)

    wrong = {"kept mass forgotten": lambda s: s.predict(whole=True)}

    points = (_COMMON, sequence_point("markov", 5, 4, current_logits=BEHAVIOR, top_p=1.0, top_k=2), _STALE)
    more = (sequence_point("iid", 6, 1, current_logits=BEHAVIOR[:1], top_p=0.8, top_k=2),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
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
        "kept mass forgotten": lambda: lab.with_policy(lab.Uncut),
        "trainer's log-probs recorded as the sampler's": lambda: (lab.with_policy(lab.Unscored), _STALE),
        "action that crosses top_p left out": lambda: lab.engine_replaced(top_p=1.0, top_k=1),
    }
