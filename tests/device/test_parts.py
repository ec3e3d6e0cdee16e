"""Every part of the plug-in lists on the device: no operation on two devices, and the CPU's numbers to the bit."""

import numpy as np
import pytest

from asyncsim.base.checks import InputError
from tests.device.configurations import NOWHERE, SETTINGS, chosen, differences, language, parts, run
from tests.device.tagged import pretended


@pytest.mark.rows
@pytest.mark.parametrize("label", [label for label in parts() if label not in NOWHERE])
def test_a_part_is_the_same_on_a_device(label):
    spec, plain = chosen(label)
    with pretended() as ledger:
        trace = run(spec("cuda"))
    assert not differences(plain, trace)
    assert ledger.totals["launches"] > 100


@pytest.mark.parametrize("label", NOWHERE)
def test_what_no_network_can_run_is_refused(label):
    """Where a part has become possible, it leaves the list."""
    with pytest.raises(InputError):
        chosen(label)


def test_the_tables_are_long():
    assert len(parts()) - len(NOWHERE) + len(SETTINGS) >= 200 and set(NOWHERE) < set(parts())


def test_the_language_run_moves():
    """Equal numbers say little of a policy without a gradient."""
    trace = run(language())
    assert np.all(trace.metrics["gradient_norm"] > 0.0) and np.ptp(trace.metrics["batch_return"]) > 0.0
