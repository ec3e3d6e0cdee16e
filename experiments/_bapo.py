"""What the experiment on BAPO is made of: places and arms, and what a step does to entropy, token by token."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.diagnostics import _levels
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.running.spec import Spec
from asyncsim.step.step import Step
from experiments import m2po

GROUPS, SAMPLES, CLIP, OLDEST = m2po.GROUPS, m2po.SAMPLES, m2po.CLIP, 32
TASKS: dict[str, Any] = {
    "bandit": m2po.TASKS["bandit"],
    "graded": sim.tasks.token_bandit(8, 16, "position"),
    "bits": sim.tasks.token_bandit(2, 16, "position", success=0.75, rewards="gaussian", deviation=0.2),
}
BITS = sim.tasks.bit_chain(16, 0.75)
"""The same table and mean rewards, whose return is known without counting."""
BEST = {"bandit": float(m2po.MEANS.max(1).mean()), "graded": 1.0, "bits": 1.0}
"""The largest return."""
GAIN = m2po.GAIN
START: Any = {"low": 0.6, "high": 1.2}
METHODS: dict[str, Any] = {
    "bapo": sim.methods.bapo_paper(**START, advantage=GAIN),
    "released": sim.methods.bapo_code(advantage=GAIN),
    "intent": sim.methods.bapo_paper(0.5, **START, count="gradient", advantage=GAIN),
    "start": sim.methods.ppo_clip(1.0 - START["low"], START["high"] - 1.0, advantage=GAIN),
    "clip": m2po.METHODS["clip"],
    "higher": sim.methods.ppo_clip(CLIP, 0.28, advantage=GAIN),
    "none": m2po.METHODS["none"],
    "rloo": sim.methods.reinforce(sim.advantages.leave_one_out()),
}
RULES = ("clip", "higher", "start", "bapo", "released", "intent")
SIDES = {"positive": 1.0, "negative": -1.0}
KINDS, WAYS, BOUNDS = ("plain", "natural"), ("up", "down"), ("low", "high")


def law(name: str) -> Any:
    """What says how old every token is."""
    if name == "replay":
        return sim.systems.torchforge(GROUPS, OLDEST, OLDEST * GROUPS, 7, GROUPS, length=1.0, load=0.125)
    if name == "partial":
        places = (OLDEST + 1) * GROUPS
        return sim.systems.areal(OLDEST, GROUPS, places, length="lognormal:1.0:1.0", load=1.0)
    return sim.schedules.fixed(int(name.split()[1]), groups_per_batch=GROUPS)


def spec(setting: dict[str, Any], arm: str, rate: Any, **more: Any) -> Spec:
    """An arm at a place."""
    sizes = {name: setting[name] for name in ("updates", "every")}
    return sim.Spec(
        TASKS[setting["task"]],
        law(setting["law"]),
        METHODS[arm],
        sim.chain(sim.updates.adam(rate)),
        samples_per_group=SAMPLES,
        minibatches=1,
        compiled=False,
        **sizes,
        **more,
    )


def covariance(prob: Tensor, log_prob: Tensor, values: Tensor) -> Tensor:
    """Cov(log pi, values) under pi, over the last axis."""
    centered = values - (prob * values).sum(-1, keepdim=True)
    return (prob * log_prob * centered).sum(-1)


def natural(log_prob: Tensor, gain: Tensor) -> Tensor:
    """Slope of entropy where logits move by the gain x(a) itself: -Cov(log pi, x)."""
    return -covariance(log_prob.exp(), log_prob, gain)


def plain(log_prob: Tensor, gain: Tensor) -> Tensor:
    """Slope of entropy where logits move by the gradient pi (x - E x) of E x: -Cov(log pi, pi (x - E x))."""
    prob = log_prob.exp()
    return natural(log_prob, prob * (gain - (prob * gain).sum(-1, keepdim=True)))


def surprise(step: Step) -> tuple[Tensor, Tensor]:
    """For each token, what a unit of its score adds to the entropy of its row: by plain and by natural gradient.

    A step on the logits along e_a - pi adds -pi_a (log pi_a + H) + E[pi (log pi + H)]; one along e_a / pi_a, -(log pi_a
    + H), as the average of the rest is 0. Both `[R, G, N, T]`.
    """
    rows = table(step)
    prob = rows.exp()
    above = rows - (prob * rows).sum(-1, keepdim=True)
    pull = (prob * prob * above).sum(-1, keepdim=True) - prob * above
    place = step.batch.state.expand(step.mask.shape) * rows.shape[-1] + step.batch.action
    first, second = (torch.gather(x.flatten(1), 1, place.flatten(1)).reshape(place.shape) for x in (pull, -above))
    return first, second


def weights(step: Step, method: Any) -> Tensor:
    """Score weights of the step's tokens under another method's rule; the step keeps its own statistics."""
    kept = dict(step.statistics)
    found: Tensor = method.weight.score_weight(step, _levels.advantages(step)).expand(step.mask.shape)
    step.statistics.clear()
    step.statistics.update(kept)
    return found


def blocked(step: Step) -> dict[str, Tensor]:
    """Sums over a step `[R]`: pushes up and down, and what each rule blocks of them, by bound."""
    advantage = _levels.advantages(step).expand(step.mask.shape)
    share = _levels.token_share(step) * (advantage != 0)
    base = share * step.log_ratio.exp() * advantage
    closed = {rule: weights(step, METHODS[rule]) == 0 for rule in RULES}
    sums = {"tokens": share, **{f"tokens {rule}": share * closed[rule] for rule in RULES}}
    for kind, slope in zip(KINDS, surprise(step), strict=True):
        push = base * slope
        for way, own in (("up", push.clamp(min=0.0)), ("down", (-push).clamp(min=0.0))):
            sums[f"{kind} {way}"] = own
            for rule in RULES:
                sums[f"{kind} {way} {rule} low"] = own * (closed[rule] & (advantage < 0))
                sums[f"{kind} {way} {rule} high"] = own * (closed[rule] & (advantage > 0))
    return {name: values.sum((1, 2, 3)) for name, values in sums.items()}


class Pass:
    """One pass over a step for all its metrics: the sums of the last step are kept."""

    def __init__(self) -> None:
        self.step: Step | None = None
        self.sums: dict[str, Tensor] = {}

    def metric(self, name: str) -> Metric:
        """One of the sums as a metric."""

        def measure(step: Step) -> Tensor:
            if self.step is not step:
                self.step, self.sums = step, blocked(step)
            return self.sums[name]

        return Metric(name, measure)


def names() -> list[str]:
    """Names of the sums of `blocked`."""
    pushes = [f"{kind} {way}" for kind in KINDS for way in WAYS]
    own = [f"{push} {rule} {bound}" for push in pushes for rule in RULES for bound in BOUNDS]
    return ["tokens", *(f"tokens {rule}" for rule in RULES), *pushes, *own]


def table(step: Step) -> Tensor:
    """Log-probs of the current policy, `[R, S, A]`."""
    policy: Any = step.policy
    return torch.log_softmax(step.parameters.reshape(-1, policy.rows, policy.actions), -1)


def entropy(step: Step) -> Tensor:
    """Exact entropy of the current policy's tokens, nats, `[R]`: every task reads its rows equally often."""
    rows = table(step)
    return -(rows.exp() * rows).sum(-1).mean(-1)


def expected(step: Step) -> Tensor:
    """Exact expected return of the current policy, `[R]`: in closed form, of one token by counting, else graded."""
    rows = table(step)
    if step.task.horizon > 1 and rows.shape[-1] > 2:
        return rows[..., 0].exp().mean(-1)
    known: Any = BITS if step.task.horizon > 1 else step.task
    exact: Tensor = known.exact(step.policy, step.parameters)[0]
    return exact


RETURN = Metric("policy_return", expected, range=(0.0, 1.0))


def signal(step: Step, sign: float, normed: bool) -> Tensor:
    """Sum of the step's absolute score weights whose advantage has this sign, times score norms if asked, `[R]`."""
    advantage = _levels.advantages(step).expand(step.mask.shape)
    size = _levels.token_share(step) * weights(step, step.method).abs() * (step.row_norms.sqrt() if normed else 1.0)
    return (size * (sign * advantage > 0)).sum((1, 2, 3))


def metrics() -> list[Any]:
    """What the grid records."""
    one = Pass()
    return [
        RETURN,
        Metric("policy_entropy", entropy),
        *(
            Metric(f"signal {side}{norm}", lambda step, sign=sign, norm=norm: signal(step, sign, bool(norm)))
            for side, sign in SIDES.items()
            for norm in ("", " norm")
        ),
        *(one.metric(name) for name in names()),
    ]


def clipped(log_ratio: Tensor, gain: Tensor) -> Tensor:
    """The advantage where PPO's clip is open, else 0."""
    ratio = log_ratio.exp()
    closed = ((gain > 0) & (ratio > 1.0 + CLIP)) | ((gain < 0) & (ratio < 1.0 - CLIP))
    return torch.where(closed, 0.0, gain)


def moved(logits: Tensor, gain: Tensor, step: float = 1e-5) -> Tensor:
    """Slope of entropy along the gradient of sum pi x by the logits, by automatic differentiation and a difference."""
    leaf = logits.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad((torch.softmax(leaf, -1) * gain).sum(), leaf)
    ends = [torch.log_softmax(logits + sign * step * slope, -1) for sign in (1, -1)]
    above, below = (-(rows.exp() * rows).sum(-1) for rows in ends)
    return (above - below) / (2.0 * step)
