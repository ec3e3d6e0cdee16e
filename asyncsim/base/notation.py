"""The words of the project with their symbol and unit; axes and columns take their labels here."""

import math
import tomllib
from pathlib import Path
from typing import NamedTuple


class Word(NamedTuple):
    """A term: LaTeX symbol, unit ("" for a pure number), and its name on an axis.

    `name` stands where the identifier is an abbreviation or says too little; "" where the symbol says it all.
    """

    symbol: str
    unit: str
    name: str | None = None


_TABLE = tomllib.loads(Path(__file__).with_name("notation.toml").read_text("utf-8"))
WORDS = {name: Word(*parts) for name, parts in _TABLE.items()}
TRAINED = "trained_return"
"""The metric that every task answers and that settings are compared by: the return of the policy that is trained."""
BEHAVIOR = ("batch_return", "episode_return")
RETURNS = (TRAINED, *BEHAVIOR, "exact_return")  # the task states their range and best value
"""Returns of the data: of policies as old as these are, whose reward says nothing of what was learned since."""


def whose(name: str) -> str:
    """A metric's name, with whose return it is where that is not the trained policy.

    >>> whose("trained_return"), whose("batch_return")
    ('trained_return', 'batch_return (behavior policy)')
    """
    return f"{name} (behavior policy)" if name in BEHAVIOR else name


def label(name: str) -> str:
    """Axis label of a word: its name in plain words with symbol and unit; a count needs no unit beside its name.

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
    """A number in six figures; a dash where there is none.

    >>> number(1 / 3), number(float("nan"))
    ('0.333333', '—')
    """
    return f"{value:.6g}".replace("-", "−") if math.isfinite(value) else "—"


def measurement(value: float, half: float, predicted: float) -> str:
    """A measurement with half of its interval: two figures of that half, or the places of the prediction if more.

    An interval below the figures shown is left out.

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
    return f"{round(value, digits):.{max(0, digits)}f} ± {interval}".replace("-", "−")


def plural(count: float, noun: str) -> str:
    """A count with its noun."""
    return f"{count:{'' if isinstance(count, int) else 'g'}} {noun}{'s' * (count != 1)}"


def unmarked(text: str) -> str:
    """A text without the backticks that mark its formulas, for where none are rendered.

    >>> unmarked("held at `N-1` updates")
    'held at N-1 updates'
    """
    return text.replace("`", "")
