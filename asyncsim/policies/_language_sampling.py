"""The distribution that tokens are drawn from, and the caches of a sampler."""

import weakref
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from asyncsim.policies import _language_prompts
from asyncsim.policies._language_network import Model, read
from asyncsim.policies._language_prompts import Columns, Kept, Prompts, alike, joined, read_through, together
from asyncsim.step.batch import Draws, Outputs
from asyncsim.step.versions import View


@dataclass(frozen=True)
class Distribution:
    """Sampling distribution softmax(logits / temperature) on the `top_k` likeliest tokens, then on the `top_p` nucleus.

    A token belongs to the nucleus when those before it hold less than `top_p`.
    """

    temperature: float
    top_p: float
    top_k: int

    def log_prob(self, logits: Tensor) -> Tensor:
        """Log-probs of all tokens in nats, -inf outside of the nucleus, float32 or wider `[..., V]`."""
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
    """Sample tokens int64 `[B]` by inverse CDF from log-probs `[B, V]`; impossible tokens are never chosen.

    With `which` int64 `[B]` every number reads that row of log-probabilities `[b, V]`. A uniform number of 53 bits
    times the total stays below the total, so some edge lies above it.
    """
    edges = log_prob.double().exp().cumsum(-1)
    edges = edges if which is None else picked(edges, which)
    token = torch.searchsorted(edges, (uniform * edges[:, -1]).unsqueeze(1), right=True).squeeze(1)
    # Weights that have diverged give NaN, above which there is no edge.
    return token.clamp(max=log_prob.shape[1] - 1)


def picked(table: Tensor, which: Tensor) -> Tensor:
    """Rows int64 `[B]` of a table `[b, V]`, without a copy if they are all rows in order."""
    same = len(which) == len(table) and torch.equal(which, torch.arange(len(which)))
    return table if same else table[which]


class Lane:
    """Key-value cache of the rows that read one set of weights; rows with equal tokens so far share an entry.

    `place` int64 `[B]`: position of a row of the batch in the cache (-1: absent). `rows`: one row of each position.
    `upto` int64 `[B]`: tokens of its response in the cache; reading one again removes those behind it. With `kept` a
    row that leaves takes its columns along, and goes on with them instead of being read again; `number` is that of the
    weights there.
    """

    def __init__(self, network: nn.Module, prompts: Prompts, kept: Kept | None = None, number: int = 0) -> None:
        self.network: nn.Module | None = network
        self.prompts, self.kept, self.number = prompts, kept, number
        self.cache: Columns | None = None
        self.rows = torch.zeros(0, dtype=torch.int64)
        self.place = torch.full(prompts.length.shape, -1)
        self.upto = torch.zeros_like(prompts.length)

    @cached_property
    def shared(self) -> list[_language_prompts.Pair] | None:
        """Keys and values of the shared prefix of all prompts."""
        return _language_prompts.common(self._live, self.prompts)

    @property
    def _live(self) -> nn.Module:
        assert self.network is not None
        return self.network

    def rest(self) -> None:
        """Release the lane's weights and keep its cache, which only rows that leave still use."""
        self.network = None
        self.__dict__.pop("shared", None)

    def logits(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[b, V]` of the token after `actions` int64 `[B, t]`, and each row's index among them."""
        t = actions.shape[1]
        ready = (self.place[rows] >= 0) & (self.upto[rows] >= t - 1) & (t > 0)
        if self.kept is not None and t > 0 and not bool(ready.all()):
            self._resume(rows[~ready], actions, self.kept)
            ready = torch.ones_like(ready)
        if bool(ready.all()):
            return self._step(rows, actions)
        if not bool(ready.any()):
            return self._prefill(rows, actions)
        stepped, known = self._step(rows[ready], actions)
        fresh, new = self._prefill(rows[~ready], actions)
        which = torch.empty_like(rows)
        which[ready], which[~ready] = known, len(stepped) + new
        return torch.cat([stepped, fresh]), which

    def _resume(self, rows: Tensor, actions: Tensor, kept: Kept) -> None:
        """Add rows with the columns that they bring; rows with equal tokens and equal writers share an entry.

        Columns are cut to those that are read, so that bits depend on nothing else.
        """
        t = actions.shape[1]
        past = torch.cat([actions[rows], kept.writer[rows, :t]], 1)
        first, which = self.prompts.rows(rows).alike(past)
        leaders = rows[first]
        self._admit(rows, which, leaders, kept.copy(leaders).resized(self.prompts.width + t))
        kept.drop(rows)

    def leave(self, rows: Tensor) -> None:
        """Release the cache entries of rows; with `kept`, their columns are stored."""
        if self.kept is not None and self.cache is not None:
            held = rows[self.place[rows] >= 0]
            self.kept.put(held, self.cache.select(self.place[held]))
        self.place[rows] = -1

    def _prefill(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Read prompts and responses from the start."""
        if self.kept is not None:
            self.kept.drop(rows)
        first, which = self.prompts.rows(rows).alike(actions[rows])
        leaders = rows[first]
        logits, layers = read_through(self._live, self.prompts.rows(leaders), actions[leaders], self.shared, 1)
        self._admit(rows, which, leaders, Columns(joined(self.shared, layers, torch.arange(len(leaders)))))
        self.upto[rows] = actions.shape[1]
        return logits[:, 0], which

    def _admit(self, rows: Tensor, which: Tensor, leaders: Tensor, fresh: Columns) -> None:
        """Append rows to the cache after those that stay; `which` maps them to the new entries."""
        self.place[rows] = -1
        present = (self.place >= 0).nonzero()[:, 0]
        used, place = torch.unique(self.place[present], return_inverse=True)
        if self.cache is None or len(used) == 0:
            self.cache, self.rows = fresh, leaders
        else:
            staying = torch.empty_like(used)
            staying[place] = present
            remaining = self.cache if len(used) == len(self.rows) else self.cache.select(used)
            self.cache, self.rows = together([remaining, fresh]), torch.cat([staying, leaders])
            self.place[present] = place
        self.place[rows] = len(used) + which

    def _step(self, rows: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Read the last token of some rows, once per group of rows that remain equal."""
        assert self.cache is not None
        t = actions.shape[1]
        last = actions[rows, t - 1]
        first, which = alike(self.place[rows] * (last.max() + 1) + last)
        leaders = rows[first]
        self._seat(rows, which, leaders)
        places, everyone = self.place[leaders], len(leaders) == len(self.rows)
        prompts = self.prompts.rows(self.rows)
        self.cache.point(prompts.width + t - 1, None if everyone else places)
        ids, place = actions[self.rows, t - 1 :], (prompts.length + t - 1).unsqueeze(1)
        logits = read(self._live, ids, place, prompts.occupied(t)[:, None, None], self.cache, 1)[:, 0]
        self.upto[rows] = t
        return picked(logits, places), which

    def _seat(self, rows: Tensor, which: Tensor, leaders: Tensor) -> None:
        """Give each distinct row its own entry before the columns of its leader are written."""
        assert self.cache is not None
        places = self.place[leaders]
        others = self.place >= 0
        others[rows] = False
        taken = torch.zeros(len(self.rows), dtype=torch.bool).index_fill_(0, places, True)
        if int(taken.sum()) < len(places) or 4 * len(places) <= 3 * len(self.rows):
            self.leave(others.nonzero()[:, 0])
            self.cache, self.rows = self.cache.select(places), leaders
            self.place[rows] = which
            return
        # Rows that are not read on lose a place whose columns go on without them.
        self.leave((others & taken[self.place.clamp(min=0)]).nonzero()[:, 0])
        self.place[rows] = places[which]
        self.rows[places] = leaders


@dataclass
class Memory:
    """Prompts, sampled actions int64 `[B, t]`, and one key-value cache (`Lane`) per set of weights in use."""

    prompts: Prompts
    context: int
    actions: Tensor
    kept: Kept | None = None
    lanes: dict[int, Lane] = field(default_factory=dict)
    origin: weakref.ref[Tensor] | None = None
    edition: int = -1

    def lane(self, model: Model, view: View, owner: int, form: str, rows: Tensor) -> Lane:
        """Cache of one slot's and replicate's weights, numbered slot R + replicate, for reading rows int64 `[b]`."""
        weights = view.weights["parameters"]
        if self.origin is None or self.origin() is not weights or self.edition != weights._version:
            if self.kept is not None:
                self._leave(list(self.lanes.values()))
            self.lanes = lanes = dict[int, Lane]()
            # Caches are large: they go as soon as the weights that they belong to do. Kept ones let the weights go.
            gone = _rest if self.kept is not None else dict[int, Lane].clear
            self.origin, self.edition = weakref.ref(weights, lambda _: gone(lanes)), weights._version
        if owner not in self.lanes:
            flat = weights.reshape(-1, weights.shape[-1])[owner]
            number = 0 if self.kept is None else self.kept.number(flat)
            self.lanes[owner] = Lane(model.bound(flat, form)[0], self.prompts, self.kept, number)
        lane = self.lanes[owner]
        if self.kept is not None:
            self._leave([other for other in self.lanes.values() if other is not lane], rows)
        return lane

    def _leave(self, lanes: Iterable[Lane], rows: Tensor | None = None) -> None:
        """Remove rows (default: all) from these lanes, with their columns."""
        for lane in lanes:
            held = lane.place >= 0
            if rows is not None:
                held &= torch.zeros_like(held).index_fill(0, rows, True)
            lane.leave(held.nonzero()[:, 0])

    def note(self, token: int, rows: Tensor, action: Tensor) -> None:
        """Record the actions int64 `[b]` of some rows at a token."""
        _language_prompts.refuse_long(int(self.prompts.length[rows].max()) + token + 1, self.context)
        if token >= self.actions.shape[1]:
            self.actions = torch.nn.functional.pad(self.actions, (0, token + 1 - self.actions.shape[1]))
        self.actions[rows, token] = action

    def cut(self, row: int) -> "Memory":
        """Memory of a single row: prompt, actions and kept cache columns."""
        rows = torch.tensor([row])
        kept = None if self.kept is None else self.kept.cut(rows, self.held(rows)[1])
        return Memory(self.prompts.rows(rows), self.context, self.actions[rows].clone(), kept)

    def held(self, rows: Tensor) -> tuple[Tensor, Columns | None]:
        """Which of the rows int64 `[b]` have cache columns, and copies of these columns up to the responses' end."""
        assert self.kept is not None
        away = torch.tensor([row for row in rows.tolist() if row in self.kept.away], dtype=torch.int64)
        parts = [(away, self.kept.copy(away))] if len(away) else []
        for lane in self.lanes.values():
            here = rows[lane.place[rows] >= 0]
            if lane.cache is not None and len(here):
                parts.append((here, lane.cache.select(lane.place[here])))
        if not parts:
            return rows[:0], None
        columns = together([part for _, part in parts])
        width = self.prompts.width + self.actions.shape[1]
        return torch.cat([part for part, _ in parts]), columns.resized(width)

    def packed(self) -> dict[str, Any]:
        """Pack prompts, actions and kept cache columns; other caches are recomputed with the next weights."""
        tree = {"prompts": asdict(self.prompts), "actions": self.actions, "kept": None}
        if self.kept is not None:
            tree["kept"] = self.kept.packed(*self.held(torch.arange(len(self.actions))))
        return tree

    @classmethod
    def unpacked(cls, tree: dict[str, Any], context: int) -> "Memory":
        """Restore the prompts, actions and kept cache columns that `packed` wrote."""
        kept = None if tree["kept"] is None else Kept.unpacked(tree["kept"])
        return cls(Prompts(**tree["prompts"]), context, tree["actions"], kept)


def _rest(lanes: dict[int, Lane]) -> None:
    for lane in lanes.values():
        lane.rest()


def owners(view: View, shape: tuple[int, int, int, int]) -> Tensor:
    """Index of the stacked weights that each token uses, slot R + replicate, int64 `[R, G, N, T]`."""
    R = shape[0]
    return view.slots(shape) * R + torch.arange(R).reshape(R, 1, 1, 1)


def draw(policy: Any, view: View, memory: Memory, draws: Draws, token: int, active: Tensor) -> tuple[Tensor, Outputs]:
    """Sample tokens int64 `[R, G, N]` of a `CausalLM` for the active rows, with recorded outputs; 0 elsewhere.

    `log_prob` in nats, with `distributions` that of every token, `log_probs` `[R, G, N, V]`; `value` of what was read,
    where there is a critic; where caches are kept `stale_cache`, 1 where the model read an entry that other weights
    wrote.
    """
    model, whole = policy.model, policy.distributions
    shape = active.shape
    uniform, active = draws.uniform(token, 0).reshape(-1), active.reshape(-1)
    # Where all rows read the same weights there is nothing to look up.
    same = view.single and shape[0] == 1
    owner = torch.full(active.shape, int(view.slot.flat[0])) if same else owners(view, (*shape, 1)).reshape(-1)
    action = torch.zeros_like(owner)
    log_prob = torch.zeros(owner.shape, dtype=view.weights["parameters"].dtype)
    stale, value = torch.zeros_like(log_prob), torch.zeros_like(log_prob)
    every = log_prob.new_zeros(len(owner), model.vocabulary if whole else 0)
    for one in torch.unique(owner[active]).tolist():
        rows = (active & (owner == one)).nonzero()[:, 0]
        lane = memory.lane(model, view, one, policy.sampler, rows)
        logits, which = lane.logits(rows, memory.actions[:, :token])
        log_probs = policy.distribution.log_prob(logits[:, : model.vocabulary])
        chosen = choose(log_probs, uniform[rows], which)
        action[rows] = chosen
        log_prob[rows] = log_probs[which, chosen].to(log_prob.dtype)
        if model.critic:
            value[rows] = logits[which, -1].to(value.dtype)
        if whole:
            every[rows] = log_probs[which].to(log_prob.dtype)
        if memory.kept is not None:
            stale[rows] = memory.kept.note(token, rows, lane.number).to(stale.dtype)
        memory.note(token, rows, chosen)
    recorded = {"log_prob": log_prob} | ({} if memory.kept is None else {"stale_cache": stale})
    recorded |= ({"value": value} if model.critic else {}) | ({"log_probs": every} if whole else {})
    return action.reshape(shape), {name: x.reshape(*shape, *x.shape[1:]) for name, x in recorded.items()}
