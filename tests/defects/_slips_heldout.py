"""Slips at places drawn by chance, by someone who had read no claim and no test; a quick test has each since."""

import functools

from tests.defects.slips import slip

M, R, T = "asyncsim.methods", "asyncsim.diagnosing", "asyncsim.tasks"

drawn = functools.partial(slip, seen="drawn by chance")

drawn(264, "regression", "Kimi: default baseline divides by the deviation", f"{M}._estimator:_public",
     "if compared else advantage()", "if compared else advantages.group_std()",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[kimi]")  # fmt: skip
drawn(266, "tasks", "listed outcomes: what the environment says counts as the policy's own",
     f"{T}._tabular:TabularTask._enumerate",
     "mask = mask * (1.0 - inserted[:, keep])", "mask = mask * 1.0",
     killer="tasks/test_tools.py::test_outcomes_are_those_of_a_plain_program[no room for a reply]")  # fmt: skip
drawn(269, "clips", "Clip-Cov: tokens of the band counted, not weighed", f"{M}.clipped:ClipCov._kept",
     "(step.share * inside)", "inside",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[clip_cov]")  # fmt: skip
drawn(277, "predicting", "trailing mean over one number less", f"{R}.alarms:trailing",
     "range(min(width, len(values)))", "range(min(width, len(values)) - 1)",
     killer="diagnosing/test_predict.py::test_a_fall_counts_once_the_mean_is_below_half[12-10-0.3]")  # fmt: skip
drawn(286, "token weights", "ESTR: nothing stops a token that became rarer", f"{M}.shaped:estr",
     "step.log_ratio.abs()", "step.log_ratio",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[estr]")  # fmt: skip
drawn(287, "diagnostics", "mass above a bound: small weights counted too", "asyncsim.step.ratios:beyond",
     "flat > limit if", "flat.abs() > limit if",
     killer="contracts/test_ratios.py::test_beyond_a_bound")  # fmt: skip
drawn(302, "staleness", "every token as old as the oldest of its sample", "asyncsim.step.step:Step.staleness",
     "return self.batch.staleness", "return self.batch.staleness.amax(-1, keepdim=True)",
     killer="methods/test_metrics_of_steps.py::test_staleness_of_mixed_trajectories")  # fmt: skip
drawn(303, "penalties", "squared log ratio: slope without its 2", f"{M}.shaped:_square",
     "2.0 * np.asarray(kl)", "np.asarray(kl)",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[dppo_prime]")  # fmt: skip
