"""The event model once more in plain Python, from its description: dictionaries, lists, one heap of events.

Unlike the kernel it lives on the wall clock: a synchronization is an interval in which the generators stand still, so
every event of theirs that is still to come is put off by its length.
"""

from __future__ import annotations

import heapq

COMPLETION, PLACE, TRAIN_END, INSTALL = range(4)


class Twin:
    """One run; `works(sample)` and `train_times` are given, `system` is read for its settings only."""

    def __init__(self, system, samples_per_group, works, train_times):
        self.s, self.n, self.works, self.train_times = system, samples_per_group, works, train_times
        self.now, self.serial, self.heap = 0.0, 0, []
        self.version = self.trained = self.started = 0
        self.tickets = float("inf") if system.tickets is None else system.tickets
        self.training = self.publishing = self.syncing = self.served = False
        self.samples, self.groups, self.ready, self.batches, self.publishes = {}, {}, [], [], []
        offsets = system.offsets or [0.0] * len(system.rates)
        self.free = [w for w, t in enumerate(offsets) if t == 0]
        for w, t in sorted(enumerate(offsets), key=lambda pair: pair[1]):
            if t > 0:
                self.push(t, PLACE, w)

    def push(self, time, priority, what):
        heapq.heappush(self.heap, (time, priority, self.serial, what))
        self.serial += 1

    def run(self, batches):
        self.admit()
        while not (self.trained == batches and not self.publishing):
            self.now = self.heap[0][0]
            while self.heap and self.heap[0][0] == self.now:
                _, priority, _, what = heapq.heappop(self.heap)
                (self.complete, self.free.append, self.train_end, self.install)[priority](what)
            self.settle(batches)
        return self

    def complete(self, key):
        sample = self.samples[key]
        sample.update(t_end=self.now, v_ready=self.version)
        group = self.groups[key[0]]
        group["missing"] -= 1
        if not group["missing"]:
            group["t_ready"] = self.now
            self.free.append(group["place"])
            self.ready.append(key[0])

    def train_end(self, _):
        self.training = False
        self.batches[-1]["t_end"] = self.now
        self.trained += 1
        if self.trained % self.s.batches_per_publish == 0:
            self.publishing = True
            self.publishes.append({"t_snapshot": self.now})

    def flying(self):
        return [key for key, sample in self.samples.items() if "t_end" not in sample]

    def begin_sync(self):
        pause = self.s.sync_time
        self.syncing = True
        self.heap = [(t + pause, *rest) if rest[0] in (COMPLETION, PLACE) else (t, *rest) for t, *rest in self.heap]
        heapq.heapify(self.heap)
        if pause:
            self.push(self.now + pause, INSTALL, None)
        else:
            self.install(None)

    def install(self, _):
        self.syncing = self.publishing = False
        outstanding = {g for g in self.groups if "batch" not in self.groups[g]}
        self.publishes[-1].update(
            t_install=self.now, in_flight=len(outstanding) - len(self.ready), ready=len(self.ready),
            outstanding=len(outstanding),
        )
        self.version += 1
        if self.s.release == "publish":
            self.tickets += self.s.groups_per_batch * self.s.batches_per_publish
        if self.s.mode == "restart":
            self.restart()

    def restart(self):
        ends = {}
        for key in self.flying():
            sample = self.samples[key]
            rate = self.s.rates[self.groups[key[0]]["place"]]
            # Progress is made outside the pause that has just ended.
            sample["wasted"] += (self.now - self.s.sync_time - sample["t_start"]) * rate
            sample.update(t_start=self.now, v_start=self.version, attempt=sample["attempt"] + 1)
            ends[key] = self.now + sample["work"] / rate
        self.heap = [(ends[e[3]], *e[1:]) if e[1] == COMPLETION else e for e in self.heap]
        heapq.heapify(self.heap)

    def settle(self, batches):
        while True:
            if self.publishing and not self.syncing and (self.s.mode != "drain" or not self.flying()):
                self.begin_sync()
            if self.syncing or (self.trained == batches and not self.publishing):
                return
            if self.served and not self.publishing:
                self.served = False
                self.admit()
            if not self.training and not self.publishing and len(self.ready) >= self.s.groups_per_batch:
                self.dequeue()
                continue
            if self.training or not self.served:
                self.admit()
            return

    def dequeue(self):
        if self.s.order == "oldest_start":
            self.ready.sort()
        batch = len(self.batches)
        for group in self.ready[: self.s.groups_per_batch]:
            self.groups[group]["batch"] = batch
        del self.ready[: self.s.groups_per_batch]
        if self.s.release == "dequeue":
            self.tickets += self.s.groups_per_batch
        self.batches.append({"t_start": self.now, "version": self.version})
        self.training = True
        if self.train_times[batch] == 0:
            self.train_end(None)
            self.served = True
        else:
            self.push(self.now + self.train_times[batch], TRAIN_END, None)

    def admit(self):
        if self.publishing and self.s.mode == "drain":
            return
        while self.tickets >= self.s.quantum and len(self.free) >= self.s.quantum:
            for _ in range(self.s.quantum):
                group, place = len(self.groups), self.free.pop(0)
                self.groups[group] = {"place": place, "missing": self.n, "v_submit": self.version}
                for k in range(self.n):
                    work = self.works(group * self.n + k)
                    self.samples[group, k] = {
                        "work": work, "t_submit": self.now, "t_start": self.now, "v_start": self.version, "attempt": 0,
                        "wasted": 0.0,
                    }
                    self.push(self.now + work / self.s.rates[place], COMPLETION, (group, k))
            self.tickets -= self.s.quantum

    def history(self):
        """Everything that happened, as rows to be compared by equality."""
        samples = [
            (g, sample["work"], self.groups[g]["place"], sample["t_submit"], sample["t_start"], sample.get("t_end"),
             self.groups[g]["v_submit"], sample["v_start"], sample.get("v_ready", -1), sample["attempt"],
             sample["wasted"], self.groups[g].get("batch", -1))
            for (g, _), sample in sorted(self.samples.items())
        ]
        batches = [(b["t_start"], b["t_end"], b["version"]) for b in self.batches]
        columns = ("t_snapshot", "t_install", "in_flight", "ready", "outstanding")
        return samples, batches, [tuple(p[c] for c in columns) for p in self.publishes]


def history_of(timeline):
    """The same rows from a timeline."""
    def rows(table, *names):
        return [
            tuple(None if value != value else value for value in row)
            for row in zip(*(table[name].tolist() for name in names), strict=True)
        ]

    samples = rows(
        timeline.samples, "group", "work", "place", "t_submit", "t_start", "t_end", "v_submit", "v_start", "v_ready",
        "attempt", "wasted", "batch",
    )
    publishes = rows(timeline.publishes, "t_snapshot", "t_install", "in_flight", "ready", "outstanding")
    return samples, rows(timeline.batches, "t_start", "t_end", "version"), publishes
