"""`write_report`: verdicts as one HTML file that needs nothing else, for a laptop and a phone; or as Markdown."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.app import judgments, markdown
from asyncsim.app.formulas import rendered
from asyncsim.app.page import TOGETHER, Page, cost, detection, families, measured, point_text, rate
from asyncsim.base import checks, files, records
from asyncsim.base.notation import number
from asyncsim.plotting import _curves

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = "report.html.jinja"
TITLE = "asyncsim: every claim beside its measurement"
SHOWN, LEAST = 12, 8
"""Comparisons that a section shows at once, and how many of least margin it shows where there are more."""
MOST = 100
"""Comparisons that it shows behind a click; one claim has five hundred."""
MARKDOWN = (".md", ".markdown")
"""Endings of a report in Markdown; every other is HTML."""


def write_report(
    verdicts: Sequence[records.Verdict] | records.Verdict,
    manifest: Mapping[str, Any],
    path: str | os.PathLike[str],
    title: str = TITLE,
    references: Mapping[str, str] | None = None,
    predictions: Mapping[str, _curves.Prediction] | None = None,
) -> Path:
    """Write verdicts with their figures, points and planted defects to one HTML file, atomically.

    Where the path ends in .md it is Markdown: a table of the claims, then what is violated or not tight.

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
    verdicts = [verdicts] if isinstance(verdicts, records.Verdict) else list(verdicts)
    checks.require(bool(verdicts), "verdicts", verdicts, "at least one", "verify a claim first")
    return write_page(Page(verdicts, manifest), path, title, references, predictions)


def write_page(
    page: Page,
    path: str | os.PathLike[str],
    title: str = TITLE,
    references: Mapping[str, str] | None = None,
    predictions: Mapping[str, _curves.Prediction] | None = None,
) -> Path:
    """Write all of a page; arguments as in `write_report`."""
    if str(path).lower().endswith(MARKDOWN):
        text = markdown.text(page, title)
    else:
        text = html(page, title, references or {}, predictions or {})
    files.write_atomically(path, lambda file: file.write(text.encode()))
    return Path(path)


def html(page: Page, title: str, references: Mapping[str, str], predictions: Mapping[str, _curves.Prediction]) -> str:
    """The page as HTML."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "number": number,
        "measured": measured,
        "rate": rate,
        "anchor": anchor,
        "point": point_text,
        "comparisons": comparisons,
        "figure": lambda verdict: figure(verdict, predictions.get(verdict.id)),
        "deviation": deviation,
        "formulas": rendered,
        "lowering": lambda term: term.lowering,
        "beside": page.beside,
        "coded": coded,
        "steps": lambda verdict: judgments.steps(verdict, page),
    }
    promised = (page.manifest.get("spec") or {}).get("false_pass", math.nan)
    template = environment.from_string(Path(__file__).with_name(TEMPLATE).read_text(encoding="utf-8"))
    return template.render(
        title=title,
        page=page,
        verdicts=page.verdicts,
        families=families(page.verdicts),
        summary=page.summary | {"promised": promised, "together": TOGETHER, "cost": cost(page.summary)},
        bets=judgments.bets(page),
        planted_rows=[] if page.coverage is None else page.coverage["rows"],
        detection=detection,
        references=references,
        manifest={key: value for key, value in records.plain(page.manifest).items() if value is not None},
        json=lambda value: json.dumps(value, indent=1, ensure_ascii=False),
    )


def coded(text: str) -> Markup:
    """A text with what stands between backticks as code."""
    from markupsafe import Markup

    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if k % 2 else part for k, part in enumerate(parts))


def anchor(id: str) -> str:
    """The id of a claim as the target of a link."""
    return id.replace("/", "-").replace(" ", "-")


def comparisons(verdict: records.Verdict) -> dict[str, Any]:
    """Comparisons as a section shows them, each with the number of its point.

    `first` and `more`: those shown at once, and those behind a click; `left`, how many are shown nowhere. `shared`:
    parameters that all points have alike; `points`: the others, point by point.
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
    more = [each for each in rows if not any(each is one for one in first)]
    kept = {id(each) for each in sorted(more, key=lambda each: each[1].margin)[:MOST]}
    return {
        "first": first,
        "more": [each for each in more if id(each) in kept],
        "left": max(0, len(more) - MOST),
        "shared": {key: points[0][key] for key in alike},
        "points": [{key: value for key, value in point.items() if key not in alike} for point in points],
    }


def _same(point: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key in point and repr(point[key]) == repr(other[key])


def figure(verdict: records.Verdict, predict: _curves.Prediction | None = None) -> Markup:
    """Panels with predicted curves and measured points, as SVG; empty where no parameter varies."""
    from markupsafe import Markup

    return Markup("".join(_curves.panel(panel) for panel in _curves.panels(verdict, predict)))


def deviation(row: records.Comparison, kind: str) -> Markup:
    """The comparison's deviation as a mark on the band of its effect."""
    from markupsafe import Markup

    return Markup(_curves.deviation(row, kind))
