"""What the figures on language models share: means of replicates with intervals, verdicts by one rule, numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from asyncsim.plotting import _style
from paper_figures import _claim, _script

NEAR = 0.1
"""An interval meets a prediction that it contains to within a tenth of it."""
MODELS = {"char": "character model", "smollm2": "SmolLM2"}


def interval(values: Any) -> tuple[float, float]:
    """Mean over replicates that have a value, and half of its 95 percent interval."""
    known = values[np.isfinite(values)].to_numpy()
    return _script.interval(known) if len(known) else (np.nan, np.nan)


def means(rows: Any, *by: str, **place: Any) -> Any:
    """Mean over replicates with its 95 percent interval, a row for each distinct place of the columns `by`."""
    own = _script.pick(rows, **place)
    found = []
    for key, group in own.groupby(list(by), sort=True):
        value, reach = interval(group.value)
        found.append({**dict(zip(by, key, strict=True)), "value": value, "low": value - reach, "high": value + reach})
    return pd.DataFrame(found, columns=[*by, "value", "low", "high"])


def mean(rows: Any, **place: Any) -> Any:
    """The one mean at a place."""
    value, reach = interval(_script.pick(rows, **place).value)
    return pd.Series({"value": value, "low": value - reach, "high": value + reach})


def meets(row: Any, told: float) -> bool:
    """Whether an interval contains a prediction to within a tenth of it; one wider than twice that says nothing."""
    near = NEAR * abs(told)
    return bool(row.low - near <= told <= row.high + near and row.high - row.low <= 2 * abs(told))


def word(kept: list[bool]) -> str:
    """The verdict on statements of which some hold, by the rule of claims."""
    share = sum(kept) / len(kept)
    return _claim.word(share, 1.0 - share)


def count(kept: list[bool]) -> str:
    """How many hold, of how many."""
    return f"{sum(kept)} of {len(kept)}"


def points(ax: Axes, x: Any, own: Any, color: Any, **look: Any) -> Any:
    """Means with their intervals at these places, joined by a thin line."""
    reach = [own.value - own.low, own.high - own.value]
    style = {**_style.MEASURED, "linestyle": "solid", "linewidth": 0.7, "color": color, **look}
    return ax.errorbar(np.asarray(x, dtype=float), own.value, yerr=reach, **style)


def value(row: Any, digits: int = 2) -> str:
    """A mean with half of its interval."""
    return f"{row.value:.{digits}f} ± {(row.high - row.low) / 2:.{digits}f}".replace("-", "−")


def levels(ax: Axes, places: Any) -> None:
    """Ticks at levels of staleness on an axis of logarithms; 0 is no place of it."""
    ax.set_xscale("symlog", base=2, linthresh=1) if 0 in set(places) else ax.set_xscale("log", base=2)
    ax.set_xticks(list(places), [f"{place:g}" for place in places])
    ax.minorticks_off()
