"""Numbers known by hand or from print, and the theorems behind claims replayed in ways that no claim file uses."""

from __future__ import annotations

import heapq
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from asyncsim import claims
from asyncsim.claims import _bandit
from asyncsim.claims._recursion import second_moments
from tests.theory.drawing import stated

BEHAVIOR, CURRENT = stated("ess/limit").values()


def predict(id: str, **point: object) -> dict[str, float]:
    return claims.claim(id).predict(point)


@pytest.mark.parametrize(
    ("staleness", "boundary"), [(0, 2.0), (1, 1.0), (2, 0.618034), (4, 0.347296), (8, 0.184537), (16, 0.095164)]
)
def test_stability_boundary(staleness: int, boundary: float) -> None:
    step = predict("staleness/stability-boundary", staleness=staleness, curvatures=(0.5, 2.0))["step"]
    assert step == pytest.approx(boundary / 2.0, abs=5e-7)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
def test_heavy_ball(momentum: float) -> None:
    """By hand where there is no delay or one update; 1/tau (1 - beta) as beta goes to 1; plain descent at beta = 0."""
    found = [predict("staleness/heavy-ball", staleness=t, momentum=momentum, curvatures=(0.5, 2.0)) for t in range(9)]
    steps = [2.0 * each["step"] for each in found]
    assert steps[:2] == pytest.approx([2.0 * (1.0 + momentum), 1.0 - momentum], rel=1e-12)
    if momentum == 0.0:
        plain = [predict("staleness/stability-boundary", staleness=t, curvatures=(1.0,))["step"] for t in range(9)]
        assert steps == pytest.approx(plain, rel=1e-12)
    if momentum == 0.99:
        assert steps[2:] == pytest.approx([(1.0 - momentum) / t for t in range(2, 9)], rel=0.02)


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_delayed_descent_flips_at_the_boundary(factor: float) -> None:
    """Noiseless recursion at 0.98 and 1.02 of the boundary: amplitude falls or rises tenfold in 3000 updates."""
    tau = 4
    a = factor * predict("staleness/stability-boundary", staleness=tau, curvatures=(1.0,))["step"]
    path = [1.0] * (tau + 1)
    for _ in range(3000):
        path.append(path[-1] - a * path[-1 - tau])
    late = max(map(abs, path[-40:]))
    assert late < 0.1 if factor < 1 else late > 10.0


@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_soft_optimum_flips_in_the_nonlinear_field(factor: float) -> None:
    point = stated("staleness/soft-optimum-step")
    step = factor * claims.claim("staleness/soft-optimum-step").predict(point)["step"]
    rewards, reference, kl = (np.array(point[k]) for k in ("rewards", "reference_logits", "kl"))
    optimum = reference + rewards / kl
    tau = point["workers"] - 1
    path = [optimum + 1e-6 * np.array([1.0, -1.0, 0.0])] * (tau + 1)
    for _ in range(4000):
        pi = _bandit.softmax(path[-1 - tau])
        gain = rewards - kl * np.log(pi / _bandit.softmax(reference))
        path.append(path[-1] + step * pi * (gain - pi @ gain))
    late = max(np.abs(_bandit.softmax(x) - _bandit.softmax(optimum)).max() for x in path[-100:])
    assert late < 1e-8 if factor < 1 else late > 1e-4


def test_two_equal_arms_have_fisher_one_half() -> None:
    step = predict("staleness/soft-optimum-step", workers=1, rewards=(1.0, 1.0), reference_logits=(0.0, 0.0), kl=0.5)
    assert step["step"] == pytest.approx(2.0 / (0.5 * 0.5), rel=1e-12)


def test_systems() -> None:
    assert predict("systems/update-on-arrival", workers=7, law="exponential:1")["mean"] == 6.0
    assert predict("staleness/mean-staleness", workers=7, law="constant:1", updates=9)["total_per_update"] == 6.0
    cap = {"tickets": 12, "publish_groups": 4, "zero_train_time": False}
    assert predict("systems/cap-binds", release="publish", **cap)["mean"] == 2.0
    assert predict("systems/cap-binds", release="dequeue", **cap)["mean"] == 3.0
    assert predict("systems/cap-binds", release="dequeue", **cap | {"zero_train_time": True})["mean"] == 2.0


def test_geometric() -> None:
    law = predict("systems/geometric", workers=4, cells=3)
    assert law == pytest.approx({"p[0]": 1 / 4, "p[1]": 3 / 16, "p[2]": 9 / 64, "tail": 27 / 64}, rel=1e-14)
    unequal = predict("systems/geometric", workers=2, rates=(1.0, 3.0), cells=400)
    assert unequal["p[0]"] == pytest.approx(1 / 16 + 9 / 16, rel=1e-14)
    assert sum(k * unequal[f"p[{k}]"] for k in range(400)) == pytest.approx(1.0, rel=1e-12)


def test_cap_idle() -> None:
    """With P = 1 the ready groups are the queue of M/D/1 that a departure leaves: rho + rho^2 / (2 (1 - rho))."""
    point = {"places": 8, "groups_per_batch": 1, "samples_per_group": 1, "length": "exponential:1"}
    assert predict("systems/cap-idle", train_time=0.5 / 8, **point)["mean"] == pytest.approx(8.75, rel=1e-12)
    assert predict("systems/cap-idle", train_time=0.9 / 8, **point)["mean"] == pytest.approx(12.95, rel=1e-12)


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


def test_arrivals_per_update() -> None:
    """Two workers, two deliveries an update: at a restart none or one waits; each delivery is one's own or not."""
    found = predict("systems/arrivals-per-update", workers=2, groups_per_batch=2, law="exponential:1", cells=2)
    assert found == pytest.approx({"mean": 0.5, "p[0]": 5 / 8, "p[1]": 9 / 32, "tail": 3 / 32}, rel=1e-14)


def test_laws_under_a_clock() -> None:
    clock = {"length": "exponential:2", "period": 2.0, "places": 8, "groups_per_batch": 4}
    found = predict("systems/in-flight", cells=3, **clock)
    stay = math.exp(-1.0)
    law = {"p[0]": stay, "p[1]": (1 - stay) ** 2, "p[2]": (1 - stay) ** 2 * stay, "tail": (1 - stay) * stay**2}
    assert found == pytest.approx({"mean": 1.0} | law, rel=1e-13)
    # Without memory a token has as long to go as its sample had at the start.
    found = predict("systems/token-staircase", **clock)
    assert found == pytest.approx({"sample_mean": 0.5, "token_mean": 1.0, "sample_head": 1.0, "token_head": 2.0})


def test_straggler_tail() -> None:
    found = claims.claim("systems/straggler-tail").predict(stated("systems/straggler-tail"))
    assert found == pytest.approx({f"tail[{k}]": (0.5 / (k - 1)) ** 1.5 for k in (4, 5, 6, 8)}, rel=1e-14)


def test_age_cut_length_bias() -> None:
    """Exponential lengths and m = 0: tau E (1 - L/tau)^+ = tau - 1 + e^-tau is the period without the cut."""
    found = predict("systems/age-cut-length-bias", length="exponential:1", places=64, groups_per_batch=16, max_age=0)
    tau = found["period"]
    assert tau - 1.0 + math.exp(-tau) == pytest.approx(0.25, rel=1e-13)
    assert found["kept"] == pytest.approx(0.25 / tau, rel=1e-13)


def open_loop(
    places: int, groups: int, train_time: float, max_age: float, deliveries: int
) -> tuple[np.ndarray, np.ndarray]:
    """(staleness of the trained, lengths of the kept) in order; exponential lengths of mean 1; a tenth is left out."""
    lengths = iter(np.random.default_rng(1).exponential(1.0, deliveries + places).tolist())
    out = [(x, 0, x) for x in itertools.islice(lengths, places)]
    heapq.heapify(out)
    version, free_at = 0, math.inf
    ready: list[int] = []
    trained: list[int] = []
    kept: list[float] = []
    while True:
        now, started, length = out[0]
        done = now <= free_at
        if not done:
            now, version, free_at = free_at, version + 1, math.inf
        elif version - started <= max_age:
            ready.append(started)
            kept.append(length)
        if free_at == math.inf and len(ready) >= groups:
            trained += [version - v for v in ready[:groups]]
            del ready[:groups]
            version, free_at = (version, now + train_time) if train_time else (version + 1, math.inf)
        if done:
            if (fresh := next(lengths, None)) is None:
                return np.array(trained)[len(trained) // 10 :], np.array(kept)[len(kept) // 10 :]
            heapq.heapreplace(out, (now + fresh, version, fresh))


def test_cap_idle_on_events() -> None:
    """False fail 1e-4: 4 standard errors, 0.043 by batch means; without chance queueing it is off by 20 of them."""
    point = {"places": 4, "groups_per_batch": 4, "samples_per_group": 1, "length": "exponential:1", "train_time": 0.9}
    staleness, _ = open_loop(4, 4, 0.9, math.inf, 250_000)
    assert abs(staleness.mean() - predict("systems/cap-idle", **point)["mean"]) < 4 * 0.043
    wrong = claims.claim("systems/cap-idle").formula_defects["chance queueing forgotten"](point)["mean"]
    assert abs(staleness.mean() - wrong) > 12 * 0.043


def test_age_cut_on_events() -> None:
    """False fail 1e-4: 4 standard errors of 0.003 beside a bias of 1/(3 P); every defect is off by 5 % or more."""
    point = {"length": "exponential:1", "places": 256, "groups_per_batch": 64, "max_age": 2}
    found = predict("systems/age-cut-length-bias", **point)
    _, kept = open_loop(256, 64, 0.0, 2, 250_000)
    assert abs(kept.mean() / found["mean_length"] - 1.0) < 1.0 / 192 + 4 * 0.003
    for name, wrong in claims.claim("systems/age-cut-length-bias").formula_defects.items():
        assert abs(kept.mean() / wrong(point)["mean_length"] - 1.0) > 0.05, name


def test_synchronous_gradients_anticorrelate_by_half_the_step() -> None:
    one = predict("alignment/lag1-closed-form", staleness=0, curvature=2.0, noise=3.0, step=0.25)
    assert one == pytest.approx({"amplification": 4 / 3, "corr[1]": -0.25}, rel=1e-12)
    several = predict("alignment/lag-identity", staleness=0, curvatures=(2.0, 2.0), noise=3.0, step=0.25)
    assert several == pytest.approx({"corr[1]": -0.25}, rel=1e-12)


def test_correlation_across_the_staleness_is_half_the_step() -> None:
    tau, a = 3, 0.3
    closed = predict("alignment/lag1-closed-form", staleness=tau, curvature=1.0, noise=1.0, step=a)
    identity = predict("alignment/lag-identity", staleness=tau, curvatures=(1.0,), noise=1.0, step=a)
    assert closed[f"corr[{tau}]"] == pytest.approx(identity[f"corr[{tau}]"], rel=1e-12) == pytest.approx(a / 2)
    edge = predict(
        "alignment/lag1-closed-form",
        staleness=tau,
        curvature=1.0,
        noise=1.0,
        step=2 * math.sin(math.pi / 14) * (1 - 1e-9),
    )
    assert edge["corr[1]"] == pytest.approx(math.cos(math.pi / 7), rel=1e-6)


def test_what_adam_makes_of_a_projection_in_its_limits() -> None:
    """A coordinate: undone whole; noise alone: not at all; full projection on the last of many: 1/sqrt(1 + 2 rho)."""
    known = {"strength": 0.75, "reference": "known"}
    found = predict("alignment/adam-inflation", dimension=1, signal=0.3, **known)
    assert found == pytest.approx({"before": 1.0, "behind": 0.25, "inflation": 4.0}, rel=1e-12)
    drowned = predict("alignment/adam-inflation", dimension=500, signal=1e-6, **known)
    assert drowned["inflation"] == pytest.approx(1.0, abs=1e-3)
    paper = predict("alignment/adam-inflation", dimension=500, signal=900.0, **known)
    assert paper["inflation"] == pytest.approx(1.0 / (1.0 - 0.75), rel=0.01)
    for rho in (0.1, 1.0, 10.0):
        full = predict("alignment/adam-inflation", dimension=512, signal=rho, strength=1.0, reference="previous")
        assert full["behind"] == pytest.approx(1.0 / (1.0 + rho), rel=0.01)
        assert full["before"] == pytest.approx(1.0 / math.sqrt(1.0 + 2.0 * rho), rel=0.01)


def test_moments_behind_a_projection_by_drawing() -> None:
    """d = 2, 4e6 pairs: 5 standard errors of 2.5e-4 in the mean and the moment; every wrong formula is off by 1e-2."""
    point = {"dimension": 2, "signal": 0.5, "strength": 0.6, "reference": "previous"}
    g, h = math.sqrt(0.5) + np.random.default_rng(3).standard_normal((2, 4_000_000, 2))
    left = g - 0.6 * ((g * h).sum(1) / (h * h).sum(1))[:, None] * h
    behind = float(left.mean()) / math.sqrt(0.5)
    drawn = {"behind": behind, "inflation": math.sqrt(1.5 / float((left**2).mean()))}
    claim = claims.claim("alignment/adam-inflation")
    assert {k: claim.predict(point)[k] for k in drawn} == pytest.approx(drawn, rel=2e-3)
    for name, wrong in claim.formula_defects.items():
        assert max(abs(wrong(point)[k] / drawn[k] - 1.0) for k in drawn) > 1e-2, name


@pytest.mark.parametrize(("a", "tau"), [(1.4, 3), (2.2, 1), (0.6, 4)])
def test_projection_far_away_by_the_whole_map(a: float, tau: int) -> None:
    """Five coordinates, noise in all of them, the rule as written: factor to 1e-4, fall to 8 errors of 0.6 percent."""
    rng, distance = np.random.default_rng(5), 1e6 if a > 1.0 else 1e5
    x = [np.array([distance, 0.0, 0.0, 0.0, 0.0])] * (tau + 1)
    previous = np.zeros(5)
    squares, start = [], distance
    for update in range(4 * (tau + 1) if a > 1.0 else 20_000):
        g = np.array([x[-1 - tau][0], 0.0, 0.0, 0.0, 0.0]) + rng.standard_normal(5)
        inner = float(g @ previous)
        x = [*x[-tau - 1 :], x[-1] - a * (g - inner / float(previous @ previous) * previous if inner > 0.0 else g)]
        previous = g
        squares.append(float(x[-1][0]) ** 2)
        if update == tau:
            start = abs(float(x[-1][0]))
    point = {"staleness": tau, "curvature": 1.0, "noise": 1.0, "others": 4, "step": a, "reference": "raw"}
    found = predict("alignment/projection-restores-sync-boundary", **point)
    assert start / distance == pytest.approx(found["factor"], rel=1e-4)
    if a > 1.0:
        assert (abs(float(x[-1][0])) / distance) ** 0.25 == pytest.approx(found["factor"], rel=1e-3)
    else:
        steady = squares[2 * (tau + 1) :]
        assert (steady[0] - steady[-1]) / (len(steady) - 1) == pytest.approx(found["fall"], rel=0.05)


@pytest.mark.parametrize(("tau", "boundary"), [(1, 2.0), (2, 1.0), (3, 1.0), (4, 0.618034), (9, 0.347296)])
def test_against_the_applied_direction_half_the_staleness_counts(tau: int, boundary: float) -> None:
    """The map without noise, changes of sign included: it shrinks 1 percent below and grows 1 percent above."""
    point = {"curvature": 2.0, "noise": 1.0, "others": 5, "step": 1.0, "reference": "applied"}
    step = predict("alignment/projection-restores-sync-boundary", staleness=tau, **point)["step"]
    assert 2.0 * step == pytest.approx(boundary, abs=5e-7)
    for factor in (0.99, 1.01):
        path, reference = [1.0] * (tau + 1), 0.0
        for _ in range(600 * (tau + 1)):
            stale = path[-1 - tau]
            passes = stale * reference <= 0.0
            path.append(path[-1] - (factor * boundary * stale if passes else 0.0))
            reference = stale if passes else 0.0
        late = max(map(abs, path[-8 * (tau + 1) :]))
        assert late < 0.5 if factor < 1.0 else late > 2.0


def test_ratios_and_ess() -> None:
    shift = predict("ratio/gaussian-shift", shift=1.0)
    assert shift["second_moment"] == pytest.approx(math.e) and shift["mean_log"] == -0.5
    assert shift["cdf[1]"] == pytest.approx(0.841344746, abs=1e-9) and shift["cdf[0]"] == 0.5
    half = {"behavior_logits": ((0.0, 0.0),), "current_logits": ((math.log(9.0), 0.0),)}
    square = predict("ratio/sequence-product", actions=2, horizon=2, dependence="iid", **half)["second_moment"]
    assert square == pytest.approx(1.64**2, rel=1e-12)
    limit = predict("ess/limit", behavior_logits=(0.0, 0.0), current_logits=(math.log(9.0), 0.0))
    assert 1 / limit["ess"] == pytest.approx(1.64, rel=1e-12)


@pytest.mark.parametrize(("clamp", "floor"), [(1.0, 1.0), (2.0, 0.64), (5.0, 0.147929), (8.0, 0.060592)])
def test_clamp_floor(clamp: float, floor: float) -> None:
    assert 1.0 / predict("ess/clamp-floor", clamp=clamp)["largest_inverse"] == pytest.approx(floor, abs=5e-7)


def test_truncation_bias_norm_is_not_monotone_in_the_cap() -> None:
    """The example pi = (.5, .4, .1), mu = (.1, .2, .7), r = (1, 1, -1): norms .123, .194, 0 at C = 1, 2, 5."""
    mu, pi, rewards = np.array([0.1, 0.2, 0.7]), np.array([0.5, 0.4, 0.1]), np.array([1.0, 1.0, -1.0])
    norms = [np.linalg.norm((mu * np.maximum(pi / mu - c, 0.0) * rewards) @ (np.eye(3) - pi)) for c in (1, 2, 5)]
    assert norms == pytest.approx([0.123, 0.194, 0.0], abs=5e-4)
    # The claim's reward pays token 0 alone: one token, cap 2 cuts (5 - 2) * .1 of arm 0.
    logits = {"behavior_logits": (tuple(np.log(mu)),), "current_logits": (tuple(np.log(pi)),)}
    bias = predict("estimator/truncation-bias", actions=3, horizon=1, dependence="iid", cap=2.0, **logits)
    assert list(bias.values()) == pytest.approx([-0.15, 0.12, 0.03], rel=1e-12)


def test_delayed_rewards_of_a_fair_coin() -> None:
    """Arms that always and never pay, chosen alike: grad J = (-1, 1)/4. Half of the failures are late."""
    known = {"means": (0.0, 1.0), "logits": (0.0, 0.0), "share_low": 0.5, "share_high": 0.0, "by": 2, "staleness": 1}
    found = predict("estimator/delayed-reward-bias", reinjected=0.0, offset=0.5, **known)
    # A failure adds (-1/2) (1, -1)/2 with chance 1/2; half of that is lost.
    assert found == pytest.approx({"bias[0]": 1 / 16, "bias[1]": -1 / 16, "trained": 0.75, "age": 0.75}, rel=1e-12)
    found = predict("estimator/delayed-reward-bias", reinjected=0.5, offset=0.5, **known)
    assert found == pytest.approx({"bias[0]": 1 / 32, "bias[1]": -1 / 32, "trained": 0.875, "age": 1.125}, rel=1e-12)


def test_optimal_baseline_on_two_arms() -> None:
    """On policy with two arms |s|^2 is 2 (1-p)^2 and 2 p^2, so b = ((1-p)^2 p r_0 + p^2 (1-p) r_1) / (p (1-p))."""
    found = predict(
        "estimator/optimal-baseline",
        rewards=(1.0, 0.0),
        behavior_logits=(math.log(3.0), 0.0),
        current_logits=(math.log(3.0), 0.0),
    )
    assert found == pytest.approx({"baseline": 0.25, "opob": 0.25}, rel=1e-12)


def test_importance_sampling_reaches_the_claimed_gradient() -> None:
    pair = _bandit.SequencePair(stated("ratio/sequence-product"))
    every = _bandit.enumerate_sequences(pair)
    paid = every.mass * every.ratio * ((every.tokens == 0).mean(axis=1) >= 0.6)
    claimed = list(claims.claim("estimator/full-is").predict(stated("estimator/full-is")).values())
    assert paid @ every.score == pytest.approx(claimed, rel=1e-12)
    assert every.mass.sum() == pytest.approx(1.0) and (every.mass * every.ratio).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_group_advantages_hide_the_current_policy(samples: int) -> None:
    """All 3^N groups in exact fractions: leave-one-out, group mean and no baseline, score at an unrelated policy."""
    mu, pi = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)], [Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)]
    r = [Fraction(0), Fraction(1), Fraction(2)]
    totals = {name: [Fraction(0)] * 3 for name in ("loo", "mean", "none")}
    for group in itertools.product(range(3), repeat=samples):
        chance = math.prod(mu[a] for a in group)
        total = sum(r[a] for a in group)
        for a in group:
            advantage = {"loo": r[a] - (total - r[a]) / (samples - 1), "mean": r[a] - total / samples, "none": r[a]}
            for name, value in advantage.items():
                for k in range(3):
                    totals[name][k] += chance * value * ((k == a) - pi[k]) / samples
    mean = sum(m * x for m, x in zip(mu, r, strict=True))
    ascent = [m * (x - mean) for m, x in zip(mu, r, strict=True)]
    assert totals["loo"] == ascent
    assert totals["mean"] == [Fraction(samples - 1, samples) * g for g in ascent]
    assert totals["none"] == [m * x - mean * p for m, x, p in zip(mu, r, pi, strict=True)]
    point = stated("staleness/stale-reinforce-is-delayed-ascent") | {
        "rewards": tuple(map(float, r)),
        "samples": samples,
        "behavior_logits": tuple(math.log(m) for m in mu),
        "current_logits": tuple(math.log(p) for p in pi),
    }
    found = claims.claim("staleness/stale-reinforce-is-delayed-ascent").predict(point)
    for name in ("mean", "none"):
        stem = "group_mean" if name == "mean" else "none"
        assert [found[f"{stem}[{k}]"] for k in range(3)] == pytest.approx([float(v) for v in totals[name]], rel=1e-12)


def test_bias_law_by_enumeration_of_signs() -> None:
    """Noise of +-1 times sigma over all 2^S paths: E b^2 equals the law whose slope is claimed."""
    curvature, start, noise, step = 2.0, 0.7, 1.5, 0.01
    rms = []
    for age in (1, 2, 4, 8):
        moved = [
            step * sum(curvature * start + s * noise for s in signs) for signs in itertools.product((-1, 1), repeat=age)
        ]
        rms.append(curvature * math.sqrt(np.mean(np.square(moved))))
    slope = np.polyfit(np.log([1, 2, 4, 8]), np.log(rms), 1)[0]
    claimed = predict(
        "convergence/bias-slope", curvature=curvature, start=start, noise=noise, step=step, stalenesses=(1, 2, 4, 8)
    )
    assert claimed["slope"] == pytest.approx(slope, rel=1e-12)
    over_steps = {"curvature": curvature, "start": start, "noise": noise, "staleness": 3, "steps": (0.01, 0.02, 0.05)}
    assert predict("convergence/bias-slope", **over_steps)["slope"] == pytest.approx(1.0, rel=1e-12)


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


def test_asymre_projection_by_explicit_flow() -> None:
    point = stated("optimum/asymre-projection")
    mu, rewards = _bandit.softmax(np.array(point["behavior_logits"])), np.array(point["rewards"])
    theta = np.zeros(5)
    for _ in range(40_000):
        pi = _bandit.softmax(theta)
        theta += 2.0 * (mu * (rewards - point["offset"]) - (mu @ rewards - point["offset"]) * pi)
    claimed = list(claims.claim("optimum/asymre-projection").predict(point).values())
    assert 0.0 in claimed and _bandit.softmax(theta) == pytest.approx(claimed, abs=1e-9)


def test_a_publish_after_every_second_update_by_hand() -> None:
    """s = 2, a = 1/2: x halves nothing and noise doubles, E x^2 = 2 noise^2 step^2, so rho = 1/3, energy = 3/2."""
    found = predict("alignment/sawtooth-cosine", updates=2, curvature=1.0, noise=1.0, step=0.5)
    assert found == pytest.approx({"amplification": 1.5, "across": -1 / 3, "inside": 1 / 3}, rel=1e-14)
    every = predict("alignment/sawtooth-cosine", updates=1, curvature=2.0, noise=3.0, step=0.25)
    closed = predict("alignment/lag1-closed-form", staleness=0, curvature=2.0, noise=3.0, step=0.25)
    assert (every["lag1"], every["amplification"]) == pytest.approx((closed["corr[1]"], closed["amplification"]))


def test_a_delay_that_cannot_vary_is_a_constant_one() -> None:
    for tau in (1, 4, 8):
        a = 1.4 * math.sin(math.pi / (2 * (2 * tau + 1)))
        law = (*[0.0] * tau, 1.0)
        found = predict("alignment/random-delay-cosine", law=law, curvature=1.0, noise=1.0, step=a)
        constant = predict("alignment/lag1-closed-form", staleness=tau, curvature=1.0, noise=1.0, step=a)
        assert {name: found[name] for name in constant} == pytest.approx(constant, rel=1e-10)
        assert found[f"corr[{tau + 1}]"] == pytest.approx(-a / 2.0, rel=1e-10)


def test_a_fair_coin_between_no_delay_and_one_update() -> None:
    """E x^2 is infinite from sqrt(5) - 1 on, and neighbors never correlate: (1/2)(-a) + (1/2)(a) of each noise."""
    coin = {"law": (0.5, 0.5), "curvature": 1.0, "noise": 1.0}
    claim = claims.claim("alignment/random-delay-cosine")
    edge = math.sqrt(5.0) - 1.0
    assert claim.domain(coin | {"step": edge * (1 + 1e-9)}) and not claim.domain(coin | {"step": edge * (1 - 1e-9)})
    assert claim.predict(coin | {"step": 1.2})["corr[1]"] == pytest.approx(0.0, abs=1e-12)


def test_random_delays_hide_what_the_largest_constant_one_shows() -> None:
    """Uniform on 0..8 next to the boundary of constant 8: a fifth of its correlation."""
    a = 0.95 * 2.0 * math.sin(math.pi / 34.0)
    point = {"curvature": 1.0, "noise": 1.0, "step": a}
    drawn = predict("alignment/random-delay-cosine", law=(1 / 9,) * 9, **point)["corr[1]"]
    constant = predict("alignment/lag1-closed-form", staleness=8, **point)["corr[1]"]
    assert 0.05 < drawn < 0.2 * constant


def test_cosines_of_chance() -> None:
    """On a circle |c| has mean 2/pi; on a sphere c is uniform; mean cosine .310 where the ratio of averages is 1/3."""
    circle = predict("alignment/noise-floor", dimension=2, threshold=0.5)
    assert circle == pytest.approx({"mean_size": 2 / math.pi, "square": 0.5, "exceeds": 1 / 3}, rel=1e-12)
    sphere = predict("alignment/noise-floor", dimension=3, threshold=0.5)
    assert sphere == pytest.approx({"mean_size": 0.5, "square": 1 / 3, "exceeds": 0.25}, rel=1e-12)
    found = predict("alignment/snr", dimension=2, signal=1.0, noise=1.0, samples=1)
    assert found == pytest.approx({"corr[1]": 1 / 3, "cosine": 0.310449}, rel=1e-6)


def test_two_samples_of_two_weights_by_hand() -> None:
    """Fair coin, ratios 9/5 and 1/5, two samples: equal ones (chance 1/2) read 1, the others (2)^2 / (3.28 * 2)."""
    coin = {"samples": 2, "horizon": 1, "behavior_logits": (0.0, 0.0), "current_logits": (math.log(9.0), 0.0)}
    found = predict("ess/finite-sample", **coin)
    assert found["ess"] == pytest.approx(0.5 + 0.5 * 4.0 / 6.56, rel=1e-12)
    assert found["largest_share"] == pytest.approx(0.5 * 0.5 + 0.5 * 0.9, rel=1e-12)


def test_the_bias_of_a_batch_is_upward_with_the_leading_term() -> None:
    """E[w^2 (w - e)^2] / (N e^3), e = E w^2: within 10 percent at N = 2000; and never below 0."""
    policies = {"horizon": 1, "behavior_logits": BEHAVIOR, "current_logits": CURRENT}
    mu, pi = (np.exp(x) / np.exp(x).sum() for x in (np.array(BEHAVIOR), np.array(CURRENT)))
    w, e = pi / mu, float((pi**2 / mu).sum())
    bias = [predict("ess/finite-sample", samples=N, **policies)["ess"] - 1.0 / e for N in (2, 20, 2000)]
    assert bias[0] > bias[1] > bias[2] > 0.0
    assert bias[2] == pytest.approx(float(mu @ (w**2 * (w - e) ** 2)) / (2000 * e**3), rel=0.1)


def test_log_normal_weights_may_be_read_up_to_a_quarter_of_log_n() -> None:
    """Long sequences near normal log ratios, N = 64: +12 to 20 percent at v = ln(N)/4, twice at ln(N)/2."""
    for share, low, high in ((0.25, 1.08, 1.25), (0.5, 1.7, 2.3)):
        shift = math.sqrt(share * math.log(64.0) / 400.0) * 2.0
        half = {"behavior_logits": (0.0, 0.0), "current_logits": (shift, 0.0)}
        read = predict("ess/finite-sample", samples=64, horizon=400, **half)["ess"]
        limit = predict("ess/limit", **half)["ess"] ** 400
        assert low < read / limit < high


def test_ess_limit_needs_both_policies() -> None:
    same = predict("ess/limit", behavior_logits=BEHAVIOR, current_logits=BEHAVIOR)["ess"]
    assert same == pytest.approx(1.0, rel=1e-14)
    assert predict("ess/limit", behavior_logits=BEHAVIOR, current_logits=CURRENT)["ess"] < 0.9


def test_drift_growth_of_two_fair_coins() -> None:
    """A pair that differs in arm and reward (chance 1/4) moves the logits by (1, -1)/2 or back: v_1 = 1/16."""
    point = {
        "means": (0.5, 0.5),
        "logits": (0.0, 0.0),
        "rewards": "bernoulli",
        "samples": 2,
        "sampling": "monte_carlo",
        "step": 0.5,
        "stalenesses": (1, 3),
    }
    found = claims.claim("ratio/drift-growth").predict(point)
    assert found == pytest.approx({"growth[1]": 1 / 16, "growth[3]": 3 / 16, "slope": 1.0, "identity": 1.0}, rel=1e-12)
    drift = claims.claim("ratio/drift-growth").predict(point | {"means": (0.0, 1.0), "sampling": "enumerate"})
    # grad J = (-1, 1)/4, whose variance under a fair choice is 1/16.
    assert drift == pytest.approx({"growth[1]": 1 / 16, "growth[3]": 9 / 16, "slope": 2.0, "identity": 1.0}, rel=1e-12)


def test_drift_growth_of_walking_logits() -> None:
    """Logits that walk by +-eps: E Var_mu(log pi/mu) = S eps^2 (1 - |mu|^2), over every path of S = 3 updates.

    Planted defect: the normalizer ignored, which leaves S eps^2.
    """
    mu, eps, S = _bandit.softmax(np.array(BEHAVIOR)), 0.4, 3
    steps = np.array(list(itertools.product((-eps, eps), repeat=3 * S))).reshape(-1, S, 3).sum(axis=1)
    log_ratio = np.log(_bandit.softmax(np.array(BEHAVIOR) + steps) / mu)
    variance = (log_ratio**2 @ mu - (log_ratio @ mu) ** 2).mean()
    assert variance == pytest.approx(S * eps**2 * (1.0 - mu @ mu), rel=1e-12)
    assert (steps**2 @ mu).mean() == pytest.approx(S * eps**2, rel=1e-12)
