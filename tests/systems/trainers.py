"""Six trainers as programs of their own loops, read from their sources: no setting of the event model occurs here.

Each follows one trainer step by step with a heap of timed actions, and returns its batches as they were trained. What
happens at one instant goes in the trainer's own order: a sample that ends lets the next one begin, then the trainer
looks, then prompts are asked for.
"""

import heapq
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np


@dataclass(eq=False)
class Group:
    """One prompt: version at its first sample, start and end of its samples so far, how many are missing."""

    version: int
    missing: int
    waiting: int = 0
    spans: list = field(default_factory=list)
    gone: bool = False


class Clock:
    """Time, and what is to happen at which."""

    def __init__(self, lengths):
        self.now, self.lengths, self.order, self.events = 0.0, lengths, count(), []
        self.installs, self.batches, self.lost = [], [], []

    def after(self, seconds, action, *arguments):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), action, arguments))

    def write(self, group, ended):
        """A sample of the group; `ended(group)` follows where the group is still there."""
        start, length = self.now, self.lengths()
        group.waiting -= 1
        self.after(length, self._written, group, (start, start + length), ended)

    def _written(self, group, span, ended):
        if not group.gone:
            group.spans.append(span)
            group.missing -= 1
            ended(group)

    def run(self, batches):
        while len(self.batches) < batches or self.batches[batches - 1]["end"] > self.now:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)
        del self.batches[batches:]
        return self

    def train(self, groups, version, seconds):
        self.batches.append({"groups": groups, "version": version, "start": self.now, "end": self.now + seconds})

    def drop(self, groups):
        self.lost += [len(self.batches)] * len(groups)

    def tokens(self, span, version):
        """Staleness of a sample's tokens, summed over its length."""
        first, last = bisect_right(self.installs, span[0]), bisect_left(self.installs, span[1])
        edges = [span[0], *self.installs[first:last], span[1]]
        return sum((version - first - k) * (b - a) for k, (a, b) in enumerate(pairwise(edges)))


def numbers(clock, warm):
    """What a log of the trained batches from number `warm` on says."""
    batches = clock.batches[warm:]
    groups = [(group, batch["version"]) for batch in batches for group in batch["groups"]]
    stale = [version - group.version for group, version in groups]
    spans = [(span, version) for group, version in groups for span in group.spans]
    seconds = batches[-1]["end"] - batches[0]["start"]
    return {
        "staleness": float(np.mean(stale)),
        "largest": max(stale),
        "token_staleness": sum(clock.tokens(*each) for each in spans) / sum(b - a for (a, b), _ in spans),
        "throughput": len(groups) / seconds,
        "trainer": sum(batch["end"] - batch["start"] for batch in batches) / seconds,
        "dropped": sum(at > warm for at in clock.lost) / (sum(at > warm for at in clock.lost) + len(groups)),
    }


def one_step_off(clock, batches, P, N, train, sync):
    """A batch is generated while the one before trains; weights move when both are over."""
    version, generated_with = 0, 0
    begin = 0.0
    for number in range(batches):
        groups = [Group(generated_with, 0) for _ in range(P)]
        for group in groups:
            group.spans = [(begin, begin + clock.lengths()) for _ in range(N)]
        ready = max(end for group in groups for _, end in group.spans)
        clock.now = max(ready, clock.batches[-1]["end"]) if number else ready
        if number:
            clock.now += sync
            clock.installs.append(clock.now)
            version += 1
        begin, generated_with = clock.now, version
        clock.train(groups, version, train)
    return clock


def areal(clock, batches, P, N, eta, C, train):
    """Prompts are submitted while fewer than C run and the accepted and running ones stay below (eta + V + 1) P."""
    state = {"version": 0, "running": 0, "accepted": 0, "busy": False}
    results = []

    def submit():
        while min(C - state["running"], (eta + state["version"] + 1) * P - state["accepted"] - state["running"]) > 0:
            state["running"] += 1
            group = Group(state["version"], N, N)
            group.number = next(numbers_)
            for _ in range(N):
                clock.write(group, ended)

    def ended(group):
        if group.missing == 0:
            state["running"] -= 1
            state["accepted"] += 1
            results.append(group)
            look()

    def look():
        if not state["busy"] and len(results) >= P:
            results.sort(key=lambda group: group.number)
            state["busy"] = True
            clock.train([results.pop(0) for _ in range(P)], state["version"], train)
            clock.after(train, trained)
        submit()

    def trained():
        state["busy"] = False
        state["version"] += 1
        clock.installs.append(clock.now)
        look()

    numbers_ = count()
    submit()
    return clock.run(batches)


def prime_rl(clock, batches, P, N, m, permits, train):
    """A step is collected, held until the version before last is there, and shipped; the trainer takes steps in order.

    A new version cancels running groups that the step in collection would find too stale; queued ones are voided when
    they arrive and when the step has moved on. No sample begins while shipped steps lead the version by two.
    """
    state = {"version": 0, "step": 1, "free": permits, "busy": False}
    running, arrived, queue, shipped = [], [], [], []
    held = []

    def too_stale(group):
        return state["step"] - 1 - group.version > m

    def schedule():
        while state["free"] > 0 and state["step"] - 1 - state["version"] <= 1:
            group = next((group for group in running if group.waiting), None)
            if group is None:
                group = Group(state["version"], N, N)
                running.append(group)
            state["free"] -= 1
            clock.write(group, ended)

    def ended(group):
        state["free"] += 1
        if group.missing == 0:
            running.remove(group)
            arrived.append(group)
        collect()

    def void():
        clock.drop([group for group in queue if too_stale(group)])
        queue[:] = [group for group in queue if not too_stale(group)]

    def collect():
        while True:
            # While a step is held, nothing that arrives is looked at.
            while not held and (arrived or len(queue) >= P):
                queue.extend(arrived[:1])
                del arrived[:1]
                void()
                if len(queue) >= P:
                    held.append(queue[:P])
                    del queue[:P]
            if not held or state["version"] < state["step"] - 2:
                break
            shipped.append(held.pop())
            state["step"] += 1
        learn()

    def learn():
        if not state["busy"] and shipped and len(clock.batches) <= state["version"]:
            state["busy"] = True
            clock.train(shipped.pop(0), len(clock.batches), train)
            clock.after(train, trained)
        schedule()

    def trained():
        state["busy"] = False
        state["version"] += 1
        clock.installs.append(clock.now)
        stale = [group for group in running if too_stale(group)]
        for group in stale:
            group.gone = True
            running.remove(group)
            state["free"] += N - group.waiting - len(group.spans)
        clock.drop(stale)
        collect()

    schedule()
    return clock.run(batches)


def pipeline_rl(clock, batches, P, N, lag, rollouts, ready, train):
    """Groups may be submitted for a batch and the lag, and for a batch more at each version; engines take samples.

    Without a lag any number may, and a ring of 128 samples loses its oldest.
    """
    allowed = float("inf") if lag is None else -(-lag // N) + P
    state = {"version": 0, "allowed": allowed, "free": rollouts, "busy": False}
    open_group, queue, packed = [], [], []

    def submit():
        while state["free"] > 0:
            if not open_group or open_group[0].waiting == 0:
                if state["allowed"] == 0:
                    return
                state["allowed"] -= 1
                open_group[:] = [Group(state["version"], N, N)]
            state["free"] -= 1
            clock.write(open_group[0], ended)

    def ended(group):
        state["free"] += 1
        if group.missing == 0:
            queue.append(group)
        if lag is None and len(queue) > max(P, 128 // N):
            clock.drop([queue.pop(0)])
        look()

    def look():
        while len(queue) >= P and (len(packed) < ready // (P * N) or not (packed or state["busy"])):
            packed.append(queue[:P])
            del queue[:P]
            learn()
        learn()
        submit()

    def learn():
        if packed and not state["busy"]:
            state["busy"] = True
            clock.train(packed.pop(0), state["version"], train)
            clock.after(train, trained)

    def trained():
        state["busy"] = False
        state["version"] += 1
        state["allowed"] += P
        clock.installs.append(clock.now)
        look()

    submit()
    return clock.run(batches)


def slime(clock, batches, P, N, C, train):
    """C groups at once before C in the queue, one semaphore of C for their samples; the next rollout is collected
    while this one trains, and the weights move when it is there."""
    state = {"version": 0, "free": C, "active": 0, "busy": False, "over": False}
    queue, line, rollout = [], [], []

    def serve():
        while state["free"] > 0 and line:
            group = line.pop(0)
            if group.version < 0:
                group.version = state["version"]
            state["free"] -= 1
            clock.write(group, ended)

    def top_up():
        while state["active"] < C and len(queue) < C:
            state["active"] += 1
            line.extend([Group(-1, N, N)] * N)
            serve()

    def ended(group):
        state["free"] += 1
        if group.missing == 0:
            state["active"] -= 1
            queue.append(group)
        serve()
        look()

    def collected():
        if not rollout and len(queue) >= P:
            rollout[:] = queue[:P]
            del queue[:P]
        return bool(rollout)

    def look():
        if state["over"] and collected():
            state.update(over=False, busy=False, version=state["version"] + 1)
            clock.installs.append(clock.now)
        if not state["busy"] and collected():
            state["busy"] = True
            clock.train(list(rollout), state["version"], train)
            rollout.clear()
            clock.after(train, trained)
        collected()
        top_up()

    def trained():
        state["over"] = True
        look()

    top_up()
    return clock.run(batches)


def roll(clock, batches, P, N, ratio, train):
    """Each step lets P prompts start, the first (1 + ratio) P; a batch empties the oldest step before the next."""
    state = {"version": 0, "busy": False, "allowed": P + int(np.ceil(ratio * P))}
    running, done = [], []

    def start():
        while state["allowed"] > 0:
            state["allowed"] -= 1
            group = Group(state["version"], N, N)
            running.append(group)
            for _ in range(N):
                clock.write(group, ended)

    def ended(group):
        if group.missing == 0:
            running.remove(group)
            done.append(group)
            look()

    def look():
        oldest = min((group.version for group in running), default=state["version"])
        usable = sorted((group for group in done if group.version <= oldest), key=lambda group: group.version)
        if not state["busy"] and len(usable) >= P:
            for group in usable[:P]:
                done.remove(group)
            state["busy"] = True
            clock.train(usable[:P], state["version"], train)
            clock.after(train, trained)
        start()

    def trained():
        state.update(busy=False, version=state["version"] + 1, allowed=P)
        clock.installs.append(clock.now)
        look()

    start()
    return clock.run(batches)
