"""`write_report`: verdicts as one HTML file that needs nothing else, for a laptop and a phone."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.app.formulas import rendered
from asyncsim.base import checks, files, records
from asyncsim.base.notation import measurement, number
from asyncsim.plotting import _curves, _svg

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = "report.html.jinja"
TITLE = "asyncsim: every claim beside its measurement"
SHOWN, LEAST = 12, 8
"""Comparisons that a section shows at once, and how many of least margin it shows where there are more."""


def write_report(
    verdicts: Sequence[records.Verdict] | records.Verdict,
    manifest: Mapping[str, Any],
    path: str | os.PathLike[str],
    title: str = TITLE,
    references: Mapping[str, str] | None = None,
    predictions: Mapping[str, _curves.Prediction] | None = None,
) -> Path:
    """Write verdicts with their figures, points and planted defects to one HTML file, atomically.

    Arguments: `verdicts`, at least one; `manifest`, what they were measured on (`base.manifest`); `path` of the file;
    `title`. `references`: claim id to the source of its statement. `predictions`: claim id to what predicts at a point,
    so that curves go on between measured points.
    Returns the path. Raises `InputError` without verdicts or for a path that cannot be written.

    >>> import asyncsim as sim, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(sim.verify("estimator/full-is"), {"seed": 0}, folder + "/report.html")
    ...     "estimator/full-is" in path.read_text(encoding="utf-8")
    True
    """
    from jinja2 import Environment, StrictUndefined

    verdicts = [verdicts] if isinstance(verdicts, records.Verdict) else list(verdicts)
    checks.require(bool(verdicts), "verdicts", verdicts, "at least one", "verify a claim first")
    # Fill the template.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "number": number,
        "measured": measured,
        "rate": rate,
        "anchor": anchor,
        "point": point_text,
        "comparisons": comparisons,
        "figure": lambda verdict: figure(verdict, (predictions or {}).get(verdict.id)),
        "deviation": deviation,
        "formulas": rendered,
        "lowering": lambda term: term.lowering,
    }
    template = environment.from_string(Path(__file__).with_name(TEMPLATE).read_text(encoding="utf-8"))
    text = template.render(
        title=title,
        verdicts=verdicts,
        families=families(verdicts),
        summary=summary(verdicts) | {"promised": (manifest.get("spec") or {}).get("false_pass", math.nan)},
        references=references or {},
        manifest={key: value for key, value in records.plain(manifest).items() if value is not None},
        json=lambda value: json.dumps(value, indent=1, ensure_ascii=False),
    )
    # Write the page.
    files.write_atomically(path, lambda file: file.write(text.encode()))
    return Path(path)


def summary(verdicts: Sequence[records.Verdict]) -> dict[str, Any]:
    """Counts and error rates: `counts` by verdict, `false_fail` of one and of all, `false_pass`, defects caught."""
    fails = [v.false_fail for v in verdicts if math.isfinite(v.false_fail)]
    passes = [v.false_pass for v in verdicts if v.verdict == "held" and math.isfinite(v.false_pass)]
    totals: dict[str, Any] = {
        "counts": {name: Counter(v.verdict for v in verdicts)[name] for name in records.VERDICTS},
        "false_fail": max(fails, default=math.nan),
        "false_fail_of_all": min(1.0, sum(fails)),
        "false_pass": max(passes, default=math.nan),
        "seconds": sum(v.seconds for v in verdicts),
        "open": sum(v.status == "open" for v in verdicts),
    }
    for kind in ("defects", "formula_defects"):
        planted = [defect for v in verdicts for defect in getattr(v, kind)]
        totals[kind] = {"planted": len(planted), "caught": sum(defect["verdict"] == "violated" for defect in planted)}
    return totals


def families(verdicts: Sequence[records.Verdict]) -> list[tuple[str, list[records.Verdict]]]:
    """Verdicts by the first word of their id, in order."""
    found: dict[str, list[records.Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.id.partition("/")[0], []).append(verdict)
    return list(found.items())


def measured(row: records.Comparison | records.Verdict) -> str:
    """A measurement with half of its interval, in figures that compare with the prediction's."""
    if not math.isfinite(row.measured):
        return "diverged" if row.verdict == "violated" else "—"
    return measurement(row.measured, (row.high - row.low) / 2.0, row.predicted)


def rate(value: float) -> str:
    """A probability in words, a very small one as a bound.

    >>> rate(0.0004), rate(1e-30), rate(0.0)
    ('0.0004', 'below 1e-06', '0')
    """
    if not math.isfinite(value):
        return "—"
    return "below 1e-06" if 0.0 < value < 1e-6 else f"{value:.2g}"


def anchor(id: str) -> str:
    """The id of a claim as the target of a link."""
    return id.replace("/", "-").replace(" ", "-")


def comparisons(verdict: records.Verdict) -> dict[str, Any]:
    """Comparisons as a section shows them, each with the number of its point.

    `first` and `more`: those shown at once, and those behind a click; `shared`: parameters that all points have alike;
    `points`: the others, point by point.
    """
    places = {repr(row.point): row.point for row in verdict.points}
    numbers = {name: number for number, name in enumerate(places, 1)}
    points = list(places.values())
    rows = [(numbers[repr(row.point)], row) for row in verdict.points]
    least = sorted((row.margin for row in verdict.points), key=lambda margin: (math.isnan(margin), margin))
    limit = math.inf if len(rows) <= SHOWN else least[LEAST - 1]
    first = [each for each in rows if len(rows) <= SHOWN or each[1].margin <= limit][:SHOWN]
    common = {key for key in points[0] if all(_same(point, points[0], key) for point in points)}
    alike = [key for key in points[0] if key in common and len(points) > 1]
    return {
        "first": first,
        "more": [each for each in rows if not any(each is one for one in first)],
        "shared": {key: points[0][key] for key in alike},
        "points": [{key: value for key, value in point.items() if key not in alike} for point in points],
    }


def _same(point: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key in point and repr(point[key]) == repr(other[key])


def point_text(point: Mapping[str, Any]) -> str:
    """The parameters of a point on one line."""
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}" for key, value in point.items()
    )


def figure(verdict: records.Verdict, predict: _curves.Prediction | None = None) -> Markup:
    """Panels with predicted curves and measured points, as SVG; empty where no parameter varies."""
    from markupsafe import Markup

    return Markup("".join(_svg.panel(panel) for panel in _curves.panels(verdict, predict)))


def deviation(row: records.Comparison, kind: str) -> Markup:
    """The comparison's deviation as a mark on the band of its effect."""
    from markupsafe import Markup

    return Markup(_svg.deviation(row, kind))
