"""A unit of a sweep: one structure, some settings of its knobs, one block of replicates; named by its content.

The content of a unit is JSON, so that another machine can run it. Its result is one file of the store.
"""

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, knobs, plugins, spec_code, workers
from asyncsim.base import store as storing
from asyncsim.base.notation import TRAINED
from asyncsim.comparing import keeping
from asyncsim.comparing.arms import recorded
from asyncsim.comparing.readings import FALLS, Reading, course, ending
from asyncsim.comparing.tuning import knob_of, set_knob, spread
from asyncsim.running.running import run
from asyncsim.running.spec import Spec

BLOCK = 64
"""Number of replicates in a unit; the last unit of a setting may have fewer."""
STAGE = 2
"""Stage of the seeds of sweeps; tuning and comparisons use stages 0 and 1."""
HOUR = 3600.0
TAIL = 0.99
name_of = storing.unit_of
"""Name of the file of a unit, by its key."""
COSTS: dict[str, Any] = {
    "staleness": lambda s: s["staleness"]["mean"],
    "staleness_p99": lambda s: np.searchsorted(np.cumsum(s["staleness"]["pmf"]), TAIL - 1e-12),
    "seconds_per_update": lambda s: s["seconds_per_update"],
    "groups_per_hour": lambda s: HOUR * s["throughput"],
    "trainer_idle": lambda s: max(0.0, round(1.0 - s["trainer_utilization"], 12)),
    "generator_idle": lambda s: max(0.0, round(1.0 - s["generator_utilization"], 12)),
    "wasted_tokens": lambda s: s["wasted_token_fraction"],
}
"""Numbers that a sweep over a system records for each realization: staleness in versions (of trained groups), its 99th
percentile, seconds per update, groups trained per hour, idle shares of the trainer and of the slots for samples, and
the share of generated tokens that are not trained. Further decimals of an idle share are rounding errors around 0."""


@dataclass(frozen=True)
class Unit:
    """One unit of a sweep: its content, key, digest of the content without the code, and number of earlier attempts."""

    key: str
    content: Mapping[str, Any]
    asked: str
    tried: int = 0


def of_spec(spec: Spec, reading: Mapping[str, Any]) -> dict[str, Any]:
    """JSON that a spec's units share: the spec with its diagnostics, the reading of curves, and digests of code."""
    each = knobs.lengths(spec.method) | knobs.lengths(spec.update)
    remedy = "give one number, and its values in the grid"
    checks.require(not each, "knob of the spec", f"one number for each of {max(each, default=0)} replicates",
                   "one number", remedy)  # fmt: skip
    written = recording(spec, reading["metrics"]).to_dict()
    return {"kind": "run", "subject": written, "reading": dict(reading), "code": spec_code.code_of(written, __name__)}


def recording(spec: Spec, metrics: Iterable[str]) -> Spec:
    """Spec of a unit, with the diagnostics that its metrics need."""
    diagnostics = tuple(name for metric in metrics for name in recorded(metric)[0])
    return spec.replace(diagnostics=diagnostics, replicates=BLOCK, block=None, realizations=None)


def of_system(system: Any, batches: int, samples: int) -> dict[str, Any]:
    """JSON that the units of a system share, if it is only simulated."""
    written = {"system": calls.written("system", system), "batches": batches, "samples_per_group": samples}
    about = {"reading": {"metrics": list(COSTS)}, "code": spec_code.code_of(written, __name__)}
    return {"kind": "simulation", "subject": written, **about}


def read(data: bytes, key: str) -> Any:
    """Rows of a unit's file as a pyarrow table; raises `InputError` if damaged, altered or of another unit."""
    return storing.unit_rows(data, name_of(key), key, "start the sweep again: it makes the unit anew")


def failure_of(key: str) -> str:
    """Name of the file with the reason for a unit's failure."""
    return f"failed/{key}.json"


def perform(where: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Run a unit of a sweep and write its file; return the outcome.

    The outcome is {"seconds": ..., "warned": texts}; {"failed": reason, "final": whether it would fail again}; or
    {"stop": reason} if the store cannot be written. Errors inside a unit are never raised.
    """
    start = time.monotonic()
    try:
        # Refuse a unit whose code is another than its key says: it changed since, or this machine has another.
        odd = spec_code.changed(content["code"], spec_code.code_of(content["subject"], __name__))
        remedy = "start the sweep again; give every machine the same files"
        checks.require(not odd, "code", ", ".join(odd), "as it was when the sweep was planned", remedy)
        # The cores belong to the units, wherever they are done.
        with warnings.catch_warnings(record=True) as caught, workers.alone():
            warnings.simplefilter("always", checks.RunWarning)
            columns = measured(content)
        data = storing.unit_file(columns, content, seconds=time.monotonic() - start)
    except (checks.InputError, checks.RunError) as error:
        return {"failed": str(error), "final": error.__cause__ is None}  # a part from outside can fail by chance
    except MemoryError:
        return {"failed": "MemoryError: not enough memory", "final": False}
    except (Exception, SystemExit) as error:  # a part from outside can raise anything
        return {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:500], "final": False}
    try:
        storing.Store(where).write(storing.name_of(content), data)
    except checks.InputError as error:
        return {"stop": error.bound}
    return {"seconds": time.monotonic() - start, "warned": [str(each.message) for each in caught]}


def measured(content: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Rows of a unit as columns: its setting, its knobs, `replicate`, and a number for each metric."""
    if content["kind"] == storing.TRAINING:
        trace = run(Spec.from_dict(content["subject"], None), content["seed"], progress=False)
        return keeping.columns(trace, content["metric"])
    subject, number = content["subject"], np.arange(content["replicates"]) + content["block"] * BLOCK
    riding: dict[str, np.ndarray] = {}
    if content["kind"] == "run":
        spec, riders, n = Spec.from_dict(subject, None), content["riders"], content["replicates"]
        riding = {name: np.repeat([each[name] for each in riders], n) for name in riders[0]}
        for name, values in riding.items():
            spec = set_knob(spec, knob_of(spec, name), tuple(values.tolist()), n * len(riders))
        trace = run(spread(spec.replace(replicates=n * len(riders))), content["seed"], progress=False)
        how = {name: content["reading"][name] for name in ("over", "target", "better")}
        read = {metric: Reading(metric, **how) for metric in content["reading"]["metrics"]}
        readings = {name: each.numbers(trace, True, len(riders)) for name, each in read.items()}
        most = {name: each.bounds(trace, spec.task)[1] for name, each in read.items() if each.until}
        readings |= {f"{name} never": readings[name] >= end for name, end in most.items()}
        readings |= {f"{n} end": ending(course(trace, n, lacking=True)) for n, x in read.items() if x.over == "mean"}
        if TRAINED in read and read[TRAINED].over in ("mean", "end"):
            readings[f"{TRAINED} start"] = course(trace, TRAINED, lacking=True)[0]
        fell = {n: x.unlearned(trace, len(riders)) for n, x in read.items() if x.over in FALLS}
        readings |= {f"{n} unlearned": x for n, x in fell.items()}
        readings |= {f"{n} early": x & (readings[n] == 1.0) for n, x in fell.items()}
        readings["diverged"] = trace.diverged.astype(np.int64)
        number = np.tile(number, len(riders))
    else:
        system = calls.read("system", subject["system"], plugins.function)
        size = subject["batches"], subject["samples_per_group"]
        summaries = [system.summary(*size, content["seed"], m) for m in range(content["replicates"])]
        readings = {name: np.array([float(read(s)) for s in summaries]) for name, read in COSTS.items()}
    # A setting with the name of a number is called "NAME (set)".
    numbers, settings = {"replicate": number, **readings}, dict[str, np.ndarray]()
    for name, value in content["setting"].items():
        plain = isinstance(value, (int, float))
        settings[name] = np.full(len(number), value if plain else str(value), dtype=None if plain else object)
    return {(f"{name} (set)" if name in numbers else name): x for name, x in (settings | riding).items()} | numbers
