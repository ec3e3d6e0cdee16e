"""What must not matter does not: staleness zero by another name, the time of drawing, blocks, sorting, files, replay.

Everything here is deterministic but for one mean, whose rate of false alarms is stated there.
"""

from functools import partial

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.checks import InputError
from tests.core.runs import SEED, identical, markov, simulated

MEANS = np.array([[0.1, 0.8, 0.4], [0.9, 0.2, 0.5]])

STALE_METHODS = {
    "truncated_is": lambda: sim.methods.truncated_is(),
    "grpo proximal": lambda: sim.methods.grpo(anchor="proximal"),
    "reinforce": lambda: sim.methods.reinforce(sim.advantages.opob()),
}


@pytest.mark.parametrize("method", STALE_METHODS)
@pytest.mark.parametrize(
    "system",
    [
        lambda: sim.systems.synchronous(2),
        lambda: sim.systems.areal(0, 2, train_time=1.0, length=1.0),
        lambda: sim.systems.one_step_off(2, train_time=0.0),
        lambda: sim.schedules.random([1.0], groups_per_batch=2),
        lambda: sim.schedules.sawtooth(1, groups_per_batch=2),
    ],
    ids=["synchronous", "areal 0", "one_step_off without training time", "random at 0", "sawtooth of one batch"],
)
def test_staleness_zero_is_synchronous(system, method):
    runs = [
        simulated(
            markov(),
            STALE_METHODS[method](),
            [sim.updates.adam(0.1)],
            updates=12,
            epochs=2,
            system=s,
            diagnostics="default",
        )
        for s in (system(), sim.schedules.fixed(0, groups_per_batch=2))
    ]
    assert float(np.nanmax(runs[0].schedule.staleness())) == 0.0
    identical(*runs)


def test_staleness_one_is_not_synchronous():
    """The comparison above can fail."""
    fresh, stale = (
        simulated(markov(), sim.methods.reinforce(), [sim.updates.sgd(1.0)], system=sim.schedules.fixed(s))
        for s in (0, 1)
    )
    assert np.abs(fresh.parameters - stale.parameters).max() > 1e-3


SCHEDULES = {
    "fixed": lambda: sim.schedules.fixed(3, groups_per_batch=2),
    "random per trajectory": lambda: sim.schedules.random([0.2] * 5, per="trajectory", groups_per_batch=2),
    "random per group, two batches per publish": lambda: sim.schedules.random(
        [0.25] * 4, per="group", groups_per_batch=2, batches_per_publish=2
    ),
    "frozen": lambda: sim.schedules.frozen(groups_per_batch=2),
    "areal": lambda: sim.systems.areal(2, 2, 3, length=sim.lognormal(1.0, 0.8), load=1.5),
}


@pytest.mark.parametrize("realizations", [None, 2])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("system", SCHEDULES)
def test_early_equals_late(system, ends, realizations):
    task, method = markov(ends=ends, rewards="bernoulli"), sim.methods.truncated_is(cap=1.5)
    options = {"updates": 16, "replicates": 5, "realizations": realizations, "diagnostics": "default"}
    run = partial(
        simulated, task, method, [sim.updates.sgd(2.0)], epochs=2 if "two batches" in system else 1, **options
    )
    late, early = run(system=SCHEDULES[system](), drawing="late"), run(system=SCHEDULES[system](), drawing="early")
    identical(late, early)


def test_tokens_are_drawn_early_at_their_own_versions():
    """Most trajectories span two versions and steps are large, so old weights would choose other late tokens."""
    system = sim.systems.areal(2, 2, 4, length=sim.constant(1.0), load=1.3)
    options = {"updates": 12, "replicates": 40, "system": system}
    run = partial(simulated, markov(ends=True), sim.methods.reinforce(), [sim.updates.sgd(20.0)], **options)
    late, early = run(drawing="late"), run(drawing="early")
    schedule = late.schedule
    assert (schedule.version[..., 0] != schedule.version[..., -1]).mean() > 0.3
    identical(late, early)


def test_weights_are_kept_only_while_they_are_needed(monkeypatch):
    """The store holds as many versions as are outstanding, not as many as the run has."""
    from asyncsim.sampling import drawing

    most = []

    class Watched(drawing.Store):
        def put(self, version, weights):
            super().put(version, weights)
            most.append(max(len(self.kept), *(len(rows) for rows in self.stack.values()), 0))

    monkeypatch.setattr(drawing, "Store", Watched)
    for system, held in ((sim.schedules.fixed(2), 4), (sim.schedules.frozen(), 2), (SCHEDULES["areal"](), 16)):
        most.clear()
        simulated(markov(), sim.methods.reinforce(), [sim.updates.sgd(0.1)], updates=60, system=system)
        assert 1 < max(most) <= held


def test_versions_change_inside_a_trajectory_of_areal():
    """The case that the comparison of early and late drawing is about does occur."""
    schedule = SCHEDULES["areal"]().schedule(16, 4, 4, 5, SEED)
    assert (schedule.version[..., 0] != schedule.version[..., -1]).mean() > 0.05


def test_mixed_versions_are_drawn_from_their_own_weights():
    """Behavior log-probs of a mixed trajectory are those of each token's version, so a full ratio has mean 1.

    With the weights of the first token for all tokens they would be those of no policy that generated the data.
    """
    task, system = markov(), sim.systems.areal(2, 1, 2, length=sim.constant(1.0), load=1.3)
    options = {"samples_per_group": 4, "updates": 12, "replicates": 4000, "diagnostics": ["mean_weight"]}
    spec = sim.Spec(task, system, sim.methods.reinforce(), sim.chain(sim.updates.sgd(2.0)), **options)
    trace = sim.run(spec, seed=SEED)
    assert (trace.schedule.version[..., 0] != trace.schedule.version[..., -1]).any()
    weight = trace["mean_weight"]
    z = (weight.mean(1) - 1.0) / (weight.std(1, ddof=1) / np.sqrt(weight.shape[1])).clip(1e-15)
    # 12 normal scores beyond 5: a right program fails for one seed in 10^5.
    assert np.abs(z[weight.std(1) > 1e-9]).max() < 5.0
    assert (weight.std(1) > 1e-3).sum() >= 6


@pytest.mark.parametrize("realizations", [None, 2])
@pytest.mark.parametrize("system", SCHEDULES)
@pytest.mark.parametrize("block", [1, 3])
def test_blocks_do_not_matter(system, block, realizations):
    run = partial(
        simulated,
        markov(),
        sim.methods.full_is("token"),
        [sim.updates.adam(0.1)],
        updates=8,
        replicates=7,
        system=SCHEDULES[system](),
        realizations=realizations,
        diagnostics=["gradient_norm", "ess", "kl", "exact_return", sim.diagnostics.autocorrelogram(lags=2)],
    )
    identical(run(block=7), run(block=block))


def test_blocks_do_not_matter_with_knobs_per_replicate():
    caps, rates = np.linspace(1.1, 3.0, 7), np.linspace(0.1, 2.0, 7)
    run = partial(
        simulated,
        markov(),
        sim.methods.truncated_is(cap=caps),
        [sim.updates.sgd(rates)],
        updates=8,
        replicates=7,
        system=SCHEDULES["fixed"](),
        initial=np.linspace(-1, 1, 7 * 12).reshape(7, 12),
    )
    identical(run(block=7), run(block=2))


@pytest.mark.parametrize("task", ["softmax_bandit", "quadratic", "gaussian_bandit", "token_bandit"])
def test_single_precision_is_close(task):
    method = {"quadratic": sim.methods.gradient()}.get(task, sim.methods.reinforce())
    run = partial(
        simulated, getattr(sim.tasks, task)(), method, [sim.updates.sgd(0.1)], updates=10, system=sim.schedules.fixed(2)
    )
    wide, narrow = run(), run(dtype="float32")
    assert 0 < np.abs(wide.parameters - narrow.parameters).max() < 1e-4
    assert np.array_equal(narrow.parameters, narrow.parameters.astype(np.float32))


@pytest.mark.parametrize(("link", "value"), [("sgd", 0.1), ("momentum", 0.9), ("clip_norm", 0.5), ("adam", 0.1)])
def test_single_precision_stays_single_with_knobs_per_replicate(link, value):
    run = partial(simulated, sim.tasks.softmax_bandit(), sim.methods.reinforce(), dtype="float32", updates=5)
    one, many = (run([getattr(sim.updates, link)(v)]) for v in (value, np.full(3, value)))
    assert np.array_equal(many.parameters, many.parameters.astype(np.float32))
    np.testing.assert_allclose(many.parameters, one.parameters, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rewards", ["bernoulli", "fixed"])
@pytest.mark.parametrize("system", ["fixed", "random per group, two batches per publish"])
@pytest.mark.parametrize("method", ["truncated_is", "grpo", "full_is"])
def test_counts_equal_samples(rewards, system, method):
    """The same samples, sorted into cells: equal but for the order of summation."""
    task = sim.tasks.softmax_bandit(arms=3, means=MEANS, rewards=rewards)
    options = {"updates": 8, "diagnostics": ["gradient_norm", "ess", "batch_return", "kl", "entropy"]}
    run = partial(
        simulated, task, getattr(sim.methods, method)(), [sim.updates.sgd(1.0)], system=SCHEDULES[system](), **options
    )
    counts, samples = run(sampling="counts"), run()
    np.testing.assert_allclose(counts.parameters, samples.parameters, rtol=0, atol=1e-12)
    for name, values in samples.metrics.items():
        np.testing.assert_allclose(counts[name], values, rtol=0, atol=1e-12, err_msg=name)


# Records.


def test_saved_schedule_and_trace_come_back(tmp_path):
    first = simulated(
        markov(),
        sim.methods.truncated_is(),
        [sim.updates.sgd(1.0)],
        updates=8,
        replicates=5,
        system=SCHEDULES["random per trajectory"](),
        diagnostics=["gradient_norm", sim.diagnostics.autocorrelogram(lags=2)],
    )
    first.schedule.save(tmp_path / "schedule.npz")
    first.save(tmp_path / "trace.npz")
    loaded = sim.Trace.load(tmp_path / "trace.npz")
    identical(first, loaded)
    assert loaded.header["spec"] == first.header["spec"]
    np.testing.assert_array_equal(loaded.schedule.version, first.schedule.version)
    replayed = simulated(
        markov(),
        sim.methods.truncated_is(),
        [sim.updates.sgd(1.0)],
        updates=8,
        replicates=5,
        system=sim.Schedule.load(tmp_path / "schedule.npz"),
        diagnostics=["gradient_norm", sim.diagnostics.autocorrelogram(lags=2)],
    )
    identical(first, replayed)


AREAL = sim.systems.areal(2, 2, 3, length=1.0, train_time=2.0)
COUPLED = {
    "areal": AREAL,
    "one_step_off": sim.systems.one_step_off(2, train_time=1.5),
    "update_on_arrival": sim.systems.update_on_arrival(3),
    # Everything else that is drawn belongs to the realization too, whatever block its replicate is in.
    "rewards": AREAL.replace(reward=sim.laws.exponential(2.0)),
    "training times": AREAL.replace(train_time=sim.laws.exponential(2.0)),
    "difficulty": AREAL.replace(difficulty=sim.laws.exponential(1.0)),
    "rejections": AREAL.replace(accept=0.5),
    "failures": AREAL.replace(failure_rate=0.2),
}


@pytest.mark.parametrize("system", COUPLED.values(), ids=COUPLED)
def test_coupled_run_equals_its_replay(system):
    """The length of an ending sequence is its work; the run's record, imposed as a schedule, gives the same trace."""
    options = {"updates": 12, "replicates": 4, "samples_per_group": 3, "diagnostics": "default"}
    run = partial(simulated, markov(ends=True), sim.methods.truncated_is(cap=1.5), [sim.updates.sgd(1.5)], **options)
    coupled = run(system=sim.schedules.coupled(system))
    assert coupled.schedule.realizations == 4
    assert len(np.unique(coupled.schedule.work)) > 1
    identical(coupled, run(system=coupled.schedule))
    for block in (1, 3):
        identical(coupled, run(system=sim.schedules.coupled(system), block=block))
    early = run(system=sim.schedules.coupled(system), drawing="early")
    identical(coupled, early)
    np.testing.assert_array_equal(coupled.schedule.version, early.schedule.version)


def test_early_drawing_refuses_scores_at_behavior_parameters():
    options = {"updates": 2, "replicates": 2, "drawing": "early"}
    spec = sim.Spec(markov(), sim.schedules.fixed(1), sim.methods.reinforce(at="behavior"), sim.chain(), **options)
    with pytest.raises(InputError, match=r"at = 'behavior'.*drawing='late'"):
        sim.run(spec)


def test_a_frozen_replicate_stays_where_it_left():
    """With staleness an old gradient may point back inside: nothing may move a replicate once it is frozen."""
    task, method, update = sim.tasks.quadratic(noise=0.0, start=1.0), sim.methods.gradient(), sim.updates.sgd(1.4)
    spec = sim.Spec(task, sim.schedules.fixed(3), method, sim.chain(update), samples_per_group=1, replicates=2,
                    sampling="enumerate", diagnostics=[sim.diagnostics.autocorrelogram(2)])  # fmt: skip
    runs = [sim.run(spec.replace(updates=n)) for n in (1450, 1500, 1600)]
    assert all((r.diverged == runs[0].diverged).all() and (r.diverged >= 0).all() for r in runs)
    assert all((r.parameters == runs[0].parameters).all() for r in runs)
    # What it repeats is no measurement.
    assert all(np.isnan(r.accumulated["autocorrelogram"]).all() for r in runs)
