"""Output of `asyncsim diagnose`: findings as lines, as an HTML page, or as Markdown."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from asyncsim.app import reporting
from asyncsim.base import checks, files
from asyncsim.base.notation import measurement

if TYPE_CHECKING:
    from asyncsim.diagnosing import Diagnosis, Finding

TITLE = "asyncsim: telemetry beside its predictions"
TEMPLATE = "diagnosis.html.jinja"
CLASSES = {"as predicted": "held", "differs": "violated", "cannot tell": "inconclusive"}
HARMLESS = "Nothing to do."
SIGNS = {"as predicted": "✓", "differs": "✗", "cannot tell": "?"}


def write(diagnosis: "Diagnosis", path: Path, title: str = TITLE) -> None:
    """Write findings to one self-contained HTML file, or to Markdown if the path ends in .md."""
    counts = ", ".join(f"{count} {name}" for name, count in diagnosis.counts.items())
    rate = f"At most {diagnosis.level:.1%} of healthy runs have a finding that differs."
    facts, found = f"{diagnosis.steps} steps. {counts}. {rate} {diagnosis.health}".strip(), diagnosis.ordered
    if str(path).lower().endswith(reporting.MARKDOWN):
        heads = ["question", "verdict", "cause", "measured", "predicted", "claim"]
        rows = [[x.question, x.verdict, x.cause, measured(x), predicted(x), f"`{x.claim}`"] for x in found]
        parts = [f"# {reporting.escaped(title)}", reporting.escaped(facts), reporting.table(heads, rows)]
        for each in found:
            parts.append(f"## {reporting.escaped(each.question)}: {each.verdict}")
            parts.append(reporting.escaped(f"{each.sentence} {each.action}"))
        text = "\n\n".join(parts) + "\n"
    else:
        # One style for both pages: it stands in the report's template.
        style = Markup(checks.resource(__file__, reporting.TEMPLATE).partition("<style>")[2].partition("</style>")[0])
        about: dict[str, Any] = {"found": found, "facts": facts, "harmless": HARMLESS, "classes": CLASSES}
        about |= {"signs": SIGNS, "title": title, "style": style, "diagnosis": diagnosis}
        filters = {"measured": measured, "predicted": predicted, "coded": reporting.coded}
        text = reporting.filled(TEMPLATE, filters, **about)
    files.write_atomically(path, lambda file: file.write(text.encode()))


def measured(finding: "Finding") -> str:
    """Format a finding's measurement with half its interval and its unit; a dash if it has none."""
    if finding.measured is None or finding.low is None or finding.high is None:
        return "—"
    half = (finding.high - finding.low) / 2.0
    return f"{measurement(finding.measured, half, 0.0)} {finding.unit}".strip()


def predicted(finding: "Finding") -> str:
    """Format a finding's predicted number or range; a dash if it has none."""
    if finding.predicted is None:
        return "—"
    low, high = finding.predicted
    if low == high:
        return f"{low:.4g}"
    return f"at least {low:.4g}" if high == float("inf") else f"{low:.4g} to {high:.4g}"
