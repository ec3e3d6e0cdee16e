"""Many environments as one world: gymnasium's physics or its environments, stepped together, started from keyed draws.

Arrays are flat over E = R G N environments; a row is the environment of one trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from asyncsim.base import checks
from asyncsim.step.batch import Draws
from asyncsim.tasks._environments import Surface, made

_PHYSICS = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"


class Moved(NamedTuple):
    """Result of one step of every environment; rows that do not move hold zeros.

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
    """Environments `[R, G, N]` between two tokens.

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


class Engine(Protocol):
    """What runs the environments.

    `reset` starts the rows of `where` (bool `[E]`) from environment draws keyed by `token` and gives their
    observations (other rows hold zeros); with no state before (`inner` None) `where` is every row. `step` moves the
    rows of `where`. `keeping` is the same engine, whose states `packed` turns into arrays; `unpacked` is the way back.
    """

    def reset(self, inner: Any, where: np.ndarray, draws: Draws, token: int) -> tuple[Any, np.ndarray]: ...

    def step(self, inner: Any, action: np.ndarray, where: np.ndarray) -> Moved: ...

    def keeping(self) -> Engine: ...

    def packed(self, inner: Any) -> dict[str, np.ndarray]: ...

    def unpacked(self, tree: dict[str, np.ndarray]) -> Any: ...


class Carts(NamedTuple):
    """State of the cart-pole physics: gymnasium's own vectorized environment, `[4, E]` float64 and int32 `[E]`.

    The environment is a tool that holds no state between calls, so that worlds are values: an old one can go on again.
    """

    physics: Any
    state: np.ndarray
    steps: np.ndarray


@dataclass(frozen=True)
class CartPoles:
    """gymnasium's vectorized cart-pole physics, with initial states from keyed draws instead of its own generator."""

    id: str
    settings: tuple[tuple[str, Any], ...]
    limit: int

    def reset(self, inner: Carts | None, where: np.ndarray, draws: Draws, token: int) -> tuple[Carts, np.ndarray]:
        """Rows of `where` at uniform positions, velocities, angles and rates in [-0.05, 0.05)."""
        inner = self._fresh(len(where)) if inner is None else inner
        uniform = np.stack([draws.uniform(token, draw).cpu().numpy().reshape(-1) for draw in range(4)])
        state = np.where(where, 0.1 * uniform - 0.05, inner.state)
        steps = np.where(where, np.int32(0), inner.steps)
        return Carts(inner.physics, state, steps), state.T.astype(np.float32)

    def step(self, inner: Carts, action: np.ndarray, where: np.ndarray) -> Moved:
        """One step of gymnasium's code for all rows, kept for those of `where`."""
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

    def keeping(self) -> CartPoles:
        """Itself: its states are arrays."""
        return self

    def packed(self, inner: Carts) -> dict[str, np.ndarray]:
        """State and steps."""
        return {"state": inner.state, "steps": inner.steps}

    def unpacked(self, tree: dict[str, np.ndarray]) -> Carts:
        """The same state in fresh physics."""
        return Carts(self._fresh(len(tree["steps"])).physics, tree["state"], tree["steps"])

    def _fresh(self, number: int) -> Carts:
        import gymnasium

        mode = "vector_entry_point"
        physics: Any = gymnasium.make_vec(self.id, number, mode, **dict(self.settings)).unwrapped
        physics.max_episode_steps = self.limit
        return Carts(physics, np.zeros((4, number)), np.zeros(number, dtype=np.int32))


@dataclass
class Episode:
    """The seed of an environment's latest reset and its actions since: all that its state follows from."""

    seed: int = 0
    actions: list[np.ndarray] = field(default_factory=list)


class Pool:
    """Environments of one chain of worlds, given back for later worlds when the last of these is gone.

    Environments change as they are stepped: `moment` counts steps and resets, so that an old world is not mistaken for
    the current one. `past`: what made each environment what it is, where that is kept.
    """

    def __init__(self, spare: list[Any], environments: list[Any], past: list[Episode] | None = None) -> None:
        self.spare, self.environments, self.moment = spare, environments, 0
        self.past = past

    def __del__(self) -> None:
        self.spare.extend(self.environments)


class Handle(NamedTuple):
    """A pool at one moment."""

    pool: Pool
    moment: int


class Spare:
    """Environments that nobody uses; a copy, or one sent to another process, begins empty."""

    def __init__(self) -> None:
        self.environments: list[Any] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return Spare, ()


@dataclass(frozen=True)
class Loop:
    """Plain environments in a loop, each seeded from keyed draws whenever it is reset.

    `limit`: tokens of an episode at most (None: any number); `surface`: what one environment shows and takes.
    """

    id: str
    settings: tuple[tuple[str, Any], ...]
    limit: int | None
    surface: Surface
    spare: Spare = field(default_factory=Spare, compare=False, repr=False)
    keeps: bool = field(default=False, compare=False, repr=False)

    def reset(self, inner: Handle | None, where: np.ndarray, draws: Draws, token: int) -> tuple[Handle, np.ndarray]:
        """Rows of `where` at the start of an episode whose every draw follows from a keyed seed."""
        inner = self._fresh(len(where)) if inner is None else inner
        environments = self._current(inner)
        seeds = draws.seeds(token).reshape(-1)
        observation = self._nothing(len(where))
        with np.errstate(over="ignore"):
            for row in np.flatnonzero(where):
                observation[row] = self._flat(environments[row].reset(seed=int(seeds[row]))[0])
                if inner.pool.past is not None:
                    inner.pool.past[row] = Episode(int(seeds[row]))
        return self._advanced(inner), observation

    def step(self, inner: Handle, action: np.ndarray, where: np.ndarray) -> Moved:
        """One step of the rows of `where`; the others are left alone."""
        environments = self._current(inner)
        E = len(where)
        observation, reward = self._nothing(E), np.zeros(E)
        terminated, truncated = np.zeros(E, dtype=bool), np.zeros(E, dtype=bool)
        commands = self._commands(action)
        with np.errstate(over="ignore"):
            for row in np.flatnonzero(where):
                value, reward[row], terminated[row], truncated[row], _ = environments[row].step(commands[row])
                observation[row] = self._flat(value)
                if inner.pool.past is not None:
                    inner.pool.past[row].actions.append(action[row])
        return Moved(self._advanced(inner), observation, reward, terminated, truncated)

    def keeping(self) -> Loop:
        """The same engine, which remembers how its environments came where they are."""
        return replace(self, keeps=True)

    def packed(self, inner: Handle) -> dict[str, np.ndarray]:
        """Seed and actions of every environment's episode: gymnasium's environments have no other common form."""
        past = inner.pool.past
        assert past is not None
        actions = [each for episode in past for each in episode.actions]
        return {
            "seeds": np.array([episode.seed for episode in past], dtype=np.int64),
            "counts": np.array([len(episode.actions) for episode in past], dtype=np.int64),
            "actions": np.stack(actions) if actions else np.zeros(0, dtype=np.int64),
        }

    def unpacked(self, tree: dict[str, np.ndarray]) -> Handle:
        """Environments in the same states: their episodes are played again."""
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

    def _nothing(self, number: int) -> np.ndarray:
        return np.zeros((number, self.surface.observation), dtype=self.surface.precision)

    def _flat(self, value: Any) -> np.ndarray:
        """An observation as numbers `[D]`; a discrete one as a unit vector; refuses what the space does not hold."""
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
        bound, remedy = f"{range_text}, as its observation space says", "mend the environment or its observation space"
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
                environments.append(made(self.id, dict(self.settings), self.limit))
        past = [Episode() for _ in environments] if self.keeps else None
        return Handle(Pool(spare, environments, past), 0)

    def _current(self, inner: Handle) -> list[Any]:
        if inner.moment != inner.pool.moment:
            raise RuntimeError(f"an old world of {self.id}: its environments have been stepped since")
        return inner.pool.environments

    def _advanced(self, inner: Handle) -> Handle:
        inner.pool.moment += 1
        return Handle(inner.pool, inner.pool.moment)


def engine(
    id: str, vectorized: str | None, settings: tuple[tuple[str, Any], ...], limit: int | None, surface: Surface
) -> Engine:
    """What runs the environments of an id: the cart-pole on gymnasium's own vectorized physics, others in a loop."""
    if vectorized == _PHYSICS and limit is not None:
        return CartPoles(id, settings, limit)
    return Loop(id, settings, limit, surface)
