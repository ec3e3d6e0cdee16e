"""Shared parts of tasks with a table of states and actions: rewards, penalties, enumeration, exact values."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from asyncsim.base import checks, plugins
from asyncsim.base.parts import choice, handed_on, real
from asyncsim.policies._engine import Engine
from asyncsim.policies._policy import Moves, Policy
from asyncsim.policies.mlp import Mlp
from asyncsim.policies.tabular import tabular
from asyncsim.step import versions
from asyncsim.step.batch import Batch, Draws, Outputs
from asyncsim.step.versions import View, Weights
from asyncsim.tasks._task import Outcomes, Task

_TEXTS = checks.table(__file__, "texts.toml")["_tabular"]

OUTCOME_LIMIT = 1_000_000
CELLS = 1 << 22
"""Arms at most: each mean is a number of the task."""
SUMMED = 1 << 13
"""Tokens of listed sequences that are summed over at every update, at most."""
_COUNTLESS = 10**30
_ENGINE = tuple(field.name for field in fields(Engine))
"""Arguments of a policy's sampler."""

REWARDS = choice("fixed", "bernoulli", "gaussian", **_TEXTS["rewards"])
DEVIATION = real(1.0, "standard deviation of that noise", 0.0, remedy="give the noise of gaussian rewards")
KL_COEF = real(0.0, low=0.0, **_TEXTS["kl_coef"])
REFERENCE = handed_on(None, **_TEXTS["reference"])
KL_AT = choice("behavior", "current", words="which log-probs the penalty reads")
LOGITS = handed_on(None, "initial values of the table in nats")
START = handed_on(None, **_TEXTS["start"])


class Cells(NamedTuple):
    """Probabilities pi(a|s) of a table `[R, S, A]`, and the pullback from weights on grad log pi(a|s) to `[R, P]`."""

    prob: Tensor
    pull: Callable[[Tensor], Tensor]


def cells(policy: Policy, parameters: Tensor, rows: int, actions: int) -> Cells:
    """Evaluate a policy in every (state, action) of a table, as one batch of single tokens."""
    R = parameters.shape[0]
    state = torch.arange(rows).repeat_interleave(actions).reshape(1, 1, -1, 1).repeat(R, 1, 1, 1)
    action = torch.arange(actions).repeat(rows).reshape(1, 1, -1, 1).repeat(R, 1, 1, 1)
    none = torch.zeros(state.shape[:3], dtype=torch.float64)
    batch = Batch.of_nobody(action, state, torch.ones(state.shape, dtype=torch.float64), none, none, float("inf"))
    forward = policy.forward(versions.current(policy.prepare(parameters)), batch, ("log_prob",))
    prob = forward.outputs["log_prob"].double().exp().reshape(R, rows, actions)
    return Cells(prob, lambda weight: forward.pullback({"log_prob": weight.reshape(state.shape).to(parameters.dtype)}))


def tilted(behavior: Tensor, current: Tensor, power: float) -> Tensor:
    """Tilted probabilities mu (pi/mu)^power of a table, `[R, S, A]`; 0 where mu = 0, which is never sampled."""
    ratio = torch.where(behavior > 0, current / behavior, torch.zeros((), dtype=behavior.dtype))
    return behavior * ratio**power


def edges(probability: Tensor) -> Tensor:
    """CDF along the last axis, infinite from the last possible outcome on, so that rounding cannot pass it."""
    later = probability.flip(-1).cumsum(-1).flip(-1) - probability
    return torch.where(later > 0, probability.cumsum(-1), torch.full((), math.inf, dtype=probability.dtype))


def rows_of(field: str, value: Any, shape: tuple[int, int], remedy: str, *, alike: bool = False) -> Any:
    """Validate a user's table and return it as tuples, or None; with `alike`, one row is repeated for all states."""
    if value is None:
        return None
    array = np.atleast_2d(checks.numbers(field, value, "a table of numbers", remedy))
    if alike and len(array) == 1:
        array = np.repeat(array, shape[0], axis=0)
    return nested(checks.finite_array(field, array, shape, remedy))


def table(
    shape: tuple[int, int],
    kl_coef: float,
    reference: Any,
    kl_at: str,
    logits: Any,
    remedy: str = "give one row per state",
    alike: bool = False,
    start: str | None = None,
    order: np.ndarray | None = None,
) -> dict[str, Any]:
    """Validate the arguments that all tasks with a table `[S, A]` share, and return them as fields."""
    if start is not None:
        checks.require(logits is None, "start", start, "left out beside logits", "give one of the two")
        order = np.arange(shape[1]) if order is None else order
        # Row s has the chance of rank k at action order[s, k].
        logits = peaked(start, shape[1])[np.broadcast_to(order.argsort(-1), shape)]
    if isinstance(reference, str):
        bound, remedy = "a table of numbers, or 'start'", "'start' is the policy before training, None is uniform"
        checks.require(reference == "start", "reference", reference, bound, remedy)
        reference = logits
    return {
        "rows": shape[0], "actions": shape[1], "prompts": 1, "kl_coef": kl_coef,
        "reference": rows_of("reference", reference, shape, "give one row of logits, or one per state", alike=True),
        "kl_at": kl_at, "logits": rows_of("logits", logits, shape, remedy, alike=alike),
    }  # fmt: skip


def peaked(start: str, actions: int) -> np.ndarray:
    """Logits `[A]` such that the best and the second-best action have given initial probabilities."""
    kind, *given = str(start).split(":")
    bound, remedy = "peaked:GOOD or peaked:GOOD:POPULAR", "write peaked:0.02:0.9, or give logits"
    checks.require(kind == "peaked" and 1 <= len(given) <= 2, "start", start, bound, remedy)
    try:
        chances = [float(text) for text in given]
    except ValueError:
        raise checks.InputError("start", start, bound, remedy) from None
    above = "an action that has no chance is never drawn, and never learned; give it some"
    for chance in chances:
        checks.require(0.0 < chance < 1.0, "start", start, "of chances between 0 and 1", above)
    rest, others = 1.0 - sum(chances), actions - len(chances)
    sound = rest > 1e-12 if others else abs(rest) < 1e-12
    bound = f"of chances that leave some to {others} other actions" if others else "of chances that add up to 1"
    checks.require(sound, "start", start, bound, above if others else "two actions have no others: give one chance")
    return np.log([*chances, *[rest / max(others, 1)] * others])


def nested(table: np.ndarray) -> Any:
    """Convert a NumPy table to nested tuples."""
    return tuple(nested(row) for row in table) if table.ndim else float(table)


@dataclass(frozen=True)
class TabularTask(Task):
    """Base of tasks on a softmax table; subclasses define transitions and the score of a finished sequence."""

    rows: int
    actions: int
    horizon: int
    prompts: int
    _: KW_ONLY
    rewards: str = "fixed"
    deviation: float = 1.0
    kl_coef: float = 0.0
    reference: tuple[tuple[float, ...], ...] | None = None
    kl_at: str = "behavior"
    logits: tuple[tuple[float, ...], ...] | None = None

    header: ClassVar[tuple[str, ...]] = ("actions", "horizon", "prompts", "rewards", "kl_coef", "kl_at")
    scores = (-math.inf, math.inf)
    """Least and largest `score`."""
    best = math.nan
    """Largest expected score of a policy, where it is known."""
    closed = False
    followed: ClassVar[bool] = False
    """Whether the next state and the end follow from state and action alone."""
    speech: ClassVar[Tensor | None] = None
    """Chances of what the environment writes in each state, `[S, A]`, 0 where the policy writes; None: nowhere."""

    def score(self, state: Tensor, action: Tensor, mask: Tensor) -> Tensor:
        """Reward of finished sequences `[..., T]` -> `[...]`, or its mean or success probability if it is random."""
        raise NotImplementedError

    def policy(self, **engine: Any) -> Policy:
        """The default policy: free logits in every row; `engine` takes the sampler arguments of `tabular`.

        >>> import asyncsim as sim
        >>> sim.tasks.softmax_bandit(arms=3).policy(temperature=0.7).describe()["sampler"]
        {'temperature': 0.7}
        """
        checks.each_of("policy argument", engine, _ENGINE, "rows, actions and logits are the task's own")
        # Settings of a sampler are written to files with the call that made it.
        make = plugins.load("asyncsim.policies", "tabular", "policy") if engine else tabular
        policy: Policy = make(self.rows, self.actions, self.logits, self.reference, **engine)
        return policy

    @cached_property
    def moves(self) -> Moves | None:  # type: ignore[override]
        """Transition table of trajectories, if state and action determine the next state; else None."""
        # A single token is drawn as fast by itself.
        if self.pays or self.tools or not self.followed or self.horizon == 1:
            return None
        cells = torch.arange(self.rows * self.actions).reshape(1, self.rows, self.actions)
        turn = self.step(cells // self.actions, cells % self.actions, 0, None)
        following = torch.where(turn.going, turn.state, -1)[0]
        passed = [self.begin(torch.zeros((1, 1, 1), dtype=torch.int64), None)]
        if self.prompts > 1 or bool(((following != following[:, :1]) | (following < 0)).any()):
            return Moves(following.numpy(), None)
        while len(passed) < self.horizon:
            passed.append(following[passed[-1], 0])
        return Moves(following.numpy(), torch.stack(passed, -1))

    def adapted(self, policy: Policy) -> Policy:
        """Adapt a perceptron to compute the logits of all states of the table at once."""
        return policy.on_table(self.rows) if isinstance(policy, Mlp) else policy

    def check(self, policy: Any) -> None:
        """Refuse a policy whose table of logits has another shape than the task's."""
        shape, own = (getattr(policy, "rows", None), getattr(policy, "actions", None)), (self.rows, self.actions)
        remedy = "leave policy out for the task's own"
        checks.require(shape == own, "policy table", shape, f"{own}, rows and actions", remedy)

    @property
    def tools(self) -> bool:  # type: ignore[override]
        """Whether the environment writes tokens (such as a tool's answer) in some states."""
        return self.speech is not None

    def reply(self, world: Tensor, written: Tensor, token: int, draws: Draws) -> Tensor:
        """Token that the environment writes, by inverse CDF with the draw that would choose the policy's token."""
        assert self._speech is not None
        cdf, total = self._speech
        word = (draws.uniform(token, 0).unsqueeze(-1) >= cdf[world]).sum(-1)
        return torch.where(total[world] > 0.0, word, torch.full_like(word, -1))

    def earn(self, state: Tensor, action: Tensor, mask: Tensor, draws: Draws) -> Tensor:
        """Rewards of finished sequences `[R, G, N]`: the score, a Bernoulli draw with that mean, or score and noise."""
        score = self.score(state, action, mask)
        if self.rewards == "bernoulli":
            return torch.lt(draws.uniform(0, 1), score, out=torch.empty_like(score))
        if self.rewards == "gaussian":
            return score + self.deviation * draws.normals(0, 1, begin=2)[..., 0]
        return score

    def reward(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Reward that enters the advantage, `[R, G, N]`, less the KL penalty at behavior or current log-probs."""
        if self.kl_coef == 0.0:
            return batch.reward
        return batch.reward - self._penalty(self._penalized(batch, outputs), batch).sum(-1)

    @property
    def moving(self) -> bool:  # type: ignore[override]
        """Whether the KL penalty in the reward depends on the current log-probs."""
        return self.kl_coef != 0.0 and self.kl_at == "current"

    def token_rewards(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Token rewards that enter the advantage, `[R, G, N, T]`, each less its own part of the KL penalty."""
        if self.kl_coef == 0.0:
            return batch.rewards
        return batch.rewards - self._penalty(self._penalized(batch, outputs), batch)

    def outcomes(self, prompt: Tensor) -> Outcomes:
        """Enumerate every sequence of every prompt `[G]`, split by reward if rewards are random."""
        if self.rewards == "gaussian":
            bound = "fixed or bernoulli with counts, enumeration or an oracle"
            raise checks.InputError("rewards", "gaussian", bound, "use sampling='monte_carlo', or rewards='bernoulli'")
        limit = OUTCOME_LIMIT // (2 if self.rewards == "bernoulli" else 1)
        remedy = "shorten the horizon, or use sampling='monte_carlo' without diagnostics like exact_return"
        checks.power("actions ** horizon", self.actions, self.horizon, limit, "outcomes", remedy)
        return self._enumerate(prompt)

    def greedy(self, policy: Policy, view: View, batch: Batch) -> Tensor:
        """Expected reward of greedy decoding from each sample's first state, `[R, G, N]`.

        Without the penalty. Of equally likely tokens the first one; a task that pays by token has no such response.
        """
        remedy = "use a bandit or a sequence that is paid at its end"
        plain, bound = not self.pays and not self.tools, "one that pays a whole response, all of it the policy's"
        checks.require(plain, "task", plugins.name_of(self), bound, remedy)
        world = batch.state[..., 0]
        said: list[tuple[Tensor, Tensor, Tensor]] = []
        alive = torch.ones(world.shape, dtype=torch.bool, device=world.device)
        for t in range(self.horizon):
            here = world.unsqueeze(-1)
            asked = replace(batch, state=here, action=torch.zeros_like(here), index=None)
            action = policy.forward(view, asked, ("log_probs",)).outputs["log_probs"][..., 0, :].argmax(-1)
            said.append((world, action, alive.to(batch.mask.dtype)))
            turn = self.step(world, action, t, None)
            world, alive = turn.state, alive & turn.going
        state, taken, mask = (torch.stack(column, -1) for column in zip(*said, strict=True))
        return self.score(state, taken, mask).to(batch.mask.dtype)

    @property
    def earnings(self) -> tuple[float, float]:  # type: ignore[override]
        """Minimum and maximum return of the task, infinite with Gaussian noise or a penalty."""
        if self.rewards == "gaussian" or self.kl_coef != 0.0:
            return -math.inf, math.inf
        return (0.0, 1.0) if self.rewards == "bernoulli" else self.scores

    @property
    def optimum(self) -> float:  # type: ignore[override]
        """The maximum expected return over policies; NaN with a penalty."""
        return self.best if self.kl_coef == 0.0 else math.nan

    @property
    def listed(self) -> int:  # type: ignore[override]
        """Number of outcomes per prompt that `outcomes` enumerates; a large number if there are too many."""
        if self.horizon * math.log(self.actions) > math.log(_COUNTLESS):
            return _COUNTLESS
        return int(self.actions) ** int(self.horizon) * (2 if self.rewards == "bernoulli" else 1)

    def exact(self, policy: Policy, parameters: Tensor, prompt: int | None = None) -> tuple[Tensor, Tensor]:
        """Expected return J `[R]` and its gradient `[R, P]` by enumeration, for one prompt or averaged over all.

        J = sum_y pi(y) (R(y) - penalty at pi); its gradient is the pullback of pi(y) times that on every token, since
        the derivative of the penalty's own log pi has mean zero.
        """
        prompts = torch.arange(self.prompts) if prompt is None else torch.tensor([prompt])
        outcomes = self.outcomes(prompts)
        listed = (outcomes.action, outcomes.state, outcomes.mask, outcomes.reward)
        action, state, mask, rewards = (x.expand(len(parameters), *x.shape) for x in listed)
        batch = Batch.of_nobody(action, state, mask, rewards, torch.zeros_like(rewards), math.inf)
        view = versions.current(policy.prepare(parameters))
        forward = policy.forward(view, batch, ("log_prob",))
        log_prob = torch.where(batch.mask > 0, forward.outputs["log_prob"], torch.zeros((), dtype=torch.float64))
        mass = torch.exp(log_prob.sum(-1)) * outcomes.chance / len(prompts)
        if self.kl_coef:
            rewards = rewards - self._penalty(log_prob, batch).sum(-1)
        return (mass * rewards).sum((1, 2)), forward.pullback({"log_prob": (mass * rewards).unsqueeze(-1) * batch.mask})

    @property
    def solved(self) -> bool:  # type: ignore[override]
        """Whether all sequences are few enough for the exact return at every update."""
        return self.horizon == 1 or self.prompts * self.listed * self.horizon <= SUMMED

    def expected(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Expected return J `[R]` as in `exact`, from probabilities and sequences that are enumerated once."""
        prob, (places, chance, score) = self.chances(policy, parameters, weights), self._listing
        if self.kl_coef:
            score = score - self.kl_coef * pad(self._gap(prob).flatten(1), (0, 1))[:, places].sum(-1)
        return (pad(prob.flatten(1), (0, 1), value=1.0)[:, places].prod(-1) * chance * score).sum(-1)

    def chances(self, policy: Policy, parameters: Tensor, weights: Weights) -> Tensor:
        """Probabilities pi(a|s), float64 `[R, S, A]`, from the published table if the policy publishes one."""
        known = weights.get("prob")
        return cells(policy, parameters, self.rows, self.actions).prob if known is None else known.double()

    @cached_property
    def _listing(self) -> tuple[Tensor, Tensor, Tensor]:
        """Table cells that each sequence reads `[O, T]`, with an extra cell for tokens of the environment; their
        probabilities given the policy's choices, divided by the prompts, and their mean rewards, `[O]`.
        """
        listed = replace(self, rewards="fixed")._enumerate(torch.arange(self.prompts))
        own = listed.mask > 0
        places = torch.where(own, listed.state * self.actions + listed.action, self.rows * self.actions)
        return places.flatten(0, 1), (listed.chance / self.prompts).flatten(), listed.reward.flatten()

    @cached_property
    def _log_reference(self) -> Tensor:
        uniform = np.zeros((self.rows, self.actions))
        return torch.log_softmax(torch.as_tensor(uniform if self.reference is None else np.array(self.reference)), -1)

    def _gap(self, prob: Tensor) -> Tensor:
        """log pi - log reference for every state and action, `[R, S, A]`."""
        return torch.where(prob > 0, prob.log() - self._log_reference, torch.zeros((), dtype=prob.dtype))

    @cached_property
    def _speech(self) -> tuple[Tensor, Tensor] | None:
        """CDF of the environment's tokens `[S, A]`, and its total, `[S]`, which is 0 or 1."""
        return None if self.speech is None else (edges(self.speech), self.speech.sum(-1))

    def _penalized(self, batch: Batch, outputs: Outputs) -> Tensor:
        """Log-probs that the penalty uses, `[R, G, N, T]`."""
        return {"behavior": batch.behavior, "current": outputs}[self.kl_at]["log_prob"]

    def _penalty(self, log_prob: Tensor, batch: Batch) -> Tensor:
        """Penalty per token, `[R, G, N, T]`."""
        gap = log_prob - self._log_reference[batch.state, batch.action]
        return self.kl_coef * torch.where(batch.mask > 0, gap, torch.zeros((), dtype=gap.dtype))

    def _enumerate(self, prompt: Tensor) -> Outcomes:
        digits = np.indices((self.actions,) * self.horizon).reshape(self.horizon, -1).T
        action = torch.as_tensor(digits).expand(len(prompt), -1, -1).clone()
        state = torch.zeros_like(action)
        mask = torch.ones(action.shape, dtype=torch.float64)
        world = self.begin(prompt[:, None].expand(-1, action.shape[1]), None)
        alive = torch.ones(action.shape[:2], dtype=torch.bool)
        rewards, ended = torch.zeros_like(mask), torch.zeros(mask.shape, dtype=torch.bool)
        inserted, chance = torch.zeros_like(mask), torch.ones(action.shape[:2], dtype=torch.float64)
        for t in range(self.horizon):
            state[..., t], mask[..., t] = world, alive
            if self.speech is not None:
                foreign = (self.speech[world].sum(-1) > 0.0) & alive
                inserted[..., t] = foreign
                chance = torch.where(foreign, chance * self.speech[world, action[..., t]], chance)
            turn = self.step(world, action[..., t], t, None)
            if turn.reward is not None and turn.ended is not None:
                rewards[..., t], ended[..., t] = turn.reward * alive, turn.ended & alive
            world, alive = turn.state, alive & turn.going
        # A sequence that has ended stands for all its continuations: keep the one whose unused tokens are 0.
        keep = ((mask[0] > 0) | (action[0] == 0)).all(-1) & (chance[0] > 0.0)
        action, state, mask, chance = action[:, keep], state[:, keep], mask[:, keep], chance[:, keep]
        score = self.score(state, action, mask)
        mask = mask * (1.0 - inserted[:, keep])
        if self.rewards != "bernoulli":
            per_token = {"reward": rewards[:, keep], "ended": ended[:, keep]} if self.pays else {}
            return Outcomes(state, action, mask, score, chance, per_token=per_token)
        state, action, mask = (x.repeat_interleave(2, dim=1) for x in (state, action, mask))
        success = torch.tensor([1.0, 0.0], dtype=score.dtype).repeat(score.shape[1]).expand(len(prompt), -1)
        chance = (chance.unsqueeze(-1) * torch.stack([score, 1.0 - score], -1)).reshape(len(prompt), -1)
        return Outcomes(state, action, mask, success, chance)
