"""The trained policy's return: exact where a formula has it, else from fresh samples that change nothing else."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.app import verdicts
from asyncsim.comparing import deciding
from asyncsim.comparing.readings import Reading
from asyncsim.sampling import drawing
from asyncsim.tasks.bandits import TokenBandit
from tests.core import runs
from tests.refusals import refused

tasks = sim.tasks
TOKENS = [
    tasks.token_bandit(3, 4, dependence, success=success, ends=ends)
    for dependence in ("iid", "position", "markov")
    for ends in (False, True)
    for success in (None, 0.5)
]
SOLVED = [
    *TOKENS,
    tasks.token_bandit(3, 3, "markov", ends=True, kl_coef=0.2),
    tasks.token_bandit(2, 3, rewards="bernoulli"),
    tasks.softmax_bandit(4, means=[[0.0, 0.1, 0.3, 1.0], [0.2, 0.4, 0.4, 0.5]]),
    tasks.softmax_bandit(3, kl_coef=0.3, reference=[0.0, 1.0, 2.0], kl_at="current"),
    tasks.bit_chain(6, 0.5),
    tasks.bit_chain(6, 0.5, kl_coef=0.1),
    tasks.tool_bandit(),
    tasks.frozen_lake(),
    tasks.cliff_walking(horizon=12),
    tasks.gaussian_bandit(),
    tasks.quadratic((1.0, 2.0)),
]


@pytest.mark.parametrize("task", SOLVED, ids=lambda task: f"{type(task).__name__}-{SOLVED.index(task)}")
def test_a_formula_gives_what_enumeration_gives(task):
    policy = task.policy()
    places = torch.randn(5, policy.size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    exact = task.exact(policy, places)[0]
    np.testing.assert_allclose(task.expected(policy, places, policy.prepare(places)), exact, rtol=1e-13, atol=1e-15)
    assert float(exact.std()) > 1e-3


def test_gaussian_noise_leaves_the_mean():
    noisy, plain = (tasks.softmax_bandit(3, [0.1, 0.5, 0.7], kind) for kind in ("gaussian", "fixed"))
    place, policy = torch.tensor([[0.3, -1.0, 0.4]], dtype=torch.float64), plain.policy()
    expected, exact = noisy.expected(policy, place, policy.prepare(place)), plain.exact(policy, place)[0]
    np.testing.assert_allclose(expected, exact, rtol=1e-13)


def population(staleness, **changes):
    """Mean dynamics without chance: every outcome with its probability."""
    made = {"updates": 12, "replicates": 1, "sampling": "enumerate", "diagnostics": ["trained_return", "batch_return"]}
    update = sim.chain(sim.updates.sgd(2.0))
    return sim.Spec(
        tasks.token_bandit(), sim.schedules.fixed(staleness), sim.methods.full_is(), update, **made | changes
    )


@pytest.mark.parametrize("staleness", [0, 1, 4])
def test_the_batch_earns_what_the_trained_policy_was_worth_when_it_wrote_it(staleness):
    trace = sim.run(population(staleness), progress=False)
    trained, batch = trace["trained_return"][:, 0], trace["batch_return"][:, 0]
    np.testing.assert_allclose(batch[staleness:], trained[: 12 - staleness], rtol=1e-12)
    np.testing.assert_allclose(batch[:staleness], trained[0], rtol=1e-12)
    assert (np.diff(trained) > 1e-3).all()


def test_a_comparison_reads_the_policy_that_is_trained():
    """Ratios make staleness harmless here, so that the arms learn alike; only the age of their data differs."""
    arms = {"one": population(1, replicates=64), "three": population(3, replicates=64)}
    options = {"smallest": 0.01, "tune": None, "max_replicates": 64}
    found, data = sim.compare(arms, **options), sim.compare(arms, metric="batch_return", **options)
    assert found.metric == "trained_return" and found.word == "equal" and abs(found.difference) < 1e-12
    assert data.word == "worse" and data.difference < -0.03
    assert "behavior policy" in data.reading and "differ in system" in data.reading
    alike = {"one": population(1), "other": population(1, minibatches=1).replace(method=sim.methods.reinforce())}
    same = sim.compare(alike, metric="batch_return", **options).reading
    assert same == "batch_return (behavior policy), mean over updates"


# Fresh samples.


def sampled(**changes):
    """A tabular task that is judged by samples although a formula is known."""
    made = {"updates": 16, "replicates": 200, "samples_per_group": 8, "diagnostics": ["trained_return", "batch_return"]}
    parts = (sim.schedules.fixed(3), sim.methods.reinforce(), sim.chain(sim.updates.sgd(4.0)))
    return sim.Spec(tasks.token_bandit(rewards="bernoulli"), *parts, **made | changes)


@pytest.fixture
def unsolved(monkeypatch):
    monkeypatch.setattr(TokenBandit, "solved", False)


def gap(spec):
    """Largest deviation of evaluations from the exact return over updates, in standard errors between replicates."""
    trace = sim.run(spec.replace(diagnostics=["trained_return", "exact_return"]), seed=3, progress=False)
    apart = (trace["trained_return"] - trace["exact_return"])[list(spec.evaluation.updates)]
    return float(np.abs(apart.mean(1) / (apart.std(1, ddof=1) / np.sqrt(apart.shape[1]))).max())


def test_fresh_samples_are_those_of_the_current_weights(unsolved, monkeypatch):
    """Four evaluations of a right one exceed five errors in one of 4e5 runs; those of the data's weights are seen."""
    assert gap(sampled()) < 5.0
    original = drawing.Fresh.__call__

    def of_the_data(self, step):
        view = step.batch.view
        weights = {name: stack[int(view.slot.flat[0])] for name, stack in view.weights.items()}
        return original(self, SimpleNamespace(update=step.update, weights=weights))

    monkeypatch.setattr(drawing.Fresh, "__call__", of_the_data)
    assert gap(sampled()) > 8.0


@pytest.mark.parametrize("changes", [{}, {"minibatches": 2, "cut": "samples"}, {"block": 3}, {"drawing": "early"}])
def test_fresh_samples_change_nothing_else(unsolved, changes):
    spec = sampled(replicates=7, **changes)
    alone, beside = (sim.run(spec.replace(diagnostics=names), seed=5, progress=False)
                     for names in (["batch_return"], ["batch_return", "trained_return"]))  # fmt: skip
    assert (alone.parameters == beside.parameters).all()
    assert (alone["batch_return"] == beside["batch_return"]).all()
    whole = sim.run(spec.replace(block=None, drawing=None), seed=5, progress=False)
    np.testing.assert_array_equal(beside["trained_return"], whole["trained_return"])


def test_samples_are_at_some_updates_and_the_header_says_so(unsolved):
    spec = sampled(updates=80, replicates=4)
    assert spec.evaluation.updates == (0, 9, 18, 26, 35, 44, 53, 61, 70, 79) and spec.evaluation.samples == 8
    text = "on 8 fresh samples of the current weights at 10 updates, +12 % of samples"
    assert spec.describe()["trained_return"] == text
    curve = sim.run(spec, progress=False)["trained_return"]
    assert np.flatnonzero(~np.isnan(curve[:, 0])).tolist() == list(spec.evaluation.updates)
    assert "trained_return" not in spec.replace(diagnostics="default").describe()
    assert text in sim.compare(spec, spec.replace(method=sim.methods.grpo()), smallest=1.0, tune=None).reading


def test_between_evaluations_a_curve_is_the_line_through_both(unsolved):
    trace = sim.run(sampled(replicates=4), progress=False)
    known, holes = trace["trained_return"], np.isnan(trace["trained_return"]).all(1)
    at = list(sampled().evaluation.updates)
    for row, number in enumerate(Reading().numbers(trace)):
        assert number == pytest.approx(np.interp(range(16), at, known[at, row]).mean(), rel=1e-14)
    assert 0 < holes.sum() < 16


def test_segments_are_judged_by_whole_episodes():
    task = tasks.gym("CartPole-v1", trajectory="segment", steps=8)
    assert (task.whole.trajectory, task.whole.horizon) == ("episode", 500)
    parts = (sim.schedules.fixed(0, groups_per_batch=8), sim.methods.a2c(), sim.chain(sim.updates.adam(1e-3)))
    spec = sim.Spec(task, *parts, samples_per_group=1, updates=4, replicates=2, diagnostics=["trained_return"])
    assert (sim.run(spec, progress=False)["trained_return"] > 8.0).all()


def test_every_task_answers_the_default_metric():
    """Environments and language models by samples, whatever the sampler's numerics."""
    parts = (sim.schedules.fixed(1), sim.methods.grpo(), sim.chain(sim.updates.sgd(0.1)))
    made = {"updates": 3, "replicates": 1, "samples_per_group": 2, "diagnostics": ["trained_return"]}
    for task in (tasks.gym("CartPole-v1", steps=4), tasks.arithmetic(prompts=3), tasks.calculator(prompts=3)):
        spec = sim.Spec(task, *parts, **made)
        curve = sim.run(spec, progress=False)["trained_return"]
        assert np.isfinite(curve[list(spec.evaluation.updates)]).all() and spec.evaluation.cost <= 1.0


# Before anything trains.


@pytest.fixture
def nothing_trains(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("something was trained")

    monkeypatch.setattr(deciding, "together", refuse)


def arms():
    update = sim.chain(sim.updates.sgd(0.1))
    made = sim.Spec(tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.grpo(), update, updates=20000)
    return made, made.replace(system=sim.schedules.fixed(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "batch_returns"}, "batch_returns.*did you mean batch_return?"),
        ({"metric": "norm_before_clip"}, "a diagnostic, or a number that a link or method"),
        ({"metric": "autocorrelogram"}, "a number for every update"),
        (
            {"over": "time", "target": 0.8, "better": "lower"},
            r"target = 0.8: must be below 0.5, where .* before training",
        ),
        ({"over": "reached", "target": 0.4}, "must be above 0.5"),
        ({"over": "time", "target": 1.5}, r"in \[0.1, 0.9\], the range of trained_return|in \[0, 1\]"),
    ],
)
def test_what_says_nothing_is_refused_before_anything_trains(options, message, nothing_trains):
    refused(message, lambda: sim.compare(*arms(), smallest=0.01, **options))
    refused(message, lambda: sim.power(*arms(), effect=0.01, **options))
    refused(message, lambda: sim.sweep(arms()[0], {"staleness": [0, 4]}, workers=1, **options))
    if options.get("over", "reached") == "reached":
        refused(message, lambda: sim.boundary(arms()[0], "lr", low=0.1, high=1.0, **{"over": "collapse", **options}))


def test_what_a_link_reports_is_a_metric():
    spec = runs.spec(method=sim.methods.grpo(), update=sim.chain(sim.updates.clip_norm(1.0), sim.updates.sgd(0.1)))
    found = sim.sweep(spec, {"staleness": [0]}, metric=["norm_before_clip", "trained_return"], replicates=2, workers=1)
    assert not found.failed and {row["metric"] for row in found.summary} == {"norm_before_clip", "trained_return"}


def test_a_dry_run_refuses_a_misspelt_metric(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    monkeypatch.chdir(tmp_path)
    words = ["sweep", "--grid", "staleness=0,4", "--set", "method=grpo", "--set", "updates=20000", "--dry-run"]
    for names, status in (("batch_returns", 2), ("batch_return,foo", 2), ("batch_return", 0)):
        done = CliRunner().invoke(app, [*words, "--metric", names])
        assert done.exit_code == status and ("did you mean" in done.output) == (names == "batch_returns")


def test_a_report_is_written_only_on_request(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = verdicts.Request(["estimator/truncation-bias"])
    assert verdicts.verify(request, None)[1] == 0 and not list(tmp_path.iterdir())
    assert verdicts.verify(request, tmp_path / "r.html")[1] == 0
    assert "estimator/truncation-bias" in (tmp_path / "r.html").read_text()
