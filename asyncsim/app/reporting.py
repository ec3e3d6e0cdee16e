"""`write_report`: verdicts as one HTML file that needs nothing else, for a laptop and a phone."""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.base import checks, files, records
from asyncsim.base.notation import measurement, number

if TYPE_CHECKING:
    from markupsafe import Markup

TEMPLATE = "report.html.jinja"
TITLE = "asyncsim: every claim beside its measurement"
SIGNS = {"*", "/", "+", "-", "=", "<", ">", "<=", ">="}
FORMULA = re.compile(
    r"[A-Z]|[-+]?\d[\d.]*|tau|mu|pi|chi|delta|Delta|.*(\w_[\w+]|\w\^|[\w)\]][*=]|[A-Z\d)\]]/|/[\d(]|[A-Z\d]-[A-Z\d]|\w\(\w).*"
)
"""A word that belongs to a formula: one capital, a number, a Greek letter, or signs between letters."""
PROSE = {"A", "I", "a", "is", "iff", "of", "by", "and", "or", "the", "at", "to", "in", "with", "per"}
PIXELS = 118
"""Screen pixels for an inch of a figure: its small type, made for print, then reads like the text around it."""


def write_report(
    verdicts: Sequence[records.Verdict] | records.Verdict,
    manifest: Mapping[str, Any],
    path: str | os.PathLike[str],
    title: str = TITLE,
    references: Mapping[str, str] | None = None,
) -> Path:
    """Write verdicts with their figures, points and planted defects to one HTML file, atomically.

    Arguments: `verdicts`, at least one; `manifest`, what they were measured on (`base.manifest`); `path` of the file;
    `title`. `references`: claim id to the source of its statement.
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
        "numbered": numbered,
        "figure": figure,
        "formulas": formulas,
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


def formulas(text: str) -> Markup:
    """A statement as HTML, its formulas set as code: words that look like one, what signs join, what brackets hold.

    >>> str(formulas("stable iff step * curvature < 2 sin(pi/(2 tau+1))"))
    'stable iff <code>step * curvature &lt; 2 sin(pi/(2 tau+1))</code>'
    """
    from markupsafe import Markup

    words = text.split()
    inside = [word in SIGNS or (bool(FORMULA.fullmatch(word.rstrip(",;.:"))) and word not in PROSE) for word in words]
    for k, word in enumerate(words):
        if word in SIGNS:
            for near in (k - 1, k + 1):
                inside[near % len(words)] |= 0 <= near < len(words) and words[near] not in PROSE
    close_brackets(words, inside)
    parts: list[Markup] = []
    for code, run in itertools.groupby(zip(inside, words, strict=True), key=lambda pair: pair[0]):
        plain = " ".join(word for _, word in run)
        end = plain[len(plain.rstrip(",;:")) :]
        parts.append(Markup("<code>{}</code>{}").format(plain.removesuffix(end), end) if code else Markup.escape(plain))
    return Markup(" ").join(parts)


def close_brackets(words: Sequence[str], inside: list[bool]) -> None:
    """Widen every run of words inside a formula until its brackets balance, as far as the text goes."""
    for step in (1, -1):
        opening, closing = ("([", ")]") if step > 0 else (")]", "([")
        depth = 0
        for k in range(len(words))[::step]:
            if inside[k] or depth > 0:
                inside[k] = True
                change = sum(sign in opening for sign in words[k]) - sum(sign in closing for sign in words[k])
                depth = max(0, depth + change)


def numbered(rows: Sequence[records.Comparison]) -> list[tuple[int, records.Comparison]]:
    """Comparisons with the number of their point, counted as the labels of figures count."""
    points = list({repr(row.point): None for row in rows})
    return [(1 + points.index(repr(row.point)), row) for row in rows]


def point_text(point: Mapping[str, Any]) -> str:
    """The parameters of a point on one line."""
    return ", ".join(
        f"{key} = {value:.6g}" if isinstance(value, float) else f"{key} = {value}" for key, value in point.items()
    )


def figure(verdict: records.Verdict) -> dict[str, Any]:
    """The verdict's figure as the source of an image, with the width it should have on a screen."""
    from asyncsim.plotting import plot
    from asyncsim.plotting._style import encode

    picture = plot(verdict)
    # A hundredth of a pixel is enough for lines; words keep their digits.
    text = encode(picture, "svg", letters=True).decode()
    text = re.sub(r' d="[^"]+"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)
    data = base64.b64encode(text.encode()).decode()
    return {"source": f"data:image/svg+xml;base64,{data}", "width": round(PIXELS * picture.get_figwidth())}
