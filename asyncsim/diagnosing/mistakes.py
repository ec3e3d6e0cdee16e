"""Values that no correct metric can have, each with the mistake that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from asyncsim.base.records import Estimate
from asyncsim.diagnosing.ages import HARMLESS
from asyncsim.diagnosing.findings import BY_DEFINITION, Draft, Saying, below, mean
from asyncsim.diagnosing.telemetry import Telemetry

ROUNDING = 1e-6
"""What a log may be off by rounding, relative to one."""


REMEDY = "Divide by the whole of which it is a part: of one step's time, or of the tokens of one mask."
SHARES = {
    "trainer_idle": "the idle share of the trainer", "generator_idle": "the idle share of the generators",
    "clip_fraction": "the clipped share", "clip_low": "the share clipped below", "clip_high": "the share clipped above",
    "masked": "the masked share", "masked_low": "the share masked below", "masked_high": "the share masked above",
}  # fmt: skip
"""Quantities that are parts of a whole."""


class Order(NamedTuple):
    """An inequality that holds at every step: `larger` less `smaller` is never below 0."""

    needs: tuple[str, ...]
    gap: Callable[..., np.ndarray]
    cause: str
    claim: str
    words: str
    action: str


ORDERS = (
    Order(("kl_k3",), lambda k3: k3, "negative k3", "estimator/kl-estimators", "k3 is below 0, unlike its terms",
          "Exponentiate the same log ratio that is subtracted; check its sign and the mask."),
    Order(("chi_square", "ratio_mean"), lambda chi, r: chi + 1.0 - r**2, "chi-square below its mean", "ess/limit",
          "chi-square is below (mean ratio)^2 - 1", "Average squares and ratios over the same tokens."),
    Order(("chi_square",), lambda chi: chi + 1.0, "negative second moment", "ess/limit", "chi-square is below -1",
          "Subtract 1 once."),
    Order(("ratio_max", "ratio_mean"), lambda top, r: top - r, "mean ratio above the largest", BY_DEFINITION,
          "the mean ratio exceeds the largest", "Average over tokens of the mask, with their number as denominator."),
    Order(("ratio_mean", "ratio_min"), lambda r, low: r - low, "mean ratio below the least", BY_DEFINITION,
          "the mean ratio is below the least", "Divide by the number of tokens that the mask keeps."),
    Order(("log_ratio_abs", "kl_k1"), lambda size, k1: size - np.abs(k1), "mean above mean size", BY_DEFINITION,
          "|mean log ratio| exceeds the mean of |log ratio|", "Average both over the same tokens."),
    Order(("masked", "masked_low", "masked_high"), lambda m, low, high: m - low - high, "clipped above masked",
          BY_DEFINITION, "low and high masked shares exceed the masked share", "Count a token once."),
    Order(("masked", "clip_fraction"), lambda m, c: m - c, "clipped above masked", BY_DEFINITION,
          "the clip fraction exceeds the masked share", "Take both over the tokens of one mask."),
    Order(("staleness_max", "staleness_mean"), lambda top, m: top - m, "staleness out of order", BY_DEFINITION,
          "mean staleness exceeds the largest", "Take both from the same samples."),
    Order(("staleness_mean", "staleness_min"), lambda m, low: m - low, "staleness out of order", BY_DEFINITION,
          "mean staleness is below the least", "Take both from the same samples."),
    *(Order((name,), lambda x: x, "share out of range", BY_DEFINITION, f"{words} is below 0", REMEDY)
      for name, words in SHARES.items()),
    *(Order((name,), lambda x: 1.0 - x, "share out of range", BY_DEFINITION, f"{words} is above 1", REMEDY)
      for name, words in SHARES.items()),
)  # fmt: skip


def impossible(telemetry: Telemetry) -> list[Draft]:
    """One finding for each inequality that is broken, or one that says how many hold; none where none can be asked."""
    asked, broken = 0, []
    for order in ORDERS:
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
        columns = ", ".join(telemetry.names.get(name, name) for name in order.needs)
        words = Saying(order.cause, f"At step {step:g} {order.words} (column {columns}).", order.action)
        broken.append(
            Draft("impossible values", order.claim, words, words, 0.0, Estimate(float(gap[worst])), (0.0, np.inf))
        )
    if asked and not broken:
        words = Saying("possible values", f"All {asked} inequalities between metrics hold at every step.", HARMLESS)
        return [Draft("impossible values", BY_DEFINITION, words, words, 1.0)]
    return broken


def direction(telemetry: Telemetry) -> Draft | None:
    """Whether the mean of k1 is negative: then the direction is turned round, or the samples are not the sampler's."""
    k1 = telemetry.get("kl_k1")
    value = None if k1 is None else mean(k1)
    if value is None:
        return None
    return Draft(
        "sign of k1", "estimator/kl-estimators",
        Saying("k1 not negative", f"k1 is {value.value:.3g} on average; a divergence is not below 0.", HARMLESS),
        Saying("negative k1", f"k1 is {value.value:.3g} on average, and its mean is a divergence, so not below 0.",
               "Subtract the trainer's log-prob from the sampler's, on the sampler's own tokens."),
        below(value, 0.0), value, (0.0, np.inf), "nats per token",
    )  # fmt: skip
