r"""Baselines that see more than a group: the whole step, or batches before it, where groups differ.

A step has two groups of equal size, one of behavior and one of the policy at which training began; before it there was
a batch of each alone, in this order. Without a ratio E g = (1/2) sum_g E_g[A score], and the level of A matters, since
stale scores have no mean of 0. `group`: A = r - m_g; `step`: r - (m_1 + m_2)/2; `running_mean`: r - (decay m_1 + m_2) /
(decay + 1); `window_std`: (r - m)/s with m and s of all rewards of the last `window` batches together;
`reinforce_plus_plus`: (r - mean over tokens)/(deviation over tokens), also of r - m_g; `opob`: r less the mean reward
weighted by squared lengths of scores, one for both groups; `gdpo`: rewards standardized in their group and once more in
the step. Domain: a table of logits for each place. First route: by groups; second: rewards pooled with their chances.
Source: Williams 1992; 2501.03262; 2602.17616; 2601.05242.
"""

from __future__ import annotations

import numpy as np

from asyncsim.theory._bandit import logit_table, softmax
from asyncsim.theory._declared import Choice, Integer, Real
from asyncsim.theory._ragged import LaterRagged
from asyncsim.theory._stated import stated

_EPS = 1e-6
_Groups = list[np.ndarray]


class _Setting(LaterRagged):
    proximal_logits = logit_table("proximal", (1.8, -0.4, -0.6), (1.5, 0.2, -0.7), (1.2, 0.0, -0.5))
    rule = Choice(
        "group", "step", "running_mean", "window_std", "reinforce_plus_plus", "reinforce_plus_plus_group",
        "opob", "gdpo", example="running_mean", doc="what rewards are compared with",
    )  # fmt: skip
    decay = Real(0.0, 1.0, typical=(0.1, 0.9), example=0.4, doc="weight of a batch beside the one behind it")
    window = Integer(1, 3, typical=(1, 3), example=2, unit="batches", doc="batches that are whitened together")


def _chances(s: _Setting) -> _Groups:
    """Chances of all responses in both groups, `[Y]`."""
    e = s.listed()
    return [np.exp(x.sum(1)) for x in (e.behavior, e.proximal)]


def _by_groups(s: _Setting) -> _Groups:
    """Advantages in both groups, `[Y]`, from means and variances of each."""
    e, masses = s.listed(), _chances(s)
    reward, length = e.reward[:, 0], e.length[:, 0]
    means = [float(m @ reward) for m in masses]
    spreads = [float(m @ (reward - x) ** 2) for m, x in zip(masses, means, strict=True)]
    both = sum(means) / 2.0
    between = sum(v + (x - both) ** 2 for v, x in zip(spreads, means, strict=True)) / 2.0
    if s.rule == "group":
        return [reward - x for x in means]
    if s.rule == "step":
        return [reward - both] * 2
    if s.rule == "running_mean":
        return [reward - (s.decay * means[0] + means[1]) / (s.decay + 1.0)] * 2
    if s.rule == "window_std":
        levels, variances = [*means, both][-s.window :], [*spreads, between][-s.window :]
        level = sum(levels) / s.window
        variance = sum(v + (x - level) ** 2 for v, x in zip(variances, levels, strict=True)) / s.window
        return [(reward - level) / (variance**0.5 + _EPS)] * 2
    if s.rule == "opob":
        return [reward - _located(masses, reward, _energy(s))] * 2
    if s.rule == "gdpo":
        own = [(reward - x) / (v**0.5 + _EPS) for x, v in zip(means, spreads, strict=True)]
        square = sum(float(m @ a**2) for m, a in zip(masses, own, strict=True)) / 2.0
        return [a / (square**0.5 + _EPS) for a in own]
    own = [reward - (x if s.rule.endswith("group") else 0.0) for x in means]
    tokens = sum(float(m @ length) for m in masses)
    level = sum(float(m @ (length * a)) for m, a in zip(masses, own, strict=True)) / tokens
    spread = sum(float(m @ (length * (a - level) ** 2)) for m, a in zip(masses, own, strict=True)) / tokens
    return [(a - level) / spread**0.5 for a in own]


def _energy(s: _Setting) -> np.ndarray:
    """Squared length of the score of each response, `[Y]`."""
    scores = (np.eye(s.actions)[s.tokens] - softmax(s.current_logits)) * s.mask[..., None]
    energy: np.ndarray = (scores**2).sum((1, 2))
    return energy


def _located(masses: _Groups, reward: np.ndarray, weight: np.ndarray) -> float:
    return float(sum(m @ (weight * reward) for m in masses) / sum(m @ weight for m in masses))


def _pooled(s: _Setting) -> _Groups:
    """The same from rewards of both groups, pooled with their chances."""
    e, masses = s.listed(), _chances(s)
    reward, length = e.reward[:, 0], e.length[:, 0]
    every, chance = np.concatenate([reward, reward]), np.concatenate(masses) / 2.0
    if s.rule == "group":
        return [reward - np.average(reward, weights=m) for m in masses]
    if s.rule == "running_mean":
        return [reward - np.average(every, weights=np.concatenate([s.decay * masses[0], masses[1]]))] * 2
    if s.rule == "window_std":
        shares = ([0.0, 0.0], [0.0, 1.0], [1.0, 1.0])[s.window - 1]
        chance = np.concatenate([(x + 0.5) * m for x, m in zip(shares, masses, strict=True)])
    if s.rule == "opob":
        chance = chance * np.tile(_energy(s), 2)
    if s.rule == "gdpo":
        own = np.concatenate([_standard(reward, m) for m in masses])
        return np.split(own / (float(np.average(own**2, weights=chance)) ** 0.5 + _EPS), 2)
    if s.rule.startswith("reinforce"):
        chance = chance * np.tile(length, 2)
        every = every - (np.repeat([m @ reward for m in masses], len(reward)) if s.rule.endswith("group") else 0.0)
        return np.split(_standard(every, chance, 0.0), 2)
    level = np.average(every, weights=chance)
    return np.split(_standard(every, chance) if s.rule == "window_std" else every - level, 2)


def _standard(values: np.ndarray, weights: np.ndarray, eps: float = _EPS) -> np.ndarray:
    mean = float(np.average(values, weights=weights))
    deviation = float(np.average(values**2, weights=weights) - mean**2) ** 0.5
    standard: np.ndarray = (values - mean) / (deviation + eps)
    return standard


def _update(s: _Setting, gains: _Groups) -> dict[str, float]:
    weight = 0.5 * np.add(*(m * gain for m, gain in zip(_chances(s), gains, strict=True)))
    return s.read(s.pulled(weight[:, None] * s.mask))


def _other(s: _Setting, rule: str) -> dict[str, float]:
    return _update(s, _by_groups(s.but(rule=rule)))


claim = stated(
    id="estimator/wide-baselines",
    statement="a baseline of the step or of earlier batches is `sum_k w_k m_k`, a scale that of all rewards together",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=lambda s: _update(s, _by_groups(s)),
    cross_check=lambda s: _update(s, _pooled(s)),
    reference="Williams 1992; arXiv 2501.03262, 2602.17616, 2601.05242",
    formula_defects={
        "mean of each group": lambda s: _other(s, "step" if s.rule == "group" else "group"),
        "last batch alone": lambda s: _other(s.but(window=1, decay=0.0), "step" if s.rule == "gdpo" else s.rule),
        "whitened, or not": lambda s: _other(s, "step" if s.rule == "window_std" else "window_std"),
    },
)
