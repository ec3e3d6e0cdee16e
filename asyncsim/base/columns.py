"""Columns of schedules and timelines, and checks of their consistency.

A column of a timeline that occurs twice (a sample has the times of its group) has to agree with itself. Times and
versions have to be in the order of `systems/MODEL.md`; counts have to add up. A plausible wrong number in a column that
occurs once, a length or a rate, cannot be detected.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from asyncsim.base import checks

FATES = ("unfinished", "trained", "dropped_age", "dropped_overflow", "rejected")
"""Possible ends of a group."""
CANCELLED = "cancelled"
"""End of a redundant sample: enough other samples of its group were complete before it."""

INTEGERS, NUMBERS, WORDS = checks.table(__file__, "columns.toml").values()
SLACK = 1e-9
"""Relative tolerance between a sum of seconds and its parts."""

Table = Mapping[str, np.ndarray]


def check_timeline(tables: Mapping[str, Table], header: Any) -> None:
    """Raise `InputError` for inconsistent tables of a timeline, with the column and its first wrong row."""
    checks.require(isinstance(header, dict), "timeline.header", header, "a mapping", _REMEDY)
    seconds = checks.real("timeline.header.seconds", header.get("seconds"), _REMEDY, 0.0)
    publish = header.get("batches_per_publish")
    publish = checks.integer("timeline.header.batches_per_publish", publish, 1, _REMEDY, checks.LARGEST)
    for name in INTEGERS:
        _kinds(name, tables[name])
    groups, batches, publishes = (tables[name] for name in ("groups", "batches", "publishes"))
    places = _resources(tables["resources"], batches, seconds)
    _publishes(publishes, batches, publish)
    _batches(batches, publishes, publish)
    _uses(tables["uses"], batches, groups)
    # Where servers take weights in turn, one may be a version ahead of the install.
    ahead = int(header.get("rolling") is True)
    _groups(groups, tables["uses"], batches, publishes, places, ahead)
    _samples(tables["samples"], groups, batches, publishes, ahead)
    _ends(tables["samples"], groups)
    _stretches(tables["stretches"], tables["samples"], publishes)
    for name, table in tables.items():
        for column in table:
            if column.startswith("t_"):
                _hold(name, table, column, ~(table[column] > seconds), "at most the seconds of the record")


_REMEDY = "simulate it again with System.timeline()"


def check_schedule(trajectory: np.ndarray, work: Any, seconds: Any) -> None:
    """Raise `InputError` for unusable ids or works `[M, B, G, N]`, or seconds `[M, B]`, of a schedule."""
    shape = trajectory.shape
    axes = ("M", "B", "G", "N")
    empty = [name for name, size in zip(axes, shape, strict=True) if size == 0]
    remedy = "give at least one realization, batch, group and sample"
    checks.require(not empty, "schedule.trajectory", shape, f"without empty axes ({', '.join(empty)})", remedy)
    # Realizations that are one and the same are broadcast, not copied.
    ids = trajectory[:1] if trajectory.strides[0] == 0 else trajectory
    flat = ids.reshape(*ids.shape[:2], -1)
    if not (flat[..., 1:] > flat[..., :-1]).all():
        heads, ordered = ids[..., 0], np.sort(flat, axis=-1)
        for right, bound in (
            (ordered[..., 1:] > ordered[..., :-1], "of different trajectories inside a batch"),
            (ids[..., 1:] > ids[..., :-1], "ascending inside a group"),
            (heads[..., 1:] > heads[..., :-1], "ascending from group to group inside a batch, by their first sample"),
        ):
            if not right.all():
                realization, batch = np.argwhere(~right)[0][:2]
                value = f"{checks.shown(ids[realization, batch].tolist())} in batch {batch}"
                raise checks.InputError("schedule.trajectory", value, bound, "sort the ids, and use each once")
    for name, values, expected, remedy in (
        ("work", work, shape, "give every trajectory its work, or none"),
        ("seconds", seconds, shape[:2], "give every batch its time, or none"),
    ):
        if values is not None:
            kind = getattr(values, "dtype", type(values))
            real = isinstance(values, np.ndarray) and kind.kind in "iuf"
            checks.require(real, f"schedule.{name}", str(kind), "an array of numbers", remedy)
            checks.require(values.shape == expected, f"schedule.{name}", values.shape, f"of shape {expected}", remedy)
            odd = values[~np.isfinite(values)].tolist()[:1]
            checks.require(not odd, f"schedule.{name}", odd, "finite", remedy)
    if work is not None:
        checks.require(bool((work > 0).all()), "schedule.work", work.min(), "positive", "a trajectory has a token")
    if seconds is not None:
        back = np.argwhere(seconds[:, 1:] < seconds[:, :-1])[:1]
        decreases = [f"{seconds[m, b]} before {seconds[m, b + 1]} in batch {b + 1}" for m, b in back]
        bound, remedy = "not decreasing from batch to batch", "give the time at which training on each batch starts"
        checks.require(not decreases, "schedule.seconds", decreases, bound, remedy)


def _kinds(name: str, table: Table) -> None:
    """Check names, types and lengths of the columns of a table."""
    kinds = dict.fromkeys(INTEGERS[name].split(), "i") | dict.fromkeys(NUMBERS[name].split(), "f")
    kinds |= dict.fromkeys(WORDS.get(name, "").split(), "U")
    if name == "publishes":
        clocks = sum(column.startswith("clock_") for column in table)
        kinds |= {f"clock_{server}": "f" for server in range(max(1, clocks))}
    odd = sorted(set(kinds) ^ set(table))
    checks.require(not odd, f"timeline.{name}", odd, "without columns that are missing or unknown", _REMEDY)
    words = {"i": "integers", "f": "numbers", "U": "words"}
    rows = len(next(iter(table.values())))
    for column, kind in kinds.items():
        values = table[column]
        right = values.dtype.kind == kind and values.shape == (rows,)
        bound = f"{words[kind]} in {rows} rows, as the table has"
        checks.require(right, f"timeline.{name}.{column}", f"{values.dtype} {values.shape}", bound, _REMEDY)
        # The clock of a sample that never started has no meaning.
        if kind == "f" and (name, column) != ("samples", "clock"):
            _hold(name, table, column, ~np.isinf(values), "finite or missing")


def _hold(name: str, table: Table, column: str, right: Any, bound: str) -> None:
    """Raise `InputError` for the first row of a column that breaks a rule."""
    right = np.broadcast_to(right, table[column].shape)
    if not right.all():
        row = int(np.argmin(right))
        raise checks.InputError(f"timeline.{name}.{column}", f"{table[column][row]} in row {row}", bound, _REMEDY)


def _within(name: str, table: Table, columns: str, low: float, high: float, missing: bool = False) -> None:
    """Check that a column lies in [low, high]; -1 and NaN are missing values."""
    for column in columns.split():
        values = table[column]
        gone = np.isnan(values) if values.dtype.kind == "f" else values == -1
        right = ((values >= low) & (values <= high)) | (gone & missing)
        _hold(name, table, column, right, f"in [{low:g}, {high:g}]" + (" or missing" if missing else ""))


def _same(name: str, table: Table, column: str, expected: np.ndarray, bound: str) -> None:
    values = table[column]
    missing = (values != values) & (expected != expected)
    _hold(name, table, column, (values == expected) | missing, bound)


def _ordered(name: str, table: Table, columns: str, unknown: Any = np.nan) -> None:
    """Check that columns ascend within each row, as times and versions do; missing values are skipped."""
    names = columns.split()
    for k, late in enumerate(names):
        for early in names[:k]:
            first, second = table[early], table[late]
            gone = (first == unknown) | (second == unknown) | (first != first) | (second != second)
            _hold(name, table, late, gone | (first <= second), f"at least {early}")


def _rising(name: str, table: Table, columns: str) -> None:
    for column in columns.split():
        values = table[column]
        steps = np.append(True, values[1:] >= values[:-1])
        _hold(name, table, column, steps & (values == values), "known and not decreasing")


def _numbered(name: str, table: Table, column: str, first: int = 0) -> None:
    _same(name, table, column, first + np.arange(len(table[column])), f"counted from {first}")


def _in_time(name: str, table: Table, version: str, time: str, events: np.ndarray, ahead: int = 0) -> None:
    """Check that a version equals the number of events so far; at an event either count, or up to `ahead` more."""
    known = ~np.isnan(table[time])
    low, high = (np.searchsorted(events, table[time], side=side) for side in ("left", "right"))
    right = ((low <= table[version]) & (table[version] <= high + ahead)) | ~known
    _hold(name, table, version, right & ((table[version] >= 0) | ~known), f"that of the instant {time}")
    _hold(name, table, version, known | (table[version] == -1), f"missing where {time} is")


def _resources(table: Table, batches: Table, seconds: float) -> int:
    """Check the table of resources, and return the number of slots."""
    places = len(table["resource"]) - 1
    names = np.array([*(f"place {place}" for place in range(places)), "trainer"])
    _same("resources", table, "resource", names, "place 0, place 1, ..., trainer")
    slack = SLACK * max(1.0, seconds)
    _within("resources", table, "busy blocked idle syncing", -slack, seconds + slack)
    total = table["busy"] + table["blocked"] + table["idle"] + table["syncing"]
    _hold("resources", table, "idle", np.abs(total - seconds) <= slack, "what busy, blocked and syncing leave")
    trainer = np.arange(places + 1) == places
    trained = float((batches["t_end"] - batches["t_start"]).sum())
    _hold("resources", table, "busy", ~trainer | (np.abs(table["busy"] - trained) <= slack), "the training of batches")
    _hold("resources", table, "blocked", ~trainer | (table["blocked"] == 0.0), "0 for the trainer")
    syncing = np.abs(table["syncing"] - table["syncing"][0]) <= slack
    _hold("resources", table, "syncing", trainer | syncing, "the same for all places")
    return places


def _publishes(table: Table, batches: Table, publish: int) -> None:
    _numbered("publishes", table, "version", 1)
    whole = len(table["version"]) == len(batches["batch"]) // publish
    _hold("publishes", table, "version", whole, f"one for every {publish} batches")
    _within("publishes", table, "in_flight scoring blocked ready packed outstanding unstarted", 0, checks.LARGEST)
    parts = sum(table[level] for level in ("in_flight", "scoring", "blocked", "ready", "packed"))
    _hold("publishes", table, "outstanding", table["outstanding"] == parts, "all that is somewhere")
    _hold("publishes", table, "unstarted", table["unstarted"] <= table["in_flight"], "at most those in flight")
    clocks = " ".join(column for column in table if column.startswith("clock_"))
    _rising("publishes", table, f"t_snapshot t_install {clocks}")
    _within("publishes", table, f"t_snapshot {clocks}", 0.0, np.inf)
    _ordered("publishes", table, "t_snapshot t_install")
    trained = batches["t_end"][publish * table["version"] - 1]
    _hold("publishes", table, "t_snapshot", table["t_snapshot"] >= trained, "behind the batches of its version")


def _batches(table: Table, publishes: Table, publish: int) -> None:
    _numbered("batches", table, "batch")
    _same("batches", table, "version", table["batch"] // publish, f"the batch divided by {publish}")
    _rising("batches", table, "t_pack t_start t_end")
    _in_time("batches", table, "version", "t_start", publishes["t_snapshot"])
    _in_time("batches", table, "installed", "t_start", publishes["t_install"])
    _ordered("batches", table, "installed version")
    _within("batches", table, "t_pack", 0.0, np.inf)
    _ordered("batches", table, "t_pack t_start t_end")
    before = np.append(-np.inf, table["t_end"])[: len(table["t_end"])]
    _hold("batches", table, "t_start", table["t_start"] >= before, "at least the end of the batch before")


def _uses(table: Table, batches: Table, groups: Table) -> None:
    count, rows = len(batches["batch"]), len(table["batch"])
    each = rows // max(1, count)
    _hold("uses", table, "batch", count * each == rows and (each > 0 or rows == 0), "as many groups in every batch")
    _same("uses", table, "batch", np.repeat(np.arange(count), each), "the batches in their order")
    _within("uses", table, "group", 0, len(groups["group"]) - 1)
    inside = np.append(True, (np.diff(table["group"]) > 0) | (np.diff(table["batch"]) > 0))
    _hold("uses", table, "group", inside[:rows], "ascending inside a batch")


def _groups(table: Table, uses: Table, batches: Table, publishes: Table, places: int, ahead: int) -> None:
    count = len(table["group"])
    _numbered("groups", table, "group")
    _same("groups", table, "uses", np.bincount(uses["group"], minlength=count), "how often it was used")
    first = np.full(count, -1)
    first[uses["group"][::-1]] = uses["batch"][::-1]
    _same("groups", table, "batch", first, "the first that used it")
    _same("groups", table, "v_train", np.append(batches["version"], -1)[first], "that of its batch")
    _hold("groups", table, "fate", np.isin(table["fate"], FATES), "one of " + ", ".join(FATES))
    trained = table["fate"] == "trained"
    _hold("groups", table, "fate", trained == (first >= 0), "trained where a batch used it, and only there")
    departures = np.where(trained, np.append(batches["t_start"], np.nan)[first], table["t_left"])
    _same("groups", table, "t_left", departures, "the start of its batch")
    unfinished = table["fate"] == "unfinished"
    _hold("groups", table, "t_left", np.isnan(table["t_left"]) == unfinished, "known but for unfinished groups")
    _within("groups", table, "place", 0, places - 1)
    _hold("groups", table, "prompt", (table["prompt"] >= 0) & (table["prompt"] <= table["group"]), "of a group so far")
    _hold("groups", table, "factor", table["factor"] > 0.0, "positive")
    _same("groups", table, "factor", table["factor"][table["prompt"]], "that of its prompt")
    _within("groups", table, "target", 0, checks.LARGEST, missing=True)
    entries = np.full(len(table["entry"]), -1)
    entered = np.flatnonzero(~np.isnan(table["t_ready"]))
    order = entered[np.lexsort((table["entry"][entered], table["t_ready"][entered]))]
    entries[order] = np.arange(order.size)
    _same("groups", table, "entry", entries, "counted by t_ready, missing where that is")
    _within("groups", table, "t_submit", 0.0, np.inf)
    _rising("groups", table, "t_submit v_submit")
    for times in ("t_submit t_done t_ready t_left", "t_done t_free"):
        _ordered("groups", table, times)
    for versions in ("v_submit v_start v_done", "v_submit v_left") if ahead else ("v_submit v_start v_done v_left",):
        _ordered("groups", table, versions, -1)
    for version, time, more in (("v_submit", "t_submit", 0), ("v_done", "t_done", ahead), ("v_left", "t_left", 0)):
        _in_time("groups", table, version, time, publishes["t_install"], more)


def _samples(table: Table, groups: Table, batches: Table, publishes: Table, ahead: int) -> None:
    count, rows = len(groups["group"]), len(table["sample"])
    size = rows // max(1, count)
    _numbered("samples", table, "sample")
    _hold("samples", table, "group", count * size == rows, "as many samples in every group")
    group = np.repeat(np.arange(count), size)
    _same("samples", table, "group", group, "the groups in their order")
    alone = table["fate"] == CANCELLED
    own: dict[str, Any] = {"batch": -1, "fate": CANCELLED}
    for column in ("place", "batch", "t_submit", "t_ready", "v_submit", "fate"):
        expected = groups[column][group]
        if column in own:
            expected = np.where(alone, own[column], expected)
        _same("samples", table, column, expected, "that of its group")
    for column, time in (("t_pack", "t_pack"), ("t_train", "t_start")):
        _same("samples", table, column, np.append(batches[time], np.nan)[table["batch"]], "that of its batch")
    servers = sum(column.startswith("clock_") for column in publishes)
    _same("samples", table, "server", table["place"] % servers, f"its place modulo {servers}")
    _within("samples", table, "attempt", 0, checks.LARGEST)
    first = np.zeros(int(table["place"].max(initial=-1)) + 1, dtype=np.int64)
    first[table["place"][::-1]] = np.arange(rows)[::-1]
    _hold("samples", table, "rate", table["rate"] > 0.0, "positive")
    _same("samples", table, "rate", table["rate"][first[table["place"]]], "that of its place")
    _ordered("samples", table, "t_submit t_start t_end t_scored t_ready t_pack t_train")
    _ordered("samples", table, "v_submit v_start v_ready", -1)
    for version, time in (("v_start", "t_start"), ("v_ready", "t_end")):
        _in_time("samples", table, version, time, publishes["t_install"], ahead)
    # Accept either convention for the last version.
    ended = table["v_ready"] >= 0
    starts = np.where(ended, table["v_start"], -1)
    pinned = bool((table["v_end"] == starts).all())
    _same("samples", table, "v_end", starts if pinned else table["v_ready"], "v_ready, or v_start of all that ended")
    _within("samples", table, "work wasted done", 0.0, np.inf)
    started, clock, bound = table["v_start"] >= 0, table["clock"], table["work"] * (1.0 + SLACK)
    _hold("samples", table, "v_ready", started | ~ended, "missing where it never started")
    _hold("samples", table, "done", (table["done"] <= bound) & (started | (table["done"] == 0.0)), "at most the work")
    whole = table["done"] >= table["work"] * (1.0 - SLACK)
    _hold("samples", table, "done", whole | ~ended, "the work where it ended")
    _hold("samples", table, "clock", ((clock >= 0.0) & (clock < np.inf)) | ~started, "known and not negative")


def _ends(table: Table, groups: Table) -> None:
    """Check times and versions of a group against those of its samples."""
    count = len(groups["group"])
    size = len(table["sample"]) // max(1, count)
    names = ("t_end", "t_scored", "v_ready", "v_start", "fate")
    end, scored, version, begun, fate = (table[name].reshape(count, size) for name in names)
    # A group that cancels samples in generation is done when the last that it keeps is in.
    alone = fate == CANCELLED
    cancels = (alone & np.isnan(end)).any(axis=1)
    enough = np.where(alone, -np.inf, scored).max(axis=1, initial=-np.inf)
    done = np.where(cancels, enough, end.max(axis=1, initial=-np.inf))
    _same("groups", groups, "t_done", done, "the last end of its samples")
    last = np.where((version >= 0).all(axis=1), version.max(axis=1, initial=-1), -1)
    _same("groups", groups, "v_done", np.where(cancels, groups["v_done"], last), "the last of its samples")
    head = np.where((begun >= 0) & ~alone, begun, checks.LARGEST).min(axis=1, initial=checks.LARGEST)
    _same("groups", groups, "v_start", np.where(head < checks.LARGEST, head, -1), "the least of its samples")


def _stretches(table: Table, samples: Table, publishes: Table) -> None:
    _within("stretches", table, "sample", 0, len(samples["sample"]) - 1)
    _hold("stretches", table, "sample", samples["v_start"][table["sample"]] >= 0, "one that started")
    _within("stretches", table, "version", 0, len(publishes["version"]))
    _within("stretches", table, "clock done", 0.0, np.inf)
    most = samples["work"][table["sample"]] * (1.0 + SLACK)
    _hold("stretches", table, "done", table["done"] <= most, "at most the work of its sample")
