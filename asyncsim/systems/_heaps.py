"""Heaps and rings on flat arrays, compiled: servers' completions, the wall clock's events, the buffer."""

from asyncsim.systems._compile import compiled


@compiled
def sift_up(keys, codes, o, i, key, code, top=0):
    """Move (key, code) from position i towards `top` in the heap that begins at o; ties are broken by code."""
    while i > top:
        up = (i - 1) >> 1
        if keys[o + up] < key or (keys[o + up] == key and codes[o + up] < code):
            break
        keys[o + i], codes[o + i] = keys[o + up], codes[o + up]
        i = up
    keys[o + i], codes[o + i] = key, code


@compiled
def sift_down(keys, codes, o, size, i, key, code):
    """Move (key, code) down from position i of a heap of the given size that begins at o; ties go by code."""
    # Move the smaller children up, without a look at the key: it mostly belongs near the end of their path.
    top = i
    while 2 * i + 2 < size:
        low = 2 * i + 1
        left, right = keys[o + low], keys[o + low + 1]
        low += codes[o + low + 1] < codes[o + low] if left == right else right < left
        keys[o + i], codes[o + i] = keys[o + low], codes[o + low]
        i = low
    if 2 * i + 1 < size:
        keys[o + i], codes[o + i] = keys[o + 2 * i + 1], codes[o + 2 * i + 1]
        i = 2 * i + 1
    # Move them down again that are larger than it.
    sift_up(keys, codes, o, i, key, code, top)


@compiled
def heapify(keys, codes, o, size):
    for i in range(size // 2 - 1, -1, -1):
        sift_down(keys, codes, o, size, i, keys[o + i], codes[o + i])


@compiled
def timed_push(timed, size, time, order, what):
    """Push an event onto the heap of the wall clock; ties are broken by order."""
    i = size
    while i > 0:
        up = (i - 1) >> 1
        above = timed[up]
        if above.time < time or (above.time == time and above.order < order):
            break
        timed[i].time, timed[i].order, timed[i].what = above.time, above.order, above.what
        i = up
    timed[i].time, timed[i].order, timed[i].what = time, order, what


@compiled
def timed_move(timed, to, at):
    """Copy one event in the heap of the wall clock to another position."""
    timed[to].time, timed[to].order, timed[to].what = timed[at].time, timed[at].order, timed[at].what


@compiled
def timed_sift(timed, size, i):
    """Sift down the event at position i in the heap of the wall clock."""
    time, order, what = timed[i].time, timed[i].order, timed[i].what
    while True:
        low = 2 * i + 1
        if low >= size:
            break
        if low + 1 < size:
            left, right = timed[low], timed[low + 1]
            if right.time < left.time or (right.time == left.time and right.order < left.order):
                low += 1
        below = timed[low]
        if below.time > time or (below.time == time and below.order > order):
            break
        timed[i].time, timed[i].order, timed[i].what = below.time, below.order, below.what
        i = low
    timed[i].time, timed[i].order, timed[i].what = time, order, what


@compiled
def timed_heapify(timed, size):
    for i in range(size // 2 - 1, -1, -1):
        timed_sift(timed, size, i)


@compiled
def ring_end(room, head, count):
    """Index after the end of a queue of `count` entries that begins at `head` of a ring of `room` entries."""
    tail = head + count
    return tail if tail < room else tail - room


@compiled
def ring_put(ring, o, room, head, count, value):
    """Append to the queue of `count` entries that begins at `head` of a ring of `room` entries at offset o."""
    ring[o + ring_end(room, head, count)] = value


@compiled
def line_of(number, size):
    """Index of an entry in a table that keeps the latest entries; a table as long as the run keeps all."""
    return number if number < size else number % size


@compiled
def ring_next(room, head):
    """Head of a ring's queue after its first entry is removed."""
    return head + 1 if head + 1 < room else 0


@compiled
def sort(values, count):
    for end in range(count // 2 - 1, -1, -1):
        _sink(values, end, count)
    for end in range(count - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        _sink(values, 0, end)


@compiled
def _sink(values, i, size):
    value = values[i]
    while 2 * i + 1 < size:
        high = 2 * i + 1
        if high + 1 < size and values[high + 1] > values[high]:
            high += 1
        if values[high] <= value:
            break
        values[i] = values[high]
        i = high
    values[i] = value
