"""Small specs that tests of sweeps share."""

import asyncsim as sim


def bandit(**changes):
    return sim.Spec(
        sim.tasks.softmax_bandit(),
        sim.schedules.fixed(4),
        sim.methods.reinforce(),
        sim.chain(sim.updates.sgd(0.1)),
        **{"updates": 8, **changes},
    )
