"""A policy held at a known place away from frozen behavior, and fresh batches measured there, through the loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim import methods, schedules
from asyncsim.base.records import Estimate
from asyncsim.base.trace import Trace
from asyncsim.base.uncertainty import between
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._plants import Displace
from asyncsim.trials._trial import Plant
from asyncsim.updates._link import chain


def run_displaced(
    task: Any,
    behavior: np.ndarray,
    current: np.ndarray,
    diagnostics: list[Any],
    samples: int,
    batches: int,
    replicates: int,
    seed: int,
    plant: Plant,
) -> Trace:
    """Metrics of `batches` fresh groups of N samples per replicate, generated at `behavior` and scored at `current`."""
    spec = Spec(
        task,
        schedules.frozen(),
        methods.full_is(),
        chain(Displace(tuple(current - behavior))),
        samples_per_group=samples,
        updates=batches + 1,
        replicates=replicates,
        initial=behavior,
        diagnostics=diagnostics,
    )
    return running.run(plant(spec), seed=seed, progress=False)


def mean_of(trace: Trace, name: str, tolerance: float = 0.0) -> Estimate:
    """Mean of a metric over all batches but the first (before the displacement), with its error between replicates."""
    return between(trace[name][1:].mean(axis=0))._replace(tolerance=tolerance)
