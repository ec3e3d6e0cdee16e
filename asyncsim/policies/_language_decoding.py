"""A decode loop of fixed shapes: off the CPU, launches cost more than arithmetic, and every wait empties the queue.

Every tensor of a token step stays where it is and keeps its shape, so that one graph of launches can hold a step.
Finished rows go on unread. Rows of several weights, sorted by them, share the network's passes.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from asyncsim.policies._language_network import beside, read
from asyncsim.policies._language_prompts import Pair, Prompts, common, lay_out, read_through, refuse_long
from asyncsim.policies._language_sampling import Distribution, choose
from asyncsim.policies._policy import Written
from asyncsim.step.batch import Draws, Outputs
from asyncsim.step.versions import View, tensor

BLOCK = 16
"""Token steps between two questions whether any row goes on, the only waits of a loop."""


class Static:
    """Key-value cache `[B, H, C, D]` of every layer, allocated once; a pass writes one column for all rows.

    `column` int64 `[1]` is a tensor, so that the same launches write the next one. What is not written yet is 0, and
    hidden by the mask.
    """

    is_compileable = False

    def __init__(self, shared: list[Pair] | None, layers: list[Pair], which: Tensor, columns: int) -> None:
        self.columns, none = columns, [(None, None)] * len(layers)
        self.layers = []
        for before, pair in zip(shared or none, layers, strict=True):
            key, value = (_widened(old, new, which, columns) for old, new in zip(before, pair, strict=True))
            self.layers.append((key, value))
        self.column = which.new_full((1,), layers[0][0].shape[2] + (shared[0][0].shape[2] if shared else 0))

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> Pair:
        """Write one column of a layer's cache, and return all its keys and values, `[B, H, C, D]`."""
        pair = self.layers[layer_idx]
        pair[0].index_copy_(2, self.column, key)
        pair[1].index_copy_(2, self.column, value)
        return pair

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Number of columns in the cache, C, of which the mask selects the written ones."""
        return self.columns


class Loop:
    """Decoding loop in which each row samples one token per step, `[B]`; holds the sampled tokens, `[S, B]`.

    `logits` `[B, V]` choose the first tokens. Row b draws `count[b]` tokens by `uniform` `[S, B]`, or fewer where one
    of them ends it; `going` bool `[V]` says which do not.
    """

    def __init__(
        self,
        law: Distribution,
        network: nn.Module,
        prompts: Prompts,
        cache: Static,
        uniform: Tensor,
        count: Tensor,
        going: Tensor,
        whole: bool,
    ) -> None:
        self.law, self.network, self.cache, self.whole = law, network, cache, whole
        (self.steps, B), self.uniform, self.count, self.going = uniform.shape, uniform, count, going
        self.ids, self.place = count.new_zeros(B, 1), prompts.length.unsqueeze(1) - 1
        self.at, self.alive = count.new_zeros(1), count > 0
        # Rows hide their padding and what is not written yet.
        occupied, dtype = prompts.occupied(0), cache.layers[0][0].dtype
        self.mask = torch.full((B, 1, 1, cache.columns), -torch.inf, dtype=dtype)
        self.mask[:, 0, 0, : occupied.shape[1]].masked_fill_(occupied, 0.0)
        self.columns: Outputs = {}

    def run(self, logits: Tensor) -> None:
        """Sample all tokens of all rows."""
        self.choose(logits)
        for step in range(1, self.steps):
            if step % BLOCK == 0 and not bool(self.alive.any()):
                break
            self.step()

    def step(self) -> None:
        """Feed the last tokens to the network and sample the next ones; finished rows stay unchanged."""
        self.place += self.alive.unsqueeze(1)
        self.mask.index_fill_(3, self.cache.column, 0.0)
        logits = read(self.network, self.ids, self.place, self.mask, self.cache, 1)
        self.cache.column += 1
        self.choose(logits[:, 0])

    def choose(self, logits: Tensor) -> None:
        """Sample the next token of every row, and record it."""
        V = self.going.shape[0]
        log_probs = self.law.log_prob(logits[:, :V])
        token = choose(log_probs, self.uniform.index_select(0, self.at)[0])
        goes = self.going.index_select(0, token).logical_and_(self.alive)
        self._note("action", token)
        self._note("log_prob", log_probs.gather(1, token.unsqueeze(1))[:, 0])
        self._note("present", self.alive)
        self._note("goes", goes)
        if logits.shape[1] > V:
            self._note("value", logits[:, V])
        if self.whole:
            self._note("log_probs", log_probs)
        self.at += 1
        torch.logical_and(goes, self.at < self.count, out=self.alive)
        self.ids.copy_(token.unsqueeze(1))

    def _note(self, name: str, value: Tensor) -> None:
        if name not in self.columns:
            self.columns[name] = value.new_zeros(self.steps, *value.shape)
        self.columns[name].index_copy_(0, self.at, value.unsqueeze(0))


class Round(NamedTuple):
    """Rows int64 `[b]` that sample tokens `begin` to `end` `[b]` with one `owner`'s weights `[b]`, sorted by owner."""

    rows: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    owner: np.ndarray


def rounds(owner: np.ndarray, wanted: np.ndarray, apart: bool = False) -> Iterator[Round]:
    """Rounds of decoding: round k has each row's k-th run of wanted tokens under one owner's weights, `[B, T]` in all.

    >>> owner = np.array([[0, 0, 1], [1, 1, 1]])
    >>> [(x.rows.tolist(), x.begin.tolist(), x.end.tolist()) for x in rounds(owner, owner >= 0)]
    [([0, 1], [0, 0], [2, 3]), ([0], [2], [3])]
    """
    number = (np.diff(np.where(wanted, owner, -1), axis=1, prepend=-1) != 0).astype(np.int64)
    number = np.where(wanted, (number * wanted).cumsum(1), 0)
    for k in range(1, int(number.max(initial=0)) + 1):
        inside = number == k
        rows = inside.any(1).nonzero()[0]
        begin = inside[rows].argmax(1)
        whose = owner[rows, begin]
        order = np.argsort(whose, kind="stable")
        end = begin + inside[rows].sum(1)
        whole = Round(*(x[order] for x in (rows, begin, end, whose)))
        for one in np.unique(whose) if apart else [None]:
            yield whole if one is None else Round(*(x[whole.owner == one] for x in whole))


def write(
    policy: Any, view: View, seen: Tensor, draws: Draws, stops: tuple[int, ...], before: Written, where: Tensor | None
) -> Written:
    """Sample the wanted tokens (bool `[R, G, N, T]`; None: all) of a `CausalLM` in a loop of fixed shapes."""
    shape, model = before.mask.shape, policy.model
    R, T, B = shape[0], shape[3], before.mask[..., 0].numel()
    slot = view.slot if view.slot.shape[0] == 1 else view.slot[view.realization]
    owner = (np.broadcast_to(slot, shape) * R + np.arange(R).reshape(R, 1, 1, 1)).reshape(B, T)
    wanted = np.ones((B, T), dtype=bool) if where is None else where.reshape(B, T).cpu().numpy()
    seen, uniform = seen.reshape(B, -1), draws.uniforms(T).reshape(B, T)
    flat = {name: x.reshape(B, *x.shape[3:]).clone() for name, x in _columns(policy, view, before).items()}
    going = torch.ones(model.vocabulary, dtype=torch.bool)
    going[tensor(np.array([s for s in stops if s < model.vocabulary], dtype=np.int64))] = False
    for each in rounds(owner, wanted, not model.rowwise):
        if where is not None or each.begin.any():
            # Rows that ended before have nothing to draw.
            there = flat["mask"][tensor(each.rows), tensor(each.begin)].cpu().numpy() > 0
            each = Round(*(x[there] for x in each))
        if len(each.rows):
            _draw(policy, view, each, seen, uniform, going, flat)
    back = {name: x.reshape(*shape[:3], *x.shape[1:]) for name, x in flat.items()}
    return Written(back.pop("action"), back.pop("mask"), back)


def _columns(policy: Any, view: View, before: Written) -> Outputs:
    """Existing columns of outputs, and 0 in columns still to be sampled."""
    empty = before.mask.new_zeros(before.mask.shape, dtype=view.weights["parameters"].dtype)
    fresh = {"log_prob": empty} | ({"value": empty} if policy.model.critic else {})
    if policy.distributions and "log_probs" not in before.outputs:
        fresh["log_probs"] = empty.new_zeros(*empty.shape, policy.model.vocabulary)
    action = empty.new_zeros(empty.shape, dtype=torch.int64) if before.action is None else before.action
    return {**fresh, **before.outputs, "action": action, "mask": before.mask}


def _draw(policy: Any, view: View, each: Round, seen: Tensor, uniform: Tensor, going: Tensor, flat: Outputs) -> None:
    """Sample one round, and write it to the columns `[B, T, ...]`."""
    rows, begin = tensor(each.rows), tensor(each.begin)
    count = tensor(each.end - each.begin)
    T, S = uniform.shape[1], int((each.end - each.begin).max())
    whose, sizes = np.unique(each.owner, return_counts=True)
    # What texts share depends on the weights.
    text = torch.cat([seen[rows], flat["action"][rows]], 1)
    column = torch.arange(text.shape[1]) - (flat["action"].shape[1] - begin).unsqueeze(1)
    # Prompts and the first `begin` tokens behind them, padded on the left.
    so_far = torch.where(column >= 0, text.gather(1, column.clamp(min=0)), -1)
    prompts = lay_out(so_far, policy.context, len(whose) == 1)
    refuse_long(int((prompts.length + count).max()), policy.context)
    # Read the texts, each with its own weights and equal ones once.
    weights, nothing = view.weights["parameters"].flatten(0, 1), prompts.rest[:, :0]
    networks = [policy.model.bound(weights[int(one)], policy.sampler)[0] for one in whose]
    first, which = prompts.alike(tensor(each.owner).unsqueeze(1))
    distinct = sizes if len(whose) == 1 else np.unique(each.owner[first.cpu().numpy()], return_counts=True)[1]
    reader = beside(networks, distinct.tolist())
    shared = common(reader, prompts)
    logits, layers = read_through(reader, prompts.rows(first), nothing[first], shared, 1)
    cache = Static(shared, layers, which, prompts.width + S - 1)
    network = beside(networks, sizes.tolist())
    ahead = begin + torch.arange(S).unsqueeze(1)
    mine = uniform[rows].gather(1, ahead.T.clamp(max=T - 1)).T.contiguous()
    loop = Loop(policy.distribution, network, prompts, cache, mine, count, going, policy.distributions)
    loop.run(logits[which, 0])
    # Put what was drawn where it belongs: token t of a row is its step t - begin.
    step = torch.arange(T) - begin.unsqueeze(1)
    noted = {name: x.transpose(0, 1) for name, x in loop.columns.items()}
    index = step.clamp(0, S - 1)
    inside = (step >= 0) & (step < S) & noted.pop("present").gather(1, index)
    goes = noted.pop("goes").gather(1, index)
    for name, value in noted.items():
        wide = (1,) * (value.ndim - 2)
        spread = value.gather(1, index.reshape(*index.shape, *wide).expand(-1, -1, *value.shape[2:]))
        old = flat[name][rows]
        flat[name][rows] = torch.where(inside.reshape(*inside.shape, *wide), spread.to(old.dtype), old)
    mask = flat["mask"][rows]
    mask[:, 1:] = torch.where(inside[:, :-1], goes[:, :-1].to(mask.dtype), mask[:, 1:])
    flat["mask"][rows] = mask


def _widened(shared: Tensor | None, part: Tensor, which: Tensor, columns: int) -> Tensor:
    """Rows of `[b, H, c, D]` after the shared columns `[1, H, K, D]`, padded with zeros to `columns`."""
    K = 0 if shared is None else shared.shape[2]
    whole = part.new_zeros(len(which), part.shape[1], columns, part.shape[3])
    whole[:, :, K : K + part.shape[2]] = part[which]
    if shared is not None:
        whole[:, :, :K] = shared
    return whole
