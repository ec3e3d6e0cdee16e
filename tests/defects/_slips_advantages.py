"""A slip in every advantage."""

from tests.defects.slips import slip

A = "asyncsim.advantages"

slip(43, "advantages", "mean: baseline of the group where the batch's is meant", f"{A}.baselines:mean",
     "step.step_mean()", "step.group_mean()",
     killer="contracts/test_advantages.py::test_formula[mean]")  # fmt: skip
slip(44, "advantages", "group_mean: shift of the other sign", f"{A}.baselines:group_mean",
     "step.group_mean() + ", "step.group_mean() - ",
     killer="methods/test_regression.py::test_asymre_rests_where_the_claim_says")  # fmt: skip
slip(45, "advantages", "group_std: divided by the variance", f"{A}.baselines:group_std",
     "step.unbiased if unbiased else variance).sqrt()", "step.unbiased if unbiased else variance)",
     killer="contracts/test_advantages.py::test_formula[group_std]")  # fmt: skip
slip(46, "advantages", "leave_one_out: the sample stays in its baseline", f"{A}.baselines:leave_one_out",
     " / step.unbiased", "",
     killer="contracts/test_advantages.py::test_formula[leave_one_out]")  # fmt: skip
slip(47, "advantages", "offset: added instead of subtracted", f"{A}.baselines:offset",
     "step.reward - ", "step.reward + ",
     killer="contracts/test_advantages.py::test_formula[offset]")  # fmt: skip
slip(48, "advantages", "returns_to_go: discount forgotten", f"{A}._advantage:Baseline.targets",
     'getattr(self, "discount", 1.0)', "1.0",
     killer="tasks/test_tools.py::test_returns_to_go_of_a_dialog")  # fmt: skip
slip(49, "advantages", "gae: discount and trace swapped", f"{A}.traces:Gae.estimate",
     "self.discount, self.trace", "self.trace, self.discount",
     killer="tasks/test_tools.py::test_credit_is_exact_over_replies[two calls-gae-0.0-0.7]")  # fmt: skip
slip(50, "advantages", "gae: critic targets without the value added back", f"{A}.traces:Gae.targets",
     " + trajectory.value", "",
     killer="core/test_gae.py::test_targets_are_advantage_plus_value_whether_normalized_or_not")  # fmt: skip
slip(52, "advantages", "maxrl: reward over its mean, without the mean subtracted", f"{A}.baselines:maxrl",
     "(relative - shift) / ", "(origin + relative) / ",
     killer="contracts/test_advantages.py::test_equal_rewards_are_worth_nothing[maxrl]")  # fmt: skip
slip(53, "advantages", "n_step: one step short", f"{A}.traces:NStep.targets",
     "min(self.steps, ", "min(self.steps - 1, ",
     killer="methods/test_corrections.py::test_n_step_returns_are_written_out")  # fmt: skip
slip(54, "advantages", "opo: weighted by the square of the length", f"{A}.optimal:opo",
     "step.lengths.to(step.reward.dtype)", "step.lengths.to(step.reward.dtype) ** 2",
     killer="methods/test_baselines.py::test_opo_weighs_by_length")  # fmt: skip
slip(55, "advantages", "opob: weighted by the score's norm, not by its square", f"{A}.optimal:Opob.__call__",
     "pooled(step, step.score_norm, self.scope)", "pooled(step, step.score_norm.sqrt(), self.scope)",
     killer="contracts/test_advantages.py"
     "::test_opob_minimizes_the_second_moment[sequence_mean-full_is]")  # fmt: skip
slip(56, "advantages", "otb: energy of the tokens to come instead of those before", f"{A}.optimal:Otb._energy",
     "mask_out(weight * norms, mask).cumsum(-1)", "mask_out(weight * norms, mask).flip(-1).cumsum(-1).flip(-1)",
     killer="methods/test_distributions.py::test_by_hand")  # fmt: skip
slip(57, "advantages", "pass_at_k: best of k + 1", f"{A}.baselines:PassAtK._chance",
     "range(self.k - 1)", "range(self.k)",
     killer="contracts/test_every_plugin.py"
     "::test_order_of_samples_does_not_matter[pass_at_k-standardized-case]")  # fmt: skip
slip(58, "advantages", "reinforce_plus_plus: scaled, not centered",
     f"{A}.traces:ReinforcePlusPlus.finished",
     "mask_out((advantages - mean) / scale, ", "mask_out(advantages / scale, ",
     killer="contracts/test_advantages.py::test_formula[reinforce_plus_plus]")  # fmt: skip
slip(59, "advantages", "remax: greedy rewards averaged over the prompts", f"{A}.baselines:remax",
     "step.greedy_reward", "step.greedy_reward.mean(1, keepdim=True)",
     killer="methods/test_shaped_rewards.py"
     "::test_remax_compares_a_prompt_with_its_own_greedy_response")  # fmt: skip
slip(60, "advantages", "retrace: traces not truncated", f"{A}.traces:Retrace.targets",
     ".clamp(max=1.0)", "",
     killer="methods/test_actor_gradients.py::test_losses_on_retrace_are_autograds[retrace]")  # fmt: skip
slip(62, "advantages", "self_normalized: weights squared", f"{A}.optimal:self_normalized",
     "step.sample_weight)", "step.sample_weight**2)",
     killer="contracts/test_advantages.py::test_formula[self_normalized]")  # fmt: skip
slip(63, "advantages", "soft_value: log-sum-exp not multiplied by the temperature",
     f"{A}.baselines:soft_value",
     "best - temperature * ", "best - ",
     killer="methods/test_regression.py::test_a_group_has_its_own_soft_value")  # fmt: skip
slip(64, "advantages", "vtrace: the two caps swapped", f"{A}.traces:Vtrace._corrections",
     "(self.rho_cap, self.trace_cap)", "(self.trace_cap, self.rho_cap)",
     killer="methods/test_corrections.py"
     "::test_the_cap_of_rho_names_the_policy_whose_value_is_learned")  # fmt: skip
slip(65, "advantages", "vtrace: bootstraps on the value behind an end", f"{A}._traces:following",
     " * trajectory.going + ", " + ",
     killer="tasks/test_tools.py::test_credit_is_exact_over_replies[all but one-gae-0.6-1.0]")  # fmt: skip
slip(67, "advantages", "leave-one-out baselines keep the sample itself", f"{A}.optimal:_others",
     "(pool.mass - pool.one).clamp(min=0.0)", "pool.mass",
     killer="methods/test_baselines.py::test_one_sample_of_a_step_leaves_nothing_behind")  # fmt: skip
