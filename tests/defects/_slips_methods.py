"""Slips in weights, factors, penalties and aggregators."""

from tests.defects.slips import slip

M, F, P = "asyncsim.methods", "asyncsim.factors", "asyncsim.penalties"

slip(68, "clips", "PPO: the two bounds swapped", f"{M}._weights:Clip.score_weight",
     "*band(self.low, self.high)", "*band(self.high, self.low)",
     killer="core/test_actor_critic.py::test_gradient_is_autograds_of_the_loss[ppo-categorical]")  # fmt: skip
slip(69, "clips", "clipped on both sides whatever the sign of the advantage", f"{M}._weights:movable",
     "times(beyond, advantage.sign()).le_(0.0)", "beyond.eq(0.0).to(beyond.dtype)",
     killer="contracts/test_diagnostics.py::test_both_ends[clip_active]")  # fmt: skip
slip(70, "clips", "dual clip for positive advantages", f"{M}._weights:DualClip.score_weight",
     "(advantage < 0) & ", "(advantage > 0) & ",
     killer="core/test_bounds_and_defaults.py"
     "::test_a_ratio_on_the_dual_bound_is_inside[0.99-0.0]")  # fmt: skip
slip(71, "clips", "CISPO: upper bound of the weight forgotten", f"{M}.clipped:Cispo.applied",
     ".clamp(max=highest)", "",
     killer="methods/test_weighted_scores.py"
     "::test_cispo_keeps_every_token_and_leaves_the_lower_side_open")  # fmt: skip
slip(72, "clips", "SAPO: the two steepnesses swapped", f"{M}.shaped:sapo",
     "by_sign(a, positive, negative)", "by_sign(a, negative, positive)",
     killer="methods/test_weighted_scores.py::test_sapo_rises_above_one_before_it_falls")  # fmt: skip
slip(73, "clips", "Clip-Cov and KL-Cov: covariance with the probability, not its log", f"{M}.clipped:_covariance",
     'step.current["log_prob"]', 'step.current["log_prob"].exp()',
     killer="methods/test_uncertainty.py::test_covariance_is_of_the_whole_step")  # fmt: skip
slip(74, "clips", "KL-Cov: the pull goes away from the anchor", f"{M}.clipped:KlCov.score_weight",
     ".sub_(pull)", ".add_(pull)",
     killer="methods/test_uncertainty.py"
     "::test_kl_cov_pulls_the_tokens_of_largest_covariance[0.21-2]")  # fmt: skip
slip(75, "truncation", "ratios of tokens truncated before their product", f"{M}._weights:Ratio.applied",
     "step.sequence(log_ratio) if", "step.sequence(log_ratio.clamp(max=0.7)) if",
     killer="contracts/test_diagnostics.py::test_both_ends[ess_applied]")  # fmt: skip
slip(76, "truncation", "three policies: rollout weight to the current weights, not to the batch's",
     f"{M}._weights:TruncatedClip.carried",
     "step.behavior_log_ratio", "step.log_ratio",
     killer="methods/test_importance.py::test_three_policies_by_hand")  # fmt: skip
slip(77, "truncation", "self-normalized over sequences where tokens were asked for, and the reverse",
     f"{M}.importance:NormalizedRatio._mean",
     'self.normalize == "tokens"', 'self.normalize != "tokens"',
     killer="methods/test_importance.py::test_normalized_weights_by_hand")  # fmt: skip
slip(78, "truncation", "floor of the ratio forgotten", f"{M}.importance:BoundedRatio.applied",
     "at_least(at_most(ratios.usable(_at_level(step, self.level)), self.cap), self.floor)",
     "at_most(ratios.usable(_at_level(step, self.level)), self.cap)",
     killer="methods/test_importance.py::test_a_floor_lifts_what_is_below_it_and_nothing_else")  # fmt: skip
slip(79, "token weights", "prefix product without the token itself", f"{M}.importance:PrefixRatio.applied",
     "step.log_ratio.cumsum(-1)", "step.log_ratio.cumsum(-1) - step.log_ratio",
     killer="contracts/test_every_plugin.py"
     "::test_extreme_log_ratios_stay_finite[prefix_is-default]")  # fmt: skip
slip(80, "token weights", "per-decision: rewards to go counted as rewards",
     f"{M}.importance:PerDecision.score_weight",
     "to_go - next_generated(to_go, mask)", "to_go",
     killer="methods/test_importance.py::test_per_decision_skips_tokens_of_others")  # fmt: skip
slip(81, "token weights", "A-3PO: age counted from 1", f"{M}.clipped:a3po",
     "age.clamp(min=1.0)", "(age + 1.0)",
     killer="methods/test_surrogates.py::test_the_band_of_a3po_widens_with_staleness[1-0.8-1.2]")  # fmt: skip
slip(82, "token weights", "binary KL: the two policies swapped", f"{M}.shaped:dppo_kl",
     'step.behavior["log_prob"], step.current["log_prob"]', 'step.current["log_prob"], step.behavior["log_prob"]',
     killer="methods/test_probability_masks.py::test_dppo_takes_the_divergence_from_behavior")  # fmt: skip
slip(83, "token weights", "DPPO: room for a fall and for a rise swapped", f"{M}._weights:near",
     "-per_sample(low), per_sample(high)", "-per_sample(high), per_sample(low)",
     killer="methods/test_probability_masks.py::test_bounds_belong_to_the_sign_of_the_advantage")  # fmt: skip
slip(84, "sequence weights", "GSPO: product of the ratios instead of their geometric mean",
     f"{M}.clipped:_geometric",
     "step.geometric(", "step.sequence(",
     killer="methods/test_surrogates.py::test_gspo_looks_at_the_geometric_mean")  # fmt: skip
slip(85, "sequence weights", "GMPO: ratios not clipped inside the mean",
     f"{M}.clipped:gmpo",
     "limited = torch.where(up, log_ratio.clamp(max=highest), log_ratio.clamp(min=lowest))", "limited = log_ratio",
     killer="methods/test_surrogates.py::test_gmpo_has_its_band_in_log_space")  # fmt: skip
slip(86, "sequence weights", "TOPR: taper not held at 1", f"{M}.shaped:topr",
     ".clamp(max=1.0)", "",
     killer="methods/test_weighted_scores.py::test_topr_tapers_bad_sequences_only")  # fmt: skip
slip(87, "sequence weights", "VESPO: settings of positive and negative advantages swapped",
     f"{M}.shaped:vespo",
     "a >= 0", "a < 0",
     killer="methods/test_weighted_scores.py"
     "::test_vespo_peaks_at_k_over_lam[1.0-2.0-3.0-1.2081]")  # fmt: skip
slip(88, "sequence weights", "mean over the padded length", "asyncsim.step.step:Step.geometric",
     "self.lengths.clamp(min=1.0).unsqueeze(-1)", "self.mask.shape[3]",
     killer="methods/test_surrogates.py::test_gspo_looks_at_the_geometric_mean")  # fmt: skip
slip(89, "regression", "DRO: pulled away from the behavior policy", f"{M}.regression:Residual.score_weight",
     "advantage - per_sample", "advantage + per_sample",
     killer="contracts/test_compiled.py::test_a_program_does_what_tensors_do[methods-dro]")  # fmt: skip
slip(90, "regression", "TBA: log ratios not centered over the group", f"{M}.regression:tba",
     "(gap - counted.sum(2, keepdim=True))", "gap",
     killer="methods/test_regression.py"
     "::test_trajectory_balance_of_few_samples_vanishes_there_too")  # fmt: skip
slip(91, "regression", "OAPL: factor 2 beta forgotten", f"{M}.regression:oapl",
     "2.0 * beta * (a", "(a",
     killer="methods/test_regression.py::test_on_policy_they_are_what_they_say[oapl]")  # fmt: skip
slip(92, "adaptive weights", "M2PO: second moment not divided by the number of tokens",
     f"{M}._adaptive:cut",
     "masses().mul_(per_sample(tau, 3))", "masses().fill_(1.0).mul_(per_sample(tau, 3))",
     killer="core/test_bounds_and_defaults.py"
     "::test_statistics_of_equal_parts_are_those_of_one[m2po_mask]")  # fmt: skip
slip(93, "adaptive weights", "BAPO: bounds stop one step short of their caps", f"{M}._adaptive:_grid",
     "torch.arange(steps + 1", "torch.arange(max(steps, 1)",
     killer="contracts/test_every_plugin.py"
     "::test_knobs_per_replicate_equal_separate_runs[methods-bapo_paper]")  # fmt: skip
slip(94, "adaptive weights", "P3O: penalty weighted by the ESS, not by what it lacks", f"{M}.adaptive:P3o.score_weight",
     "times(slope, 1.0 - ess)", "times(slope, ess)",
     killer="methods/test_adaptive.py::test_p3o_by_hand")  # fmt: skip
slip(96, "corrections", "ACER: correction without the state's value", f"{M}.actor_critic:Corrected.spread",
     'step.current["action_values"] - state_value(step).unsqueeze(-1)', 'step.current["action_values"]',
     killer="methods/test_actor_gradients.py::test_losses_on_retrace_are_autograds[acer]")  # fmt: skip
slip(97, "corrections", "scores centered under the current policy", f"{M}.actor_critic:Centered.spread",
     "if self.truncated else drawn", "if self.truncated else prob",
     killer="methods/test_distributions.py"
     "::test_a_constant_reward_has_no_gradient_and_pulls_without_centering")  # fmt: skip
slip(98, "critic", "factor 2 of the squared error forgotten", f"{M}._method:Method.cotangents",
     "2.0 * self.critic * ", "self.critic * ",
     killer="core/test_actor_critic.py::test_gradient_is_autograds_of_the_loss[a2c-categorical]")  # fmt: skip
slip(99, "entropy bonus", "subtracted instead of added", f"{M}._method:Method.cotangents",
     "{name: value * share for", "{name: -value * share for",
     killer="core/test_actor_critic.py::test_gradient_is_autograds_of_the_loss[a2c-categorical]")  # fmt: skip
slip(100, "ratios", "a user's loss: its gradient is climbed", f"{M}._from_loss:Loss.score_weight",
     "            return -gradient\n", "            return gradient\n",
     killer="comparing/test_attacked.py"
     "::test_an_average_of_its_own_is_over_the_groups_that_are_left[float32-masked]")  # fmt: skip

slip(101, "factors", "band: the lower bound is one over the upper", f"{F}._factor:Band.keep",
     "value >= log_bound(self.low)", "value >= -log_bound(self.high)",
     killer="methods/test_factors.py::test_bounds_act_on_the_ratio_and_not_on_its_inverse")  # fmt: skip
slip(102, "factors", "geometric mask: log ratios summed, not averaged", f"{F}._factor:at_level",
     "step.geometric(", "step.sequence(",
     killer="methods/test_factors.py::test_bounds_act_on_the_ratio_and_not_on_its_inverse")  # fmt: skip
slip(103, "factors", "k2 mask: half of the square forgotten", f"{F}.masks:K2Mask.statistic",
     "0.5 * ", "",
     killer="methods/test_factors.py::test_masks_compare_unlimited_ratios")  # fmt: skip
slip(104, "factors", "k3 mask: the other direction", f"{F}.masks:K3Mask.statistic",
     "torch.expm1(of_tokens) - of_tokens", "torch.expm1(-of_tokens) + of_tokens",
     killer="methods/test_factors.py::test_third_order_divergence_is_not_symmetric")  # fmt: skip
slip(105, "factors", "veto: drops the token, not the sequence", f"{F}.masks:TokenVeto.keep",
     ".all(-1, keepdim=True)", "",
     killer="methods/test_factors.py::test_a_veto_is_one_sided")  # fmt: skip
slip(106, "factors", "OPSM: drops positive advantages", f"{F}.masks:Opsm.keep",
     "(advantage >= 0)", "(advantage <= 0)",
     killer="methods/test_factors.py::test_negative_samples_that_became_unlikely_are_dropped")  # fmt: skip
slip(107, "factors", "drop_stale: the limit itself is dropped", f"{F}.masks:DropStale.keep",
     "age <= per_sample", "age < per_sample",
     killer="methods/test_factors.py"
     "::test_masks_leave_denominators_alone[sequence_mean-drop_stale]")  # fmt: skip
slip(108, "factors", "staleness_weight: age^-a instead of (1 + age)^-a", f"{F}.masks:StalenessWeight._weight",
     "torch.log1p(age)", "torch.log(age.clamp(min=1.0))",
     killer="methods/test_factors.py::test_weights_by_age")  # fmt: skip
slip(109, "factors", "log_clamp: falls are never clamped", f"{F}.masks:LogClamp.keep",
     "self.level).abs() <= ", "self.level) <= ",
     killer="methods/test_uncertainty.py::test_a_uniform_policy_makes_one_region_of_all")  # fmt: skip
slip(110, "factors", "tv_mask: half of |r - 1|", f"{F}.masks:TvMask.keep",
     "distance = step.geometric(", "distance = 0.5 * step.geometric(",
     killer="methods/test_factors.py"
     "::test_ratios_above_and_below_one_do_not_cancel_in_total_variation")  # fmt: skip
slip(111, "factors", "of several factors the last one counts", f"{M}._method:Method.factor",
     "nothing, product * factor)", "nothing, factor)",
     killer="methods/test_factors.py::test_factors_multiply")  # fmt: skip

slip(112, "penalties", "k3: the other direction", f"{P}.divergences:K3.slope",
     "1.0 - ratios.usable(-gap)", "ratios.usable(gap) - 1.0",
     killer="methods/test_penalties.py::test_values_and_slopes_by_hand")  # fmt: skip
slip(113, "penalties", "k2: half of the square forgotten", f"{P}.divergences:K2.slope",
     "return gap if", "return 2.0 * gap if",
     killer="methods/test_probability_masks.py::test_masked_tokens_are_still_pulled_back[kpop]")  # fmt: skip
slip(114, "penalties", "reward: a token answers for its own log ratio only", f"{P}.divergences:Reward.slope",
     "gap.flip(-1).cumsum(-1).flip(-1)", "gap",
     killer="methods/test_penalties.py::test_which_divergence_descends")  # fmt: skip
slip(115, "penalties", "straight-through: the slope of its value", f"{P}.divergences:StraightThrough.slope",
     "return gap", "return 1.0 - ratios.usable(-gap)",
     killer="methods/test_penalties.py::test_values_and_slopes_by_hand")  # fmt: skip
slip(116, "penalties", "exact: pulled away from the anchor", f"{P}.divergences:Exact.spread",
     "above - below)", "below - above)",
     killer="methods/test_penalties.py"
     "::test_impossible_actions_of_a_reference_push_hard_and_stay_finite")  # fmt: skip
slip(117, "penalties", "penalty to the behavior policy taken to the proximal one, and the reverse",
     f"{P}.divergences:Penalty.gap",
     'if self.to == "behavior"', 'if self.to != "behavior"',
     killer="methods/test_probability_masks.py::test_a_pull_per_replicate[kpop]")  # fmt: skip
slip(118, "penalties", "subtracted instead of added", f"{P}.divergences:Sampled.score_weight",
     "return -per_sample", "return per_sample",
     killer="methods/test_penalties.py::test_which_divergence_descends")  # fmt: skip

slip(119, "aggregators", "sequence_mean: over the padded length", f"{M}._method:sequence_mean",
     "step.lengths.clamp(min=1.0)", "step.mask.shape[-1]",
     killer="contracts/test_methods.py::test_denominators[sequence_mean-<lambda>]")  # fmt: skip
slip(120, "aggregators", "token_mean: tokens of each group first", f"{M}._method:token_mean",
     ".sum((1, 2), keepdim=True)", ".sum(2, keepdim=True) * step.groups",
     killer="methods/test_surrogates.py::test_a_live_snapshot_would_shrink_the_gradient")  # fmt: skip
slip(121, "aggregators", "constant: over the longest of the batch", f"{M}._method:constant",
     "step.mask.shape[-1]", "step.lengths.amax()",
     killer="contracts/test_methods.py::test_denominators[constant-<lambda>]")  # fmt: skip
slip(122, "aggregators", "sequence_sum: groups added up, not averaged", f"{M}._method:sequence_sum",
     "(step.mass / step.groups)", "step.mass",
     killer="contracts/test_every_plugin.py"
     "::test_micro_batches_of_a_step_are_one_step[per_decision_is-default]")  # fmt: skip
