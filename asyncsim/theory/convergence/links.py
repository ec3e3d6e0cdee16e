r"""What the links of an update chain make of known gradients: the path of a stale bandit under each of them.

The mean gradient of REINFORCE with a group mean is mu (m - mu . m), mu = softmax of the logits that generated the
batch. Links act on it in the order of the chain. momentum: v <- beta v + g. adam: bias-corrected moments, eps beside
the root. gono: adam whose beta1 is multiplied by 1 + gain cos(g_t, g_{t-1}), within [0, 0.99], and corrected by one
minus the product of all of them. clip_norm: g min(1, c / |g|). staleness_step: divided by max(1, d), d the update
staleness. lr_by_lag: by its largest value so far. ess_step: times min(1, rho / reference)^p, rho = 1 / sum pi^2 / mu,
p = 1/2 or 1. An update whose gradient is not a number is skipped: it counts, publishes, and leaves no trace in any
state, but gono forgets its reference. Derivation: textbook definitions. Domain: the mean dynamics of two groups, one
of them m versions old, one fresher; d is that of the older. An update counts, whichever batch or epoch it belongs to.
Second route: steps as sums over the whole history, gradients by complex steps. Source: 1412.6980 (adam), 2602.17616
(ess_step), 1909.12340 (lr_by_lag), 2206.08307 (staleness_step), 1211.5063 (clip_norm).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from asyncsim.base import checks
from asyncsim.theory._bandit import Arms, complex_gradient, refuse_equal, softmax
from asyncsim.theory._declared import Choice, Count, Draw, Integer, Positive, Real, Vector
from asyncsim.theory._stated import indexed, stated

_LINKS = ("scale", "momentum", "adam", "gono", "clip_norm", "staleness_step", "lr_by_lag", "ess_sqrt", "ess_linear")
_HIGHEST = 0.99


class _Setting(Arms):
    rewards = Vector(typical=(0.0, 1.0), sizes=(2, 4), example=(0.1, 0.9, 0.4), doc="rewards of the arms")
    initial_logits = Vector(typical=(-1.0, 1.0), example=(0.5, -0.3, 0.1), doc="logits at the start")
    link = Choice(*_LINKS, example="adam", doc="link of the update chain")
    step = Positive(typical=(0.1, 0.8), example=0.5, unit="parameter per direction", doc="learning rate")
    strength = Positive(typical=(0.05, 1.0), example=0.5, doc="factor, gain, limit or reference of the link")
    beta1 = Real(0.0, 0.95, typical=(0.1, 0.9), example=0.8, doc="factor of the first moment, or of the velocity")
    beta2 = Real(0.0, 0.999, typical=(0.1, 0.99), example=0.9, doc="factor of the second moment")
    eps = Positive(typical=(1e-3, 0.1), example=0.02, unit="gradient", doc="number beside the root")
    versions = Integer(0, 16, typical=(0, 2), example=1, unit="versions", doc="versions from generation to training")
    batches = Count(1, 16, typical=(1, 3), example=2, unit="batches", doc="batches between two publishes")
    newer = Integer(0, 16, typical=(0, 2), example=1, unit="versions", doc="by how many the second group is fresher")
    epochs = Count(1, 8, typical=(1, 2), example=2, doc="passes through a batch")
    updates = Count(1, 64, typical=(2, 5), example=12, unit="updates", doc="length of the run")
    lost = Integer(0, 64, typical=(0, 8), example=3, doc="update whose gradient is not a number; none at the last")

    def joint(self) -> None:
        """Rewards that differ; a reference that is a share of the samples."""
        super().joint()
        refuse_equal(self.rewards, least=1e-100)
        ends = self.versions * self.cycle < self.updates and self.updates % self.epochs == 0
        bound = f"more than versions * batches * epochs, a multiple of {self.epochs}"
        checks.require(ends, "updates", self.updates, bound, "train on")
        fresher = self.newer <= self.versions
        checks.require(fresher, "newer", self.newer, f"at most versions = {self.versions}", "lower it")
        share = not self.link.startswith("ess") or self.strength <= 1.0
        checks.require(share, "strength", self.strength, "an ESS/N of at most 1", "lower it")

    @classmethod
    def drawn(cls, draw: Draw) -> dict[str, Any]:
        """A run that its staleness fits into."""
        point = super().drawn(draw)
        cycle = point["batches"] * point["epochs"]
        point["newer"] = min(point["newer"], point["versions"])
        return {**point, "updates": point["versions"] * cycle + point["epochs"] * point["updates"]}

    @property
    def cycle(self) -> int:
        """Updates between two publishes."""
        return self.batches * self.epochs


class _Seen(NamedTuple):
    """What the updates that were not skipped have seen so far, and whether the last one was skipped."""

    gradients: list[np.ndarray]
    staleness: list[int]
    ess: float
    broken: bool


_Rule = Callable[[_Seen, dict[str, Any]], np.ndarray]


def _run(s: _Setting, rule: _Rule, field: Any, divergence: Any, late: bool = True) -> np.ndarray:
    """Path of the logits `[U + 1, A]` under a rule for steps, which has a memory of its own."""
    path, seen = [s.initial_logits], _Seen([], [], 1.0, False)
    memory: dict[str, Any] = {}
    for update in range(s.updates):
        trained = update // s.cycle
        reads = [max(trained - lag, 0) * s.cycle if late else update for lag in (s.versions, s.versions - s.newer)]
        if update == s.lost:
            seen = seen._replace(broken=True)
            path.append(path[-1])
            continue
        gradient = np.mean([field(s, path[read]) for read in reads], axis=0)
        square = np.mean([divergence(softmax(path[-1]), softmax(path[read])) for read in reads])
        seen = _Seen([*seen.gradients, gradient], [*seen.staleness, update - min(reads)], 1.0 / square, seen.broken)
        path.append(path[-1] + rule(seen, memory))
        seen = seen._replace(broken=False)
    return np.array(path)


def _square(pi: np.ndarray, mu: np.ndarray) -> float:
    """E w^2 of one group."""
    return float((pi**2 / mu).sum())


def _quantities(path: np.ndarray) -> dict[str, float]:
    return indexed("length", np.linalg.norm(np.diff(path, axis=0), axis=1)) | indexed("logit", path[-1])


def _field(s: _Setting, logits: np.ndarray) -> np.ndarray:
    p = softmax(logits)
    return p * (s.rewards - p @ s.rewards)


def _cosine(seen: _Seen) -> float:
    if len(seen.gradients) < 2 or seen.broken:
        return 0.0
    new, old = seen.gradients[-1], seen.gradients[-2]
    return float(new @ old / np.sqrt(new @ new) / np.sqrt(old @ old))


def _first_factor(s: _Setting, seen: _Seen) -> float:
    gain = s.strength if s.link == "gono" else 0.0
    return float(np.clip(s.beta1 * (1.0 + gain * _cosine(seen)), 0.0, _HIGHEST)) if gain else s.beta1


def _adam(s: _Setting, seen: _Seen, memory: dict[str, Any], corrected: bool = True, inside: float = 0.0) -> np.ndarray:
    """Running moments, and what is left of their start at 0; `inside`: eps^2 is added under the root."""
    g, beta = seen.gradients[-1], _first_factor(s, seen)
    first, second, left1, left2 = memory.get("moments", (0.0 * g, 0.0 * g, 1.0, 1.0))
    first, second = beta * first + (1.0 - beta) * g, s.beta2 * second + (1.0 - s.beta2) * g * g
    memory["moments"] = first, second, left1 * beta, left2 * s.beta2
    scale1, scale2 = (1.0 - left1 * beta, 1.0 - left2 * s.beta2) if corrected else (1.0, 1.0)
    root = np.sqrt(second / scale2 + inside * s.eps**2) + (1.0 - inside) * s.eps
    return s.step * first / scale1 / root


def _scaled(s: _Setting, seen: _Seen, memory: dict[str, Any]) -> np.ndarray:
    """Links that only change the length of a step."""
    g, staleness = seen.gradients[-1], seen.staleness[-1]
    memory["largest"] = max(memory.get("largest", 0), staleness)
    factor = {
        "scale": s.strength,
        "clip_norm": s.strength / max(s.strength, float(np.linalg.norm(g))),
        "staleness_step": 1.0 / max(1, staleness),
        "lr_by_lag": 1.0 / max(1, memory["largest"]),
        "ess_sqrt": min(1.0, seen.ess / s.strength) ** 0.5,
        "ess_linear": min(1.0, seen.ess / s.strength),
    }[s.link]
    return s.step * factor * g


def _rule(s: _Setting) -> _Rule:
    def step(seen: _Seen, memory: dict[str, Any]) -> np.ndarray:
        if s.link in ("adam", "gono"):
            return _adam(s, seen, memory)
        if s.link != "momentum":
            return _scaled(s, seen, memory)
        memory["velocity"] = s.beta1 * memory.get("velocity", 0.0) + seen.gradients[-1]
        return np.asarray(s.step * memory["velocity"])

    return step


def _predict(s: _Setting) -> dict[str, float]:
    return _quantities(_run(s, _rule(s), _field, _square))


def _history(s: _Setting) -> _Rule:
    """Steps from the whole history: moments as weighted means of all gradients."""

    def step(seen: _Seen, memory: dict[str, Any]) -> np.ndarray:
        g, count = np.array(seen.gradients), len(seen.gradients)
        if s.link in ("adam", "gono"):
            memory.setdefault("factors", []).append(_first_factor(s, seen))
            factors = np.array(memory["factors"])
            weights = np.array([(1.0 - factors[i]) * np.prod(factors[i + 1 :]) for i in range(count)])
            squares = s.beta2 ** np.arange(count - 1, -1, -1.0)
            root = np.sqrt(squares @ g**2 / squares.sum()) + s.eps
            return np.asarray(s.step * (weights @ g) / weights.sum() / root)
        if s.link == "momentum":
            return np.asarray(s.step * s.beta1 ** np.arange(count - 1, -1, -1.0) @ g)
        length = {
            "scale": 1.0 / s.strength,
            "clip_norm": max(1.0, float(np.sqrt((g[-1] ** 2).sum())) / s.strength),
            "staleness_step": max(1, seen.staleness[-1]),
            "lr_by_lag": max([1, *seen.staleness]),
            "ess_sqrt": float(np.sqrt(max(1.0, s.strength / seen.ess))),
            "ess_linear": max(1.0, s.strength / seen.ess),
        }[s.link]
        return np.asarray(s.step * g[-1] / length)

    return step


def _cross_check(s: _Setting) -> dict[str, float]:
    def field(s: _Setting, logits: np.ndarray) -> np.ndarray:
        return complex_gradient(lambda x: softmax(x) @ s.rewards, logits)

    return _quantities(_run(s, _history(s), field, lambda pi, mu: 1.0 + float(((pi - mu) ** 2 / mu).sum())))


claim = stated(
    id="convergence/links",
    statement="every link makes of known gradients the step of its definition: Adam the corrected mean over the root "
    "of the corrected mean square, momentum the sum of `beta^k` times the gradient `k` updates before, and a lost "
    "update nothing",
    kind="identity",
    status="exact",
    point=_Setting,
    predict=_predict,
    cross_check=_cross_check,
    reference="1412.6980; 2602.17616; 1909.12340; 2206.08307; 1211.5063",
    formula_defects={
        "bias of the moments not corrected": lambda s: _quantities(
            _run(s, lambda seen, memory: _adam(s, seen, memory, corrected=False), _field, _square)
        ),
        "eps under the root": lambda s: _quantities(
            _run(s, lambda seen, memory: _adam(s, seen, memory, inside=1.0), _field, _square)
        ),
        "moments exchanged": lambda s: _predict(s.but(beta1=s.beta2, beta2=s.beta1)),
        "no update lost": lambda s: _predict(s.but(lost=s.updates)),
        "fresh gradients": lambda s: _quantities(_run(s, _rule(s), _field, _square, late=False)),
    },
    relative_to="norm",
)
