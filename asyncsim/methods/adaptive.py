"""Adaptive thresholds: bounds and masks computed from all tokens of a step, or of each micro-batch in it."""

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from asyncsim.base.knobs import per_sample
from asyncsim.base.parts import choice, flag, number
from asyncsim.methods import _adaptive
from asyncsim.methods._adaptive import Adaptive, Searched, rising
from asyncsim.methods._estimator import HIGH, LOW, estimator
from asyncsim.methods._weights import band, by_sign, clipped, times
from asyncsim.step import ratios
from asyncsim.step.step import Step

_TAU = number(0.04, "bound of the second moment in nats squared, published 0.04", 0.0, above=True)
_ROUNDING = 1e-9
"""Sums of masses may miss a share of the tokens by rounding: nine of ten are 0.9 of them."""


@estimator(
    "2510.01161, algorithm 1",
    anchored="behavior",
    status=lambda over, **_: "published" if over == "harmful" else "reconstruction",
)
class m2po_mask(Adaptive):
    """M2PO, mask form: drop the most extreme log ratios that a step would increase, until the mean square is <= tau.

    Second-moment trust region as a mask: c_it = rho_it A_i, 0 for the harmful tokens with the largest (log rho)^2.
    Harmful: A > 0 and rho > 1, or A < 0 and rho < 1, where a step widens the gap. The largest are dropped until the
    mean of (log rho)^2 = M2 <= tau over the harmful tokens that remain (`over` "harmful"), or over all that remain
    ("all"; only harmful ones can go). Since sorted squares have rising means, keeping every |log rho| <= theta with the
    largest such theta is the rule. Of equal tokens, as tables have many, the paper drops one after the other: here each
    keeps the mean over all orders, that share of them which stays. No draw, same mean direction. Denominators count all
    tokens. The form "all" is a reconstruction. The trace has m2po_theta (nats), m2po_dropped (share of tokens) and
    m2po_nonfinite (parts whose statistic is NaN: their weights are 0).
    """

    tau: Any = _TAU
    over: str = choice("harmful", "all", words="over which tokens the mean runs")

    partly = True

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        parts, rest = self.parts(step), None
        order = _adaptive.widening(step.anchored, advantage, parts)
        broken = order.broken
        if self.over == "all":
            harmful = parts.rows(_adaptive.harmful(_adaptive.outward(step.anchored, advantage), advantage))
            mass = parts.mass.masked_fill(harmful, 0.0).double()
            square = parts.rows(step.anchored).masked_fill(mass == 0, 0.0).double().square_()
            rest = mass.sum(-1), (mass * square).sum(-1)
            broken = broken | rest[1].isnan()
        cut = _adaptive.cut(step, order, self.tau, rest)
        del order
        closed, left = cut.parted(step, parts, _adaptive.outward(step.anchored, advantage), broken)
        return _adaptive.stopped(times(times(self.applied(step), advantage), left), closed)


@estimator("2510.01161, in the form of its released code", anchored="behavior")
class m2po_waterfill(Adaptive):
    """M2PO as released: PPO's clip with bounds exp(+-theta), where water-filling finds theta.

    Second-moment trust region as a clip: c_it = rho_it A_i where rho is inside [exp(-theta), exp(theta)]. The clip
    closes outward only, as PPO's: on harmful tokens (A > 0 and log rho > theta, or A < 0 and log rho < -theta). With v
    = (log rho)^2 of the n harmful tokens ascending, theta is infinite if their mean is at most tau. Otherwise k is the
    first with v_k (n - k - 1) + v_0 + ... + v_k >= tau n and theta = sqrt(v_(k-1)), 0 for k = 0. `exact`: theta^2 = x
    with sum min(v, x) = tau n, which lies in (v_(k-1), v_k]. The release reports the breakpoint below, but no token
    lies between the two. So both close the same tokens (but for v_k = x to the bit). Steps of few tokens, all beyond x,
    lose every harmful one in either form. No dual clip. The release reads the sign of a sequence's first advantage,
    takes 1e-12 off theta^2 (which closes the breakpoint's own token) and has bounds 0.3 and 0.5 on top in some copies.
    Here every token has its own sign, the breakpoint is open and there are no such bounds. The trace has what it has
    for `m2po_mask`; the release sees micro-batches.
    """

    tau: Any = _TAU
    exact: bool = flag("the level is solved for")

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        parts = self.parts(step)
        theta, broken = self._level(_adaptive.widening(step.anchored, advantage, parts))
        closed = _adaptive.outward(step.anchored, advantage) > parts.back(theta)
        _adaptive.report(step, "m2po", theta, closed, broken)
        weight = times(self.applied(step), advantage)
        return _adaptive.stopped(weight, closed.logical_or_(parts.back(broken)))

    def _level(self, order: _adaptive.Ordered) -> tuple[Tensor, Tensor]:
        """Bound theta of each part `[R, K]`, infinite if no clip is needed, and whether its statistic is not finite."""
        masses, squares = order.masses(), order.squares()
        total, second = masses[..., -1], squares[..., -1]
        goal = per_sample(self.tau, 2) * total
        # Sum of mass min(v, v_k) with v = (log rho)^2: what is left if everything above v_k is lowered to it.
        filled = (total.unsqueeze(-1) - masses).mul_(order.value.to(torch.float64, copy=True).square_()).add_(squares)
        before = (filled < goal.unsqueeze(-1)).sum(-1) - 1
        if self.exact:
            rest = total - order.at(masses, before)
            level = (goal - order.at(squares, before)) / torch.where(rest > 0, rest, torch.ones_like(rest))
            theta = level.clamp(min=0.0).sqrt()
        else:
            theta = order.at(order.value, before)
        return torch.where(second <= goal, torch.full_like(theta, math.inf), theta), second.isnan()


@estimator("2510.01161, in the form of AReaL's code", anchor="proximal")
class m2po_areal(Adaptive):
    """M2PO as in AReaL: tokens with large log ratios are dropped, then PPO clips around the proximal policy.

    Second moment of log pi_prox/mu as a mask: c_it = M_it u_it A_i, PPO's clip on u = pi/pi_prox, M 0 if stale. With v
    = (log mu - log pi_prox)^2 of all generated tokens, the largest are dropped until the mean of the rest is below tau;
    one token at least stays. Of equal tokens the release drops one after the other: here each keeps the share of them
    which stays, the mean over all orders. Tokens that a step would pull back are dropped like any others, whatever
    their advantage. Denominators count all tokens; h = pi_prox/mu itself does not enter c. The trace has what it has
    for `m2po_mask`; the release sees micro-batches.
    """

    tau: Any = _TAU
    low: Any = LOW
    high: Any = HIGH

    anchored: ClassVar[bool] = False
    proximal = True
    partly = True

    def applied(self, step: Step) -> Tensor:
        return ratios.usable(step.drift)

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        parts = self.parts(step)
        order = _adaptive.ordered(parts.rows(step.behavior_log_ratio.abs()), None, parts)
        cut, broken = _adaptive.cut(step, order, self.tau, below=True), order.broken
        del order
        closed, left = cut.parted(step, parts, step.behavior_log_ratio.abs(), broken)
        ratio = _adaptive.stopped(self.applied(step), closed)
        del closed
        return times(clipped(ratio, ratio, advantage, *band(self.low, self.high)), left)


@estimator("2607.18722, as described second hand", anchored="behavior", status="reconstruction")
class sat(Adaptive):
    """SAT: PPO's clip, with tighter bounds for tokens whose absolute log ratio exceeds a quantile.

    Clip that adapts to outlying ratios: c_it = rho_it A_i inside [1 - low H, 1 + high H], H < 1 beyond a quantile. With
    x = |log rho| and q its quantile over the tokens (the smallest x at or above that share of them), tokens with x > q
    keep the share H(x) of a bound. It is the upper one for rho > 1 and the lower one for rho < 1. `kernel` "hill": H =
    q^2/(q^2 + x^2), 1/2 at the gate; "continuous": 1/(1 + ((x - q)/q)^2), ours, 1 at the gate. The band lies inside
    PPO's, so the surrogate lies below PPO's token by token, and tokens on their way back keep their gradient. With q =
    0 there is no gate. Reconstruction: the kernel's exact form is unseen. The trace has sat_gate (nats, mean over
    parts) and sat_nonfinite (parts without a finite one: weights 0).
    """

    low: Any = LOW.but(0.2)
    high: Any = HIGH.but(0.2)
    quantile: Any = number(0.9, "share of the tokens", 0.0, 1.0, above=True, remedy="give a share of the tokens")
    kernel: str = choice("continuous", "hill", words="how the band shrinks")

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        parts, log_ratio = self.parts(step), step.anchored
        gate, broken = self._gate(step, parts, _adaptive.ordered(parts.rows(log_ratio.abs()), None, parts))
        share = self._kernel(log_ratio, parts.back(gate).to(log_ratio.dtype))
        ratio = self.applied(step)
        # Only the endpoint on the side of A can close, so that one bound is enough.
        bound = times(share, by_sign(advantage, self.high, -self.low)).add_(1.0)
        still = times(torch.sub(ratio, bound), advantage.sign()).le_(0.0)
        return _adaptive.stopped(times(still.mul_(ratio), advantage), parts.back(broken))

    def _gate(self, step: Step, parts: _adaptive.Parts, order: _adaptive.Ordered) -> tuple[Tensor, Tensor]:
        """Quantile of |log rho| over the tokens of each part `[R, K]`, and whether it is not finite."""
        masses = order.masses()
        goal = per_sample(self.quantile, 3) * masses[..., -1:] * (1.0 - _ROUNDING)
        # At 1 it is the largest, whatever its mass.
        all_of_them = torch.as_tensor(per_sample(self.quantile, 2) == 1.0)
        place = torch.where(all_of_them, order.number[..., 0] - 1, (masses < goal).sum(-1))
        quantile = order.at(order.value, place)
        quantile = torch.where(masses[..., -1] > 0, quantile, torch.zeros_like(quantile))
        broken = ~quantile.isfinite() | order.broken
        gate = torch.where(broken, torch.zeros_like(quantile), quantile)
        step.statistics["sat_gate"] = gate.mean(-1).double()
        step.statistics["sat_nonfinite"] = broken.sum(-1).double()
        return gate, broken

    def _kernel(self, log_ratio: Tensor, gate: Tensor) -> Tensor:
        """Fraction H of the band that a token keeps; 1 up to the gate, and everywhere without a gate."""
        outlying = log_ratio.abs().div_(torch.where(gate > 0, gate, torch.full_like(gate, torch.inf)))
        # Up to the gate the quotient is at most 1, without one it is 0 (or, of infinities, NaN).
        plain = (outlying > 1.0).logical_not_()
        if self.kernel == "continuous":
            outlying.sub_(1.0)
        return outlying.square_().add_(1.0).reciprocal_().masked_fill_(plain, 1.0)


@estimator('2605.12380, and its code for the form "code"', status="reconstruction")
class p3o(Adaptive):
    """P3O: token ratios are capped at the step's normalized ESS, and a KL penalty has weight 1 - ESS.

    Policy-on policy-off optimization: c_it = min(r_it, E) A_i - (1 - E) k_it, E the token ESS of the step. E = (sum
    r)^2 / (n sum r^2) over the n generated tokens, detached and unclipped; below 1 it caps ordinary tokens too. k is
    the slope of an estimate of KL(pi||mu) at tokens of mu. `kl` "ratio": value r (1/r - 1 + l), so k = r l, whose mean
    under mu is the exact gradient of each state's KL(pi||mu). "code": value 1/r - 1 + l without a ratio, k = 1 - 1/r,
    whose mean descends E_mu[mu/pi] - KL(mu||pi) instead. At E = 1 nothing is left of the term. Where E is not finite
    nothing moves (weights 0); the release goes on with E = 1. Reconstruction: the estimate is ours to choose. The trace
    has p3o_ess (mean over parts) and p3o_nonfinite (parts without a finite one); the release sees micro-batches.
    """

    kl: str = choice("ratio", "code", words="how the divergence is estimated")

    anchored: ClassVar[bool] = False

    def applied(self, step: Step) -> Tensor:
        ratio = ratios.usable(step.log_ratio)
        return torch.minimum(ratio, self._ess(step, ratio))

    def score_weight(self, step: Step, advantage: Tensor) -> Tensor:
        ratio = ratios.usable(step.log_ratio)
        ess = self._ess(step, ratio)
        if self.kl == "ratio":
            slope = step.log_ratio.clamp(-ratios.LOG_LIMIT, ratios.LOG_LIMIT).mul_(ratio)
        else:
            slope = ratios.usable(-step.log_ratio).neg_().add_(1.0)
        weight = times(torch.minimum(ratio, ess, out=ratio), advantage).sub_(times(slope, 1.0 - ess))
        return _adaptive.stopped(weight, ess == 0)

    def _ess(self, step: Step, ratio: Tensor) -> Tensor:
        """ESS of each part, broadcast to its samples; 0 where it is not finite."""
        parts = self.parts(step)
        total = parts.mass.sum(-1, dtype=torch.float64)
        rows = parts.rows(ratio)
        weighted = parts.mass * rows
        first = weighted.sum(-1, dtype=torch.float64)
        ess = first * first / (weighted.mul_(rows).sum(-1, dtype=torch.float64) * total)
        del rows, weighted
        if not _unlimited(*torch.aminmax(step.log_ratio)):
            # The limit is one of use: where it binds, the statistic is computed in log space, without it.
            log_ratio = parts.rows(step.log_ratio)
            mass = (parts.mass / total.unsqueeze(-1)).flatten(0, 1)
            each = ratios.ess(log_ratio.flatten(0, 1), mass).reshape(total.shape)
            ess = torch.where(_unlimited(*torch.aminmax(log_ratio, dim=-1)), ess, each)
        # A part without a single token that counts says nothing.
        ess = torch.where(total > 0, ess, torch.ones_like(ess))
        broken = ~ess.isfinite()
        ess = torch.where(broken, torch.zeros_like(ess), ess)
        step.statistics["p3o_ess"] = ess.mean(-1)
        step.statistics["p3o_nonfinite"] = broken.sum(-1).double()
        return parts.back(ess).to(step.mask.dtype)


def _unlimited(least: Tensor, largest: Tensor) -> Tensor:
    """Whether all log ratios in this range are inside the numerical limit."""
    return (least >= -ratios.LOG_LIMIT) & (largest <= ratios.LOG_LIMIT)


def _edge(usual: float, side: str, does: str) -> Any:
    words = f"the {side} bound of the ratio {does} there"
    return number(usual, words, *((0.0, 1.0) if side == "lower" else (1.0, math.inf)), remedy=words)


def _rise(usual: float) -> Any:
    return number(usual, "by how much a bound rises at a time", 0.0, above=True, remedy="give a positive step")


_COUNT = choice("code", "gradient", words="what tokens beyond a bound contribute")
_SEARCH: dict[str, Any] = {
    "anchored": "behavior",
    "joint": rising,
    "raises": "for bounds that start above their cap or more than 1000 steps below it",
}


def _reaches(target: Any) -> Any:
    """A target, shaped for comparison with sums `[R, K, n]`."""
    target = per_sample(target, 2)
    return target if isinstance(target, float) else target.unsqueeze(-1)


@estimator("2510.18927, algorithm 1", status="reconstruction", **_SEARCH)
class bapo_paper(Searched):
    """BAPO, paper form: clip bounds are raised until positive advantages supply a target share of the loss.

    Balanced clipping: c_it = rho_it A_i inside [c_low, c_high], bounds searched until rho_+ >= target. rho_+ =
    sum_{A>0} |s| / sum |s| over tokens, s = rho A with the pessimistic clip: min(rho, c_high) A for A > 0, max(rho,
    c_low) A for A < 0 (`count` "code"). While rho_+ is below the target, c_high rises by high_step up to high_cap, then
    c_low by low_step up to low_cap. Read literally, raising c_low raises the sum of negative tokens and so lowers
    rho_+: once entered, that loop ends at its cap. `count` "gradient" counts what the gradient sees, 0 beyond a bound,
    which rises all along. The clip closes outward only, as PPO's. With `weigh` "behavior" each |s| counts mu(y) times,
    as notes on the full text print the condition. A reconstruction in its edges: the paper takes no shorter last step
    to a cap and stops once c_low cannot be raised. The trace has bapo_low, bapo_high, bapo_share (means over parts) and
    bapo_nonfinite (parts without finite sums: weights 0). The repository has the target 0.5.
    """

    target: Any = number(0.4, "share of positive advantages in the signal", 0.0, 1.0)
    low: Any = _edge(0.6, "lower", "starts")
    low_cap: Any = _edge(0.9, "lower", "ends")
    high: Any = _edge(1.2, "upper", "starts")
    high_cap: Any = _edge(3.0, "upper", "ends")
    count: str = _COUNT
    low_step: Any = _rise(0.02)
    high_step: Any = _rise(0.05)
    weigh: str = choice("none", "behavior", words="by what the signal of a token is multiplied, 1 or its mu(y)")

    def size(self, step: Step, advantage: Tensor) -> Tensor:
        size = super().size(step, advantage)
        if self.weigh == "none":
            return size
        chance = step.behavior["log_prob"].exp()
        return size * torch.where(step.mask > 0, chance, torch.zeros_like(chance))

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        return positive >= _reaches(self.target) * (positive + negative) * (1.0 - _adaptive.ROUNDING)

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """Search order: all upper bounds at the first lower bound, then other lower bounds at the last upper bound."""
        return [0] * highs + [*range(1, lows)], [*range(highs)] + [highs - 1] * (lows - 1)


@estimator("2510.18927, in the form of its released code", **_SEARCH)
class bapo_code(Searched):
    """BAPO as released: the lower clip bound is raised first, and there is a dual clip.

    Balanced clipping as released: c_it = rho_it A_i inside [c_low, c_high], bounds searched until P >= target N. P =
    sum_{A>0} min(rho, c_high) A and N = sum_{A<0} max(rho, c_low) |A| over tokens (`count` "code"). While P < target N,
    c_low rises by low_step up to low_cap, then c_high by high_step up to high_cap. Raising c_low raises N, so the first
    loop moves away from its goal and always ends at the cap, once entered. `count` "gradient" counts nothing for tokens
    beyond a bound, which is what the gradient sees: then P/N rises all along. Tokens with A < 0 and rho > dual get no
    gradient (dual clip). A goal missed by less than 1e-12 of itself is reached, where the release asks for all of it.
    The trace has what it has for `bapo_paper`. The released example has the target 0.5 and steps of 0.1 for the upper
    bound; the release sees micro-batches.
    """

    target: Any = number(1.0, "wanted ratio of positive to negative signal", 0.0)
    low: Any = _edge(0.6, "lower", "starts")
    low_cap: Any = _edge(0.8, "lower", "ends")
    high: Any = _edge(1.2, "upper", "starts")
    high_cap: Any = _edge(2.0, "upper", "ends")
    dual: Any = number(3.0, "the dual clip lies there", 1.0, above=True, remedy="the dual clip lies above the ratio 1")
    count: str = _COUNT
    low_step: Any = _rise(0.05)
    high_step: Any = _rise(0.05)

    def open(self, ratio: Tensor, advantage: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """Mask of tokens that both the clip at the bounds found by the search and the dual clip pass: 1, else 0."""
        below = torch.le(ratio, by_sign(advantage, math.inf, self.dual), out=torch.empty_like(ratio))
        return below.mul_(super().open(ratio, advantage, lowest, highest))

    def reached(self, positive: Tensor, negative: Tensor) -> Tensor:
        return positive >= _reaches(self.target) * negative * (1.0 - _adaptive.ROUNDING)

    def path(self, lows: int, highs: int) -> tuple[list[int], list[int]]:
        """Search order: all lower bounds at the first upper bound, then other upper bounds at the last lower bound."""
        return [*range(lows)] + [lows - 1] * (highs - 1), [0] * lows + [*range(1, highs)]
