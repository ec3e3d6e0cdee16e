"""A checkout of no cost, and rows to be damaged."""

from __future__ import annotations

import pytest

from experiments import _store
from tests.experiments import _lab


@pytest.fixture
def lab(tmp_path):
    return _lab.made(tmp_path)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Quick rows of an experiment of the repository, to be damaged in copies."""
    where = tmp_path_factory.mktemp("rows") / "stability"
    _store.make("stability", quick=True, out=where)
    return where
