"""Bounds to the point, and numbers that are taken by default: what small changes of the code had left unnoticed."""

import dataclasses
import inspect
import json
import math

import pytest
import torch

import asyncsim as sim
from asyncsim.advantages.optimal import _quantile
from asyncsim.base import plugins
from asyncsim.base.checks import InputError
from asyncsim.methods import _given
from asyncsim.methods._weights import DualClip, gained
from asyncsim.penalties.divergences import _k3_value
from asyncsim.step import ratios
from asyncsim.updates._link import remembered
from tests.contracts.laboratory import case, make, names, permuted, step_with, trial_of
from tests.core import bounds
from tests.core.bounds import PLUGINS
from tests.refusals import refused

R = 3


def given(*rows):
    return torch.tensor(rows, dtype=torch.float64)


BANDS = [
    name
    for name in names("methods")
    if {"low", "high"} <= set(inspect.signature(plugins.load("asyncsim.methods", name, "method")).parameters)
    and not name.startswith("bapo")
]


@pytest.mark.parametrize("name", BANDS)
def test_a_ratio_on_a_bound_is_inside(name):
    """Equal policies in a band of no width, around the ratio 1 or the difference 0: nothing is closed.

    The search of BAPO needs room between its bounds.
    """
    tried = 0
    for bound in (0.0, 1.0):
        try:
            method = make("methods", name, low=bound, high=bound)
        except InputError:
            continue
        tried += 1
        signal, _ = trial_of(method, drift=0.0).evaluate(method)
        seen = signal
        for sign in (1.0, -1.0):
            advantage = torch.full_like(seen.mask[..., :1], sign)
            weight = method.weight.score_weight(seen, advantage)
            for part in method.factors:
                weight = weight * part.factor(seen, advantage)
            assert (weight.expand(seen.mask.shape)[seen.mask > 0] == sign).all()
    assert tried


def test_a_ratio_on_the_veto_is_not_vetoed():
    seen, one = step_with(torch.zeros(1, 1, 1, 2).double()), torch.ones(1, 1, 1, 1).double()
    for threshold, kept in ((1.0, 1.0), (1.001, 0.0)):
        assert dataclasses.replace(sim.factors.token_veto(), threshold=threshold).factor(seen, one).item() == kept


@pytest.mark.parametrize("name", [name for name in names("methods") if make("methods", name).scored])
def test_a_term_on_the_distribution_is_that_of_its_own_token(name):
    """With one advantage for each token, the numbers of a token are those for its advantage on every token."""
    method = make("methods", name)
    trial = trial_of(method, T=3, drift=0.3)
    seen = trial.evaluate(method)[0]
    advantage = torch.linspace(0.5, 2.0, 3, dtype=torch.float64).expand(seen.mask.shape).contiguous()
    found = method.weight.spread(seen, advantage)
    for t in range(3 if found is not None else 0):
        expected = method.weight.spread(seen, advantage[..., t : t + 1])
        torch.testing.assert_close(found[..., t, :], expected[..., t, :], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("dual", "weight"), [(1.0, -1.0), (0.99, 0.0)])
def test_a_ratio_on_the_dual_bound_is_inside(dual, weight):
    seen, bad = step_with(torch.zeros(1, 1, 1, 1).double()), torch.full((1, 1, 1, 1), -1.0).double()
    assert DualClip(0.2, 0.2, dual).score_weight(seen, bad).item() == weight


@pytest.mark.parametrize(("cap", "weight"), [(1.0, 1.0), (0.99, 0.0)])
def test_a_behavior_weight_on_the_cap_is_kept(cap, weight):
    """Where all policies agree h is 1."""
    weighing = dataclasses.replace(sim.methods.decoupled_ppo(beyond="drop").weight, cap=cap)
    seen = step_with(torch.zeros(1, 1, 1, 1).double())
    assert weighing.score_weight(seen, torch.ones(1, 1, 1, 1).double()).item() == weight


@pytest.mark.parametrize("name", ["bapo_code", "bapo_paper", "sat", "m2po_mask", "m2po_waterfill", "m2po_areal", "p3o"])
def test_statistics_of_equal_parts_are_those_of_one(name):
    """A step of a group and its copy, each a part of its own."""
    trial = case(seed=1, G=1, N=6, T=4, drift=0.8)
    both = permuted(trial.batch, 1, torch.tensor([0, 0]))
    one, two = (make("methods", name, scope="micro_batch", micro_batches=parts) for parts in (1, 2))
    found, expected = trial.evaluate(two, **both)[0], trial.evaluate(one)[0]
    assert expected.cotangents["log_prob"].abs().max() > 1e-3 and found.cotangents
    assert found.statistics.keys() == expected.statistics.keys() and found.statistics
    for key, value in expected.statistics.items():
        if not key.endswith("nonfinite"):
            torch.testing.assert_close(found.statistics[key], value, rtol=1e-12, atol=1e-12, msg=key)


def test_a_part_of_one_token_that_is_no_number_is_broken(monkeypatch):
    """It stops its own part and not the other one."""
    # In a run there is nobody to refuse it.
    monkeypatch.setattr(_given, "_refuse", lambda *_: None)
    method = sim.methods.sat(scope="micro_batch", micro_batches=2)
    then = torch.full((2, 1), -1.5, dtype=torch.float64)
    found = method.weigh(given([math.nan], [-1.0]), then, advantages=given(1.0, -1.0))
    assert found.statistics["sat_nonfinite"].item() == 1.0
    assert found.cotangent[0].item() == 0.0 and found.cotangent[1].item() < 0.0


def test_p3o_applies_the_smaller_of_ratio_and_ess():
    log_ratio = 0.7 * torch.randn(1, 1, 8, 2, generator=torch.Generator().manual_seed(0)).double()
    seen = step_with(log_ratio)
    ess = ratios.ess(log_ratio, seen.share)
    found = sim.methods.p3o().weight.applied(seen)
    torch.testing.assert_close(found, log_ratio.exp().clamp(max=ess.item()))
    assert (found < ess).any() and (found == found.max()).sum() > 1


def test_probabilities_do_not_exceed_one():
    """Rounding may lift a log-prob above 0."""
    seen = step_with(torch.zeros(1, 1, 1, 1).double())
    seen.current["log_prob"], seen.behavior["log_prob"] = (torch.full((1, 1, 1, 1), x).double() for x in (1e-6, -1e9))
    assert gained(seen).item() == 1.0


def test_a_quantile_counts_chances():
    values, chance = given([[3.0, 1.0, 2.0, 9.0]]), given([[0.6, 0.4, 1.0, 0.0]])
    for level, expected in ((0.0, 1.0), (0.2, 1.0), (0.21, 2.0), (0.5, 2.0), (0.7, 2.0), (0.71, 3.0), (1.0, 3.0)):
        assert _quantile(values, chance, level).item() == expected
    assert _quantile(values, given([[0.0, 0.0, 1.0, 1.0]]), 0.0).item() == 2.0


def test_a_part_without_tokens_has_no_gate():
    """It is not broken either."""
    method = sim.methods.sat(scope="micro_batch", micro_batches=2)
    now, then = given([[-1.0, -2.0]] * 2, [[-1.0, -1.0]] * 2), torch.full((2, 2, 2), -1.5, dtype=torch.float64)
    mask = given([[1.0, 1.0]] * 2, [[0.0, 0.0]] * 2)
    found = method.weigh(now, then, rewards=given([1.0, 0.0], [0.0, 0.0]), mask=mask)
    assert found.statistics["sat_nonfinite"].item() == 0.0 and torch.isfinite(found.cotangent).all()


@pytest.mark.parametrize("name", names("advantages"))
def test_advantages_of_masked_tokens_are_zero(name):
    """Where they differ from token to token."""
    method = sim.methods.reinforce(make("advantages", name))
    trial = trial_of(method, T=4)
    signal, _ = trial.evaluate(method)
    empty = trial.batch.mask == 0
    assert empty.any() and (signal.advantages != 0.0).any()
    if signal.advantages.shape == empty.shape:
        assert (signal.advantages[empty] == 0.0).all()


def test_the_divergence_of_what_cannot_be_is_infinite():
    """In either direction; and 0 for equal probabilities."""
    assert _k3_value(given(math.inf, -math.inf, 0.0)).tolist() == [math.inf, math.inf, 0.0]


def test_a_reference_direction_is_finite_in_every_part():
    directions = given([1.0, 2.0], [math.nan, 1.0], [1.0, math.inf], [math.nan, math.nan])
    assert remembered(directions).tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("argument", ["low", "high"])
def test_a_cosine_to_compare_with_is_one(argument):
    for bad in (1.0 + 1e-9, -1.0 - 1e-9):
        refused(argument, sim.updates.align, **{"low": -1.0, "high": 1.0, argument: bad})


def test_a_threshold_may_stand_at_the_average():
    """Beyond it the weight of the average would be 0, by which all others are divided."""
    settings = {"rule": "threshold", "cutoff": 1.0, "after": 0.0}
    sim.factors.staleness_weight(**settings, average=1.0)
    refused("", lambda: sim.factors.staleness_weight(**settings, average=1.1))


@pytest.mark.parametrize(("name", "settings", "weight"), [
    ("oapl", {"beta": 0.25}, 0.5), ("opmd", {"tau": 3.0}, 0.25), ("tba", {"beta": 0.5}, 4.0),
])  # fmt: skip
def test_what_multiplies_the_advantage(name, settings, weight):
    method = make("methods", name, **settings)
    assert (method.weight.applied(step_with(torch.zeros(1, 2, 3, 2).double())) == weight).all()


# Numbers that are taken by default.


def shared_defaults(kind, name):
    """Numbers and flags that a factory and a class of its name both take by default: (argument, here, there)."""
    factory = plugins.load(f"asyncsim.{kind}", name, kind)
    arguments, factory = inspect.signature(factory).parameters, inspect.unwrap(factory)
    classes = [
        x for x in vars(inspect.getmodule(factory)).values() if isinstance(x, type) and dataclasses.is_dataclass(x)
    ]
    fields = [f for each in classes if each.__name__.lower() == name.replace("_", "") for f in dataclasses.fields(each)]
    both = [(f.name, f.default, arguments[f.name].default) for f in fields if f.name in arguments]
    return [found for found in both if all(isinstance(value, (int, float)) for value in found[1:])]


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_a_class_has_the_defaults_of_its_factory(kind, name):
    for argument, here, there in shared_defaults(kind, name):
        assert here == there, argument


def test_some_classes_do_have_defaults():
    assert {argument for argument, _, _ in shared_defaults("advantages", "vtrace")} >= {"trace_cap", "rho_cap"}
    assert len([name for kind, name in PLUGINS if shared_defaults(kind, name)]) > 10


def test_a_dual_clip_closes_above_three():
    assert DualClip(0.2, 0.2).dual == 3.0


def test_the_refusal_of_a_knob_that_may_be_none_says_so():
    makes = {part: plugins.load(f"asyncsim.{part[0]}", part[1], part[0]) for part in PLUGINS}
    optional = [(part, *knob) for part, each in makes.items() for knob in getattr(each, "knobs", {}).items()
                if knob[1].optional]  # fmt: skip
    assert len(optional) > 10
    for part, name, knob in optional:
        assert knob.read(name, None) is None
        refused("or None; ", make, *part, **{name: "word"})


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_a_part_refuses_what_a_setting_can_never_be_by_its_name(kind, name):
    """A word that is no choice, a number for a flag, what is no number."""
    for setting in bounds.settings(kind, name):
        if (name, setting.name) == ("text", "stop"):
            continue  # any word can stop an answer
        for bad in ("no such word", 1 if type(setting.default) is bool else math.nan):
            assert refused("", make, kind, name, **{setting.name: bad}).field == setting.name


def test_every_setting_has_the_bounds_that_are_written_down():
    """A part of your own needs no line here."""
    found, written = bounds.bounds(), json.loads(bounds.FILE.read_text(encoding="utf-8"))
    assert {name: found.get(name) for name in written} == written, "run `python -m tests.core.bounds`"
