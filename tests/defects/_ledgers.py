"""Bugs of versions, ages, counters, and of what staleness is confused with."""

import numpy as np
import torch

from asyncsim.policies._language_sampling import Distribution
from asyncsim.policies._language_scoring import Scoring
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from asyncsim.step.versions import tensor
from tests.conformance.controllers import VersionCounter
from tests.defects.plants import plant

SAMPLERS = "tests/contracts/test_samplers.py::test_an_unchanged_policy_has_ratio_one"
LANGUAGE, LINKS = "tests/language/test_causal_lm.py", "tests/contracts/test_links.py"


def scored_with(change):
    """Scoring of a language model by another distribution than the sampler's."""
    right = Scoring.outputs

    def outputs(self, *given):
        law, self.law = self.law, change(self.law)
        try:
            return right(self, *given)
        finally:
            self.law = law

    return [(Scoring, "outputs", outputs)]


@plant(19, "samplers", "log-probs of a nucleus against the full softmax", "TRL", SAMPLERS, settings={"top_p": 0.6})
def full_softmax():
    return scored_with(lambda law: Distribution(law.temperature, 1.0, 0))


@plant(
    20, "samplers", "temperature in the sampler, not in the trainer", "several", SAMPLERS,
    settings={"temperature": 0.7},
)  # fmt: skip
def forgotten_temperature():
    return scored_with(lambda law: Distribution(1.0, law.top_p, law.top_k))


@plant(
    22, "versions", "age from the newest token", "VCPO histogram, slime, miles",
    f"{LINKS}::test_largest_staleness_is_that_of_the_oldest_token",
)  # fmt: skip
def newest():
    def update_staleness(self, updates_per_version, since_batch, mass):
        youngest = self.version.reshape(self.version.shape[0], -1).max(axis=1)
        gap = (self.train_version - youngest) * updates_per_version + since_batch
        return tensor(gap[self.realization].astype(np.float64))

    return [(Batch, "update_staleness", update_staleness)]


@plant(
    24, "admission", "recovery resets the admission counter", "AReaL",
    "tests/conformance/test_check_admission.py::test_the_laws_of_real_systems_pass", controller=VersionCounter,
    batch=4, eta=1, concurrent=None, publish=1,
)  # fmt: skip
def reset():
    def recovered(self, version, kept):
        self.version_now, self.total, self.running = version, kept, 0

    return [(VersionCounter, "recovered", recovered)]


@plant(
    37, "epochs", "steps on one drained batch add uncounted lag", "miles",
    f"{LINKS}::test_staleness_step_counts_updates_not_versions", publish=1, epochs=3,
)  # fmt: skip
def uncounted():
    right = Batch.update_staleness
    return [(Batch, "update_staleness", lambda self, per_version, since, mass: right(self, per_version, 0, mass))]


@plant(
    38, "diagnostics", "numeric mismatch counted as staleness", "RLinf",
    f"{LANGUAGE}::test_rounding_is_no_staleness", sampler="float32", compute="bfloat16", differs=True,
)  # fmt: skip
def mismatch():
    return [(Step, "staleness_log_ratio", property(lambda self: self.log_ratio))]


@plant(
    21, "versions", "missing version read as fresh", "several",
    "tests/methods/test_metrics_of_steps.py::test_an_unknown_version_is_missing", name="staleness_mean",
)  # fmt: skip
def unknown_is_fresh():
    right = Step.staleness.func
    return [(Step, "staleness", property(lambda self: torch.nan_to_num(right(self), nan=0.0)))]
