"""The distribution that tokens are drawn from, and the caches of a sampler."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from asyncsim.learning.batch import Draws
from asyncsim.learning.versions import View
from asyncsim.policies._cache import Columns, Pair
from asyncsim.policies._language_network import Model, read
from asyncsim.policies._language_prompts import Prompts, alike, common, joined, read_through, refuse_long


@dataclass(frozen=True)
class Distribution:
    """softmax(logits / temperature) on the `top_k` likeliest tokens (0: all), then on the likeliest that hold `top_p`.

    A token belongs to the nucleus when those before it hold less than `top_p`.
    """

    temperature: float
    top_p: float
    top_k: int

    def log_prob(self, logits: Tensor) -> Tensor:
        """Log-probabilities in nats, -inf outside the nucleus, float32 or wider `[..., V]`."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        scaled = logits if self.temperature == 1.0 else logits / self.temperature
        if 0 < self.top_k < scaled.shape[-1]:
            least = scaled.detach().topk(self.top_k, dim=-1).values[..., -1:]
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        if self.top_p < 1.0:
            ordered = scaled.detach().sort(dim=-1, descending=True).values
            prob = ordered.softmax(-1)
            inside = prob.cumsum(-1) - prob < self.top_p
            inside[..., 0] = True
            least = ordered.masked_fill(~inside, torch.inf).amin(-1, keepdim=True)
            scaled = scaled.masked_fill(scaled < least, -torch.inf)
        return scaled.log_softmax(-1)


def choose(log_prob: Tensor, uniform: Tensor, which: Tensor | None = None) -> Tensor:
    """Tokens int64 `[B]` by inverse CDF of log-probabilities `[B, V]`; impossible ones are never chosen.

    With `which` int64 `[B]` every number reads that row of log-probabilities `[b, V]`. A uniform number of 53 bits
    times the total stays below the total, so some edge lies above it.
    """
    edges = log_prob.double().exp().cumsum(-1)
    edges = edges if which is None else edges[which]
    token = torch.searchsorted(edges, (uniform * edges[:, -1]).unsqueeze(1), right=True).squeeze(1)
    # Weights that have diverged give NaN, above which there is no edge.
    return token.clamp(max=log_prob.shape[1] - 1)


class Lane:
    """The cache of the rows that one set of weights is reading; rows that are alike so far share one place in it.

    `place` int64 `[B]`: position of a row of the batch in the cache (-1: absent). `rows`: one row of each position.
    `upto` int64 `[B]`: tokens of its response in the cache; reading one again removes those behind it.
    """

    def __init__(self, network: nn.Module, prompts: Prompts) -> None:
        self.network, self.prompts = network, prompts
        self.shared: list[Pair] | None = common(network, prompts)
        self.cache: Columns | None = None
        self.rows = torch.zeros(0, dtype=torch.int64)
        self.place = torch.full(prompts.length.shape, -1)
        self.upto = torch.zeros_like(prompts.length)

    def logits(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[b, V]` of the token behind `actions` int64 `[B, t]`, and which of them each of some rows has."""
        t = actions.shape[1]
        ready = (self.place[rows] >= 0) & (self.upto[rows] >= t - 1) & (t > 0)
        if bool(ready.all()):
            return self._step(rows, actions)
        if not bool(ready.any()):
            return self._prefill(rows, actions)
        stepped, known = self._step(rows[ready], actions)
        fresh, new = self._prefill(rows[~ready], actions)
        which = torch.empty_like(rows)
        which[ready], which[~ready] = known, len(stepped) + new
        return torch.cat([stepped, fresh]), which

    def _prefill(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Read prompts and responses from the beginning."""
        first, which = self.prompts.rows(rows).alike(actions[rows])
        leaders = rows[first]
        logits, layers = read_through(self.network, self.prompts.rows(leaders), actions[leaders], self.shared, 1)
        self._admit(rows, which, leaders, Columns(joined(self.shared, layers, torch.arange(len(leaders)))))
        self.upto[rows] = actions.shape[1]
        return logits[:, 0], which

    def _admit(self, rows: Tensor, which: Tensor, leaders: Tensor, fresh: Columns) -> None:
        """Put rows into the cache behind those that stay; `which` of the fresh places each of them has."""
        self.place[rows] = -1
        present = (self.place >= 0).nonzero()[:, 0]
        used, place = torch.unique(self.place[present], return_inverse=True)
        if self.cache is None or len(used) == 0:
            self.cache, self.rows = fresh, leaders
        else:
            staying = torch.empty_like(used)
            staying[place] = present
            remaining = self.cache if len(used) == len(self.rows) else self.cache.select(used)
            self.cache, self.rows = remaining.concatenate(fresh), torch.cat([staying, leaders])
            self.place[present] = place
        self.place[rows] = len(used) + which

    def _step(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Read the last token of some rows, once for those that stay alike."""
        assert self.cache is not None
        t = actions.shape[1]
        first, which = alike(torch.stack([self.place[rows], actions[rows, t - 1]], 1))
        leaders = rows[first]
        self._seat(rows, which, leaders)
        places, everyone = self.place[leaders], len(leaders) == len(self.rows)
        prompts = self.prompts.rows(self.rows)
        self.cache.point(prompts.width + t - 1, None if everyone else places)
        ids, place = actions[self.rows, t - 1 :], (prompts.length + t - 1).unsqueeze(1)
        logits = read(self.network, ids, place, prompts.occupied(t)[:, None, None], self.cache, 1)[:, 0]
        self.upto[rows] = t
        return logits[places], which

    def _seat(self, rows: Tensor, which: Tensor, leaders: Tensor) -> None:
        """Give each kind of row a place of its own, before the columns of its leader are written.

        Where rows of one place have parted, or three quarters of the cache or less are read on, the others leave it.
        """
        assert self.cache is not None
        places = self.place[leaders]
        if len(torch.unique(places)) < len(places) or 4 * len(places) <= 3 * len(self.rows):
            self.cache, self.rows = self.cache.select(places), leaders
            self.place.fill_(-1)
            self.place[rows] = which
            return
        # Rows that are not read on lose a place whose columns go on without them.
        self.place[torch.isin(self.place, places)] = -1
        self.place[rows] = places[which]
        self.rows[places] = leaders


@dataclass
class Memory:
    """Prompts, actions int64 `[B, t]`, and a lane for each set of weights that is reading.

    Lanes are forgotten with the weights that they belong to; they are then read again from prompts and actions.
    """

    prompts: Prompts
    context: int
    actions: Tensor
    lanes: dict[int, Lane] = field(default_factory=dict)
    origin: weakref.ref[Tensor] | None = None
    edition: int = -1

    def lane(self, model: Model, view: View, owner: int, form: str) -> Lane:
        """The lane of a (slot, replicate), numbered slot R + replicate."""
        weights = view.weights["flat"]
        if self.origin is None or self.origin() is not weights or self.edition != weights._version:
            self.lanes = lanes = dict[int, Lane]()
            # Caches are large: they go as soon as the weights that they belong to do.
            self.origin, self.edition = weakref.ref(weights, lambda _: lanes.clear()), weights._version
        if owner not in self.lanes:
            flat = weights.reshape(-1, weights.shape[-1])[owner]
            self.lanes[owner] = Lane(model.bound(flat, form)[0], self.prompts)
        return self.lanes[owner]

    def note(self, token: int, rows: Tensor, action: Tensor) -> None:
        """Note the actions int64 `[b]` of some rows at a token."""
        refuse_long(int(self.prompts.length[rows].max()) + token + 1, self.context)
        if token >= self.actions.shape[1]:
            self.actions = torch.nn.functional.pad(self.actions, (0, token + 1 - self.actions.shape[1]))
        self.actions[rows, token] = action

    def cut(self, row: int) -> Memory:
        """The memory of one row alone, without caches."""
        rows = torch.tensor([row])
        return Memory(self.prompts.rows(rows), self.context, self.actions[rows].clone())


def owners(view: View, shape: tuple[int, int, int, int]) -> Tensor:
    """Which of the stacked weights every token reads, slot R + replicate, int64 `[R, G, N, T]`."""
    R = shape[0]
    return view.slots(shape) * R + torch.arange(R).reshape(R, 1, 1, 1)


def draw(
    model: Model,
    distribution: Distribution,
    form: str,
    view: View,
    memory: Memory,
    draws: Draws,
    token: int,
    active: Tensor,
) -> tuple[Tensor, Tensor]:
    """Tokens int64 `[R, G, N]` of the active rows and their log-probs in nats; 0 elsewhere."""
    shape = active.shape
    uniform, active = draws.uniform(token, 0).reshape(-1), active.reshape(-1)
    owner = owners(view, (*shape, 1)).reshape(-1)
    action = torch.zeros_like(owner)
    log_prob = torch.zeros(owner.shape, dtype=view.weights["flat"].dtype)
    for one in torch.unique(owner[active]).tolist():
        rows = (active & (owner == one)).nonzero()[:, 0]
        logits, which = memory.lane(model, view, one, form).logits(rows, memory.actions[:, :token])
        log_probs = distribution.log_prob(logits)
        chosen = choose(log_probs, uniform[rows], which)
        action[rows] = chosen
        log_prob[rows] = log_probs[which, chosen].to(log_prob.dtype)
        memory.note(token, rows, chosen)
    return action.reshape(shape), log_prob.reshape(shape)
