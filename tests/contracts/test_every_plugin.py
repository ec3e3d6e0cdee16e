"""What every plug-in file must satisfy, found by reading the folders: adding a file buys these tests."""

import contextlib
import inspect
import itertools
import json
import math
from functools import cache

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import checks, plugins
from tests.contracts.families import gathered
from tests.contracts.laboratory import (
    KINDS,
    knob_fields,
    make,
    names,
    permuted,
    policy_of,
    read_by,
    step_with,
    task_for,
    trial_of,
)

EVERY = [(kind, name) for kind in KINDS for name in names(kind)]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_constructible_with_defaults(kind, name):
    value = make(kind, name)
    assert value is not None
    assert make(kind, name.replace("_", "-")) == value
    assert plugins.summaries(f"asyncsim.{kind}")[name].endswith(".")


@pytest.mark.parametrize(("kind", "name"), [k for k in EVERY if k[0] not in ("updates", "diagnostics")])
def test_headers_are_json(kind, name):
    described = make(kind, name).describe()
    assert described and json.loads(json.dumps(described)) is not None


@pytest.mark.parametrize("name", names("updates"))
def test_links_say_what_they_are(name):
    (text,) = sim.chain(make("updates", name)).describe()
    assert json.dumps(text) and type(make("updates", name)).__name__ in text


made = cache(make)
"""Parts with their defaults, of which some take long to make."""

OWN = {"bias", "variance"}
"""Metrics of a method and a task of their own."""
RUNS = [(kind, name) for kind, name in EVERY if kind != "diagnostics" or name in OWN] + [("diagnostics", "together")]
"""Runs in which each takes part: all other metrics at once."""
SLOW = {"arithmetic", "calculator", "text"}
PROGRAMS = [(kind, name) for kind, name in RUNS if kind != "policies" and name not in SLOW]
"""Runs that `test_compiled.py` holds against tensors."""
READING = ("ess", "gradient_norm")
"""What is recorded of other parts than methods, tasks and policies, with each of which all default metrics are."""
SEEN = {"frozen_lake": 60}
"""Samples of a group where fewer would see no reward."""
LATE = {"together": 10, "m2po_areal": 10}
"""Updates of a run where fewer would show less: lags of metrics, and what a knob does."""


def spec_of(kind, name, **changes):
    """A stale run in which the plug-in takes part."""
    parts = {"method": sim.methods.reinforce(), "update": sim.chain(sim.updates.sgd(0.5))}
    parts["diagnostics"] = "default" if kind in ("methods", "tasks", "policies") else READING
    if kind == "methods":
        parts["method"] = make(kind, name)
    if kind == "advantages":
        parts["method"] = sim.methods.truncated_is(advantage=make(kind, name))
    if kind in ("factors", "penalties"):
        parts["method"] = sim.methods.truncated_is("token").replace(**{kind: (make(kind, name),)})
    if kind == "updates":
        parts["update"] = sim.chain(sim.updates.sgd(0.5), make(kind, name))
    if kind == "diagnostics":
        every = names(kind) if name == "together" else [name]
        parts["diagnostics"] = [*(make(kind, n) for n in every if n == name or n not in OWN), "gradient_norm"]
    task = made(kind, name) if kind == "tasks" else None
    if kind == "policies":
        own, tasks = make(kind, name), (made("tasks", n) for n in names("tasks"))
        # One that is no task's own is tried on a table.
        task = next((t for t in tasks if type(t.policy()) is type(own)), None)
        if task is None:
            task = sim.tasks.token_bandit(own.actions, own.rows, dependence="position")
            parts["policy"] = own
    if task is not None and "log_prob" not in task.policy().outputs:
        parts["method"] = sim.methods.gradient()
    if task is None:
        task = task_for(read_by(parts["method"]))
    if kind == "diagnostics" and name in OWN:
        parts["method"], task = sim.methods.reinforce(), sim.tasks.softmax_bandit(arms=2)
    sizes = {"samples_per_group": SEEN.get(name, 3), "updates": LATE.get(name, 7), "replicates": 3}
    return sim.Spec(task, sim.schedules.fixed(2), **{"policy": policy_of(task), **sizes, **parts, **changes})


@pytest.mark.parametrize(("kind", "name"), [run for run in RUNS if run[0] != "tasks"])
def test_replicates_do_not_touch_each_other(kind, name):
    """Other initial parameters of replicate 1 leave replicates 0 and 2 bit-identical; tasks: `test_every_task.py`."""
    spec = spec_of(kind, name)
    size = spec.trained_policy.size
    start = np.random.default_rng(0).normal(size=(3, size))
    moved = start.copy()
    moved[1] += np.linspace(0.5, 1.5, size)
    one, two = (sim.run(spec.replace(initial=initial), seed=1) for initial in (start, moved))
    assert (one.parameters[1] != two.parameters[1]).any()
    np.testing.assert_array_equal(one.parameters[[0, 2]], two.parameters[[0, 2]])
    assert one.metrics
    for recorded in ("metrics", "accumulated"):
        for key, values in getattr(one, recorded).items():
            np.testing.assert_array_equal(values[..., [0, 2]], getattr(two, recorded)[key][..., [0, 2]], err_msg=key)


@pytest.mark.parametrize(("kind", "name"), [run for run in RUNS if run[0] == "policies"])
def test_a_run_ends_finite(kind, name):
    ends_finite(sim.run(spec_of(kind, name), seed=2))


def ends_finite(trace):
    """Defaults do not break a short run: parameters move, nothing diverges."""
    assert (trace.diverged == -1).all() and np.isfinite(trace.parameters).all()
    assert (trace.parameters != trace.parameters[:, :1]).any() or trace.parameters.shape[1] == 1


# Methods, with every advantage.

SCORED = [name for name in names("methods") if "log_prob" in make("methods", name).outputs]
METHODS = [("default", name, make("methods", name)) for name in SCORED] + [
    (advantage, name, make("methods", name).replace(advantage=make("advantages", advantage)))
    for advantage in names("advantages")
    for name in ("reinforce", "truncated_is", "grpo")
]
METHODS += [
    (kind, name, make("methods", "full_is").replace(**{kind: (make(kind, name),)}))
    for kind in ("factors", "penalties")
    for name in names(kind)
]
METHODS += [("case", label.replace(" ", "-"), method()) for label, method in gathered("CASES").items()]
each_method = pytest.mark.parametrize("method", [m for *_, m in METHODS], ids=[f"{n}-{a}" for a, n, _ in METHODS])


@each_method
def test_order_of_samples_does_not_matter(method):
    trial = trial_of(method, G=3, N=4)
    straight = trial.gradient(method)
    assert straight.abs().max() > 1e-3
    for axis, order in ((1, [2, 0, 1]), (2, [3, 1, 0, 2])):
        moved = trial.gradient(method, **permuted(trial.batch, axis, torch.tensor(order)))
        assert (straight - moved).abs().max() < 1e-12, axis


WHOLE = {"kl_cov", "m2po_mask", "m2po_areal"}
"""Methods that count whole tokens, one at least: of a sample twice as large they may take one more."""


@each_method
def test_micro_batches_of_a_step_are_one_step(method):
    """Groups that are repeated change nothing: every statistic is a mean over the step or over the group."""
    trial = trial_of(method, G=2, N=4)
    endless = {"size": math.inf} if method.name in WHOLE else {}
    twice = permuted(trial.batch, 1, torch.tensor([0, 1, 0, 1]))
    once, repeated = trial.gradient(method, **endless), trial.gradient(method, **twice, **endless)
    assert (once - repeated).abs().max() < 1e-12


@each_method
def test_masked_tokens_cannot_matter(method):
    trial = trial_of(method)
    elsewhere = torch.where(trial.batch.mask > 0, trial.batch.action, 2 - trial.batch.action)
    assert (trial.batch.mask == 0).any()
    straight = trial.gradient(method)
    assert torch.isfinite(straight).all()
    for garbage in (math.nan, math.inf, -math.inf):
        recorded = {k: torch.where(trial.batch.mask > 0, x, garbage) for k, x in trial.batch.behavior.items()}
        changed = trial.gradient(method, behavior=recorded, action=elsewhere)
        torch.testing.assert_close(straight, changed, rtol=0, atol=1e-13)


@each_method
def test_extreme_log_ratios_stay_finite(method):
    """One token, or one whole sequence, whose logged probability is absurd; the direction stays a number."""
    trial = trial_of(method, ragged=False)
    straight = trial.gradient(method)
    for extreme, tokens in itertools.product((800.0, -800.0, math.inf, -math.inf), (slice(0, 1), slice(None))):
        log_prob = trial.batch.behavior["log_prob"].clone()
        log_prob[0, 0, 0, tokens] = -extreme
        gradient = trial.gradient(method, behavior={**trial.batch.behavior, "log_prob": log_prob})
        assert torch.isfinite(gradient).all(), extreme
        torch.testing.assert_close(gradient[1], straight[1], rtol=0, atol=0)


@each_method
def test_weights_rise_with_the_log_ratio_to_the_end(method):
    """Infinite log ratios are capped, never mapped to weight 0, but by methods whose weight falls by design."""
    if method.name in gathered("NOT_RISING"):
        return
    ladder = torch.tensor([-float("inf"), -800.0, -1.0, 0.0, 1.0, 5.0, 800.0, float("inf")]).double()
    weight = method.weight.applied(step_with(ladder.reshape(1, 1, -1, 1))).flatten()
    assert torch.isfinite(weight).all() and (weight.diff() >= 0).all() and (weight >= 0).all()


@each_method
def test_contradictory_infinities_fail_closed(method):
    """+inf and -inf in one sequence: either a finite direction, or a frozen replicate; never a NaN parameter."""
    from asyncsim.updates._link import advance

    trial = trial_of(method, ragged=False)
    log_prob = trial.batch.behavior["log_prob"].clone()
    log_prob[0, 0, 0, :2] = torch.tensor([float("inf"), -float("inf")]).double()
    gradient = trial.gradient(method, behavior={**trial.batch.behavior, "log_prob": log_prob})
    parameters, diverged = advance(trial.new, gradient, torch.full((2,), -1), 7, 1e150)
    assert torch.isfinite(parameters).all() and diverged[1] == -1
    assert diverged[0] == (-1 if torch.isfinite(gradient[0]).all() else 7)
    still = bool(diverged[0] == 7 or (gradient[0] == 0).all())
    assert still == torch.equal(parameters[0], trial.new[0])


# Knobs: one number per replicate equals separate runs to the bit.

LADDER = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0, 1.2, 1.5, 2.0, 4.0)
GIVEN = gathered("KNOBS")


def own_knobs(kind, name):
    """Names of the settings of a part that may be one number per replicate."""
    value, inherited = make(kind, name), set()
    if kind == "methods":
        # A default advantage brings its own knobs, tried as that advantage.
        inherited = set().union(*(knob_fields(part) for part in (value.advantage, *value.factors, *value.penalties)))
        # A weight that is never truncated has a field for a cap all the same.
        takes = inspect.signature(plugins.load("asyncsim.methods", name, "method")).parameters
        inherited |= {"cap"} - set(takes) if getattr(value.weight, "cap", 0.0) is None else set()
    return knob_fields(value) - inherited


def three(kind, name, knob):
    """Least, middle and largest of the ladder's values that the part accepts for a knob."""
    accepted = []
    for rung in LADDER:
        with contextlib.suppress(checks.InputError):
            make(kind, name, **{knob: rung})
            accepted.append(rung)
    assert len(accepted) >= 3, f"{name}: give three values of {knob} in KNOBS of tests/contracts/families/"
    return [accepted[0], accepted[len(accepted) // 2], accepted[-1]]


KNOBBED = [
    (kind, name)
    for kind, name in EVERY
    if kind in ("methods", "advantages", "factors", "penalties", "updates") and own_knobs(kind, name)
]


def test_values_that_are_given_are_of_knobs():
    """And the ladder serves the others; most parts with knobs are found."""
    assert set(GIVEN) <= set(KNOBBED) and len(KNOBBED) >= 60
    assert all(set(row) == own_knobs(kind, name) for (kind, name), row in GIVEN.items())


@pytest.mark.parametrize(("kind", "name"), KNOBBED)
def test_knobs_per_replicate_equal_separate_runs(kind, name):
    values = GIVEN.get((kind, name)) or {knob: three(kind, name, knob) for knob in own_knobs(kind, name)}

    def trace(changes):
        value = make(kind, name, **changes)
        spec = spec_of(kind, name)
        if kind == "methods":
            spec = spec.replace(method=value, update=sim.chain(sim.updates.sgd(4.0)))
        elif kind in ("factors", "penalties"):
            spec = spec.replace(method=spec.method.replace(**{kind: (value,)}), update=sim.chain(sim.updates.sgd(4.0)))
        elif kind == "advantages":
            spec = spec.replace(method=sim.methods.truncated_is(advantage=value))
        else:
            spec = spec.replace(update=sim.chain(sim.updates.sgd(1.5), value))
        return sim.run(spec, seed=4)

    together = trace({k: np.array(v) for k, v in values.items()})
    runs = [trace({k: v[r] for k, v in values.items()}) for r in range(3)]
    assert (runs[0].parameters[0] != runs[2].parameters[0]).any(), (
        f"no knob does anything at {values}: give KNOBS of tests/contracts/families/ others"
    )
    for r, alone in enumerate(runs):
        np.testing.assert_array_equal(together.parameters[r], alone.parameters[r])
        for key, values in alone.metrics.items():
            np.testing.assert_array_equal(together[key][:, r], values[:, r], err_msg=key)
