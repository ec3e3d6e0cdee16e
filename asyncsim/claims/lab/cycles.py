"""Products of gradients inside a publish cycle, across a publish and of neighbors, summed over the run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from asyncsim.step.step import Step


@dataclass
class Cycles:
    """Mean products of pairs of gradients by where the publish lies; cycles begin at multiples of `length`.

    Its result, `[R]` each: "energy" E|g|^2; "inside", of all pairs of one cycle; "across", of neighboring cycles;
    "neighbors", of all pairs one update apart. Updates before `after`, a multiple of `length`, are left out.
    """

    length: int
    after: int
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    pairs: dict[str, int] = field(default_factory=dict, repr=False)
    previous: np.ndarray | None = field(default=None, repr=False)
    current_sum: np.ndarray | None = field(default=None, repr=False)
    previous_sum: np.ndarray | None = field(default=None, repr=False)

    name = "cycles"
    outputs = ()

    def fresh(self) -> Cycles:
        return dataclasses.replace(self, sums={}, pairs={}, previous=None, current_sum=None, previous_sum=None)

    def observe(self, step: Step) -> None:
        if step.update < self.after:
            return
        gradient = step.gradient.double().cpu().numpy()
        phase = (step.update - self.after) % self.length
        if phase == 0:
            self.previous_sum, self.current_sum = self.current_sum, None
        self._add("energy", gradient, gradient, 1)
        self._add("neighbors", gradient, self.previous, 1)
        self._add("inside", gradient, self.current_sum, phase)
        self._add("across", gradient, self.previous_sum, self.length)
        self.previous = gradient
        self.current_sum = gradient if self.current_sum is None else self.current_sum + gradient

    def _add(self, name: str, gradient: np.ndarray, other: np.ndarray | None, pairs: int) -> None:
        if other is not None:
            self.sums[name] = self.sums.get(name, 0.0) + np.einsum("rp,rp->r", gradient, other)
            self.pairs[name] = self.pairs.get(name, 0) + pairs

    def result(self) -> dict[str, np.ndarray]:
        return {name: total / self.pairs[name] for name, total in self.sums.items()}
