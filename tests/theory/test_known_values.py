"""Numbers known by hand or from print, where two routes to a formula say less than one of them."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.claims._recursion import second_moments


def predict(id: str, **point: object) -> dict[str, float]:
    return claims.claim(id).predict(point)


@pytest.mark.parametrize(
    ("rule", "tickets", "largest"),
    [
        ("window:1", 8, 1), ("target", 10, 2), ("version_strict", 20, 4), ("drain", 6, 1), ("drain", 9, 2),
        ("window:2", 12, 3), ("window:5", 12, 3), ("window:6", 12, 4), ("window:8", 8, 3), ("wait:2", 12, 2),
        ("wait:5", 12, 5),
    ],
)  # fmt: skip
def test_hard_bounds(rule: str, tickets: int, largest: int) -> None:
    point = {"rule": rule, "tickets": tickets, "length": "pareto:1:1.5", "train_time": 1.0, "sync_time": 0.0}
    found = predict("systems/hard-bounds", groups_per_batch=4, batches_per_publish=1, **point)
    assert found["largest"] == largest
    assert found.get("spread") == {8: 0.0, 10: 1.0, 20: 0.0, 6: 1.0, 9: 1.0}.get(tickets if "spread" in found else -1)


def test_truncation_bias_norm_is_not_monotone_in_the_cap() -> None:
    """The example pi = (.5, .4, .1), mu = (.1, .2, .7), r = (1, 1, -1): norms .123, .194, 0 at C = 1, 2, 5."""
    mu, pi, rewards = np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.4, 0.1]), np.array([1.0, 1.0, -1.0])
    norms = [np.linalg.norm((mu * np.maximum(pi / mu - c, 0.0) * rewards) @ (np.eye(3) - pi)) for c in (1, 2, 5)]
    assert norms == pytest.approx([0.123, 0.194, 0.0], abs=5e-4)
    # The claim's reward pays token 0 alone: one token, cap 2 cuts (5 - 2) * .1 of arm 0.
    logits = {"behavior_logits": (tuple(np.log(mu)),), "current_logits": (tuple(np.log(pi)),)}
    bias = predict("estimator/truncation-bias", actions=3, horizon=1, dependence="iid", cap=2.0, **logits)
    assert list(bias.values()) == pytest.approx([-0.15, 0.12, 0.03], rel=1e-12)


def test_constant_delay_bound_is_attained_without_staleness() -> None:
    """tau = 0 and step 1/L: x is pure noise from the first update, so the bound is met up to the last term."""
    point = {"curvature": 2.0, "staleness": 0, "step": 0.5, "noise": 1.0, "start": 0.0, "updates": 10_000}
    bound = predict("convergence/constant-delay", **point)["bound"]
    exact = 4.0 * second_moments(2.0, 0.0, 1.0, 0.5, 0, 10_000).mean()
    assert bound == 1.0 and exact / bound == pytest.approx(0.9999, rel=1e-12)


def test_constant_delay_defects_are_violated_by_the_quadratic() -> None:
    """The quadratic at staleness 4 and the largest simple step exceeds the bound once its delay noise is dropped."""
    claim = claims.claim("convergence/constant-delay")
    point = {"curvature": 1.0, "staleness": 4, "step": 0.2, "noise": 1.0, "start": 0.0, "updates": 20_000}
    exact = second_moments(1.0, 0.0, 1.0, 0.2, 4, 20_000).mean()
    assert exact / claim.predict(point)["bound"] == pytest.approx(0.80, abs=0.005)
    for name in ("noise carried by staleness omitted", "noise term halved"):
        assert exact > claim.formula_defects[name](point)["bound"]


def test_arbitrary_delay_bound_by_hand() -> None:
    """Gap 1/2, step 1/10, 20 updates: 1/2 of descent, 1/10 of noise, and 2 times 3/100 for a mean delay of 3."""
    point = {"curvature": 1.0, "maximum": 5, "mean": 3.0, "in_flight": 4, "step": 0.1, "noise": 1.0, "start": 1.0}
    assert predict("convergence/arbitrary-delay", **point, updates=20)["bound"] == pytest.approx(0.66, rel=1e-12)


def test_arbitrary_delay_without_its_delay_noise_is_violated() -> None:
    """Constant delays at the largest allowed step: 10 to 15 percent above the bound without that term."""
    claim = claims.claim("convergence/arbitrary-delay")
    for tau in (2, 4, 10):
        step = 2.0 / (1.0 + math.sqrt(1.0 + 8.0 * tau**2))
        delays = {"maximum": tau, "mean": float(tau), "in_flight": tau}
        point = {"curvature": 1.0, **delays, "step": step, "noise": 1.0, "start": 0.0, "updates": 20_000}
        exact = second_moments(1.0, 0.0, 1.0, step, tau, 20_000).mean()
        wrong = claim.formula_defects["noise carried by staleness omitted"](point)["bound"]
        assert exact < claim.predict(point)["bound"] and 1.08 < exact / wrong < 1.17


def test_bandit_smoothness_by_calculus_on_two_arms() -> None:
    """J = s(u) with u = theta_2 - theta_1: |s''| is largest at p = 1/2 - 1/(2 sqrt 3), and twice that in the logits."""
    p = 0.5 - 0.5 / math.sqrt(3.0)
    claimed = predict("convergence/bandit-smoothness", rewards=(0.0, 1.0))["bound"]
    assert claimed == pytest.approx(2.0 * p * (1.0 - p) * (1.0 - 2.0 * p), rel=1e-12)
    assert claimed == pytest.approx(0.19245, abs=5e-6)


def test_bandit_noise_of_two_samples_by_hand() -> None:
    """Even odds of 0 and 1: half of the pairs differ and give (1/2)(e_2 - e_1), the others nothing: 1/4 - 1/8."""
    even = {"rewards": (0.0, 1.0), "behavior_logits": (0.0, 0.0)}
    assert predict("convergence/bandit-noise", **even, samples=2)["variance"] == pytest.approx(0.125, rel=1e-12)
    # Many samples: N Var -> 4 zeta_1, and E[h | a] does not depend on a at even odds.
    assert predict("convergence/bandit-noise", **even, samples=1000)["variance"] == pytest.approx(
        2.0 * 0.125 / (1000 * 999), rel=1e-9
    )


def test_a_fair_coin_between_no_delay_and_one_update() -> None:
    """E x^2 is infinite from sqrt(5) - 1 on, and neighbors never correlate: (1/2)(-a) + (1/2)(a) of each noise."""
    coin = {"law": (0.5, 0.5), "curvature": 1.0, "noise": 1.0}
    claim = claims.claim("alignment/random-delay-cosine")
    edge = math.sqrt(5.0) - 1.0
    assert claim.domain(coin | {"step": edge * (1 + 1e-9)}) and not claim.domain(coin | {"step": edge * (1 - 1e-9)})
    assert claim.predict(coin | {"step": 1.2})["corr[1]"] == pytest.approx(0.0, abs=1e-12)


def test_log_normal_weights_may_be_read_up_to_a_quarter_of_log_n() -> None:
    """Long sequences near normal log ratios, N = 64: +12 to 20 percent at v = ln(N)/4, twice at ln(N)/2."""
    for share, low, high in ((0.25, 1.08, 1.25), (0.5, 1.7, 2.3)):
        shift = math.sqrt(share * math.log(64.0) / 400.0) * 2.0
        half = {"behavior_logits": (0.0, 0.0), "current_logits": (shift, 0.0)}
        read = predict("ess/finite-sample", samples=64, horizon=400, **half)["ess"]
        limit = predict("ess/limit", **half)["ess"] ** 400
        assert low < read / limit < high


def scheduled(works: tuple[int, ...], slots: int) -> int:
    """Second at which unit steps of time have served all works in order: no heap, no free times."""
    waiting, active, now = list(works), [0] * slots, 0
    while waiting or any(active):
        active = [left or (waiting.pop(0) if waiting else 0) for left in active]
        active, now = [max(left - 1, 0) for left in active], now + 1
    return now


def test_list_scheduling_over_all_small_instances() -> None:
    """Every list of one to six works of 1 to 3 on three slots: all bounds hold and all are attained."""
    point = {"slots": 3, "groups_per_batch": 1, "samples_per_group": 1, "length": "constant:1", "train_time": 0.0}
    bound = predict("systems/list-scheduling", sync_time=0.0, **point)
    excess, busy, longest = [], [], []
    for works in itertools.chain(*(itertools.product((1, 2, 3), repeat=n) for n in range(1, 7))):
        seconds, load = scheduled(works, 3), Fraction(sum(works), 3)
        excess.append((seconds - load) / max(works))
        busy.append(load / seconds)
        longest.append(Fraction(max(works), seconds))
    found = {"excess": max(excess), "load": max(busy), "longest": max(longest)}
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        {name: bound[name] for name in found}, rel=1e-14
    )
    assert found["load"] == found["longest"] == 1 and found["excess"] == Fraction(2, 3)


@pytest.mark.parametrize("variance", [0.1, 0.5, 1.0])
def test_ess_of_normal_log_ratios_is_the_enumerated_mean(variance: float) -> None:
    """Every pair and triple of weights on a grid, with its probability; many samples have exp(-variance)."""
    z = np.linspace(-7.0, 7.0 + 2.0 * variance**0.5, 161)
    mass, w = np.exp(-z * z / 2.0) / np.exp(-z * z / 2.0).sum(), np.exp(variance**0.5 * z)
    ones, squares, chance = w, w**2, mass
    for samples in (2, 3):
        ones, squares = np.add.outer(ones, w), np.add.outer(squares, w**2)
        chance = np.multiply.outer(chance, mass)
        exact = float((chance * ones**2 / squares).sum()) / samples
        assert claims.predicted_ess(variance, samples) == pytest.approx(exact, rel=1e-6)
    assert claims.predicted_ess(variance, 1 << 20) == pytest.approx(np.exp(-variance), rel=1e-3)
