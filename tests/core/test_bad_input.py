"""Bad input is answered by one line that names field, value, bound and remedy, never by a deep traceback."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.checks import InputError
from asyncsim.tasks.softmax_bandit import SoftmaxBandit
from asyncsim.validation.judging import judge

BANDIT = sim.tasks.softmax_bandit()


def spec(task=BANDIT, system=None, method=None, update=None, **changes):
    return sim.Spec(
        task,
        system or sim.schedules.fixed(0),
        method or sim.methods.reinforce(),
        update or sim.chain(),
        **{"updates": 2, "replicates": 2, "samples_per_group": 2, **changes},
    )


def run(*args, **changes):
    return sim.run(spec(*args, **changes))


def random_schedule_judged():
    trace = run(system=sim.schedules.random([0.5, 0.5]), realizations=1, replicates=4)
    judge(trace.final("batch_return"), 0.5, "expectation", 1.0, 0.05)


@dataclass(frozen=True)
class Broken(SoftmaxBandit):
    """A task whose reward is not a number for one arm of one replicate."""

    value: float = math.nan

    def earn(self, state, action, mask, draws):
        reward = super().earn(state, action, mask, draws)
        reward[1, 0, 1] = self.value
        return reward


class LateBreak(Broken):
    """Breaks in the second block only."""

    def earn(self, state, action, mask, draws):
        return (
            super().earn(state, action, mask, draws)
            if draws.replicates[0] == 2
            else SoftmaxBandit.earn(self, state, action, mask, draws)
        )


def broken(value):
    return Broken(**{f: getattr(BANDIT, f) for f in BANDIT.__dataclass_fields__}, value=value)


def early(method):
    return run(system=sim.schedules.fixed(1), method=method, drawing="early")


saved = sim.schedules.fixed(0).schedule(4, 2, 1, 1, 0)

CASES = {
    # Unknown names.
    "unknown diagnostic": (
        lambda: run(diagnostics=["gradient_nrom"]),
        "diagnostics",
        "'gradient_nrom'",
        "gradient_norm",
    ),
    "unknown sampling": (lambda: spec(sampling="counting"), "sampling", "'counting'", "monte_carlo, counts, enumerate"),
    "unknown drawing": (lambda: spec(drawing="now"), "drawing", "'now'", "late, early"),
    "unknown dtype": (lambda: spec(dtype="float16"), "dtype", "'float16'", "float64, float32"),
    "unknown aggregator": (lambda: sim.methods.grpo(aggregator="mean"), "aggregator", "'mean'", "token_mean"),
    "unknown anchor": (lambda: sim.methods.grpo(anchor="old"), "anchor", "'old'", "behavior, proximal"),
    "unknown level": (lambda: sim.methods.truncated_is("word"), "level", "'word'", "token, sequence"),
    "unknown at": (lambda: sim.methods.gradient("then"), "at", "'then'", "current, behavior"),
    "unknown rewards": (
        lambda: sim.tasks.softmax_bandit(rewards="poisson"),
        "rewards",
        "'poisson'",
        "fixed, bernoulli, gaussian",
    ),
    "unknown dependence": (lambda: sim.tasks.token_bandit(dependence="tree"), "dependence", "'tree'", "markov"),
    "unknown rule": (lambda: sim.updates.ess_step("cube"), "rule", "'cube'", "sqrt, linear"),
    "unknown reference": (lambda: sim.updates.align(reference="old"), "reference", "'old'", "raw, applied"),
    "unknown per": (lambda: sim.schedules.random([1.0], per="token"), "per", "'token'", "trajectory"),
    "unknown metric of a trace": (lambda: run()["loss"], "metric", "'loss'", "batch_return"),
    # Staleness, caps, sizes.
    "negative staleness": (lambda: sim.schedules.fixed(-1), "staleness", "-1", ">= 0"),
    "fractional staleness": (lambda: sim.schedules.fixed(1.5), "staleness", "1.5", "integer"),
    "law that is none": (lambda: sim.schedules.random([0.5, 0.6]), "law", "[0.5, 0.6]", "sum 1"),
    "cap below 1": (lambda: sim.methods.truncated_is(cap=0.5), "cap", "0.5", "[1, inf"),
    "one cap below 1 of many": (lambda: sim.methods.truncated_is(cap=[2.0, 0.5]), "cap", "0.5", "[1, inf"),
    "cap of NaN": (lambda: sim.methods.truncated_is(cap=math.nan), "cap", "nan", "[1, inf"),
    "no replicates": (lambda: spec(replicates=0), "replicates", "0", ">= 1"),
    "no updates": (lambda: spec(updates=0), "updates", "0", ">= 1"),
    "fractional samples": (lambda: spec(samples_per_group=2.5), "samples_per_group", "2.5", ">= 1"),
    "more realizations than replicates": (lambda: spec(realizations=3), "realizations", "3", "[1, 2]"),
    "negative seed": (lambda: sim.run(spec(), seed=-1), "seed", "-1", ">= 0"),
    "updates not whole batches": (
        lambda: run(system=sim.schedules.fixed(0, updates_per_batch=2), updates=3),
        "updates",
        "3",
        "multiple of updates_per_batch = 2",
    ),
    # Advantages of one sample.
    **{
        f"one sample with {name}": (
            lambda make=make: spec(method=sim.methods.reinforce(make()), samples_per_group=1),
            "samples_per_group",
            "1",
            "at least 2",
        )
        for name, make in {
            "leave_one_out": sim.advantages.leave_one_out,
            "group_mean": sim.advantages.group_mean,
            "group_std": sim.advantages.group_std,
            "opob": sim.advantages.opob,
            "self_normalized": sim.advantages.self_normalized,
        }.items()
    },
    # Gaussian rewards, and what cannot be listed.
    **{
        f"gaussian rewards with {sampling}": (
            lambda sampling=sampling: run(sim.tasks.softmax_bandit(rewards="gaussian"), sampling=sampling),
            "rewards",
            "'gaussian'",
            "fixed or bernoulli",
        )
        for sampling in ("counts", "enumerate")
    },
    "continuous actions with enumeration": (
        lambda: run(sim.tasks.gaussian_bandit(), sampling="enumerate"),
        "sampling",
        "'GaussianBandit'",
        "monte_carlo",
    ),
    "counts of several tokens": (
        lambda: run(sim.tasks.token_bandit(), sampling="counts"),
        "sampling",
        "'counts'",
        "monte_carlo",
    ),
    "counts of a quadratic": (
        lambda: run(sim.tasks.quadratic(), method=sim.methods.gradient(), sampling="counts"),
        "sampling",
        "'counts'",
        "monte_carlo",
    ),
    "counts of mixed groups": (
        lambda: run(
            system=sim.schedules.random([0.5, 0.5], per="trajectory"),
            updates=20,
            samples_per_group=8,
            sampling="counts",
        ),
        "version",
        "'different inside a group'",
        "one per group",
    ),
    "counts drawn early": (lambda: run(sampling="counts", drawing="early"), "sampling", "'counts'", "monte_carlo"),
    # Not a number.
    "NaN rewards": (lambda: run(broken(math.nan)), "reward[replicate 1, group 0, sample 1]", "nan", "finite"),
    "infinite rewards": (lambda: run(broken(math.inf)), "reward[replicate 1, group 0, sample 1]", "inf", "finite"),
    "NaN rewards drawn early": (
        lambda: run(broken(math.nan), drawing="early"),
        "reward[replicate 1, group 0, sample 1]",
        "nan",
        "finite",
    ),
    "NaN means": (lambda: sim.tasks.softmax_bandit(arms=2, means=[0.5, math.nan]), "means", "nan", "finite"),
    "means beyond a probability": (
        lambda: sim.tasks.softmax_bandit(arms=2, means=[0.5, 1.5]),
        "means",
        "1.5",
        "[0, 1]",
    ),
    "means of another shape": (lambda: sim.tasks.softmax_bandit(arms=2, means=[0.5]), "means", "[0.5]", "[any, 2]"),
    "NaN initial parameters": (lambda: run(initial=np.full(10, math.nan)), "initial", "", "finite"),
    "initial parameters of another size": (lambda: run(initial=np.zeros(9)), "initial", "(9,)", "P = 10"),
    "NaN step size": (lambda: sim.updates.sgd(math.nan), "lr", "nan", "[0, inf"),
    # Knobs per replicate.
    "knob of another length": (
        lambda: spec(update=sim.chain(sim.updates.sgd([0.1, 0.2, 0.3]))),
        "replicates",
        "2",
        "3",
    ),
    "knob inside an advantage": (
        lambda: spec(method=sim.methods.reinforce(sim.advantages.offset([0.1, 0.2, 0.3]))),
        "replicates",
        "2",
        "3",
    ),
    "knob of rank 2": (lambda: sim.updates.sgd([[0.1, 0.2]]), "lr", "[[0.1, 0.2]]", "[any]"),
    # Parts that do not fit.
    "a method without its output": (lambda: spec(method=sim.methods.gradient()), "method", "'gradient'", "log_prob"),
    "a loss without a score": (lambda: spec(sim.tasks.quadratic()), "method", "'reinforce'", "loss"),
    "a diagnostic without its output": (
        lambda: run(sim.tasks.quadratic(), method=sim.methods.gradient(), diagnostics=["ess"]),
        "diagnostics",
        "'ess'",
        "loss",
    ),
    "a brake without its output": (
        lambda: spec(sim.tasks.quadratic(), method=sim.methods.gradient(), update=sim.chain(sim.updates.ess_step())),
        "update",
        "EssStep",
        "loss",
    ),
    "a projection above the skip": (lambda: sim.updates.align(0.5, 0.3), "low", "0.5", "at most high = 0.3"),
    "one projection above its skip": (lambda: sim.updates.align([0.1, 0.5], 0.3), "low", "0.5", "at most high = 0.3"),
    "an oracle of many knobs": (
        lambda: sim.oracle.moments(BANDIT, sim.methods.truncated_is(cap=[2.0, 3.0]), np.zeros(10)),
        "method",
        "'truncated_is'",
        "single numbers",
    ),
    "a limit of many knobs": (
        lambda: sim.oracle.limit(BANDIT, sim.methods.truncated_is(cap=[2.0, 3.0]), np.zeros(10)),
        "method",
        "'truncated_is'",
        "single numbers",
    ),
    "an update that is no chain": (lambda: spec(update=sim.updates.sgd(0.1)), "update", "Sgd", "chain"),
    "scores at behavior drawn early": (
        lambda: early(sim.methods.reinforce(at="behavior")),
        "at",
        "'behavior'",
        "current with early drawing",
    ),
    "bias drawn early": (lambda: run(drawing="early", diagnostics=["bias"]), "diagnostics", "'bias'", "late"),
    "variance of two groups": (
        lambda: run(system=sim.schedules.fixed(0, groups_per_batch=2), diagnostics=["variance"]),
        "diagnostics",
        "'variance'",
        "one group",
    ),
    "a task by name": (lambda: spec("softmax_bandit"), "task", "'softmax_bandit'", "task"),
    "a system by name": (lambda: spec(system="areal"), "system", "'areal'", "system"),
    "a method by name": (lambda: spec(method="grpo"), "method", "'grpo'", "method"),
    "a method that was not called": (lambda: spec(method=sim.methods.grpo), "method", "grpo", "method"),
    "an autocorrelogram longer than the run": (
        lambda: run(diagnostics=[sim.diagnostics.autocorrelogram(lags=8)]),
        "after",
        "0",
        "more updates than lags",
    ),
    # Saved schedules.
    "a schedule that is too short": (lambda: run(system=saved, updates=5), "updates", "5", "at most 4"),
    "a schedule of other groups": (lambda: run(system=saved, samples_per_group=3), "samples_per_group", "3", "2"),
    "a schedule of more tokens": (
        lambda: run(system=sim.Schedule(np.zeros((1, 4, 1, 2, 3), dtype=np.int32), saved.trajectory)),
        "schedule tokens",
        "3",
        "1",
    ),
    "an unknown version": (
        lambda: run(system=sim.Schedule(saved.version - 1 - saved.version, saved.trajectory)),
        "schedule.version",
        "-1",
        "known",
    ),
    "a version from the future": (
        lambda: sim.Schedule(saved.version + 1, saved.trajectory),
        "schedule.version",
        "4",
        "at most",
    ),
    "a trajectory that no key can name": (
        lambda: run(system=sim.Schedule(saved.version, saved.trajectory - 1)),
        "schedule.trajectory",
        "-1",
        "[0, 2^32)",
    ),
    # Verdicts.
    "one realization where a verdict is asked": (random_schedule_judged, "realizations", "1", ">= 2"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_names_field_value_bound_and_remedy(case):
    ask, field, value, bound = CASES[case]
    with pytest.raises(InputError) as caught:
        ask()
    error, text = caught.value, str(caught.value)
    assert "\n" not in text and len(text) < 400
    assert error.field == field and text.startswith(f"{field} = ")
    assert value in text.partition(" = ")[2].partition(": must be ")[0]
    assert bound in str(error.bound)
    assert error.remedy and text.endswith(error.remedy)


def test_the_number_of_the_replicate_is_that_of_the_run():
    """Not its place inside a block."""
    with pytest.raises(InputError, match=r"reward\[replicate 3, group 0, sample 1\]"):
        run(LateBreak(**vars(broken(math.nan))), replicates=4, block=2)


def test_nothing_is_run_before_a_spec_is_refused(monkeypatch):
    """Parts that contradict each other are refused by the spec, not after hours."""
    called = []
    monkeypatch.setattr(torch, "no_grad", lambda: called.append(1))
    for changes in ({"samples_per_group": 1}, {"method": sim.methods.gradient()}, {"sampling": "counting"}):
        with pytest.raises(InputError):
            sim.run(spec(**changes))
    assert not called


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + b"x", lambda b: b"not a file"]
)
@pytest.mark.parametrize("kind", ["schedule", "trace"])
def test_damaged_files(tmp_path, kind, damage):
    path = tmp_path / "saved.npz"
    value = {"schedule": lambda: saved, "trace": run}[kind]()
    value.save(path)
    path.write_bytes(damage(path.read_bytes()))
    load = partial({"schedule": sim.Schedule, "trace": sim.Trace}[kind].load, path)
    if damage(b"0123456789") == b"012345678x":
        # One byte behind the archive's directory: it may be harmless, and is then read as it was.
        try:
            load()
        except InputError as error:
            assert "\n" not in str(error)
        return
    with pytest.raises(InputError, match=r"path|file") as caught:
        load()
    assert "\n" not in str(caught.value)


def test_files_of_another_kind_or_format(tmp_path, monkeypatch):
    from asyncsim import records

    saved.save(tmp_path / "schedule.npz")
    with pytest.raises(InputError, match="trace"):
        sim.Trace.load(tmp_path / "schedule.npz")
    with pytest.raises(InputError) as missing:
        sim.Schedule.load(tmp_path / "absent.npz")
    assert "absent.npz" in str(missing.value)
    monkeypatch.setattr(records, "FORMAT", 2)
    with pytest.raises(InputError, match="2"):
        sim.Schedule.load(tmp_path / "schedule.npz")
