"""The character model, its tokenizer and its pretraining: causality, counts of weights, files that cannot be used."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsim.base import files
from asyncsim.base.checks import InputError
from asyncsim.policies import _pretraining as pretraining
from asyncsim.policies._language_prompts import Columns, Growing, together
from asyncsim.policies._pretraining import Characters, Recipe
from tests.refusals import refused

SMALL = Recipe(width=16, layers=2, heads=2, hidden=24, context=24, steps=0)


def network(recipe=SMALL, seed=0, dtype=torch.float64):
    """A model with random weights ten times as large as at a start, so that every token matters."""
    made = recipe.network()
    made.reset(torch.Generator().manual_seed(seed))
    for weight in made.parameters():
        weight.mul_(10.0 if weight.ndim == 2 else 1.0)
    return made.to(dtype)


def causal(queries, columns):
    """Additive mask of the last queries of a text."""
    return torch.full((1, 1, queries, columns), -torch.inf, dtype=torch.float64).triu(columns - queries + 1)


def test_the_default_model_has_at_most_a_million_weights():
    recipe = Recipe()
    W, H = recipe.width, recipe.hidden
    expected = recipe.layers * (4 * W**2 + 2 * W * H + 2 * W) + (len(Characters.alphabet) + recipe.context + 1) * W
    count = sum(weight.numel() for weight in recipe.network().parameters())
    assert count == expected <= 1_000_000


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), place=st.integers(0, 9))
def test_a_token_is_seen_by_later_ones_only(seed, place):
    made, random = network(seed=seed), np.random.default_rng(seed)
    ids = torch.from_numpy(random.integers(0, len(Characters.alphabet), (1, 10)))
    other = ids.clone()
    other[0, place] = (ids[0, place] + 1) % len(Characters.alphabet)
    where = torch.arange(10).unsqueeze(0)
    one, two = (made(x, where, causal(10, 10)).logits[0] for x in (ids, other))
    gap = (one - two).abs().amax(1)
    assert (gap[:place] == 0).all() and (gap[place:] > 1e-9).all()
    # What the test would miss without the mask: every position sees the change.
    open_mask = torch.zeros(1, 1, 10, 10, dtype=torch.float64)
    one, two = (made(x, where, open_mask).logits[0] for x in (ids, other))
    assert ((one - two).abs().amax(1) > 1e-9).all()


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 9))
def test_passes_behind_one_another_are_one_pass(seed, cut):
    """`Growing` keys of a single row stand for every row; `Columns` are written one at a time, twice if asked."""
    made, random = network(seed=seed), np.random.default_rng(seed)
    front = torch.from_numpy(random.integers(0, len(Characters.alphabet), (1, cut)))
    behind = torch.from_numpy(random.integers(0, len(Characters.alphabet), (3, 10 - cut)))
    ids, where = torch.cat([front.expand(3, -1), behind], 1), torch.arange(10).unsqueeze(0)
    whole = made(ids, where, causal(10, 10)).logits
    first = Growing()
    made(front, where[:, :cut], causal(cut, cut), first)
    second = Growing(first.layers)
    rest = made(behind, where[:, cut:], causal(10 - cut, 10), second).logits
    torch.testing.assert_close(rest, whole[:, cut:], rtol=0, atol=1e-12)
    assert second.get_seq_length() == 10
    static = Columns([(k.expand(3, -1, -1, -1).clone(), v.expand(3, -1, -1, -1).clone()) for k, v in first.layers])
    for column in [*range(cut, 10), *range(cut, 10)]:
        static.point(column)
        step = made(ids[:, column : column + 1], where[:, column : column + 1], causal(1, column + 1), static).logits
        torch.testing.assert_close(step[:, 0], whole[:, column], rtol=0, atol=1e-12)


def test_a_column_is_written_in_the_rows_that_were_named():
    pairs = [(torch.zeros(3, 2, 4, 5), torch.zeros(3, 2, 4, 5))]
    cache, new = Columns(pairs), torch.ones(3, 2, 1, 5)
    cache.point(4, torch.tensor([0, 2]))
    keys, _ = cache.update(new, new, 0)
    assert keys.shape == (3, 2, 5, 5) and keys[:, 0, 4, 0].tolist() == [1.0, 0.0, 1.0]
    assert cache.get_seq_length() == 4
    chosen = cache.select(torch.tensor([2]))
    both = together([chosen, Columns(pairs)])
    both.point(4)
    keys, _ = both.update(2 * torch.ones(4, 2, 1, 5), 2 * torch.ones(4, 2, 1, 5), 0)
    assert keys[:, 0, 4, 0].tolist() == [2.0] * 4
    assert cache.layers[0][0][:, 0, 4, 0].tolist() == [1.0, 0.0, 1.0], "a selection is a copy"


@given(st.text(Characters.alphabet))
def test_characters_come_back(text):
    tokenizer = Characters()
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.size == len(set(Characters.alphabet)) and tokenizer.decode(tokenizer.end) == "\n"


def test_an_unknown_character_is_refused():
    caught = refused(r"character of a text = '%': must be in the alphabet", lambda: Characters().encode("1%2"))
    assert caught.remedy.endswith("use causal_lm('smollm2') or a model of words")


# Pretraining.

TINY = dataclasses.replace(SMALL, low=0, high=1, steps=100, batch=16, rate=1e-2, target=0.99)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path))
    return tmp_path


def test_pretraining_learns_is_kept_and_is_the_same_again(cache, capsys):
    """Answers of 0+0 to 1+1 are learnt; the file gives the weights back, and a second training the same ones."""
    made = pretraining.pretrained(TINY)
    assert "pretraining" in capsys.readouterr().err
    held = pretraining.lines(TINY, 64, np.random.default_rng(3))
    assert pretraining.exact_match(made, held) > 0.9
    (path,) = cache.iterdir()
    assert path.name == f"{TINY.key()}.npz"
    again = pretraining.pretrained(TINY)
    assert capsys.readouterr().err == ""
    path.unlink()
    fresh = pretraining.pretrained(TINY)
    for a, b, c in zip(made.parameters(), again.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(a, b) and not b.requires_grad
        torch.testing.assert_close(a, c, rtol=0, atol=1e-5)


@pytest.mark.parametrize("steps", [0, 2])
def test_weights_are_made_and_read_on_the_cpu(cache, steps):
    """Also where tensors go elsewhere by default; a device without numbers stands for all others."""
    recipe = dataclasses.replace(TINY, steps=steps)
    with torch.device("meta"):
        made = [pretraining.pretrained(recipe) for _ in range(2)]
        assert {w.device.type for w in recipe.network().parameters()} == {"cpu"}
        assert torch.zeros(1).device.type == "meta"
    assert len(list(cache.iterdir())) == (steps > 0)
    made.append(pretraining.pretrained(recipe))
    for network in made:
        for weight, expected in zip(network.state_dict().values(), made[-1].state_dict().values(), strict=True):
            assert weight.device.type == "cpu" and torch.equal(weight, expected)


def test_a_folder_that_cannot_be_written_is_named_before_the_training(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASYNCSIM_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(pretraining, "train", lambda *_: pytest.fail("trained in vain"))
    with pytest.raises(
        InputError, match=r"cache folder = .*: must be a folder that can be written; set ASYNCSIM_CACHE"
    ):
        pretraining.pretrained(TINY)
    assert capsys.readouterr().err == "", "nothing is promised"


def test_weights_are_read_from_a_folder_that_cannot_be_written(cache, monkeypatch):
    pretraining.save(TINY.network(), cache / f"{TINY.key()}.npz")
    monkeypatch.setattr(files.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError("read-only")))
    pretraining.pretrained(TINY)
    refused(r"cache folder = .*PermissionError", lambda: pretraining.pretrained(dataclasses.replace(TINY, seed=9)))


def test_training_stops_at_its_target():
    recipe = dataclasses.replace(TINY, target=0.3)
    made = recipe.network()
    made.reset(torch.Generator().manual_seed(0))
    steps, reached = pretraining.train(made, recipe)
    assert steps < recipe.steps and reached >= 0.3


def test_no_steps_give_random_weights_without_a_file(cache):
    one, two = (pretraining.pretrained(dataclasses.replace(SMALL, seed=s)) for s in (0, 1))
    assert not torch.equal(one.embedding.weight, two.embedding.weight)
    assert list(cache.iterdir()) == []


def test_every_field_of_the_recipe_is_in_the_name_of_the_file():
    recipe = Recipe()
    for field in dataclasses.fields(Recipe):
        value = getattr(recipe, field.name)
        other = "-" if isinstance(value, str) else value * 2 + 1
        assert dataclasses.replace(recipe, **{field.name: other}).key() != recipe.key(), field.name


@pytest.mark.parametrize("damage", ["cut", "empty", "shape"])
def test_a_damaged_weight_file_is_named(cache, damage):
    path = cache / f"{TINY.key()}.npz"
    pretraining.save(TINY.network() if damage != "shape" else Recipe(steps=0).network(), path)
    if damage != "shape":
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if damage == "cut" else b"")
    refused(r"weight file = .*char-.*delete it, it is made again", pretraining.pretrained, TINY)


def test_a_failed_write_leaves_nothing(cache, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    refused("disk full", lambda: pretraining.save(SMALL.network(), cache / "x.npz"))
    assert list(cache.iterdir()) == []


def test_a_disk_that_is_full_after_the_training_costs_one_line(cache, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    whole = pretraining.pretrained(TINY)
    next(cache.iterdir()).unlink()
    monkeypatch.setattr(np, "savez", full)
    capsys.readouterr()
    found = pretraining.pretrained(TINY)
    said = capsys.readouterr().err.splitlines()
    assert "the model is not kept" in said[-1] and "No space left on device" in said[-1]
    assert torch.equal(found.embedding.weight, whole.embedding.weight) and list(cache.iterdir()) == []


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    for name in ("ASYNCSIM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pretraining.Path, "home", nowhere)
    refused("set ASYNCSIM_CACHE", pretraining.pretrained, TINY)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"heads": 3}, "recipe.heads = 3: must be a divisor of the width 16"),
        ({"width": 0}, "recipe.width = 0"),
        ({"high": -1}, "recipe.high = -1"),
        ({"operations": "%"}, "recipe.operations = '%'"),
        ({"operations": 3}, "recipe.operations = 3"),
        ({"operations": ["+"]}, "recipe.operations = ['+']"),
        ({"rate": 0.0}, "recipe.rate = 0.0"),
        ({"target": 2.0}, "recipe.target = 2.0"),
    ],
)
def test_a_recipe_that_cannot_be_built_is_refused(fields, message):
    error = refused("", lambda: dataclasses.replace(SMALL, **fields).check())
    assert message in str(error)


def test_lines_are_sums():
    recipe = Recipe(operations="+-*")
    ids, answer = pretraining.lines(recipe, 50, np.random.default_rng(0))
    for row, answered in zip(ids, answer, strict=True):
        text = Characters().decode(row.tolist())
        prompt, _, rest = text.partition("=")
        result = rest.partition("\n")[0]
        assert int(result) == eval(prompt)
        assert answered.sum() == len(result) + 1 and answered[len(prompt)] == 1 and answered[: len(prompt)].sum() == 0
