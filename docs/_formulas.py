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
KNOWN = {*LETTERS.split(), *FUNCTIONS, "sqrt", "grad", "ceil", "floor", "prod", "tr", "Var", "Cov", "corr", "KL", "TV"}
SIGN = re.compile(r"[-+*/=<>~]|<=|>=|!=|->|\|\||\.\.?")
MEAN = re.compile(r"-?\b(?:E|P|Var|Cov)(?:_\w+|_\{\w+\})?(?:\(| ?\[)")
"""A mean, probability or variance, which may be one of words."""
LABELS = {"algorithm", "algorithms", "appendix", "equation", "figure", "section", "table", "tables", "theorem"}
"""Words behind which a letter with a number is no formula."""
NAME = re.compile(r"(?<![\w.\[\\/\"])([A-Za-z]\w+(?:_\w\w+)+)(?![\w(\\/])")
"""A name of code in prose."""
INTERVAL = re.compile(r"\[[^][()]*, [^][()]*\)|\([^][()]*, [^][()]*\]")
SYMBOLS = re.compile(r"[-A-Za-z\d.+*/=<>~^_|()\[\]{},!'²³√∑Σ·πτχ]+")
ENDS = ".,;:"
PROSE = "the of is an and or one each where for at in if as to by that unless given was from so standard"
STOPS = {*PROSE.split()}
CODE = re.compile(r"(<pre.*?</pre>)|<code>([^<]*)</code>", re.S)
LEFT = re.compile(r"""[^\s>]*(?:(?<!")\b[A-Za-z]_\w|[\])}]_|\^|\b(?:E|P|Var|sqrt)\[|sqrt\()[^\s<]*""")
"""Letters with an index or power, and brackets of a formula, in prose."""
SET = re.compile(r"<math.*?</math>(?:<wbr>\s*<math.*?</math>)*", re.S)
LATEX = re.compile(r'<(?:span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</(?:span|div)>', re.S)
"""What stands between dollar signs in notebooks."""
NAMED_LATEX = re.compile(r"(\\(?:log|ln)) ?(?=[A-Za-z\d]|\\[A-Za-z])")
"""A function without brackets: LaTeX sets a space between it and its argument, MathML none."""


def typeset(page: str) -> str:
    """The HTML of a page with MathML where code is a formula, and for formulas in LaTeX."""
    page = LATEX.sub(lambda found: _of_latex(html.unescape(found[2]), "block" if found[1] == "[" else "inline"), page)
    return CODE.sub(lambda found: found[1] or _math(found[0], html.unescape(found[2])), page)


def _of_latex(text: str, display: str) -> str:
    return convert(NAMED_LATEX.sub(r"\1\\,", text), display=display)


def faults(page: str) -> list[str]:
    """Formulas of a page that were not set: letters with an index or power, and brackets that a formula leaves open.

    >>> faults("<p>a mean E_mu[w], cap]_+ and 2^20; <code>a_b</code></p><p><math><mi>P</mi><mo>(</mo></math>.</p>")
    ['E_mu[w],', 'cap]_+', '2^20;', 'P(']
    """
    page = re.sub(r"<(pre|h\d|svg|script|a)\b.*?</\1>|<code>.*?</code>", " ", page, flags=re.S)
    left = LEFT.findall(re.sub(r"<[^>]+>", " ", SET.sub(" ", page)))
    made = (html.unescape(re.sub(r"<[^>]+>", "", each[0])) for each in SET.finditer(page))
    return [*left, *(each for each in made if not balanced(each))]


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
    >>> marked("two `Spec`s")
    'two `Spec`s'
    """
    # The s of a plural behind code is no letter of a formula.
    parts = re.split(r"(`[^`]*`(?:'?s\b)?)", text)
    made = "".join(part if k % 2 else _prose(part) for k, part in enumerate(parts))
    return "".join(p if k % 2 else NAME.sub(r"`\1`", p) for k, p in enumerate(re.split(r"(`[^`]*`)", made)))


def _prose(text: str) -> str:
    tokens = re.split(r"(\s+)", text)
    made, k = [], 0
    while k < len(tokens):
        end = _run(tokens, k) if k % 2 == 0 else k
        made.append(_wrapped("".join(tokens[k:end])) if end > k else tokens[k])
        k = max(end, k + 1)
    return "".join(made)


def balanced(text: str) -> bool:
    """Whether all brackets close what they open, intervals aside.

    >>> balanced("E_mu[min(cap, r)]"), balanced("P(score"), balanced("in [0, 1)")
    (True, False, True)
    """
    rest, text = "", INTERVAL.sub("", text)
    while rest != text:
        rest, text = text, re.sub(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}", "", text)
    return not re.search(r"[][(){}]", rest)


def _run(tokens: list[str], start: int) -> int:
    """Where the formula ends that begins at a token; `start` where none does."""
    end, depth = start, 0
    powered = re.match(r"\([^()]*\)\^", "".join(tokens[start : start + 20]))
    for k in range(start, len(tokens), 2):
        core = tokens[k].strip(ENDS) or tokens[k]
        before = tokens[k - 2] if k > start else ""
        apart = tokens[k][-1:] in ENDS and not SIGN.fullmatch(tokens[k])
        after = tokens[k + 2] if k + 2 < len(tokens) and not apart else ""
        sign, symbol = bool(SIGN.fullmatch(core) and before and after), _symbol(core)
        inside = depth > 0 or any(SIGN.fullmatch(each) for each in (before, after))
        # A number, an article that may be a letter, a function, and a word beside a sign or within brackets.
        next_ = _symbol(after.strip(ENDS))
        beside = inside or before[-1:] in ")]" or next_
        weak = beside and re.fullmatch(r"[(\[]*(?:[aAI]|[./(]*\d[\d./(]*)[)\]]*", core)
        called = core.strip("([") in FUNCTIONS and (inside or next_ or before)
        word = re.fullmatch(r"[(\[]*[A-Za-z]{2,}[)\]]*", core) and core.strip("()[]").lower() not in STOPS
        shaped = SYMBOLS.fullmatch(core) and not core.isalpha()
        enclosed = shaped and (depth > 0 or (inside and "(" in core))
        worded = (powered or MEAN.search("".join(tokens[start:k]))) and (depth > 0 or k == start)
        part = sign or symbol or weak or called or enclosed or worded or (word and inside)
        if not core or not part or (k > 1 and tokens[k - 2].lower() in LABELS):
            break
        depth += sum(map(core.count, "([{")) - sum(map(core.count, ")]}"))
        end = k + 1
        if not sign and tokens[k][-1] in ENDS and (depth <= 0 or tokens[k][-1] not in ",;"):
            break
    while end > start and (
        SIGN.fullmatch(tokens[end - 1])
        or tokens[end - 1] in FUNCTIONS
        or not balanced(_bare("".join(tokens[start:end]))[1])
    ):
        end -= 2
    cores = [each.strip(ENDS) for each in tokens[start : max(end, start) : 2]]
    return end if any(SIGN.fullmatch(core) or _symbol(core) for core in cores) else start


def _symbol(core: str) -> bool:
    """Whether a token is mathematics on its own: a letter, a Greek letter, or symbols with a power or bracket."""
    bases = {*re.findall(r"[A-Za-z]{2,}", re.sub(r"(?<=[\w\])}])[\^_]\{?[A-Za-z]+", "", core))}
    shaped = SYMBOLS.fullmatch(core) and re.search(r"[A-Za-z]|\d\^", core) and core.strip("()[]") not in ("a", "A", "I")
    called = MEAN.match(core) or re.match(r"[\w^]+\(|[a-z]+_[a-z\d]\W*$|.*(?:\^|/(?:sqrt)?\()", core)
    named = re.search(rf"_(?!(?:{LETTERS.replace(' ', '|')})(?![a-z]))[a-z]{{2}}", core)
    known = bases <= KNOWN or (called and not named)
    return (
        bool(shaped and known)
        and core.strip("()[]") not in (*FUNCTIONS, "ceil", "floor")
        and not re.fullmatch(r"[A-Z]/[A-Z]|[A-Z]\d[A-Z]\w*", core.strip("()[]"))
    )


def _wrapped(text: str) -> str:
    """A formula as code, without brackets that it does not close or open, and without the sign that ends a sentence."""
    head, body, tail = _bare(text)
    return f"{head}`{MARK}{body}`{tail}" if body else text


def _bare(text: str) -> tuple[str, str, str]:
    """What stands before a formula, the formula, and what stands behind it."""
    body = text.rstrip(ENDS)
    head, tail = "", text[len(body) :]
    for opening, closing in ("()", "[]"):
        while body.startswith(opening) and (
            body.count(opening) > body.count(closing) or (body.endswith(closing) and balanced(body[1:-1]))
        ):
            both = body.count(opening) == body.count(closing)
            head, body = head + opening, body[1:]
            if both and body.endswith(closing):
                body, tail = body[:-1], closing + tail
        while body.endswith(closing) and body.count(closing) > body.count(opening):
            body, tail = body[:-1], closing + tail
    return head, body, tail
