"""Memory of the device: what training takes of it, and runs that it has no room for."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.updates import _link
from tests.contracts.laboratory import case
from tests.device.configurations import language, run
from tests.device.tagged import FREE_BYTES, pretended

WIDE = {"width": 192, "layers": 3, "heads": 4, "hidden": 768, "context": 32, "steps": 0}
"""1.4 million weights, beside which activations of these short texts are small."""
MOST = 30.0
"""Bytes of the device for each trained weight; weights, gradient and both moments alone are 16."""


def wide(**changes):
    task = sim.tasks.arithmetic(digits=1, prompts=4, horizon=2)
    return language("cuda", policy=sim.policies.causal_lm("char", recipe=WIDE), task=task, **changes)


def peak(spec):
    """Bytes of the device for each weight at the moment when most is held, and a trace."""
    with pretended(same=False) as ledger:
        trace = run(spec())
    assert ledger.held == 0
    return ledger.peak / trace.parameters.shape[1], trace


@pytest.mark.parametrize("diagnostics", ["default", "none"])
def test_full_training_takes_little_memory(diagnostics):
    bytes_each, trace = peak(lambda: wide(diagnostics=diagnostics, updates=3))
    assert 16.0 < bytes_each < MOST
    assert trace.parameters.dtype == np.float32


def test_a_second_copy_of_moments_is_seen(monkeypatch):
    """Planted: moments that nobody needs again are kept beside the new ones."""
    monkeypatch.setattr(_link, "one_kernel", lambda *_: False)
    assert peak(lambda: wide(updates=3))[0] > MOST


def test_a_run_that_the_device_cannot_hold_is_refused(monkeypatch):
    """The host has room: what is asked is the device."""
    with pretended():
        with pytest.raises(InputError, match=r"free on the cuda device"):
            language("cuda", samples_per_group=FREE_BYTES // 256)
        language("cuda", samples_per_group=1024)


def test_the_kernel_of_torch_makes_the_same_step():
    """Up to rounding, over ten updates of several replicates, whose moments it writes over."""
    trial = case(R=3, G=1, N=4, T=1, drift=0.0)
    step, _ = trial.evaluate(sim.methods.reinforce())
    link = sim.updates.adam(0.01, beta1=0.8, beta2=0.95)
    random = torch.Generator().manual_seed(0)
    plain, other = ([sim.chain(link).init(torch.zeros(3, 50))] for _ in range(2))
    for _ in range(10):
        g = torch.randn(3, 50, generator=random)
        record, plain[0] = sim.chain(link).apply(_link.Record(g, torch.zeros(3, dtype=torch.bool), step), plain[0])
        with pretended(same=False):
            there = [{name: value.to("cuda") for name, value in state.items()} for state in other[0]]
            nobody = torch.zeros(3, dtype=torch.bool, device="cuda")
            made, there = sim.chain(link).apply(_link.Record(g.to("cuda"), nobody, step), there)
            found = made.direction.cpu()
            other[0] = [{name: value.cpu() for name, value in state.items()} for state in there]
        torch.testing.assert_close(found, record.direction, rtol=1e-5, atol=1e-7)
        for name, value in plain[0][0].items():
            torch.testing.assert_close(other[0][0][name], value, rtol=1e-5, atol=1e-7)
