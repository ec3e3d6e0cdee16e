"""Distributions of latencies and lengths, such as the work of a sample or the time of a training step.

A distribution maps one keyed uniform or normal number to one value, so a draw depends on its coordinates only.
"""

import inspect
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asyncsim.base import calls, checks, measured, rng

LONGEST = 1 << 20
"""Maximum of an integer distribution."""
WIDEST = 5.0
"""Maximum sigma of a lognormal distribution, whose median is exp(-12.5) of its mean there."""
MANY = 1 << 20
"""Maximum number of values in an empirical distribution: every file and record of a run contains all of them."""

FILE = re.compile(r"\.(txt|csv|jsonl|ndjson|parquet|pq)\b")
"""Files of numbers, by their suffixes."""
SHOWN = 8
"""Maximum number of values that `repr` shows."""
Parameters = tuple[float, ...]


@dataclass(frozen=True)
class Law(calls.Told):
    """A distribution of non-negative numbers, such as constant, exponential, lognormal, pareto, gamma or empirical.

    The `maximum` replaces larger numbers, as a trainer cuts responses: this is the distribution of min(X, maximum).

    >>> str(lognormal(1.0, 0.8)), Law.parse("lognormal:1.0:0.8:3") == lognormal(1.0, 0.8, maximum=3.0)
    ('lognormal:1.0:0.8', True)
    """

    kind: str
    parameters: Parameters
    maximum: float = math.inf

    def __hash__(self) -> int:
        # A law may have a million numbers.
        return hash((self.kind, self.parameters[:SHOWN], self.maximum))

    def __str__(self) -> str:
        return ":".join([self.kind, *map(repr, self.parameters), *[repr(self.maximum)] * self.cut])

    def __repr__(self) -> str:
        """The text form, with a long list of values summarized.

        >>> lognormal(1.0, 0.8), empirical(range(1, 1001))
        (Law(lognormal:1.0:0.8), Law(empirical: 1000 values, mean 500.5))
        """
        if len(self.parameters) > SHOWN:
            return f"Law({self.kind}: {len(self.parameters)} values, mean {self.mean():.6g})"
        return f"Law({self})"

    @classmethod
    def parse(cls, text: str) -> "Law":
        """Parse a string such as `str` returns, `kind:parameter:parameter`, with one more number for a maximum.

        Raises `InputError`.

        >>> (law := Law.parse("lognormal:1800:1:8192")), round(law.mean(), 3)
        (Law(lognormal:1800.0:1.0:8192.0), 1700.738)
        """
        remedy = "write lognormal:MEAN:SIGMA (sigma of log X), gamma:MEAN:SHAPE, exponential:MEAN or constant:VALUE"
        kind, *numbers = text.split(":")
        checks.one_of("law", kind, MAKERS, remedy)
        values = [checks.real(f"distribution {kind}", measured.number(each), remedy) for each in numbers]
        if kind in ("empirical", "recorded"):
            return MAKERS[kind](values)
        takes = [*inspect.signature(MAKERS[kind]).parameters]
        names = [name for name in takes if name != "maximum"]
        remedy += "; one number more is the maximum: lognormal:MEAN:SIGMA:MAXIMUM"
        fits = len(names) <= len(values) <= len(takes)
        checks.require(fits, "law", text, f"{kind} with parameters {', '.join(names)}", remedy)
        return MAKERS[kind](*values)

    @property
    def random(self) -> bool:
        """Whether two draws of the distribution can differ."""
        return self.kind != "constant"

    @property
    def cut(self) -> bool:
        """Whether the distribution has a maximum."""
        return bool(self.maximum < math.inf)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The parameters as an array, cached: blocks of draws are many, and a law may have a million numbers."""
        return np.asarray(self.parameters)

    @cached_property
    def _mean(self) -> float:
        p = self.parameters
        if self.kind in ("empirical", "recorded"):
            try:
                return math.fsum(p) / len(p)
            except OverflowError:  # the sum is beyond the largest number, the mean is not
                return math.fsum(x / len(p) for x in p)
        if self.kind == "pareto" and not self.cut:
            return p[0] * p[1] / (p[1] - 1.0) if p[1] > 1.0 else math.inf
        return _moment(self, 1) if self.cut else p[0]

    def mean(self) -> float:
        """Expectation E[X] of the distribution; raises `InputError` if it is infinite."""
        value = self._mean
        remedy = "choose pareto with alpha > 1, or give explicit times instead of a load"
        checks.require(math.isfinite(value), "law", str(self), "of finite mean", remedy)
        return value

    def deviation(self) -> float:
        """Standard deviation of X; infinite where a Pareto tail leaves no variance.

        >>> round(exponential(2.0, maximum=2.0).deviation(), 6)
        0.718069
        """
        if self.kind in ("constant", "empirical", "recorded"):
            return float(np.std(self.parameters))
        scale, *rest = self.parameters
        one = Law(self.kind, (1.0, *rest), self.maximum / scale)
        second = _moment(one, 2)
        return float(scale * math.sqrt(max(0.0, second - one._mean**2))) if second < math.inf else math.inf

    def moment_below(self, power: float, limit: float) -> float:
        """E[X^power; X <= limit] in closed form, without regard to a maximum; the full moment if `limit` is infinite.

        >>> exponential(2.0).moment_below(1, math.inf)
        2.0
        """
        from scipy import special

        if limit <= 0.0:
            return 0.0
        # Integrate a Pareto density up to the limit.
        if self.kind == "pareto":
            minimum, alpha = self.parameters
            # expm1 keeps the digits where power and index are close; at equality it is the logarithm.
            stretch, gap = math.log(max(limit / minimum, 1.0)), power - alpha
            growth = stretch if gap == 0.0 else (math.expm1(gap * stretch) if math.isfinite(stretch) else -1.0) / gap
            return math.inf if gap >= 0.0 and not math.isfinite(stretch) else float(alpha * minimum**power * growth)
        # Shift the normal law of log X.
        if self.kind == "lognormal":
            mean, sigma = self.parameters
            centre = math.log(mean) - 0.5 * sigma**2
            above = math.log(limit) - centre
            share = special.ndtr(above / sigma - power * sigma) if sigma else float(above >= 0.0)
            return float(math.exp(power * centre + 0.5 * (power * sigma) ** 2) * share)
        # Raise the shape of the gamma law.
        mean, shape = (*self.parameters, 1.0)[:2]
        scale = mean / shape
        share = special.gammainc(shape + power, limit / scale)
        return float(scale**power * special.poch(shape, power) * share) if share else 0.0

    def expected_max(self, n: int) -> float:
        """E[max of n draws] = integral over x > 0 of 1 - F(x)^n, by quadrature; raises `InputError` if it is infinite.

        >>> round(exponential(1.0).expected_max(4), 6) == round(1 + 1/2 + 1/3 + 1/4, 6)
        True
        """
        return self.expected_least(checks.integer("n", n, 1, "take the maximum of at least one draw"), n)

    def expected_least(self, k: int, n: int) -> float:
        """E[k-th smallest of n draws] = integral over x > 0 of P(fewer than k of n draws are at most x).

        Computed by quadrature; a record uses n consecutive numbers. Raises `InputError` for an infinite mean, and for k
        outside 1 .. n.

        >>> round(exponential(1.0).expected_least(2, 4), 6) == round(1/4 + 1/3, 6)
        True
        """
        n = checks.integer("n", n, 1, "take the maximum of at least one draw")
        k = checks.integer("k", k, 1, "count the draws from the smallest", n)
        return _least(self, k, n)

    def survival(self, x: np.ndarray | float) -> np.ndarray:
        """P(X > x), float64 in the shape of x."""
        # Far out in the tail a quotient overflows to infinity, behind which nothing is left.
        with np.errstate(over="ignore"):
            x = np.asarray(x, dtype=np.float64)
            return np.where(x < self.maximum, _survival(self.kind, x, self.parameters), 0.0)

    def sample(
        self,
        stream: rng.Stream,
        first: ArrayLike,
        second: ArrayLike,
        third: ArrayLike = 0,
        draw: ArrayLike = 0,
        *,
        compiled: bool = False,
    ) -> np.ndarray:
        """Draws at the coordinates (realization, sample, attempt, draw), float64 in their broadcast shape.

        `compiled` uses the numba twin of the generator, faster on blocks and equal but for the rounding of normals.
        """
        if self.kind == "constant":
            shape = np.broadcast_shapes(*(np.shape(c) for c in (first, second, third, draw)))
            return np.full(shape, self.parameters[0])
        if self.kind == "recorded":
            # Each realization (and third coordinate) starts anywhere in the record and goes round.
            start = (stream.uniform(first, 0, third, draw) * len(self._numbers)).astype(np.int64)
            return self._numbers[(start + np.asarray(second)) % len(self._numbers)]
        normal = self.kind == "lognormal"
        if compiled:
            from asyncsim.base import rng_compiled

            source = rng_compiled.normal if normal else rng_compiled.uniform
            numbers = source(stream, first, second, third, draw)
        else:
            numbers = (stream.normal if normal else stream.uniform)(first, second, third, draw)
        # A draw beyond the largest number is infinite, as the distribution has it.
        with np.errstate(over="ignore"):
            value = _value(self.kind, numbers, self._numbers if self.kind == "empirical" else self.parameters)
        return np.minimum(value, self.maximum) if self.cut else value


@calls.named
def constant(value: float) -> Law:
    """Constant distribution: every draw is `value` > 0.

    >>> constant(2.0).mean()
    2.0
    """
    return Law("constant", (_positive("value", value),))


@calls.named
def exponential(mean: float, maximum: float = math.inf) -> Law:
    """Exponential distribution, P(X > x) = exp(-x / mean), with mean > 0. Draws above `maximum` become `maximum`.

    >>> exponential(2.0).mean()
    2.0
    """
    return Law("exponential", (_positive("mean", mean),), _maximum(maximum))


@calls.named
def lognormal(mean: float, sigma: float, maximum: float = math.inf) -> Law:
    """Lognormal distribution with E[X] = `mean` > 0; log X has standard deviation `sigma` >= 0.

    If `maximum` (> 0) is given, it replaces larger numbers, which lowers the mean.

    >>> lognormal(1.0, 0.8).mean()
    1.0
    """
    mean, spread = _positive("mean", mean), checks.real("sigma", sigma, "give the standard deviation of log X", 0.0)
    own, remedy = math.sqrt(math.log1p(min(spread / mean, 1e9) ** 2)), "it is the standard deviation of log X"
    remedy += f"; for {spread:g} as that of X write sigma {own:.3g} (lognormal:{mean:g}:{own:.3g})" * (own <= WIDEST)
    return Law("lognormal", (mean, checks.real("sigma", spread, remedy, 0.0, WIDEST)), _maximum(maximum))


@calls.named
def pareto(minimum: float, alpha: float, maximum: float = math.inf) -> Law:
    """Pareto distribution, P(X > x) = (minimum / x)^alpha for x >= minimum > 0. Its mean is infinite for alpha <= 1.

    If `maximum` (> 0) is given, it replaces larger numbers.

    >>> pareto(1.0, 2.0).mean()
    2.0
    """
    return Law("pareto", (_positive("minimum", minimum), _positive("alpha", alpha)), _maximum(maximum))


@calls.named
def gamma(mean: float, shape: float, maximum: float = math.inf) -> Law:
    """Gamma distribution with mean and shape > 0: density ~ x^(shape-1) exp(-shape x / mean); exponential for shape 1.

    If `maximum` (> 0) is given, it replaces larger numbers.

    >>> gamma(3.0, 2.0).mean()
    3.0
    """
    return Law("gamma", (_positive("mean", mean), _positive("shape", shape)), _maximum(maximum))


@calls.named
def empirical(values: object) -> Law:
    """Empirical distribution: each of the given positive numbers with equal probability.

    >>> empirical([1.0, 2.0, 6.0]).mean()
    3.0
    """
    array = checks.finite_array("values", values, (None,), "give numbers; of a file length='@lengths.csv:column'")
    checks.require(bool((array > 0).all()), "values", float(array.min()), "positive", "drop lengths of zero")
    remedy = "draw so many of them at random"
    checks.require(len(array) <= MANY, "values", f"{len(array)} numbers", f"at most {MANY} numbers", remedy)
    return Law("empirical", tuple(array.tolist()))


def recorded(values: object) -> Law:
    """Replay the given positive numbers in order, which keeps autocorrelation, from a random starting position.

    The start is random for each realization, and the first number follows the last.

    >>> law = recorded([1.0, 2.0, 6.0])
    >>> law.mean(), law.sample(rng.Stream(0, "work"), 0, [0, 1, 2, 3]).tolist()
    (3.0, [2.0, 6.0, 1.0, 2.0])
    """
    return Law("recorded", empirical(values).parameters)


@calls.named
def uniform(low: int, high: int) -> tuple[float, ...]:
    """Probabilities of 0, 1, ..., high for `schedules.random`: equal from low to high, 0 below low.

    >>> uniform(1, 2)
    (0.0, 0.5, 0.5)
    """
    low = checks.integer("low", low, 0, "staleness is at least 0")
    high = checks.integer("high", high, low, "give low <= high", LONGEST)
    return (0.0,) * low + (1.0 / (high - low + 1),) * (high - low + 1)


def as_probabilities(field: str, value: object) -> np.ndarray:
    """Probabilities of 0, 1, 2, ... from numbers, `uniform:low:high`, or integers in `@file.csv:column`.

    Raises `InputError`.
    """
    if isinstance(value, str) and value.startswith("@"):
        column, numbers = measured.column(field, value[1:])
        whole = (numbers >= 0.0) & (numbers <= LONGEST) & (numbers == np.floor(numbers))
        remedy = "give versions of one trajectory a row"
        measured.refuse_rows(field, column, numbers, whole, f"an integer in [0, {LONGEST}]", remedy)
        return np.bincount(numbers.astype(np.int64)) / len(numbers)
    remedy = "give probabilities of 0, 1, 2, ..., uniform:low:high, or @staleness.csv:column"
    given = value
    if isinstance(value, str):
        kind, *bounds = value.split(":")
        fits = kind == "uniform" and len(bounds) == 2 and all(b.isdecimal() and len(b) < 10 for b in bounds)
        checks.require(fits, field, value, "a distribution of integers", remedy)
        given = uniform(*(int(b) for b in bounds))
    weights = checks.finite_array(field, given, (None,), remedy)
    total = float(weights.sum())
    probabilities = bool((weights >= 0).all()) and abs(total - 1.0) < 1e-9
    checks.require(probabilities, field, value, "non-negative with sum 1", remedy)
    return weights / total


def varied(value: Any) -> str:
    """Suggest how to write staleness that varies within a run, between the two integers in `value` if it has two."""
    ends = sorted(map(int, re.findall(r"\d{1,9}", str(value))))
    law = "uniform:{}:{}".format(*(ends if len(ends) == 2 else (0, 8)))
    return f"--schedule random --set schedule.law={law} (in Python sim.schedules.random({law!r}))"


def as_law(field: str, value: Any) -> Law:
    """Convert to a `Law`: a `Law`, an object with an attribute `law`, a number (constant) or text; raises `InputError`.

    `recorded:@delays.csv:column` replays the numbers of a file in order; `@delays.csv:column` draws from them.
    """
    if isinstance(value, Law):
        return value
    if isinstance(law := getattr(value, "law", None), Law):
        return law
    file = isinstance(value, str) and (FILE.search(value) or measured.UNREAD.search(value))
    if isinstance(value, str) and (value.startswith("@") or (file and "@" not in value)):
        return from_file(field, value.removeprefix("@"))
    if isinstance(value, str) and value.startswith("recorded:@"):
        return recorded(from_file(field, value.removeprefix("recorded:@")).parameters)
    if isinstance(value, str) and ":" in value:
        return Law.parse(value)
    value = checks.timed(field, value)
    if isinstance(value, str) and not measured.is_number(value):
        remedy = "write lognormal:MEAN:SIGMA (sigma of log X), or @lengths.csv:column for the numbers of a file"
        raise checks.InputError(field, value, "a positive number or the text of a distribution", remedy)
    if isinstance(value, (list, tuple, dict)) or getattr(value, "ndim", 0) > 0:
        remedy = "write empirical:3:5:8 (sim.empirical(numbers) in Python), lognormal:MEAN:SPREAD, or @FILE.csv:COLUMN"
        raise checks.InputError(field, value, "a positive number or a distribution", remedy)
    return constant(checks.real(field, value, "give sim.lognormal(2.0, 0.8) or a positive number", 0.0, open_low=True))


def from_file(field: str, place: str) -> Law:
    """Empirical distribution of a column of positive numbers: `lengths.csv`, or `lengths.parquet:column`.

    A factor after the column changes its unit: `delays.csv:reward_ms*0.001` converts milliseconds to seconds. Lengths
    in tokens go with a speed in tokens per second, the setting `rate` of a system's model; a column of seconds goes
    with its default, rate 1. Raises `InputError` for a file that is missing, damaged or too big, and a column that it
    lacks. Also for numbers that are missing, not positive or more than `MANY`, and a factor that is not positive.
    """
    column, numbers = measured.column(field, place)
    remedy = "drop rows without a number, and write a delay of zero as the smallest that was resolved"
    measured.refuse_rows(field, column, numbers, numbers > 0.0, "a positive number", remedy)
    where, remedy = f"{field} column {column}", "draw so many of them at random"
    checks.require(len(numbers) <= MANY, where, f"{len(numbers)} values", f"at most {MANY} values", remedy)
    return empirical(numbers)


MAKERS: dict[str, Callable[..., Law]] = {
    make.__name__: make for make in (constant, exponential, lognormal, pareto, gamma, empirical, recorded)
}


def _positive(field: str, value: float) -> float:
    return checks.real(field, value, "give a positive number", 0.0, open_low=True)


def _maximum(value: float) -> float:
    return checks.real("maximum", value, "give a positive number", 0.0, open_low=True, finite=False)


def _moment(law: Law, order: int) -> float:
    """E[X^order] of a distribution with a density: what X contributes up to the maximum c, and c^order P(X > c)."""
    uncut, c = Law(law.kind, law.parameters), law.maximum
    return uncut.moment_below(order, c) + (c * float(uncut.survival(c)) * c ** (order - 1) if law.cut else 0.0)


def _value(kind: str, u: np.ndarray, p: Any) -> np.ndarray:
    """Transform uniform numbers (for lognormal, normal numbers) to values of the distribution."""
    match kind:
        case "exponential":
            return -p[0] * np.log1p(-u)
        case "lognormal":
            return p[0] * np.exp(p[1] * u - 0.5 * p[1] ** 2)
        case "pareto":
            return p[0] * (1.0 - u) ** (-1.0 / p[1])
        case "gamma":
            from scipy.special import gammaincinv

            return p[0] / p[1] * gammaincinv(p[1], u)
    return np.asarray(p)[(u * len(p)).astype(np.int64)]


def _survival(kind: str, x: np.ndarray, p: Parameters) -> np.ndarray:
    if kind == "constant" or (kind == "lognormal" and p[1] == 0.0):
        return np.where(x < p[0], 1.0, 0.0)
    match kind:
        case "exponential":
            return np.exp(-np.maximum(x, 0.0) / p[0])
        case "lognormal":
            from scipy.special import ndtr

            with np.errstate(divide="ignore"):
                return ndtr(-(np.log(np.maximum(x, 0.0) / p[0]) / p[1] + 0.5 * p[1]))
        case "pareto":
            return (p[0] / np.maximum(x, p[0])) ** p[1]
        case "gamma":
            from scipy.special import gammaincc

            return gammaincc(p[1], np.maximum(x, 0.0) * p[1] / p[0])
    return 1.0 - np.searchsorted(np.sort(p), x, side="right") / len(p)


@lru_cache(maxsize=4096)
def _least(law: Law, k: int, n: int) -> float:
    """E[k-th smallest of n draws], cached because every realization of a system needs the same value."""
    if n == 1 or law.kind == "constant":
        return law.mean()
    if law.kind == "recorded":
        # Of n consecutive numbers over all starts, the first behind the last.
        values, total, rows = law._numbers, 0.0, max(1, (1 << 22) // n)
        for first in range(0, len(values), rows):
            start = np.arange(first, min(first + rows, len(values)))
            window = values[(start[:, None] + np.arange(n)) % len(values)]
            total += float(np.partition(window, k - 1, axis=1)[:, k - 1].sum())
        return total / len(values)
    if law.kind == "empirical":
        steps = _share_below(np.linspace(0.0, 1.0, len(law.parameters) + 1), k, n)
        return float(np.dot(np.sort(law.parameters), np.diff(steps)))
    mean = law.mean()
    try:
        integral = _integral_of_order(law, k, n)
    except (OverflowError, ValueError):
        integral = math.nan
    # A maximum below the mean says that the quadrature has lost the law's mass between its points.
    fits = math.isfinite(integral) and (k < n or integral >= mean * (1.0 - 1e-9))
    remedy = "choose a distribution of less extreme shape, or give explicit times instead of a load"
    checks.require(fits, "law", str(law), f"narrow enough for the mean of the largest of {n} draws", remedy)
    return integral


def _share_below(below: np.ndarray, k: int, n: int) -> np.ndarray:
    """P(at least k of n draws are below x), where one draw is below x with probability `below`."""
    from scipy.special import betainc

    return np.asarray(below**n if k == n else betainc(k, n - k + 1, below))


def _integral_of_order(law: Law, k: int, n: int) -> float:
    """E[k-th smallest of n draws], integrated over y = log x up to the maximum, and split at the median."""
    from scipy.integrate import quad
    from scipy.optimize import brentq

    uncut, top = Law(law.kind, law.parameters), math.log(law.maximum)

    def exceeds(y: float) -> float:
        tail = float(uncut.survival(math.exp(y)))
        if k < n:
            # Fewer than k are at most e^y: n - k + 1 or more are above it.
            return float(_share_below(np.asarray(tail), n - k + 1, n))
        return -math.expm1(n * math.log1p(-tail)) if tail < 1.0 else 1.0

    def quantile(tail: float) -> float:
        low = high = math.log(law.mean())
        while exceeds(low) <= tail:
            low -= 1.0
        while exceeds(high) > tail:
            high += 1.0
        return brentq(lambda y: exceeds(y) - tail, low, high)

    def integrand(y: float) -> float:
        # Beyond e^700 the factor overflows although every survival here has vanished or left at most rounding.
        return exceeds(y) * math.exp(y) if y < 700.0 else 0.0

    median = min(quantile(0.5), top)
    # In units of the law's own width: the transformation of an infinite range would step over a narrow law.
    width = max(quantile(0.1) - quantile(0.9), 1e-9)

    def missing(y: float) -> float:
        return (1.0 - exceeds(y)) * math.exp(y)

    # `full_output` returns instead of warning where a nearly constant law leaves nothing but rounding to refine. The
    # absolute error that is allowed unless one says so would leave 5e-10 at the kink of a Pareto law.
    # Over a finite range the quadrature would step over a narrow law: its pieces grow from the law's width.
    end = (top - median) / width
    pieces = [*(x for x in 10.0 ** np.arange(13) if x < end < math.inf), end]
    upper, lower = (
        sum(quad(f, a, b, limit=400, epsabs=0.0, epsrel=1e-12, full_output=1)[0] for a, b in itertools.pairwise(edges))
        for f, *edges in (
            (lambda z: integrand(median + width * z), 0.0, *pieces),
            (lambda z: missing(median - width * z), 0.0, math.inf),
        )
    )
    return math.exp(median) + width * (upper - lower)
