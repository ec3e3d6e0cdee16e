"""A held-out sample: forty slips at places drawn by chance, by someone who had not read a claim, a test or a trial.

Drawn once, on the product of November 2026: all functions and methods with four lines of body or more in advantages,
methods, factors, penalties, updates, learning, diagnostics, rewards, schedules, tasks, policies, systems and predicting
(by ast, files in order of their names, a function inside a function not on its own), without names like check, refuse,
describe, packed, restore, format, `__repr__`, `__str__`, without compiled functions of systems/_*.py and without
policies/_language*, causal*: 815 places, `random.Random(2026).sample(places, 815)`, taken in that order.

Skipped, since no slip of theirs changes a number: running.checkpoint:Keeper._write (writes a file),
schedules._log_files:_csv (a budget of memory), policies._hub:reading (a message), policies._pretraining:folder (a
path), running.running:_stay_here (refusals), running.helping:Table.__init__ (empty fields),
methods._method:Method.ratio_to (a word of a description), systems._state:_slot (checks an address).

Found when they were measured, kept and to be counted apart: 301 changes nothing (a view of a single slot has a stack of
one in every run that was tried), 293 ends the process (memory out of bounds), 282 is refused where a log has version 0.

Claims written after this page may look at it: then it is held out no longer, and a new one has to be drawn.
"""

import functools

from tests.defects.plants import PLANTS, Patches, Plant
from tests.defects.slips import edited, named, slip

A, D, M = "asyncsim.advantages", "asyncsim.diagnostics", "asyncsim.methods"
P, R, S, T = "asyncsim.policies", "asyncsim.diagnosing", "asyncsim.systems", "asyncsim.tasks"
C = "asyncsim.schedules"

CHANCE = "drawn by chance"
drawn = functools.partial(slip, seen=CHANCE)

drawn(264, "regression", "Kimi: default baseline divides by the deviation", f"{M}._estimator:_usual",
     "return advantage()", "return advantages.group_std()",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[kimi]")  # fmt: skip
drawn(265, "schedules", "every block of replicates reads the realizations of the first",
     "asyncsim.running.sources:Source.cut",
     "self.realization[replicates]", "self.realization[: len(replicates)]")  # fmt: skip
drawn(266, "tasks", "listed outcomes: what the environment says counts as the policy's own",
     f"{T}._tabular:TabularTask._enumerate",
     "mask = mask * (1.0 - inserted[:, keep])", "mask = mask * 1.0",
     killer="tasks/test_tools.py::test_outcomes_are_those_of_a_plain_program[no room for a reply]")  # fmt: skip
drawn(267, "tasks", "arithmetic: no room for the line break behind the longest answer", f"{T}.arithmetic:arithmetic",
     "else digits + 1) + 1", "else digits + 1)")  # fmt: skip
drawn(268, "policies", "mlp: gradient of the spread averaged over tokens, not summed", f"{P}.mlp:Mlp._pull",
     "spread.sum(1)", "spread.mean(1)")  # fmt: skip
drawn(269, "clips", "Clip-Cov: tokens of the band counted, not weighed", f"{M}.clipped:ClipCov._kept",
     "(step.share * inside)", "inside",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[clip_cov]")  # fmt: skip
drawn(270, "policies", "mlp: table of versions filled up with version 0", f"{P}._mlp_network:_distinct",
     "-1, dtype=np.int64)", "0, dtype=np.int64)")  # fmt: skip
drawn(271, "policies", "tabular: all samples of a group act by the weights of its first",
     f"{P}._tabular_kernels:choose",
     "n if slot.shape[2] > 1 else 0", "0", by=f"{P}.tabular:Tabular.act")  # fmt: skip
drawn(272, "policies", "language models: keys returned as values", f"{P}._cache:Columns.update",
     "pair[1][:, :, : self.column + 1]", "pair[0][:, :, : self.column + 1]")  # fmt: skip
drawn(273, "predicting", "false alarms counted on the runs that set the level", f"{R}.predicting:_alarm",
     "(controls[:, held_out] > level)", "(controls[:, setting] > level)")  # fmt: skip


def _unsorted() -> Patches:
    # What is compiled has the function inside of it: its callers are compiled anew.
    kernels = f"{P}._engine_kernels"
    wrong = edited(named(f"{kernels}:_descending"), [("while j > 0", "while j > 1")])
    callers = ("_least", "_weigh", "lay_out", "act_on_noise")
    return [*wrong, *(patch for name in callers for patch in edited(named(f"{kernels}:{name}"), ()))]


PLANTS[274] = Plant(
    274,
    "engines",
    "top-k, top-p: the first value never sorted",
    CHANCE,
    _unsorted,
    "",
    {},
    f"{P}._engine:Engine.install",
)
drawn(275, "tasks", "token bandit: success only beyond its share", f"{T}.token_bandit:TokenBandit.score",
     ">= self.success * self.horizon - 1e-9", "> self.success * self.horizon")  # fmt: skip
drawn(276, "systems", "staleness: every realization is the first", f"{S}._system:System.staleness",
     "samples_per_group, m, seed)", "samples_per_group, 0, seed)")  # fmt: skip
drawn(277, "predicting", "trailing mean over one number less", f"{R}.signals:trailing",
     "range(min(width, len(values)))", "range(min(width, len(values)) - 1)",
     killer="diagnosing/test_predict.py::test_a_fall_counts_once_the_mean_is_below_half[12-10-0.3]")  # fmt: skip
drawn(278, "systems", "fixed lag: places for one batch only", f"{S}.textbook:fixed_lag",
     "groups_per_batch, lag, ", "groups_per_batch, lag, groups_per_batch, ")  # fmt: skip
drawn(279, "tasks", "MDP: exact gradient without the discount of its step", f"{T}._mdp:TabularMDP.exact",
     "self.discount**t * pairs", "pairs")  # fmt: skip
drawn(280, "systems", "OpenRLHF: the batch in training has a ticket too", f"{S}.labs:openrlhf",
     "tickets=async_queue_size * batch", "tickets=(async_queue_size + 1) * batch")  # fmt: skip
drawn(281, "systems", "verl: tickets rounded, not cut off", f"{S}.verl:verl_fully_async",
     "int(ppo_mini_batch_size", "round(ppo_mini_batch_size")  # fmt: skip
drawn(282, "schedules", "log: trainers' versions taken for steps counted from one", f"{C}._log_table:_trained",
     "declared.stack.train_offset if theirs else 0", "declared.stack.train_offset if theirs else -1")  # fmt: skip
drawn(283, "programs", "the program of a batch's first update serves the later ones",
     "asyncsim.running.fused:Fused.__call__",
     "key = (start is None, recorded)", "key = (recorded,)")  # fmt: skip
drawn(284, "baselines", "mean of the others: own reward kept without its weight", f"{A}._baselines:others",
     "remaining * weight * relative", "remaining * relative")  # fmt: skip
drawn(285, "factors", "factors forgotten where a part spreads over all actions", f"{M}._method:Method._of_scores",
     "None if spread is None else masked(spread, factor.unsqueeze(-1))", "spread")  # fmt: skip
drawn(286, "token weights", "ESTR: nothing stops a token that became rarer", f"{M}.trusted:estr",
     "step.log_ratio.abs()", "step.log_ratio",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[estr]")  # fmt: skip
drawn(287, "diagnostics", "mass above a bound: small weights counted too", "asyncsim.step.ratios:beyond",
     "flat > limit if", "flat.abs() > limit if",
     killer="contracts/test_ratios.py::test_beyond_a_bound")  # fmt: skip
drawn(288, "clips", "BAPO as released: anchor not handed on", f"{M}._estimator:_fields",
     '"anchor", ', "")  # fmt: skip
drawn(289, "schedules", "log: mean over tokens, version 0 taken for unknown", f"{C}._log_versions:Steps.token_mean",
     "self.version >= 0", "self.version > 0")  # fmt: skip
drawn(290, "advantages", "GAE: standardized without its mean", f"{A}.traces:Gae.finished",
     "(advantages - mean) / (deviation", "advantages / (deviation")  # fmt: skip
drawn(291, "systems", "training times of a refill drawn from the first batch on", f"{S}._draws:train_times",
     "np.arange(first, first + batches)", "np.arange(batches)")  # fmt: skip
drawn(292, "predicting", "a run is watched from before its window is full", f"{R}.alarms:matched",
     "found.learned + watch + window", "found.learned + watch")  # fmt: skip
drawn(293, "systems", "records: columns of 4 bytes read at the stride of 8", f"{S}._record:columns_of",
     "table.itemsize // word.itemsize, places", "table.itemsize // 8, places")  # fmt: skip
drawn(294, "diagnostics", "callbacks: mean over replicates without numbers too",
     "asyncsim.running.callbacks:Recorded.summary",
     "finite.mean()", "values.mean()")  # fmt: skip
drawn(295, "diagnostics", "batch return without the groups that were dropped", f"{D}.returns:batch_return",
     "batch = step.batch.generated", "batch = step.batch")  # fmt: skip
drawn(296, "advantages", "minibatches: what is due behind the whole batch left out",
     "asyncsim.step.step:Step.advantages",
     "self.method.advantage.finished(self, known) if self.start.unfinished else known", "known")  # fmt: skip
drawn(297, "checkpoints", "blocks kept again with every block that ends", "asyncsim.running.training:Training._keep",
     "self.table.of(0)[len(self.keeper.parts) :]", "self.table.of(0)")  # fmt: skip
drawn(298, "diagnostics", "accumulators go on from one run to the next", f"{D}._diagnostic:chosen",
     "value.fresh()", "value")  # fmt: skip
drawn(299, "systems", "AReaL: batches packed in the order in which groups end", f"{S}.labs:areal",
     'order="oldest_start"', 'order="done"')  # fmt: skip
drawn(300, "tasks", "bit chain: a wrong bit valued a token too early", f"{T}.bit_chain:BitChain.exact",
     "(reached * paid[t + 1])", "(reached * paid[t])")  # fmt: skip
drawn(301, "policies", "feedback: density at the newest gain, not at the sample's", f"{P}.feedback:Feedback._gain",
     "stack[int(view.slot.flat[0])]", "stack[-1]")  # fmt: skip
drawn(302, "staleness", "every token as old as the oldest of its sample", "asyncsim.step.step:Step.staleness",
     "return self.batch.staleness", "return self.batch.staleness.amax(-1, keepdim=True)",
     killer="methods/test_metrics_of_steps.py::test_staleness_of_mixed_trajectories")  # fmt: skip
drawn(303, "penalties", "squared log ratio: slope without its 2", f"{M}._surrogates:square",
     "2.0 * np.asarray(kl)", "np.asarray(kl)",
     killer="contracts/test_methods.py::test_score_weights_are_those_of_the_printed_loss[dppo_prime]")  # fmt: skip
