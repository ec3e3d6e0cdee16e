"""The product's own recursions beside those of the theory: exact, so equal to rounding.

They size trials and are what `exact_return` reports; a claim does not set one closed form beside the other.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsim import claims
from asyncsim.claims.lab.chains import Chain

MARGINS = st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))


@given(st.integers(1, 40), st.floats(0.0, 1.0), MARGINS, MARGINS)
def test_success_of_a_chain(horizon, fraction, behavior, current):
    claim = claims.claim("sequence/success-probability")
    point = {"horizon": horizon, "fraction": fraction, "behavior_margins": behavior, "current_margins": current}
    chain, predicted = Chain(point, fraction), claim.predict(point)
    assert chain.exact(chain.behavior)[0] == pytest.approx(predicted["stale_return"], rel=1e-10)
    assert chain.exact(chain.current)[0] == pytest.approx(predicted["weighted_return"], rel=1e-10)


@given(st.integers(1, 40), MARGINS, MARGINS)
def test_moments_of_a_chain(horizon, behavior, current):
    claim = claims.claim("ratio/chain-moments")
    point = {"horizon": horizon, "behavior_margins": behavior, "current_margins": current}
    if claim.domain(point) is not None:
        return
    chain, predicted = Chain(point), claim.predict(point)
    assert chain.moment(2.0) == pytest.approx(predicted["second_moment"], rel=1e-10)
    assert chain.moment(0.5) == pytest.approx(predicted["affinity"], rel=1e-10)


def test_a_recursion_one_bit_short_is_seen():
    """The planted defect: the last bit left out of the product."""
    point = {"horizon": 6, "behavior_margins": (0.6, 1.4), "current_margins": (0.9, 1.6)}
    short = Chain({**point, "horizon": 5}).moment(2.0)
    right = claims.claim("ratio/chain-moments").predict(point)["second_moment"]
    assert abs(short / right - 1.0) > 1e-4 and math.isfinite(short) and np.isfinite(right)
