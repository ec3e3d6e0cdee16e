"""Part of the event model as a SimPy program: a process for each sample, group and server, and one for the trainer.

The part: servers with slots and a decode curve; rewards, holding or not; tickets with both releases and a quantum;
orders done, oldest_start with a window, freshest; a buffer with room for so many, block or drop_oldest; the age rule
that drops what is ready when a batch is packed, by the head's version; training that takes time; publishes that take
none; keep and pin. Works must be smooth: what happens first at an instant that two causes share is not settled here.
"""

from __future__ import annotations

from types import SimpleNamespace

import simpy


class Server:
    """Processor sharing by a curve: its clock runs at `decode[n - 1]` with n samples that write."""

    def __init__(self, env, slots, decode):
        self.env, self.decode = env, decode
        self.slots = simpy.Resource(env, capacity=slots if slots is not None else 10**6)
        self.clock, self.since, self.writing = 0.0, 0.0, {}
        self.changed = env.event()
        env.process(self.tick())

    def speed(self):
        return 1.0 if self.decode is None else self.decode[min(len(self.writing), len(self.decode)) - 1]

    def catch_up(self):
        if self.writing:
            self.clock += (self.env.now - self.since) * self.speed()
        self.since = self.env.now

    def write(self, amount):
        """An event for the end of so much work."""
        self.catch_up()
        end = self.env.event()
        self.writing[end] = self.clock + amount
        self.changed.succeed()
        self.changed = self.env.event()
        return end

    def tick(self):
        while True:
            if not self.writing:
                yield self.changed
                continue
            end = min(self.writing, key=self.writing.get)
            wait = self.env.timeout(max((self.writing[end] - self.clock) / self.speed(), 0.0))
            yield wait | self.changed
            if wait.processed:
                self.catch_up()
                del self.writing[end]
                end.succeed()


class Program:
    """One run; `draws` as for the twin."""

    def __init__(self, system, samples_per_group, draws):
        self.s, self.n, self.draws, self.env = system, samples_per_group, draws, simpy.Environment()
        self.servers = [Server(self.env, system.slots, system.decode) for _ in range(system.servers)]
        self.free, self.groups, self.buffer, self.blocked = list(range(len(system.rates))), [], [], []
        self.version, self.batches = 0, []
        self.tickets = float("inf") if system.tickets is None else system.tickets
        self.arrival = self.env.event()

    def run(self, batches):
        self.admit()
        self.env.run(self.env.process(self.trainer(batches)))
        return self

    def admit(self):
        while self.tickets >= self.s.quantum and len(self.free) >= self.s.quantum:
            self.tickets -= self.s.quantum
            for _ in range(self.s.quantum):
                options = {"head": None, "t_ready": None, "fate": "unfinished", "batch": -1, "inside": False}
                group = SimpleNamespace(
                    number=len(self.groups),
                    place=self.free.pop(0),
                    t_submit=self.env.now,
                    v_submit=self.version,
                    starts=[None] * self.n,
                    ends=[None] * self.n,
                    scores=[None] * self.n,
                    **options,
                )
                self.groups.append(group)
                self.env.process(self.group(group))

    def sample(self, group, k, ended):
        number = group.number * self.n + k
        server = self.servers[group.place % len(self.servers)]
        slot = server.slots.request()
        yield slot
        group.starts[k] = (self.env.now, self.version)
        if group.head is None:
            group.head = self.version
        yield server.write(self.draws.work(number) / self.s.rates[group.place])
        group.ends[k] = (self.env.now, self.version)
        if not self.s.reward_holds:
            server.slots.release(slot)
        ended.succeed()
        if self.s.reward is not None:
            yield self.env.timeout(self.draws.reward(number))
        group.scores[k] = self.env.now
        if self.s.reward_holds:
            server.slots.release(slot)

    def group(self, group):
        ended = [self.env.event() for _ in range(self.n)]
        scored = [self.env.process(self.sample(group, k, event)) for k, event in enumerate(ended)]
        yield self.env.all_of(ended)
        blocks = self.s.capacity is not None and self.s.overflow == "block"
        holds = self.s.reward_holds or blocks
        if not holds:
            self.free.append(group.place)
            self.admit()
        yield self.env.all_of(scored)
        if self.full() and blocks:
            room = self.env.event()
            self.blocked.append((group, room))
            yield room
        else:
            if self.full():
                self.drop(self.buffer[0], "dropped_overflow")
            self.put(group)
        if holds:
            self.free.append(group.place)
        self.admit()
        self.arrival.succeed()
        self.arrival = self.env.event()

    def full(self):
        return self.s.capacity is not None and len(self.buffer) >= self.s.capacity

    def put(self, group):
        group.t_ready, group.inside = self.env.now, True
        self.buffer.append(group)

    def drop(self, group, fate):
        group.fate = fate
        self.buffer.remove(group)
        self.tickets += 1

    def let_in(self):
        while self.blocked and not self.full():
            group, room = self.blocked.pop(0)
            self.put(group)
            room.succeed()

    def age_rule(self):
        planned = len(self.batches) // self.s.batches_per_publish
        old = [g for g in self.buffer if self.s.max_age is not None and planned - g.head > self.s.max_age]
        for group in old:
            self.drop(group, "dropped_age")
        return bool(old)

    def choose(self):
        """Ready groups in their order, after the age rule; fewer than a batch: none."""
        cut = self.age_rule()
        eligible = list(self.buffer)
        if self.s.order == "oldest_start":
            missing = [group.number for group in self.groups if not group.inside]
            if self.s.window is not None and missing:
                eligible = [group for group in eligible if group.number < missing[0] + self.s.window]
            eligible.sort(key=lambda group: group.number)
        if self.s.order == "freshest":
            eligible.sort(key=lambda group: -group.number)
        if len(eligible) >= self.s.groups_per_batch:
            return eligible[: self.s.groups_per_batch]
        self.let_in()
        return self.choose() if cut else []

    def trainer(self, batches):
        while len(self.batches) < batches:
            chosen = self.choose()
            self.admit()
            if not chosen:
                yield self.arrival
                continue
            for group in chosen:
                self.buffer.remove(group)
                group.fate, group.batch = "trained", len(self.batches)
            self.let_in()
            if self.s.release == "dequeue":
                self.tickets += self.s.groups_per_batch
            self.admit()
            begin = self.env.now
            self.batches.append((begin, begin + self.draws.train_times[len(self.batches)]))
            yield self.env.timeout(self.batches[-1][1] - begin)
            if len(self.batches) % self.s.batches_per_publish == 0:
                self.version += 1
                if self.s.release == "publish":
                    self.tickets += self.s.groups_per_batch * self.s.batches_per_publish
                self.admit()

    def history(self):
        """Rows as in the twin's history, those columns that exist here."""
        end = self.env.now
        samples = [
            (g.number * self.n + k, g.place, g.t_submit, start[0], done[0], g.scores[k], g.v_submit, start[1], done[1])
            for g in self.groups
            for k in range(self.n)
            for start in [g.starts[k] or (None, -1)]
            for done in [g.ends[k] or (None, -1)]
            if g.t_submit < end
        ]
        groups = [
            (g.number, g.place, g.t_submit, g.t_ready, g.v_submit, -1 if g.head is None else g.head, g.batch, g.fate)
            for g in self.groups
            if g.t_submit < end
        ]
        return {"samples": samples, "groups": groups, "batches": list(self.batches)}


NAMES = {
    "samples": ("sample", "place", "t_submit", "t_start", "t_end", "t_scored", "v_submit", "v_start", "v_ready"),
    "groups": ("group", "place", "t_submit", "t_ready", "v_submit", "v_start", "batch", "fate"),
    "batches": ("t_start", "t_end"),
}
"""The columns of a program's history by their names in the twin's."""
