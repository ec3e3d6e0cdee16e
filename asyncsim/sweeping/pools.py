"""Where units are done: in this process, in worker processes, or by Ray. Each takes a unit and gives a future."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from asyncsim.base import checks

BACKENDS = ("processes", "ray")
SECONDS = 5.0
"""How long an address may take to answer."""
PATIENCE = 5.0
"""Seconds that a worker that closed its output has to end by itself."""
AHEAD = 2
"""Units that wait at each worker, so that none is idle while its next one is prepared."""


class Died(Exception):
    """A worker ended in the middle of a unit: it was killed, or ran out of memory."""


class Pool(Protocol):
    """Does units; `places` of them at a time."""

    places: int

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """A future of how the unit ends; it raises `Died` where its worker did."""

    def close(self) -> None:
        """End all workers at once."""


def check(backend: str, workers: int | None, address: str | None) -> None:
    """Refuse options that do not belong together."""
    checks.one_of("backend", backend, BACKENDS, "choose where units are done")
    remedy = "leave it out, or use backend='ray'"
    checks.require(address is None or backend == "ray", "address", address, "left out", remedy)
    if workers is not None:
        checks.integer("workers", workers, 1, "give at least one worker", 4096)
    if address is not None and address != "auto":
        _reach(address)


def pool(backend: str, workers: int | None, address: str | None = None) -> Pool:
    """The pool of a backend; `workers` default to every core, `address` is that of a Ray cluster."""
    check(backend, workers, address)
    if backend == "ray":
        return ByRay(workers, address)
    count = workers or cores()
    return Here() if count == 1 else Processes(count)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Here:
    """Units are done in this process, one after another."""

    places = 1

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        from asyncsim.sweeping import units

        future: Future[dict[str, Any]] = Future()
        future.set_result(units.perform(where, content))
        return future

    def close(self) -> None:
        """Nothing to end."""


class Processes:
    """Worker processes of this machine; one that dies is replaced and fails its unit alone."""

    def __init__(self, workers: int) -> None:
        self.places = workers * AHEAD
        self._share = max(1, cores() // workers)
        self._threads = ThreadPoolExecutor(workers)
        self._mine = threading.local()
        self._all: list[subprocess.Popen[str]] = []
        self._closed = False

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        return self._threads.submit(self._ask, json.dumps({"where": where, "content": content}))

    def close(self) -> None:
        """See `Pool`; what is under way is lost, and nothing half done stays."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._all:
            process.kill()
        for process in self._all:
            process.wait()

    def _ask(self, line: str) -> dict[str, Any]:
        """Hand the unit to this thread's worker, started when it is needed."""
        process = getattr(self._mine, "process", None)
        if process is None or process.poll() is not None:
            process = self._mine.process = self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            code = _ended(process)
            reason = f"by signal {-code}" if code < 0 else f"with status {code}"
            raise Died(f"its worker process ended {reason} (killed, or out of memory)")
        ended: dict[str, Any] = json.loads(answer)
        return ended

    def _start(self) -> subprocess.Popen[str]:
        if self._closed:
            raise Died("the sweep is over")
        threads = {name: str(self._share) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        process = subprocess.Popen(
            # -P: a file of the working directory must not stand in for a module of Python.
            [sys.executable, "-P", "-m", "asyncsim.sweeping.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(each or os.getcwd() for each in sys.path)},
        )
        self._all.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"path": sys.path}) + "\n")
        process.stdin.flush()
        return process


def _ended(process: subprocess.Popen[str]) -> int:
    """The status of a worker that says nothing more."""
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class ByRay:
    """Tasks of a Ray cluster, or of a local one that is started for the sweep."""

    def __init__(self, workers: int | None, address: str | None) -> None:
        try:
            import ray
        except ImportError:
            remedy = "pip install 'asyncsim[cluster]'"
            raise checks.InputError("backend", "ray", "used where ray is installed", remedy) from None
        self._ray = ray
        self._mine = not ray.is_initialized()
        if self._mine:
            _join(ray, workers, address)
        self._do = ray.remote(max_retries=0)(_perform)
        count = int(ray.cluster_resources().get("CPU", 1))
        self.places = AHEAD * (min(workers, count) if workers else count)

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        inner, outer = self._do.remote(where, dict(content)).future(), Future[dict[str, Any]]()

        def hand_on(done: Future[dict[str, Any]]) -> None:
            error = done.exception()
            lost = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.NodeDiedError)
            if error is None:
                outer.set_result(done.result())
            elif isinstance(error, lost) or "OutOfMemory" in type(error).__name__:
                outer.set_exception(Died("its Ray worker ended (killed, or out of memory)"))
            else:
                outer.set_exception(error)

        inner.add_done_callback(hand_on)
        return outer

    def close(self) -> None:
        """See `Pool`."""
        if self._mine:
            self._ray.shutdown()


def _join(ray: Any, workers: int | None, address: str | None) -> None:
    """Connect to a cluster, or start one here; an address where none answers is refused in one line."""
    here = {} if address else {"num_cpus": workers or cores(), "include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **here)
    except Exception as error:  # Ray raises what its parts raise
        reason = " ".join(str(error).split())[:160]
        remedy = "check the address, or leave it out for a cluster on this machine"
        raise checks.InputError("address", address, f"that of a Ray cluster ({reason})", remedy) from None


def _reach(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    remedy = "check the address, or leave it out for a cluster on this machine"
    checks.require(bool(host) and port.isdigit(), "address", address, "host:port, ray://host:port or auto", remedy)
    try:
        socket.create_connection((host, int(port)), SECONDS).close()
    except OSError as error:
        bound = f"one where a Ray cluster answers ({error.strerror or error})"
        raise checks.InputError("address", address, bound, remedy) from None


def _perform(where: str, content: dict[str, Any]) -> dict[str, Any]:
    from asyncsim.sweeping import units

    return units.perform(where, content)
