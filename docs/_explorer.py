"""The explorer: one page to play with, its formulas checked against theory, its marks from committed rows."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from latex2mathml.converter import convert
from scipy.special import log_softmax

from asyncsim import claims
from asyncsim.app import reporting
from asyncsim.claims import _registry
from asyncsim.claims._recursion import autocovariance
from experiments import _store

HERE = Path(__file__).parent
FORMULA = re.compile(r'<p class="formula">.*')
DIGITS = 6
PLACES = 9
"""Decimals of values of theory: further ones are those of one processor's matrix products."""


def page() -> str:
    """The page with its data."""
    text = (HERE / "_explorer.html").read_text(encoding="utf-8")
    named = dict.fromkeys(re.findall(r'href="#(\w+/[\w-]+)"', text))
    text = FORMULA.sub(lambda found: re.sub(r"\$(.*?)\$", _set, found[0]), text)
    text = text.replace("<!--CLAIMS-->", "\n".join(map(_claim, named)))
    return text.replace("/*DATA*/null", json.dumps(data(), separators=(",", ":")))


def _set(found: re.Match[str]) -> str:
    """A formula of the page in LaTeX as MathML."""
    return re.sub(r"<math[^>]*>", '<math displaystyle="true">', convert(found[1]))


def _claim(id: str) -> str:
    """A claim that panels link to: its statement, the command that tests it, and what its symbols mean."""
    text = claims.claim(id).statement
    statement = reporting.rendered(f"{text[0].upper()}{text[1:]}.")
    shared, own = _registry.symbols(id, text)
    told = (f"{reporting.rendered(f'`{name}`')}: {reporting.rendered(said)}" for name, said in (shared | own).items())
    words = f'<p class="small">{"; ".join(told)}</p>' if shared or own else ""
    return f'<dt id="{id}">{id}</dt><dd>{statement} <code>asyncsim verify {id}</code>{words}</dd>'


def data() -> dict[str, Any]:
    """Measured points of committed rows, and values of theory that the page's formulas have to give."""
    stability, ess = _store.read("stability"), _store.read("vcpo_ess")
    edge = stability[(stability.quantity == "boundary") & (stability.schedule == "fixed")]
    lags = stability[stability.quantity == "autocorrelation"]
    means = ess[(ess.part == "start") & (ess.reward == "tokens") & ess.replicate.isna()]
    pairs = means.pivot_table(index=["length", "staleness"], columns="quantity", values="value")
    first = ess[(ess.part == "update") & (ess.reward == "tokens")].set_index("quantity").value
    return {
        "boundary": [_short(row.staleness, row.value * row.curvature) for row in edge.itertuples()],
        "correlations": {
            "staleness": int(lags.staleness.iloc[0]),
            "step": _digits(lags.step.iloc[0] * lags.curvature.iloc[0]),
            "points": [_short(row.lag, row.value) for row in lags.itertuples()],
        },
        "ess": [_short(row.log_variance, row.ess) for row in pairs.itertuples()],
        "drift": _digits(first.drift),
        "batch": int(ess.batch.iloc[0]),
        "checks": checks(),
    }


def checks() -> list[list[Any]]:
    """Formula, arguments, and what the theory of the package gives, to `PLACES` decimals."""
    edge = claims.claim("staleness/stability-boundary")
    found: list[list[Any]] = [
        ["boundary", [s], edge.predict({"staleness": s, "curvatures": (1.0,)})["step"]] for s in (0, 1, 4, 16)
    ]
    for s, a in ((0, 0.5), (1, 0.6), (4, 0.28), (8, 0.15)):
        power, products = autocovariance(1.0, a, 1.0, s, range(1, 2 * s + 4))
        found.append(["correlations", [s, a, 2 * s + 3], [1.0, *(product / power for product in products)]])
    policies = {"behavior_logits": (0.3, -0.2, 0.5, 0.0), "current_logits": (2.5, -1.9, 0.1, 0.0)}
    old, now = map(log_softmax, policies.values())
    for N in (2, 64):
        theory = claims.claim("ess/finite-sample").predict({"samples": N, "horizon": 1, **policies})["ess"]
        found.append(["finite", [(now - old).tolist(), np.exp(old).tolist(), N], theory])
    # A normal log ratio under the current policy has mean variance / 2, so that ratios have mean 1.
    found += [["ess", [v], math.exp(-v)] for v in (0.0, 0.5, 3.0)]
    point = {"tickets": 40, "publish_groups": 8, "release": "publish", "zero_train_time": False}
    found.append(["staleness", [40, 8], claims.claim("systems/cap-binds").predict(point)["mean"]])
    return [[name, rounded(point), rounded(value)] for name, point, value in found]


def rounded(value: Any) -> Any:
    """Numbers, and lists of them, to `PLACES` decimals."""
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else np.round(value, PLACES).tolist()


def _short(*values: Any) -> list[float]:
    return [_digits(value) for value in values]


def _digits(value: Any) -> float:
    return float(f"{float(value):.{DIGITS}g}")
