"""What notebook 5 calls: one stale batch, five effective sample sizes of it, and what a batch of its size shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asyncsim.base import checks, uncertainty
from asyncsim.plotting._points import points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = ("sequence", "token", "position", "within", "clamped")
"""Effective sample sizes: of responses, of all tokens, of each position, inside a response, of clamped responses."""
_LONGEST = 2048
"""Tokens of a response whose count vectors are listed."""


def responses(mu: np.ndarray, pi: np.ndarray, tokens: int, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Log importance ratios of the tokens of responses drawn from `mu`, nats `[batch, sample, token]`.

    >>> half = np.array([0.5, 0.5])
    >>> responses(half, half, 3, (1, 2), seed=0).tolist()
    [[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    """
    checks.integer("tokens", tokens, 1, "a response has a token", _LONGEST)
    checks.integer("seed", seed, 0, "give a non-negative integer seed")
    for size in shape:
        checks.integer("samples", size, 1, "draw one response at least")
    drawn = np.random.default_rng(seed).choice(len(mu), size=(*shape, tokens), p=mu)
    log_ratios: np.ndarray = np.log(pi / mu)[drawn]
    return log_ratios


def sizes(log_ratios: np.ndarray, clamp: float) -> dict[str, np.ndarray]:
    """Five numbers that are called ESS / N, by the metrics of the package: name to `[batch]`.

    Arguments: `log_ratios` of tokens `[batch, sample, token]` in nats; `clamp` C >= 1: the last one limits the ratio of
    a response to [1/C, C]. Raises `InputError`.

    >>> {name: round(float(size[0]), 3) for name, size in sizes(np.log([[[1.0, 3.0], [3.0, 1.0]]]), 2.0).items()}
    {'sequence': 1.0, 'token': 0.8, 'position': 0.8, 'within': 0.8, 'clamped': 1.0}
    """
    import torch

    from asyncsim import diagnostics, methods
    from asyncsim.step.step import given

    log = torch.from_numpy(checks.finite_array("log_ratios", log_ratios, (None,) * 3, "one a token")).unsqueeze(1)
    zero = torch.zeros_like(log)
    step = given(methods.reinforce(), {"log_prob": log}, {"log_prob": zero}, torch.ones_like(log))
    metrics = (
        diagnostics.ess,
        diagnostics.ess_token,
        diagnostics.ess_frames,
        diagnostics.ess_within,
        diagnostics.ess_token_clamped(clamp, level="sequence"),
    )
    return {name: metric.at(step).numpy() for name, metric in zip(SIZES, metrics, strict=True)}


def large_batch(mu: np.ndarray, pi: np.ndarray, tokens: int, clamp: float) -> dict[str, float]:
    """The five numbers of a batch of any number of responses whose tokens are independent draws from `mu`.

    With 1 + chi^2 = sum_y pi_y^2 / mu_y a response has (1 + chi^2)^-tokens, tokens and positions 1 / (1 + chi^2), the
    inside of a response `shown_size` of so many samples. Clamped ones are summed over all counts of the three tokens.
    """
    token = float((pi**2 / mu).sum())
    log_weight, mass = _law(mu, pi, tokens)
    weight = np.exp(np.clip(log_weight, -np.log(clamp), np.log(clamp)))
    within = shown_size(mu, pi, 1, tokens)
    values = (token**-tokens, 1 / token, 1 / token, within or 1 / token, (mass @ weight) ** 2 / (mass @ weight**2))
    return dict(zip(SIZES, map(float, values), strict=True))


def _law(mu: np.ndarray, pi: np.ndarray, tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """Log ratio and probability of every count vector of a response, each `[count vector]`."""
    from scipy.special import gammaln

    checks.integer("tokens", tokens, 1, "shorten the responses", _LONGEST)
    first, both = np.triu_indices(tokens + 1)
    counts = np.stack([first, both - first, tokens - both], axis=1).astype(float)
    log_mass = gammaln(tokens + 1.0) - gammaln(counts + 1.0).sum(1) + counts @ np.log(mu)
    return counts @ np.log(pi / mu), np.exp(log_mass)


def shown_size(mu: np.ndarray, pi: np.ndarray, tokens: int, samples: int, rows: int | None = None) -> float | None:
    """Exact mean of ESS / N over batches of so many responses; None where the claim `ess/finite-sample` refuses.

    With `rows` it is the mean over micro-batches of so many responses, the last one shorter.

    >>> shown_size(np.array([0.5, 0.5]), np.array([0.5, 0.5]), 8, 4)
    1.0
    """
    from asyncsim import claims

    parts = _parts(samples, rows)
    setting = {"behavior_logits": tuple(np.log(mu)), "current_logits": tuple(np.log(pi)), "horizon": tokens}
    exact: dict[int, float] = {1: 1.0}
    for count in {len(part) for part in parts} - {1}:
        try:
            exact[count] = round(claims.claim("ess/finite-sample").predict({**setting, "samples": count})["ess"], 12)
        except checks.InputError:
            return None
    return sum(exact[len(part)] for part in parts) / len(parts)


def ess(log_ratios: np.ndarray) -> np.ndarray:
    """ESS / N of each batch of equally likely samples: log ratios `[batch, sample]` in nats to `[batch]`.

    >>> ess(np.log([[1.0, 3.0]])).round(12).tolist()
    [0.8]
    """
    import torch

    from asyncsim.step import ratios

    log = torch.from_numpy(np.asarray(log_ratios, dtype=float))
    return ratios.ess(log, torch.full_like(log, 1.0 / log.shape[-1])).numpy()


def micro_batched(log_ratios: np.ndarray, rows: int) -> np.ndarray:
    """Mean ESS / N over micro-batches of so many responses, the last one shorter: `[batch, sample]` to `[batch]`.

    >>> micro_batched(np.log([[1.0, 3.0, 1.0, 3.0]]), rows=1).tolist()
    [1.0]
    """
    parts = _parts(log_ratios.shape[1], rows)
    return np.mean([ess(log_ratios[:, part.start : part.stop]) for part in parts], axis=0)


def _parts(samples: int, rows: int | None) -> list[range]:
    step = samples if rows is None else checks.integer("micro_batch", rows, 1, "give the rows of a micro-batch")
    return [range(start, min(start + step, samples)) for start in range(0, samples, step)]


def sizes_by_length(mu: np.ndarray, pi: np.ndarray, clamp: float, samples: int, seed: int) -> Figure:
    """The five numbers of 32 batches at several lengths, beside those of a large batch, which are dashed."""
    lengths, along = (1, 4, 16, 32, 64, 96, 180), np.unique(np.geomspace(1, 180, 30).astype(int)).tolist()
    shown = [sizes(responses(mu, pi, each, (32, samples), seed), clamp) for each in lengths]
    exact = [large_batch(mu, pi, each, clamp) for each in along]
    return points(
        lengths,
        {name: [uncertainty.between(each[name]) for each in shown] for name in SIZES},
        {name: [each[name] for each in exact] for name in SIZES},
        at=along,
        xscale="log",
        xlabel="tokens of a response",
        ylabel="ESS / N",
        title="Three of the five sizes do not see the length of a response",
    )
