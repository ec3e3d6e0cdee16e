"""Actor-critic methods, and methods with a term for all actions: they read a critic, or the distribution at a token."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim import advantages
from asyncsim.advantages._traces import state_value
from asyncsim.base import checks
from asyncsim.base.knobs import MARK, per_sample
from asyncsim.base.parts import choice, number, whole
from asyncsim.methods._estimator import AT, CAP, CRITIC, ENTROPY, method
from asyncsim.methods._weights import NoRatio, Ratio, Weight, at_most
from asyncsim.step import ratios
from asyncsim.step.step import Step


@dataclass(frozen=True)
class Corrected(Weight):
    """ACER's weights: c = min(cap, r) A, and e_v = pi_v [1 - cap/r_v]_+ (Q_v - V), which corrects the truncation."""

    cap: Any = field(metadata=MARK)

    level: ClassVar[str] = "token"  # type: ignore[misc]
    outputs: ClassVar[tuple[str, ...]] = ("log_probs", "action_values")

    def applied(self, step: Step) -> Tensor:
        return at_most(ratios.usable(step.log_ratio), self.cap)

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        """ACER's bias correction over all actions, pi_v [1 - cap/r_v]_+ (Q_v - V) = [pi_v - cap mu_v]_+ (Q_v - V)."""
        prob, drawn = step.current["log_probs"].exp(), step.recorded("log_probs").exp()
        rest = (prob - _wide(self.cap, drawn) * drawn).clamp(min=0.0)
        return rest * (step.current["action_values"] - state_value(step).unsqueeze(-1))


@dataclass(frozen=True)
class Centered(Weight):
    """Score centering: c = w(r) A and e_v = -A mu_v w(pi_v/mu_v), w = 1 or min(r, cap), over all or `top` actions."""

    truncated: bool
    cap: Any = field(metadata=MARK)
    top: int | None

    level: ClassVar[str] = "token"  # type: ignore[misc]
    outputs: ClassVar[tuple[str, ...]] = ("log_probs",)

    def applied(self, step: Step) -> Tensor:
        if not self.truncated:
            return torch.ones_like(step.mask[..., :1])
        return at_most(ratios.usable(step.log_ratio), self.cap)

    def spread(self, step: Step, advantage: Tensor) -> Tensor:
        """Centering term -A mu_v w(pi_v/mu_v); with `top`, of the likeliest actions, minus alpha pi_v for others."""
        prob, drawn = step.current["log_probs"].exp(), step.recorded("log_probs").exp()
        mean = torch.minimum(prob, _wide(self.cap, drawn) * drawn) if self.truncated else drawn
        if self.top is not None and self.top < prob.shape[-1]:
            head = torch.zeros_like(prob).scatter_(-1, drawn.topk(self.top, dim=-1).indices, 1.0)
            behind = (1.0 - (head * drawn).sum(-1, keepdim=True)).clamp(min=0.0)
            rho = behind / (1.0 - (head * prob).sum(-1, keepdim=True)).clamp(min=1e-6)
            # rho w(1/rho): the weight of an action behind the head, where mu = rho pi.
            alpha = (_wide(self.cap, rho) * rho).clamp(max=1.0) if self.truncated else rho
            mean = head * (mean - alpha * prob)
        return -advantage.unsqueeze(-1) * mean


def _wide(cap: Any, like: Tensor) -> Any:
    """A knob with an axis for actions, `[R, 1, 1, 1, 1]`, or a number."""
    value = per_sample(cap)
    return value if isinstance(value, float) else value.unsqueeze(-1).to(like.dtype)


_ORDER = "advantage critic entropy aggregator"


@method("1602.01783", compared=lambda **_: advantages.gae(trace=1.0), order=f"{_ORDER} at")
def a2c(critic: float = CRITIC, entropy: float = ENTROPY, at: str = AT) -> Weight:
    """Advantage actor-critic without an importance ratio; the advantage is the return minus the critic's value.

    Actor-critic: ascend A_t log pi(a_t|s_t) + entropy H(s_t) - critic (V(s_t) - target_t)^2, whatever drew the data.
    A_t is the discounted return of the episode minus V at the draw, target_t that return. Where a future was cut off,
    the critic's value replaces it. With `at="behavior"` all three gradients are taken at the parameters that generated
    the data and applied to new ones, as asynchronous actors do (`a3c`). The usual advantage is `gae(trace=1.0)`.
    Assumes a policy with the output `value`.
    """
    return NoRatio()


@method(
    "1602.01783, algorithm S3",
    compared=lambda steps, **_: advantages.n_step(steps),
    order=f"steps {_ORDER}",
    at="behavior",
    status="reconstruction",
)
def a3c(
    steps: int = whole(5, "look at least one token ahead", 1, checks.LARGEST),
    critic: float = CRITIC,
    entropy: float = ENTROPY,
) -> Weight:
    """Asynchronous actor-critic (A3C): all gradients are taken at the parameters that sampled the data.

    A2C with delayed gradients: theta_(k+1) = theta_k + eta g(theta_(k-tau)), data and scores equally stale. g ascends
    A_t log pi(a_t|s_t) + entropy H(s_t) - critic (V(s_t) - G_t)^2, with n-step returns G and A = G - V, all of it at
    the behavior parameters; g itself is an unbiased gradient, of an older policy. `a2c` takes the score, and the
    critic's error, at the current parameters instead: there data are old and scores new. The usual advantage is
    `n_step(steps)`; 5 is known from second hand only. Assumes a policy with the output `value`, and late drawing.
    Reconstruction: constants, and every token looks n steps ahead.
    """
    return NoRatio()


@method(
    "1611.01224, equation 7",
    advantage=advantages.retrace,
    order=f"cap {_ORDER}",
    critic_output="action_value",
    status="reconstruction",
)
def acer(
    cap: Any = number(10.0, "largest ratio", 0.0, remedy="use 10, or 0 for the sum over all actions"),
    critic: float = CRITIC,
    entropy: float = ENTROPY,
) -> Weight:
    """ACER: a truncated ratio for the sampled action, and a bias correction that sums over all actions.

    Truncation with bias correction: c_t = min(cap, r_t)(Q_ret - V), e_v = pi_v [1 - cap/r_v]_+ (Q_v - V). E_mu[min(cap,
    r) A grad log pi] + E_pi[[1 - cap/r]_+ A grad log pi] = E_pi[A grad log pi] at every state, since min(cap, r) + [r -
    cap]_+ = r: with exact Q the mean does not depend on the cap, which exchanges variance of the first term for
    dependence on the critic in the second. Cap 0 is the sum over all actions. On policy the second term is 0 for cap >=
    1. The critic is trained on Retrace, critic (Q(s_t, a_t) - Q_ret)^2. There is a term for all actions, `[R, G, N, T,
    A]`. Assumes a policy with values of actions, and rows of the behavior policy (late drawing). Reconstruction:
    without the trust region around an average policy; the cap is known from second hand.
    """
    return Corrected(cap)


@method(
    "1606.02647, equation 3",
    advantage=advantages.retrace,
    order=f"cap {_ORDER}",
    critic_output="action_value",
    status="reconstruction",
)
def retrace(
    cap: Any = number(None, "largest ratio", 0.0, above=True, optional=True, remedy="leave it out for the full ratio"),
    critic: float = CRITIC,
    entropy: float = ENTROPY,
) -> Weight:
    """Actor-critic with Retrace: the ratio multiplies Retrace's action value minus the value of the state.

    Actor on Retrace returns: c_t = r_t (Q_ret(s_t, a_t) - V(s_t)), critic (Q(s_t, a_t) - Q_ret)^2. Retrace evaluates a
    policy. The actor's ratio r_t corrects for data from another one. With exact Q the mean is then right at every state
    that the data visits. A `cap` truncates it, and leaves out what ACER adds for all actions. Assumes a policy with
    values of actions, as `policies.mlp(critic="action")`. Reconstruction: the paper evaluates and controls by values;
    the actor on top is ours.
    """
    return Ratio("token", cap)


@method("1802.01561, section 4.2", advantage=advantages.vtrace, order=f"cap {_ORDER}")
def vtrace(
    cap: Any = number(1.0, "largest ratio", 0.0, above=True, remedy="use 1, or a large number for untruncated ratios"),
    critic: float = CRITIC,
    entropy: float = ENTROPY,
) -> Weight:
    """V-trace actor-critic (IMPALA): truncated ratios in the returns and on the score.

    Actor-critic under stale data: c_t = min(cap, r_t)(r_t + discount v_(t+1) - V_t), critic (V_t - v_t)^2. v are
    V-trace targets (`advantages.vtrace`), r_t in the weight is the token ratio to behavior. `cap` truncates the one on
    the score, the caps of the advantage those in the targets. With caps that never bind and an exact critic, c times
    the score has the gradient at each state as its mean. States count as often as the data visits them. At staleness 0
    this is A2C with n-step returns. Assumes a policy with the output `value`.
    """
    return Ratio("token", cap)


@method("2609.20807", status="reconstruction")
def score_centering(
    weight: str = choice("none", "truncated", words="what multiplies the score"),
    cap: Any = CAP,
    top: int | None = whole(
        None, "likeliest actions", 1, checks.LARGEST, remedy="leave it out for all actions", optional=True
    ),
) -> Weight:
    """Score centering: the sampler's mean score is subtracted from every token's gradient.

    Weighted scores less their mean under mu: c_t = w(r_t) A, e_v = -A mu_v w(pi_v/mu_v), w = 1 or min(r, cap). Off
    policy E_mu[w grad log pi] is not 0, so that a mean advantage other than 0 pulls pi toward mu. The term for all
    actions subtracts that mean at each token: with w = 1 the expected gradient is Cov_mu(A, grad log pi); with the full
    ratio there is nothing to subtract (`estimator/score-centering`). `top` k knows only the sampler's k likeliest
    actions H: e_v = -A (mu_v w_v - alpha pi_v) on H, alpha = rho w(1/rho), rho the odds of the rest, (1 - sum_H
    mu)/max(1 - sum_H pi, 1e-6): exact where mu is proportional to pi outside H. A hypothesis: a paired study of others
    found no sure gain. Assumes rows of the behavior policy (late drawing), complete and in the trainer's numerics.
    Reconstruction: formulas from documentation, exactness derived here.
    """
    return Centered(weight == "truncated", cap, top)
