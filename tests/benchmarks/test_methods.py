"""Temporaries are counted by the memory that is alive at one time; no speed is tested here."""

import pytest

from benchmarks import methods as benchmark


def peak(function):
    """Most memory of new tensors at one time, in arrays of the benchmark's shape."""
    values = benchmark.numbers()["now"]
    with benchmark.Alive() as alive:
        alive.living = {values.untyped_storage().data_ptr(): 0}
        function(values)
    return alive.peak / (values.numel() * values.element_size())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x[..., :1] + 1.0, 0.0),
        (lambda x: x.reshape(-1)[1:].unsqueeze(0), 0.0),
        (lambda x: x.exp(), 1.0),
        (lambda x: x.exp().mul_(2.0).add_(1.0), 1.0),
        (lambda x: x.exp() * 2.0, 2.0),
        (lambda x: x.exp().reshape(-1)[::2] > 0.0, 1.0),
        (lambda x: x > 0.0, 0.25),
        (lambda x: x.double(), 2.0),
        (lambda x: [x + 1.0, x + 2.0, x > 0.0], 2.25),
        (lambda x: [(x + shift).sum() for shift in range(4)], 1.0),
    ],
)
def test_live_memory_is_counted_once(function, expected):
    assert peak(function) == expected


@pytest.mark.parametrize("name", benchmark.methods())
def test_no_weight_holds_more_than_five_arrays(name):
    """A count, the same on every machine."""
    assert benchmark.temporaries(benchmark.methods()[name]) <= 5.0
