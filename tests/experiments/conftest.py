"""A checkout of no cost, and rows to be damaged."""

import pytest

from asyncsim.base.checks import InputError
from experiments import _store, stability
from tests.experiments import _lab


def pytest_collection_modifyitems(items):
    for item in items:
        if "quick_rows" in item.fixturenames:
            item.add_marker("rows")


@pytest.fixture(scope="session")
def quick_rows():
    """Quick rows as `python -m experiments --quick` keeps them; made here where code that they reach has changed."""

    def read(name):
        try:
            plan = _store.plan(name, quick=True, resume=True)
            current = not plan.left and all(part["product"] == _store.product(plan.code) for part in plan.kept.values())
        except InputError:
            current = False
        if not current:
            _store.make(name, quick=True)
        return _store.read(name, quick=True)

    return read


@pytest.fixture
def lab(tmp_path):
    return _lab.made(tmp_path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Quick rows of an experiment of the repository, of settings that cost little, to be damaged in copies."""
    where, cheap = tmp_path_factory.mktemp("rows") / "stability", stability.QUICK[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stability, "QUICK", [cheap | {"staleness": k % 2, "seed": k} for k in range(4)])
        _store.make("stability", quick=True, out=where)
        yield where
