"""Verdicts on language models: typed words are those of the rule, and the rule can fail."""

import importlib

import numpy as np
import pytest

from experiments import _contract, _store
from paper_figures import _gallery, _models, _pipeline
from tests.device import tagged

FIGURES = ("ess", "law", "drift", "numerics", "cosine", "stale_gradient", "losses", "masks")


def figure(name):
    return importlib.import_module(f"paper_figures.model_{name}")


@pytest.mark.parametrize(
    "held, word", [(6, "reproduced"), (5, "mostly"), (2, "mixed"), (1, "mostly not"), (0, "not reproduced")]
)
def test_words_follow_the_share(held, word):
    assert _models.word([place < held for place in range(6)]) == word


@pytest.mark.committed
@pytest.mark.parametrize("name", FIGURES)
def test_the_verdict_of_an_entry_is_that_of_its_rows(name):
    text = (_pipeline.HERE / "entries" / f"model_{name}.md").read_text(encoding="utf-8")
    said = _gallery.VERDICT.search(_gallery.paragraphs(text)["Verdict"])[1].lower()
    tables = [_store.read(each) for each in figure(name).EXPERIMENTS]
    assert said == _models.word(figure(name).kept(*tables))


def test_settings_for_a_gpu_are_of_the_same_kind():
    for name in _contract.papers()["models"]:
        module = _contract.experiment(name)
        known = {key for setting in module.SETTINGS for key in setting}
        for setting in module.GPU:
            assert setting["device"] == "cuda" and set(setting) <= known | {"device", "micro_batch"}
            assert "cuda" in module.DEVICES


@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=[pytest.mark.rows] * (k > 0)) for k, p in enumerate(_contract.papers()["models"])]
)
def test_rows_on_a_device_in_name_only_are_those_of_the_cpu(name):
    module = _contract.experiment(name)
    setting = {**module.QUICK[1], "replicates": 1}
    with tagged.pretended():
        found = module.run({**setting, "device": "cuda"})
    np.testing.assert_array_equal([row["value"] for row in found], [row["value"] for row in module.run(setting)])
