"""Contract of every claim: two routes agree, the domain refuses, formula defects show, nothing heavy is imported."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.base import checks, records
from tests.theory import drawing

IDS = sorted(theory.claims())
STATED = {id: drawing.stated(id) for id in IDS}
DRAWN = {id: drawing.drawn(id) for id in IDS}
"""Points that every claim declares: a new one needs no row here."""
RELATIVE, ABSOLUTE = 1e-10, 1e-12
"""Both routes are exact: rounding alone, relative to the vector that a component belongs to."""
EFFECTS = {"identity": 0.02, "expectation": 0.02, "distribution": 0.02}
DEFECTS = [(id, name) for id in IDS for name in theory.claim(id).formula_defects]


def deviation(first: Mapping[str, float], second: Mapping[str, float], relative_to: str) -> float:
    """Largest difference relative to each value of `first`, or to the norm of the vector that it belongs to."""
    assert first and list(first) == list(second)
    squares: dict[str, float] = {}
    for name, value in first.items():
        stem = name.partition("[")[0] if relative_to == "norm" else name
        squares[stem] = squares.get(stem, 0.0) + value**2
    worst = 0.0
    for name, value in first.items():
        scale = math.sqrt(squares[name.partition("[")[0] if relative_to == "norm" else name])
        worst = max(worst, abs(value - second[name]) / scale if scale else math.inf)
    return worst


def assert_same(first: Mapping[str, float], second: Mapping[str, float]) -> None:
    assert first and list(first) == list(second)
    for name, value in first.items():
        stem = name.partition("[")[0]
        scale = math.sqrt(sum(v**2 for n, v in first.items() if n.partition("[")[0] == stem))
        assert abs(value - second[name]) <= RELATIVE * scale + ABSOLUTE, (name, value, second[name])


@pytest.mark.parametrize("id", IDS)
def test_claim_is_whole(id: str) -> None:
    claim = theory.claim(id)
    assert isinstance(claim, records.Claim) and claim.id == id
    assert claim.formula_defects
    assert claim.domain(STATED[id]) is None, f"{id}: give each parameter an example inside the domain"
    # One takes the settings of an engine, which are declared there.
    own = claim.point.parameters.values() if id != "systems/mean-staleness-identity" else ()
    assert [p.name for p in own if not p.doc] == [], f"{id}: say in doc= what these are"


@pytest.mark.parametrize("id", IDS)
def test_routes_agree_at_the_stated_point(id: str) -> None:
    claim = theory.claim(id)
    assert_same(claim.predict(STATED[id]), claim.cross_check(STATED[id]))


@pytest.mark.parametrize("id", IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_routes_agree_on_drawn_points(id: str, data: st.DataObject) -> None:
    claim, point = theory.claim(id), data.draw(DRAWN[id])
    # Few draws leave a domain: a cap that never binds, a baseline above the behavior's mean.
    assume(claim.domain(point) is None)
    assert_same(claim.predict(point), claim.cross_check(point))


@pytest.mark.parametrize(("id", "name"), DEFECTS)
def test_formula_defect_shows_at_the_stated_point(id: str, name: str) -> None:
    claim = theory.claim(id)
    predicted, wrong = claim.predict(STATED[id]), claim.formula_defects[name](STATED[id])
    assert deviation(predicted, wrong, claim.relative_to) > EFFECTS.get(claim.kind, 0.05)
    with pytest.raises(AssertionError):
        assert_same(predicted, wrong)


@pytest.mark.parametrize("id", [id for id in IDS if id != "systems/mean-staleness-identity"])
def test_missing_and_unknown_keys_are_refused(id: str) -> None:
    claim, point = theory.claim(id), STATED[id]
    assert "drop stalenes" in (claim.domain(point | {"stalenes": 1}) or "")
    # The bias slope has one of two pairs of keys, and needs the pair whole.
    nullable = {name for name, p in claim.point.parameters.items() if p.optional and id != "convergence/bias-slope"}
    for key in point:
        rest = {k: v for k, v in point.items() if k != key}
        if key in nullable:
            assert claim.domain(rest) is None
        else:
            assert "point = " in (claim.domain(rest) or "")
            with pytest.raises(checks.InputError, match="point = "):
                claim.predict(rest)
    assert "a mapping" in (claim.domain(3) or "")  # type: ignore[arg-type]


REFUSALS = [
    ("staleness/stability-boundary", {"staleness": -1}, "an integer >= 0"),
    ("staleness/stability-boundary", {"staleness": 1.5}, "an integer >= 0"),
    ("staleness/stability-boundary", {"curvatures": (1.0, 0.0)}, "above 0"),
    ("staleness/stability-boundary", {"curvatures": ()}, "finite numbers"),
    ("staleness/soft-optimum-step", {"kl": 0.0}, "(0, inf)"),
    ("staleness/soft-optimum-step", {"kl": 1e-3}, "two arms"),
    ("staleness/soft-optimum-step", {"reference_logits": (0.0, 0.0)}, "shape [3]"),
    ("staleness/mean-staleness", {"updates": 0}, "an integer >= 1"),
    ("staleness/mean-staleness", {"law": 3}, "the text of a distribution of service times"),
    ("staleness/stale-reinforce-is-delayed-ascent", {"samples": 1}, "an integer >= 2"),
    ("staleness/stale-reinforce-is-delayed-ascent", {"rewards": (1.0, 1.0, 1.0)}, "rewards that differ"),
    ("staleness/regularizer-placement", {"placement": "reward"}, "behavior_weighted"),
    (
        "staleness/regularizer-placement",
        {"rewards": (0.0, 0.5, 1.0), "reference_logits": (0.0, 0.0, 0.0)},
        "two arms for a loss",
    ),
    ("staleness/estimator-jacobians", {"horizon": 1}, "an integer >= 2"),
    ("staleness/two-point-field", {"share": 3.5}, "[-2, 3]"),
    ("staleness/baseline-offset-immunity", {"offset": 0.5}, "between -2 kl and 3 kl"),
    ("staleness/sawtooth", {"updates": 65}, "[1, 64]"),
    ("staleness/sawtooth", {"updates": 60, "versions": 3}, "updates (versions + 1) <= 128"),
    ("staleness/critical-damping", {"staleness": 0}, "[1, 64]"),
    ("staleness/random-mean", {"law": (0.5, 0.4)}, "add up to 1"),
    ("staleness/random-mean", {"law": (0.2,) * 5, "updates": 12}, "65536"),
    ("staleness/random-mean-square", {"groups": 0}, "[1, 16]"),
    ("staleness/constant-is-worst", {"law": (0.5, 0.5, 0.0)}, "the last above 0"),
    ("staleness/implicit-momentum", {"workers": 1}, "[2, 64]"),
    ("staleness/implicit-momentum", {"rewards": (1.0, 1.0, 1.0)}, "rewards that differ"),
    ("staleness/exponential-workers-second-moment", {"workers": 9, "updates": 8}, "16384"),
    ("systems/update-on-arrival", {"law": "pareto:1:1.0"}, "finite mean"),
    ("systems/update-on-arrival", {"rates": (1.0, 2.0)}, "shape [3]"),
    ("systems/geometric", {"rates": (1.0, 0.0, 2.0)}, "above 0"),
    ("systems/cap-binds", {"tickets": 2}, "an integer >= 3"),
    ("systems/cap-binds", {"release": "never"}, "publish, dequeue"),
    ("systems/cap-binds", {"places": 3}, "the text of a distribution where generator slots are few"),
    ("systems/cap-binds", {"places": 3, "zero_train_time": True}, "as many as tickets"),
    (
        "systems/cap-binds",
        {"places": 3, "length": "exponential:1", "samples_per_group": 1, "period": 1.1},
        "such that group permits wait for less than 0.001 of a version",
    ),
    ("systems/cap-idle", {"train_time": 1.0}, "at most 0.95"),
    ("systems/cap-idle", {"length": "lognormal:1.0:0.8"}, "places = 4: must be >= 16"),
    ("systems/cap-idle", {"length": "constant:1"}, "exponential, lognormal"),
    ("systems/hard-bounds", {"rule": "window:0"}, "W >= 1"),
    ("systems/hard-bounds", {"rule": "done"}, "version_strict or drain"),
    ("systems/hard-bounds", {"rule": "wait:1"}, "wait:2 or more"),
    ("systems/hard-bounds", {"tickets": 3}, "[4, 4096]"),
    ("systems/arrivals-per-update", {"law": "constant:1"}, "0 for service constant:1"),
    ("systems/arrivals-per-update", {"law": "pareto:1:1"}, "finite mean"),
    ("systems/in-flight", {"places": 24}, "[25, inf)"),
    ("systems/in-flight", {"length": "empirical:1:2"}, "exponential, lognormal"),
    ("systems/token-staircase", {"length": "pareto:0.3:2.5"}, "whose square a run can measure"),
    ("systems/straggler-tail", {"levels": (3, 4)}, "an integer in [4, 256]"),
    ("systems/straggler-tail", {"tickets": 111}, ">= 3.5 batches"),
    ("systems/age-cut-length-bias", {"places": 32}, "an integer >= 64"),
    ("systems/age-cut-length-bias", {"length": "pareto:1:1.05"}, "[1.1, inf)"),
    ("alignment/lag-identity", {"step": 0.7}, "below 0.618034"),
    ("alignment/lag1-closed-form", {"step": 0.1737}, "below 0.173648"),
    ("alignment/lag1-closed-form", {"noise": 0.0}, "(0, inf)"),
    ("alignment/adam-inflation", {"dimension": 1}, "an integer in [2, 512]"),
    ("alignment/adam-inflation", {"strength": 1.1}, "(0, 1]"),
    ("alignment/adam-inflation", {"strength": 1.0, "reference": "known"}, "below 1"),
    ("alignment/adam-inflation", {"reference": "raw"}, "known, previous"),
    ("alignment/projection-restores-sync-boundary", {"staleness": 0}, "an integer >= 1"),
    ("alignment/projection-restores-sync-boundary", {"step": 0.5}, "not 1 / curvature"),
    ("alignment/sawtooth-cosine", {"step": 0.25}, "below 0.25"),
    ("alignment/sawtooth-cosine", {"updates": 0}, "an integer >= 1"),
    ("alignment/random-delay-cosine", {"law": (0.5, 0.4)}, "add up to 1"),
    ("alignment/random-delay-cosine", {"step": 0.5}, "mean-square boundary"),
    ("alignment/noise-floor", {"dimension": 1}, "an integer in [2, 100000]"),
    ("alignment/noise-floor", {"threshold": 1.0}, "below 1"),
    ("alignment/snr", {"signal": 0.0}, "(0, inf)"),
    ("alignment/snr", {"samples": 0}, "an integer >= 1"),
    ("ratio/gaussian-shift", {"shift": 0.0}, "(0, 20]"),
    ("ratio/gaussian-shift", {"shift": math.nan}, "(0, 20]"),
    ("ratio/sequence-product", {"horizon": 13}, "1048576"),
    ("ratio/sequence-product", {"dependence": "tree"}, "iid, position, markov"),
    ("ratio/sequence-product", {"dependence": "iid"}, "shape [1, 3]"),
    ("ratio/chain-moments", {"horizon": 0}, "an integer in [1, 4096]"),
    ("ratio/chain-moments", {"current_margins": (1.0,)}, "shape [2]"),
    ("ratio/chain-moments", {"horizon": 4000}, "below 1e12"),
    ("ratio/chain-law", {"horizon": 25}, "[1, 24]"),
    ("ratio/chain-law", {"levels": (9.0,)}, "inside the distribution"),
    ("ratio/chain-law", {"current_margins": (0.2, 1.1)}, "off its atoms"),
    ("ratio/drift-growth", {"stalenesses": 4}, "two distinct values"),
    ("ratio/drift-growth", {"stalenesses": (1, 2.5)}, "an integer in [1, 4096]"),
    ("ratio/drift-growth", {"means": (0.2, 0.5, 1.1)}, "in [0, 1]"),
    ("ratio/drift-growth", {"means": (0.5, 0.5, 0.5), "sampling": "enumerate"}, "for a growth of 1e-06"),
    ("ratio/drift-growth", {"samples": 16}, "<= 2500"),
    ("ratio/drift-growth", {"samples": 1}, "an integer >= 2"),
    ("ratio/drift-growth", {"step": 1e-9}, "[1e-05, 1]"),
    ("ratio/markov-moments", {"horizon": 4000}, "below 1e12"),
    ("ratio/markov-moments", {"actions": 2}, "shape [3, 2]"),
    ("ratio/engine-floor", {"noise_law": "student"}, "one of normal, uniform"),
    ("ratio/engine-floor", {"noise_per": "sequence"}, "'token' for noise in logits"),
    ("ratio/engine-floor", {"noise_in": "reports", "noise_per": "sequence", "horizon": 4}, "at most 0.75"),
    ("ratio/engine-floor", {"noise": 0.0}, "(0, 1.5]"),
    ("ratio/engine-floor", {"horizon": 100}, "below 1e12"),
    ("ratio/top-p", {"top_p": 0.0}, "(0, 1]"),
    ("ratio/top-p", {"top_p": 1.0}, "such that an action is cut"),
    ("ratio/top-p", {"top_p": 1.0, "top_k": 3}, "such that an action is cut"),
    ("ratio/mismatch-adds", {"temperature": 0.0}, "[0.05, 20]"),
    ("ratio/mismatch-adds", {"dependence": "markov"}, "iid, position"),
    ("sequence/success-probability", {"fraction": 1.5}, "[0, 1]"),
    ("sequence/gradient", {"fraction": 0.0}, "success depends"),
    ("ess/limit", {"current_logits": (0.0, math.inf, 1.0)}, "finite"),
    ("ess/clamp-floor", {"clamp": 0.9}, "[1, inf)"),
    ("ess/finite-sample", {"samples": 1}, "an integer in [2, "),
    ("ess/finite-sample", {"horizon": 300}, "<= 20000"),
    ("ess/finite-sample", {"horizon": 100}, "at most 120 apart"),
    ("estimator/full-is", {"success": 0.0}, "(0, 1]"),
    ("estimator/truncation-bias", {"cap": 100.0}, "largest sequence ratio"),
    ("estimator/optimal-baseline", {"cap": -1.0}, "(0, inf)"),
    ("estimator/clipped-field", {"cap": 1.0}, "(1, inf)"),
    ("estimator/clipped-field", {"proximal_logits": ((0.1, 0.2),)}, "shape [3, 3]"),
    ("estimator/factors", {"high": 0.9}, "[1, inf)"),
    ("estimator/aggregators", {"samples": 5}, "[2, 4]"),
    ("estimator/advantages", {"samples": 1}, "[2, 4]"),
    ("estimator/wide-baselines", {"decay": 1.5}, "[0, 1]"),
    ("estimator/traces", {"steps": 9}, "[1, 8]"),
    ("estimator/traces", {"values": ((0.5, 0.9),)}, "shape [3, 2]"),
    ("estimator/penalties", {"penalty": "k1"}, "none for k1"),
    ("estimator/penalties", {"penalty": "exact", "ratio": "token"}, "none or sequence"),
    ("convergence/bias-slope", {"stalenesses": (3, 3)}, "two distinct values"),
    ("convergence/constant-delay", {"step": 0.2}, "step L"),
    ("convergence/arbitrary-delay", {"step": 0.07}, "maximum in_flight <= 1"),
    ("convergence/arbitrary-delay", {"mean": 6.5}, "[0, 6]"),
    ("convergence/arbitrary-delay", {"in_flight": 0}, "0 only without staleness"),
    ("convergence/bandit-smoothness", {"rewards": (0.5, 0.5)}, "rewards that differ"),
    ("convergence/bandit-noise", {"samples": 1}, "an integer >= 2"),
    ("optimum/asymre-projection", {"offset": 0.6}, "below the behavior's mean reward"),
]


@pytest.mark.parametrize(("id", "change", "bound"), REFUSALS)
def test_domain_refuses_with_the_bound(id: str, change: dict[str, object], bound: str) -> None:
    claim, point = theory.claim(id), STATED[id] | change
    reason = claim.domain(point)
    assert reason is not None and bound in reason and "; " in reason
    with pytest.raises(checks.InputError):
        claim.cross_check(point)


def test_unknown_claim_names_the_nearest() -> None:
    with pytest.raises(checks.InputError, match="did you mean staleness/stability-boundary"):
        theory.claim("staleness/stability-boundry")
    assert theory.claim("ess/clamp_floor") is theory.claim("ess/clamp-floor")


def test_theory_loads_neither_torch_nor_compiled_kernels() -> None:
    program = (
        "import sys, asyncsim.theory as t; light = set(sys.modules); ids = t.claims(); "
        "assert not any(m.startswith('asyncsim.theory.') and '._' not in m for m in light); [t.claim(i) for i in ids]; "
        "print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dependences_differ() -> None:
    """One table of logits read in three ways gives three answers: the row rule is not vacuous."""
    claim, point = theory.claim("ratio/sequence-product"), STATED["ratio/sequence-product"]
    rows = {name: point[name][:3] for name in ("behavior_logits", "current_logits")}
    markov = claim.predict(point)["second_moment"]
    position = claim.predict(point | {"dependence": "position"} | rows)["second_moment"]
    single = {name: (table[0],) for name, table in rows.items()}
    iid = claim.predict(point | {"dependence": "iid"} | single)["second_moment"]
    assert len({round(v, 6) for v in (markov, position, iid)}) == 3
