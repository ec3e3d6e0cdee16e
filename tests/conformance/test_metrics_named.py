"""`check_metric` names every metric of its catalogue, written anew, and nothing else."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import asyncsim as sim
from asyncsim.conformance import _metric_catalogue as catalogue
from asyncsim.conformance import _metric_search as search
from asyncsim.conformance import check_metric
from asyncsim.conformance import metrics as findings
from asyncsim.conformance._metric_catalogue import View
from tests.conformance import written_metrics as written
from tests.conformance.written_metrics import mean
from tests.contracts.laboratory import step_with

ESS = [
    (number, of)
    for number in written.NUMBERS
    for of in ("", "_token", "_geometric", "_broadcast", "_within", "_frames")
]
MEANS = [
    (point, of)
    for point in written.POINTS
    for of in written.AVERAGES
    # Sums of k1 are k1 of the sum.
    if point != "kl_k1" or of not in ("_sum", "_row_mean")
]
CLIPS = [(rule, of) for rule in written.RULES for of in written.SHARES]


@pytest.mark.parametrize(("number", "of"), ESS)
def test_every_ess_is_named(number, of):
    report = check_metric(written.ess(number, of))
    assert report.name == number + of and report.same == (), str(report)
    assert report.bugs == (("not self-normalized",) if number == "ess_population" else ())


@pytest.mark.parametrize(("point", "of"), MEANS)
def test_every_mean_of_log_ratios_is_named(point, of):
    report = check_metric(written.average(point, of))
    assert report.conforms and report.name == point + of and report.same == (), str(report)


@pytest.mark.parametrize("reduction", written.REDUCTIONS)
def test_every_reduction_of_staleness_is_named(reduction):
    report = check_metric(written.age(reduction))
    assert report.conforms and report.name == reduction and not report.same and not report.findings, str(report)


@pytest.mark.parametrize(("rule", "of"), CLIPS)
def test_every_share_of_a_clip_is_named(rule, of):
    report = check_metric(written.clip(rule, of), like=rule + of)
    assert report.conforms and report.name == rule + of and report.same == (), str(report)
    assert all(bound in report.words for bound in ("1.28", "0.8", "3") if bound in WORDS[rule])


WORDS = dict.fromkeys(("clip_active", "clip_outside"), ("1.28", "0.8")) | {
    **dict.fromkeys(("clip_above", "clip_high"), ("1.28",)),
    **dict.fromkeys(("clip_below", "clip_low"), ("0.8",)),
    "clip_dual": ("3",),
}


@pytest.mark.parametrize(
    ("of", "factor", "word"),
    [("_token", "tokens", "not divided"), ("", "rows", "not divided"), ("", 100.0, "in percent"), ("", 1.0, "share")],
)
def test_the_scale_is_named(of, factor, word):
    report = check_metric(written.times(written.ess("ess", of), factor))
    assert report.conforms and report.name == "ess" + of and word in report.words


def test_all_names_are_tested():
    tested = {a + b for a, b in [*ESS, *MEANS, *CLIPS]} | set(written.REDUCTIONS)
    others = {
        name for name in findings.METRICS if "clamped" in name or name.startswith(("clip_reversed", "clip_other"))
    }
    assert set(findings.METRICS) - others == tested


def test_each_entry_has_numbers_of_its_own():
    """Names never stand for each other: any two right entries differ on some batch."""
    probes = search.batches(0, True)
    pair = ("log_prob", "behavior_log_prob")
    for families, which in ((("ess", "mean"), pair), (("age",), None)):
        entries = catalogue.entries(families, True, 0)
        table = np.array([search.numbers(entry, which, probes) for entry in entries])
        alike = np.isclose(table[:, None], table[None], rtol=1e-4, atol=1e-6).all(-1)
        assert len(entries) > 8 and alike.sum() == len(entries)


ROWS = st.lists(st.lists(st.floats(-4.0, 4.0), min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=40)
@given(rows=ROWS, equal=st.booleans(), alone=st.booleans())
def test_entries_are_what_is_written_at_every_edge(rows, equal, alone):
    """One sample, one token that is left, equal weights: the catalogue and the loops agree."""
    rows = [[0.3] * len(row) for row in rows] if equal else rows
    rows = [rows[0][:1]] if alone else rows
    width = max(map(len, rows)) + 1
    x = np.array([row + [2.0] * (width - len(row)) for row in rows])
    mask = np.array([[True] * len(row) + [False] * (width - len(row)) for row in rows])
    view = View(x, mask, np.ones(len(x)), np.zeros(len(x)), np.arange(len(x)))
    named = {"ess": written.ess, "mean": written.average}
    for entry in catalogue.entries(("ess", "mean"), True, 0):
        if entry.divisor == "" and entry.of not in catalogue.MIXED:
            name = findings.name(entry)
            head = max((n for n in (*written.NUMBERS, *written.POINTS) if name.startswith(n)), key=len)
            expected = named[entry.family](head, name.removeprefix(head))(x, 0 * x, mask)
            assert math.isclose(entry.value(view), expected, rel_tol=1e-9, abs_tol=1e-9), name
            # Equal tokens make equal rows where rows are equally long.
            alike = alone or (equal and len({*map(len, rows)}) == 1)
            if entry.family == "ess" and alike and entry.form != "population":
                assert math.isclose(expected, 1.0, rel_tol=1e-9)


PRODUCT = ("ess", "ess_token", "ess_within", "ess_frames", "kl_k1", "kl_k2", "kl_reverse", "chi_square")
OTHER_NAMES = {
    "mean_weight": "mean_weight",
    "chi_square_token": "chi_square_token",
    "kl_k3": "kl",
    "mean_weight_token": "token_ratio_mean",
}


@pytest.mark.parametrize("name", [*PRODUCT, *OTHER_NAMES])
def test_a_name_means_what_the_metric_of_that_name_does(name):
    entry = next(e for e in catalogue.entries(("ess", "mean"), True, 0) if findings.name(e) == name)
    for probe in search.batches(0, True)[:4]:
        view = probe.view(("log_prob", "behavior_log_prob"))
        step = step_with(torch.from_numpy(np.where(view.mask, view.x, 0.0))[None, None], mask=view.mask[None, None])
        metric = getattr(sim.diagnostics, OTHER_NAMES.get(name, name))
        assert math.isclose(entry.value(view), float(metric.measure(step)), rel_tol=1e-9)


@pytest.mark.parametrize("name", ["staleness_head", "staleness_newest", "staleness_mean", "staleness_span"])
def test_a_reduction_means_what_the_metric_of_that_name_does(name):
    entry = next(e for e in catalogue.entries(("age",), True, 0) if findings.name(e) == name)
    for probe in search.batches(0, True)[:4]:
        view = probe.view(None)
        step = step_with(0.0 * view.x[None, None], mask=view.mask[None, None], age=torch.from_numpy(view.x)[None, None])
        assert math.isclose(entry.value(view), float(getattr(sim.diagnostics, name).measure(step)), rel_tol=1e-12)


@settings(max_examples=25)
@given(
    weights=st.lists(st.floats(-2.0, 2.0).filter(lambda x: abs(x) > 0.01), min_size=4, max_size=4),
    power=st.sampled_from([0.5, 1.5, 3.0]),
    outer=st.sampled_from([np.sin, np.tanh, np.cbrt, lambda x: x]),
)
def test_a_random_function_is_none_of_them(weights, power, outer):
    a, b, c, d = weights

    def random(log_prob, old_log_prob, mask):
        x = np.where(mask > 0, log_prob - old_log_prob, 0.0)
        number = a * np.abs(x) ** power + b * np.exp(0.37 * x) + c * x**2 * np.sign(x)
        return outer((number * mask).sum() / mask.sum() + d * np.cos(x).mean())

    report = check_metric(random)
    assert not report.conforms and report.name == "unknown" and report.findings == () and report.difference


def out(x):
    return not -0.2 < x < 0.25


NEAR = {
    # numbers of a row's log ratios and advantage, averaged over rows, that come close to a share of a clip
    "two tokens": lambda row, a: sum(map(out, row)) > 1,
    "first token": lambda row, a: out(row[0]),
    "last token": lambda row, a: out(row[-1]),
    "products from the start": lambda row, a: mean(out(x) for x in np.cumsum(row)),
    "middle ratio": lambda row, a: out(float(np.median(row))),
    "large advantages": lambda row, a: mean(map(out, row)) * (abs(a) > 0.8),
    "far apart": lambda row, a: out(max(row) - min(row)),
    # and others
    "tempered": lambda row, a: np.exp(1.3 * sum(row)),
    "weighted": lambda row, a: a * mean(row),
    "spread": lambda row, a: float(np.var(row)),
    "largest": lambda row, a: math.exp(max(row)),
    "root": lambda row, a: math.sqrt(written.POINTS["kl_k3"](sum(row))),
}


@pytest.mark.parametrize("near", NEAR)
def test_what_comes_near_is_none_of_them(near):
    def metric(log_prob, old_log_prob, advantages, mask):
        rows = zip(written.lines(log_prob, old_log_prob, mask), advantages[:, 0], strict=True)
        return mean(NEAR[near](row, a) for row, a in rows if row)

    assert check_metric(metric).name == "unknown"


@pytest.mark.parametrize("near", ["first token", "last token", "middle ratio", "two tokens", "large advantages"])
def test_bounds_far_from_most_ratios_name_nothing_wrong(near, monkeypatch):
    """Batches are also drawn around the bounds that were measured: elsewhere these shares are nearly constant."""
    monkeypatch.setitem(globals(), "out", lambda x: x > 1.2)
    test_what_comes_near_is_none_of_them(near)


PARTS = {
    "a row's largest ratio": lambda rows: [max(map(math.exp, row)) for row in rows],
    "a row's sum of ratios": lambda rows: [sum(map(math.exp, row)) for row in rows],
    "without first tokens": lambda rows: [math.exp(x) for row in rows for x in row[1:]],
    "without the largest": lambda rows: sorted(math.exp(sum(row)) for row in rows)[:-1],
    "square roots": lambda rows: [math.exp(sum(row) / 2) for row in rows],
    "roots of lengths": lambda rows: [math.exp(sum(row) / math.sqrt(len(row))) for row in rows],
}


@pytest.mark.parametrize("number", written.NUMBERS)
@pytest.mark.parametrize("part", PARTS)
def test_an_ess_of_something_else_is_none_of_them(number, part):
    def metric(log_prob, old_log_prob, mask):
        weights = PARTS[part]([row for row in written.lines(log_prob, old_log_prob, mask) if row])
        return written.share(written.NUMBERS[number], weights)

    assert check_metric(metric).name == "unknown"


OLD = {
    "middle": lambda row: float(np.median(row)),
    "stale tokens": lambda row: mean(x > 4 for x in row),
    "between head and tail": lambda row: (row[0] + row[-1]) / 2,
    "squares": lambda row: mean(x * x for x in row),
    "second token": lambda row: row[min(1, len(row) - 1)],
}


@pytest.mark.parametrize("near", OLD)
def test_another_number_of_staleness_is_none_of_them(near):
    def metric(staleness, mask):
        lines = zip(staleness, mask, strict=True)
        return mean(OLD[near]([int(s) for s, m in zip(*line, strict=True) if m > 0]) for line in lines)

    assert check_metric(metric).name == "unknown"


@pytest.mark.parametrize("value", [0.0, 1.0, 0.25])
def test_a_constant_is_none_of_them(value):
    report = check_metric(lambda log_prob, old_log_prob, mask: value)
    assert report.name == "unknown" and report.bugs == ("constant",)


DEFECTS = {
    "a maximum that is not subtracted twice": (
        "ESS",
        "kish",
        lambda x: float(np.exp(x).sum() ** 2 / np.exp(2 * x).max()),
    ),
    "entropy to base 2": ("ESS", "perplexity", lambda x: catalogue._perplexity(x) ** (1 / math.log(2))),
    "k2 without its half": ("MEANS", "k2", lambda x: x**2),
    "k3 of the other policy": ("MEANS", "k3", lambda x: np.expm1(-x) + x),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_the_catalogue_is_caught(defect, monkeypatch):
    """The names above would not all come out with one wrong formula."""
    table, form, wrong = DEFECTS[defect]
    monkeypatch.setitem(getattr(catalogue, table), form, wrong)
    search._first.cache_clear()
    search._table.cache_clear()
    try:
        make = written.ess if table == "ESS" else written.average
        names = findings._ESS if table == "ESS" else findings._MEANS
        name = names[form][0] + "_token"
        report = check_metric(make(names[form][0], "_token"))
        assert report.name != name or report.bugs
    finally:
        search._first.cache_clear()
        search._table.cache_clear()


def of_weights(weights):
    return weights.sum() ** 2 / (weights**2).sum() / len(weights)


def of_one_row(sequence_log_ratio):
    return of_weights(np.exp(sequence_log_ratio - sequence_log_ratio.max()))


ROWS = "conforms, where it is given one weight a row"
WIDE = "taken for one weight a row, [B]; of tokens, [B, T], it has"


@pytest.mark.parametrize(
    ("fn", "like", "head", "words"),
    [
        (of_weights, "ess", "conforms like ess, where it is given one", WIDE),
        (of_weights, None, ROWS, f"{WIDE} the bugs: divided by rows"),
        (of_one_row, None, "conforms", "sequence_log_ratio of rows, [B]"),
        (lambda weights: of_weights(weights) * len(weights), None, "it is not divided by N", "note: not divided by"),
        (lambda ratio: of_weights(ratio) * len(ratio), "ess", "deviates from ess", "bug: not divided by the count"),
        (lambda ratio: of_weights(ratio.reshape(-1)), None, "conforms", "ratio of tokens, [B, T]"),
    ],
)
def test_weights_alone_may_be_of_rows_or_of_tokens(fn, like, head, words):
    text = str(check_metric(fn, like))
    assert head in text.splitlines()[0] and words in text, text
