"""An engine that samples from another law than the policy: kept mass, keyed noise, and both parts of a ratio."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import asyncsim as sim
from asyncsim.app import wording
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.comparing.settings import with_setting
from asyncsim.policies import _kernels as kernels
from asyncsim.policies._engine import DEGREES, LAWS, Engine
from asyncsim.policies._policy import Keys
from asyncsim.sampling import oracle
from asyncsim.sampling.rollouts import SAMPLING, Sampler
from asyncsim.step import versions
from tests.refusals import refused

CUTS = [
    {"temperature": 0.7},
    {"temperature": 1.6},
    {"top_p": 0.6},
    {"top_k": 2},
    {"temperature": 0.8, "top_p": 0.75, "top_k": 3},
]


def numpy_law(table, temperature=1.0, top_p=1.0, top_k=0):
    """Log-probs of a sampler `[S, A]` by sorting, from log-probs of the policy."""
    rows = []
    for row in np.asarray(table) / temperature:
        order = np.argsort(-row, kind="stable")
        order = order[: top_k or len(row)]
        chance = np.exp(row[order] - row[order].max())
        chance /= chance.sum()
        order = order[np.cumsum(chance) - chance < top_p]
        law = np.full(len(row), -np.inf)
        law[order] = row[order] - np.log(np.exp(row[order]).sum())
        rows.append(law)
    return np.array(rows)


def installed(policy, theta, keys=None):
    return policy.install(policy.prepare(torch.as_tensor(theta, dtype=torch.float64)), keys)


@given(seed=st.integers(0, 10**6), temperature=st.floats(0.2, 3.0), top_p=st.floats(0.05, 1.0), top_k=st.integers(0, 5))
def test_tables_are_those_of_a_sorted_list(seed, temperature, top_p, top_k):
    """Log-probs and CDF, as `act` and `record` read them; planted: a temperature that is 2 percent off."""
    theta = np.random.default_rng(seed).normal(size=(2, 15))
    cut = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    policy = sim.policies.tabular(3, 5, **cut)
    if not policy.mismatched:
        return
    made = installed(policy, theta)
    for r in range(2):
        expected = numpy_law(made["log_prob"][r].numpy(), **cut)
        np.testing.assert_allclose(made["sampled"][r], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(made["cdf"][r], np.exp(expected).cumsum(-1), rtol=0, atol=1e-12)
        wrong = numpy_law(made["log_prob"][r].numpy(), **{**cut, "temperature": 1.02 * temperature})
        several = (np.exp(expected).max(-1) < 0.99).any()
        assert not several or not np.allclose(made["sampled"][r], wrong, rtol=0, atol=1e-6)


def test_equal_actions_are_kept_together():
    """Half of the mass is held by any two of four equal actions: none of them is cut."""
    made = installed(sim.policies.tabular(1, 4, top_p=0.5), np.zeros((1, 4)))
    np.testing.assert_allclose(made["sampled"].numpy(), math.log(0.25), rtol=0, atol=1e-15)


# Kept mass and both parts of a ratio, by enumeration.

TASK = sim.tasks.token_bandit(actions=4, horizon=2, dependence="position", success=0.5)


def step_of(cut, now, then, task=TASK):
    policy = task.policy(**cut)
    return oracle.population_step(task, sim.methods.truncated_is(), now, then, policy)


def measured(name, step):
    return sim.diagnostics.__getattr__(name).measure(step).item()


@pytest.mark.parametrize("cut", CUTS)
@given(seed=st.integers(0, 10**6))
def test_the_mean_ratio_is_what_is_kept_of_the_policy(cut, seed):
    """E_mu[pi/mu] = pi of the sequences that mu can draw, at any staleness; 1 without truncation."""
    random = np.random.default_rng(seed)
    now, then = random.normal(size=(2, TASK.policy().size))
    law, policy = (
        numpy_law(np.log(np.exp(then.reshape(2, 4)) / np.exp(then.reshape(2, 4)).sum(-1, keepdims=True)), **cut),
        np.exp(now.reshape(2, 4)) / np.exp(now.reshape(2, 4)).sum(-1, keepdims=True),
    )
    kept = np.prod([(policy[t] * np.isfinite(law[t])).sum() for t in range(2)])
    step = step_of(cut, now, then)
    assert measured("mean_weight", step) == pytest.approx(kept, rel=1e-12)
    assert step.mean(torch.ones_like(step.batch.reward)).item() == pytest.approx(1.0, rel=1e-12)
    assert ("top_p" in cut or "top_k" in cut) == (kept < 1.0 - 1e-9)
    # An engine that reports log pi itself hides the cut: without staleness its ratios are 1.
    fresh = step_of(cut, then, then)
    hidden = {**fresh.behavior, "log_prob": fresh.behavior["scored_log_prob"]}
    batch = dataclasses.replace(fresh.batch, behavior=hidden)
    reported = dataclasses.replace(fresh, batch=batch, known=fresh.current)
    assert measured("mean_weight", reported) == pytest.approx(1.0, rel=1e-12)
    assert (measured("mean_weight", fresh) < 1.0 - 1e-9) == ("top_p" in cut or "top_k" in cut)


def test_a_cut_that_is_two_percent_off_is_seen():
    """Of the kept mass: an engine that keeps one action of 2 percent more, or records one that it does not draw."""
    theta = np.log([0.5, 0.25, 0.15, 0.08, 0.02])
    task = sim.tasks.softmax_bandit(arms=5)
    kept = [measured("mean_weight", step_of({"top_k": k}, theta, theta, task)) for k in (4, 5)]
    np.testing.assert_allclose(kept, [0.98, 1.0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS)
def test_both_parts_add_up_to_the_ratio(cut):
    """Token by token: log pi - log mu = (log pi - log pi_v) + (log pi_v - log mu), on what mu can draw."""
    now, then = np.random.default_rng(0).normal(size=(2, TASK.policy().size))
    step = step_of(cut, now, then)
    drawn = (step.mask > 0) & (step.batch.mass.unsqueeze(-1) > 0)
    parts = step.staleness_log_ratio + step.mismatch_log_ratio
    np.testing.assert_allclose(step.log_ratio[drawn], parts[drawn], rtol=0, atol=1e-12)
    # The trainer's log-probs at the behavior weights, whatever the sampler did.
    own = np.log(np.exp(then.reshape(2, 4)) / np.exp(then.reshape(2, 4)).sum(-1, keepdims=True))
    scored = own[step.batch.state.numpy(), step.batch.action.numpy()]
    np.testing.assert_allclose(step.behavior["scored_log_prob"][drawn], scored[drawn.numpy()], rtol=0, atol=1e-12)
    assert measured("mismatch_variance", step) > 0.0 or "temperature" not in cut
    divergences = [measured(name, step) for name in ("kl_k1", "kl_staleness", "kl_mismatch")]
    assert divergences[0] == pytest.approx(divergences[1] + divergences[2], rel=1e-12)
    law = numpy_law(own, **cut)
    chance = np.exp(law)
    exact = (chance * np.where(chance > 0, law - own, 0.0)).sum()
    assert divergences[2] == pytest.approx(exact, rel=1e-12) and divergences[2] != pytest.approx(1.02 * exact)
    # The k3 estimate is off by what is not kept.
    off = measured("mean_weight", step) - 1.0
    assert measured("kl", step) == pytest.approx(divergences[0] + off, rel=1e-9)


def test_log_variances_add_where_the_parts_are_independent():
    """The first token is stale, the second one mismatched: variances add. In one token they do not."""
    uniform, uneven = np.zeros(4), np.array([1.0, 0.3, -0.2, -1.0])
    moved = np.array([0.4, -0.3, 0.1, 0.0])
    cut = {"temperature": 0.7}
    names = ("log_ratio_variance", "staleness_variance", "mismatch_variance")
    apart = step_of(cut, np.concatenate([moved, uneven]), np.concatenate([uniform, uneven]))
    whole, stale, mismatch = (measured(name, apart) for name in names)
    assert min(stale, mismatch) > 0.05 and whole == pytest.approx(stale + mismatch, rel=1e-12)
    assert whole != pytest.approx(1.02 * stale + mismatch, rel=1e-3)
    ess = [measured(name, apart) for name in ("ess", "ess_staleness", "ess_mismatch")]
    assert ess[0] == pytest.approx(ess[1] * ess[2], rel=1e-12)
    together = step_of(cut, np.concatenate([uniform, uneven + moved]), np.concatenate([uniform, uneven]))
    whole, stale, mismatch = (measured(name, together) for name in names)
    covariance = float(np.cov(*_parts_of(together), aweights=_masses(together), ddof=0)[0, 1])
    assert whole == pytest.approx(stale + mismatch + 2.0 * covariance, rel=1e-12) and abs(covariance) > 0.01


def _parts_of(step):
    return [x.sum(-1)[0, 0].numpy() for x in (step.staleness_log_ratio, step.mismatch_log_ratio)]


def _masses(step):
    return step.batch.mass[0, 0].numpy()


@pytest.mark.parametrize("cut", CUTS)
def test_the_population_of_a_cut_sampler_is_its_own(cut):
    """Masses of listed outcomes are mu's; unbiased where every action is drawn and the ratio is whole."""
    task = sim.tasks.softmax_bandit(arms=5)
    now, then = np.random.default_rng(1).normal(size=(2, 5))
    step = step_of(cut, now, then, task)
    by_action = step.batch.mass[0, 0].reshape(5, 2).sum(-1).numpy()
    log_prob = then - np.log(np.exp(then).sum())
    np.testing.assert_allclose(by_action, np.exp(numpy_law(log_prob[None], **cut))[0], rtol=0, atol=1e-12)
    found = oracle.limit(task, sim.methods.full_is(), now, then, task.policy(**cut))
    unbiased = np.allclose(found, oracle.exact(task, now)[1], rtol=0, atol=1e-12)
    assert unbiased == ("top_p" not in cut and "top_k" not in cut)
    method = sim.methods.full_is(advantage=sim.advantages.none())
    moments = oracle.moments(task, method, now, then, 1, task.policy(**cut))
    assert np.allclose(moments.bias, 0.0, rtol=0, atol=1e-12) == unbiased


# Samples.


def batch_of(policy, sampling="monte_carlo", task=TASK, replicates=4, samples=50_000, version=3, theta=None, seed=5):
    """A batch drawn at the same random weights in every replicate."""
    theta = np.random.default_rng(0).normal(size=policy.size) if theta is None else theta
    sampler = Sampler(task, policy, samples, seed, np.arange(replicates), np.zeros(replicates, dtype=np.int64))
    rows = torch.as_tensor(theta, dtype=torch.float64).expand(replicates, -1)
    view = versions.current(sampler.installed(version, policy.prepare(rows)))
    ids = np.arange(samples).reshape(1, 1, -1)
    return SAMPLING[sampling](sampler, np.full((1, 1, samples, 1), version), version, ids, view), theta


@pytest.mark.parametrize("cut", CUTS)
def test_samples_follow_the_cut_law(cut):
    """Shares of 200,000 samples within 5 standard errors; what is cut never occurs; recorded is what was drawn from."""
    batch, theta = batch_of(TASK.policy(**cut))
    own = theta.reshape(2, 4) - np.log(np.exp(theta.reshape(2, 4)).sum(-1, keepdims=True))
    law = numpy_law(own, **cut)
    action = batch.action.reshape(-1, 2).numpy()
    for t in range(2):
        share = np.bincount(action[:, t], minlength=4) / len(action)
        error = np.sqrt(np.exp(law[t]) * (1 - np.exp(law[t])) / len(action))
        assert (np.abs(share - np.exp(law[t])) <= 5 * error + 1e-15).all()
        assert (np.abs(share - np.exp(own[t])) > 5 * error).any()
        np.testing.assert_allclose(batch.behavior["log_prob"][..., t].reshape(-1), law[t][action[:, t]], atol=1e-12)
        np.testing.assert_allclose(
            batch.behavior["scored_log_prob"][..., t].reshape(-1), own[t][action[:, t]], atol=1e-12
        )


@pytest.mark.parametrize("cut", [*CUTS, {"noise": 0.2, "noise_per": "version", "top_k": 3}])
def test_counts_are_the_samples_of_the_same_keys(cut):
    task = sim.tasks.softmax_bandit(arms=4)
    drawn, _ = batch_of(task.policy(**cut), task=task, samples=500)
    counted, _ = batch_of(task.policy(**cut), "counts", task=task, samples=500)
    for r in range(4):
        share = np.bincount(drawn.action[r].flatten(), minlength=4) / 500
        np.testing.assert_allclose(counted.mass[r, 0].reshape(4, 2).sum(-1), share, rtol=0, atol=1e-12)
    possible = counted.mask[..., 0] > 0
    for name in ("log_prob", "scored_log_prob"):
        said = np.full(4, np.nan)
        said[drawn.action[0].flatten()] = drawn.behavior[name][0].flatten()
        listed, seen = counted.behavior[name][0, 0, ::2, 0].numpy(), np.isfinite(said)
        np.testing.assert_allclose(listed[seen], said[seen], rtol=0, atol=1e-12)
        assert (seen <= possible[0, 0, ::2].numpy()).all()


# Noise.

EXACT = {"normal": stats.norm(), "uniform": stats.uniform(-math.sqrt(3), 2 * math.sqrt(3))}


def exact_law(text, scale):
    kind, _, degrees = text.partition(":")
    if kind != "student":
        return EXACT[kind].cdf, scale
    nu = float(degrees or DEGREES)
    return stats.t(nu).cdf, scale / math.sqrt(nu / (nu - 2.0))


@pytest.mark.parametrize("text", ["normal", "uniform", "student", "student:3"])
def test_noise_has_its_law(text):
    """400,000 numbers against the distribution function of SciPy; a scale that is 2 percent off is caught."""
    out = np.empty((1, 100_000, 4))
    engine = Engine(noise=0.3, noise_law=text)
    ids, one = np.arange(100_000)[None], np.zeros(1, dtype=np.int64)
    kernels.fill_noise(*rng.Stream(1, "test").key, one, one, ids, *engine.law, 0.3, out)
    out = out[0]
    law, scale = exact_law(text, 0.3)
    assert stats.kstest(out.reshape(-1) / scale, law).pvalue > 1e-4
    assert stats.kstest(out.reshape(-1) / (1.02 * scale), law).pvalue < 1e-4
    assert np.abs(np.corrcoef(out.T)[np.triu_indices(4, 1)]).max() < 0.02


def residual(batch):
    """Recorded less scored log-probs, `[R, N, T]`: noise of the reports of an engine that samples rightly."""
    return (batch.behavior["log_prob"] - batch.behavior["scored_log_prob"])[:, 0].numpy()


@pytest.mark.parametrize("law", LAWS)
def test_noise_of_reports_lasts_as_long_as_it_says(law):
    """A number for each token, one for a sequence, one for a version of a replicate; the draw itself is untouched."""
    plain, _ = batch_of(TASK.policy(), samples=2000)
    found = {}
    for each in ("token", "sequence", "version"):
        policy = TASK.policy(noise=0.3, noise_law=law, noise_per=each, noise_in="reports")
        batch, _ = batch_of(policy, samples=2000)
        assert torch.equal(batch.action, plain.action)
        found[each] = residual(batch)
    token, sequence, version = found["token"], found["sequence"], found["version"]
    assert abs(np.corrcoef(token[..., 0].ravel(), token[..., 1].ravel())[0, 1]) < 0.06
    np.testing.assert_allclose(sequence[..., 0], sequence[..., 1], rtol=0, atol=1e-12)
    assert len(np.unique(sequence[..., 0].round(9))) > 7900
    assert np.ptp(version, axis=(1, 2)).max() < 1e-12 and len(np.unique(version[:, 0, 0].round(9))) == 4
    for each in (token, sequence):
        assert np.std(each) == pytest.approx(0.3, rel=0.06) and abs(each.mean()) < 0.02


@pytest.mark.parametrize("each", ["token", "sequence"])
@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_mean_ratio_and_ess_of_misreported_samples(law, each):
    """E W and ESS at staleness 0 are moments of the noise, within 5 standard errors; 2 percent off is caught."""
    engine = {"noise": 0.3, "noise_law": law, "noise_per": each, "noise_in": "reports"}
    policy = TASK.policy(**engine)
    weight = np.exp(-residual(batch_of(policy)[0]).sum(-1)).ravel()
    moment, error = policy.engine.report_moment, weight.std() / math.sqrt(weight.size)
    expected, square = (moment(2), moment(4)) if each == "sequence" else (moment(1) ** 2, moment(2) ** 2)
    assert abs(weight.mean() - expected) < 5 * error < abs(weight.mean() - 1.02 * expected)
    groups = weight.reshape(100, -1)
    ess = groups.mean(-1) ** 2 / (groups**2).mean(-1)
    spread = ess.std() / 10 + 0.003 * ess.mean()
    assert abs(ess.mean() - expected**2 / square) < 5 * spread


def test_engines_that_sample_from_noise_have_mean_ratio_one():
    """Noise in the logits moves what is recorded with what is drawn; misreporting the same noise does not."""
    for each, law in [*itertools.product(("token", "sequence"), LAWS), ("prompt", "normal")]:
        batch, _ = batch_of(TASK.policy(noise=0.4, noise_law=law, noise_per=each))
        weight = np.exp(-residual(batch).sum(-1)).ravel()
        error = weight.std() / math.sqrt(weight.size)
        assert 0.0 < abs(weight.mean() - 1.0) < 5 * error and weight.std() > 0.1
        assert (batch.behavior["log_prob"] <= 1e-12).all()
    assert Engine(noise=0.4).report_moment(2) == 1.0
    assert Engine(noise=0.4, noise_in="reports").report_moment(2) > 1.1


def test_a_noisy_token_is_a_plain_softmax_of_its_own_logits():
    """Recomputed from the keys in NumPy: logits, cut, action by inverse CDF, recorded log-prob."""
    policy = TASK.policy(noise=0.5, temperature=0.8, top_k=3, top_p=0.9)
    batch, theta = batch_of(policy, samples=40, replicates=2)
    own = theta.reshape(2, 4) - np.log(np.exp(theta.reshape(2, 4)).sum(-1, keepdims=True))
    for r, n, t in itertools.product(range(2), range(40), range(2)):
        noise = 0.5 * rng.Stream(5, "engine").normal(r, n, t, np.arange(4))
        law = numpy_law((own[t] + noise)[None], 0.8, 0.9, 3)[0]
        u = rng.Stream(5, "rollout").uniform(r, n, t, 0)
        action = int((u >= np.exp(law).cumsum()).sum())
        assert batch.action[r, 0, n, t] == action
        assert batch.behavior["log_prob"][r, 0, n, t].item() == pytest.approx(law[action], abs=1e-12)


ASKED = sim.tasks.softmax_bandit(arms=4, means=[[0.1, 0.2, 0.3, 0.4]] * 3)


def asked(policy, version=3):
    """Six groups of five samples in two replicates: prompts 0, 1, 2, 0, 1, 2; and the log-probs of the table."""
    theta = np.random.default_rng(2).normal(size=policy.size)
    sampler = Sampler(ASKED, policy, 5, 9, np.arange(2), np.zeros(2, dtype=np.int64))
    weights = policy.prepare(torch.as_tensor(theta).expand(2, -1))
    view = versions.current(sampler.installed(version, weights))
    ids = np.arange(30).reshape(1, 6, 5)
    return SAMPLING["monte_carlo"](sampler, np.full((1, 6, 5, 1), version), version, ids, view), weights


@pytest.mark.parametrize("version", [0, 7])
def test_noise_of_a_prompt_lasts_over_samples_and_versions(version):
    """Reports and logits recomputed from the keys in NumPy: replicate, prompt, and no version."""
    own = {"noise": 0.5, "noise_per": "prompt"}
    stream = rng.Stream(9, "engine prompts")
    reports, _ = asked(ASKED.policy(**own, noise_in="reports"), version)
    logits, weights = asked(ASKED.policy(**own, temperature=0.8), version)
    found = (reports.behavior["log_prob"] - reports.behavior["scored_log_prob"])[..., 0].numpy()
    assert len(np.unique(found.round(9))) == 2 * 3
    for r, g, n in itertools.product(range(2), range(6), range(5)):
        prompt = g % 3
        assert found[r, g, n] == pytest.approx(0.5 * stream.normal(r, prompt, 0, 0), abs=1e-12)
        noise = 0.5 * stream.normal(r, prompt, 0, np.arange(4))
        law = numpy_law((weights["log_prob"][r, prompt].numpy() + noise)[None], 0.8)[0]
        u = rng.Stream(9, "rollout").uniform(r, 5 * g + n, 0, 0)
        action = int((u >= np.exp(law).cumsum()).sum())
        assert logits.action[r, g, n, 0] == action
        assert logits.behavior["log_prob"][r, g, n, 0].item() == pytest.approx(law[action], abs=1e-12)
    # Planted: noise of sequences has a number for each of them.
    planted, _ = asked(ASKED.policy(noise=0.5, noise_per="sequence", noise_in="reports"), version)
    other = (planted.behavior["log_prob"] - planted.behavior["scored_log_prob"])[..., 0].numpy()
    assert len(np.unique(other.round(9))) == 60


def test_noise_of_a_version_is_a_table_of_its_own():
    policy = TASK.policy(noise=0.5, noise_per="version")
    theta = np.zeros((3, policy.size))
    tables = [installed(policy, theta, Keys(1, np.array([4, 5, 6]), version))["sampled"].numpy() for version in (0, 1)]
    again = installed(policy, theta[:1], Keys(1, np.array([5]), 0))["sampled"].numpy()
    np.testing.assert_array_equal(tables[0][1], again[0])
    assert len(np.unique(np.concatenate(tables).round(9))) == 2 * 3 * 8
    np.testing.assert_allclose(np.exp(tables[0]).sum(-1), 1.0, rtol=0, atol=1e-12)


# Whole runs.

ENGINES = [
    {"temperature": 0.7, "top_p": 0.8},
    {"noise": 0.1, "noise_per": "version"},
    {"noise": 0.1, "noise_per": "version", "noise_in": "reports", "noise_law": "uniform"},
    {"noise": 0.1, "top_k": 2},
    {"noise": 0.1, "noise_per": "prompt"},
    {"noise": 0.1, "noise_per": "sequence", "noise_in": "reports", "noise_law": "student"},
]
NAMES = ["mean_weight", "ess", "ess_mismatch", "ess_staleness", "log_ratio_variance", "mismatch_variance", "kl_k1"]


def spec_of(engine, **changes):
    settings = {"replicates": 6, "samples_per_group": 8, "updates": 12, "diagnostics": NAMES} | changes
    schedule = settings.pop("schedule", sim.schedules.fixed(2, groups_per_batch=2))
    return sim.Spec(
        TASK, schedule, sim.methods.truncated_is(), sim.chain(sim.updates.sgd(0.3)), TASK.policy(**engine), **settings
    )


def assert_same(one, other, tolerance=0.0):
    np.testing.assert_allclose(one.parameters, other.parameters, rtol=tolerance, atol=tolerance)
    for name in NAMES:
        np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_do_not_depend_on_blocks_or_drawing(engine):
    whole = sim.run(spec_of(engine), seed=3)
    assert_same(whole, sim.run(spec_of(engine, block=4), seed=3))
    assert_same(whole, sim.run(spec_of(engine, drawing="early"), seed=3))
    assert not np.array_equal(whole.parameters, sim.run(spec_of({}), seed=3).parameters)


@pytest.mark.parametrize("engine", ENGINES)
def test_batches_that_mix_versions_read_the_tables_of_each(engine):
    mixed = sim.schedules.random("uniform:0:2", per="trajectory", groups_per_batch=2)
    late = sim.run(spec_of(engine, schedule=mixed), seed=3)
    assert_same(late, sim.run(spec_of(engine, schedule=mixed, drawing="early"), seed=3))
    assert (late["ess_mismatch"] < 1.0).any() and (late["ess_staleness"][3:] < 1.0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_programs_and_tensors_agree(engine):
    assert_same(sim.run(spec_of(engine, compiled=True), seed=3), sim.run(spec_of(engine, compiled=False), seed=3), 1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_coupled_lengths_are_those_of_the_engine(engine):
    """Weights that change inside a response, drawn late or early: the same lengths, schedule and bits."""
    task = sim.tasks.token_bandit(actions=3, horizon=8, ends=True, logits=[[0.0, 0.4, -1.5]])
    system = sim.schedules.coupled(sim.systems.areal(2, 2, 3, length=1.0, train_time=2.3))
    sizes = {"samples_per_group": 2, "updates": 12, "replicates": 2, "diagnostics": ["ess_mismatch"]}

    def ran(drawing):
        update = sim.chain(sim.updates.sgd(1.0))
        method, policy = sim.methods.full_is(), task.policy(**engine)
        return sim.run(sim.Spec(task, system, method, update, policy, drawing=drawing, **sizes), seed=1)

    late, early = ran("late"), ran("early")
    assert np.array_equal(late.parameters, early.parameters)
    assert np.array_equal(late.schedule.work, early.schedule.work)
    assert (late["ess_mismatch"] < 1.0).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_killed_run_goes_on_to_the_same_bits(engine, tmp_path):
    """Kept weights have the tables of their version's engine."""

    class Killed(Exception):
        pass

    def kill(recorded):
        if recorded.update == 7:
            raise Killed

    made, path = spec_of(engine), tmp_path / "c.npz"
    with pytest.raises(Killed):
        sim.run(made, seed=3, checkpoint=path, checkpoint_every="1 update", callback=kill)
    assert_same(sim.run(made, seed=3), sim.run(made, seed=3, resume=path))


def test_settings_that_change_nothing_are_plain_to_the_bit():
    """A temperature of 1, all actions kept, no noise: no table of the engine's own, and the same results."""
    same = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "noise": 0.0}
    assert not TASK.policy(**same).mismatched and TASK.policy(top_k=1).mismatched
    assert_same(sim.run(spec_of(same), seed=3), sim.run(spec_of({}), seed=3))


# Words and errors.


def test_a_sampler_is_set_in_one_line():
    spec = wording.of_words(["task=softmax_bandit", "policy.temperature=0.7", "policy.noise=0.02"], "--set")
    assert spec.policy.engine == Engine(temperature=0.7, noise=0.02) and spec.policy.actions == 10
    assert sim.Spec.from_dict(spec.to_dict()).policy == spec.policy
    plain = spec.replace(policy=None)
    assert with_setting(plain, "policy.top_p", 0.9).policy.engine == Engine(top_p=0.9)
    assert with_setting(spec, "policy.top_p", 0.9).policy.engine == Engine(0.7, 0.9, noise=0.02)
    assert plain.describe().get("sampler") is None and spec.describe()["sampler"]["noise"] == 0.02


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"top_p": 0.0}, r"top_p = 0.0: must be a finite number in \(0, 1\]; 1 keeps every action, 0 would keep none"),
        ({"top_p": 1.2}, "top_p = 1.2"),
        ({"top_k": 5}, r"top_k = 5: must be an integer in \[0, 4\]"),
        ({"temperature": 0}, "temperature = 0: must be"),
        ({"noise": -0.1}, r"noise = -0.1: must be a finite number in \[0, 10\]"),
        ({"noise": math.nan}, "noise = nan"),
        ({"noise_law": "cauchy"}, "noise_law = 'cauchy': must be one of normal, uniform, student"),
        ({"noise_law": "student:2"}, "noise_law degrees = 2.0"),
        ({"noise_law": "normal:2"}, "noise_law = 'normal:2': must be student:DEGREES"),
        ({"noise_per": "group"}, "noise_per = 'group': must be one of token, sequence, prompt, version"),
        ({"noise_in": "weights"}, "noise_in = 'weights': must be one of logits, reports"),
        ({"logits": 1}, "policy argument = 'logits': must be one of temperature"),
    ],
)
def test_bad_engines_are_named(engine, message):
    refused(message, lambda: TASK.policy(**engine))


def test_lists_of_noise_are_refused_by_name():
    noisy = {"noise": 0.1}
    with pytest.raises(InputError, match="sampling = 'enumerate': must be monte_carlo where noise_per"):
        spec_of({**noisy, "noise_per": "prompt"}, sampling="enumerate")
    refused("diagnostics = 'bias': must be recorded without the policy's noise", spec_of, noisy, diagnostics=["bias"])
    spec_of({"noise": 0.1, "noise_per": "version"}, sampling="enumerate", diagnostics=["bias"])
    with pytest.raises(InputError, match=r"noise = 0\.1: must be 0 where outcomes are listed without a run"):
        oracle.limit(TASK, sim.methods.full_is(), np.zeros(8), policy=TASK.policy(**noisy))


def test_moments_that_are_infinite_are_refused_by_name():
    heavy = Engine(noise=0.1, noise_law="student", noise_in="reports")
    refused("noise_law = 'student': must be one whose ratios have a mean", heavy.report_moment, 3)
    assert Engine(noise=0.1, noise_law="student").report_moment(3) == 1.0


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_a_normal_policy_is_drawn_and_recorded_at_its_temperature(temperature):
    """Against SciPy's density; planted: a temperature that is taken for a ratio of widths."""
    width = 0.6
    policy = sim.policies.gaussian(2, width, temperature=temperature)
    view = versions.current(policy.prepare(torch.zeros(1, 2, dtype=torch.float64)))
    action = torch.tensor([[[[[0.3, -0.8]]]]], dtype=torch.float64)
    batch = type("Batch", (), {"action": action, "behavior": {}})()
    recorded, scored = policy.record(view, batch)["log_prob"].item(), policy.score(view, batch).item()

    def density(scale):
        return stats.norm.logpdf(action.numpy(), scale=scale).sum()

    assert recorded == pytest.approx(density(width * math.sqrt(temperature)), abs=1e-12)
    assert scored == pytest.approx(density(width), abs=1e-12)
    if temperature != 1.0:
        assert recorded != pytest.approx(density(width * temperature), abs=1e-3)
    assert policy.mismatched == (temperature != 1.0)


def test_a_normal_policy_without_temperature_is_refused():
    refused("temperature", sim.policies.gaussian, temperature=0.0)
