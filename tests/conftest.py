"""Settings of the whole suite."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Workers fill the cores; a second thread in each would make all of them wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Derandomized: the suite's false alarms are a budget, and a draw that is new on every run would spend it unseen. No
# deadline: the first call of a compiled function is slow.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
settings.load_profile("suite")
