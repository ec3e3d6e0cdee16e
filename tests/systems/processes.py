"""The event model as a SimPy program, a process for each group and one for the trainer; publishes take no time."""

from __future__ import annotations

import simpy


def run(system, samples_per_group, works, train_times, batches):
    """Rows (group, place, t_start, v_start, t_ready, batch) of trained groups and (t_start, t_end) of batches."""
    env = simpy.Environment()
    free, ready = list(range(len(system.rates))), []
    state = {"version": 0, "tickets": float("inf") if system.tickets is None else system.tickets, "groups": 0}
    arrival = [env.event()]
    rows, trained, steps = {}, {}, []

    def admit():
        while state["tickets"] >= system.quantum and len(free) >= system.quantum:
            for _ in range(system.quantum):
                env.process(group(state["groups"], free.pop(0)))
                rows[state["groups"]] = None
                state["groups"] += 1
            state["tickets"] -= system.quantum

    def group(number, place):
        start, version = env.now, state["version"]
        first = number * samples_per_group
        own = [works(first + k) / system.rates[place] for k in range(samples_per_group)]
        yield env.all_of([env.timeout(duration) for duration in own])
        rows[number] = (number, place, start, version, env.now)
        free.append(place)
        ready.append(number)
        arrival[0].succeed()
        arrival[0] = env.event()
        admit()

    def trainer():
        for batch in range(batches):
            while len(ready) < system.groups_per_batch:
                yield arrival[0]
            if system.order == "oldest_start":
                ready.sort()
            for number in ready[: system.groups_per_batch]:
                trained[number] = batch
            del ready[: system.groups_per_batch]
            if system.release == "dequeue":
                state["tickets"] += system.groups_per_batch
            admit()
            begin = env.now
            yield env.timeout(train_times[batch])
            steps.append((begin, env.now))
            if (batch + 1) % system.batches_per_publish == 0:
                state["version"] += 1
                if system.release == "publish":
                    state["tickets"] += system.groups_per_batch * system.batches_per_publish

                admit()

    admit()
    env.run(env.process(trainer()))
    return [(*rows[number], batch) for number, batch in sorted(trained.items())], steps
