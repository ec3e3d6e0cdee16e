"""What a timeline is drawn and traced with: where samples change their version, how many groups are where."""

from __future__ import annotations

import itertools

import numpy as np

from asyncsim.base.records import Timeline

GOING_ON = ("keep", "reprefill")
"""Modes in which samples in flight go on under new weights."""


def written_until(timeline: Timeline, n: int, end: float) -> float:
    """When the writing of a sample stops: its end, its group's leaving if that is first, or the end of the record."""
    stop = float(timeline.samples["t_end"][n])
    if np.isnan(stop) and timeline.groups:
        stop = float(timeline.groups["t_left"][timeline.samples["group"][n]])
    return end if np.isnan(stop) else min(stop, end)


def pieces(timeline: Timeline, n: int, stop: float) -> list[tuple[float, float, int]]:
    """Stretches (from, to, version) of a sample: cut at installs where samples in flight go on under new weights."""
    samples = timeline.samples
    start, version = float(samples["t_start"][n]), int(samples["v_start"][n])
    installs = timeline.publishes["t_install"] if timeline.header.get("mode") in GOING_ON else np.array([])
    cuts = [float(t) for t in installs[version:] if start < t < stop]
    edges = [start, *cuts, stop]
    return [(left, right, version + k) for k, (left, right) in enumerate(itertools.pairwise(edges))]


def ages(timeline: Timeline) -> np.ndarray:
    """Staleness of every sample when it was first trained, in versions, by its first token; -1 where it never was."""
    samples = timeline.samples
    trained = samples["batch"] >= 0
    version = timeline.batches["version"][np.where(trained, samples["batch"], 0)] if trained.any() else 0
    return np.where(trained, version - samples["v_start"], -1)


def count(up: np.ndarray, down: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(times, how many are there from then on) of what comes and goes; who never comes is left out."""
    arrived = np.isfinite(up)
    departures = down[arrived & np.isfinite(down)]
    times, place = np.unique(np.concatenate([up[arrived], departures]), return_inverse=True)
    change = np.concatenate([np.ones(int(arrived.sum())), -np.ones(departures.size)])
    return times, np.cumsum(np.bincount(place, weights=change, minlength=times.size))
