"""TBA's trainer on a buffer that also draws by reward: a loop of its own, as the event model knows no rewards.

A bandit of G prompts and A arms. Every `sync` updates all that searchers have drawn from the weights of the last
exchange goes into the buffer, and they get the current weights. An update takes N stored samples of each prompt, with
replacement: with probability `recent` those of the last exchange, all alike, else of the whole buffer by `rule`. A full
buffer drops its oldest samples. Score weights are the package's (`sim.methods.tba`), the step is Adam.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import asyncsim as sim
from asyncsim.base import checks

Watch = Callable[[Tensor], dict[str, Tensor]]
RULES = ("uniform", "reward")


@dataclass(frozen=True)
class Loop:
    """Settings: `stored` samples a prompt at every exchange, `size` of the buffer a prompt, `heat` of rewards in the
    softmax, `reset` updates between two resets of the reference to the current policy (0: never)."""

    beta: float
    updates: int
    stored: int = 32
    size: int = 1024
    samples: int = 8
    sync: int = 10
    recent: float = 0.5
    rule: str = "uniform"
    heat: float = 0.2
    reset: int = 0
    every: int = 10

    def __post_init__(self) -> None:
        checks.one_of("rule", self.rule, RULES, "say how stored samples are drawn")
        for name in ("updates", "stored", "samples", "sync", "every"):
            checks.integer(name, getattr(self, name), 1, "give a positive number")
        checks.integer("size", self.size, self.stored, "give room for what comes with one exchange")
        within = 0.0 <= self.recent <= 1.0
        checks.require(within, "recent", self.recent, "a probability", "give a share of the prompts")
        checks.require(self.heat > 0.0, "heat", self.heat, "positive", "give units of reward")


def chances(rewards: Tensor, age: Tensor, fresh: Tensor, own: Loop) -> Tensor:
    """Chance of every stored sample to be drawn, `[R, G, B]`; `age` in exchanges, below 0 where nothing is stored.

    Where `fresh` `[R, G]`, those of the last exchange alike; else by rule, exp(reward / heat) or alike.
    """
    weight = torch.exp(rewards / own.heat) if own.rule == "reward" else torch.ones_like(rewards)
    weight = torch.where(fresh.unsqueeze(-1), (age == 0).double(), weight * (age >= 0))
    return weight / weight.sum(-1, keepdim=True)


def train(means: Tensor, start: Tensor, rates: Tensor, own: Loop, seed: int, watch: Watch) -> dict[str, Tensor]:
    """What `watch` says of the logits `[R, G, A]` before every `every`th update, `[U / every, R]`.

    Arguments: mean rewards `[G, A]`, drawn as 0 or 1; first logits, which are the reference too, `[G, A]`; learning
    rates `[R]`. The first exchange is before the first update.
    """
    draw = torch.Generator().manual_seed(seed)
    shape = (len(rates), *start.shape)
    logits, method = start.double().expand(shape).clone(), sim.methods.tba(own.beta)
    reference, searching = torch.log_softmax(logits, -1), logits
    first, second = torch.zeros_like(logits), torch.zeros_like(logits)
    action = torch.zeros((*shape[:2], own.size), dtype=torch.int64)
    reward, age = torch.zeros(action.shape, dtype=torch.float64), torch.full(action.shape, -1)
    records: list[dict[str, Tensor]] = []
    for u in range(own.updates):
        if u % own.every == 0:
            records.append(watch(logits))
        if own.reset and u and u % own.reset == 0:
            reference = torch.log_softmax(logits, -1)
        if u % own.sync == 0:
            drawn = pick(torch.softmax(searching, -1), own.stored, draw)
            chance = torch.gather(means.expand(shape), -1, drawn)
            paid = (torch.rand(chance.shape, generator=draw, dtype=torch.float64) < chance).double()
            # The newest come first, the oldest fall out at the end.
            action, reward = (torch.cat(pair, -1)[..., : own.size] for pair in ((drawn, action), (paid, reward)))
            age = torch.cat([torch.zeros_like(drawn), torch.where(age >= 0, age + 1, age)], -1)[..., : own.size]
            searching = logits
        fresh = torch.rand(shape[:2], generator=draw, dtype=torch.float64) < own.recent
        taken = pick(chances(reward, age, fresh, own), own.samples, draw)
        arm, earned = torch.gather(action, -1, taken), torch.gather(reward, -1, taken)
        now = torch.log_softmax(logits, -1)
        told, known = (torch.gather(table, -1, arm).unsqueeze(-1) for table in (now, reference))
        # Trajectory balance reads no behavior policy: the current one stands in its place.
        weight = method.weigh(told, told, rewards=earned, reference_log_prob=known).cotangent[..., 0]
        ascent = torch.zeros_like(logits).scatter_add_(-1, arm, weight) - weight.sum(-1, keepdim=True) * now.exp()
        first, second = 0.9 * first + 0.1 * ascent, 0.999 * second + 0.001 * ascent**2
        scaled = (first / (1 - 0.9 ** (u + 1))) / ((second / (1 - 0.999 ** (u + 1))).sqrt() + 1e-8)
        logits = logits + rates[:, None, None] * scaled
    return {name: torch.stack([record[name] for record in records]) for name in records[0]}


def pick(chance: Tensor, count: int, draw: torch.Generator) -> Tensor:
    """Indices of so many draws from chances `[R, G, B]`, with replacement, `[R, G, count]`."""
    found = torch.multinomial(chance.flatten(0, 1), count, replacement=True, generator=draw)
    return found.reshape(*chance.shape[:2], count)
