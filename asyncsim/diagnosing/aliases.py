"""Names under which trainers log telemetry: column, our quantity, its scope, and where its source says so.

Sources are repository@commit:path. `UNVERIFIED` marks names that were not found in a source that could be opened.
A quantity that is truncated, clamped or otherwise changed before it is averaged has a name of its own here, since no
prediction for the plain one holds for it. Quantity `share` is any part of a whole, which lies in [0, 1]. Quantity `-`
is of a column that is known and has no prediction, with the reason in place of its scope.
"""

import difflib
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache, partial
from typing import NamedTuple

UNVERIFIED = "not verified"
FURTHEST, OLDEST = 64, 256
"""Largest lag of a cosine, and largest staleness of a mean, that have a name."""
COSINES = ("gradient_cosine", "cosine", "rl/grad_cosine_lag")
WANTED = ("staleness_mean", "staleness_min", "staleness_max", "ess", "kl_k3", "chi_square", "ratio_mean")
"""Quantities of a step that most questions need."""
BUCKETS = ("kl_k3/staleness_", "kl_k3_staleness_", "rl/k3/staleness_", "rl/k3/lag_")


class Alias(NamedTuple):
    """A column (`*` ends a beginning): quantity, what it is averaged over and in which unit, source of the name."""

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
    rollout_corr/rollout_rs_masked_fraction masked tokens
    rollout_corr/rollout_rs_seq_masked_fraction share sequences
    rollout_corr/* - a summary of the same ratios that no claim predicts
verl@b178a3c:verl/trainer/ppo/core_algos.py:
    actor/pg_clipfrac clip_fraction tokens that the clip stops, current policy over old log-probs
    actor/pg_clipfrac_lower share tokens that the second clip stops
    actor/ppo_kl - mean of old less current log-prob: how far updates of one batch move, not trainer against sampler
verl@b178a3c:verl/trainer/ppo/ray_trainer.py:
    training/global_step step steps
verl@b178a3c:verl/trainer/ppo/metric_utils.py:
    critic/rewards/mean reward samples
    critic/score/mean reward samples, before penalties
    response_length/clip_ratio share samples
    prompt_length/clip_ratio share samples
    response_length_non_aborted/clip_ratio share samples
    response/aborted_ratio share samples
    response_length* - lengths in tokens
    prompt_length/* - lengths in tokens
    critic/* - rewards, advantages and values besides the mean reward
    timing_s/* - seconds of a part of the step
    timing_per_token_ms/* - time of a part of the step
    perf/* - throughput and memory
verl@b178a3c:verl/utils/debug/metrics.py:
    training/rollout_probs_diff_mean - differences of probabilities, not of log-probs
    training/rollout_probs_diff_* - differences of probabilities, not of log-probs
    training/rollout_actor_probs_pearson_corr - a correlation of probabilities
verl@1dda039:verl/experimental/fully_async_policy/README.md:
    trainer/idle_ratio trainer_idle time
    rollouter/idle_ratio generator_idle time
    fully_async/trainer/idle_ratio trainer_idle time
    fully_async/rollouter/idle_ratio generator_idle time
verl@b178a3c:verl/experimental/fully_async_policy/detach_utils.py:
    fully_async/partial/partial_ratio share samples
    fully_async/* - counts and times of the asynchronous loop
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
    sampling/importance_sampling_ratio/* - extremes of truncated ratios
    sampling/sampling_logp_difference/max - the largest difference, of which no claim speaks
    clip_ratio/region_mean clip_fraction tokens
    clip_ratio/low_mean clip_low tokens
    clip_ratio/high_mean clip_high tokens
    clip_ratio/* - extremes over processes
    reward reward samples
    frac_reward_zero_std share groups
    completions/clipped_ratio share samples
    completions/* - lengths in tokens
    kl - against the reference policy in GRPOTrainer; in AsyncGRPOTrainer kl_k3: give columns kl_k3=kl
trl@f2cd577:trl/experimental/async_grpo/async_grpo_trainer.py:
    ratio ratio_mean tokens
NeMo-RL@7ea279a:nemo_rl/algorithms/loss/loss_functions.py:
    gen_kl_error kl_k3 tokens, nats (k3 unless reference_policy_kl_type says otherwise)
    sampling_importance_ratio ratio_truncated tokens, truncated where truncated_importance_sampling_ratio is set
    is_oob_ratio share tokens or sequences
    token_mult_prob_error - mean of exp|log ratio|, which is neither a ratio nor a divergence
    policy_kl_error - k3 of the reversed log ratio on the sampler's tokens, which is no KL divergence
    js_divergence_error - Jensen-Shannon divergence
    probs_ratio* - current policy over log-probs of the same trainer before the step, not over the sampler's
    kl_penalty - against the reference policy
NeMo-RL@7ea279a:nemo_rl/algorithms/async_utils/replay_buffer.py:
    avg_trajectory_age staleness_mean groups, versions
AReaL@4aef98d:areal/trainer/ppo/actor.py:
    ppo_actor/update/clip_ratio/avg clip_fraction tokens
    ppo_actor/update/dual_clip_ratio/avg share tokens
    ppo_actor/update/rs_filtered_fraction share tokens
    ppo_actor/update/compute_logp/kl_div_direct/avg kl_k1 tokens that the behavior mask keeps, nats
    ppo_actor/update/compute_logp/kl_div_dual/avg kl_k3 tokens that the behavior mask keeps, nats
    ppo_actor/update/behave_imp_weight/avg ratio_truncated tokens that the behavior mask keeps
    ppo_actor/update/version_stats/sample_staleness_theta_avg staleness_mean tokens, versions
    ppo_actor/update/version_stats/sample_staleness_theta_max staleness_max tokens, versions
    ppo_actor/update/version_stats/sample_staleness_theta_min staleness_min tokens, versions
    ppo_actor/update/version_stats/sample_staleness_proximal_* - one version less than the staleness of the step
    ppo_actor/update/approx_kl/* - mean of current less proximal log-prob: its sign is reversed, and no sampler is in it
    ppo_actor/update/behave_approx_kl/* - mean of proximal less sampler's log-prob: k1 with its sign reversed
    ppo_actor/update/importance_weight/* - current policy over the proximal one, not over the sampler
    ppo_actor/task_reward/avg reward samples
    ppo_actor/* - losses, lengths and settings
    timeperf/* - seconds of a part of the step
ROLL@8eb27cc:roll/utils/train_infer_corrections.py:
    actor/train_infer_ratio_token_mean ratio_mean tokens within sequences
    actor/is_weight_clipfrac share tokens
    actor/train_infer_final_mask_mean share tokens that are kept
    actor/train_infer_diff_* - differences of probabilities, not of log-probs
    actor/train_infer_* - ratios or masks of sequences
ROLL@8eb27cc:roll/pipeline/agentic/agentic_actor_worker.py:
    actor/ppo_ratio_clipfrac share tokens
    actor/ppo_ratio_high_clipfrac share tokens
    actor/ppo_ratio_low_clipfrac share tokens
    actor/clipfrac - aggregated like the loss, so it is a sum in some modes
    actor/approxkl - half the squared log ratio of current over old policy, aggregated like the loss
    actor/policykl - k1 of current over old policy, aggregated like the loss
    actor/ratio_* - current policy over old log-probs, not over the sampler's
ROLL@8eb27cc:roll/distributed/scheduler/generate_scheduler.py:
    scheduler/off_policy_ratio staleness_mean samples, steps (no ratio, in spite of its name)
OpenRLHF@3c3be62:openrlhf/models/loss.py:
    vllm_kl kl_k1 tokens, nats
    ppo_clip_ratio clip_fraction tokens
    ppo_kl - mean of old less current log-prob: how far updates of one batch move, not trainer against sampler
OpenRLHF@3c3be62:openrlhf/trainer/ppo_utils/samples_generator.py:
    response_clip_ratio share samples
open-instruct@e6c3044:open_instruct/grpo_utils.py:
    policy/clipfrac_avg clip_fraction tokens
    debug/vllm_vs_local_logprob_diff_mean log_ratio_abs tokens, nats
    debug/vllm_vs_local_logprob_diff_* - extremes and spread of |log ratio|
    debug/vllm_local_reverse_kl - each term is weighted by its token's probability a second time, so it is not k1
    val/rho_weight ratio_truncated tokens, clamped, zero where dropped
    val/rho_clipfrac share tokens
    val/rho_drop_frac masked tokens
    val/rho_drop_low_frac masked_low tokens
    val/rho_drop_high_frac masked_high tokens
    val/ratio - current policy over old log-probs of the trainer unless it uses the sampler's
    objective/* - against the reference policy
open-instruct@e6c3044:open_instruct/data_loader.py:
    num_steps_off_policy staleness_mean samples, steps
    scores reward samples
    val/stop_rate share samples
    model_step_* - versions, not staleness
    time/* - seconds of a part of the step
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
    reward reward samples
    reward_mean reward samples
OpenRLHF@3c3be62:openrlhf/utils/logging_utils.py:
    global_step step steps
open-instruct@e6c3044:open_instruct/grpo_fast.py:
    training_step step steps
not verified:
    trainer/global_step step steps
    Step step logging calls
    _step step logging calls
    _runtime - time of the row
    _timestamp - time of the row
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
        if alias.quantity != "-":
            found[alias.column] = f"share {alias.column}" if alias.quantity == "share" else alias.quantity, alias.scope
    return {f"train/{name}": meaning for name, meaning in found.items()} | found


def reason(column: str) -> str | None:
    """Why no prediction is held against a column that is known; None for one that is not.

    >>> reason("timing_s/gen"), reason("train/kl_penalty"), reason("loss")
    ('seconds of a part of the step', 'against the reference policy', None)
    """
    return next((each.scope for each in STEPS if each.quantity == "-" and _is(each, plain(column))), None)


def plain(column: str) -> str:
    """A name without `train/` and without the way in which ROLL reduces it, `@sum`."""
    return column.removeprefix("train/").partition("@")[0]


def near(column: str) -> list[str]:
    """Known names that are spelled alike."""
    stem = plain(column)
    known = {alias.column for alias in [*STEPS, *TOKENS] if not alias.column.endswith("*")}
    return difflib.get_close_matches(stem, sorted(known), n=2, cutoff=0.8)


def beside(columns: Iterable[str], have: Collection[str]) -> tuple[str, list[str]]:
    """The trainer that most of the columns are of, and its columns of quantities that are not among those one has."""
    names = {plain(column) for column in columns} - {each.column for each in STEPS if each.source == "asyncsim"}
    of = Counter(a.source.partition("@")[0] for a in STEPS if "@" in a.source and any(map(partial(_is, a), names)))
    trainer = max(of, key=lambda name: of[name], default="")
    lacking = dict[str, str]()
    for alias in STEPS:
        if alias.source.startswith(f"{trainer}@") and alias.quantity in WANTED and alias.quantity not in have:
            lacking.setdefault(alias.quantity, alias.column)
    return trainer, list(lacking.values())


def _is(alias: Alias, name: str) -> bool:
    stem = alias.column.removesuffix("*")
    return name == stem or (stem != alias.column and name.startswith(stem))


def page() -> str:
    """A table in Markdown of all names by the trainer that logs them, with their sources."""
    lines = ["| column | is | source |", "|---|---|---|"]
    for alias in (each for each in STEPS if "@" in each.source):
        where, _, path = alias.source.partition(":")
        repository, _, commit = where.partition("@")
        told = f"not used: {alias.scope}" if alias.quantity == "-" else f"`{alias.quantity}`, of {alias.scope}"
        lines.append(f"| `{alias.column}` | {told} | {repository} {commit}, `{path}` |")
    return "\n".join(lines)
