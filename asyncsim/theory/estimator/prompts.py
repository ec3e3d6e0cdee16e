r"""Several prompts: groups ask them in turn, each with its own table row and baseline, and an update is their mean.

Group g of batch b has number b G + g and asks prompt (b G + g) mod X. A group's mean gradient touches the logits of
its prompt alone: mu A - pi (mu . A), mu = softmax of the logits that generated the batch, pi of the current ones. A
is m - mu . m with the mean of the group as baseline, that over its standard deviation, or m less the mean of all
groups of the step; or less the decayed mean of the batches before (running_mean; none: 0), whitened by the moments of
the last batches together (window_std), or less the reward of the arm that is likeliest now (remax). The update is the
mean over the G groups, in however many passes (micro-batches) it is summed. On stale data baselines across prompts
differ from those within, which fresh population gradients would not show. The return of the task is the mean over all
X prompts, that of a batch over the ones asked. Derivation: sum_a mu_a A_a grad log pi_a. Domain: the mean dynamics, m
versions old, a batch a publish. Second route: complex steps through the surrogate of the whole step. Source: derived;
group baselines as in 2402.03300.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import complex_gradient, softmax
from asyncsim.theory._declared import Choice, Count, Declared, Draw, Positive, Real, Staleness, Table, Vector
from asyncsim.theory._stated import indexed, stated

_BASELINES = ("group_mean", "group_std", "mean", "running_mean", "window_std", "remax")
_EPS = 1e-6


_ROWS = ("a table of numbers, a row for each prompt", "give a row for each prompt, a number for each arm")


class _Setting(Declared):
    rewards = Table(*_ROWS, example=((2.0, 1.0), (0.3, 0.6), (0.0, 0.4)), doc="rewards of the arms")
    initial_logits = Table(*_ROWS, example=((0.4, -0.2), (-0.5, 1.3), (0.1, 0.2)), doc="logits at the start")
    groups = Count(1, 64, typical=(1, 4), example=2, unit="groups", doc="groups of a batch")
    micro_batches = Count(1, 64, typical=(1, 1), example=2, doc="passes in which a gradient is computed")
    baseline = Choice(*_BASELINES, example="group_mean", doc="what rewards are compared with")
    decay = Real(0.0, 1.0, typical=(0.2, 1.0), example=0.6, doc="weight of a batch against the next in a running mean")
    window = Count(1, 16, typical=(1, 3), example=2, unit="batches", doc="batches of a window, the newest included")
    staleness = Staleness(0, 16, typical=(0, 3), example=2)
    step = Positive(typical=(0.1, 1.0), example=3.0, unit="parameter per direction", doc="learning rate")
    updates = Count(1, 64, typical=(4, 8), example=7, unit="updates", doc="length of the run")

    def joint(self) -> None:
        """Tables of one shape; arms that differ for every prompt; a run as long as its staleness."""
        prompts, arms = self.rewards.shape
        checks.require(arms >= 2, "rewards", self.rewards.tolist(), "two arms or more", "add an arm")
        remedy = "give a row for each prompt, a number for each arm"
        checks.finite_array("initial_logits", self.initial_logits.tolist(), [prompts, arms], remedy)
        differ = bool((np.ptp(self.rewards, axis=1) > 1e-3).all())
        checks.require(differ, "rewards", self.rewards.tolist(), "arms that differ for every prompt", "change one")
        few = self.micro_batches <= self.groups
        checks.require(few, "micro_batches", self.micro_batches, "at most the groups", "use fewer")
        checks.require(self.staleness < self.updates, "updates", self.updates, "more than the staleness", "train on")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """Tables of one shape."""
        prompts, arms = draw(Count(1, doc="prompts", typical=(1, 4))), draw(Count(2, doc="arms", typical=(2, 3)))
        point = {name: draw(p) for name, p in cls.parameters.items() if name not in ("rewards", "initial_logits")}
        for name, low, high in (("rewards", 0.0, 1.0), ("initial_logits", -1.0, 1.0)):
            row = Vector(length=arms, typical=(low, high))
            point[name] = tuple(draw(row) for _ in range(prompts))
        return point


_Batches = list[tuple[np.ndarray, np.ndarray]]
"""Of every batch so far the prompts asked, and the logits that generated it."""


def _asked(s: _Setting, update: int) -> np.ndarray:
    return (update * s.groups + np.arange(s.groups)) % len(s.rewards)


def _advantages(s: _Setting, batches: _Batches, current: np.ndarray) -> np.ndarray:
    """Of every arm in every group of the last batch, `[G, A]`; batches are groups asked, and behavior logits."""
    rewards, mu = _drawn(s, batches[-1])
    means = (mu * rewards).sum(1, keepdims=True)
    if s.baseline == "remax":
        greedy = np.argmax(current[batches[-1][0]], axis=1)
        return np.asarray(rewards - np.take_along_axis(rewards, greedy[:, None], 1))
    if s.baseline in ("group_mean", "group_std"):
        deviation = np.sqrt((mu * (rewards - means) ** 2).sum(1, keepdims=True))
        return np.asarray((rewards - means) / (deviation if s.baseline == "group_std" else 1.0))
    # The other baselines are those of whole batches.
    levels = [float((p * r).sum() / s.groups) for r, p in (_drawn(s, batch) for batch in batches)]
    if s.baseline == "window_std":
        kept = [_drawn(s, batch) for batch in batches[-s.window :]]
        level = float(np.mean(levels[-s.window :]))
        square = np.mean([(p * (r - level) ** 2).sum() / s.groups for r, p in kept])
        return np.asarray((rewards - level) / (np.sqrt(square) + _EPS))
    weights = s.decay ** np.arange(len(batches) - 2, -1, -1.0)
    before = float(weights @ levels[:-1] / weights.sum()) if len(batches) > 1 else 0.0
    return np.asarray(rewards - (levels[-1] if s.baseline == "mean" else before))


def _drawn(s: _Setting, batch: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and probabilities of the arms in every group, `[G, A]`."""
    asked, behavior = batch
    return s.rewards[asked], softmax(behavior)[asked]


def _surrogate(s: _Setting, batches: _Batches, current: np.ndarray) -> np.ndarray:
    """Gradient of the whole step by complex steps, `[X, A]`."""
    asked = batches[-1][0]
    weights = _drawn(s, batches[-1])[1] * _advantages(s, batches, current)

    def value(flat: np.ndarray) -> Any:
        return (weights * np.log(softmax(flat.reshape(current.shape))[asked])).sum() / s.groups

    return complex_gradient(value, current.ravel()).reshape(current.shape)


def _fields(s: _Setting, batches: _Batches, current: np.ndarray) -> np.ndarray:
    """Gradient of the step, group by group, `[X, A]`."""
    total = np.zeros_like(current)
    asked, behavior = batches[-1]
    for x, advantage in zip(asked, _advantages(s, batches, current), strict=True):
        mu, pi = softmax(behavior[x]), softmax(current[x])
        total[x] += (mu * advantage - pi * (mu @ advantage)) / s.groups
    return total


def _run(s: _Setting, gradient: Callable[..., np.ndarray], ask: Callable[..., np.ndarray] = _asked) -> dict[str, float]:
    path, returns = [s.initial_logits], []
    batches: _Batches = []
    for update in range(s.updates):
        batches.append((ask(s, update), path[max(update - s.staleness, 0)]))
        rewards, mu = _drawn(s, batches[-1])
        returns.append((mu * rewards).sum() / s.groups)
        path.append(path[-1] + s.step * gradient(s, batches, path[-1]))
    whole = float((softmax(path[-2]) * s.rewards).sum(1).mean())
    return {"return": whole} | indexed("batch_return", returns) | indexed("logit", path[-1])


def _predict(s: _Setting) -> dict[str, float]:
    return _run(s, _fields)


claim = stated(
    id="estimator/prompts",
    statement="group `g` asks prompt `g mod X`; an update is the mean over groups of `mu A - pi (mu . A)` on the row "
    "of each one's prompt, with a baseline of its own rewards",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=lambda s: _run(s, _surrogate),
    reference="derived; group baselines as in 2402.03300",
    formula_defects={
        "baseline across prompts": lambda s: _predict(s.but(baseline="mean")),
        "divided by the deviation": lambda s: _predict(s.but(baseline="group_std")),
        "sum over groups": lambda s: _predict(s.but(step=s.step * s.groups)),
        "prompts asked anew by every batch": lambda s: _run(s, _fields, lambda s, update: _asked(s, 0)),
        "all fresh": lambda s: _predict(s.but(staleness=0)),
    },
    relative_to="norm",
)
