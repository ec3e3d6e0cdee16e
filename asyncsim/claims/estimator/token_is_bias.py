r"""Token ratios instead of sequence ratios bias the gradient, because they omit the ratios of the other tokens.

token ratios bias the gradient by `-E_mu[R sum_t w_t (prod_(u != t) w_u - 1) s_t]`, linear in small policy changes

E_mu[R sum_t w_t s_t] = sum_t d/dtheta E[R | token t of pi, all others of mu]: a token's ratio corrects its own draw,
and leaves its prefix and suffix to the old policy. So the bias is -E_mu[R sum_t w_t (prod_{u != t} w_u - 1) s_t]. At
a small distance delta of the logits it is first -E_mu[R sum_{t != u} (delta . s_u) s_t], linear in delta: in step and
staleness as well, where the policy moves steadily. The sequence ratio has no bias, at the price of a variance that
grows exponentially in the length. Rewards that add up over independent tokens have no token bias at all, and one token
never has. Derivation: W = w_t prod_{u != t} w_u. Domain: softmax tokens of full support, a bias that is not 0, at most
2^20 sequences. Second route: complex steps of those returns, by a recursion without enumeration, and of the enumerated
bias in the distance. Source: derived; 2607.01083, not read, is said to state that it is linear in both.
"""

import numpy as np

from asyncsim.claims import _bandit, lab
from asyncsim.claims._bandit import softmax
from asyncsim.claims._claim import Claim, Estimate, Integer, Plant, Point, indexed, sequence_point, sim

_NEAR = 2e-3
"""Share of the way at which slopes are taken, and twice that, on both sides: their error is of its fourth power."""
_MARKOV = sequence_point("markov", 4, 4, success=0.5)


class TokenIsBias(_bandit.PaidSequencePair, Claim):
    kind, source = "identity", "derived"
    relative_to, through = "norm", "oracle"

    horizon = Integer(2, typical=(2, 4), example=3, unit="tokens", doc="length of a sequence")
    success = _bandit.share_that_pays(0.6)

    def joint(self) -> None:
        size, slope = (float(np.abs(x).max()) for x in (self._bias(), self._first()))
        remedy = "take rewards that do not add up over independent tokens, and policies that differ"
        self.require(size > 1e-6 and slope > 1e-4, "success", "such that token ratios are biased", remedy)

    def _token_scores(s, logits: np.ndarray) -> np.ndarray:
        """Flat score vector of every token, `[Y, T, S*A]`."""
        tokens, rows = s.sequences.tokens, s.rows(s.sequences.tokens)
        scores = np.zeros((*tokens.shape, *logits.shape))
        sequence, place = np.indices(tokens.shape)
        scores[sequence, place, rows] = np.eye(s.actions)[tokens] - softmax(logits)[rows]
        return scores.reshape(*tokens.shape, -1)

    def _bias(s) -> np.ndarray:
        ratio = np.exp(s.sequences.log_ratio)
        others = s.sequences.ratio[:, None] / ratio
        return np.einsum("y,yt,ytk->k", -s.paid_mass, ratio * (others - 1.0), s._token_scores(s.current_logits))

    def _first(s) -> np.ndarray:
        scores = s._token_scores(s.behavior_logits)
        moved = scores @ (s.current_logits - s.behavior_logits).ravel()
        return np.einsum("y,yt,ytk->k", -s.paid_mass, moved.sum(1, keepdims=True) - moved, scores)

    def predict(s) -> dict[str, float]:
        return indexed("bias", s._bias()) | indexed("first", s._first())

    def check(s) -> dict[str, float]:
        each = [_bandit.exact_gradient(s, s.current_logits, s.success, t) for t in range(s.horizon)]
        bias = np.sum(each, axis=0) - _bandit.exact_gradient(s, s.current_logits, s.success)
        # Token-weighted less sequence-weighted scores at a complex share of the way.
        logits = s.behavior_logits + 1e-30j * (s.current_logits - s.behavior_logits)
        tokens, rows = s.sequences.tokens, s.rows(s.sequences.tokens)
        ratio = (softmax(logits) / softmax(s.behavior_logits))[rows, tokens]
        scores = np.eye(s.actions)[tokens] - softmax(logits)[rows]
        weight = ratio - ratio.prod(axis=1, keepdims=True)
        first = np.einsum("y,yt,ytr,yta->ra", s.paid_mass, weight, np.eye(len(logits))[rows], scores)
        return indexed("bias", bias) | indexed("first", np.imag(first) / 1e-30)

    wrong = {
        "own token counted among the uncorrected": lambda s: indexed(
            "bias", -(s.paid_mass * (s.sequences.ratio - 1.0)) @ s.sequences.score
        )
    }

    points = (sequence_point("iid", 5, 1, success=0.6), sequence_point("position", 3, 3, success=1.0), _MARKOV)
    more = (sequence_point("markov", 6, 4, success=None),)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        spec = lab.planted(point, sim.methods.full_is("token", sim.advantages.none()), plant)
        current, behavior = lab.places(point)

        def bias(share: float) -> np.ndarray:
            place = behavior + share * (current - behavior)
            truth = sim.oracle.exact(spec.task, place, spec.policy)[1]
            return sim.oracle.limit(spec.task, spec.method, place, behavior, spec.policy) - truth

        near, far = (bias(share) - bias(-share) for share in (_NEAR, 2.0 * _NEAR))
        slope = (8.0 * near - far) / (12.0 * _NEAR)
        size = float(np.linalg.norm(slope))
        # Their error is of the fourth power of `_NEAR`: an allowance, relative to the size.
        first = {name: each._replace(tolerance=1e-4 * size) for name, each in lab.components("first", slope).items()}
        return lab.components("bias", bias(1.0)) | first

    defects = {
        "sequence ratio labelled token": lambda: (lab.with_method(weight=lab.Ratio("sequence")), _MARKOV),
        "prefix ratio": lambda: (lab.with_method(weight=lab.PrefixRatio()), _MARKOV),
    }
