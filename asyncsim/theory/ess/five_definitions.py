r"""Five quantities that are called effective sample size, on sequences that a token can end.

w_t is the ratio of token t, W that of the sequence, L its length, alive_t = P(L >= t) under behavior, and 1 + chi_t^2 =
sum_a pi_a^2/mu_a at position t.
    sequence:  1 / E W^2, with E W = 1 also where a token ends the sequence
    clamped:   (E L v)^2 / (E L E L v^2), v = W clamped to [1/C, C] and written on each of its tokens
    pooled:    sum_t alive_t / sum_t alive_t (1 + chi_t^2), over all tokens
    within:    E (sum_t w_t)^2 / (L sum_t w_t^2), inside a sequence
    frames:    mean over positions of 1/(1 + chi_t^2), across sequences
With equal rows pooled and frames are 1/(1 + chi^2) at every length: only the first sees products. Derivation: whether a
position is reached does not depend on its token, whose ratio has mean 1. Domain: independent tokens, the last action
ends the sequence, at most 2^16 strings. Second route: all strings of T tokens, read up to the first that ends. Source:
definitions as in public trainers, at many samples; values derived.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_softmax

from asyncsim.base import checks
from asyncsim.theory._bandit import SequencePair, softmax
from asyncsim.theory._declared import Choice, Integer, Real
from asyncsim.theory._stated import stated

_LIMIT = 2**16


class _Setting(SequencePair):
    horizon = Integer(1, typical=(1, 4), example=4, unit="tokens", doc="most tokens of a sequence")
    dependence = Choice("iid", "position", example="position", doc="rule that picks the row of logits of a token")
    clamp = Real(1.0, typical=(1.0, 8.0), example=5.0, doc="upper clamp C of [1/C, C]")

    def joint(self) -> None:
        """No more strings than are listed."""
        super().joint()
        few = self.actions**self.horizon <= _LIMIT
        bound = f"such that {self.actions}**{self.horizon} <= {_LIMIT}"
        checks.require(few, "horizon", self.horizon, bound, "shorten the sequences")


class _Sequences(NamedTuple):
    """Probability, ratio, length, and sums of token ratios and of their squares, of every sequence `[Y]`."""

    mass: np.ndarray
    ratio: np.ndarray
    length: np.ndarray
    first: np.ndarray
    second: np.ndarray


def _grown(s: _Setting) -> _Sequences:
    """Sequences token by token: those that ended, and those that go on."""
    ended, alive = [], _Sequences(*(np.array([x]) for x in (1.0, 1.0, 0.0, 0.0, 0.0)))
    for mu, pi in zip(*_tables(s), strict=True):
        w = pi / mu
        grown = _Sequences(
            np.multiply.outer(alive.mass, mu),
            np.multiply.outer(alive.ratio, w),
            np.add.outer(alive.length, np.ones_like(w)),
            np.add.outer(alive.first, w),
            np.add.outer(alive.second, w**2),
        )
        ended.append(_Sequences(*(x[:, -1] for x in grown)))
        alive = _Sequences(*(x[:, :-1].ravel() for x in grown))
    return _Sequences(*(np.concatenate(parts) for parts in zip(*ended, alive, strict=True)))


def _tables(s: _Setting) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of both policies at every position, `[T, A]`."""
    shape = s.horizon, s.actions
    return np.broadcast_to(softmax(s.behavior_logits), shape), np.broadcast_to(softmax(s.current_logits), shape)


def _quantities(s: _Setting, law: _Sequences, sequence: float, pooled: float, frames: float) -> dict[str, float]:
    weight = np.clip(law.ratio, 1.0 / s.clamp, s.clamp)
    length, first, second = (float(law.mass @ (law.length * weight**power)) for power in (0, 1, 2))
    within = float(law.mass @ (law.first**2 / (law.length * law.second)))
    return {
        "sequence": sequence,
        "clamped": first**2 / (length * second),
        "pooled": pooled,
        "within": within,
        "frames": frames,
    }


def _predict(s: _Setting) -> dict[str, float]:
    mu, pi = _tables(s)
    alive = np.concatenate([[1.0], (1.0 - mu[:-1, -1]).cumprod()])
    square = (pi**2 / mu).sum(1)
    # Second moment of the ratio from a position on, which is that of the token where it ends the sequence.
    moment = 1.0
    for t in reversed(range(s.horizon)):
        last = pi[t, -1] ** 2 / mu[t, -1]
        moment = last + (square[t] - last) * moment
    return _quantities(
        s, _grown(s), float(1.0 / moment), float(alive.sum() / (alive @ square)), float((1.0 / square).mean())
    )


def _cross_check(s: _Setting) -> dict[str, float]:
    tokens = np.stack([g.ravel() for g in np.indices((s.actions,) * s.horizon)], axis=1)
    rows = s.rows(tokens)
    log_mu, log_pi = (log_softmax(x, axis=1)[rows, tokens] for x in (s.behavior_logits, s.current_logits))
    mass = np.exp(log_mu.sum(1))
    # Tokens behind the end do not count; summed over them, masses add up to that of what was read.
    read = np.cumsum(tokens == s.actions - 1, axis=1) - (tokens == s.actions - 1) == 0
    w = np.where(read, np.exp(log_pi - log_mu), 0.0)
    ratio = np.exp(np.where(read, log_pi - log_mu, 0.0).sum(1))
    law = _Sequences(mass, ratio, read.sum(1).astype(float), w.sum(1), (w**2).sum(1))
    shares = (mass @ w) ** 2 / ((mass @ w**2) * (mass @ read))
    pooled = float(mass @ law.first) ** 2 / float(mass @ law.second) / float(mass @ law.length)
    return _quantities(s, law, float(mass @ ratio) ** 2 / float(mass @ ratio**2), pooled, float(shares.mean()))


def _without_lengths(s: _Setting) -> dict[str, float]:
    law = _grown(s)
    weight = np.clip(law.ratio, 1.0 / s.clamp, s.clamp)
    return _predict(s) | {"clamped": float((law.mass @ weight) ** 2 / (law.mass @ weight**2))}


def _every_position_full(s: _Setting) -> dict[str, float]:
    mu, pi = _tables(s)
    square = (pi**2 / mu).sum(1)
    return _predict(s) | {"sequence": float(1.0 / square.prod()), "pooled": float(1.0 / square.mean())}


def _swapped(s: _Setting) -> dict[str, float]:
    right = _predict(s)
    return right | {"pooled": right["within"], "within": right["pooled"]}


claim = stated(
    id="ess/five-definitions",
    statement="five sizes differ: `1/E W^2` of sequences, `sum alive_t / sum alive_t (1 + chi_t^2)` of pooled tokens, "
    "of positions, inside a sequence, and clamped",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived; definitions as in public trainers",
    formula_defects={
        "sequence weight without its length": _without_lengths,
        "all sequences as long as the longest": _every_position_full,
        "pooled and within swapped": _swapped,
    },
)
