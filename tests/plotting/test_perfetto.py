"""Trace files: what Perfetto needs of every event, and the same story as the record."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from asyncsim import systems as presets
from asyncsim.base import records
from asyncsim.base.laws import exponential, lognormal
from asyncsim.plotting._perfetto import MICRO, perfetto

SYSTEM = presets.areal(2, 3, 7, length=lognormal(1.0, 0.8), load=1.2, sync_time=0.1)


@pytest.fixture(params=["plain", "slots"])
def record(request):
    busy = {"slots": 5, "servers": 2, "reward": exponential(0.3), "accept": 0.7, "max_age": 1, "age_reach": "all"}
    return (SYSTEM.replace(**busy) if request.param == "slots" else SYSTEM).timeline(12, 2)


def test_events_are_complete_and_never_overlap_on_a_track(record):
    trace = json.loads(json.dumps(records.plain(perfetto(record))))
    tracks = defaultdict(list)
    for event in trace["traceEvents"]:
        assert {"ph", "pid", "name"} <= set(event)
        if event["ph"] == "X":
            assert event["dur"] >= 0 and event["ts"] >= 0
            tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(stop <= start + 1e-3 for (_, stop), (start, _) in pairwise(spans))
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert set(tracks) <= named and trace["otherData"]["name"] == "areal"


def test_the_trace_tells_what_the_record_tells(record):
    events = perfetto(record)["traceEvents"]
    batches = [e for e in events if e["ph"] == "X" and e["name"].startswith("batch")]
    np.testing.assert_allclose([e["ts"] / MICRO for e in batches], record.batches["t_start"])
    installs = [e for e in events if e["ph"] == "i"]
    np.testing.assert_allclose([e["ts"] / MICRO for e in installs], record.publishes["t_install"])
    last = {e["name"]: e["args"] for e in events if e["ph"] == "C"}
    unfinished = (record.groups["fate"] == "unfinished") & np.isnan(record.groups["t_done"])
    assert last["in generation"] == {"groups": int(unfinished.sum())}
    written = sum(e["dur"] for e in events if e["ph"] == "X" and e["name"].startswith("group"))
    # A sample that is cut stops with its group, one that is not over with the record.
    ends = np.fmin(record.samples["t_end"], record.header["seconds"])
    left = record.groups["t_left"][record.samples["group"]]
    ends = np.where(np.isnan(record.samples["t_end"]) & np.isfinite(left), left, ends)
    begun = record.samples["v_start"] >= 0
    assert written / MICRO == pytest.approx((ends - record.samples["t_start"])[begun].sum())
