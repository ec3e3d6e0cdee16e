"""Advantages: estimators of the advantage, such as baselines, group normalization and GAE."""

from typing import Literal

from asyncsim.advantages._advantage import Advantage
from asyncsim.advantages._advantage import advantage as advantage
from asyncsim.advantages._advantage import from_function as from_function
from asyncsim.base.knobs import Number

def gae(discount: Number = 0.99, trace: Number = 0.95, normalize: bool = False) -> Advantage:
    """Generalized advantage estimation: discounted sums of the critic's temporal-difference errors in an episode."""

def group_mean(shift: Number = 0.0) -> Advantage:
    """Group mean: A = r - (mean reward of the group + shift)."""

def group_std(eps: float = 1e-06, unbiased: bool = False) -> Advantage:
    """Group mean and standard deviation: A = (r - mean) / (std + eps)."""

def leave_one_out() -> Advantage:
    """Leave-one-out: A = r - mean reward of the other samples in the group."""

def maxrl(eps: float = 1e-06) -> Advantage:
    """MaxRL: A = (r - group mean) / group mean; rare successes count as in a log-likelihood."""

def mean() -> Advantage:
    """Batch mean: A = r - mean reward of the full step."""

def n_step(steps: int = 5, discount: Number = 0.99) -> Advantage:
    """n-step returns: the rewards of n steps, plus the critic's value after them."""

def none() -> Advantage:
    """No baseline: A = r."""

def offset(v: Number) -> Advantage:
    """A fixed baseline v: A = r - v."""

def opo(leave_one_out: bool = False) -> Advantage:
    """Length-weighted group mean (OPO): A = r - sum_j T_j r_j / sum_j T_j."""

def opob(
    scope: Literal["group", "step"] = "group",
    robust: Literal["none", "median", "winsorized"] = "none",
    leave_one_out: bool = False,
    standardize: bool = False,
) -> Advantage:
    """OPOB, a plug-in optimal baseline: each reward is weighted by the squared norm of its applied score vector."""

def otb(where: Literal["inside", "outside"] = "inside", alone: Literal["none", "own"] = "none") -> Advantage:
    """OTB, optimal token baseline: at each position, a mean return weighted by the accumulated squared score."""

def pass_at_k(k: int = 2, standardize: bool = False) -> Advantage:
    """Pass@k: A = mean of the maximum reward of k samples with this sample, minus that of k samples without it."""

def reinforce_plus_plus(
    baseline: Literal["none", "group"] = "none", discount: Number = 1.0, unbiased: bool = False
) -> Advantage:
    """REINFORCE++: returns of tokens, standardized over the full step, with or without the group mean."""

def remax() -> Advantage:
    """ReMax, with the greedy response's reward as baseline: A = r - r(greedy)."""

def retrace(discount: Number = 0.99, trace: Number = 1.0) -> Advantage:
    """Retrace: returns corrected by an action-value critic, cut where the policy has moved away from an action."""

def returns_to_go(discount: Number = 1.0, baseline: Literal["none", "batch"] = "none") -> Advantage:
    """Sum of rewards from each token to the end of its episode."""

def self_normalized(leave_one_out: bool = False) -> Advantage:
    """Self-normalized baseline: the ratio-weighted mean reward of the group."""

def soft_value(temperature: Number = 1.0) -> Advantage:
    """Soft value: A = r - beta log mean exp(r / beta)."""

def vtrace(discount: Number = 0.99, trace: Number = 1.0, rho_cap: Number = 1.0, trace_cap: Number = 1.0) -> Advantage:
    """V-trace: truncated ratios correct the returns of stale data towards the values of the current policy."""
