"""Slips in metrics, alarms, errors of estimates and comparisons."""

from tests.defects.slips import slip

D, R, P, C = "asyncsim.diagnostics", "asyncsim.step.ratios", "asyncsim.diagnosing", "asyncsim.comparing"
N = "asyncsim.base.uncertainty"

slip(228, "diagnostics", "ESS: the first moment not squared", f"{R}:_square_over",
     "first * first / second", "first / second",
     killer="contracts/test_ratios.py::test_ess_at_both_ends")  # fmt: skip
slip(229, "diagnostics", "variance of log ratios without the mean subtracted", f"{R}:log_moments",
     "(flat - mean.unsqueeze(-1)) ** 2", "flat**2",
     killer="contracts/test_ratios.py::test_formulas[variance]")  # fmt: skip
slip(230, "diagnostics", "chi-square without the -1", f"{R}:chi_square",
     " - 1.0", "",
     killer="contracts/test_ratios.py::test_formulas[chi_square]")  # fmt: skip
slip(231, "diagnostics", "tail index: threshold one order statistic too high", f"{R}:tail_index",
     "top.gather(-1, m)", "top.gather(-1, m - 1)",
     killer="contracts/test_ratios.py::test_tail_index_by_hand")  # fmt: skip
slip(232, "diagnostics", "cosine over the square of one length", f"{R}:cosine",
     "norm(first) * norm(second)", "first.norm(dim=-1) * first.norm(dim=-1)",
     killer="contracts/test_ratios.py::test_cosine")  # fmt: skip
slip(233, "diagnostics", "largest share: of the mean weight, not of the sum", f"{R}:max_weight_share",
     "scaled.max(-1).values / samples", "scaled.max(-1).values",
     killer="claims/test_claims.py::test_claim_holds_and_every_defect_flips_it[ess/finite-sample]")  # fmt: skip
slip(234, "diagnostics", "log of the mean weight without its shift", f"{R}:log_mean_weight",
     ".log() + shift", ".log()",
     killer="contracts/test_ratios.py::test_formulas[log_mean_weight]")  # fmt: skip
slip(235, "diagnostics", "k3: the other direction", f"{D}.log_ratios:kl",
     "step.sequence_log_ratio.expm1() - step.sequence_log_ratio",
     "(-step.sequence_log_ratio).expm1() + step.sequence_log_ratio",
     killer="methods/test_metrics.py::test_divergences_of_a_population_are_exact")  # fmt: skip
slip(236, "diagnostics", "k1 of the wrong sign", f"{D}.log_ratios:kl_k1",
     "return -step.mean(weights_of(step, of)[0])", "return step.mean(weights_of(step, of)[0])",
     killer="methods/test_metrics.py::test_divergences_of_a_population_are_exact")  # fmt: skip
slip(237, "diagnostics", "parts of staleness and of mismatch swapped", f"{D}._levels:weights_of",
     '"staleness": "staleness_log_ratio", "mismatch": "mismatch_log_ratio"',
     '"staleness": "mismatch_log_ratio", "mismatch": "staleness_log_ratio"',
     killer="contracts/test_diagnostics.py::test_both_ends[staleness_variance]")  # fmt: skip
slip(238, "diagnostics", "gradient norm: root of the mean square", "asyncsim.step.ratios:norm",
     "each.double().norm(dim=-1)", "each.double().square().mean(-1).sqrt()",
     killer="contracts/test_diagnostics.py::test_both_ends[gradient_norm]")  # fmt: skip
slip(239, "diagnostics", "cosine to the last recorded gradient, not to the last one",
     f"{D}._diagnostic:Recorder._record",
     "self.previous = step.gradient",
     "self.previous = step.gradient if step.update % self.every == 0 else self.previous",
     killer="contracts/test_diagnostics.py::test_recording_every_so_many_updates[2]")  # fmt: skip
slip(240, "diagnostics", "staleness of the last token, not of the first", f"{D}._diagnostic:head_staleness",
     "heads = step.staleness[..., 0]", "heads = step.staleness[..., -1]",
     killer="methods/test_metrics_of_steps.py::test_an_unknown_version_is_missing[staleness]")  # fmt: skip
slip(241, "diagnostics", "largest staleness: of the newest tokens", f"{D}.ages:staleness_max",
     "ages(step).oldest", "ages(step).newest",
     killer="methods/test_metrics_of_steps.py::test_staleness_of_mixed_trajectories")  # fmt: skip
slip(242, "diagnostics", "mean staleness: tokens of padding count", f"{D}.ages:staleness_mean",
     "(token_share(step) * ages(step).token).sum((1, 2, 3))",
     "(sample_share(step) * ages(step).token.mean(-1)).sum((1, 2))",
     killer="methods/test_metrics_of_steps.py::test_staleness_of_mixed_trajectories")  # fmt: skip
slip(243, "diagnostics", "entropy in bits", f"{D}.answers:entropy",
     'step.current["entropy"]', 'step.current["entropy"] / 0.6931471805599453',
     killer="contracts/test_diagnostics.py::test_both_ends[entropy]")  # fmt: skip
slip(244, "diagnostics", "autocorrelogram: lags read the wrong way around the ring",
     f"{D}.gradients:Autocorrelogram.observe",
     "(position - k) %", "(position + k) %",
     killer="contracts/test_diagnostics.py::test_autocorrelogram_at_both_ends[signs1-expected1]")  # fmt: skip
slip(245, "diagnostics", "share of tokens: masked ones count", f"{D}._levels:token_share",
     "step.mass.unsqueeze(-1) * step.batch.mask", "step.mass.unsqueeze(-1) * torch.ones_like(step.batch.mask)",
     killer="methods/test_metrics.py::test_sequence_ratios_on_tokens_count_lengths")  # fmt: skip

slip(246, "alarms", "area under the curve: sizes of the two groups swapped", f"{P}.alarms:auc",
     "(ranks[:, :n] - own) / m", "(ranks[:, :n] - own) / n",
     killer="diagnosing/test_predict.py"
     "::test_an_area_without_a_misplaced_score_keeps_an_error[3]")  # fmt: skip
slip(247, "alarms", "score at the event, whatever the lead", f"{P}.alarms:worst",
     "times - lead, watch - lead", "times, watch",
     killer="diagnosing/test_predict.py"
     "::test_a_watch_of_its_own_is_a_maximum_over_so_many_updates")  # fmt: skip
slip(248, "alarms", "level set on the runs that it is judged by", f"{P}.predicting:_alarm",
     "whole[:, setting], rate", "controls[:, held_out], rate",
     killer="diagnosing/test_predict.py"
     "::test_a_level_is_judged_by_other_runs_than_those_that_set_it")  # fmt: skip
slip(249, "alarms", "half way to the best return, counted from 0", "asyncsim.comparing.readings:learned_at",
     "start + 0.5 * (best - start)", "0.5 * best",
     killer="diagnosing/test_predict.py::test_half_way_is_counted_from_the_start")  # fmt: skip
slip(251, "alarms", "lead one update too long", f"{P}.alarms:announced",
     "times - first, -1)", "times - first + 1, -1)",
     killer="diagnosing/test_predict.py"
     "::test_a_watch_of_its_own_is_a_maximum_over_so_many_updates")  # fmt: skip
slip(252, "alarms", "band of lead times: one-sided", f"{P}.alarms:band",
     "math.log(2.0 /", "math.log(1.0 /",
     killer="diagnosing/test_predict.py::test_a_curve_leaves_its_band_as_seldom_as_stated[8-0.2]")  # fmt: skip
slip(253, "alarms", "moving mean looks one update ahead", f"{P}.alarms:trailing",
     "total[shift:] += filled[: len(values) - shift]",
     "total[max(shift - 1, 0) :][: len(values) - shift] += filled[: len(values) - shift]",
     killer="diagnosing/test_predict.py::test_times_and_counts_are_those_that_were_planted")  # fmt: skip

slip(254, "errors of estimates", "variance over m, not over m - 1", f"{N}:between",
     "math.sqrt(m / (m - 1) * float(spread @ spread))", "math.sqrt(float(spread @ spread))",
     killer="test_uncertainty.py::test_between_weights_unequal_realizations_by_their_replicates")  # fmt: skip
slip(255, "errors of estimates", "replicates of one realization counted as independent", f"{N}:between",
     "if several else", "if several and not random else",
     killer="test_uncertainty.py::test_between_covers_when_realizations_are_the_unit")  # fmt: skip
slip(256, "errors of estimates", "ratio: the denominator's spread forgotten", f"{N}:ratio",
     "(top - value * bottom) / scale", "top / scale",
     killer="test_uncertainty.py::test_ratio_covers_and_pairing_matters")  # fmt: skip
slip(257, "errors of estimates", "two-sided bound at a one-sided level", "asyncsim.base.quantiles:critical",
     " / sides", "",
     killer="test_uncertainty.py::test_between_covers_when_realizations_are_the_unit")  # fmt: skip
slip(258, "errors of estimates", "batch means treated as single numbers", f"{N}:batch_means",
     ".reshape(batches, length)", ".reshape(-1, 1)",
     killer="test_uncertainty.py"
     "::test_batch_means_cover_a_correlated_series_and_single_numbers_do_not")  # fmt: skip
slip(259, "errors of estimates", "end of a trace: averaged from its beginning", "asyncsim.base.trace:Trace.final",
     "self[name][-rows:]", "self[name][:rows]",
     killer="core/test_trace.py::test_final_is_the_mean_of_the_last_rows_between_realizations")  # fmt: skip
slip(260, "comparisons", "trimmed mean: error over all numbers, not over those left", f"{C}.intervals:trimmed",
     "(h * (h - 1))", "(n * (n - 1))",
     killer="comparing/test_intervals.py::test_an_interquartile_mean_is_that_of_scipy")  # fmt: skip
slip(261, "comparisons", "bound of one look for all looks", f"{C}.intervals:_worst",
     "common_bound(looks, ", "common_bound(1, ",
     killer="comparing/test_intervals.py::test_no_interval_misses_too_often[planned-normal]")  # fmt: skip
slip(262, "comparisons", "betting: both sides at the whole level", f"{C}.intervals:betting",
     "math.log(2.0 / alpha)", "math.log(1.0 / alpha)",
     killer="comparing/test_intervals.py::test_a_bet_is_the_product_of_its_gains")  # fmt: skip
slip(263, "comparisons", "arms paired with the wrong seeds", f"{C}.intervals:difference",
     "x = a - b", "x = a - b[::-1]",
     killer="comparing/test_deciding.py"
     "::test_arms_are_paired_and_the_answer_says_what_that_saved[3]")  # fmt: skip
