"""Slips in samplers, policies, tasks, late rewards and the oracle."""

from tests.defects.slips import slip

P, T = "asyncsim.policies", "asyncsim.tasks"

slip(196, "samplers", "temperature multiplied instead of divided by", f"{P}._engine:Engine.install",
     "(self.temperature, self.top_k, self.top_p)", "(1.0 / self.temperature, self.top_k, self.top_p)",
     killer="policies/test_engine.py::test_both_parts_add_up_to_the_ratio[cut1]")  # fmt: skip
slip(197, "samplers", "reports of a cut law are those of the whole one", f"{P}._kernels:lay_out",
     "logits[a] - log_total if", "table[r, s, a] if",
     killer="policies/test_engine.py::test_noise_of_a_version_is_a_table_of_its_own")  # fmt: skip
slip(198, "samplers", "noise: the variance taken for the deviation", f"{P}._engine:Engine._drawn",
     "self.noise, out", "self.noise**2, out",
     killer="policies/test_engine.py::test_noise_of_reports_lasts_as_long_as_it_says[uniform]")  # fmt: skip
slip(199, "samplers", "noise of tokens drawn once a sequence, and the reverse", f"{P}._engine:Engine.misreport",
     'T if self.noise_per == "token" else 1', '1 if self.noise_per == "token" else T',
     killer="policies/test_engine.py::test_noise_of_reports_lasts_as_long_as_it_says[uniform]")  # fmt: skip
slip(200, "samplers", "normal policy: temperature on the deviation, not on the variance",
     f"{P}.continuous:Gaussian.act",
     "self.width * math.sqrt(self.temperature)", "self.width * self.temperature",
     killer="claims/test_claims.py::test_claim_holds_and_every_defect_flips_it[ratio/gaussian-scale]")  # fmt: skip
slip(201, "samplers", "top-p keeps the actions that fit below it", f"{P}._engine:Engine.install",
     "self.top_k, self.top_p)", "self.top_k, self.top_p**2)",
     killer="policies/test_engine.py::test_both_parts_add_up_to_the_ratio[cut2]")  # fmt: skip
slip(202, "policies", "tables: score without the normalizer", f"{P}.tabular:Tabular._pull",
     "table += scattered - scattered.sum(-1, keepdim=True) * prob",
     "table += scattered if name == 'log_prob' else scattered - scattered.sum(-1, keepdim=True) * prob",
     killer="methods/test_adaptive.py::test_what_the_pull_back_descends[ratio]")  # fmt: skip
slip(203, "policies", "tables: gradient of the entropy without the entropy", f"{P}.tabular:Tabular._pull",
     "(_finite(log_prob) + self._entropy(view).unsqueeze(-1))", "_finite(log_prob)",
     killer="contracts/test_policies.py::test_the_pullback_is_the_slope_of_the_outputs[tabular]")  # fmt: skip
slip(204, "policies", "tables: norm of a score without its cross terms", f"{P}.tabular:Tabular.score_norm",
     "(table - table.sum(-1, keepdim=True) * prob).square()", "table.square()",
     killer="contracts/test_policies.py::test_score_norm_is_brute_force[tabular-False]")  # fmt: skip
slip(205, "policies", "tables: every state reads the first row", f"{P}.tabular:Tabular._cells",
     "batch.action if self.rows == 1 else batch.state * self.actions + batch.action", "batch.action",
     killer="contracts/test_policies.py::test_score_norm_is_brute_force[tabular-True]")  # fmt: skip
slip(206, "policies", "normal policy: score over the width, not over its square", f"{P}.continuous:Gaussian.forward",
     "(1, 2, 3)) / self.width**2", "(1, 2, 3)) / self.width",
     killer="contracts/test_policies.py"
     "::test_the_pullback_is_the_slope_of_the_outputs[gaussian]")  # fmt: skip
slip(207, "policies", "network: sum over samples forgotten in the biases", f"{P}._mlp_network:Network.pull",
     "bias += delta.sum(1)", "bias += delta.mean(1)",
     killer="contracts/test_policies.py"
     "::test_the_pullback_is_the_slope_of_the_outputs[mlp of actions]")  # fmt: skip
slip(208, "policies", "network: gradient of log std without the -1", f"{P}._mlp_network:Normal.pull",
     "(standard**2 - 1.0)", "standard**2",
     killer="core/test_mlp.py::test_gradient_is_a_finite_difference[gaussian-log_prob-False]")  # fmt: skip
slip(209, "policies", "language model: attends to tokens to come", f"{P}._pretraining:Block.forward",
     "attn_mask=mask", "attn_mask=None",
     killer="methods/test_review.py::test_a_language_model_is_pulled_back_where_it_drew[0.0]")  # fmt: skip

slip(210, "tasks", "gaussian rewards: the deviation squared", f"{T}._tabular:TabularTask.earn",
     "self.deviation * draws", "self.deviation**2 * draws",
     killer="contracts/test_tasks.py::test_gaussian_rewards_have_the_deviation_that_was_asked_for[iid]")  # fmt: skip
slip(211, "tasks", "token bandit: exactly the required share is no success", f"{T}.bandits:TokenBandit.score",
     "right >= self.success * self.horizon - 1e-9", "right > self.success * self.horizon + 1e-9",
     killer="contracts/test_tasks.py::test_success_at_both_ends[1.0-0.125]")  # fmt: skip
slip(212, "tasks", "token bandit: the last word does not end the sequence", f"{T}.bandits:TokenBandit.step",
     "action != self.actions - 1 if self.ends", "action != self.actions if self.ends",
     killer="contracts/test_tasks.py::test_tokens_right_after_the_end_are_not_counted")  # fmt: skip
slip(213, "tasks", "bit chain: required bits rounded down", f"{T}.bandits:BitChain.needed",
     "math.ceil(", "math.floor(",
     killer="tasks/test_chain.py::test_equal_bits_are_binomial")  # fmt: skip
slip(214, "tasks", "gaussian bandit: half of the square forgotten", f"{T}.continuous:GaussianBandit.earn",
     "-0.5 * ", "-1.0 * ",
     killer="contracts/test_tasks.py::test_gaussian_bandit_matches_its_closed_form")  # fmt: skip
slip(215, "tasks", "quadratic: noise on the loss, not on its gradient", f"{P}.continuous:Quadratic.forward",
     "(weight * (curvature * iterate + batch.action))", "(weight * (curvature * iterate))",
     killer="contracts/test_policies.py"
     "::test_the_pullback_is_the_slope_of_the_outputs[quadratic]")  # fmt: skip
slip(216, "tasks", "gridworld: rewards discounted one step too far", f"{T}.processes:TabularMDP.step",
     "self.discount**token * ", "self.discount ** (token + 1) * ",
     killer="tasks/test_mdp.py"
     "::test_samples_have_the_exact_return_gradient_and_second_moment[wet cliff]")  # fmt: skip
slip(217, "tasks", "gridworld: goes on behind a terminal state", f"{T}.processes:TabularMDP._kernel",
     "torch.where(self.law.terminal, torch.zeros((), dtype=torch.float64), self.law.probability)",
     "self.law.probability",
     killer="tasks/test_mdp.py::test_a_certain_policy_earns_what_gymnasium_pays[cliff]")  # fmt: skip
slip(218, "tasks", "penalty of rewards read from the other log-probs", f"{T}._tabular:TabularTask._penalized",
     '{"behavior": batch.behavior, "current": outputs}',
     '{"behavior": outputs, "current": batch.behavior}',
     killer="methods/test_penalties.py"
     "::test_a_priced_reward_reads_the_log_probs_that_it_names[behavior--1.0]")  # fmt: skip
slip(219, "tasks", "markov bandit: a token reads the row of the one before its own",
     f"{T}.bandits:TokenBandit.step",
     '"markov": action + 1', '"markov": action',
     killer="contracts/test_tasks.py::test_exact_value_and_gradient[markov ends-fixed-penalty1]")  # fmt: skip

slip(220, "late rewards", "come back one batch late", "asyncsim.rewards.late:Late.arriving",
     "number >= self.by", "number > self.by",
     killer="core/test_late_rewards.py"
     "::test_of_a_population_the_bias_is_linear_in_what_is_not_reinjected[1.0]")  # fmt: skip
slip(221, "late rewards", "shares of small and large rewards swapped", "asyncsim.rewards.late:Late._fates",
     "low, high = self.share", "high, low = self.share",
     killer="core/test_late_rewards.py"
     "::test_of_a_population_the_bias_is_linear_in_what_is_not_reinjected[1.0]")  # fmt: skip
slip(222, "late rewards", "trained as a reward of 0", "asyncsim.rewards.late:Late.arriving",
     "torch.where(known > 0, reward, stand_in)", "torch.where(known > 0, reward, torch.zeros_like(reward))",
     killer="core/test_late_rewards.py"
     "::test_the_mean_gradient_is_that_of_enumeration[bootstrap-None-2]")  # fmt: skip

slip(223, "oracle", "the population is drawn from the current policy", "asyncsim.sampling.oracle:_on_population",
     "policy.prepare(then)", "policy.prepare(now)",
     killer="methods/test_review.py::test_an_oracle_knows_the_age_of_its_data[limit]")  # fmt: skip
slip(224, "oracle", "covariance without the mean subtracted", "asyncsim.sampling.oracle:moments",
     "(second - torch.outer(first, first))", "second",
     killer="core/test_oracle.py"
     "::test_moments_are_the_enumeration[self_normalized-reinforce-bandit]")  # fmt: skip
slip(225, "oracle", "chance of a reward forgotten in the list of outcomes",
     "asyncsim.sampling.rollouts:enumerate_outcomes",
     "chance * torch.exp", "torch.exp",
     killer="tasks/test_tools.py::test_outcomes_are_those_of_a_plain_program[priced]")  # fmt: skip
slip(226, "oracle", "exact return summed over prompts, not averaged", f"{T}._tabular:TabularTask.exact",
     " * outcomes.chance / len(prompts)", " * outcomes.chance",
     killer="contracts/test_tasks.py"
     "::test_sampled_rewards_have_the_exact_mean[two prompts-fixed]")  # fmt: skip
slip(227, "oracle", "counts: rewards of 1 and 0 swapped", "asyncsim.sampling.rollouts:counts",
     "(drawn.reward != torch.gather", "(drawn.reward == torch.gather",
     killer="core/test_invariance.py::test_counts_equal_samples[truncated_is-fixed-bernoulli]")  # fmt: skip
