"""Elementary functions against NumPy's at every magnitude, ends and NaN included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.fusing import elementary
from asyncsim.fusing.program import Program
from tests.fusing.code import unkept

TRUTH = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": lambda x: np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x))),
    "tanh": np.tanh,
}
UNITS = {"exp": 1.5, "log": 1.5, "expm1": 4.0, "log1p": 4.0, "sigmoid": 4.0, "tanh": 6.0}
"""Units in the last place by which a function may miss."""
ENDS = [
    *(0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan),
    *(5e-324, 1e-310, 2.0**-1022, 709.78, 709.79, -745.1, -745.2, 1e308),
]
FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True, width=64)


def computed(name, values):
    """A function of a program on numbers, eight replicates at a time."""
    column = torch.tensor(np.asarray(values, dtype=np.float64)).reshape(-1, 1)
    program = Program(lambda tree: {"y": getattr(tree["x"], name)()}, {"x": column}, len(column))
    return program({"x": column})["y"].reshape(-1).numpy()


def assert_close(name, values):
    found = computed(name, values)
    with np.errstate(all="ignore"):
        wanted = TRUTH[name](np.asarray(values, dtype=np.float64))
        exact = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        # Where e^-x overflows, the sigmoid is 0: torch says so as well.
        exact |= (np.abs(found - wanted) < 1e-300) & (name == "sigmoid")
        units = np.abs(found - wanted) / np.spacing(np.abs(wanted))
    assert (exact | (units <= UNITS[name])).all(), (name, np.asarray(values)[~(exact | (units <= UNITS[name]))])


@pytest.mark.parametrize("name", TRUTH)
@settings(max_examples=60, deadline=None)
@given(values=st.lists(FLOATS | st.sampled_from(ENDS) | st.floats(-40.0, 40.0), min_size=1, max_size=40))
def test_every_number(name, values):
    assert_close(name, values)


@pytest.mark.parametrize("name", TRUTH)
def test_the_ends(name):
    assert_close(name, ENDS)


@pytest.mark.parametrize("name", TRUTH)
def test_a_wide_sweep(name):
    """A hundred thousand numbers, dense near 0 and 1."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(0, 1, 40_000), rng.normal(0, 300, 20_000), 1.0 + rng.normal(0, 1e-3, 20_000)]
    assert_close(name, np.concatenate([*parts, np.exp(rng.normal(0, 200, 20_000))]))


@pytest.mark.parametrize("name", TRUTH)
def test_a_wrong_coefficient_is_seen(name, monkeypatch):
    """Planted: the last coefficient of a polynomial is 1 percent off, or the result is scaled by 1 + 1e-15."""
    right = elementary.FUNCTIONS[name]
    monkeypatch.setitem(
        elementary.FUNCTIONS, name, lambda w, x: w.two("fmul", right(w, x), w.number(1.0 + 8 * 2.0**-52))
    )
    unkept(monkeypatch)
    with pytest.raises(AssertionError):
        assert_close(name, np.linspace(0.5, 3.0, 64))
