"""A page of verdicts as one self-contained HTML file, for large and small screens; or as Markdown."""

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from asyncsim.app import judgments
from asyncsim.app.judgments import TOGETHER, Page, cost, detection, families, measured, point_text, rate
from asyncsim.base import checks, files, records
from asyncsim.base.notation import measurement, number, plural
from asyncsim.claims import _registry
from asyncsim.plotting import _curves

TEMPLATE = "report.html.jinja"
SHOWN, COLUMNS = 12, 4
"""Number of comparisons shown at once in a section, and of parameters with a column of their own."""
MOST = 50
"""Maximum number of comparisons behind a click; one claim has five hundred."""
EXACT, NEAR, FAR = 0.01, 0.4, 1.4
"""In smallest effects: deviation below which agreement is exact, and least and largest end of the overview's axis."""
NAMED = 3
"""Most quantities that a sentence names."""
ARXIV = re.compile(r"\b\d\d(?:0[1-9]|1[0-2])\.\d{5}\b")
MARKDOWN = (".md", ".markdown")
"""Suffixes of a report in Markdown; any other is HTML."""
MARKED = re.compile("`([^`]+)`")
LETTERS = "alpha beta gamma delta epsilon eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega zeta"
LETTERS += " Gamma Delta Theta"
FUNCTIONS = "sum exp log ln min max sin cos tan arcsin arctan"
PLAIN = r"<= \le >= \ge != \ne -> \to || \Vert * \cdot ~ \sim ∑ \sum ∫ \int ≤ \le ≥ \ge ² ^2 ³ ^3 √ sqrt \ \backslash"
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
    `references`: claim id to the source of its statement. `predictions`: claim id to what predicts between points.
    """
    title = title or f"asyncsim: {plural(len(page.verdicts), 'claim')} predicted and measured"
    marked = str(path).lower().endswith(MARKDOWN)
    text = markdown(page, title) if marked else html(page, title, references or {}, predictions or {})
    files.write_atomically(path, lambda file: file.write(text.encode()))
    return Path(path)


def html(page: Page, title: str, references: Mapping[str, str], predictions: Mapping[str, _curves.Prediction]) -> str:
    """The page of verdicts as HTML."""
    functions = (number, plural, measured, anchor, comparisons, coded, sourced, finding, swarm, digits, farthest)
    filters: dict[str, Any] = {function.__name__: function for function in functions}
    filters |= {"point": point_text, "formulas": rendered, "beside": page.beside, "short": _curves.in_few_signs}
    filters |= {
        "figure": lambda verdict: figure(verdict, predictions.get(verdict.id)),
        "deviation": lambda row, kind: Markup(_curves.deviation(row, kind)),
        "alone": lambda verdict: judgments.alone(verdict, page),
        "symbols": lambda verdict: _registry.symbols(verdict.id, verdict.statement),
        "rate": lambda value: rate(value).replace("1e-06", "one in a million"),
        "steps": lambda verdict: judgments.steps(verdict, page),
    }
    promised = (page.manifest.get("spec") or {}).get("false_pass", math.nan)
    ranked, homes = deviations(page.verdicts), {path.parent for path in _registry.claims().values()}
    about = {home.name: (home / "__init__.py").read_text("utf-8").partition(" on ")[2] for home in homes}
    return filled(
        TEMPLATE, filters, title=title, page=page, verdicts=page.verdicts, families=families(page.verdicts),
        summary=page.summary | {"promised": promised, "together": TOGETHER, "cost": cost(page.summary)},
        far=[each for each in ranked if each[0].verdict != "violated" and EXACT <= abs(each[1]) < math.inf],
        reach=math.ceil(10.0 * max([NEAR, *(min(FAR, abs(size)) for _, size in ranked)])) / 10.0,
        bets=judgments.bets(page), planted_rows=[] if page.coverage is None else page.coverage["rows"],
        detection=detection, references=references, about=about,
        manifest={key: value for key, value in records.plain(page.manifest).items() if value is not None},
        exceptions=[v for v in page.verdicts if v.verdict != "held" or v.status == "open"],
    )  # fmt: skip


def filled(template: str, filters: Mapping[str, Any], **values: Any) -> str:
    """Text of a template of this folder, filled with values; a missing value raises an error."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= filters
    return environment.from_string(checks.resource(__file__, template)).render(**values)


def coded(text: str) -> Markup:
    """Format the parts of a text between backticks as code."""
    parts = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if k % 2 else part for k, part in enumerate(parts))


def anchor(id: str) -> str:
    """HTML anchor of a claim, made from its id, for links."""
    return id.replace("/", "-").replace(" ", "-")


def comparisons(verdict: records.Verdict) -> dict[str, Any]:
    """Comparisons of a verdict, as its section of the page shows them.

    `first` and `more`: those shown at once (none of many exact ones), and behind a click; `left`: not shown. `shared`:
    parameters that are equal at all points; `varying` and `others`: names of those that have a column, and of the rest.
    """
    points = list({repr(row.point): row.point for row in verdict.points}.values())
    names = dict.fromkeys(name for point in points for name in point)
    counts = {name: len({repr(point.get(name)) for point in points}) for name in names}
    varying = sorted((name for name in names if counts[name] > 1), key=lambda name: -counts[name])
    ranked = sorted(verdict.points, key=lambda row: (math.isnan(row.margin), row.margin))
    rows = ranked if len(ranked) > SHOWN else verdict.points
    first = 0 if len(rows) > SHOWN and abs(farthest(verdict)[0]) < EXACT else SHOWN
    return {
        "first": rows[:first], "more": rows[first : first + MOST], "left": max(0, len(rows) - first - MOST),
        "shared": {name: points[0][name] for name in names if counts[name] == 1}, "varying": varying[:COLUMNS],
        "others": varying[COLUMNS:], "quantities": list(dict.fromkeys(row.quantity for row in rows)),
    }  # fmt: skip


def farthest(verdict: records.Verdict) -> tuple[float, records.Comparison | None]:
    """Largest deviation of a verdict in smallest effects (for a bound, the excess over it), and its comparison."""
    rows = [(_curves.scaled(row, verdict.kind)[0], row) for row in verdict.points if row.verdict != "outside"]
    signed = verdict.kind in _curves.ONE_SIDED
    size, row = max(rows, key=lambda each: each[0] if signed else abs(each[0]), default=(math.nan, None))
    return max(size, 0.0) if signed else size, row


def deviations(verdicts: Sequence[records.Verdict]) -> list[tuple[records.Verdict, float]]:
    """Verdicts with their largest deviation in smallest effects, largest first, without those outside the domain."""
    sizes = [(verdict, farthest(verdict)[0]) for verdict in verdicts]
    return sorted([each for each in sizes if not math.isnan(each[1])], key=lambda each: -abs(each[1]))


def finding(verdict: records.Verdict) -> str:
    """Sentences on what a verdict measured, how near it came to the prediction, and the smallest effect."""
    deviation, row = farthest(verdict)
    if row is None or not math.isfinite(deviation):
        return "" if row is None else "A measurement diverged."
    words = (verdict.kind, verdict.id.partition("/")[0], verdict.id)
    stems = dict.fromkeys(_curves.meaning(each.quantity.partition("[")[0], words) for each in verdict.points)
    names = " and ".join(", ".join(stems).rsplit(", ", 1)) if len(stems) <= NAMED else f"{len(stems)} quantities"
    points = plural(len({repr(each.point) for each in verdict.points}), "point")
    said = f"Measured at {points}: {names}."
    shares = [100.0 * each.measured / each.predicted for each in verdict.points if each.predicted > 0.0]
    if verdict.kind == "bound" and verdict.verdict != "violated" and shares:
        least = f", the farthest {min(shares):.3g} %" * (min(shares) < 97.0)
        reached = f" The closest reaches {max(shares):.3g} % of it{least}." * (verdict.verdict != records.LOOSE)
        return f"{said} No measurement contradicts the bound.{reached}"
    effect, near = _curves.effect_of(row, verdict.kind), abs(deviation)
    size = f"{near:.2g} times" if near >= 1.0 else f"{100.0 * near:.2g} % of" if near >= EXACT else "below 1 % of"
    share = f", {100.0 * effect / abs(row.predicted):.2g} % of the prediction" if row.predicted else ""
    unit = f" The smallest effect is {effect:.2g} there{share}." if effect else ""
    return f"{said} The largest deviation is {size} the smallest effect.{unit}"


def swarm(verdicts: Sequence[records.Verdict], reach: float) -> list[tuple[records.Verdict, float, int]]:
    """Dots of a beeswarm plot: each claim's deviation in smallest effects, clipped at `reach`, and its level."""
    dots: list[tuple[records.Verdict, float, int]] = []
    for verdict, place in ((each, max(-reach, min(reach, size))) for each, size in deviations(verdicts)[::-1]):
        beside = {level for _, other, level in dots if abs(place - other) < reach / 10.0}
        dots.append((verdict, place, min({*range(len(dots) + 1)} - beside)))
    return dots


def digits(row: records.Comparison) -> tuple[str, str]:
    """Prediction and measurement, rounded to the digits that the interval supports."""
    half = (row.high - row.low) / 2.0
    if not math.isfinite(row.measured):
        return number(row.predicted), measured(row)
    return measurement(row.predicted, half, 0.0).partition(" ±")[0], measurement(row.measured, half, 0.0)


def sourced(text: str) -> Markup:
    """The text of a source as HTML, with its arXiv ids as links."""
    paper = rf"((?:arXiv )?({ARXIV.pattern}))"
    return Markup(re.sub(paper, r'<a href="https://arxiv.org/abs/\2">\1</a>', str(escape(text))))


def figure(verdict: records.Verdict, predict: _curves.Prediction | None = None) -> Markup:
    """SVG figure of a verdict: predicted curves and measured points; empty if no parameter varies."""
    return Markup("".join(_curves.panel(panel) for panel in _curves.panels(verdict, predict)))


def markdown(page: Page, title: str) -> str:
    """The page of verdicts as Markdown."""
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
        parts += ["## Injected bugs that were not caught", *_list(missed)]
    if page.coverage is not None:
        seen = page.coverage["rows"]
        rows = [[f"{r['file']}:{r['line']}", r["change"], r["text"], ", ".join(r["claims"]) or "—"] for r in seen]
        heads = ["place", "change", "statement", "claim that sees it"]
        parts += ["## Which bugs the claims find", detection(seen), table(heads, rows)]
    manifest = json.dumps(records.plain(page.manifest), indent=1, ensure_ascii=False)
    return "\n\n".join([*parts, "## What this was measured on", f"```json\n{manifest}\n```"]) + "\n"


def escaped(words: str) -> str:
    """Escape text for Markdown, also in table cells; only code between backticks is markup."""
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
        lines.append(f"{planted['caught']} of {planted['planted']} injected bugs turned their claim to violated.")
    lines += [f"Measured in {cost(page.summary)}.", *judgments.bets(page)]
    return [escaped(line[0].upper() + line[1:]) for line in lines]


def _claims(page: Page) -> str:
    heads = ["claim", "verdict", "quantity", "predicted", "measured", "false fail", "false pass", "p", "corrected p"]
    heads += ["e"] * bool(page.evidence) + ["seconds to measure"]
    rows = []
    for v in page.verdicts:
        rates = [rate(v.false_fail), rate(v.false_pass), rate(v.p), rate(page.holm[v.id])]
        own = page.evidence.get(v.id)
        money = ["—" if own is None else f"{own.e:.3g}"] * bool(page.evidence)
        rows.append([v.id, v.verdict, v.quantity, number(v.predicted), measured(v), *rates, *money, f"{v.seconds:.1f}"])
    return table(heads, rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows of cells as a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *([escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _list(lines: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escaped(line)}" for line in lines)] if lines else []


def rendered(text: str) -> Markup:
    """Format text as HTML with formulas between backticks as mathematics; everything is escaped."""
    return Markup("").join(formula(part) if k % 2 else part for k, part in enumerate(MARKED.split(text)))


@cache
def formula(text: str) -> Markup:
    """Convert a plain-text formula to MathML that may be broken after a sign."""
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
    whole = "<wbr>".join(f"<math>{each}</math>" for each in made)
    return Markup(whole.replace('<mo stretchy="false">&#x0007C;</mo>', "<mi>|</mi>"))  # no space beside a bar


def _torn(piece: str) -> bool:
    """Whether a break would split brackets; in a long piece, only those of an index, a power or a root."""
    rest = ""
    while rest != piece:
        rest, piece = piece, re.sub(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}", "", piece)
    return bool(re.search(r"[({[]" if len(rest) < 24 else r"(?:[\^_] ?|sqrt ?|ceil|floor)\(|\{", rest))


def latex(text: str) -> str:
    r"""Convert a plain-text formula to LaTeX."""
    text = re.sub(rf"(?<![A-Za-z])([A-Za-z]|{LETTERS.replace(' ', '|')})(\d+)", r"\1_\2", text.strip().rstrip("^_"))
    text = re.sub(r"(?<!sqrt)(?<=[\w)\]|!]) +(?=[\w(\[|])", "⍽", re.sub(r"(?<=\w)\*(?=[ ,)]|$)", "^★", text))
    text = SIGN.sub(lambda sign: f"{SIGNS[sign[0]]} ", text)
    text = re.sub(r"(?<![_^])\{([^{}]*)\}", r"\\{\1\\}", text)
    text = WORD.sub(lambda word: WORDS.get(word[0], word[0] if len(word[0]) == 1 else rf"\text{{{word[0]}}}"), text)
    while GROUP.search(text):
        text = GROUP.sub(lambda group: GROUPS.get(group[1].strip(), "⟮%s⟯") % group[2], text)
    text = re.sub(r"(?<![\\{])\b(floor|ceil)\b", r"\\text{\1}", text)
    text = SCRIPT.sub(r"\1{\2}", re.sub(r"sqrt (\w+)", r"\\sqrt{\1}", text))
    return text.translate({ord("⟮"): "(", ord("⟯"): ")", ord("★"): "*", ord("⍽"): r"\,"})
