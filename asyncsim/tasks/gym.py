"""A gymnasium environment, as full episodes or as consecutive segments."""

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.parts import choice, handed_on, made
from asyncsim.policies._policy import Policy
from asyncsim.step import versions
from asyncsim.step.batch import Draws
from asyncsim.tasks._task import Task, Turn
from asyncsim.tasks._worlds import PHYSICS, CartPoles, Engine, Loop, Moved, Surface, World, opened, settings_of, surface

_TEXTS = checks.table(__file__, "texts.toml")["gym"]


@dataclass(frozen=True)
class Gym(Task):
    """Task on a gymnasium environment, started from keyed draws; see `gym`. `limit`: tokens until truncation."""

    id: str
    trajectory: str
    horizon: int
    limit: int | None
    settings: tuple[tuple[str, Any], ...]
    surface: Surface
    engine: Engine

    header = ("id", "trajectory", "horizon", "limit")
    prompts = 1
    enumerable = False
    pays = True

    @property
    def segments(self) -> bool:  # type: ignore[override]
        """Whether a trajectory continues where the previous one in its slot stopped."""
        return self.trajectory == "segment"

    @property
    def whole(self) -> "Gym":
        """The same environment with full episodes; without a time limit, segments keep their length."""
        return replace(self, trajectory="episode", horizon=self.limit or self.horizon) if self.segments else self

    def policy(self, **settings: Any) -> Policy:
        """The default policy: an actor and a critic network, each with two hidden layers of 64 units.

        Arguments are those of `policies.mlp` that the environment does not fix, as `sampler`.
        """
        make = plugins.load("asyncsim.policies", "mlp", "policy")
        fixed = (self.surface.observation, self.surface.actions, self.surface.head)
        free = list(inspect.signature(make).parameters)[len(fixed) :]
        remedy = f"{self.id} itself has observation {fixed[0]}, actions {fixed[1]} and head {fixed[2]}"
        checks.each_of("policy argument", settings, free, remedy)
        policy: Policy = make(*fixed, **settings)
        return policy

    def check(self, policy: Any) -> None:
        """Refuse a policy for other observations or actions than the environment's."""
        for name in ("observation", "head", "actions"):
            value, wanted = getattr(policy, name, None), getattr(self.surface, name)
            bound = f"{wanted!r}, as {self.id} has it"
            remedy = f"write {name}={wanted!r} in the policy, or leave policy out for the task's own"
            checks.require(value == wanted, f"policy {name}", value, bound, remedy)

    def begin(self, prompt: Tensor, draws: Draws, carried: World | None = None) -> World:
        """Environments at the start of an episode, keyed by trajectory; segments continue from the world `carried`."""
        shape, number = (prompt.shape[0], prompt.shape[1], prompt.shape[2]), prompt.numel()
        nothing = np.full(number, np.nan)
        if carried is not None and self.segments:
            remedy = "keep replicates, groups and samples_per_group the same over a run"
            bound = f"of the batch's shape {shape}"
            checks.require(carried.shape == shape, "carried world", carried.shape, bound, remedy)
            return replace(carried, finished=nothing)
        before = carried if carried is not None and carried.shape == shape else None
        every, environment = np.ones(number, dtype=bool), draws.sibling("environment")
        inner, observation = self.engine.reset(before.inner if before else None, every, environment, 0)
        # A broken replicate stays broken and is reported once.
        broken = before.broken if before else np.zeros(shape[0], dtype=bool)
        world = World(shape, inner, observation, every, np.zeros(number), nothing, broken)
        bad = ~_readable(observation)
        if not bad.any():
            return world
        return replace(world, observation=_zeroed(observation, bad), broken=self._named(world, bad, draws))

    def keeping(self) -> "Gym":
        """The same task with world states that a checkpoint can pack, for segments only."""
        return replace(self, engine=self.engine.keeping()) if self.segments else self

    def packed(self, world: World | None) -> dict[str, Any] | None:
        """Pack a world state into plain containers; for full episodes, only which replicates have failed."""
        if world is None:
            return None
        arrays = ("observation", "alive", "running", "finished", "broken")
        inner = self.engine.packed(world.inner) if self.segments else None
        return {"shape": list(world.shape), "inner": inner, **{name: getattr(world, name) for name in arrays}}

    def unpacked(self, tree: dict[str, Any] | None) -> World | None:
        """Restore the world state that `packed` returned."""
        if tree is None:
            return None
        inner = None if tree["inner"] is None else self.engine.unpacked(tree["inner"])
        R, G, N = tree["shape"]
        return World(**{**tree, "shape": (R, G, N), "inner": inner})

    def observe(self, world: World) -> Tensor:
        """The policy's observation in a world state, `[R, G, N, D]`."""
        return versions.tensor(world.observation.reshape(*world.shape, -1))

    def step(self, world: World, action: Tensor, token: int, draws: Draws) -> Turn:
        """Step every environment by one action, and return the result with this token's reward."""
        array = action.detach().cpu().numpy().reshape(-1, self.surface.actions if self.surface.first is None else 1)
        # Actions as the environment takes them, int64 `[E]` or inside its box, `[E, D]`.
        chosen = self.surface.first is not None
        commands = array[:, 0] if chosen else np.clip(array, self.surface.low, self.surface.high)
        moved = self.engine.step(world.inner, commands, world.alive)
        bad, broken = ~(_readable(moved.observation) & np.isfinite(moved.reward)), world.broken
        if bad.any():
            # Zeros in place of what is not finite: no reward, and an end that is not bootstrapped.
            reward = np.where(bad, 0.0, moved.reward)
            moved = moved._replace(observation=_zeroed(moved.observation, bad), reward=reward)
            broken = self._named(world, bad, draws)
        ended = moved.terminated | moved.truncated | bad
        cut = moved.truncated & ~moved.terminated & ~bad
        running = world.running + moved.reward
        finished = np.where(ended, running, np.nan)
        after = replace(world, inner=moved.inner, running=running, finished=finished, broken=broken)
        after = self._restarted(after, moved, ended, token, draws) if self.segments else self._left(after, moved, ended)
        rows = (after.alive, moved.reward, ended, cut, moved.observation, after.finished)
        shaped = (versions.tensor(row.reshape(*world.shape, *row.shape[1:])) for row in rows)
        return Turn(after, *shaped)._replace(broken=versions.tensor(after.broken))

    def describe(self) -> dict[str, Any]:
        import gymnasium

        shown = {name: getattr(self.surface, name) for name in ("observation", "head", "actions")}
        shown |= {"engine": type(self.engine).__name__, "gymnasium": gymnasium.__version__}
        return {**super().describe(), "settings": dict(self.settings), **shown}

    def _left(self, world: World, moved: Moved, ended: np.ndarray) -> World:
        """Keep ended episodes in their final state, without further steps."""
        observation = moved.observation
        if not world.alive.all():
            observation = np.where(world.alive[:, None], observation, world.observation)
        return replace(world, observation=observation, alive=world.alive & ~ended)

    def _restarted(self, world: World, moved: Moved, ended: np.ndarray, token: int, draws: Draws) -> World:
        """Replace ended episodes by new ones, keyed by the token that ended them."""
        if not ended.any():
            return replace(world, observation=moved.observation)
        inner, fresh = self.engine.reset(world.inner, ended, draws.sibling("environment"), token + 1)
        bad = ended & ~_readable(fresh)
        broken = self._named(world, bad, draws) if bad.any() else world.broken
        observation = np.where(ended[:, None], _zeroed(fresh, bad), moved.observation)
        running = np.where(ended, 0.0, world.running)
        return replace(world, inner=inner, observation=observation, running=running, broken=broken)

    def _named(self, world: World, bad: np.ndarray, draws: Draws) -> np.ndarray:
        """Mark the replicates broken so far, and warn once for each, with its first failing trajectory."""
        R, G, N = world.shape
        rows = bad.reshape(R, G * N)
        for r in np.flatnonzero(rows.any(1) & ~world.broken):
            g, n = divmod(int(rows[r].argmax()), N)
            warnings.warn(
                f"{self.id}: an observation or reward of replicate {int(draws.replicates[r])}, group {g}, sample {n} "
                f"(trajectory {int(draws.ids[r, g, n])}) is not finite; the replicate stops learning here",
                RuntimeWarning,
                stacklevel=3,
            )
        return world.broken | rows.any(1)


def _readable(observation: np.ndarray) -> np.ndarray:
    """Whether all numbers of a row are finite in the precision of the networks, bool `[E]`."""
    with np.errstate(over="ignore"):
        return np.asarray(np.isfinite(observation.astype(np.float32, copy=False)).all(1))


def _zeroed(observation: np.ndarray, bad: np.ndarray) -> np.ndarray:
    return np.where(bad[:, None], 0, observation).astype(observation.dtype)


@made(**_TEXTS["gym"])
def gym(
    id: str = handed_on("CartPole-v1", **_TEXTS["id"]),
    trajectory: str = choice("episode", "segment", **_TEXTS["trajectory"]),
    steps: int | None = handed_on(None, **_TEXTS["steps"]),
    settings: Mapping[str, Any] | None = handed_on(None, "arguments of the environment"),
) -> Gym:
    """Task on a gymnasium environment, in full episodes or in consecutive segments.

    Token t is one step, s_{t+1} ~ p(. | s_t, a_t), with reward r_t at every token. R x G x N environments are one
    world. Their initial states come from keyed draws. That of trajectory i depends on (seed, replicate, i) only; that
    of an episode inside a segment also on the token that ended the one before it. The cart-pole runs on gymnasium's own
    vectorized physics, other ids in a loop of plain environments that are seeded at each reset. Box actions are clipped
    to the box before the step; the log-prob is that of the action before clipping. An observation or reward that is not
    finite (an observation: in float32) ends the episode with reward 0 and marks its replicate as broken.

    >>> task = gym("CartPole-v1", steps=32)
    >>> task.horizon, task.surface.observation, task.surface.head
    (32, 4, 'categorical')
    """
    if steps is not None:
        checks.integer("steps", steps, 1, "a trajectory has at least one step", checks.LARGEST)
    pairs = settings_of(settings)
    environment = opened(id, dict(pairs))
    limit = steps if trajectory == "episode" and steps is not None else environment.spec.max_episode_steps
    horizon = steps if trajectory == "segment" else limit
    remedy = "say how many steps a segment has"
    if trajectory == "episode":
        remedy = f"{id} has no time limit of its own: write steps=100, or max_episode_steps=100 in gymnasium.register"
    checks.require(horizon is not None, "steps", steps, "an integer >= 1", remedy)
    spaces = surface(environment)
    spec, module = environment.spec, id.rpartition(":")[0]
    environment.close()
    # The part before the colon is the module that registers the environment, in other processes too.
    full = f"{module}:{spec.id}" if module else spec.id
    vectorized = spec.vector_entry_point == PHYSICS and limit is not None
    engine: Engine = CartPoles(full, pairs, limit) if vectorized else Loop(full, pairs, limit, spaces)
    return Gym(full, trajectory, int(horizon or 0), limit, pairs, spaces, engine)
