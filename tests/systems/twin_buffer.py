"""The plain twin's groups between the end of their generation and a batch: buffer, drops, age rule, orders."""

from tests.systems.twin_servers import INFINITE, Servers


class Buffer(Servers):
    """What becomes of groups until they are packed; the lists are the twin's."""

    # From the end of generation into the buffer.

    def free_place(self, group):
        if group.holds:
            group.holds = False
            self.free.append(group.place)

    def generation_over(self, sample):
        group = self.groups[sample.group]
        group.missing -= 1
        if group.missing == 0:
            self.generated_all(group)

    def generated_all(self, group):
        group.t_done, group.v_done, group.stage = self.now, self.server(group).version, "scoring"
        may_block = self.s.capacity is not None and self.s.overflow == "block"
        if not self.s.reward_holds and not may_block:
            self.free_place(group)

    def cancel(self, group):
        """Enough samples are in: the others leave, and those that wait for their slots start."""
        for sample in group.samples:
            if sample.state != "scored":
                self.remove(sample)
                sample.cancelled = True
        if group.missing:
            group.missing = 0
            self.generated_all(group)
        for server in self.servers:
            self.set_speed(server)
            self.fill(server)

    def reward_over(self, sample):
        group = self.groups[sample.group]
        group.unscored -= 1
        if group.unscored:
            return
        self.cancel(group)
        if not self.draws.accepted(group.number):
            self.leave(group, "rejected")
        elif self.has_room() and not self.blocked:
            self.enter(group)
        elif self.s.overflow == "block":
            group.stage = "blocked"
            self.blocked.append(group)
        else:
            self.drop(self.buffer[0], "dropped_overflow")
            self.enter(group)

    def has_room(self):
        return self.s.capacity is None or self.s.overflow == "close" or len(self.buffer) < self.s.capacity

    def enter(self, group):
        group.stage, group.t_ready, group.entry = "ready", self.now, self.entries
        self.entries += 1
        group.visible = self.s.visible == "completion" or group.entry < self.s.initial_fill
        self.buffer.append(group)
        self.free_place(group)

    def unblock(self):
        moved = False
        while self.blocked and self.has_room():
            self.enter(self.blocked.pop(0))
            moved = True
        return moved

    # Leaving untrained.

    def leave(self, group, fate):
        """Out for ever: place, target and ticket go back."""
        group.fate, group.stage, group.t_left, group.v_left = fate, "left", self.now, self.v_g
        self.free_place(group)
        if self.s.order == "target":
            self.returned.append(group.target)
        if self.s.release_dropped == "now":
            self.tickets += 1
        elif self.s.release_dropped == "publish":
            self.late_tickets += 1

    def drop(self, group, fate):
        if group in self.buffer:
            self.buffer.remove(group)
        if group.packings:
            return
        if group in self.blocked:
            self.blocked.remove(group)
        for sample in group.samples:
            if not sample.cancelled:
                self.remove(sample)
        self.leave(group, fate)
        if fate == "dropped_age" and self.s.age_action == "requeue":
            self.requeued.append(group.prompt)

    def planned(self):
        return self.packings // self.s.batches_per_publish

    def stamp(self, group):
        if self.s.age_reference == "submit":
            return group.v_submit
        if self.s.age_reference == "end":
            return None if group.missing else min(s.v_ready for s in group.samples if not s.cancelled)
        return self.v_head(group)

    def v_head(self, group):
        return min((s.v_start for s in group.samples if s.t_start is not None and not s.cancelled), default=None)

    def over_age(self, group):
        stamp = self.stamp(group)
        return stamp is not None and self.planned() - stamp > self.s.max_age

    def cut(self, reach):
        """The age rule for none, for ready groups or for all; whether anything was cut."""
        if self.s.max_age is None or self.s.age_action == "wait" or reach == "none":
            return False
        order = list(self.buffer)
        if reach == "all":
            order += self.blocked + [g for g in self.groups.values() if g.stage in ("generation", "scoring")]
        victims = [group for group in order if self.over_age(group)]
        for group in victims:
            self.drop(group, "dropped_age")
        for server in self.servers:
            self.set_speed(server)
            self.fill(server)
        return bool(victims)

    # Choosing.

    def first_missing(self):
        """F: of the groups that have neither entered the buffer nor left, that of smallest number, or None."""
        outside = [g for g in self.groups.values() if g.stage in ("generation", "scoring", "blocked")]
        return min(outside, key=lambda group: group.number, default=None)

    def choose(self):
        """The groups of the next batch, or none."""
        p, first = self.s.groups_per_batch, self.first_missing()
        if self.s.rounds and any(group.stage in ("generation", "scoring") for group in self.groups.values()):
            return []
        if self.s.age_action == "wait" and first is not None and self.planned() - first.v_submit >= self.s.max_age:
            return []
        eligible = [group for group in self.buffer if group.visible]
        chosen = getattr(self, f"by_{self.s.order}")(eligible, first)[:p]
        return chosen if len(chosen) == p else []

    def by_done(self, eligible, first):
        return sorted(eligible, key=lambda group: group.entry)

    def by_oldest_start(self, eligible, first):
        window = INFINITE if self.s.window is None or first is None else first.number + self.s.window
        return sorted((g for g in eligible if g.number < window), key=lambda group: group.number)

    def by_version_strict(self, eligible, first):
        newest = INFINITE if first is None else first.v_submit
        return sorted((g for g in eligible if g.v_submit <= newest), key=lambda group: (group.v_submit, group.entry))

    def by_target(self, eligible, first):
        p = self.s.groups_per_batch
        wanted = range(self.packings * p, self.packings * p + p)
        return sorted((g for g in eligible if g.target in wanted), key=lambda group: group.target)

    def by_freshest(self, eligible, first):
        return sorted(eligible, key=lambda group: -group.number)

    def by_latest(self, eligible, first):
        return sorted(eligible, key=lambda group: -group.entry)

    def by_random(self, eligible, first):
        left, chosen = list(eligible), []
        if len(left) < self.s.groups_per_batch:
            return []
        for k in range(self.s.groups_per_batch):
            among = left
            if self.draws.uniform(self.packings, 2 * k) < self.s.recent:
                among = [group for group in left if group in self.recent] or left
            chosen.append(among[int(self.draws.uniform(self.packings, 2 * k + 1) * len(among))])
            left.remove(chosen[-1])
        return chosen
