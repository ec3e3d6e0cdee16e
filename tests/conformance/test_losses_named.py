"""Losses of trainers are named rightly: closed CISPO, factors, clamps, the snapshot's VESPO, covariance selections."""

import itertools

import pytest
import torch

import asyncsim as sim
from asyncsim.conformance import adapters, check_loss
from asyncsim.conformance._loss_methods import families
from asyncsim.methods import _adaptive
from tests.conformance import field, trainers
from tests.conformance.field import closed_cispo, three_policies
from tests.conformance.planted_losses import clipped
from tests.conformance.trainers import checked, log_ratio, mean_of, surrogate

INVISIBLE = "staleness is invisible"


OF_TOKENS = "factors=(token_mask(low=0.5, high=5.0, ratio='{}'),)"
OF_ROWS = "decoupled_ppo(cap=None, factors=(geometric_mask(low={}, high={}, ratio='h'),))"

FIELD = {
    # name: (loss, a name among those found, notes that must be there, notes that must not)
    "cispo of verl": (closed_cispo(0.2, 0.28), "cispo(anchor='proximal', low=0.2, high=0.28)", {INVISIBLE}, set()),
    "cispo of ROLL": (closed_cispo(0.1, 0.1), "cispo(anchor='proximal', low=0.1, high=0.1)", {INVISIBLE}, set()),
    "vespo of TRL": (field.vespo_at_the_snapshot, "vespo() with pi_prox in the place of mu", {INVISIBLE}, set()),
    "truncation and mask of slime": (three_policies(cap=5.0, band=(0.5, 5.0)),
        f"decoupled_ppo({OF_TOKENS.format('h')})", set(), {"dual clip"}),
    "mask of rows of verl": (three_policies(rows=(0.999, 1.001)), OF_ROWS.format(0.999, 1.001), set(), {"dual clip"}),
    "wide mask of rows": (three_policies(rows=(0.9, 1.2)), OF_ROWS.format(0.9, 1.2), set(), {"dual clip"}),
    "truncation of OpenRLHF": (three_policies(cap=5.0, least=0.5, high=0.28),
        "three_policy_tis(cap=5.0, high=0.28) with pi_prox / mu of at least 0.5",
        {"rollout weight limited from below"}, set()),
    "mask around PPO": (field.masked_ppo, f"ppo_clip({OF_TOKENS.format('r')})", set(), {"dual clip"}),
    "gspo of verl": (field.limited_gspo, "gspo()", {"log ratio clamped live"}, set()),
    "PPO of verl": (clipped(), "ppo_clip(high=0.28, dual=3.0)", {"dual clip"}, set()),
    "arguments in another order": (field.decoupled_by_keyword, "decoupled_ppo()", set(), set()),
    "four arguments": (field.ppo_of_four, "ppo_clip()", set(), {INVISIBLE}),
}  # fmt: skip


WORDS = {
    "wide mask of rows": "a mask of rows by their mean with h in [0.9, 1.2]",
    "truncation and mask of slime": "a mask of tokens with h in [0.5, 5]",
}


@pytest.mark.parametrize("name", FIELD)
def test_a_loss_of_the_field_is_named(name):
    loss, method, notes, absent = FIELD[name]
    report = checked(loss)
    assert report.conforms and report.bugs == () and report.disagreement is None, report
    assert method in (report.name, *report.same), report
    found = {finding.name for finding in report.findings if finding.kind == "note"}
    assert notes <= found and not {*absent, "tokens selected by log-probs"} & found, report
    if name in WORDS:
        assert f"weights are those of the method times {WORDS[name]}" in str(report).splitlines()


ASKED = {
    "cispo": (closed_cispo(0.1, 0.1), lambda: sim.methods.cispo(0.1, 0.1, anchor="proximal")),
    "truncation and mask": (
        three_policies(cap=5.0, band=(0.5, 5.0)),
        lambda: sim.methods.three_policy_tis(cap=5).replace(factors=(sim.factors.token_mask(0.5, 5, "h"),)),
    ),
    "mask of rows": (
        three_policies(rows=(0.9, 1.2)),
        lambda: sim.methods.decoupled_ppo(cap=None).replace(factors=(sim.factors.geometric_mask(0.9, 1.2, "h"),)),
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_conforms_has_the_name_that_was_asked_for(name):
    loss, like = ASKED[name]
    report = checked(loss, like())
    assert report.conforms and report.name != "unknown" and report.match.method == like().name, report
    assert "factors=(" in report.name or name == "cispo"


def test_a_cap_above_one_is_the_method():
    assert checked(closed_cispo(0, 0, cap=5.0)).name == "cispo(anchor='proximal')"


def test_trl_s_defaults_are_told_alike():
    pytest.importorskip("trl")
    for loss_type in ("grpo", "vespo"):
        report = checked(adapters.trl(loss_type), loss_type, tolerance=1e-5)
        assert report.conforms and report.bugs == () and report.shows(INVISIBLE), report
        assert "adapter" in report.compared or loss_type == "grpo"
    assert checked(adapters.trl("cispo")).bugs == ("cap below 1",)


def test_who_names_a_method_of_mu_means_mu():
    report = checked(field.vespo_at_the_snapshot, "vespo")
    assert not report.conforms and report.bugs == ("ratio to the snapshot in place of behavior",)


@pytest.mark.parametrize("loss", [pytest.param(field.kl_cov, marks=pytest.mark.rows), field.clip_cov])
def test_a_selection_by_covariance_is_no_known_method(loss, monkeypatch):
    """Nothing that the search tries has more bounds than a method may have."""
    tried = []
    grid = _adaptive._grid

    def watched(start, cap, step, seen):
        largest = [float(torch.as_tensor(x).max()) for x in (cap, -torch.as_tensor(start), 1.0 / torch.as_tensor(step))]
        tried.append((largest[0] + largest[1]) * largest[2])
        assert tried[-1] <= _adaptive.STEPS
        return grid(start, cap, step, seen)

    monkeypatch.setattr(_adaptive, "_grid", watched)
    report = check_loss(loss, bias=False)
    assert not report.conforms and report.name == "unknown" and report.coupling == "batch" and tried
    assert report.shows("tokens selected by log-probs") and not set(report.bugs) - {"threshold depends on the split"}


def test_how_long_a_method_searches_is_not_searched():
    found = {family.name: family for family in families()[0]}
    for name in ("bapo_code", "bapo_paper"):
        assert {"target", "low", "high"} <= set(found[name].numbers)
        assert not {"low_cap", "high_cap", "low_step", "high_step"} & set(found[name].numbers)


def test_a_search_ends_after_so_many_calls(monkeypatch):
    monkeypatch.setattr("asyncsim.conformance._loss_search.BUDGET", 30)
    report = check_loss(trainers.corrected_twice, bias=False)
    assert not report.conforms and any("search ended" in text for text in report.unchecked)
    assert not any("search ended" in text for text in checked(trainers.ppo()).unchecked)


def test_every_factor_and_penalty_of_an_asked_method_is_written():
    parts = {
        "factors": (sim.factors.opsm(), sim.factors.k2_mask(high=0.5)),
        "penalties": (sim.penalties.k3(0.1, to="behavior"),),
    }
    like = sim.methods.grpo().replace(**parts)
    report = checked(trainers.loss_of(like), like)
    assert report.conforms and "k2_mask(high=0.5" in report.like and "opsm(" in report.name
    assert "penalties=(k3(0.1, to='behavior'),)" in report.name


def by_hand(log_prob, behavior_log_prob, advantages, mask):
    """Truncated weights of tokens, their average taken by itself."""
    weight = (log_prob - behavior_log_prob).exp().clamp(max=2.0).detach()
    return -(weight * advantages * log_prob * mask).sum() / mask.sum()


def by_token(log_prob, behavior_log_prob, advantages):
    return -(log_prob - behavior_log_prob).exp().clamp(max=2.0).detach() * advantages * log_prob


@pytest.mark.parametrize(("like", "label"), [(by_hand, "by_hand()"), (by_token, "by_token(aggregator='token_mean')")])
def test_a_formula_by_hand_has_one_name_and_one_average_in_a_report(like, label):
    """Its place among methods, where it is a sum of rows, is no average that it takes."""
    for asked in (like, sim.methods.from_loss(like)):
        head = check_loss(by_hand, asked, bias=False).heading()
        assert head[0] == f"conforms like {label}" and head[1].startswith(f"is {label} (")
    report = check_loss(lambda log_prob, mu, advantages, mask: 2 * by_hand(log_prob, mu, advantages, mask).abs(), like)
    assert report.heading()[0] == f"deviates from {label}" and "below" not in report.heading()[1]


def test_what_has_a_bug_is_a_name_but_for_it():
    def behind(log_prob, mu, advantages, mask):
        return by_hand(log_prob, mu, advantages, mask) + 1e-3 * (log_prob * (1 - mask)).sum()

    report = check_loss(behind, sim.methods.truncated_is("token"), bias=False)
    assert report.bugs and not report.conforms
    assert report.heading()[1].startswith(f"is {report.name}, but for the bugs below (")


def of_one_advantage(log_prob, old_log_prob, advantages, mask):
    """GSPO with the mean over the width, of the advantage that a row's first token has."""
    log_ratio = ((log_prob - old_log_prob) * mask).sum(-1) / mask.shape[-1]
    ratio, advantage = log_ratio.exp(), advantages[:, 0]
    return -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


def test_a_ratio_of_rows_asks_for_one_advantage_a_row():
    asked, padded = "advantages of tokens in a ratio of rows", "lengths of rows include padding"

    def sides(log_prob, old_log_prob, advantages, mask):
        mean = ((log_prob - old_log_prob) * mask).sum(1) / mask.sum(1)
        return -(torch.sin(3.0 * mean) * advantages[:, 0]).mean()

    (note,) = (one for one in check_loss(sides, "gspo", bias=False).findings if one.name == asked)
    assert note.remedy.endswith("add --advantages-per sequence")
    assert check_loss(of_one_advantage, "gspo", bias=False).bugs == (padded, "one token's advantage for the whole row")
    known = check_loss(of_one_advantage, "gspo", advantages_per="sequence", bias=False)
    assert known.bugs == (padded,)
    assert asked not in {finding.name for finding in known.findings}
    assert asked not in {finding.name for finding in check_loss(clipped(), "ppo_clip", bias=False).findings}


def of_rows(over, live=True):
    """GSPO with another ratio of a row than the mean, or a plain weight by it."""

    def loss(log_prob, old_log_prob, advantages, mask):
        ratio = over((log_prob - old_log_prob) * mask, mask).exp()
        values = surrogate(ratio, advantages, 3e-4, 4e-4) if live else ratio.detach() * advantages * log_prob
        return -mean_of(values, mask, "sequence_mean" if live else "sequence_sum")

    return loss


def grpo(average):
    def loss(log_prob, old_log_prob, advantages, mask):
        values = surrogate(log_ratio(log_prob, old_log_prob, mask).exp(), advantages, 0.2, 0.2) * mask
        if average == "rows":
            return -(values.sum(1) / mask.sum(1)).mean()
        return -(values.mean() if average == "mean" else values.sum() / (mask.sum() if average == "tokens" else 1.0))

    return loss


WRITTEN = {average: grpo(average) for average in ("mean", "tokens", "rows", "sum")}


SUMMED, MEANED = "log ratios of a row summed, not averaged", "log ratios of a row averaged, not summed"


def unclipped(log_prob, old_log_prob, advantages, mask):
    ratio = ((log_prob - old_log_prob) * mask).sum(1, True).exp()
    return -mean_of(ratio * advantages, mask, "token_mean")


LEVELS = {
    # name: (loss, the method that is meant, whether it conforms, bugs, words)
    "summed": (of_rows(lambda x, m: x.sum(1, True)), "gspo", False, (SUMMED,), "(log_ratio * mask).sum(-1) / mask.sum"),
    "no clip": (unclipped, "gspo", False, ("clipping silently off", SUMMED), "(log_ratio * mask).sum(-1) / mask.sum"),
    "nobody said": (of_rows(lambda x, m: x.sum(1, True)), None, False, (), "; else a method of its own"),
    "meaned": (of_rows(lambda x, m: x.sum(1, True) / m.sum(1, True), False), "full_is", False, (MEANED,), "product"),
    "over columns": (of_rows(lambda x, m: x.mean(1, True), False), "full_is", False, (MEANED,), "padding included"),
    "tokens": (of_rows(lambda x, m: x), "gspo", False, (), "gspo has the geometric mean of a row's ratios"),
    ".mean()": (grpo("mean"), None, True, (), "conforms, with a mean over padding"),
    "like GRPO": (grpo("mean"), "grpo", False, ("mean over padding",), "verl's seq-mean-token-mean"),
    "token mean": (grpo("tokens"), "grpo", False, (), "if yours is meant: --set aggregator=token_mean"),
    "like another's": (WRITTEN["rows"], WRITTEN["tokens"], False, (), "divides by all tokens, (x * mask).sum() / mask"),
    "like a sum": (WRITTEN["rows"], WRITTEN["sum"], False, (), "yours is meant, change the average of loss"),
    **{f"{name} like itself": (loss, loss, True, (), "conforms like loss()") for name, loss in WRITTEN.items()},
}


@pytest.mark.parametrize("name", LEVELS)
def test_what_is_summed_or_averaged_in_another_place_is_named(name):
    loss, like, conforms, bugs, words = LEVELS[name]
    report = check_loss(loss, like, bias=False)
    assert (report.conforms, report.bugs) == (conforms, bugs) and report.name != "unknown", report
    assert words in str(report), report
    averages = {"another average", "mean over padding"} & {finding.name for finding in report.findings}
    assert not (averages and like is loss), report


REPEATED, PADDED = "rows counted once for each of their tokens", "lengths of rows include padding"


@pytest.mark.parametrize("name", ["gspo", "gmpo", "full_is"])
@pytest.mark.parametrize("over", [SUMMED, PADDED, None])
@pytest.mark.parametrize(
    ("average", "low", "high"),
    [("token_mean", 3e-3, 4e-3), ("sequence_mean", 3e-4, 4e-4), ("sequence_sum", 0.2, 0.2), ("constant", 0.2, 0.28)],
)
def test_a_live_ratio_of_rows_is_named_under_every_average(over, average, low, high, name):
    def loss(log_prob, old_log_prob, advantages, mask):
        apart = (log_prob - old_log_prob) * mask
        if name == "gmpo":
            apart = torch.where(advantages > 0, apart.clamp(max=high), apart.clamp(min=-low))
        sizes = {SUMMED: 1.0, None: mask.sum(1, True)}
        ratio = (apart.sum(1, True) / sizes.get(over, mask.shape[1])).exp()
        values = surrogate(ratio, advantages, low, high) if name == "gspo" else ratio * advantages
        return -mean_of(values, mask, average)

    bounds = {} if name == "full_is" else {"low": low, "high": high}
    meant = getattr(sim.methods, name)(**bounds, aggregator=average)
    expected = (over,) if over else ()
    if name == "full_is":  # the sum of a row is right; what is not is that rows count as often as they have tokens
        expected = (REPEATED,) if over == SUMMED else (MEANED,)
    right = expected == () or (name == "full_is" and average == "sequence_mean" and over == SUMMED)
    per = ("token", "sequence") if over is None else ("sequence",)
    for each, like in itertools.product(per, (meant, None)):
        report = check_loss(loss, like, advantages_per=each, bias=False)
        if right and expected:  # the mean over tokens of one ratio a row is that ratio: full_is by its own average
            assert report.name == "full_is()" and report.bugs == () and report.conforms == (like is None), report
            continue
        assert report.conforms == right and report.name.startswith(f"{name}("), report
        quiet = like is None and expected != (PADDED,)
        assert report.aggregator == average and report.bugs == (() if quiet else expected), report
