"""Tasks that begin with a peaked policy: chances of every row, what the reference is, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import asyncsim as sim
from tests.refusals import refused

MEANS = [[0.1, 0.9, 0.5, 0.3], [0.8, 0.1, 0.2, 0.3], [0.5, 0.5, 0.1, 0.0]]
ROWS = {"iid": 1, "position": 3, "markov": 6}


def chances(task):
    policy = task.policy()
    return policy.prepare(policy.initial(1))["prob"][0].numpy()


@given(good=st.floats(1e-6, 0.5), popular=st.floats(1e-6, 0.499), dependence=st.sampled_from(sorted(ROWS)))
def test_every_row_of_tokens(good, popular, dependence):
    found = chances(sim.tasks.token_bandit(5, 3, dependence, start=f"peaked:{good!r}:{popular!r}"))
    rest = (1.0 - good - popular) / 3
    assert found.shape == (ROWS[dependence], 5)
    np.testing.assert_allclose(found, np.tile([good, popular, rest, rest, rest], (len(found), 1)), rtol=1e-12)


def test_arms_by_their_means():
    """The best arm of each prompt is the rare one, the second best the popular one; the first of equal arms leads."""
    found = chances(sim.tasks.softmax_bandit(4, means=MEANS, start="peaked:0.02:0.9"))
    for row, means, order in zip(found, MEANS, ([1, 2], [0, 3], [0, 1]), strict=True):
        assert [max(means), sorted(means)[-2]] == [means[k] for k in order]
        np.testing.assert_allclose(row[order], [0.02, 0.9])
        np.testing.assert_allclose(np.delete(row, order), 0.04)


def test_the_reference_is_the_start():
    """No divergence before the first update, and the return is that of the good token's chance."""
    task = sim.tasks.token_bandit(4, 3, "position", start="peaked:0.1:0.7", reference="start", kl_coef=0.5)
    policy = task.policy()
    value, _ = task.exact(policy, policy.initial(1))
    assert value.item() == pytest.approx(0.1, abs=1e-12)
    uniform = sim.tasks.token_bandit(4, 3, "position", start="peaked:0.1:0.7", kl_coef=0.5)
    gap = 3 * (0.1 * np.log(0.4) + 0.7 * np.log(2.8) + 2 * 0.1 * np.log(0.4))
    value, _ = uniform.exact(policy, policy.initial(1))
    assert value.item() == pytest.approx(0.1 - 0.5 * gap, abs=1e-12)
    # Nothing that is peaked and no reference: both are the uniform policy.
    plain = sim.tasks.token_bandit(4, 3, reference="start", kl_coef=0.5)
    assert plain.exact(plain.policy(), torch.zeros(1, 4, dtype=torch.float64))[0].item() == pytest.approx(0.25)


def test_bits():
    np.testing.assert_allclose(chances(sim.tasks.bit_chain(3, start="peaked:0.3")), [[0.3, 0.7]] * 3)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("peaked", "peaked:GOOD or peaked:GOOD:POPULAR"),
        ("flat:0.1", "peaked:GOOD or peaked:GOOD:POPULAR"),
        ("peaked:x", "peaked:GOOD or peaked:GOOD:POPULAR"),
        ("peaked:0:0.9", "between 0 and 1"),
        ("peaked:0.1:1", "between 0 and 1"),
        ("peaked:nan", "between 0 and 1"),
        ("peaked:0.5:0.5", "leave some to 2 other actions"),
        (0.5, "peaked:GOOD"),
    ],
)
def test_what_no_policy_begins_with(start, words):
    refused(words, sim.tasks.token_bandit, 4, 3, start=start)


def test_one_start_only():
    refused("left out beside logits", sim.tasks.bit_chain, 1, logits=[[0.0, 1.0]], start="peaked:0.5")
    refused("add up to 1", sim.tasks.bit_chain, 1, start="peaked:0.5:0.4")
    refused("a table of numbers, or 'start'", sim.tasks.bit_chain, 1, reference="begin")
