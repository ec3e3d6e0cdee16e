"""Short live runs of a token bandit, two processes, and what their logs say."""

import json
import shutil
from typing import Any

from asyncsim import live, methods, tasks, updates
from asyncsim.base import laws
from asyncsim.base.records import Point
from asyncsim.claims._trial import Plant
from asyncsim.running.spec import Spec
from asyncsim.systems._system import System
from asyncsim.updates._link import chain

_ACTORS = 2
_SAMPLES = 2


def ran(
    point: Point, batches: int, seed: int, plant: Plant, second: float | None = None
) -> tuple[Any, list[dict[str, Any]]]:
    """Run `batches` batches live under K permits with a slot each, and return the run with the rows of its log."""
    length = laws.as_law("length", "lognormal:1:0.7")
    groups, tickets = point["publish_groups"], point["tickets"]
    permits = {"groups_per_batch": groups, "tickets": tickets, "release": point["release"], "train_time": 0.2}
    system = plant(System("permits", {}, length, (1.0,) * tickets, **permits))
    size: dict[str, Any] = {"samples_per_group": _SAMPLES, "updates": batches, "replicates": 1, "compiled": False}
    spec = Spec(tasks.token_bandit(), system, methods.reinforce(), chain(updates.sgd(0.1)), **size)
    made = live.run(spec, seed=seed % 2**31, actors=_ACTORS, second=second)
    rows = [json.loads(line) for line in made.log.read_text().splitlines()]
    shutil.rmtree(made.log.parent)
    return plant(made), rows


def planted(change: Any, kind: type[Any] = System) -> Plant:
    """Plant that changes the system of a live run, or its finished `live.Live`."""
    return lambda given: change(given) if isinstance(given, kind) else given
