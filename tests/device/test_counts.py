"""Launches, waits and copies of a token step and of an update: no growth unseen, and planted defects are seen."""

import json
from unittest import mock

import pytest
import torch

from asyncsim.policies import _language_prompts as prompts
from asyncsim.policies.causal_lm import CausalLM
from asyncsim.running import running
from asyncsim.step import versions
from asyncsim.updates import _link
from tests.device.configurations import language, run
from tests.device.counting import BUDGET, KINDS, WHAT, counted, moved
from tests.device.tagged import pretended

LIMITS = json.loads(BUDGET.read_text(encoding="utf-8"))
MOST = 25
"""Launches of the optimizer with each update, whatever the size of the model."""


def test_every_kind_has_numbers():
    assert LIMITS.keys() == KINDS.keys()


OTHERS = {"language", "language, coupled", "language, drawn late", "language, versions in flight"}
"""Kinds that add a way to draw to what the others count; `make test-rows` counts them."""


@pytest.mark.parametrize("kind", [pytest.param(each, marks=[pytest.mark.rows] * (each in OTHERS)) for each in KINDS])
def test_nothing_grows(kind):
    found = counted(kind)
    grown, fallen = moved(found, LIMITS[kind])
    assert not grown, "; ".join(grown)
    assert not fallen, f"{'; '.join(fallen)}: note it by `python -m tests.device.counting`"
    # The loop itself never waits: what waits draws, or scores.
    waits = {stage: row["waits"] for stage, row in found.items()}
    assert waits["optimizer"] == waits["record"] == waits["update"] - waits["draw"] - waits["evaluate"] == 0
    if "per replicate" not in kind:
        assert 0 < found["optimizer"]["launches"] <= MOST


def grown_by(kind="language, packed"):
    return moved(counted(kind), LIMITS[kind])[0]


def test_a_block_outside_the_device_is_seen(monkeypatch):
    """Planted: what a block makes, its recorder and knobs, is made before the device is entered."""

    def outside(*args, make=running.Block):
        with torch.device("cpu"), mock.patch.object(versions, "_DEVICES", ["cpu"]):
            return make(*args)

    monkeypatch.setattr(running, "Block", outside)
    with pretended():
        spec = language("cuda")
        with pytest.raises(RuntimeError, match="same device"):
            run(spec)


def test_a_number_read_with_each_token_is_seen(monkeypatch):
    """Planted: `.item()` behind every draw."""

    def act(*args, own=CausalLM.act, **kwargs):
        made = own(*args, **kwargs)
        made.action.sum().item()
        return made

    monkeypatch.setattr(CausalLM, "act", act)
    assert any(text.startswith("token: waits grew") for text in grown_by())


def test_an_index_of_the_host_is_seen(monkeypatch):
    """Planted: rows of the cache by numbers that are on the CPU, which torch copies at every call without a word."""

    def joined(before, layers, which, own=prompts.joined):
        return own(before, layers, which.cpu())

    for module in (prompts, __import__("asyncsim.policies._language_sampling", fromlist=["joined"])):
        monkeypatch.setattr(module, "joined", joined)
    with pretended() as ledger:
        run(language("cuda"))
    assert any("index of the host" in name for name in ledger.copies)
    assert any("copies grew" in text for text in grown_by())


def test_adam_in_pieces_is_seen(monkeypatch):
    """Planted: pieces for a CPU's cache, on a device."""

    def pieces(g, first, second, *rest, own=_link.moved):
        parts = [own(*(x[:, k : k + 500] for x in (g, first, second)), *rest) for k in range(0, g.shape[1], 500)]
        return tuple(torch.cat(each, 1) for each in zip(*parts, strict=True))

    monkeypatch.setattr(_link, "one_kernel", lambda *_: False)
    monkeypatch.setattr(_link, "moved", pieces)
    found = counted("language, packed")
    assert found["optimizer"]["launches"] > MOST
    assert any(text.startswith("optimizer: launches grew") for text in moved(found, LIMITS["language, packed"])[0])


def test_budgets_count_what_the_ledger_counts():
    assert all(set(row) == set(WHAT) for kind in LIMITS.values() for row in kind.values())
