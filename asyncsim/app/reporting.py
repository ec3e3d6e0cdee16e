"""A page of verdicts as one self-contained HTML file, for large and small screens; or as Markdown."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from asyncsim.app import judgments
from asyncsim.app.judgments import TOGETHER, Page, cost, detection, families, measured, point_text, rate
from asyncsim.base import files, records
from asyncsim.base.notation import number, plural
from asyncsim.plotting import _curves

TEMPLATE = "report.html.jinja"
SHOWN, LEAST = 12, 8
"""Number of comparisons shown at once in a section, and number of those with the smallest margins if there are more."""
MOST = 100
"""Maximum number of comparisons behind a click; one claim has five hundred."""
MARKDOWN = (".md", ".markdown")
"""Suffixes of a report in Markdown; any other is HTML."""
MARKED = re.compile("`([^`]+)`")
LETTERS = "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega zeta"
LETTERS += " Gamma Delta Theta"
FUNCTIONS = "sum exp log ln min max sin cos tan arcsin arctan"
PLAIN = r"<= \le >= \ge != \ne -> \to || \Vert * \cdot ~ \sim ∑ \sum ≤ \le ≥ \ge ² ^2 ³ ^3 √ sqrt \ \backslash"
SIGNS = dict(zip(PLAIN.split()[::2], PLAIN.split()[1::2], strict=True)) | {sign: rf"\{sign}" for sign in "%&#$"}
SIGN = re.compile("|".join(map(re.escape, SIGNS)))
WORDS = {name: f"\\{name} " for name in f"{LETTERS} {FUNCTIONS}".split()} | {"grad": r"\nabla ", "prod": r"\prod "}
WORDS |= {name: name for name in ("ceil", "floor", "sqrt")}
WORD = re.compile(r"(?<![A-Za-z\\])[A-Za-z]+")
GROUP = re.compile(r"(\^ ?|_ ?|sqrt ?|ceil|floor|(?:))\(([^()]*)\)")
"""Innermost brackets with the operator before them."""
GROUPS = {"^": "^{%s}", "_": "_{%s}", "sqrt": r"\sqrt{%s}", "ceil": r"\lceil %s\rceil ", "floor": r"\lfloor %s\rfloor "}
SCRIPT = re.compile(r"([\^_]) ?([-+]?(?:\\text\{\w+\}|\\[A-Za-z]+|\d+(?:\.\d+)?|\w|\[)|[-+★])")
JOINT = re.compile(r"(?<=[-+=<>,;:]) ")
"""Positions at which a long formula may be broken."""


def write_page(
    page: Page,
    path: str | os.PathLike[str],
    title: str = "",
    references: Mapping[str, str] | None = None,
    predictions: Mapping[str, _curves.Prediction] | None = None,
) -> Path:
    """Write verdicts with their figures, points and injected bugs to one file, atomically.

    If the path ends in .md it is Markdown: a table of the claims, then what is violated or not tight; else HTML.

    Arguments: `page`, with at least one verdict; `path` of the file; `title`, by
    default the number of claims. `references`: claim id to the source of
    its statement. `predictions`: claim id to what predicts at a point, so that curves go on between measured points.
    Returns the path. Raises `InputError` for a path that cannot be written.
    """
    title = title or f"asyncsim: {plural(len(page.verdicts), 'claim')} predicted and measured"
    if str(path).lower().endswith(MARKDOWN):
        text = markdown(page, title)
    else:
        text = html(page, title, references or {}, predictions or {})
    files.write_atomically(path, lambda file: file.write(text.encode()))
    return Path(path)


def html(page: Page, title: str, references: Mapping[str, str], predictions: Mapping[str, _curves.Prediction]) -> str:
    """The page as HTML."""
    filters: dict[str, Any] = {f.__name__: f for f in (number, plural, measured, rate, anchor, comparisons, coded)}
    filters |= {"point": point_text, "formulas": rendered, "beside": page.beside}
    filters |= {
        "figure": lambda verdict: figure(verdict, predictions.get(verdict.id)),
        "deviation": lambda row, kind: Markup(_curves.deviation(row, kind)),
        "lowering": lambda term: term.lowering,
        "steps": lambda verdict: judgments.steps(verdict, page),
    }
    promised = (page.manifest.get("spec") or {}).get("false_pass", math.nan)
    return filled(
        TEMPLATE,
        filters,
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


def filled(template: str, filters: Mapping[str, Any], **values: Any) -> str:
    """Fill a template of this folder with values; a missing value raises an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= filters
    return environment.from_string(Path(__file__).with_name(template).read_text(encoding="utf-8")).render(**values)


def coded(text: str) -> Markup:
    """Format text between backticks as code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if k % 2 else part for k, part in enumerate(parts))


def anchor(id: str) -> str:
    """The id of a claim as an anchor for links."""
    return id.replace("/", "-").replace(" ", "-")


def comparisons(verdict: records.Verdict) -> dict[str, Any]:
    """Comparisons for a section, each with the number of its point.

    `first` and `more`: those shown at once, and those behind a click; `left`, how many are not shown. `shared`:
    parameters that are equal at all points; `points`: the other parameters, by point.
    """
    places = {repr(row.point): row.point for row in verdict.points}
    numbers = {name: number for number, name in enumerate(places, 1)}
    points = list(places.values())
    rows = [(numbers[repr(row.point)], row) for row in verdict.points]
    least = sorted((row.margin for row in verdict.points), key=lambda margin: (math.isnan(margin), margin))
    limit = math.inf if len(rows) <= SHOWN else least[LEAST - 1]
    first = [each for each in rows if len(rows) <= SHOWN or each[1].margin <= limit][:SHOWN]
    alike = [
        k for k in points[0] if len(points) > 1 and all(k in p and repr(p[k]) == repr(points[0][k]) for p in points)
    ]
    more = [each for each in rows if not any(each is one for one in first)]
    kept = {id(each) for each in sorted(more, key=lambda each: each[1].margin)[:MOST]}
    return {
        "first": first,
        "more": [each for each in more if id(each) in kept],
        "left": max(0, len(more) - MOST),
        "shared": {key: points[0][key] for key in alike},
        "points": [{key: value for key, value in point.items() if key not in alike} for point in points],
    }


def figure(verdict: records.Verdict, predict: _curves.Prediction | None = None) -> Markup:
    """Panels with predicted curves and measured points, as SVG; empty if no parameter varies."""
    return Markup("".join(_curves.panel(panel) for panel in _curves.panels(verdict, predict)))


def markdown(page: Page, title: str) -> str:
    """The page as Markdown."""
    parts = [f"# {escaped(title)}", *_head(page), "## Claims", _claims(page)]
    unsettled = [v for v in page.verdicts if v.verdict != "held"]
    if unsettled:
        parts.append("## What is not held")
    for verdict in unsettled:
        parts += [f"### {verdict.id}: {verdict.verdict}", escaped(verdict.statement)]
        parts += [escaped(word) for word in (page.beside(verdict), verdict.reason) if word]
        worst = [row for row in verdict.points if row.verdict == verdict.verdict]
        if worst:
            heads = ["quantity", "predicted", "measured", "p", "point"]
            rows = [[r.quantity, number(r.predicted), measured(r), rate(r.p), point_text(r.point)] for r in worst]
            parts.append(table(heads, rows))
        parts += _list(judgments.steps(verdict, page) if verdict.verdict == "violated" else [])
    missed = judgments.missed(page.verdicts)
    if missed:
        parts += ["## Planted defects that were not caught", *_list(missed)]
    if page.coverage is not None:
        seen = page.coverage["rows"]
        rows = [[f"{r['file']}:{r['line']}", r["change"], r["text"], ", ".join(r["claims"]) or "—"] for r in seen]
        heads = ["place", "change", "statement", "claim that sees it"]
        parts += ["## What the claims see", detection(seen), table(heads, rows)]
    manifest = json.dumps(records.plain(page.manifest), indent=1, ensure_ascii=False)
    return "\n\n".join([*parts, "## What this was measured on", f"```json\n{manifest}\n```"]) + "\n"


def escaped(words: str) -> str:
    """Escape text for Markdown, also in table cells; only code between backticks is markup.

    >>> escaped("a*b | `c_d`"), escaped("grad[2]")
    ('a\\\\*b \\\\| `c_d`', 'grad\\\\[2]')
    """
    parts = re.split("(`[^`]*`)", " ".join(words.split()))
    signs = [re.compile(r"([\\|<*_\[])"), re.compile(r"([|])")]
    return "".join(signs[k % 2].sub(r"\\\1", part) for k, part in enumerate(parts))


def _head(page: Page) -> list[str]:
    """Lines with counts, rates, seconds and an explanation of the bets."""
    counts = page.summary["counts"].items()
    planted = page.summary["defects"]
    lines = [", ".join(f"{count} {word}" for word, count in counts if count or word in ("held", "violated"))]
    lines += [f"{judgments.together(page)}. False pass of those held: {rate(page.summary['false_pass'])} at most."]
    if planted["planted"]:
        lines.append(f"{planted['caught']} of {planted['planted']} planted defects turned their claim to violated.")
    lines += [f"Measured in {cost(page.summary)}.", *judgments.bets(page)]
    return [escaped(line[0].upper() + line[1:]) for line in lines]


def _claims(page: Page) -> str:
    heads = ["claim", "verdict", "quantity", "predicted", "measured", "false fail", "false pass", "p", "p after Holm"]
    heads += ["e"] * bool(page.evidence) + ["seconds"]
    rows = []
    for v in page.verdicts:
        rates = [rate(v.false_fail), rate(v.false_pass), rate(v.p), rate(page.holm[v.id])]
        own = page.evidence.get(v.id)
        money = ["—" if own is None else f"{own.e:.3g}"] * bool(page.evidence)
        row = [v.id, v.verdict, v.quantity, number(v.predicted), measured(v), *rates, *money, f"{v.seconds:.1f}"]
        rows.append(row)
    return table(heads, rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escaped(line)}" for line in lines)] if lines else []


def rendered(text: str) -> Markup:
    """Format text as HTML with formulas between backticks as mathematics; everything is escaped.

    >>> str(rendered("size `a < 2`"))
    'size <math><mi>a</mi><mo>&#x0003C;</mo><mn>2</mn></math>'
    """
    parts = MARKED.split(text)
    return Markup("").join(formula(part) if k % 2 else part for k, part in enumerate(parts))


def formula(text: str) -> Markup:
    """Convert a plain-text formula to MathML that may be broken after a sign.

    Indices follow `_`, powers `^`; parentheses around an operand of several signs are omitted.
    """
    from latex2mathml.converter import convert

    pieces = [""]
    for part in JOINT.split(text):
        joined = len(pieces[-1]) < 12 or _torn(pieces[-1])
        pieces[-1:] = [f"{pieces[-1]} {part}".lstrip()] if joined else [pieces[-1], part]
    try:
        made = [re.sub("<math[^>]*>(?:<mrow>)?|(?:</mrow>)?</math>", "", convert(latex(piece))) for piece in pieces]
    except Exception:
        # What is no mathematics after all, such as two indices of one letter, is shown as it is written.
        return Markup("<code>{}</code>").format(text)
    return Markup("<wbr>".join(f"<math>{each}</math>" for each in made))


def _torn(piece: str) -> bool:
    """Whether a break would split brackets; in a long piece, only those of an index, a power or a root."""
    rest = ""
    while rest != piece:
        rest, piece = piece, re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}", "", piece)
    return bool(re.search(r"[({[]" if len(rest) < 24 else r"(?:[\^_] ?|sqrt ?|ceil|floor)\(|\{", rest))


def latex(text: str) -> str:
    r"""Convert a plain-text formula to LaTeX.

    >>> latex("(1 + chi^2)^-T"), latex("sqrt(d)/p0")
    ('(1 + \\chi ^{2})^{-T}', '\\sqrt{d}/p_{0}')
    """
    text = re.sub(r"(?<![A-Za-z])([A-Za-z])(\d+)", r"\1_\2", text.strip().rstrip("^_"))
    text = re.sub(r"(?<!sqrt)(?<=[\w)\]|!]) +(?=[\w(\[|])", "⍽", re.sub(r"\*(?=\)|$)", "^★", text))
    text = SIGN.sub(lambda sign: f"{SIGNS[sign[0]]} ", text)
    text = re.sub(r"(?<![_^])\{([^{}]*)\}", r"\\{\1\\}", text)
    text = WORD.sub(lambda word: WORDS.get(word[0], word[0] if len(word[0]) == 1 else rf"\text{{{word[0]}}}"), text)
    while GROUP.search(text):
        text = GROUP.sub(lambda group: GROUPS.get(group[1].strip(), "⟮%s⟯") % group[2], text)
    text = re.sub(r"(?<![\\{])\b(floor|ceil)\b", r"\\text{\1}", text)
    text = SCRIPT.sub(r"\1{\2}", re.sub(r"sqrt (\w+)", r"\\sqrt{\1}", text))
    return text.translate({ord("⟮"): "(", ord("⟯"): ")", ord("★"): "*", ord("⍽"): r"\,"})
