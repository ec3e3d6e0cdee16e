r"""Which part of a policy gradient's Jacobian is stale: what the importance ratio leaves out.

an importance ratio takes out of the stale Jacobian `E[A S S^T]` of a policy gradient what it weights: by token all but
`E[A sum_(t != u) s_t s_u^T]`, by sequence or per decision all of it

Field E_mu[A sum_t w_t s_t] with token scores s_t, S their sum, A = R - b. w_t is the ratio of the whole sequence, of
the prefix to t, of token t, or 1, and v_t = grad log w_t is S, the prefix' scores, s_t, or 0. At mu = pi the Jacobian
in behavior logits is E[A sum_t s_t (S - v_t)^T]: E[A S S^T] without ratio, E[A sum_(t != u) s_t s_u^T] by token, 0 by
sequence. That in current logits is E[A (grad S + sum_t s_t v_t^T)]. Per decision, with the reward at the end, the ratio
is that of the sequence. Clips and caps away from 1 change nothing. Domain: mean dynamics, softmax tokens, fixed b, two
tokens or more, at most 2^20 sequences. Second route: complex-step derivatives of the enumerated fields.
"""

from functools import partial
from typing import Any

import numpy as np

from asyncsim.claims import _bandit, lab
from asyncsim.claims._bandit import complex_gradient, softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, Real, indexed, sim
from asyncsim.claims._points import BEHAVIOR

_STALE = {"none": "none", "token": "token", "prefix": "prefix", "clipped": "token"}
_CURRENT = {"sequence": "sequence", "per_decision": "sequence", "truncated": "sequence"}
"""Estimators whose stale, or whose current Jacobian is predicted, with the ratio that decides it."""
_ALL = {**_STALE, **_CURRENT}
_SHIFT, _SIZE = 0.005, 1 << 17


def _point(dependence: str, horizon: int, rows: int, success: float) -> Point:
    # Two actions: already these Jacobians have up to 36 entries each.
    logits = tuple(row[:2] for row in BEHAVIOR[:rows])
    point = {"actions": 2, "horizon": horizon, "dependence": dependence, "logits": logits}
    return {**point, "success": success, "baseline": 0.3}


class EstimatorJacobians(_bandit.Sequences, Claim):
    kind, source = "identity", "derived: derivatives of the mean field in current and in behavior logits"
    relative_to, through = "norm", "oracle"

    horizon = Integer(2, typical=(2, 4), example=3, unit="tokens", doc="length of a sequence")
    logits = _bandit.logit_table("only", (0.3, -0.2, 0.5), (0.0, 0.7, -0.4), (-0.5, 0.2, 0.1), (0.9, 0.1, 0.0))
    success = Real(0.0, 1.0, open_low=True, typical=(0.1, 1.0), example=0.6, doc="fraction of tokens 0 that pays")
    baseline = Real(typical=(-1.0, 1.0), example=0.3, unit="reward", doc="fixed baseline")

    def joint(self) -> None:
        # Every sequence, `[Y, T]`, and its advantage, `[Y]`.
        self.tokens = np.stack([g.ravel() for g in np.indices((self.actions,) * self.horizon)], axis=1)
        paid = _bandit.reward((self.tokens == 0).sum(axis=1), self.horizon, self.success)
        self.advantage = np.asarray(paid) - self.baseline

    def _tokens(s, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities `[Y, T]` and scores `[Y, T, S*A]` of every token."""
        tokens, p = s.tokens, softmax(logits.reshape(s.logits.shape))
        rows = s.rows(tokens)
        score = np.zeros((*tokens.shape, *p.shape), dtype=p.dtype)
        place = np.ix_(*map(np.arange, tokens.shape))
        score[(*place, rows)] = np.eye(s.actions)[tokens] - p[rows]
        return p[rows, tokens], score.reshape(*tokens.shape, -1)

    def predict(s, of: dict[str, str] = _ALL) -> dict[str, float]:
        """Jacobians in closed form; `of` maps each estimator to the ratio that it uses."""
        probability, score = s._tokens(s.logits)
        mass, whole = probability.prod(axis=1) * s.advantage, score.sum(axis=1, keepdims=True)
        seen = {"none": 0.0 * score, "token": score, "prefix": score.cumsum(axis=1), "sequence": whole + 0.0 * score}
        found: dict[str, float] = {}
        for name in _STALE:
            found |= indexed(f"stale_{name}", np.einsum("y,yti,ytj->ij", mass, score, whole - seen[of[name]]))
        rows, p = s.rows(s.tokens), softmax(s.logits)
        curvature = np.zeros((*p.shape, *p.shape))
        for row in range(len(p)):
            curvature[row, :, row] = -(mass @ (rows == row).sum(axis=1)) * _bandit.fisher(p[row])
        for name in _CURRENT:
            product = np.einsum("y,yti,ytj->ij", mass, score, seen[of[name]])
            found |= indexed(f"current_{name}", product + curvature.reshape(product.shape))
        return found

    def check(s) -> dict[str, float]:
        def field(ratio: str, theta: np.ndarray, behavior: np.ndarray) -> np.ndarray:
            (mu, _), (pi, score) = s._tokens(behavior), s._tokens(theta)
            token = pi / mu
            whole, prefix = token.prod(axis=1, keepdims=True) + 0.0 * token, token.cumprod(axis=1)
            weight = {"none": np.ones_like(token), "token": token, "prefix": prefix, "sequence": whole}[ratio]
            return np.asarray(np.einsum("y,yt,yti->i", mu.prod(axis=1) * s.advantage, weight, score))

        flat = s.logits.ravel()
        found: dict[str, float] = {}
        for name, ratio in _STALE.items():
            found |= indexed(f"stale_{name}", complex_gradient(partial(field, ratio, flat + 0j), flat))
        for name, ratio in _CURRENT.items():
            found |= indexed(f"current_{name}", complex_gradient(partial(field, ratio, behavior=flat + 0j), flat))
        return found

    wrong = {"prefix ratio taken for the one per decision": lambda s: s.predict({**_ALL, "per_decision": "prefix"})}

    points = (_point("markov", 3, 3, 0.6), _point("iid", 4, 1, 0.5))
    more = (_point("position", 3, 3, 1.0),)

    def reach(self, point: Point) -> str | None:
        """Limit the number of sequences times logits, since larger ones take minutes and gigabytes."""
        size = point["actions"] ** point["horizon"] * np.size(point["logits"])
        return None if size <= _SIZE else f"actions**horizon times the logits at most {_SIZE}; shorten the sequences"

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        advantage: Any = sim.advantages.offset(point["baseline"])
        plain: Any = "sequence_sum"
        methods = {
            "stale_none": sim.methods.reinforce(advantage),
            "stale_token": sim.methods.full_is("token", advantage),
            "stale_prefix": sim.methods.prefix_is(advantage),
            "stale_clipped": sim.methods.ppo_clip(advantage=advantage, aggregator=plain),
            "current_sequence": sim.methods.full_is("sequence", advantage),
            "current_per_decision": sim.methods.per_decision_is(advantage),
            "current_truncated": sim.methods.truncated_is("sequence", 2.0, advantage, plain),
        }
        found: dict[str, Estimate] = {}
        for name, method in methods.items():
            spec, flat = lab.planted(point, method, plant), np.ravel(point["logits"])
            # Central differences of fourth order.
            total = np.zeros((flat.size, flat.size))
            for multiple, weight in ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)):
                moved, here = flat + multiple * _SHIFT * np.eye(flat.size), np.tile(flat, (flat.size, 1))
                now, then = (here, moved) if name.startswith("stale") else (moved, here)
                total += weight / (12.0 * _SHIFT) * sim.oracle.limit(spec.task, spec.method, now, then, spec.policy)
            jacobian = total.T
            # Besides what the fourth order leaves, h^4/30 times a fifth derivative: it stays where the first cancels.
            tolerance = 1e-6 * float(np.linalg.norm(jacobian)) + _SHIFT**4 / 30.0
            found |= {f"{name}[{k}]": Estimate(float(x), tolerance=tolerance) for k, x in enumerate(jacobian.ravel())}
        return found

    defects = {
        "token ratio in place of every other": lambda: lab.with_method(weight=lab.Ratio("token")),
        "score at the behavior version": lambda: lab.with_method(at="behavior"),
        "last token left out of the log-prob": lambda: lab.with_policy(lab.ShortProduct),
    }
