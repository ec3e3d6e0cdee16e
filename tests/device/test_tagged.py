"""Runs of networks on a device that exists in name only: no operation on two devices, the numbers of the CPU."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from tests.device.tagged import marked, pretended

TINY = {"width": 16, "layers": 1, "heads": 2, "hidden": 16, "context": 64, "steps": 0}


def spec(device, **changes):
    """A language model in small on sums of one digit."""
    settings = {
        "task": sim.tasks.arithmetic(digits=1, prompts=4, horizon=4),
        "system": sim.schedules.fixed(1, groups_per_batch=2),
        "method": sim.methods.grpo(),
        "update": sim.chain(sim.updates.clip_norm(1.0), sim.updates.adam(1e-3)),
        "policy": sim.policies.causal_lm("char", recipe=TINY),
    }
    return sim.Spec(**{**settings, "samples_per_group": 2, "updates": 2, "device": device, **changes})


def gym(device, **changes):
    """A small network in an environment."""
    task = sim.tasks.gym("CartPole-v1", trajectory="segment", steps=4)
    return spec(device, task=task, policy=None, method=sim.methods.reinforce(), **changes)


CASES = {
    "default metrics": lambda device: spec(device, replicates=1),
    "a rate per replicate": lambda device: spec(
        device, replicates=2, diagnostics="none", update=sim.chain(sim.updates.adam((1e-3, 1e-2)))
    ),
    "a cap per replicate": lambda device: spec(
        device, replicates=2, diagnostics="none", method=sim.methods.truncated_is(cap=(1.5, 2.0))
    ),
    "an environment": lambda device: gym(device, replicates=2),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_on_a_device_stays_there(name):
    plain = sim.run(CASES[name]("cpu"), progress=False)
    with pretended():
        trace = sim.run(CASES[name]("cuda"), progress=False)
    np.testing.assert_array_equal(trace.parameters, plain.parameters)
    assert trace.metrics.keys() == plain.metrics.keys()
    for metric, values in plain.metrics.items():
        np.testing.assert_array_equal(trace[metric], values, err_msg=metric)


def test_knobs_are_bound_where_the_given_tensors_are():
    now = torch.log(torch.tensor([[0.3, 0.6], [0.2, 0.5]], dtype=torch.float64)).reshape(2, 1, 2, 1)
    method = sim.methods.truncated_is(cap=(1.5, 2.0))
    plain = method.weigh(now, now - 1.0, advantages=torch.ones(2, 1, 2))
    with pretended():
        found = method.weigh(now.to("cuda"), (now - 1.0).to("cuda"), advantages=torch.ones(2, 1, 2, device="cuda"))
        assert marked(found.score_weight)
        torch.testing.assert_close(found.score_weight.cpu(), plain.score_weight, rtol=0, atol=0)


@pytest.mark.parametrize(
    "mixed",
    [lambda x: x + torch.ones(2), lambda x: torch.stack([x, torch.ones(2)]), lambda x: torch.ones(2).add_(x)],
    ids=["added", "stacked", "in place"],
)
def test_mixing_is_seen(mixed):
    """Planted: a tensor that was made without the device."""
    with pretended(), torch.device("cuda"):
        here = torch.arange(2.0)
        assert marked(here + 1.0) and marked(here * torch.full((), 2.0, device="cpu")) and not marked(here.cpu())
        assert (here.device.type, here.to("cpu").device.type) == ("cuda", "cpu")
        with torch.device("cpu"), pytest.raises(RuntimeError, match="same device"):
            mixed(here)
