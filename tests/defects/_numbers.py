"""Bugs of statistics, divergences and metrics."""

import math

import torch

from asyncsim import diagnostics
from asyncsim.diagnostics._levels import ages
from asyncsim.step import ratios
from asyncsim.updates.steps import Align
from tests.defects.plants import plant

METRICS, STEPS = "tests/methods/test_metrics.py", "tests/methods/test_metrics_of_steps.py"
RATIOS = "tests/contracts/test_ratios.py"


@plant(
    4, "diagnostics", "absolute epsilon in the ESS", "VCPO release",
    f"{RATIOS}::test_ess_does_not_see_a_common_factor",
)  # fmt: skip
def epsilon():
    def ess(log_weight, mass, clamp=None):
        weight = log_weight.double().exp().reshape(log_weight.shape[0], -1)
        mass = mass.expand(log_weight.shape).reshape(weight.shape)
        return (mass * weight).sum(-1) ** 2 / ((mass * weight**2).sum(-1) + 1e-8)

    return [(ratios, "ess", ess)]


@plant(
    5, "diagnostics", "ESS above 1: segments divided by the number of rollouts", "miles",
    f"{RATIOS}::test_ess_range",
)  # fmt: skip
def segmented():
    right = ratios.ess
    return [(ratios, "ess", lambda log, mass, clamp=None: right(log, mass, clamp) * 1.25)]


@plant(6, "diagnostics", "ESS of clamped weights", "verl", f"{RATIOS}::test_ess_at_both_ends")
def clamped():
    right = ratios.ess
    return [(ratios, "ess", lambda log, mass, clamp=None: right(log, mass, clamp or 2.0))]


@plant(
    10, "diagnostics", "share above a cap measured on capped weights", "verl",
    f"{METRICS}::test_fractions_are_measured_before_truncation",
)  # fmt: skip
def measured_too_late():
    right = ratios.beyond

    def beyond(log_weight, mass, bound, side):
        edge = math.log(bound)
        capped = log_weight.clamp(max=edge) if side == "above" else log_weight.clamp(min=edge)
        return right(capped, mass, bound, side)

    return [(ratios, "beyond", beyond)]


@plant(
    11, "diagnostics", "KL as a product of sums", "prime-rl",
    f"{METRICS}::test_divergences_of_a_population_are_exact",
)  # fmt: skip
def product_of_sums():
    def measure(step):
        log = step.sequence_log_ratio.double()
        return step.mean(log.exp()) * step.mean(log)

    return [(diagnostics.kl_reverse.__dict__, "measure", measure)]


@plant(
    23, "diagnostics", "a mean staleness that is a maximum", "PipelineRL",
    f"{STEPS}::test_staleness_of_mixed_trajectories",
)  # fmt: skip
def largest():
    return [(diagnostics.staleness_mean.__dict__, "measure", lambda step: ages(step).oldest.amax((1, 2)))]


@plant(
    35, "diagnostics", "clamped extremes beside unclamped deviations", "verl",
    f"{METRICS}::test_extremes_and_spread_tell_one_story",
)  # fmt: skip
def clamped_extremes():
    right = ratios.quantile
    return [(ratios, "quantile", lambda log, mass, q: right(log.clamp(-20.0, 20.0), mass, q))]


@plant(
    36, "diagnostics", "extremes averaged over packed rows", "TRL, fixed",
    f"{METRICS}::test_groups_of_a_step_are_pooled", name="log_ratio_max",
)  # fmt: skip
def extremes_of_rows():
    right = ratios.quantile

    def quantile(log, mass, q):
        mass = mass.expand(log.shape)
        rows = [right(log[:, g : g + 1], mass[:, g : g + 1], q) for g in range(log.shape[1])]
        return torch.stack(rows).mean(0)

    return [(ratios, "quantile", quantile)]


@plant(
    42, "links", "reference kept across a lost step, cosine 0", "several",
    "tests/methods/test_stabilizers.py::test_a_direction_that_was_lost_clears_the_reference", bad=math.nan, first=[],
    reference="raw",
)  # fmt: skip
def kept_reference():
    right = Align.apply

    def apply(self, record, state):
        lost = ~torch.isfinite(record.direction).all(-1, keepdim=True)
        record, fresh = right(self, record, state)
        record.statistics["align_cosine"] = record.statistics["align_cosine"].nan_to_num(0.0)
        return record, {**fresh, "reference": torch.where(lost, state["reference"], fresh["reference"])}

    return [(Align, "apply", apply)]
