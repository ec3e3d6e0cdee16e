"""Further runs on the device: samplers, minibatches, late rewards, coupled systems, checkpoints, environments."""

import signal

import numpy as np
import pytest

import asyncsim as sim
from tests.device.configurations import SETTINGS, differences, run
from tests.device.tagged import pretended

pytestmark = pytest.mark.rows


@pytest.mark.parametrize("label", SETTINGS)
@pytest.mark.filterwarnings("ignore::asyncsim.base.checks.ShortRunWarning")
def test_a_run_is_the_same_on_a_device(label):
    plain = run(SETTINGS[label]("cpu"))
    with pretended():
        trace = run(SETTINGS[label]("cuda"))
    assert not differences(plain, trace)


@pytest.mark.parametrize(
    "label", ["late drawing", "kept caches", "critic", "coupled in flight, drawn early", "an environment", "a module"]
)
def test_a_run_goes_on_from_a_checkpoint(label, tmp_path):
    """Stopped behind its first batch on the device, and resumed there: the CPU's unbroken run."""
    plain, file = run(SETTINGS[label]("cpu")), tmp_path / "run.npz"

    def stop(record):
        if record.update == 0:
            signal.raise_signal(signal.SIGINT)

    with pretended():
        with pytest.raises(sim.Interrupted):
            run(SETTINGS[label]("cuda"), checkpoint=file, callback=stop)
        trace = sim.run(SETTINGS[label]("cuda"), resume=file, progress=False)
    assert not differences(plain, trace)


def test_versions_do_change_inside_a_response():
    """Else the table would say less than its names do."""
    trace = run(SETTINGS["in flight"]("cpu").replace(diagnostics=["mixed_versions", "staleness_max"]))
    assert trace["mixed_versions"].max() > 0 and trace["staleness_max"].max() >= 1
    assert np.isfinite(trace.parameters).all()
