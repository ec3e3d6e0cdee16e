"""Linear dynamics with a quadratic cost, scalar: the policy gradient in closed form, and a known best controller."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, plugins
from asyncsim.policies._policy import Policy
from asyncsim.policies.feedback import feedback
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.tasks._task import Outcomes, Simple, Turn

_SPACING, _REACH = 0.8, 11.2
"""Actions that stand for all: their distance and their reach, in widths. Sums of a normal law over a grid converge
exponentially, with exp(-2 pi^2/spacing^2): to 4e-14 at this distance."""
_OUTCOMES = 1_000_000
_FAR = 1e140
"""States are held there, and costs at its square: a policy that runs away stops its replicate, and no other."""


@dataclass(frozen=True)
class LQR(Simple):
    """x' = a x + b u + noise, cost q x^2 + r u^2 a step and `closing` x^2 behind the last; see `lqr`."""

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

    prompts = 1
    pays = True
    closed = True
    solved = True

    @property
    def enumerable(self) -> bool:  # type: ignore[override]
        """Whether nothing but the actions is random."""
        return self.noise == 0.0

    @property
    def listed(self) -> int:  # type: ignore[override]
        """Sequences of actions on the grid."""
        return len(self._grid) ** self.horizon

    @property
    def best_gain(self) -> float:
        """K of the best controller u = -K x, the same at every step where `closing` is its cost to go."""
        return self.drift * self.control * self.closing / (self.action_cost + self.control**2 * self.closing)

    def policy(self) -> Policy:
        """Linear feedback with free gain."""
        return feedback(self.width, self.start)

    def check(self, policy: Any) -> None:
        """Refuse a policy that is no feedback of this width."""
        traits = (plugins.name_of(policy), getattr(policy, "width", None))
        bound = f"feedback of width {self.width:g}"
        checks.require(traits == ("feedback", self.width), "policy", traits, bound, "leave policy out for the task's")

    def begin(self, prompt: Tensor, draws: Draws | None, carried: Any = None) -> Tensor:
        """The same state always."""
        return torch.full(prompt.shape, self.begins, dtype=torch.float64)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws | None) -> Turn:
        """The next state, and the cost of this one with a minus; the last step pays for what follows."""
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

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Refused: every token pays."""
        raise checks.InputError("reward", "at the end", "of every token", "take it from what `step` returns")

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Sequences of actions on a grid; the chance of an outcome is its cell, its log-prob the density there."""
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
        """Rewards of tokens, `[R, G, N, T]`; NaN for a replicate whose policy has left the grid of listed actions."""
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

    def describe(self) -> dict[str, Any]:
        """Header of a run."""
        return {"task": "lqr", **vars(self)}

    @property
    def _grid(self) -> np.ndarray:
        """Actions that stand for all, around 0."""
        half = math.ceil(_REACH / _SPACING)
        return _SPACING * self.width * np.arange(-half, half + 1)


def lqr(
    drift: float = 0.9,
    control: float = 0.5,
    state_cost: float = 1.0,
    action_cost: float = 1.0,
    noise: float = 0.0,
    begins: float = 1.0,
    horizon: int = 2,
    width: float = 0.5,
    start: float = 0.0,
) -> LQR:
    """Scalar linear-quadratic control: x' = a x + b u + noise, cost q x^2 + r u^2 a step, u ~ N(-K x, width^2).

    Behind the last step the best controller takes over: P x_T^2 is paid there, P its cost to go. So one gain is best at
    every step, K* = a b P/(r + b^2 P), however short the episode. Around it J falls as
    -(r + b^2 P) sum_t E x_t^2 (K - K*)^2, exactly (`staleness/lqr-scalar`).

    Arguments: `drift` a and `control` b != 0; `state_cost` q and `action_cost` r, positive; `noise` >= 0, standard
    deviation of the dynamics; `begins`, the first state; `horizon` T in steps; `width` > 0 of the policy; `start`, its
    first gain K. Returns a task whose own policy is `policies.feedback`; J and its derivative are in closed form.
    Without noise a short episode can be enumerated, on a grid of actions that reaches 11 widths to both sides. A
    replicate whose policy leaves it has no gradient. Raises `InputError` for values outside these ranges. Source:
    1801.05039 for the gradient.

    >>> task = lqr(drift=1.0, control=1.0)
    >>> round(task.closing, 6), round(task.best_gain, 6)
    (1.618034, 0.618034)
    """
    checks.real("drift", drift, "give a finite factor")
    checks.real("control", control, "give a finite factor")
    checks.require(control != 0.0, "control", control, "not 0", "without it nothing can be controlled")
    checks.real("state_cost", state_cost, "give a positive cost", 0.0, open_low=True)
    checks.real("action_cost", action_cost, "give a positive cost", 0.0, open_low=True)
    checks.real("noise", noise, "use 0 for certain dynamics", 0.0)
    checks.real("begins", begins, "give a finite state")
    checks.integer("horizon", horizon, 1, "an episode has at least one step", checks.LARGEST)
    policy = feedback(width, start)
    # P = q + a^2 P r/(r + b^2 P), a quadratic equation.
    linear = action_cost * (1.0 - drift**2) - state_cost * control**2
    root = math.hypot(linear, 2.0 * control * math.sqrt(state_cost * action_cost))
    closing = (root - linear) / (2.0 * control**2)
    dynamics = {"drift": drift, "control": control, "noise": noise, "begins": begins}
    costs = {"state_cost": state_cost, "action_cost": action_cost, "closing": closing}
    numbers = {name: float(value) for name, value in (dynamics | costs).items()}
    return LQR(**numbers, horizon=int(horizon), width=policy.width, start=policy.start)
