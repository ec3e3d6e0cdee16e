r"""Where generation is the slower side, mean staleness is set by the places: E[s] = C/P + rho + E[(Q - P)^+]/P.

C places always busy, P groups a batch, one batch a publish, constant train time t_T, no ticket ever missing; X =
C / E[T_group] groups a second and rho = t_T X / P < 1. Derivation: mean-staleness identity; outstanding at a publish
are the C groups in generation and the Q that became ready while the batch trained or before and were not yet taken.
Where completions are a Poisson stream (exactly: one exponential sample a group), Q' = (Q - P)^+ + A with A ~
Poisson(rho P), and W = (Q - P)^+ is a random walk kept above 0: E W = sum_n E[(A_1 + .. + A_n - nP)^+]/n. C/P + rho
alone forgets batches that wait for a batch by chance. Other lengths and larger groups: a place that has just finished
finishes again late, which is felt less the more places there are (the mean is 1 % lower at C = 4 P = 16, 0.2 % at 64),
and batches queue less than under a Poisson stream. Domain: lengths with a density; rho <= 0.95 for one exponential
sample a group, else rho <= 0.6 and C >= 4 P. Second route: roots of z^P = exp(rho P (z - 1)) in the unit disk. Source:
derived; sum over n: Spitzer, Trans. Amer. Math. Soc. 82 (1956).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw
from scipy.stats import poisson

from asyncsim import checks
from asyncsim.records import Claim, Point
from asyncsim.theory import _lengths, _points

_BUSIEST, _MODERATE, _PLACES_PER_GROUP = 0.95, 0.6, 4


class _Setting(NamedTuple):
    places: int
    groups: int
    busy: float


def _read(point: Point) -> _Setting:
    places, groups, samples, length, train_time = _points.select(
        point, "places groups_per_batch samples_per_group length train_time"
    )
    places = checks.integer("places", places, 1, "count groups in generation")
    groups = checks.integer("groups_per_batch", groups, 1, "count the groups of a batch", 4096)
    samples = checks.integer("samples_per_group", samples, 1, "a group has at least one sample")
    law = _lengths.read_law("length", length)
    seconds = law.expected_max(samples)
    poisson_stream = law.kind == "exponential" and samples == 1
    enough = 1 if poisson_stream else _PLACES_PER_GROUP * groups
    reason = "completions of few places are no Poisson stream"
    checks.require(places >= enough, "places", places, f">= {enough}", reason)
    busy = _points.positive("train_time", train_time) * places / (seconds * groups)
    largest = _BUSIEST if poisson_stream else _MODERATE
    # A train time computed from a share may round to just above it.
    checks.require(
        busy <= largest * (1.0 + 1e-12), "train_time", train_time, f"at most {largest * seconds * groups / places:.6g}",
        f"the trainer is busy {busy:.4g} of the time; generation must be the slower side",
    )
    return _Setting(places, groups, busy)


def _waiting(s: _Setting) -> float:
    """E[(Q - P)^+] by the sum over n; its terms fall at least as exp(-n P (1 - rho)^2 / 2)."""
    last = 64 + int(80.0 / (s.groups * (1.0 - s.busy) ** 2))
    n = np.arange(1, last + 1)
    rate, level = n * s.groups * s.busy, n * s.groups
    excess = rate * poisson.sf(level - 1, rate) - level * poisson.sf(level, rate)
    return math.fsum(excess / n)


def _predict(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"mean": s.places / s.groups + s.busy + _waiting(s) / s.groups}


def _cross_check(point: Point) -> dict[str, float]:
    s = _read(point)
    turns = np.exp(2j * np.pi * np.arange(1, s.groups) / s.groups)
    roots = -lambertw(-s.busy * math.exp(-s.busy) * turns) / s.busy
    ready = s.groups * s.busy / 2.0 + s.busy / (2.0 * (1.0 - s.busy)) - (s.groups - 1) / 2.0
    ready += float((1.0 / (1.0 - roots)).sum().real)
    return {"mean": (s.places + ready) / s.groups}


def _places_only(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"mean": s.places / s.groups}


def _no_chance(point: Point) -> dict[str, float]:
    s = _read(point)
    return {"mean": s.places / s.groups + s.busy}


def _own_batch(point: Point) -> dict[str, float]:
    return {"mean": _predict(point)["mean"] + 1.0}


claim = Claim(
    id="systems/cap-idle",
    statement="with C places the slower side, mean staleness is C/P + rho, and what waits by chance, whatever the cap",
    kind="expectation",
    status="asymptotic",
    point=_read,
    predict=_predict,
    cross_check=_cross_check,
    reference="derived: mean-staleness identity; batches of Poisson arrivals (Spitzer's identity)",
    formula_defects={
        "groups that finish during training forgotten": _places_only,
        "chance queueing forgotten": _no_chance,
        "the batch in training counted as outstanding": _own_batch,
    },
)
