"""Diagnostics: metrics, one number per replicate and recorded update."""

from typing import Literal

from asyncsim.diagnostics._diagnostic import ANY as ANY
from asyncsim.diagnostics._diagnostic import POSITIVE as POSITIVE
from asyncsim.diagnostics._diagnostic import SHARE as SHARE
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics._diagnostic import metric as metric
from asyncsim.diagnostics.answers import texts as texts
from asyncsim.diagnostics.gradients import autocorrelogram as autocorrelogram

applied_mean: Metric
batch_return: Metric
bias: Metric
cache_gap: Metric
cache_kl: Metric
cache_stale: Metric
chi_square: Metric
chi_square_token: Metric
clip_active: Metric
clip_dual: Metric

def clip_outside(low: float | None = None, high: float | None = None) -> Metric:
    """Fraction of tokens whose ratio is outside of the method's clip band, whatever the sign of the advantage."""

entropy: Metric
episode_return: Metric
episodes: Metric
ess: Metric
ess_applied: Metric
ess_frames: Metric
ess_mismatch: Metric
ess_staleness: Metric
ess_token: Metric

def ess_token_clamped(
    high: float = 2.0, low: float | None = None, level: Literal["sequence", "token"] = "token"
) -> Metric:
    """Effective sample size of clamped token ratios, which cannot fall below a floor."""

ess_within: Metric
exact_cosine: Metric
exact_gradient_norm: Metric
exact_return: Metric
gradient_cosine: Metric
gradient_cosine_valid: Metric
gradient_norm: Metric
kl: Metric
kl_k1: Metric
kl_k2: Metric
kl_mismatch: Metric
kl_reverse: Metric
kl_staleness: Metric
late_share: Metric

def log_ratio_max(level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Maximum untruncated log ratio of the step."""

log_ratio_mean: Metric

def log_ratio_min(level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Minimum untruncated log ratio of the step."""

def log_ratio_quantile(q: float = 0.5, level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Quantile of the untruncated log ratios of the step."""

log_ratio_variance: Metric
lost_share: Metric
m2_all: Metric
m2_harmful: Metric
masked_sequences: Metric
masked_tokens: Metric
max_applied_share: Metric
max_weight_share: Metric
mean_weight: Metric
mismatch_variance: Metric
mixed_groups: Metric
mixed_versions: Metric
pareto_k: Metric

def ratio_above(bound: float = 2.0, level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Fraction of importance ratios above a bound, before any truncation."""

def ratio_below(bound: float = 0.5, level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Fraction of importance ratios below a bound, before any truncation."""

def ratio_sd(level: Literal["sequence", "token"] = "sequence") -> Metric:
    """Standard deviation of the untruncated importance ratios of the step."""

response_length: Metric

def solved_groups(at: float = 1.0) -> Metric:
    """Fraction of groups in the batch whose samples are all solved."""

staleness: Metric
staleness_head: Metric
staleness_max: Metric
staleness_mean: Metric
staleness_newest: Metric
staleness_span: Metric
staleness_variance: Metric
tail_index: Metric
token_ratio_mean: Metric
trained_return: Metric
truncated: Metric
turns: Metric

def unsolved_groups(at: float = 1.0) -> Metric:
    """Fraction of groups in the batch without a solved sample."""

update_staleness: Metric
variance: Metric
zero_loss_sequences: Metric
