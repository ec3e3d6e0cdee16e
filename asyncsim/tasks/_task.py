"""What every task offers, what one action leads to, and the enumeration of a task's outcomes."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.policies._policy import Moves, Policy
from asyncsim.step.batch import Batch, Outputs
from asyncsim.step.versions import Weights


class Turn(NamedTuple):
    """Result of one action in a task: next state, whether the trajectory continues, and rewards, each `[R, G, N]`.

    `state`: the next world; `going`: whether the trajectory goes on, else its later tokens are masked; `reward` of this
    token, None where everything is earned at the end; `ended`: an episode ended here; `cut`: its future was cut off, so
    that a critic's value of `successor` replaces it; `successor`: the observation behind the action, before any reset,
    `[R, G, N, D]`; `finished`: return of the episode that ended here (None: what the trajectory has earned, which then
    is the episode); `broken` (bool `[R]`): the environment failed.
    """

    state: Any
    going: Tensor
    reward: Tensor | None = None
    ended: Tensor | None = None
    cut: Tensor | None = None
    successor: Tensor | None = None
    finished: Tensor | None = None
    broken: Tensor | None = None


@dataclass(frozen=True)
class Outcomes:
    """All possible outcomes of one trajectory per prompt, with their rewards and probabilities.

    `state`, `action`, `mask`: `[G, O, T]` (actions may carry a trailing axis; mask 1 on the policy's own tokens);
    `reward` and `chance`, `[G, O]`: the reward of the outcome, and its probability given the policy's actions, with
    that of what the environment wrote. O outcomes. `complete`: whether these are all samples that can be drawn, or only
    their mean (the quadratic without its noise). `per_token`: `reward` and `ended` of every token, `[G, O, T]`, of
    tasks that pay by token.
    """

    state: Tensor
    action: Tensor
    mask: Tensor
    reward: Tensor
    chance: Tensor
    complete: bool = True
    per_token: dict[str, Tensor] = field(default_factory=dict)


class Task:
    """Base of all tasks: prompts and rewards; by default, the policy observes the full state.

    `horizon` is T; group g asks prompt g mod `prompts`. `enumerable`: whether `outcomes` can list what happens;
    `listed`: how many outcomes of a prompt it lists, and `closed`: whether `exact` needs none of them, for metrics that
    cost that much; `pays`: whether `step` gives every token its reward, else `earn` gives the trajectory's; `still`:
    whether what the policy reads stays the same over tokens; `segments`: whether a trajectory goes on where the one
    before it in its slot stopped; `tools`: whether the environment writes some tokens of a trajectory itself, so that
    `reply` says which; `watches`: whether `goes_on` ends trajectories by several tokens; `moving`: whether rewards
    depend on the current weights; `earnings`: least and largest return; `optimum`: the best expected return, NaN where
    it is unknown. `solved`: whether `expected` has the return of a policy for a few percent of an update. `moves`: how
    trajectories go on. `stops`: ids that end one, where nothing but the last token does so. `header`: what `describe`
    names.
    """

    horizon: int
    prompts: int
    enumerable = True
    pays = False
    listed = 0
    closed = True
    still = False
    segments = False
    tools = False
    watches = False
    moving = False
    earnings = (-math.inf, math.inf)
    optimum = math.nan
    solved = False
    moves: Moves | None = None
    stops: tuple[int, ...] | None = None
    header: ClassVar[tuple[str, ...]] = ()

    @property
    def whole(self) -> "Task":
        """Variant of the task on which the return is estimated from samples if the task is not `solved`."""
        return self

    def policy(self) -> Policy:
        """The task's default policy, which is trained unless a spec names another policy."""
        raise NotImplementedError

    def adapted(self, policy: Policy) -> Policy:
        """Adapt a policy to the form in which this task trains it."""
        return policy

    def fit(self, policy: Any) -> Self:
        """Return the task fitted to a policy; refuse a policy that does not fit."""
        self.check(policy)
        return self

    def check(self, policy: Any) -> None:
        """Refuse a policy that does not fit the task."""

    def begin(self, prompt: Tensor, draws: Any, carried: Any = None) -> Any:
        """First world state of each sample; `carried` is the state at the end of the previous batch, for segments."""
        return torch.zeros_like(prompt)

    def keeping(self) -> "Task":
        """The same task with world states that a checkpoint can pack."""
        return self

    def packed(self, world: Any) -> Any:
        """Pack a carried world state into plain containers, numbers and tensors; requires `keeping` before."""
        return world

    def unpacked(self, tree: Any) -> Any:
        """Restore the world state that `packed` returned."""
        return tree

    def observe(self, world: Any) -> Tensor:
        """The policy's observation in a world state."""
        observed: Tensor = world
        return observed

    def reply(self, world: Any, written: Tensor, token: int, draws: Any) -> Tensor:
        """Token int64 `[R, G, N]` that the environment writes after those `written` `[R, G, N, t]`."""
        return torch.full(written.shape[:3], -1)

    def step(self, world: Any, action: Tensor, token: int, draws: Any) -> Turn:
        """Apply an action to the world state and return the result."""
        return Turn(world, torch.ones(world.shape, dtype=torch.bool))

    def goes_on(self, written: Tensor) -> Tensor:
        """Whether trajectories with tokens `written` `[R, G, N, t]` continue, bool `[R, G, N]`; see `watches`."""
        return torch.ones(written.shape[:3], dtype=torch.bool)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Any) -> Tensor:
        """Reward of each trajectory from all its tokens (`mask` is 1 on the environment's tokens too)."""
        raise checks.InputError("reward", "at the end", "of every token", "take it from what `step` returns")

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Reward that enters the advantage, less the penalty if the task has one."""
        return batch.reward

    def token_rewards(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Token rewards that enter the advantage, `[R, G, N, T]`."""
        return batch.rewards

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Enumerate every outcome of each of the given prompts."""
        raise self.refusal("one whose outcomes can be listed", "use sampling='monte_carlo'")

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return of a policy and its gradient, `([R], [R, P])`."""
        raise self.refusal("one with an exact return", "estimate it from episodes, or use a bandit task")

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Expected return J `[R]` from parameters and prepared weights, for tasks with a cheap closed form."""
        return self.exact(policy, parameters)[0]

    def describe(self) -> dict[str, Any]:
        """Settings of the task for the header of a run."""
        return {"task": plugins.name_of(self), **{name: getattr(self, name) for name in self.header}}

    def refusal(self, bound: str, remedy: str) -> checks.InputError:
        """Make the error for a capability that the task lacks, under the task's name."""
        return checks.InputError("task", getattr(self, "id", plugins.name_of(self)), bound, remedy)
