"""REINFORCE, other methods without a ratio, and regressions: advantages, or these minus a multiple of the log ratio."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, Number, knob, per_sample
from asyncsim.base.parts import choice, flag, number
from asyncsim.methods._estimator import AT, CRITIC, ENTROPY, estimator, method, ones
from asyncsim.methods._method import Method
from asyncsim.methods._weights import NoRatio, Weight
from asyncsim.step import ratios
from asyncsim.step.step import Step


@dataclass(frozen=True, kw_only=True)
class Residual(Weight):
    """Score weight c = A - tau x, x the log ratio of the token or of the sequence (`level`) to the anchor policy."""

    level: str
    tau: Any = field(metadata=MARK)

    anchored: ClassVar[bool] = True

    def applied(self, step: Step) -> Tensor:
        return torch.ones_like(step.mask[..., :1])

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        gap = step.sequence(step.anchored) if self.level == "sequence" else step.anchored
        return _closed(step, advantage - per_sample(self.tau) * gap)


def _closed(step: Step, residual: Tensor) -> Tensor:
    """Residuals with 0 where they are not finite; the number of such samples (or tokens) is recorded.

    A residual enters linearly, so finite ones are used as they are, however large.
    """
    finite = residual.isfinite()
    missing = ~finite & (step.mask > 0) if residual.shape[-1] > 1 else ~finite
    step.statistics["residual_nonfinite"] = missing.sum((1, 2, 3)).double()
    return torch.where(finite, residual, torch.zeros_like(residual))


_TAU = number(0.1, "price of squared nats in units of reward", 0.0)
_BETA = number(1.0, "positive price of a nat in units of reward", 0.0, above=True)


@method("Williams 1992; leave-one-out 2402.14740", advantage=advantages.leave_one_out, aggregator="sequence_sum")
def reinforce(*, at: str = AT, entropy: float = ENTROPY, critic: float = CRITIC.but(0.0)) -> Weight:
    """REINFORCE: the advantage times the score of the current policy, without a ratio that corrects for stale data.

    REINFORCE: g = sum_it a_it m_it A_i grad log pi(y_it), whatever policy generated the data. Staleness enters through
    the data only: with a group baseline on a one-context bandit this is delayed gradient ascent path by path
    (`staleness/stale-reinforce-is-delayed-ascent`). For rewards of single tokens use `returns_to_go()`.
    """
    return NoRatio()


def gradient(at: str = "behavior") -> Method:
    """Plain gradient descent on a policy's loss, with the gradient at the behavior parameters (asynchronous SGD).

    Descent on a policy's own loss: g = -(1/G) sum_i mass_i grad loss_i.

    With `tasks.quadratic` and `updates.sgd(eta)` it is the linear delayed model x_(t+1) = x_t - eta (lambda x_(t-tau) +
    xi_t).

    Arguments: `at`, the parameters at which the gradient is taken: "behavior", those that generated the sample, or
    "current". Returns a `Method` that reads the output `loss` and no log-probs. Raises `InputError` for another `at`.
    Assumes a policy that offers `loss`. Source: textbook (delayed gradient descent).

    >>> gradient().at
    'behavior'
    """
    return Method(
        "gradient", advantages.none(), NoRatio(), "sequence_sum", at=at, scored=False, constants={"loss": -1.0},
        on_policy="gradient of the loss",
    )  # fmt: skip


def asymre(dv: Number = -0.1, value: Number | None = None, aggregator: str = "sequence_sum") -> Method:
    """AsymRE: REINFORCE without ratios; the baseline lies below the mean reward of the behavior policy.

    Asymmetric REINFORCE: c_i = r_i - (V + dV) on stale data, V the behavior's value.

    With V = E_mu r and one softmax the mean direction is mu (r - V - dV) + dV pi: for dV < 0 a gradient flow that ends
    inside the simplex (`optimum/asymre-projection`), for dV >= 0 one that suppresses most of the support. On-policy a
    constant in the baseline has mean gradient 0 (for V from the group: a factor 1 - 1/N remains).

    Arguments: `dv`, in units of reward (-0.1); `value` V, in units of reward (default: each group's mean); each a
    number or one per replicate; `aggregator`, "sequence_sum", "sequence_mean", "token_mean" or "constant". Returns a
    `Method` whose weight is `[R, G, N, 1]`. Raises `InputError` for numbers that are not finite or an unknown
    aggregator. Source: 2506.20520.

    >>> asymre().describe()["shift"]
    -0.1
    """
    if value is None:
        advantage: Any = advantages.group_mean(shift=knob("dv", dv, "give a finite shift of the value"))
    else:
        shift, level = (
            np.asarray(knob(name, number, "give a finite value")) for name, number in (("dv", dv), ("value", value))
        )
        fits = shift.ndim == 0 or level.ndim == 0 or shift.shape == level.shape
        bound = f"one number, or as many as dv ({shift.size})"
        checks.require(fits, "value", checks.shown(value), bound, "give one per replicate of both")
        advantage = advantages.offset(shift + level)
    return Method("asymre", advantage, NoRatio(), aggregator, on_policy="policy gradient in mean")


def _temperature(tau: Any, baseline: str, **_: Any) -> None:
    if baseline == "soft":
        knob("tau", tau, "give a positive temperature", 0.0, open_low=True)


@estimator(
    "2505.17826 (Trinity-RFT), its code",
    level="none",
    shape="1",
    compared=lambda tau, baseline: advantages.soft_value(tau) if baseline == "soft" else advantages.group_mean(),
    applied=lambda step, tau: ones(step) / (1.0 + per_sample(tau)),
    outside=("baseline",),
    joint=_temperature,
    on_policy="policy gradient / (1 + tau)",
    status="reconstruction",
)
def opmd(
    step: Step,
    a: Tensor,
    tau: Any = number(1.0, "units of reward, above 0 for soft", -1.0, above=True, remedy="give a temperature above -1"),
    baseline: str = choice("mean", "soft", words="what rewards are compared with"),
) -> Tensor:
    """OPMD: REINFORCE without ratios, with advantages divided by 1 + tau.

    Online policy mirror descent as released: c_i = (r_i - b)/(1 + tau), no ratio. `baseline` "mean": b the group's mean
    reward; "soft": b = tau log mean_j exp(r_j / tau). Regularization towards the current policy amounts to this factor.
    It acts like a smaller learning rate and does not depend on staleness. Reconstruction: the form of the code, the
    derivation's paper unseen.
    """
    return a / (1.0 + per_sample(tau))


@method("2405.19107, as coded for tokens", anchored="behavior")
def dro(tau: Any = _TAU) -> Weight:
    """DRO: regression per token with weight A - tau l, l the token's log ratio (also Kimi's loss as coded per token).

    Token regression: the gradient of A_i log pi(y_it) - (tau/2) l_it^2, so c_it = A_i - tau l_it. l = log(pi/anchor) of
    the token. Against the square of the sequence's L = sum_t l_t this leaves out the cross terms l_t l_s: for one token
    the two agree. DRO's own advantage is soft, `advantages.soft_value(tau)` for values from the group. A token whose l
    is not finite has weight 0. The trace counts such tokens as residual_nonfinite.
    """
    return Residual(level="token", tau=tau)


@estimator("2501.12599", aggregator="sequence_sum", anchored="proximal", shape="1")
class kimi(Residual):
    """Kimi k1.5: policy mirror descent as a regression with weight A - tau L, L the log ratio of the sequence.

    Sequence regression: the gradient of A_i log pi(y_i) - (tau/2) L_i^2, so c_i = A_i - tau L_i. L_i = sum_t
    log(pi/anchor), the anchor being the policy at the start of the batch; it is blind to staleness unless it is the
    behavior policy. `half` False leaves out the 1/2, as two public codes do: c_i = A_i - 2 tau L_i. A sample whose L is
    not finite has weight 0. The trace counts such samples as residual_nonfinite.
    """

    level: str = "sequence"
    tau: Any = _TAU
    half: bool = flag("the penalty is tau/2 L^2", True)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        strength = per_sample(self.tau) * (1.0 if self.half else 2.0)
        return _closed(step, advantage - strength * step.sequence(step.anchored))


@estimator(
    "2602.19362, as described second hand",
    level="sequence",
    shape="1",
    compared=lambda beta: advantages.soft_value(beta),
    aggregator="sequence_sum",
    applied=lambda step, beta: 2.0 * per_sample(beta) * ones(step),
    on_policy="2 beta times the policy gradient",
    status="reconstruction",
)
def oapl(step: Step, a: Tensor, beta: Any = _BETA) -> Tensor:
    """OAPL: least-squares regression of a sequence's log ratio on its optimal advantage.

    Optimal-advantage regression: the gradient of -(r_i - V* - beta L_i)^2, so c_i = 2 beta (r_i - V* - beta L_i). L_i =
    sum_t log(pi/mu), V* = beta log mean_j exp(r_j / beta) over the group, whose population value is the normalizer of
    pi* = mu exp((r - V*)/beta): there every weight is 0, not only their mean. From N samples V* is biased. A sample
    whose L is not finite has weight 0. `advantage=soft_value(b)` gives V* another beta than the regression's, as
    implementations do. Reconstruction: the scale 2 beta and beta itself are unverified. The usual advantage is
    `soft_value(beta)`; the trace has residual_nonfinite.
    """
    beta = per_sample(beta)
    return _closed(step, 2.0 * beta * (a - beta * step.sequence(step.log_ratio)))


@estimator(
    "2503.18929",
    level="none",
    shape="1",
    aggregator="sequence_sum",
    applied=lambda step, beta: 2.0 / per_sample(beta) * ones(step),
    flags={"outputs": ("reference",)},
    on_policy="2/beta times the policy gradient of the reward less beta KL to the reference",
)
def tba(step: Step, a: Tensor, beta: Any = _BETA.but(0.014)) -> Tensor:
    """TBA: trajectory balance in VarGrad form; it reduces the variance of log pi - log pi_ref - r/beta in each group.

    Trajectory balance with a group's normalizer: c_i = (2/beta)(q_i - mean_j q_j), q_i = r_i - beta D_i. D_i = sum_t
    (log pi - log pi_ref). It is the gradient of -(log Z + D_i - r_i/beta)^2 with log Z = mean_j(r_j/beta - D_j);
    whether log Z is detached does not matter, since residuals of a group sum to 0. At the default beta 2/beta is 143:
    beside other methods divide the step by that. At pi = pi_ref exp(r/beta)/Z every weight is 0 whatever policy drew
    the samples: staleness does not move the optimum, and no ratio is step. A group with a D that is not finite has
    weights 0. Published: beta annealed to 0.004, groups of 20; it is the method for `group_mean()`.
    """
    beta = per_sample(beta)
    gap = ratios.log_ratio(step.current["log_prob"], step.current["reference"], step.mask).sum(-1, keepdim=True)
    mass = (step.mass if step.batch.kept is None else step.batch.mass).unsqueeze(-1)
    # An infinite gap has no mean: it closes its group, samples without mass do not.
    counted = torch.where(mass > 0, mass * gap, torch.zeros_like(gap))
    residual = a / beta - (gap - counted.sum(2, keepdim=True))
    return _closed(step, 2.0 * residual)
