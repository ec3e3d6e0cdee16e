"""A name is given where it reproduces every number: denominators with their factor, inputs that are read otherwise.

What no hypothesis reproduces is unknown, by how much and where.
"""

import re

import pytest
import torch

import asyncsim as sim
from asyncsim.conformance import _loss_findings
from asyncsim.conformance._loss_parts import RULES, Divisor
from asyncsim.conformance._loss_probes import EMPTIED, emptied, ordinary
from asyncsim.conformance._loss_readings import BATCHES, NAMED, ROWS
from tests.conformance import trainers
from tests.conformance.trainers import checked, log_ratio, mean_of, surrogate


def values_of(log_prob, behavior, advantages, mask, low=0.2, high=0.2):
    return torch.where(mask > 0, surrogate(log_ratio(log_prob, behavior, mask).exp(), advantages, low, high), 0.0)


def divided(by):
    """PPO divided by a function of (values, advantages, mask)."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        return -by(values_of(log_prob, behavior, advantages, mask), advantages, mask)

    return loss


def micro_batches(values, advantages, mask, rows=2):
    parts = [(v.sum() / m.sum().clamp(min=1)) for v, m in zip(values.split(rows), mask.split(rows), strict=True)]
    return torch.stack(parts).mean()


DENOMINATORS = {
    # name: (by, finding, kind, factor in words)
    "micro-batches of 2 rows": (micro_batches, "micro-batches averaged", "bug", "of parts of 2 rows, averaged"),
    "zero advantages leave": (
        lambda v, a, m: v.sum() / (m * (a != 0)).sum(),
        "rows without an advantage leave the denominator",
        "note",
        "x T / T', with T' tokens of rows with an advantage",
    ),
    "a masked mean of a masked mean": (
        lambda v, a, m: (v / m.sum(-1, keepdim=True).clamp(min=1)).sum() / m.sum(),
        "aggregator off by the number of tokens",
        "bug",
        "sequence_mean x B rows / T tokens",
    ),
    "times the batch": (
        lambda v, a, m: v.sum() / m.sum() * len(m),
        "aggregator off by the number of sequences",
        "bug",
        "token_mean x B rows",
    ),
}


@pytest.mark.parametrize("name", DENOMINATORS)
def test_a_denominator_is_named_with_its_factor(name):
    by, title, kind, factor = DENOMINATORS[name]
    report = checked(divided(by))
    (found,) = [one for one in report.findings if one.name == title]
    assert found.kind == kind and factor in found.evidence and factor in report.aggregator, report
    assert report.conforms == (kind == "note") and report.bugs == (() if kind == "note" else (title,))
    assert report.match.largest < 1e-9 and report.match.method in ("ppo_clip", "grpo")
    # The factor that is printed is that of the gradients.
    batch, low, high = re.search(
        r"in the batch '(.*)' the gradient is ([\d.]+)(?: to ([\d.]+))? times", str(found)
    ).groups()
    probe = next(one for one in (*ordinary(0), emptied(ordinary(0)[0], 2)) if one.name == batch)
    one, other = (gradient(divided(each), probe) for each in (by, right(factor)))
    factors = (one / other)[other != 0]
    assert float(factors.min()) == pytest.approx(float(low), rel=1e-3)
    assert float(factors.max()) == pytest.approx(float(high or low), rel=1e-3)


def right(factor):
    of_rows = factor.startswith("sequence_mean")
    return lambda v, a, m: mean_of(v, m, "sequence_mean" if of_rows else "token_mean")


def gradient(loss, probe):
    leaf = probe.log_prob.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(leaf, probe.behavior, probe.proximal, probe.advantages, probe.mask), leaf)
    return found


def test_a_rejected_token_may_leave_a_row_s_denominator():
    report = checked(trainers.banded(0.5, 2.0, local="sequence"))
    assert report.conforms and report.name == "icepop(aggregator='sequence_mean')" and report.bugs == ()
    assert report.shows("rejected tokens leave the denominator") and "x T_i / T'_i" in report.aggregator
    # Against the method that was asked for, other factors are other gradients.
    asked = checked(trainers.banded(0.5, 2.0, local="tokens"), sim.methods.icepop())
    assert not asked.conforms and asked.bugs == () and asked.match.largest < 1e-9
    assert "denominator: token_mean x T / T', with the T' tokens that are left" in str(asked).splitlines()


def test_rules_of_denominators_change_nothing_where_nothing_differs():
    """Every row full, every advantage 1: a rule that gave another factor than 1 there would be misnamed."""
    probe = ordinary(0)[0].unmasked().paid(*[1.0] * 8)
    for rule in RULES:
        factor = torch.as_tensor(Divisor(rule.aggregators[0], rule).times(probe))
        assert bool((factor == 1.0).all()), rule.text
    assert float(emptied(probe, 2).mask.sum(-1).eq(0).sum()) == 2 and emptied(probe).name == EMPTIED


# Inputs.


def plain(read):
    """PPO around mu on inputs that a function of (log_prob, behavior, proximal, advantages, mask) changes."""

    def loss(log_prob, behavior, proximal, advantages, mask):
        now, then, of = read(log_prob, behavior, proximal, advantages, mask)
        return -mean_of(values_of(now, then, of, mask), mask, "token_mean")

    return loss


def late(log_prob, behavior, proximal, advantages, mask):
    return log_prob, torch.cat([behavior[:, :1], behavior[:, :-1]], 1), advantages


def with_kl(log_prob, behavior, proximal, advantages, mask):
    return log_prob, behavior, advantages - 0.1 * log_ratio(log_prob, behavior, mask).detach()


def in_bfloat16(log_prob, behavior, proximal, advantages, mask):
    ratio = (log_prob.bfloat16() - behavior.bfloat16()).exp()
    return -mean_of(surrogate(ratio, advantages.bfloat16(), 0.2, 0.2).double(), mask, "token_mean")


def powers_of_2(log_prob, behavior, proximal, advantages, mask):
    return -mean_of(surrogate(2 ** log_ratio(log_prob, behavior, mask), advantages, 0.2, 0.2), mask, "token_mean")


def inverse(log_prob, behavior, proximal, advantages, mask):
    weight = log_ratio(behavior, log_prob, mask).exp().clamp(max=2.0).detach()
    return -mean_of(weight * advantages * log_prob, mask, "token_mean")


def inside_the_clip(log_prob, behavior, proximal, advantages, mask):
    weight = log_ratio(proximal, behavior, mask).exp().clamp(max=2.0).detach()
    ratio = weight * log_ratio(log_prob, proximal, mask).exp()
    return -mean_of(surrogate(ratio, advantages, 0.2, 0.2), mask, "token_mean")


def over_the_width(log_prob, behavior, proximal, advantages, mask):
    mean = log_ratio(log_prob, behavior, mask).mean(-1, keepdim=True)
    ratio = (log_prob - log_prob.detach() + mean.detach()).exp()
    return -mean_of(surrogate(ratio, advantages, 3e-4, 4e-4), mask, "sequence_mean")


def p3o_without_kl(log_prob, behavior, proximal, advantages, mask):
    ratio = log_ratio(log_prob, behavior, mask).exp().detach()
    ess = (ratio * mask).sum() ** 2 / (mask.sum() * (ratio**2 * mask).sum())
    return -mean_of(torch.minimum(ratio, ess) * advantages * log_prob, mask, "token_mean")


def repelled(log_prob, behavior, proximal, advantages, mask):
    gap = log_ratio(log_prob, behavior, mask)
    return -mean_of(
        values_of(log_prob, behavior, advantages, mask) + 0.1 * ((-gap).exp() - 1 + gap), mask, "token_mean"
    )


READINGS = {
    # name: (loss, the name of the method, bugs, words of the report, words that would be false)
    "temperature of the trainer": (
        plain(lambda now, then, before, a, m: (now / 0.8, then, a)),
        "ppo_clip()",
        ("temperature of one policy",),
        ("log_prob counts 1.25 times",),
        ("clamped",),
    ),
    "bfloat16": (in_bfloat16, "unknown", ("log-probs rounded to bfloat16",), ("nearest, ppo_clip()",), ("19.94",)),
    "centered again": (
        plain(lambda now, then, before, a, m: (now, then, a - (a * m).sum() / m.sum())),
        "ppo_clip()",
        ("advantages centered again",),
        ("over the tokens of the batch",),
        ("silently off",),
    ),
    "floor of mu": (
        plain(lambda now, then, before, a, m: (now, then.clamp(min=-5.0), a)),
        "ppo_clip()",
        ("stored log-probs limited from below",),
        ("below -5 (a probability of 0.006738)",),
        ("identically 1", "no ratio", "clamped"),
    ),
    "one token late": (plain(late), "ppo_clip()", ("behavior log-probs one token late",), ("token but the first",), ()),
    "KL in the advantage": (plain(with_kl), "ppo_clip()", (), ("note: KL inside the advantage", "A - 0.1 k1"), ()),
    "powers of 2": (
        powers_of_2,
        "ppo_clip() with the ratio to the power 0.693147 = log 2: the base is not e",
        ("log ratios scaled",),
        (),
        (),
    ),
    "inverse": (
        inverse,
        "truncated_is(level='token', aggregator='token_mean') with the ratio to the power -1",
        ("log ratio reversed",),
        (),
        (),
    ),
    "inside the clip": (
        inside_the_clip,
        "ppo_clip() with pi_prox / mu of at most 2",
        ("rollout weight inside the clip",),
        (),
        (),
    ),
    "padded lengths": (over_the_width, "gspo()", ("lengths of rows include padding",), (), ()),
    "p3o without its KL": (p3o_without_kl, "p3o() without its penalty", (), ("note: weights depend on the split",), ()),
    "a negative coefficient": (
        repelled,
        "ppo_clip(penalties=(k3(-0.1, to='behavior'),))",
        ("negative KL coefficient",),
        ("moves tokens away from behavior",),
        (),
    ),
    "bounds on the log": (
        lambda now, then, before, a, m: (
            -mean_of(
                torch.min(log_ratio(now, then, m).exp() * a, log_ratio(now, then, m).clamp(-0.2, 0.2).exp() * a),
                m,
                "token_mean",
            )
        ),
        "ppo_clip(low=0.1813, high=0.2214)",
        (),
        ("note: bounds on the log ratio: the clip stops log ratios at -0.2 and 0.2",),
        (),
    ),
}


LONG = ("inverse", "inside the clip", "padded lengths", "bounds on the log", "root of the length")


def some(names):
    """All of them, of which some are asked in the long suite."""
    return [pytest.param(name, marks=pytest.mark.long) if name in LONG else name for name in names]


@pytest.mark.parametrize("name", some(READINGS))
def test_what_a_loss_makes_of_its_inputs_is_named_where_it_explains_every_token(name):
    loss, method, bugs, words, false = READINGS[name]
    report = checked(loss)
    assert (report.name, report.bugs) == (method, bugs), report
    assert report.conforms == (not bugs) and set(bugs) <= set(_loss_findings.NAMES)
    assert all(each in str(report) for each in words) and not any(each in str(report) for each in false), report


def test_every_reading_of_batches_and_rows_may_be_allowed_by_name():
    assert {one.name for one in (*BATCHES, *ROWS)} <= set(NAMED) <= set(_loss_findings.NAMES)


ODD = {
    "arctan": lambda now, mu, adv, mask: (
        -mean_of(log_ratio(now, mu, mask).exp().atan().detach() * adv * now, mask, "token_mean")
    ),
    "mean of two policies": plain(lambda now, then, before, a, m: (now, (then + before) / 2, a)),
    "root of the length": plain(lambda now, then, before, a, m: (now, then, a * m.sum(-1, keepdim=True).sqrt())),
}


@pytest.mark.parametrize("name", some(ODD))
def test_what_nothing_explains_is_unknown_by_how_much_and_where(name):
    report = checked(ODD[name])
    assert not report.conforms and report.name == "unknown" and report.bugs == (), report
    line = str(report).splitlines()[1]
    assert line.startswith(f"is unknown: a token deviates by {report.match.largest:.2g} of its weight from ")
    assert report.disagreement.probe in {one.name for one in ordinary(0)} and report.disagreement.expected != 0
    assert report.match.label in line if report.match.agrees >= 0.25 else "every known method" in line


@pytest.mark.long
def test_kinks_of_a_self_normalized_loss_are_those_of_the_ratio_that_is_clipped():
    def loss(log_prob, behavior, proximal, advantages, mask):
        weight = log_ratio(log_prob, behavior, mask).exp().clamp(max=2.0)
        values = surrogate(log_ratio(log_prob, proximal, mask).exp(), advantages, 0.2, 0.2)
        return -mean_of((weight / mean_of(weight, mask, "token_mean")).detach() * values, mask, "token_mean")

    report = checked(loss)
    assert report.match.times == "min(pi / mu, 2) over its mean, that of the tokens of the batch"
    assert all("pi / pi_prox" in line and "mu" not in line for line in report.kinks)
