"""Minibatches: a batch split into parts, shuffled anew for every epoch and replicate."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import rng
from asyncsim.fusing.tape import recording
from asyncsim.step.batch import Batch
from asyncsim.step.step import Carried, Step
from asyncsim.step.versions import View, Weights, tensor

CUTS = ("groups", "parts", "samples", "tokens")
"""Split between groups; take a part of every group; split all samples of the batch; split its tokens."""
FLAT = ("samples", "tokens")
"""Cuts after which a minibatch counts as one group."""
WHEN = ("batch", "minibatch")
TOKENWISE = ("action", "state", "mask", "index", "token_reward", "ended", "finished", "age")
"""Fields of a batch that have numbers per token, or none."""


@dataclass(frozen=True)
class Minibatch:
    """One minibatch: the rows of a batch that belong to it.

    `rows`: int64 `[R, G', N']`, indices in the batch of its samples (or tokens, for such a cut); `cut`: one of `CUTS`.
    """

    rows: Tensor
    cut: str

    def of(self, batch: Batch, start: Carried, outside: bool = True) -> tuple[Batch, Carried]:
        """Cut the minibatch from a batch and from `start`; with `outside`, also from its versions and ids."""
        groups, samples = self.rows.shape[1:]
        known = {name: getattr(batch, name) for name in TOKENWISE}
        fields: dict[str, Any] = {name: self._tokens(x, batch) for name, x in known.items() if x is not None}
        fields["reward"] = self._samples(batch.reward, batch)
        fields["behavior"] = {name: self._tokens(x, batch) for name, x in batch.behavior.items()}
        fields["mass"] = torch.full((1, groups, samples), 1.0 / samples, dtype=batch.mass.dtype)
        if batch.kept is not None:
            there, left = ((self._samples(x, batch) > 0).to(x.dtype) for x in (batch.mass, batch.kept))
            # A part of a group may have no known reward: then nothing of it is left, and its masses do not matter.
            there = torch.where(there.sum(-1, keepdim=True) > 0, there, torch.ones_like(there))
            fields |= {"mass": there / there.sum(-1, keepdim=True), "kept": left / samples}
            fields["arrivals"] = {name: self._samples(x, batch) for name, x in batch.arrivals.items()}
        fields |= {"size": samples, "_full": batch.full or None}
        if outside:
            fields |= self._outside(batch)
        return dataclasses.replace(batch, **fields), self._start(batch, start)

    def _start(self, batch: Batch, start: Carried) -> Carried:
        """Select this part of the values that all updates on the batch share."""
        advantages, targets, counted, mass = start.advantages, start.targets, start.counted, None
        if advantages is not None:
            advantages = (self._samples if advantages.ndim == 3 else self._tokens)(advantages, batch)
        if targets is not None:
            targets = self._tokens(targets, batch)
        if counted is not None and self.cut == "groups":
            counted = counted.gather(1, self.rows[:, :, :1] // batch.mass.shape[2])
        if counted is not None and self.cut in FLAT:
            kept = self._samples(counted.expand_as(batch.reward), batch)
            if batch.kept is not None:
                kept = kept * (self._samples(batch.kept, batch) > 0)
            mass = kept / kept.sum(-1, keepdim=True).clamp(min=1.0)
            counted = kept.amax(-1, keepdim=True)
        return dataclasses.replace(start, advantages=advantages, targets=targets, counted=counted, mass=mass)

    def _samples(self, x: Tensor, batch: Batch) -> Tensor:
        """Select numbers of samples `[R, G, N]` for this part, `[R, G', N']`."""
        if self.cut == "tokens":
            return self._tokens(x.unsqueeze(-1), batch)[..., 0]
        return self._pick(x, batch, 3)

    def _tokens(self, x: Tensor, batch: Batch) -> Tensor:
        """Select numbers of tokens `[R, G, N, T, ...]` for this part, `[R, G', N', T, ...]`; T = 1 for cut tokens."""
        return self._pick(x, batch, 4).unsqueeze(3) if self.cut == "tokens" else self._pick(x, batch, 3)

    def _pick(self, x: Tensor, batch: Batch, axes: int) -> Tensor:
        shape, tail = batch.action.shape[:axes], x.shape[axes:]
        flat, index = x.expand(*shape, *tail).reshape(shape[0], shape[1:].numel(), -1), self.rows.flatten(1)
        # One number is looked up three times as fast without its axis; rows of many are copied whole.
        if flat.shape[2] == 1:
            found = flat[..., 0].gather(1, index)
        elif recording() is None:
            places = index + torch.arange(shape[0]).unsqueeze(1) * flat.shape[1]
            found = flat.flatten(0, 1).index_select(0, places.flatten())
        else:
            found = flat.gather(1, index.unsqueeze(-1).expand(-1, -1, flat.shape[2]))
        return found.reshape(*self.rows.shape, *tail)

    def _outside(self, batch: Batch) -> dict[str, Any]:
        """Ids and versions per replicate, and the kept weights that the tokens read."""
        _, G, N, T = batch.action.shape[:4]
        last, rows = (T if self.cut == "tokens" else 1), self.rows.flatten(1).cpu().numpy()

        def pick(x: np.ndarray) -> np.ndarray:
            """Select from `[M, G, N, T or 1]`, giving `[R, G', N', T or 1]`."""
            wide = np.broadcast_to(x, (len(x), G, N, max(last, x.shape[3]))).reshape(len(x), G * N * last, -1)
            if (wide == wide[:, :1]).all():
                found = np.broadcast_to(wide[batch.realization][:, :1], (*rows.shape, wide.shape[2]))
            else:
                places = rows + wide.shape[1] * batch.realization[:, None]
                found = wide.reshape(-1, wide.shape[2]).take(places, 0)
            return found.reshape(*self.rows.shape, -1)

        view, replicates = batch.view, np.arange(len(batch.realization))
        if view is not None and not view.single:
            slot = np.broadcast_to(view.slot, (len(batch.version), *view.slot.shape[1:]))
            view = View(view.weights, pick(slot), replicates)
        trajectory = pick(batch.trajectory[..., None])[..., 0]
        return {"version": pick(batch.version), "trajectory": trajectory, "realization": replicates, "view": view}


@dataclass(frozen=True)
class Cuts:
    """Rule for cutting batches into `count` minibatches by `cut`; with `after`, advantages are per minibatch."""

    count: int
    cut: str
    after: bool
    seed: int
    replicates: np.ndarray

    def of(self, number: int, epochs: int, batch: Batch) -> Iterator[Minibatch]:
        """All minibatches of a batch, epoch by epoch, in the same order at every call.

        Orders are Fisher and Yates's: position k is swapped with k + floor(u (n - k)), u draw k of (replicate, batch,
        epoch) of the stream "shuffle".
        """
        from asyncsim.base import rng_compiled

        R, G, N, T = batch.action.shape[:4]
        rows, size = {"groups": (1, G), "parts": (G, N), "samples": (1, G * N), "tokens": (1, G * N * T)}[self.cut]
        key = rng.Stream(self.seed, "shuffle").key
        members = torch.arange(N) if self.cut == "groups" else None
        for epoch in range(epochs):
            places = np.empty((self.count, R, rows, size // self.count), dtype=np.int64)
            rng_compiled.fill_parts(*key, self.replicates, number, epoch, places)
            for part in tensor(places):
                yield Minibatch(part if members is None else part[:, 0, :, None] * N + members, self.cut)

    @property
    def unfinished(self) -> bool:
        """Whether advantages are computed on the batch, but standardized on each minibatch."""
        return self.after and self.cut in FLAT

    def begin(self, whole: Step, weights: Weights) -> Carried:
        """Values that all updates on a batch share, from the step on the full batch at the current weights."""
        method, flat = whole.method, self.cut in FLAT
        before = flat or not self.after
        advantages = None
        if before and method.scored:
            advantages = method.advantage.estimate(whole) if self.after else whole.advantages
        targets = whole.targets if before and method.critic else None
        return Carried({}, advantages, targets, weights, whole.counted, unfinished=self.unfinished)


def cut_rules(
    count: int, cut: str, when: str, sizes: tuple[int, int, int], advantage: Any, sampling: str
) -> Iterator[tuple[bool, str, Any, str, str]]:
    """Conditions on cutting batches into minibatches, each with its error message; `sizes` are a batch's G, N and T."""
    if count == 1:
        return
    remedy = "a minibatch is made of samples; use sampling='monte_carlo'"
    yield sampling == "monte_carlo", "minibatches", count, f"1 with sampling={sampling!r}", remedy
    groups, samples, tokens = sizes
    size, of = {
        "groups": (groups, f"the {groups} groups of a batch"),
        "parts": (samples, f"the {samples} samples of a group"),
        "samples": (groups * samples, f"the {groups * samples} samples of a batch"),
        "tokens": (groups * samples * tokens, f"the {groups * samples * tokens} tokens of a batch"),
    }[cut]
    remedy = "choose another number, or cut between " + " or ".join(repr(each) for each in CUTS if each != cut)
    yield size % count == 0, "minibatches", count, f"a divisor of {of} with cut={cut!r}", remedy
    if when == "minibatch" and cut == "parts":
        advantage.check(samples // count)
    if when == "minibatch" and cut in FLAT:
        bound = f"'batch' with cut={cut!r}, or one that only standardizes behind such a cut, as gae(normalize=True)"
        remedy = "use advantages_from='batch', or cut='parts', which keeps what is left of a group together"
        yield advantage.finishes, "advantages_from", when, bound, remedy
