"""Values with many numbers: what loops over lanes do is what registers do, to the bit, at every size."""

import sys
import threading

import numpy as np
import pytest
import torch

from asyncsim.fusing import program as program_module
from asyncsim.fusing import rolling, stages
from asyncsim.fusing.graph import LARGEST, Unfit
from asyncsim.fusing.program import Program
from tests.fusing.code import unkept
from tests.fusing.test_programs import FUNCTIONS, in_place, numbers

REGISTERS = 10**6
"""As many lanes in registers as any value here has."""
WIDEST = rolling.HELD[0]


def made(monkeypatch, function, tree, lanes):
    """The program of a function whose values have at most so many lanes in registers."""
    unkept(monkeypatch)
    for module in (rolling, program_module):
        monkeypatch.setattr(module, "held", lambda order: lanes)
    return Program(lambda given: {"out": function(*given)}, tree, len(tree[0]))


def assert_same_bits(monkeypatch, function, *shapes, held=(1, 5, WIDEST)):
    """Loops give the bits of registers, on other numbers than those that were recorded."""
    tree, fresh = ([numbers(*shape, seed=seed) for shape in shapes] for seed in (0, 1))
    wanted = made(monkeypatch, function, tree, REGISTERS)(fresh)["out"]
    np.testing.assert_allclose(wanted.numpy(), function(*(x.clone() for x in fresh)).numpy(), rtol=1e-12, atol=1e-12)
    for lanes in held:
        found = made(monkeypatch, function, tree, lanes)(fresh)["out"]
        assert torch.equal(found, wanted), lanes


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("replicates", [3, 11])
def test_operations(name, replicates, monkeypatch):
    assert_same_bits(monkeypatch, FUNCTIONS[name], (replicates, 2, 3), (replicates, 2, 3))


def several(x, y):
    """Sums and largest numbers along both axes, running sums, choices, other orders, a cut and a join."""
    centered = x - x.mean(-1, keepdim=True)
    share = (centered.exp() / centered.exp().sum((1, 2), keepdim=True)).cumsum(-1)
    best = torch.where(y > y.amax(1, keepdim=True) - 0.5, share, y.transpose(1, 2).flip(-1).transpose(1, 2))
    joined = torch.cat([best[..., 1:], share[..., :1].log()], -1)
    return joined - joined.sum(1, keepdim=True) * best.amin((1, 2), keepdim=True)


@pytest.mark.parametrize("size", [WIDEST - 1, WIDEST, WIDEST + 1, 2 * WIDEST + 1, 50])
def test_sizes_around_every_boundary(size, monkeypatch):
    """Rows of a reduction that are halved once, several times, unevenly; lanes that leave a rest of eight."""
    assert_same_bits(monkeypatch, several, (9, 2, size), (9, 2, size))
    assert_same_bits(monkeypatch, several, (9, size, 2), (9, size, 2))


def test_what_is_changed_in_place(monkeypatch):
    assert_same_bits(monkeypatch, in_place, (9, 2, 3), (9, 2, 3))


def gathered(x, y):
    """Entries of tables of a replicate, told and computed, and numbers added into one."""
    index = (y * 7.0).long() % x.shape[-1]
    spread = torch.zeros_like(x).scatter_add(-1, index, y)
    table = x.exp()
    return table.gather(-1, index) * x.gather(-1, index) + spread.gather(-1, index)


@pytest.mark.parametrize("cells", [3, stages.SMALL, stages.SMALL + 1, 50])
def test_tables(cells, monkeypatch):
    assert_same_bits(monkeypatch, gathered, (9, cells), (9, 40))


def flagged(x, y):
    """Entries of a table of booleans; joining nothing."""
    index = (y * 7.0).long() % x.shape[-1]
    told = (x > 0.3).gather(-1, index)
    return torch.cat([torch.where(told, y, -y), y[..., :0]], -1)


@pytest.mark.parametrize("cells", [stages.SMALL, stages.SMALL + 1, 50])
@pytest.mark.parametrize("replicates", [3, 11])
def test_tables_of_booleans(cells, replicates, monkeypatch):
    assert_same_bits(monkeypatch, flagged, (replicates, cells), (replicates, 40))


def test_a_thousand_numbers_as_tensors_do():
    x, y = numbers(9, 30, 40), numbers(9, 30, 40, seed=1)
    found = Program(lambda tree: {"out": several(*tree)}, [x, y], 9)([y, x])["out"]
    np.testing.assert_allclose(found.numpy(), several(y, x).numpy(), rtol=1e-12, atol=1e-12)


def test_as_many_numbers_as_may_be():
    x = numbers(9, LARGEST)
    found = Program(lambda tree: {"out": (tree["x"] * tree["x"]).sum(-1)}, {"x": x}, 9)({"x": x})["out"]
    np.testing.assert_allclose(found.numpy(), x.square().sum(-1).numpy(), rtol=1e-12)


def test_memory_between_loops_is_a_threads_own():
    """Threads that run the same programs at once, small and large ones in turn: addresses are a call's own as well."""
    trees = [numbers(64, 10, size) for size in (30, 300)]
    programs = [Program(lambda tree: {"out": several(tree, tree)}, tree, 64) for tree in trees]
    wanted = [program(tree)["out"] for program, tree in zip(programs, trees, strict=True)]
    wrong = []

    def work():
        for _ in range(100):
            for program, tree, right in zip(programs, trees, wanted, strict=True):
                if not torch.equal(program(tree)["out"], right):
                    wrong.append(program)

    # Threads change places as often as they can, so that a shared address shows in every run of this test.
    every = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(every)
    assert not wrong


def test_a_program_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(rolling, "LONGEST", 10)
    monkeypatch.setattr(rolling, "WRITTEN", 10)
    with pytest.raises(Unfit, match="operations, more than a program can have"):
        Program(lambda tree: {"out": several(*tree)}, [numbers(9, 2, 3)] * 2, 9)


def test_a_long_program_holds_less_in_registers():
    x = [numbers(9, 2, 6)] * 2
    order = []
    right = rolling.held
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program_module, "held", lambda given: order.extend(given) or right(given))
        Program(lambda tree: {"out": several(*tree)}, x, 9)
        assert rolling.held(order) == WIDEST
        patch.setattr(rolling, "WRITTEN", 100)
        assert rolling.held(order) < WIDEST


def forgotten(self, node, _right=rolling.Body._reduced):
    """A row that is left over by halving is lost."""
    over = self._over
    self._over = lambda count: over(1 if count == node.var.lanes > 1 else count)
    _right(self, node)
    del self._over


DEFECTS = {
    "a strip that begins one lane late": (
        rolling.Body, "_scaled",
        lambda self, a, by, plus=0, _right=rolling.Body._scaled: _right(self, a, by, plus + (by == 8 and a != "0")),
    ),
    "places that are evenly spaced nowhere": (
        rolling.Body, "_table_of",
        lambda self, places, _right=rolling.Body._table_of: _right(self, np.roll(places, 1)),
    ),
    "values that share memory while both are needed": (stages, "_free", lambda held, size: 0),
    "values that are given up too early": (
        stages.Plan, "_remember",
        lambda self, node, _right=stages.Plan._remember: (
            _right(self, node),
            [setattr(x, "last", x.step) for read in node.reads for x in read.sources if x.last >= 0],
        ),
    ),
    "rows that are forgotten": (rolling.Body, "_reduced", forgotten),
    "a loop that ends early": (
        rolling.Body, "_over", lambda self, count, _right=rolling.Body._over: _right(self, max(1, count - 1)),
    ),
}  # fmt: skip


def shifted(attribute):
    """The neighboring cell."""
    right = getattr(rolling.Body, attribute)
    return lambda self, source, place: right(self, source, self.w.two("and", place, self.w.number(-2, "i"), "i"))


def strayed(self, offset, place, value, _right=rolling.Body._added):
    _right(self, offset, self.w.two("xor", place, self.w.number(1, "i"), "i"), value)


CELLS = {
    "booleans of the neighboring cell": (flagged, "_bits", shifted("_bits")),
    "numbers added to the neighboring cell": (gathered, "_added", strayed),
    "entries of the table of another value": (gathered, "_collected", shifted("_collected")),
}


@pytest.mark.parametrize("name", [*DEFECTS, *CELLS])
def test_planted_defects_are_seen(name, monkeypatch):
    if name in CELLS:
        loop, *planted = CELLS[name]
        given = rolling.Body, *planted, loop, (9, 50), (9, 40)
    else:
        given = *DEFECTS[name], several, (9, 2, 33), (9, 2, 33)
    owner, attribute, wrong, loop, *sizes = given
    monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError):
        assert_same_bits(monkeypatch, loop, *sizes)
