"""The table of docs/diagnose.md: the ESS that a KL implies, by quadrature of normal log ratios."""

from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "diagnose.md"


def test_the_table_is_the_quadrature_of_normal_log_ratios():
    """Log ratio l ~ N(-v/2, v) under the sampler: E e^l = 1, KL = -E l. Planted: a variance of KL in place of 2 KL."""
    text = PAGE.read_text(encoding="utf-8").split("## Which ESS does a KL imply?")[1].split("## ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| 0.")]
    assert len(rows) == 4
    x, weight = np.polynomial.hermite_e.hermegauss(80)
    weight /= weight.sum()
    for row in rows:
        kl, *printed = map(float, row)
        found = {}
        for v in (2 * kl, kl):
            log = x * v**0.5 - v / 2
            one = (weight @ np.exp(log)) ** 2 / (weight @ np.exp(2 * log))
            found[v] = [one**n for n in (1, 100, 500, 2000)]
        assert -weight @ (x * (2 * kl) ** 0.5 - kl) == pytest.approx(kl)
        assert printed == pytest.approx(found[2 * kl], rel=0.05)
        assert printed != pytest.approx(found[kl], rel=0.05)
