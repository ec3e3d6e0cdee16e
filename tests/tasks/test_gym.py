"""Environments of gymnasium: the same numbers as its own single environments, from keyed initial states."""

import copy
import dataclasses
import json
import pickle
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.base.checks import InputError
from asyncsim.step.batch import Draws
from tests.refusals import refused

SEED = 5
CART, ACROBOT, PENDULUM = "CartPole-v1", "Acrobot-v1", "Pendulum-v1"


class Counter(gymnasium.Env):
    """Shows how many steps were made and a random sign; fails, or ends, when asked to."""

    def __init__(self, ends=99, fails=99, start="0", space=None, told="nan", where="both"):
        self.ends, self.fails, self.start, self.told, self.where = ends, fails, float(start), float(told), where
        self.observation_space = space or gymnasium.spaces.Box(-100, 100, (2,))
        self.action_space = gymnasium.spaces.Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.sign = 0, float(self.np_random.choice([-1, -1, -1, 1]))
        return np.array([self.start, self.sign], dtype=self.observation_space.dtype), {}

    def step(self, action):
        self.steps += 1
        # Only trajectories of positive sign ever fail.
        failed = self.steps == self.fails and self.sign > 0
        first = self.told if failed and self.where != "reward" else self.steps
        reward = self.told if failed and self.where != "observation" else action
        seen = np.array([first, self.sign], dtype=self.observation_space.dtype)
        return seen, float(reward), self.steps == self.ends, False, {}


class Nested(Counter):
    """Shows a dictionary."""

    def __init__(self):
        super().__init__(space=gymnasium.spaces.Dict({"a": gymnasium.spaces.Discrete(2)}))


class Wide(Counter):
    """Shows the same in twice as many bits."""

    def __init__(self, **settings):
        super().__init__(space=gymnasium.spaces.Box(-100, 100, (2,), np.float64), **settings)


class Seeded(Counter):
    """Seeds NumPy's old generator, which takes 32 bits."""

    def reset(self, *, seed=None, options=None):
        np.random.RandomState(seed)
        return super().reset(seed=seed)


class Liar(Counter):
    """Shows what its space does not hold, from the first observation on or from the second."""

    def __init__(self, discrete, shows, first):
        space = gymnasium.spaces.Discrete(3, start=2) if discrete else gymnasium.spaces.Box(-1, 1, (2,))
        super().__init__(space=space)
        self.right, self.shows, self.first = 2 if discrete else [0.0, 0.0], shows, first

    def reset(self, *, seed=None, options=None):
        return self.shows if self.first else self.right, {}

    def step(self, action):
        return self.shows, 0.0, False, False, {}


class Choosy(Counter):
    """Refuses its argument in one of several ways."""

    def __init__(self, how="ValueError"):
        raise {"ValueError": ValueError, "KeyError": KeyError, "AssertionError": AssertionError}[how]("two\nlines")


class Several(Counter):
    """Takes two choices at a time."""

    def __init__(self):
        super().__init__()
        self.action_space = gymnasium.spaces.MultiDiscrete([2, 2])


class Endless(Counter):
    """Has no time limit."""


def register(made, steps=5):
    id = f"asyncsim-tests/{made.__name__}-v0"
    if id not in gymnasium.registry:
        gymnasium.register(id, entry_point=made, max_episode_steps=steps)
    return id


COUNTER, NESTED, SEVERAL, WIDE = (register(made) for made in (Counter, Nested, Several, Wide))
SEEDED, LIAR, CHOOSY, ENDLESS = register(Seeded), register(Liar), register(Choosy), register(Endless, steps=None)


def drawn(shape, batch=0, replicates=None, trajectory=None):
    """Draws of one batch: trajectories batch * G N, ... in order."""
    R, G, N = shape
    ids = batch * G * N + np.arange(G * N) if trajectory is None else np.asarray(trajectory)
    numbers = np.arange(R) if replicates is None else np.asarray(replicates)
    return Draws(rng.Stream(SEED, "rollout"), numbers, np.zeros(R, dtype=np.int64), ids.reshape(1, G, N))


def chosen(task, shape, tokens, seed=0):
    """Random actions `[T, R, G, N]` or `[T, R, G, N, D]`; continuous ones often lie outside the box."""
    generator = np.random.default_rng(seed)
    found = task.surface
    if found.head == "categorical":
        return torch.as_tensor(generator.integers(found.actions, size=(tokens, *shape)))
    return torch.as_tensor(3.0 * generator.normal(size=(tokens, *shape, found.actions)).astype(np.float32))


def balanced(seen, token):
    """A cart-pole that is held up."""
    return (seen[..., 2] + seen[..., 3] + 0.1 * seen[..., 1] + 0.05 * seen[..., 0] > 0).long()


def roll(task, draws, actions, carried=None):
    """What was seen before each token and what each token led to, `[T, ...]`, with the last world."""
    R, G, N = len(draws.replicates), *draws.trajectory.shape[1:]
    world = task.begin(torch.zeros((R, G, N), dtype=torch.int64), draws, carried)
    kept = {name: [] for name in ("seen", "reward", "going", "ended", "cut", "successor", "finished")}
    for t in range(task.horizon):
        seen = task.observe(world)
        turn = task.step(world, actions(seen, t) if callable(actions) else actions[t], t, draws)
        world = turn.state
        for name in kept:
            kept[name].append(seen if name == "seen" else getattr(turn, name))
    return {name: torch.stack(rows).numpy() for name, rows in kept.items()}, world


def cart_start(replicate, trajectory, token):
    """The initial state of a cart-pole by the formula: uniform in [-0.05, 0.05)."""
    return 0.1 * rng.Stream(SEED, "environment").uniform(replicate, trajectory, token, np.arange(4)) - 0.05


def keyed_seed(replicate, trajectory, token):
    return int(rng.Stream(SEED, "environment").uniform(replicate, trajectory, token, 0) * 2.0**31)


def restarted(environment, replicate, trajectory, token):
    """A single environment of gymnasium at the start of a keyed episode, with what it shows."""
    seen, _ = environment.reset(seed=keyed_seed(replicate, trajectory, token))
    if environment.spec.id == CART:
        environment.unwrapped.state = cart_start(replicate, trajectory, token)
        seen = environment.unwrapped.state.astype(np.float32)
    return shown(environment, seen)


def shown(environment, seen):
    space = environment.observation_space
    return np.eye(space.n)[seen] if isinstance(space, gymnasium.spaces.Discrete) else np.asarray(seen)


def taken(environment, action):
    space = environment.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action) + int(space.start)
    return np.clip(action, space.low, space.high)


def plain_episode(task, found, row, environment):
    """Largest difference between a rolled-out episode and gymnasium's single environment, flags included."""
    replicate, *_, sample = row
    gap = 0.0
    seen = restarted(environment, replicate, sample, 0)
    total = 0.0
    for t in range(task.horizon):
        here = {name: values[(t, *row)] for name, values in found.items()}
        gap = max(gap, np.abs(here["seen"] - seen).max())
        seen, reward, terminated, truncated, _ = environment.step(taken(environment, here["action"]))
        seen, total = shown(environment, seen), total + reward
        done = terminated or truncated
        gap = max(gap, np.abs(here["successor"] - seen).max(), abs(here["reward"] - reward))
        flags = (here["ended"], here["cut"], here["going"]) == (done, truncated and not terminated, not done)
        gap = gap if flags else np.inf
        if done:
            assert not found["going"][(slice(t, None), *row)].any()
            assert (found["reward"][(slice(t + 1, None), *row)] == 0).all()
            assert not found["ended"][(slice(t + 1, None), *row)].any()
            assert (found["seen"][(slice(t + 1, None), *row)] == here["successor"]).all()
            return max(gap, abs(here["finished"] - total)), t + 1
    return np.inf, t + 1


def against_gymnasium(id, tokens, actions=None, settings=None, reference=None, shape=(2, 1, 4)):
    """The largest difference over all samples, and the lengths of the episodes."""
    task = sim.tasks.gym(id, steps=tokens, settings=settings)
    actions = chosen(task, shape, task.horizon) if actions is None else actions
    found, _ = roll(task, drawn(shape), actions)
    seen = torch.as_tensor(found["seen"])
    found["action"] = np.stack([actions(seen[t], t) if callable(actions) else actions[t] for t in range(task.horizon)])
    environment = gymnasium.make(id, max_episode_steps=tokens, **(settings if reference is None else reference) or {})
    rows = [(r, 0, n) for r in range(shape[0]) for n in range(shape[2])]
    gaps, lengths = zip(*(plain_episode(task, found, row, environment) for row in rows), strict=True)
    return max(gaps), lengths


@pytest.mark.parametrize(
    ("id", "tokens"),
    [
        (CART, None),
        (CART, 12),
        (ACROBOT, 60),
        (PENDULUM, None),
        ("FrozenLake-v1", None),
        ("MountainCarContinuous-v0", 30),
    ],
)
def test_episodes_are_those_of_gymnasium(id, tokens):
    gap, lengths = against_gymnasium(id, tokens)
    assert gap < 1e-6
    if id == CART and tokens is None:
        assert len(set(lengths)) > 2 and max(lengths) < 500, "random actions drop the pole, each at another time"
    if tokens is not None:
        assert max(lengths) == tokens


def test_a_held_pole_is_cut_off_at_500():
    gap, lengths = against_gymnasium(CART, None, balanced, shape=(1, 1, 3))
    assert gap < 1e-6 and set(lengths) == {500}


@pytest.mark.parametrize(
    ("id", "settings"),
    [(CART, {"sutton_barto_reward": True}), (PENDULUM, {"g": 9.81}), ("FrozenLake-v1", {"map_name": "8x8"})],
)
def test_settings_reach_the_environment(id, settings):
    assert against_gymnasium(id, 20, settings=settings, shape=(1, 1, 3))[0] < 1e-6


def test_other_physics_are_seen():
    """A planted defect: another gravity, or another reward."""
    assert against_gymnasium(PENDULUM, 5, settings={"g": 9.81}, reference={}, shape=(1, 1, 2))[0] > 1e-3
    assert against_gymnasium(CART, 500, settings={"sutton_barto_reward": True}, reference={}, shape=(1, 1, 2))[0] >= 1


def test_box_actions_are_clipped_to_the_box():
    task = sim.tasks.gym(PENDULUM, steps=4)
    draws, far = drawn((1, 1, 2)), torch.full((4, 1, 1, 2, 1), 50.0)
    outside, edge, inside = (roll(task, draws, a)[0]["seen"] for a in (far, far.clamp(max=2.0), far.clamp(max=1.9)))
    np.testing.assert_array_equal(outside, edge)
    assert (outside != inside).any()


# Keys.


def first(task, draws):
    R, G, N = len(draws.replicates), *draws.trajectory.shape[1:]
    return task.observe(task.begin(torch.zeros((R, G, N), dtype=torch.int64), draws)).numpy()


@pytest.mark.parametrize("trajectory", ["episode", "segment"])
@pytest.mark.parametrize("id", [CART, PENDULUM])
def test_an_initial_state_belongs_to_seed_replicate_and_trajectory(id, trajectory):
    task = sim.tasks.gym(id, trajectory, 3)
    whole = first(task, drawn((3, 2, 4)))
    assert len(np.unique(whole.reshape(24, -1), axis=0)) == 24
    np.testing.assert_array_equal(first(task, drawn((1, 2, 4), replicates=[2]))[0], whole[2])
    order = np.array([3, 0, 2, 1, 7, 5, 6, 4])
    moved = first(task, drawn((3, 2, 4), trajectory=order))
    np.testing.assert_array_equal(moved.reshape(3, 8, -1), whole.reshape(3, 8, -1)[:, order])
    if id == CART:
        np.testing.assert_allclose(whole[2, 1, 3], cart_start(2, 7, 0), rtol=1e-6)


def test_initial_states_of_the_cart_fill_their_range():
    """1024 states of 4 uniform coordinates: both ends within 0.1%, mean within 4.5 of its errors (fails 3e-5)."""
    states = first(sim.tasks.gym(CART), drawn((4, 1, 256))).reshape(-1, 4)
    assert states.min() >= -0.05 and states.max() <= 0.05
    assert states.min() < -0.0498 and states.max() > 0.0498
    assert (np.abs(states.mean(0)) < 4.5 * 0.1 / np.sqrt(12 * 1024)).all()


@pytest.mark.parametrize("id", [CART, PENDULUM])
def test_actions_behind_an_end_are_not_read(id):
    task, shape = sim.tasks.gym(id, steps=40), (1, 1, 6)
    actions = chosen(task, shape, 40)
    found, world = roll(task, drawn(shape), actions)
    dead = torch.as_tensor(np.concatenate([np.zeros((1, *shape), dtype=bool), ~found["going"][:-1]]))
    if id == CART:
        assert dead.any()
        np.testing.assert_array_equal(world.inner.state.T.astype(np.float32), world.observation)
        actions = torch.where(dead, 99, actions)
    task.step(world, torch.full_like(actions[0], 99), 40, drawn(shape))
    for name, values in roll(task, drawn(shape), actions)[0].items():
        np.testing.assert_array_equal(values, found[name], err_msg=name)


@dataclasses.dataclass(frozen=True)
class Shared:
    """A planted defect: a sequential generator for resets, one for all environments."""

    inner: object
    generator: object

    def reset(self, inner, where, draws, token):
        moved, _ = self.inner.reset(inner, where, draws, token)
        state = moved.state.copy()
        state[:, where] = self.generator.uniform(-0.05, 0.05, (4, where.sum()))
        return moved._replace(state=state), state.T.astype(np.float32)

    def step(self, inner, action, where):
        return self.inner.step(inner, action, where)


def touched(task):
    """Whether other actions of replicate 1 change anything in replicate 0."""
    shape = (2, 1, 4)
    one = chosen(task, shape, task.horizon)
    two = one.clone()
    two[:, 1] = chosen(task, shape, task.horizon, seed=1)[:, 1]
    a, b = (roll(task, drawn(shape), actions)[0] for actions in (one, two))
    other = [{name for name in a if not np.array_equal(a[name][:, r], b[name][:, r], equal_nan=True)} for r in (0, 1)]
    assert other[1] & {"seen", "reward"}
    return bool(other[0])


@pytest.mark.parametrize(
    ("id", "trajectory", "steps"),
    [
        (CART, "episode", None),
        (CART, "segment", 60),
        (PENDULUM, "episode", 10),
        (ACROBOT, "segment", 10),
        (COUNTER, "segment", 12),
    ],
)
def test_replicates_do_not_touch_each_other(id, trajectory, steps):
    assert not touched(sim.tasks.gym(id, trajectory, steps))


def test_a_shared_generator_is_seen():
    task = sim.tasks.gym(CART, "segment", 60)
    assert touched(dataclasses.replace(task, engine=Shared(task.engine, np.random.default_rng(0))))


# Segments.


def chained(task, shape, batches, forget=False):
    """Segments one after another, `[batches * T, ...]`, with actions that follow from what is seen."""
    parts, world = [], None
    for b in range(batches):
        actions = chosen(task, shape, task.horizon, seed=b)
        found, world = roll(task, drawn(shape, b), actions, None if forget else world)
        parts.append({**found, "action": actions.numpy()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, world


def long_rollout(id, found, row, tokens):
    """Largest difference from one environment that is stepped on and reset with the keys of (segment, token)."""
    replicate, _, sample, each = row
    environment = gymnasium.make(id)
    seen, total, gap, ends = restarted(environment, replicate, sample, 0), 0.0, 0.0, 0
    for step in range(len(found["seen"])):
        here = {name: values[step, replicate, 0, sample] for name, values in found.items()}
        gap = max(gap, np.abs(here["seen"] - seen).max())
        seen, reward, terminated, truncated, _ = environment.step(taken(environment, here["action"]))
        seen, total, done = shown(environment, seen), total + reward, terminated or truncated
        gap = max(gap, np.abs(here["successor"] - seen).max(), abs(here["reward"] - reward))
        assert here["going"]
        gap = gap if (here["ended"], here["cut"]) == (done, truncated and not terminated) else np.inf
        assert done or np.isnan(here["finished"])
        if done:
            gap, total, ends = max(gap, abs(here["finished"] - total)), 0.0, ends + 1
            batch, token = divmod(step, tokens)
            seen = restarted(environment, replicate, batch * each + sample, token + 1)
    return gap, ends


@pytest.mark.parametrize(
    ("id", "tokens", "batches", "ends"), [(CART, 40, 3, 3), (PENDULUM, 150, 3, 2), (COUNTER, 4, 5, 4)]
)
def test_segments_are_one_long_rollout(id, tokens, batches, ends):
    task, shape = sim.tasks.gym(id, "segment", tokens), (2, 1, 3)
    assert task.segments and task.horizon == tokens
    found, world = chained(task, shape, batches)
    for r in range(2):
        for n in range(3):
            gap, seen_ends = long_rollout(id, found, (r, 0, n, 3), tokens)
            assert gap < 1e-5 and seen_ends >= ends
    assert not world.broken.any()


def test_forgotten_worlds_are_seen():
    """A planted defect: every segment begins afresh."""
    task = sim.tasks.gym(CART, "segment", 10)
    found, _ = chained(task, (1, 1, 2), 3, forget=True)
    assert long_rollout(CART, found, (0, 0, 1, 2), 10)[0] > 1e-3


def test_the_last_observation_stands_before_the_reset():
    """The counter counts to 5 and is cut off, or ends by itself at 3; the next token sees 0."""
    for settings, length in (({}, 5), ({"ends": 3}, 3)):
        found, _ = roll(
            sim.tasks.gym(COUNTER, "segment", 8, settings), drawn((1, 1, 2)), torch.ones((8, 1, 1, 2)).long()
        )
        seen, successor = found["seen"][:, 0, 0, 0, 0], found["successor"][:, 0, 0, 0, 0]
        np.testing.assert_array_equal(seen, np.arange(8) % length)
        np.testing.assert_array_equal(successor, np.arange(8) % length + 1)
        at = np.arange(8) % length == length - 1
        np.testing.assert_array_equal(found["ended"][:, 0, 0, 0], at)
        np.testing.assert_array_equal(found["cut"][:, 0, 0, 0], at & (length == 5))


def test_running_returns_cross_segments():
    task, shape = sim.tasks.gym(COUNTER, "segment", 3), (1, 1, 1)
    ones = torch.full((3, *shape), 2)
    _, world = roll(task, drawn(shape), ones)
    assert np.isnan(world.finished).all()
    found, world = roll(task, drawn(shape, 1), ones, world)
    np.testing.assert_array_equal(found["finished"].reshape(-1), [np.nan, 5.0, np.nan])
    assert world.running.tolist() == [1.0]


def test_a_discrete_action_counts_from_the_first_code():
    found, _ = roll(sim.tasks.gym(COUNTER), drawn((1, 1, 1)), torch.tensor([0, 1, 2, 0, 1]).reshape(5, 1, 1, 1))
    assert found["reward"].reshape(-1).tolist() == [-1, 0, 1, -1, 0]


def test_another_shape_of_the_batch_is_refused():
    task = sim.tasks.gym(CART, "segment", 2)
    _, world = roll(task, drawn((1, 1, 2)), chosen(task, (1, 1, 2), 2))
    with pytest.raises(InputError, match=r"carried world = \(1, 1, 2\): must be of the batch's shape \(1, 1, 3\)"):
        roll(task, drawn((1, 1, 3)), chosen(task, (1, 1, 3), 2), world)


# Failures of an environment.


BAD_NUMBERS = [
    (COUNTER, "nan", "both"),
    (COUNTER, "inf", "observation"),
    (COUNTER, "-inf", "reward"),
    (WIDE, "1e39", "observation"),
    (WIDE, "-1e300", "observation"),
]
"""The last two are numbers, but not for a network in float32."""


@pytest.mark.parametrize("trajectory", ["episode", "segment"])
@pytest.mark.parametrize(("id", "told", "where"), BAD_NUMBERS)
def test_what_is_no_number_breaks_its_replicate(trajectory, id, told, where):
    shape, ones = (8, 1, 2), torch.full((6, 8, 1, 2), 2)
    tasks = [
        sim.tasks.gym(id, trajectory, 6, settings) for settings in ({}, {"fails": 3, "told": told, "where": where})
    ]
    good, _ = roll(tasks[0], drawn(shape), ones)
    with pytest.warns(RuntimeWarning, match=r"-v0: an observation or reward of replicate \d, group 0") as caught:
        found, world = roll(tasks[1], drawn(shape), ones)
    sign = good["seen"][0, ..., 1]
    failing = (sign > 0).any(axis=(1, 2))
    assert 1 < failing.sum() < 7, "some replicates fail and some do not"
    np.testing.assert_array_equal(world.broken, failing)
    assert len(caught) == failing.sum(), "each replicate is named once"
    r = int(failing.argmax())
    n = int((sign[r, 0] > 0).argmax())
    assert f"replicate {r}, group 0, sample {n} (trajectory {n})" in str(caught[0].message)
    assert all(np.isfinite(found[name]).all() for name in ("seen", "reward", "successor"))
    hit = (2, r, 0, n)
    assert found["reward"][hit] == 0 and found["ended"][hit] and not found["cut"][hit] and found["finished"][hit] == 2
    assert not found["successor"][hit].any() and found["going"][hit] == (trajectory == "segment")
    for name in found:
        np.testing.assert_array_equal(found[name][:, ~failing], good[name][:, ~failing], err_msg=name)


@pytest.mark.parametrize("trajectory", ["episode", "segment"])
@pytest.mark.parametrize(("id", "start"), [(COUNTER, "nan"), (WIDE, "1e39")])
def test_a_start_that_is_no_number_is_named(trajectory, id, start):
    task = sim.tasks.gym(id, trajectory, 2, {"start": start})
    with pytest.warns(RuntimeWarning, match="replicate 0, group 0, sample 0"):
        world = task.begin(torch.zeros((1, 1, 2), dtype=torch.int64), drawn((1, 1, 2)))
    assert world.broken.all() and not task.observe(world)[..., 0].any()


def test_a_restart_that_is_no_number_is_named(monkeypatch):
    """The first episode of a segment is sound, those behind it are not."""
    task = sim.tasks.gym(WIDE, "segment", 3, {"ends": 2})
    reset = Wide.reset

    def worse(self, **arguments):
        seen, told = reset(self, **arguments)
        return seen if self.begun else np.array([1e39, 0.0]), told

    monkeypatch.setattr(Wide, "begun", True, raising=False)
    monkeypatch.setattr(Wide, "reset", worse)
    world = task.begin(torch.zeros((1, 1, 2), dtype=torch.int64), drawn((1, 1, 2)))
    monkeypatch.setattr(Wide, "begun", False)
    ones = torch.ones((1, 1, 2), dtype=torch.int64)
    world = task.step(world, ones, 0, drawn((1, 1, 2))).state
    assert not world.broken.any()
    with pytest.warns(RuntimeWarning, match="is not finite"):
        world = task.step(world, ones, 1, drawn((1, 1, 2))).state
    assert world.broken.all() and not task.observe(world).any()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("discrete", "shows", "held"),
    [
        (True, 5, r"an integer in \[2, 4\]"),
        (True, 1, r"an integer in \[2, 4\]"),
        (True, -7, r"an integer in \[2, 4\]"),
        (True, "wall", r"an integer in \[2, 4\]"),
        (False, [0.0], "2 numbers"),
        (False, 0.0, "2 numbers"),
        (False, [0.0, 0.0, 0.0], "2 numbers"),
        (False, [[0.0], [0.0, 1.0]], "2 numbers"),
    ],
)
def test_an_observation_outside_its_space_is_named(first, discrete, shows, held):
    """Planted by NumPy itself: -1 would be the last unit vector, and one number would fill a row."""
    task = sim.tasks.gym(LIAR, settings={"discrete": discrete, "shows": shows, "first": first})
    with pytest.raises(InputError, match=rf"observation of {LIAR} = .*: must be {held}, as its observation space says"):
        roll(task, drawn((1, 1, 2)), torch.zeros(5, 1, 1, 2, dtype=torch.int64))


def test_seeds_are_those_that_old_generators_take():
    """32 of 32 seeds below 2^31; some above 2^30. Planted: of 53 bits, all but one in two million are too large."""
    assert not touched(sim.tasks.gym(SEEDED, "segment", 6))
    seeds = drawn((2, 4, 4)).sibling("environment").seeds(3)
    assert seeds.shape == (2, 4, 4) and seeds.dtype == np.int64 and len(np.unique(seeds)) == 32
    assert seeds.min() >= 0 and 2**30 < seeds.max() < 2**31
    assert seeds[1, 2, 3] == keyed_seed(1, 11, 3)


def test_nothing_is_said_of_sound_environments():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roll(sim.tasks.gym(CART), drawn((1, 1, 4)), balanced)


# Worlds.


def test_an_old_cart_can_go_on_again():
    task, draws = sim.tasks.gym(CART, steps=3), drawn((1, 1, 3))
    world = task.begin(torch.zeros((1, 1, 3), dtype=torch.int64), draws)
    ones = torch.ones((1, 1, 3), dtype=torch.int64)
    one = task.step(world, ones, 0, draws)
    task.step(one.state, 1 - ones, 1, draws)
    again = task.step(world, ones, 0, draws)
    assert torch.equal(task.observe(again.state), task.observe(one.state))
    assert not again.ended.any() and not task.step(again.state, ones, 1, draws).ended.any(), "steps are counted once"


def test_an_old_world_of_a_loop_is_refused():
    task, draws = sim.tasks.gym(PENDULUM), drawn((1, 1, 2))
    world = task.begin(torch.zeros((1, 1, 2), dtype=torch.int64), draws)
    task.step(world, torch.zeros(1, 1, 2, 1), 0, draws)
    with pytest.raises(RuntimeError, match="an old world of Pendulum-v1"):
        task.step(world, torch.zeros(1, 1, 2, 1), 0, draws)


def test_environments_are_used_again_without_a_trace():
    task, fresh, shape = sim.tasks.gym(PENDULUM, steps=6), sim.tasks.gym(PENDULUM, steps=6), (1, 1, 3)
    actions = chosen(task, shape, 6)
    for _ in range(3):
        roll(task, drawn(shape, 4), actions)
    assert len(task.engine.spare.environments) == 3
    again, new = (roll(t, drawn(shape, 1), actions)[0] for t in (task, fresh))
    for name in again:
        np.testing.assert_array_equal(again[name], new[name])
    assert len(task.engine.spare.environments) == 3


@pytest.mark.parametrize("id", [CART, PENDULUM])
def test_a_task_travels_without_its_environments(id):
    task = sim.tasks.gym(id, steps=2)
    roll(task, drawn((1, 1, 2)), chosen(task, (1, 1, 2), 2))
    for other in (pickle.loads(pickle.dumps(task)), copy.deepcopy(task)):
        assert other == task and not getattr(other.engine, "spare", SimpleNamespace(environments=[])).environments


# What is refused.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"id": "Nothing-v0"},
            r"id = 'Nothing-v0': must be a registered environment; Environment `Nothing` doesn't exist",
        ),
        ({"id": "CartPole-v9"}, "must be a registered environment; .*`v1`"),
        ({"id": "LunarLander-v1"}, "use `LunarLander-v3`"),
        ({"id": 3}, "id = 3: must be the id of an environment"),
        ({"id": "no_such_module:Thing-v0"}, "must be an environment that can be imported; No module named"),
        ({"id": NESTED}, r"observation space = Dict\(.*must be Box or Discrete; .*FlattenObservation"),
        ({"id": SEVERAL}, r"action space = MultiDiscrete\(.*must be Box or Discrete"),
        ({"id": "Blackjack-v1", "steps": 5}, "observation space = Tuple"),
        ({"id": ENDLESS}, "steps = None: must be an integer >= 1; .* has no time limit of its own"),
        ({"trajectory": "segment"}, "steps = None: must be an integer >= 1; say how many steps a segment has"),
        ({"settings": {"gravity_of_mars": 1}}, "settings = .*must be arguments that CartPole-v1 takes"),
        ({"id": "FrozenLake-v1", "settings": {"map_name": "5x5"}}, "settings = .*arguments that FrozenLake-v1 takes"),
        ({"id": "FrozenLake-v1", "settings": {"desc": 3}}, "settings = .*arguments that FrozenLake-v1 takes"),
        *(
            ({"id": CHOOSY, "settings": {"how": how}}, rf"settings = .*'{how}'.*fix them \({how}: '?two")
            for how in ("ValueError", "KeyError", "AssertionError")
        ),
        ({"settings": {"max_episode_steps": 20}}, "settings = .*20.*: must be .*; write steps"),
        ({"settings": 3}, "settings = 3: must be a dictionary"),
        ({"settings": {3: 3}}, "settings = 3: must be named by text"),
        ({"settings": {"a": object()}}, r"settings\[a\] = object"),
        ({"settings": {"a": float("nan")}}, r"settings\[a\] = nan"),
    ],
)
def test_bad_input_is_named(arguments, message):
    refused(message, lambda: sim.tasks.gym(**arguments))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (
            gymnasium.error.DependencyNotInstalled('run `pip install "gymnasium[mujoco]"`'),
            "pip install 'gymnasium[mujoco]'",
        ),
        (
            gymnasium.error.DependencyNotInstalled(
                'run `pip install swig` followed by `pip install "gymnasium[box2d]"`'
            ),
            "pip install swig, then pip install 'gymnasium[box2d]'",
        ),
        (ModuleNotFoundError("No module named 'jax'", name="jax"), "pip install 'gymnasium[jax]'"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, error, remedy):
    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(gymnasium, "make", refuse)
    caught = refused("", sim.tasks.gym, "Walker-v9")
    assert (caught.field, caught.value, caught.remedy) == ("id", "Walker-v9", remedy)


@pytest.mark.parametrize("id", [CART, PENDULUM])
def test_a_policy_has_to_fit(id):
    task = sim.tasks.gym(id)
    good = {"observation": task.surface.observation, "head": task.surface.head, "actions": task.surface.actions}
    assert task.fit(SimpleNamespace(**good)) is task
    for name, other in (("observation", 7), ("head", "other"), ("actions", 9)):
        with pytest.raises(InputError, match=rf"policy {name} = {other!r}: must be {good[name]!r}, as {id} has it"):
            task.fit(SimpleNamespace(**{**good, name: other}))
    refused("policy observation = None", lambda: task.fit(sim.policies.tabular()))


def test_what_an_environment_has_no_formula_for_is_refused():
    task = sim.tasks.gym()
    assert not task.enumerable and task.pays
    for ask in (
        lambda: task.outcomes(torch.zeros(1)),
        lambda: task.exact(None, torch.zeros(1, 1)),
        lambda: task.earn(None, None, None, None),
    ):
        refused("", ask)


def test_header():
    header = sim.tasks.gym(PENDULUM, "segment", 8, {"g": 9.0}).describe()
    assert json.loads(json.dumps(header)) == header
    assert header["id"] == PENDULUM and header["limit"] == 200 and header["horizon"] == 8
    assert (header["observation"], header["head"], header["actions"]) == (3, "gaussian", 1)
    assert sim.tasks.gym("CartPole").describe()["id"] == CART, "the version is part of the name"


# Runs.


def spec(task, **changes):
    settings = {"samples_per_group": 2, "updates": 2, "replicates": 8, **changes}
    return sim.Spec(task, sim.schedules.fixed(1), method=sim.methods.reinforce(), **settings)


@pytest.mark.parametrize(("id", "trajectory"), [(CART, "episode"), (CART, "segment"), (PENDULUM, "segment")])
def test_a_run_with_the_own_policy(id, trajectory):
    task = sim.tasks.gym(id, trajectory, 6)
    assert task.fit(task.policy()) is task
    trace = sim.run(spec(task, update=sim.chain(sim.updates.sgd(0.01))), seed=1)
    assert np.isfinite(trace.parameters).all() and (trace.diverged == -1).all()
    assert id != CART or (trace["batch_return"] == 6).all()


def counted(settings, updates):
    task = sim.tasks.gym(COUNTER, steps=4, settings=settings)
    return sim.run(spec(task, updates=updates, update=sim.chain(sim.updates.sgd(0.1))), seed=2)


def test_a_broken_environment_freezes_its_replicate_only():
    sound = counted({}, 1)
    with pytest.warns(RuntimeWarning, match="is not finite"):
        failing = counted({"fails": 3}, 1)
    frozen = failing.diverged >= 0
    assert 1 < frozen.sum() < 8 and (sound.diverged == -1).all()
    np.testing.assert_array_equal(failing.parameters[~frozen], sound.parameters[~frozen])


@pytest.mark.filterwarnings("always:.*is not finite:RuntimeWarning")
def test_a_broken_replicate_is_named_once_in_a_run():
    with pytest.warns(RuntimeWarning, match="is not finite") as caught:
        trace = counted({"fails": 3}, 12)
    assert (trace.diverged >= 0).all() and len(caught) == 8
    assert len({str(one.message).split("replicate ")[1].split(",")[0] for one in caught}) == 8


def test_environments_of_episodes_are_used_again_in_a_run(monkeypatch):
    """One pool of R G N = 16 environments however many batches there are."""
    task, made = sim.tasks.gym(COUNTER, steps=3), []
    make = gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda *a, **k: made.append(a) or make(*a, **k))
    sim.run(spec(task, updates=5, update=sim.chain(sim.updates.sgd(0.1))), seed=2)
    assert len(made) == 16
