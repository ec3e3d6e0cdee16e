"""BAPO rebuilt: what a step does to entropy, by enumeration; sums of the experiment, figures that show the rows."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asyncsim as sim
from experiments import _bapo, bapo
from tests.experiments._lab import rows_of

pytestmark = pytest.mark.committed


PLACE = {"law": "constant 3", "updates": 12, "every": 1}
EPS = 1e-6


def slope(rows, direction):
    """Slope of the sum of the rows' entropies along a direction on the logits, by a difference."""

    def entropy(logits):
        log_prob = torch.log_softmax(logits, -1)
        return -(log_prob.exp() * log_prob).sum((-1, -2))

    return (entropy(rows + EPS * direction) - entropy(rows - EPS * direction)) / (2 * EPS)


def test_entropy_along_a_plain_and_a_natural_gradient_is_the_covariance_of_each():
    """The formula of the rule (natural) is planted for the plain gradient: it misses there, in sign too."""
    draw = torch.Generator().manual_seed(1)
    logits, behavior, gain = (torch.randn((200, 6), generator=draw, dtype=torch.float64) for _ in range(3))
    gain = _bapo.clipped(torch.log_softmax(logits, -1) - torch.log_softmax(behavior, -1), gain)
    log_prob = torch.log_softmax(logits, -1)
    prob = log_prob.exp()
    plain = prob * (gain - (prob * gain).sum(-1, keepdim=True))
    for formula, direction in ((_bapo.plain, plain), (_bapo.natural, gain)):
        measured = slope(logits.unsqueeze(1), direction.unsqueeze(1))
        torch.testing.assert_close(formula(log_prob, gain), measured, atol=1e-8, rtol=1e-6)
    torch.testing.assert_close(_bapo.moved(logits, gain), _bapo.plain(log_prob, gain), atol=1e-8, rtol=1e-6)
    published, measured = _bapo.natural(log_prob, gain), _bapo.plain(log_prob, gain)
    assert ((published * measured < 0).float().mean() > 0.05) and (published - measured).abs().max() > 0.1


def test_the_clip_of_the_formula_is_that_of_the_method():
    draw = torch.Generator().manual_seed(2)
    log_ratio, gain = (torch.randn((50, 1), generator=draw, dtype=torch.float64) for _ in range(2))
    behavior = torch.full_like(log_ratio, -50.0)
    weight = _bapo.METHODS["clip"].weigh(behavior + log_ratio, behavior, advantages=gain[:, 0]).score_weight
    assert ((_bapo.clipped(log_ratio, gain) == 0) == (weight == 0)).all()


def observed(task, arm, found):
    """Steps of a short stale run, each handed to `found`; returns what it gave."""
    kept = []

    def measure(step):
        kept.append(found(step))
        return torch.zeros(len(step.parameters), dtype=torch.float64)

    metric = _bapo.Metric("seen", measure)
    made = _bapo.spec({**PLACE, "task": task}, arm, 0.8, replicates=2, diagnostics=[metric])
    sim.run(made, seed=4, progress=False)
    return kept


@pytest.mark.parametrize("task", bapo.TASKS)
def test_pushes_of_tokens_add_up_to_what_the_gradient_does_to_entropy(task):
    """The gradient of `none` is every token's push; without the ratio (planted) the sum is another."""

    def both(step):
        sums = _bapo.blocked(step)
        output = step.policy.forward(sim.step.versions.current(step.weights), step.batch, ("log_prob",))
        direction = output.pullback(step.cotangents)
        shape = (len(step.parameters), step.policy.rows, step.policy.actions)
        right = slope(step.parameters.reshape(shape), direction.reshape(shape))
        advantage = _bapo._levels.advantages(step)
        planted = (_bapo._levels.token_share(step) * advantage * _bapo.surprise(step)[0]).sum((1, 2, 3))
        return right, sums["plain up"] - sums["plain down"], planted

    found = observed(task, "none", both)
    assert len(found) == PLACE["updates"]
    missed = 0
    for right, sums, planted in found:
        torch.testing.assert_close(sums, right, atol=1e-7, rtol=1e-5)
        missed += int(((planted - right).abs() > 1e-4).sum())
    assert missed > 5


def test_returns_and_entropies_are_those_of_enumeration():
    """Where the bits pay by the first actions' share (planted), the return is another."""
    draw = torch.Generator().manual_seed(3)
    for name, task in bapo.TASKS.items():
        small = {"bandit": task, "graded": sim.tasks.token_bandit(8, 4, "position"), "bits": _bapo.BITS}[name]
        policy = small.policy()
        parameters = torch.randn((2, policy.size), generator=draw, dtype=torch.float64)
        step = SimpleNamespace(task=small, policy=policy, parameters=parameters)
        exact = small.exact(policy, parameters)[0]
        torch.testing.assert_close(_bapo.expected(step), exact, atol=1e-12, rtol=0.0)
        rows = _bapo.table(step)
        assert name == "graded" or ((rows[..., 0].exp().mean(-1) - exact).abs() > 0.01).all()
        most = _bapo.entropy(SimpleNamespace(task=small, policy=policy, parameters=torch.zeros_like(parameters)))
        torch.testing.assert_close(most, torch.full_like(most, np.log(policy.actions)), atol=1e-12, rtol=0.0)


def test_entropy_is_read_where_half_of_the_gain_is_reached():
    curve = np.array([[0.2, 0.2, 0.2], [0.4, 0.7, 0.3], [0.8, 0.9, 0.5]])
    values = np.array([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    found = bapo.at_half(curve, values, 1.0)
    np.testing.assert_allclose(found[:2], [0.5, 1.2])
    assert np.isnan(found[2])


rows = rows_of("bapo")


def test_fresh_data_blocks_nothing_and_balances(rows):
    """Ratios are 1 there, and the advantages of a group add up to 0; stale data is the planted difference."""
    shares = rows[(rows.part == "blocked") & rows.quantity.isin(["plain up", "plain down", "tokens"])]
    fresh = shares.law == "constant 0"
    assert (shares[fresh].value.dropna() == 0).all() and shares[~fresh].value.max() > 0.5
    positive = rows[(rows.part == "grid") & (rows.quantity == "positive")]
    even = (positive.law == "constant 0") | (positive.arm == "rloo")
    np.testing.assert_allclose(positive[even].value.dropna(), 0.5, atol=1e-9)
    assert (positive[~even].value - 0.5).abs().max() > 0.1


def test_a_wider_clip_blocks_no_more(rows):
    """On the same steps; the bounds of the released search are tighter below (planted)."""
    own = rows[(rows.part == "blocked") & rows.quantity.isin(["plain up", "plain down", "natural up", "natural down"])]
    table = own.pivot_table(index=["task", "law", "arm", "quantity"], columns="rule", values="value").dropna()
    for wide in ("higher", "start"):
        assert (table[wide] <= table["clip"] + 1e-12).all()
    assert (table["released"] > table["clip"] + 1e-3).any()


def test_arms_of_a_comparison_have_best_rates_inside_their_grids(rows):
    own = rows[(rows.part == "compare") & (rows.quantity == "difference")]
    assert set(zip(own.task, own.law, strict=True)) == set(bapo.PLACES)
    judged = own[own.word != ""]
    assert set(judged.word) <= {"better", "worse", "equal", "undecided"} and (own[own.word == ""].note != "").all()
    assert (judged[judged.word == "better"].low > 0).all() and (judged[judged.word == "worse"].high < 0).all()
