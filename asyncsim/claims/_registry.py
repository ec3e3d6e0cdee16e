"""The claims by id: found by reading folder names, imported one at a time."""

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim.base import calls, checks, outside, plugins, records
from asyncsim.claims import _claim


@cache
def claims() -> dict[str, Path]:
    """Map the id of each claim to its file, read from folder names without importing any."""
    files = sorted(Path(__file__).parent.glob("*/*.py"))
    found = {f"{f.parent.name}/{f.stem.replace('_', '-')}": f for f in files if not f.stem.startswith("_")}
    return calls.Keyed({id: file for id, file in found.items() if file.parent.name != "lab"})


@cache
def summaries() -> dict[str, str]:
    """Map the id of each claim to the first line of its file's docstring."""
    first = {id: path.read_text(encoding="utf-8").partition("\n")[0] for id, path in claims().items()}
    return {id: line.lstrip("r").strip('"') for id, line in first.items()}


_OWN: dict[str, type[_claim.Claim]] = {}
"""Claims of users and of other packages by id."""
_BOUND = "write kind = 'bound' for an upper bound; x >= L is -x <= -L, so predict {'-x': -L} and measure '-x'"
_POINTS = (
    "write points = ({'cap': 4},) and the parameter cap = sim.claims.Integer(1, 64, doc='versions') in the class; a "
    "claim without parameters has points = ({},)"
)


def own(id: str) -> bool:
    """Whether a claim is a user's, defined outside of this package."""
    return id in _OWN


def taken(subject: Any) -> str:
    """Return the id of a user's claim, given by id, class, instance, or path of a file, which is read again."""
    if isinstance(subject, (type, _claim.Claim)):
        home = subject if isinstance(subject, type) else type(subject)
        return _take(subject, f"{home.__module__}:{home.__qualname__}")
    _OWN.pop(subject, None)
    return known(subject)


def _take(subject: Any, id: str) -> str:
    """Register a claim from outside after checks that need no measurement; an instance is its own point."""
    home: Any = subject if isinstance(subject, type) else type(subject)
    bound, remedy = "a class of sim.claims.Claim", "inherit sim.claims.Claim"
    if inspect.isfunction(subject):
        remedy = "write a class with points, predict and measure, see docs/conjecture.md; "
        remedy += f"a loss: asyncsim conformance {id}"
    checks.require(issubclass(home, _claim.Claim), "claim", id, bound, remedy)
    trial = home.__new__(home)
    asked = {"predict": (trial.predict, "self"), "measure": (trial.measure, "self, point, effect, seed, plant")}
    asked |= {"check": (trial.check, "self"), "reach": (trial.reach, "self, point"), "at": (trial.at, "self, size")}
    for name in ("predict", "measure"):
        written = getattr(home, name) is not getattr(_claim.Claim, name)
        checks.require(written, f"{id}.{name}", None, "a method", f"define {name}, see docs/conjecture.md")
    for field, takes in (("wrong", "s"), ("defects", ""), ("terms", "s, factor")):
        given = getattr(home, field)
        remedy = f"write {field} = {{'twice': {f'lambda {takes}'.rstrip()}: ...}}"
        checks.require(isinstance(given, Mapping), f"{id}.{field}", given, "functions by name", remedy)
        asked |= {f"{field}[{name!r}]": (each, takes) for name, each in given.items()}
    for name, (function, takes) in asked.items():
        try:
            inspect.signature(function).bind(*re.findall(r"\b(?!self)\w+", takes))
        except TypeError as error:
            bound = f"a function with the arguments ({takes})"
            remedy = "give it these arguments" if takes else "write lambda: lambda spec: spec.replace(updates=2)"
            raise checks.InputError(f"{id}.{name}", str(error), bound, remedy) from None
    remedy = "write what it states into the docstring of the class"
    stated = home.__doc__ or "\n\n" in (sys.modules[home.__module__].__doc__ or "")
    checks.require(bool(stated), f"{id} docstring", None, "a statement", remedy)
    checks.one_of(f"{id}.kind", home.kind, records.KINDS, _BOUND)
    if not isinstance(subject, type):
        words = {"points": (dict(vars(subject)),), "more": (), "__doc__": home.__doc__, "__module__": home.__module__}
        home = type(home.__name__, (home,), words)
    for field, remedy in (("points", _POINTS), ("more", "write more = ({'cap': 64},), with the names of points")):
        given = getattr(home, field)
        listed = isinstance(given, (tuple, list)) and all(isinstance(point, Mapping) for point in given)
        checks.require(listed and (given or field == "more"), f"{id}.{field}", given, "a tuple of points", remedy)
    loose = isinstance(home.loose, (set, frozenset, tuple, list))
    checks.require(loose, f"{id}.loose", home.loose, "a set", "write loose = {'NAME'}, names of terms")
    checks.real(f"{id}.effect", home.effect, "write effect = 0.02 for a deviation of 2 percent", 0.0, open_low=True)
    said = _claim.stated(home, id, own=True)
    for point in (*home.points, *home.more):
        predicted = said.predict(point)
        for formula in said.formula_defects.values():
            formula(point)
        for name, value in predicted.items():
            checks.real(f"{id}.predict {name}", value, "return {'mean': 4.0}", finite=False)
    _OWN[id] = home
    return id


TOKEN = re.compile(r"[A-Za-z]+(?:_[A-Za-z]+|_?\d+)?")
_symbols = cache(lambda: checks.table(__file__, "symbols.toml"))


def symbols(id: str, statement: str) -> tuple[dict[str, str], dict[str, str]]:
    """Meanings of the symbols in a statement's formulas: those that its family declares, and those of its own."""
    table = _symbols()
    family, own = table.get(id.partition("/")[0], {}), table.get(id, {})
    tokens = TOKEN.findall(" ".join(re.findall("`([^`]+)`", statement)))
    known = (table["*"] if family else {}) | family | own
    used = {part for token in tokens for part in ([token] if token in known else re.split(r"_|(?=\d)", token))}
    told = {name: meaning for name, meaning in known.items() if name in used and meaning}
    return {name: told[name] for name in told if name not in own}, {name: told[name] for name in told if name in own}


def paper_of(word: str) -> str:
    """Return the arXiv id in a word or URL, or the word itself."""
    return re.sub(r"^.*arxiv[^/:]*[:/](abs/|pdf/)?|(v\d+)?(\.pdf)?$", "", word.lower())


def paper_row(word: str) -> tuple[str, str, str, str]:
    """Name, arXiv id, role here and gallery page of a paper, by id or name; "" for what the table of papers lacks."""
    row = checks.advice(paper_of(word).replace("-", "_"), "paper", otherwise=",  |  | ")
    title, what, page = row.split(" | ")
    return (*title.split(", "), what, page)  # type: ignore[return-value]


def paged(word: str) -> str:
    """Where the gallery tests a paper, given by arXiv id or name, and claims of this name; "" if it has no page."""
    name, id, what, page = paper_row(word)
    exact = "".join(f"; asyncsim verify {id} its exact result" for id in claims() if f"/{word}-" in id)
    said = f'["{id}/' in checks.resource(__file__, "papers.toml")
    exact += f"; asyncsim list papers {word} has its sentences" * (said and bool(page))
    return f"the page {page} of the repository tests this paper by simulation{exact}. {name} is {what}." if page else ""


def known(id: str) -> str:
    """Return the id of a catalogued claim; underscores are accepted instead of dashes."""
    checks.require(isinstance(id, str), "claim", id, "the id of a claim, family/name", "see `asyncsim list claims`")
    key, name = id.replace("_", "-").lower(), id.replace("-", "_")
    if id in _OWN:
        return id
    others = {} if key in claims() or ":" in id else outside.registered(__package__)
    if ":" in id or name in others:
        return _take(outside.loaded(others.get(name, id), "claim", installed=name in others), id)
    if key not in claims():
        word = id.rpartition(".py/")[2]
        last = key.rpartition("/")[2]
        # VCPO is a paper's, MyClaim a class.
        named = word.endswith(".py") or (word[:1].isupper() and not word.isupper())
        named = named and not paged(last)
        found = outside.defined(word)
        own = [each for each in found if re.search(":[A-Z]", each)][:5] or ["my.py:MyClaim"] * (named and not found)
        family = [name for name in claims() if name.startswith(f"{key.partition('/')[0]}/")]
        hint = "see `asyncsim list claims`, or give a paper's arXiv id, of `asyncsim list papers`."
        hint = f"of this family: {', '.join(family)}." if len(family) > 1 else hint
        hint = checks.hint(key, claims(), hint, 0.75)
        about = [each for each in claims() if {key} & {*re.split("[/-]", each)}]
        for kind in plugins.kinds_of(name := name.rpartition("/")[2])[: len(family) < 2 or "/" in id]:
            hint = f"it is a {plugins.PARTS[kind]}: see `asyncsim list {kind} {name}`; or see `asyncsim list papers`"
            hint += f"; asyncsim timeline {name} has its staleness" * (kind == "systems")
            hint += f"; claims: {', '.join(about)}" * bool(about) + "."
        advice = checks.advice(id, "claim") or checks.advice(last, "claim")
        hint = f"{advice}." if advice else paged(last) or hint
        hint = f"write {' or '.join(own)}, its file and its class" if own else f"{hint} Your own: docs/conjecture.md"
        none = f"no class of sim.claims.Claim is in {word}: write one as docs/conjecture.md does"
        hint = none if found and not own and word.endswith(".py") else hint
        formula = "a formula is the `predict` of a class of your own: see docs/conjecture.md, then write my.py:MyClaim"
        hint = formula if re.search(r"[(*^+]| = ", id) else f"write --at {id}" if "=" in id else hint
        error = checks.InputError("claim", id, "the id of a claim, family/name, or the place of your own", hint)
        sentences = {each: row["text"] for each, row in checks.table(__file__, "papers.toml").items()}
        raise error.explaining("" if family else re.sub("[^a-z]", " ", key), summaries() | sentences, 5)
    return key


@cache
def class_of(key: str) -> type[_claim.Claim]:
    """Return the class of a claim in the catalogue."""
    family, _, name = key.partition("/")
    home = importlib.import_module(f"{__package__}.{family}.{name.replace('-', '_')}")
    classes = (each for each in vars(home).values() if isinstance(each, type) and each.__module__ == home.__name__)
    return next(each for each in classes if issubclass(each, _claim.Claim))


_stated = cache(lambda key: _claim.stated(class_of(key), key))


@calls.named
def claim(id: str) -> records.Claim:
    """Return the statement of a claim by id. Raises `InputError` if there is none.

    >>> claim("ess/clamp-floor").predict({"clamp": 2.0})["largest_inverse"]
    1.5625
    """
    key = known(id)
    return _claim.stated(_OWN[key], key, own=True) if key in _OWN else _stated(key)


@calls.named
def trial(id: str) -> _claim.Claim:
    """Return the measurement of a claim by id, without reading a point. Raises `InputError` if there is none."""
    key = known(id)
    home = _OWN[key] if key in _OWN else class_of(key)
    return home.__new__(home)
