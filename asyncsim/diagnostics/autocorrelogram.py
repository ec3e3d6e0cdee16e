"""Products of gradients up to so many updates apart, summed over the run: the full autocorrelogram."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from asyncsim.base import checks
from asyncsim.step.step import Step


@dataclass
class Autocorrelogram:
    """Sums of <g_t, g_{t-k}> for k = 0..lags; see `autocorrelogram`."""

    lags: int
    after: int
    ring: np.ndarray | None = field(default=None, repr=False)
    sums: np.ndarray | None = field(default=None, repr=False)
    count: int = 0

    name = "autocorrelogram"
    outputs = ()
    axes: ClassVar[dict[str, tuple[str, ...]]] = {"autocorrelogram": ("lag",)}

    def fresh(self) -> "Autocorrelogram":
        """An empty copy."""
        return dataclasses.replace(self, ring=None, sums=None, count=0)

    def observe(self, step: Step) -> None:
        """Add one update's products, once the ring is full behind `after`."""
        if step.update < self.after:
            return
        gradient = step.gradient.double().cpu().numpy()
        if self.ring is None or self.sums is None:
            self.ring = np.zeros((self.lags + 1, *gradient.shape))
            self.sums = np.zeros((self.lags + 1, gradient.shape[0]))
        position = (step.update - self.after) % (self.lags + 1)
        self.ring[position] = gradient
        if step.update - self.after >= self.lags:
            products = np.einsum("krp,rp->kr", self.ring, gradient)
            self.sums += products[[(position - k) % (self.lags + 1) for k in range(self.lags + 1)]]
            self.count += 1

    def result(self) -> dict[str, np.ndarray]:
        """`autocorrelogram` `[lags + 1, R]`: mean product at each lag."""
        if self.sums is None or self.count == 0:
            remedy = "run longer or start earlier"
            raise checks.InputError("after", self.after, "leaving more updates than lags", remedy)
        return {"autocorrelogram": self.sums / self.count}


def autocorrelogram(lags: int = 8, after: Any = 0) -> Autocorrelogram:
    """Mean products of gradients k updates apart, C_k = mean_t <g_t, g_(t-k)>, k = 0..lags, per replicate.

    The ratio of averages C_k / C_0 obeys the exact identities (`alignment/lag-identity`), an average of cosines does
    not. Blind to drift: products of a run that is not stationary mix its stages.

    Arguments: `lags` >= 1 and `after` >= 0, updates left out at the start, both in updates. Returns an accumulator
    whose result "autocorrelogram" has shape `[lags + 1, R]`, in squared units of advantage per parameter. Raises
    `InputError` for other values, and after a run of too few updates. Source: textbook.

    >>> autocorrelogram(lags=3).lags
    3
    """
    lags = checks.integer("lags", lags, 1, "ask for at least one lag")
    return Autocorrelogram(lags, checks.integer("after", after, 0, "give an update number"))
