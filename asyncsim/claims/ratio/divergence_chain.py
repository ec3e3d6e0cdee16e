r"""Divergences between two policies bound one another: KL(pi || mu) <= ln(1 + chi^2) <= chi^2 <= c(R) M2.

`KL(pi || mu) <= ln(1 + chi^2) <= chi^2 <= ((R - 1)/ln R)^2 E (ln w)^2` for ratios in `[1/R, R]`

M2 = E_mu (ln w)^2 and c(R) = ((R - 1)/ln R)^2 where 1/R <= w <= R. The quantities are the largest values over policy
pairs: "kl" of KL(pi || mu) / ln(1 + chi^2), "renyi" of ln(1 + chi^2) / chi^2, "second" of chi^2 / M2. All are attained
in a limit: kl where pi has one arm left, renyi where the policies meet, second where a rare arm has the weight R and
the others nearly 1. KL(mu || pi) obeys no such bound. Derivation: Jensen for ln E_pi w; ln(1 + x) <= x; (w - 1)/ln w =
int_0^1 w^u du grows with w. Domain: ratios of mean 1, R up to 1000. Second route: ratios in the limits themselves, and
that integral by quadrature at every weight of a grid. Source: derived; arXiv 2510.01161 has R^2 for c(R).
"""

import math
from typing import Any

import numpy as np

from asyncsim.claims._claim import Claim, Estimate, Plant, Point, Real, lab, multiplied, replaced, sim

_RARE, _ARMS = 1e-5, 4
"""Share of the arm of weight R; the limit is missed by about as much."""


def _metrics(kl: str = "kl_reverse") -> list[Any]:
    return [kl, "chi_square", "m2_all", sim.diagnostics.log_ratio_max(), sim.diagnostics.log_ratio_min()]


class DivergenceChain(Claim):
    kind, source = "bound", "derived; arXiv 2510.01161 with R^2"
    through = "oracle"

    largest = Real(1.0001, 1000.0, typical=(1.1, 50.0), example=3.0, doc="R, ratios lie in [1/R, R]")

    def predict(s) -> dict[str, float]:
        return {"kl": 1.0, "renyi": 1.0, "second": ((s.largest - 1.0) / math.log(s.largest)) ** 2}

    def check(s) -> dict[str, float]:
        shares = np.array([0.05, 0.3, 0.9])
        # With one arm left KL(pi || mu) is -ln of its behavior probability, and E w^2 is one over that.
        kl = (-np.log(shares) / np.log(1.0 / shares)).max()
        meeting = np.array([1e-13, 1e-14])
        renyi = (np.log1p(meeting) / meeting).max()
        u, weight = np.polynomial.legendre.leggauss(60)
        log_w = np.linspace(-1.0, 1.0, 201) * math.log(s.largest)
        means = np.exp(np.outer(log_w, (u + 1.0) / 2.0)) @ weight / 2.0
        return {"kl": float(kl), "renyi": float(renyi), "second": float(means.max() ** 2)}

    wrong = {"geometric mean of the ratios, R": lambda s: {"second": s.largest}}

    terms = {
        "KL": multiplied("kl"),
        "Renyi's divergence": multiplied("renyi"),
        "second moment of the log ratio": multiplied("second"),
    }

    points = ({"largest": 3.0}, {"largest": 20.0})
    more = ({"largest": 1.5},)

    def measure(self, point: Point, effect: float, seed: int, plant: Plant) -> dict[str, Estimate]:
        current, behavior = lab.weights.drawn(_ARMS, seed, "divergence-chain")
        narrow = behavior + 0.3 * (current - behavior)
        one_left = np.concatenate([40.0 * np.eye(_ARMS), current[:100]])
        pairs = (current, behavior), (narrow, behavior), (one_left, behavior[: 100 + _ARMS])
        sets = [
            lab.metrics_of(plant(lab.weights.bandit(pair[0].shape[1], _metrics())), *pair)
            for pair in (*pairs, lab.weights.two_arms(_RARE, point["largest"]))
        ]
        kl, chi_square, second, highest, lowest = (np.concatenate(each) for each in zip(*sets, strict=True))
        renyi, limit = np.log1p(chi_square), np.log(point["largest"]) + 1e-12
        inside = (highest <= limit) & (lowest >= -limit)
        largest = {"kl": kl / renyi, "renyi": renyi / chi_square, "second": (chi_square / second)[inside]}
        return {
            name: Estimate(float(x.max()), tolerance=1e-9 * float(x.max()), samples=x.size)
            for name, x in largest.items()
        }

    defects = {
        "the other direction of KL": lambda: replaced(diagnostics=_metrics(kl="kl_k1")),
        "scored at another temperature": lambda: lab.with_policy(lab.Tempered),
    }
