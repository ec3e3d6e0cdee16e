"""The best learning rate of an arm: the same logarithmic grid for all, on seeds of its own, never an edge."""

import math
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks, knobs
from asyncsim.base.answers import Tuned
from asyncsim.base.records import Schedule
from asyncsim.base.trace import Trace
from asyncsim.comparing.readings import Reading
from asyncsim.running.spec import Spec

PILOT = 32
"""Replicates of each value of a grid."""
STEPS = 4
"""Doublings of the grid to each side of where it starts."""
EXTENSIONS = 3
"""How often a grid is extended whose best lies at its edge; each adds as many doublings as stand on one side."""


def _knobs(spec: Spec) -> dict[str, Any]:
    return {**knobs.values(spec.method, "method"), **knobs.values(spec.update, "update")}


def knob_of(spec: Spec, wanted: str, field: str = "tune", whose: str = "every arm") -> str:
    """The full name of the knob to tune: "lr" is the only learning rate of the chain, "adam.lr" or "method.cap" itself.

    Raises `InputError` for a knob that the spec does not have, or a short name that fits several; it names the `field`
    and `whose` knob is asked for.
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
    """The spec with a knob of its method or chain set, for so many replicates; as `knobs.with_value`."""
    return spec.replace(
        method=knobs.with_value(spec.method, "method", knob, value),
        update=knobs.with_value(spec.update, "update", knob, value),
        replicates=replicates,
    )


def start_of(spec: Spec, knob: str) -> float:
    """The value that a spec gives the knob."""
    return float(_knobs(spec)[knob])


def tune(
    spec: Spec, name: str, knob: str, grid: tuple[float, ...], fixed: bool, reading: Reading, smallest: float
) -> Generator[Spec, Trace, Tuned]:
    """The knob's value with the best mean of the reading: a grid, then two values half a step beside its best.

    It asks for runs, so that arms can be tuned side by side: yields specs, is sent their traces, returns the value.

    Values ride as replicates of one run, `PILOT` for a value. A best value at an edge extends the grid by its own half
    width, up to three times. An inner one as good within a quarter of the `smallest` effect prevents that. Raises
    `InputError` when the best is still at an edge then, or at once where the grid is the caller's (`fixed`); an inner
    value within one standard error of it is taken instead. Of values as good as the best within that quarter the least
    is chosen: a larger one gains nothing and fails more often.
    """
    scores = yield from _scores(spec, knob, grid, reading)
    width = max(1, (len(grid) - 1) // 2)
    extensions = 0 if fixed else EXTENSIONS
    for _ in range(extensions):
        best, values = _best(scores, reading, smallest / 4.0, 0.0), sorted(scores)
        if values[0] < best < values[-1]:
            break
        ratio = values[1] / values[0]
        more = [values[-1] * ratio**k if best == values[-1] else values[0] / ratio**k for k in range(1, width + 1)]
        scores |= yield from _scores(spec, knob, tuple(more), reading)
    best, values = _best(scores, reading, smallest / 4.0, 1.0), sorted(scores)
    how = "as given" if fixed else f"{extensions} times extended"
    bound = f"inside the grid {values[0]:g} to {values[-1]:g}, {how}"
    remedy = f"start nearer to its best value, or give tune={{{knob!r}: [...]}} a wider grid"
    checks.require(values[0] < best < values[-1], f"best {knob} of arm {name}", best, bound, remedy)
    at = values.index(best)
    beside = tuple(math.sqrt(best * values[at + way]) for way in (-1, 1))
    scores |= yield from _scores(spec, knob, beside, reading)
    values = sorted(scores)
    means = {v: _mean(scores[v], reading) for v in values}
    best = max(values[1:-1], key=lambda v: reading.orientation * means[v])
    as_good = [v for v in values[1:-1] if reading.orientation * (means[best] - means[v]) <= smallest / 4.0]
    chosen, flat = as_good[0], as_good[-1] / as_good[0]
    errors = tuple(_error(scores[v]) for v in values)
    return Tuned(knob, chosen, tuple(values), tuple(means.values()), errors, scores[chosen], flat)


def _scores(
    spec: Spec, knob: str, grid: tuple[float, ...], reading: Reading
) -> Generator[Spec, Trace, dict[float, np.ndarray]]:
    tried = set_knob(spec, knob, tuple(float(v) for v in np.repeat(grid, PILOT)), len(grid) * PILOT)
    numbers = reading.numbers((yield spread(tried)), lacking=True).reshape(len(grid), PILOT)
    return {float(value): row for value, row in zip(grid, numbers, strict=True)}


def spread(spec: Spec) -> Spec:
    """The spec with a realization of a random system for each replicate, so that replicates are independent."""
    own = isinstance(spec.system, Schedule) or spec.system.coupled
    random = not own and spec.system.realizations(spec.replicates) > 1
    return spec.replace(realizations=spec.replicates) if random else spec


def _mean(numbers: np.ndarray, reading: Reading) -> float:
    """Mean of the replicates that have a value, the worst number where none has."""
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if len(known) else -reading.orientation * math.inf


def _error(numbers: np.ndarray) -> float:
    numbers = numbers[~np.isnan(numbers)]
    # Replicates that diverge have numbers whose squares overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        return float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else math.inf


def _best(scores: Mapping[float, np.ndarray], reading: Reading, slack: float, errors: float) -> float:
    """The best value, or an inner one as good within the slack or so many standard errors."""
    good = {value: reading.orientation * _mean(numbers, reading) for value, numbers in scores.items()}
    best = max(good, key=lambda value: good[value])
    inner = sorted(good)[1:-1]
    if best in inner or not inner:
        return best
    second = max(inner, key=lambda value: good[value])
    allowed = max(errors * _error(scores[best]), slack) if errors else slack
    return second if good[second] >= good[best] - allowed else best
