"""Small runs and their comparison, shared by the tests of the core."""

import numpy as np

import asyncsim as sim

SEED = 3
START = np.array([[0.3, -0.2, 0.0], [0.1, 0.4, -0.5], [-0.3, 0.2, 0.1], [0.0, 0.5, 0.2]])


def markov(**changes):
    return sim.tasks.token_bandit(actions=3, horizon=4, dependence="markov", logits=START, **changes)


def spec(**changes):
    """A small softmax bandit on staleness 1, or what the changes say."""
    usual = {"task": sim.tasks.softmax_bandit(), "system": sim.schedules.fixed(1), "method": sim.methods.reinforce()}
    sizes = {"updates": 8, "replicates": 4, "samples_per_group": 4}
    return sim.Spec(**{**usual, "update": sim.chain(sim.updates.sgd(0.5)), **sizes, **changes})


def simulated(task, method, links=(), *, epochs=1, updates=6, system=None, **changes):
    system = system or sim.schedules.fixed(0, groups_per_batch=2)
    settings = {
        "samples_per_group": 4,
        "updates": updates,
        "epochs": epochs,
        "replicates": 3,
        "diagnostics": ["gradient_norm"],
        **changes,
    }
    return sim.run(sim.Spec(task, system, method, sim.chain(*links), **settings), seed=SEED)


def identical(first, second):
    """Two traces equal to the bit, NaN where NaN."""
    assert first.metrics and first.metrics.keys() == second.metrics.keys()
    for name, values in first.metrics.items():
        assert values.size
        np.testing.assert_array_equal(values, second.metrics[name], strict=True, err_msg=name)
    for name, values in first.accumulated.items():
        np.testing.assert_array_equal(values, second.accumulated[name], strict=True, err_msg=name)
    np.testing.assert_array_equal(first.parameters, second.parameters, strict=True)
    np.testing.assert_array_equal(first.diverged, second.diverged, strict=True)
