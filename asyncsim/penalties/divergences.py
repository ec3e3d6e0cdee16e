"""KL penalties: what each estimator adds to the score weights, sampled or exact."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asyncsim.base import checks, parts, plugins
from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import T, choice, flag, number
from asyncsim.step import ratios
from asyncsim.step.step import Step


class Penalty:
    """Minus a coefficient times a divergence of the current policy from the policy `to`."""

    coefficient: Any = number(0.04, "beta, reward per nat, 0 for none", 0.0)
    to: Any = choice("reference", "behavior", "proximal", words="which policy is held close")
    ratio: Any = choice("none", "token", "sequence", words="how samples of another policy are weighted")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the policy outputs that the penalty uses besides `log_prob`."""
        return ("reference",) if self.to == "reference" else ()

    @property
    def proximal(self) -> bool:
        return self.to == "proximal"

    def describe(self) -> dict[str, Any]:
        settings = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        return {"penalty": plugins.name_of(self), **settings}

    def gap(self, step: Step) -> Tensor:
        """Log ratio D of the current to the other policy at each token, `[R, G, N, T]`, exactly 0 where masked."""
        if self.to == "reference":
            return ratios.log_ratio(step.current["log_prob"], step.current["reference"], step.mask)
        return step.log_ratio if self.to == "behavior" else step.drift

    def carried(self, step: Step) -> Tensor | None:
        """Importance ratio to behavior that multiplies the penalty of each token, `[R, G, N, T or 1]`; None for 1."""
        if self.ratio == "none":
            return None
        return ratios.usable(step.sequence(step.log_ratio) if self.ratio == "sequence" else step.log_ratio)

    def report(self, step: Step, value: Tensor) -> None:
        """Record the mean penalty over the step's tokens from values `[R, G, N, T]`, with the importance ratios."""
        weight = self.carried(step)
        value = value if weight is None else value * weight
        step.statistics[f"{plugins.name_of(self)}_penalty"] = step.token_mean(value)


class Sampled(Penalty):
    """Divergence penalty estimated from sampled tokens: c_t = -coefficient ratio slope_t."""

    def score_weight(self, step: Step) -> Tensor:
        """The penalty's contribution to the score weights c, `[R, G, N, T]`."""
        gap = self.gap(step)
        self.report(step, self.value(step, gap))
        # An infinite gap pulls back as hard as the largest that is used; weight 0 would let it go.
        slope = self.slope(step, gap.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT))
        weight = self.carried(step)
        return -per_sample(self.coefficient) * (slope if weight is None else weight * slope)

    def spread(self, step: Step) -> None:
        """None, since the penalty uses only the sampled token of each state."""

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        """Weight on the score of each token per unit of the penalty's coefficient."""
        raise NotImplementedError

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """Estimate of the divergence at each token, in nats."""
        raise NotImplementedError


def _k3_value(gap: Tensor) -> Tensor:
    """exp(-D) - 1 + D; infinite if D is."""
    return torch.where(torch.isinf(gap), gap.abs(), torch.expm1(-gap) + gap)


def _penalty(source: str, *, spread: bool = False) -> Callable[[type[T]], type[T]]:
    """Decorator for a penalty: a class that becomes a public function which checks its knobs."""
    term = "`spread` `[R, G, N, T, A]`" if spread else "`score_weight` `[R, G, N, T]`, log ratios limited to +-20"
    return parts.page(source, f"a penalty with {term}")


@_penalty('Schulman 2020, "Approximating KL divergence" (value); gradient derived here')
class k1(Sampled):
    """KL penalty k1 = D as a loss: c = -beta; on fresh data, its expected gradient is zero.

    Sampled log ratio D_t = log pi - log other, differentiated: c_t = -beta. The mean of D is the KL divergence, but
    d/dtheta of D at a given token is the score itself, so that the expected gradient under pi is -beta E[grad log pi] =
    0. This loss regularizes nothing and adds noise. It is here because it is met in practice; k2, or D inside the
    reward (`reward`), have the gradient that is meant. With a ratio the gradient is still 0, now in expectation under
    the behavior policy. On stale data without one it is +beta grad KL(behavior || pi), which drives pi away from the
    data (`estimator/kl-estimators`).
    """

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        return torch.ones_like(gap)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        return gap


@_penalty('Schulman 2020, "Approximating KL divergence" (value); gradient derived here')
class k2(Sampled):
    """KL penalty k2 = D^2/2; its expected gradient is that of KL(pi || other).

    Half the squared log ratio, D_t^2/2 with D_t = log pi - log other: c_t = -beta D_t. The value is a biased estimate
    of KL(pi || other), but E_pi[D grad log pi] = grad KL(pi || other) exactly, state by state, with the chance of
    visiting a state held fixed. Level "sequence" differentiates (sum_t D_t)^2/2 instead, c_t = -beta sum_k D_k, whose
    mean is the gradient of the KL divergence of whole sequences. Under data of another policy the mean is right only
    with the ratio: "token" weights states as behavior visits them, "sequence" as pi does. The divergence of a whole
    sequence has no ratios of single tokens, so that level "sequence" refuses them.
    """

    level: str = choice("token", "sequence", words="of what the log ratio is squared")

    @staticmethod
    def joint(level: str, ratio: str, **_: Any) -> None:
        """Refuse token ratios together with the divergence of a full sequence."""
        if level == "sequence":
            remedy = "weigh the divergence of a whole sequence by its own ratio"
            checks.one_of("ratio", ratio, ("none", "sequence"), remedy)

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        return gap if self.level == "token" else step.sequence(gap).expand(gap.shape)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        """Value D^2/2 at each token; for a sequence's divergence, the token's share of it."""
        if self.level == "token":
            return gap.square().mul_(0.5)
        return 0.5 * step.sequence(gap) ** 2 / step.lengths.clamp(min=1.0).unsqueeze(-1)


@_penalty("2402.03300, equation 4; gradient derived here")
class k3(Sampled):
    """KL penalty k3 = exp(-D) - 1 + D; its expected gradient is that of KL(other || pi), which is the other direction.

    Low-variance estimate exp(-D_t) - 1 + D_t with D_t = log pi - log other, differentiated: c_t = -beta (1 - e^-D). The
    value is an unbiased estimate of KL(pi || other). Its gradient is not that of the value's mean, since the tokens are
    drawn from pi: E_pi[(1 - other/pi) grad log pi] = -sum_v other_v grad log pi_v = grad KL(other || pi), state by
    state. The values are not clamped before they are differentiated, which would let go of the tokens that are farthest
    away. A live ratio times k3 is the same as k2 with the ratio.
    """

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        return 1.0 - ratios.usable(-gap)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        return _k3_value(gap)


@_penalty("released code of verl (estimator names that end in a plus sign); gradient derived here")
class straight_through(Sampled):
    """KL penalty with the value of k3 and the gradient of k2.

    K3 in the report, k2 in the gradient: loss beta (k2 - sg(k2) + sg(k3)), c_t = -beta D_t, D = log pi - log other.
    Value (unbiased, low variance) and gradient (exactly grad KL(pi || other) per state) then belong to one divergence;
    with k2 or k3 alone they do not. The trace has the value.
    """

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        return gap

    def value(self, step: Step, gap: Tensor) -> Tensor:
        return _k3_value(gap)


@_penalty("1909.08593, equation 2; gradient derived here")
class reward(Sampled):
    """KL penalty inside the reward: the return of a token includes minus beta times the log ratios of all later tokens.

    -beta D_t added to the reward of token t, D = log pi - log other, detached: c_t = -beta sum_(k >= t) D_k. E_pi[sum_t
    grad log pi_t sum_(k >= t) D_k] is the gradient of the KL divergence of whole sequences, change of visited states
    included; the token forms (k2, `exact`) hold those fixed. No baseline is subtracted, and the method's advantage does
    not see the penalty (a task's `kl_coef` pays it, and then baselines do). Under data of another policy the mean is
    right with the ratio of the sequence.
    """

    def slope(self, step: Step, gap: Tensor) -> Tensor:
        return gap if gap.shape[-1] == 1 else gap.flip(-1).cumsum(-1).flip(-1)

    def value(self, step: Step, gap: Tensor) -> Tensor:
        return gap


@_penalty("textbook", spread=True)
class exact(Penalty):
    """KL penalty summed over all actions in each token's state, so that sampled actions add no noise.

    -beta KL(pi || other) of each token's state: e_v = -beta pi_v (d_v - KL), d = log pi - log other, on log pi_v. In
    the logits of the state that is -beta pi_v (d_v - KL), since sum_v e_v = 0. With `reverse`, -beta KL(other || pi):
    e_v = beta other_v, in the logits beta (other_v - pi_v). States count as often as the data visits them: with ratio
    "sequence", as pi would. The token's own ratio would only add noise, so that there is no "token" here. Rows of
    "behavior" are computed at kept weights: late drawing. A run whose policy has no `log_probs` is refused.
    """

    ratio: str = choice("none", "sequence", words="how samples of another policy are weighted")
    reverse: bool = flag("the other policy draws")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs used: log-probs of all actions, and of the reference if the penalty is to it."""
        return ("log_probs", *(("reference_log_probs",) if self.to == "reference" else ()))

    def score_weight(self, step: Step) -> None:
        """None, since the exact penalty does not depend on the sampled action."""

    def spread(self, step: Step) -> Tensor:
        """The penalty's weight e on the log-prob of every action, `[R, G, N, T, A]`."""
        rows = step.current["log_probs"]
        if self.to == "reference":
            other = step.current["reference_log_probs"]
        else:
            other = step.recorded("log_probs") if self.to == "behavior" else step.proximal["log_probs"]
        above, below = (other, rows) if self.reverse else (rows, other)
        prob = above.exp()
        # An action that both find impossible is not far from itself; 0 times an infinite gap counts 0.
        gap = torch.where((above == below) | (prob == 0), torch.zeros_like(above), above - below)
        self.report(step, (prob * gap).sum(-1))
        if self.reverse:
            term = prob
        else:
            gap = gap.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT)
            term = prob * ((prob * gap).sum(-1, keepdim=True) - gap)
        weight, beta = self.carried(step), self.coefficient
        term = term if weight is None else term * weight.unsqueeze(-1)
        return term * (beta if isinstance(beta, float) else per_sample(beta).unsqueeze(-1))
