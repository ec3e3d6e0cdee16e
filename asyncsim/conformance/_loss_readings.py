"""How a loss may transform its inputs before it applies a method: hypotheses, reported if they explain every token.

Constants are measured on single tokens: powers of the three policies in the weight, a floor, bounds of pi_prox / mu,
the coefficient of a KL term inside the advantage, and what becomes of advantages.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.conformance._loss_parts import Curves, Kink, fewest, idle, shape_of, tidy
from asyncsim.conformance._loss_probes import Points, points
from asyncsim.conformance._loss_subject import TENSORS, Probe
from asyncsim.step import ratios

_STEP, _SAME = 1e-4, 1e-6
TEXTS = checks.table(__file__, "loss_readings.toml")
"""Names, evidence and remedies of readings, and words for average and ratio."""
AVERAGED, LEVELS = TEXTS["rows"]["mean"][0], [TEXTS["batches"][key][0] for key in ("summed", "averaged", "repeated")]


@dataclass(frozen=True)
class Reading:
    """An interpretation: tensors `[R, G, N, T]` that a loss uses instead of the given ones, a batch per replicate.

    `words` go with the method's name; `shape`, whether single tokens show it, so that methods are searched anew;
    `within`, how far rounding may put a token off.
    """

    name: str
    evidence: str
    remedy: str
    of: Callable[[Probe], Probe]
    kind: str = "bug"
    words: str = ""
    shape: bool = True
    within: float = 0.0

    def read(self, probe: Probe) -> Probe:
        """A batch `[B, T]` as the loss reads it."""
        shape = (1, -1, probe.group, probe.mask.shape[-1])
        read = self.of(replace(probe, **{key: getattr(probe, key).reshape(shape) for key in TENSORS}))
        whole = {key: getattr(read, key).expand(read.mask.shape) for key in TENSORS}
        return replace(read, **{key: x.reshape(-1, x.shape[-1]) for key, x in whole.items()})

    def inside(self, probe: Probe) -> Tensor:
        """Which tokens `[B, T]` have all log ratios below asyncsim's limit, as the loss reads them."""
        read = self.read(probe)
        ends = read.log_prob - read.behavior, read.log_prob - read.proximal, read.proximal - read.behavior
        return torch.stack(ends).abs().amax(0) < ratios.LOG_LIMIT

    def kink(self, kink: Kink) -> Kink:
        """The kink, moved to the log ratio that the loss uses under this interpretation."""
        at = self.read(points(kink.ladder, float(kink.sign), np.array([kink.log_ratio])).probe(False))
        above = at.proximal if kink.ladder == "lag" else at.log_prob
        return kink._replace(log_ratio=float(above - (at.proximal if kink.ladder == "snapshot" else at.behavior)))


def _advantages(of: Callable[[Probe], Tensor]) -> Callable[[Probe], Probe]:
    return lambda probe: probe.but(probe.name, advantages=of(probe))


def _mean(probe: Probe, tokens: Tensor) -> Tensor:
    """Mean of every row over the kept tokens."""
    mean = (probe.advantages * tokens).sum(-1, keepdim=True) / tokens.sum(-1, keepdim=True).clamp(min=1.0)
    return mean.expand_as(probe.mask)


def _last(probe: Probe) -> Tensor:
    at = (probe.mask * torch.arange(1, probe.mask.shape[-1] + 1)).argmax(-1, keepdim=True)
    return probe.advantages.gather(-1, at).expand_as(probe.mask)


def of_the_sign(probe: Probe) -> Tensor:
    """|A| of every token with the sign of its row's first token."""
    return probe.advantages.abs() * probe.advantages[..., :1].sign()


def _worded(part: str, key: str, of: Callable[[Probe], Probe]) -> Reading:
    name, evidence, remedy, *words = TEXTS[part][key]
    return Reading(name, evidence, remedy, of, words="".join(words), shape=False)


_ROWS: dict[str, Callable[[Probe], Tensor]] = {
    "first": lambda probe: probe.advantages[..., :1].expand_as(probe.mask),
    "last": _last,
    "mean": lambda probe: _mean(probe, probe.mask),
    "padded mean": lambda probe: _mean(probe, torch.ones_like(probe.mask)),
    "sign": of_the_sign,
}
ROWS = tuple(_worded("rows", key, _advantages(of)) for key, of in _ROWS.items())
"""Advantages of rows in the place of those of tokens."""


def _late(first: bool) -> Callable[[Probe], Probe]:
    def of(probe: Probe) -> Probe:
        late = probe.behavior.roll(1, -1)
        late[..., 0] = probe.behavior[..., 0] if first else late[..., 0]
        return probe.but(probe.name, behavior=late)

    return of


def _by_length(times: Callable[[Tensor, int], tuple[Tensor, Tensor]], live: bool) -> Callable[[Probe], Probe]:
    """Log ratios times a number of their row, from its tokens and the width; by the chain rule a live weight, too."""

    def of(probe: Probe) -> Probe:
        size, chain = times(probe.mask.sum(-1, keepdim=True).clamp(min=1.0), probe.mask.shape[-1])
        now, before = (probe.behavior + size * (x - probe.behavior) for x in (probe.log_prob, probe.proximal))
        advantages = chain * probe.advantages if live else probe.advantages
        return probe.but(probe.name, log_prob=now, proximal=before, advantages=advantages)

    return of


def _centered(over: str) -> Callable[[Probe], Probe]:
    def of(probe: Probe) -> Tensor:
        tokens = torch.ones_like(probe.mask) if over == "padded" else probe.mask
        if over != "group":
            sums = [x.sum((1, 2, 3), keepdim=True) for x in (probe.advantages * tokens, tokens)]
            return probe.advantages - sums[0] / sums[1]
        return probe.advantages - probe.advantages[..., :1].mean(2, keepdim=True)

    return _advantages(of)


REVERSED, SCALED, INSIDE_CLIP = "log ratio reversed", "log ratios scaled", TEXTS["rollout"]["inside"][0]
_BATCHES: dict[str, Callable[[Probe], Probe]] = {
    "centered over tokens": _centered("tokens"),
    "centered over padding": _centered("padded"),
    "centered over groups": _centered("group"),
    "late": _late(first=False),
    "late but the first": _late(first=True),
}
_LENGTHS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "over columns": lambda n, width: (n / width, n / width),
    "summed": lambda n, width: (n, n),
    "averaged": lambda n, width: (1 / n, n / n),
    "averaged over columns": lambda n, width: (n / n / width, n / width),
    "repeated": lambda n, width: (n / n, n),
}
BATCHES = (
    *(_worded("batches", key, of) for key, of in _BATCHES.items()),
    *(_worded("batches", k, _by_length(_LENGTHS[k], live)) for k, live in itertools.product(_LENGTHS, (True, False))),
)
"""What shows in batches alone."""


def of_clipped(own: Mapping[str, Any]) -> Iterator[Reading]:
    """Interpretations: log ratios, clipped one by one as a method with these settings does, with another divisor."""
    for key, live in itertools.product(("summed", "over columns"), (True, False)):

        def of(probe: Probe, key: str = key, live: bool = live) -> Tensor:
            lengths = probe.mask.sum(-1, keepdim=True).clamp(min=1.0)
            size, chain = _LENGTHS[key](lengths, probe.mask.shape[-1])
            gap = (probe.log_prob - getattr(probe, own["anchor"])) * probe.mask
            limited = torch.where(probe.advantages > 0, gap.clamp(max=own["high"]), gap.clamp(min=-own["low"]))
            factor = torch.exp((size - 1.0) * limited.sum(-1, keepdim=True) / lengths)
            return probe.advantages * factor * (chain if live else 1.0)

        yield _worded("batches", key, _advantages(of))


def _scaled(now: float, then: float, before: float) -> Callable[[Probe], Probe]:
    return lambda p: p.but(p.name, log_prob=now * p.log_prob, behavior=then * p.behavior, proximal=before * p.proximal)


def powers(curves: Curves) -> tuple[float, float, float] | None:
    """Exponents of pi, mu and pi_prox in the weight of a token near ratio 1; None if no such token is open."""
    for sign, x in ((1.0, -1e-3), (-1.0, 1e-3), (1.0, -0.05), (-1.0, 0.05)):
        center = points("drift", sign, np.full(7, x))
        logs = torch.stack([center.log_prob, center.behavior, center.proximal])
        for k in range(3):
            logs[k, 2 * k + 1 : 2 * k + 3] += torch.tensor([-_STEP, _STEP])
        weights = curves(Points(logs[0], logs[1], logs[2], center.advantage))
        if bool(torch.isfinite(weights).all()) and float(weights.abs().min()) > 0.0:
            low, high = weights[1::2].abs().log(), weights[2::2].abs().log()
            slopes = (high - low) / (2 * _STEP)
            return float(slopes[0]), float(slopes[1]), float(slopes[2])
    return None


_LOGS = {math.log(2.0): "log 2", math.log(10.0): "log 10"}


def _constant(k: float) -> float:
    """The round number that a measured one approximates: a logarithm, few digits, or the inverse of few digits."""
    near = [x for x in _LOGS if abs(k - x) < 1e-5]
    near += [x for x in (fewest(k, 4, 1e-5 * abs(k)),) if x]
    inverse = fewest(1.0 / k, 4, 1e-5 / abs(k)) if k else None
    return (near + ([1.0 / inverse] if inverse else []) + [k])[0]


_BOTH = "divide the log-probs of all policies by one temperature, that of the sampler"


def _of_powers(curves: Curves) -> Iterator[Reading]:
    """Interpretation: log-probs times a constant, for all policies or for one."""
    found = powers(curves)
    if found is None:
        return
    now, then, before = (0.0 if abs(x) < 1e-5 else _constant(x) for x in found)
    if now != 1.0 and now and abs(now + then + before) < 1e-4:
        name = {-1.0: REVERSED, 2.0: "ratio applied twice"}.get(now, SCALED)
        words = f"the ratio to the power {now:.6g}" + (f" = {_LOGS[now]}: the base is not e" if now in _LOGS else "")
        remedy = "use exp(log_prob - old_log_prob)" if now < 0 or now in _LOGS else _BOTH
        evidence = f"weights are those of {words}"
        yield Reading(name, evidence, remedy, _scaled(now, now, now), words=f"with {words}")
    elif now and then + before == -1.0 and now != 1.0:
        evidence = f"log_prob counts {now:.6g} times and the others once: where policies agree the ratio is not 1"
        yield Reading("temperature of one policy", evidence, _BOTH, _scaled(now, 1.0, 1.0))
    elif (now, then, before) == (1.0, 1.0, -2.0):
        evidence = "tokens are weighed with mu / pi_prox"
        remedy = "put the policy that sampled into the denominator"

        def turned(probe: Probe) -> Probe:
            return probe.but(probe.name, behavior=2.0 * probe.proximal - probe.behavior)

        yield Reading(REVERSED, evidence, remedy, turned, words="with mu / pi_prox in the place of its inverse")
    elif now == 1.0 and then + before not in (0.0, -1.0) and 0.0 in (then, before):
        k = -(then + before)
        evidence = f"stored log-probs count {k:.6g} times and log_prob once: where policies agree the ratio is not 1"
        yield Reading("temperature of one policy", evidence, _BOTH, _scaled(1.0, k, k))
    elif now and then == before == 0.0:
        yield from _floored(curves)


def _floored(curves: Curves) -> Iterator[Reading]:
    """Interpretation: a minimum log-prob of the stored policies, below which they have no effect."""

    def moves(x: float) -> bool:
        stored = torch.tensor([x, x - _STEP], dtype=torch.float64)
        weights = curves(Points(stored[:1].expand(2) - 0.05, stored, stored, torch.ones(2, dtype=torch.float64)))
        return bool(weights[0] != weights[1])

    low, high = -9.0, -1e-3
    if not moves(high) or moves(low):
        return
    for _ in range(45):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if moves(middle) else (middle, high)
    floor = _constant(high)
    floor = math.log(tidy(math.exp(high))) if floor == high else floor

    def of(probe: Probe) -> Probe:
        stored = {name: getattr(probe, name).clamp(min=floor) for name in ("behavior", "proximal")}
        return probe.but(probe.name, **stored)

    words = f"{floor:.6g} (a probability of {math.exp(floor):.4g})"
    evidence = f"stored log-probs below {words} count as that: there the ratio does not see the sampler"
    yield Reading("stored log-probs limited from below", evidence, "limit the log ratio instead", of)


def _limited(curves: Curves) -> Iterator[Reading]:
    """Interpretation: bounds of pi_prox / mu where the staleness curve bends."""
    bends = {k.ratio for k in curves.kinks if k.kind == "bend" and k.ladder == "lag"}
    low, high = max((x for x in bends if x < 1.0), default=0.0), min((x for x in bends if x > 1.0), default=math.inf)
    for least, most in dict.fromkeys([(low, math.inf), (low, high), (0.0, high)]):
        if (least, most) != (0.0, math.inf):
            ends = [math.log(least) if least else -math.inf, math.log(most)]

            def of(probe: Probe, ends: list[float] = ends) -> Probe:
                return probe.but(probe.name, behavior=probe.proximal - (probe.proximal - probe.behavior).clamp(*ends))

            sides = (f"at least {least:g}" * bool(least), f"at most {most:g}" * (most < math.inf))
            words = " and ".join(filter(None, sides))
            name, evidence, remedy, kind = TEXTS["rollout"]["floor" if most == math.inf else "inside"]
            evidence = evidence.format(least=least, words=words)
            yield Reading(name, evidence, remedy, of, kind, f"with pi_prox / mu of {words}")


_TERMS: dict[str, Callable[[Tensor], Tensor]] = {
    "k1": lambda x: x, "k2": lambda x: x * x / 2.0, "k3": lambda x: torch.exp(-x) - 1.0 + x,
}  # fmt: skip


def _paid(curves: Curves) -> Iterator[Reading]:
    """Interpretation: a KL term inside the advantage, per token or per row, which has a weight at zero advantage."""
    if not np.abs(idle(curves, "drift")).max() > 1e-12 or shape_of(curves) is not None:
        return
    to = "proximal" if float(np.ptp(idle(curves, "snapshot"))) > 1e-12 else "behavior"
    x = 0.05
    paid, both = (float(curves.at("drift", sign, x)[0]) for sign in (0, -1))
    if paid == both:
        return
    for name, term in _TERMS.items():
        beta = -paid / float(term(torch.tensor(x, dtype=torch.float64))) / (paid - both)
        for row in (False, True):
            yield _in_advantages(name, term, fewest(beta, 6, 1e-5 * abs(beta)) or beta, to, row)


def _in_advantages(name: str, term: Callable[[Tensor], Tensor], beta: float, to: str, row: bool) -> Reading:
    def of(probe: Probe) -> Tensor:
        gap = ratios.log_ratio(probe.log_prob, getattr(probe, to), probe.mask).clamp(-20.0, 20.0)
        values = torch.where(probe.mask > 0, term(gap), 0.0)
        return probe.advantages - beta * (values.sum(-1, keepdim=True) if row else values)

    where = "its row" if row else "the token"
    title, evidence, remedy = TEXTS["advantages"]["paid"]
    return Reading(title, evidence.format(beta, name, where, to), remedy, _advantages(of), "note")


def rounding(curves: Curves) -> Reading | None:
    """Interpretation: log-probs in half precision, if weights change in its steps; else None."""
    if not curves.rough:
        return None
    at = torch.linspace(-9.3, -8.7, 64, dtype=torch.float64)
    stored = torch.full_like(at, -9.0)
    weights = curves(Points(at, stored, stored, torch.where(at < -9.0, 1.0, -1.0).double())).abs()
    names = ("log_prob", "behavior", "proximal")
    for name, kind, within in (("bfloat16", torch.bfloat16, 0.02), ("float16", torch.float16, 0.003)):
        if (weights.diff() == 0).equal(at.to(kind).diff() == 0):

            def rounded(p: Probe, kind: torch.dtype = kind) -> Probe:
                return p.but(p.name, **{name: getattr(p, name).to(kind).double() for name in names})

            title, evidence, remedy = TEXTS["numbers"]["rounded"]
            return Reading(title.format(name), evidence.format(name), remedy, rounded, within=within)
    return None


CLAMPED, OTHERWISE, ONE_SIGN = "advantages are clamped", "advantages are changed", "one sign has no gradient"


def of_advantages(curves: Curves, sizes: Tensor) -> Reading | None:
    """Interpretation: advantages of these sizes are modified where all policies agree; None if they are unchanged."""
    if curves.pair:
        return None

    def used(values: Tensor) -> Tensor:
        center = points("drift", 1.0, np.zeros(len(values)))
        return curves(center._replace(advantage=values)) - curves(center._replace(advantage=0.0 * values))

    few = torch.tensor([0.05, -0.05, 0.3, -0.3, 1.0, -1.0, 20.0, -20.0], dtype=torch.float64)
    found = used(few)
    units = found[:2] / few[:2]
    unit = float(units[units.abs().argmax()]) if bool(torch.isfinite(found).all()) else 0.0
    if unit == 0.0 or _agree(found / unit, few):
        return None
    values = torch.cat([sizes, few]).unique()
    read = used(values) / unit

    def of(probe: Probe) -> Tensor:
        return read[torch.searchsorted(values, probe.advantages.contiguous()).clamp(max=len(values) - 1)]

    ones = values.abs() == 1.0
    return Reading(*_described(values, read), _advantages(of), shape=not _agree(read[ones], values[ones]))


def _agree(found: Tensor, expected: Tensor) -> bool:
    return bool(((found - expected).abs() <= _SAME * torch.maximum(found.abs(), expected.abs())).all())


def _described(values: Tensor, read: Tensor) -> tuple[str, str, str]:
    """Describe advantages that are clipped at a bound on either side, or modified in another way."""
    cut = (read - values).abs() > _SAME * values.abs()
    ends: list[float | None] = []
    for sign in (1.0, -1.0):
        # The size at which all of them stop; None where there are none, or where they differ.
        sizes = read[cut & (values * sign > 0)] * sign
        stops = sizes.numel() > 0 and not float(sizes.max() - sizes.min()) > _SAME * float(sizes.max().abs())
        ends.append(tidy(float(sizes.mean())) if stops else None)
    high, low = ends
    top, bottom = (math.inf if x is None else x for x in (high, low))
    if not _agree(read, values.clamp(-bottom, top)):
        at = int((read - values).abs().argmax())
        evidence = f"an advantage of {float(values[at]):.4g} has the weight of {float(read[at]):.4g}"
        return OTHERWISE, evidence, "hand the advantages over as they are used"
    if 0.0 in (high, low):
        evidence = f"tokens with A {'>' if high == 0.0 else '<'} 0 have no gradient at any ratio"
        return ONE_SIGN, evidence, "look for a bound that was meant for the other sign"
    sides = [f"{word} {sign}{x:g}" for word, sign, x in (("above", "", high), ("below", "-", low)) if x is not None]
    evidence = f"an advantage {' or '.join(sides)} has the weight of that bound"
    return CLAMPED, evidence, "clamp advantages where they are made, or not at all"


def readings(curves: Curves, sizes: Tensor, exact: bool) -> Iterator[Reading]:
    """All interpretations of the inputs of a loss, most likely first; `sizes` are those of advantages."""
    if not exact:
        yield from filter(None, [rounding(curves)])
        yield from _of_powers(curves)
        yield from _limited(curves)
        yield from _paid(curves)
    yield from filter(None, [of_advantages(curves, sizes)])
    yield from () if exact else BATCHES


NAMED = (
    *(one.name for one in (*ROWS, *BATCHES)), CLAMPED, OTHERWISE, ONE_SIGN, REVERSED, "ratio applied twice", SCALED,
    "temperature of one policy", "stored log-probs limited from below", INSIDE_CLIP, "log-probs rounded to bfloat16",
    "log-probs rounded to float16",
)  # fmt: skip
"""What readings are called that are bugs."""
