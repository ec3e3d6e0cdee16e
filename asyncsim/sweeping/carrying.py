"""Carrying units out: as many at a time as a pool takes, the failed ones again, then recorded with their reason."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from typing import Any

from asyncsim.base import checks
from asyncsim.base.store import Store
from asyncsim.base.workers import Died
from asyncsim.sweeping.pools import Pool
from asyncsim.sweeping.units import Unit, failure_of

ATTEMPTS = 3
"""How often a unit is tried that fails for reasons outside what it was told."""


@dataclass(frozen=True)
class Outcome:
    """How a unit ended: its seconds, why it failed ("" where its file stands), what it warned of."""

    unit: Unit
    seconds: float
    reason: str = ""
    warned: tuple[str, ...] = ()


def carry_out(units: Iterator[Unit], pool: Pool, where: str) -> Iterator[Outcome]:
    """Do units and say of each how it ended, in the order in which they end.

    A unit whose worker dies, or that fails otherwise than by what it was told, is tried again, up to `ATTEMPTS` times.
    Raises `InputError` where the store cannot be written.
    """
    again: deque[Unit] = deque()
    flying: dict[Future[dict[str, Any]], Unit] = {}
    while True:
        while len(flying) < pool.places:
            unit = again.popleft() if again else next(units, None)
            if unit is None:
                break
            flying[pool.submit(where, unit.content)] = unit
        if not flying:
            return
        for future in wait(flying, return_when=FIRST_COMPLETED).done:
            unit = flying.pop(future)
            unit = replace(unit, tried=unit.tried + 1)
            try:
                ended = future.result()
            except Died as died:
                ended = {"failed": str(died), "final": False}
            if "stop" in ended:
                remedy = "mend that and start the sweep again: finished units count"
                raise checks.InputError("store", where, ended["stop"], remedy)
            if "failed" in ended and not ended["final"] and unit.tried < ATTEMPTS:
                again.append(unit)
                continue
            yield Outcome(unit, ended.get("seconds", 0.0), ended.get("failed", ""), tuple(ended.get("warned", ())))


def record_failure(store: Store, outcome: Outcome) -> None:
    """Write why a unit failed, with its setting."""
    told = {name: outcome.unit.content[name] for name in ("setting", "riders", "block")}
    entry = {**told, "reason": outcome.reason, "attempts": outcome.unit.tried}
    store.write(failure_of(outcome.unit.key), (json.dumps(entry, indent=1) + "\n").encode())
