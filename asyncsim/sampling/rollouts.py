"""Rollouts: trajectories drawn token by token at each token's behavior version, and arranged as a batch.

A trajectory is the same whenever it is drawn, because every draw is keyed by replicate, trajectory and token.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins, rng
from asyncsim.fusing.tape import none, recording
from asyncsim.policies._policy import Act, Keys, Moves, Policy, Written
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights, tensor
from asyncsim.tasks._task import Outcomes, Task, Turn

COLUMNS = ("state", "action", "mask", "outputs", "index", "full", "inserted")
"""Fields of trajectories that are drawn; the others are state for further drawing, or data from the task."""
Origin = tuple[np.ndarray, int, np.ndarray, View | None]
"""Versions of tokens, the version that trains them, ids of trajectories, and the view of weights that drew them."""


@dataclass
class Trajectories:
    """Generated trajectories as columns `[R, G, N, T, ...]` that are filled from the left.

    `state` and `mask` are one token ahead of `action` and of the `outputs` recorded at the draw, so a trajectory can be
    continued from any token. `mask` is 1 on every existing token; `inserted` is 1 on those that the environment wrote,
    None if it writes none. `memory` is the policy's; `world` the state after the last token; `broken` `[R]`, failed
    environments. `per_token` holds reward, end and finished return of every token if the task pays per token.
    """

    state: Tensor
    action: Tensor | None
    mask: Tensor
    outputs: Outputs = field(default_factory=dict)
    index: Tensor | None = None
    full: bool | None = None
    memory: Any = None
    world: Any = None
    per_token: dict[str, Tensor] = field(default_factory=dict)
    broken: Tensor | None = None
    inserted: Tensor | None = None

    @property
    def own(self) -> Tensor:
        """1 on tokens that the policy sampled, `[R, G, N, T]`, as in the mask of a batch."""
        return self.mask if self.inserted is None else self.mask * (1.0 - self.inserted)

    def packed(self, policy: Policy) -> dict[str, Any]:
        """Columns of trajectories that are continued later, in plain containers."""
        columns = {name: getattr(self, name) for name in COLUMNS}
        return {**columns, "memory": policy.packed(self.memory)}

    @classmethod
    def unpacked(cls, tree: dict[str, Any], policy: Policy) -> "Trajectories":
        """Restore the trajectories that `packed` returned."""
        return cls(**{**tree, "memory": policy.unpacked(tree["memory"])})


@dataclass(frozen=True)
class Sampler:
    """Settings of sampling that stay the same for a block of replicates."""

    task: Task
    policy: Policy
    samples: int
    seed: int
    replicates: np.ndarray
    realization: np.ndarray
    redundant: int = 0

    @cached_property
    def outcomes(self) -> Outcomes:
        """Outcomes of the task for every prompt, enumerated once for all batches."""
        return self.task.outcomes(torch.arange(self.task.prompts))

    @cached_property
    def moves(self) -> Moves | None:
        """Transition table of trajectories, if task and policy consist of the package's own parts; else None."""
        return self.task.moves if plugins.own(self.task) and plugins.own(self.policy) else None

    def at_once(self, view: View) -> bool:
        """Whether the policy samples all tokens without calling the task in between."""
        return self.task.stops is not None and self.policy.writes(view.weights)

    @cached_property
    def told(self) -> tuple[Tensor, Tensor]:
        """Replicates `[R]` and the key `[2]` of their random draws, as inputs of a compiled program."""
        key = rng.Stream(self.seed, "rollout").key
        return torch.as_tensor(self.replicates), torch.tensor([int(k) for k in key]).reshape(1, 2)

    def draws(self, trajectory: np.ndarray) -> Draws:
        """Keyed random draws for the trajectories with ids int64 `[M, G, N]`."""
        rows, numbered = (self.replicates, self.realization, trajectory), self.samples + self.redundant
        return Draws(rng.Stream(self.seed, "rollout"), *rows, samples=numbered, prompts=self.task.prompts)

    def prompts(self, trajectory: np.ndarray) -> Tensor:
        """Prompt index of every sample, int64 `[R, G, N]`: group g has prompt g mod prompts."""
        if self.task.prompts == 1:
            return torch.zeros((len(self.realization), *trajectory.shape[1:]), dtype=torch.int64)
        return self.prompt_of(tensor(trajectory[self.realization]))

    def prompt_of(self, ids: Tensor) -> Tensor:
        """Prompt index of the trajectories with given ids, int64 `[R, G, N]`."""
        return (ids // (self.samples + self.redundant) % self.task.prompts).expand(len(self.realization), -1, -1)

    def installed(self, version: int, weights: Weights) -> Weights:
        """Weights of a published version as installed in every replicate's sampling engine."""
        return self.policy.install(weights, Keys(self.seed, self.replicates, version))

    def record(self, view: View, trajectories: Trajectories) -> Outputs:
        """Score trajectories at the weights that generated them: the policy's first output (`log_prob`)."""
        batch = self.unrewarded(view, trajectories)
        if self.policy.mismatched:
            outputs = {**self.policy.record(view, batch), **self.policy.compared(view, batch)}
        else:
            outputs = self.policy.forward(view, batch, self.policy.outputs[:1]).outputs
        trajectories.index = batch.index
        return outputs

    def unrewarded(self, view: View, trajectories: Trajectories) -> Batch:
        """Batch of trajectories without rewards and versions, to be scored with the weights of a view."""
        nothing, empty = np.zeros((1, 1, 1), dtype=np.int64), trajectories.mask[..., 0]
        return self._batch(trajectories, empty, empty, 0, (nothing[..., None], 0, nothing, view))

    def earned(self, trajectories: Trajectories, draws: Draws) -> Tensor:
        """Reward of each trajectory, `[R, G, N]`; the sum over its tokens if the task pays per token."""
        if self.task.pays:
            return trajectories.per_token["reward"].sum(-1)
        assert trajectories.action is not None
        mask = trajectories.mask
        reward = self.task.earn(trajectories.state, trajectories.action, mask, draws)
        # Whole numbers would make whole masses, 0 for several samples.
        fits = isinstance(reward, Tensor) and reward.is_floating_point() and reward.shape == mask.shape[:3]
        bound = f"a tensor of floats {list(mask.shape[:3])}: replicates, groups, samples"
        checks.require(fits, "reward", reward, bound, "fix what `earn` of the task returns")
        return reward

    def batch(
        self, drawn: Trajectories, reward: Tensor, size: float, origin: Origin, mass: Tensor | None = None
    ) -> Batch:
        """Arrange trajectories as a batch, with equal masses by default; refuses rewards that are not finite."""
        # The sum is finite iff every reward is (rewards near the largest double aside, which are refused as well).
        if not math.isfinite(reward.sum().item()):
            r, g, n = (int(x[0]) for x in torch.where(~(reward.abs() < 1e300)))
            where = f"reward[replicate {self.replicates[r]}, group {g}, sample {n}]"
            remedy = "fix the task's reward, or map failures to a number"
            raise checks.InputError(where, reward[r, g, n].item(), "finite", remedy)
        if mass is None:
            mass = torch.full((1, *reward.shape[1:]), 1.0 / reward.shape[2], dtype=reward.dtype)
            if self.policy.mismatched:
                drawn.outputs = self.policy.misreport(drawn.outputs, self.draws(origin[2]))
        return self._batch(drawn, reward, mass, size, origin)

    def _batch(self, drawn: Trajectories, reward: Tensor, mass: Tensor, size: float, origin: Origin) -> Batch:
        assert drawn.action is not None
        data = (drawn.action, drawn.state, drawn.own, reward, mass, size, drawn.outputs)
        (version, train_version, trajectory, view), ledger = origin, drawn.per_token
        said = (ledger.get("reward"), ledger.get("ended"), ledger.get("finished"))
        keys = (view, version, train_version, self.realization, trajectory)
        return Batch(*data, *keys, drawn.index, drawn.full, *said, drawn.broken, drawn.world)


def generate(
    sampler: Sampler,
    view: View,
    draws: Draws,
    prompt: Tensor,
    before: Trajectories | None = None,
    where: Tensor | None = None,
    carried: Any = None,
) -> Trajectories:
    """Sample every token of trajectories in order, each from the weights that `view` assigns to it.

    With `where` (bool `[R, G, N, T]`) only those tokens are drawn, given the columns `before`. The others keep their
    earlier values. Segments continue from the state `carried`.
    """
    task = sampler.task
    world = task.begin(prompt, draws, carried)
    if before is None and where is None and sampler.moves is not None and recording() is None:
        walked = sampler.policy.walk(view, sampler.moves, world, draws, task.horizon)
        if walked is not None:
            drawn = Trajectories(*walked)
            if sampler.policy.mismatched:
                drawn.outputs |= sampler.policy.compared(view, sampler.unrewarded(view, drawn))
            return drawn
    if sampler.at_once(view):
        return _written(sampler, view, draws, task.observe(world), before, where)
    trajectories = before or _begin(sampler, world, prompt)
    silent = False
    for t in range(task.horizon):
        # Every trajectory has a first token, which needs no check.
        active = None
        if t > 0 or where is not None:
            active = trajectories.mask[..., t] > 0
            if where is not None:
                # What the policy read is the world of tasks that can be taken up again; it stands in the columns.
                active, world = active & where[..., t], trajectories.state[:, :, :, 0 if task.still else t]
            if t > 0 and none(active):
                continue
        if task.tools:
            act = _replied(sampler, trajectories, view, world, draws, t, active)
        else:
            act = sampler.policy.act(view.token(t), task.observe(world), draws, t, trajectories.memory, active)
        silent = not act.outputs
        rows = None if where is None else active
        trajectories.action = _put(trajectories.action, act.action, t, task.horizon, rows)
        for name, value in act.outputs.items():
            trajectories.outputs[name] = _put(trajectories.outputs.get(name), value, t, task.horizon, rows)
        if t + 1 < task.horizon or task.pays:
            turn = task.step(world, act.action, t, draws)
            world = turn.state
            _follow(sampler, trajectories, view, turn, t, trajectories.mask[..., t] > 0 if active is None else active)
    # Only environments go on from a world; others would keep memory that the next batch can use.
    trajectories.world = world if task.pays else None
    _complete(sampler, trajectories, view, where, silent)
    return trajectories


def _written(
    sampler: Sampler, view: View, draws: Draws, seen: Tensor, before: Trajectories | None, where: Tensor | None
) -> Trajectories:
    """Trajectories whose tokens the policy draws without calling the task in between."""
    old = before or _blank(sampler, seen)
    columns, stops = Written(old.action, old.mask, old.outputs), sampler.task.stops
    assert stops is not None
    drawn = Trajectories(old.state, *sampler.policy.write(view, seen, draws, stops, columns, where))
    _complete(sampler, drawn, view, where, False)
    return drawn


def _blank(sampler: Sampler, seen: Tensor) -> Trajectories:
    """Columns without drawn tokens."""
    mask = _first((*seen.shape[:3], sampler.task.horizon))
    return Trajectories(seen.unsqueeze(3), torch.zeros_like(mask, dtype=torch.int64), mask)


class Asked(NamedTuple):
    """Request to sample trajectories int64 `[M, G, N]`: their earlier tokens (None: none), and the tokens to sample."""

    ids: np.ndarray
    before: Trajectories | None
    where: np.ndarray


def generate_each(sampler: Sampler, view: View, asked: Sequence[Asked], axis: int) -> list[Trajectories]:
    """Run `generate` for several requests at one view, in a single pass if the policy samples all tokens at once."""
    if not sampler.at_once(view):
        return [
            generate(sampler, view, sampler.draws(ids), sampler.prompts(ids), before, tensor(where))
            for ids, before, where in asked
        ]
    ids, where = (np.concatenate(arrays, axis) for arrays in zip(*((e.ids, e.where) for e in asked), strict=True))
    prompt, draws, sizes = sampler.prompts(ids), sampler.draws(ids), [each.ids.shape[axis] for each in asked]
    seen = sampler.task.observe(sampler.task.begin(prompt, draws)).split(sizes, axis)
    parts = [each.before or _blank(sampler, some) for each, some in zip(asked, seen, strict=True)]
    # Put them side by side; outputs that some do not have yet are 0 there.
    names = dict.fromkeys(name for part in parts for name in part.outputs)
    like = {name: next(part.outputs[name] for part in parts if name in part.outputs) for name in names}
    outputs = {
        name: torch.cat([p.outputs.get(name, x.new_zeros(*p.mask.shape, *x.shape[4:])) for p in parts], axis)
        for name, x in like.items()
    }
    state, action, mask = (torch.cat([getattr(p, name) for p in parts], axis) for name in ("state", "action", "mask"))
    drawn = generate(sampler, view, draws, prompt, Trajectories(state, action, mask, outputs), tensor(where))
    assert drawn.action is not None
    split = {name: value.split(sizes, axis) for name, value in drawn.outputs.items()}
    states, actions, masks = (x.split(sizes, axis) for x in (drawn.state, drawn.action, drawn.mask))
    return [
        Trajectories(states[n], actions[n], masks[n], {name: each[n] for name, each in split.items()})
        for n in range(len(asked))
    ]


def _replied(
    sampler: Sampler, trajectories: Trajectories, view: View, world: Any, draws: Draws, t: int, active: Tensor | None
) -> Act:
    """Draw a token that the environment may write instead; the policy reads such tokens."""
    task, action = sampler.task, trajectories.action
    present = trajectories.mask[..., t] > 0 if active is None else active
    written = torch.zeros((*present.shape, 0), dtype=torch.int64) if action is None else action[..., :t]
    reply = task.reply(world, written, t, draws)
    inserted = present & (reply >= 0)
    # Ask the policy for the rest, and let it read what was written.
    own = present & (reply < 0)
    act = sampler.policy.act(view.token(t), task.observe(world), draws, t, trajectories.memory, own)
    sampler.policy.hear(trajectories.memory, t, reply, inserted)
    trajectories.inserted = _put(trajectories.inserted, inserted.to(trajectories.mask.dtype), t, task.horizon, active)
    return Act(torch.where(inserted, reply, act.action), act.outputs)


def _begin(sampler: Sampler, world: Any, prompt: Tensor) -> Trajectories:
    """Empty columns with the state and mask of the first token."""
    task, seen = sampler.task, sampler.task.observe(world)
    mask = _first((*prompt.shape, task.horizon))
    state = _put(None, seen, 0, 1 if task.still else task.horizon, None)
    # The first token is always there, so one-token trajectories have nothing to mask.
    trajectories = Trajectories(state, None, mask, full=True if task.horizon == 1 else None)
    trajectories.memory = sampler.policy.remember(seen)
    if task.pays and sampler.policy.critic:
        trajectories.outputs["successor_value"] = torch.zeros_like(mask)
    return trajectories


def _first(shape: tuple[int, ...]) -> Tensor:
    """The mask `[R, G, N, T]` before the first token is drawn."""
    mask = (torch.ones if shape[-1] == 1 else torch.zeros)(shape, dtype=torch.float64)
    if shape[-1] > 1:
        mask[..., 0] = 1.0
    return mask


def _follow(sampler: Sampler, trajectories: Trajectories, view: View, turn: Turn, t: int, active: Tensor) -> None:
    task, going = sampler.task, turn.going & active
    if task.watches:
        assert trajectories.action is not None
        going = going & task.goes_on(trajectories.action[..., : t + 1])
    last = t + 1 == task.horizon
    if not last:
        mask = trajectories.mask
        mask[..., t + 1] = torch.where(active, going.to(mask.dtype), mask[..., t + 1])
        if not task.still:
            _put(trajectories.state, task.observe(turn.state), t + 1, task.horizon, active)
    if not task.pays:
        return
    assert turn.reward is not None and turn.ended is not None and turn.cut is not None
    nothing = torch.zeros((), dtype=turn.reward.dtype)
    ended, ledger = turn.ended & active, trajectories.per_token
    ledger["reward"] = _put(ledger.get("reward"), torch.where(active, turn.reward, nothing), t, task.horizon, None)
    ledger["ended"] = _put(ledger.get("ended"), ended, t, task.horizon, None)
    # A world that does not count what its episode has earned began with the trajectory.
    earned = ledger["reward"][..., : t + 1].sum(-1) if turn.finished is None else turn.finished
    ledger["finished"] = _put(ledger.get("finished"), torch.where(ended, earned, nothing), t, task.horizon, None)
    trajectories.broken = turn.broken
    # Value what a cut leaves out.
    cut = (turn.cut & active) | (going & ~ended if last else torch.zeros_like(going))
    if sampler.policy.critic and bool(cut.any()):
        assert turn.successor is not None
        value = sampler.policy.value(view.token(t), turn.successor)
        trajectories.outputs["successor_value"][..., t] = torch.where(cut, value, torch.zeros((), dtype=value.dtype))


def _complete(sampler: Sampler, trajectories: Trajectories, view: View, where: Tensor | None, silent: bool) -> None:
    trajectories.index = None
    fresh: Outputs = sampler.record(view, trajectories) if silent else {}
    if sampler.policy.mismatched and not silent:
        fresh |= sampler.policy.compared(view, sampler.unrewarded(view, trajectories))
    for name, value in fresh.items():
        known = trajectories.outputs.get(name)
        earlier = torch.zeros_like(value) if known is None else known
        trajectories.outputs[name] = value if where is None else torch.where(where, value, earlier)


def _put(column: Tensor | None, value: Tensor, t: int, horizon: int, rows: Tensor | None) -> Tensor:
    """Write values `[R, G, N, ...]` of token t to columns `[R, G, N, T, ...]`, which are made if they do not exist."""
    if column is None:
        if horizon == 1:
            return value.unsqueeze(3)
        column = value.new_zeros((*value.shape[:3], horizon, *value.shape[3:]))
    cell = column[:, :, :, t]
    if rows is None:
        cell.copy_(value)
    else:
        cell.copy_(torch.where(rows.reshape(rows.shape + (1,) * (value.ndim - 3)), value, cell))
    return column


def monte_carlo(
    sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View, carried: Any = None
) -> Batch:
    """Sample a batch of N trajectories per group, each with mass 1/N; segments continue from the state `carried`."""
    trajectories, reward = rolled_out(sampler, view, sampler.draws(trajectory), sampler.prompts(trajectory), carried)
    return sampler.batch(trajectories, reward, sampler.samples, (version, train_version, trajectory, view))


def rolled_out(
    sampler: Sampler, view: View, draws: Draws, prompt: Tensor, carried: Any = None
) -> tuple[Trajectories, Tensor]:
    """Sample trajectories, and return them with their rewards `[R, G, N]`."""
    trajectories = generate(sampler, view, draws, prompt, carried=carried)
    return trajectories, sampler.earned(trajectories, draws)


def counts(
    sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View, carried: Any = None
) -> Batch:
    """Batch of a one-token task's outcomes with mass count/N: Monte Carlo samples, counted per outcome."""
    task = sampler.task
    bound = "monte_carlo or enumerate for several tokens"
    checks.require(task.horizon == 1, "sampling", "counts", bound, "use sampling='monte_carlo'")
    drawn = monte_carlo(sampler, version, train_version, trajectory, view)
    bound = "monte_carlo for continuous actions"
    checks.require(not drawn.action.is_floating_point(), "sampling", "counts", bound, "use sampling='monte_carlo'")
    version, view = _by_group(version, view)
    outcomes, reward, _ = _enumerate(sampler, trajectory)
    _listed(sampler, view, outcomes)
    # Outcomes are ordered by action, then by reward: a random reward has two, of which the first is success.
    assert outcomes.action is not None
    per_action = reward.shape[2] // int(outcomes.action.max() + 1)
    first = drawn.action[..., 0] * per_action
    outcome = first + (drawn.reward != torch.gather(reward, 2, first)).long()
    number = torch.zeros_like(reward).scatter_add_(2, outcome, torch.ones_like(drawn.reward))
    mass = number / sampler.samples
    batch = sampler.batch(outcomes, reward, sampler.samples, (version, train_version, trajectory, view), mass)
    return replace(batch, cells=True)


def enumerate_outcomes(
    sampler: Sampler, version: np.ndarray, train_version: int, trajectory: np.ndarray, view: View, carried: Any = None
) -> Batch:
    """Batch of every outcome with its probability under the behavior weights: the population, N -> infinity."""
    version, view = _by_group(version, view)
    outcomes, reward, chance = _enumerate(sampler, trajectory)
    mass = chance * torch.exp(_listed(sampler, view, outcomes))
    return sampler.batch(outcomes, reward, math.inf, (version, train_version, trajectory, view), mass)


SAMPLING: dict[str, Any] = {"monte_carlo": monte_carlo, "counts": counts, "enumerate": enumerate_outcomes}


def _enumerate(sampler: Sampler, trajectory: np.ndarray) -> tuple[Trajectories, Tensor, Tensor]:
    """Outcomes of each group's prompt as trajectories `[R, G, O, T]`, rewards and their chances `[R, G, O]`."""
    prompt = sampler.prompts(trajectory)[..., 0]
    R, G = prompt.shape
    known = sampler.outcomes

    def spread(x: Tensor) -> Tensor:
        return x[prompt.reshape(-1)].reshape(R, G, *x.shape[1:])

    ledger = {name: spread(value) for name, value in known.per_token.items()}
    trajectories = Trajectories(spread(known.state), spread(known.action), spread(known.mask), per_token=ledger)
    return trajectories, spread(known.reward), spread(known.chance)


def _listed(sampler: Sampler, view: View, outcomes: Trajectories) -> Tensor:
    """Record enumerated outcomes, and return their log-probs under the sampling distribution, `[R, G, O]`."""
    policy = sampler.policy
    law = policy.law(view, sampler.unrewarded(view, outcomes)) if policy.mismatched else None
    outcomes.outputs = sampler.record(view, outcomes)
    # A policy without log-probs has one outcome, which is certain.
    log_prob = outcomes.outputs.get("log_prob", torch.zeros_like(outcomes.mask)) if law is None else law
    log_prob = torch.where(outcomes.mask > 0, log_prob, torch.zeros((), dtype=log_prob.dtype))
    if law is not None:
        outcomes.mask = outcomes.mask * (log_prob > -math.inf).all(-1, keepdim=True)
    return log_prob.sum(-1)


def _by_group(version: np.ndarray, view: View) -> tuple[np.ndarray, View]:
    """Versions and view with one sample per group; counts and enumeration need one version per group and token."""
    bound = "one per group for counts and enumeration"
    remedy = "use sampling='monte_carlo', or a schedule with per='group'"
    checks.require(bool((version == version[:, :, :1]).all()), "version", "different inside a group", bound, remedy)
    slot = view.slot if view.single else view.slot[:, :, :1]
    return version[:, :, :1], View(view.weights, slot, view.realization)
