"""Telemetry of runs whose causes are known: healthy ones, and ones with a single planted cause.

A run has tokens (log ratios normal, of mean -v/2 so that ratios have mean 1) and the metrics that a trainer makes of
them. v(s) = floor + v_1 ((1 - f) s + f s^2). Gradients are a steady mean plus noise, in many dimensions.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

DIMENSION = 256


@dataclass(frozen=True)
class Run:
    """What one run is made of; `law` is the distribution of staleness, `number` its mean or largest value.

    `shift` of all stamps, in versions; `early`, the share of stale samples with the stamp of the next version;
    `growing`, by how much of itself the floor grows over the run.
    """

    law: str = "geometric"
    number: int = 3
    steps: int = 120
    sequences: int = 48
    length: int = 8
    floor: float = 3e-4
    growth: float = 2e-3
    share: float = 0.0
    decay: float = 0.0
    swing: float = 0.0
    hidden: float = 0.25
    signal: float = 0.3
    step: float = 0.0
    momentum: float = 0.0
    shared: float = 0.0
    shift: int = 0
    early: float = 0.0
    growing: float = 0.0
    offset: float = 0.0
    seed: int = 0


def staleness(run: Run, rng: np.random.Generator) -> np.ndarray:
    """True staleness `[steps, sequences]`, never older than the run."""
    size, t = (run.steps, run.sequences), np.arange(run.steps)[:, None]
    n = run.number
    drawn = {
        "constant": lambda: np.full(size, n),
        "sawtooth": lambda: np.broadcast_to(t % (n + 1), size),
        "uniform": lambda: rng.integers(0, n + 1, size),
        "geometric": lambda: rng.geometric(1.0 / (n + 1), size) - 1,
        "capped": lambda: np.minimum(rng.geometric(1.0 / (n + 1), size) - 1, n),
        "two": lambda: np.where(rng.random(size) < 0.5, 0, 2 * n),
    }[run.law]()
    return np.minimum(drawn, t)


def _gain(run: Run, rng: np.random.Generator) -> np.ndarray:
    """Size of the drift over the run `[steps]`: it decays, and swings with a memory of ten steps."""
    swing = np.zeros(run.steps)
    for t in range(1, run.steps):
        swing[t] = 0.9 * swing[t - 1] + run.swing * np.sqrt(0.19) * rng.standard_normal()
    return np.exp(swing - run.decay * np.arange(run.steps) / run.steps)


def tokens(run: Run) -> dict[str, np.ndarray]:
    """A row a token; the masked ones have log-probs of another text."""
    rng = np.random.default_rng([run.seed, 1])
    age = staleness(run, rng)
    shape = (*age.shape, run.length)
    gain = run.growth * _gain(run, rng)[:, None]
    floor = run.floor * (1.0 + run.growing * np.arange(run.steps)[:, None] / run.steps)
    variance = floor + gain * ((1.0 - run.share) * age + run.share * age**2)
    ratio = -variance[..., None] / 2.0 + np.sqrt(variance)[..., None] * rng.standard_normal(shape)
    mask = rng.random(shape) >= run.hidden
    mask[..., 0] = True
    ratio = np.where(mask, ratio, rng.normal(-0.5, 1.0, shape))
    sampler = -rng.exponential(1.0, shape)
    step, sequence = np.indices(shape)[:2]
    hit = (np.random.default_rng([run.seed, 9]).random(age.shape) < run.early) & (age > 0)
    columns = {
        "step": step, "sequence": sequence, "staleness": (age - hit)[..., None] + run.shift + np.zeros(shape, int),
        "sampler_log_prob": sampler, "trainer_log_prob": sampler + ratio + run.offset, "mask": mask.astype(int),
        "micro_batch": sequence * 4 // run.sequences,
    }  # fmt: skip
    return {name: column.ravel() for name, column in columns.items()}


def ess(weight: np.ndarray) -> float:
    """(sum w)^2 / (n sum w^2)."""
    return float(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))


def metrics(columns: dict[str, np.ndarray], wrong: str = "") -> dict[str, np.ndarray]:
    """A row a step, as a trainer logs it; `wrong` names one mistake."""
    rows = []
    for step in np.unique(columns["step"]):
        here = columns["step"] == step
        live = here if wrong == "mask ignored" else here & (columns["mask"] == 1)
        log_ratio = (columns["trainer_log_prob"] - columns["sampler_log_prob"])[live]
        w, size = np.exp(log_ratio), ess(np.exp(log_ratio))
        if wrong == "clamped":
            size = ess(np.clip(w, 1 / 2.0, 2.0))
        if wrong == "micro-batches":
            part = columns["micro_batch"][live]
            size = float(np.mean([ess(w[part == k]) for k in np.unique(part)]))
        if wrong == "above one":
            size *= 1.25
        age = columns["staleness"][live]
        rows.append({
            "step": step, "ess": size, "kl_k1": -log_ratio.mean(), "kl_k3": (w - 1.0 - log_ratio).mean(),
            "ratio_mean": w.mean(), "ratio_max": w.max(), "ratio_min": w.min(), "chi_square": (w**2).mean() - 1.0,
            "log_ratio_abs": np.abs(log_ratio).mean(), "staleness_mean": age.mean(), "staleness_max": age.max(),
            "staleness_min": age.min(),
        })  # fmt: skip
    found = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if wrong == "negative k3":
        found["kl_k3"] = found["kl_k3"] - 2.0 * found["kl_k3"].mean()
    return found


def gradients(run: Run) -> dict[str, np.ndarray]:
    """Cosines of gradients 1, 2, ... updates apart, and of the halves of a batch."""
    rng = np.random.default_rng([run.seed, 2])
    n, d, tau = run.steps, DIMENSION, run.number
    noise = rng.standard_normal((2, n + 1, d)) * np.sqrt(2.0)
    noise[:, 1:] = np.sqrt(1.0 - run.shared) * noise[:, 1:] + np.sqrt(run.shared) * noise[:, :-1] * (run.shared > 0)
    mean = np.zeros(d)
    mean[0] = np.sqrt(d * run.signal / (1.0 - run.signal))
    half = noise[:, 1:] + mean
    whole = half.mean(0)
    if run.step > 0.0:
        whole = _stale(run.step, tau, rng.standard_normal((n + 400, d)))[-n:]
        half = np.stack([whole + x for x in (noise[0, 1:], -noise[0, 1:])])
    if run.momentum:
        for t in range(1, n):
            whole[t] += run.momentum * whole[t - 1]
    found = {"half_cosine": cosines(half[0], half[1])} if run.step == 0.0 else {}
    for k in range(1, tau + 2):
        found[f"gradient_cosine_{k}"] = np.r_[np.full(k, np.nan), cosines(whole[k:], whole[:-k])]
    return found


def _stale(a: float, tau: int, noise: np.ndarray) -> np.ndarray:
    """Gradients of x' = x - a (x_tau updates ago + noise) in every coordinate."""
    x = np.zeros((len(noise) + 1, noise.shape[1]))
    g = np.zeros_like(noise)
    for t in range(len(noise)):
        g[t] = x[max(t - tau, 0)] + noise[t]
        x[t + 1] = x[t] - a * g[t]
    return g


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("td,td->t", a, b) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


def table(run: Run, wrong: str = "") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(Columns of steps, columns of tokens) of a run; a cosine that a step lacks is None."""
    columns = tokens(run)
    found: dict[str, Any] = metrics(columns, wrong)
    for name, series in gradients(run).items():
        found[name] = [None if np.isnan(x) else float(x) for x in series]
    return found, columns


def healthy(seed: int) -> Run:
    """A run without a fault: its staleness, drift, floor, signal and sizes are drawn."""
    rng = np.random.default_rng([seed, 3])
    law = str(rng.choice(["constant", "sawtooth", "uniform", "geometric", "capped"]))
    return replace(
        Run(seed=seed, law=law, number=int(rng.integers(2, 6))), floor=float(rng.uniform(0.0, 8e-4)),
        growth=float(10 ** rng.uniform(-4, -2.5)), share=float(rng.choice([0.0, 0.3, 1.0])),
        decay=float(rng.uniform(0.0, 1.5)), swing=float(rng.choice([0.0, 0.3])),
        signal=float(rng.uniform(0.02, 0.6)), hidden=float(rng.choice([0.0, 0.25])),
    )  # fmt: skip


EXPECTED = {"constant": "constant:{0}", "sawtooth": "sawtooth", "uniform": "uniform", "geometric": "geometric:{0}"}
"""What a user who knows the run expects of its staleness."""


def expected(run: Run) -> str | None:
    """The expectation for a run, given for every other seed."""
    return EXPECTED[run.law].format(run.number) if run.seed % 2 and run.law in EXPECTED else None
