"""`Trace.to_xarray`: the numbers of the trace under the names of their axes."""

import json
import sys

import numpy as np
import pytest

import asyncsim as sim
from tests.core import runs


class Sums:
    """An accumulator that names no axes."""

    name, outputs = "sums", ()

    def __init__(self):
        self.total = 0.0

    def fresh(self):
        return Sums()

    def observe(self, step):
        self.total = self.total + step.gradient.double().numpy()

    def result(self):
        return {"sums": self.total.T, "ess": self.total.sum(1)}


def trace():
    parts = {"task": sim.tasks.softmax_bandit(arms=3), "update": sim.chain(sim.updates.sgd((0.1, 0.1, 0.2, 0.2)))}
    sizes = {"samples_per_group": 16, "updates": 10, "realizations": 2, "every": 3}
    recorded = ["batch_return", "ess", sim.diagnostics.autocorrelogram(lags=2), Sums()]
    return sim.run(runs.spec(system=sim.schedules.random([0.5, 0.5]), diagnostics=recorded, **parts, **sizes))


def test_numbers_axes_and_header_are_those_of_the_trace(tmp_path):
    pytest.importorskip("xarray")
    made = trace()
    data = made.to_xarray()
    assert data["ess"].dims == ("update", "replicate") and data["autocorrelogram"].dims == ("lag", "replicate")
    assert data["sums"].dims == ("sums_0", "replicate") and data["accumulated_ess"].dims == ("replicate",)
    for name, values in made.metrics.items():
        np.testing.assert_array_equal(data[name].values, values)
    for name in ("autocorrelogram", "sums"):
        np.testing.assert_array_equal(data[name].values, made.accumulated[name])
    np.testing.assert_array_equal(data["accumulated_ess"].values, made.accumulated["ess"])
    np.testing.assert_array_equal(data["parameters"].values, made.parameters)
    np.testing.assert_array_equal(data["update"].values, [0, 3, 6, 9])
    np.testing.assert_array_equal(data["realization"].values, made.realization)
    np.testing.assert_array_equal(data["sgd.lr"].values, [0.1, 0.1, 0.2, 0.2])
    assert json.loads(data.attrs["spec"])["task"] == "softmax_bandit"
    np.testing.assert_array_equal(data["ess"].sel(update=6, replicate=1).values, made["ess"][2, 1])
    made.save(tmp_path / "t.npz")
    assert sim.Trace.load(tmp_path / "t.npz").to_xarray().equals(data)


def test_the_names_of_axes_travel_with_the_trace():
    made = trace()
    assert made.header["axes"] == {"autocorrelogram": ["lag"]}
    parts = (sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), sim.chain())
    assert "axes" not in sim.run(sim.Spec(*parts, updates=2, replicates=2)).header


def test_an_absent_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(sim.InputError, match=r"pip install '.\[xarray\]'"):
        trace().to_xarray()
