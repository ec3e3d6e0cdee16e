r"""What each baseline and scale makes of the expected update of a small group, under the full ratio of each response.

E g = E[(1/N) sum_i w_i A_i score_i] over all groups of N stale responses, A_i as printed, w the response's ratio (the
token's under `otb`); `noise` is the total variance of g in units of the squared gradient. Baselines that leave sample i
out, or know nothing of it (none, offset, the greedy response of remax), are unbiased: `along` is 1. The group mean
costs (N - 1)/N. A sample that stands in a weighted baseline (opo, opob, otb, self-normalized, soft value) leaves a bias
of that order, with another direction. A scale from the group (deviation, mean, that of the step) is a factor that
depends on the sample itself. pass@k has 1/k times the gradient of the best of k on fresh data. `scale` is the offset,
shift, temperature, discount or second weight, `limit` the length that GDPO calls short. Domain: a table of logits for
each place, at most 2^16 ordered groups. First route: all ordered groups; second: groups without order, sample by sample
in plain numbers. Source: the papers of the rules, named in their docstrings.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import softmax
from asyncsim.theory._declared import Choice, Draw, Integer, Real
from asyncsim.theory._ragged import Ragged
from asyncsim.theory._stated import stated
from asyncsim.theory.estimator import _alone as alone

_EPS = 1e-6


class _Groups(NamedTuple):
    """All ordered groups: rewards, lengths, ratios of responses and squared lengths of their weighted scores `[K, N]`,
    masks, squares of scores of tokens, also weighted, and ratios of tokens `[K, N, T]`; `greedy` a reward."""

    reward: np.ndarray
    length: np.ndarray
    ratio: np.ndarray
    norm: np.ndarray
    mask: np.ndarray
    energy: np.ndarray
    heavy: np.ndarray
    token_ratio: np.ndarray
    greedy: float


_Rule = Callable[[Any, _Groups], np.ndarray]


def _mean(x: np.ndarray) -> np.ndarray:
    return x.mean(1, keepdims=True)


def _deviation(x: np.ndarray) -> np.ndarray:
    spread: np.ndarray = np.sqrt(_mean((x - _mean(x)) ** 2))
    return spread


def _standard(x: np.ndarray, factor: float = 1.0) -> np.ndarray:
    return (x - _mean(x)) / (_deviation(x) * factor + _EPS)


def _located(reward: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return (weight * reward).sum(1, keepdims=True) / weight.sum(1, keepdims=True)


def _of_others(reward: np.ndarray, weight: np.ndarray) -> np.ndarray:
    total, moment = weight.sum(1, keepdims=True), (weight * reward).sum(1, keepdims=True)
    return (moment - weight * reward) / (total - weight)


def _quantile(values: np.ndarray, weight: np.ndarray, level: float) -> np.ndarray:
    order = np.argsort(values, axis=1)
    below = np.cumsum(np.take_along_axis(weight, order, 1), 1)
    first = (below >= level * below[:, -1:] - 1e-12).argmax(1)
    return np.take_along_axis(np.take_along_axis(values, order, 1), first[:, None], 1)


def _robust(e: _Groups) -> np.ndarray:
    low, high = (_quantile(e.reward, e.norm / e.norm.sum(1, keepdims=True), x) for x in (0.05, 0.95))
    return _located(np.clip(e.reward, low, high), e.norm)


def _by_token(e: _Groups, energy: np.ndarray, own: bool) -> np.ndarray:
    """Optimal token baselines, `[K, N, T]`."""
    energy, alive = energy * e.mask, e.mask.sum(1, keepdims=True)
    total = energy.sum(1, keepdims=True)
    base = (energy * e.reward[..., None]).sum(1, keepdims=True) / np.where(total > 0, total, 1.0)
    return (e.reward[..., None] - np.where((alive < 2) & (not own), 0.0, base)) * e.mask


def _best(s: Any, e: _Groups, k: int) -> np.ndarray:
    """Mean over sets of k with the sample of what it adds to their best."""
    samples = e.reward.shape[1]
    gained, sets = np.zeros_like(e.reward), math.comb(samples - 1, k - 1)
    for i in range(samples):
        for others in itertools.combinations([j for j in range(samples) if j != i], k - 1):
            best = e.reward[:, list(others)].max(1)
            gained[:, i] += np.maximum(e.reward[:, i] - best, 0.0) / sets
    return gained


def _to_go(s: Any, e: _Groups, discount: float) -> np.ndarray:
    ahead = e.length[..., None] - 1.0 - np.arange(e.mask.shape[2])
    return discount ** np.maximum(ahead, 0.0) * e.reward[..., None] * e.mask


def _over_tokens(e: _Groups, returns: np.ndarray, unbiased: bool = False, scaled: bool = True) -> np.ndarray:
    """Returns of tokens less their mean over the step, over their deviation, `[K, N, T]`."""
    share = e.mask / e.mask.sum((1, 2), keepdims=True)
    centered = returns - (share * returns).sum((1, 2), keepdims=True)
    variance = (share * centered**2).sum((1, 2), keepdims=True)
    number = e.mask.sum((1, 2), keepdims=True)
    variance = variance * number / (number - 1.0) if unbiased else variance
    return centered / np.where(variance > 1e-16, np.sqrt(variance), 1.0) * e.mask if scaled else centered * e.mask


def _gdpo(s: Any, e: _Groups, weight: float) -> np.ndarray:
    both = _standard(e.reward) + weight * _standard((e.length <= s.limit).astype(np.float64))
    return _standard(both)


_RULES: dict[str, _Rule] = {
    "none": lambda s, e: e.reward,
    "offset": lambda s, e: e.reward - s.scale,
    "mean": lambda s, e: e.reward - _mean(e.reward),
    "group_mean": lambda s, e: e.reward - _mean(e.reward) - s.scale,
    "leave_one_out": lambda s, e: e.reward - _of_others(e.reward, np.ones_like(e.reward)),
    "group_std": lambda s, e: _standard(e.reward),
    "group_std_unbiased": lambda s, e: _standard(e.reward, (1.0 - 1.0 / s.samples) ** -0.5),
    "maxrl": lambda s, e: (e.reward - _mean(e.reward)) / (_mean(e.reward) + _EPS),
    "opo": lambda s, e: e.reward - _located(e.reward, e.length),
    "opo_others": lambda s, e: e.reward - _of_others(e.reward, e.length),
    "opob": lambda s, e: e.reward - _located(e.reward, e.norm),
    "opob_others": lambda s, e: e.reward - _of_others(e.reward, e.norm),
    "opob_median": lambda s, e: e.reward - _quantile(e.reward, e.norm / e.norm.sum(1, keepdims=True), 0.5),
    "opob_winsorized": lambda s, e: e.reward - _robust(e),
    "opob_standardized": lambda s, e: (
        (e.reward - _located(e.reward, e.norm)) / np.where(_deviation(e.reward) > 1e-8, _deviation(e.reward), 1.0)
    ),
    "otb": lambda s, e: _by_token(e, e.heavy.cumsum(2), False),
    "otb_own": lambda s, e: _by_token(e, e.heavy.cumsum(2), True),
    "otb_outside": lambda s, e: _by_token(e, e.token_ratio**2 * e.energy.cumsum(2), False),
    "self_normalized": lambda s, e: e.reward - _located(e.reward, e.ratio),
    "self_normalized_others": lambda s, e: e.reward - _of_others(e.reward, e.ratio),
    "soft_value": lambda s, e: e.reward - s.scale * np.log(_mean(np.exp(e.reward / s.scale))),
    "pass_at_2": lambda s, e: _best(s, e, 2),
    "pass_at_n": lambda s, e: _best(s, e, s.samples) / (_deviation(e.reward) * (1.0 - 1.0 / s.samples) ** -0.5 + _EPS),
    "returns_to_go": lambda s, e: _to_go(s, e, s.scale),
    "returns_to_go_batch": lambda s, e: _over_tokens(e, _to_go(s, e, s.scale), scaled=False),
    "reinforce_plus_plus": lambda s, e: _over_tokens(e, _to_go(s, e, s.scale)),
    "reinforce_plus_plus_unbiased": lambda s, e: _over_tokens(e, _to_go(s, e, 1.0), True),
    "reinforce_plus_plus_group": lambda s, e: _over_tokens(
        e, (_to_go(s, e, 1.0) - _mean(e.reward)[..., None]) * e.mask
    ),
    "gdpo": lambda s, e: _gdpo(s, e, s.scale),
    "gdpo_reward": lambda s, e: _gdpo(s, e, 0.0),
    "remax": lambda s, e: e.reward - e.greedy,
}  # fmt: skip
"""Advantages of all samples of all groups, `[K, N]` or `[K, N, T]`."""


class _Setting(Ragged):
    advantage = Choice(*_RULES, example="group_std", doc="what rewards are compared with, and divided by")
    samples = Integer(2, 4, typical=(2, 3), example=3, unit="samples", doc="samples of a group")
    scale = Real(0.0, 1.0, open_low=True, typical=(0.1, 0.9), example=0.4, doc="offset, temperature or discount")
    limit = Integer(1, typical=(1, 2), example=1, unit="tokens", doc="most tokens of a short response")

    def joint(self) -> None:
        """Few enough groups."""
        super().joint()
        groups = len(self.tokens) ** self.samples
        checks.require(groups <= 2**16, "samples", self.samples, "at most 65536 ordered groups", "use fewer")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Responses of at most two tokens, so that groups are few."""
        point = super().drawn(draw)
        return {name: at[:2] if isinstance(at, tuple) else at for name, at in point.items()}


def _columns(s: _Setting) -> _Groups:
    """What rules read of every response: columns `[Y]` and `[Y, T]`."""
    e, pi, scores = s.listed(), softmax(s.current_logits), _scores(s)
    ratio = np.exp(e.log_ratio.sum(1))
    energy = (scores**2).sum(2)
    heavy = energy * np.exp(2.0 * e.log_ratio)
    norm = ratio**2 * (scores**2).sum((1, 2))
    best = pi.argmax(1)
    last = s.actions - 1
    said = best[: int(np.argmax(best == last)) if last in best else s.horizon]
    greedy = float((said == 0).sum()) / s.horizon
    return _Groups(
        e.reward[:, 0], e.length[:, 0], ratio, norm, e.mask, energy, heavy, np.exp(e.log_ratio), greedy
    )  # fmt: skip


def _scores(s: _Setting) -> np.ndarray:
    """Scores of the tokens of every response in the row of their place, `[Y, T, A]`."""
    return (np.eye(s.actions)[s.tokens] - softmax(s.current_logits)) * s.mask[..., None]


def _of(s: _Setting, mean: np.ndarray, square: float) -> dict[str, float]:
    """What is read of the mean update `[T, A]`, and the noise around it from the mean of its squared length."""
    gradient = s.expected(s.listed().reward)
    return s.read(mean) | {"noise": float((square - (mean**2).sum()) / (gradient**2).sum())}


def _predict(s: _Setting, rule: str = "", samples: int = 0) -> dict[str, float]:
    name, e, columns = rule or s.advantage, s.listed(), _columns(s)
    groups = np.array(list(itertools.product(range(len(e.mass)), repeat=samples or s.samples)))
    laid = _Groups(**{key: x[groups] for key, x in columns._asdict().items() if key != "greedy"}, greedy=columns.greedy)
    gain = _RULES[name](s.but(samples=groups.shape[1]), laid)
    gain = gain if gain.ndim == 3 else gain[..., None]
    ratio = laid.token_ratio if name.startswith("otb") else laid.ratio[..., None]
    update = np.einsum("knt,knta->kta", ratio * gain * laid.mask / groups.shape[1], _scores(s)[groups])
    chance = e.mass[groups, 0].prod(1)
    return _of(s, np.tensordot(chance, update, 1), float(chance @ (update**2).sum((1, 2))))


def _row(e: _Groups, y: int) -> alone.Sample:
    """One response in plain numbers."""
    plain = [float(x[y]) for x in (e.reward, e.length, e.ratio, e.norm)]
    lists = [x[y, : int(e.length[y])].tolist() for x in (e.energy, e.heavy, e.token_ratio)]
    return alone.Sample(plain[0], plain[1], plain[2], plain[3], *lists)


def _cross_check(s: _Setting) -> dict[str, float]:
    e, columns, scores = s.listed(), _columns(s), _scores(s)
    rows = [_row(columns, y) for y in range(len(e.mass))]
    mean, square = np.zeros_like(scores[0]), 0.0
    for group in itertools.combinations_with_replacement(range(len(rows)), s.samples):
        orders = math.factorial(s.samples) / math.prod(math.factorial(group.count(y)) for y in set(group))
        chance, update = orders * float(e.mass[list(group), 0].prod()), np.zeros_like(mean)
        for place, y in enumerate(group):
            own, others = rows[y], [rows[k] for k in group[:place] + group[place + 1 :]]
            ratios = own.token_ratio if s.advantage.startswith("otb") else [own.ratio] * len(own.energy)
            for t, gain in enumerate(alone.advantage(s, own, others, columns.greedy)):
                update += ratios[t] * gain * _placed(scores[y], t) / s.samples
        mean, square = mean + chance * update, square + chance * float((update**2).sum())
    return _of(s, mean, square)


def _placed(scores: np.ndarray, t: int) -> np.ndarray:
    placed = np.zeros_like(scores)
    placed[t] = scores[t]
    return placed


claim = stated(
    id="estimator/advantages",
    statement="the mean update of a group is `E[w A grad log pi]`: a baseline without the sample keeps the gradient",
    kind="expectation",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="papers of the rules; derived",
    formula_defects={
        "other divisor of the variance": lambda s: _predict(
            s, "group_std" if s.advantage == "group_std_unbiased" else "group_std_unbiased"
        ),
        "no scale": lambda s: _predict(s, "leave_one_out" if s.advantage == "mean" else "mean"),
        "a sample more": lambda s: _predict(s, samples=s.samples + 1),
    },
)
