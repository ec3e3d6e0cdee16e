"""Contract of every claim: two routes agree, the domain refuses, formula defects show, nothing heavy is imported."""

import math
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from asyncsim import claims
from asyncsim.base import declared as _declared
from asyncsim.base import records
from tests.refusals import refused
from tests.theory import drawing
from tests.theory.refusals import REFUSALS

IDS = sorted(claims.claims())
STATED = {id: drawing.stated(id) for id in IDS}
DRAWN = {id: drawing.drawn(id) for id in IDS}
"""Points that every claim declares: a new one needs no row here."""
RELATIVE, ABSOLUTE = 1e-10, 1e-12
"""Both routes are exact: rounding alone, relative to the vector that a component belongs to."""
EFFECTS = {"identity": 0.02, "expectation": 0.02, "distribution": 0.02}
DEFECTS = [(id, name) for id in IDS for name in claims.claim(id).formula_defects]


def deviation(first: Mapping[str, float], second: Mapping[str, float], relative_to: str) -> float:
    """Largest difference relative to each value of `first`, or to the norm of the vector that it belongs to."""
    assert first and list(first) == list(second)
    scales = drawing.norms(first) if relative_to == "norm" else {name: abs(value) for name, value in first.items()}
    return max(abs(first[name] - second[name]) / scale if scale else math.inf for name, scale in scales.items())


def assert_same(first: Mapping[str, float], second: Mapping[str, float]) -> None:
    assert first and list(first) == list(second)
    for name, scale in drawing.norms(first).items():
        assert abs(first[name] - second[name]) <= RELATIVE * scale + ABSOLUTE, (name, first[name], second[name])


@pytest.mark.parametrize("id", IDS)
def test_claim_is_whole(id: str) -> None:
    claim = claims.claim(id)
    assert isinstance(claim, records.Claim) and claim.id == id and claim.statement
    assert claim.domain(STATED[id]) is None, f"{id}: give each parameter an example inside the domain"
    # One takes the settings of an engine, which are declared there.
    own = claim.point.parameters.values() if id != "systems/mean-staleness-identity" else ()
    assert [p.name for p in own if not p.doc] == [], f"{id}: say in doc= what these are"
    # Routes agree at the stated point.
    assert_same(claim.predict(STATED[id]), claim.cross_check(STATED[id]))


@pytest.mark.parametrize("id", IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_routes_agree_on_drawn_points(id: str, data: st.DataObject) -> None:
    claim, point = claims.claim(id), data.draw(DRAWN[id])
    # Few draws leave a domain: a cap that never binds, a baseline above the behavior's mean.
    assume(claim.domain(point) is None)
    assert_same(claim.predict(point), claim.cross_check(point))


@pytest.mark.parametrize(("id", "name"), DEFECTS)
def test_formula_defect_shows_at_the_stated_point(id: str, name: str) -> None:
    claim = claims.claim(id)
    predicted, wrong = claim.predict(STATED[id]), claim.formula_defects[name](STATED[id])
    assert deviation(predicted, wrong, claim.relative_to) > EFFECTS.get(claim.kind, 0.05)
    with pytest.raises(AssertionError):
        assert_same(predicted, wrong)


@pytest.mark.parametrize("id", [id for id in IDS if id != "systems/mean-staleness-identity"])
def test_missing_and_unknown_keys_are_refused(id: str) -> None:
    claim, point = claims.claim(id), STATED[id]
    assert "drop stalenes" in (claim.domain(point | {"stalenes": 1}) or "")
    # The bias slope has one of two pairs of keys, and needs the pair whole.
    nullable = {name for name, p in claim.point.parameters.items() if p.optional and id != "convergence/bias-slope"}
    for key in point:
        rest = {k: v for k, v in point.items() if k != key}
        if key in nullable:
            assert claim.domain(rest) is None
        else:
            assert "point = " in (claim.domain(rest) or "")
            refused("point = ", claim.predict, rest)
    assert "a mapping" in (claim.domain(3) or "")  # type: ignore[arg-type]


@pytest.mark.parametrize(("id", "change", "bound"), REFUSALS)
def test_domain_refuses_with_the_bound(id: str, change: dict[str, object], bound: str) -> None:
    claim, point = claims.claim(id), STATED[id] | change
    reason = claim.domain(point)
    assert reason is not None and bound in reason and "; " in reason
    refused("", claim.cross_check, point)


def beyond(parameter: Any) -> list[object]:
    """Values just outside of what a parameter declares."""
    if isinstance(parameter, _declared.Choice):
        return ["no such word"]
    if isinstance(parameter, _declared.Integer):
        return [parameter.low - 1, 0.5] + ([] if parameter.high is None else [parameter.high + 1])
    if isinstance(parameter, _declared.Real):
        low, high = parameter.low, parameter.high
        edges = [low - 1e-3 * (1.0 + abs(low)) * (not parameter.open_low), high + 1e-3 * (1.0 + abs(high))]
        return [edge for edge in edges if math.isfinite(edge)] + [math.nan]
    return []


@pytest.mark.parametrize("id", IDS)
def test_values_beyond_their_declared_bounds_are_refused_by_name(id: str) -> None:
    claim = claims.claim(id)
    for name, parameter in claim.point.parameters.items():
        for value in beyond(parameter):
            reason = claim.domain(STATED[id] | {name: value})
            assert reason is not None and reason.startswith(f"{name} = ") and "; " in reason, (name, value, reason)


def test_unknown_claim_names_the_nearest() -> None:
    refused("did you mean staleness/stability-boundary", claims.claim, "staleness/stability-boundry")
    assert claims.claim("ess/clamp_floor") is claims.claim("ess/clamp-floor")


def test_theory_loads_neither_torch_nor_compiled_kernels() -> None:
    program = (
        "import sys, asyncsim.claims as t; light = set(sys.modules); ids = t.claims(); "
        "own = {m for m in light if m.startswith('asyncsim.claims.') and '._' not in m}; "
        "assert own == {'asyncsim.claims.lab'}, own; [t.claim(i) for i in ids]; "
        "print([m for m in ('torch', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_dependences_differ() -> None:
    """One table of logits read in three ways gives three answers: the row rule is not vacuous."""
    claim, point = claims.claim("estimator/is-variance"), STATED["estimator/is-variance"]
    rows = {name: point[name][:3] for name in ("behavior_logits", "current_logits")}
    markov = claim.predict(point)["inverse_ess"]
    position = claim.predict(point | {"dependence": "position"} | rows)["inverse_ess"]
    single = {name: (table[0],) for name, table in rows.items()}
    iid = claim.predict(point | {"dependence": "iid"} | single)["inverse_ess"]
    assert len({round(v, 6) for v in (markov, position, iid)}) == 3
