"""Every planted bug is killed by the test that names it, and that test passes on the product."""

import json
import random
import subprocess
import sys

import pytest

from asyncsim import claims
from tests.defects import catalog, mapping
from tests.defects.__main__ import TABLE, table, written
from tests.defects.killing import verdict
from tests.defects.plants import PLANTS

ALL = sorted(PLANTS)
FIELD = ALL[: catalog.FIELD]
SLIPS = [number for number in ALL[catalog.FIELD :] if PLANTS[number].killer]
"""Slips that a quick test names; the others are seen by claims alone."""
SAMPLE = random.Random(0).sample(SLIPS, 50)
"""Those of every run, half a minute; all of them are in `make test-long`."""

OPEN = {95, *catalog.KINDS[catalog.DRAWN]}
"""95 changes no number: its threshold lies between the sums that a batch can have. No test was sought for those drawn
by chance, which say how many new bugs claims see, but for the seven that were seen by claims which have left."""


def test_every_bug_of_the_list_is_planted():
    assert list(range(1, 304)) == ALL and len(FIELD) == 42 and len(ALL) == catalog.COUNT
    assert all(plant.component for plant in PLANTS.values()) and all(PLANTS[number].killer for number in FIELD)


def test_every_bug_still_has_its_place():
    """Code that moved takes its bugs along."""
    for number in ALL:
        with PLANTS[number].planted():
            pass


@pytest.mark.committed
def test_the_tables_are_those_of_their_rows():
    """And most bugs are killed by tests that were not written for them."""
    rows, coverage = written()
    assert TABLE.read_text(encoding="utf-8") == table(rows, coverage)
    assert {int(number) for number in rows} >= set(FIELD) and sum(bool(rows[str(n)]) for n in FIELD) >= 30


@pytest.mark.committed
def test_the_map_has_every_plant():
    """Each row names a claim or a test, but for those that are open; claims are those of the catalogue."""
    rows = {at["number"]: at for at in written()[1]}
    assert sorted(rows) == ALL
    for number, at in rows.items():
        plant = PLANTS[number]
        assert (at["component"], at["defect"]) == (plant.component, plant.what)
        assert at["claims"] or at["test"] or number in OPEN, number
        assert at["test"] == plant.killer.removeprefix("tests/")
        assert {*at["claims"], *at["raised"]} <= set(claims.claims())


@pytest.mark.committed
def test_a_plant_is_seen_and_a_right_product_is_not():
    """The map's own measurement: false pass and false fail of one plant and its claims, at a fixed seed."""
    claim = "estimator/kl-estimators"
    assert mapping.seen(PLANTS[12], [claim])["violated"] == [claim]
    assert mapping.measured(claim) == "held"


@pytest.mark.parametrize("number", FIELD)
def test_killed(number):
    """It fails as an assertion, not because the patched product falls over."""
    found = PLANTS[number]
    with found.planted(), pytest.raises(BaseException) as caught:
        found.test()()
    assert verdict(caught.value) == "killed", repr(caught.value)


@pytest.mark.parametrize("number", FIELD)
def test_the_killer_passes_on_the_product(number):
    PLANTS[number].test()()


@pytest.fixture(scope="module")
def outcomes(request):
    """What the killers of the chosen slips say, from a process of their own."""
    chosen = [item for item in request.session.items if item.name.startswith("test_a_slip_is_killed[")]
    numbers = [str(item.callspec.params["number"]) for item in chosen]
    command = [sys.executable, "-m", "tests.defects.killing", *numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in SLIPS])
def test_a_slip_is_killed(number, outcomes):
    """By a test of the suite, so it passes on the product wherever it stands."""
    assert outcomes[str(number)] == "killed"
