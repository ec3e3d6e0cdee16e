"""A token that the trainer cannot draw any more (log-prob -inf): no method and no metric makes NaN of it."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.diagnostics._diagnostic import Metric
from asyncsim.methods._method import evaluate
from asyncsim.policies._policy import Forward
from asyncsim.step import ratios
from asyncsim.step.step import carried
from tests.contracts.families import gathered
from tests.contracts.laboratory import NOTHING, case, make, names, trial_of

METHODS = {n: make("methods", n) for n in names("methods") if "log_prob" in make("methods", n).outputs}
for advantage in names("advantages"):
    METHODS[f"{advantage} advantage"] = make("methods", "truncated_is").replace(advantage=make("advantages", advantage))
for kind in ("factors", "penalties"):
    METHODS |= {n: make("methods", "full_is").replace(**{kind: (make(kind, n),)}) for n in names(kind)}
METHODS |= {label: method() for label, method in gathered("CASES").items()}
METRICS = {n: make("diagnostics", n) for n in names("diagnostics")}
PLAIN = [
    n
    for n, m in METRICS.items()
    if isinstance(m, Metric) and not m.enumerates and set(m.outputs) <= {"log_prob"} and n not in ("clip_dual",)
]
FEW = {"pareto_k", "tail_index"}
"""Tails of fewer samples than these tests have are NaN, with or without a nucleus."""
METHOD = sim.methods.ppo_clip(advantage=sim.advantages.offset(0.4), aggregator="sequence_sum")


class Cut:
    """A policy that cannot draw some tokens, bool `[R, G, N, T]`; as a language model, it has no gradient there."""

    truncates = True

    def __init__(self, inner, cut):
        self.inner, self.cut = inner, cut

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def forward(self, view, batch, names):
        passed = self.inner.forward(view, batch, names)
        cut = {"log_prob": self.cut}
        if "log_probs" in passed.outputs:
            chosen = torch.nn.functional.one_hot(batch.action, passed.outputs["log_probs"].shape[-1]).bool()
            cut["log_probs"] = chosen & self.cut.unsqueeze(-1)
        outputs = {k: x.masked_fill(cut[k], -math.inf) if k in cut else x for k, x in passed.outputs.items()}

        def pullback(cotangents):
            kept = {k: torch.where(cut[k], 0.0, x) if k in cut else x for k, x in cotangents.items()}
            return passed.pullback(kept)

        return Forward(outputs, pullback)


def cuts(trial, where):
    """Nothing, one token of a sample, or the first token of every sample."""
    cut = torch.zeros(trial.batch.mask.shape, dtype=torch.bool)
    if where == "every sample":
        cut[..., 0] = True
    elif where == "one token":
        cut[:, 0, 1, 0] = True
    return cut


@pytest.mark.parametrize("label", METHODS)
def test_a_token_outside_makes_no_nan_and_one_that_comes_back_is_no_outlier(label):
    """Back in the batch's second update. Planted: its ratio to the proximal policy at the limit of ratios, exp(20)."""
    method = METHODS[label]
    trial = trial_of(method, G=2, N=4, drift=0.5)
    weights, batch = trial.policy.prepare(trial.new), trial.batch
    for where in ("every sample", "one token"):
        policy = Cut(trial.policy, cuts(trial, where))
        first = evaluate(method, NOTHING, policy, weights, batch)
        assert torch.isfinite(first.gradient).all(), where
        assert not any(torch.isnan(value.double()).any() for value in first.statistics.values()), where
        assert (first.outside > 0).all()
    torch.testing.assert_close(first.outside, (first.share * policy.cut).sum((1, 2, 3)), check_dtype=False)
    back = Cut(trial.policy, cuts(trial, "nowhere"))
    step = evaluate(method, NOTHING, back, trial.policy.prepare(trial.new + 0.1), batch, carried(first))
    assert torch.isfinite(step.gradient).all() and step.gradient.abs().max() < 1e3
    assert (step.drift[:, 0, 1, 0] == 0).all()
    planted = ratios.log_ratio(step.current["log_prob"], step.proximal["log_prob"], step.mask)
    assert ratios.usable(planted).max() > 1e8


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("where", ["one token", "every sample", "mismatch", "dropped"])
def test_metrics_are_numbers(name, where):
    """Also where the trainer could not draw a token at the behavior weights, and where the token's group is dropped."""
    trial, method = case(G=2, N=4, drift=0.5), METHOD
    trial.batch.version = np.arange(8, dtype=np.int32).reshape(1, 2, 4, 1) % 4
    if where == "mismatch":
        scored = trial.batch.behavior["log_prob"] + 0.1
        scored[:, 1, 1, 0] = -math.inf
        trial.batch.behavior["scored_log_prob"] = scored
    if where == "dropped":
        method = method.replace(drop_equal=True)
        trial.batch.reward[:, 0] = 1.0
        trial.batch.reward[:, 1] = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=torch.float64)

    def told(cut):
        step = evaluate(method, NOTHING, Cut(trial.policy, cut), trial.policy.prepare(trial.new), trial.batch)
        step.parameters, step.previous = trial.new, torch.ones_like(step.gradient)
        return METRICS[name].at(step)

    whole = told(cuts(trial, "nowhere"))
    found = told(cuts(trial, where if where == "every sample" else "one token"))
    assert not torch.isnan(found).any() or (name in FEW and torch.isnan(whole).any())
    if where == "dropped" and METRICS[name].subject == "step":
        torch.testing.assert_close(found, whole, equal_nan=True, rtol=1e-9, atol=1e-12)


def test_what_the_definitions_say():
    """Weights of 0 count for nothing, their log for everything; planted: 0 over 0, and the variance of infinities."""
    mass = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    some, none = torch.tensor([[0.0, -math.inf, 0.0]]).double(), torch.full((1, 3), -math.inf).double()
    assert abs(ratios.ess(some, mass).item() - 2 / 3) < 1e-12
    assert torch.isnan(ratios.ess(none, mass)).all() and ratios.nothing(none, mass).all()
    assert not ratios.nothing(some, mass).any() and not ratios.nothing(none, torch.zeros_like(mass)).any()
    assert ratios.log_moments(some, mass)[0].item() == -math.inf
    assert ratios.log_moments(some, mass)[1].item() == math.inf
    mean = (mass * some).sum(-1, keepdim=True)
    assert torch.isnan((mass * (some - mean) ** 2).sum(-1)).all()
    light = torch.tensor([[0.5, 0.0, 0.5]]).double()
    assert [x.item() for x in ratios.log_moments(some, light)] == [0.0, 0.0]
    for broken in (math.nan, math.inf):
        row = torch.tensor([[broken, -math.inf, 0.0]]).double()
        assert torch.isnan(ratios.log_moments(row, mass)[1]).all()
    assert ratios.ess_along(none, mass, -1).item() == 0.0


def test_the_split_adds_up_where_the_trainer_could_not_draw_a_token():
    trial = case(G=2, N=4, drift=0.5, ragged=False)
    scored = trial.batch.behavior["log_prob"] + 0.1
    scored[0, 1, 1, 0] = -math.inf
    trial.batch.behavior["scored_log_prob"] = scored
    step, _ = trial.evaluate(METHOD)
    assert step.staleness_log_ratio[0, 1, 1, 0] == 0.0
    total = step.staleness_log_ratio + step.mismatch_log_ratio
    torch.testing.assert_close(total, step.log_ratio, rtol=0, atol=1e-12)
    planted = ratios.log_ratio(step.current["log_prob"], scored, step.mask)
    assert torch.isnan(ratios.ess(planted.sum(-1), step.step_mass.double())).any()


def test_one_token_outside_of_both_nuclei_has_no_drift():
    """Planted: the difference of two infinities, as fast paths compute it for tasks of a single token."""
    trial = case(G=1, N=4, T=1, ragged=False)
    policy = Cut(trial.policy, cuts(trial, "one token"))
    weights = trial.policy.prepare(trial.new)
    first = evaluate(METHOD, NOTHING, policy, weights, trial.batch)
    batch = dataclasses.replace(trial.batch, index=None)
    step = evaluate(METHOD, NOTHING, policy, weights, batch, carried(first))
    assert (step.drift == 0).all() and torch.isfinite(step.gradient).all()
    assert torch.isnan(step.current["log_prob"] - step.proximal["log_prob"]).any()
