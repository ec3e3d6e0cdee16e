"""A live run: every stamp agrees with every other, its replay gives the same bits, and the model foretells it.

What races decide is compared with invariants only. Bands of the model have level 0.999 and tolerances for a busy
machine. False alarms: below 1 in 100 for the file (twelve comparisons of 0.001 each).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.base.checks import InputError, RunError
from asyncsim.conformance import check_admission
from asyncsim.live import actor, admission, running

LENGTH = "lognormal:1.0:0.7"
SYSTEMS = {
    "arrival": lambda: sim.systems.update_on_arrival(4, LENGTH),
    "capped": lambda: sim.systems.areal(2, 2, 6, length=LENGTH, train_time=0.5),
    "one_step": lambda: sim.systems.one_step_off(4, length=LENGTH, train_time=1.0),
}


def spec_of(name, updates=60, **changes):
    made = {"samples_per_group": 2, "updates": updates, "replicates": 1, "diagnostics": ["batch_return"], **changes}
    task = made.pop("task", None) or sim.tasks.token_bandit()
    system = made.pop("system", None) or SYSTEMS[name]()
    return sim.Spec(task, system, sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1)), **made)


@cache
def live_of(name):
    return sim.live.run(spec_of(name), seed=5, second=0.003)


def rows_of(live):
    return [json.loads(line) for line in live.log.read_text().splitlines()]


def trained(rows):
    found = [row for row in rows if row["fate"] == "trained"]
    assert found
    return found


EVERY = pytest.mark.parametrize("name", SYSTEMS)


@EVERY
def test_stamps_are_in_order(name):
    for row in trained(rows_of(live_of(name))):
        times = [row[stamp] for stamp in ("t_submit", "t_start", "t_end", "t_ready", "t_train")]
        assert times == sorted(times)
        versions = [row[v] for v in ("submit_version", "start_version", "end_version", "train_version")]
        assert versions == sorted(versions)


@EVERY
def test_no_sample_is_lost_or_trained_twice(name):
    live = live_of(name)
    rows, spec = rows_of(live), live.spec
    numbers = [row["sample_id"] for row in rows]
    assert len(set(numbers)) == len(numbers)
    each = spec.system.groups_per_batch * spec.samples
    assert np.bincount([row["batch"] for row in trained(rows)]).tolist() == [each] * 60
    # Every group that was admitted is there, the unfinished ones too.
    assert sorted({row["group_id"] for row in rows}) == list(range(max(numbers) // spec.samples + 1))


@EVERY
def test_versions_count_publishes(name):
    live = live_of(name)
    assert all(row["train_version"] == row["batch"] for row in trained(rows_of(live)))
    assert live.schedule.batches_per_publish == 1 and (np.diff(live.t_train) >= 0).all()
    assert (live.t_trained >= live.t_train).all() and (live.training >= 0).all()


def outstanding(live):
    """Groups admitted before each publish and trained behind it, `[59]`, from the log alone."""
    groups = {row["group_id"]: (row["submit_version"], row.get("train_version", 60)) for row in rows_of(live)}
    return [sum(begin < v <= end for begin, end in groups.values()) for v in range(1, 60)]


@EVERY
def test_the_cap_binds_at_every_publish_and_is_never_exceeded(name):
    """Law `systems/cap-binds`, to the integer: K - P where permits return at the publish, K at the dequeue."""
    live = live_of(name)
    system = live.spec.system
    assert outstanding(live) == [system.tickets - (system.groups_per_batch if system.release == "publish" else 0)] * 59
    assert name != "one_step" or live.submitted.max() == 1.0
    assert (live.raced >= 0).all()


@EVERY
def test_a_replay_gives_the_same_bits(name):
    live = live_of(name)
    again = sim.run(replace(live.spec, system=live.schedule), seed=5, progress=False)
    assert (again.parameters == live.trace.parameters).all()
    assert (again["batch_return"] == live.trace["batch_return"]).all()


@EVERY
def test_a_stamp_at_the_end_in_place_of_the_start_is_caught(name, tmp_path):
    """Planted: every sample says that it was generated under the weights at its training, less at most one version."""
    live, path = live_of(name), tmp_path / "late.jsonl"
    rows = trained(rows_of(live))
    for row in rows:
        row.pop("versions", None)
        row["start_version"] = row["end_version"] = max(row["end_version"], row["train_version"] - 1, 0)
        row["end_version"] = row["start_version"] = min(row["start_version"] + 1, row["train_version"])
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    late = sim.schedules.replay(path, unit="publishes", batches_per_publish=1)
    again = sim.run(replace(live.spec, system=late), seed=5, progress=False)
    assert (again.parameters != live.trace.parameters).any()


@EVERY
def test_the_model_foretells_the_run(name):
    predicted = sim.live.predicted(live_of(name), replicates=33, realizations=200, level=0.999)
    assert [each for each in predicted.meetings if not wide(each)] == []


def wide(meeting):
    """Inside the band, or within what a busy machine may add: 0.2 of a version, 0.15 of variation, a fifth of speed."""
    more = {"staleness": 0.2, "total variation": 0.15, "throughput": 0.2 * meeting.predicted}.get(meeting.quantity, 0.0)
    return meeting.low - more <= meeting.measured <= meeting.high + more


def test_a_controller_that_is_off_by_one_version_is_caught():
    """Planted: one version's permits too many. The mean rises by 1, outside of any band above."""
    more = spec_of("capped", system=sim.systems.areal(2, 2, 8, length=LENGTH, train_time=0.5))
    live = sim.live.run(more, seed=5, second=0.003, controller=lambda: admission.Permits(more.system, 2))
    assert not wide(sim.live.predicted(live, replicates=5, realizations=50)["staleness"])
    assert outstanding(live) == [more.system.tickets] * 59


def test_the_controller_passes_the_conformance_check():
    for system in (SYSTEMS["arrival"](), SYSTEMS["capped"]()):
        eta = system.tickets / system.groups_per_batch - 1
        report = check_admission(
            lambda system=system: admission.Permits(system),
            system.groups_per_batch,
            eta,
            len(system.rates),
            losses=0,
            recovery=False,
            examples=10,
        )
        assert report.passed


def test_responses_go_on_under_new_weights():
    rows = [row for row in rows_of(live_of("capped")) if "versions" in row]
    assert rows and all(row["versions"][0] == [0, row["start_version"]] for row in rows)


def test_episodes_of_cartpole_replay_to_the_same_bits():
    """Batches of one group, so that network and actors compute rows of one shape."""
    task = sim.tasks.gym("CartPole-v1", steps=20)
    live = sim.live.run(spec_of("arrival", 5, task=task), seed=2, second=0.003)
    again = sim.run(replace(live.spec, system=live.schedule), seed=2, progress=False)
    assert (again.parameters == live.trace.parameters).all()


def test_without_waits_it_is_fast():
    """At least 50 publishes a second on two cores that are free; a tenth of that is asserted on any machine."""
    live = sim.live.run(spec_of("arrival", 100), seed=1, second=None)
    assert live.publishes_per_second(20) > 5.0


class Killing(running._Learner):
    """Planted: an actor is killed behind batch 5."""

    def trained(self, at):
        if at.batch == 5:
            os.kill(self.desk.actors[1].pid, signal.SIGKILL)
        return super().trained(at)


def test_a_killed_actor_is_named(monkeypatch):
    monkeypatch.setattr(running, "_Learner", Killing)
    with pytest.raises(RunError, match=r"actor 1 \(process \d+\) ended by signal 9"):
        sim.live.run(spec_of("arrival"), seed=5, second=0.003)


def test_an_actor_that_fails_says_how(monkeypatch):
    class Wrong(running._Clock):
        def seconds(self, group, place, samples):
            return () if group == 7 else super().seconds(group, place, samples)

    monkeypatch.setattr(running, "_Clock", Wrong)
    with pytest.raises(RunError, match=r"actor \d \(process \d+\) failed: IndexError"):
        sim.live.run(spec_of("arrival"), seed=5, second=0.003)


def test_a_worker_waits_once_for_all_samples_of_its_result():
    """Block edges too; the waits of one sample are those of sixteen, and another system's samples wait on their own."""
    alone, many, capped = (running._Clock(SYSTEMS[name](), 3, 0.01) for name in ("arrival", "arrival", "capped"))
    for group in (0, 1, 1023, 1024):
        assert many.seconds(group, 0, 16) == 16 * alone.seconds(group, 0, 1)
    assert len({alone.seconds(group, 0, 1) for group in range(50)}) == 50
    assert len(set(capped.seconds(0, 0, 16))) == 16


def test_a_controller_that_admits_nothing_is_no_endless_wait():
    class Closed(admission.Permits):
        def capacity(self):
            return 0

    with pytest.raises(RunError, match="no group is running, 0 of 2 groups of a batch are ready"):
        spec = spec_of("capped")
        sim.live.run(spec, second=0.003, controller=lambda: Closed(spec.system))


def test_a_controller_that_raises_is_no_endless_wait():
    class Broken(admission.Permits):
        def accepted(self, n):
            raise KeyError("count")

    spec = spec_of("capped")
    with pytest.raises(RunError, match="the controller failed when a group had finished: KeyError: 'count'"):
        sim.live.run(spec, second=0.003, controller=lambda: Broken(spec.system))


def test_no_thread_reads_a_pipe_that_is_closed(monkeypatch):
    """A thread that is late would read on under the number of the closed pipe, which may be that of a new run's."""
    received, closed = admission._received, []

    def late(pipe):
        time.sleep(0.05)
        closed.append(pipe.closed)
        return received(pipe)

    monkeypatch.setattr(admission, "_received", late)
    sim.live.run(spec_of("capped", 6), seed=5, second=0.003)
    assert closed and not any(closed) and not any("_hear" in thread.name for thread in threading.enumerate())


SCRIPT = """
import sys
import asyncsim as sim
def main():
    spec = sim.Spec(sim.tasks.token_bandit(), sim.systems.update_on_arrival(4, 1.0), sim.methods.reinforce(),
                    sim.chain(sim.updates.sgd(0.1)), samples_per_group=2, updates=100000, replicates=1,
                    diagnostics=["batch_return"], compiled=False)
    try:
        sim.live.run(spec, seed=5, log=sys.argv[1], second=0.003)
    except sim.Interrupted as end:
        print("updates", end.trace.partial["updates"], flush=True)
    sim.live.run(spec, seed=5, log=sys.argv[2], second=0.003)
if __name__ == "__main__":
    main()
"""


def wait_for(log, process):
    """Until some batches are in the log."""
    last = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size > 4000):
        assert process.poll() is None and time.monotonic() < last, process.communicate()
        time.sleep(0.02)


def descendants(pid):
    """Processes below one, from the table of processes."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry))
    found, left = [], [pid]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def gone(pids):
    """Whether all of them end within some seconds."""
    last = time.monotonic() + 60
    while any(alive(pid) for pid in pids) and time.monotonic() < last:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


def alive(pid):
    """Whether a process is there and has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory():
    return set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()


def batches_of(log):
    read = sim.schedules.replay(log, unit="publishes", batches_per_publish=1)
    return len(read.log.grid)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads the table of processes")
def test_ctrl_c_and_a_kill_leave_whole_logs_no_process_and_no_memory(tmp_path):
    script, logs, memory = tmp_path / "script.py", (tmp_path / "one.jsonl", tmp_path / "two.jsonl"), shared_memory()
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, logs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Ctrl-C ends the first run behind its batch, and its actors.
    wait_for(logs[0], process)
    first = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    wait_for(logs[1], process)
    assert process.stdout.readline() == f"updates {batches_of(logs[0])}\n"
    # A kill ends the second one; nobody outlives the learner.
    below = descendants(process.pid)
    last = time.monotonic() + 60
    while sum(not alive(pid) for pid in first) < 2 and time.monotonic() < last:
        time.sleep(0.02)
    assert sum(not alive(pid) for pid in first) == 2
    process.kill()
    process.communicate(timeout=20)
    assert batches_of(logs[1]) >= 1
    assert gone(below)
    assert not {name for name in shared_memory() - memory if str(process.pid) in name}


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"replicates": 2}, {}, "replicates = 2: must be 1 in a live run"),
        ({}, {"actors": 0}, r"actors = 0: must be an integer in \[1, 256\]"),
        ({}, {"second": -1.0}, r"second = -1.0: must be"),
        ({}, {"log": "run.csv"}, "log = 'run.csv': must be a name that ends in .jsonl"),
        ({"system": sim.schedules.fixed(1)}, {}, "system = .*: must be an event system"),
        (
            {"system": sim.systems.areal(1, 2, length=1.0, train_time=1.0, sync_time=0.1)},
            {},
            r"system.sync_time = 0.1: must be 0.0 in a live run",
        ),
        (
            {"system": sim.systems.areal(1, 2, length=1.0, train_time=1.0, model={"mode": "restart"})},
            {},
            "system.mode = 'restart': must be one of",
        ),
        ({"sampling": "counts", "task": sim.tasks.softmax_bandit()}, {}, "sampling = 'counts': must be monte_carlo"),
    ],
)
def test_bad_input_is_one_line(changes, arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        sim.live.run(spec_of("arrival", **changes), **arguments)
    assert "\n" not in str(caught.value)


def test_no_log_is_overwritten(tmp_path):
    (tmp_path / "log.jsonl").write_text("kept")
    with pytest.raises(InputError, match="a new file"):
        sim.live.run(spec_of("arrival"), log=tmp_path / "log.jsonl")
    assert (tmp_path / "log.jsonl").read_text() == "kept"


def test_a_board_is_read_whole():
    import multiprocessing

    import torch

    weights = {"a": torch.arange(3.0, dtype=torch.float64), "b": torch.ones(2, 2)}
    board = actor.Board.of(lambda size: multiprocessing.RawArray("b", size), weights)
    board.write(7, weights)
    version, copy = board.read()
    assert version == 7 and all((copy[name] == weights[name]).all() for name in weights)
    # Planted: one bit of another version, and a write that goes on.
    for part, word in ((1, 0), (0, actor.TURN)):
        board._parts()[part][word] ^= 1
        with pytest.raises(EOFError), pytest.MonkeyPatch.context() as patch:
            patch.setattr(actor, "PATIENCE", 0.05)
            board.read()
        board._parts()[part][word] ^= 1


def test_modes_that_move_are_those_of_the_model():
    assert set(actor.MOVING) == {"keep", "reprefill"}
