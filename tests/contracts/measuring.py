"""Diagnostics measured in small runs and on batches made by hand."""

import math

import numpy as np
import torch

import asyncsim as sim
from tests.contracts.laboratory import acting, case, make

UNIFORM, PEAKED, BACK = [0.0, 0.0], [400.0, 0.0], [0.0, 400.0]
NAN = math.nan


def measure(
    name, *, means=(0.0, 1.0), rewards="fixed", system=None, start=UNIFORM, method=None, links=(), updates=1, **changes
):
    """Values [U, R] of a diagnostic in a two-armed bandit."""
    task = sim.tasks.softmax_bandit(arms=2, means=list(means), rewards=rewards)
    settings = {"samples_per_group": 4, "replicates": 2, **changes}
    spec = sim.Spec(
        task,
        system or sim.schedules.fixed(0),
        method or sim.methods.reinforce(sim.advantages.none()),
        sim.chain(*links),
        updates=updates,
        diagnostics=[name],
        initial=start,
        **settings,
    )
    trace = sim.run(spec, seed=0)
    return trace.metrics.get(name, trace.accumulated.get(name))


class Push:
    """A link that sets the step, to move the policy at will: [[step of update 0], [of update 1], ...]."""

    def __init__(self, *steps):
        self.steps = steps

    def init(self, parameters):
        return {"count": torch.zeros(parameters.shape[0])}

    def apply(self, record, state):
        step = self.steps[min(int(state["count"][0]), len(self.steps) - 1)]
        record.direction = torch.tensor(step, dtype=record.direction.dtype).expand_as(record.direction)
        return record, {"count": state["count"] + 1}


FROZEN = sim.schedules.frozen()


def stale(name, shift, **changes):
    """The diagnostic at the second update, after the policy has moved by `shift` from the uniform one that samples."""
    return measure(name, system=FROZEN, links=[Push(shift)], updates=2, **changes)[1]


def ess_ends(name):
    # Data uniform, policy moved to one arm: half of the population has all the weight.
    low = stale(name, [40.0, 0.0], sampling="enumerate")
    return measure(name)[0], 1.0, low, 0.5


def told(name, trial, **changes):
    """The diagnostic on a batch made by hand."""
    step = _step(trial, sim.methods.reinforce(sim.advantages.none()), **changes)
    return make("diagnostics", name).measure(step).numpy()


def parted(name, stale=0.0, rounded=0.0):
    """Two samples of two tokens; the log ratio of one moves by `stale` with the weights, by `rounded` with the sampler.

    Both are spread unevenly over its tokens.
    """
    trial = case(G=1, N=2, T=2, ragged=False)
    current = trial.policy.forward(trial.batch.view, trial.batch, ("log_prob",)).outputs["log_prob"]
    trial.new, uneven = trial.old, torch.tensor([[1.25, -0.25], [0.0, 0.0]], dtype=torch.float64)
    scored = current - stale * uneven
    return told(name, trial, behavior={"log_prob": scored - rounded * uneven, "scored_log_prob": scored})


def cached(name, gap, stale):
    """Two samples of two tokens, sampled `gap` nats off what a reread would say, every token or none of them stale."""
    trial = case(G=1, N=2, T=2, ragged=False)
    reread = trial.batch.behavior["log_prob"]
    flags = torch.full_like(reread, stale)
    return told(name, trial, behavior={"log_prob": reread + gap, "reread_log_prob": reread, "stale_cache": flags})


def ending(name, ended, finished):
    """Two replicates of 40 paid tokens, of which every one or none ends an episode."""
    shape = (2, 2, 5, 4)
    changes = {"ended": torch.full(shape, ended), "finished": torch.full(shape, finished, dtype=torch.float64)}
    return told(name, acting(), **changes)


def step_with(
    log_ratio, *, mask=None, reward=1.0, mass=None, size=None, version=None, method=None, train_version=7, stale=None
):
    """A step whose token log ratios pi/mu are the given ones, `[R, G, N, T]`; the anchor is the behavior policy."""
    log_ratio = torch.as_tensor(np.array(log_ratio, dtype=np.float64))
    R, G, N, T = log_ratio.shape
    trial = case(R=R, G=G, N=N, T=T, drift=0.0, ragged=False)
    batch = trial.batch
    batch.mask = batch.mask if mask is None else torch.as_tensor(np.array(mask, dtype=np.float64)).expand(R, G, N, T)
    now = trial.policy.forward(batch.view, batch, ("log_prob",)).outputs["log_prob"]
    batch.behavior = {"log_prob": now - log_ratio}
    if stale is not None:
        batch.behavior["stale_cache"] = torch.full_like(now, stale)
    batch.reward = torch.as_tensor(np.asarray(reward, dtype=np.float64)).expand(R, G, N).clone()
    batch.mass = batch.mass if mass is None else torch.as_tensor(np.array(mass, dtype=np.float64)).reshape(1, G, N)
    batch.size = N if size is None else size
    if version is not None:
        batch.version, batch.train_version = np.asarray(version, dtype=np.int32), train_version
    return _step(trial, method or sim.methods.reinforce(sim.advantages.none()))


def _step(trial, method, **changes):
    """The step of a batch made by hand, with its own gradient as the one before."""
    step, gradient = trial.evaluate(method, **changes)
    step.parameters, step.previous = trial.new, gradient
    return step


def on(metric, log_ratio, **changes):
    """Values `[R]` of a metric, or of the one of that name, on a step with the given log ratios."""
    metric = make("diagnostics", metric) if isinstance(metric, str) else metric
    return metric.measure(step_with(log_ratio, **changes)).numpy()
