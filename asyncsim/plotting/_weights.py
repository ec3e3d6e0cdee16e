"""Where the weight of one batch sits: shares of the total importance weight, sorted, with the effective sample size."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from asyncsim.base import checks
from asyncsim.plotting import _style


def weights(log_ratios: Any, predicted: float | None = None) -> Figure:
    """Draw the shares of the total importance weight in one batch, largest first, and mark the effective sample size.

    share_i = W_i / sum_j W_j with W = exp(log_ratios), ESS = 1 / sum_i share_i^2. The samples that carry half of the
    weight have a color of their own; the dotted line is the share of a sample in a batch of equal weights.

    Arguments: `log_ratios` `[sample]`, the log importance ratio of each response in nats; `predicted`, the ESS / N of a
    large batch, drawn dashed. Returns a matplotlib figure that a notebook shows. Raises `InputError` for log ratios
    that are not finite, and for a prediction outside [0, 1]. Source: ESS of Kong (1992).

    >>> figure = weights([0.0, 0.0, 0.0, 0.0], predicted=1.0)
    >>> figure.axes[0].get_title("left")
    '2 of 4 samples carry half of the weight (ESS 4.0)'
    """
    log = checks.finite_array("log_ratios", log_ratios, (None,), "give one finite number a sample")
    checks.require(len(log) > 0, "log_ratios", "no numbers", "one a sample", "draw a batch first")
    remedy = "give ESS / N of a large batch"
    ceiling = None if predicted is None else checks.real("predicted", predicted, remedy, 0.0, 1.0)
    # Only ratios of weights matter, so the largest is set to 1 before it can overflow.
    shares = np.sort(np.exp(log - log.max()))[::-1]
    shares /= shares.sum()
    count, ess = len(shares), 1.0 / float(shares @ shares)
    carrying = min(count, 1 + int(np.searchsorted(shares.cumsum(), 0.5 - 1e-9)))
    with _style.applied():
        figure = _style.picture(1.7 * _style.COLUMN, 2.5)
        ax = figure.subplots()
        edges = np.arange(count + 1.0)
        contrast, usual = _style.COLORS["contrast"], _style.COLORS["measured"]
        ax.stairs(shares[:carrying], edges[: carrying + 1], fill=True, color=contrast, label="half of the weight")
        ax.stairs(shares[carrying:], edges[carrying:], fill=True, color=usual, label="the other half")
        ax.axhline(1.0 / count, **_style.REFERENCE, label="equal weights")
        ax.axvline(ess, color=usual, linewidth=1.3, label="ESS of this batch")
        if ceiling is not None:
            ax.axvline(ceiling * count, **_style.PREDICTED, label="ESS, predicted")
        ax.set(xlim=(0, count), ylim=(0, None), xlabel="samples of the batch, sorted", ylabel="share of the weight")
        ax.set_title(f"{carrying} of {count} samples carry half of the weight (ESS {ess:.1f})")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure
