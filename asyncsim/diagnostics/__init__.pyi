"""Diagnostics: one number per replicate and recorded update."""

from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.diagnostics.autocorrelogram import autocorrelogram as autocorrelogram
from asyncsim.diagnostics.log_ratios import log_ratio_max as log_ratio_max
from asyncsim.diagnostics.log_ratios import log_ratio_min as log_ratio_min
from asyncsim.diagnostics.log_ratios import log_ratio_quantile as log_ratio_quantile
from asyncsim.diagnostics.losses import clip_outside as clip_outside
from asyncsim.diagnostics.weights import ess_token_clamped as ess_token_clamped
from asyncsim.diagnostics.weights import ratio_above as ratio_above
from asyncsim.diagnostics.weights import ratio_below as ratio_below
from asyncsim.diagnostics.weights import ratio_sd as ratio_sd

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
entropy: Metric
episode_return: Metric
episodes: Metric
ess: Metric
ess_applied: Metric
ess_frames: Metric
ess_mismatch: Metric
ess_staleness: Metric
ess_token: Metric
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
log_ratio_mean: Metric
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
mixed_versions: Metric
pareto_k: Metric
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
turns: Metric
update_staleness: Metric
variance: Metric
zero_loss_sequences: Metric
