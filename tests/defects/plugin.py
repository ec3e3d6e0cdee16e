"""`ASYNCSIM_DEFECT=N pytest -p tests.defects.plugin`: the suite on the product with one bug planted."""

import contextlib
import os

_PLANTED = contextlib.ExitStack()


def pytest_sessionstart(session):
    from tests.defects import catalog
    from tests.defects.plants import PLANTS

    assert catalog.COUNT
    _PLANTED.enter_context(PLANTS[int(os.environ["ASYNCSIM_DEFECT"])].planted())


def pytest_sessionfinish(session):
    _PLANTED.close()
