"""A sampler's temperature and truncation belong to the policy: an unchanged one has ratio 1 on every token."""

import numpy as np
import pytest

import asyncsim as sim

SHAPE = {"width": 16, "layers": 2, "heads": 2, "hidden": 24, "context": 64, "steps": 0}


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.7}, {"top_p": 0.6}, {"top_k": 5}, {"temperature": 1.6, "top_p": 0.8, "top_k": 20}]
)
def test_an_unchanged_policy_has_ratio_one(settings):
    """Step size 0 and staleness 2: log-probs of the sampler against a full softmax would read the kept mass."""
    made = sim.policies.causal_lm("char", recipe=SHAPE, sampler="float64", compute="float64", **settings)
    spec = sim.Spec(
        sim.tasks.arithmetic(prompts=4, horizon=8),
        sim.schedules.fixed(2, groups_per_batch=4),
        sim.methods.truncated_is("token"),
        sim.chain(sim.updates.sgd(0.0)),
        made,
        initial=(6.0 * made.initial(1)[0]).numpy(),
        replicates=1,
        samples_per_group=4,
        updates=3,
        diagnostics=["mean_weight", "log_ratio_variance"],
    )
    trace = sim.run(spec)
    np.testing.assert_allclose(trace["mean_weight"], 1.0, rtol=0, atol=1e-4)
    assert trace["log_ratio_variance"].max() < 1e-8
