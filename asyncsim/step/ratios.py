"""Importance ratios and their statistics, in log space and float64.

Every function takes log weights with a probability mass: `log_weight`, `[R, ..., n]`, and `mass` of the same shape.
Masses have total 1 over all axes but the first (1/n each for n samples). A statistic of a replicate with a weighted log
ratio of NaN or +inf is NaN, so that code acting on it can fail closed. A log ratio of -inf is a weight of 0.
"""

import math

import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.fusing.tape import surely

LOG_LIMIT = 20.0
"""Maximum log ratio that is exponentiated for *use* in a gradient; statistics are never limited."""
LARGE = 1 << 20
"""Number of parameters from which a model is large: vectors of its length are processed in pieces."""
_SUMMED = 1e-12
"""Relative rounding error of a sum of masses: nineteen masses of 1/20 count as 0.95."""


def log_ratio(current: Tensor, anchor: Tensor, mask: Tensor) -> Tensor:
    """Token log ratios l = log pi - log anchor, exactly 0 where the mask is 0, `[R, G, N, T]`.

    Values on masked tokens (infinities, NaN) do not matter. A token that neither policy can draw any more (both
    -inf, outside the nucleus of either) has no ratio: 0.
    """
    return torch.where((mask > 0) & (current != anchor), current - anchor, torch.zeros((), dtype=current.dtype))


def usable(log_weight: Tensor) -> Tensor:
    """Importance ratio for use in a gradient: exp of the log ratio, which is limited to +-LOG_LIMIT."""
    return log_weight.clamp(-LOG_LIMIT, LOG_LIMIT).exp_()


def ess(log_weight: Tensor, mass: Tensor, clamp: float | None = None, low: float | None = None) -> Tensor:
    """Effective sample size divided by the number of samples, (E w)^2 / E w^2, `[R]`.

    Invariant to a common factor of the weights (no additive epsilon), 1 iff the weights are equal, at least 1/n. With
    `clamp` = C the weights are first limited to [low, C], `low` 1/C by default. Such an ESS cannot fall below
    4/(C + 1/C)^2 (`ess/clamp-floor`); with `low` = 0 it can. `log_weight` (nats) and `mass` are `[R, n]` or have more
    axes behind R; masses of a row sum to 1, or all are 0. Raises `InputError` for other masses `[R, n]`.

    >>> log_weight = torch.tensor([[1.0, 3.0]], dtype=torch.float64).log()
    >>> round(ess(log_weight, torch.full((1, 2), 0.5, dtype=torch.float64)).item(), 12)
    0.8

    Source: Kong 1992; 2602.17616 for its use on sequence ratios of a whole step.
    """
    # Numbers at hand have two axes. The masses of a run have more and sum to 1, and its updates wait for no check.
    total = mass.sum(-1, dtype=torch.float64) if mass.dim() == 2 else None
    # A dropped step has no mass; a sum of float32 rounds.
    if total is not None and surely(lambda: bool((((total - 1.0).abs() > 1e-6) & (total != 0.0)).any())):
        one = "write mask / mask.sum(-1, keepdim=True) for a number a row; for one of all tokens x.reshape(1, -1) and"
        one += " (mask / mask.sum()).reshape(1, -1); for one of n sequences (x * mask).sum(-1).reshape(1, -1) and 1 / n"
        raise checks.InputError("mass, total of each row", total[:3].tolist(), "1", one)
    if clamp is not None:
        least = 1.0 / clamp if low is None else low
        log_weight = log_weight.clamp(math.log(least) if least > 0.0 else -math.inf, math.log(clamp))
    scaled, _ = _scale(log_weight, mass)
    flat_mass = _flat(mass)
    return _square_over((flat_mass * scaled).sum(-1), (flat_mass * scaled * scaled).sum(-1))


def nothing(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Whether every weight with mass is 0, bool `[R]`, so that normalized weights are undefined."""
    present = _flat(mass) > 0
    return present.any(-1) & ((_flat(log_weight) == -math.inf) | ~present).all(-1)


def mean_weight(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Mean importance weight E w, `[R]`; 1 under full support at any staleness, unless log-probs are wrong."""
    scaled, shift = _scale(log_weight, mass)
    return (_flat(mass) * scaled).sum(-1) * torch.exp(shift)


def log_mean_weight(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Log of the mean weight, log E w, `[R]`, which is finite even if E w overflows; -inf if every weight is 0."""
    scaled, shift = _scale(log_weight, mass)
    return (_flat(mass) * scaled).sum(-1).log() + shift


def standard_deviation(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Population standard deviation of the importance weights, `[R]`; infinite if it overflows a float."""
    scaled, shift = _scale(log_weight, mass)
    flat_mass = _flat(mass)
    mean = (flat_mass * scaled).sum(-1, keepdim=True)
    return (flat_mass * (scaled - mean) ** 2).sum(-1).sqrt() * torch.exp(shift)


def chi_square(log_weight: Tensor, mass: Tensor) -> Tensor:
    """Chi-square divergence of the importance weights, E w^2 - 1, `[R]`."""
    scaled, shift = _scale(log_weight, mass)
    # One factor after the other: E w^2 of a population may be finite where the square of its largest weight is not.
    return (_flat(mass) * scaled * scaled).sum(-1) * shift.exp() * shift.exp() - 1.0


def max_weight_share(log_weight: Tensor, mass: Tensor, samples: Tensor | float | None = None) -> Tensor:
    """Maximum share of one sample in the total weight, `[R]`: max w / (n E w) for a mass of n = `samples` samples.

    `samples`: a number, or `[R]`. A sample of a population (n infinite) has no share. By default every entry is one
    sample with its mass, max m w / sum m w.
    """
    scaled, _ = _scale(log_weight, mass)
    weighted = _flat(mass) * scaled
    largest = weighted.max(-1).values if samples is None else scaled.max(-1).values / samples
    return largest / weighted.sum(-1)


def log_moments(log_weight: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the log weights, by mass, each `[R]`; -inf and inf if a weight is 0."""
    flat, flat_mass = _flat(log_weight.double()), _flat(mass)
    flat = torch.where(flat_mass > 0, flat, torch.zeros((), dtype=flat.dtype))
    lost = (flat == -math.inf).any(-1) & ~torch.isnan(flat).any(-1) & (flat < math.inf).all(-1)
    mean = torch.where(flat_mass > 0, flat_mass * flat, flat).sum(-1)
    variance = (flat_mass * (flat - mean.unsqueeze(-1)) ** 2).sum(-1)
    return mean, torch.where(lost, torch.full((), math.inf, dtype=variance.dtype), variance)


def quantile(log_weight: Tensor, mass: Tensor, level: float) -> Tensor:
    """Quantile of the log weights by mass, `[R]`: the smallest at which the cumulative mass reaches `level`."""
    flat, flat_mass = _flat(log_weight.double()), _flat(mass)
    flat_mass = flat_mass.double().expand(flat.shape)
    present = flat_mass > 0
    ordered, order = flat.sort(-1)
    ordered_mass = flat_mass.gather(-1, order)
    total = ordered_mass.sum(-1, keepdim=True)
    # Sum from the nearer end: the masses of a population differ by any factor, and small ones vanish in large sums.
    if level <= 0.5:
        reached = ordered_mass.cumsum(-1) >= level * (1.0 - _SUMMED) * total
    else:
        above = torch.nn.functional.pad(ordered_mass.flip(-1).cumsum(-1)[:, :-1], (1, 0)).flip(-1)
        # A level below 1 is known to its last bit.
        reached = above <= ((1.0 - level) * (1.0 + _SUMMED) + (2.0**-54 if level < 1.0 else 0.0)) * total
    value = ordered.gather(-1, (reached & (ordered_mass > 0)).to(torch.int8).argmax(-1, keepdim=True))[:, 0]
    broken = (present & torch.isnan(flat)).any(-1) | ~present.any(-1)
    return torch.where(broken, torch.full((), math.nan, dtype=flat.dtype), value)


def beyond(log_weight: Tensor, mass: Tensor, bound: float, side: str) -> Tensor:
    """Total mass of the samples whose weight is above or below a bound, `[R]`; NaN if a log weight is NaN."""
    flat, flat_mass = _flat(log_weight.double()), _flat(mass)
    limit = math.log(bound) if bound > 0.0 else -math.inf
    outside = flat > limit if side == "above" else flat < limit
    broken = ((flat_mass > 0) & torch.isnan(flat)).any(-1)
    total = torch.where(outside, flat_mass, torch.zeros((), dtype=flat_mass.dtype)).sum(-1)
    return torch.where(broken, torch.full((), math.nan, dtype=torch.float64), total.double())


def ess_along(log_weight: Tensor, mass: Tensor, dim: int) -> Tensor:
    """ESS divided by the mass along one axis; 0 if all weights are 0, NaN without mass or with NaN or inf."""
    present = mass > 0
    log_weight = torch.where(present, log_weight.double(), torch.full((), -math.inf, dtype=torch.float64))
    shift = log_weight.amax(dim, keepdim=True)
    lost = shift == -math.inf
    scaled = torch.exp(log_weight - torch.where(lost, torch.zeros_like(shift), shift))
    value = _square_over((mass * scaled).sum(dim), (mass * scaled * scaled).sum(dim) * mass.sum(dim))
    return torch.where(lost.squeeze(dim) & present.any(dim), torch.zeros_like(value), value)


def tail(log_weight: Tensor, mass: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Tail of the log weights: m = ceil(min(n/5, 3 sqrt n)) `[R, 1]`, the m + 1 largest, and a mask of the first m."""
    flat = _flat(log_weight.double())
    present = torch.ones_like(flat, dtype=torch.bool) if mass is None else (_flat(mass) > 0).expand(flat.shape)
    count = present.sum(-1, keepdim=True).double()
    m = torch.minimum(count / 5, 3 * count.sqrt()).ceil().long()
    most = int(m.max())
    finite = torch.where(present, flat, torch.full_like(flat, -math.inf))
    top = finite.topk(min(most + 1, flat.shape[-1]), dim=-1).values
    return m, top, torch.arange(top.shape[-1], device=flat.device) < m


def tail_index(log_weight: Tensor, mass: Tensor | None = None) -> Tensor:
    """Hill estimate of the tail exponent of the weights from the largest m = ceil(min(n/5, 3 sqrt n)), `[R]`.

    1/alpha = mean of log w over the m largest minus the log of the (m+1)-th largest, which is not one of the m.
    Infinite if the m+1 largest are equal; NaN with fewer than 6 samples (m < 2). Samples of `mass` 0 do not count.
    Source: Hill 1975; the choice of m as in 1507.02646.
    """
    m, top, largest = tail(log_weight, mass)
    if top.shape[-1] <= 2:
        return torch.full(m.shape[:1], math.nan, dtype=torch.float64)
    mean, least = torch.where(largest, top, torch.zeros_like(top)).sum(-1) / m[:, 0], top.gather(-1, m)[:, 0]
    # Weights of 0 are equal as well.
    exponent = 1.0 / torch.where(mean == least, torch.zeros_like(mean), mean - least)
    return torch.where(m[:, 0] < 2, torch.full_like(exponent, math.nan), exponent)


def pareto_k(log_weight: Tensor, mass: Tensor | None = None) -> Tensor:
    """Shape k of the generalized Pareto distribution fitted to the largest m = ceil(min(n/5, 3 sqrt n)) weights, `[R]`.

    x are the m largest weights less the (m+1)-th. k = mean log(1 - b x) at the posterior mean of b over Zhang and
    Stephens' grid, where its likelihood has the exponent m (log(-b/k) - k - 1). It is shrunk to (m k + 5)/(m + 10).
    NaN with fewer than 21 samples, or if the lower quartile of x is 0: equal weights have no tail to fit.
    Samples of `mass` 0 do not count. Source: 1507.02646; Zhang and Stephens 2009 for the fit.
    """
    m, top, used = tail(log_weight, mass)
    if top.shape[-1] <= 5:
        return torch.full(m.shape[:1], math.nan, dtype=torch.float64)
    # Take the exceedances, the largest first and 1.
    excess = (top - top[:, :1]).exp() - (top.gather(-1, m) - top[:, :1]).exp()
    x = torch.where(used, excess, torch.zeros_like(excess)) / excess[:, :1]
    quarter = x.gather(-1, m - (m / 4 + 0.5).long())
    size = 30 + m.double().sqrt().long()
    grid = torch.arange(1, int(size.max()) + 1, device=top.device).double()
    b = 1.0 + (1.0 - (size / (grid - 0.5)).sqrt()) / (3.0 * quarter)
    k = torch.stack([(-b[:, j : j + 1] * x).log1p().sum(-1) for j in range(b.shape[1])], dim=-1) / m
    likelihood = torch.where(grid <= size, m * ((-b / k).log() - k - 1.0), torch.full_like(b, -math.inf))
    best = (likelihood.softmax(-1) * torch.where(grid <= size, b, torch.zeros_like(b))).sum(-1, keepdim=True)
    shape = (-best * x).log1p().sum(-1) / m[:, 0]
    shrunk = (m[:, 0] * shape + 5.0) / (m[:, 0] + 10.0)
    return torch.where((m[:, 0] >= 5) & (quarter[:, 0] > 0), shrunk, torch.full_like(shrunk, math.nan))


def norm(vector: Tensor) -> Tensor:
    """Euclidean norm of each replicate's vector, `[R]`, accumulated in float64."""
    pieces = [each.double().norm(dim=-1) for each in _pieces(vector)]
    return pieces[0] if len(pieces) == 1 else torch.stack(pieces, -1).norm(dim=-1)


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """Cosine of the angle between each replicate's two vectors, `[R]`; NaN, never 0, if one is zero or not finite."""
    pairs = zip(_pieces(first), _pieces(second), strict=True)
    parts = [(one.double() * other.double()).sum(-1) for one, other in pairs]
    inner = parts[0] if len(parts) == 1 else torch.stack(parts, -1).sum(-1)
    lengths = norm(first) * norm(second)
    return torch.where(lengths > 0, inner / lengths, torch.full((), math.nan, dtype=torch.float64))


def _pieces(vector: Tensor) -> tuple[Tensor, ...]:
    """Split vectors `[R, P]` of large models: a full float64 copy would take the memory of Adam's state."""
    size = vector.shape[-1]
    return (vector,) if size <= LARGE else vector.split(max(LARGE // 8, size // 16), dim=-1)


def _square_over(first: Tensor, second: Tensor) -> Tensor:
    """first^2 / second, without underflow of the square, as in a population whose rarest outcome has all the weight."""
    return torch.where(first > 1e-150, first * first / second, first / second * first)


def _flat(values: Tensor) -> Tensor:
    remedy = "write x.reshape(1, -1) of the log weights x, and torch.full_like(x, 1 / x.numel()) as their mass"
    checks.require(values.ndim > 1, "shape", list(values.shape), "[R, n], a row for each replicate", remedy)
    return values.reshape(values.shape[0], -1)


def _scale(log_weight: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Weights divided by their maximum `[R, n]` and the log of that maximum `[R]`; entries of mass 0 are ignored."""
    flat, flat_mass = _flat(log_weight.double()), _flat(mass)
    if flat_mass.shape[0] != flat.shape[0]:
        flat_mass = flat_mass.expand(flat.shape[0], -1)
    flat = torch.where(flat_mass > 0, flat, torch.full((), -math.inf, dtype=flat.dtype))
    shift = flat.max(-1).values
    # Where every weight is 0 there is nothing to divide by.
    largest = torch.where(shift == -math.inf, torch.zeros_like(shift), shift)
    return torch.exp(flat - largest.unsqueeze(-1)), largest
