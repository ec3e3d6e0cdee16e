"""Python processes without the start of Python: forked from one that has imported what most of them import.

For tests of what a process computes, keeps or prints. Tests of how processes start and end have real ones.
"""

import multiprocessing
import operator
import os
import resource
import runpy
import subprocess
import sys
import threading
from multiprocessing import connection, process, reduction
from pathlib import Path

from asyncsim.base import workers

IMPORTED = [
    "pandas",
    "pyarrow.parquet",
    "rich.progress",
    "scipy.stats",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
]
IMPORTED += ["asyncsim.app.cli", "asyncsim.running.running"]
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(IMPORTED)
LOCK = threading.Lock()
"""Two threads that ask for one status would read it once."""


def _become(command, cwd, env, streams, limit):
    """Do in this process what the command line of a Python would."""
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115, it is that of the process
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in env
    process._parent_process = None  # a worker of multiprocessing would start no processes unasked
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    isolated, (kind, what, *rest) = command[1] == "-P", command[1 + (command[1] == "-P") :]
    sys.path[:0] = ([] if isolated else [cwd]) + [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.argv[:] = [kind if kind == "-c" else what, *rest]
    if what == "asyncsim.base.workers":
        workers.serve(os.getppid())
    elif kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), vars(sys.modules["__main__"]))


class _Stream:
    """A file that is handed on by its number, which is another one there."""

    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        return operator.methodcaller("detach"), (reduction.DupFd(self.number),)


class Forked(subprocess.Popen):
    """A process of the command `python [-P] -m module ...` or `python -c code ...`."""

    def __init__(self, command, *, limit=None, **options):
        self.limit = limit
        super().__init__(command, **options)

    def _execute_child(self, command, *given):
        cwd, env, ends = given[4] or os.getcwd(), given[5] or os.environ, given[9:15]
        streams = [ours if end == -1 else end for ours, end in enumerate((ends[0], ends[3], ends[5]))]
        with LOCK:
            before = os.getcwd()
            os.chdir(Path(__file__).parents[1])  # where the first one starts the server
            try:
                told = [command, str(cwd), dict(env), [_Stream(end) for end in streams], self.limit]
                self.forked = SERVER.Process(target=_become, args=told)
                self.forked.start()
            finally:
                os.chdir(before)
        self.pid, self._child_created = self.forked.pid, True
        self._close_pipe_fds(*ends)

    def _internal_poll(self, *given, **more):
        with LOCK:
            self.returncode = self.forked.exitcode
        return self.returncode

    def _wait(self, timeout):
        if not connection.wait([self.forked.sentinel], timeout):
            raise subprocess.TimeoutExpired(self.args, timeout)
        return self._internal_poll()


def run(command, timeout=120, **options):
    """What `subprocess.run` gives, with what the process printed."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    with Forked(command, **options) as started:
        said = started.communicate(timeout=timeout)
    return subprocess.CompletedProcess(command, started.returncode, *said)
