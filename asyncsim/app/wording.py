"""A spec from the words of a command line."""

from __future__ import annotations

import ast
import inspect
import json
import math
import os
import re
import shlex
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsim.app import streams
from asyncsim.app.options import DESCRIBES, PARTS, SIZES
from asyncsim.base import calls, checks, feeds, files, laws, notation, outside, plugins

if TYPE_CHECKING:
    from asyncsim.running.spec import Spec
    from asyncsim.systems._system import System

FORM = "write for example task.arms=5"
_ADDED = {"penalty": "penalties", "factor": "factors"}
"""Options of what is added to a method, by the kind of each."""
LISTS = ("link", *_ADDED)
_OWN = "write --policy module --set policy.make={} --set policy.observation=D --set policy.actions=A"
"""How a network of one's own is named as a policy."""
_KINDS = {"link": "updates", "method": "methods", "task": "tasks", "system": "systems", "policy": "policies", **_ADDED}


def settings(pairs: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Settings from KEY=VALUE pairs; values are Python or JSON literals where possible, else strings."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        kinds = plugins.kinds_of(pair.replace("-", "_"))
        part = plugins.PARTS[kinds[0]] if kinds else "method" if ":" in pair else ""
        remedy = f"write {part}={pair}" if part else f"write {key.strip(' -+') or 'KEY'}=VALUE"
        mine = outside.defined(pair) if pair.isidentifier() and not part else []
        remedy = f"write {mine[0]}" if mine else remedy
        folder = " (a folder)" * os.path.isdir(pair.removeprefix("model."))
        remedy = checks.advice(f"{pair}{folder} | {option}", "pair", otherwise=remedy)
        checks.require(bool(key and equals), option, pair, "of the form KEY=VALUE", remedy)
        # A value may be a mapping itself, columns=OURS=THEIRS,OURS=THEIRS.
        joined = re.match(r"[\w.-]+=[^=,;\s\"'{(\[]*[,;\s]+[a-z][\w.-]*=", pair)
        several = re.split(r"[,;\s]+(?=[a-z][\w.-]*=)", pair) if joined else [pair]
        each = " ".join(f"{option} {part}" for part in several)
        each = f'"{" ".join(several)}" in quotes' if option.startswith("arm") else each
        remedy = checks.advice(f"{pair} | {option}", "pair", otherwise=f"write {each}")
        checks.require(len(several) == 1, option, pair, "one setting", remedy)
        key = key.strip().replace("-", "_")
        remedy = f"write {pair.replace('+', '', 1)} for this value, or the sum for so many more"
        checks.require(not text.startswith("+"), option, pair, "a value, not a change", remedy)
        every = [each.partition("=")[2].strip() for each in pairs if each.partition("=")[0].strip() == key]
        remedy = f"write {key}={','.join(every)}" if key in LISTS else "give each key once"
        checks.require(key not in values, option, pair, f"the only value of {key}", remedy)
        values[key] = value(text.strip())
    return values


def value(text: str) -> Any:
    """Convert a string to the Python or JSON literals in it, or return the string if it has none; 1_0 is no number.

    >>> value("1,2"), value("true,false"), value("a,b")
    ((1, 2), (True, False), 'a,b')
    """
    if checks.GROUPED.fullmatch(text):
        return text
    if re.fullmatch(r"(true|false)( *, *(true|false))+", text.lower()):
        return tuple(word.strip() == "true" for word in text.lower().split(","))
    # A text that is nearly Python is a text; Python's warnings about it do not matter.
    with warnings.catch_warnings(action="ignore"):
        for read in (json.loads, ast.literal_eval, float):
            try:
                return read(text)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                continue
    return text


def understood(value: Any, default: Any, annotation: Any = "") -> Any:
    """Value of a command-line argument given as a string: `none` is None, and `inf` is infinity.

    Of an argument whose `default` is text, "none" may be a choice. A count without a limit is None: infinity is, where
    the `annotation` allows None and no fractions.

    >>> understood("none", 3), understood("Inf", None), understood("inf", 8, "int | None"), understood("none", "median")
    (None, inf, None, 'none')
    """
    word = value.lower() if isinstance(value, str) else value
    if isinstance(default, str):
        return value
    if word in ("none", "null"):
        return None
    if word in ("inf", "infinity", math.inf):
        return None if "None" in str(annotation) and "float" not in str(annotation) else math.inf
    return -math.inf if word == "-inf" else value


def filled(remedy: str, word: str) -> str:
    """Replace VALUE in a remedy by the user's word, but not in a mapping, where the word is a string."""
    return re.sub("(?<!: )VALUE", lambda _: word, remedy)


def build(kind: str, name: str, arguments: dict[str, Any], prefix: str = "") -> Any:
    """Make a part, such as a method, by its public function; errors name unknown or missing arguments."""
    _refuse_valued(kind, name, prefix)
    part, snake = plugins.PARTS[kind], name.replace("-", "_")
    make = plugins.load(f"asyncsim.{kind}", name, part)
    own = outside.made_by(make) if ":" in name else ""
    checks.require(own in ("", part), part, name, f"a {part}, not a {own}", f"write --{own} {name}")
    makes = inspect.isroutine(make) or isinstance(make, (type, partial))
    remedy = _OWN.format(name) if kind == "policies" else "name such a function"
    checks.require(makes, part, name, "a function that makes one", remedy)
    known = inspect.signature(make).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for key in (key for key in arguments if not anything and key not in known):
        checks.require(bool(known), f"{name} argument", key, "left out", f"{name} takes no arguments")
        unknown = f"see `asyncsim list {kind} {name}`"
        options = checks.sectioned(key) if kind == "systems" else [key]
        if remedy := max((checks.advice(word, f"asyncsim.{kind}", snake) for word in options), key=bool):
            remedy = re.sub(r"^write (?=\w+=)", f"write --set {prefix}", remedy)
        elif kind == "systems":
            owners = [each for each in plugins.summaries("asyncsim.systems") if prefix and key in takes(kind, each)]
            if 0 < len(owners) <= 3:
                arm = f'"system={owners[0]} system.{key}=VALUE"'
                remedy = f"it is a setting of {owners[0]}: give each arm of a comparison its own, as {arm}"
            ours = (of_preset(name, word, prefix) for word in options)
            remedy = remedy or max(ours, key=bool) or checks.advice(options[-1], "learner")
        elif "settings" in known and not checks.near(key, known, 1, 0.7):
            remedy = f"write --set 'task.settings={{\"{key}\": VALUE}}' where it is an argument of the environment"
        elif kind == "methods" and name == DESCRIBES["method"].default:
            owners = [each for each in ("grpo", *plugins.summaries("asyncsim.methods")) if key in takes(kind, each)]
            remedy = f"{name} is the default: add --method {owners[0]}, which takes {key}" if owners else ""
        elif re.search("clip|eps", key) and {"low", "high"} <= known.keys():
            bounds = re.findall("low|high", key) or ("low", "high")
            remedy = f"low and high are distances from 1: write{''.join(f' --set {prefix}{n}=VALUE' for n in bounds)}"
        words = checks.advice(key, *["words"] * (kind == "methods"), otherwise=unknown)
        remedy = remedy or checks.hint(key, known, words)
        about = calls.meanings(make, known) if remedy == unknown else None
        checks.one_of(f"{name} argument", key, list(known), filled(remedy, str(arguments[key])), about)
    several = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    missing = [n for n, p in known.items() if p.default is p.empty and p.kind not in several and n not in arguments]
    if {"record", "step", "direction", "gradient", "grad"} & {*missing} and ":" in name:
        part, says = outside.kind_of(plugins.PARTS[kind])
        remedy = "put this rule into one, as the example of asyncsim/EXTENDING.md does"
        lacking = checks.InputError(part, name, f"a function or class that makes a {part}, not its rule", remedy)
        lacking.add_note(says)
        raise lacking
    if ":" in name and kind == "methods" and any({*missing} & {*each} for each in checks.NAMES["loss"].values()):
        remedy = "name them log_prob, behavior_log_prob, advantages and mask, and give others a default"
        lacking = checks.InputError(f"{name} argument", ", ".join(missing), "names of a loss's tensors", remedy)
        lacking.add_note(outside.kind_of("loss")[1])
        raise lacking
    if missing:
        typed = {"sim.lognormal(1.0, 0.8)": "lognormal:1.0:0.8", "...": "VALUE"}
        values = calls.examples(missing, known, arguments)
        pairs = {f"--set {prefix}{each}={typed.get(value, value)}": each for each, value in values.items()}
        width, about = max(map(len, missing)), calls.meanings(make, values)
        lacking = checks.InputError(f"{name} argument", ", ".join(missing), "given", f"add {' '.join(pairs)}")
        lacking.add_note("\n".join(f"  {each:{width}}  {about[each]}".rstrip() for each in pairs.values()))
        raise lacking
    usual = {name: (p.default, p.annotation) for name, p in known.items()}
    try:
        # A former knob goes to the preset as it is: that refuses it and names the present one.
        return make(**{k: understood(value, *usual.get(k, ("", ""))) for k, value in arguments.items()})
    except checks.InputError as error:
        own = r"\b(load|train_time)=" if kind == "systems" else rf"(?<=write )({'|'.join(known) or '-'})="
        error.remedy = re.sub(own, rf"--set {prefix}\1=", error.remedy) if prefix else error.remedy
        error.args = (str(checks.InputError(error.field, error.value, error.bound, error.remedy)),)
        raise


def takes(kind: str, name: str) -> Mapping[str, inspect.Parameter]:
    """Parameters of the public function that makes a part; empty if no part has this name."""
    with suppress(checks.InputError):
        return inspect.signature(plugins.load(f"asyncsim.{kind}", name, plugins.PARTS[kind])).parameters
    return {}


def _refuse_valued(kind: str, name: str, prefix: str) -> None:
    """Refuse a name of ours with a value behind it, as adam:0.01, and several names in one."""
    option, known = plugins.PARTS[kind], plugins.summaries(f"asyncsim.{kind}")
    own, text = re.sub(r"[:=(]|\s+(?=\w+=)", "\n", name.rstrip(")"), count=1).partition("\n")[::2]
    names, remedy = name.replace("-", "_").split(","), ""
    if len(names) > 1 and {*names} <= {*known}:
        compared = " ".join(f"{option}={each}" for each in names)
        remedy = f"give one: asyncsim compare {compared}, or a sweep's --grid {option}={name}"
    elif own != name.rstrip(")") and (snake := own.replace("-", "_")) in known:
        where = f"{snake}." if option in LISTS else prefix
        pairs, keys = re.findall(r"\w+=[^\s,]+", text), takes(kind, own)
        setting = f" --set {where}".join(pairs) or f"{next(iter(keys), 'KEY')}={text}"
        unknown = keys and any(pair.partition("=")[0] not in keys for pair in pairs)
        setting = f"KEY=VALUE with a KEY of {', '.join(keys)}" if unknown else setting
        remedy = f"write {f'--{option} ' * bool(prefix)}{own} --set {where}{setting}"
    elif kind == "policies" and (Path(name).is_dir() or re.match(r"hub:|\w[\w.-]*/[\w.-]+$", name)):
        remedy = f"write --policy causal-lm --set policy.model={name}"
    elif kind == "schedules" and re.match(r"\w+:\d", name):
        remedy = f"write {laws.varied(name)}"
    elif "=" in name and ":" not in name:
        remedy = f"give a name, and write --set {name.split()[-1]}"
        for close in checks.near(own, known)[:1]:
            remedy = f"write --{option} {close}, and what follows = as --set {close}.KEY=VALUE"
            remedy += f" (asyncsim list {kind} {close})"
    checks.require(not remedy, option, name, "one name alone", remedy)


def of_preset(preset: str, key: str, prefix: str = "") -> str:
    """Suggest how to set a knob of a preset, a setting of its event model or the size of a group; else ""."""
    from asyncsim.systems import _settings

    own = takes("systems", preset)
    model = "set model." if prefix else "model "
    places = vars(plugins.load("asyncsim.systems", preset, "system")).get("places") if own else None
    for where, names in ((f"set {prefix}", own), (model, _settings.CHANGEABLE), ("", ["samples"])):
        if near := checks.near(key, names, 1, 0.8):
            what = "samples that each server decodes at once; " * (near == ["slots"])
            shared = f" for machines that share slots; slots are --set {prefix}{places}" if places in own else ""
            return f"{what}write --{where}{near[0]}=VALUE{shared * (near == ['servers'])}"
    return ""


def of_trainers(key: str, column: str) -> str:
    """Describe what asyncsim calls an option of a trainer, or a column of its logs."""
    from asyncsim.diagnosing import aliases

    owners = [each for each in plugins.summaries("asyncsim.systems") if key in takes("systems", each)][::-1]
    if owners:
        return f"an option of {', '.join(owners[:3])}: write asyncsim list systems {owners[0]}"
    quantity, scope = aliases.steps(True).get(column, ("-", ""))
    known = f"a column of logs, which asyncsim diagnose and calibrate read as {quantity} ({scope})"
    return "choose what to list" if quantity == "-" else known


def is_file(preset: Any) -> bool:
    """Whether a system is given as a description file, such as `advise` reads, not as a preset."""
    return bool(re.search(r"\.(ya?ml|json|toml)$", str(preset)))


def of_trainer(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Rename fields to the options of the trainer that a description names."""
    from asyncsim.sweeping.advising import FIELDS, TRAINERS

    trainer = TRAINERS.get(str(files.read_mapping(path, "system").get("trainer")))
    own = {field: option for option, field in trainer.fields().items()} if trainer else {}
    for name in ({*FIELDS} - {*own}) & {*values}:
        raise checks.InputError("--sweep", name, f"one of {', '.join(own)}", "run the command for each, with --set")
    own |= {f"system.{field}": f"system.{option}" for field, option in own.items()}
    return {own.get(name, name): each for name, each in values.items()}


def samples_of(preset: Any, knobs: Mapping[str, Any], system: Any, given: Any, usual: Any, prefix: str) -> Any:
    """Samples per group: those of the system's own option, else as given, or samples per prompt of a description."""
    if is_file(preset) and given is None:
        usual = {**files.read_mapping(preset, "system"), **knobs}.get("samples_per_prompt", usual)
    return feeds.samples_of(system, given, usual, f"--set {prefix}")


def system(preset: str, knobs: dict[str, Any], model: dict[str, Any], option: str, prefix: str = "") -> System:
    """System from a preset or a description file, its knobs, and settings of the event model (by `option`)."""
    if is_file(preset):
        from asyncsim.sweeping import advising

        return advising.described(preset, {**knobs, **{f"model.{key}": value for key, value in model.items()}}, prefix)
    from asyncsim.systems import _settings

    _settings.refuse_unknown(model, option)
    known = {f.name: (f.default, f.type) for f in fields(_settings.Settings)}
    changes = {key: understood(value, *known.get(key, ("", ""))) for key, value in model.items()}
    load = partial(plugins.load, "asyncsim.systems", preset, plugins.PARTS["systems"])
    if not changes or "model" in inspect.signature(load()).parameters:
        made: System = build("systems", preset, knobs | ({"model": changes} if changes else {}), prefix)
        return made
    # A system of a user's file has its own arguments only.
    other: System = build("systems", preset, knobs, prefix)
    return other.modeled(changes, option)


def spec(words: Mapping[str, Any], pairs: Sequence[str]) -> Spec:
    """A spec from the options that describe a run, by name, and PART.KEY=VALUE pairs."""
    from asyncsim.running.spec import Spec
    from asyncsim.updates._link import chain

    # Several names behind one option are separated by commas, as in the words of arms.
    words = {**words, **{name: _listed(",".join(words.get(name) or ())) for name in LISTS}}
    grouped, parts = dict[str, dict[str, Any]](), {name: words[name] for name in PARTS}
    for key, given in settings(pairs).items():
        part, dot, argument = (owner(key, words) or key if "." not in key else key).partition(".")
        if not dot:
            theirs = next((f"write --set {name}.{key}=VALUE" for name in PARTS if ":" in str(parts[name])), FORM)
            write = filled(placed(key, words) or theirs, str(given))
            raise checks.InputError("--set", key, "of the form PART.KEY=VALUE", write)
        grouped.setdefault(part, {})[argument] = given
    task = build("tasks", parts["task"], grouped.get("task", {}), "task.")
    remedy = f"an environment is --task gym --set task.id={parts['task']}"
    checks.require(hasattr(task, "policy"), "task", parts["task"], "a task, which has a policy", remedy)
    # None: the task's own as it is. Networks have no settings unless they are named.
    policy: Any = None
    if parts["policy"]:
        policy = build("policies", parts["policy"], grouped.get("policy", {}), "policy.")
    elif grouped.get("policy") and inspect.signature(task.policy).parameters:
        policy = task.policy(**grouped["policy"])
    bound = "a policy, not a module of torch alone"
    fits = policy is None or hasattr(policy, "together")
    checks.require(fits, "policy", parts["policy"], bound, _OWN.format(parts["policy"]))
    made = policy or task.policy()
    # The name of an advantage, as behind --advantage.
    chosen = grouped.get("method", {}).get("advantage")
    if isinstance(chosen, str) and not parts["advantage"]:
        parts["advantage"] = grouped["method"].pop("advantage")
    usual, replicates = _LANGUAGE if made.together == 1 else _NETWORKS if "cuda" in made.devices else _TABLES
    links = [name if ":" in name else name.replace("-", "_") for name in words["link"]] or list(usual)
    added = [name if ":" in name else name.replace("-", "_") for each in _ADDED for name in words[each]]
    by_part = _check_parts(grouped, {**parts, "policy": parts["policy"] or policy}, [*links, *added])
    sizes = {"samples_per_group" if name == "samples" else name: words[name] for name in SIZES if name in words}
    if sizes.get("replicates") is None:
        sizes["replicates"] = replicates
    method = by_part.get("method", {})
    if parts["advantage"]:
        twice = "advantage" in method
        checks.require(not twice, "--set", "method.advantage", "left out beside --advantage", "name the advantage once")
        method["advantage"] = build("advantages", parts["advantage"], by_part.get("advantage", {}), "advantage.")
    if parts["rewards"]:
        sizes["rewards"] = build("rewards", parts["rewards"], by_part.get("rewards", {}), "rewards.")
    bound, remedy = "behind a link that has the learning rate", "write --link sgd --link lr-schedule"
    checks.require(links != ["lr_schedule"], "link", "lr_schedule", bound, remedy)
    own = {"sgd": {"lr": 0.1}, **usual}
    if "decay" in by_part.get("lr_schedule", {}):
        own["lr_schedule"] = {"updates": sizes.get("updates")}
    update = [
        build("updates", name, own.get(name, {}) | by_part.get(_called(name), {}), f"{_called(name)}.")
        for name in links
    ]
    source, own_size = _source(parts, words["staleness"], words["coupled"], by_part), sizes.get("samples_per_group")
    own_size = samples_of(parts["system"], grouped.get("system", {}), source, own_size, None, "system.")
    sizes |= {"samples_per_group": own_size} if is_file(parts["system"]) else {}
    return Spec(
        task=task,
        policy=policy,
        system=source,
        method=_with(build("methods", parts["method"], method, "method."), words, by_part),
        update=chain(*update),
        **sizes,
    )


def _with(method: Any, words: Mapping[str, Any], by_part: Mapping[str, dict[str, Any]]) -> Any:
    """The method with the penalties and factors that are named, behind its own."""
    more = dict[str, list[Any]]()
    for option, kind in _ADDED.items():
        names = [(name, _called(name)) for name in words[option]]
        more[kind] = [build(kind, name, by_part.get(own.replace("-", "_"), {}), f"{own}.") for name, own in names]
    return plugins.load("asyncsim.methods", "added", "method")(method, **more) if any(more.values()) else method


def takers(key: str, words: Mapping[str, Any], cutoff: float) -> list[str]:
    """Return the arguments of this run's parts, such as sgd.lr, that a bare name such as lr may mean."""
    from asyncsim.sweeping.advising import OPTIONS

    named = {name: [words[name]] if isinstance(words.get(name), str) else words.get(name) or [] for name in _KINDS}
    network = words.get("task") == "gym" or words.get("policy")
    named["link"] = named["link"] or list((_NETWORKS if network else _TABLES)[0])
    found = []
    for part, names in named.items():
        for name in names:
            where = _called(name).replace("-", "_") if part in LISTS else part
            own = OPTIONS if part == "system" and is_file(name) else takes(_KINDS[part], name)
            found += [f"{where}.{near}" for near in checks.near(key, own, cutoff=cutoff)]
    return found


def owner(key: str, words: Mapping[str, Any]) -> str | None:
    """Return the full name, such as sgd.lr, of an argument that exactly one part of this run takes; else None."""
    found = [each for each in takers(key, words, 2.0) if each.endswith(f".{key}")]
    return found[0] if len(found) == 1 else None


def placed(key: str, words: Mapping[str, Any]) -> str:
    """Return the remedy for a bare name: an option, a part to add, or an argument of one of this run's parts."""
    # A name of a link, penalty or factor is no argument that is spelled alike.
    kind = next(iter(plugins.kinds_of(key)), None)
    added = kind in (_KINDS["link"], *_ADDED.values())
    # Of other libraries' words no argument is a misspelling.
    advice = checks.advice(key, "words")
    if found := takers(key, words, 2.0 if advice else 0.8) if not added else []:
        same = [each for each in found if each.rpartition(".")[2] == found[0].rpartition(".")[2]]
        if advice and same[0].endswith(".low"):  # a range of ratios has two ends
            return f"write --set {same[0]}=VALUE --set {same[0].removesuffix('low')}high=VALUE"
        return f"write {' or '.join(f'--set {each}=VALUE' for each in same)}"
    every = {name: part for part in LISTS for name in plugins.summaries(f"asyncsim.{_KINDS[part]}")}
    near = next(iter(checks.near(key, [*DESCRIBES, *every], cutoff=0.8)), "")
    if advice or not (kind or near):
        return advice
    if kind and not added and not checks.near(key, DESCRIBES, cutoff=2.0):
        return f"write --{plugins.PARTS[kind]} {key}"
    if near in DESCRIBES:
        return f"write --{near.replace('_', '-')} VALUE"
    last = [f"--link {each} " for each in (words.get("link") or list(_TABLES[0]))[-1:] if every[near] == "link"]
    return f"add {''.join(last)}--{every[near]} {near} --set {near}.KEY=VALUE".replace("_", "-", 1)


def worded(remedy: str) -> str:
    """Rewrite a remedy for an arm, in which options of a run are written KEY=VALUE.

    >>> worded("add --link sgd --link clip-norm --set clip_norm.limit=VALUE")
    'write "link=sgd,clip-norm clip_norm.limit=VALUE"'
    """
    if " arm " in remedy or not re.match("(write|add) --", remedy):
        return remedy
    options = re.sub(r"--([a-z-]+) (?=[\w.])", lambda m: m[1].replace("-", "_") + "=", remedy.replace("--set ", ""))
    options = re.sub(r"\blink=(\S+) link=", r"link=\1,", options)
    return re.sub(r"^\w+ ((?: ?[a-z_.]+=[^\s;]*[^\s;,])+)", r'write "\1"', options)


def of_words(pairs: Sequence[str], option: str) -> Spec:
    """A spec from words such as task=token-bandit, method=grpo, method.low=0.1, staleness=16, link=clip-norm,adam."""
    given = settings(pairs, option)
    known = [name for name in DESCRIBES if name not in ("set", "diagnostics")]
    own = {key: value for key, value in given.items() if "." not in key}
    chosen = {name: own.get(name, DESCRIBES[name].default) for name in PARTS}
    chosen |= {name: _listed(own.get(name)) for name in LISTS}
    for key in list(own):
        if key not in known and owner(key, chosen):
            own.pop(key)
        elif key not in known:
            text, arm = str(own[key]), option.startswith("arm")
            part = next(iter(plugins.kinds_of(text.replace("-", "_"))), "methods" * (":" in text))
            meant = text * (arm and bool(re.fullmatch(r"[a-z_]+=\S+", text)))
            meant = f"{plugins.PARTS[part]}={text}" if part else meant
            found = filled(placed(key, chosen), text)
            remedy = found if takers(key, chosen, 2.0) else checks.advice(key, "grid") or found
            if option == "--grid":
                remedy = re.sub(rf"--({'|'.join(SIZES)}) (?=\S)", r"--grid \1=", remedy.replace("--set ", "--grid "))
            remedy = f"write --grid {meant}" if meant and option == "--grid" else remedy
            remedy = f'to name an arm write "{key}: {meant}"' if meant and arm else worded(remedy) if arm else remedy
            fits = [name for name in known if name != "staleness" or not chosen["system"]]  # that has its own limit
            checks.one_of(option, key, fits, remedy or "name a part of the spec, or PART.KEY")
    words = {name: DESCRIBES[name].default for name in known if name not in SIZES or name == "updates"}
    words |= {name: str(own[name]) if name in PARTS else own[name] for name in own}
    words |= {name: understood(own[name], None) for name in SIZES if name in own}
    words |= {name: _listed(own.get(name)) for name in LISTS}
    return spec(words, [pair for pair in pairs if pair.partition("=")[0].strip().replace("-", "_") not in own])


def names_rate(words: Sequence[str]) -> bool:
    """Whether some of a run's words choose a learning rate."""
    return "lr" in {word.partition("=")[0].strip().rpartition(".")[2] for word in words}


def tell_unnamed(subjects: Mapping[str, Sequence[str]]) -> None:
    """Warn about runs, given by their words, that name no method and therefore train the default method."""
    who = [each for each, words in subjects.items() if "method" not in {word.partition("=")[0] for word in words}]
    if who:
        some = "every arm" if len(who) == len(subjects) > 1 else " and ".join(who)
        trains = f"{some} train{'s' * (' and ' not in some)}"
        streams.complain(f"no method was named, so {trains} {DESCRIBES['method'].default}; write --method NAME")


def _listed(names: Any) -> list[str]:
    return [word.strip() for word in str(names or "").split(",") if word.strip()]


def of_file(path: Path, given: Sequence[str], trust: Sequence[str]) -> Spec:
    """The spec in a file, which may name trusted code; refuses options that would describe another run."""
    from asyncsim.running.spec import Spec

    key, equals, word = str(path).partition("=")
    write = f"write --set {path}" if key and word else "write NAME=VALUE without spaces"
    write = f"write --{key} {word}" if key in DESCRIBES else write
    checks.require(path.exists() or not equals, "file", str(path), "an existing file, or left out", write)
    described = [name for name in given if name in DESCRIBES]
    kinds = [] if path.exists() else plugins.kinds_of(str(path).replace("-", "_"))
    alone = "separate several names by commas, without spaces"
    remedy = f"write --{plugins.PARTS[kinds[0]]} {path}" if kinds and plugins.PARTS[kinds[0]] not in given else alone
    left = path.exists() or not (kinds or described)
    checks.require(left, "file", str(path), "an existing file, or left out", remedy)
    spec = re.search(r"\.(ya?ml|json)$", str(path))
    write = f"asyncsim run --print-spec > {path} writes one to change" if spec else f"write --method {path}"
    checks.require(path.exists() or not (spec or ":" in str(path)), "file", str(path), "an existing file", write)
    for name in given:
        option = "--" + name.replace("_", "-")
        checks.require(name not in DESCRIBES, option, "given", f"left out beside {path}", "change the file instead")
    return Spec.load(path, trust)


_TABLES: tuple[dict[str, dict[str, Any]], int] = {"sgd": {"lr": 0.1}}, 64
"""Links with their settings, and the replicates, of a run that names none."""
_NETWORKS = {"clip_norm": {"limit": 0.5}, "adam": {"lr": 1e-3}}, 64
_LANGUAGE = {"clip_norm": {"limit": 1.0}, "adam": {"lr": 1e-4}}, 1
"""A learning rate that suits a table ruins a language model at the first update."""


def _check_parts(
    by_part: dict[str, dict[str, Any]], parts: dict[str, Any], links: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The settings; those of a part that this run does not have are refused."""
    optional = [name for name in ("policy", "advantage", "system", "rewards") if parts.get(name)]
    used = ["task", "method", *optional, "model" if parts["system"] else "schedule", *map(_called, links)]
    known = [name for name in links if _called(name) in plugins.summaries("asyncsim.updates")]
    rated = [name for name in known if "lr" in takes("updates", name)]
    for part, given in by_part.items():
        kinds, option = plugins.kinds_of(part), {"model": "system"}.get(part, part)
        added = next((each for each in map(plugins.PARTS.__getitem__, kinds) if each in LISTS), "")
        # Of these the option stands in front, not the name.
        chosen = next((each for each in PARTS if str(parts.get(each)).replace("-", "_") == part), None)
        if part in used:
            continue
        if chosen:
            key, each = next(iter(given.items()))
            remedy = f"write --set {chosen}.{key}={each} (in an arm without --set)"
        elif added:
            # A link that is named replaces the usual ones, and one optimizer takes another's place.
            kept = [name for name in known if not (name in rated and "lr" in takes("updates", part))]
            before = "".join(f"--link {name} " for name in kept) * (added == "link")
            remedy = f"write {before}--{added} {part} (in arms and grids {added}={part})"
            if added == "link" and rated and {*given} == {"lr"}:
                remedy = f"write --set {rated[0]}.lr=VALUE, or {remedy}"
        elif option in parts:
            remedy = f"add --{option} NAME (of arms and grids --set {option}=NAME)"
        elif kinds:
            own = [f"{plugins.PARTS[kinds[0]]}.{key}={each}" for key, each in given.items()]
            remedy = f"a value of one arm stands in its quotes: '{plugins.PARTS[kinds[0]]}={part} {' '.join(own)}'"
        else:
            others = {n for each in LISTS if each != part for n in plugins.summaries(f"asyncsim.{_KINDS[each]}")}
            for name in (each for each in links if part in LISTS and _called(each) not in others):
                key, each = next(iter(given.items()))
                near = (checks.near(key, fits := takes(_KINDS[part], name)) or [*fits, "KEY"])[0]
                remedy = f"write --set {_called(name)}.{near}={each} (in an arm without --set)"
                raise checks.InputError("--set", f"{part}.{key}", f"a setting of {name}, under its name", remedy)
            last = next(iter(given), "").rpartition(".")[2]  # of a trainer's own name, as actor.clip_ratio
            remedy = checks.advice(last, "words") or placed(last, parts) or "name a part of the run"
            each = next(iter(given.values()), "VALUE")
            remedy = filled(remedy, str(each))
            checks.one_of("--set part", part, used, remedy)
        raise checks.InputError("--set part", part, f"one of {', '.join(used)}", remedy)
    return by_part


def _called(name: str) -> str:
    """What --set calls a part that stands in a user's file."""
    return name.rpartition(":")[2]


def _source(
    parts: dict[str, str | None], staleness: int | None, coupled: bool, by_part: dict[str, dict[str, Any]]
) -> Any:
    """The system or schedule of a run, from exactly one of its options."""
    chosen = [name for name in ("system", "schedule") if parts[name]] + (["staleness"] if staleness is not None else [])
    options, remedy = "--" + " and --".join(chosen), "choose one source of staleness"
    if parts["system"] and "staleness" in chosen:
        limit = "staleness_limit" if is_file(parts["system"]) else "LIMIT"
        own = checks.near("staleness", takes("systems", parts["system"]), cutoff=0.9) or [limit]
        remedy = f"leave staleness out; a system has its own limit: --set system.{own[0]}={staleness}"
    checks.require(len(chosen) <= 1, options, "given together", "one of them", remedy)
    schedule = by_part.get("schedule", {})
    if parts["system"]:
        knobs = by_part.get("system", {})
        if coupled:
            # The length distribution is not used: lengths come from the policy.
            knobs = ({"length": 1.0} if "length" in takes("systems", parts["system"]) else {}) | knobs
        made = system(parts["system"], knobs, by_part.get("model", {}), "--set model", "system.")
        return build("schedules", "coupled", {"system": made}) if coupled else made
    checks.require(not coupled, "--coupled", True, "used with --system", "name the system whose lengths it couples")
    if parts["schedule"]:
        wrapped = parts["schedule"] == "coupled"
        checks.require(not wrapped, "--schedule", "coupled", "a schedule of its own", "write --system NAME --coupled")
        return build("schedules", parts["schedule"], schedule, "schedule.")
    twice = staleness is not None and "staleness" in schedule
    checks.require(not twice, "--set", "schedule.staleness", "left out beside --staleness", "give the staleness once")
    return build("schedules", "fixed", {"staleness": staleness or 0, **schedule}, "schedule.")


def specs_of(arms: Sequence[str], common: Sequence[str]) -> dict[str, Spec]:
    """Specs of the arms by name, from the words of all arms and then those of each arm."""
    specs, shared = dict[str, Any](), {word.partition("=")[0]: word.partition("=")[2] for word in common}
    for text in arms:
        name, words = words_of(text)
        name = name or text
        own = {word.partition("=")[0]: word.partition("=")[2] for word in words}
        spelled = "" if "method" in own else _spelled(text)
        meant = spelled.partition(" ")[0] in ("", f"method={shared.get('method')}".replace("-", "_"))
        checks.require(meant, "arm", text, "a method with its settings as KEY=VALUE", f'write "{spelled}"')
        inherited = [word for word in common if word.partition("=")[0] not in own]
        apart = "give each its own name" if name != text else "change one of them, as to method=gspo or method.low=0.1"
        checks.require(name not in specs, "arm", name, "named once", apart)
        for part in LISTS:
            here, of_all = _listed(own.get(part)), _listed(shared.get(part))
            if here and not {*of_all} <= {*here}:
                said = f"arm {name} has its own {part}, in place of {part}={','.join(of_all)} of all arms"
                said += f"; for both write {part}={','.join([*of_all, *here])}"
                warnings.warn(checks.RunWarning(said), stacklevel=2)
        try:
            specs[name] = of_words([*inherited, *words], f"arm {name}")
        except checks.InputError as error:
            shared_word = any(str(error.value) in word for word in inherited)
            remedy = error.remedy if shared_word else worded(error.remedy)
            kept = [word for word in words if word.partition("=")[0] != error.value and str(error.value) in own]
            remedy = remedy.replace('write "', f'write "{" ".join([*kept, ""])}', 1)
            if name == text and text.count("=") == 1 and "." in words[0].partition("=")[0]:
                remedy = f"quote the words of one arm, as 'method=NAME {text}'"
            for word in inherited if specs and error.field.endswith(" argument") else ():
                if word.partition("=")[0].endswith(f".{error.value}") and "each arm" not in remedy:
                    remedy = f"give it to the arms that take it alone, as '{arms[0]} {word}'"
            if lacks := re.fullmatch(r"add (--set (\w+)\.[^;]*)(.*)", error.remedy):
                owned = lacks[2] in own or lacks[2] in map(_called, ",".join(own.values()).split(","))
                remedy = f'write "{text} {lacks[1].replace("--set ", "")}"{lacks[3]}' if owned else error.remedy
            if remedy == error.remedy:
                raise
            raise checks.InputError(error.field, error.value, error.bound, remedy) from None
    if any(words_of(text)[0] for text in arms):
        return specs
    from asyncsim.comparing.arms import short_names

    return dict(zip(short_names(list(specs.values())) or specs, specs.values(), strict=True))


def smallest(pairs: Sequence[tuple[str, str]]) -> tuple[float, str, float]:
    """A smallest difference, its unit and the largest one, for words and their followers; refuses arms that fail."""
    arms = [word for option, word in pairs if word[:1] != "-" and option[:2] != "--"]
    task = next(iter(specs_of(arms, [word for option, word in pairs if option == "--set"]).values())).fitted_task
    given = {"--metric": notation.TRAINED, "--over": "mean", **dict(pairs)}
    metric, over = given["--metric"].replace("-", "_"), given["--over"]
    if over == "time" or ("--target" in given and over in ("seconds", "slot-hours")):
        return 10.0, "updates" if over == "time" else over, math.inf
    event, chance = over in ("collapse", "fall", "reached"), given.get("--statistic") == "improvement"
    low, high = (0.0, 1.0) if event else map(float, task.earnings)
    if chance or not (event or metric in notation.RETURNS) or math.isinf(high - low):
        return 0.05, "a probability" if chance else metric, math.inf
    of = f"the share of replicates ({over})" if event else metric
    return float(f"{(high - low) / 100.0:.1g}"), f"{of}, {low:g} to {high:g} on {plugins.name_of(task)}", high - low


def _spelled(text: str) -> str:
    """An arm that is a method with settings in another spelling, as we spell it; else ""."""
    name, inside = re.findall(r"\s*([\w-]*)\s*[:(\[,@/ ]?\s*(.*?)[)\]]?\s*$", text, re.DOTALL)[0]
    method, words = name.replace("-", "_"), re.findall(r"[^\s,;]+", inside.replace("--set ", ""))
    pairs = all(re.match(r"\w[\w.]*=", word) and not word.startswith("method=") for word in words)
    if method not in plugins.summaries("asyncsim.methods") or not pairs:
        return ""
    own = takes("methods", method)
    return " ".join([f"method={method}", *(f"method.{w}" if w.partition("=")[0] in own else w for w in words)])


def words_of(text: str) -> tuple[str, list[str]]:
    """Name ("" if it has none) and words of an arm; an option such as --system tba is a word, too."""
    between = ("", "vs", "versus", "against", "and")
    several = [word for word in re.split(r"[\s,]+", text) if word.strip(".") not in between]
    listed = {word.replace("-", "_") for word in several} <= {*plugins.summaries("asyncsim.methods")}
    apart = f"write {' '.join(several)}, without commas and quotes" if several else "leave it out"
    checks.require(not listed or several == [text], "arm", text, "one method or its settings", apart)
    named = re.match(r"\s*([\w .+-]+):\s+(.*)$", text)
    own = re.sub(r"(?<!\S)--([\w-]+)[ =](?=[^\s=-][^\s=]*(\s|$))", r"\1=", named[2] if named else text)
    words = _split("arm", own.replace("--set ", ""))
    comma = next((word for word in words if word.endswith(",")), "")
    apart = f'write "{text.replace(", ", " ").rstrip(",")}"'
    checks.require(not comma, "arm", comma, "without a comma at its end: spaces separate the settings of an arm", apart)
    return (named[1].strip() if named else ""), [_of_method(word) for word in words]


def _of_method(word: str) -> str:
    """Return a word of an arm as KEY=VALUE: the name of a method, or of a loss in a file, becomes method=NAME."""
    known = plugins.summaries("asyncsim.methods")
    snake = word.replace("-", "_")
    of_paper = checks.advice(snake, "methods", "paper")
    if snake in known or of_paper or re.fullmatch(r"[\w./]+:\w+", word):
        return f"method={word}"
    close = checks.near(word, known, 1, 0.8)
    file = f"write {word}:NAME, the name of a loss in it" if word.endswith(".py") else ""
    place = checks.advice(snake, "arm", otherwise=file)
    checks.require(not place, "arm", word, "a method or KEY=VALUE", place)
    checks.require("=" in word or not close, "arm", word, "a method or KEY=VALUE", f"write {''.join(close)}")
    return word


def _split(field: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        remedy = "close the quotation, or put a backslash before a quotation mark that is meant"
        raise checks.InputError(field, text, f"words as in a shell ({error})", remedy) from None


def of_task(word: str) -> bool:
    """Whether a KEY=VALUE word sets the task or one of its arguments."""
    return word.partition("=")[0].partition(".")[0] == "task"


def task_words(common: Sequence[str], other: str) -> list[str]:
    """Words of a further task: its own, and unless it names another task, the common task words it keeps."""
    own = _split("--also", other)
    keys = {word.partition("=")[0] for word in own}
    inherited = [] if "task" in keys else [word for word in common if of_task(word)]
    return [*(word for word in inherited if word.partition("=")[0] not in keys), *own]
