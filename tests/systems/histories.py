"""Everything that happened in a run as rows of plain values: from the twin, from a timeline, and where they differ."""

COLUMNS = {
    "samples": (
        *("sample", "group", "place", "server", "rate", "work", "attempt", "wasted"),
        *("t_submit", "t_start", "t_end", "t_scored", "v_submit", "v_start", "v_end", "v_ready"),
        *("t_ready", "t_pack", "t_train", "batch", "fate"),
    ),
    "groups": (
        *("group", "place", "prompt", "target", "t_submit", "t_done", "t_ready", "t_left"),
        *("v_submit", "v_start", "v_done", "v_left", "v_train", "batch", "uses", "fate"),
    ),
    "batches": ("batch", "version", "installed", "t_pack", "t_start", "t_end"),
    "publishes": (
        *("version", "t_snapshot", "t_install"),
        *("in_flight", "scoring", "blocked", "ready", "packed", "outstanding"),
    ),
    "uses": ("batch", "group"),
}
"""What the rows of a history are, by the names of the timeline's columns."""


def of_twin(twin):
    """Everything that happened: for every table a list of rows, to be compared by equality."""
    groups = twin.groups.values()
    per_publish = twin.s.batches_per_publish
    samples = [
        (
            *(s.number, s.group, s.place, s.place % twin.s.servers),
            *(getattr(s, name) for name in COLUMNS["samples"][4:16]),
            g.t_ready,
            g.t_pack if not s.cancelled else None,
            twin.batches[g.batch].t_start if g.uses and not s.cancelled else None,
            g.batch if not s.cancelled else -1,
            g.fate if not s.cancelled else "cancelled",
        )
        for g in groups
        for s in g.samples
    ]
    rows = [
        (
            g.number,
            *(getattr(g, name) for name in COLUMNS["groups"][1:9]),
            -1 if twin.v_head(g) is None else twin.v_head(g),
            *(g.v_done, g.v_left, g.batch // per_publish if g.uses else -1, g.batch, g.uses, g.fate),
        )
        for g in groups
    ]
    done = [batch for batch in twin.batches if batch.t_end is not None]
    return {
        "samples": samples,
        "groups": rows,
        "batches": [(n, b.v_t, b.v_g, b.t_pack, b.t_start, b.t_end) for n, b in enumerate(done)],
        "publishes": [(n + 1, p.t_snapshot, p.t_install, *p.levels.values()) for n, p in enumerate(twin.publishes)],
        "uses": sorted((n, g) for n, b in enumerate(done) for g in b.taken),
    }


def of_timeline(timeline):
    """The same rows from a timeline of the kernel; missing times are None."""
    found = {}
    for table, names in COLUMNS.items():
        columns = getattr(timeline, table)
        rows = zip(*(columns[name].tolist() for name in names), strict=True)
        found[table] = [tuple(None if value != value else value for value in row) for row in rows]
    found["uses"].sort()
    return found


def differences(first, second, relative=0.0):
    """Cells that differ, as (table, column, number of the row, values); times by more than `relative`."""
    found = []
    for table, names in COLUMNS.items():
        if len(first[table]) != len(second[table]):
            found.append((table, "rows", len(first[table]), len(second[table])))
        for n, rows in enumerate(zip(first[table], second[table], strict=False)):
            found += [(table, name, n, a, b) for name, a, b in zip(names, *rows, strict=True) if apart(a, b, relative)]
    return found


def apart(a, b, relative):
    if isinstance(a, float) and isinstance(b, float) and a != b:
        return not abs(a - b) <= relative * max(1.0, abs(a))
    return a != b
