r"""PPO's clip stops tokens whose ratio to the anchor has already moved too far along their advantage.

PPO's gradient is `rho A s` where the clip is open; if the denominator is recomputed, `rho = 1` in the first update

The gradient of min(rho A, clip(rho) A) is rho A s where the gate is open, 0 elsewhere, s = grad log pi. It is open for
A > 0 where rho <= 1 + high, for A < 0 where rho >= 1 - low, and with a dual clip also rho <= dual: without one the
weight rho of A < 0 has no bound. Below: one softmax, data of mu, rewards 0 or 1, A = r - offset. In a second update on
a batch, trained at first with mu, rho = pi/mu for both anchors. `first` is the first update on a batch of mu at the
policy pi. Anchored at behavior nothing changes. A denominator that the trainer recomputes ("proximal") makes rho = 1:
every token is open, the gradient is E_mu[A s], and staleness is unseen. So with one update on a batch such a clip never
acts; with several passes or minibatches it acts from the second on. Where signs do not depend on the action and are
even, half of what lies outside the band is stopped. Derivation: the derivative of the printed objective. Domain: no
ratio within 1e-9 of a bound. Second route: complex step through that objective, branch by branch. Source: arXiv
1707.06347, equation 7; 1912.09729 for the dual clip.
"""

from functools import partial

import numpy as np

from asyncsim.claims._bandit import PolicyPair, complex_gradient, softmax
from asyncsim.claims._claim import PAIR, Choice, Claim, Estimate, Plant, Point, Real, Vector, checks, indexed, lab, sim

_CLEAR = 1e-9
_POINT = {**PAIR, "means": (0.3, 0.5, 0.8), "low": 0.2, "high": 0.2, "offset": 0.4}
_STALE = {**_POINT, "anchor": "behavior", "dual": 2.0}
_RECOMPUTED = {**_POINT, "anchor": "proximal", "dual": None}


class PpoGate(PolicyPair, Claim):
    kind, source = "identity", "arXiv 1707.06347; dual clip 1912.09729"
    relative_to = "norm"

    means = Vector(typical=(0.05, 0.95), example=(0.3, 0.5, 0.8), doc="success probabilities of the arms")
    low = Real(0.0, 1.0, typical=(0.05, 0.5), example=0.2, doc="the gate's lower bound is 1 - low")
    high = Real(0.0, typical=(0.05, 0.5), example=0.28, doc="the gate's upper bound is 1 + high")
    dual = Real(1.0, open_low=True, optional=True, typical=(1.5, 4.0), example=1.5, doc="maximum ratio for A < 0")
    offset = Real(0.0, 1.0, open_low=True, typical=(0.1, 0.9), example=0.4, unit="reward", doc="constant baseline")
    anchor = Choice("behavior", "proximal", example="proximal", doc="policy in the denominator of the ratio")

    def joint(self) -> None:
        inside = bool(((self.means >= 0.0) & (self.means <= 1.0)).all())
        self.require(inside, "means", "in [0, 1]", "give success probabilities")
        self.ratio = self.pi / self.mu
        self.bounds = 1.0 - self.low, 1.0 + self.high, np.inf if self.dual is None else self.dual
        gaps = np.abs(np.concatenate([np.append(self.ratio, 1.0) - x for x in self.bounds]))
        checks.require(bool((gaps > _CLEAR).all()), "low, high", (self.low, self.high), "off every ratio", "move it")
        moves = min(float(np.abs(self._update(rho)[0]).max()) for rho in (self.ratio, np.ones_like(self.ratio)))
        self.require(moves > 1e-6, "offset", "such that the gradient is not 0", "widen the band")

    def _quantities(s, first: tuple[np.ndarray, float], second: tuple[np.ndarray, float]) -> dict[str, float]:
        vectors = indexed("first", first[0]) | indexed("second", second[0])
        return vectors | {"open_first": first[1], "open_second": second[1]}

    def _update(s, rho: np.ndarray) -> tuple[np.ndarray, float]:
        """Gradient with respect to the logits, and the fraction of tokens with open gates, for A > 0 and A < 0."""
        lowest, highest, dual = s.bounds
        paid = s.mu * s.means * (rho <= highest)
        unpaid = s.mu * (1.0 - s.means) * ((rho >= lowest) & (rho <= dual))
        weight = rho * (paid * (1.0 - s.offset) - unpaid * s.offset)
        return weight - weight.sum() * s.pi, float(paid.sum() + unpaid.sum())

    def predict(s) -> dict[str, float]:
        seen = s.ratio if s.anchor == "behavior" else np.ones_like(s.ratio)
        return s._quantities(*(s._update(rho) for rho in (seen, s.ratio)))

    def check(s) -> dict[str, float]:
        lowest, highest, dual = s.bounds

        def objective(below: np.ndarray, logits: np.ndarray) -> np.ndarray:
            """max(min(rho A, clip(rho) A), dual A) of every arm, for reward 1 and 0; branches use real parts."""
            rows = []
            for ratio in softmax(logits) / below:
                clip = ratio if lowest <= ratio.real <= highest else min(max(ratio.real, lowest), highest)
                for gain in (1.0 - s.offset, -s.offset):
                    least = min(ratio * gain, clip * gain, key=np.real)
                    rows.append(least if gain > 0.0 or s.dual is None else max(least, dual * gain, key=np.real))
            return np.array(rows)

        chance, found = np.stack([s.mu * s.means, s.mu * (1.0 - s.means)], 1).ravel(), []
        for below in (s.mu if s.anchor == "behavior" else s.pi, s.mu):
            slopes = complex_gradient(partial(objective, below), s.current_logits)
            found.append((chance @ slopes, float(chance @ (np.abs(slopes).max(1) > 0.0))))
        return s._quantities(*found)

    wrong = {"a recomputed denominator sees staleness": lambda s: s.but(anchor="behavior").predict()}

    points = (_STALE, _RECOMPUTED)
    more = ({**_STALE, "low": 0.6, "high": 1.0, "dual": None},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        means, baseline = point["means"], sim.advantages.offset(point["offset"])
        method = sim.methods.ppo_clip(point["low"], point["high"], point["anchor"], baseline, dual=point.get("dual"))
        slopes = [
            lab.Metric(f"gradient[{a}]", lambda step, a=a: step.gradient[:, a], ("log_prob",), subject="policy")
            for a in range(len(means))
        ]
        metrics, places = [*slopes, "clip_active"], lab.places(point)[::-1]
        spec = lab.displaced(sim.tasks.softmax_bandit(len(means), means), places, metrics, (1, 3, 1), method)
        trace = lab.run(spec.replace(sampling="enumerate", epochs=2), seed, plant)
        found: dict[str, Estimate] = {}
        # Behind the displacement: the second update on a batch of the policy itself, then the first on a stale one.
        for name, update in (("first", 2), ("second", 1)):
            found |= lab.components(name, np.array([trace[each.name][update, 0] for each in slopes]))
            found[f"open_{name}"] = lab.exactly(1.0 - trace["clip_active"][update, 0])
        return found

    defects = {
        "dual clip forgotten": lambda: lab.with_method(weight=lab.Clip(0.2, 0.2)),
        "anchored elsewhere": lambda: (lab.with_method(anchor="behavior"), _RECOMPUTED),
    }
