"""Claims on estimators at points where the answer is known by hand, and points that they refuse by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.claims._bandit import softmax
from tests.theory.drawing import stated


def predict(name: str, **changes: object) -> dict[str, float]:
    id = f"estimator/{name}"
    return claims.claim(id).predict(stated(id) | changes)


def vector(found: dict[str, float], stem: str) -> np.ndarray:
    return np.array([value for name, value in found.items() if name.startswith(f"{stem}[")])


def test_inflation_is_nine_or_a_ninth_where_ess_says_one() -> None:
    """Two arms, mu = (1/2, 1/2), pi = (.9, .1), the first one paid or the second: N/ESS is 1.64 for both."""
    half = math.log(9.0) / 2.0
    for sign, inflation in ((1.0, 9.0), (-1.0, 1.0 / 9.0)):
        logits = {"behavior_logits": ((0.0, 0.0),), "current_logits": ((sign * half, -sign * half),)}
        point = {"actions": 2, "horizon": 1, "dependence": "iid", "success": 1.0, "offset": 0.0, "samples": 1}
        assert predict("is-variance", **point, **logits)["inflation"] == pytest.approx(inflation, rel=1e-12)


@pytest.mark.parametrize("samples", [2, 5, 16])
def test_factors_of_groups(samples: int) -> None:
    rare = {"means": (1e-8, 2e-8), "logits": (0.0, 0.0), "samples": samples, "eps": 1e-12}
    assert predict("group-normalization", **rare, normalization="std")["factor"] == pytest.approx(
        math.sqrt(samples - 1.0), rel=1e-5
    )
    even = {**rare, "means": (0.2, 0.6)}
    p = 0.4
    found = {n: predict("group-normalization", **even, normalization=n)["factor"] for n in ("mean", "maxrl")}
    assert found["mean"] == pytest.approx(1.0 - 1.0 / samples, rel=1e-12)
    assert found["maxrl"] == pytest.approx((1.0 - (1.0 - p) ** (samples - 1)) / p, rel=1e-9)


def test_group_factor_of_many_samples() -> None:
    even = {"means": (0.2, 0.6), "logits": (0.0, 0.0), "samples": 4096, "eps": 1e-12, "normalization": "std"}
    assert predict("group-normalization", **even)["factor"] == pytest.approx((0.4 * 0.6) ** -0.5, rel=1e-3)


def test_geometric_mean_tends_to_its_limit() -> None:
    pair = {"actions": 2, "dependence": "iid", "behavior_logits": ((0.0, 0.0),), "current_logits": ((0.6, 0.0),)}
    gaps = [
        1.0 - found["loss"] / found["kl"]
        for T in (4, 8, 16)
        for found in [predict("geometric-ratio", horizon=T, **pair)]
    ]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.02) and gaps[1] / gaps[2] == pytest.approx(2.0, rel=0.02)


def test_a_recomputed_denominator_sees_no_lag() -> None:
    """`first` is the unweighted gradient whatever the bounds are, and every token is open."""
    found = predict("ppo-gate", anchor="proximal")
    point = {key: np.array(value) for key, value in stated("estimator/ppo-gate").items() if key != "anchor"}
    mu, pi = softmax(point["behavior_logits"]), softmax(point["current_logits"])
    weight = mu * (point["means"] - point["offset"])
    assert vector(found, "first") == pytest.approx(weight - weight.sum() * pi, rel=1e-12)
    assert found["open_first"] == pytest.approx(1.0, rel=1e-12) and found["open_second"] < 0.9


def test_a_k1_loss_drives_away_from_the_data() -> None:
    """Along `k1_step` KL(mu || pi) grows, along `k2_step` KL(pi || mu) falls."""
    point = stated("estimator/kl-estimators")
    here = predict("kl-estimators")
    for step, name, sign in (("k1_step", "k1", 1.0), ("k2_step", "reverse", -1.0)):
        direction = vector(here, step).reshape(-1, point["actions"])
        there = predict("kl-estimators", current_logits=np.array(point["current_logits"]) + 1e-6 * direction)
        slope = (there[name] - here[name]) / 1e-6
        assert slope == pytest.approx(sign * float((direction**2).sum()), rel=1e-4)


def test_a_wide_cap_has_the_value_of_the_policy() -> None:
    tables = {k: np.array(v) for k, v in stated("estimator/v-trace").items()}
    pi, states = softmax(tables["current_logits"]), len(tables["rewards"])
    value = np.zeros(states)
    for _ in range(400):
        after = np.array([[value[(s + a) % states] for a in range(pi.shape[1])] for s in range(states)])
        value = (pi * (tables["rewards"] + tables["discount"] * after)).sum(axis=1)
    found = predict("v-trace", rho_cap=1e9)
    assert vector(found, "value") == pytest.approx(value, rel=1e-12)
    assert vector(predict("v-trace", rho_cap=1.0), "value") != pytest.approx(value, rel=0.02)


def test_an_interpolated_snapshot_reads_every_ratio_too_large() -> None:
    shifts = vector(predict("a3po-interpolation"), "shift")
    assert (shifts > 0.0).all() and np.ptp(shifts) == 0.0


REFUSALS = [
    ("ppo-gate", {"high": -0.1}, "[0, inf)"),
    ("ppo-gate", {"means": (0.2, 0.5, 1.1)}, "in [0, 1]"),
    ("ppo-gate", {"behavior_logits": (1.5, -0.9, 0.1), "low": 0.0}, "off every ratio"),
    ("token-is-bias", {"horizon": 1}, "an integer >= 2"),
    ("token-is-bias", {"success": None, "dependence": "iid"}, "shape [1, 3]"),
    ("geometric-ratio", {"high": 0.9}, "[1, inf)"),
    ("geometric-ratio", {"low": 1.0, "high": 1.0}, "keeps a sequence"),
    ("kl-estimators", {"current_logits": stated("estimator/kl-estimators")["behavior_logits"]}, "another policy"),
    ("plug-in-baseline", {"samples": 12}, "3**samples <= 65536"),
    ("plug-in-baseline", {"rewards": (0.5, 0.5, 0.5)}, "rewards that differ"),
    ("group-normalization", {"samples": 1}, "[2, 4096]"),
    ("group-normalization", {"means": (0.5, 0.5, 0.5)}, "means that differ"),
    ("is-variance", {"samples": 0}, "[1, 4096]"),
    ("score-centering", {"top": 3}, "at most 2"),
    ("score-centering", {"cap": 100.0}, "centering changes a gradient"),
    ("a3po-interpolation", {"staleness": 1}, "an integer >= 2"),
    ("v-trace", {"trace_cap": 1.5}, "at most rho_cap"),
    ("v-trace", {"steps": 13}, "[1, 12]"),
]


@pytest.mark.parametrize(("name", "change", "bound"), REFUSALS)
def test_a_point_outside_is_refused_with_the_bound(name: str, change: dict[str, object], bound: str) -> None:
    id = f"estimator/{name}"
    reason = claims.claim(id).domain(stated(id) | change)
    assert reason is not None and bound in reason
