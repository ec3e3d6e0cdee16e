"""Tuning of an arm's learning rate: a common logarithmic grid, separate seeds, and never a value at the edge."""

import math
from collections.abc import Generator
from typing import Any

import numpy as np

from asyncsim.base import checks, knobs
from asyncsim.base.answers import Tuned
from asyncsim.base.records import Schedule
from asyncsim.base.trace import Trace
from asyncsim.comparing.readings import Reading
from asyncsim.running.spec import Spec

PILOT = 32
"""Number of replicates for each value of a grid."""
FINALISTS, FINAL = 3, 128
"""Number of values that are tried again, and the replicates for each of them: a few failures in a hundred show."""
STEPS = 4
"""Number of doublings to each side of the grid's center."""
CAUTION = 2.0
"""Standard errors that are taken off a mean before values are ranked: the best of many noisy means is often luck."""
EXTENSIONS = 3
"""Maximum extensions of a grid with its best value at an edge; each adds as many doublings as one side has."""
Scores = dict[float, np.ndarray]
"""Numbers of the replicates by the value of the knob."""


def _knobs(spec: Spec) -> dict[str, Any]:
    return {**knobs.values(spec.method, "method"), **knobs.values(spec.update, "update")}


def knob_of(spec: Spec, wanted: str, field: str = "tune", whose: str = "every arm") -> str:
    """Full name of the knob to tune: "lr" is the only learning rate of the chain, "adam.lr" or "method.cap" itself.

    Raises `InputError` for a knob that the spec lacks, or for a short name that fits several knobs; the message
    mentions `field` and `whose`.
    """
    names = _knobs(spec)
    if wanted in names:
        return wanted
    fitting = [name for name in names if name.endswith(f".{wanted}")]
    kept = "; tune=None keeps the arms as they are" if field == "tune" else ""
    remedy = f"name one of {', '.join(sorted(names)) or 'none'}{kept}"
    checks.require(len(fitting) == 1, field, wanted, f"one knob of {whose} (fits {len(fitting)})", remedy)
    return fitting[0]


def set_knob(spec: Spec, knob: str, value: Any, replicates: int) -> Spec:
    """A copy of the spec with a knob of its method or chain set, for `replicates` replicates; as `knobs.with_value`."""
    return spec.replace(
        method=knobs.with_value(spec.method, "method", knob, value),
        update=knobs.with_value(spec.update, "update", knob, value),
        replicates=replicates,
    )


def start_of(spec: Spec, knob: str) -> float:
    """Value of a knob in the spec, before tuning."""
    return float(_knobs(spec)[knob])


def explore(
    spec: Spec, knob: str, grid: tuple[float, ...], fixed: bool, reading: Reading, smallest: float
) -> Generator[Spec, Trace, Scores]:
    """Numbers of an arm at each value of a grid, which is extended until its best value is inside and a fall follows.

    A generator, so that arms can be tuned in parallel: yields specs, receives their traces, returns the numbers.
    Values are vectorized in one run with `PILOT` replicates each. The grid is extended by its own half width, up to
    three times. It is extended where the best value is at an edge, unless an inner value is as good within a quarter of
    the `smallest` effect. It is extended upwards while its maximum keeps half of the gain over its minimum, since a
    return may fall a little and rise again. The caller's grid (`fixed`) is not extended.
    """
    scores = yield from _scores(spec, knob, grid, reading)
    width = max(1, (len(grid) - 1) // 2)
    for _ in range(0 if fixed else EXTENSIONS):
        best, values = _best(scores, reading, smallest / 4.0, 0.0), sorted(scores)
        bottom, at, top = (reading.orientation * _mean(scores[v], reading) for v in (values[0], best, values[-1]))
        up = best == values[-1] or (best > values[0] and at - top <= 0.5 * (at - bottom))
        if best > values[0] and not up:
            break
        ratio = values[1] / values[0]
        more = [values[-1] * ratio**k if up else values[0] / ratio**k for k in range(1, width + 1)]
        scores |= yield from _scores(spec, knob, tuple(more), reading)
    return scores


def settle(
    spec: Spec, name: str, knob: str, scores: Scores, grid: list[float], fixed: bool, reading: Reading, smallest: float
) -> Generator[Spec, Trace, Tuned]:
    """Choose an arm's value from its `scores` on the arms' common `grid`, and retry the best and two beside it.

    Raises `InputError` if the best is at an edge, unless an inner value is within three standard errors of it. The best
    three values are tried again with more replicates. Values are ranked by their means less `CAUTION` standard errors:
    at very large rates a few replicates jump to the optimum and the others collapse, so their mean in a pilot is often
    better than it is. Of values as good as the best within a quarter of the `smallest` effect the smallest is chosen: a
    larger one gains nothing and fails more often.
    """
    if lacking := tuple(v for v in grid if v not in scores):
        scores = scores | (yield from _scores(spec, knob, lacking, reading))
    best, values = _best(scores, reading, smallest / 4.0, 3.0), sorted(scores)
    how = "as given" if fixed else f"{EXTENSIONS} times extended"
    bound = f"inside the grid {values[0]:g} to {values[-1]:g}, {how}"
    remedy = f"start nearer to its best value, or give tune={{{knob!r}: [...]}} a wider grid"
    checks.require(values[0] < best < values[-1], f"best {knob} of arm {name}", best, bound, remedy)
    beside = tuple(math.sqrt(best * values[values.index(best) + way]) for way in (-1, 1))
    scores |= yield from _scores(spec, knob, beside, reading)
    values = sorted(scores)
    final = sorted(values[1:-1], key=lambda v: _sure(scores[v], reading))[-FINALISTS:]
    scores |= yield from _scores(spec, knob, tuple(final), reading, FINAL)
    means = {v: _mean(scores[v], reading) for v in values}
    best = max(final, key=lambda v: _sure(scores[v], reading))
    as_good = [v for v in values[1:-1] if reading.orientation * (means[best] - means[v]) <= smallest / 4.0]
    chosen, flat = as_good[0], as_good[-1] / as_good[0]
    errors = tuple(_error(scores[v]) for v in values)
    return Tuned(knob, chosen, tuple(values), tuple(means.values()), errors, scores[chosen][:PILOT], flat)


def _scores(
    spec: Spec, knob: str, grid: tuple[float, ...], reading: Reading, each: int = PILOT
) -> Generator[Spec, Trace, Scores]:
    tried = set_knob(spec, knob, tuple(float(v) for v in np.repeat(grid, each)), len(grid) * each)
    numbers = reading.numbers((yield spread(tried)), lacking=True).reshape(len(grid), each)
    return {float(value): row for value, row in zip(grid, numbers, strict=True)}


def spread(spec: Spec) -> Spec:
    """A copy of the spec with independent replicates: one realization for each if the system is random."""
    own = isinstance(spec.system, Schedule) or spec.system.coupled
    random = not own and spec.system.realizations(spec.replicates) > 1
    return spec.replace(realizations=spec.replicates) if random else spec


def _mean(numbers: np.ndarray, reading: Reading) -> float:
    """Mean of the known numbers; the worst possible number if there are none."""
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else -reading.orientation * math.inf


def _error(numbers: np.ndarray) -> float:
    numbers = numbers[~np.isnan(numbers)]
    # Replicates that diverge have numbers whose squares overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else math.inf


def _sure(numbers: np.ndarray, reading: Reading) -> float:
    """The mean in the good direction, less `CAUTION` standard errors."""
    mean = reading.orientation * _mean(numbers, reading)
    return mean - CAUTION * _error(numbers) if mean > -math.inf else mean


def _best(scores: Scores, reading: Reading, slack: float, errors: float) -> float:
    """The best value, or an inner value as good within the slack or `errors` standard errors."""
    good = {value: _sure(numbers, reading) for value, numbers in scores.items()}
    best = max(good, key=lambda value: good[value])
    inner = sorted(good)[1:-1]
    if best in inner or not inner:
        return best
    second = max(inner, key=lambda value: good[value])
    allowed = max(errors * _error(scores[best]), slack) if errors else slack
    return second if good[second] >= good[best] - allowed else best
