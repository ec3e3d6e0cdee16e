"""Formulas of a text as HTML: what stands between backticks is set as mathematics, everything else as it is."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

MARKED = re.compile("`([^`]+)`")
TOKEN = re.compile(r"\s+|[A-Za-z]+|\d+(?:\.\d+)?|<=|>=|!=|//|.")
GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "Delta": "Δ",
    "kappa": "κ",
    "lambda": "λ",
    "mu": "μ",
    "pi": "π",
    "phi": "φ",
    "chi": "χ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "zeta": "ζ",
}
SIGNS = {"<=": "≤", ">=": "≥", "!=": "≠", "-": "−", "*": "·", "sum": "∑", "grad": "∇"}
RAISED = {"^": "sup", "_": "sub"}
HALVES = {"ceil": "⌈⌉", "floor": "⌊⌋"}


def rendered(text: str) -> Markup:
    """A text as HTML in which formulas between backticks have Greek letters, powers, indices and roots.

    A pair of backticks marks a formula, as in Markdown. Indices follow `_`, powers `^`; an operand of several signs
    stands in parentheses, which are left out. Everything is escaped.

    >>> str(rendered("stable iff `a < 2 sin(pi/(2 tau+1))`"))
    'stable iff <span class="f"><var>a</var> &lt; 2 sin(<var>π</var>/(2 <var>τ</var>+1))</span>'
    >>> str(rendered("`(1 + chi^2)^-T`"))
    '<span class="f">(1 + <var>χ</var><sup>2</sup>)<sup>−<var>T</var></sup></span>'
    """
    from markupsafe import Markup

    made = Markup()
    for k, part in enumerate(MARKED.split(text)):
        made += Markup('<span class="f">{}</span>').format(_formula(deque(TOKEN.findall(part)))) if k % 2 else part
    return made


def _formula(tokens: deque[str], closing: str = "") -> Markup:
    """The tokens up to a closing sign, which is taken too."""
    from markupsafe import Markup

    made = Markup()
    while tokens and tokens[0] != closing:
        made += _part(tokens)
    if tokens:
        tokens.popleft()
    return made


def _part(tokens: deque[str]) -> Markup:
    """The next token with what belongs to it."""
    from markupsafe import Markup

    token = tokens.popleft()
    bracket = bool(tokens) and tokens[0] == "("
    if token in RAISED:
        return Markup("<{0}>{1}</{0}>").format(RAISED[token], _operand(tokens))
    if token == "(":
        return Markup("({})").format(_formula(tokens, ")"))
    if token in HALVES and bracket:
        tokens.popleft()
        return Markup("{1}{0}{2}").format(_formula(tokens, ")"), *HALVES[token])
    if token == "sqrt":
        return Markup('√<span class="root">{}</span>').format(_operand(tokens))
    if token == "*" and (not tokens or tokens[0] == ")"):
        return Markup("<sup>*</sup>")
    if len(token) == 1 and token.isalpha() and token != "E":
        index = Markup("<sub>{}</sub>").format(tokens.popleft()) if tokens and tokens[0].isdigit() else ""
        return Markup("<var>{}</var>{}").format(token, index)
    if token == "sum" and tokens and tokens[0] not in ("_", " "):
        return Markup(token)
    return Markup("<var>{}</var>").format(GREEK[token]) if token in GREEK else Markup.escape(SIGNS.get(token, token))


def _operand(tokens: deque[str]) -> Markup:
    """What is raised, lowered or under a root: a bracket's content, or one token with its sign."""
    from markupsafe import Markup

    while tokens and tokens[0].isspace():
        tokens.popleft()
    if not tokens:
        return Markup()
    if tokens[0] == "(":
        tokens.popleft()
        return _formula(tokens, ")")
    signed = tokens[0] in "+-" and len(tokens) > 1 and tokens[1].isalnum()
    return (_part(tokens) if signed else Markup()) + _part(tokens)
