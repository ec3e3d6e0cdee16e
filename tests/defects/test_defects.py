"""Every planted bug is killed by the test that names it, and that test passes on the product."""

import json
import random
import sys

import pytest

from asyncsim import claims
from tests import forked
from tests.defects import catalog, fresh, plants
from tests.defects.__main__ import TABLE, table
from tests.defects.killing import verdict
from tests.defects.plants import PLANTS
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import mutants
from tests.mutation.patching import ROOT

ALL = sorted(PLANTS)
FIELD = ALL[: catalog.FIELD]
SLIPS = ALL[catalog.FIELD :]
SAMPLE = random.Random(0).sample(SLIPS, 25)
"""Those of every run; all of them are in `make test-long`."""


def test_every_bug_of_the_list_is_planted():
    assert ALL[:42] == FIELD == list(range(1, 43)) and len(ALL) == catalog.COUNT
    assert all(plant.component and plant.killer for plant in PLANTS.values())


def test_every_bug_still_has_its_place(monkeypatch):
    """Code that moved takes its bugs along; nothing runs, so caches hold nothing of them."""
    monkeypatch.setattr(plants, "forget", lambda: None)
    for number in ALL:
        with PLANTS[number].planted():
            pass


@pytest.mark.committed
def test_the_table_is_that_of_the_plants():
    assert TABLE.read_text(encoding="utf-8") == table()


@pytest.mark.committed
def test_faults_drawn_by_chance_are_all_there_and_claims_that_see_them_exist():
    """As many as are drawn, none of them proven to change nothing, each with the claim that sees it."""
    rows = json.loads(fresh.COVERAGE.read_text(encoding="utf-8"))["rows"]
    assert len(rows) == fresh.SLIPS == len({(row["file"], row["line"], row["change"]) for row in rows})
    assert not {(row["file"], row["text"], row["change"]) for row in rows} & set(EQUIVALENT)
    assert {claim for row in rows for claim in row["claims"]} <= set(claims.claims())


@pytest.mark.committed
def test_a_fault_is_seen_and_the_product_is_not():
    """The measurement itself, on a copy of the package with one wrong sign, and on the package as it is."""
    file = "asyncsim/claims/ess/invariances.py"
    line = "ess = math.exp(2.0 * total - logsumexp(2.0 * log_w)) / log_w.size"
    (slip, *_) = [
        each
        for each in mutants(file, (ROOT / file).read_text("utf-8"))
        if each.text == line and each.change == "/ -> *"
    ]
    assert fresh.tried(slip, ["ess/invariances"]) == {"claims": ["ess/invariances"], "raised": [], "tried": 1}
    assert fresh.child(["ess/invariances"])["claims"] == []


@pytest.mark.parametrize("number", FIELD)
def test_killed(number):
    """It fails as an assertion, not because the patched product falls over."""
    found = PLANTS[number]
    with found.planted(), pytest.raises(BaseException) as caught:
        found.test()()
    assert verdict(caught.value) == "killed", repr(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("number", FIELD)
def test_the_killer_passes_on_the_product(number):
    """Most are tests of the suite, which pass there."""
    PLANTS[number].test()()


@pytest.fixture(scope="module")
def outcomes(request):
    """What the killers of the chosen slips say, from a process of their own."""
    chosen = [item for item in request.session.items if item.name.startswith("test_a_slip_is_killed[")]
    numbers = [str(item.callspec.params["number"]) for item in chosen]
    command = [sys.executable, "-m", "tests.defects.killing", *numbers]
    done = forked.run(command, timeout=None)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("number", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in SLIPS])
def test_a_slip_is_killed(number, outcomes):
    """By a test of the suite, so it passes on the product wherever it stands."""
    assert outcomes[str(number)] == "killed"
