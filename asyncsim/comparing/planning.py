"""`power`: how many replicates a wished effect takes, from a pilot of paired runs."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from scipy import special

from asyncsim.base import checks, notation
from asyncsim.base.records import Estimate
from asyncsim.comparing import arms as pairing
from asyncsim.comparing import intervals, statistics
from asyncsim.comparing.beforehand import recorded, refuse
from asyncsim.comparing.deciding import FIRST, seed_of
from asyncsim.comparing.readings import Reading
from asyncsim.comparing.tuning import spread
from asyncsim.running.running import run

MOST = 1 << 30
"""Replicates of the largest plan."""
SURE = 0.95
"""Probability with which the true spread lies below the one that is counted with."""


@dataclass(frozen=True)
class Plan:
    """What a comparison will take.

    `replicates` of each arm, in looks of 64, 128, ...; `spread`, standard deviation of a paired difference in the
    pilot, and `unpaired`, what it would be without common draws; `seconds` of all arms.
    """

    replicates: int
    effect: float
    power: float
    error: float
    spread: float
    unpaired: float
    seconds: float

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.replicates} replicates find an effect of {self.effect:g} with probability {self.power:g} (error "
            f"rate {self.error:g}); about {notation.number(self.seconds)} s; spread {self.spread:.3g} paired, "
            f"{self.unpaired:.3g} unpaired"
        )


def power(
    *arms: Any,
    effect: float,
    power: float = 0.9,
    metric: Any = notation.TRAINED,
    over: str = "mean",
    target: float | None = None,
    better: str = "higher",
    error: float = 0.05,
    pilot: int = FIRST,
    seed: int = 0,
) -> Plan:
    """Replicates after which `compare` finds a true difference of `effect`, from a pilot of paired runs.

    With s the spread of a paired difference and K looks at 64, 128, ..., n replicates,
        r_n + z_power s'/sqrt(n) <= effect,    s' = s sqrt((m - 1)/chi2_{0.05}(m - 1)):
    the spread that the true one exceeds in 1 of 20 pilots of m. r_n is how far an interval of `intervals.planned`
    reaches at s', for the unseen events that `compare` would count in after the pilot. At no difference "equal" within
    the effect is then said with probability 2 power - 1 at least. Give `compare` that number as `max_replicates`: its
    looks are those planned.

    Arguments: `arms`, two or more specs or a mapping, at the learning rates that they have; `effect` > 0 in units of
    the reading; `power` in (0, 1); `metric`, `over`, `target`, `better`, `error` as in `compare`; `pilot` m, replicates
    of each arm; `seed`. Returns a `Plan` for the pair that needs most. Raises `InputError` as `compare` does.
    Assumes paired differences near normal, and planned looks. Source: this package.

    >>> import asyncsim as sim
    >>> a = sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(4), sim.methods.reinforce(),
    ...              sim.chain(sim.updates.sgd(0.5)), updates=20)
    >>> plan = power(a, a.replace(system=sim.schedules.fixed(0)), effect=0.01)
    >>> plan.spread < plan.unpaired
    True
    """
    checks.real("effect", effect, "state the effect to find", 0.0, open_low=True)
    for name, value in (("power", power), ("error", error)):
        checks.real(name, value, "give a probability")
        checks.require(0.0 < value < 1.0, name, value, "in (0, 1)", "give a probability")
    checks.integer("pilot", pilot, 8, "a spread takes at least eight replicates")
    specs = pairing.named(arms)
    diagnostics, name = recorded(metric)
    reading = Reading(name, over, target, better)
    specs = {key: spec.replace(diagnostics=diagnostics) for key, spec in specs.items()}
    refuse([reading], ((f"arm {key}", spec) for key, spec in specs.items()))
    # Run every arm once on the same seed.
    numbers, seconds = [], []
    for spec in specs.values():
        start = time.monotonic()
        few = spread(spec.replace(replicates=pilot, block=None, realizations=None))
        trace = run(few, seed_of(seed, 2, 0), progress=False)
        numbers.append(reading.numbers(trace))
        seconds.append(time.monotonic() - start)
    base, *others = numbers
    bounds = reading.bounds(trace, few.fitted_task)
    # The first run may have compiled something.
    each = len(specs) * min(seconds) / pilot
    # The pair that varies most decides.
    worst = max(others, key=lambda other: float((other - base).std()))
    paired = float((worst - base).std(ddof=1))
    remedy = "raise pilot, or read something that differs between replicates"
    checks.require(paired > 0.0, "spread of the pilot", paired, "above 0", remedy)
    wide = paired * math.sqrt((pilot - 1) / float(special.chdtri(pilot - 1, SURE)))
    event = max(max(intervals.unseen(other - base, statistics.events(other, base, bounds))) for other in others)
    count = _enough(wide, event, effect, power, error / len(others))
    unpaired = math.sqrt(float(worst.var(ddof=1) + base.var(ddof=1)))
    return Plan(count, effect, power, error, paired, unpaired, each * count)


def _enough(spread: float, event: float, effect: float, power: float, level: float) -> int:
    """The first planned look whose interval, and the chance of the mean beside it, the effect exceeds."""
    count, looks = FIRST, 1
    while True:
        error = spread / math.sqrt(count)
        mean = Estimate(float(special.ndtri(power)) * error, error, samples=count)
        if intervals.around(mean, looks, level, (event, event)).high < effect:
            return count
        count, looks = 2 * count, looks + 1
        checks.require(count <= MOST, "replicates", count, f"at most {MOST}", "ask for a larger effect")
