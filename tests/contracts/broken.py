"""Tasks and policies with one thing wrong, each of which a contract test has to see."""

import numpy as np
import torch

from asyncsim.base import rng
from asyncsim.policies._policy import Act
from asyncsim.step import versions
from asyncsim.step.batch import Draws


class Wrapped:
    """A task or a policy in place of another one, to change one thing about it."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def fit(self, policy):
        self.inner.fit(policy)
        return self


class Unkeyed(Wrapped):
    """Rewards from a generator that remembers."""

    random = np.random.default_rng(0)

    def earn(self, *arguments):
        return self.inner.earn(*arguments) + float(self.random.random())


class UnkeyedStart(Wrapped):
    """The same in an environment that pays by token."""

    random = np.random.default_rng(0)

    def begin(self, prompt, draws, carried=None):
        world = self.inner.begin(prompt, draws, carried)
        world.observation[:, 0] += 0.1 * self.random.random(len(world.observation))
        return world


class Seedless(Wrapped):
    """Actions from a seed of its own."""

    def act(self, view, seen, draws, token, memory=None, active=None):
        draws = Draws(rng.Stream(0, "rollout"), draws.replicates, draws.realization, draws.trajectory)
        return self.inner.act(view, seen, draws, token, memory, active)


class Alone(Wrapped):
    """Actions keyed by trajectory, not by replicate."""

    def act(self, view, seen, draws, token, memory=None, active=None):
        draws = Draws(draws.stream, 0 * draws.replicates, draws.realization, draws.trajectory)
        return self.inner.act(view, seen, draws, token, memory, active)


class Placed(Wrapped):
    """Actions keyed by the place in the block."""

    def act(self, view, seen, draws, token, memory=None, active=None):
        place = np.arange(len(draws.replicates))
        draws = Draws(draws.stream, place, draws.realization, draws.trajectory)
        return self.inner.act(view, seen, draws, token, memory, active)


class Newest(Wrapped):
    """Actions from the weights that were prepared last."""

    def prepare(self, parameters):
        self.last = self.inner.prepare(parameters)
        return self.last

    def act(self, view, *arguments):
        return self.inner.act(versions.current(self.last), *arguments)


class Centered(Wrapped):
    """Weights relative to those of the other replicates."""

    def prepare(self, parameters):
        return self.inner.prepare(parameters - parameters.mean(0, keepdim=True))


class Ranked(Wrapped):
    """Tokens paid relative to those of the other replicates."""

    def step(self, *arguments):
        turn = self.inner.step(*arguments)
        return turn._replace(reward=turn.reward * (1.0 + arguments[1].double().mean(0)))


class Misrecorded(Wrapped):
    """Log-probs that are not those of the draw."""

    def act(self, *arguments):
        action = self.inner.act(*arguments).action
        return Act(action, {"log_prob": torch.full(action.shape, -1.0, dtype=torch.float64)})


class Unmoved(Wrapped):
    """No gradient."""

    def forward(self, *arguments):
        found = self.inner.forward(*arguments)
        return found._replace(pullback=lambda each: 0.0 * found.pullback(each))


class Shared(Wrapped):
    """One reward for a group."""

    def earn(self, *arguments):
        return self.inner.earn(*arguments).mean(-1, keepdim=True)


class Overpaid(Wrapped):
    """Ends without the return of their episode."""

    def step(self, *arguments):
        turn = self.inner.step(*arguments)
        return turn._replace(ended=torch.ones_like(turn.ended), finished=torch.full_like(turn.finished, torch.nan))


class Flipped(Wrapped):
    """Draws rewards that its own expectation knows nothing of."""

    def earn(self, *arguments):
        return 1.0 - self.inner.earn(*arguments)
