"""The event model once more in plain Python, from its description alone: dictionaries, lists, a search for each event.

`twin_servers.py` has servers and samples, `twin_buffer.py` what becomes of finished groups, `histories.py` compares;
here are admission, training, publishes.
"""

from types import SimpleNamespace

from tests.systems.twin_buffer import Buffer
from tests.systems.twin_servers import INFINITE, INSTALL, OPENING, TRAIN_END


class Stalled(Exception):
    """Nothing can happen any more."""


class Endless(Exception):
    """More events than a run of this size can need: what happens does not bring the next batch nearer."""


class Group(SimpleNamespace):
    """A group, as it is admitted."""

    holds, visible, fate, stage = True, False, "unfinished", "generation"
    t_done = t_ready = t_left = t_pack = None
    v_done = v_left = entry = batch = -1
    packings = uses = 0


class Sample(SimpleNamespace):
    """A sample that has not begun."""

    state, fresh, holds, permit, cancelled = "", True, False, False, False
    done_0 = w_0 = wasted = 0.0
    piece, attempt, fail_at = 1, 0, INFINITE
    t_start = t_end = t_scored = timer = None
    v_start = v_end = v_ready = -1


class Twin(Buffer):
    """One run; `system` is read for its settings only.

    `draws` has callables: `work(sample)`, `reward(sample)`, `environment(sample, turn)`, `failure(sample, attempt)`,
    `difficulty(group)`, `accepted(group)`, `uniform(batch, draw)`; and `train_times`, a list.
    """

    def __init__(self, system, samples_per_group, draws):
        super().__init__(system, draws)
        self.kept, self.target_batches = samples_per_group, 0
        self.n = samples_per_group + system.redundant
        self.instant = system.token_time == 0.0 and not any(draws.train_times)
        self.v_t, self.started, self.trained, self.packings = 0, 0, 0, 0
        self.allowed, self.stalenesses = INFINITE if system.permits is None else system.permits, []
        self.training = self.wanted = self.on_way = self.waiting_snapshot = False
        self.tickets = INFINITE if system.tickets is None else system.tickets
        self.late_tickets = self.entries = self.targets = 0
        self.buffer, self.blocked, self.packed, self.recent = [], [], [], []
        self.requeued, self.returned = [], []
        self.batches, self.publishes = [], []
        offsets = system.offsets or [0.0] * len(system.rates)
        self.free = [place for place, second in enumerate(offsets) if second == 0.0]
        for second, place in sorted((second, place) for place, second in enumerate(offsets)):
            if second > 0.0:
                self.after(second, OPENING, self.free.append, place)

    def run(self, batches, events=100_000):
        self.target_batches = batches
        self.settle()
        while not self.over():
            event = self.next_event()
            if event is None:
                raise Stalled(f"after {self.trained} batches at {self.now}")
            events -= 1
            if events < 0:
                raise Endless(f"after {self.trained} batches at {self.now}")
            self.take(event)
            following = self.next_event()
            if self.instant or following is None or following[0] > self.now:
                self.settle()
        return self

    def over(self):
        return self.trained == self.target_batches and self.v_t == self.v_g

    def settle(self):
        changed = True
        while changed:
            changed = self.begin_publish()
            if self.over():
                return
            changed |= self.unblock()
            changed |= self.pack()
            changed |= self.train()
            if self.over():
                return
        self.dispatch()
        self.admit()

    # Admission.

    def closed(self):
        return self.paused or (self.s.mode == "drain" and self.v_t > self.v_g)

    def admit(self):
        q = self.s.quantum
        while not self.closed() and self.tickets >= q and len(self.free) >= q:
            if self.too_far_ahead() or self.permitted >= self.allowed:
                return
            if self.s.rounds and self.round_is_on():
                return
            if self.s.overflow == "close" and self.s.capacity is not None and len(self.buffer) >= self.s.capacity:
                return
            if self.s.epoch is not None and self.asked() + q > self.epochs() * self.s.epoch * self.s.groups_per_batch:
                return
            self.tickets -= q
            places = [self.free.pop(0) for _ in range(q)]
            for place in places:
                self.admit_group(place)

    def round_is_on(self):
        """A round is generated, scored, large enough, packed, in training, or its weights are not installed."""
        going = any(group.stage in ("generation", "scoring") for group in self.groups.values())
        enough = len(self.buffer) >= self.s.groups_per_batch
        return going or enough or self.packings > self.trained or self.v_t > self.v_g or self.waiting_snapshot

    def asked(self):
        """Groups admitted that are not lost."""
        return sum(group.fate in ("unfinished", "trained") for group in self.groups.values())

    def epochs(self):
        """Epochs that have begun: the first, and one more when the batches of one are trained and published."""
        over = self.trained // self.s.epoch
        at_the_end = self.trained == over * self.s.epoch and self.v_t > self.v_g
        return over if at_the_end else over + 1

    def admit_group(self, place):
        number = len(self.groups)
        target = -1
        if self.s.order == "target" and self.returned:
            target = self.returned.pop(0)
        elif self.s.order == "target":
            target, self.targets = self.targets, self.targets + 1
        prompt, stamps = self.requeued.pop(0) if self.requeued else number, {"t_submit": self.now, "v_submit": self.v_g}
        counts = {"missing": self.n, "unscored": self.kept}
        group = Group(number=number, place=place, prompt=prompt, target=target, **stamps, **counts)
        self.groups[number] = group
        factor = self.draws.difficulty(group.prompt) if self.s.difficulty is not None else 1.0
        group.samples = [
            Sample(
                number=number * self.n + k,
                group=number,
                place=place,
                rate=self.s.rates[place],
                work=self.draws.work(number * self.n + k) * factor,
                breakpoints=[],
                **stamps,
            )
            for k in range(self.n)
        ]
        for sample in group.samples:
            self.samples[sample.number] = sample
            self.outside.append(sample)
        self.dispatch()

    def too_far_ahead(self):
        """Whether the packed batches lead by more versions than any sample may begin with."""
        return self.s.lead is not None and self.packings // self.s.batches_per_publish - self.v_g > self.s.lead

    def dispatch(self):
        """Samples go to their servers in the order of their numbers while there are permits, within the lead."""
        while self.outside and self.permitted < self.allowed and not self.too_far_ahead():
            self.permitted += 1
            sample = self.outside.pop(0)
            sample.permit = True
            self.join(sample)

    # Training and publishing.

    def pack(self):
        """Whether anything changed: the age rule, or a batch packed."""
        if self.packings == self.target_batches:
            return False
        if not (len(self.packed) < self.s.prefetch or (not self.packed and self.can_start())):
            return False
        changed = self.cut(self.s.age_at_pack)
        chosen = self.choose()
        if not chosen:
            return changed
        for group in chosen:
            group.packings += 1
            if group.packings == 1:
                group.t_pack, group.stage = self.now, "packed"
            if group.packings == self.s.max_uses:
                self.buffer.remove(group)
        self.packed.append((self.now, chosen))
        self.packings += 1
        if self.s.release == "dequeue":
            self.tickets += self.s.groups_per_batch
        if self.s.rounds:
            for group in list(self.buffer):
                self.drop(group, "dropped_overflow")
        return True

    def can_start(self):
        """`V_T > V_G` from the snapshot to the install."""
        publishing = self.s.trainer_waits and self.v_t > self.v_g
        return not (self.training or self.waiting_snapshot or publishing or self.started == self.target_batches)

    def train(self):
        if not self.packed or not self.can_start():
            return False
        t_pack, taken = self.packed.pop(0)
        number = self.started
        self.started += 1
        self.training = True
        for group in taken:
            group.uses += 1
            self.stalenesses.append(self.v_t - self.v_head(group))
            if group.fate == "unfinished":
                group.fate, group.batch, group.stage = "trained", number, "left"
                group.t_left, group.v_left = self.now, self.v_g
        self.batches.append(
            SimpleNamespace(
                t_pack=t_pack, t_start=self.now, t_end=None, v_t=self.v_t, v_g=self.v_g, taken=[g.number for g in taken]
            )
        )
        if self.instant:
            self.train_end()
            self.begin_publish()
            if not self.over():
                self.dispatch()
                self.admit()
        else:
            work = sum(sample.work for group in taken for sample in group.samples if not sample.cancelled)
            self.after(self.draws.train_times[number] + self.s.token_time * work, TRAIN_END, self.train_end)
            if self.s.colocated:
                self.pause(True)
        return True

    def train_end(self):
        self.training = False
        self.batches[-1].t_end = self.now
        self.trained += 1
        if self.trained % self.s.batches_per_publish == 0:
            if self.v_t > self.v_g:
                self.waiting_snapshot = True
            else:
                self.snapshot()
        elif self.s.colocated:
            self.pause(False)

    def snapshot(self):
        self.waiting_snapshot, self.wanted = False, True
        self.v_t += 1
        self.publishes.append(SimpleNamespace(t_snapshot=self.now, t_install=None, levels={}))

    def begin_publish(self):
        if not self.wanted:
            return False
        if self.s.mode == "drain" and any(group.missing and group.stage != "left" for group in self.groups.values()):
            return False
        if self.s.publish_waits and not self.packed and self.packings < self.target_batches:
            return False
        self.wanted = False
        if self.s.rolling:
            self.take_weights(self.servers[0])
        elif self.s.sync_time == 0.0:
            self.install()
        else:
            if self.s.generator_pauses:
                self.pause(True)
            self.after(self.s.sync_time, INSTALL, self.install)
        return True

    def take_weights(self, server):
        """One server loads the weights, paused or not; those after it write on with what they have."""
        server.paused = self.s.generator_pauses
        self.set_speed(server)
        self.after(self.s.sync_time, INSTALL, self.loaded, server)

    def loaded(self, server):
        server.version += 1
        server.paused = False
        self.set_speed(server)
        self.switch([server])
        if server is self.servers[-1]:
            self.install()
        else:
            self.take_weights(self.servers[server.number + 1])

    def adapt(self):
        """Halve the samples under way where what was trained since the last install is too stale, else add a group."""
        if self.s.target_staleness is None:
            return
        if sum(self.stalenesses) > self.s.target_staleness * len(self.stalenesses):
            self.allowed = max(1, self.allowed // 2)
        else:
            self.allowed = min(self.s.permits, self.allowed + self.n)
        self.stalenesses = []

    def levels(self):
        stages = [group.stage for group in self.groups.values()]
        names = {"in_flight": "generation", **{stage: stage for stage in ("scoring", "blocked", "ready", "packed")}}
        counts = {name: stages.count(stage) for name, stage in names.items()}
        return {**counts, "outstanding": sum(group.fate == "unfinished" for group in self.groups.values())}

    def install(self):
        publish = self.publishes[-1]
        publish.t_install, publish.levels = self.now, self.levels()
        self.v_g += 1
        self.adapt()
        if not self.s.rolling:
            for server in self.servers:
                server.version = self.v_g
        if self.s.release == "publish":
            self.tickets += self.s.groups_per_batch * self.s.batches_per_publish
        self.tickets, self.late_tickets = self.tickets + self.late_tickets, 0
        self.recent = [group for group in self.buffer if not group.visible]
        for group in self.recent:
            group.visible = True
        self.pause(False)
        self.cut(self.s.age_at_publish)
        if not self.s.rolling:
            self.switch(self.servers)
        if self.waiting_snapshot:
            self.snapshot()
