"""Metrics of populations against sums of fractions over every outcome: cells count by mass, however small it is."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.step import ratios
from tests.contracts.measuring import on, step_with

D = sim.diagnostics
LEVELS = (0.0, 1e-25, 1e-9, 0.01, 0.5, 0.99, 1.0 - 1e-9, 1.0 - 2.0**-50, 1.0)


def law(*weights):
    return [Fraction(w) / sum(map(Fraction, weights)) for w in weights]


def log(x):
    """Of a fraction of any size, exact to a bit."""
    return math.log(x.numerator) - math.log(x.denominator)


def root(x):
    return math.exp(0.5 * log(x))


# Behavior and current policy over the actions of a token; four tokens.
NEAR = law(8, 4, 2, 1), law(1, 1, 8, 8)
RARE = law(1, Fraction(1, 2**30), Fraction(1, 2**40)), law(1, 1, 2**20)
SHUNNED = law(1, Fraction(1, 2**40), 2**20), law(2**30, 1, Fraction(1, 2**10))
ABSURD = law(1, Fraction(1, 2**120), Fraction(1, 2**180)), law(1, 1, 2**20)


class Population:
    """Every sequence of four tokens, with its probability under `mu` and its token ratios, as fractions."""

    def __init__(self, mu, pi, tokens=4):
        rows = list(itertools.product(range(len(mu)), repeat=tokens))
        self.mass = [math.prod(mu[a] for a in row) for row in rows]
        self.ratios = [[pi[a] / mu[a] for a in row] for row in rows]
        self.weight = [math.prod(row) for row in self.ratios]
        self.logs = [log(w) for w in self.weight]
        task = sim.tasks.token_bandit(len(mu), tokens)
        self.step = sim.oracle.population_step(
            task, sim.methods.full_is(), [log(p) for p in pi], behavior=[log(p) for p in mu]
        )

    def mean(self, values):
        return sum(m * v for m, v in zip(self.mass, values, strict=True))

    def tokens(self, function):
        """Mean over tokens of a function of their ratio."""
        return self.mean(sum(map(function, row)) / Fraction(len(row)) for row in self.ratios)

    def quantile(self, level):
        """The smallest log ratio up to which lies so much mass."""
        below, order = Fraction(0), sorted(range(len(self.logs)), key=self.weight.__getitem__)
        for i in order:
            below += self.mass[i]
            if below >= Fraction(level):
                return self.logs[i]
        return self.logs[order[-1]]

    def expected(self):
        """Name to value; a metric with settings has them behind its name."""
        first, second = self.mean(self.weight), self.mean(w * w for w in self.weight)
        token, square = self.tokens(lambda r: r), self.tokens(lambda r: r * r)
        moved = [(log(r), m / len(row)) for row, m in zip(self.ratios, self.mass, strict=True) for r in row]
        logs = [float(m) * x for m, x in zip(self.mass, self.logs, strict=True)]
        values = {
            ("ess",): first**2 / second,
            ("ess_token",): token**2 / square,
            ("ess_frames",): token**2 / square,
            ("ess_within",): self.mean(sum(row) ** 2 / (len(row) * sum(r * r for r in row)) for row in self.ratios),
            ("ess_token_clamped",): float(self.tokens(lambda r: min(max(r, Fraction(1, 2)), 2))) ** 2
            / float(self.tokens(lambda r: min(max(r, Fraction(1, 2)), 2) ** 2)),
            ("mean_weight",): first,
            ("token_ratio_mean",): token,
            ("chi_square",): second - 1,
            ("chi_square_token",): square - 1,
            ("ratio_sd",): root(second - first**2),
            ("ratio_sd", "token"): root(square - token**2),
            ("log_ratio_max",): max(self.logs),
            ("log_ratio_min",): min(self.logs),
            ("log_ratio_max", "token"): max(x for x, _ in moved),
            ("log_ratio_min", "token"): min(x for x, _ in moved),
            ("log_ratio_mean",): math.fsum(logs),
            ("log_ratio_variance",): math.fsum(
                float(m) * (x - math.fsum(logs)) ** 2 for m, x in zip(self.mass, self.logs, strict=True)
            ),
            ("kl",): float(first) - 1 - math.fsum(logs),
            ("kl_k1",): -math.fsum(logs),
            ("kl_k2",): math.fsum(float(m) * x * x / 2 for m, x in zip(self.mass, self.logs, strict=True)),
            ("kl_reverse",): math.fsum(
                float(m * w) * x for m, w, x in zip(self.mass, self.weight, self.logs, strict=True)
            ),
            ("m2_all",): math.fsum(float(m) * x * x for x, m in moved),
            ("max_weight_share",): 0.0,
            ("max_applied_share",): 0.0,
        }
        for bound in (Fraction(2), Fraction(1, 1024), Fraction(10**6)):
            for name, outside in (("ratio_above", bound.__lt__), ("ratio_below", bound.__gt__)):
                values[name, float(bound)] = self.mean(int(outside(w)) for w in self.weight)
                values[name, float(bound), "token"] = self.tokens(lambda r, outside=outside: int(outside(r)))
        return values | {("log_ratio_quantile", level): self.quantile(level) for level in LEVELS}


@pytest.mark.parametrize("laws", [NEAR, RARE, SHUNNED, ABSURD], ids=["near", "rare", "shunned", "absurd"])
def test_metrics_of_a_population_are_sums_over_its_outcomes(laws):
    """The rarest cell has the mass 2^-720; quantiles, extremes, ESS and chi-square count it like any other."""
    population = Population(*laws)
    for (name, *settings), value in population.expected().items():
        made = getattr(D, name)
        metric = made if isinstance(made, Metric) else made(*settings)
        near = pytest.approx(float(value), rel=1e-9, abs=1e-12 if abs(value) < 1e-12 else 0.0)
        assert metric.at(population.step).item() == near, (name, settings)
    assert all(math.isnan(getattr(D, name).at(population.step)) for name in ("tail_index", "pareto_k"))


def test_cells_of_any_mass_count_in_the_extremes_of_the_stated_case():
    """37.26 nats at a mass of 2e-17, where cells below 1e-16 once were none: 22.80."""
    step = sim.oracle.population_step(
        sim.tasks.token_bandit(4, 7),
        sim.methods.full_is(),
        (-0.54, -1.26, 1.96, -0.4),
        behavior=(2.08, 2.25, -2.65, -2.96),
    )
    for metric in (D.log_ratio_max(), D.log_ratio_quantile(1.0)):
        assert metric.at(step).item() == step.sequence_log_ratio.max().item() == pytest.approx(37.26, abs=0.005)


@pytest.mark.parametrize("size", [20, 1000, 10_000])
@pytest.mark.parametrize("level", [0.01, 0.05, 0.3, 0.7, 0.95, 0.999, 0.9999])
def test_quantiles_of_equal_masses_are_those_of_the_sample(size, level):
    """Sums of rounded masses reach the level where the count does: ceil(level n) of n."""
    values = torch.arange(size, dtype=torch.float64)[None]
    found = ratios.quantile(values, torch.full((1, size), 1.0 / size, dtype=torch.float64), level).item()
    assert found == math.ceil(round(level * size, 6)) - 1


def test_the_staleness_of_first_tokens_is_weighed_by_mass():
    """Nine of ten trajectories begin with a token of version 3, the others behind a tool's with one of version 6."""
    log_ratio, version = np.zeros((1, 1, 2, 2)), np.array([[[[3, 6], [3, 6]]]])
    mask, mass = np.array([[[[1.0, 1.0], [0.0, 1.0]]]]), np.array([0.9, 0.1])
    found = on("staleness", log_ratio, mask=mask, mass=mass, size=math.inf, version=version)
    np.testing.assert_allclose(found, 0.9 * 4.0 + 0.1 * 1.0, rtol=1e-12)


def test_the_gradient_of_a_population_has_no_variance():
    """In a run on populations every batch is the same one; a batch of one sample would have 1/8."""
    task = sim.tasks.softmax_bandit(arms=2, means=[0.0, 1.0], rewards="fixed")
    method = sim.methods.reinforce(sim.advantages.none())
    spec = sim.Spec(task, sim.schedules.fixed(0), method, sim.chain(), updates=2, replicates=2, sampling="enumerate",
                    diagnostics=["variance"], initial=[0.0, 0.0])  # fmt: skip
    assert sim.run(spec, progress=False)["variance"].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_widest_gate_of_sat_is_the_largest_ratio_that_occurs():
    """At quantile 1 no token is outlying, whatever its mass."""
    log_ratio = np.array([0.1, 0.2, 0.9]).reshape(1, 1, 3, 1)
    seen = step_with(log_ratio, mass=[0.5, 0.5 - 1e-12, 1e-12], size=math.inf)
    for quantile, gate in ((1.0, 0.9), (0.9, 0.2)):
        sim.methods.sat(quantile=quantile).weight.score_weight(seen, torch.ones(1, 1, 3, 1, dtype=torch.float64))
        assert seen.statistics["sat_gate"].item() == pytest.approx(gate)
