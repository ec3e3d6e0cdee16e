"""Environments of gymnasium by their ids, and many of them as one world, started from keyed draws.

Arrays are flat over E = R G N environments; a row is the environment of one trajectory.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks, outside, plugins
from asyncsim.step.batch import Draws

PHYSICS = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"
FORMS = {
    "reset": ("self, *, seed=None, options=None", "observation, {}", 2),
    "step": ("self, action", "observation, reward, terminated, truncated, {}", 5),
}
"""What a method of an environment takes, what it returns, and how many values that are."""


class Surface(NamedTuple):
    """Observation and action spaces of a gymnasium environment.

    `observation`: D; `onehot`: first code of a discrete observation, or None; `precision` of observations; `head`,
    "categorical" or "gaussian"; `actions`: choices, or coordinates; `first`: first code of a discrete action, or None;
    `low`, `high`: the box of continuous actions, one number per coordinate; `shape`, `kind`: shape and dtype of that
    box.
    """

    observation: int
    onehot: int | None
    precision: str
    head: str
    actions: int
    first: int | None
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    shape: tuple[int, ...] = ()
    kind: str = "float32"


def settings_of(settings: Any) -> tuple[tuple[str, Any], ...]:
    """Arguments of an environment as sorted pairs; refuse values that a run's header could not store."""
    remedy = "give a dictionary of the environment's own arguments"
    checks.require(settings is None or isinstance(settings, Mapping), "settings", settings, "a dictionary", remedy)
    for name, value in (settings or {}).items():
        checks.require(isinstance(name, str), "settings", name, "named by text", remedy)
        bound, instead = "arguments of the environment, not of its time limit", "write steps=NUMBER beside settings"
        checks.require(name != "max_episode_steps", "settings", {name: value}, bound, instead)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise checks.InputError(f"settings[{name}]", value, "finite numbers, text, lists or None", remedy) from None
    return tuple(sorted((settings or {}).items()))


def opened(id: str, settings: dict[str, Any], limit: int | None = None) -> Any:
    """Make one gymnasium environment; raise `InputError` for unknown ids or arguments, and missing packages."""
    import gymnasium

    own = getattr(getattr(id, "spec", None), "id", "CartPole-v1")
    remedy = f"write sim.tasks.gym({own!r}), or of your own class 'FILE.py:CLASS'"
    checks.require(isinstance(id, str), "id", id, "the id of an environment, not the environment", remedy)
    for text in outside.texts([id, settings]):
        if re.match(r"[A-Za-z_][\w.]*:", text):  # gymnasium imports what stands before the colon
            outside.permit(text, "id")
            outside.find_here()
    time_limit = {} if limit is None else {"max_episode_steps": limit}
    own = outside.loaded(id, "id") if ".py:" in id else None
    known = gymnasium.envs.registration.EnvSpec(id.rpartition(":")[2], entry_point=own) if own else id
    try:
        return gymnasium.make(known, disable_env_checker=True, **time_limit, **settings)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise checks.InputError("id", id, "an environment that can be imported", _missing(error)) from error
    except gymnasium.error.Error as error:
        own = f"module:{id}, the module that registers it in front"
        own = f"a class as {id.replace(':', '.py:')}, or an id that this module registers" if ":" in id else own
        tasks = () if re.search(":|Did you mean", id + str(error)) else plugins.summaries("asyncsim.tasks")
        remedy = f"{' '.join(str(error).split())} One of your own is {own}"
        for near in checks.near(id, tasks, 1, 0.5):
            remedy = f"{near} is a task of asyncsim, not of gymnasium: write --task {near}"
        raise checks.InputError("id", id, "a registered environment", remedy) from None
    except (TypeError, ValueError, LookupError, AssertionError, AttributeError) as error:
        remedy = f"fix them ({type(error).__name__}: {' '.join(str(error).split())})"
        raise checks.InputError("settings", settings, f"arguments that {id} takes", remedy) from error


def _missing(error: Exception) -> str:
    """Name the extra or package to install."""
    text = " ".join(str(error).split())
    extra = re.search(r"gymnasium\[[\w-]+\]", text)
    if extra is None and getattr(error, "name", None) == "jax":
        return "pip install 'gymnasium[jax]'"
    if extra is None:
        return text
    swig = "pip install swig, then " if "swig" in text else ""
    return f"{swig}pip install '{extra.group()}'"


def surface(environment: Any) -> Surface:
    """Read an environment's observation and action spaces; raise `InputError` for spaces that one head cannot serve."""
    from gymnasium.spaces import Box, Discrete

    observations, actions = environment.observation_space, environment.action_space
    for name, space in (("observation", observations), ("action", actions)):
        such = ", gymnasium.wrappers.FlattenObservation for example" if name == "observation" else ""
        remedy = f"wrap it in an environment with a Box or Discrete space{such}"
        checks.require(isinstance(space, (Box, Discrete)), f"{name} space", space, "Box or Discrete", remedy)
    if isinstance(observations, Box):
        width, onehot = math.prod(observations.shape), None
    else:
        width, onehot = int(observations.n), int(observations.start)
    # Discrete spaces are of integers.
    precision = "float64" if observations.dtype == np.float64 else "float32"
    if isinstance(actions, Discrete):
        checks.require(actions.n >= 2, "actions", int(actions.n), "at least 2", "a policy needs a choice")
        return Surface(width, onehot, precision, "categorical", int(actions.n), int(actions.start))
    low, high = (tuple(float(x) for x in np.ravel(bound)) for bound in (actions.low, actions.high))
    kind = str(actions.dtype)
    return Surface(width, onehot, precision, "gaussian", math.prod(actions.shape), None, low, high, actions.shape, kind)


class Moved(NamedTuple):
    """Result of one step of every environment; rows of environments that do not step hold zeros.

    `inner`: the engine's next state; `observation` `[E, D]`; `reward` float64 `[E]`; `terminated`, `truncated`, bool
    `[E]`.
    """

    inner: Any
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


@dataclass(frozen=True)
class World:
    """State of the environments `[R, G, N]` between two tokens.

    `inner`: the engine's state; `observation` `[E, D]`; `alive`, bool `[E]`: the trajectory goes on; `running`, float64
    `[E]`: return of the episode so far; `finished`, float64 `[E]`: return of an episode that ended at the latest token,
    else NaN; `broken`, bool `[R]`: replicates in which an observation or a reward was not finite.
    """

    shape: tuple[int, int, int]
    inner: Any
    observation: np.ndarray
    alive: np.ndarray
    running: np.ndarray
    finished: np.ndarray
    broken: np.ndarray


class Carts(NamedTuple):
    """State of gymnasium's vectorized cart-pole environment: physics `[4, E]` float64, and step counts int32 `[E]`."""

    physics: Any
    state: np.ndarray
    steps: np.ndarray


@dataclass(frozen=True)
class CartPoles:
    """Gymnasium's vectorized cart-pole environment, with initial states from keyed draws, not its own generator."""

    id: str
    settings: tuple[tuple[str, Any], ...]
    limit: int

    def reset(self, inner: Carts | None, where: np.ndarray, draws: Draws, token: int) -> tuple[Carts, np.ndarray]:
        """Reset some cart-poles to positions, velocities, angles and rates uniform in [-0.05, 0.05)."""
        inner = self._fresh(len(where)) if inner is None else inner
        uniform = np.stack([draws.uniform(token, draw).cpu().numpy().reshape(-1) for draw in range(4)])
        state = np.where(where, 0.1 * uniform - 0.05, inner.state)
        steps = np.where(where, np.int32(0), inner.steps)
        return Carts(inner.physics, state, steps), state.T.astype(np.float32)

    def step(self, inner: Carts, action: np.ndarray, where: np.ndarray) -> Moved:
        """Step all cart-poles with gymnasium's code, and keep the result for the rows of `where`."""
        physics = inner.physics
        # Without `prev_done` it resets nothing by itself and draws nothing from its own generator.
        physics.prev_done = np.zeros(len(where), dtype=np.bool_)
        physics.state, physics.steps = inner.state, inner.steps.copy()
        # Rows that do not move may have any action.
        observation, reward, terminated, truncated, _ = physics.step(np.where(where, action, 0))
        state, steps = physics.state, physics.steps
        physics.state = physics.steps = None
        if not where.all():
            state, steps = np.where(where, state, inner.state), np.where(where, steps, inner.steps)
            observation = np.where(where[:, None], observation, 0)
            terminated, truncated = terminated & where, truncated & where
        moved = Carts(physics, state, steps)
        return Moved(moved, observation, np.where(where, reward.astype(np.float64), 0.0), terminated, truncated)

    def keeping(self) -> "CartPoles":
        """Return the engine itself, since its states are arrays, which a checkpoint can store."""
        return self

    def packed(self, inner: Carts) -> dict[str, np.ndarray]:
        """Pack the physics state and step counts of all cart-poles."""
        return {"state": inner.state, "steps": inner.steps}

    def unpacked(self, tree: dict[str, np.ndarray]) -> Carts:
        """Restore the packed cart-poles in a new physics object."""
        return Carts(self._fresh(len(tree["steps"])).physics, tree["state"], tree["steps"])

    def _fresh(self, number: int) -> Carts:
        import gymnasium

        physics: Any = gymnasium.make_vec(self.id, number, "vector_entry_point", **dict(self.settings)).unwrapped
        physics.max_episode_steps = self.limit
        return Carts(physics, np.zeros((4, number)), np.zeros(number, dtype=np.int32))


@dataclass
class Episode:
    """Seed of an environment's latest reset and the actions since, which determine its state."""

    seed: int = 0
    actions: list[np.ndarray] = field(default_factory=list)


@dataclass
class Pool:
    """Environments behind a chain of world states, reused once the last of these states is deleted.

    Environments change as they are stepped: `moment` counts steps and resets, so that an old world is not mistaken for
    the current one. `past`: what made each environment what it is, where that is kept.
    """

    spare: list[Any]
    environments: list[Any]
    past: list[Episode] | None
    moment: int = 0

    def __del__(self) -> None:
        self.spare.extend(self.environments)


class Handle(NamedTuple):
    """A pool of environments at one time step."""

    pool: Pool
    moment: int


class Spare:
    """Environments that are free for reuse; a copy, or one sent to another process, starts empty."""

    def __init__(self) -> None:
        self.environments: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Spare, ()


@dataclass(frozen=True)
class Loop:
    """Plain environments stepped one after another, each seeded from keyed draws at every reset."""

    id: str
    settings: tuple[tuple[str, Any], ...]
    limit: int | None
    surface: Surface
    spare: Spare = field(default_factory=Spare, compare=False, repr=False)
    keeps: bool = field(default=False, compare=False, repr=False)

    def reset(self, inner: Handle | None, where: np.ndarray, draws: Draws, token: int) -> tuple[Handle, np.ndarray]:
        """Reset some environments with keyed seeds, which determine all random draws of their episodes."""
        inner = self._fresh(len(where)) if inner is None else inner
        environments = self._current(inner)
        seeds = draws.seeds(token).reshape(-1)
        observation = self._nothing(len(where))
        with np.errstate(over="ignore"):
            for row in np.flatnonzero(where):
                observation[row] = self._flat(self._answer("reset", environments[row], seed=int(seeds[row]))[0])
                if inner.pool.past is not None:
                    inner.pool.past[row] = Episode(int(seeds[row]))
        return self._advanced(inner), observation

    def step(self, inner: Handle, action: np.ndarray, where: np.ndarray) -> Moved:
        """Step only the environments in the rows of `where`."""
        environments = self._current(inner)
        E = len(where)
        observation, reward = self._nothing(E), np.zeros(E)
        terminated, truncated = np.zeros(E, dtype=bool), np.zeros(E, dtype=bool)
        commands = self._commands(action)
        with np.errstate(over="ignore"):
            for row in np.flatnonzero(where):
                moved = self._answer("step", environments[row], commands[row])
                value, reward[row], terminated[row], truncated[row], _ = moved
                observation[row] = self._flat(value)
                if inner.pool.past is not None:
                    inner.pool.past[row].actions.append(action[row])
        return Moved(self._advanced(inner), observation, reward, terminated, truncated)

    def keeping(self) -> "Loop":
        """The same engine, but recording the actions of each episode, so that its states can be packed."""
        return replace(self, keeps=True)

    def packed(self, inner: Handle) -> dict[str, np.ndarray]:
        """Pack every environment's seed and actions, since gymnasium has no common format for states."""
        past = inner.pool.past
        assert past is not None
        actions = [each for episode in past for each in episode.actions]
        return {
            "seeds": np.array([episode.seed for episode in past], dtype=np.int64),
            "counts": np.array([len(episode.actions) for episode in past], dtype=np.int64),
            "actions": np.stack(actions) if actions else np.zeros(0, dtype=np.int64),
        }

    def unpacked(self, tree: dict[str, np.ndarray]) -> Handle:
        """Restore environments to the packed states by replaying their episodes."""
        inner = self._fresh(len(tree["seeds"]))
        ends = np.cumsum(tree["counts"])
        for row, environment in enumerate(inner.pool.environments):
            actions = tree["actions"][ends[row] - tree["counts"][row] : ends[row]]
            environment.reset(seed=int(tree["seeds"][row]))
            with np.errstate(over="ignore"):
                for command in self._commands(actions) if len(actions) else ():
                    environment.step(command)
            if inner.pool.past is not None:
                inner.pool.past[row] = Episode(int(tree["seeds"][row]), list(actions))
        return inner

    def _answer(self, name: str, environment: Any, *given: Any, **seed: int) -> Any:
        """Call an environment and return its result; raise `InputError` for the interface of the former gym."""
        takes, gives, count = FORMS[name]
        bound, remedy = "as gymnasium has it", f"write def {name}({takes}), and end it by return {gives}"
        try:
            answer = getattr(environment, name)(*given, **seed)
        except (TypeError, ValueError) as error:
            if not re.search(r"expected 5\b|non-iterable NoneType|argument 'seed'", str(error)):
                raise
            raise checks.InputError(f"{name} of {self.id}", str(error), bound, remedy) from error
        fits = isinstance(answer, tuple) and len(answer) == count
        checks.require(fits, f"{name} of {self.id}", answer, bound, remedy)
        return answer

    def _nothing(self, number: int) -> np.ndarray:
        return np.zeros((number, self.surface.observation), dtype=self.surface.precision)

    def _flat(self, value: Any) -> np.ndarray:
        """Flatten an observation to `[D]`, a discrete one to a unit vector; refuse values outside of the space."""
        D, first = self.surface.observation, self.surface.onehot
        try:
            if first is None:
                flat = np.asarray(value, dtype=self.surface.precision).reshape(-1)
                if len(flat) == D:
                    return flat
            elif first <= int(value) < first + D:
                unit = self._nothing(1)[0]
                unit[int(value) - first] = 1.0
                return unit
        except (TypeError, ValueError):
            pass
        range_text = f"{D} numbers" if first is None else f"an integer in [{first}, {first + D - 1}]"
        bound, remedy = f"{range_text}, as its observation space says", "fix the environment or its observation space"
        raise checks.InputError(f"observation of {self.id}", value, bound, remedy)

    def _commands(self, action: np.ndarray) -> Any:
        if self.surface.first is not None:
            # Python's own integers: environments index dictionaries and tuples with their actions.
            return (action + self.surface.first).tolist()
        return action.astype(self.surface.kind).reshape(-1, *self.surface.shape)

    def _fresh(self, number: int) -> Handle:
        spare = self.spare.environments
        environments: list[Any] = []
        while len(environments) < number:
            try:
                environments.append(spare.pop())
            except IndexError:
                environments.append(opened(self.id, dict(self.settings), self.limit))
        past = [Episode() for _ in environments] if self.keeps else None
        return Handle(Pool(spare, environments, past), 0)

    def _current(self, inner: Handle) -> list[Any]:
        if inner.moment != inner.pool.moment:
            raise RuntimeError(f"an old world of {self.id}: its environments have been stepped since")
        return inner.pool.environments

    def _advanced(self, inner: Handle) -> Handle:
        inner.pool.moment += 1
        return Handle(inner.pool, inner.pool.moment)


Engine = CartPoles | Loop
"""What runs the environments.

`reset` starts the rows of `where` (bool `[E]`) from environment draws keyed by `token` and gives their observations
(other rows hold zeros); with no state before (`inner` None) `where` is every row. `step` moves the rows of `where`.
`keeping` is the same engine, whose states `packed` turns into arrays; `unpacked` is the way back.
"""
