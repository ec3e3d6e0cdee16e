"""What the event model says of a live run, from its measured latencies, and whether the run agrees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from asyncsim.base import checks, laws, workers
from asyncsim.live.running import Live, rate
from asyncsim.running.running import run as simulated
from asyncsim.systems._summary import ramp
from asyncsim.systems._system import System

CURVE = "batch_return"
"""The metric that is compared as the learning curve."""
LEAST = 1e-9
"""Seconds that any latency takes."""
MACHINE = 0.05
"""How much more total variation a band has on a machine with a process a core, times processes a core on a busier one.

Latencies of a busy machine come in bursts, which the model draws apart. Measured over the runs of the experiment
`live_staleness`: at three processes a core realized variation exceeds its band by up to 0.1 in four runs of ten."""
SLOWER = 0.03
"""How much wider the band of throughput is, of the prediction, for the same reason."""


class Meeting(NamedTuple):
    """One measured quantity beside its prediction, with the band in which it lies with probability `level`."""

    quantity: str
    measured: float
    predicted: float
    low: float
    high: float
    level: float

    @property
    def inside(self) -> bool:
        """Whether the measurement is in the band."""
        return self.low <= self.measured <= self.high


@dataclass(frozen=True, eq=False)
class Predicted:
    """What the event model and a replay of the log say of a live run.

    `system`: the model with measured latencies; `warm`: batches left out; `pmf` `[S]`: predicted distribution of
    staleness; `meetings`: mean staleness, total variation to `pmf`, throughput in groups a second, and the mean return
    of the second half, each with its band; `curve` `[U, 3]`: predicted return of each update, and its band.
    """

    system: System
    warm: int
    pmf: np.ndarray
    meetings: tuple[Meeting, ...]
    curve: np.ndarray

    def __getitem__(self, quantity: str) -> Meeting:
        """The meeting of a quantity."""
        return next(each for each in self.meetings if each.quantity == quantity)

    @property
    def inside(self) -> bool:
        """Whether every measurement is in its band."""
        return all(each.inside for each in self.meetings)


def model(live: Live, warm: int) -> System:
    """The system of a live run with the latencies measured behind `warm` batches, drawn independently.

    A group counts as one sample, since what it waits for is shared: its work is the time from submission to readiness.
    """
    seconds = (live.stamps("t_ready") - live.stamps("t_submit"))[warm:, :, 0]
    system: System = replace(live.spec.system, rates=(1.0,) * len(live.spec.system.rates))
    return system.modeled({"length": _law(seconds), "train_time": _law(live.training[warm:])})


def _law(seconds: np.ndarray) -> laws.Law:
    """Each of the seconds of a group, or of a batch, with equal probability."""
    return laws.empirical(np.maximum(seconds.ravel()[-laws.MANY :], LEAST))


def predicted(live: Live, replicates: int = 65, realizations: int = 200, level: float = 0.99) -> Predicted:
    """What the event model says of a live run from its measured latencies, and a replay of its log of the learning.

    Staleness counts from the admission: the model starts a group when it is admitted, and `Live.raced` has how many
    publishes a real first token comes later. The band of a quantity lies between the quantiles (1 - level) / 2 and
    (1 + level) / 2 of M realizations of the model, each as long as the run; `MACHINE` and `SLOWER` widen it. That of
    the return is the interval for one more of R - 1 replicates of the replay, by Student's t; replicate 0 is the run
    itself.

    Arguments: `live`, what `run` returned; `replicates` R; `realizations` M; `level` in (0, 1). Returns a `Predicted`.
    Raises `InputError`. Assumes latencies independent of each other, so not of what else the machine does.
    Source: this package.

    >>> import asyncsim as sim
    >>> spec = sim.Spec(sim.tasks.token_bandit(), sim.systems.one_step_off(2), sim.methods.reinforce(),
    ...                 sim.chain(sim.updates.sgd(0.1)), samples_per_group=2, updates=8, replicates=1,
    ...                 diagnostics=["batch_return"])
    >>> made = predicted(sim.live.run(spec, actors=1, second=0.001), replicates=5, realizations=20)
    >>> made["staleness"].measured, made["staleness"].predicted, made["staleness"].inside
    (1.0, 1.0, True)
    """
    checks.require(isinstance(live, Live), "live", live, "a Live", "give what sim.live.run returned")
    checks.integer("realizations", realizations, 20, "a band needs realizations of the model")
    checks.integer("replicates", replicates, 3, "an interval needs replicates beside the run's own")
    checks.real("level", level, "give the probability of a band", 0.0, 1.0, open_low=True)
    batches = len(live.t_train)
    warm = min(ramp(live.spec.system, live.spec.samples_per_group), batches // 2)
    system = model(live, warm)
    schedule = system.schedule(batches, 1, 1, realizations, live.seed)
    assert schedule.seconds is not None
    # Staleness and throughput of each realization, and of the run.
    drawn = schedule.staleness()[:, warm:, :, :, 0].reshape(realizations, -1)
    mine = live.submitted[warm:].ravel()
    top = int(max(drawn.max(), mine.max())) + 1
    each = np.stack([_pmf(row, top) for row in (*drawn, mine)])
    pmf = each[:-1].mean(0)
    apart = 0.5 * np.abs(each - pmf).sum(1)
    groups = system.groups_per_batch
    rates = np.array([rate(row[warm:]) for row in schedule.seconds]) * groups
    crowd = max(1.0, live.load / workers.cores())
    meetings = [
        _meeting("staleness", mine.mean(), drawn.mean(1), level),
        _meeting("total variation", apart[-1], apart[:-1], level, MACHINE * crowd)._replace(low=0.0, predicted=0.0),
        _meeting("throughput", rate(live.t_train[warm:]) * groups, rates, level, SLOWER * rates.mean()),
    ]
    returned, curve = _curve(live, replicates, level)
    return Predicted(system, warm, pmf, (*meetings, returned), curve)


def _pmf(staleness: np.ndarray, top: int) -> np.ndarray:
    return np.bincount(staleness.astype(np.int64), minlength=top) / staleness.size


def _meeting(quantity: str, measured: float, realizations: np.ndarray, level: float, more: float = 0.0) -> Meeting:
    low, high = np.quantile(realizations, [(1 - level) / 2, (1 + level) / 2])
    return Meeting(quantity, float(measured), float(realizations.mean()), float(low - more), float(high + more), level)


def _curve(live: Live, replicates: int, level: float) -> tuple[Meeting, np.ndarray]:
    """The return of replicates of the replay: replicate 0 is the run itself and is left out of the band."""
    from asyncsim.base.uncertainty import critical

    spec = replace(live.spec, system=live.schedule, replicates=replicates, diagnostics=[CURVE])
    others = simulated(spec, seed=live.seed, progress=False)[CURVE][:, 1:]
    count = others.shape[1]
    # A new draw of a normal: its own spread beside the error of the mean.
    reach = critical(1.0 - level, count - 1) * np.sqrt(1.0 + 1.0 / count)
    mean, spread = others.mean(1), others.std(1, ddof=1)
    half = len(mean) // 2
    late = others[half:].mean(0)
    center, width = float(late.mean()), float(reach * late.std(ddof=1))
    measured = float(live.trace[CURVE][half:, 0].mean())
    band = Meeting("return", measured, center, center - width, center + width, level)
    return band, np.stack([mean, mean - reach * spread, mean + reach * spread], 1)
