"""Metrics written anew, sample by sample, as a trainer would: nothing of the package is called."""

import math

import numpy as np


def lines(log_prob, old, mask):
    """Log ratios of the generated tokens, row by row."""
    pairs = zip(np.asarray(log_prob), np.asarray(old), np.asarray(mask), strict=True)
    return [[float(a - b) for a, b, m in zip(*row, strict=True) if m > 0] for row in pairs]


def entropy_number(w):
    p = [x / sum(w) for x in w]
    return math.exp(-sum(x * math.log(x) for x in p if x > 0))


NUMBERS = {
    "ess": lambda w: sum(w) ** 2 / sum(x * x for x in w),
    "ess_maximum": lambda w: sum(w) / max(w),
    "ess_perplexity": entropy_number,
    "ess_population": lambda w: len(w) / (sum(x * x for x in w) / len(w)),
}


def share(number, w):
    return number(w) / len(w)


def positions(rows_of):
    longest = max(map(len, rows_of))
    return [[row[t] for row in rows_of if len(row) > t] for t in range(longest)]


WEIGHTS = {
    "": lambda rows: [math.exp(sum(row)) for row in rows],
    "_token": lambda rows: [math.exp(x) for row in rows for x in row],
    "_geometric": lambda rows: [math.exp(sum(row) / len(row)) for row in rows],
    "_broadcast": lambda rows: [math.exp(sum(row)) for row in rows for _ in row],
}


def ess(number, of):
    """An ESS as a share; positions are those of the padded batch."""

    def metric(log_prob, old_log_prob, mask):
        if of == "_frames":
            found = zip(*(np.asarray(x).T for x in (log_prob, old_log_prob, mask)), strict=True)
            groups = [[math.exp(a - b) for a, b, m in zip(*each, strict=True) if m > 0] for each in found]
        else:
            groups = [[math.exp(x) for x in row] for row in lines(log_prob, old_log_prob, mask)]
        groups = [each for each in groups if each]
        if of in ("_within", "_frames"):
            return sum(share(NUMBERS[number], each) for each in groups) / len(groups)
        rows = [row for row in lines(log_prob, old_log_prob, mask) if row]
        return share(NUMBERS[number], WEIGHTS[of](rows))

    return metric


POINTS = {
    "kl_k1": lambda x: -x,
    "kl_k2": lambda x: x * x / 2,
    "kl_k3": lambda x: math.exp(x) - 1 - x,
    "kl_reverse": lambda x: math.exp(x) * x,
    "kl_reverse_k3": lambda x: math.exp(x) * (math.exp(-x) - 1 + x),
    "mean_weight": math.exp,
    "chi_square": lambda x: math.exp(x) ** 2 - 1,
    "log_ratio_size": abs,
}


def mean(x):
    x = list(x)
    return sum(x) / len(x)


AVERAGES = {
    "": lambda point, rows: mean(point(sum(row)) for row in rows),
    "_token": lambda point, rows: mean(point(x) for row in rows for x in row),
    "_geometric": lambda point, rows: mean(point(mean(row)) for row in rows),
    "_sum": lambda point, rows: mean(sum(map(point, row)) for row in rows),
    "_row_mean": lambda point, rows: mean(mean(map(point, row)) for row in rows),
}


def average(point, of):
    def metric(log_prob, old_log_prob, mask):
        rows = [row for row in lines(log_prob, old_log_prob, mask) if row]
        return AVERAGES[of](POINTS[point], rows)

    return metric


REDUCTIONS = {
    "staleness": lambda ages: mean(row[0] for row in ages),
    "staleness_head": lambda ages: mean(map(max, ages)),
    "staleness_newest": lambda ages: mean(map(min, ages)),
    "staleness_mean": lambda ages: mean(x for row in ages for x in row),
    "staleness_span": lambda ages: mean(max(row) - min(row) for row in ages),
    "staleness_last": lambda ages: mean(row[-1] for row in ages),
    "staleness_row_mean": lambda ages: mean(map(mean, ages)),
    "staleness_largest": lambda ages: max(map(max, ages)),
    "staleness_smallest": lambda ages: min(map(min, ages)),
}


def age(reduction, unknown="left out", shift=0):
    """A reduction of staleness; tokens without a version are left out, counted, or read as fresh."""

    def metric(generated_version, trained_version, mask):
        ages = []
        for versions, inside in zip(np.asarray(generated_version), np.asarray(mask), strict=True):
            kept = [int(v) for v, m in zip(versions, inside, strict=True) if m > 0]
            if unknown == "left out":
                kept = [v for v in kept if v >= 0]
            if unknown == "fresh":
                kept = [v if v >= 0 else trained_version for v in kept]
            ages += [[trained_version - v + shift for v in kept]] if kept else []
        return REDUCTIONS[reduction](ages)

    return metric


def stopped(ratio, advantage, low=0.8, high=1.28, dual=math.inf):
    return (advantage > 0 and ratio > high) or (advantage < 0 and ratio < low) or (advantage < 0 and ratio > dual)


RULES = {
    "clip_active": stopped,
    "clip_outside": lambda r, a: r < 0.8 or r > 1.28,
    "clip_above": lambda r, a: r > 1.28,
    "clip_below": lambda r, a: r < 0.8,
    "clip_high": lambda r, a: a > 0 and r > 1.28,
    "clip_low": lambda r, a: a < 0 and r < 0.8,
    "clip_dual": lambda r, a: a < 0 and r > 3.0,
}
SHARES = {
    "": lambda rule, rows: mean(rule(math.exp(x), a) for row, a in rows for x in row),
    "_row_mean": lambda rule, rows: mean(mean(rule(math.exp(x), a) for x in row) for row, a in rows),
    "_sequence": lambda rule, rows: mean(rule(math.exp(sum(row)), a) for row, a in rows),
    "_geometric": lambda rule, rows: mean(rule(math.exp(mean(row)), a) for row, a in rows),
    "_average": lambda rule, rows: mean(rule(mean(map(math.exp, row)), a) for row, a in rows),
    "_any": lambda rule, rows: mean(any(rule(math.exp(x), a) for x in row) for row, a in rows),
}


def clip(rule, of):
    def metric(log_prob, old_log_prob, advantages, mask):
        rows = zip(lines(log_prob, old_log_prob, mask), np.asarray(advantages)[:, 0], strict=True)
        return SHARES[of](RULES[rule], [(row, a) for row, a in rows if row])

    return metric


def times(metric, factor):
    """The metric as a count or in percent: times the number of its units, or a constant."""

    def scaled(log_prob, old_log_prob, mask):
        rows = [row for row in lines(log_prob, old_log_prob, mask) if row]
        units = {"tokens": sum(map(len, rows)), "rows": len(rows)}.get(factor, factor)
        return metric(log_prob, old_log_prob, mask) * units

    return scaled
