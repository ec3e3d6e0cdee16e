"""Training runs kept in a store, from which a stopped comparison continues to the same answer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from asyncsim.base import checks, files, spec_code, stopping
from asyncsim.base import store as storing
from asyncsim.base.trace import Trace
from asyncsim.diagnostics import _diagnostic
from asyncsim.running import running
from asyncsim.running.spec import Spec
from asyncsim.running.spreading import Site, say

ROOT = "asyncsim.running.running"
"""The module whose code, with everything that it reaches, determines a training run."""


class Kept(Site):
    """A site that stores training runs and their curves of `metric`; `there` counts the runs found in the store.

    Simulated seconds are kept if the comparison is `clocked`.
    """

    def __init__(self, workers: int | None, where: str, metric: str, clocked: bool) -> None:
        super().__init__(workers)
        self.store, self.metric, self.there, self.clocked = storing.opened(where), metric, 0, clocked

    def unit(self, spec: Spec, seed: int) -> dict[str, Any]:
        """Description of a training run as a stored unit; raises `InputError` for a spec that no file can hold."""
        subject = spec.to_dict()
        about = {"format": storing.FORMAT, "kind": storing.TRAINING, "metric": self.metric, "seed": seed}
        # Weights that are loaded and no part of the parameters are told by their contents.
        about |= {"weights": getattr(spec.trained_policy, "frozen", None)} | ({"clock": True} if self.clocked else {})
        return {**about, "subject": subject, "code": spec_code.code_of(subject, ROOT)}

    def read(self, told: Mapping[str, Any], spec: Spec) -> Trace | None:
        """Read a training run for `Reading`; None if it has to be made, with a message if a stored one is unusable."""
        name = storing.name_of(told)
        try:
            table = storing.unit_rows(self.store.read(name), name, storing.keys_of(told)[1], "remove it")
        except FileNotFoundError:
            if others := ", ".join(self.store.names(name.rpartition("/")[0])):
                say(f"made by other code: {others} in {self.store.where}; it stays there and is recomputed")
            return None
        except checks.InputError as error:
            say(f"{error}; moved to {self.store.where}/{self.store.set_aside([name])} and recomputed")
            return None
        self.there += 1
        R = spec.replicates
        curve, updates, diverged = (table[each].to_numpy().reshape(-1, R) for each in ("value", "update", "diverged"))
        ranges = _diagnostic.declared_ranges({self.metric: curve}, spec.recorded[0], spec.fitted_task.earnings)
        header = {"spec": {"updates": spec.updates}, "ranges": ranges}
        header |= {"clock": table["seconds"].to_numpy().reshape(-1, R)} if self.clocked else {}
        unread: Any = None  # a reading needs no schedule
        none = np.zeros(R, dtype=int)
        return Trace({self.metric: curve}, updates[:, 0], {}, none[:, None], diverged[0], none, unread, header)

    def write(self, told: Mapping[str, Any], trace: Trace) -> None:
        """Store a training run with its curve of the metric."""
        self.store.write(storing.name_of(told), storing.unit_file(columns(trace, self.metric, self.clocked), told))
        self.there += 1


@contextmanager
def site_of(workers: int | None, where: str | None, metric: str, clocked: bool = False) -> Iterator[Site]:
    """The site of training runs, with storage if a store is given; raises `stopping.Kept` if a signal stops them."""
    if where is None:
        with Site(workers) as site:
            yield site
        return
    files.named("store", where)
    with (site := Kept(workers, where, metric, clocked)), site.store.held():
        try:
            yield site
        except KeyboardInterrupt as error:
            text = f": {site.there} trainings are kept in {where}; the same command goes on from them"
            raise stopping.Kept(stopping.number_of(error), text) from None


def together(runs: Sequence[tuple[Spec, int]], site: Site) -> list[Trace]:
    """Train runs as `running.together` does, and store them: one process after each run, several at the end."""
    if not isinstance(site, Kept):
        return running.together(runs, site)
    units = [site.unit(*each) for each in runs]
    traces = [site.read(told, spec) for told, (spec, _) in zip(units, runs, strict=True)]
    left = [number for number, trace in enumerate(traces) if trace is None]
    for some in [[number] for number in left] if site.count == 1 else [left] * bool(left):
        for number, trace in zip(some, running.together([runs[number] for number in some], site), strict=True):
            site.write(units[number], trace)
            traces[number] = trace
    return [trace for trace in traces if trace is not None]


def columns(trace: Trace, metric: str, clocked: bool = False) -> dict[str, np.ndarray]:
    """Stored rows of a training run: the metric per replicate and recorded update, and the update of divergence."""
    clock = {"seconds": trace.seconds().reshape(-1)} if clocked else {}
    U, R = trace.metrics[metric].shape
    values = {"value": trace.metrics[metric].reshape(-1), "diverged": np.tile(trace.diverged, U)}
    return {"update": np.repeat(trace.updates, R), "replicate": np.tile(np.arange(R), U), **values, **clock}
