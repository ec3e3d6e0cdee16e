"""The training batch: one record for sampled, counted and enumerated data."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import rng
from asyncsim.fusing import tape
from asyncsim.fusing.tape import drawn, primitive
from asyncsim.step.versions import View, tensor

Outputs = dict[str, Tensor]
"""Named outputs of a policy, each `[R, G, N, T]`: always `log_prob`, except for the quadratic, only `loss`."""


@dataclass(frozen=True)
class Draws:
    """Random draws of one batch, each keyed by stream, replicate, trajectory and token.

    `stream` is the stream of random numbers; `replicates`, int `[R]`, are global replicate numbers. `realization`, int
    `[R]`: the row of `trajectory` that each replicate reads; `trajectory`, int64 `[M, G, N]`: the ids. Draw 0 of a
    token chooses its action, draw 1 of token 0 its reward. `told`: ids `[R or 1, G, N]`, replicates `[R]` and key `[2]`
    as tensors while draws are recorded. `samples` per group and the count of `prompts` give an id's prompt.
    """

    stream: rng.Stream
    replicates: np.ndarray
    realization: np.ndarray
    trajectory: np.ndarray
    blocks: dict[tuple[int, int], tuple[Tensor, Tensor]] = field(default_factory=dict)
    told: tuple[Tensor, ...] = ()
    samples: int = 1
    prompts: int = 1

    @property
    def asked(self) -> np.ndarray:
        """Prompt index of every trajectory id, int64 `[M, G, N]`: group g has prompt g mod prompts."""
        return self.trajectory // self.samples % self.prompts

    @property
    def ids(self) -> np.ndarray:
        """Trajectory ids of the samples in every replicate, int64 `[R, G, N]`."""
        return self.trajectory[self.realization]

    def sibling(self, name: str) -> "Draws":
        """Draws of another random stream for the same trajectories, such as that of an environment."""
        return replace(self, stream=rng.Stream(self.stream.seed, name), blocks={}, told=())

    def uniform(self, token: int, draw: int) -> Tensor:
        """Uniform random numbers of one draw of one token, float64 `[R, G, N]`."""
        pair = self.blocks.get((token, draw // 2))
        if pair is None:
            pair = self.blocks[token, draw // 2] = self._block(token, draw // 2)
        return pair[draw % 2]

    def uniforms(self, tokens: int) -> Tensor:
        """Uniform random numbers of draw 0 of each of the first `tokens` tokens, float64 `[R, G, N, T]`."""
        from asyncsim.base import rng_compiled

        M, G, N = self.trajectory.shape
        both = np.empty((2, tokens, len(self.replicates), G * N))
        keys = (*self.stream.key, self.replicates, self.realization, self.trajectory.reshape(M, G * N))
        for token in range(tokens):
            rng_compiled.fill_block(*keys, token, 0, both[0, token], both[1, token])
        return tensor(np.moveaxis(both[0], 0, 2).reshape(len(self.replicates), G, N, tokens))

    def seeds(self, token: int) -> np.ndarray:
        """Random integer seeds for other libraries, int64 `[R, G, N]`, in the range of NumPy's old generator."""
        return (self._block(token, 0)[0].cpu().numpy() * 2.0**31).astype(np.int64)

    def _block(self, token: int, number: int) -> tuple[Tensor, Tensor]:
        """Both draws of a block: one block gives the numbers for action and reward."""
        from asyncsim.base import rng_compiled

        M, G, N = self.trajectory.shape
        low, high = (np.empty((len(self.replicates), G, N)) for _ in range(2))
        keys = (*self.stream.key, self.replicates, self.realization, self.trajectory.reshape(M, G * N), token)
        with primitive(drawn(token, number), *self.told) as done:
            rng_compiled.fill_block(*keys, number, low.reshape(-1, G * N), high.reshape(-1, G * N))
            return done(tensor(low), 0), done(tensor(high), 1)

    def normals(self, token: int, count: int, begin: int = 0) -> Tensor:
        """Standard normal draws `begin`, `begin` + 1, ... (`begin` even) of a token, float64 `[R, G, N, count]`."""
        from asyncsim.base import rng_compiled

        M, G, N = self.trajectory.shape
        out = np.empty((len(self.replicates), G, N, count))
        keys = (*self.stream.key, self.replicates, self.realization, self.trajectory.reshape(M, G * N), token)
        rng_compiled.fill_normals(*keys, begin, out.reshape(-1, G * N, count))
        return tensor(out)


@dataclass
class Batch:
    """Batch of trajectories as rectangular data `[R, G, N, T]`; missing tokens have mask 0, missing samples mass 0.

    `action`: int64 `[R, G, N, T]`, or float `[R, G, N, T, D]`. `state`: input of the policy, an int64 row of a table or
    an observation with a trailing axis; T = 1 if it is constant, as a prompt. `mask`: 1 on generated tokens. `reward`:
    `[R, G, N]`. `mass`: `[R or 1, G, N]`, sums to 1 inside a group. `size`: number of samples that the mass represents,
    infinity for a population. `behavior`: outputs recorded when the data was generated. Other names in it:
    `successor_value`, the critic's value after a token at which the episode was cut off, else 0; `scored_log_prob`, the
    trainer's log-probs at the behavior weights; if an engine keeps old cache entries, `stale_cache`, 1 on tokens that
    read one, and `reread_log_prob`, the log-prob without them. `view`: behavior weights, if kept.
    `version`: int32 `[M, G, N, T or 1]`; `train_version`. `trajectory`: ids, int64 `[M, G, N]`. `index`: cell of the
    policy's table that each token reads, set by tabular policies. `realization`: `[R]`. `token_reward`: `[R, G, N, T]`
    if the task pays per token. `ended`: bool `[R, G, N, T]`, the episode ended here. `finished`: its return, else 0.
    `broken`: bool `[R]`, replicates whose environment failed. `after`: environment state from which segments continue.
    `age`: staleness of tokens, `[R or 1, G, N, T or 1]`, None until needed. `cells`: samples were counted into cells.

    If rewards arrive late, `mass` is that of known rewards, which advantages compare, and `kept` `[R, G, N]` is its
    trained part. Then `arrivals` has, `[R, G, N]`: rewards as `earned`, and the mass of samples that are `fresh`
    (generated for this batch). `late` is 1 for samples trained late or on a substitute reward, `lost` for those whose
    reward is lost.
    """

    action: Tensor
    state: Tensor
    mask: Tensor
    reward: Tensor
    mass: Tensor
    size: float
    behavior: Outputs
    view: View | None
    version: np.ndarray
    train_version: int
    realization: np.ndarray
    trajectory: np.ndarray
    index: Tensor | None = None
    _full: bool | None = None
    token_reward: Tensor | None = None
    ended: Tensor | None = None
    finished: Tensor | None = None
    broken: Tensor | None = None
    after: Any = None
    age: Tensor | None = None
    kept: Tensor | None = None
    arrivals: Outputs = field(default_factory=dict)
    cells: bool = False

    @property
    def single(self) -> bool:
        """Whether every entry of the batch is one sample, not a cell of counts or of a population."""
        return not self.cells and self.size == self.reward.shape[2]

    @property
    def staleness(self) -> Tensor:
        """Staleness of every token in versions, `[R, G, N, T or 1]`; NaN where a version is unknown."""
        if self.age is None:
            gap = np.where(self.version < 0, np.nan, self.train_version - self.version.astype(np.float64))
            self.age = tensor(gap if len(gap) == 1 else gap[self.realization])
        return self.age.expand(self.action.shape[0], -1, -1, -1)

    @classmethod
    def of_nobody(
        cls, action: Tensor, state: Tensor, mask: Tensor, reward: Tensor, mass: Tensor, size: float
    ) -> "Batch":
        """Batch of tokens without a behavior version, on which a policy is evaluated."""
        version, trajectory = np.zeros((1, 1, 1, 1), dtype=np.int32), np.zeros((1, 1, 1), dtype=np.int64)
        realization = np.zeros(len(action), dtype=np.int64)
        return cls(action, state, mask, reward, mass, size, {}, None, version, 0, realization, trajectory)

    @property
    def full(self) -> bool:
        """Whether every token of the batch was generated, so that none is masked."""
        if self._full is None and tape.recording() is None:
            self._full = bool((self.mask > 0).all())
        return bool(self._full)

    @property
    def groups(self) -> int:
        """Number of groups in the batch, G."""
        return self.mass.shape[1]

    @property
    def share(self) -> Tensor:
        """Mass of each sample in the batch, including groups that the method drops, `[R or 1, G, N]`: total 1, or 0."""
        if self.kept is None:
            return self.mass / self.groups
        total = self.kept.sum((1, 2), keepdim=True)
        return self.kept / torch.where(total > 0, total, torch.ones_like(total))

    @property
    def generated(self) -> "Batch":
        """The batch as if all rewards had arrived in time, without groups of earlier batches."""
        if self.kept is None:
            return self
        return replace(self, reward=self.arrivals["earned"], mass=self.arrivals["fresh"], kept=self.arrivals["fresh"])

    @property
    def lengths(self) -> Tensor:
        """Number of generated tokens of each sample, `[R, G, N]`."""
        return self.mask.sum(-1)

    @property
    def rewards(self) -> Tensor:
        """Reward of every token, `[R, G, N, T]`; a reward at the end is on the last generated token."""
        if self.token_reward is not None:
            return self.token_reward
        left = self.mask.flip(-1).cumsum(-1).flip(-1)
        last = self.mask * (left == 1.0).to(self.mask.dtype)
        return self.reward.unsqueeze(-1) * last

    def update_staleness(self, updates_per_version: int, since_batch: int, mass: Tensor) -> Tensor:
        """Maximum update staleness of the generated tokens of samples with mass, float64 `[R]`; 0 if there are none.

        Every version holds `updates_per_version` updates; `since_batch` more were made since the trained version.
        `mass` `[R or 1, G, N]` is that of the samples left in the step. NaN if such a version is unknown.
        """
        age = self.staleness
        if age.shape[-1] > 1 and not self.full:
            age = torch.where(self.mask > 0, age, torch.full((), -math.inf, dtype=age.dtype))
        # A sample without a token of its own is as old as nothing.
        gap = (age.amax(3) * updates_per_version + since_batch).clamp(min=0.0)
        return torch.where(mass > 0, gap, torch.zeros((), dtype=gap.dtype)).amax((1, 2))
