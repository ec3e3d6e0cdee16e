"""Small specs that tests of sweeps share."""

import asyncsim as sim
from tests.core import runs


def bandit(**changes):
    parts = {"system": sim.schedules.fixed(4), "update": sim.chain(sim.updates.sgd(0.1))}
    return runs.spec(**{**parts, "samples_per_group": 16, "replicates": 64, **changes})
