"""The whole atlas as one page of HTML that stands alone: a table that is sorted by a click and filtered by words."""

from __future__ import annotations

import math
from html import escape
from typing import Any

LENGTH, SAMPLES = 512, 64
RARE = 0.1
"""Share of one batch in sum |g|^2 above which moments rest on batches that are hardly ever drawn."""
LEVELS, READ = (0, 1, 4, 16, 64), 16
SCRIPT = """
const body = document.querySelector("tbody"), rows = [...body.rows];
const key = (row, k) => { const t = row.cells[k].textContent.replace("−", "-");
  return t === "" ? -9 : isNaN(t) ? t : +t; };
document.querySelectorAll("th").forEach((head, k) => { let up = true; head.onclick = () => {
  rows.sort((a, b) => { const [x, y] = [key(a, k), key(b, k)]; return (x < y ? 1 : x > y ? -1 : 0) * (up ? 1 : -1); });
  up = !up; body.append(...rows); }; });
document.querySelector("input").oninput = event => { const words = event.target.value.toLowerCase().split(" ");
  rows.forEach(row => { row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)); }); };
"""
STYLE = (
    "body{font:14px sans-serif;margin:1em}table{border-collapse:collapse}th{position:sticky;top:0;background:#fff;"
    "cursor:pointer}td,th{padding:1px 7px;text-align:right;border-bottom:1px solid #ddd}"
    "td:nth-child(-n+4){text-align:left}input{max-width:100%}div{overflow:auto;max-height:85vh}nav{display:flex;gap:1em;flex-wrap:wrap}"
)
HEADS = (
    "method", "family", "cell", "rewards", "tokens", "samples", *(f"staleness {level}" for level in LEVELS),
    "at 16: low", "high", "bias", "noise", "kept", "one batch",
)  # fmt: skip


def part(rows: Any, **where: Any) -> Any:
    """Sampled rows of methods that apply, on the path of ascent unless said otherwise."""
    keep = (rows.source == "sampled") & (rows.left_out == "")
    usual = {"drift": "ascent", "samples": SAMPLES, "length": LENGTH, "reward": "own", "seed": 1}
    for name, value in {**usual, **where}.items():
        keep &= rows[name] == value
    return rows[keep]


def page(rows: Any) -> str:
    """All sampled rows: a line for each method and cell, a column for each staleness."""
    known = rows[(rows.source == "sampled") & (rows.left_out == "") & (rows.length > 3)]
    place = ["method", "family", "drift", "seed", "reward", "length", "samples"]
    lines = [line(dict(zip(place, key, strict=True)), own) for key, own in known.groupby(place, sort=False)]
    left = rows[rows.left_out != ""].drop_duplicates("method")
    absent = "; ".join(f"{row.method} ({row.left_out})" for row in left.itertuples())
    heads = "".join(f"<th>{head}" for head in HEADS)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Atlas of methods</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style>\n<main><h1>Progress of one stale batch, by method</h1>\n"
        "<p>Progress of the best step along one batch's gradient: 1 is the exact gradient's, below 0 it leads away.\n"
        "It probes one step and is no advice on training. Cells: ascent (data of the policy some steps earlier) or\n"
        "random (as far off, by no learning), each with the number of its table. Shuffled rewards say nothing.\n"
        "Bias is 1 − cosine of the mean gradient and the exact one, noise the variance over the squared mean,\n"
        "kept the share of tokens with a weight. One batch: its largest share in all squared length; above 0.1 the\n"
        "numbers rest on rare batches. Intervals are 95 percent. Click a head to sort.\n"
        f'<p><input size="40" placeholder="words, such as: masks 512 ascent" aria-label="filter">\n'
        f'<div tabindex="0"><table><thead><tr>{heads}</thead><tbody>\n'
        + "\n".join(lines)
        + "\n</tbody></table></div>\n"
        f"<p>Left out: {escape(absent)}.</main>\n<script>{SCRIPT}</script>\n"
    )


def line(where: dict[str, Any], own: Any) -> str:
    """One row of the table."""
    cells = {row.staleness: row for row in own.itertuples()}
    read = cells[READ]
    progress = [number(cells[level].progress) if level in cells else "" for level in LEVELS]
    rest = [number(value) for value in (read.progress_low, read.progress_high, read.direction, read.variance)]
    texts = [
        *(escape(str(where[name])) for name in ("method", "family")), f"{where['drift']} {where['seed']}",
        where["reward"], f"{where['length']}", f"{where['samples']}", *progress, *rest,
        number(read.kept), number(read.largest),
    ]  # fmt: skip
    return "<tr>" + "".join(f"<td>{text}" for text in texts)


def number(value: float) -> str:
    """Two digits behind the point, three leading ones of large numbers; nothing where there is none."""
    if not math.isfinite(value):
        return ""
    text = f"{value + 0.0:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "−")
