"""The mutator itself: what it changes and what not, and that a mutant which matters is noticed."""

import ast
import inspect
import math
import os
import subprocess
import sys

import pytest
import torch

from asyncsim.step import ratios
from tests.mutation import lines, patching, server
from tests.mutation.__main__ import of_files, sampled
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import mutants, mutated

TOY = '''
@dataclass(frozen=True)
class Toy:
    """1 + 1."""

    limit: Annotated[float, 3] = 2.0

    def weigh(self, x: Field[7], flag=True):
        """Not 3 < 4 either."""
        require(x > 0, "x", 5, f"{1 + 1}")
        if not flag and x is None:
            raise ValueError(-1)
        if torch.any(x):
            x *= 0.5
        return torch.where(~x & x, x.clamp(-1.5, max=self.limit).sum(-1), -x.abs())
'''

EXPECTED = [
    (6, "2.0 -> 3.0"), (6, "2.0 -> -2.0"),
    (8, "True -> False"),
    (10, "> -> >="), (10, "> -> <="), (10, "0 -> 1"),
    (11, "and -> or"), (11, "drop not"), (11, "is -> is not"),
    (13, "any -> all"), (13, "negate the condition"),
    (14, "*= -> /="), (14, "0.5 -> 1.5"), (14, "0.5 -> -0.5"),
    (15, "where: swap"), (15, "& -> |"), (15, "drop ~"), (15, "sum -> mean"), (15, "clamp: drop min"),
    (15, "clamp: drop max"), (15, "-1.5 -> -2.5"), (15, "-1.5 -> 1.5"), (15, "-1 -> -2"), (15, "drop -"),
    (15, "drop .abs()"),
]  # fmt: skip


def test_a_toy_has_exactly_these_mutants():
    """Text, annotations, decorators, what is raised and the words of `require` stay."""
    assert sorted((each.line, each.change) for each in mutants("toy.py", TOY)) == sorted(EXPECTED)


@pytest.mark.parametrize(
    ("source", "change", "expected"),
    [
        ("a < b", "< -> <=", "a <= b"),
        ("a < b", "< -> >=", "a >= b"),
        ("f(-1)", "-1 -> -2", "f(-2)"),
        ("a - b", "- -> +", "a + b"),
        ("a + b + c", "+ -> - (2)", "a - b + c"),
        ("x.clamp(0.0, 1.0)", "clamp: drop min", "x.clamp(max=1.0)"),
        ("torch.clamp(x, min=a)", "clamp: drop min", "x"),
        ("x.clamp(max=cap)", "clamp: drop max", "x"),
        ("torch.abs(x)", "drop abs()", "x"),
        ("x.abs_()", "drop .abs_()", "x"),
        ("x.clamp_(min=a, max=b)", "clamp: drop max", "x.clamp_(min=a)"),
        ("x.div_(a)", "div_ -> mul_", "x.mul_(a)"),
        ("a if f(x) else b", "negate the condition", "a if not f(x) else b"),
        ("x **= 2", "**= -> *=", "x *= 2"),
        ("max(a, b)", "max -> min", "min(a, b)"),
        ("a in b", "in -> not in", "a not in b"),
    ],
)
def test_the_change_is_made(source, change, expected):
    (found,) = [each for each in mutants("toy.py", source) if each.change == change]
    assert ast.unparse(mutated(source, found.number)) == expected


def test_every_mutant_is_another_program():
    """And keys do not coincide, so that each can be listed."""
    source = (patching.ROOT / "asyncsim/step/minibatches.py").read_text(encoding="utf-8")
    found = mutants("asyncsim/step/minibatches.py", source)
    texts = {ast.unparse(mutated(source, each.number)) for each in found}
    assert len(found) > 30 and len(texts) == len(found) and ast.unparse(ast.parse(source)) not in texts
    assert len({each.key for each in found}) == len(found)
    with pytest.raises(IndexError):
        mutated(source, len(found))


def of_usable():
    """The mutant of the usable ratio without an upper bound."""
    first = inspect.getsourcelines(ratios.usable)[1]
    last = first + len(inspect.getsourcelines(ratios.usable)[0])
    return next(
        each
        for each in of_files(["asyncsim/step/ratios.py"])
        if first <= each.line < last and each.change == "clamp: drop max"
    )


def test_living_functions_take_the_mutants_code():
    mutant, before = of_usable(), ratios.usable.__code__
    functions = patching.living(patching.ROOT / "asyncsim")[ratios.__file__]
    large = torch.tensor(30.0, dtype=torch.float64)
    assert ratios.usable(large) == math.exp(20.0)
    try:
        assert patching.patch(functions, patching.replaced(mutant)) == 1
        assert ratios.usable(large).item() == pytest.approx(math.exp(30.0))
    finally:
        ratios.usable.__code__ = before
    assert ratios.usable(large) == math.exp(20.0)


@pytest.mark.parametrize(
    ("file", "change", "text"),
    [
        ("asyncsim/step/ratios.py", "20.0 -> 21.0", "LOG_LIMIT = 20.0"),
        ("asyncsim/methods/_weights.py", "True -> False", "anchored: ClassVar[bool] = True"),
        (
            "asyncsim/updates/steps.py",
            "0.05 -> 1.05",
            'low: Any = number(0.05, "cosine up to which updates pass", -1.0, 1.0, remedy="give a cosine")',
        ),
    ],
)
def test_what_an_import_runs_is_not_patched(file, change, text):
    mutant = next(each for each in of_files([file]) if (each.change, each.text) == (change, text))
    assert patching.replaced(mutant) is None


SCRIPT = """
from tests.mutation import server
from tests.mutation.__main__ import of_files
mutant = of_files(["asyncsim/step/ratios.py"])[NUMBER]
for name in ("test_usable_ratio_is_limited_and_monotone", "test_cosine_at_its_ends"):
    tests = ["tests/contracts/test_ratios.py::" + name]
    found, late = server.forked(lambda: server.imported(mutant, tests), 60.0)
    print(found["killed"], found["by"].rpartition(":")[2], late)
"""


def test_a_mutant_of_the_usable_ratio_is_killed():
    """By the test that is about it, and not by one that never calls it."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("NUMBER", str(of_usable().number))],
        cwd=patching.ROOT,
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
    )
    expected = ["True test_usable_ratio_is_limited_and_monotone False", "False  False"]
    assert done.stdout.splitlines() == expected, done.stderr


def test_a_mutant_that_runs_for_ever_is_late():
    def forever():
        while True:
            pass

    assert server.forked(forever, 0.0) == (None, True)
    assert server.forked(lambda: {"killed": False}, 9.0) == ({"killed": False}, False)


def test_a_fault_of_the_machinery_kills_nothing():
    def crash():
        raise RuntimeError("no such test")

    assert server.forked(crash, 9.0) == ({"killed": False, "by": "RuntimeError('no such test')"}, False)
    assert server.forked(lambda: os._exit(3), 9.0) == (None, False)


def test_witnesses_come_in_order():
    """Tests near the file, then cheap ones; those that fail unchanged are none; imports concern all of the file."""
    (mutant,) = [each for each in mutants("asyncsim/updates/sgd.py", "x = 1\ny = a < b\n") if each.change == "< -> <="]
    here = {"asyncsim/updates/sgd.py": [2]}
    tests = {"slow": here, "quick[1]": here, "quick[2]": here, "test_links": here, "broken": here, "other": {}}
    seconds = {"slow": 9.0, "quick[1]": 1.0, "quick[2]": 2.0, "test_links": 10.0, "broken": 0.0, "other": 0.0}
    found = lines.Map(tests, seconds, {}, ["broken"])
    assert found.covering(mutant) == ["test_links", "quick[1]", "slow", "quick[2]"]
    assert found.within(found.covering(mutant), 11.0) == ["test_links", "quick[1]"]
    assert found.within(found.covering(mutant), 0.0) == ["test_links"]
    assert not found.early(mutant)
    early = lines.Map({**tests, "a_sgd": {}}, {**seconds, "a_sgd": 0.0}, {"asyncsim/updates/sgd.py": [2]}, [])
    assert early.early(mutant) and {"a_sgd", "other"} <= set(early.covering(mutant))


def test_a_sample_keeps_what_did_not_change():
    found = of_files(["asyncsim/step/ratios.py", "asyncsim/step/step.py"])
    sample = sampled(found, 20, seed=3)
    fewer = [each for each in found if each.file != "asyncsim/step/ratios.py"]
    assert [each for each in sample if each in fewer] == sampled(fewer, sum(each in fewer for each in sample), seed=3)
    assert sampled(found, 20, seed=3) == sample != sampled(found, 20, seed=4)


def test_equivalent_mutants_exist():
    """An entry whose line has changed excuses nothing any more."""
    known = {each.key for each in of_files(lines.targets())}
    assert [key for key in EQUIVALENT if key not in known] == []
    assert all(reason.endswith(".") for reason in EQUIVALENT.values())
