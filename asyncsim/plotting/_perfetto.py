"""A timeline as a trace file: the JSON of trace events that Perfetto (ui.perfetto.dev) and Chrome's viewer open.

Each sample is a slice named by its staleness when trained, so that the viewer colors equal staleness alike. In it stand
the stretches of one version, and an arrow leads to its batch. The trainer and the weights on their way have tracks.
Counters show groups in generation and waiting, and the staleness of each batch. A second of the simulation is one here.
"""

import itertools
from typing import Any

import numpy as np

from asyncsim.base.records import Timeline

_GENERATORS, _TRAINER, _COUNTERS = 1, 2, 3
_BATCHES, _WEIGHTS = 1, 2
MICRO = 1e6


def perfetto(timeline: Timeline) -> dict[str, Any]:
    """Convert a timeline to a Perfetto trace file: `traceEvents` in microseconds, and the timeline's header."""
    size = int(np.bincount(timeline.samples["group"]).max()) if len(timeline.samples["group"]) else 1
    events = [*_names(timeline, size), *_samples(timeline, size), *_batches(timeline), *_publishes(timeline)]
    return {"traceEvents": [*events, *_counters(timeline)], "displayTimeUnit": "ms", "otherData": timeline.header}


def _names(timeline: Timeline, size: int) -> list[dict[str, Any]]:
    processes = {_GENERATORS: "generators", _TRAINER: "trainer", _COUNTERS: "groups"}
    events = [_meta("process_name", pid, 0, name) for pid, name in processes.items()]
    for place in np.unique(timeline.samples["place"]).tolist():
        for slot in range(size):
            text = f"slot {place}" if size == 1 else f"slot {place}, sample {slot}"
            events.append(_meta("thread_name", _GENERATORS, place * size + slot, text))
    events.append(_meta("thread_name", _TRAINER, _BATCHES, "batches"))
    events.append(_meta("thread_name", _TRAINER, _WEIGHTS, "weights on their way"))
    return events


def _meta(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _slice(process: int, thread: int, start: float, stop: float, name: str, args: dict[str, Any]) -> dict[str, Any]:
    span = {"ts": start * MICRO, "dur": (stop - start) * MICRO}
    return {"ph": "X", "pid": process, "tid": thread, **span, "name": name, "cat": "asyncsim", "args": args}


def _samples(timeline: Timeline, size: int) -> list[dict[str, Any]]:
    samples, end, events = timeline.samples, float(timeline.header["seconds"]), []
    columns = ("sample", "group", "work", "attempt", "batch", "fate")
    stale, trained = ages(timeline).tolist(), timeline.batches["t_start"]
    for n in np.flatnonzero(samples["v_start"] >= 0).tolist():
        start, stop = float(samples["t_start"][n]), written_until(timeline, n, end)
        track = int(samples["place"][n]) * size + n % size
        args = {name: samples[name][n].item() for name in columns}
        # The name decides the color.
        name = "not trained" if args["fate"] == "unfinished" else "discarded"
        name = f"staleness {stale[n]}" if stale[n] >= 0 else name
        events.append(_slice(_GENERATORS, track, start, stop, name, args))
        for left, right, version in pieces(timeline, n, stop):
            events.append(_slice(_GENERATORS, track, left, right, f"version {version}", {"version": version}))
        if stale[n] >= 0:
            # An arrow begins inside its slice, and ends in the one that encloses its head.
            arrow = {"name": "trained", "cat": "asyncsim", "id": args["sample"], "pid": _GENERATORS, "tid": track}
            begin = {"ph": "s", "ts": (start + stop) / 2 * MICRO}
            head = {"ph": "f", "bp": "e", "pid": _TRAINER, "tid": _BATCHES, "ts": trained[args["batch"]].item() * MICRO}
            events += [arrow | begin, arrow | head]
    return events


def _batches(timeline: Timeline) -> list[dict[str, Any]]:
    batches, groups, uses, events = timeline.batches, timeline.groups, timeline.uses, []
    stale = batches["version"][uses["batch"]] - groups["v_start"][uses["group"]]
    mean = np.bincount(uses["batch"], weights=stale) / np.bincount(uses["batch"])
    columns = (batches[name].tolist() for name in ("batch", "version", "t_start", "t_end"))
    for b, version, start, stop in zip(*columns, strict=True):
        if np.isfinite(stop):
            args = {"batch": b, "version": version, "mean staleness": float(mean[b])}
            events.append(_slice(_TRAINER, _BATCHES, start, stop, f"batch {b}, version {version}", args))
        events.append(_count("staleness of the batch", start, {"mean": float(mean[b])}))
    return events


def _publishes(timeline: Timeline) -> list[dict[str, Any]]:
    columns = (timeline.publishes[name].tolist() for name in ("version", "t_snapshot", "t_install"))
    events = []
    for version, start, stop in zip(*columns, strict=True):
        events.append(_slice(_TRAINER, _WEIGHTS, start, stop, f"version {version}", {"version": version}))
        mark = {"ph": "i", "s": "g", "pid": _TRAINER, "tid": _WEIGHTS, "ts": stop * MICRO}
        events.append(mark | {"name": f"install {version}", "cat": "asyncsim"})
    return events


def _counters(timeline: Timeline) -> list[dict[str, Any]]:
    groups = timeline.groups
    curves = {
        "in generation": count(groups["t_submit"], np.fmin(groups["t_done"], groups["t_left"])),
        "finished, not in training": count(groups["t_done"], groups["t_left"]),
    }
    return [
        _count(name, time, {"groups": int(value)})
        for name, (times, values) in curves.items()
        for time, value in zip(times.tolist(), values.tolist(), strict=True)
    ]


def _count(name: str, time: float, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "C", "pid": _COUNTERS, "tid": 0, "ts": time * MICRO, "name": name, "args": values}


def written_until(timeline: Timeline, n: int, end: float) -> float:
    """Time in seconds at which a sample's generation stops: at its end, its group's removal, or the timeline's end."""
    stop = float(timeline.samples["t_end"][n])
    if np.isnan(stop) and timeline.groups:
        stop = float(timeline.groups["t_left"][timeline.samples["group"][n]])
    return end if np.isnan(stop) else min(stop, end)


def pieces(timeline: Timeline, n: int, stop: float) -> list[tuple[float, float, int]]:
    """Intervals (from, to, version) of a sample's generation, split at installs where samples in flight continue."""
    samples = timeline.samples
    start, version = float(samples["t_start"][n]), int(samples["v_start"][n])
    installs = timeline.publishes["t_install"] if timeline.header.get("mode") in ("keep", "reprefill") else np.array([])
    cuts = [float(t) for t in installs[version:] if start < t < stop]
    edges = [start, *cuts, stop]
    return [(left, right, version + k) for k, (left, right) in enumerate(itertools.pairwise(edges))]


def ages(timeline: Timeline) -> np.ndarray:
    """Staleness of every sample's first token when first trained, in versions; -1 for samples that never were."""
    samples = timeline.samples
    trained = samples["batch"] >= 0
    version = timeline.batches["version"][np.where(trained, samples["batch"], 0)] if trained.any() else 0
    return np.where(trained, version - samples["v_start"], -1)


def count(up: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times in seconds, and the number present from then on: arrivals minus departures."""
    arrived = np.isfinite(up)
    departures = down[arrived & np.isfinite(down)]
    times, place = np.unique(np.concatenate([up[arrived], departures]), return_inverse=True)
    change = np.concatenate([np.ones(int(arrived.sum())), -np.ones(departures.size)])
    return times, np.cumsum(np.bincount(place, weights=change, minlength=times.size))
