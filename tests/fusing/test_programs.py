"""Recording functions of tensors: what becomes a program does the same, what cannot is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.fusing import program as program_module
from asyncsim.fusing.graph import LARGEST, Unfit
from asyncsim.fusing.program import Program
from asyncsim.fusing.tape import Varies, entries, recording, surely
from tests.fusing.code import unkept


def numbers(*shape, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def same(function, *shapes, others=3):
    """The program agrees with the function on numbers that it has not seen."""
    tree = [numbers(*shape) for shape in shapes]
    program = Program(lambda given: {"out": function(*given)}, tree, shapes[0][0])
    for seed in range(1, others + 1):
        fresh = [numbers(*shape, seed=seed) for shape in shapes]
        wanted = function(*(x.clone() for x in fresh))
        found = program(fresh)["out"]
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-13, atol=1e-13)


FUNCTIONS = {
    "arithmetic": lambda x, y: (x + 2.0 * y - 1.5) / (y * y + 1.0),
    "an axis of one": lambda x, y: x - y.mean(-1, keepdim=True) * x.amax((1, 2), keepdim=True),
    "integers": lambda x, y: ((x * 10).long() // 3 % 2 + (y > 0).long()).double(),
    "choices": lambda x, y: torch.where((x > 0) & ~(y > 1) | (x < -1), x, y.abs().neg()),
    "bounds": lambda x, y: x.clamp(-0.3, 0.4) + torch.maximum(x, y) - torch.minimum(x, y).clamp(min=0.1),
    "sums": lambda x, y: x.sum((1, 2)) + y.sum(-1).amin(-1) + x.cumsum(-1)[..., -1].sum(1),
    "orders": lambda x, y: x.transpose(1, 2).reshape(x.shape[0], -1) * y.flip(-1).permute(0, 2, 1).flatten(1),
    "cuts": lambda x, y: torch.cat([x[..., :1], y[..., 1:], x.unsqueeze(-1)[..., -1:, 0]], -1),
    "padding": lambda x, y: torch.nn.functional.pad(x.cumsum(-1)[..., :-1], (1, 0)) + y,
    "places": lambda x, y: x.gather(-1, y.argmax(-1, keepdim=True)).squeeze(-1),
    "powers": lambda x, y: (x.abs() + 0.1) ** y + x**2 + (y.abs() + 1.0) ** -0.5 + 2.0**y,
    "signs": lambda x, y: x.sign() * y + torch.isnan(x / 0.0 * 0.0).double() + torch.isfinite(y).double(),
    "norms": lambda x, y: torch.linalg.vector_norm(x.flatten(1), dim=-1) + y.square().mean((1, 2)).sqrt(),
    "lost numbers": lambda x, y: (x / (y > 0).double()).nan_to_num(nan=1.0, posinf=2.0, neginf=3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("replicates", [1, 3, 8, 13])
def test_operations(name, replicates):
    same(FUNCTIONS[name], (replicates, 2, 3), (replicates, 2, 3))


def in_place(x, y):
    total = torch.zeros_like(x)
    total += x
    column = total[..., 0]
    column.mul_(2.0)
    total[:, 1, 1:].copy_(y[:, 0, :2])
    return total.exp_() + column.unsqueeze(-1)


def test_what_is_changed_in_place_is_seen_by_every_view():
    same(in_place, (9, 2, 3), (9, 2, 3))


def outside(x, y):
    grid = torch.zeros(9, 2, 3, dtype=torch.float64)
    grid[..., 0] = 1.0
    grid[..., 2] = x[..., 2]
    return grid * y


def test_a_constant_that_is_filled_later():
    same(outside, (9, 2, 3), (9, 2, 3))


@settings(max_examples=40, deadline=None)
@given(replicates=st.integers(1, 12), groups=st.integers(1, 4), samples=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_any_shape(replicates, groups, samples, seed):
    """Sizes that equal one another as well; one row that all replicates share."""
    share = numbers(1, groups, samples, seed=seed)

    def function(tree):
        x, mass = tree
        mean = (mass * x).sum(-1, keepdim=True)
        spread = (mass.abs() * (x - mean) ** 2).sum((1, 2), keepdim=True).sqrt()
        return {"out": torch.where(x > mean, x / (spread + 1.0), mean.expand(x.shape))}

    tree = [numbers(replicates, groups, samples, seed=seed + 1), share]
    program = Program(function, tree, replicates)
    fresh = [numbers(replicates, groups, samples, seed=seed + 2), share]
    np.testing.assert_allclose(program(fresh)["out"].numpy(), function(fresh)["out"].numpy(), rtol=1e-12, atol=1e-12)


def test_lost_numbers_are_a_place_that_exists():
    """As integers they would be any number, and a lookup would leave the table."""
    x = torch.tensor([[0.0], [torch.nan], [torch.inf], [-torch.inf]], dtype=torch.float64)
    program = Program(lambda tree: {"out": tree["x"].nan_to_num(posinf=1.0, neginf=0.0).long()}, {"x": x}, 4)
    assert program({"x": x})["out"].reshape(-1).tolist() == [0, 0, 1, 0]
    cut = Program(lambda tree: {"out": tree["x"].long().double()}, {"x": x}, 4)
    assert cut({"x": x})["out"].reshape(-1).tolist()[:2] == [0.0, 0.0]


def test_tables():
    table = torch.tensor(np.random.default_rng(0).normal(size=7))
    index = torch.tensor(np.random.default_rng(1).integers(0, 7, (9, 4)))
    program = Program(lambda tree: {"out": entries(table, tree["index"])}, {"index": index}, 9)
    other = torch.tensor(np.random.default_rng(2).integers(0, 7, (9, 4)))
    assert torch.equal(program({"index": other})["out"], table[other])


REFUSED = {
    "asks for a number": (lambda x: x * x.abs().max().item(), "replicates put together"),
    "reads a list": (lambda x: x * x.tolist()[0][0], "numbers read out"),
    "reads an array": (lambda x: x * float(x.numpy()[0, 0]), "numbers read out"),
    "makes an array": (lambda x: x * float(np.asarray(x)[0, 0]), "numbers read out"),
    "asks whether": (lambda x: x if bool((x > 0).any()) else -x, "replicates put together"),
    "mixes replicates": (lambda x: x - x.mean(0, keepdim=True), "replicates put together"),
    "sorts": (lambda x: x.sort(-1).values, "no rule for sort"),
    "joins replicates": (lambda x: x.reshape(-1), "joined"),
    "one replicate of many": (lambda x: x[0].expand(9, 3), "a single replicate"),
    "some replicates": (lambda x: x[1:], "some replicates"),
    "another precision": (lambda x: x.float(), "float32"),
    "large": (lambda x: x.unsqueeze(-1) * torch.arange(LARGEST, dtype=torch.float64), "at most"),
    "as long as there are replicates": (
        lambda x: x + torch.arange(9, dtype=torch.float64).unsqueeze(-1), "as long as there are replicates",
    ),
    "a value of the call": (lambda x: x * Varies(), "at the call only"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_become_a_program_is_refused(name):
    function, why = REFUSED[name]
    with pytest.raises(Unfit, match=why):
        Program(lambda tree: {"out": function(tree)}, numbers(9, 3), 9)
    assert recording() is None


def test_another_shape_is_refused():
    program = Program(lambda tree: {"out": tree["x"] + 1.0}, {"x": numbers(9, 3)}, 9)
    with pytest.raises(ValueError, match=r"input \('x',\) of a program has shape \(9, 4\), not \(9, 3\)"):
        program({"x": numbers(9, 4)})


def test_a_shortcut_is_not_recorded():
    """Its condition holds for the numbers at hand, not for those of later calls."""
    asked = []

    def function(tree):
        return {"out": tree["x"] if surely(lambda: asked.append(1) or True) else tree["x"].abs()}

    program = Program(function, {"x": numbers(9, 3).abs()}, 9)
    assert not asked and surely(lambda: True)
    assert (program({"x": -numbers(9, 3).abs()})["out"] >= 0).all()


def test_only_settings_that_are_used_are_read(monkeypatch):
    """Planted before: code read all settings of the program it was made for, past the end of an equal one's."""
    texts = []
    unkept(monkeypatch)
    right = program_module._code
    monkeypatch.setattr(program_module, "_code", lambda text: texts.append(text) or right(text))

    def function(tree):
        _ = tree["x"] * 0.3, tree["x"] * 0.4
        return {"out": tree["x"] * 0.25}

    Program(lambda tree: {"out": tree["x"] * 0.25}, {"x": numbers(9, 3)}, 9)
    unused_first = Program(function, {"x": numbers(9, 3)}, 9)
    assert unused_first.scalars.tolist() == [0.3, 0.4, 0.25]
    assert [text.count("ptr %scalars, i64 ") for text in texts] == [1, 1]


def test_settings_share_code():
    """Programs that differ in a number only are compiled once; others are not mistaken for them."""
    made = [Program(lambda tree, by=by: {"out": tree["x"] * by}, {"x": numbers(9, 3)}, 9) for by in (0.25, 0.75)]
    other = Program(lambda tree: {"out": tree["x"] + 0.25}, {"x": numbers(9, 3)}, 9)
    assert made[0].call is made[1].call and other.call is not made[0].call
    x = {"x": numbers(9, 3, seed=5)}
    assert torch.equal(made[1](x)["out"], x["x"] * 0.75)
