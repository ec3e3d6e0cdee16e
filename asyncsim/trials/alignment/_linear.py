"""The delayed linear model through the loop: gradients of a noisy quadratic and their autocorrelogram."""

from __future__ import annotations

from asyncsim import diagnostics, methods, schedules, tasks, updates
from asyncsim.base.trace import Trace
from asyncsim.learning import running
from asyncsim.learning.spec import Spec
from asyncsim.trials._trial import Plant
from asyncsim.updates._link import chain


def run_linear(
    curvatures: tuple[float, ...],
    staleness: int,
    step: float,
    noise: float,
    updates_: int,
    after: int,
    replicates: int,
    seed: int,
    plant: Plant,
) -> Trace:
    """A trace with the autocorrelogram up to lag staleness + 1, in stationarity."""
    gathered = diagnostics.autocorrelogram(lags=staleness + 1, after=after)
    spec = Spec(
        tasks.quadratic(curvatures, noise=noise),
        schedules.fixed(staleness),
        methods.gradient(),
        chain(updates.sgd(step)),
        samples_per_group=1,
        updates=updates_,
        replicates=replicates,
        diagnostics=[gathered],
    )
    return running.run(plant(spec), seed=seed, progress=False)


def linear_reach(curvatures: tuple[float, ...], staleness: int, step: float, warm_up: int) -> str | None:
    """Why a run of the trials' length would not be stationary; None where it is.

    The fastest mode must stay well below its boundary (about 1.6/(staleness + 1)), the slowest must relax.
    """
    if max(curvatures) * step > 1.45 / (staleness + 1):
        return f"step * curvature at most 1.45/(staleness + 1) = {1.45 / (staleness + 1):.3g}: slower to settle nearby"
    if min(curvatures) * step * warm_up < 10.0:
        return f"step * curvature at least {10.0 / warm_up:.3g}: slower to settle below"
    return None
