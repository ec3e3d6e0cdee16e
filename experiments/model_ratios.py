"""How do ratios of stale answers of language models grow with staleness and length, and does one update tell?

GRPO with Adam behind a norm clip on `sums`, and on `text` of 512 characters that is paid by the share of one of them.
`behind` is the staleness of training. `staleness` S is that of the ratio pi_(v+S)/mu_v: of `sums` that of the run, of
`text` every level up to it, since a batch is scored at the weights in between. `tokens` L: ratios of the first L tokens
of each answer. `drift` and all rows of S = 1 are what predictions are made of (`predicted`), before anything else ran:

    v(S, L) = ((1 - f) S + f S^2) sum_(t <= L) s_t^2,    ESS/N = exp(-v),    Hill index c_N / sqrt(v),
    token(rate) = token(usual rate) (rate / usual rate)^2,                   share = told,

with f the correlation of the changes that two updates make (`ratio/drift-growth`), s_t^2 the variance of token t's log
ratio at S = 1, and c_N Hill's index of N standard lognormal weights.

A row is one of five replicates, means over the `measured` updates behind the first `start`, one `quantity`:
variance, ess, hill  of the sequence ratios, nats^2 and pure numbers
sum       sum of the variances of the single tokens, nats^2
token     mean square of a token's log ratio, nats^2; share  of its sum, in the largest 5 percent of tokens
told      that share, had the logits of all tokens moved by equal normal noise
drift     f, at S = 1
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.stats import norm
from torch import Tensor

from asyncsim.step import ratios, versions
from asyncsim.step.step import Step
from experiments import _models
from experiments.language_ess import growth

DEVICES = ("cpu", "cuda")
COLUMNS = ["model", "task", "rate", "behind", "staleness", "tokens", "samples", "seed", "quantity", "value"]
LEVELS = (1, 4, 16)
TOP = 0.05
"""Share of tokens that are the largest."""
_SUMS = {"task": "sums", "rate": 2e-4, "start": 24, "measured": 3, "levels": (), "prefixes": (), "window": 8}
_CHAR = {**_SUMS, "model": "char", "groups": 16, "samples": 8, "replicates": 5, "seed": 41}
_WORDS = {**_SUMS, "model": "smollm2", "layers": 1, "rate": 1e-4, "groups": 4, "samples": 4, "replicates": 5}
_WORDS = {**_WORDS, "start": 16, "measured": 1, "window": 3, "seed": 43}
_TEXT = {
    "model": "char",
    "task": "text",
    "tokens": 512,
    "recipe": _models.LONG,
    "rate": 4e-5,
    "behind": 16,
    "window": 16,
    "start": 18,
    "measured": 1,
    "levels": (1, 2, 4, 8, 16),
    "prefixes": (8, 32, 128, 512),
    "groups": 4,
    "samples": 8,
    "replicates": 5,
    "seed": 42,
}
SETTINGS = [
    *({**_CHAR, "behind": level} for level in LEVELS),
    *({**_CHAR, "behind": 1, "rate": rate} for rate in (5e-5, 8e-4)),
    _TEXT,
    *({**_WORDS, "behind": level} for level in (1, 16)),
]
_FEW = {"recipe": _models.TINY, "groups": 2, "samples": 8, "replicates": 2, "start": 4, "measured": 2, "window": 4}
QUICK = [
    *({**_CHAR, **_FEW, "behind": level} for level in (1, 4)),
    {**_CHAR, **_FEW, "behind": 1, "rate": 8e-4},
    {**_TEXT, **_FEW, "tokens": 24, "behind": 4, "levels": (1, 2, 4), "prefixes": (8, 24)},
]
_LARGE = {"groups": 16, "samples": 16, "layers": None, "rate": 1e-5, "replicates": 5, "micro_batch": 32}
GPU = [
    *_models.larger(SETTINGS[:3]),
    *_models.larger(({**_WORDS, "behind": level} for level in LEVELS), **_LARGE),
    *_models.larger([_TEXT], model="smollm2", recipe=None, **{**_LARGE, "groups": 4, "micro_batch": 8}),
]


class Look:
    """Statistics of the batch's ratios at several levels of staleness, once for each update behind the first `start`.

    Without levels there is that of the run alone. f is read off the changes that the last `window` updates make to the
    log-probs of one batch, as in `language_ess`.
    """

    name, outputs = "look", ("log_prob",)

    def __init__(
        self, behind: int, levels: tuple[int, ...], prefixes: tuple[int, ...], start: int, window: int
    ) -> None:
        self.settings = behind, levels, prefixes, start, window
        self.known: list[Tensor] = []
        self.found: dict[str, list[Tensor]] = {}

    def fresh(self) -> Look:
        """One that has seen nothing."""
        return type(self)(*self.settings)

    def observe(self, step: Step) -> None:
        """Remember the weights; look at the batch when due."""
        behind, levels, prefixes, start, window = self.settings
        reach = max(behind, window)
        if step.update >= start - reach:
            self.known = [*self.known[-reach:], step.parameters]
        if step.update < start:
            return
        behavior, mask = step.behavior["log_prob"], step.mask
        for level in levels or (behind,):
            # The last of the known weights are the current ones, those of the behavior `behind` updates older.
            now = step.current["log_prob"] if level == behind else self.scored(step, behind - level)
            self.note(level, measures(ratios.log_ratio(now, behavior, mask).double(), step, prefixes))
        if window:
            ages = [self.scored(step, age).double().sum(-1) for age in range(window, -1, -1)]
            self.note(1, {("drift", 0): drift(torch.stack(ages).diff(dim=0), step)})

    def scored(self, step: Step, age: int) -> Tensor:
        """Log-probs of the batch at the weights of so many updates ago."""
        view = versions.current(step.policy.prepare(self.known[-1 - age]))
        return step.policy.score(view, step.batch)

    def note(self, level: int, values: dict[tuple[str, int], Tensor]) -> None:
        """Keep values `[R]` of a level."""
        for (name, tokens), value in values.items():
            self.found.setdefault(f"{level} {name} {tokens}", []).append(value.double())

    def result(self) -> dict[str, np.ndarray]:
        """Means over the updates, `[R]` each."""
        return {name: torch.stack(values).nanmean(0).cpu().numpy() for name, values in self.found.items()}


def drift(change: Tensor, step: Step) -> Tensor:
    """Covariance of the changes of two updates over the variance of one, `[R]`; changes `[W, R, G, N]`."""
    away = change - (step.step_mass * change).sum((2, 3), keepdim=True)
    products = torch.einsum("irgn,jrgn,rgn->rij", away, away, step.step_mass.double().expand_as(away[0]))
    one = products.diagonal(dim1=1, dim2=2).sum(-1)
    return (products.sum((1, 2)) - one) / (len(change) - 1) / one


def measures(log_ratio: Tensor, step: Step, prefixes: tuple[int, ...]) -> dict[tuple[str, int], Tensor]:
    """All quantities of log ratios of tokens `[R, G, N, T]`, by name and number of tokens (0: the whole answer)."""
    mass, found = step.step_mass.double(), {}
    each = [ratios.log_moments(log_ratio[..., t], mass)[1] for t in range(log_ratio.shape[-1])]
    for tokens in prefixes or (0,):
        own = log_ratio[..., : tokens or None]
        whole = own.sum(-1)
        found["variance", tokens] = ratios.log_moments(whole, mass)[1]
        found["ess", tokens] = ratios.ess(whole, mass)
        found["hill", tokens] = ratios.tail_index(whole)
        found["sum", tokens] = torch.stack(each[: own.shape[-1]]).sum(0)
    norms = step.row_norms.double().sqrt()
    made = torch.Generator("cpu").manual_seed(0)
    noise = torch.randn((8, *norms.shape), generator=made, dtype=torch.float64, device="cpu")
    found["token", 0] = step.token_mean(log_ratio**2)
    found["share", 0] = largest(log_ratio, step.mask)
    found["told", 0] = torch.stack([largest(z.to(norms.device) * norms, step.mask) for z in noise]).mean(0)
    return found


def largest(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Share of the sum of squares in the largest 5 percent of the tokens, `[R]`."""
    found = []
    for own, there in zip(log_ratio, mask > 0, strict=True):
        squares = (own[there] ** 2).sort(descending=True).values
        found.append(squares[: math.ceil(TOP * len(squares))].sum() / squares.sum())
    return torch.stack(found)


def predicted(one: float, drift: float, staleness: int) -> dict[str, float]:
    """Variance and ESS at a staleness, from the sum of the tokens' variances at staleness 1 and from f."""
    variance = growth(min(1.0, max(0.0, drift)), staleness) * one
    return {"variance": variance, "ess": math.exp(-variance)}


def scaled(token: float, rate: float, usual: float) -> float:
    """Mean square of a token's log ratio at a rate, from that at the usual one: updates of Adam go with their rate."""
    return token * (rate / usual) ** 2


def hill(variance: float, samples: int) -> float:
    """Hill's index of as many lognormal weights, from the expected places of normal draws in order (Blom)."""
    places = norm.ppf((np.arange(samples, 0, -1) - 0.375) / (samples + 0.25))
    m = math.ceil(min(samples / 5, 3 * math.sqrt(samples)))
    return float(1.0 / (math.sqrt(variance) * (places[:m].mean() - places[m])))


def run(setting: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of one run, five replicates of each quantity."""
    import asyncsim as sim

    behind, start = setting["behind"], setting["start"]
    window = setting["window"] if behind == 1 or setting["levels"] else 0
    look = Look(behind, tuple(setting["levels"]), tuple(setting["prefixes"]), start, window)
    trace = sim.run(
        _models.spec(setting, behind, start + setting["measured"], [look]), seed=setting["seed"], progress=False
    )
    samples = setting["groups"] * setting["samples"]
    rows = []
    for name, values in trace.accumulated.items():
        level, quantity, tokens = name.split()
        where = {"staleness": int(level), "tokens": int(tokens), "samples": samples, "quantity": quantity}
        for seed, value in enumerate(values):
            rows.append({**_models.place(setting, COLUMNS), **where, "seed": seed, "value": float(value)})
    return rows
