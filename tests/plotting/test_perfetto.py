"""Trace files: what Perfetto needs of every event, and the same story as the record."""

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
    busy = {"slots": 5, "servers": 2, "reward": exponential(0.3), "accept": 0.7, "max_age": 1, "age_at_pack": "all"}
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
        # Slices of a track stand behind each other or inside one another.
        spans.sort(key=lambda span: (span[0], -span[1]))
        for (_, before), (start, stop) in pairwise(spans):
            assert before <= start + 1e-3 or stop <= before + 1e-3
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
    whole = [e for e in events if e["ph"] == "X" and "fate" in e["args"]]
    written = sum(e["dur"] for e in whole)
    parts = sum(e["dur"] for e in events if e["ph"] == "X" and e["pid"] == 1) - written
    assert parts == pytest.approx(written)
    # A sample that is cut stops with its group, one that is not over with the record.
    ends = np.fmin(record.samples["t_end"], record.header["seconds"])
    left = record.groups["t_left"][record.samples["group"]]
    ends = np.where(np.isnan(record.samples["t_end"]) & np.isfinite(left), left, ends)
    begun = record.samples["v_start"] >= 0
    assert written / MICRO == pytest.approx((ends - record.samples["t_start"])[begun].sum())


def test_slices_are_named_by_staleness_and_arrows_lead_to_their_batch(record):
    events = perfetto(record)["traceEvents"]
    samples, batches = record.samples, record.batches
    whole = {e["args"]["sample"]: e for e in events if e["ph"] == "X" and "fate" in e["args"]}
    arrows = {phase: {e["id"]: e for e in events if e["ph"] == phase} for phase in "sf"}
    trained = np.flatnonzero(samples["batch"] >= 0)
    assert set(arrows["s"]) == set(arrows["f"]) == set(samples["sample"][trained].tolist())
    for n in trained.tolist():
        number, batch = int(samples["sample"][n]), int(samples["batch"][n])
        stale = batches["version"][batch] - samples["v_start"][n]
        assert whole[number]["name"] == f"staleness {stale}"
        tail, head = arrows["s"][number], arrows["f"][number]
        assert whole[number]["ts"] <= tail["ts"] <= whole[number]["ts"] + whole[number]["dur"]
        assert (tail["pid"], tail["tid"]) == (whole[number]["pid"], whole[number]["tid"])
        assert head["ts"] == pytest.approx(batches["t_start"][batch] * MICRO) and head["bp"] == "e"
    names = {e["name"] for number, e in whole.items() if number not in arrows["s"]}
    assert names <= {"discarded", "not trained"} and names
