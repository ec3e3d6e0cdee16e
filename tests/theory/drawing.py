"""From declared parameters to points: strategies that draw what is typical."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from asyncsim import theory
from asyncsim.theory import _declared as d


def law(parameter: d.Parameter[Any]) -> st.SearchStrategy[Any]:
    """Typical values of a parameter; of an optional one None too."""
    found = _law(parameter)
    return st.none() | found if parameter.optional else found


def _law(p: d.Parameter[Any]) -> st.SearchStrategy[Any]:
    assert p.typical, f"{p.name}: say what is typical, or draw it in `drawn`"
    if isinstance(p, d.Integer):
        return st.integers(*p.typical)
    if isinstance(p, d.Real):
        return st.floats(*p.typical, allow_nan=False)
    if isinstance(p, d.Vector):
        least, most = (p.length, p.length) if p.length else p.sizes
        return st.lists(st.floats(*p.typical, allow_nan=False), min_size=least, max_size=most).map(tuple)
    if isinstance(p, d.Counts):
        return st.lists(st.integers(*p.typical), min_size=p.least, max_size=p.least + 3, unique=True).map(tuple)
    return st.sampled_from(p.typical)


@st.composite
def _drawn(draw: Any, id: str) -> dict[str, Any]:
    return theory.claim(id).point.drawn(lambda parameter: draw(law(parameter)))


def drawn(id: str) -> st.SearchStrategy[dict[str, Any]]:
    """Random points of a claim, most of them inside its domain."""
    return _drawn(id)


def stated(id: str) -> dict[str, Any]:
    """The point that a claim declares as its example."""
    found: dict[str, Any] = theory.claim(id).point.example()
    return found
