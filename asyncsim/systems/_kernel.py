"""The event kernel: one realization of a system on flat arrays, resumable at every point where a caller may be asked.

Events are ordered by (time, priority, serial): completion 0, a place that becomes available 1, train end 2, install 3,
then dequeue, then admission; the serial belongs to the run. Where training takes no time, arrivals are served one by
one: dequeue, train end, install, admission, next dequeue.

Time here is the generation clock. A synchronization stops generators and trainer alike, so it moves no event against
another: it is added to the recorded times afterwards, once for every installed version.

Helpers take the arrays they use, not the state: reading a field of a tuple of arrays counts references atomically,
which costs more than the event does.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

# Entries of `setting`.
GROUPS, SAMPLES, BATCHES_PER_PUBLISH, AT_PUBLISH, QUANTUM, OLDEST_FIRST, MODE, ASK = range(8)
DRAIN, KEEP, RESTART, PIN = range(4)
# Entries of `count`.
(STEP, VERSION, ADMITTED, LAUNCHED, STARTED, FINISHED, BUSY, PUBLISHING, TICKETS, IN_FLIGHT, READY, COMPLETED, HEAP,
 FREE, FREE_HEAD, INLINE) = range(16)
NOW, TRAIN_END = range(2)
# Columns of `item` and `stamp` (a row for each sample), `group`, `batch`, `publish` and `level` (one for each publish).
WORK, START, END, WASTED, FIRST = range(5)
VERSION_START, VERSION_END, ATTEMPT = range(3)
MISSING, PLACE, VERSION_ADMITTED, BATCH = range(4)
TRAIN_TIME, TRAIN_FROM, TRAIN_TO = range(3)
SNAPSHOT, INSTALLED = range(2)
LEVEL_IN_FLIGHT, LEVEL_READY = range(2)
# Points at which `advance` goes on.
EVENTS, INSTALL, DEQUEUE, ADMIT = range(4)
# Why `advance` came back.
GOING, DONE, TRAINING, STARTS, PUBLISHED, STALLED, FULL = range(7)
# A heap code is the serial: samples enter in the order of their numbers, places come after every completion.
LATE = 1 << 60


class State(NamedTuple):
    """One realization; samples are numbered group * N + n, groups by admission."""

    setting: np.ndarray
    tally: np.ndarray
    clock: np.ndarray
    rate: np.ndarray
    free: np.ndarray
    times: np.ndarray
    codes: np.ndarray
    ready: np.ndarray
    item: np.ndarray
    stamp: np.ndarray
    group: np.ndarray
    batch: np.ndarray
    publish: np.ndarray
    level: np.ndarray


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _push(times, codes, count, time, code):
    i = count[HEAP]
    count[HEAP] = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if times[up] < time or (times[up] == time and codes[up] < code):
            break
        times[i], codes[i] = times[up], codes[up]
        i = up
    times[i], codes[i] = time, code


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _sift_down(times, codes, size, i, time, code):
    while True:
        low = 2 * i + 1
        if low >= size:
            break
        right = low + 1
        if right < size:
            low += (times[right] < times[low]) | ((times[right] == times[low]) & (codes[right] < codes[low]))
        if times[low] > time or (times[low] == time and codes[low] > code):
            break
        times[i], codes[i] = times[low], codes[low]
        i = low
    times[i], codes[i] = time, code


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _pop(times, codes, count):
    code = codes[0]
    last = count[HEAP] - 1
    count[HEAP] = last
    _sift_down(times, codes, last, 0, times[last], codes[last])
    return code


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _ready_push(ready, i, sift, group):
    while sift and i > 0 and ready[(i - 1) >> 1] > group:
        ready[i] = ready[(i - 1) >> 1]
        i = (i - 1) >> 1
    ready[i] = group


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _ready_pop(ready, size):
    top, group = ready[0], ready[size - 1]
    i = 0
    while 2 * i + 1 < size - 1:
        low = 2 * i + 1
        if low + 1 < size - 1:
            low += ready[low + 1] < ready[low]
        if ready[low] >= group:
            break
        ready[i] = ready[low]
        i = low
    ready[i] = group
    return top


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _free_place(free, count, place):
    tail = count[FREE_HEAD] + count[FREE]
    free[tail if tail < free.size else tail - free.size] = place
    count[FREE] += 1


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _complete(setting, count, item, stamp, group, now, code):
    """A sample ends; returns its group."""
    item[code, END] = now
    stamp[code, VERSION_END] = count[VERSION]
    # Divisions are dear here, and groups of one sample common.
    owner = code if setting[SAMPLES] == 1 else code // setting[SAMPLES]
    group[owner, MISSING] -= 1
    return owner


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _group_ready(setting, count, free, ready, group, owner):
    # `ready` is a heap of group numbers, or a queue that ends at the number of completions.
    oldest = setting[OLDEST_FIRST] == 1
    _ready_push(ready, count[READY] if oldest else count[COMPLETED], oldest, owner)
    _free_place(free, count, group[owner, PLACE])
    count[COMPLETED] += 1
    count[READY] += 1
    count[IN_FLIGHT] -= 1


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _train_end(setting, count, batch, publish, now):
    batch[count[FINISHED], TRAIN_TO] = now
    # The last batch of a publish leaves its own time; earlier ones are overwritten.
    publish[count[VERSION], SNAPSHOT] = now
    count[BUSY] = 0
    count[FINISHED] += 1
    count[PUBLISHING] = count[FINISHED] == (count[VERSION] + 1) * setting[BATCHES_PER_PUBLISH]


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _install(setting, count, publish, level, now):
    version = count[VERSION]
    publish[version, INSTALLED] = now
    level[version, LEVEL_IN_FLIGHT] = count[IN_FLIGHT]
    level[version, LEVEL_READY] = count[READY]
    count[PUBLISHING] = 0
    count[VERSION] = version + 1
    if setting[AT_PUBLISH]:
        count[TICKETS] += setting[GROUPS] * setting[BATCHES_PER_PUBLISH]


@numba.njit(cache=True)
def _restart(setting, count, rate, times, codes, item, stamp, group, now):
    """Throw away the progress of every sample in flight."""
    for i in range(count[HEAP]):
        code = codes[i]
        if code < LATE:
            item[code, WASTED] += (now - item[code, START]) * rate[group[code // setting[SAMPLES], PLACE]]
            item[code, START] = now
            stamp[code, VERSION_START] = count[VERSION]
            stamp[code, ATTEMPT] += 1
    _rekey(setting, count, rate, times, codes, item, group, now)


@numba.njit(cache=True)
def _rekey(setting, count, rate, times, codes, item, group, now):
    size = count[HEAP]
    for i in range(size):
        code = codes[i]
        if code < LATE:
            end = item[code, START] + item[code, WORK] / rate[group[code // setting[SAMPLES], PLACE]]
            times[i] = max(end, now)
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(times, codes, size, i, times[i], codes[i])


@numba.njit(cache=True)
def rekey(s):
    """Give every sample in flight the end that its work asks for, and order the heap anew."""
    _rekey(s.setting, s.tally, s.rate, s.times, s.codes, s.item, s.group, s.clock[NOW])


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _dequeue(setting, count, ready, group, batch, now):
    number = count[STARTED]
    for _ in range(setting[GROUPS]):
        if setting[OLDEST_FIRST]:
            owner = _ready_pop(ready, count[READY])
        else:
            owner = ready[count[COMPLETED] - count[READY]]
        count[READY] -= 1
        group[owner, BATCH] = number
    count[STARTED] = number + 1
    count[BUSY] = 1
    batch[number, TRAIN_FROM] = now
    if not setting[AT_PUBLISH]:
        count[TICKETS] += setting[GROUPS]


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _admit(setting, count, free, item, stamp, group, now):
    """Stamp groups while a quantum of tickets and of places is free."""
    quantum, samples = setting[QUANTUM], setting[SAMPLES]
    if setting[MODE] == DRAIN and count[PUBLISHING]:
        return
    while count[TICKETS] >= quantum and count[FREE] >= quantum:
        for _ in range(quantum):
            number = count[ADMITTED]
            count[ADMITTED] = number + 1
            group[number, PLACE] = free[count[FREE_HEAD]]
            count[FREE_HEAD] = count[FREE_HEAD] + 1 if count[FREE_HEAD] + 1 < free.size else 0
            count[FREE] -= 1
            group[number, MISSING] = samples
            group[number, VERSION_ADMITTED] = count[VERSION]
            group[number, BATCH] = -1
            for code in range(number * samples, (number + 1) * samples):
                item[code, START] = item[code, FIRST] = now
                item[code, END] = np.nan
                item[code, WASTED] = 0.0
                stamp[code, VERSION_START] = count[VERSION]
                stamp[code, VERSION_END] = -1
                stamp[code, ATTEMPT] = 0
        count[TICKETS] -= quantum
        count[IN_FLIGHT] += quantum


@numba.njit(cache=True, forceinline=True, error_model="numpy")
def _launch(setting, count, rate, times, codes, item, group):
    """Put the samples of newly admitted groups, whose work is known by now, into the heap."""
    samples = setting[SAMPLES]
    for number in range(count[LAUNCHED], count[ADMITTED]):
        for code in range(number * samples, (number + 1) * samples):
            _push(times, codes, count, item[code, START] + item[code, WORK] / rate[group[number, PLACE]], code)
    count[LAUNCHED] = count[ADMITTED]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance(state, stop_started, stop_finished):
    """Run on until so many batches have started or finished, or until the caller is asked; returns why.

    STARTS: fill in the work of the samples of groups LAUNCHED..ADMITTED; PUBLISHED: change the work of samples in
    flight and call `rekey`; both only where ASK is set. TRAINING, DONE: the wanted batch started, finished. STALLED:
    nothing can happen any more. FULL: go on with the `grown` state.
    """
    setting, count, clock, rate, free, times, codes, ready, item, stamp, group, batch, publish, level = state
    ask, restart, drain = setting[ASK] == 1, setting[MODE] == RESTART, setting[MODE] == DRAIN
    reask = ask and (setting[MODE] == KEEP or restart)
    _launch(setting, count, rate, times, codes, item, group)
    step, now, why = count[STEP], clock[NOW], GOING
    while why == GOING:
        if step == EVENTS:
            train_end = clock[TRAIN_END] if count[BUSY] else np.inf
            now = min(train_end, times[0] if count[HEAP] else np.inf)
            if now == np.inf:
                why = STALLED
                break
            clock[NOW] = now
            while count[HEAP] > 0 and times[0] == now:
                code = _pop(times, codes, count)
                if code >= LATE:
                    _free_place(free, count, code - LATE)
                    continue
                owner = _complete(setting, count, item, stamp, group, now, code)
                if group[owner, MISSING] == 0:
                    _group_ready(setting, count, free, ready, group, owner)
            if train_end == now:
                _train_end(setting, count, batch, publish, now)
            step = INSTALL
        if step == INSTALL:
            step = ADMIT if count[INLINE] else DEQUEUE
            if count[PUBLISHING] and not (drain and count[IN_FLIGHT] > 0):
                _install(setting, count, publish, level, now)
                if restart:
                    _restart(setting, count, rate, times, codes, item, stamp, group, now)
                if reask:
                    why = PUBLISHED
            if count[FINISHED] >= stop_finished and not count[PUBLISHING]:
                why = DONE
        elif step == DEQUEUE and count[PUBLISHING]:
            # A drain: nothing is dequeued or admitted before its install.
            step = EVENTS
        elif step == DEQUEUE:
            step = ADMIT
            count[INLINE] = 0
            if not count[BUSY] and count[READY] >= setting[GROUPS]:
                _dequeue(setting, count, ready, group, batch, now)
                clock[TRAIN_END] = now + batch[count[STARTED] - 1, TRAIN_TIME]
                if batch[count[STARTED] - 1, TRAIN_TIME] == 0.0:
                    count[INLINE] = 1
                    step = INSTALL
                    _train_end(setting, count, batch, publish, now)
                if count[STARTED] >= stop_started:
                    why = TRAINING
        elif count[ADMITTED] + free.size > group.shape[0]:
            why = FULL
        else:
            step = DEQUEUE if count[INLINE] else EVENTS
            _admit(setting, count, free, item, stamp, group, now)
            if count[ADMITTED] > count[LAUNCHED]:
                if ask:
                    why = STARTS
                else:
                    _launch(setting, count, rate, times, codes, item, group)
    count[STEP] = step
    return why


def grown(state: State) -> State:
    """The same state with room for twice as many groups; the work of the new samples is the caller's to fill."""
    def doubled(array: np.ndarray) -> np.ndarray:
        return np.concatenate([array, np.empty_like(array)])

    return state._replace(**{name: doubled(getattr(state, name)) for name in ("ready", "item", "stamp", "group")})


def new_state(
    setting: np.ndarray, tickets: int, rates: np.ndarray, offsets: np.ndarray, train_time: np.ndarray,
    work: np.ndarray | float, groups: int,
) -> State:
    """State at time 0 under version 0, before the first admission.

    Arguments: `setting` int64 [8]; `tickets`; `rates` and `offsets` float64 [places], work per second and first second
    of each place; `train_time` float64 [B]; `work` float64 [groups * N] or NaN; `groups`, room for so many.
    """
    samples, batches = int(setting[SAMPLES]), train_time.size
    items, entries = groups * samples, rates.size * samples + rates.size
    # One row more than publishes: batches after the last publish note their end in it.
    versions = batches // int(setting[BATCHES_PER_PUBLISH]) + 1
    count = np.zeros(16, dtype=np.int64)
    count[STEP], count[TICKETS] = ADMIT, tickets
    # Rows are filled at their event: what the counts do not cover has never been written.
    item, batch = np.empty((items, 5)), np.empty((batches, 3))
    item[:, WORK], batch[:, TRAIN_TIME] = work, train_time
    # Places that open at the same instant enter in the order of their numbers; an ascending array is a heap.
    late = np.flatnonzero(offsets > 0.0)
    late = late[np.argsort(offsets[late], kind="stable")]
    times, codes = np.zeros(entries), np.zeros(entries, dtype=np.int64)
    times[: late.size], codes[: late.size], count[HEAP] = offsets[late], LATE + late, late.size
    free, early = np.zeros(rates.size, dtype=np.int64), np.flatnonzero(offsets <= 0.0)
    free[: early.size], count[FREE] = early, early.size
    return State(
        setting, count, np.zeros(2), rates, free, times, codes, np.empty(groups, dtype=np.int64), item,
        np.empty((items, 3), dtype=np.int32), np.empty((groups, 4), dtype=np.int64), batch, np.empty((versions, 2)),
        np.empty((versions, 2), dtype=np.int64),
    )
