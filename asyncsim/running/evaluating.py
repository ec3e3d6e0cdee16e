"""`evaluate`: rewards of a trained policy on a task, such as held-out data, and its responses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import calls, checks, files, uncertainty
from asyncsim.base.trace import Trace
from asyncsim.running import checkpoint
from asyncsim.sampling.rollouts import Sampler, rolled_out
from asyncsim.step import versions

if TYPE_CHECKING:
    import pandas as pd

STEP = 64
"""Number of trajectories drawn in parallel."""
KEYS = 64
"""Constant in the keys that separates evaluations from runs of the same seed."""


@dataclass(frozen=True)
class Evaluated(calls.Told):
    """Rewards float64 `[R, Q, N]` of replicates, prompts and samples, their `mean`, and the responses.

    `low` and `high`: 95 percent interval of the mean over the samples named by `unit`, NaN if there is only one.
    `texts`: a row for each response of a language task, with `replicate`, `prompt` (its number), `question`,
    `response`, `tokens`, `ended` and `reward`. `header`: the task in words, samples, greedy and seed.
    """

    rewards: np.ndarray
    mean: float
    low: float
    high: float
    unit: str
    texts: list[dict[str, Any]] = field(default_factory=list, repr=False)
    header: dict[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        how = "greedy" if self.header.get("greedy") else "sampled"
        between = "no interval" if math.isnan(self.low) else f"95 % interval {self.low:.4g} to {self.high:.4g}"
        return f"mean reward {self.mean:.4g} ({between}) over {self.unit}, {how}"

    def table(self) -> pd.DataFrame:
        """The evaluated responses as a table with one row per response."""
        from asyncsim.base.tables import Table

        return Table(self.texts)


@calls.named
def evaluate(
    trained: Trace | files.Where,
    task: Any,
    samples: int = 1,
    greedy: bool = False,
    seed: int = 0,
    policy: Any = None,
    trust: Sequence[str] = (),
    device: str = "cpu",
) -> Evaluated:
    """Evaluate a trained policy on all prompts of a task: its mean reward, and the responses of a language model.

    Arguments: `trained`, a trace, or the path of a saved trace or of a checkpoint. `task`: the task. `samples` per
    prompt, N. `greedy`: always the most likely token (language models). `seed` of the draws, which differ from those of
    any run. `policy`: that of the run, if the trace or its file cannot name it (default: the task's own). `trust`: a
    user's code that the file may name. `device`: "cpu" or "cuda".

    Returns `Evaluated`; its interval is over prompts, with a single prompt over replicates, with a single replicate too
    over samples. Raises `InputError` for a task that does not fit, or if parts of the model are missing.

    >>> import asyncsim as sim
    >>> task = sim.tasks.softmax_bandit()
    >>> spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(sim.updates.sgd(0.1)),
    ...                 updates=20, replicates=2)
    >>> found = evaluate(sim.run(spec), task, samples=50)
    >>> found.rewards.shape, found.low < found.mean < found.high
    ((2, 1, 50), True)
    """
    fits = callable(getattr(task, "policy", None))
    checks.require(fits, "task", task, "a task", "write sim.tasks.NAME(...), as text('test.jsonl')")
    checks.one_of("device", str(device).partition(":")[0], ("cpu", "cuda"), "say where to compute")
    checks.integer("samples", samples, 1, "give samples per prompt")
    checks.integer("seed", seed, 0, "give a non-negative integer seed", 2**63 - 1)
    if not isinstance(trained, Trace):
        path = files.named("trained", trained)
        if files.kind_of(path) == "checkpoint":
            saved = checkpoint.read(path)
            policy = saved.remade(trust).trained_policy if policy is None else policy
            # Those of finished blocks and of the one under way.
            rows = [torch.as_tensor(part.parameters).double() for part in saved.parts]
            rows += [saved.standing["parameters"].double().cpu()] if saved.standing is not None else []
            remedy = "go on with the run until its next checkpoint"
            checks.require(bool(rows), "trained", str(saved.path), "a checkpoint behind a first batch", remedy)
            return measured(policy, torch.cat(rows), task, samples, greedy, seed, device)
        trained = Trace.load(path)
    if policy is None and trained.header.get("policy") is None:
        policy = task.policy()
    policy = trained.policy(policy, trust)
    return measured(policy, torch.from_numpy(trained.parameters), task, samples, greedy, seed, device)


def measured(
    policy: Any,
    parameters: Tensor,
    task: Any,
    samples: int = 1,
    greedy: bool = False,
    seed: int = 0,
    device: str | None = None,
) -> Evaluated:
    """Evaluate a policy with parameters `[R, P]` on a task, on the parameters' device unless another is given."""
    usable = hasattr(task, "fit") and hasattr(task, "adapted")
    checks.require(usable, "task", task, "a task", "write sim.tasks.NAME(...), as sim.tasks.text('test.jsonl', ...)")
    spoken, asked = hasattr(policy, "tokenizer"), hasattr(task, "read")
    kind = {True: "a language model", False: "no language model"}
    bound, remedy = f"one for {kind[spoken]}, as the policy is", "evaluate on a task of the kind that it was trained on"
    checks.require(spoken == asked, "task", type(task).__name__, bound, remedy)
    here = versions.at_hand(device or "cpu")
    checks.require(here, "device", device, versions.AT_HAND, "use device='cpu'")
    if greedy:
        remedy = "evaluate samples, or a language model"
        checks.require(hasattr(policy, "greedy"), "greedy", True, "False for this policy", remedy)
        policy = policy.greedy()
    fitted = task.fit(task.adapted(policy))
    where = device or parameters.device.type
    with torch.no_grad(), versions.threads(policy.threads), versions.on(where):
        rows = parameters.to(where, getattr(torch, policy.precision))
        parts = [_asked(policy, fitted.whole, row[None], r, samples, seed) for r, row in enumerate(rows)]
    rewards = np.stack([reward for reward, _ in parts])
    R, Q, N = rewards.shape
    means, unit = (rewards.mean((0, 2)), f"{Q} prompts") if Q > 1 else (rewards[0, 0], f"{N} samples")
    means, unit = (rewards.mean((1, 2)), f"{R} replicates") if Q == 1 and R > 1 else (means, unit)
    low = high = math.nan
    if len(means) > 1:
        estimate = uncertainty.between(means)
        half = uncertainty.critical(0.05, estimate.freedom) * estimate.error
        low, high = estimate.value - half, estimate.value + half
    header = {"task": fitted.describe(), "samples": samples, "greedy": greedy, "seed": seed}
    texts = [row for _, rows in parts for row in rows]
    return Evaluated(rewards, float(means.mean()), low, high, unit, texts, header)


def _asked(
    policy: Any, task: Any, parameters: Tensor, replicate: int, samples: int, seed: int
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Rewards `[Q, N]` and responses of one replicate, computed for several prompts at a time."""
    # Keys of its own: no draw of a run is drawn again.
    own = int(np.random.SeedSequence([seed, KEYS]).generate_state(1, np.uint64)[0] >> 1)
    sampler = Sampler(task, policy, samples, own, np.array([replicate]), np.zeros(1, dtype=np.int64))
    view = versions.current(sampler.installed(0, policy.prepare(parameters)))
    rewards, texts, step = [], list[dict[str, Any]](), max(1, STEP // samples)
    for first in range(0, task.prompts, step):
        asked = np.arange(first, min(first + step, task.prompts))
        ids = (asked[:, None] * samples + np.arange(samples))[None]
        drawn, reward = rolled_out(sampler, view, sampler.draws(ids), sampler.prompts(ids))
        rewards.append(reward[0].double().cpu().numpy())
        if hasattr(task, "read"):
            answers = task.read(drawn.action, drawn.mask)
            for number, answer, paid in zip(np.repeat(asked, samples), answers, reward.flatten().tolist(), strict=True):
                about = {"replicate": replicate, "prompt": int(number), "question": task.texts[number]}
                about |= {"response": answer.text, "tokens": len(answer.ids), "ended": answer.ended}
                texts.append(about | {"reward": paid})
    return np.concatenate(rewards), texts
