"""The whole atlas as one page of HTML that stands alone: a table that is sorted by a click and filtered by words."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

LENGTH, SAMPLES = 512, 64
RARE = 0.1
"""Share of one batch in sum |g|^2 above which moments rest on batches that are hardly ever drawn."""
LEVELS, READ = (0, 1, 4, 16, 64), 16
SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "table.js"
"""What sorts and filters the table, here and on the site."""
NAMES = {
    "a3po": "A-3PO",
    "asymre": "AsymRE",
    "bapo_code": "BAPO (authors' code)",
    "bapo_paper": "BAPO (paper)",
    "decoupled_ppo": "decoupled PPO",
    "dppo_kl": "DPPO, KL",
    "dppo_prime": "DPPO (prime-rl)",
    "dppo_tv": "DPPO, total variation",
    "full_is": "untruncated IS",
    "geometric_rs": "geometric rejection",
    "gradient": "gradient descent",
    "icepop": "IcePop",
    "ipo_mask": "IPO mask",
    "kimi": "Kimi k1.5",
    "kpop": "KPop",
    "m2po_areal": "M2PO (AReaL)",
    "m2po_mask": "M2PO",
    "m2po_waterfill": "M2PO (authors' code)",
    "opsm": "OPSM",
    "per_decision_is": "per-decision IS",
    "ppo_clip": "PPO",
    "prefix_is": "prefix IS",
    "retrace": "Retrace",
    "sequence_mis": "sequence masked IS",
    "three_policy_tis": "three-policy TIS",
    "topr_roll": "TOPR (ROLL)",
    "truncated_is": "truncated IS",
    "vtrace": "V-trace",
}
"""Public names of methods; others are written in capitals, or with spaces if they have several words."""
LACKS = {"needs a critic": "need a critic", "loss of the policy": "needs a policy with a loss of its own"}
"""Why a method is left out, in words."""
STYLE = (
    "body{font:15px/1.5 sans-serif;margin:1em auto;max-width:75em;padding:0 1em}p,ul,details{max-width:48em}"
    "table{border-collapse:separate;border-spacing:0;font-size:13px}th{position:sticky;top:0;background:#fff;"
    "vertical-align:bottom}th button{all:unset;cursor:pointer}th button:focus-visible{outline:2px solid}"
    "th[aria-sort=ascending] button::after{content:' \\2191'}"
    "th[aria-sort=descending] button::after{content:' \\2193'}"
    "td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}"
    "td:nth-child(-n+4),th:nth-child(-n+4){text-align:left}td:first-child,th:first-child{position:sticky;left:0;"
    "background:#fff}th:first-child{z-index:1}input,select{font:inherit;max-width:100%;margin:0 .5em .5em 0}"
    "div{overflow:auto;max-height:85vh}.one :is(td,th):nth-child(n+3):nth-child(-n+6){display:none}"
    "@media(max-width:40em){h1{font-size:1.4em}"
    ":is(td,th):is(:nth-child(2),:nth-child(8),:nth-child(9)){display:none}td,th{padding:2px 4px}"
    "td:first-child{white-space:nowrap}th{font-size:10px}}"
)
HEADS = (
    "method", "family", "data", "rewards", "tokens", "samples", *(f"staleness {level}" for level in LEVELS),
    f"low, at {READ}", f"high, at {READ}", "bias", "noise", "tokens kept", "largest batch",
)  # fmt: skip


WORDS = f"""<p>Each row is a method. The columns <b>staleness {LEVELS[0]}</b> to <b>{LEVELS[-1]}</b> show its
<b>progress</b> on data sampled that many updates earlier. Progress is the gain of the best step along one batch's
gradient, divided by the gain of the exact gradient. <b>1</b> is as good as the exact gradient, <b>0</b> gains nothing,
and <b>below 0</b> (orange) the update leads away. Read a row from left to right to see at which staleness the method
loses its direction. One update does not decide training, so this table is no ranking of methods.
<ul><li>Choose a batch. The first choice is the one of <a href="across.md#atlas">the picture</a>.
<li>Type words to keep some rows, such as <i>masks</i> or <i>ppo</i>.
<li>Click the head of a column to sort; a second click reverses the order.
<li><b>+</b> before a name is a mask or weight that is added to truncated IS of tokens.</ul>
<details><summary>What the other columns mean</summary><ul>
<li><b>data</b>: sampled by the policy some updates earlier (ascent), or by a policy equally far away in a random
direction; the number names the table of the task.
<li><b>rewards</b>: own, or shuffled among the samples, so that they say nothing about actions.
<li><b>tokens</b>, <b>samples</b>: tokens of a sample, samples of a batch.
<li><b>low</b>, <b>high</b>: the 95 percent interval at staleness {READ}; the next columns are at this staleness, too.
<li><b>bias</b>: 1 − cosine of the mean gradient and the exact gradient.
<li><b>noise</b>: variance of the gradient divided by its squared mean.
<li><b>tokens kept</b>: share of tokens with a weight.
<li><b>largest batch</b>: share of one batch in the sum of squared gradients; above {RARE} rare batches decide the row.
</ul>"""


def part(rows: Any, **where: Any) -> Any:
    """Sampled rows of methods that apply, on the path of ascent unless said otherwise."""
    keep = (rows.source == "sampled") & (rows.left_out == "")
    usual = {"drift": "ascent", "samples": SAMPLES, "length": LENGTH, "reward": "own", "seed": 1}
    for name, value in {**usual, **where}.items():
        keep &= rows[name] == value
    return rows[keep]


def page(rows: Any) -> str:
    """All sampled rows: a line for each method and setting, a column for each staleness; the usual setting first."""
    known = rows[(rows.source == "sampled") & (rows.left_out == "") & (rows.length > 3)]
    place = ["method", "family", "drift", "seed", "reward", "length", "samples"]
    cells = [(dict(zip(place, key, strict=True)), own) for key, own in known.groupby(place, sort=False)]
    cells.sort(key=lambda cell: -cell[1][cell[1].staleness == READ].progress.iloc[0])
    lines = [line(*cell) for cell in cells]
    left = rows[rows.left_out != ""].drop_duplicates("method")
    absent: dict[str, list[str]] = {}
    for row in left.itertuples():
        reason = next((words for part, words in LACKS.items() if part in row.left_out), row.left_out)
        absent.setdefault(reason, []).append(named(row.method))
    missing = "; ".join(f"{', '.join(names)}, which {reason}" for reason, names in absent.items())
    heads = "".join(f"<th>{head}" for head in HEADS)
    found = known.drop_duplicates(place[2:]).sort_values(["seed", "drift", "reward", "length", "samples"])
    usual = f"ascent 1 own {LENGTH} {SAMPLES}"
    options = "".join(
        f'<option value="{name}"{" selected" * (name == usual)}>{words}'
        for name, words in ((setting(row), told(row)) for row in found.itertuples())
    )
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Atlas of methods</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<style>{STYLE}</style>\n<main class="sorted">'
        "<h1>Atlas: how good is one update of each method on stale data?</h1>\n"
        f"{WORDS}<p>Not in the table: {escape(missing)}.</details>\n"
        f'<p><select aria-label="batch" data-columns="2 3 4 5">{options}<option value="">all batches</select>\n'
        '<input size="24" placeholder="words, such as: masks" aria-label="filter"> <output></output>\n'
        f'<div tabindex="0"><table data-shaded="6 7 8 9 10"><thead><tr>{heads}</thead><tbody>\n'
        + "\n".join(lines)
        + f"\n</tbody></table></div></main>\n<script>\n{SCRIPT.read_text(encoding='utf-8')}</script>\n"
    )


def setting(row: Any) -> str:
    """What a row says in its columns of data, rewards, tokens and samples."""
    return f"{row.drift} {row.seed} {row.reward} {row.length} {row.samples}"


def told(row: Any) -> str:
    """A setting in words."""
    table = f", table {row.seed}" if row.seed > 1 else ""
    reward = ", shuffled rewards" if row.reward != "own" else ""
    drift = ", random direction" if row.drift != "ascent" else ""
    return f"{row.samples} samples of {row.length} tokens{drift}{reward}{table}"


def line(where: dict[str, Any], own: Any) -> str:
    """One row of the table."""
    cells = {row.staleness: row for row in own.itertuples()}
    read = cells[READ]
    progress = [number(cells[level].progress) if level in cells else "" for level in LEVELS]
    rest = [number(value) for value in (read.progress_low, read.progress_high, read.direction, read.variance)]
    texts = [
        escape(named(where["method"])), escape(where["family"]), f"{where['drift']} {where['seed']}",
        where["reward"], f"{where['length']}", f"{where['samples']}", *progress, *rest,
        number(read.kept), number(read.largest),
    ]  # fmt: skip
    return "<tr>" + "".join(f"<td>{text}" for text in texts)


def named(label: str) -> str:
    """A method's public name, with its variant.

    >>> named("truncated_is token"), named("cispo"), named("+ k3_mask")
    ('truncated IS, token', 'CISPO', '+ k3 mask')
    """
    method, _, variant = label.partition(" ")
    if method == "+":
        return f"+ {NAMES.get(variant, variant.replace('_', ' '))}"
    name = NAMES.get(method.rstrip(","), method.rstrip(",").replace("_", " "))
    return ", ".join(filter(None, [name.upper() if name.islower() and " " not in name else name, variant]))


def number(value: float) -> str:
    """Two digits behind the point, three leading ones of large numbers; nothing where there is none."""
    if not math.isfinite(value):
        return ""
    text = f"{value + 0.0:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return text.replace("-0.00", "0.00").replace("-", "−")
