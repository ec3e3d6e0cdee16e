"""One block of replicates, from the values that all blocks of its run share to its results, in any process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from asyncsim.base import checks, knobs
from asyncsim.base.feeds import head
from asyncsim.diagnostics._diagnostic import Hear, Recorder
from asyncsim.running import fused
from asyncsim.running.checkpoint import Unwritable
from asyncsim.running.loop import Plan, run_block
from asyncsim.running.sources import Cut, Shared
from asyncsim.running.spec import Spec, initial_rows
from asyncsim.running.updating import Part, Standing, Updater
from asyncsim.sampling.drawing import COUPLED, DRAWING, Arriving, Fresh
from asyncsim.sampling.rollouts import Sampler
from asyncsim.step import versions
from asyncsim.step.minibatches import Cuts

FINITE = {"float64": 1e150, "float32": 1e18}
"""Norm of the parameters at which a replicate is frozen: at larger norms their squares may overflow."""


class Block:
    """Everything needed to train one block of replicates: feed, source of batches, method, updates and recorder."""

    def __init__(self, shared: Shared, cut: Cut, keeping: bool = False, hear: Hear | None = None) -> None:
        spec, policy = shared.spec, shared.spec.trained_policy
        self.shared, self.replicates, self.task = shared, cut.replicates, spec.fitted_task
        self.coupled = cut.schedule is None
        self.feed = cut.feed(spec, shared.batches, shared.seed)
        # A part of another package may have no way to be packed.
        parts = {"task": self.task, "policy": policy, "system": self.feed}
        self.unpackable = [name for name, part in parts.items() if not hasattr(part, "packed")]
        if keeping and not self.unpackable:
            self.task = self.task.keeping()
            self.feed.keeping()
        keys = (shared.seed, cut.replicates, cut.realization, spec.system.redundant)
        sampler = Sampler(self.task, policy, spec.samples, *keys)
        self.source: Any = (COUPLED if self.coupled else DRAWING)[spec.drawn](sampler, self.feed, spec.sampling)
        fused.sampling(spec, self.source)
        self.method, self.update = (knobs.bind(part, cut.replicates) for part in (spec.method, spec.update))
        fresh = None if spec.evaluation is None else Fresh(sampler, spec.evaluation)
        self.recorder = Recorder(spec, len(cut.replicates), hear, fresh)

    def packed(self, at: Standing) -> dict[str, Any]:
        """State of the block on which its next batch depends, in plain containers."""
        if self.unpackable:
            raise Unwritable(f"the {self.unpackable[0]} has no method `packed`")
        parts: dict[str, Any] = {"feed": self.feed, "source": self.source, "recorder": self.recorder}
        return {**{name: part.packed() for name, part in parts.items()}, **at._asdict()}

    def restore(self, tree: dict[str, Any]) -> Standing:
        """Restore the block and all its parts to a state that `packed` returned."""
        self.feed.restore(tree["feed"])
        self.source.restore(tree["source"], tree["batch"])
        self.recorder.restore(tree["recorder"])
        return Standing(*(tree[name] for name in Standing._fields))

    def begin(self) -> Standing:
        """State of the block before its first batch."""
        spec, policy = self.shared.spec, self.shared.spec.trained_policy
        dtype = getattr(torch, spec.precision)
        rows = initial_rows(spec.initial, spec.replicates, policy.size)
        if rows is None:
            initial = policy.initial(self.replicates, dtype, self.shared.seed)
        else:
            mine = np.broadcast_to(rows, (spec.replicates, policy.size))[self.replicates]
            initial = versions.tensor(mine.copy()).to(dtype)
        return Standing(0, initial, self.update.init(initial), torch.full((len(self.replicates),), -1))

    def train(self, at: Standing, after: Callable[[Standing], bool]) -> Part | None:
        """Train the block from a state on; `after` receives the state after every batch and may return True to stop.

        None if the first batch was given up.
        """
        spec, policy = self.shared.spec, self.shared.spec.trained_policy
        updater = Updater(
            task=self.task, policy=policy, method=self.method, update=self.update, also=self.recorder.outputs,
            updates_per_version=spec.system.batches_per_publish * spec.passes, micro_batches=spec.micro_batches,
            limit=FINITE[spec.precision],
        )  # fmt: skip
        after_cut = spec.advantages_from == "minibatch"
        cuts = Cuts(spec.parts, spec.cut_between, after_cut, self.shared.seed, self.replicates)
        plan = Plan(
            policy=policy, update=fused.update(spec, updater, self.recorder, at),
            source=self.source if spec.rewards is None else Arriving(self.source, spec.rewards),
            recorder=self.recorder, batches=self.shared.batches, epochs=spec.rounds,
            cuts=cuts if spec.parts > 1 else None, batches_per_publish=spec.system.batches_per_publish,
            progress=after,
        )  # fmt: skip
        # The loop alone holds where it begins: parameters and states would else stay for the whole run.
        begin = [at]
        del at
        at = run_block(plan, begin.pop())
        if at.batch == 0:
            return None
        made = at.batch * spec.passes
        metrics, accumulated = self.recorder.results(made, whole=made == spec.updates)
        schedule = head(self.feed.record(), at.batch) if self.coupled else None
        parameters, diverged = at.parameters.cpu().numpy(), at.diverged.cpu().numpy()
        return Part(metrics, accumulated, self.recorder.axes, parameters, diverged, schedule, made)


@contextmanager
def computing(spec: Spec) -> Iterator[None]:
    """Context that sets up torch for runs of a spec: no gradients, the policy's threads, and the device."""
    try:
        with torch.no_grad(), versions.threads(spec.trained_policy.threads), versions.on(spec.device):
            yield
    except (MemoryError, RuntimeError) as error:
        # Torch has a class of its own for a full GPU, and for full main memory only a text.
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "allocate memory" not in str(error):
            raise
        told, bound = [*str(error).splitlines(), "exhausted"][0], f"within that of the device ({spec.device})"
        remedy = "lower samples_per_group, groups_per_batch, the horizon, block or the policy's micro_batch"
        raise checks.InputError("memory", told, bound, remedy) from error
