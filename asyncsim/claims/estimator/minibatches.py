r"""With minibatches drawn without replacement, an epoch uses every sample once, so the draw adds no noise to it.

the sum of the first `j` of `M` minibatches drawn without replacement has `j M` times the variance of the batch mean, a
complete epoch `M^2` times, whatever unit is cut; every epoch is drawn anew

A batch of n samples with gradient noise of variance s^2 is gone through E times in M minibatches, an update of `step`
on each. Behind e epochs and j minibatches the noise of the sum of gradients has variance (e M)^2 + 2 e M j + j M in
units of s^2/n, times step^2. Derivation: an epoch sums to M times the batch mean, of variance s^2/n; j minibatches of
the next one have variance j M s^2/n, and with that mean a covariance j s^2/n. Dealt with replacement one epoch would
have (2 - 1/n) M^2 instead of M^2, about, and the batch would be half lost. Epochs are dealt anew: minibatches of two
epochs have covariance 1 whatever their places, two of one epoch 0. So updates k = 1, ..., M apart, the later behind the
first epoch, have k/M on average (`covariance`), and not M at k = M. So nothing depends on what is cut, groups, parts of
each, samples or tokens, as long as sizes are equal. Domain: gradients linear in samples, at weights that do not change:
data of one published version, one batch. Second route: covariances of all pairs of samples and minibatches, summed.
"""

import numpy as np

import asyncsim as sim
from asyncsim.claims import lab
from asyncsim.claims._claim import Choice, Claim, Count, Estimate, Plant, Point, Positive, indexed, replaced, units_for

_COORDINATES = 8
_SPREAD = 0.6
"""Standard deviation of what one replicate measures, relative to the norm of its kind (found at the points below)."""
_POINT = {"groups": 2, "samples": 2, "epochs": 2, "minibatches": 2, "cut": "samples", "noise": 1.5, "step": 0.1}


class Minibatches(Claim):
    kind, source = "expectation", "derived: sampling without replacement"
    relative_to = "norm"

    groups = Count(1, 64, typical=(1, 4), example=4, unit="groups", doc="groups of the batch")
    samples = Count(1, 64, typical=(1, 6), example=4, doc="samples of a group")
    epochs = Count(1, 8, typical=(2, 3), example=2, doc="passes through the batch")
    minibatches = Count(1, 16, typical=(1, 4), example=2, doc="parts of the batch, an update on each")
    cut = Choice("groups", "parts", "samples", "tokens", example="samples", doc="unit at which the batch is cut")
    noise = Positive(typical=(0.5, 2.0), example=1.5, unit="gradient", doc="standard deviation of a sample's gradient")
    step = Positive(typical=(0.01, 0.5), example=0.1, unit="parameter per gradient", doc="learning rate")

    def joint(self) -> None:
        size = {"groups": self.groups, "parts": self.samples}.get(self.cut, self.groups * self.samples)
        self.require(size % self.minibatches == 0, "minibatches", f"a divisor of {size}", "choose a divisor")
        self.require(self.epochs >= 2, "epochs", "at least 2", "an order is dealt anew for the second")

        # Updates that have been made, 1, 2, ...
        self.counts = np.arange(1.0, self.epochs * self.minibatches + 1)

    def _quantities(s, variances: np.ndarray, covariances: np.ndarray) -> dict[str, float]:
        """Scale quantities from units of the variance of one step along the mean gradient of the batch."""
        unit = s.step**2 * s.noise**2 / (s.groups * s.samples)
        return indexed("variance", unit * variances) | indexed("covariance", unit * covariances)

    def predict(s, variances: np.ndarray | None = None) -> dict[str, float]:
        m = s.minibatches
        epoch, place = np.divmod(s.counts, m)
        right = (epoch * m) ** 2 + 2.0 * epoch * m * place + place * m
        # Updates 0, ..., M apart.
        covariances = np.append(m, np.arange(1, m + 1) / m)
        return s._quantities(right if variances is None else variances, covariances)

    def check(s) -> dict[str, float]:
        """Noise shared by pairs of minibatches: all in the same one, none within an epoch, a fraction across epochs."""
        m, updates = s.minibatches, s.epochs * s.minibatches
        size = s.groups * s.samples / m
        shared = np.empty((updates, updates))
        for first, second in np.ndindex(updates, updates):
            same_epoch, same_place = first // m == second // m, first % m == second % m
            shared[first, second] = size * same_place if same_epoch else size / m
        covariance = shared / size**2 * (s.groups * s.samples)
        sums = [covariance[:k, :k].sum() for k in range(1, updates + 1)]
        lags = [np.mean([covariance[k, k - lag] for k in range(m, updates)]) for lag in range(m + 1)]
        return s._quantities(np.array(sums), np.array(lags))

    wrong = {
        # Noise of the dealing beside that of the batch.
        "dealt with replacement": lambda s: s.predict(
            s.counts**2 + s.counts * s.minibatches * (1.0 - 1.0 / (s.groups * s.samples))
        )
    }

    points = (_POINT,)
    more = ({**_POINT, "cut": "groups"}, {**_POINT, "cut": "parts"})

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        parts = point["minibatches"]
        count = point["epochs"] * parts
        task = sim.tasks.quadratic((1.0,) * _COORDINATES, noise=point["noise"])
        fresh, descent = lab.fixed(0, groups_per_batch=point["groups"]), sim.updates.sgd(point["step"])
        squares = lab.Metric("squares", lambda step: (step.parameters**2).mean(-1))
        size = {"samples_per_group": point["samples"], "updates": count, "epochs": point["epochs"], "cut": point["cut"]}
        size |= {"minibatches": parts, "replicates": units_for(_SPREAD, effect, count + parts + 1)}
        metrics = [squares, sim.diagnostics.autocorrelogram(parts)]
        spec = lab.descent(task, fresh, descent, diagnostics=metrics, **size)
        trace = lab.run(spec, seed, plant)
        # The start is 0, and so is the mean gradient of the only batch.
        variances = [*trace["squares"][1:], (trace.parameters**2).mean(-1)]
        found = {f"variance[{k}]": lab.between(np.asarray(x)) for k, x in enumerate(variances)}
        products = point["step"] ** 2 * trace.accumulated["autocorrelogram"] / _COORDINATES
        return found | {f"covariance[{k}]": lab.between(x) for k, x in enumerate(products)}

    defects = {"no minibatches": lambda: replaced(minibatches=1), "one epoch": lambda: replaced(epochs=1)}
