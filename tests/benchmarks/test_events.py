"""Both sides of the event benchmarks run the same model."""

from __future__ import annotations

import numpy as np

from benchmarks import events


def test_the_kernel_and_the_simpy_program_agree_on_every_version():
    ours, theirs = events.kernel_versions(3000)[0], events.simpy_versions(3000)[0]
    assert ours.tolist() == theirs
    assert len(set(theirs)) > 1000


def test_the_full_programs_agree_in_law():
    # Different draws: the mean staleness of an open loop with idle trainer is 64 plus the queue, within 2 percent here.
    rows = np.array(events.simpy_rows(10_000)[0])
    samples = events.SYSTEM.timeline(10_000).samples
    trained = samples["batch"] >= 0
    ours = (samples["batch"] - samples["v_start"])[trained].mean()
    assert abs((rows[:, 5] - rows[:, 4]).mean() / ours - 1) < 0.02
