"""Bad input is answered by one line that names field, value, bound and remedy, never by a deep traceback."""

import math
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.tasks.bandits import SoftmaxBandit
from asyncsim.validation.judging import judge
from tests.refusals import refused

BANDIT, GAUSSIAN = sim.tasks.softmax_bandit(), sim.tasks.softmax_bandit(rewards="gaussian")


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
    return Broken(**{f.name: getattr(BANDIT, f.name) for f in fields(BANDIT)}, value=value)


class Hungry(type(BANDIT)):
    """A task for which there is not enough memory, as torch says it."""

    def earn(self, state, action, mask, draws):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory: 8 TB")


def hungry():
    return Hungry(**{f.name: getattr(BANDIT, f.name) for f in fields(BANDIT)})


@dataclass(frozen=True)
class Odd(SoftmaxBandit):
    """A task whose rewards are passed through a function."""

    change: object = None

    def earn(self, state, action, mask, draws):
        return self.change(super().earn(state, action, mask, draws))


def odd(change):
    return Odd(**{f.name: getattr(BANDIT, f.name) for f in fields(BANDIT)}, change=change)


SPEAKER = sim.policies.causal_lm(recipe={"steps": 0, "width": 16, "layers": 1, "heads": 2, "hidden": 16})


def early(method):
    return run(system=sim.schedules.fixed(1), method=method, drawing="early")


saved = sim.schedules.fixed(0).schedule(4, 2, 1, 1, 0)

advantages, methods, oracle, policies = sim.advantages, sim.methods, sim.oracle, sim.policies
schedules, systems, tasks, updates = sim.schedules, sim.systems, sim.tasks, sim.updates
CASES = [
    # Unknown names.
    (lambda: run(diagnostics=["gradient_nrom"]), "diagnostics = 'gradient_nrom': gradient_norm"),
    (lambda: spec(sampling="counting"), "sampling = 'counting': monte_carlo, counts, enumerate"),
    (lambda: spec(drawing="now"), "drawing = 'now': late, early"),
    (lambda: spec(dtype="float16"), "dtype = 'float16': float64, float32"),
    (lambda: schedules.random([1.0], per="token"), "per = 'token': trajectory"),
    (lambda: run()["loss"], "metric = 'loss': batch_return"),
    # Staleness, caps, sizes.
    (lambda: schedules.fixed(-1), "staleness = -1: >= 0"),
    (lambda: schedules.fixed(1.5), "staleness = 1.5: integer"),
    (lambda: schedules.random([0.5, 0.6]), "law = [0.5, 0.6]: sum 1"),
    (lambda: methods.truncated_is(cap=[2.0, 0.5]), "cap = 0.5: [1, inf"),
    (lambda: spec(replicates=0), "replicates = 0: >= 1"),
    (lambda: spec(updates=0), "updates = 0: >= 1"),
    (lambda: spec(samples_per_group=2.5), "samples_per_group = 2.5: >= 1"),
    (lambda: spec(realizations=3), "realizations = 3: [1, 2]"),
    (lambda: sim.run(spec(), seed=-1), "seed = -1: >= 0"),
    (lambda: run(epochs=2, updates=3), "updates = 3: epochs = 2"),
    # Advantages of one sample.
    *(
        (partial(spec, method=methods.reinforce(advantage()), samples_per_group=1), "samples_per_group = 1: at least 2")
        for advantage in (advantages.leave_one_out, advantages.group_mean, advantages.group_std, advantages.opob)
    ),
    (
        lambda: spec(method=methods.reinforce(advantages.self_normalized()), samples_per_group=1),
        "samples_per_group = 1: at least 2",
    ),
    # Gaussian rewards, and what cannot be listed.
    (lambda: run(GAUSSIAN, sampling="counts"), "rewards = 'gaussian': fixed or bernoulli"),
    (lambda: run(GAUSSIAN, sampling="enumerate"), "rewards = 'gaussian': fixed or bernoulli"),
    (lambda: spec(tasks.gaussian_bandit(), sampling="enumerate"), "sampling = 'enumerate': monte_carlo"),
    (lambda: run(tasks.token_bandit(), sampling="counts"), "sampling = 'counts': monte_carlo"),
    (lambda: run(tasks.quadratic(), method=methods.gradient(), sampling="counts"), "sampling = 'counts': monte_carlo"),
    (
        lambda: run(
            system=schedules.random([0.5, 0.5], per="trajectory"), updates=20, samples_per_group=8, sampling="counts"
        ),
        "version = 'different inside a group': one per group",
    ),
    (lambda: run(sampling="counts", drawing="early"), "sampling = 'counts': monte_carlo"),
    # Not a number.
    (lambda: run(broken(math.nan)), "reward[replicate 1, group 0, sample 1] = nan: finite"),
    (lambda: run(broken(math.inf)), "reward[replicate 1, group 0, sample 1] = inf: finite"),
    (lambda: run(broken(math.nan), drawing="early"), "reward[replicate 1, group 0, sample 1] = nan: finite"),
    (lambda: tasks.softmax_bandit(arms=2, means=[0.5, math.nan]), "means = nan: finite"),
    (lambda: tasks.softmax_bandit(arms=2, means=[0.5, 1.5]), "means = 1.5: [0, 1]"),
    (lambda: tasks.softmax_bandit(arms=2, means=[0.5]), "means = [0.5]: [any, 2]"),
    (lambda: run(initial=np.full(10, math.nan)), "initial = : finite"),
    (lambda: run(initial=np.zeros(9)), "initial = (9,): P = 10"),
    # Knobs per replicate.
    (lambda: spec(update=sim.chain(updates.sgd([0.1, 0.2, 0.3]))), "replicates = 2: 3"),
    (lambda: spec(method=methods.reinforce(advantages.offset([0.1, 0.2, 0.3]))), "replicates = 2: 3"),
    (lambda: updates.sgd([[0.1, 0.2]]), "lr = [[0.1, 0.2]]: [any]"),
    # Parts that do not fit.
    (lambda: spec(method=methods.gradient()), "method = 'gradient': log_prob"),
    (lambda: spec(tasks.quadratic()), "method = 'reinforce': loss"),
    (lambda: run(tasks.quadratic(), method=methods.gradient(), diagnostics=["ess"]), "diagnostics = 'ess': loss"),
    (
        lambda: spec(tasks.quadratic(), method=methods.gradient(), update=sim.chain(updates.ess_step())),
        "update = EssStep: loss",
    ),
    (lambda: updates.align(0.5, 0.3), "low = 0.5: at most high = 0.3"),
    (lambda: updates.align([0.1, 0.5], 0.3), "low = 0.5: at most high = 0.3"),
    (
        lambda: oracle.moments(BANDIT, methods.truncated_is(cap=[2.0, 3.0]), np.zeros(10)),
        "method = 'truncated_is': single numbers",
    ),
    (
        lambda: oracle.limit(BANDIT, methods.truncated_is(cap=[2.0, 3.0]), np.zeros(10)),
        "method = 'truncated_is': single numbers",
    ),
    (lambda: spec(update=updates.sgd(0.1)), "update = Sgd: chain"),
    (lambda: early(methods.reinforce(at="behavior")), "at = 'behavior': current with early drawing"),
    (lambda: run(drawing="early", diagnostics=["bias"]), "diagnostics = 'bias': late"),
    (
        lambda: run(system=schedules.fixed(0, groups_per_batch=2), diagnostics=["variance"]),
        "diagnostics = 'variance': one group",
    ),
    (lambda: spec("softmax_bandit"), "task = 'softmax_bandit': task"),
    (lambda: spec(system="areal"), "system = 'areal': system"),
    (lambda: spec(method="grpo"), "method = 'grpo': method"),
    (lambda: spec(method=methods.grpo), "method = grpo: method"),
    (lambda: run(diagnostics=[sim.diagnostics.autocorrelogram(lags=8)]), "after = 0: more updates than lags"),
    # Saved schedules.
    (lambda: run(system=saved, updates=5), "updates = 5: at most 4"),
    (lambda: run(system=saved, samples_per_group=3), "samples_per_group = 3: 2"),
    (
        lambda: run(system=sim.Schedule(np.zeros((1, 4, 1, 2, 3), dtype=np.int32), saved.trajectory)),
        "schedule tokens = 3: 1",
    ),
    (
        lambda: run(system=sim.Schedule(saved.version - 1 - saved.version, saved.trajectory)),
        "schedule.version = -1: known",
    ),
    (lambda: sim.Schedule(saved.version + 1, saved.trajectory), "schedule.version = 4: at most"),
    (lambda: run(system=sim.Schedule(saved.version, saved.trajectory - 1)), "schedule.trajectory = -1: [0, 2^32)"),
    (lambda: sim.Schedule(saved.version.astype(float), saved.trajectory), "schedule.version = 'float64': integers"),
    (lambda: sim.Schedule(saved.version, saved.trajectory.astype(str)), "schedule.trajectory = '<U: integers"),
    (lambda: sim.Schedule(saved.version, saved.trajectory, work=np.ones(4)), "schedule.work = (4,): (1, 4, 1, 2)"),
    # What is refused when a part is made.
    (lambda: methods.reinforce(entropy=[0.1, 0.2]), "entropy = [0.1, 0.2]: a finite number"),
    (lambda: updates.sgd(True), "lr = True: a finite number"),
    (lambda: updates.sgd([True, False]), "lr = [True, False]: finite numbers"),
    (lambda: updates.sgd(10**400), "lr = 1000: a finite number"),
    (lambda: updates.sgd(10**5000), "lr = int too long to print: a finite number"),
    *(
        (lambda value=value: updates.sgd(value), f"lr = {shown}: {wanted}")
        for value, shown, wanted in (
            ("0.1", "'0.1'", "a finite number"),
            (b"0.1", "b'0.1'", "a finite number"),
            (["0.1", "0.2"], "['0.1', '0.2']", "finite numbers"),
            ([0.1, "0.2"], "[0.1, '0.2']", "finite numbers"),
            (torch.tensor(0.1, requires_grad=True), "requires_grad", "detached"),
            (torch.tensor([0.1, 0.2], requires_grad=True), "requires_grad", "detached"),
            ([0.1, torch.tensor(0.2, requires_grad=True)], "requires_grad", "detached"),
        )
    ),
    (lambda: tasks.softmax_bandit(2, means=torch.tensor([0.1, 0.2], requires_grad=True)), "means = requires_grad: "),
    (lambda: systems.synchronous(length="2.0"), "length = '2.0': a finite number"),
    (lambda: updates.sgd([[0.1], [0.1, 0.2]]), "lr = [[0.1], [0.1, 0.2]]: [any]"),
    (lambda: schedules.fixed(2**31), "staleness = 2147483648: at most 2147483647"),
    (lambda: schedules.random("uniform:2:x"), "law = 'uniform:2:x': distribution of integers"),
    (lambda: schedules.random("uniform:2"), "law = 'uniform:2': distribution of integers"),
    (lambda: schedules.random("uniform:3:1"), "high = 1: [3, "),
    (lambda: spec(every=3), "every = 3: at most updates = 2"),
    (lambda: spec(diagnostics="esss"), "diagnostics = 'esss': ess"),
    (lambda: spec(initial=[1, 2]), "initial = (2,): P = 10"),
    (lambda: spec(policy="tabular"), "policy = 'tabular': a policy"),
    (lambda: tasks.softmax_bandit(2, means=[1, [2]]), "means = [1, [2]]: a table of numbers"),
    (lambda: tasks.softmax_bandit(2, means=np.zeros((3, 2)), logits=np.zeros((2, 2))), "logits = array(: [3, 2]"),
    (lambda: tasks.softmax_bandit(2, logits=[1, [2]]), "logits = [1, [2]]: a table"),
    (lambda: tasks.token_bandit(logits="x"), "logits = 'x': a table of numbers"),
    (lambda: tasks.softmax_bandit(reference="x"), "reference = 'x': a table of numbers"),
    (
        lambda: run(system=systems.one_step_off(length=sim.pareto(1.0, 1e-4))),
        "length = 'pareto:1.0:0.0001': finite in every draw",
    ),
    # Sizes.
    (lambda: spec(samples_per_group=10**11), "bytes of one batch [R, G, N, T] = :  GiB, "),
    (lambda: spec(replicates=10**10), "bytes of parameters [versions, R, P] = :  GiB, "),
    (lambda: spec(updates=10**12), "bytes of metrics [U/every, R] = :  GiB, "),
    (lambda: spec(tasks.token_bandit(horizon=10**9)), "bytes of one batch [R, G, N, T] = :  GiB, "),
    (lambda: tasks.softmax_bandit(arms=10**9), "arms = 1000000000: [2, 4194304]"),
    (
        lambda: run(tasks.token_bandit(horizon=100_000), sampling="enumerate"),
        "actions ** horizon = '3^100000': 1000000 outcomes",
    ),
    (
        lambda: run(tasks.token_bandit(horizon=13), sampling="enumerate"),
        "actions ** horizon = 1594323: 1000000 outcomes",
    ),
    (
        lambda: oracle.moments(BANDIT, methods.reinforce(), np.zeros(10), samples=10**9),
        "outcomes ** samples = '20^1000000000': 1000000 batches",
    ),
    # What is asked of results, oracles and claims.
    *((lambda last=last: run().final("ess", last), f"last = {last}: (0, 1]") for last in (math.nan, -1, 0, 2.0)),
    (lambda: sim.run("x"), "spec = 'x': a Spec"),
    (
        lambda: oracle.limit(BANDIT, methods.reinforce(), np.zeros((2, 10)), np.zeros((3, 10))),
        "parameters, behavior = ((2, 10), (3, 10)): of the same R",
    ),
    (lambda: oracle.exact(BANDIT, "a"), "parameters = 'a': P = 10"),
    (lambda: oracle.exact(BANDIT, np.full(10, math.nan)), "parameters = not finite: finite"),
    (
        lambda: oracle.moments(BANDIT, methods.reinforce(), np.zeros(10), np.full(10, math.nan)),
        "behavior = not finite: finite",
    ),
    (lambda: oracle.moments(BANDIT, "grpo", np.zeros(10)), "method = 'grpo': a method"),
    (lambda: oracle.exact("bandit", np.zeros(10)), "task = 'bandit': a task"),
    (lambda: sim.verify("ess/clamp-floor", at=3), "at = 3: a mapping"),
    (lambda: sim.verify(at={"clamp": 2.0}), "at = {'clamp': 2.0}: one claim"),
    (lambda: sim.verify("ess/clamp-floor", at={"clamp": "two"}), "point of ess/clamp-floor = {'clamp': 'two'}: domain"),
    # Laws too extreme for a quadrature.
    *(
        (lambda law=law: law.expected_max(4), f"law = {law}: narrow enough")
        for law in (sim.gamma(1.0, 1e-6), sim.laws.Law("lognormal", (1.0, 50.0)))
    ),
    # Networks, environments, texts, devices.
    (lambda: spec(device="cuda"), "device = 'cuda': one of cpu"),
    (lambda: spec(device="tpu"), "device = 'tpu': cpu, cuda"),
    (lambda: spec(method=methods.a2c()), "method = 'a2c': outputs"),
    (lambda: tasks.gym("CartPol-v1"), "id = 'CartPol-v1': a registered environment"),
    (lambda: spec(tasks.gym("Pendulum-v1"), policy=policies.mlp(3, 2)), "policy head = 'categorical': 'gaussian'"),
    (
        lambda: run(
            tasks.gym(trajectory="segment", steps=2),
            systems.areal(1, 1, 4, length=sim.lognormal(1.0, 1.0), load=1.0),
            methods.reinforce(advantages.none()),
            updates=8,
        ),
        "system = out of order: in the order of its slot",
    ),
    (lambda: run(tasks.gym(steps=2), schedules.fixed(1), drawing="early"), "drawing = 'early': late"),
    (
        lambda: spec(tasks.arithmetic(shots=60), policy=SPEAKER),
        "tokens of prompt 0 and its answer = 563: the context of the model",
    ),
    (lambda: spec(tasks.arithmetic(), policy=policies.tabular()), "policy = 'tabular': a language model"),
    (lambda: run(odd(lambda reward: reward.tolist())), "reward = [[: floats [2, 1, 2]"),
    (lambda: run(odd(lambda reward: reward.long())), "reward = tensor(: floats [2, 1, 2]"),
    (lambda: run(odd(lambda reward: reward[0, 0])), "reward = tensor(: floats [2, 1, 2]"),
    (lambda: run(hungry()), "memory = allocate memory: the device (cpu)"),
    # Verdicts.
    (random_schedule_judged, "realizations = 1: >= 2"),
]
"""What is asked, and "field = value: bound" of the refusal."""


@pytest.mark.parametrize(("ask", "expected"), CASES, ids=[expected for _, expected in CASES])
def test_one_line_names_field_value_bound_and_remedy(ask, expected):
    named, _, bound = expected.rpartition(": ")
    field, _, value = named.partition(" = ")
    caught = refused("", ask)
    error, text = caught, str(caught)
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
    caught = refused(r"path|file", load)
    assert "\n" not in str(caught)


def test_files_of_another_kind_or_format(tmp_path, monkeypatch):
    from asyncsim.base import files

    saved.save(tmp_path / "schedule.npz")
    refused("trace", sim.Trace.load, tmp_path / "schedule.npz")
    missing = refused("", sim.Schedule.load, tmp_path / "absent.npz")
    assert "absent.npz" in str(missing)
    monkeypatch.setattr(files, "FORMAT", 2)
    refused("2", sim.Schedule.load, tmp_path / "schedule.npz")


def rewritten(path, kind, value, arrays=None, scalars=None, without=()):
    """The file of a value with arrays and scalars replaced, added or left out: well formed, but not what was saved."""
    from asyncsim.base import files

    value.save(path)
    held, said = files.load_arrays(path, kind)
    kept = {name: array for name, array in {**held, **(arrays or {})}.items() if name not in without}
    files.save_arrays(path, kind, kept, {**said, **(scalars or {})})
    return path


def strange_files():
    trace = run()
    schedules = {
        "no version": {"without": ["version"]},
        "no trajectory": {"without": ["trajectory"]},
        "an unknown scalar": {"scalars": {"color": "blue"}},
        "fractional versions": {"arrays": {"version": saved.version + 0.5}},
        "versions in words": {"arrays": {"version": saved.version.astype(str)}},
        "half a batch to a publish": {"scalars": {"batches_per_publish": 0.5}},
        "random in words": {"scalars": {"random": "no"}},
    }
    traces = {
        "no schedule": {"without": ["schedule/version"]},
        "no parameters": {"without": ["parameters"]},
        "no header": {"scalars": {"header": None, "random": None}},
        "an unknown group": {"arrays": {"colors/blue": np.zeros(2)}},
        "fractional versions": {"arrays": {"schedule/version": trace.schedule.version + 0.5}},
        "metrics of other replicates": {"arrays": {"metrics/ess": np.zeros((2, 3))}},
        "metrics in words": {"arrays": {"metrics/ess": np.full((2, 2), "x")}},
        "fractional updates": {"arrays": {"updates": trace.updates + 0.5}},
        "updates beyond the schedule": {"arrays": {"updates": trace.updates + 9}},
        "updates that go back": {"arrays": {"updates": trace.updates[::-1]}},
        "updates before the first": {"arrays": {"updates": trace.updates - 1}},
        "a divergence beyond the last": {"arrays": {"diverged": trace.diverged + 99}},
        "an unknown realization": {"arrays": {"realization": trace.realization + 9}},
    }
    for name, changes in schedules.items():
        yield pytest.param("schedule", saved, changes, id=f"schedule, {name}")
    for name, changes in traces.items():
        yield pytest.param("trace", trace, changes, id=f"trace, {name}")


@pytest.mark.parametrize(("kind", "value", "changes"), list(strange_files()))
def test_whole_files_of_other_contents(tmp_path, kind, value, changes):
    path = rewritten(tmp_path / "saved.npz", kind, value, **changes)
    caught = refused("", lambda: type(value).load(path))
    assert caught.field.startswith((kind, "path", "schedule.")) and "\n" not in str(caught)


def test_a_file_that_was_only_rewritten_is_read(tmp_path):
    trace = run()
    assert sim.Schedule.load(rewritten(tmp_path / "a.npz", "schedule", saved)).batches == 4
    found = sim.Trace.load(rewritten(tmp_path / "b.npz", "trace", trace))
    np.testing.assert_array_equal(found["ess"], trace["ess"])


def test_a_folder_is_no_file(tmp_path):
    for path in (tmp_path, "", f"{__file__}/file", tmp_path / (300 * "x")):
        refused("path", saved.save, path)
    assert list(tmp_path.iterdir()) == []


def test_what_fails_inside_the_guard_leaves_nothing(tmp_path, monkeypatch):
    from asyncsim.base import files

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", refuse)
    refused("No space left", saved.save, tmp_path / "deep" / "file.npz")
    assert list((tmp_path / "deep").iterdir()) == []


def test_the_memory_asked_for_is_about_what_a_run_takes(monkeypatch):
    """The guard refuses what cannot fit and lets through what fits: sizes at both sides of the bound."""
    monkeypatch.setenv("ASYNCSIM_MEMORY", "16GiB")
    fits = {"updates": 10**6, "every": 1000, "replicates": 4096}
    made = spec(**fits)
    assert sum(size for size, _ in made._arrays(10, made.recorded[0]).values()) < 16 << 30
    refused("metrics", lambda: spec(**{**fits, "every": 1}))
    with pytest.raises(InputError, match="schedule versions"):
        spec(system=sim.schedules.random([0.5, 0.5]), updates=10**6, every=10**6, replicates=10**4, realizations=10**4)


def test_an_extreme_law_does_not_warn(recwarn):
    from asyncsim.base.rng import Stream

    for compiled in (False, True):
        draws = sim.pareto(1.0, 1e-3).sample(Stream(0, "work"), 0, np.arange(1000), compiled=compiled)
        assert 0 < np.isfinite(draws).sum() < 1000
    assert sim.lognormal(1e-300, 1.0).survival(1e300) == 0.0
    assert [(each.category.__name__, str(each.message)[:200]) for each in recwarn] == []


def test_uniform_is_a_public_law():
    assert sim.uniform(1, 2) == (0.0, 0.5, 0.5)
    np.testing.assert_array_equal(
        sim.schedules.random("uniform:0:3").knobs["law"], sim.schedules.random(sim.uniform(0, 3)).knobs["law"]
    )
