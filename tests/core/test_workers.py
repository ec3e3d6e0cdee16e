"""Worker processes: results and errors of functions called by name, whatever these do to their process."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asyncsim.base import workers
from tests.refusals import refused


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A module of functions that workers find."""
    (tmp_path / "called.py").write_text(
        "import os, sys, time\n"
        "from asyncsim.base.checks import InputError\n"
        "def square(x): return x * x\n"
        "def noisy(x):\n    print('out'); os.write(1, b'raw'); return [x, sys.stdin.read()]\n"
        "def bad(): raise InputError('field', 3, 'less', 'lower it')\n"
        "class Odd(Exception):\n    def __init__(self, a, b): super().__init__(a)\n"
        "def odd(): raise Odd('strange', 2)\n"
        "def die(status): os._exit(status)\n"
        "def unsendable(): return lambda: 1\n"
        "def leave(): raise SystemExit(4)\n"
        "def hold(seconds):\n    import ctypes; ctypes.PyDLL(None).sleep(seconds)\n"
        "def number():\n    time.sleep(0.2)\n    from asyncsim.base import workers\n    return workers.number()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("count", [1, 2])
def test_every_call_is_answered_once_by_its_number(calls, count):
    answered = dict(workers.each("called:square", ((k,) for k in range(20)), count))
    assert answered == {k: k * k for k in range(20)}
    assert dict(workers.each("called:square", (), count)) == {}


def test_what_a_call_does_to_its_process_stays_there(calls):
    with workers.Crew(2) as crew:
        assert crew.submit("called:noisy", 5).result(60) == [5, ""]
        refused(r"field = 3: must be less; lower it", lambda: crew.submit("called:bad").result(60))
        with pytest.raises(RuntimeError, match="Odd: strange"):
            crew.submit("called:odd").result(60)
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError), match=r"pickle|local object"):
            crew.submit("called:unsendable").result(60)
        with pytest.raises(workers.Died, match="with status 3"):
            crew.submit("called:die", 3).result(60)
        with pytest.raises(workers.Died, match="with status 4"):
            crew.submit("called:leave").result(60)
        # Others take the places of those that died.
        assert [crew.submit("called:square", k).result(60) for k in range(4)] == [0, 1, 4, 9]
        assert {f.result(60) for f in [crew.submit("called:number") for _ in range(4)]} <= set(range(8))
    assert all(process.poll() is not None for process in crew._all)
    assert workers.number() is None


def test_an_error_gives_up_the_other_calls(calls):
    refused("field", lambda: list(workers.each("called:bad", [()] * 50, 2)))


def orphaned(calls, said, *meanwhile):
    """Kill the owner of a worker that is called meanwhile; whether the worker ends too."""
    script = (
        "from asyncsim.base import workers; import time\n"
        f"crew = workers.Crew(1); crew.submit('called:square', 2).result(); crew.submit(*{meanwhile!r})\n"
        "time.sleep(0.3); print(crew._all[0].pid, flush=True); time.sleep(100)\n"
    )
    paths = os.pathsep.join([str(calls), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths}
    with open(said, "wb") as errors:
        starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=errors, env=env)
    assert starter.stdout is not None
    worker = int(starter.stdout.readline())
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    return soon(lambda: not lives(worker))


def lives(process):
    """Whether a process computes; one that has ended may still be listed until its parent asks for its status."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def soon(over, patience=1.0):
    """Whether something is over within so many seconds."""
    until = time.monotonic() + patience
    while not over() and time.monotonic() < until:
        time.sleep(0.02)
    return over()


def test_workers_end_with_the_process_that_started_them(calls, tmp_path):
    assert orphaned(calls, tmp_path / "said", "called:square", 3), "the worker lives on"


def test_a_worker_whose_owner_is_killed_during_a_call_says_nothing(calls, tmp_path):
    assert orphaned(calls, tmp_path / "said", "time:sleep", 30.0), "the worker lives on"
    assert (tmp_path / "said").read_text() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process whose parent has ended")
def test_a_worker_in_compiled_code_ends_with_its_owner(calls, tmp_path):
    assert orphaned(calls, tmp_path / "said", "called:hold", 30), "the worker lives on"


def test_a_temporary_folder_goes_with_its_process_however_that_ends():
    script = (
        "from asyncsim.base import files; import pathlib, time\n"
        "folder = files.Temporary(); pathlib.Path(folder.path, 'part').write_text('x')\n"
        "print(folder.path, flush=True); time.sleep(100)\n"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])}
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        owner = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=paths
        )
        assert owner.stdout is not None
        folder = owner.stdout.readline().strip()
        assert os.listdir(folder) == ["part"]
        owner.send_signal(number)
        owner.wait()
        assert soon(lambda folder=folder: not os.path.exists(folder)), f"{folder} stays after {number!r}"


@pytest.mark.parametrize("asked", [0, -1, 1.5, workers.MOST + 1])
def test_a_number_that_is_none_of_workers_is_refused(asked):
    refused("workers", workers.count_of, asked, 3)


@pytest.mark.usefixtures("forked_workers")
def test_verdicts_do_not_depend_on_the_number_of_workers():
    import dataclasses

    from asyncsim.app import verifying

    names = ["estimator/truncation-bias", "convergence/mdp-gradient", "ess/limit"]
    heard = []
    alone, spread = (
        [
            dataclasses.replace(verdict, seconds=0.0)
            for verdict in verifying.verify_many(names, "quick", False, 5, after=heard.append, workers=count)
        ]
        for count in (1, 2)
    )
    assert alone == spread and [verdict.id for verdict in spread] == names
    assert sorted(verdict.id for verdict in heard) == sorted(names * 2)


def test_a_crew_that_is_closed_while_workers_start_leaves_none(calls):
    """A worker that was started behind the ending of all others was waited for without end."""
    for _ in range(8):
        crew = workers.Crew(3)
        futures = [crew.submit("called:square", k) for k in range(6)]
        time.sleep(0.003)
        start = time.monotonic()
        crew.close()
        assert time.monotonic() - start < 10
        assert all(process.poll() is not None and process.stdin.closed for process in crew._all)
        assert all(future.cancelled() or future.done() for future in futures)


def test_nothing_of_a_crew_is_left_open(calls):
    script = (
        "from asyncsim.base import workers\n"
        "with workers.Crew(2) as crew: print([f.result() for f in [crew.submit('called:square', k) for k in (1, 2)]])\n"
    )
    paths = os.pathsep.join([str(calls), os.getcwd(), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-X", "dev", "-c", script], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": paths}, check=True,
    )  # fmt: skip
    assert done.stdout == "[1, 4]\n" and "ResourceWarning" not in done.stderr


def test_a_crew_serves_several_times_and_stays_its_owners(calls):
    with workers.Crew(2) as crew:
        for _ in range(2):
            assert dict(workers.each("called:square", ((k,) for k in range(6)), crew)) == {k: k * k for k in range(6)}
        assert len(crew._all) <= 2 and all(process.poll() is None for process in crew._all)
