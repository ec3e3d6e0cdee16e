"""Baselines: the value to subtract from a reward, and the scale to divide by."""

from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages._advantage import GroupBaseline, advantage
from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import flag, number, real, whole
from asyncsim.step.step import Step

EPS = real(1e-6, "in units of reward, added to what divides", 0.0, remedy="use a small non-negative number")
_ROUNDING = 1e-12


@advantage("textbook", group=False)
def none(step: Step) -> Tensor:
    """No baseline: A = r.

    No baseline: A_i = r_i. Scope: sample. Unbiased, with the variance that the level of the reward brings.
    """
    return step.reward


@advantage("2506.20520", group=False)
def offset(step: Step, v: Any = number(..., "baseline in units of reward, absolute")) -> Tensor:
    """A fixed baseline v: A = r - v.

    A fixed baseline: A_i = r_i - v. Scope: sample. With data from a fixed behavior policy of mean reward above v,
    REINFORCE converges to a projection on the simplex instead of the best arm (`optimum/asymre-projection`).
    """
    return step.reward - per_sample(v, 3)


@advantage("textbook", group=False)
def mean(step: Step) -> Tensor:
    """Batch mean: A = r - mean reward of the full step.

    Mean reward of the whole step as baseline: A_gi = r_gi - (1/G) sum_g sum_i mass_gi r_gi. Scope: step. On-policy with
    n samples in all, its mean gradient is (1 - 1/n) times the exact one.
    """
    return step.reward - step.step_mean()


@advantage("2503.20783 (without the standard deviation); `shift` as in 2506.20520")
def group_mean(step: Step, shift: Any = number(0.0, "shift of the baseline in units of reward")) -> Tensor:
    """Group mean: A = r - (mean reward of the group + shift).

    Mean reward of the group as baseline: A_i = r_i - (mean_j r_j + shift). Scope: group. Its mean gradient is (1 - 1/N)
    times the exact one, on-policy and with the full ratio (shift 0).
    """
    return step.reward - (step.group_mean() + per_sample(shift, 3))


@advantage("2402.14740")
def leave_one_out(step: Step) -> Tensor:
    """Leave-one-out: A = r - mean reward of the other samples in the group.

    Mean of the other N - 1 samples of the group as baseline: A_i = N/(N-1) (r_i - mean_j r_j). Scope: group. Unbiased
    on-policy and with the full sequence ratio. A population (enumeration) has N = infinity.
    """
    return (step.reward - step.group_mean()) / step.unbiased


@advantage("2310.10505", group=False, raises="a run of a task without a greedy response, and `Method.weigh`")
def remax(step: Step) -> Tensor:
    """ReMax, with the greedy response's reward as baseline: A = r - r(greedy).

    Reward of the greedy response as baseline: A_i = r_i - R(y*), y*_t the likeliest token. Scope: sample. The baseline
    knows nothing of the sample: unbiased on-policy and with the full ratio, for groups of one too. Here R is the exact
    expected reward of y*, where trainers draw one, and y* is that of the current policy, where an asynchronous trainer
    has that of a sampler of some version. A penalty of the task is in r and not in R. Of equally likely tokens y* takes
    the first. Tables that pay at the end have it; other tasks would have to answer a second time and refuse.
    """
    return step.reward - step.greedy_reward


@advantage("2602.02710; SkyRL, `compute_maxrl_advantage`, for eps", unit="a pure number")
def maxrl(step: Step, eps: float = EPS) -> Tensor:
    """MaxRL: A = (r - group mean) / group mean; rare successes count as in a log-likelihood.

    Mean reward of the group as baseline and as scale: A_i = (r_i - m) / (m + eps), m = mean_j r_j; 0 where m <= 0. For
    rewards 0 and 1, on-policy and with eps = 0, its mean gradient is that of sum_(k=1)^(N-1) (1/k) pass@k, the first
    terms of log p in powers of 1 - p: more samples come closer to maximum likelihood. A group without success has no
    gradient. The zero of rewards matters: they should be successes, or at least not negative. Scope: group.
    """
    # Relative to a reward that occurs, equal rewards are exactly 0.
    mass = step.batch.mass.expand(step.reward.shape)
    origin = step.reward.gather(-1, mass.argmax(-1, keepdim=True))
    relative = step.reward - origin
    shift = (mass * relative).sum(-1, keepdim=True)
    mean = origin + shift
    sound = mean > 0
    return torch.where(sound, (relative - shift) / torch.where(sound, mean + eps, torch.ones_like(mean)), 0.0)


@advantage("2402.03300", unit="a pure number")
def group_std(step: Step, eps: float = EPS, unbiased: bool = flag("variances are divided by N - 1")) -> Tensor:
    """Group mean and standard deviation: A = (r - mean) / (std + eps).

    Standardized rewards of the group: A_i = (r_i - mean) / (std + eps), std^2 = sum_j (r_j - mean)^2 / N. Equal rewards
    give 0. Not proportional to the exact gradient across prompts: each has a factor of its own
    (`estimator/group-normalization`). With `unbiased` the sum is divided by N - 1, as released trainers do: advantages
    are sqrt(1 - 1/N) times as large (N = 2, rewards 0 and 1: +-0.71 instead of +-1). Scope: group.
    """
    centered, variance = _centered(step, step.reward)
    return centered / ((variance / step.unbiased if unbiased else variance).sqrt() + eps)


def _centered(step: Step, reward: Tensor) -> tuple[Tensor, Tensor]:
    """Rewards minus the group mean, and their variance in the group.

    Relative to a reward that occurs, equal rewards are exactly 0; relative to a rounded mean they would be 1e-16, which
    a division by eps turns into an advantage.
    """
    mass = step.batch.mass.expand(reward.shape)
    relative = reward - reward.gather(-1, mass.argmax(-1, keepdim=True))
    centered = relative - (mass * relative).sum(-1, keepdim=True)
    return centered, (mass * centered**2).sum(-1, keepdim=True)


@advantage("2405.19107, the soft value")
def soft_value(
    step: Step, temperature: Any = number(1.0, "temperature beta in units of reward", 0.0, above=True)
) -> Tensor:
    """Soft value: A = r - beta log mean exp(r / beta).

    Soft value of the group as baseline: A_i = r_i - V, V = beta log sum_j mass_j exp(r_j / beta). Scope: group. V is
    the value of the best policy at a price of beta per nat of KL to the one that drew the samples, max_p E_p r - beta
    KL(p||mu). It lies between the mean (beta to infinity) and the largest reward (beta to 0). From N samples it is
    biased downward, by Jensen's inequality.
    """
    temperature = per_sample(temperature, 3)
    mass, reward = step.batch.mass.expand(step.reward.shape), step.reward
    below = torch.full((), -torch.inf, dtype=reward.dtype, device=reward.device)
    best = torch.where(mass > 0, reward, below).amax(-1, keepdim=True)
    # A group that was dropped has no mass, so no value: its samples do not count.
    best = torch.where(best.isinf(), torch.zeros_like(best), best)
    grown = torch.where(mass > 0, mass * torch.exp((reward - best) / temperature), torch.zeros_like(reward))
    total = grown.sum(-1, keepdim=True)
    return reward - best - temperature * torch.where(total > 0, total, torch.ones_like(total)).log()


@advantage(
    "2503.19595 for k = N; 2505.15201 for any k; verl, `grpo_passk`, for the deviation",
    unit="in units of reward (a pure number if standardized)",
    raises="a run with groups of fewer than k",
)
class pass_at_k(GroupBaseline):
    """Pass@k: A = mean of the maximum reward of k samples with this sample, minus that of k samples without it.

    A_i = mean over sets S of k samples with i of (max S - max S without i).

    Times k its mean gradient is that of the expected best of k samples (pass@k for rewards 0 and 1), exactly, on-policy
    and with the full ratio. Only samples that are better than k - 1 others count, none is negative, and equal rewards
    give 0. k = N leaves the best sample with its lead over the second. With `standardize` it is divided by the group's
    standard deviation + 1e-6, N - 1 in its denominator, as a released trainer does for k = N; then there is no such
    law. Scope: group.
    """

    k: int = whole(2, "give how many samples are drawn, of which the best counts", 2, 10**4)
    standardize: bool = flag("advantages are divided by the deviation of rewards")

    def __call__(self, step: Step) -> Tensor:
        ordered, order = step.reward.sort(-1)
        mass = step.batch.mass.expand(step.reward.shape).gather(-1, order)
        # Between a reward and the next one that occurs lies a gap; the best of the others is below it or above.
        gap = torch.nn.functional.pad(ordered[..., 1:] - ordered[..., :-1], (1, 0))
        below = torch.nn.functional.pad(mass.cumsum(-1)[..., :-1], (1, 0))
        gained = (gap * self._chance(below, step.peers)).cumsum(-1)
        found = torch.empty_like(gained).scatter_(-1, order, gained)
        if not self.standardize:
            return found
        variance = (step.batch.mass * (step.reward - step.group_mean()) ** 2).sum(-1, keepdim=True)
        return found / ((variance / step.unbiased).sqrt() + 1e-6)

    def check(self, samples_per_group: float) -> None:
        """Require groups of at least k samples."""
        super().check(samples_per_group)
        remedy = f"write samples_per_group={self.k}, or lower k"
        bound = f"at least k = {self.k}"
        checks.require(samples_per_group >= self.k, "samples_per_group", samples_per_group, bound, remedy)

    def _chance(self, below: Tensor, size: Any) -> Tensor:
        """Probability that the k - 1 others of a set all fall in this mass of the group, without replacement.

        A group of fewer than k known rewards has no such set: its chance is that of k.
        """
        size = size if isinstance(size, (int, float)) else size.clamp(min=self.k)
        chance = torch.ones_like(below)
        for drawn in range(self.k - 1):
            left = (below - drawn / size) / (1.0 - (1 + drawn) / size)
            # Less than one sample is none.
            chance = chance * torch.where(left > _ROUNDING, left, torch.zeros_like(left))
        return chance
