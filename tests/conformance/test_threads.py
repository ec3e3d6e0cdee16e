"""Public threads about losses, metrics, controllers and logs, written anew: each is answered rightly, or refused."""

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base.checks import InputError
from asyncsim.conformance import check_admission, check_metric
from asyncsim.conformance._loss_probes import ordinary
from asyncsim.conformance._loss_subject import Subject
from tests.conformance import trainers
from tests.conformance.planted_losses import row_mean
from tests.conformance.test_metrics import absolute, two_levels
from tests.conformance.trainers import checked, log_ratio, mean_of, surrogate
from tests.diagnosing import simulated
from tests.refusals import refused

# Losses: (log_prob, behavior, proximal, advantages, mask), all [B, T].


def centered(log_prob, behavior, proximal, advantages, mask):
    """GSPO of log ratios less their mean over the batch, taken before the mask."""
    gap = log_prob - behavior
    ratio = row_mean(gap - gap.mean(0, keepdim=True), mask).exp()
    return -mean_of(surrogate(ratio, advantages, 0.2, 0.2), mask, "sequence_mean")


def dual_for_both_signs(log_prob, behavior, proximal, advantages, mask):
    objective = surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, 0.2, 0.2)
    return -mean_of(torch.max(objective, 3.0 * advantages), mask, "token_mean")


def empty_rows_count(log_prob, behavior, proximal, advantages, mask):
    values = surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, 0.2, 0.2) * mask
    return -values.sum() / mask.sum(1).clamp(min=1).sum()


def product_in_a_clip(log_prob, behavior, proximal, advantages, mask):
    ratio = log_ratio(log_prob, behavior, mask).sum(-1, keepdim=True).clamp(-20, 20).exp()
    return -mean_of(surrogate(ratio, advantages, 0.2, 0.2), mask, "sequence_sum")


def self_normalized(log_prob, behavior, proximal, advantages, mask):
    weight = log_ratio(proximal, behavior, mask).exp().clamp(max=2.0)
    values = surrogate(log_ratio(log_prob, proximal, mask).exp(), advantages, 0.2, 0.2)
    return -mean_of((weight / weight.mean()).detach() * values, mask, "token_mean")


def unbounded_gspo(log_prob, behavior, proximal, advantages, mask):
    mean = row_mean(log_prob - behavior, mask)
    ratio = (mean.detach() + log_prob - log_prob.detach()).exp()
    return -mean_of(surrogate(ratio, advantages, 3e-4, 4e-4), mask, "sequence_mean")


def row_ratio_on_tokens(log_prob, behavior, proximal, advantages, mask):
    ratio = (row_mean(log_ratio(log_prob, behavior, mask), mask).detach() + log_prob - log_prob.detach()).exp()
    return -mean_of(surrogate(ratio, advantages, 3e-4, 4e-4), mask, "token_mean")


def of_rows(average=False, masked=False, added=False, left=False):
    """A rollout weight of rows, around PPO at the snapshot; `left`: rejected rows leave the denominator."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        gap = (proximal - behavior) * mask
        weight = (row_mean(gap, mask) if average else gap.sum(-1, keepdim=True)).exp()
        weight = (gap.exp() * mask).sum(-1, keepdim=True) if added else weight
        weight = weight.masked_fill(weight > 3.0, 0.0) if masked else weight.clamp(max=3.0)
        values = weight * surrogate(log_ratio(log_prob, proximal, mask).exp(), advantages, 0.2, 0.2)
        return -(values * mask).sum() / (mask * (weight > 0) if left else mask).sum()

    return loss


def gmpo_closed_above(log_prob, behavior, proximal, advantages, mask):
    gap = log_ratio(log_prob, behavior, mask)
    gap = torch.where(advantages > 0, torch.minimum(gap, gap.clamp(-0.4, 0.4)), gap)
    return -(row_mean(gap, mask)[:, 0].exp() * advantages[:, 0]).mean()


def gmpo_of_near_rows(log_prob, behavior, proximal, advantages, mask):
    """Rows of negative advantage far from the sampler leave the mask of the geometric mean: their ratio is 1."""
    near = (row_mean(behavior - proximal, mask) < 0.3) | (advantages[:, :1] > 0)
    gap, mask = log_ratio(log_prob, proximal, mask * near), mask * near
    clipped, up = gap.clamp(-0.4, 0.4), advantages > 0
    gap = torch.where(up, torch.minimum(gap, clipped), torch.maximum(gap, clipped))
    return -(row_mean(gap, mask)[:, 0].exp() * advantages[:, 0]).mean()


def without_truncated(left):
    """DAPO without the rows that fill the batch; `left`: their tokens leave the denominator."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        ended = mask * (mask.sum(-1, keepdim=True) < mask.shape[-1])
        values = surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, 0.2, 0.28) * ended
        return -values.sum() / (ended if left else mask).sum().clamp(min=1)

    return loss


def without_empty(log_prob, behavior, proximal, advantages, mask):
    values = surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, 0.2, 0.2) * mask
    return -values.sum() / (mask.sum(-1) > 0).sum().clamp(min=1)


def masked_far_rows(log_prob, behavior, proximal, advantages, mask):
    far = (advantages < 0) & (row_mean(behavior - log_prob.detach(), mask) > 0.1)
    return -mean_of(
        surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, 0.2, 0.2) * ~far, mask, "token_mean"
    )


WEIGHTED = "weights are those of the method times "
LOSSES = {
    # thread: (loss, what it is meant to be, whether it conforms, bugs, words of the report)
    "Soup 723": (centered, None, False, ("masked tokens matter",), ("is unknown: ", "anchor: behavior", "batch")),
    "tianshou 433": (dual_for_both_signs, None, False, ("one sign has no gradient",), ("is ppo_clip(dual=3.0)",
        "tokens with A > 0 have no gradient")),
    "slime 179": (trainers.corrected_twice, None, False, ("ratio applied twice",), ("square of the ratio to mu",)),
    "slime 657": (trainers.banded(0.5, 2.0, local="tokens"), None, True, (), ("is icepop()",
        "x T / T', with the T' tokens that are left", "a convention: slime and verl")),
    "miles 2796": (empty_rows_count, None, False, ("rows without tokens counted as a token",), ("is ppo_clip()",
        "token_mean x T / (T + M)")),
    "hands-on-modern-rl 75": (product_in_a_clip, None, False, (), ("the log ratios of a row summed, not averaged",)),
    "time-r1 20": (trainers.ratio_of_itself, "ppo_clip", False, ("ratio identically 1",), ("is reinforce",)),
    "verl 3980": (self_normalized, None, True, (), ("is ppo_clip(anchor='proximal')",
        "min(pi_prox / mu, 2) over its mean", "jump at pi / pi_prox = 1.2 ")),
    "OpenRLHF 1293": (unbounded_gspo, None, True, (), ("is gspo()", "hazard: not finite at extreme log ratios")),
    "TRL 3823": (row_ratio_on_tokens, None, True, (), ("is gspo(aggregator='token_mean')",)),
    "TRL 5814": (of_rows(), None, True, (), ("is ppo_clip(anchor='proximal')",
        f"{WEIGHTED}min(the product of pi_prox / mu along a row, 3)")),
    "GMPO 4": (gmpo_closed_above, None, False, (), ("is unknown: ", "; 99% of the tokens have its weight",
        "for A < 0 the weight is -403.4 at a ratio of 403.4")),
    "TRL 6095": (gmpo_of_near_rows, None, False, (), ("is unknown: ", "from the nearest, gmpo(anchor='proximal')",
        "jump at pi_prox / mu = 0.740818 for A < 0")),
    "TRL 6369": (without_truncated(left=False), None, True, (), ("is dapo(), but for rows as long",
        "their tokens stay in the denominator: in 'on policy' others have 1 times")),
    "verl 3915": (without_empty, None, True, (), ("sequence_sum x B / (B - M)",
        "is 1.333 times that of sequence_sum; a convention: verl leaves")),
    "slime 1917": (masked_far_rows, None, False, (), ("is unknown: ", "coupling: sequence")),
}  # fmt: skip
MORE = {
    "TRL 5814, the mean": (of_rows(average=True), f"{WEIGHTED}min(the geometric mean of pi_prox / mu in a row, 3)"),
    "TRL 4530": (of_rows(masked=True), f"{WEIGHTED}the product of pi_prox / mu along a row up to 3, and 0 beyond"),
    "TRL 4530, left out": (of_rows(masked=True, left=True), "T' tokens that are left"),
    "TRL 6369, mended": (without_truncated(left=True), "leave the denominator: in 'on policy' others have 1.6 times"),
    "unsloth-zoo 870": (of_rows(added=True), "coupling: sequence"),
}
"""Others of the same threads, and words of the report."""


SEARCHED = {"verl 3980", "TRL 5814", "tianshou 433", "slime 179", "hands-on-modern-rl 75", "TRL 6095", "slime 1917"}
"""Losses for which all methods are searched twice, a second each; the suite asks others of their kinds in every run."""


@pytest.mark.parametrize(
    "thread", [pytest.param(each, marks=[pytest.mark.rows] * (each in SEARCHED)) for each in LOSSES]
)
def test_a_thread_about_a_loss_is_answered(thread):
    loss, like, conforms, bugs, words = LOSSES[thread]
    report = checked(loss, like)
    assert (report.conforms, report.bugs) == (conforms, bugs), report
    assert all(each in str(report) for each in words), report


@pytest.mark.long
@pytest.mark.parametrize("thread", MORE)
def test_other_forms_of_a_loss_are_answered(thread):
    loss, words = MORE[thread]
    report = checked(loss)
    assert words in str(report) and report.conforms == (thread != "unsloth-zoo 870"), report


def test_factors_in_denominators_are_those_of_the_gradient():
    """TRL 6369: 1.6 of the report is T over the tokens that are left, and what the gradients say."""
    probe = ordinary(0)[0]
    ask = [Subject(without_truncated(left)).ask(probe).cotangent for left in (True, False)]
    tokens, full = probe.mask.sum(), probe.mask.all(-1)
    factors = (ask[0] / ask[1])[ask[1] != 0]
    assert torch.allclose(factors, tokens / probe.mask[~full].sum()) and float(factors[0]) == pytest.approx(1.6)


# Metrics.


def mean(values, mask):
    return (values * mask).sum() / mask.sum()


def clip_of_the_clipped(log_prob, old_log_prob, mask):
    ratio = np.clip(np.exp(log_prob - old_log_prob), 0.8, 1.2)
    return mean((ratio < 0.8) | (ratio > 1.2), mask)


def both_sides(log_prob, old_log_prob, advantages, mask):
    ratio = np.exp(log_prob - old_log_prob)
    return mean((ratio < 0.8) | (ratio > 1.2), mask)


def beyond_20(log_prob, old_log_prob, mask):
    return mean(np.abs(log_prob - old_log_prob) > 20.0, mask)


def beyond_20_unmasked(log_prob, old_log_prob, mask):
    return (np.abs(log_prob - old_log_prob) > 20.0).sum() / mask.sum()


def squares_by_three_ifs(log_prob, old_log_prob, mask):
    gap = log_prob - old_log_prob
    return mean(np.where(gap > 0, 0.5 * gap * gap, np.where(gap < 0, -0.5 * gap * -gap, 0.0)), mask)


def truncated(log_prob, old_log_prob, mask):
    return mean(np.minimum(np.exp(log_prob - old_log_prob), 2.0), mask)


def size(log_prob, old_log_prob, mask):
    return mean(np.abs(log_prob - old_log_prob), mask)


def share_of_each_row(log_prob, old_log_prob, mask):
    """ESS over tokens of every response, averaged over responses (miles)."""
    weight = np.exp(log_prob - old_log_prob) * mask
    return (weight.sum(1) ** 2 / (mask.sum(1) * (weight**2).sum(1))).mean()


def limited_k3(log_prob, old_log_prob, mask):
    gap = log_prob - old_log_prob
    return mean(np.clip(np.exp(gap) - 1 - gap, -10, 10), mask)


def current_less_start(current_version, start_versions):
    return current_version - start_versions.mean()


METRICS = {
    # thread: (metric, name, bugs)
    "RLinf 1530": (clip_of_the_clipped, "unknown", ("constant",)),
    "TRL 6021": (both_sides, "clip_outside", ("advantage's sign ignored",)),
    "prime-rl 1329": (beyond_20, "clip_outside", ()),
    "prime-rl 1329, numerator": (beyond_20_unmasked, "clip_outside", ("numerator without the mask",)),
    "AReaL 408": (squares_by_three_ifs, "kl_k2_token", ()),
    "NeMo-RL 3900": (truncated, "mean_weight_token_clamped", ()),
    "TRL 6713": (two_levels, "kl_k3_mixed", ("levels mixed",)),
    "prime-rl 602": (absolute, "mean_weight_token", ("absolute log ratios",)),
    "spinningup 137": (size, "log_ratio_size_token", ()),
    "NeMo-RL 3758": (current_less_start, "staleness", ()),
    "miles 1000": (share_of_each_row, "ess_within", ()),
    "miles 1067": (limited_k3, "kl_k3_token", ()),
}


@pytest.mark.parametrize("thread", METRICS)
def test_a_thread_about_a_metric_is_answered(thread):
    metric, name, bugs = METRICS[thread]
    report = check_metric(metric)
    assert (report.name, report.bugs) == (name, bugs), report


def test_a_limit_far_out_is_said():
    """miles 1067: 10 for 2.2e6 at a log ratio of 15; without the limit nothing is said."""
    (note,) = [one for one in check_metric(limited_k3).findings if one.kind == "note"]
    assert (note.name, note.evidence[:31]) == ("limited far out", "10 on 'log ratios of 15', where")
    assert not check_metric(squares_by_three_ifs).shows("limited far out")


def test_a_length_is_outside_of_what_a_metric_gets():
    """verl 7821."""
    with pytest.raises(InputError, match=r"response_length.*a name that says what it is"):
        check_metric(lambda response_length, max_length: (response_length >= max_length).mean())


# Controllers.


class DividedTwice:
    """AReaL 1396: the capacity of one of two ranks, divided again."""

    def __init__(self):
        self.out = 0

    def capacity(self):
        return (4 - self.out) // 2 // 2

    def submitted(self, n):
        self.out += n

    def accepted(self, n):
        pass


def test_a_capacity_that_is_divided_twice_starves():
    report = check_admission(DividedTwice, 4, 0, losses=0, recovery=False)
    assert report.failure.rule == "no starvation" and len(report.failure.events) == 2


# Logs.


def test_a_version_that_is_set_before_the_engines_have_it():
    """prime-rl 3050: 30 % of the samples are stamped one version too new."""
    steps, tokens = simulated.table(simulated.Run("uniform", seed=3, early=0.3))
    assert sim.diagnose(steps, tokens=tokens).causes == ["stale data stamped fresh"]


@pytest.mark.parametrize(("times", "more", "cause"), [(2, 0, "impossible stamps"), (1, 1, "off-by-one staleness")])
def test_stamps_in_another_unit_are_not_off_by_one(times, more, cause):
    """UniRL 324: twice the count is no shift."""
    tokens = dict(simulated.tokens(simulated.Run("uniform", steps=40)))
    tokens["staleness"] = times * tokens["staleness"] + more
    assert sim.diagnose(tokens).causes == [cause]


def test_a_mean_ratio_of_a_cut_sampler_is_the_mass_that_it_keeps():
    """TRL 6789: the log-probs of a nucleus are higher by minus the log of its mass; they are those of the draws."""
    tokens = dict(simulated.tokens(simulated.Run("uniform", steps=40)))
    mass = np.random.default_rng(0).uniform(0.8, 1.0, len(tokens["mask"]))
    tokens["sampler_log_prob"] = tokens["sampler_log_prob"] - np.log(mass)
    found = sim.diagnose(tokens)
    assert "wrong log-probs" in found.causes and abs(mass[tokens["mask"] > 0].mean() - 0.9009) < 1e-3
    text = " ".join(str(found).split())
    assert "The mean ratio is 0.9009: " in text and "the mean is the mass of the kept tokens" in text


def test_an_idle_share_above_one_is_impossible():
    """verl 5749 and 7601."""
    log = {"step": range(12), "fully_async/rollouter/idle_ratio": [0.2] * 11 + [1.3], "trainer/idle_ratio": [0.1] * 12}
    found = sim.diagnose(log)
    assert found.causes == ["share out of range"]
    (one,) = [each for each in found.findings if each.verdict == "differs"]
    assert "idle share of the generators is above 1 (fully_async/rollouter/idle_ratio = 1.3)" in one.sentence


def test_what_is_not_understood_is_listed():
    """Metric names of NeMo-RL; lines of a console hold no columns (prime-rl 1318)."""
    names = ["train/gen_kl_error", "train/token_mult_prob_error", "train/sampling_importance_ratio"]
    log = {"step": range(12), "train/ess": [0.9] * 12, **{name: [1.0] * 12 for name in names}}
    found = sim.diagnose({**log, "train/strange": [1.0] * 12})
    assert list(found.refused) == names[1:2] and list(found.unknown) == ["train/strange"]
    assert all(name in found.text(verbose=True) for name in [*names, "train/strange"])
    refused(r"rename one, as to ess or kl_k3, or say what it is", sim.diagnose, {"12:03:11 SUCCESS Step 12": [1.0]})


def test_a_masked_token_needs_no_log_prob():
    """TRL 6166."""
    tokens = {name: column.tolist() for name, column in simulated.tokens(simulated.Run(steps=12)).items()}
    for name in ("sampler_log_prob", "trainer_log_prob"):
        tokens[name] = [x if m else None for x, m in zip(tokens[name], tokens["mask"], strict=True)]
    assert sim.diagnose(tokens).causes == []
    tokens["sampler_log_prob"][tokens["mask"].index(1)] = None
    refused("column sampler_log_prob, row 1", sim.diagnose, tokens)
