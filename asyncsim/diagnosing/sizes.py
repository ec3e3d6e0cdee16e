"""Effective sample size: the range that a batch can show, the population's value, and the logged definition.

Also values that no correct metric can have, each with the mistake that makes it.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from scipy import special, stats

from asyncsim import claims
from asyncsim.base import checks
from asyncsim.base.records import Estimate
from asyncsim.diagnosing.aliases import WATCHED
from asyncsim.diagnosing.findings import BY_DEFINITION, HARMLESS, Draft, Saying, below, interval, mean, missing
from asyncsim.diagnosing.telemetry import Telemetry, Tokens, paired
from asyncsim.step import ratios

SHOWN, NAMED = "effective sample size of this batch", "which effective sample size is logged"
TAIL = "tail of the weights"
FEW = 10.0
"""Samples' worth of weight below which a batch says little of the population."""
CLAMPS = (2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
"""Clamps that are tried where the user names none."""
NEAR = 2e-3
"""Relative distance within which two series of ESS are the same; logs are rounded."""
WORDS, REMEDIES, SHARES, _ORDERS = checks.table(__file__, "sizes.toml").values()
CLOSER = 4.0
"""How many times nearer to the log than the plain quantity another one must be."""


def size(tokens: Tokens, log_weight: np.ndarray, group: np.ndarray | None = None) -> np.ndarray:
    """ESS/N of the tokens of every step `[U]`; with a `group` per token, its mean over groups."""
    row = tokens.row if group is None else paired(tokens.row, group)
    steps = len(tokens.step) if group is None else int(row.max()) + 1
    top = np.full(steps, -np.inf)
    np.maximum.at(top, row, log_weight)
    weight = np.exp(log_weight - top[row])
    one, two, count = (np.bincount(row, weights=x, minlength=steps) for x in (weight, weight**2, np.ones(len(row))))
    with np.errstate(invalid="ignore", divide="ignore"):
        each = one**2 / (count * two)
    if group is None:
        return each
    of = np.zeros(steps, dtype=int)
    of[row] = tokens.row
    return np.bincount(of, weights=each, minlength=len(tokens.step)) / np.bincount(of, minlength=len(tokens.step))


def shown(telemetry: Telemetry) -> Draft:
    """State the range of ESS that N samples can show, and what a batch implies for the population's ESS."""
    claim, tokens = "ess/finite-sample", telemetry.tokens
    series = telemetry.get("ess") if tokens is None else size(tokens, tokens.log_ratio)
    count = telemetry.setup.batch if tokens is None else float(np.median(np.bincount(tokens.row)))
    value = None if series is None else mean(series)
    if series is None or value is None or count is None:
        clamped = series is None and "ess_clamped" in telemetry.quantities
        why = "Too few steps have an ESS, or the number of its weights is unknown."
        why = "The logged ESS is of clamped weights, which has no such range." if clamped else why
        return missing(SHOWN, claim, why, "Log ESS and give `batch`, its number of weights, or log tokens.")
    least = 1.0 / count
    smallest = float(np.nanmin(series))
    population = value
    if tokens is not None:
        # The bias of ESS/N goes like 1/N: twice it, less that of the even and the odd tokens.
        population = mean(2.0 * series - size(tokens, tokens.log_ratio, np.arange(len(tokens.row)) % 2)) or value
    decisive = value.value * count >= FEW
    low, _, top = interval(population)
    told = f"{max(low, least):.3g} to {min(top, 1.0):.3g}" if tokens is not None else f"at most {min(top, 1.0):.3g}"
    words = f"A batch of {count:.0f} weights can show an ESS/N of {least:.2g} to 1; an infinite batch has {told}."
    if not decisive:
        words = f"The batch counts as {value.value * count:.2g} weights, too few for the ESS/N of an infinite one."
    return Draft(
        SHOWN, claim,
        Saying("possible size", words, HARMLESS if decisive else "Pool steps, or weight shorter parts of a response."),
        Saying("ESS below 1/N", f"ESS/N of {smallest:.4g} is impossible: {count:.0f} weights show 1/N or more.",
               "Check `batch`, and count the weights that are summed."),
        0.0 if smallest < least * (1.0 - 1e-6) else 1.0, value, (least, 1.0), "ESS/N", decisive,
    )  # fmt: skip


def named(telemetry: Telemetry) -> Draft:
    """Identify the definition of ESS that reproduces the logged one: the plain, another, or a known mistake."""
    claim, tokens = BY_DEFINITION, telemetry.tokens
    name = next((key for key in ("ess", "ess_clamped") if telemetry.get(key) is not None), None)
    if name is None:
        words, k3 = "No effective sample size was logged.", telemetry.get("kl_k3")
        of = None if k3 is None else mean(k3)
        if of is not None and (twice := 2.0 * of.value) > 0.0:
            words += f" k3 is half the variance of normal log ratios, {twice:.3g} a token: ESS/N {math.exp(-twice):.3g}"
            long = telemetry.get("length_mean")
            tokens_of = float(np.nanmean(long)) if long is not None and np.isfinite(long).any() else math.nan
            own = f", {math.exp(-twice * tokens_of):.2g} of independent tokens here ({tokens_of:.0f})"
            words += f", and exp(-{twice:.3g} T) of responses of T tokens{own * math.isfinite(tokens_of)}."
            claim = "ratio/gaussian-shift"
        of = of and of._replace(value=twice, error=2.0 * of.error)
        saying = Saying("", words, "Log the ESS together with the tokens.")
        return Draft(NAMED, claim, saying, measured=of, unit="nats^2 per token" * bool(of))
    logged = telemetry.quantities[name]
    if tokens is None:
        return _by_moments(telemetry, logged, name)
    if len(tokens.step) != len(logged):
        return missing(NAMED, claim, "Step log and token log have different steps.", "Log both for the same steps.")
    variants = list(_variants(telemetry, tokens))
    away = [float(np.nanmax(np.abs(series / logged - 1.0))) for *_, series in variants]
    # Logs are rounded: another quantity than the plain one must be several times nearer.
    best = min(range(len(away)), key=lambda k: away[k] * (1.0 if k == 0 else CLOSER))
    if away[best] <= NEAR:
        cause, wrong, source, _ = variants[best]
        expected = not wrong or (name == "ess_clamped" and cause == "ESS clamped")
        true = float(np.nanmean(variants[0][3]))
        words = f"The logged ESS, {np.nanmean(logged):.3g}, is that of {WORDS[cause]}; the token ESS is {true:.3g}."
        match = Saying(cause, words, HARMLESS if expected else REMEDIES[cause])
        return Draft(NAMED, source, match, match, 1.0 if expected else 0.0, mean(logged), (true, true), "ESS/N")
    plain = Saying("", "No definition of ESS gives the logged value on these tokens.",
                   "Log the tokens that the metric counts, and its clamp.")  # fmt: skip
    return Draft(NAMED, claim, plain, measured=mean(logged), unit="ESS/N")


def _variants(telemetry: Telemetry, tokens: Tokens) -> Iterator[tuple[str, bool, str, np.ndarray]]:
    """Candidate definitions: (cause, whether it is a mistake, claim, series `[U]`)."""
    ratio = tokens.log_ratio
    yield "plain ESS", False, BY_DEFINITION, size(tokens, ratio)
    if tokens.sequence is not None:
        yield "ESS within sequences", False, BY_DEFINITION, size(tokens, ratio, tokens.sequence)
        first = np.unique(tokens.sequence, return_index=True)[1]
        total = np.bincount(tokens.sequence, weights=ratio)
        yield "ESS of sequences", False, BY_DEFINITION, size(Tokens(tokens.row[first], tokens.step, total), total)
    if tokens.masked is not None:
        row, hidden = np.r_[tokens.row, tokens.masked[0]], np.r_[ratio, tokens.masked[1]]
        yield "mask ignored", True, BY_DEFINITION, size(Tokens(row, tokens.step, hidden), hidden)
    if tokens.micro is not None:
        yield "ESS averaged over micro-batches", True, "ess/finite-sample", size(tokens, ratio, tokens.micro)
    for clamp in [telemetry.setup.cap] if telemetry.setup.cap else CLAMPS:
        limit = np.log(clamp)
        yield "ESS clamped", True, "ess/clamp-floor", size(tokens, np.clip(ratio, -limit, limit))


def _by_moments(telemetry: Telemetry, logged: np.ndarray, name: str) -> Draft:
    """Check a logged ESS without tokens by the identity ESS/N = (mean ratio)^2 / (1 + chi-square) per step."""
    chi, ratio, cap = telemetry.get("chi_square"), telemetry.get("ratio_mean"), telemetry.setup.cap
    if chi is None or (ratio is None and name == "ess"):
        return missing(NAMED, "ess/limit", "An ESS alone does not show how it was computed.",
                       "Log chi-square and the mean ratio of the same tokens, or the tokens.")  # fmt: skip
    true = (1.0 if ratio is None else ratio) ** 2 / (1.0 + chi)
    gap = mean(logged - true)
    if gap is None:
        return missing(NAMED, "ess/limit", "Too few steps have ESS and chi-square.", "Log both at every step.")
    if name == "ess_clamped":
        if cap is None:
            words = f"This ESS is that of clamped weights; without the clamp it is {np.nanmean(true):.3g}."
            return missing(NAMED, "ess/clamp-floor", words, "Give `cap`, the clamp's upper limit.")
        least = 1.0 / claims.claim("ess/clamp-floor").predict({"clamp": cap})["largest_inverse"]
        lowest = float(np.nanmin(logged))
        words = f"A clamp at {cap:g} keeps ESS above {least:.2g}; without it, ESS is {float(np.nanmean(true)):.3g}."
        return Draft(
            NAMED, "ess/clamp-floor",
            Saying("clamped as named", words),
            Saying("ESS below its floor", f"ESS of {lowest:.3g} is below {least:.3g}, the floor of a clamp at {cap:g}.",
                   "Check `cap`, and that both sides are clamped."),
            0.0 if lowest < least * (1.0 - NEAR) else 1.0, mean(logged), (least, 1.0), "ESS/N",
        )  # fmt: skip
    same = np.allclose(logged, true, rtol=NEAR, atol=0.0, equal_nan=True)
    return Draft(
        NAMED, "ess/limit",
        Saying("plain ESS", "The logged ESS agrees with chi-square and the mean ratio."),
        Saying("ESS clamped or averaged", f"ESS differs by {gap.value:+.2g} from the one that chi-square gives.",
               "Compute the ESS before any clamp, over the full step; log tokens to identify the definition."),
        1.0 if same else 0.0, mean(logged), (float(np.nanmean(true)),) * 2, "ESS/N",
    )  # fmt: skip


def tail(telemetry: Telemetry) -> Draft:
    """Test whether the importance weights have so heavy a tail that their variance is infinite where sampled.

    1/alpha, Hill's, of the m largest of n is Gamma(m) / (m alpha), so P(alpha_hat <= a) at alpha = 2 is P(Gamma(m) >=
    2 m / a). A log-normal of standard deviation d reads 1 / (d (phi(z) n/m - z)), z exceeded by the share m/n.
    """
    claim, tokens = "ratio/hill-and-psis", telemetry.tokens
    if tokens is None:
        return missing(TAIL, claim, "The largest weights are unknown.", "Log tokens, and the sequence of each token.")
    words, logs = "token", tokens.log_ratio
    if tokens.sequence is not None:
        words, logs = "sequence", np.bincount(paired(tokens.row, tokens.sequence), weights=logs)
    weights = torch.as_tensor(logs).reshape(1, -1)
    alpha, shape = float(ratios.tail_index(weights)), float(ratios.pareto_k(weights))
    if not math.isfinite(alpha) or math.isnan(shape):
        return missing(TAIL, claim, f"{len(logs)} weights have no tail that can be fitted.", "Log more steps.")
    m = int(ratios.tail(weights)[0])
    z = stats.norm.isf(m / len(logs))
    normal = 1.0 / (float(logs.std()) * (stats.norm.pdf(z) * len(logs) / m - z))
    measured = Estimate(alpha, alpha / math.sqrt(m))
    told = f"The {m} largest of {len(logs)} {words} weights have a tail index (Hill) of {alpha:.2g}, where "
    told += f"2 or less is heavy. A log-normal with this spread has an index of {normal:.2g}. PSIS k is {shape:.2g}."
    advice = f"Truncate or use token ratios: the {'variance' if alpha > 1.0 else 'mean itself'} depends on few weights."
    return Draft(
        TAIL, claim, Saying("light tail", told), Saying("heavy tail", told, advice),
        float(special.gammaincc(m, 2.0 * m / alpha)), measured, (2.0, np.inf), "exponent",
        interval(measured)[0] > 2.0,
    )  # fmt: skip


ROUNDING = 1e-6
"""What a log may be off by rounding, relative to one."""
REMEDY = "Divide the value by its total (time of the step, tokens of the mask), or by 100 if it is a percentage."
SUMMED = "Divide by the number of weights that were summed, over the full step."


class Order(NamedTuple):
    """An inequality between logged quantities that holds at every step: `gap` is never below 0."""

    needs: tuple[str, ...]
    gap: Callable[..., np.ndarray]
    cause: str
    claim: str
    words: str
    action: str


def _order(gap: str, **words: str) -> Order:
    """An inequality of `sizes.toml`, whose gap is a sum of quantities, of their sizes |x| and of their squares x^2."""
    terms = re.findall(r"(-?) ?(\|?)(\w+)\|?(\^2)?", gap)
    needs = tuple(dict.fromkeys(name for *_, name, _ in terms if name != "1"))

    def of(*values: np.ndarray) -> np.ndarray:
        by = dict(zip(needs, values, strict=True)) | {"1": np.ones(1)}
        sized = ((sign, np.abs(by[name]) if bar else by[name], square) for sign, bar, name, square in terms)
        return np.asarray(sum((-1.0 if sign else 1.0) * x ** (2 if square else 1) for sign, x, square in sized))

    return Order(needs, of, **words)


ORDERS = [_order(**row) for row in _ORDERS]


def parts(telemetry: Telemetry) -> Iterator[Order]:
    """Inequalities 0 <= x <= 1 for all logged fractions, including those that a trainer names itself."""
    own = {name: f"the share {name.partition(' ')[2]}" for name in telemetry.quantities if name.startswith("share ")}
    for name, words in (SHARES | own).items():
        yield Order((name,), lambda x: x, "share out of range", BY_DEFINITION, f"{words} is below 0", REMEDY)
        yield Order((name,), lambda x: 1.0 - x, "share out of range", BY_DEFINITION, f"{words} is above 1", REMEDY)


def impossible(telemetry: Telemetry) -> list[Draft]:
    """One finding per violated inequality, or one with the number of those that hold; empty if none applies."""
    asked, broken = 0, []
    for name in (each for each in WATCHED if telemetry.get(f"odd {each}") is not None):
        odd = telemetry.quantities["step"][telemetry.quantities[f"odd {name}"] == 1.0]
        text = f"{telemetry.names[name]} is no number at step {odd[0]:g}, and in {len(odd)} of {telemetry.steps} steps."
        say = Saying("not a number", text, "Look at that step's batch: an infinite ratio, or a mask without tokens.")
        broken.append(Draft("impossible values", BY_DEFINITION, say, say, 0.0))
    for order in (*ORDERS, *parts(telemetry)):
        values = [telemetry.get(name) for name in order.needs]
        if any(value is None for value in values):
            continue
        asked += 1
        gap = order.gap(*values)
        known = np.isfinite(gap)
        if not known.any() or float(gap[known].min()) >= -ROUNDING:
            continue
        worst = int(np.flatnonzero(known)[gap[known].argmin()])
        step = telemetry.quantities["step"][worst]
        cells = [f"{value[worst]:.4g}" for value in values if value is not None]
        columns = ", ".join(map("{} = {}".format, [telemetry.names.get(n, n) for n in order.needs], cells))
        first, whole = telemetry.quantities[order.needs[0]], order.action in (REMEDY, SUMMED)
        percent = whole and float(np.nanmedian(first)) > 1.5 and float(np.nanmax(first)) <= 100.0
        action = "If the column is a percentage, divide it by 100." if percent else order.action
        action += " If it counts samples, divide it by their number." * (order.action == SUMMED != action)
        words = Saying(order.cause, f"At step {step:g} {order.words} ({columns}).", action)
        least = Estimate(float(gap[worst]))
        broken.append(Draft("impossible values", order.claim, words, words, 0.0, least, (0.0, np.inf)))
    if asked and not broken:
        holds = f"All required inequalities between metrics hold at every step (checked: {asked})."
        words = Saying("possible values", holds)
        return [Draft("impossible values", BY_DEFINITION, words, words, 1.0)]
    return broken


def direction(telemetry: Telemetry) -> Draft | None:
    """Test whether the mean of the KL estimate k1 is negative: a wrong sign, or samples of another policy."""
    k1 = telemetry.get("kl_k1")
    value = None if k1 is None else mean(k1)
    if value is None:
        return None
    return Draft(
        "sign of k1", "estimator/kl-estimators",
        Saying("k1 not negative", f"k1 is {value.value:.3g} on average; a divergence is never negative."),
        Saying("negative k1", f"k1 is {value.value:.3g} on average, but a divergence is never negative.",
               "Subtract the trainer's log-prob from the sampler's, on the sampler's own tokens."),
        below(value, 0.0), value, (0.0, np.inf), "nats per token",
    )  # fmt: skip
