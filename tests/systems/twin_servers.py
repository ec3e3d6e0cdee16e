"""Servers and the life of a sample, in plain Python from the event model's description; `twin.py` has the rest."""

from types import SimpleNamespace

COMPLETION, OPENING, TRAIN_END, INSTALL = range(4)
INFINITE = float("inf")


class Servers:
    """Clocks, slots, turns, failures, rewards; what a group or the trainer makes of them is left to the twin."""

    def __init__(self, system, draws):
        self.s, self.draws = system, draws
        self.now, self.v_g, self.paused = 0.0, 0, False
        self.timers, self.serial = [], 0
        self.samples, self.groups = {}, {}
        self.outside, self.permitted = [], 0
        self.generated = 0.0  # summed over time, beside the books that samples keep
        self.servers = [
            SimpleNamespace(
                number=n,
                speed=self.curve(0),
                t_0=0.0,
                w_0=0.0,
                known=(0.0, 0.0),
                active=[],
                queue=[],
                held=0,
                version=0,
                paused=False,
            )
            for n in range(system.servers)
        ]

    # Time.

    def after(self, seconds, rank, action, *arguments):
        timer = (self.now + seconds, rank, 1, self.serial, 0, action, arguments)
        self.serial += 1
        self.timers.append(timer)
        return timer

    def next_event(self):
        """The first event by (time, rank): engines before timers, by server and sample; timers as scheduled."""
        ends = [
            (server.t_0 + (self.key(sample) - server.w_0) / server.speed, COMPLETION, 0, server.number, sample.number)
            for server in self.servers
            if server.speed
            for sample in server.active
        ]
        return min(ends + self.timers, key=lambda event: event[:5], default=None)

    def take(self, event):
        self.move_to(event[0])
        if event[2] == 0:
            self.written(self.samples[event[4]])
        else:
            self.timers.remove(event)
            event[5](*event[6])

    def move_to(self, time):
        for server in self.servers:
            before = self.clock(server)
            after = server.w_0 + (time - server.t_0) * server.speed
            self.generated += sum(max(after - max(s.w_0, before), 0.0) * s.rate for s in server.active)
        self.now = time

    def curve(self, active):
        decode = self.s.decode
        return 1.0 if decode is None else float(decode[min(max(active, 1), len(decode)) - 1])

    def clock(self, server):
        time, value = server.known
        return value if time == self.now else server.w_0 + (self.now - server.t_0) * server.speed

    def set_speed(self, server):
        speed = 0.0 if self.paused or server.paused else self.curve(len(server.active))
        if speed != server.speed:
            server.w_0 = self.clock(server)
            server.t_0, server.speed = self.now, speed

    def pause(self, paused):
        self.paused = paused
        for server in self.servers:
            self.set_speed(server)

    # Writing.

    def key(self, sample):
        """The clock at which the piece of the sample or its attempt is over."""
        target = max(min(self.piece_end(sample), sample.fail_at), sample.done_0)
        return sample.w_0 + (target - sample.done_0) / sample.rate

    def piece_end(self, sample):
        return sample.work * sample.piece / self.s.turns

    def done(self, sample):
        if sample.state != "active":
            return sample.done_0
        return sample.done_0 + max(self.clock(self.server(sample)) - sample.w_0, 0.0) * sample.rate

    def server(self, sample):
        return self.servers[sample.place % self.s.servers]

    def stretch(self, sample, done, reading=0.0):
        sample.w_0, sample.done_0 = self.clock(self.server(sample)) + reading / sample.rate, done

    def activate(self, sample):
        sample.state = "active"
        server = self.server(sample)
        server.active.append(sample)
        self.set_speed(server)
        self.stretch(sample, sample.done_0)

    def deactivate(self, sample, done):
        server = self.server(sample)
        server.active.remove(sample)
        self.set_speed(server)
        sample.done_0 = done

    def written(self, sample):
        """The sample has written all of a piece, or as much as its attempt can."""
        server, key = self.server(sample), self.key(sample)
        server.known = (self.now, key)
        if sample.fail_at < self.piece_end(sample):
            self.fail(sample)
            return
        done = self.piece_end(sample)
        if sample.piece == self.s.turns:
            self.deactivate(sample, done)
            self.end(sample)
            return
        turn = sample.piece
        sample.piece += 1
        seconds = self.draws.environment(sample.number, turn) if self.s.environment is not None else 0.0
        if seconds == 0.0:
            self.stretch(sample, done)
            return
        self.deactivate(sample, done)
        sample.state = "environment"
        sample.timer = self.after(seconds, COMPLETION, self.environment_over, sample)
        if not self.s.environment_holds:
            self.leave_slot(sample)

    def environment_over(self, sample):
        if sample.holds:
            self.activate(sample)
        else:
            self.join(sample)

    def end(self, sample):
        version = self.server(sample).version
        sample.t_end, sample.v_ready = self.now, version
        sample.v_end = sample.v_start if self.s.mode == "pin" else version
        sample.state = "scoring"
        seconds = self.draws.reward(sample.number) if self.s.reward is not None else 0.0
        if not self.s.reward_holds:
            self.give_back(sample)
            self.leave_slot(sample)
        self.generation_over(sample)
        if seconds == 0.0:
            self.scored(sample)
        else:
            sample.timer = self.after(seconds, COMPLETION, self.scored, sample)

    def scored(self, sample):
        sample.state, sample.t_scored = "scored", self.now
        self.give_back(sample)
        if sample.holds:
            self.leave_slot(sample)
        self.reward_over(sample)

    # Permits and slots.

    def give_back(self, sample):
        self.permitted -= sample.permit
        sample.permit = False

    def join(self, sample):
        sample.state = "waiting"
        self.server(sample).queue.append(sample)
        self.fill(self.server(sample))

    def fill(self, server):
        while server.queue and (self.s.slots is None or server.held < self.s.slots):
            sample = server.queue.pop(0)
            sample.holds = True
            server.held += 1
            self.begin(sample)

    def leave_slot(self, sample):
        sample.holds = False
        self.server(sample).held -= 1
        self.fill(self.server(sample))

    def begin(self, sample):
        """Write on, or, where nothing is written, start."""
        if sample.fresh:
            sample.fresh = False
            sample.t_start, sample.v_start = self.now, self.server(sample).version
            sample.breakpoints = [(0.0, sample.v_start)]
            self.new_attempt(sample)
        self.activate(sample)

    def new_attempt(self, sample):
        rate = self.s.failure_rate
        sample.fail_at = sample.done_0 + self.draws.failure(sample.number, sample.attempt) if rate else INFINITE

    # Trouble and installs.

    def fail(self, sample):
        self.deactivate(sample, sample.fail_at)
        sample.attempt += 1
        sample.state = "repair"
        if self.s.failure_keeps:
            self.new_attempt(sample)
        else:
            self.lose(sample)
        if self.s.restart_delay == 0.0:
            self.begin(sample)
        else:
            sample.timer = self.after(self.s.restart_delay, OPENING, self.begin, sample)

    def lose(self, sample):
        sample.wasted += self.done(sample)
        sample.done_0, sample.piece, sample.fresh = 0.0, 1, True

    def in_flight(self):
        return [sample for sample in self.samples.values() if sample.state not in ("scoring", "scored", "gone")]

    def switch(self, servers):
        """What an install on servers does to their samples in flight."""
        for sample in self.in_flight():
            if self.server(sample) not in servers:
                continue
            if self.s.mode == "restart":
                self.restart(sample)
            elif self.s.mode in ("keep", "reprefill") and not sample.fresh:
                sample.breakpoints.append((self.done(sample), self.server(sample).version))
                if self.s.mode == "reprefill" and sample.state == "active":
                    done = self.done(sample)
                    self.stretch(sample, done, (self.s.prompt + done) / self.s.prefill_speedup)

    def restart(self, sample):
        if sample.fresh:
            return
        state = sample.state
        self.lose(sample)
        if state == "repair":
            return
        sample.attempt += 1
        if state == "active":
            self.server(sample).active.remove(sample)
            self.begin(sample)
        elif state == "environment":
            self.timers.remove(sample.timer)
            if sample.holds:
                self.begin(sample)
            else:
                self.join(sample)

    def remove(self, sample):
        """The sample leaves; whoever waits for its slot is let in by the caller."""
        if sample.timer in self.timers:
            self.timers.remove(sample.timer)
        if sample.state not in ("scoring", "scored"):
            sample.wasted += self.done(sample)
        if sample.state == "waiting":
            self.server(sample).queue.remove(sample)
        if sample.state == "active":
            self.deactivate(sample, 0.0)
        sample.state = "gone"
        self.give_back(sample)
        if sample in self.outside:
            self.outside.remove(sample)
        if sample.holds:
            sample.holds = False
            self.server(sample).held -= 1
