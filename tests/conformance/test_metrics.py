"""`check_metric`: mistakes by name, call conventions of trainers, and bad input in one line."""

import math

import numpy as np
import pytest
import torch

from asyncsim.conformance import ConformanceError, check_metric
from asyncsim.conformance.metrics import NAMES, Subject
from tests.conformance import written_metrics as written
from tests.conformance.written_metrics import lines, mean
from tests.refusals import refused

W = {"token": written.WEIGHTS["_token"], "sequence": written.WEIGHTS[""]}


def kish(w):
    w = np.asarray(w, float)
    return w.sum() ** 2 / (w**2).sum() / w.size


def of_weights(statistic, of="token"):
    """A number of all weights of the step."""
    return lambda log_prob, old_log_prob, mask: statistic(W[of](lines(log_prob, old_log_prob, mask)))


def chunked(metric, rows):
    """The mean over micro-batches of so many rows."""

    def parts(log_prob, old_log_prob, mask):
        cuts = [slice(i, i + rows) for i in range(0, len(mask), rows)]
        return mean(metric(log_prob[c], old_log_prob[c], mask[c]) for c in cuts)

    return parts


def per_rollout(log_prob, old_log_prob, mask, num_rollouts):
    """One share of each row, added, over the number of rollouts: as in miles before its fix."""
    shares = [kish(np.exp(row)) for row in lines(log_prob, old_log_prob, mask)]
    return sum(shares) / num_rollouts


def two_denominators(log_prob, old_log_prob, mask):
    """One mean over generated tokens, the other over the padded batch."""
    w = np.exp(log_prob - old_log_prob) * mask
    return (w.sum() / mask.sum()) ** 2 / (w**2).mean()


def unmasked(log_prob, old_log_prob, mask):
    return kish(np.exp(log_prob - old_log_prob))


def zeroed(log_prob, old_log_prob, mask):
    return kish(np.exp((log_prob - old_log_prob) * mask))


def padded(log_prob, old_log_prob, mask):
    w = np.exp(log_prob - old_log_prob) * mask
    return w.sum() ** 2 / (w**2).sum() / mask.size


def padded_kl(log_prob, old_log_prob, mask):
    return ((old_log_prob - log_prob) * mask).mean()


def swapped_k3(log_prob, old_log_prob, mask):
    x = old_log_prob - log_prob
    return ((np.exp(x) - 1 - x) * mask).sum() / mask.sum()


def reversed_clip(log_prob, old_log_prob, advantages, mask):
    ratio = np.exp(old_log_prob - log_prob)
    stopped = ((advantages > 0) & (ratio > 1.2)) | ((advantages < 0) & (ratio < 0.8))
    return (stopped * mask).sum() / mask.sum()


def with_epsilon(log_prob, old_log_prob, mask):
    w = np.exp(log_prob - old_log_prob) * mask
    return w.sum() ** 2 / ((w**2).sum() + 1e-8) / mask.sum()


def plain(log_prob, old_log_prob, mask):
    """Squares before anything is subtracted, in the precision of the log-probs."""
    w = np.exp(log_prob - old_log_prob)[mask > 0]
    return w.sum() ** 2 / (w**2).sum() / w.size


def bare_numerator(log_prob, old_log_prob, mask):
    return (np.abs(log_prob - old_log_prob)).sum() / mask.sum()


def absolute(log_prob, old_log_prob, mask):
    return (np.exp(np.abs(log_prob - old_log_prob)) * mask).sum() / mask.sum()


def two_levels(log_prob, old_log_prob, mask):
    gap = (log_prob - old_log_prob) * mask
    return ((np.exp(gap.sum(1, keepdims=True)) - 1 - gap) * mask).sum() / mask.sum()


CLAMPED = of_weights(lambda w: kish(np.clip(w, 0.5, 2.0)))
MISTAKES = {
    "weights clamped before the ESS": (CLAMPED, "ess_token_clamped"),
    "weights clamped before the ESS ": (of_weights(lambda w: kish(np.minimum(w, 1.5)), "sequence"), "ess_clamped"),
    "averaged over parts": (chunked(of_weights(kish), 2), "ess_token"),
    "averaged over parts ": (chunked(of_weights(kish, "sequence"), 4), "ess"),
    "averaged over parts  ": (chunked(written.average("kl_k1", "_token"), 2), "kl_k1_token"),
    "divided by rollouts": (per_rollout, "ess_within"),
    "means over different denominators": (two_denominators, "ess_token"),
    "not self-normalized": (of_weights(lambda w: 1 / np.mean(np.square(w))), "ess_population_token"),
    "mask ignored": (unmasked, "ess_token"),
    "numerator without the mask": (bare_numerator, "log_ratio_size_token"),
    "absolute log ratios": (absolute, "mean_weight_token"),
    "levels mixed": (two_levels, "kl_k3_mixed"),
    "padded tokens counted": (zeroed, "ess_token"),
    "padded tokens in the denominator": (padded, "ess_token"),
    "padded tokens in the denominator ": (padded_kl, "kl_k1_token"),
    "log ratio reversed": (of_weights(lambda w: kish(1 / np.asarray(w)), "sequence"), "ess"),
    "powers of 2": (of_weights(lambda w: kish(2 ** np.log(w)), "sequence"), "ess"),
    "powers of 10": (of_weights(lambda w: kish(10 ** np.log(w))), "ess_token"),
    "logarithms to base 2": (of_weights(lambda w: mean(-np.log2(w))), "kl_k1_token"),
    "logarithms to base 10": (of_weights(lambda w: mean(-np.log10(w)), "sequence"), "kl_k1"),
    "geometric mean": (written.ess("ess", "_geometric"), "ess_geometric"),
    "roles of the policies swapped": (swapped_k3, "kl_k3_token"),
    "roles of the policies swapped ": (of_weights(lambda w: mean(np.log(w))), "kl_k1_token"),
    "advantage's sign ignored": (written.clip("clip_outside", ""), "clip_outside"),
    "sign of the clip reversed": (reversed_clip, "clip_reversed"),
    "one too many": (written.age("staleness_head", shift=1), "staleness_head"),
    "one too few": (written.age("staleness_mean", shift=-1), "staleness_mean"),
    "unknown versions counted": (written.age("staleness_newest", unknown="counted"), "staleness_newest"),
    "unknown versions read as staleness 0": (written.age("staleness_mean", unknown="fresh"), "staleness_mean"),
    "absolute epsilon": (with_epsilon, "ess_token"),
    "overflow": (plain, "ess_token"),
    "masked NaN": (with_epsilon, "ess_token"),
}
HAZARDS = ("absolute epsilon", "geometric mean", "unknown versions counted", "overflow", "masked NaN")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_a_remedy(mistake):
    metric, name = MISTAKES[mistake]
    report, mistake = check_metric(metric), mistake.strip()
    found = {finding.name: finding for finding in report.findings}
    assert report.name == name and mistake in found and found[mistake].remedy, str(report)
    assert found[mistake].kind == ("hazard" if mistake in HAZARDS else "bug")
    assert report.conforms == (not report.bugs) and (report.bugs == () or mistake in report.bugs)
    assert not check_metric(metric, strict=True).conforms
    assert check_metric(metric, strict=True, allow=tuple(set(found) & set(NAMES))).conforms


def test_every_known_mistake_is_tested():
    others = {
        "first moment over padded tokens",
        "divided by rows",
        "divided by groups",
        "staleness reversed",
        "constant",
        "not divided by the count",
        "in percent",
    }
    assert set(NAMES) - others - {"one token", "a row without tokens"} == {m.strip() for m in MISTAKES}


@pytest.mark.parametrize(
    "metric", [per_rollout, MISTAKES["not self-normalized"][0], lambda ratio: 1 / (ratio**2).mean()]
)
def test_1_25_is_reported_where_1_is_the_limit(metric):
    text = str(check_metric(metric))
    assert "it reports 1.25 on '" in text and "where 1 is the limit" in text


def test_the_mean_that_a_trainer_logs_is_told_from_the_step():
    metric = written.ess("ess", "")
    assert check_metric(metric).conforms
    report = check_metric(metric, micro_batch=2)
    assert report.name == "ess" and report.bugs == ("averaged over parts",)
    assert check_metric(metric, micro_batch=1).bugs == ("constant",)
    # A mean over rows of equal parts is the same, whatever the parts.
    assert check_metric(written.average("kl_k1", ""), micro_batch=2).conforms


def test_a_number_that_fails_open_is_named():
    def metric(log_prob, old_log_prob, mask):
        return min(1.0, plain(log_prob, old_log_prob, mask))

    (finding,) = check_metric(metric).findings
    assert finding.name == "overflow" and finding.evidence.startswith("1 on 'log ratios of 50")


def test_two_mistakes_are_named_together():
    metric = chunked(unmasked, 4)
    assert check_metric(metric).bugs == ("mask ignored", "averaged over parts")


def test_bounds_of_a_clamp_are_measured():
    words = check_metric(CLAMPED).words
    assert "clamped to [0.5, 2]" in words
    assert check_metric(CLAMPED, like="ess-token-clamped").conforms
    one_sided = of_weights(lambda w: kish(np.minimum(w, 7.3)))
    assert "clamped to [0, 7.3]" in check_metric(one_sided).words
    beyond = of_weights(lambda w: kish(np.minimum(w, 500.0)))
    assert "clamped to [0, 500]" in check_metric(beyond).words and check_metric(beyond).same


def test_a_mean_of_truncated_weights_is_named():
    report = check_metric(of_weights(lambda w: np.minimum(w, 2.0).mean(), "sequence"))
    assert report.conforms and report.name == "mean_weight_clamped" and "clamped to [0, 2]" in report.words


def test_another_metric_than_asked_for_shows_both_numbers():
    report = check_metric(written.ess("ess", "_token"), like="ess")
    assert not report.conforms and report.name == "ess_token" and not report.bugs
    probe, expected, found = report.difference.replace(": expected ", "|").replace(", found ", "|").split("|")
    assert probe == "one group" and 0.1 < float(expected) < float(found) < 1
    assert "deviates from ess" in str(report) and "asked for ess: Kish ESS" in str(report)
    with pytest.raises(ConformanceError) as error:
        check_metric(written.ess("ess", "_token"), like="ess", check=True)
    assert error.value.report.record() == report.record()


SCALES = {
    # what is asked for: (a number with another scale, its name, how many times it is too large on the first batch)
    "ess_token": (written.times(written.ess("ess", "_token"), "tokens"), "not divided by the count", 13),
    "ess": (written.times(written.ess("ess", ""), "rows"), "not divided by the count", 4),
    "kl_k1_token": (written.times(written.average("kl_k1", "_token"), "tokens"), "not divided by the count", 13),
    "ess_within": (written.times(written.ess("ess", "_within"), 100.0), "in percent", 100),
}


@pytest.mark.parametrize("like", SCALES)
def test_a_sum_is_no_mean_where_a_mean_is_asked_for(like):
    metric, title, times = SCALES[like]
    asked = check_metric(metric, like=like)
    assert not asked.conforms and asked.name == like and asked.bugs == (title,), asked
    assert "on 'one group' " in str(asked) and f", {times} times; " in str(asked)
    # Who asks for nothing learns the scale; who allows it wants it.
    assert check_metric(metric).conforms and check_metric(metric, like=like, allow=(title,)).conforms


def test_a_version_that_is_no_number_may_not_read_as_fresh():
    def metric(generated_version, trained_version, mask):
        age = np.nan_to_num(trained_version - generated_version.astype(float))
        return (age * mask).sum() / mask.sum()

    report = check_metric(metric)
    assert report.bugs == ("unknown versions read as staleness 0",)
    assert "a version of nan reads as fresh" in str(report)


@pytest.mark.parametrize("bound", [19.0, 20.0, 24.0])
def test_a_share_beyond_20_nats_is_no_constant(bound):
    """None of the ordinary batches moves it: single tokens on either side of its bound do."""

    def metric(log_prob, old_log_prob, mask):
        return ((np.abs(log_prob - old_log_prob) > bound) * mask).sum() / mask.sum()

    report = check_metric(metric, like="clip_outside")
    assert report.conforms and report.findings == (), report
    assert f"below {math.exp(-bound):.4g} or above {math.exp(bound):.4g}" in report.words
    # A number that is 0 there, too, is one.
    assert check_metric(lambda log_prob, old_log_prob, mask: 0.0 * metric(log_prob, old_log_prob, mask)).bugs == (
        "constant",
    )


# Conventions.


def verl(old_log_prob, rollout_log_prob, response_mask):
    """Token weights of the trainer's recomputed policy over the sampler's, as a dictionary of tensors."""
    weight = torch.exp((old_log_prob - rollout_log_prob).clamp(-20.0, 20.0)) * response_mask
    average = weight.sum() / response_mask.sum()
    square = ((weight / (average + 1e-8)) ** 2 * response_mask).sum() / response_mask.sum()
    return {"eff_sample_size": 1.0 / square, "mean": average.item()}


def miles(log_probs, rollout_log_probs, loss_masks):
    """Lists of rows."""
    total = torch.zeros(())
    logs = torch.cat(log_probs) - torch.cat(rollout_log_probs)
    for row, mask in zip(logs.split([len(m) for m in loss_masks]), loss_masks, strict=True):
        w = row.exp() * mask
        total = total + w.sum() ** 2 / (mask.sum() * (w * w).sum())
    return total / len(loss_masks)


def prime_rl(trainer_logprobs, inference_logprobs, loss_mask):
    """A mask that selects must be of booleans."""
    x = (trainer_logprobs - inference_logprobs)[loss_mask]
    return (x.exp() - x - 1).mean()


def trl(per_token_logps, old_per_token_logps, advantages, completion_mask, epsilon_low=0.2, epsilon_high=0.28):
    ratio = torch.exp(per_token_logps - old_per_token_logps)
    low = (ratio < 1 - epsilon_low) & (advantages < 0)
    high = (ratio > 1 + epsilon_high) & (advantages > 0)
    return ((low | high).float() * completion_mask).sum() / completion_mask.sum().clamp(min=1.0)


def ratio_kl(log_probs, ref_log_probs, mask):
    """k3 to the reference policy, on samples of the current one."""
    x = ref_log_probs - log_probs
    return ((torch.exp(x) - x - 1) * mask).sum() / mask.sum()


def capped(log_probs, log_probs_base, loss_mask):
    """k3 with bounds that no ordinary token reaches."""
    x = torch.clamp(log_probs_base - log_probs, -20.0, 20.0)
    k3 = torch.clamp(torch.exp(x) - x - 1, -10.0, 10.0)
    return torch.where(loss_mask.bool(), k3, 0.0).sum() / loss_mask.sum()


def areal(versions, current_version, loss_mask):
    kept = loss_mask & (versions >= 0)
    return (current_version - versions.float())[kept].mean()


def weights_alone(importance_weights):
    return importance_weights.sum() ** 2 / (importance_weights**2).sum() / importance_weights.size


class Module(torch.nn.Module):
    def forward(self, log_prob, old_log_prob, mask):
        w = torch.exp(log_prob - old_log_prob)[mask > 0]
        return w.sum() ** 2 / (w * w).sum() / w.numel()


def float32(log_prob, old_log_prob, mask):
    return written.ess("ess", "")(log_prob.float(), old_log_prob.float(), mask)


CONVENTIONS = {
    "ess_token": (verl, {"key": "eff_sample_size"}),
    "mean_weight_token": (verl, {"key": "mean"}),
    "ess_within": (miles, {}),
    "kl_k3_token": (prime_rl, {}),
    "clip_active": (trl, {}),
    "kl_k3_token ": (ratio_kl, {}),
    "kl_k3_token  ": (capped, {}),
    "staleness_mean": (areal, {}),
    "ess_token ": (weights_alone, {}),
    "staleness_head": (lambda staleness, mask: np.where(mask > 0, staleness, -1).max(1).mean(), {}),
    "staleness": (lambda start_version, trained_version: trained_version - start_version.mean(), {}),
    "staleness_last": (lambda trained_version, end_versions: mean(trained_version - end_versions), {}),
    "ess": (lambda log_ratio, mask: kish(np.exp((log_ratio * mask).sum(1))), {}),
    "ess ": (float32, {}),
}


@pytest.mark.parametrize("name", CONVENTIONS)
def test_conventions_of_trainers_are_understood(name):
    metric, settings = CONVENTIONS[name]
    report = check_metric(metric, **settings)
    assert report.conforms and report.name == name.strip(), str(report)
    assert bool(report.unchecked) == (metric in (weights_alone,) or name in ("staleness", "staleness_last"))


def test_modules_are_asked_too():
    report = check_metric(Module())
    assert report.conforms and report.name == "ess_token"


def test_of_three_policies_the_pair_is_named():
    def metric(log_prob, proximal_log_prob, rollout_log_prob, mask):
        return kish(np.exp(log_prob - proximal_log_prob)[mask > 0])

    report = check_metric(metric)
    assert report.conforms and report.name == "ess_token" and "of log_prob to proximal_log_prob" in report.words


def test_few_calls_are_enough():
    calls = []

    def metric(log_prob, old_log_prob, mask):
        calls.append(len(mask))
        return CLAMPED(log_prob, old_log_prob, mask)

    check_metric(metric)
    assert 100 < len(calls) < 300


# Bad input.

BAD = {
    "argument 'x'": lambda log_prob, x, mask: 0.0,
    "arguments log_prob, mask": lambda log_prob, mask: 0.0,
    "a single one for log_prob": lambda log_prob, logp, old, mask: 0.0,
    "a function that returns one number": lambda log_prob, old, mask: log_prob - old,
    "rename it": lambda log_prob, attention_mask, old: 0.0,
    "ZeroDivisionError": lambda log_prob, old, mask: 1 / 0,
    "the same number twice": lambda log_prob, old, mask, state=[0.0]: state.append(1.0) or sum(state),
    "name one of a, b by key=": lambda log_prob, old, mask: {"a": 1.0, "b": 2.0},
    "a function or an instance": 3,
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line(words):
    error = refused("", lambda: check_metric(BAD[words]))
    assert words in str(error) and "\n" not in str(error)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"like": "es"}, "like"),
        ({"like": 3}, "like"),
        ({"allow": ("none",)}, "allow"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"seed": -1}, "seed"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"strict": 1}, "strict"),
        ({"key": "ess"}, "key"),
    ],
)
def test_bad_settings_are_named(settings, field):
    metric = verl if field == "key" else CLAMPED
    error = refused("", lambda: check_metric(metric, **settings))
    assert error.field == field and "\n" not in str(error)


def test_a_number_that_breaks_is_compared_as_broken():
    assert math.isnan(Subject(lambda log_prob, old, mask: math.inf)._number(math.inf))


@pytest.mark.parametrize(
    ("made_up", "name"),
    [("ess_sequence", "ess"), ("kl-k1-seq", "kl_k1"), ("k3", "kl_k3"), ("k3_sequence", "kl_k3"), ("kish", "ess")],
)
def test_a_name_that_people_make_up_gets_the_one_that_is_meant(made_up, name):
    error = refused("of sequence ratios", check_metric, CLAMPED, like=made_up)
    assert error.field == "like" and error.remedy.startswith(f"did you mean {name}?")
