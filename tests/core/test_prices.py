"""Metrics that list every outcome say what they add, and are refused where the run would not end."""

from types import SimpleNamespace

import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.diagnostics import _price
from tests.core import runs
from tests.refusals import refused


def spec(actions=4, horizon=8, diagnostics=("exact_return",), task=None, **changes):
    task = task or sim.tasks.token_bandit(actions=actions, horizon=horizon)
    sizes = {"updates": 20, "replicates": 64, "samples_per_group": 16, "update": sim.chain()}
    return runs.spec(**{"task": task, "system": sim.schedules.fixed(0), **sizes, **changes, "diagnostics": diagnostics})


def priced(made):
    return made.price(made.recorded[0])


def test_the_price_counts_the_tokens_that_are_listed():
    found = priced(spec(actions=2, horizon=3, updates=10, every=3, replicates=5, block=2, samples_per_group=4))
    assert found.metrics == ("exact_return",) and found.at_once == 2 * 2**3 * 3
    assert found.in_all == 5 * 4 * 2**3 * 3  # four recorded updates
    assert found.trained == 5 * 10 * 4 * 3


@pytest.mark.parametrize(
    ("diagnostics", "tokens"),
    [
        (("ess",), 0),
        (("exact_return", "exact_gradient_norm", "exact_cosine"), 2**3 * 3),
        (("bias",), 2 * 2**3 * 3),
        (("bias", "exact_return"), 3 * 2**3 * 3),
        (("variance",), 8**4 * 4 * 3),
    ],
)
def test_metrics_that_share_an_enumeration_pay_once(diagnostics, tokens):
    found = priced(spec(2, 3, diagnostics, samples_per_group=4, updates=1, replicates=1))
    assert found.in_all == tokens


def test_rewards_by_chance_double_the_outcomes_and_prompts_multiply_them():
    bernoulli = priced(spec(task=sim.tasks.token_bandit(actions=2, horizon=3, rewards="bernoulli")))
    assert bernoulli.in_all == 2 * priced(spec(2, 3)).in_all
    three = sim.tasks.softmax_bandit(arms=5, means=[[0.5] * 5] * 3, rewards="fixed")
    assert priced(spec(task=three, updates=1, replicates=1)).in_all == 15


@pytest.mark.parametrize(
    "task",
    [
        lambda: sim.tasks.bit_chain(300),
        lambda: sim.tasks.frozen_lake(horizon=200),
        lambda: sim.tasks.quadratic(),
        lambda: sim.tasks.gaussian_bandit(),
        lambda: sim.tasks.bit_chain(10**6),
    ],
)
def test_a_closed_form_costs_nothing(task):
    made = task()
    if made.horizon < 10**6:
        made.exact(made.policy(), made.policy().initial([0], torch.float64, 0))
    sizes = {"groups": 1, "samples": 1, "replicates": 1, "together": 1, "updates": 1, "every": 1}
    assert _price.price([sim.diagnostics.exact_return], SimpleNamespace(fitted_task=made, **sizes)).in_all == 0


def test_a_price_is_said_once_where_it_matters(capsys, monkeypatch):
    small = spec(2, 3, updates=3, replicates=2)
    sim.run(small)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_price, "NOTED", 1)
    sim.run(small)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("asyncsim: exact_return: every outcome is listed, 0.5 times the tokens that are trained;")
    assert " s and " in line and line.endswith("GiB")
    sim.run(small.replace(diagnostics="default"))
    assert capsys.readouterr().err == ""


def test_four_actions_and_eight_tokens_are_announced_and_many_updates_refused():
    found = priced(spec())
    assert found.in_all >= _price.NOTED and 1e3 < found.in_all / found.trained < 1e4
    assert "4.1e+03 times" in str(found) and "1.5 GiB" in str(found)
    refused(r"exact_return evaluates = \d+: must be at most 1e\+10 .*raise every", spec, updates=1000)
    spec(updates=1000, every=50)
    spec(updates=1000, diagnostics=["batch_return"])


def test_what_does_not_fit_into_memory_is_refused_with_what_lowers_it():
    with pytest.raises(InputError, match=r"bytes of outcomes that exact_return lists = \d+: .*the horizon, .*block"):
        spec(horizon=9, replicates=512, updates=1)
    spec(horizon=9, replicates=512, updates=1, block=4)


def test_beyond_counting_is_refused_too():
    for diagnostics in (["exact_return"], ["variance"], ["bias"]):
        refused("", spec, actions=10, horizon=5000, diagnostics=diagnostics, replicates=1, updates=1)


@pytest.mark.long
def test_the_time_said_is_about_the_time_taken():
    """Within a factor of four on an idle core: what is said must tell seconds from minutes."""
    import time

    made = spec(4, 6, updates=20)
    sim.run(made.replace(diagnostics="none"))
    taken = []
    for each in (made.replace(diagnostics="none"), made):
        start = time.process_time()
        sim.run(each)
        taken.append(time.process_time() - start)
    said = _price.NANOSECONDS * 1e-9 * priced(made).in_all
    assert 0.25 < (taken[1] - taken[0]) / said < 4.0
