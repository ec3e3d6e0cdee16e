"""Cost of metrics that enumerate every outcome: printed before a run, and refused if the run would not end."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from asyncsim.base import checks
from asyncsim.diagnostics._diagnostic import Metric

LIMIT = 10**10
"""Tokens of listed outcomes that a run may evaluate: some ten minutes on one core."""
NANOSECONDS = 60.0
"""Time that each takes on one core, about."""
BYTES = 48
"""Memory that each takes while its metric is computed, about."""
NOTED = 10**8
"""Tokens from which the price is announced: some seconds."""


class Price(NamedTuple):
    """Metrics that enumerate outcomes, and token counts: at one update of a block, in all, and in training."""

    metrics: tuple[str, ...]
    at_once: int
    in_all: int
    trained: int

    def arrays(self) -> dict[str, tuple[int, str]]:
        """Bytes that the enumeration takes, with what lowers them, in the form of `checks.memory`."""
        name = f"outcomes that {', '.join(self.metrics)} lists"
        return {name: (BYTES * self.at_once, "the horizon, samples_per_group or block, or record batch_return instead")}

    def __str__(self) -> str:
        seconds, memory = NANOSECONDS * 1e-9 * self.in_all, BYTES * self.at_once / 2**30
        times = self.in_all / self.trained
        words = f"every outcome is listed, {times:.2g} times the tokens that are trained"
        return f"{', '.join(self.metrics)}: {words}; adds about {seconds:.2g} s and {memory:.2g} GiB"


def price(metrics: Sequence[Metric], spec: Any) -> Price:
    """Cost of a run's metrics that enumerate every outcome of a task; 0 for tasks with a closed form."""
    task, groups, samples = spec.fitted_task, spec.groups, spec.samples
    outcomes, horizon = task.listed, task.horizon
    exact = 0 if task.closed else task.prompts * outcomes
    # The variance lists every batch of one group; what is beyond the limit has no number.
    within = samples * math.log(max(outcomes, 1)) <= math.log(LIMIT)
    each = {"bias": groups * outcomes + exact, "variance": samples * (outcomes**samples if within else LIMIT + 1)}
    listing = [metric.name for metric in metrics if metric.enumerates and each.get(metric.name, exact)]
    # The exact return, gradient and cosine share one enumeration.
    shared = exact if any(name not in each for name in listing) else 0
    tokens = horizon * (shared + sum(each.get(name, 0) for name in listing))
    trained = spec.replicates * spec.updates * groups * samples * horizon
    recorded = spec.replicates * -(-spec.updates // spec.every)
    return Price(tuple(listing), spec.together * tokens, recorded * tokens, trained)


def check(cost: Price) -> None:
    """Refuse metrics whose enumeration of outcomes costs more than the limit."""
    remedy = "raise every, lower replicates or the horizon, or record batch_return instead"
    names = ", ".join(cost.metrics)
    bound = f"at most {LIMIT:.0e} (about {NANOSECONDS * 1e-9 * LIMIT / 60:.0f} minutes)"
    checks.require(cost.in_all <= LIMIT, f"tokens that {names} evaluates", cost.in_all, bound, remedy)
