"""Formulas of the site as MathML: what stands between backticks as a formula, and what a docstring's prose has.

Docstrings are written for terminals, so their formulas are plain letters without marks: here `marked` finds them.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

from asyncsim.app.reporting import FUNCTIONS as NAMED
from asyncsim.app.reporting import LETTERS, formula

MARK = "\u2063"
"""An invisible sign in front of code that is a formula."""
FUNCTIONS = (*NAMED.split(), "clip")
KNOWN = {*LETTERS.split(), *FUNCTIONS, "sqrt", "grad", "ceil", "floor", "tr", "Var", "Cov", "corr", "KL", "TV"}
SIGN = re.compile(r"[-+*/=<>~]|<=|>=|!=|->|\|\|")
SYMBOLS = re.compile(r"[-A-Za-z\d.+*/=<>~^_|()\[\]{},!'²³√∑Σ·πτχ]+")
ENDS = ".,;:"
STOPS = {"the", "of", "is", "an", "and", "or", "one", "each", "where", "for", "at", "in", "if", "as", "to", "by"}
CODE = re.compile(r"(<pre.*?</pre>)|<code>([^<]*)</code>", re.S)
LATEX = re.compile(r'<(?:span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</(?:span|div)>', re.S)
"""What stands between dollar signs in notebooks."""


def typeset(page: str) -> str:
    """The HTML of a page with MathML where code is a formula, and for formulas in LaTeX."""
    page = LATEX.sub(lambda found: convert(html.unescape(found[2]), "block" if found[1] == "[" else "inline"), page)
    return CODE.sub(lambda found: found[1] or _math(found[0], html.unescape(found[2])), page)


def _math(code: str, text: str) -> str:
    return str(formula(text.removeprefix(MARK))) if text.startswith(MARK) or is_formula(text) else code


def is_formula(code: str) -> bool:
    """Whether code is mathematics: symbols alone, with a power or a sign between two; a name and its value are none.

    >>> is_formula("(1 - f) S + f S^2"), is_formula("1 / E W²"), is_formula("K^pub")
    (True, True, True)
    >>> is_formula("max_age"), is_formula("eta = 8"), is_formula("chi_square"), is_formula("[R, G]")
    (False, False, False, False)
    """
    bases = {*re.findall(r"[A-Za-z]{2,}", re.sub(r"(?<=\w)[\^_][A-Za-z]+", "", code))}
    symbols = all(SYMBOLS.fullmatch(token) for token in code.split()) and bases <= {
        *LETTERS.split(),
        *FUNCTIONS,
        "step",
        "gap",
    }
    named = re.search(rf"\b(?:{'|'.join({*FUNCTIONS, *LETTERS.split()} - {'pi'})})_[a-z]{{2}}|^\w+ ?= ?[\d.]+$", code)
    spaced = re.search(r"[\w)\]] (?:[-+*/=]|<=|>=) [\w(]", code) or re.search(r"\^|²|√|∑", code)
    return bool(symbols and not named and re.search(r"[A-Za-zΣπτχ]", code) and (spaced or bases & {"pi", "mu"}))


def marked(text: str) -> str:
    """Prose with its formulas as code, each behind a `MARK`; what is code already stays.

    >>> marked("so rho = m_i^2 / sigma^2 there, a share alpha of it").replace(MARK, "")
    'so `rho = m_i^2 / sigma^2` there, a share `alpha` of it'
    >>> marked("a mean (tau >= 1) of three and/or 5 cases")
    'a mean (`\u2063tau >= 1`) of three and/or 5 cases'
    """
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if k % 2 else _prose(part) for k, part in enumerate(parts))


def _prose(text: str) -> str:
    tokens = re.split(r"(\s+)", text)
    made, k = [], 0
    while k < len(tokens):
        end = _run(tokens, k) if k % 2 == 0 else k
        made.append(_wrapped("".join(tokens[k:end])) if end > k else tokens[k])
        k = max(end, k + 1)
    return "".join(made)


def _run(tokens: list[str], start: int) -> int:
    """Where the formula ends that begins at a token; `start` where none does."""
    end, real, depth = start, False, 0
    for k in range(start, len(tokens), 2):
        core = tokens[k].strip(ENDS)
        before = tokens[k - 2] if k > start else ""
        after = tokens[k + 2] if k + 2 < len(tokens) and tokens[k][-1:] not in ENDS else ""
        sign, symbol = bool(SIGN.fullmatch(core) and before and after), _symbol(core)
        inside = depth > 0 or any(SIGN.fullmatch(each) for each in (before, after))
        # A number, an article that may be a letter, a function, and a word beside a sign or within brackets.
        next_ = _symbol(after.strip(ENDS))
        weak = re.fullmatch(r"[(\[]*(?:[aAI]|[\d./(]+)[)\]]*", core) and (inside or before[-1:] in ")]" or next_)
        called = core.strip("([") in FUNCTIONS and (inside or next_ or before)
        word = re.fullmatch(r"[(\[]*[A-Za-z]{2,}[)\]]*", core) and core.strip("()[]").lower() not in STOPS
        if not core or not (sign or symbol or weak or called or (word and inside)):
            break
        real |= sign or symbol
        depth += sum(map(core.count, "([{")) - sum(map(core.count, ")]}"))
        end = k + 1
        if tokens[k][-1] in ENDS and (depth <= 0 or tokens[k][-1] != ","):
            break
    while end > start and (SIGN.fullmatch(tokens[end - 1]) or tokens[end - 1] in FUNCTIONS):
        end -= 2
    return end if real else start


def _symbol(core: str) -> bool:
    """Whether a token is mathematics on its own: a letter, a Greek letter, or symbols with a power or bracket."""
    bases = {*re.findall(r"[A-Za-z]{2,}", re.sub(r"(?<=[\w\])}])[\^_]\{?[A-Za-z]+", "", core))}
    shaped = SYMBOLS.fullmatch(core) and re.search(r"[A-Za-z]", core) and core.strip("()[]") not in ("a", "A", "I")
    known = bases <= KNOWN or (
        ("^" in core or "/(" in core or re.match(r"[\w^]+\(|[a-z]+_[a-z\d]\W*$", core))
        and not re.search("_[a-z]{2}", core)
    )
    return (
        bool(shaped and known)
        and core.strip("()[]") not in FUNCTIONS
        and not re.fullmatch(r"[A-Z]/[A-Z]|[A-Z]\d[A-Z]\w*", core)
    )


def _wrapped(text: str) -> str:
    """A formula as code, without brackets that it does not close or open, and without the sign that ends a sentence."""
    body = text.rstrip(ENDS)
    head, tail = "", text[len(body) :]
    for opening, closing in ("()", "[]"):
        while body.startswith(opening) and (body.count(opening) > body.count(closing) or body.endswith(closing)):
            both = body.count(opening) == body.count(closing)
            head, body = head + opening, body[1:]
            if both and body.endswith(closing):
                body, tail = body[:-1], closing + tail
        while body.endswith(closing) and body.count(closing) > body.count(opening):
            body, tail = body[:-1], closing + tail
    return f"{head}`{MARK}{body}`{tail}" if body else text
