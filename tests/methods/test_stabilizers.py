"""Stabilizers: bands, shrinking, lost directions, momentum by alignment, and the controls without a signal."""

import math
import warnings

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import RunWarning
from asyncsim.updates import _link
from asyncsim.updates._link import Stateless
from tests.contracts.test_links import R, SkipSecond, apply, directions, signal, turned
from tests.refusals import refused

# Steps by the ESS and by the lag.


def test_ess_step_deadband():
    """No braking at reference / D and above, the full rule below; a continuous band is another reference."""
    given = directions(1)
    rows = [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, -60.0, -60.0], [0.0, -60.0, -60.0, -60.0]]
    for deadband, expected in ((1.0, [1.0, 0.5, 0.25]), (2.0, [1.0, 1.0, 0.25]), (4.0, [1.0, 1.0, 1.0])):
        link = sim.updates.ess_step("linear", deadband=deadband)
        steps, _, records = apply(sim.chain(link), given, signals=[signal(rows)])
        expected = torch.tensor(expected).double()
        torch.testing.assert_close(records[0].statistics["ess_step_scale"], expected, rtol=1e-9, atol=0)
        torch.testing.assert_close(steps[0], given[0] * expected.unsqueeze(-1), rtol=1e-9, atol=0)


def test_ess_step_reports_what_the_ess_is_blind_to():
    """A common factor e^-7 leaves the scale at 1 and stands in the mean; e^900 neither overflows nor brakes."""
    rows = [[-7.0] * 4, [900.0] * 4, [0.0, math.log(3.0), -math.inf, -math.inf]]
    _, _, records = apply(sim.chain(sim.updates.ess_step()), directions(1), signals=[signal(rows)])
    told = records[0].statistics
    torch.testing.assert_close(told["ess_step_log_mean"], torch.tensor([-7.0, 900.0, 0.0]).double(), rtol=0, atol=1e-9)
    assert told["ess_step_ess"].tolist() == pytest.approx([1.0, 1.0, 0.4], rel=1e-9)
    assert told["ess_step_broken"].tolist() == [0.0, 0.0, 0.0]


def test_ess_step_can_skip_what_is_broken():
    given = directions(1)
    rows = [[math.inf, 0.0, 0.0, 0.0], [0.0] * 4, [-math.inf] * 4]
    steps, _, records = apply(sim.chain(sim.updates.ess_step(on_broken="skip")), given, signals=[signal(rows)])
    assert records[0].skip.tolist() == [True, False, True]
    assert torch.equal(steps[0, 1], given[0][1]) and (steps[0, [0, 2]] == 0).all()


@pytest.mark.parametrize("deadband", [0.9, math.nan, math.inf, [1.0, 0.5, 2.0]])
def test_ess_step_refuses_a_band_below_one(deadband):
    refused("deadband = ", sim.updates.ess_step, deadband=deadband)
    refused("on_broken = 'ignore': must be one of floor, skip", sim.updates.ess_step, on_broken="ignore")


def test_lr_by_lag_remembers_the_largest():
    """Of each replicate; a later fresh batch does not raise the step again."""
    ages = [[0.0, 1.0, 4.0], [0.0, 2.0, 3.0], [0.0, 0.0, 8.0], [0.0, 0.0, 0.0]]
    given = directions(4)
    steps, states, records = apply(sim.chain(sim.updates.lr_by_lag()), given, ages=ages)
    scales = torch.stack([r.statistics["lr_by_lag_scale"] for r in records])
    assert scales.tolist() == [[1.0, 1.0, 0.25], [1.0, 0.5, 0.25], [1.0, 0.5, 0.125], [1.0, 0.5, 0.125]]
    torch.testing.assert_close(steps, torch.stack(given) * scales.unsqueeze(-1))
    assert states[0]["largest"].flatten().tolist() == [0.0, 2.0, 8.0]


def test_lr_by_lag_reads_the_realized_lag():
    """A warm-up of a fixed lag: 1, 1, 1/2, 1/3, then constant at the lag that the run has shown."""
    task = sim.tasks.softmax_bandit()
    sizes = {"samples_per_group": 2, "updates": 6, "replicates": 2}
    spec = sim.Spec(task, sim.schedules.fixed(3), sim.methods.reinforce(), sim.chain(sim.updates.lr_by_lag()), **sizes)
    expected = [1.0, 1.0, 1 / 2, 1 / 3, 1 / 3, 1 / 3]
    np.testing.assert_allclose(sim.run(spec)["lr_by_lag_scale"][:, 0], expected, rtol=1e-15)


# Large models.


@pytest.mark.parametrize("size", [_link.LARGE + 1, _link.LARGE + _link.PIECE])
def test_models_in_pieces_take_the_step_of_whole_ones(size, monkeypatch):
    """Adam to the bit, the clipped norm to rounding; the last piece may have one parameter."""
    generator = torch.Generator().manual_seed(size)
    given = [torch.randn((R, size), generator=generator) for _ in range(2)]
    chain = sim.chain(sim.updates.clip_norm(3.0), sim.updates.adam(1e-3))
    adam = sim.chain(sim.updates.adam(0.5))
    pieces = [apply(each, given)[0] for each in (chain, adam)]
    monkeypatch.setattr(_link, "LARGE", size)
    whole = [apply(each, given)[0] for each in (chain, adam)]
    torch.testing.assert_close(pieces[0], whole[0], rtol=1e-6, atol=0)
    assert torch.equal(pieces[1], whole[1])
    assert _link.norm(given[0])[:, 0].tolist() == pytest.approx(given[0].double().norm(dim=1).tolist(), rel=1e-6)


# Controls without a signal.


def test_constant_scale():
    given = directions(2)
    steps, _, records = apply(sim.chain(sim.updates.scale(0.3)), given)
    torch.testing.assert_close(steps, 0.3 * torch.stack(given))
    assert all((r.statistics["scale"] == 0.3).all() for r in records)


def test_skip_nonfinite_lets_a_run_go_on():
    """A replicate that meets one broken direction is not frozen, and counts it."""

    class Break(Stateless):
        def __init__(self):
            self.calls = 0

        def apply(self, record, state):
            self.calls += 1
            if self.calls == 3:
                record.direction = record.direction.clone()
                record.direction[1, 0] = math.inf
            return record, state

    def run(*links):
        task, system, method = sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce()
        sizes = {"updates": 6, "replicates": 3}
        spec = sim.Spec(task, system, method, sim.chain(Break(), *links, sim.updates.adam(0.1)), **sizes)
        return sim.run(spec)

    kept, frozen = run(sim.updates.skip_nonfinite()), run()
    assert kept.diverged.tolist() == [-1, -1, -1] and frozen.diverged.tolist() == [-1, 2, -1]
    assert kept["skip_nonfinite_skipped"].sum(0).tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_array_equal(kept.parameters[[0, 2]], frozen.parameters[[0, 2]])


# Alignment.


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0])
@pytest.mark.parametrize("first", [[], [sim.updates.skip_nonfinite()]])
@pytest.mark.parametrize("reference", ["raw", "applied"])
def test_a_direction_that_was_lost_clears_the_reference(bad, first, reference):
    """Its cosine and the next one are invalid: NaN, never 0; no older reference steps in. Skipped or not."""
    lost = turned(0.3) * bad
    link = sim.updates.align(high=1.0, reference=reference)
    _, _, records = apply(sim.chain(*first, link), [turned(0.0), lost, turned(0.1), turned(1.5)])
    found = torch.stack([r.statistics["align_cosine"] for r in records])
    assert torch.isnan(found[:3]).all() and torch.isfinite(found[3]).all()
    torch.testing.assert_close(found[3], torch.full((R,), math.cos(1.4)).double(), rtol=0, atol=1e-7)
    invalid = torch.stack([r.statistics["align_invalid"] for r in records])
    assert (invalid[:3] == 1).all() and (invalid[3] == 0).all()
    _, early, _ = apply(sim.chain(*first, link), [turned(0.0), lost])
    assert (early[-1]["reference"] == 0).all()


def test_a_skip_by_align_is_no_lost_direction():
    """Its gradient is valid and becomes the reference; a healthy skip before it leaves the reference alone."""
    _, states, records = apply(sim.chain(sim.updates.align(0.2, 0.9)), [turned(0.0), turned(0.1), turned(0.2)])
    assert (records[2].statistics["align_invalid"] == 0).all()
    torch.testing.assert_close(states[0]["reference"], turned(0.2))
    given = directions()
    _, behind, _ = apply(sim.chain(SkipSecond(), sim.updates.align()), given)
    assert torch.equal(behind[1]["reference"][1], given[0][1])


@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_chain_of_skips_ends(row):
    """One gradient again and again: the first passes, then one behind every `row` skips; without a bound none does."""
    given = [turned(0.3)] * 9
    _, _, records = apply(sim.chain(sim.updates.align(high=0.5, max_skips=row)), given)
    skipped = torch.stack([r.statistics["align_skipped"] for r in records])
    expected = [0.0] + ([1.0] * row + [0.0]) * 9
    assert (skipped == torch.tensor(expected[:9]).unsqueeze(1)).all()
    steps, _, records = apply(sim.chain(sim.updates.align(high=0.5)), given)
    assert (steps[1:] == 0).all() and all((r.statistics["align_skipped"] == 1).all() for r in records[1:])


def test_a_run_that_mostly_skips_says_so():
    """Large batches align without staleness; the usual thresholds skip nothing, and nothing is said."""
    spec = sim.Spec(
        sim.tasks.token_bandit(8, 16, "markov"),
        sim.schedules.fixed(0),
        sim.methods.reinforce(sim.advantages.leave_one_out()),
        sim.chain(sim.updates.align(high=0.3), sim.updates.adam(0.2)),
        samples_per_group=64,
        updates=60,
        replicates=4,
        diagnostics=["trained_return"],
    )
    with pytest.warns(RunWarning, match=r"align: \d+% of the recorded updates were skipped"):
        frozen = sim.run(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = sim.run(spec.replace(update=sim.chain(sim.updates.align(), sim.updates.adam(0.2))))
        bounded = sim.run(
            spec.replace(update=sim.chain(sim.updates.align(high=0.3, max_skips=1), sim.updates.adam(0.2)))
        )
    last = [trace["trained_return"][-1].mean() for trace in (frozen, bounded, free)]
    assert last[0] < 0.3 and min(last[1:]) > 0.9, last


@pytest.mark.parametrize("strength", [1.0, 0.5])
@pytest.mark.parametrize("low", [0.0, 0.2, 0.6])
def test_align_shrinks_the_parallel_part(low, strength):
    """As much of it as leaves the cosine at `low`; the orthogonal part is untouched; no shrinking below `low`."""
    link = sim.updates.align(low, 1.0, strength=strength, removal="shrink")
    for angle in (0.1, 0.5, 0.9, 1.5):
        given = 3.0 * turned(angle)
        steps, _, _ = apply(sim.chain(link), [5.0 * turned(0.0), given])
        torch.testing.assert_close(steps[1][:, 1], given[:, 1], rtol=1e-12, atol=0)
        target = low * math.sin(angle) / math.sqrt(1 - low**2)
        expected = math.cos(angle) - strength * max(0.0, math.cos(angle) - target)
        torch.testing.assert_close(steps[1][:, 0], torch.full((R,), 3.0 * expected).double(), rtol=1e-6, atol=1e-9)
        if strength == 1.0:
            cosine = steps[1][:, 0] / steps[1].norm(dim=-1)
            torch.testing.assert_close(cosine, torch.full((R,), min(low, math.cos(angle))).double(), rtol=0, atol=1e-7)


def test_align_shrinks_parallel_gradients_to_nothing():
    """Without an orthogonal part no multiple of the reference has the cosine `low`."""
    steps, _, _ = apply(sim.chain(sim.updates.align(0.3, 1.0, removal="shrink")), [turned(0.4), turned(0.4)])
    assert steps[1].abs().max() < 1e-7


@pytest.mark.parametrize("low", [-0.1, 1.0, [0.0, -0.5, 0.2]])
def test_align_cannot_shrink_to_any_cosine(low):
    refused(r"low = .*: must be in \[0, 1\) for removal='shrink'", sim.updates.align, low, 1.0, removal="shrink")
