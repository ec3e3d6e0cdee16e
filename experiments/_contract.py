"""What experiment and paper files must hold, and where their rows live."""

from __future__ import annotations

import ast
import difflib
import importlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim.base import calls, checks, digests
from asyncsim.base.plugins import summaries
from asyncsim.base.records import plain

HERE = Path(__file__).resolve().parent
MACHINERY = frozenset(
    {"__init__", "_carried", "_contract", "_gallery", "_gpu", "_looks", "_pipeline", "_source", "_store"}
)
"""Modules that store, draw and print what others compute."""


def names() -> dict[str, str]:
    """Experiments with the first line of their docstrings."""
    known = papers()
    return {name: line for name, line in summaries("experiments").items() if name not in known}


@cache
def papers() -> dict[str, list[Any]]:
    """Papers with the experiments that they ask for, read without importing anything."""
    found = {}
    for name in summaries("experiments"):
        tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "QUESTIONS" for t in node.targets):
                found[name] = [getattr(each, "value", None) for each in getattr(node.value, "elts", [])]
    return found


def questions(name: str) -> list[str]:
    """The experiments that a name stands for: itself, or those of a paper; kebab and snake case.

    Raises `InputError` for an unknown name, or for a paper that asks for what is not there.
    """
    snake, known, asked = name.replace("-", "_"), names(), papers()
    if snake not in asked:
        near = difflib.get_close_matches(snake, [*known, *asked], n=1)
        hint = f"did you mean {near[0]}?" if near else "see `python -m experiments --list`"
        if snake not in known and snake.isidentifier() and (HERE.parent / "paper_figures" / f"{snake}.py").is_file():
            drawn = importlib.import_module(f"paper_figures.{snake}").EXPERIMENTS
            remedy = f"write python -m experiments {' '.join(drawn)}, then python -m paper_figures {snake}"
            raise checks.InputError("experiment", snake, "an experiment, not a figure", remedy)
        checks.one_of("experiment", snake, known, hint)
        return [snake]
    listed = asked[snake]
    checks.require(bool(listed), f"{snake}.QUESTIONS", listed, "a list of names as they stand", "name experiments")
    for each in listed:
        checks.require(each in known, f"{snake}.QUESTIONS", each, "an experiment", f"write experiments/{each}.py")
    twice = sorted({each for each in listed if listed.count(each) > 1})
    checks.require(not twice, f"{snake}.QUESTIONS", twice, "named once", "leave out the second")
    return listed


def experiment(name: str) -> Any:
    """The module of an experiment, its contract checked; kebab and snake case.

    Raises `InputError` for an unknown name or a file that breaks the contract of `experiments`.
    """
    snake = name.replace("-", "_")
    paper = snake in papers()
    checks.require(not paper, "experiment", snake, "one experiment, not a paper", "choose one of its questions")
    questions(snake)
    module = importlib.import_module(f"experiments.{snake}")
    for field in ("SETTINGS", "QUICK"):
        settings = getattr(module, field, None)
        listed = isinstance(settings, list) and bool(settings) and all(isinstance(s, dict) for s in settings)
        checks.require(listed, f"{snake}.{field}", settings, "a list of dicts", "give one dict per part of the rows")
        try:
            json.dumps(settings, default=lambda value: value.tolist())
        except (TypeError, AttributeError) as error:
            remedy = "settings are compared by value: give numbers, texts, lists and dicts"
            raise checks.InputError(f"{snake}.{field}", str(error), "values that JSON can hold", remedy) from None
    columns = getattr(module, "COLUMNS", None)
    checks.require(
        isinstance(columns, (list, tuple)) and bool(columns) and all(isinstance(c, str) for c in columns),
        f"{snake}.COLUMNS",
        columns,
        "a list of names",
        "name what a row holds",
    )
    checks.require(callable(getattr(module, "run", None)), f"{snake}.run", None, "a function", "define run(setting)")
    return module


def settings_of(module: Any, quick: bool) -> list[dict[str, Any]]:
    """SETTINGS, or QUICK."""
    return module.QUICK if quick else module.SETTINGS


def values(module: Any, key: str, quick: bool | None = None) -> list[Any]:
    """Different values of a setting, of the quick settings, the others, or (None) all."""
    settings = [each for own in (False, True) if quick in (own, None) for each in settings_of(module, own)]
    found = [setting[key] for setting in settings if key in setting]
    return [value for place, value in enumerate(found) if value not in found[:place]]


_STALENESS = "staleness stalenesses lag eta limit law knob levels steps"
_ALIKE = {
    _STALENESS + " lags max_staleness staleness_limit max_lag max_head_offpolicyness age bound": _STALENESS,
    "replicates seeds realizations n_seeds num_seeds runs repetitions": "replicates seeds realizations",
    "rate rates learning_rates learning_rate lr step_size": "rate rates learning_rates learning_rate step",
    "batch batch_size batches": "batch batches",
    "length horizon tokens lengths response_length max_tokens": "length horizon tokens",
    "spread std sd": "sigma",
    "updates steps iterations num_updates": "updates",
    "arms arm methods method algorithm loss": "methods method arms arm",
    "tasks env environment": "task problem regime",
    "samples samples_per_group group_size num_generations": "samples batch replicates",
}
"""Words for a setting, and how experiments call it, the likeliest first."""


def meant(word: str, known: Iterable[str]) -> list[str]:
    """Settings that another word for them means, else those that are written alike."""
    known, word = [*known], word.lower().replace("-", "_")
    lines = (names.split() for words, names in _ALIKE.items() if word in words.split())
    return [each for line in lines for each in line if each in known and each != word] or checks.near(word, known)


def described(module: Any, known: Iterable[str]) -> dict[str, str]:
    """What each setting is: its first values, and what the head of the experiment says of it."""
    found, words = {}, calls.meanings(module, known)
    for key in known:
        several = values(module, key, False)
        shown = ", ".join(map(str, several[:4])) + ", ..." * (len(several) > 4)
        found[key] = f"{shown[:70]}; {words[key]}" if words[key] else shown[:70]
    return found


def changed(module: Any, quick: bool, changes: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Settings with other values.

    Raises `InputError` for a name that no setting has, a value of another kind, and a word that is in no setting, as
    the experiment tells only words apart that it knows. Distributions, with a colon, are such words only in part.
    """
    settings = settings_of(module, quick)
    known = sorted({key for setting in settings for key in setting})
    # A command line has lists only.
    rows = {key for key in known if isinstance(values(module, key)[0], tuple)}
    changes = {key: tuple(x) if key in rows and isinstance(x, list) else x for key, x in changes.items()}
    for key, value in changes.items():
        others = meant(key, known)
        listed = others and isinstance(values(module, others[0])[0], (list, tuple))
        value_of = value if isinstance(value, (list, tuple)) or not listed else [value]
        pair = f"'{others[0]}={value_of}'" if listed else f"{(*others, '')[0]}={value}"
        remedy = f"write --set {pair}" if others else "name what a setting has"
        checks.one_of(f"--set of {name}", key, known, remedy, described(module, known), len(known))
        own = values(module, key)
        before = next(setting[key] for setting in settings if key in setting)
        words = [word for each in own for word in (each if isinstance(each, (list, tuple)) else [each])]
        if all(isinstance(word, str) for word in words) and not any(":" in word for word in words):
            for word in value if isinstance(value, (list, tuple)) else [value]:
                checks.one_of(f"--set {key}", word, list(dict.fromkeys(words)), "the experiment knows no other")
        number = (int, float)
        kinds = number if isinstance(before, number) and not isinstance(before, bool) else type(before)
        alike = before is None or (isinstance(value, kinds) and isinstance(value, bool) == isinstance(before, bool))
        kind = "a number" if isinstance(before, number) else f"a {type(before).__name__}"
        remedy = (
            f"write --set '{key}={[value]}'"
            if kinds in (list, tuple) and isinstance(value, number)
            else "give a value of that kind"
        )
        checks.require(alike, f"--set {key}", value, f"{kind}, such as {before!r}", remedy)
        if isinstance(value, (list, tuple)) and all(isinstance(word, number) for word in words):
            flat = next((each for each in value if isinstance(each, (list, tuple))), value)
            alike = bool(value) and all(isinstance(each, number) for each in value)
            checks.require(alike, f"--set {key}", value, "numbers", f"write --set '{key}={list(flat) or words[:2]}'")
    return [{key: changes.get(key, value) for key, value in setting.items()} for setting in settings]


def digest(value: Any) -> str:
    """16 hexadecimal digits of what a value is as JSON."""
    return digests.of(plain(value))


def own_code(
    folder: Path,
    name: str,
    roots: Iterable[str],
    apart: frozenset[str],
    read: Callable[[str], str | None] | None = None,
) -> dict[str, list[ast.stmt]]:
    """Statements behind the names `roots` of a module of a folder, by module.

    That is each statement of the module that a root needs, and all of every module of the folder imported there or in
    such a module, but for those `apart`. `read(stem)` gives a source in place of the file, None where there is none.
    """

    def found(stem: str) -> str | None:
        path = folder / f"{stem}.py"
        return path.read_text(encoding="utf-8") if path.exists() else None

    code: dict[str, list[ast.stmt]] = {}
    left = [name]
    while left:
        stem = left.pop()
        text = None if stem in code or stem in apart else (read or found)(stem)
        if text is not None:
            body = ast.parse(text).body
            code[stem] = digests.needed(body, roots) if stem == name else body
            every = digests.read_names(code[stem], f"{folder.name}.{stem}", folder.name)
            left += [each.split(".")[1] for each in every if each.startswith(f"{folder.name}.")]
    return code


def version(code: Mapping[str, list[ast.stmt]]) -> str:
    """Digest of statements by module, the same on every Python that can parse them."""
    return digests.of([[stem, digests.shape(code[stem])] for stem in sorted(code)])


def reached_by(code: Mapping[str, list[ast.stmt]], inside: str) -> tuple[str, ...]:
    """Dotted names of the package that statements by module read."""
    every = {name for stem, body in code.items() for name in digests.read_names(body, f"{inside}.{stem}", inside)}
    return tuple(sorted(name for name in every if name.startswith(f"{digests.PACKAGE}.")))


def code(name: str) -> dict[str, list[ast.stmt]]:
    """Statements behind the rows of an experiment: its own, and those of the modules of this folder that it imports."""
    return own_code(HERE, name.replace("-", "_"), ("run", "COLUMNS"), MACHINERY)


def product(name: str) -> dict[str, str]:
    """Digests of the modules of asyncsim that an experiment's code reaches."""
    return digests.modules(*reached_by(code(name), HERE.name))


def counted(name: str, version: str) -> str:
    """The version of an experiment's code from before all refactorings that are known to compute the same."""
    own = f"{HERE.name}.{name.replace('-', '_')}"
    return digests.carried({own: version}, HERE)[own]


def check_rows(name: str, rows: Any, columns: Any) -> None:
    """Refuse rows that are not dicts with just these names."""
    checks.require(
        isinstance(rows, list) and bool(rows),
        f"rows of {name}",
        rows,
        "a list of at least one dict",
        "say in a row why there is nothing",
    )
    for row in rows:
        checks.require(
            set(row) == set(columns),
            f"columns of {name}",
            sorted(row),
            f"exactly {sorted(columns)}",
            "let run(setting) give what COLUMNS declares",
        )
