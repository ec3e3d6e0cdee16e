"""Symbols and units of the project's terms, for the labels of axes and columns."""

import math
import re
from typing import NamedTuple

from asyncsim.base import checks


class Word(NamedTuple):
    """A term of the notation: LaTeX symbol, unit ("" for a pure number), and its name on an axis."""

    symbol: str
    unit: str
    name: str | None = None


_TABLE = checks.table(__file__, "notation.toml")
WORDS = {name: Word(*parts) for name, parts in _TABLE.items()}
TRAINED = "trained_return"
"""The metric that every task provides and by which settings are compared: the return of the trained policy."""
COST = re.compile("(?!.*(reward|score|accura|return)).*(kl|loss|second|time|timing|stale|clip|mask|idle|discard|error)")
"""Names of metrics of which lower values are better."""
BEHAVIOR = ("batch_return", "episode_return")
RETURNS = (TRAINED, *BEHAVIOR, "exact_return")  # the task states their range and best value
"""Returns of batches, hence of the older policies that sampled them; they do not show what was learned since."""


def whose(name: str) -> str:
    """Name of a metric, with a note if its return is not that of the trained policy.

    >>> whose("trained_return"), whose("batch_return")
    ('trained_return', 'batch_return (behavior policy)')
    """
    return f"{name} (behavior policy)" if name in BEHAVIOR else name


def label(name: str) -> str:
    """Axis label of a term: its name, symbol and unit; a count has no unit beside its name.

    >>> label("update_staleness"), label("ess"), label("batch")
    ('update staleness $\\\\tau$ (updates)', 'effective sample size $\\\\mathrm{ESS}/N$', 'batch $b$')
    """
    word = WORDS.get(name)
    if word is None:
        return name.replace("_", " ")
    spoken = name.replace("_", " ") if word.name is None else word.name
    unit = f" ({word.unit})" if word.unit and word.unit not in (f"{spoken}s", f"{spoken}es") else ""
    return f"{spoken} ${word.symbol}${unit}".lstrip()


def number(value: float) -> str:
    """Format a number with six significant digits; a dash if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    ('0.333333', '—')
    """
    return f"{value + 0.0:.6g}".replace("-", "−") if math.isfinite(value) else "—"


def measurement(value: float, half: float, predicted: float) -> str:
    """Format a measurement with half its interval: two digits of that half, or more if the prediction has more.

    An interval below the digits shown is left out.

    >>> measurement(0.2312701, 1e-6, 0.2312704), measurement(0.349878, 0.0012, 0.35), measurement(2.0, 1e-9, 2.0)
    ('0.2312701 ± 1e−06', '0.3499 ± 0.0012', '2')
    """
    if not math.isfinite(half) or half <= 1e-6 * abs(value):
        return number(value)
    places = 1 - int(f"{half:.1e}".partition("e")[2])
    interval = f"{half:.2g}" if places > 6 else f"{round(half, places):.{max(0, places)}f}"
    if places > 6 and abs(value) < 10.0 * half:
        near = value if abs(value) > 0.01 * half else 0.0
        return f"{near:.2g} ± {interval}".replace("-", "−")
    mantissa, _, exponent = f"{predicted:.6g}".partition("e")
    decimals = 0 if exponent else len(mantissa.partition(".")[2])
    digits = max(places, min(decimals, places + 3)) if decimals else places
    return f"{round(value, digits) + 0.0:.{max(0, digits)}f} ± {interval}".replace("-", "−")


def bounded(value: float, low: float, high: float) -> tuple[str, str]:
    """Format a number and its interval with two significant digits of half the interval.

    >>> bounded(0.519041, 0.4992, 0.53889), bounded(1.0, 1.0, 1.0)
    (('0.519', '[0.499, 0.539]'), ('1', '[1, 1]'))
    """
    half = (high - low) / 2.0
    text, *ends = (measurement(each, half, 0.0).partition(" ±")[0] for each in (value, low, high))
    return text, f"[{', '.join(ends)}]"


def plural(count: float, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1."""
    return f"{count:{'' if isinstance(count, int) else 'g'}} {noun}{'s' * (count != 1)}"
