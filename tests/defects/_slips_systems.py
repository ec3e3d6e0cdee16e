"""Slips in systems, their kernel, summaries, schedules, lengths and draws."""

from asyncsim.systems._system import System
from tests.defects.plants import PLANTS, Plant
from tests.defects.slips import ANEW, slip

S, H, B = "asyncsim.systems", "asyncsim.schedules", "asyncsim.base"


def mistaken(number: int, what: str, name: str, killer: str = "") -> None:
    """Enter a plant in the compiled kernel: its running state is changed by a mistake of `trials`."""

    def patches():
        from asyncsim.claims.lab import kernel_defects as _kernel_defects

        right, plant = System.simulate, getattr(_kernel_defects, name)

        def simulate(self, *arguments, **settings):
            return (plant(self) if type(self) is System else self).simulate(*arguments, **settings)

        simulate.__wrapped__ = right
        return [(System, "simulate", simulate)]

    PLANTS[number] = Plant(number, "kernel", what, ANEW, patches, killer)


mistaken(155, "an install is not counted: stamps are a version old", "version_off_by_one",
     killer="systems/test_kernel.py::test_token_versions_of_a_sample_across_an_install")  # fmt: skip
mistaken(156, "an install is counted twice", "publish_counted_twice",
     killer="systems/test_rolling.py::test_tokens_have_the_versions_of_their_own_server")  # fmt: skip
mistaken(157, "the count of tickets is lost", "counter_lost",
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[servers]")  # fmt: skip
mistaken(158, "a place is freed twice", "place_freed_twice",
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[visible]")  # fmt: skip
mistaken(159, "a slot is freed twice", "slot_freed_twice",
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[servers]")  # fmt: skip
mistaken(160, "a dropped group is recorded as trained", "dropped_counted_as_trained",
     killer="systems/test_contract.py"
     "::test_a_preset_follows_its_law[pipeline_rl by the sample-balanced]")  # fmt: skip
mistaken(161, "a cancelled sample is written to its end", "cancelled_run_on",
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[redundant]")  # fmt: skip

slip(162, "kernel", "prefetch: one batch more", f"{S}._build:_settings",
     '"room": room', '"room": room, "prefetch": s.prefetch + 1',
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[prefetch]")  # fmt: skip
slip(163, "kernel", "tickets come back at once where a publish is meant, and the reverse", f"{S}._build:_settings",
     's.release == "publish"', 's.release != "publish"',
     killer="systems/test_summary.py::test_a_deadlock_says_who_waits_for_what")  # fmt: skip
slip(164, "kernel", "age limit: one version more", f"{S}._build:_settings",
     '"room": room', '"room": room, "max_age": _limit(None if s.max_age is None else s.max_age + 1)',
     killer="systems/test_summary.py::test_a_deadlock_says_who_waits_for_what")  # fmt: skip
slip(165, "kernel", "a full buffer drops the oldest where it should block, and the reverse", f"{S}._build:_settings",
     's.overflow == "drop_oldest"', 's.overflow != "drop_oldest"',
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[max_uses]")  # fmt: skip
slip(166, "publishing", "transfer takes the time of a batch's share of it", f"{S}._build:_settings",
     '"room": room', '"room": room, "sync_time": s.sync_time / s.batches_per_publish',
     killer="claims/test_claims.py::test_claim_holds_and_every_defect_flips_it[systems/pipeline]")  # fmt: skip
slip(167, "publishing", "transfer in milliseconds", f"{S}._build:_settings",
     '"room": room', '"room": room, "sync_time": s.sync_time / 1000.0',
     killer="systems/test_kernel.py"
     "::test_the_comparison_of_histories_sees_every_setting[generator_pauses]")  # fmt: skip
slip(168, "publishing", "several batches per publish: the trainer publishes each", f"{S}._build:_settings",
     '"room": room', '"room": room, "batches_per_publish": 1',
     killer="systems/test_contract.py::test_a_preset_follows_its_law[tba-generators]")  # fmt: skip
slip(169, "systems", "load: training time of one group", f"{S}._settings:Settings.mean_train_time",
     "self.load * self.groups_per_batch / ", "self.load / ",
     killer="systems/test_contract.py"
     "::test_a_preset_has_a_law_at_its_first_settings_or_a_row_that_says_none[areal]")  # fmt: skip
slip(170, "systems", "redundant samples: waits for the slowest of the kept alone",
     f"{S}._settings:Settings._last_work",
     "samples_per_group, samples_per_group + self.redundant", "samples_per_group, samples_per_group",
     killer="systems/test_redundant.py::test_a_load_counts_the_redundant_samples[places]")  # fmt: skip
slip(171, "systems", "training time per token forgotten in the expected one",
     f"{S}._settings:Settings.mean_train_time",
     "return time + self.token_time", "return time + 0.0 * self.token_time",
     killer="systems/test_speeds.py::test_training_by_the_token_adds_to_the_time_of_a_batch")  # fmt: skip
slip(172, "systems", "staleness from the version at the end of a response", f"{S}._record:head_staleness",
     "state.group.v_head", "state.group.v_done",
     killer="systems/test_contract.py::test_a_preset_follows_its_law[update_on_arrival-trainer]")  # fmt: skip
slip(173, "systems", "tokens stamped by the version of the token behind them", f"{S}._record:emit",
     "whole[i] * t / tokens", "whole[i] * (t + 1) / tokens",
     killer="schedules/test_replay.py"
     "::test_fewer_tokens_than_logged_are_those_at_the_same_fractions")  # fmt: skip
slip(174, "summaries", "throughput counts the warm-up's batches", f"{S}._summary:summary",
     "_ratio(batches * system.groups_per_batch, seconds)", "_ratio(run.finished * system.groups_per_batch, seconds)",
     killer="systems/test_summary.py::test_the_summary_is_what_the_record_says")  # fmt: skip
slip(175, "summaries", "dropped groups over trained ones", f"{S}._summary:summary",
     "_ratio(lost, lost + groups)", "_ratio(lost, groups)",
     killer="systems/test_summary.py::test_shares_are_shares")  # fmt: skip
slip(176, "summaries", "wasted tokens over trained ones", f"{S}._summary:summary",
     "sums.wasted_work + sums.trained_work", "sums.trained_work",
     killer="systems/test_summary.py"
     "::test_the_wasted_share_counts_losses_and_work_after_the_warm_up")  # fmt: skip
slip(177, "summaries", "mean staleness in flight over all time in the system", f"{S}._summary:summary",
     '"in_flight": float(sums.staleness_in_flight / groups)', '"in_flight": float(sums.staleness / groups)',
     killer="systems/test_summary.py::test_the_summary_is_what_the_record_says")  # fmt: skip
slip(178, "summaries", "mean staleness of samples by tokens forgotten", f"{S}._summary:summary",
     "_ratio(sums.token_staleness, sums.tokens)", "_ratio(sums.token_staleness, sums.trained_samples)",
     killer="systems/test_summary.py::test_token_staleness_is_the_mean_over_many_tokens[pin]")  # fmt: skip

slip(179, "schedules", "fixed: one version too stale", f"{H}.imposed:_behind",
     "request.train_version - staleness", "request.train_version - staleness - 1",
     killer="contracts/test_links.py::test_staleness_step_counts_updates_not_versions[2-1]")  # fmt: skip
slip(180, "schedules", "sawtooth: publishes one batch late", f"{H}.imposed:sawtooth",
     "batches_per_publish=every", "batches_per_publish=every + 1",
     killer="schedules/test_imposed.py::test_sawtooth_and_frozen")  # fmt: skip
slip(181, "schedules", "random: draws shared between batches", f"{H}.imposed:_per",
     "batch * unit.size + unit", "0 * batch + unit",
     killer="comparing/test_attacked.py"
     "::test_every_replicate_has_a_schedule_of_its_own_at_every_look[random]")  # fmt: skip
slip(182, "schedules", "random: staleness looked up one class too low", f"{H}.imposed:_drawn",
     "np.searchsorted(cumulative, stream.uniform(realization, unit), side=\"right\")",
     "np.maximum(np.searchsorted(cumulative, stream.uniform(realization, unit), side=\"right\") - 1, 0)",
     killer="schedules/test_imposed.py"
     "::test_random_staleness_has_its_law_and_its_sharing[update]")  # fmt: skip
slip(183, "schedules", "frozen: weights are renewed", f"{H}.imposed:_first",
     "np.zeros_like(request.train_version)", "request.train_version",
     killer="schedules/test_imposed.py::test_sawtooth_and_frozen")  # fmt: skip
slip(184, "schedules", "replay: offset of stamps forgotten", f"{H}._log_versions:Units.stamps",
     "np.where(known, values + offset, 0)", "np.where(known, values, 0)",
     killer="schedules/test_replay.py"
     "::test_a_wrong_offset_or_unit_of_the_table_is_caught[nemo_rl-changes7]")  # fmt: skip
slip(185, "schedules", "the first batch of a publish is stamped with the publish before",
     f"{H}.imposed:Imposed.schedule",
     "np.arange(batches) // self.", "(np.arange(batches) - 1).clip(0) // self.",
     killer="schedules/test_imposed.py::test_sawtooth_and_frozen")  # fmt: skip
slip(186, "schedules", "coupled: padded lengths are told to the system", "asyncsim.sampling.drawing:Late.lengths",
     "trajectories.mask.sum(-1)", "torch.ones_like(trajectories.mask).sum(-1)",
     killer="tasks/test_tools.py::test_work_of_a_coupled_system_counts_replies")  # fmt: skip

slip(187, "lengths", "lognormal: the mean taken for the median", f"{B}.laws:_value",
     " - 0.5 * p[1] ** 2", "",
     killer="systems/test_laws.py::test_draws_follow_the_survival[lognormal:1.0:0.8]")  # fmt: skip
slip(188, "lengths", "pareto: its mean without the exponent", f"{B}.laws:Law._mean",
     "p[0] * p[1] / (p[1] - 1.0)", "p[0] / (p[1] - 1.0)",
     killer="systems/test_laws.py::test_mean_and_maxima_follow_the_survival[pareto:0.5:1.2]")  # fmt: skip
slip(189, "lengths", "exponential: its mean taken for a rate", f"{B}.laws:_value",
     "-p[0] * ", "-1.0 / p[0] * ",
     killer="systems/test_laws.py::test_draws_follow_the_survival[exponential:2.0]")  # fmt: skip
slip(190, "lengths", "order statistics counted from the largest", f"{B}.laws:Law.expected_least",
     "_least(self, k, n)", "_least(self, n - k + 1, n)",
     killer="systems/test_redundant.py::test_a_load_counts_the_redundant_samples[places]")  # fmt: skip
slip(191, "draws", "delays of rewards from the draws of lengths", f"{S}._build:rewards",
     '"reward seconds"', '"work"',
     killer="systems/test_draws.py::test_no_two_purposes_share_a_draw")  # fmt: skip
slip(192, "draws", "streams do not depend on their names", f"{B}.rng:Stream.key",
     '{self.seed}:{self.name}', '{self.seed}',
     killer="core/test_rng.py::test_neighbors_are_independent[stream name]")  # fmt: skip
slip(193, "draws", "both numbers of a block are the first", "asyncsim.step.batch:Draws.uniform",
     "pair[draw % 2]", "pair[0]",
     killer="contracts/test_tasks.py"
     "::test_sampled_rewards_have_the_exact_mean[two prompts-bernoulli]")  # fmt: skip
slip(194, "draws", "normal numbers of half the variance", f"{B}.rng:Stream.normal",
     "np.sqrt(-2.0 * ", "np.sqrt(-1.0 * ",
     killer="contracts/test_policies.py::test_normal_draws_are_the_keyed_ones[quadratic]")  # fmt: skip
slip(195, "draws", "replicates share their draws", "asyncsim.step.batch:Draws._block",
     "self.stream.key, self.replicates,", "self.stream.key, 0 * self.replicates,",
     killer="core/test_rng.py::test_blocks_of_a_batch_are_the_keyed_draws[3]")  # fmt: skip
