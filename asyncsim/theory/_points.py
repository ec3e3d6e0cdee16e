"""Names of predicted quantities."""

from __future__ import annotations

from typing import Any

import numpy as np

Quantities = dict[str, float]


def indexed(stem: str, values: Any) -> Quantities:
    """Components of a vector as quantities `stem[0]`, `stem[1]`, ...

    >>> indexed("pi", [0.25, 0.75])
    {'pi[0]': 0.25, 'pi[1]': 0.75}
    """
    return {f"{stem}[{k}]": float(v) for k, v in enumerate(np.ravel(values))}
