"""Groups that keep the first of their samples: by hand, on whole records, and in the learner's numbering."""

import dataclasses
import itertools

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base import laws
from asyncsim.claims.lab import kernel_defects as defects
from asyncsim.sampling.rollouts import Sampler
from asyncsim.schedules import coupled
from asyncsim.systems._system import System
from tests.refusals import refused
from tests.systems.test_twin import by_hand


def places(**changes):
    base = {"length": laws.lognormal(1.0, 0.8), "rates": (1.0,) * 4, "groups_per_batch": 2, "tickets": 6}
    return System("places", {}, **{**base, "train_time": 0.1, "order": "target", "redundant": 3, **changes})


def bandit(prompts):
    return sim.tasks.softmax_bandit(2, means=[[0.0, 1.0]] * prompts)


def spec(task, source, **changes):
    sizes = {"updates": 8, "samples_per_group": 2, "replicates": 2, **changes}
    return sim.Spec(task, source, sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.5)), **sizes)


def test_the_third_sample_is_cancelled_when_the_second_ends():
    # Works 1, 4, 2 in one slot each: the group is over at 2, when the second has written 2 of 4.
    twin = by_hand([1.0, 4.0, 2.0, 9.0], [1.0], 1, samples=2, redundant=1)
    fates = [(s.t_end, s.cancelled, s.wasted) for s in twin.groups[0].samples]
    assert fates == [(1.0, False, 0.0), (None, True, 2.0), (2.0, False, 0.0)]
    assert (twin.groups[0].t_done, twin.batches[0].t_start) == (2.0, 2.0)


def test_a_sample_that_waits_for_its_reward_is_cancelled_whole():
    # Ends at 1, 2, 4; rewards after 5, 1, 0: the second and the third are in at 3 and 4, the first would be at 6.
    rewarded = {"reward": laws.constant(1.0), "rewards": [5.0, 1.0, 0.0]}
    twin = by_hand([1.0, 2.0, 4.0], [1.0], 1, samples=2, redundant=1, **rewarded)
    first = twin.groups[0].samples[0]
    assert (first.t_end, first.t_scored, first.cancelled, first.wasted) == (1.0, None, True, 0.0)
    assert (twin.groups[0].t_done, twin.groups[0].t_ready) == (4.0, 4.0)


def test_the_kept_are_the_shortest_and_only_they_are_trained():
    record = places().timeline(200, 4)
    work, fate = (record.samples[name].reshape(-1, 7) for name in ("work", "fate"))
    trained = record.groups["fate"] == "trained"
    kept = fate[trained] == "trained"
    assert (kept.sum(axis=1) == 4).all() and (fate[trained][~kept] == "cancelled").all()
    shortest = np.argsort(np.argsort(work[trained], axis=1), axis=1) < 4
    assert np.array_equal(kept, shortest)
    # What a cancelled sample wrote is what the last of the kept ones took.
    last = np.sort(work[trained], axis=1)[:, 3:4]
    wasted = record.samples["wasted"].reshape(-1, 7)[trained]
    np.testing.assert_allclose(wasted, np.where(kept, 0.0, last), rtol=1e-9)
    wrong = defects.keeps_any(places()).timeline(200, 4).samples["fate"].reshape(-1, 7)[trained] == "trained"
    assert not np.array_equal(wrong, shortest)


def test_schedules_and_summaries_have_the_kept_samples_alone():
    system = places()
    record, schedule = system.timeline(50, 4), system.schedule(50, 4, 1, 1, 0)
    assert schedule.trajectory.shape == (1, 50, 2, 4) and schedule.redundant == 3
    numbers = schedule.trajectory.ravel()
    assert (record.samples["fate"][numbers] == "trained").all()
    np.testing.assert_array_equal(schedule.work.ravel(), record.samples["work"][numbers])
    found = system.summary(50, 4, warm=0)
    assert found["mean_length_trained"] == pytest.approx(schedule.work.mean())
    wasted = record.samples["wasted"][record.samples["batch"] < 0]
    assert found["wasted_token_fraction"] == pytest.approx(
        wasted.sum() / (wasted.sum() + schedule.work.sum()), rel=0.05
    )


@pytest.mark.parametrize(
    "changes", [{}, {"reward": laws.exponential(1.0)}, {"servers": 2, "slots": 5}, {"accept": 0.5}]
)
def test_a_record_with_cancelled_samples_is_saved_and_checked(changes, tmp_path):
    record = places(**changes).timeline(60, 2)
    record.save(tmp_path / "record")
    loaded = sim.Timeline.load(tmp_path / "record")
    assert (loaded.samples["fate"] == record.samples["fate"]).all()
    fate = record.samples["fate"].copy()
    fate[np.flatnonzero(fate == "cancelled")[0]] = "trained"
    altered = dataclasses.replace(record, samples=record.samples | {"fate": fate})
    altered.save(tmp_path / "altered")
    refused("timeline", sim.Timeline.load, tmp_path / "altered")


LAWS = [laws.empirical([1.0, 2.0, 2.0, 7.0]), laws.exponential(2.0), laws.pareto(1.0, 3.0), laws.constant(2.0)]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_order_statistics_by_enumeration_and_closed_forms(law):
    n = 4
    found = [law.expected_least(k, n) for k in range(1, n + 1)]
    if law.kind == "exponential":
        expected = 2.0 * np.cumsum(1.0 / (n - np.arange(n)))
    elif law.kind == "pareto":
        expected = [np.prod([(n - i) / (n - i - 1 / 3) for i in range(k)]) for k in range(1, n + 1)]
    else:
        draws = np.array(list(itertools.product(law.parameters, repeat=n)))
        expected = np.sort(draws, axis=1).mean(axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert sum(found) == pytest.approx(n * law.mean()) and found[-1] == law.expected_max(n)


def test_the_claim_is_what_enumeration_says():
    n, k, values = 4, 2, [1.0, 2.0, 2.0, 7.0]
    ordered = np.sort(np.array(list(itertools.product(values, repeat=n))), axis=1)
    total, last = ordered[:, :k].sum(axis=1).mean(), ordered[:, k - 1].mean()
    point = {"length": "empirical:1:2:2:7", "started": n, "kept": k}
    found = sim.claims.claim("systems/first-k-length-bias").predict(point)
    expected = {"mean_length": total / k, "last": last, "wasted": (n - k) * last / (total + (n - k) * last)}
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("changes", [{}, {"slots": 20}], ids=["places", "slots"])
def test_a_load_counts_the_redundant_samples(changes):
    # Half as fast a trainer is never waited for: generators deliver at their full rate, to 3 percent.
    system = places(rates=(1.0,) * 8, groups_per_batch=4, tickets=20, train_time=None, load=0.3, **changes)
    assert system.summary(2000, 4)["throughput"] == pytest.approx(system.generation_rate(4), rel=0.03)
    assert system.generation_rate(4) > 1.1 * system.replace(redundant=0).generation_rate(4)


def test_prompts_follow_the_numbers_of_started_samples():
    system = places()
    schedule = system.schedule(20, 4, 1, 1, 0)
    ids = schedule.trajectory[:, 3:9].reshape(1, -1, 4)
    task = bandit(5)
    policy = spec(task, system, samples_per_group=4).trained_policy
    one = Sampler(task, policy, 4, 0, np.zeros(1, int), np.zeros(1, int), redundant=3)
    np.testing.assert_array_equal(one.prompts(ids).numpy(), ids // 7 % 5)
    wrong = Sampler(task, policy, 4, 0, np.zeros(1, int), np.zeros(1, int))
    assert (np.ptp(wrong.prompts(ids).numpy(), axis=-1) > 0).any()


def test_a_coupled_run_is_that_of_its_record():
    task = sim.tasks.token_bandit(actions=3, horizon=6, ends=True, logits=[[0.0, 0.0, -1.5]])
    first = sim.run(spec(task, coupled(places(length=2.0))), progress=False)
    again = sim.run(spec(task, first.schedule), progress=False)
    np.testing.assert_array_equal(first.parameters, again.parameters)
    # Short responses are in first: what is trained is shorter than without redundant samples.
    whole = sim.run(spec(task, coupled(places(length=2.0, redundant=0))), progress=False)
    assert first.schedule.work.mean() < whole.schedule.work.mean() - 0.5


@pytest.mark.parametrize("value", [-1, 1.5, True, "two"])
def test_a_number_of_redundant_samples_is_refused_by_name(value):
    refused("redundant", places, redundant=value)


@pytest.mark.parametrize(
    ("change", "name"), [({"kept": 0}, "kept"), ({"kept": 5}, "kept"), ({"started": 0}, "started")]
)
def test_points_that_keep_none_or_more_than_they_start_are_refused(change, name):
    point = {"length": "exponential:1", "started": 4, "kept": 2} | change
    refused(name, lambda: sim.claims.claim("systems/first-k-length-bias").predict(point))


def test_the_exact_variance_needs_to_know_the_prompt():
    refused("redundant samples", lambda: spec(bandit(3), places(groups_per_batch=1), diagnostics=["variance"]))
