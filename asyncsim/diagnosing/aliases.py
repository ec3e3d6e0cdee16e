"""Names under which trainers log telemetry: column, our quantity, its scope, and where its source says so.

Sources are repository@commit:path. `UNVERIFIED` marks names that were not found in a source that could be opened.
A quantity that is truncated, clamped or otherwise changed before it is averaged has a name of its own here, since no
prediction for the plain one holds for it.
"""

from functools import cache
from typing import NamedTuple

UNVERIFIED = "not verified"
FURTHEST, OLDEST = 64, 256
"""Largest lag of a cosine, and largest staleness of a mean, that have a name."""
COSINES = ("gradient_cosine", "cosine", "rl/grad_cosine_lag")
BUCKETS = ("kl_k3/staleness_", "kl_k3_staleness_", "rl/k3/staleness_", "rl/k3/lag_")


class Alias(NamedTuple):
    """A column of a trainer: the quantity, what it is averaged over and in which unit, and the source of the name."""

    column: str
    quantity: str
    scope: str
    source: str


def _table(text: str) -> list[Alias]:
    """Lines `column quantity scope`, indented below the line of their source."""
    rows, source = list[Alias](), ""
    for line in text.strip().splitlines():
        if line.startswith(" "):
            column, quantity, scope = line.split(maxsplit=2)
            rows.append(Alias(column, quantity, scope, source))
        else:
            source = line.removesuffix(":")
    return rows


STEPS = _table("""
verl@b178a3c:verl/trainer/ppo/rollout_corr_helper.py:
    rollout_corr/kl kl_k1 tokens, nats
    rollout_corr/k3_kl kl_k3 tokens, nats
    rollout_corr/chi2_token chi_square tokens
    rollout_corr/chi2_seq chi_square_sequence sequences
    rollout_corr/rollout_is_eff_sample_size ess_clamped tokens, clamped to [1/C, C]
    rollout_corr/rollout_is_mean ratio_truncated tokens, truncated at C
    rollout_corr/rollout_is_ratio_fraction_high clip_high tokens or sequences
    rollout_corr/rollout_is_ratio_fraction_low clip_low tokens or sequences
    rollout_corr/log_ppl_abs_diff geometric_abs sequences, nats per token
verl@1dda039:verl/experimental/fully_async_policy/README.md:
    trainer/idle_ratio trainer_idle time
    rollouter/idle_ratio generator_idle time
    fully_async/trainer/idle_ratio trainer_idle time
    fully_async/rollouter/idle_ratio generator_idle time
prime-rl@559b447:src/prime_rl/trainer/rl/loss.py:
    is_masked/mean masked tokens
    is_masked_low/mean masked_low tokens
    is_masked_high/mean masked_high tokens
prime-rl@559b447:src/prime_rl/trainer/rl/train.py:
    mismatch_kl/all/mean kl_k3 tokens, nats
prime-rl@559b447:src/prime_rl/orchestrator/orchestrator.py:
    off_policy/mean staleness_mean rollouts, versions
    off_policy/max staleness_max rollouts, versions
marin@011a1de:lib/marin/src/marin/rl/rl_losses.py:
    ratio_mean ratio_mean tokens within sequences
    clip_fraction clip_fraction tokens within sequences
not verified:
    mismatch_kl/mean kl_k3 tokens, nats
    off_policy_level/mean staleness_mean rollouts, versions
    rl/k1 kl_k1 tokens, nats
    rl/k3 kl_k3 tokens, nats
    rl/consecutive_grad_cosine cosine_1 updates
    consecutive_grad_cosine cosine_1 updates
    async/staleness staleness_mean groups, versions
SkyRL@a956457:skyrl/train/fully_async_trainer.py:
    async/staleness_mean staleness_mean groups, versions
    async/staleness_max staleness_max groups, versions
    async/staleness_min staleness_min groups, versions
SkyRL@a956457:skyrl/train/trainer.py:
    policy/rollout_train_logprobs_abs_diff_mean log_ratio_abs tokens, nats
miles@31f1ca9:miles/backends/training_utils/loss_hub/losses.py:
    ess_ratio ess tokens within sequences
    train_rollout_kl kl_k3 tokens, nats
    train_rollout_logprob_abs_diff log_ratio_abs tokens, nats
    pg_clipfrac clip_fraction tokens
miles@31f1ca9:miles/rollout/fully_async_data_buffer.py:
    rollout/fully_async/avg_staleness staleness_mean groups, versions
    rollout/fully_async/max_staleness staleness_max groups, versions
trl@f2cd577:trl/trainer/grpo_trainer.py:
    sampling/sampling_logp_difference/mean log_ratio_abs tokens, nats
    sampling/importance_sampling_ratio/mean ratio_truncated tokens, truncated at C
    clip_ratio/region_mean clip_fraction tokens
    clip_ratio/low_mean clip_low tokens
    clip_ratio/high_mean clip_high tokens
PipelineRL@58d3934:pipelinerl/finetune/rl/__init__.py:
    rl/kl_new_old kl_k3 tokens within sequences, nats
    rl/ratio_new_old ratio_mean tokens within sequences
    rl/mean_abs_log_ratio_new_old log_ratio_abs tokens within sequences, nats
PipelineRL@58d3934:pipelinerl/finetune_loop.py:
    rl/ess ess tokens
    stats/lag staleness_samples samples
asyncsim:
    step step steps
    ess ess tokens
    ess_clamped ess_clamped tokens, clamped to [1/C, C]
    kl_k1 kl_k1 tokens, nats
    kl_k3 kl_k3 tokens, nats
    chi_square chi_square tokens
    ratio_mean ratio_mean tokens
    ratio_max ratio_max tokens
    ratio_min ratio_min tokens
    log_ratio_abs log_ratio_abs tokens, nats
    masked masked tokens
    masked_low masked_low tokens
    masked_high masked_high tokens
    staleness_mean staleness_mean samples, versions
    staleness_max staleness_max samples, versions
    staleness_min staleness_min samples, versions
    trainer_idle trainer_idle time
    generator_idle generator_idle time
    gradient_cosine cosine_1 updates
    half_cosine half_cosine halves of a batch
not verified:
    _step step steps
    training/global_step step steps
    trainer/global_step step steps
""")
"""Columns of tables with a row a step."""

TOKENS = _table("""
prime-rl@559b447:src/prime_rl/trainer/rl/token_export.py:
    inference_logprobs sampler tokens, nats
    trainer_logprobs trainer tokens, nats
    loss_mask mask tokens
asyncsim:
    step step steps
    sequence sequence samples
    sampler_log_prob sampler tokens, nats
    trainer_log_prob trainer tokens, nats
    staleness staleness versions
    mask mask tokens
    micro_batch micro_batch parts of a step
not verified:
    rollout_log_probs sampler tokens, nats
    old_log_probs trainer tokens, nats
    response_mask mask tokens
    sampling_per_token_logps sampler tokens, nats
    old_per_token_logps trainer tokens, nats
    completion_mask mask tokens
""")
"""Columns of tables with a row a token, or a list of tokens a row."""


@cache
def steps() -> dict[str, tuple[str, str]]:
    """Column to (quantity, scope) of a row a step, with those that count lags or stalenesses (not verified).

    >>> steps()["train/ess_ratio"], steps()["gradient_cosine_3"]
    (('ess', 'tokens within sequences'), ('cosine_3', 'updates'))
    """
    found = {f"{stem}_{k}": (f"cosine_{k}", "updates") for stem in COSINES for k in range(1, FURTHEST + 1)}
    for stem in BUCKETS:
        found |= {f"{stem}{s}": (f"k3_at_{s}", "tokens, nats") for s in range(OLDEST + 1)}
    return _named(STEPS, found)


@cache
def tokens() -> dict[str, tuple[str, str]]:
    """Column to (quantity, scope) of a row a token."""
    return _named(TOKENS, {})


def _named(table: list[Alias], found: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """With and without a leading `train/`; a verified name comes before one that is not."""
    for alias in sorted(table, key=lambda each: each.source != UNVERIFIED):
        found[alias.column] = alias.quantity, alias.scope
    return {f"train/{name}": meaning for name, meaning in found.items()} | found
