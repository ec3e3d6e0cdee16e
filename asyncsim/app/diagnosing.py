"""What `asyncsim diagnose` prints and writes: findings as lines, one HTML page, or Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from asyncsim.app import reporting
from asyncsim.base import files
from asyncsim.base.notation import measurement

if TYPE_CHECKING:
    from asyncsim.diagnosing import Diagnosis, Finding

TITLE = "asyncsim: telemetry beside its predictions"
TEMPLATE = "diagnosis.html.jinja"
CLASSES = {"as predicted": "held", "differs": "violated", "cannot tell": "inconclusive"}
HARMLESS = "Nothing to do."
SIGNS = {"as predicted": "✓", "differs": "✗", "cannot tell": "?"}


def write(diagnosis: Diagnosis, path: Path, title: str = TITLE) -> None:
    """Write findings to one HTML file that needs nothing else; to Markdown where the path ends in .md."""
    text = (_markdown if str(path).lower().endswith(reporting.MARKDOWN) else _html)(diagnosis, title)
    files.write_atomically(path, lambda file: file.write(text.encode()))


def _order(diagnosis: Diagnosis) -> list[Finding]:
    return sorted(diagnosis.findings, key=lambda each: ("differs", "as predicted", "cannot tell").index(each.verdict))


def measured(finding: Finding) -> str:
    """A measurement with half of its interval and its unit; a dash where there is none."""
    if finding.measured is None or finding.low is None or finding.high is None:
        return "—"
    half = (finding.high - finding.low) / 2.0
    return f"{measurement(finding.measured, half, 0.0)} {finding.unit}".strip()


def predicted(finding: Finding) -> str:
    """The predicted number or range; a dash where there is none."""
    if finding.predicted is None:
        return "—"
    low, high = finding.predicted
    if low == high:
        return f"{low:.4g}"
    return f"at least {low:.4g}" if high == float("inf") else f"{low:.4g} to {high:.4g}"


def _facts(diagnosis: Diagnosis) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in diagnosis.counts.items())
    rate = f"At most {diagnosis.level:.1%} of healthy runs have a finding that differs."
    return f"{diagnosis.steps} steps. {counts}. {rate}"


def _markdown(diagnosis: Diagnosis, title: str) -> str:
    heads = ["question", "verdict", "cause", "measured", "predicted", "claim"]
    lines = [f"# {reporting.escaped(title)}", "", reporting.escaped(_facts(diagnosis)), ""]
    lines += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    found = _order(diagnosis)
    for each in found:
        cells = [each.question, each.verdict, each.cause, measured(each), predicted(each), f"`{each.claim}`"]
        lines.append("| " + " | ".join(reporting.escaped(cell) for cell in cells) + " |")
    for each in found:
        lines += ["", f"## {reporting.escaped(each.question)}: {each.verdict}", ""]
        lines += [reporting.escaped(f"{each.sentence} {each.action}")]
    return "\n".join(lines) + "\n"


def _html(diagnosis: Diagnosis, title: str) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"measured": measured, "predicted": predicted, "coded": reporting.coded}
    here = Path(__file__)
    # One style for both pages: it stands in the report's template.
    report = here.with_name(reporting.TEMPLATE).read_text(encoding="utf-8")
    style = report.partition("<style>")[2].partition("</style>")[0]
    about: dict[str, Any] = {"found": _order(diagnosis), "facts": _facts(diagnosis), "harmless": HARMLESS}
    about |= {"classes": CLASSES, "signs": SIGNS}
    template = environment.from_string(here.with_name(TEMPLATE).read_text(encoding="utf-8"))
    return template.render(title=title, style=Markup(style), diagnosis=diagnosis, **about)
