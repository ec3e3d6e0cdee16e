"""Cycles, tries, waste and versions of samples of equal work under every mode of an install, on the event kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from asyncsim.systems._system import System
from asyncsim.trials._trial import Defect, Estimate, Plant, Point, Trial, replaced, within
from asyncsim.trials.systems import _windows

_CYCLES, _WARM = 600, 60
_EDGES = 0.004
"""What samples on the edges of the window may make, where places are out of step with installs."""


def _system(point: Point) -> System:
    work = {"length": f"constant:{point['seconds']!r}", "train_time": float(point["train_time"])}
    names = ("mode", "batches_per_publish", "sync_time", "generator_pauses")
    settings = {name: point[name] for name in names}
    room = {"capacity": 8 * point["places"], "overflow": "drop_oldest"}
    return _windows.places(work, point["places"], 1, train_time=work["train_time"], **settings, **room)


def _measure(point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
    system = plant(_windows.staggered(_system(point), 1))
    summary, record = system.recorded(_CYCLES * system.batches_per_publish, 1, seed, warm=_WARM)
    installs, samples = record.publishes["t_install"], record.samples
    first, last = installs[_WARM], installs[-2]
    inside = (samples["t_end"] > first) & (samples["t_end"] <= last)
    ended = {name: column[inside] for name, column in samples.items()}
    written = ended["work"] + ended["wasted"]
    found = {
        "cycle": (last - first) / (len(installs) - 2 - _WARM),
        "groups_per_second": inside.sum() / (last - first),
        "throughput": summary["throughput"],
        "dropped": summary["dropped_fraction"],
        "wasted": summary["wasted_token_fraction"],
        "trainer": summary["trainer_utilization"],
        "written": written.sum() / ended["work"].sum(),
        "tries": 1.0 + ended["attempt"].mean(),
        "versions": 1.0 + (ended["v_end"] - ended["v_start"]).mean(),
    }
    return {name: Estimate(float(np.float64(x)), tolerance=_EDGES * float(x)) for name, x in found.items()}


def _reach(point: Point) -> str | None:
    return within(places=64, batches_per_publish=16)(point)


def _point(mode: str, **changes: Any) -> dict[str, Any]:
    times = {"seconds": 0.7, "train_time": 1.0, "sync_time": 0.25, "generator_pauses": False}
    return {"mode": mode, "places": 4, "batches_per_publish": 2, **times, **changes}


_RESTART, _DRAIN = _point("restart"), _point("drain", generator_pauses=True)
_KEEP = _point("keep", seconds=1.3717)

trial = Trial(
    points=(_RESTART, _DRAIN, _KEEP),
    more=(_point("restart", generator_pauses=True, seconds=0.9), _point("pin", seconds=2.7183)),
    measure=_measure,
    defects={
        "samples go on": Defect(replaced(mode="keep"), _RESTART),
        "samples begin anew": Defect(replaced(mode="restart"), _DRAIN),
        "nothing waits for the install": Defect(replaced(mode="keep"), _DRAIN),
        "installs at once": Defect(replaced(sync_time=0.0), _KEEP),
        "published after every batch": Defect(replaced(batches_per_publish=1), _KEEP),
        "places pause": Defect(replaced(generator_pauses=True), _RESTART),
    },
    effect=0.02,
    reach=_reach,
    through="kernel",
)
