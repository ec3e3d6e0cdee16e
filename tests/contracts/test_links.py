"""Update links: against reference optimizers, order as placement, and what a skipped update leaves behind."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.updates._link import Record, Stateless
from tests.contracts.laboratory import case, make, names

R, P = 3, 4


def signal(log_ratios=None):
    """A signal whose sequence log ratios are given, [R, N]; equal to 0 where not."""
    trial = case(R=R, G=1, N=4, T=1, drift=0.0)
    found, _ = trial.evaluate(sim.methods.reinforce())
    values = torch.zeros(R, 4) if log_ratios is None else torch.as_tensor(log_ratios, dtype=torch.float64)
    vars(found)["log_ratio"] = values.double().reshape(R, 1, -1, 1)
    return found


def apply(chain, directions, skip=None, ages=None, signals=None):
    """Steps of a chain for a list of directions [R, P], and its final states."""
    states, steps, records = chain.init(torch.zeros_like(directions[0])), [], []
    for t, direction in enumerate(directions):
        given = signals[t] if signals else signal()
        given.parameters = torch.zeros_like(direction)
        if ages is not None:
            # One update makes one version and each replicate has its own realization, so the age is a gap of versions.
            age = np.array(ages[t])
            given.batch.version, given.batch.train_version = (age.max() - age).reshape(R, 1, 1, 1), int(age.max())
            given.batch.realization = np.arange(R)
        record = Record(direction.clone(), torch.zeros(R, dtype=torch.bool), given)
        record, states = chain.apply(record, states)
        steps.append(record.direction)
        records.append(record)
    return torch.stack(steps), states, records


def directions(count=6, seed=0, dtype=torch.float64):
    return [torch.from_numpy(x).to(dtype) for x in np.random.default_rng(seed).normal(size=(count, R, P))]


class SkipSecond(Stateless):
    """Skips replicate 1 at every update but the first."""

    def __init__(self):
        self.calls = 0

    def apply(self, record, state):
        self.calls += 1
        if self.calls > 1:
            record.skip = record.skip | torch.tensor([False, True, False])
        return record, state


# Every link.


@pytest.mark.parametrize("name", names("updates"))
def test_a_skipped_update_does_not_exist_for_links_behind(name):
    """State of the skipped replicate is that after its last update; its step is 0; the others notice nothing."""
    given, ages = directions(), [[t, t + 1.0, t + 2.0] for t in range(6)]
    link = make("updates", name)
    steps, states, _ = apply(sim.chain(SkipSecond(), link), given, ages=ages)
    free, free_states, _ = apply(sim.chain(link), given, ages=ages)
    _, early, _ = apply(sim.chain(link), given[:1], ages=ages)
    assert (steps[1:, 1] == 0).all() and torch.equal(steps[0], free[0])
    assert torch.equal(steps[:, [0, 2]], free[:, [0, 2]])
    moved = []
    for key, value in states[1].items():
        assert torch.equal(value[[0, 2]], free_states[0][key][[0, 2]])
        assert torch.equal(value[1], early[0][key][1])
        moved.append(not torch.equal(value[1], free_states[0][key][1]))
    assert any(moved) or not moved


@pytest.mark.parametrize("name", names("updates"))
def test_links_before_the_one_that_skips_have_seen_the_update(name):
    given = directions()
    steps, states, _ = apply(sim.chain(make("updates", name), SkipSecond()), given)
    _, free_states, _ = apply(sim.chain(make("updates", name)), given)
    assert (steps[1:, 1] == 0).all()
    assert states[0].keys() == free_states[0].keys()
    assert all(torch.equal(states[0][k], free_states[0][k]) for k in states[0])


@pytest.mark.parametrize("name", names("updates"))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_zero_direction_stays_zero(name, dtype):
    steps, _, _ = apply(sim.chain(make("updates", name)), [torch.zeros(R, P, dtype=dtype)] * 3)
    assert (steps == 0).all() and steps.dtype == dtype


@pytest.mark.parametrize("name", names("updates"))
def test_a_broken_direction_breaks_only_its_replicate(name):
    given = directions()
    given[2][1, 0] = math.nan
    steps, _, _ = apply(sim.chain(make("updates", name)), given)
    clean, _, _ = apply(sim.chain(make("updates", name)), directions())
    assert torch.equal(steps[:, [0, 2]], clean[:, [0, 2]])
    # One link is there to stop it; no other may hide it.
    if name == "skip_nonfinite":
        assert (steps[2, 1] == 0).all()
        return
    message = "a direction that is not finite must leave the link not finite (torch.sign and comparisons hide NaN)"
    assert not torch.isfinite(steps[2, 1]).all(), message


@pytest.mark.parametrize("name", names("updates"))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_no_link_behind_learns_from_a_lost_direction(name, bad):
    """Behind `skip_nonfinite` state stays finite, the step is 0, and the next one is finite."""
    given = directions()
    given[2][1, 0] = bad
    steps, states, records = apply(sim.chain(sim.updates.skip_nonfinite(), make("updates", name)), given)
    clean, _, _ = apply(sim.chain(sim.updates.skip_nonfinite(), make("updates", name)), directions())
    assert (steps[2, 1] == 0).all() and torch.isfinite(steps).all()
    assert torch.equal(steps[:, [0, 2]], clean[:, [0, 2]])
    assert all(torch.isfinite(value).all() for value in states[1].values())
    if name != "skip_nonfinite":
        counted = [r.statistics["skip_nonfinite_skipped"].tolist() for r in records]
        assert counted == [[0.0, float(t == 2), 0.0] for t in range(6)]


def test_the_empty_chain_adds_the_gradient():
    given = directions()
    steps, states, _ = apply(sim.chain(), given)
    assert states == [] and torch.equal(steps, torch.stack(given))


# Order is placement.


def test_order_matters():
    """Clip then scale keeps 2 limit; scale then clip keeps the limit. Scaling before Adam is without effect."""
    given = directions()
    u = sim.updates
    inside, _, _ = apply(sim.chain(u.clip_norm(0.5), u.sgd(2.0)), given)
    outside, _, _ = apply(sim.chain(u.sgd(2.0), u.clip_norm(0.5)), given)
    torch.testing.assert_close(inside.norm(dim=-1), torch.full((6, R), 1.0).double())
    torch.testing.assert_close(outside.norm(dim=-1), torch.full((6, R), 0.5).double())
    plain, _, _ = apply(sim.chain(u.adam(0.1)), given)
    before, _, _ = apply(sim.chain(u.sgd(0.25), u.adam(0.1)), given)
    behind, _, _ = apply(sim.chain(u.adam(0.1), u.sgd(0.25)), given)
    torch.testing.assert_close(before, plain, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(behind, 0.25 * plain)


# One by one.


@given(
    seed=st.integers(0, 10**6),
    lr=st.sampled_from([1e-3, 0.1, 2.0]),
    beta1=st.sampled_from([0.0, 0.5, 0.9]),
    beta2=st.sampled_from([0.0, 0.9, 0.999]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    eps=st.sampled_from([1e-8, 0.02]),
)
def test_adam_is_torchs_adam(seed, lr, beta1, beta2, scale, eps):
    given = [scale * d for d in directions(8, seed)]
    parameter = torch.zeros(R, P, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([parameter], lr=lr, betas=(beta1, beta2), eps=eps, maximize=True)
    steps, _, _ = apply(sim.chain(sim.updates.adam(lr, beta1, beta2, eps)), given)
    ours = torch.zeros(R, P).double()
    for d, step in zip(given, steps, strict=True):
        parameter.grad = d.clone()
        optimizer.step()
        ours += step
        torch.testing.assert_close(ours, parameter.detach(), rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 10**6), lr=st.floats(1e-3, 10.0), beta=st.sampled_from([0.0, 0.5, 0.99]))
def test_momentum_is_torchs_momentum(seed, lr, beta):
    given = directions(8, seed)
    parameter = torch.zeros(R, P, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=lr, momentum=beta, dampening=0.0, maximize=True)
    steps, _, _ = apply(sim.chain(sim.updates.momentum(beta), sim.updates.sgd(lr)), given)
    for d in given:
        parameter.grad = d.clone()
        optimizer.step()
    torch.testing.assert_close(steps.sum(0), parameter.detach(), rtol=1e-10, atol=1e-10)


@given(
    seed=st.integers(0, 10**6), limit=st.sampled_from([1e-6, 1.0, 2.0, 1e6]), scale=st.sampled_from([1e-9, 1.0, 1e9])
)
def test_clip_norm(seed, limit, scale):
    given = [scale * d for d in directions(2, seed)]
    steps, _, records = apply(sim.chain(sim.updates.clip_norm(limit)), given)
    for d, step, record in zip(given, steps, records, strict=True):
        norm = d.norm(dim=-1)
        torch.testing.assert_close(step.norm(dim=-1), norm.clamp(max=limit), rtol=1e-12, atol=0)
        torch.testing.assert_close(
            step / step.norm(dim=-1, keepdim=True), d / norm.unsqueeze(-1), rtol=1e-9, atol=1e-12
        )
        torch.testing.assert_close(record.statistics["norm_before_clip"], norm)
        assert all(torch.equal(a, b) for a, b, n in zip(step, d, norm, strict=True) if n < limit)


@pytest.mark.parametrize(("rule", "power"), [("sqrt", 0.5), ("linear", 1.0)])
def test_ess_step_at_both_ends(rule, power):
    """Equal weights (whatever their size): no brake. One sample with all the weight: (1/n)^power, over a reference."""
    given = directions(1)
    rows = [[-7.0] * 4, [0.0, -60.0, -60.0, -60.0], [0.0, 0.0, -60.0, -60.0]]
    steps, _, records = apply(sim.chain(sim.updates.ess_step(rule)), given, signals=[signal(rows)])
    expected = torch.tensor([1.0, 0.25, 0.5]).double() ** power
    torch.testing.assert_close(records[0].statistics["ess_step_scale"], expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(steps[0], given[0] * expected.unsqueeze(-1), rtol=1e-9, atol=0)
    assert (records[0].statistics["ess_step_broken"] == 0).all()
    _, _, records = apply(sim.chain(sim.updates.ess_step(rule, reference=0.5)), given, signals=[signal(rows)])
    expected = torch.tensor([1.0, 0.5, 1.0]).double() ** power
    torch.testing.assert_close(records[0].statistics["ess_step_scale"], expected, rtol=1e-9, atol=0)


def test_ess_step_never_raises_the_step():
    steps, _, _ = apply(sim.chain(sim.updates.ess_step("linear", reference=0.3)), directions(1))
    assert torch.equal(steps[0], directions(1)[0])


@pytest.mark.parametrize("bad", [[math.inf, 0.0, 0.0, 0.0], [math.nan, 0.0, 0.0, 0.0], [-math.inf] * 4, [math.inf] * 4])
def test_ess_step_fails_closed(bad):
    """A log ratio of +inf or NaN, or no weight at all: the floor, and a count; never scale 1 (min(1, nan) is 1)."""
    given = directions(1)
    rows = [bad, [0.0] * 4, [1000.0, 0.0, 0.0, 0.0]]
    steps, _, records = apply(sim.chain(sim.updates.ess_step("linear", floor=0.02)), given, signals=[signal(rows)])
    scale = records[0].statistics["ess_step_scale"]
    assert scale.tolist() == [0.02, 1.0, 0.25]
    assert records[0].statistics["ess_step_broken"].tolist() == [1.0, 0.0, 0.0]
    torch.testing.assert_close(steps[0], given[0] * scale.unsqueeze(-1))


@pytest.mark.parametrize("ages", [[0.0, 1.0, 8.0]])
def test_staleness_step(ages):
    given = directions(1)
    steps, _, records = apply(sim.chain(sim.updates.staleness_step()), given, ages=[ages])
    assert records[0].statistics["staleness_step_scale"].tolist() == [1.0, 1.0, 0.125]
    torch.testing.assert_close(steps[0], given[0] * torch.tensor([1.0, 1.0, 0.125]).double().unsqueeze(-1))


@pytest.mark.parametrize(("publish", "epochs"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_staleness_step_counts_updates_not_versions(publish, epochs):
    """Staleness 2 in versions of S U updates each: at the j-th update since the version, 2 S U + j."""
    schedule = sim.schedules.fixed(2, batches_per_publish=publish)
    task = sim.tasks.softmax_bandit()
    sizes = {"samples_per_group": 2, "updates": 6 * publish * epochs, "epochs": epochs, "replicates": 2}
    spec = sim.Spec(task, schedule, sim.methods.reinforce(), sim.chain(sim.updates.staleness_step()), **sizes)
    trace = sim.run(spec)
    each = publish * epochs
    updates = np.arange(6 * each)
    ages = np.minimum(updates // each, 2) * each + updates % each
    np.testing.assert_allclose(trace["staleness_step_scale"][:, 0], 1 / np.maximum(1, ages), rtol=1e-15)


def test_largest_staleness_is_that_of_the_oldest_token():
    """Of each replicate's own realization, not the mean and not that of the first token."""
    law = sim.schedules.random([0.25] * 4, per="trajectory")
    task = sim.tasks.softmax_bandit()
    sizes = {"samples_per_group": 3, "updates": 20, "replicates": 4}
    spec = sim.Spec(task, law, sim.methods.reinforce(), sim.chain(sim.updates.staleness_step()), **sizes)
    trace = sim.run(spec, seed=1)
    ages = trace.schedule.staleness().max(axis=(2, 3, 4)).T
    np.testing.assert_allclose(trace["staleness_step_scale"], 1 / np.maximum(1, ages[:, trace.realization]), rtol=1e-15)


# Gradient alignment control.


def turned(angle):
    """Unit directions of all replicates at this angle to the first axis."""
    return torch.tensor([[math.cos(angle), math.sin(angle), 0.0, 0.0]], dtype=torch.float64).repeat(R, 1)


def test_align_passes_projects_and_skips():
    link = sim.updates.align(low=0.2, high=0.9)
    for angle, expected in (
        (1.5, turned(1.5)),
        (1.0, turned(1.0) - math.cos(1.0) * turned(0.0)),
        (0.1, 0 * turned(0.0)),
    ):
        steps, states, records = apply(sim.chain(link), [turned(0.0), turned(angle)])
        assert torch.equal(steps[0], turned(0.0)), "the first update has no reference"
        torch.testing.assert_close(steps[1], expected, rtol=0, atol=1e-15)
        torch.testing.assert_close(
            records[1].statistics["align_cosine"], torch.full((R,), math.cos(angle)).double(), rtol=0, atol=1e-7
        )
        assert records[1].skip.all() == (angle == 0.1)
        assert (records[1].statistics["align_projected"] == float(angle == 1.0)).all()
        assert (records[1].statistics["align_skipped"] == float(angle == 0.1)).all()
        torch.testing.assert_close(states[0]["reference"], turned(angle))


def test_align_strength_reference_and_refresh():
    u = sim.updates
    half, _, _ = apply(sim.chain(u.align(0.0, 1.0, strength=0.5)), [turned(0.0), turned(1.0)])
    torch.testing.assert_close(half[1], turned(1.0) - 0.5 * math.cos(1.0) * turned(0.0), rtol=0, atol=1e-15)
    whole, states, _ = apply(sim.chain(u.align(0.0, 1.0, reference="applied")), [turned(0.0), turned(1.0)])
    torch.testing.assert_close(states[0]["reference"], whole[1])
    assert (whole[1] * turned(0.0)).sum(-1).abs().max() < 1e-15
    _, kept, _ = apply(sim.chain(u.align(0.2, 0.9, refresh=False)), [turned(0.0), turned(0.1)])
    assert torch.equal(kept[0]["reference"], turned(0.0))


def test_align_at_one_never_skips():
    """Parallel gradients of any length, whose cosine rounding may carry beyond 1."""
    random = np.random.default_rng(0)
    given = [torch.from_numpy(np.outer(random.uniform(0.1, 10.0, R), [0.1, 0.7, -0.3, 0.9])) for _ in range(60)]
    _, _, records = apply(sim.chain(sim.updates.align(-1.0, 1.0)), given)
    assert all((r.statistics["align_skipped"] == 0).all() for r in records)
    assert all((r.statistics["align_projected"] == 1).all() for r in records[1:])


def test_a_skipped_update_counts_and_publishes():
    """With every update but the first skipped, parameters stand still while versions and staleness go on."""
    task, system, method = sim.tasks.softmax_bandit(), sim.schedules.frozen(), sim.methods.reinforce()
    options = {"updates": 6, "replicates": 3, "diagnostics": ["staleness", "exact_return"]}
    spec = sim.Spec(task, system, method, sim.chain(sim.updates.align(-1.0, -1.0), sim.updates.sgd(1.0)), **options)
    trace = sim.run(spec)
    assert trace["staleness"][:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    value = trace["exact_return"]
    assert (value[1:] == value[1]).all() and (value[0] != value[1]).any()
    assert (trace["align_skipped"][1:] == 1).all() and (trace["align_skipped"][0] == 0).all()
