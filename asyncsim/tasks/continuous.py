"""Tasks with continuous actions whose return has a closed form."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.base.parts import handed_on, made, real, whole
from asyncsim.policies._policy import Policy
from asyncsim.policies.continuous import WIDTH, feedback, gaussian
from asyncsim.policies.continuous import quadratic as quadratic_policy
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.tasks._task import Outcomes, Task, Turn

_OWN, _RANGES = "a task whose own policy is `policies.", "values outside these ranges"
_SPACING, _REACH = 0.8, 11.2
"""Actions that stand for all: their distance and their reach, in widths. Sums of a normal law over a grid converge
exponentially, with exp(-2 pi^2/spacing^2): to 4e-14 at this distance."""
_OUTCOMES = 1_000_000
_FAR = 1e140
"""States are held there, and costs at its square: a policy that runs away stops its replicate, and no other."""


@dataclass(frozen=True)
class ContinuousTask(Task):
    """Base of tasks with one prompt that cannot be enumerated; one action unless a subclass says otherwise."""

    prompts = 1
    enumerable = False
    solved = True

    def describe(self) -> dict[str, Any]:
        return {"task": plugins.name_of(self), **vars(self)}


@dataclass(frozen=True)
class GaussianBandit(ContinuousTask):
    """Reward -h |a - c|^2 / 2 for a normal action; see `gaussian_bandit`."""

    curvature: float
    target: float
    width: float
    dimension: int
    start: float

    horizon = 1

    def policy(self) -> Policy:
        return gaussian(self.dimension, self.width, self.start)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Reward of each action, `[R, G, N]`."""
        return -0.5 * self.curvature * ((action[..., 0, :] - self.target) ** 2).sum(-1)

    def check(self, policy: Any) -> None:
        """Refuse a policy with another dimension, or without a width."""
        traits = (getattr(policy, "dimension", None), hasattr(policy, "width"))
        bound, remedy = f"{self.dimension}, of a normal policy", "leave policy out for the task's own"
        checks.require(traits == (self.dimension, True), "policy dimension", traits[0], bound, remedy)

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J = -h (|theta - c|^2 + D width^2) / 2 with the policy's width, and its gradient -h (theta - c)."""
        error = parameters - self.target
        value = -0.5 * self.curvature * ((error**2).sum(-1) + self.dimension * policy.width**2)
        return value, -self.curvature * error


@made("textbook (linear-quadratic bandit)", f"{_OWN}gaussian`", _RANGES)
def gaussian_bandit(
    curvature: float = real(1.0, "h in reward per squared action", 0.0, above=True, remedy="give a positive curvature"),
    target: float = real(0.0, "c of every coordinate", remedy="give a finite target"),
    width: float = WIDTH,
    dimension: int = whole(1, "D", 1, checks.LARGEST, remedy="give the action a dimension"),
    start: float = real(0.0, "initial mean", remedy="give a finite start"),
) -> GaussianBandit:
    """A normally distributed action with a quadratic reward, on which stale REINFORCE is exactly linear.

    a ~ N(theta, width^2 I), reward -h |a - c|^2 / 2, so J = -h (|theta - c|^2 + D width^2) / 2. With a leave-one-out
    advantage REINFORCE has E g = -h (theta_behavior - c) exactly.

    >>> task = gaussian_bandit(curvature=2.0, target=1.0)
    >>> task.exact(task.policy(), task.policy().initial(1, __import__("torch").float64))[1].item()
    2.0
    """
    return GaussianBandit(curvature, target, width, dimension, start)


@dataclass(frozen=True)
class Quadratic(ContinuousTask):
    """Minimize sum_i lambda_i x_i^2 / 2 from noisy gradients; see `quadratic`."""

    curvatures: tuple[float, ...]
    noise: float
    start: float

    horizon = 1
    enumerable = True

    def policy(self) -> Policy:
        return quadratic_policy(self.curvatures, self.noise, self.start)

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        return torch.zeros(state.shape[:3], dtype=action.dtype)

    def check(self, policy: Any) -> None:
        """Refuse a policy with another spectrum."""
        curvatures = getattr(policy, "curvatures", None)
        remedy = "leave policy out for the task's own"
        checks.require(curvatures == self.curvatures, "policy curvatures", curvatures, f"{self.curvatures}", remedy)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """The population, which is one outcome without noise."""
        shape = (len(prompt), 1)
        return Outcomes(
            torch.zeros((*shape, 1), dtype=torch.int64),
            torch.zeros((*shape, 1, len(self.curvatures)), dtype=torch.float64),
            torch.ones((*shape, 1), dtype=torch.float64),
            torch.zeros(shape, dtype=torch.float64),
            torch.ones(shape, dtype=torch.float64),
            complete=self.noise == 0.0,
        )

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J = -sum lambda x^2 / 2 and its gradient -lambda x."""
        gradient = -torch.tensor(self.curvatures, dtype=parameters.dtype) * parameters
        return 0.5 * (gradient * parameters).sum(-1), gradient


@made("textbook", f"{_OWN}quadratic` and whose return is minus the loss", _RANGES)
def quadratic(
    curvatures: Any = handed_on((1.0,), "lambda, positive, one per coordinate"),
    noise: float = handed_on(1.0, "standard deviation per coordinate of one sample's gradient noise"),
    start: float = handed_on(0.0, "initial value of every coordinate"),
) -> Quadratic:
    """A noisy quadratic of any spectrum, which is the linear delayed model itself.

    Loss sum_i lambda_i x_i^2 / 2 whose gradients carry noise; used with `methods.gradient()`.

    >>> import torch
    >>> task = quadratic((1.0, 0.5), start=2.0)
    >>> task.exact(task.policy(), task.policy().initial(1, torch.float64))[0].item()
    -3.0
    """
    policy = quadratic_policy(curvatures, noise, start)
    return Quadratic(policy.curvatures, policy.noise, policy.start)


@dataclass(frozen=True)
class Lqr(ContinuousTask):
    """x' = a x + b u + noise, with cost q x^2 + r u^2 per step and `closing` x^2 after the last; see `lqr`."""

    drift: float
    control: float
    state_cost: float
    action_cost: float
    closing: float
    noise: float
    begins: float
    horizon: int
    width: float
    start: float

    pays = True

    @property
    def enumerable(self) -> bool:  # type: ignore[override]
        """Whether only the actions are random."""
        return self.noise == 0.0

    @property
    def listed(self) -> int:  # type: ignore[override]
        """Number of action sequences on the grid."""
        return len(self._grid) ** self.horizon

    @property
    def best_gain(self) -> float:
        """Gain K of the optimal controller u = -K x, the same at every step if `closing` is its cost to go."""
        return self.drift * self.control * self.closing / (self.action_cost + self.control**2 * self.closing)

    def policy(self) -> Policy:
        return feedback(self.width, self.start)

    def check(self, policy: Any) -> None:
        """Refuse a policy that is not linear feedback with this width."""
        traits = (plugins.name_of(policy), getattr(policy, "width", None))
        bound = f"feedback of width {self.width:g}"
        checks.require(traits == ("feedback", self.width), "policy", traits, bound, "leave policy out for the task's")

    def begin(self, prompt: Tensor, draws: Draws | None, carried: Any = None) -> Tensor:
        """Return the fixed first state."""
        return torch.full(prompt.shape, self.begins, dtype=torch.float64)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws | None) -> Turn:
        """Next state and negative cost of this one; the last step adds the cost to go."""
        taken = action[..., 0].to(world.dtype)
        following = self.drift * world + self.control * taken
        if self.noise > 0.0:
            assert draws is not None
            following = following + self.noise * draws.sibling("environment").normals(token, 1)[..., 0]
        following = following.clamp(-_FAR, _FAR)
        last = token + 1 == self.horizon
        cost = self.state_cost * world**2 + self.action_cost * taken**2
        cost = cost + self.closing * following**2 if last else cost
        going = torch.ones(world.shape, dtype=torch.bool)
        return Turn(following, going, -cost.clamp(max=_FAR**2), going if last else ~going, ~going)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Enumerate action sequences on a grid; a cell's probability weighs it, its log-prob is the density there."""
        remedy = "use sampling='monte_carlo'"
        checks.require(self.enumerable, "noise", self.noise, "0 where outcomes are listed", remedy)
        grid, T = self._grid, self.horizon
        checks.power("grid ** horizon", len(grid), T, _OUTCOMES, "outcomes", f"shorten the horizon, or {remedy}")
        picked = np.indices((len(grid),) * T).reshape(T, -1).T
        action = torch.as_tensor(grid[picked]).unsqueeze(-1).expand(len(prompt), -1, -1, -1)
        world = self.begin(prompt[:, None].expand(-1, len(picked)), None)
        state, reward, ended = [], [], []
        for t in range(T):
            turn = self.step(world, action[:, :, t], t, None)
            assert turn.reward is not None and turn.ended is not None
            state.append(world)
            reward.append(turn.reward)
            ended.append(turn.ended)
            world = turn.state
        ledger = {"reward": torch.stack(reward, -1), "ended": torch.stack(ended, -1)}
        cell = torch.full(world.shape, (_SPACING * self.width) ** T, dtype=torch.float64)
        mask = torch.ones((*world.shape, T), dtype=torch.float64)
        return Outcomes(torch.stack(state, -1), action, mask, ledger["reward"].sum(-1), cell, per_token=ledger)

    def token_rewards(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Token rewards `[R, G, N, T]`; NaN for a replicate whose policy has left the enumerated action grid."""
        if math.isfinite(batch.size):
            return batch.rewards
        whole = ((batch.mass.sum(-1, keepdim=True) - 1.0).abs() < 1e-6).unsqueeze(-1)
        return torch.where(whole, batch.rewards, torch.full((), math.nan, dtype=batch.rewards.dtype))

    def exact(self, policy: Any, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """J(K) = -sum_t ((q + r K^2) m_t + r width^2) - closing m_T and its derivative.

        m_t = E x_t^2 obeys m_{t+1} = (a - b K)^2 m_t + (b width)^2 + noise^2.
        """
        gain = parameters[:, 0]
        closed = self.drift - self.control * gain
        second, slope = torch.full_like(gain, self.begins**2), torch.zeros_like(gain)
        value, gradient = torch.zeros_like(gain), torch.zeros_like(gain)
        for _ in range(self.horizon):
            price = self.state_cost + self.action_cost * gain**2
            value = value - price * second - self.action_cost * policy.width**2
            gradient = gradient - price * slope - 2.0 * self.action_cost * gain * second
            slope = closed**2 * slope - 2.0 * self.control * closed * second
            second = closed**2 * second + (self.control * policy.width) ** 2 + self.noise**2
        return value - self.closing * second, (gradient - self.closing * slope).unsqueeze(-1)

    @property
    def _grid(self) -> np.ndarray:
        """Grid of actions around 0."""
        half = math.ceil(_REACH / _SPACING)
        return _SPACING * self.width * np.arange(-half, half + 1)


@made("1801.05039 for the gradient", f"{_OWN}feedback`; J and its derivative are in closed form", _RANGES)
def lqr(
    drift: float = real(0.9, "a", remedy="give a finite factor"),
    control: float = real(0.5, "b, not 0", remedy="give a finite factor"),
    state_cost: float = real(1.0, "q", 0.0, above=True, remedy="give a positive cost"),
    action_cost: float = real(1.0, "r", 0.0, above=True, remedy="give a positive cost"),
    noise: float = real(0.0, "standard deviation of the dynamics", 0.0, remedy="use 0 for certain dynamics"),
    begins: float = real(1.0, "the first state", remedy="give a finite state"),
    horizon: int = whole(2, "T in steps", 1, checks.LARGEST, remedy="an episode has at least one step"),
    width: float = handed_on(0.5, "> 0 of the policy"),
    start: float = handed_on(0.0, "its first gain K"),
) -> Lqr:
    """Scalar linear dynamics with a quadratic cost: exact policy gradient, and a known optimal controller.

    x' = a x + b u + noise, cost q x^2 + r u^2 a step, u ~ N(-K x, width^2). Behind the last step the best controller
    takes over: P x_T^2 is paid there, P its cost to go. So one gain is best at every step, K* = a b P/(r + b^2 P),
    however short the episode. Around it J falls as -(r + b^2 P) sum_t E x_t^2 (K - K*)^2, exactly
    (`staleness/lqr-scalar`). Without noise a short episode can be enumerated, on a grid of actions that reaches 11
    widths to both sides. A replicate whose policy leaves it has no gradient.

    >>> task = lqr(drift=1.0, control=1.0)
    >>> round(task.closing, 6), round(task.best_gain, 6)
    (1.618034, 0.618034)
    """
    checks.require(control != 0.0, "control", control, "not 0", "without it nothing can be controlled")
    policy = feedback(width, start)
    # P = q + a^2 P r/(r + b^2 P), a quadratic equation.
    linear = action_cost * (1.0 - drift**2) - state_cost * control**2
    root = math.hypot(linear, 2.0 * control * math.sqrt(state_cost * action_cost))
    closing = (root - linear) / (2.0 * control**2)
    costs = (state_cost, action_cost, closing)
    return Lqr(drift, control, *costs, noise, begins, horizon, policy.width, policy.start)
