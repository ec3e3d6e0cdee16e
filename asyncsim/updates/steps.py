"""Links that make the step of a gradient, or change its size."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import choice, flag, number, whole
from asyncsim.step import ratios
from asyncsim.updates import _link
from asyncsim.updates._link import Record, State, Stateless, link

_RATE = "give a non-negative learning rate; a schedule is a link behind it, lr_schedule"
LR = number(..., "learning rate in units of parameter per direction", 0.0, remedy=_RATE)
EPS = number(1e-8, "in units of the gradient", 0.0, varies=False, remedy="use a small non-negative number")
_POWERS = {"sqrt": 0.5, "linear": 1.0}
_BELOW = 1.0 - 1e-12


def _factor(usual: float) -> Any:
    return number(usual, "factor below 1", 0.0, _BELOW, remedy="give a factor below 1")


@link("textbook")
class sgd(Stateless):
    """Plain SGD: multiply the gradient by a learning rate.

    Gradient ascent: theta <- theta + lr * direction.
    """

    lr: Any = LR

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        record.direction = record.direction * self.lr
        return record, state


@link("Polyak 1964 (textbook)")
class momentum:
    """Heavy-ball momentum without dampening: the direction becomes a decaying sum of gradients.

    Heavy ball: m <- beta m + g, direction m (no factor 1 - beta on g). With `sgd(lr)` behind it: x_(t+1) = x_t + beta
    (x_t - x_(t-1)) + lr g_t.
    """

    beta: Any = number(..., "pure number", 0.0, 1.0, remedy="give a factor in [0, 1]")

    def init(self, parameters: Tensor) -> State:
        return {"velocity": torch.zeros_like(parameters)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        record.direction = self.beta * state["velocity"] + record.direction
        return record, {"velocity": record.direction}


class Moments:
    """Base of update links with Adam's step; subclasses declare the knobs."""

    lr: Any
    beta1: Any
    beta2: Any
    eps: float

    def init(self, parameters: Tensor) -> State:
        """Initial state of Adam: zero moments `[R, P]`, and a count `[R, 1]` of updates."""
        zeros = torch.zeros_like(parameters)
        count = torch.zeros((parameters.shape[0], 1), dtype=torch.float64, device=parameters.device)
        return {"first": zeros, "second": zeros.clone(), "count": count}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Replace the update direction by Adam's step; return the new state."""
        g = record.direction
        if self.eps > 0.0 and _link.one_kernel(record, self.lr, self.beta1, self.beta2):
            knobs = (self.lr, self.beta1, self.beta2, self.eps)
            record.direction = _link.in_one(g, state["first"], state["second"], state["count"], *knobs)
            return record, {**state, "count": state["count"] + 1.0}
        count = state["count"] + 1.0
        zero = torch.zeros_like(count)
        lr, beta1, beta2 = zero + self.lr, zero + self.beta1, zero + self.beta2
        size, scale = lr / (1.0 - beta1**count), 1.0 / (1.0 - beta2**count)
        record.direction, first, second = _link.moved(
            g, state["first"], state["second"], beta1, beta2, size, scale, self.eps, record.spare
        )
        return record, {"first": first, "second": second, "count": count}


@link("1412.6980, algorithm 1")
class adam(Moments):
    """Adam: the bias-corrected first moment divided by the root of the second, times the learning rate.

    Adam with bias correction: step = lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). m <- beta1 m + (1 -
    beta1) g, v <- beta2 v + (1 - beta2) g^2; t counts updates that were not skipped. A uniform factor on the gradient
    before it is nearly without effect; put step controls behind it.
    """

    lr: Any = LR
    beta1: Any = _factor(0.9)
    beta2: Any = _factor(0.999)
    eps: float = EPS


@link("1711.05101, algorithm 2")
class adamw(Moments):
    """Adam with decoupled weight decay, which shrinks the parameters in addition to Adam's step.

    step = lr (m_hat / (sqrt(v_hat) + eps) - weight_decay theta), moments as in `adam`. Every parameter decays, norms
    and embeddings too. `lr_schedule` behind it scales the decay as well, as a learning rate would.
    """

    lr: Any = LR
    weight_decay: Any = number(0.01, "share of a parameter that is lost per update, per unit of lr", 0.0)
    beta1: Any = _factor(0.9)
    beta2: Any = _factor(0.999)
    eps: float = EPS

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        record, state = Moments.apply(self, record, state)
        step, shrink = record.direction, (torch.zeros_like(state["count"]) + self.lr) * self.weight_decay
        record.direction = step - shrink.to(step.dtype) * record.step.parameters.to(step.dtype)
        return record, state


@link("textbook (1211.5063, algorithm 1)", reports="norm_before_clip")
class clip_norm(Stateless):
    """Clip the Euclidean norm of the update direction.

    One global norm over all parameters: g <- g min(1, limit / |g|).
    """

    limit: Any = number(1.0, "norm in units of the direction", 0.0, above=True, remedy="give a positive norm")

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        length = _link.norm(record.direction)
        record.statistics["norm_before_clip"] = length[:, 0]
        # A zero direction gives limit / 0 = inf, clamped to 1. A plain number is made a tensor because torch divides it
        # by way of a reciprocal, rounded twice: one limit for all would differ from the same limit for each.
        limit = (torch.zeros_like(length) + self.limit).to(length.dtype)
        record.direction = record.direction * torch.clamp(limit / length, max=1.0)
        return record, state


@link("textbook (loss scaling of 1710.03740 skips so)", reports="skip_nonfinite_skipped, 0 or 1")
class skip_nonfinite(Stateless):
    """Skip the update of a replicate whose direction is not finite.

    Skip the update where the direction is not finite: step = 0 where any g_p is NaN or infinite, else unchanged.
    Without it a replicate that meets one such direction stays where it is from then on. The update counts and
    publishes; links behind keep their state, but those that compare directions forget their reference. Put it first.
    """

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        broken = ~torch.isfinite(record.direction).all(-1)
        record.statistics["skip_nonfinite_skipped"] = broken.double()
        # The direction stays as it is: links behind see that it was lost, not merely skipped.
        record.skip = record.skip | broken
        return record, state


@link("this package", reports="scale")
class scale(Stateless):
    """Multiply the learning rate by a constant: a control for adaptive rules, with their mean scale as the constant.

    Constant control: step <- factor * step. Give it the mean of the scales that `ess_step` or `staleness_step`
    reported, at the same place in the chain. The remaining difference is due to adapting, not to a smaller step.
    """

    factor: Any = number(1.0, "pure number", 0.0, remedy="give a non-negative factor")

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        size = record.direction.shape[:1]
        factor = torch.zeros((*size, 1), dtype=torch.float64, device=record.direction.device) + self.factor
        record.statistics["scale"] = factor[:, 0]
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, state


@link("2206.07638, 2206.08307", reports="staleness_step_scale, a pure number")
class staleness_step(Stateless):
    """Divide the learning rate by the maximum staleness of the batch in updates.

    Delay-adaptive step: step <- step / max(1, tau), tau the largest update staleness in the batch. Put it behind
    `adam`: a factor on the gradient before it is nearly without effect.
    """

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        scale = 1.0 / record.step.update_staleness.clamp(min=1.0)
        record.statistics["staleness_step_scale"] = scale
        record.direction = record.direction * scale.unsqueeze(-1).to(record.direction.dtype)
        return record, state


@link("1909.12340", reports="lr_by_lag_scale, a pure number")
class lr_by_lag:
    """Divide the learning rate by the maximum staleness in updates of the run so far.

    Step size by maximum lag: step <- step / max(1, S), S the largest update staleness realized so far. The stable step
    of delayed gradient descent falls as 1/S, and S is realized, not configured. The scale never rises again
    (`staleness_step` follows each batch). Put it behind `adam`.
    """

    def init(self, parameters: Tensor) -> State:
        R = parameters.shape[0]
        return {"largest": torch.zeros((R, 1), dtype=torch.float64, device=parameters.device)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        largest = torch.maximum(state["largest"], record.step.update_staleness.unsqueeze(-1))
        scale = 1.0 / largest.clamp(min=1.0)
        record.statistics["lr_by_lag_scale"] = scale[:, 0]
        record.direction = record.direction * scale.to(record.direction.dtype)
        return record, {"largest": largest}


@link("2602.17616", reports="ess_step_scale, ess_step_broken, ess_step_ess and ess_step_log_mean (nats)")
class ess_step(Stateless):
    """Scale the learning rate by the effective sample size of the batch (VCPO).

    VCPO's step rule: step <- step * min(1, rho / reference)^power, rho = ESS/N of the unclipped sequence ratios. rho
    pools all groups of the optimizer step; power is 1/2 for "sqrt" (behind `adam`) and 1 for "linear" (behind `sgd`).
    Never raises the step; no lower limit. With a deadband D the scale is 1 while rho >= reference / D and jumps to the
    rule below (a continuous band would be the rule with a smaller reference). Where rho is not finite the scale is
    `floor`, or the update is skipped. rho is blind to a common factor of the ratios, so log E W is reported beside.
    Assumes a policy with log-probs.
    """

    rule: str = choice("sqrt", "linear", words="the rule", remedy="sqrt goes with adam, linear with sgd")
    reference: Any = number(
        1.0, "on-policy ESS/N, to be measured where engine mismatch makes it differ from 1", 0.0, 1.0, above=True
    )
    floor: Any = number(0.1, "scale for an ESS that is not finite", 0.0, 1.0)
    deadband: Any = number(1.0, "pure number, 3 in a fork of the release", 1.0, remedy="1 is no band")
    on_broken: str = choice("floor", "skip", words="what an ESS that is not finite does")

    outputs = ("log_prob",)

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        """Scale the update direction; report the scale, the ESS, and quantities that the ESS cannot detect."""
        log_weight, mass = record.step.sequence_log_ratio, record.step.step_mass
        ess = ratios.ess(log_weight, mass)
        scale, broken = self._scale(ess.unsqueeze(-1))
        if self.on_broken == "skip":
            record.skip = record.skip | broken[:, 0]
        record.statistics["ess_step_scale"] = scale[:, 0]
        record.statistics["ess_step_broken"] = broken[:, 0].double()
        record.statistics["ess_step_ess"] = ess
        record.statistics["ess_step_log_mean"] = ratios.log_mean_weight(log_weight, mass)
        record.direction = record.direction * scale.to(record.direction.dtype)
        return record, state

    def _scale(self, ess: Tensor) -> tuple[Tensor, Tensor]:
        """Scale `[R, 1]`, and whether the ESS was not finite."""
        scale = torch.clamp(ess / self.reference, max=1.0)
        # At the edge of the band rounding must not decide, and without a band there is none.
        scale = torch.where(ess * self.deadband >= self.reference, torch.ones_like(scale), scale)
        scale = scale ** _POWERS[self.rule]
        # Fail closed: a statistic that is not finite brakes as hard as allowed, and is counted.
        broken = ~torch.isfinite(scale) | ~torch.isfinite(ess)
        lowest = torch.as_tensor(self.floor, dtype=scale.dtype).expand_as(scale)
        return torch.where(broken, lowest, scale), broken


@link(
    "the idea of 2603.01501 from its abstract; thresholds, projection and reference are ours and are options",
    reports="align_cosine, align_projected, align_skipped and align_invalid",
)
class align:
    """Gradient alignment control: project or skip the update when consecutive gradients align (a reconstruction).

    Project or skip by kappa = cos(g_t, g_ref): kappa <= low: unchanged; low < kappa <= high: g - strength (<g,
    g_ref>/|g_ref|^2) g_ref, or with removal "shrink" (needs low in [0, 1)) as much of that as leaves kappa = low
    (strength 1); kappa > high: skip the update. Without a valid kappa (first update, a gradient that is zero or not
    finite, here or one update before) the update passes as it is and is counted as invalid. Such a gradient clears the
    reference, also where `skip_nonfinite` stands before.

    Placement: before `adam` raw gradients are compared and the projection reaches both moments. The second shrinks,
    which inflates the step along the old direction. Behind `adam` steps are compared, and momentum alone aligns them.
    `high=1.0` never skips, `low=0.0, high=1.0` is full projection; `low` has to exceed the cosine of unrelated vectors,
    about 1/sqrt(P). Gradients of a large batch align without any staleness: take `high` above the cosine of the
    synchronous run. A skipped update leaves the policy where it is, so that the next gradient is much the same and is
    skipped as well: after `max_skips` skips one update passes as it is.
    """

    low: Any = number(0.05, "cosine up to which updates pass", -1.0, 1.0, remedy="give a cosine")
    high: Any = number(1.0, "cosine above which updates are skipped", -1.0, 1.0, remedy="give a cosine; 1 never skips")
    strength: Any = number(1.0, "pure number", 0.0, remedy="1 removes the whole component")
    reference: str = choice("raw", "applied", words="which direction is remembered")
    refresh: bool = flag("a skipped update renews the reference", True)
    removal: str = choice("project", "shrink", words="how much of the parallel part is removed")
    max_skips: Any = whole(None, "most skips in a row, None for any number", 1, optional=True)

    @staticmethod
    def joint(low: Any, high: Any, removal: str, **_: Any) -> None:
        """Require low <= high, and low in [0, 1) for shrinking, which keeps the direction's sign."""
        crossed, told = np.any(np.asarray(low) > np.asarray(high)), f"{high:g}" if isinstance(high, float) else high
        checks.require(not crossed, "low", low, f"at most high = {told}", "projection comes before skipping")
        inside = np.all((np.asarray(low) >= 0.0) & (np.asarray(low) < 1.0))
        fits = removal == "project" or bool(inside)
        checks.require(fits, "low", low, "in [0, 1) for removal='shrink'", "shrinking keeps the sign")

    def init(self, parameters: Tensor) -> State:
        count = torch.zeros((parameters.shape[0], 1), dtype=torch.int64, device=parameters.device)
        return {"reference": torch.zeros_like(parameters), "skips": count}

    def lost(self, state: State, flag: Tensor) -> State:
        return {**state, "reference": _link.forgotten(state["reference"], flag)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        g, previous = record.direction, state["reference"]
        kappa, inner = _link.cosine(g, previous)
        # NaN (no reference, zero or broken gradient) compares false twice: the update passes as it is.
        skip, project = kappa > self.high, (kappa > self.low) & ~(kappa > self.high)
        if self.max_skips is not None:
            skip = skip & (state["skips"] < self.max_skips)
        applied = torch.where(project, g - self._removed(kappa, inner, previous).to(g.dtype), g)
        invalid = torch.isnan(kappa)
        for name, which in (("projected", project), ("skipped", skip), ("invalid", invalid)):
            record.statistics[f"align_{name}"] = which[:, 0].double()
        record.statistics["align_cosine"] = kappa[:, 0]
        record.direction, record.skip = applied, record.skip | skip[:, 0]
        reference = _link.remembered({"raw": g, "applied": applied}[self.reference])
        # A skipped update applies nothing, so it has no applied direction to remember.
        renews = skip.logical_not() | (self.refresh and self.reference == "raw")
        skips = torch.where(skip, state["skips"] + 1, torch.zeros_like(state["skips"]))
        return record, {"reference": torch.where(renews, reference, previous), "skips": skips}

    def _removed(self, kappa: Tensor, inner: Tensor, previous: Tensor) -> Tensor:
        """Component along the reference that is removed from the gradient."""
        square = (previous.double() ** 2).sum(-1, keepdim=True)
        along = self.strength * inner / torch.where(square > 0, square, torch.ones_like(square))
        if self.removal == "shrink":
            # a' / sqrt(a'^2 + b^2) = low with the orthogonal part b kept: of a = |g| kappa remains a' = b tan.
            low = torch.as_tensor(self.low, dtype=kappa.dtype)
            remains = low * (1.0 - kappa**2).clamp(min=0.0).sqrt() / (kappa * (1.0 - low**2).sqrt())
            along = along * (1.0 - remains)
        return along * previous


@link("textbook", reports="lr_schedule_scale, a pure number")
class lr_schedule:
    """Warm-up and decay of the learning rate, by a factor that depends on the update number.

    step <- f_t step, t = 0, 1, ... counts updates that were not skipped. f_t = (t + 1) / warmup in the first `warmup`
    updates. Behind them, with p the share of the remaining updates up to `updates` that is over, f_t = floor + (1 -
    floor) g: g = 1 for "constant", 1 - p for "linear", (1 + cos(pi p)) / 2 for "cosine"; from update `updates` on it
    stays. Put it behind `adam`, `adamw` or `sgd`, whose learning rate is then the highest.
    """

    warmup: int = whole(
        *(0, "updates of the warm-up", 0, checks.LARGEST),
        remedy="0 begins with the whole rate; the form is decay='linear' or 'cosine', updates= is its end",
    )
    decay: str = choice("constant", "linear", "cosine", words="how it falls")
    updates: int | None = whole(None, "updates at whose end the decay is over", 1, checks.LARGEST, optional=True)
    floor: Any = number(0.0, "share of the learning rate that is left at the end", 0.0, 1.0)

    @staticmethod
    def joint(warmup: int, decay: str, updates: int | None, **_: Any) -> None:
        """Require a decay to have an end, which comes after the warm-up."""
        if decay == "constant":
            return
        checks.require(updates is not None, "updates", updates, "given for a decay", "give the updates of the run")
        assert updates is not None
        checks.require(updates > warmup, "updates", updates, f"more than warmup = {warmup}", "shorten the warm-up")

    def init(self, parameters: Tensor) -> State:
        return {"count": torch.zeros((parameters.shape[0], 1), dtype=torch.float64, device=parameters.device)}

    def apply(self, record: Record, state: State) -> tuple[Record, State]:
        count = state["count"]
        factor = torch.clamp((count + 1.0) / max(1, self.warmup), max=1.0)
        if self.decay != "constant":
            assert self.updates is not None
            over = torch.clamp((count - self.warmup) / (self.updates - self.warmup), 0.0, 1.0)
            left = 1.0 - over if self.decay == "linear" else 0.5 * (1.0 + torch.cos(math.pi * over))
            factor = factor * (self.floor + (1.0 - self.floor) * left)
        record.statistics["lr_schedule_scale"] = factor[:, 0]
        record.direction = record.direction * factor.to(record.direction.dtype)
        return record, {"count": count + 1.0}
