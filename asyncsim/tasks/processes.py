"""Markov decision processes given by tables: stepping by inverse CDF, exact values by recursion."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.base.parts import choice, flag, handed_on, made, real, whole
from asyncsim.policies._policy import Policy
from asyncsim.step.batch import Draws
from asyncsim.step.versions import Weights
from asyncsim.tasks._tabular import LOGITS, TabularTask, cells, edges, nested, tilted
from asyncsim.tasks._task import Outcomes, Turn

_TEXTS = checks.table(__file__, "texts.toml")["processes"]

_TRANSITION = (((1.0, 0.0), (0.2, 0.8)), ((0.5, 0.5), (0.0, 0.9)))
_REWARDS = ((0.0, 0.2), (0.0, 1.0))
_ROUNDING = 1e-12
_EXACT = "J and its gradient are exact by recursion"
_DISCOUNT = real(1.0, "gamma", 0.0, 1.0, remedy="use 1 for none")
_STEPS = whole(100, "T, length in steps", 1, checks.LARGEST, remedy="an episode has at least one step")


class Transitions(NamedTuple):
    """Transition tables with up to K outcomes for each of S states and A actions; missing ones have probability 0.

    `probability`, `reward` float64, `following` int64, `terminal` bool: `[S, A, K]`; `start` float64 `[S]`:
    distribution of the first state.
    """

    probability: Tensor
    following: Tensor
    reward: Tensor
    terminal: Tensor
    start: Tensor

    @property
    def deterministic(self) -> bool:
        """Whether the action determines the outcome in every state, and the first state is fixed."""
        return bool((self.probability[..., 0] == 1.0).all() and self.start.amax() == 1.0)


@dataclass(frozen=True)
class TabularMDP(TabularTask):
    """Base of tabular decision processes with one episode of at most T steps per trajectory.

    A token is paid discount^t r_t: with the task's discount inside the rewards, `returns_to_go()` is unbiased.
    """

    discount: float
    slippery: bool

    header = ("states", "actions", "horizon", "discount", "slippery")
    pays = True
    closed = True
    solved = True

    @property
    def states(self) -> int:
        return self.rows

    @cached_property
    def law(self) -> Transitions:
        """Transition tables of the decision process, by default the gymnasium environment's."""
        environment = self.environment()
        law = environment.P
        S, A = len(law), len(law[0])
        K = max(len(law[s][a]) for s in range(S) for a in range(A))
        probability, following, reward, terminal = (np.zeros((S, A, K)) for _ in range(4))
        for s in range(S):
            for a in range(A):
                for k, outcome in enumerate(law[s][a]):
                    probability[s, a, k], following[s, a, k], reward[s, a, k], terminal[s, a, k] = outcome
        start = np.asarray(environment.initial_state_distrib, dtype=np.float64)
        tables = probability, following.astype(np.int64), reward, terminal > 0, start
        return Transitions(*map(torch.as_tensor, tables))

    def environment(self) -> Any:
        """The gymnasium environment itself, without a time limit."""
        raise NotImplementedError

    @property
    def enumerable(self) -> bool:  # type: ignore[override]
        """Whether only actions are random, so that all trajectories can be enumerated."""
        return self.law.deterministic

    def begin(self, prompt: Tensor, draws: Draws | None, carried: Any = None) -> Tensor:
        """Draw first states from their distribution by inverse CDF; a single first state needs no draw."""
        if draws is None or float(self.law.start.amax()) == 1.0:
            return torch.full_like(prompt, int(self.law.start.argmax()))
        # Draw 0 of token 0 chooses the first outcome.
        uniform = draws.sibling("environment").uniform(0, 2)
        return torch.searchsorted(edges(self.law.start), uniform, right=True)

    def step(self, world: Tensor, action: Tensor, token: int, draws: Draws | None) -> Turn:
        """Draw an action's outcome by inverse CDF, in the order of the tables; the horizon ends the episode."""
        if draws is None or self.law.deterministic:
            outcome = torch.zeros_like(action)
        else:
            uniform = draws.sibling("environment").uniform(token, 0)
            outcome = (uniform.unsqueeze(-1) >= self._outcome_edges[world, action]).sum(-1)
        done = self.law.terminal[world, action, outcome]
        ended = torch.ones_like(done) if token + 1 == self.horizon else done
        # Discounted from the start of the episode, so that sums over later tokens are what the gradient of J weighs by.
        reward = self.discount**token * self.law.reward[world, action, outcome]
        following = self.law.following[world, action, outcome]
        return Turn(following, ~done, reward, ended, torch.zeros_like(done))

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Discounted return of finished episodes, if only the actions are random."""
        discounts = self.discount ** torch.arange(self.horizon, dtype=torch.float64)
        return (self.law.reward[state, action, 0] * mask * discounts).sum(-1)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Enumerate every sequence of actions, if only the actions are random."""
        if not self.enumerable:
            bound = "deterministic with counts, enumeration or an oracle"
            raise self.refusal(bound, "use sampling='monte_carlo', or slippery=False")
        return super().outcomes(prompt)

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return J = sum_s start(s) V_0(s), `[R]`, and its gradient `[R, P]`, over the T steps of an episode.

        grad J = sum_t gamma^t sum_{s, a} d_t(s) pi(a|s) (Q_t - V_t)(s, a) grad log pi(a|s). d_t is the distribution of
        the state at step t in episodes that still go on.
        """
        prob, pull = cells(policy, parameters, self.rows, self.actions)
        V, Q = self._values(prob)
        occupancy = self.law.start.expand(prob.shape[0], -1)
        value = (occupancy * V[:, 0]).sum(-1)
        weight = torch.zeros_like(prob)
        for t in range(self.horizon):
            pairs = occupancy.unsqueeze(-1) * prob
            weight += self.discount**t * pairs * (Q[:, t] - V[:, t].unsqueeze(-1))
            occupancy = pairs.flatten(1) @ self._kernel
        return value, pull(weight)

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Expected return J `[R]` by the value recursion of `exact`: V_t = r_pi + gamma P_pi V_{t+1}."""
        prob = self.chances(policy, parameters, weights)
        kernel = self.discount * self._kernel.unflatten(0, prob.shape[1:])
        following = (prob.unsqueeze(-1) * kernel).sum(2)
        earned = (prob * (self.law.probability * self.law.reward).sum(-1)).sum(-1)
        value = torch.zeros_like(earned)
        for _ in range(self.horizon):
            value = earned + (following * value.unsqueeze(1)).sum(-1)
        return (value * self.law.start).sum(-1)

    def ratio_moment(self, policy: Policy, parameters: Tensor, behavior: Tensor, power: float) -> Tensor:
        """Moment E_mu W^power, `[R]`, of the product W of pi/mu over an episode's steps, by backward recursion."""
        then, now = (cells(policy, at, self.rows, self.actions).prob for at in (behavior, parameters))
        weights = tilted(then, now, power)
        stop = 1.0 - self._kernel.sum(-1).reshape(self.rows, self.actions)
        moment = torch.ones(weights.shape[:2], dtype=weights.dtype)
        for _ in range(self.horizon):
            moment = (weights * (stop + self._lead(moment))).sum(-1)
        return moment @ self.law.start

    @cached_property
    def _kernel(self) -> Tensor:
        """Probability of moving to s' without ending, given s and a, `[S A, S]`."""
        probability = torch.where(self.law.terminal, torch.zeros((), dtype=torch.float64), self.law.probability)
        table = torch.zeros((self.rows * self.actions, self.rows), dtype=torch.float64)
        return table.scatter_add_(1, self.law.following.flatten(0, 1), probability.flatten(0, 1))

    @cached_property
    def _outcome_edges(self) -> Tensor:
        return edges(self.law.probability)

    def _lead(self, after: Tensor) -> Tensor:
        """Expectation of a function of the next state `[R, S]`, for every state and action, `[R, S, A]`."""
        return (after @ self._kernel.T).reshape(-1, self.rows, self.actions)

    def _values(self, prob: Tensor) -> tuple[Tensor, Tensor]:
        """V_t(s) `[R, T, S]` and Q_t(s, a) `[R, T, S, A]` of the stationary policy, by backward recursion.

        Q_t = r + gamma P V_{t+1} (P leads to states where the episode goes on), V_t = sum_a pi Q_t, V_T = 0.
        """
        rewards = (self.law.probability * self.law.reward).sum(-1)
        after = torch.zeros(prob.shape[:2], dtype=prob.dtype)
        V, Q = [], []
        for _ in range(self.horizon):
            Q.append(rewards + self.discount * self._lead(after))
            after = (prob * Q[-1]).sum(-1)
            V.append(after)
        return torch.stack(V[::-1], 1), torch.stack(Q[::-1], 1)


@dataclass(frozen=True)
class FrozenLake(TabularMDP):
    """Grid world with reward 1 at the goal and nothing in holes; see `frozen_lake`."""

    map_name: str
    desc: tuple[str, ...] | None

    def environment(self) -> Any:
        """The gymnasium environment itself, without a time limit."""
        from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

        desc = None if self.desc is None else list(self.desc)
        return FrozenLakeEnv(desc=desc, map_name=self.map_name, is_slippery=self.slippery)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "map": self.map_name if self.desc is None else list(self.desc)}


@made(
    "gymnasium, FrozenLake-v1",
    f"a task whose own policy is `policies.tabular` with a row per field `[S, 4]`; {_EXACT}",
    "an unknown map, rows of different lengths, or numbers outside their ranges",
)
def frozen_lake(
    map_name: str = choice("4x4", "8x8", **_TEXTS["map_name"]),
    slippery: bool = flag("steps may go astray", True),
    horizon: int | None = handed_on(None, 'T in steps (None, that of gymnasium: 100, or 200 for "8x8")'),
    discount: float = _DISCOUNT,
    desc: Sequence[str] | None = handed_on(None, **_TEXTS["desc"]),
) -> FrozenLake:
    """gymnasium's frozen lake: cross the ice to the goal; exact values by recursion over its own tables.

    Reward 1 on reaching the goal, 0 otherwise; a hole or the goal ends the episode. J = E sum_t gamma^t r_t over at
    most T steps. On slippery ice a step goes as chosen or to either side of that, each with probability 1/3. Actions: 0
    left, 1 down, 2 right, 3 up.

    >>> task = frozen_lake(slippery=False)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 4)
    0.0139
    """
    if horizon is None:
        horizon = 200 if map_name == "8x8" and desc is None else 100
    rows = None if desc is None else _checked_map(desc)
    fields = len(rows) * len(rows[0]) if rows else {"4x4": 16, "8x8": 64}[map_name]
    horizon = _STEPS.read("horizon", horizon)
    return FrozenLake(fields, 4, horizon, 1, discount, slippery, map_name, rows)


def _checked_map(desc: Sequence[str]) -> tuple[str, ...]:
    """Validate a map: rows of equal length in the four letters, with a start."""
    bound = "rows of equal length in the letters S, F, H, G, with a start S"
    fits = (
        isinstance(desc, (list, tuple))
        and len(desc) > 0
        and all(isinstance(row, str) and row and set(row) <= set("SFHG") for row in desc)
        and len({len(row) for row in desc}) == 1
        and any("S" in row for row in desc)
    )
    checks.require(fits, "desc", desc, bound, 'write ("SF", "HG")')
    return tuple(desc)


@dataclass(frozen=True)
class CliffWalking(TabularMDP):
    """Grid world whose shortest path runs along a cliff; see `cliff_walking`."""

    def environment(self) -> Any:
        """The gymnasium environment itself, which has no time limit."""
        from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

        # Older releases have no such argument.
        return CliffWalkingEnv(is_slippery=True) if self.slippery else CliffWalkingEnv()


@made(
    "gymnasium, CliffWalking-v1",
    f"a task whose own policy is `policies.tabular` with a row per field `[48, 4]`; {_EXACT}",
    "a horizon below 1, or a discount outside [0, 1]",
)
def cliff_walking(
    horizon: int = _STEPS, slippery: bool = flag("steps may go astray"), discount: float = _DISCOUNT
) -> CliffWalking:
    """gymnasium's cliff walk: reward -1 per step and -100 per fall; exact values by recursion over its tables.

    A 4 x 12 grid; a fall leads back to the start, the goal ends the episode. J = E sum_t gamma^t r_t over at most T
    steps; gymnasium sets no T. The cost of later steps is not counted, so J is at least -100 T. Actions: 0 up, 1 right,
    2 down, 3 left. A slippery step goes to each side of the chosen direction with probability 1/3. Rows of the table
    that no episode visits (the cliff, the goal) keep their logits.

    >>> task = cliff_walking(horizon=1)
    >>> round(task.exact(task.policy(), task.policy().initial(1))[0].item(), 12)
    -25.75
    """
    return CliffWalking(48, 4, horizon, 1, discount, slippery)


@dataclass(frozen=True)
class Mdp(TabularMDP):
    """Decision process from a user's tables; see `mdp`."""

    transition: tuple[tuple[tuple[float, ...], ...], ...]
    paid: tuple[tuple[float, ...], ...]
    first: tuple[float, ...]

    @cached_property
    def law(self) -> Transitions:
        """Transition tables with likelier outcomes first; the extra state after the tables' last state is the end."""
        onward = torch.tensor(self.transition, dtype=torch.float64)
        end = (1.0 - onward.sum(-1, keepdim=True)).clamp(min=0.0)
        end = torch.where(end > _ROUNDING, end, torch.zeros((), dtype=end.dtype))
        probability, outcome = torch.cat([onward, end], -1).sort(dim=-1, descending=True, stable=True)
        possible = int((probability > 0).sum(-1).max())
        probability, outcome = probability[..., :possible], outcome[..., :possible]
        terminal = outcome == self.rows
        reward = torch.tensor(self.paid, dtype=torch.float64).unsqueeze(-1).expand(probability.shape)
        following = torch.where(terminal, torch.zeros_like(outcome), outcome)
        return Transitions(probability, following, reward, terminal, torch.tensor(self.first, dtype=torch.float64))

    def describe(self) -> dict[str, Any]:
        tables = {"transition": self.transition, "rewards": self.paid, "start": self.first}
        return {**super().describe(), **tables}


@made(
    "textbook",
    f"a task whose own policy is `policies.tabular` with a row per state; {_EXACT}",
    "tables of other shapes, or for probabilities that are negative or add up to more than 1",
)
def mdp(
    transition: Any = handed_on(_TRANSITION, **_TEXTS["transition"]),
    rewards: Any = handed_on(_REWARDS, "r, `[S, A]`"),
    start: Any = handed_on(None, "distribution of the first state, `[S]` (None: the first one)"),
    horizon: int = _STEPS.but(20),
    discount: float = _DISCOUNT,
    logits: Any = LOGITS,
) -> Mdp:
    """Decision process from your own tables of transitions, rewards and start states; exact values by recursion.

    S states and A actions: s' ~ P(.|s, a), reward r(s, a), at most T steps; J = E sum_t gamma^t r(s_t, a_t). Where
    gamma^T is negligible, J = start^T (I - gamma P_pi)^-1 r_pi. Its gradient is d(s) pi(a|s) A(s, a) with the
    unnormalized occupancy d = (I - gamma P_pi)^-T start (`convergence/mdp-gradient`). It can be enumerated where
    nothing but the actions is random.

    >>> import torch
    >>> task = mdp(transition=[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]] * 2], rewards=[[0.0, 0.0], [1.0, 1.0]], horizon=3)
    >>> task.exact(task.policy(), torch.zeros(1, 4, dtype=torch.float64))[0].item()
    1.25
    """
    paid = checks.finite_array("rewards", rewards, (None, None), "give r(s, a), a row per state")
    S, A = paid.shape
    checks.require(S >= 1 and A >= 2, "rewards", (S, A), "a table of one state and two actions at least", "add actions")
    onward = _chances("transition", transition, (S, A, S))
    first = np.eye(S)[0] if start is None else _chances("start", start, (S,))
    whole = abs(first.sum() - 1.0) <= _ROUNDING
    checks.require(whole, "start", first.tolist(), "probabilities that add up to 1", "normalize it")
    if logits is not None:
        logits = nested(checks.finite_array("logits", logits, (S, A), "give one per action, a row per state"))
    random = bool(((onward > 0.0).sum(-1) + (onward.sum(-1) < 1.0 - _ROUNDING) > 1).any())
    return Mdp(S, A, horizon, 1, discount, random, nested(onward), nested(paid), nested(first), logits=logits)


def _chances(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Validate probabilities that add up to at most 1 along the last axis."""
    table = checks.finite_array(name, value, shape, f"give a table {list(shape)}")
    sums = bool((table >= 0.0).all() and (table.sum(-1) <= 1.0 + _ROUNDING).all())
    checks.require(sums, name, table.tolist(), "probabilities that add up to at most 1", "normalize the rows")
    return table
