"""Slips in links, masks, prompts, epochs, minibatches, micro-batches and versions."""

from tests.defects.slips import slip

U = "asyncsim.updates"

slip(123, "links", "momentum: an average of directions, not a sum", f"{U}.steps:Momentum.apply",
     ' + record.direction\n', ' + (1.0 - self.beta) * record.direction\n',
     killer="contracts/test_links.py::test_momentum_is_torchs_momentum")  # fmt: skip
slip(124, "links", "adam: bias correction of the first moment dropped", f"{U}.steps:Moments.apply",
     "lr / (1.0 - beta1**count)", "lr",
     killer="contracts/test_links.py::test_adam_is_torchs_adam")  # fmt: skip
slip(125, "links", "adam: eps inside the root", f"{U}._link:adam_step",
     ".sqrt_().add_(eps)", ".add_(eps).sqrt_()",
     killer="contracts/test_links.py::test_adam_is_torchs_adam")  # fmt: skip
slip(126, "links", "clip_norm: short directions are stretched", f"{U}.steps:ClipNorm.apply",
     "torch.clamp(limit / length, max=1.0)", "(limit / length)",
     killer="contracts/test_links.py::test_a_zero_direction_stays_zero[dtype0-clip_norm]")  # fmt: skip
slip(127, "links", "align: remembers what was applied where raw was asked for, and the reverse",
     f"{U}.steps:Align.apply",
     '{"raw": g, "applied": applied}', '{"raw": applied, "applied": g}',
     killer="contracts/test_links.py::test_align_passes_projects_and_skips")  # fmt: skip
slip(128, "links", "align: projection divided by the length, not by its square", f"{U}.steps:Align._removed",
     ".sum(-1, keepdim=True)", ".sum(-1, keepdim=True).sqrt()",
     killer="methods/test_stabilizers.py::test_align_shrinks_the_parallel_part[0.6-0.5]")  # fmt: skip
slip(129, "links", "ess_step: the rule's exponent forgotten", f"{U}.steps:EssStep._scale",
     "scale = scale ** _POWERS[self.rule]", "pass",
     killer="contracts/test_links.py::test_ess_step_at_both_ends[sqrt-0.5]")  # fmt: skip
slip(130, "links", "scale: divided instead of multiplied", f"{U}.steps:Scale.apply",
     "record.direction * factor", "record.direction / factor",
     killer="methods/test_stabilizers.py::test_constant_scale")  # fmt: skip
slip(131, "links", "staleness_step: 1/(1 + staleness)", f"{U}.steps:StalenessStep.apply",
     ".clamp(min=1.0)", ".clamp(min=0.0).add(1.0)",
     killer="contracts/test_links.py::test_staleness_step[ages0]")  # fmt: skip
slip(132, "links", "lr_by_lag: by the current lag, not the largest so far", f"{U}.steps:LrByLag.apply",
     'torch.maximum(state["largest"], record.step.update_staleness.unsqueeze(-1))',
     "record.step.update_staleness.unsqueeze(-1)",
     killer="methods/test_stabilizers.py::test_lr_by_lag_remembers_the_largest")  # fmt: skip
slip(134, "links", "states of links move on skipped updates", f"{U}._link:Chain.apply",
     "state[name], new)", "new, new)",
     killer="methods/test_stabilizers.py::test_a_skip_by_align_is_no_lost_direction")  # fmt: skip
slip(135, "links", "skip_nonfinite: only where every number is broken", f"{U}.steps:SkipNonfinite.apply",
     ".all(-1)", ".any(-1)",
     killer="contracts/test_links.py"
     "::test_a_broken_direction_breaks_only_its_replicate[skip_nonfinite]")  # fmt: skip
slip(137, "links", "links of a chain run from the last to the first", f"{U}._link:chain",
     "Chain(tuple(links))", "Chain(tuple(reversed(links)))",
     killer="contracts/test_links.py"
     "::test_no_link_behind_learns_from_a_lost_direction[nan-adam]")  # fmt: skip

slip(138, "masks", "padding counts as tokens", "asyncsim.step.step:Step.lengths",
     "self.mask.sum(-1)", "torch.full_like(self.mask[..., 0], self.mask.shape[-1])",
     killer="methods/test_baselines.py::test_opo_weighs_by_length")  # fmt: skip
slip(139, "masks", "log ratios of what is masked enter the product", "asyncsim.step.step:Step._between",
     "gap.mul_(self.mask).add_(0.0)", "gap.add_(0.0)",
     killer="contracts/test_every_plugin.py::test_masked_tokens_cannot_matter[vcpo-default]")  # fmt: skip
slip(140, "masks", "reward paid at the last column, not at the last token", "asyncsim.step.batch:Batch.rewards",
     "(left == 1.0).to(self.mask.dtype)",
     "torch.nn.functional.pad(torch.zeros_like(left[..., 1:]), (0, 1), value=1.0)", "self.mask * ", "",
     killer="tasks/test_tools.py"
     "::test_credit_is_exact_over_replies[a reply that is cut-gae-0.6-1.0]")  # fmt: skip
slip(141, "masks", "replies of the environment are trained on", "asyncsim.sampling.rollouts:Trajectories.own",
     "self.mask * (1.0 - self.inserted)", "self.mask",
     killer="tasks/test_tools.py::test_drawn_dialogs_are_well_formed")  # fmt: skip
slip(142, "prompts", "prompt by sample, not by group", "asyncsim.sampling.rollouts:Sampler.prompt_of",
     "ids // (self.samples + self.redundant) % self.task.prompts", "ids % self.task.prompts",
     killer="methods/test_shaped_rewards.py::test_prompts_have_greedy_responses_of_their_own")  # fmt: skip
slip(143, "prompts", "baseline over all prompts", "asyncsim.step.step:Step.group_mean",
     ".sum(-1, keepdim=True)", ".sum(-1, keepdim=True).mean(1, keepdim=True)",
     killer="contracts/test_advantages.py::test_groups_do_not_touch_each_other[group_mean]")  # fmt: skip
slip(144, "prompts", "every prompt answers for the first one's rewards",
     "asyncsim.tasks.bandits:SoftmaxBandit.score",
     "if self.prompts == 1 else", "if self.prompts > 0 else",
     killer="methods/test_shaped_rewards.py::test_prompts_have_greedy_responses_of_their_own")  # fmt: skip
slip(145, "prompts", "groups of equal rewards stay", "asyncsim.methods._method:Method.counted",
     "some > other", "some >= other",
     killer="contracts/test_dropped_groups.py::test_no_metric_and_no_link_sees_a_dropped_group[dapo]")  # fmt: skip
slip(146, "epochs", "the proximal policy is renewed in every epoch", "asyncsim.running.loop:run_block",
     "start or carried(step)", "start",
     killer="core/test_epochs.py"
     "::test_the_proximal_policy_is_that_of_the_first_update_on_the_batch[2]")  # fmt: skip
slip(147, "epochs", "staleness counts batches between publishes, not updates", "asyncsim.running.blocks:Block.train",
     "spec.system.batches_per_publish * spec.passes", "spec.system.batches_per_publish",
     killer="methods/test_metrics_of_steps.py"
     "::test_update_staleness_counts_updates_on_a_drained_batch")  # fmt: skip
slip(148, "minibatches", "every epoch has the same shuffle", "asyncsim.step.minibatches:Cuts.of",
     "number, epoch, places", "number, 0, places",
     killer="core/test_minibatches.py::test_every_method_is_a_plain_loop[vcpo-3]")  # fmt: skip
slip(149, "minibatches", "advantages made anew in each minibatch", "asyncsim.step.minibatches:Cuts.begin",
     "flat or not self.after", "flat",
     killer="core/test_minibatches.py::test_every_cut_is_a_plain_loop[parts-False-1-False]")  # fmt: skip
slip(150, "minibatches", "samples of the flat cut are those of the first group",
     "asyncsim.step.minibatches:Minibatch._samples",
     "return self._pick(x, batch, 3)", "return self._pick(x[:, :1].expand_as(x), batch, 3)",
     killer="core/test_minibatches.py::test_every_method_is_a_plain_loop[vespo-1]")  # fmt: skip
slip(151, "micro-batches", "gradients averaged, not added", "asyncsim.methods._method:forward",
     "return total", "return total / len(spans)",
     killer="core/test_parts_of_a_step.py::test_two_passes_are_one_step[3-2]")  # fmt: skip
slip(152, "versions", "mixed batches read one version too new", "asyncsim.step.versions:Store.view",
     "table[version - low]", "table[np.minimum(version - low + 1, high - low)]",
     killer="policies/test_engine.py"
     "::test_batches_that_mix_versions_read_the_tables_of_each[engine4]")  # fmt: skip
slip(153, "versions", "the trainer's version counted before its publish", "asyncsim.step.batch:Batch.staleness",
     "self.train_version - self.version", "self.train_version - 1 - self.version",
     killer="methods/test_metrics_of_steps.py"
     "::test_update_staleness_is_missing_where_a_version_is")  # fmt: skip
slip(154, "versions", "tokens of a mixed sequence read the version of its first", "asyncsim.step.versions:View.token",
     "self.slot[..., t : t + 1]", "self.slot[..., :1]",
     killer="policies/test_walk.py::test_one_loop_draws_what_single_tokens_draw[0]")  # fmt: skip
