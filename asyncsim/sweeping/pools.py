"""Where units are done: in this process, in worker processes, or by Ray. Each takes a unit and gives a future."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol

from asyncsim.base import checks, workers
from asyncsim.sweeping import units

BACKENDS = ("processes", "ray")
SECONDS = 5.0
"""How long an address may take to answer."""
AHEAD = 2
"""Units that wait at each worker, so that none is idle while its next one is prepared."""


class Pool(Protocol):
    """Does units; `places` of them at a time."""

    places: int

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """A future of how the unit ends; it raises `workers.Died` where its worker did."""

    def close(self) -> None:
        """End all workers at once."""


def check(backend: str, count: int | None, address: str | None) -> None:
    """Refuse options that do not belong together."""
    checks.one_of("backend", backend, BACKENDS, "choose where units are done")
    remedy = "leave it out, or use backend='ray'"
    checks.require(address is None or backend == "ray", "address", address, "left out", remedy)
    if count is not None:
        checks.integer("workers", count, 1, "give at least one worker", workers.MOST)
    if address is not None and address != "auto":
        _reach(address)


def pool(backend: str, count: int | None, address: str | None = None) -> Pool:
    """The pool of a backend with so many workers (None: one a core); all three were asked of `check`."""
    if backend == "ray":
        return ByRay(count, address)
    count = count or workers.cores()
    return Here() if count == 1 else Processes(count)


class Here:
    """Units are done in this process, one after another."""

    places = 1

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        future: Future[dict[str, Any]] = Future()
        future.set_result(units.perform(where, content))
        return future

    def close(self) -> None:
        """Nothing to end."""


class Processes:
    """Worker processes of this machine; one that dies is replaced and fails its unit alone."""

    def __init__(self, count: int) -> None:
        self.places = count * AHEAD
        self._crew = workers.Crew(count)

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        return self._crew.submit("asyncsim.sweeping.units:perform", where, content)

    def close(self) -> None:
        """See `Pool`; what is under way is lost, and nothing half done stays."""
        self._crew.close()


class ByRay:
    """Tasks of a Ray cluster, or of a local one that is started for the sweep."""

    def __init__(self, asked: int | None, address: str | None) -> None:
        self._ray = ray = workers.imported_ray()
        self._mine = not ray.is_initialized()
        if self._mine:
            _join(ray, asked, address)
        self._do = ray.remote(max_retries=0)(units.perform)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        self.places = AHEAD * (min(asked, cpus) if asked else cpus)

    def submit(self, where: str, content: Mapping[str, Any]) -> Future[dict[str, Any]]:
        """See `Pool`."""
        inner, outer = self._do.remote(where, dict(content)).future(), Future[dict[str, Any]]()

        def hand_on(done: Future[dict[str, Any]]) -> None:
            error = done.exception()
            lost = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.NodeDiedError)
            if error is None:
                outer.set_result(done.result())
            elif isinstance(error, lost) or "OutOfMemory" in type(error).__name__:
                outer.set_exception(workers.Died("its Ray worker ended (killed, or out of memory)"))
            else:
                outer.set_exception(error)

        inner.add_done_callback(hand_on)
        return outer

    def close(self) -> None:
        """See `Pool`."""
        if self._mine:
            self._ray.shutdown()


def _join(ray: Any, asked: int | None, address: str | None) -> None:
    """Connect to a cluster, or start one here; an address where none answers is refused in one line."""
    here = {} if address else {"num_cpus": asked or workers.cores(), "include_dashboard": False}
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
