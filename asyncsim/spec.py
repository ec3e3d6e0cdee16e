"""The spec: everything that a run depends on but its seed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asyncsim import checks, knobs
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy
from asyncsim.rollouts import DRAWING, SAMPLING
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain

DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class Spec:
    """What to run: task, system, method, update chain, sizes.

    Arguments:
        task: what is asked (`sim.tasks`). system: an event system (`sim.systems`), an imposed schedule
        (`sim.schedules`) or a saved `Schedule`. method: advantage, weight and aggregator (`sim.methods`). update:
        links applied to the gradient (`sim.chain(...)`). policy: default the task's own. samples_per_group: N.
        updates: optimizer updates U. replicates: R independent seeds. realizations: schedules M that replicates are
        spread over (replicate r runs on r mod M); default the system's own. sampling: "monte_carlo", "counts"
        (one-token tasks) or "enumerate" (the population: mean dynamics). drawing: "late" (when trained) or "early"
        (when the version is current); the same result to the bit. diagnostics: "default", "none", or names and values
        of `sim.diagnostics`. every: record each so many updates. initial: initial parameters `[P]` or `[R, P]`
        (default the policy's own). dtype: "float64" or "float32". block: replicates computed together (default: as
        many as fit); does not change the result.

    Raises `InputError` when the parts do not fit together, before anything is run.
    """

    task: Task
    system: Any
    method: Method
    update: Chain
    policy: Policy | None = None
    samples_per_group: int = 16
    updates: int = 100
    replicates: int = 64
    realizations: int | None = None
    sampling: str = "monte_carlo"
    drawing: str = "late"
    diagnostics: str | Sequence[Any] = "default"
    every: int = 1
    initial: Any = None
    dtype: str = "float64"
    block: int | None = None

    def __post_init__(self) -> None:
        for name in ("samples_per_group", "updates", "replicates", "every"):
            checks.integer(name, getattr(self, name), 1, "give a positive integer")
        checks.one_of("sampling", self.sampling, SAMPLING, "say how outcomes are laid out")
        checks.one_of("drawing", self.drawing, DRAWING, "say when trajectories are drawn")
        checks.one_of("dtype", self.dtype, DTYPES, "choose the precision of parameters")
        for name in ("realizations", "block"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1, "leave it out for the default", self.replicates)
        for name, sign, remedy in (
            ("task", "outcomes", "write sim.tasks.NAME(...)"),
            ("system", "updates_per_batch", "write sim.systems.NAME(...), sim.schedules.NAME(...) or a Schedule"),
            ("method", "aggregator", "write sim.methods.NAME(...)"),
        ):
            part = getattr(self, name)
            checks.require(hasattr(part, sign), name, part, f"a {name} (it has no {sign!r})", remedy)
        checks.require(
            isinstance(self.update, Chain), "update", self.update, "a chain of links", "write sim.chain(link, ...)"
        )
        self.method.advantage.check(math.inf if self.sampling == "enumerate" else self.samples_per_group)
        policy = self.policy or self.task.policy()
        self.task.check(policy)
        lacking = set(self.method.outputs) - set(policy.outputs)
        checks.require(
            not lacking,
            "method",
            self.method.name,
            "computable from the policy's outputs " + ", ".join(policy.outputs),
            f"it reads {', '.join(sorted(lacking))}; the quadratic goes with methods.gradient()",
        )
        for link in self.update.links:
            lacking = set(getattr(link, "outputs", ())) - set(policy.outputs)
            checks.require(
                not lacking,
                "update",
                link,
                "computable from the policy's outputs " + ", ".join(policy.outputs),
                f"leave it out; it reads {', '.join(sorted(lacking))}",
            )
        for part in (self.method, self.update):
            for length in sorted(knobs.lengths(part)):
                checks.require(
                    length == self.replicates,
                    "replicates",
                    self.replicates,
                    f"{length}, as a knob has one number for each",
                    "give a single number or one per replicate",
                )

    def replace(self, **changes: Any) -> Spec:
        """The same spec with other fields."""
        return dataclasses.replace(self, **changes)

    def describe(self) -> dict[str, Any]:
        """Header of a run, in words."""
        policy = self.policy or self.task.policy()
        system = (
            self.system.describe() if hasattr(self.system, "describe") else {"schedule": "saved", **self.system.header}
        )
        names = ("samples_per_group", "updates", "replicates", "sampling", "drawing", "dtype")
        return {
            **self.task.describe(),
            **policy.describe(),
            "system": system,
            **self.method.describe(),
            "update": self.update.describe(),
            **{name: getattr(self, name) for name in names},
        }
