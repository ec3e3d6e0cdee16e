"""Numerics of language models: no noise where formats are equal, and tails as unequal normal tokens have them."""

import numpy as np
import pytest

import asyncsim as sim
from experiments import _models, model_numerics

SETTING = {**model_numerics.QUICK[0], "replicates": 1}


def looked(sampler, **changes):
    """Statistics of one batch by name."""
    metrics = model_numerics.metrics(())
    spec = _models.spec({**SETTING, **changes, "sampler": sampler}, 0, 1, metrics)
    trace = sim.run(spec, progress=False)
    return {metric.name: trace[metric.name][0, 0] for metric in metrics}


def test_only_another_format_moves_log_probs():
    same, rounded = looked("float32"), looked("bfloat16")
    assert same["deviation"] == 0.0 and same["ess 0"] == 1.0
    assert 1e-5 < rounded["deviation"] < 0.1 and rounded["largest"] > rounded["deviation"]
    assert rounded["ess 0"] == pytest.approx(model_numerics.predicted(rounded["variance 0"])["ess"], rel=1e-4)


def test_unequal_normal_tokens_have_the_kurtosis_that_is_told():
    random = np.random.default_rng(5)
    q = random.uniform(0.0, 1.5, 400_000) ** 3
    noise = np.sqrt(q) * random.standard_normal(len(q))
    found, told = (noise**4).mean() / (noise**2).mean() ** 2, 3 * (q**2).mean() / q.mean() ** 2
    assert found == pytest.approx(told, rel=0.05) and told > 1.5 * 3.0
