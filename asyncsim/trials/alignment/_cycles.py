"""Products of gradients inside a publish cycle, across a publish and of neighbors, summed over the run."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from asyncsim.learning.step import Step


@dataclass
class Cycles:
    """Mean products of pairs of gradients by where the publish lies; cycles begin at multiples of `length`.

    Its result, `[R]` each: "energy" E|g|^2, "inside" and "across", of all pairs of one cycle and of neighboring
    cycles, "neighbors", of all pairs one update apart. Updates before `after`, a multiple of `length`, are left out.
    """

    length: int
    after: int
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    pairs: dict[str, int] = field(default_factory=dict, repr=False)
    last: np.ndarray | None = field(default=None, repr=False)
    this: np.ndarray | None = field(default=None, repr=False)
    former: np.ndarray | None = field(default=None, repr=False)

    name = "cycles"
    outputs = ()

    def fresh(self) -> Cycles:
        """An empty copy."""
        return dataclasses.replace(self, sums={}, pairs={}, last=None, this=None, former=None)

    def observe(self, step: Step) -> None:
        """Add this update's products with the sums of its own cycle so far and of the one before."""
        if step.update < self.after:
            return
        gradient = step.gradient.double().cpu().numpy()
        phase = (step.update - self.after) % self.length
        if phase == 0:
            self.former, self.this = self.this, None
        self._add("energy", gradient, gradient, 1)
        self._add("neighbors", gradient, self.last, 1)
        self._add("inside", gradient, self.this, phase)
        self._add("across", gradient, self.former, self.length)
        self.last = gradient
        self.this = gradient if self.this is None else self.this + gradient

    def _add(self, name: str, gradient: np.ndarray, other: np.ndarray | None, pairs: int) -> None:
        if other is not None:
            self.sums[name] = self.sums.get(name, 0.0) + np.einsum("rp,rp->r", gradient, other)
            self.pairs[name] = self.pairs.get(name, 0) + pairs

    def result(self) -> dict[str, np.ndarray]:
        """Mean products by name."""
        return {name: total / self.pairs[name] for name, total in self.sums.items()}
