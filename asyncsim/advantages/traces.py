"""Advantages of tokens: sums of rewards from each token on, with or without a critic."""

from typing import Any

import torch
from torch import Tensor

from asyncsim.advantages import _traces
from asyncsim.advantages._advantage import Baseline, GroupBaseline, advantage
from asyncsim.advantages._traces import Tokens, corrected, following, mask_out, moments, recorded_value, tokens, traced
from asyncsim.base import checks
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import choice, flag, number, whole
from asyncsim.step import ratios
from asyncsim.step.step import Step

TOKENS, NO_CRITIC = "[R, G, N, T]", "a run whose policy has no critic"
DISCOUNT = number(0.99, "factor per token", 0.0, 1.0, remedy="use 0.99, or 1 for plain sums")
PLAIN = number(1.0, "factor per token", 0.0, 1.0, remedy="use 1 for plain sums")
TRACE = number(1.0, "share of later errors handed on", 0.0, 1.0, remedy="use 1; 0 trusts the critic after one step")
CAP = number(1.0, "largest ratio", 0.0, above=True, remedy="use 1, or a large number for untruncated ratios")


@advantage("Williams 1992; Sutton and Barto 2018, section 13.3", shape=TOKENS)
class returns_to_go(Baseline):
    """Sum of rewards from each token to the end of its episode.

    Return from each token on: A_t = sum_k discount^k r_(t+k) - b, summed to the end of the episode. What follows a cut
    (a limit of time, the end of a segment) counts as 0. b = 0, or the mean of all sums of the step, which depends on
    the actions that it is compared with. That is a bias of order 1/tokens. Scope: token; with a baseline, step.
    """

    discount: Any = PLAIN
    baseline: str = choice("none", "batch", words="what the return is compared with")

    once = True

    def __call__(self, step: Step) -> Tensor:
        returns = self.targets(step)
        return returns if self.baseline == "none" else mask_out(returns - moments(step, returns)[0], step.batch.mask)


@advantage(
    "2501.03262, equations 8 to 10 of version 8; verl, `reinforce_plus_plus_baseline`, for the baseline form",
    shape=TOKENS,
    unit="a pure number",
    raises="a run with groups of one (baseline group)",
)
class reinforce_plus_plus(GroupBaseline):
    """REINFORCE++: returns of tokens, standardized over the full step, with or without the group mean.

    Returns of tokens, standardized over the whole step: A_t = (G_t - b - m) / s, G_t = sum_k discount^k r_(t+k). m and
    s are mean and standard deviation of G - b over all generated tokens of the step, whatever their group. So prompts
    keep their relative size. s <= 1e-8 counts as 1. With `unbiased` the squares are divided by the tokens less 1, as
    released trainers do. b = 0 (REINFORCE++), or the mean return of the group's samples (its baseline form). The
    published returns have a penalty inside: r_t less beta (log pi - log reference) of the token, which tasks earn with
    `kl_coef`. What follows a cut counts as 0. Samples stand in their own mean and deviation: biased O(1/tokens), and a
    positive factor. Scope: step.
    """

    baseline: str = choice("none", "group", words="what the return is compared with")
    discount: Any = PLAIN
    unbiased: bool = flag("variances are divided by the tokens less 1")

    once = True
    finishes = True

    def __call__(self, step: Step) -> Tensor:
        return self.finished(step, self.estimate(step))

    def estimate(self, step: Step) -> Tensor:
        """Token returns minus the baseline, in units of reward, `[R, G, N, T]`."""
        returns = self.targets(step)
        if self.baseline == "none":
            return returns
        # The mean of returns of whole samples, whose first token has all that is paid.
        whole = (step.batch.mass * returns[..., 0]).sum(-1, keepdim=True)
        return mask_out(returns - whole.unsqueeze(-1), step.mask)

    def finished(self, step: Step, advantages: Tensor) -> Tensor:
        """The advantages standardized over the tokens of the step."""
        mean = (step.share * advantages).sum((1, 2, 3), keepdim=True)
        if self.unbiased:
            deviation = moments(step, advantages)[1]
        else:
            deviation = (step.share * (advantages - mean) ** 2).sum((1, 2, 3), keepdim=True).sqrt()
        # Rounding of equal returns is no spread.
        scale = torch.where(deviation > 1e-8, deviation, torch.ones_like(deviation))
        return mask_out((advantages - mean) / scale, step.mask)

    def check(self, samples_per_group: float) -> None:
        """Refuse groups of one sample if the group mean is the baseline."""
        if self.baseline == "group":
            super().check(samples_per_group)


@advantage(
    "1506.02438, equation 16", shape=TOKENS, unit="in units of reward (a pure number if normalized)", raises=NO_CRITIC
)
class gae(Baseline):
    """Generalized advantage estimation: discounted sums of the critic's temporal-difference errors in an episode.

    Advantage of each token: A_t = sum_k (discount trace)^k delta_(t+k), delta_t = r_t + discount V_(t+1) - V_t. V is
    what the critic said when the action was chosen, so that the advantage does not change between updates on one batch.
    The sum stops where an episode ends. The value behind it is 0 after termination, and the critic's value of the next
    observation where a limit of time or of the segment cut it off. `trace` 0 is the error of one step, 1 the return
    minus V. Targets of the critic are A + V. Scope: token; with `normalize`, step.
    """

    discount: Any = DISCOUNT
    trace: Any = number(0.95, "weight of later errors", 0.0, 1.0, remedy="use 0.95; 0 trusts the critic, 1 the rewards")
    normalize: bool = flag("advantages are standardized")

    once = True
    outputs = ("value",)

    def __call__(self, step: Step) -> Tensor:
        return self.finished(step, self.estimate(step))

    @property
    def finishes(self) -> bool:  # type: ignore[override]
        """Whether the advantages are normalized after estimation."""
        return self.normalize

    def estimate(self, step: Step) -> Tensor:
        """Advantages in units of reward, before any normalization."""
        return traced(self._tokens(step), self.discount, self.trace)

    def finished(self, step: Step, advantages: Tensor) -> Tensor:
        """The advantages, on request centered and divided by their unbiased standard deviation + 1e-8."""
        if not self.normalize:
            return advantages
        mean, deviation = moments(step, advantages)
        return mask_out((advantages - mean) / (deviation + 1e-8), step.mask)

    def targets(self, step: Step) -> Tensor:
        """Target of the critic: the advantage before normalization plus the recorded value, `[R, G, N, T]`."""
        trajectory = self._tokens(step)
        return traced(trajectory, self.discount, self.trace) + trajectory.value

    def _tokens(self, step: Step) -> Tokens:
        return tokens(step, recorded_value(step.batch, "gae"))


@advantage("1602.01783, section 4", shape=TOKENS, raises=NO_CRITIC)
class n_step(Baseline):
    """n-step returns: the rewards of n steps, plus the critic's value after them.

    Return of n steps minus V: A_t = sum_(k < n) discount^k r_(t+k) + discount^n V_(t+n) - V_t. The sum stops where an
    episode ends. The value behind it is 0 after termination, and the critic's value of the next observation where a
    limit of time or of the segment cut it off. V is what the critic said when the action was chosen. Targets of the
    critic are A + V. Every token looks n steps ahead. Actors that stop every n steps use fewer rewards for the later
    ones: segments of n tokens with `gae(trace=1)` are those. Scope: token.
    """

    steps: int = whole(5, "tokens that are looked ahead", 1, checks.LARGEST, remedy="look at least one token ahead")
    discount: Any = DISCOUNT

    once = True
    outputs = ("value",)

    def __call__(self, step: Step) -> Tensor:
        batch = step.batch
        value = recorded_value(batch, "n_step")
        return mask_out(self.targets(step) - torch.where(batch.mask > 0, value, torch.zeros_like(value)), batch.mask)

    def targets(self, step: Step) -> Tensor:
        """Target of the critic: the n-step return, `[R, G, N, T]`."""
        trajectory = tokens(step, recorded_value(step.batch, "n_step"))
        sums = trajectory.value
        for _ in range(min(self.steps, sums.shape[-1])):
            sums = trajectory.reward + per_sample(self.discount) * following(trajectory, sums)
        return sums


@advantage("1802.01561, equation 1 and section 4.2; `trace` is that of its remark 2", shape=TOKENS, raises=NO_CRITIC)
class vtrace(Baseline):
    """V-trace: truncated ratios correct the returns of stale data towards the values of the current policy.

    Off-policy returns with truncated ratios: A_t = r_t + discount [trace v_(t+1) + (1 - trace) V_(t+1)] - V_t. v_s =
    V_s + sum_(t >= s) discount^(t-s) (prod_(i=s)^(t-1) k_i) rho_t delta_t, rho_t = min(rho_cap, r_t), k_t = trace
    min(trace_cap, r_t), delta_t = r_t + discount V_(t+1) - V_t, r the token ratio to behavior: the product holds the
    ratios of the tokens before t, the error of t its own. `rho_cap` decides which policy's values v_s tends to
    (proportional to min(rho_cap mu, pi)), `trace_cap` how fast (`estimator/v-trace`); the paper has rho_cap >=
    trace_cap. V is the current critic's at every update, targets are v_s; behind a cut stands the value recorded at the
    draw. At staleness 0 and trace 1 these are returns minus V. Scope: token. Multiply it by the ratio (`methods.vtrace`
    does).
    """

    discount: Any = DISCOUNT
    trace: Any = TRACE
    rho_cap: Any = CAP
    trace_cap: Any = CAP

    reads = ("value",)

    def __call__(self, step: Step) -> Tensor:
        trajectory, shift = self._corrections(step)
        after = following(trajectory, trajectory.value + per_sample(self.trace) * shift)
        error = trajectory.reward + per_sample(self.discount) * after - trajectory.value
        return torch.where(step.mask > 0, error, torch.zeros_like(error))

    def targets(self, step: Step) -> Tensor:
        """Target of the critic: the V-trace value v_t, `[R, G, N, T]`."""
        trajectory, shift = self._corrections(step)
        return trajectory.value + shift

    def _corrections(self, step: Step) -> tuple[Tokens, Tensor]:
        """Rewards and values, and v_t - V_t of every token."""
        trajectory = tokens(step, step.current["value"])
        ratio = ratios.usable(step.log_ratio.to(step.mask.dtype))
        rho, keep = (
            torch.minimum(ratio, torch.as_tensor(per_sample(cap), dtype=ratio.dtype))
            for cap in (self.rho_cap, self.trace_cap)
        )
        return trajectory, corrected(trajectory, per_sample(self.discount), rho, per_sample(self.trace) * keep)


@advantage(
    "1606.02647, equations 3 and 4; as an advantage 1611.01224, equation 5",
    shape=TOKENS,
    raises='a run whose policy has no values of actions (`policies.mlp(critic="action")` has)',
)
class retrace(Baseline):
    """Retrace: returns corrected by an action-value critic, cut where the policy has moved away from an action.

    Action values corrected along the trajectory: A_t = Q_ret(s_t, a_t) - V(s_t), V = sum_a pi(a|s) Q(s, a). Q_ret_t =
    Q_t + sum_(j >= t) discount^(j-t) (prod_(i=t+1)^j k_i)(r_j + discount V(s_(j+1)) - Q_j), k_i = trace min(1,
    ratio_i). The product begins behind t, since Q is that of the action already taken. V is the mean over the policy's
    actions, not the value of the next one. With exact Q every error has mean 0 whatever generated the data. Q and pi
    are the current ones at every update; targets of Q(s_t, a_t) are Q_ret; behind a cut stands the state value recorded
    at the draw. Scope: token.
    """

    discount: Any = DISCOUNT
    trace: Any = TRACE

    reads = ("action_value", "action_values", "log_probs")

    def __call__(self, step: Step) -> Tensor:
        return mask_out(self.targets(step) - _traces.state_value(step), step.mask)

    def targets(self, step: Step) -> Tensor:
        """Target of the critic for the action taken: Q_ret, `[R, G, N, T]`."""
        trajectory = tokens(step, _traces.state_value(step))
        action_value = mask_out(step.current["action_value"], step.mask)
        keep = per_sample(self.trace) * ratios.usable(step.log_ratio.to(step.mask.dtype)).clamp(max=1.0)
        return _traces.backed_up(trajectory, action_value, per_sample(self.discount), keep)
