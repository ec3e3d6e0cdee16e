"""`check_advantage`: which advantage a function from outside computes, and which known mistakes it makes."""

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from asyncsim.base import arguments, calls, checks
from asyncsim.conformance import _advantage_catalogue as catalogue
from asyncsim.conformance._advantage_catalogue import Array, Case, Entry
from asyncsim.conformance._metric_search import meaning
from asyncsim.conformance.reports import AdvantageReport, Finding, refuse_settings

_GIVEN = {"gamma": 0.9, "lam": 0.7, "rho": 1.3, "c": 0.8, "pg": 1.6, "size": catalogue.SIZE, "groups": catalogue.GROUPS}
_FLAGS = ("dones", "going", "starts", "last_done", "terminated", "truncated", "discounts")
LAYOUTS = ("rows", "time", "row")
Way = tuple[str, ...]
DONES = ("after", "before")
_EDGES = ("missing epsilon", "NaN for a group of one", "NaN on padding", "inputs changed in place")
NAMES = (*catalogue.NAMES, *_EDGES)
"""Findings that a caller may allow."""


class _Shape(ValueError):
    """Raised if no returned array has the shape of rewards."""


class Subject:
    """A caller's advantage function: `roles` by argument, its family, and how it is called."""

    def __init__(
        self, fn: Callable[..., Any], gamma: float | None = None, lam: float | None = None, dones: str | None = None
    ) -> None:
        own = {name: x for name, x in (("gamma", gamma), ("lam", lam)) if x is not None}
        self.fn, self.settings, self.own, self.changed = fn, _GIVEN | own, frozenset(own), False
        remedy = "give a function of (rewards, values, dones, gamma, lam) or (rewards, group_ids)"
        try:
            parameters = inspect.signature(fn).parameters.values()
        except (TypeError, ValueError) as error:
            raise checks.InputError("advantage", fn, "a function whose arguments have names", remedy) from error
        named = [p for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        self.roles: dict[str, str] = {}
        for p in named:
            role = arguments.role_of_reward(p.name) or meaning(p.name)
            role = "behavior_log_prob" if role == "old" else role
            known = role in {*arguments.ADVANTAGE, "mask", "log_prob", "behavior_log_prob"}
            told = known or p.default is not p.empty
            bound = f"a name that says what it is ({', '.join(arguments.ADVANTAGE)}, mask, log_prob, old_log_prob)"
            wrap = "rename it, give it a default, or wrap the function in a lambda"
            checks.require(told, "advantage", f"argument {p.name!r}", bound, wrap)
            if known and role is not None:
                self.roles[p.name] = role
        if "masks" in self.roles and "last" in self.roles.values():
            # Beside a value behind the last step, this is 1 where the episode goes on.
            self.roles["masks"] = "going"
        every = self.every = frozenset(self.roles.values())
        checks.require("rewards" in every, "advantage", f"arguments {', '.join(self.roles)}", "one of rewards", remedy)
        # Beside a flag of the step behind the last one, flags say that an episode begins.
        self.before = (dones or ("before" if "last_done" in every else "after")) == "before"
        ratios = {"log_ratio", "ratio", "log_prob"} & every
        self.told = bool(every & set(_FLAGS))
        traced = self.told or {"values", "gamma"} & every
        self.family = "v_trace" if ratios and "values" in every else "returns" if traced else "group"
        if self.family == "returns" and "values" in every:
            self.family = "gae" if "lam" in every or lam is not None else "values"

    def notes(self, way: Way) -> tuple[str, ...]:
        """How the function's arguments were interpreted."""
        renamed = ", ".join(f"{name} is {role}" for name, role in self.roles.items() if name != role)
        given = [f"{name} {self.settings[name]:g}" for name in ("gamma", "lam", "rho", "c", "pg") if name in self.every]
        shape = {"rows": "[B, T]", "time": "[T, B], time first", "row": "[T], one row a call"}[way[2]]
        lines = [f"by name: {renamed}"] if renamed else []
        if self.family != "group":
            longer = ["values with T + 1 steps"] if way[3] == "longer" else []
            lines += [f"are {'; '.join([shape, *longer, ', '.join(given)]).removesuffix('; ')}"]
        if "dones" in self.every:
            means = "step t is the first of an episode" if self.before else "the episode ended with step t"
            lines += [f"dones[t] says that {means}; for the other meaning give dones={DONES[not self.before]!r}"]
        return tuple(lines)

    def unchecked(self, way: Way, others: Sequence[Any]) -> tuple[str, ...]:
        """What the function does not receive, and cases that were therefore not tested."""
        lines = [f"what else it returns: give key={others[0]!r}"] if others else []
        if self.told and self.base(way)["last"] == "none":
            lines += ["rows that go on behind their last step: it is not given the value there"]
        if self.told and not {"truncated", "discounts"} & self.every:
            lines += ["episodes that a time limit cuts off: one flag does not tell them from terminated ones"]
        if "mask" in self.every:
            lines += ["masked tokens inside a row, which trainers skip or count as steps"]
        return tuple(lines)

    def base(self, way: Way) -> dict[str, Any]:
        """Options of the correct advantage for the function's arguments and way of calling."""
        if self.family == "group":
            return {"center": "group"}
        gamma = self.settings["gamma"] if {"gamma", "discounts"} & self.every | self.own & {"gamma"} else 1.0
        lam = self.settings["lam"] if "lam" in self.every | self.own else 1.0
        one: dict[str, Any] = {"gamma": gamma, "lam": lam, "told": self.told, "valued": "values" in self.every}
        one |= {"first": "prior" if self.before or "starts" in self.every else "open"}
        behind = "last" in self.every or way[3] == "longer" or "next_values" in self.every
        one |= {"last": "own" if behind else "none", "behind": "own" if "next_values" in self.every else "next"}
        if self.family == "v_trace":
            bounds = {key: ("ratio", self.settings[key] if key in self.every else 1.0) for key in ("rho", "c", "pg")}
            one |= bounds | ({} if "pg" in self.every else {"pg": bounds["rho"]})
        return one

    def cases(self, seed: int) -> tuple[Case, ...]:
        """Test batches that fit the function's arguments."""
        masked = "mask" in self.every
        if self.family == "group":
            steps = catalogue.STEPS if masked else 1
            ids, sized = "group" in self.every, bool({"size", "groups"} & self.every)
            return catalogue.group_cases(seed, ids=ids, kept="keep" in self.every, steps=steps, unequal=not sized)
        return catalogue.trace_cases(seed, masked=masked, ends=self.told, cuts="truncated" in self.every)

    def ways(self, layout: str | None) -> Iterator[Way]:
        """Ways to call the advantage function, most likely first."""
        layouts = ["rows"] if self.family == "group" else [layout] if layout else list(LAYOUTS)
        lengths = ["same"] if {"last", "next_values"} & self.every or "values" not in self.every else ["longer", "same"]
        lengths = lengths[1:] if "mask" in self.every and len(lengths) == 2 else lengths
        return itertools.product(arguments.libraries(self.fn), ("float", "bool"), layouts, lengths)

    def answers(self, cases: Sequence[Case], layout: str | None) -> dict[Way, list[dict[Any, Array]]]:
        """Returned arrays on each batch, by layout and length of values, with the first library that works."""
        found: dict[Way, list[dict[Any, Array]]] = {}
        errors: dict[str, Exception] = {}
        for way in self.ways(layout):
            if any(way[2:] == other[2:] for other in found):
                continue
            try:
                found[way] = [self.ask(case, way) for case in cases]
            except Exception as error:
                kind = "" if isinstance(error, _Shape) else f"{type(error).__name__}: "
                errors.setdefault(f"{kind}{error}", error)
        # One that runs in torch alone raises in numpy, which says nothing of its shape.
        shapes = [text for text, error in errors.items() if isinstance(error, _Shape)]
        failed = shapes[0] if shapes else "; ".join(list(errors)[:3])
        bound = "an array of the shape of rewards" if shapes else "a function that runs on small batches"
        remedy = f"it is called with ({', '.join(self.roles)}); arrays are [B, T], [T, B] or [T]"
        groups = f"{catalogue.GROUPS} groups of {catalogue.SIZE} samples, a row each; ids are a NumPy array"
        remedy += f"; {groups}" * (self.family == "group")
        checks.require(bool(found), "advantage", failed, bound, remedy)
        return found

    def ask(self, case: Case, way: Way) -> dict[Any, Array]:
        """Every array that the function returns in the shape of rewards, `[B, T]`, by key."""
        if way[2] == "row" and len(case.mask) > 1:
            parts = [self.ask(case.part(slice(i, i + 1)), way) for i in range(len(case.mask))]
            return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        given = self.arguments(case, way)
        copies = {name: _array(x).copy() for name, x in given.items()}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = self.fn(**given)
        self.changed |= any(not np.array_equal(x, _array(given[name]), True) for name, x in copies.items())
        known = out if isinstance(out, Mapping) else dict(enumerate(out if isinstance(out, tuple) else [out]))
        shaped = {key: self.shaped(x, case, way) for key, x in known.items()}
        found = {key: x for key, x in shaped.items() if x is not None}
        if not found:
            wanted = next(np.shape(_array(given[name])) for name, role in self.roles.items() if role == "rewards")
            was = " and ".join(str(np.shape(_array(x))) for x in known.values())
            raise _Shape(f"shape {was} was returned, and the shape of rewards is {wanted}")
        return found

    def shaped(self, value: Any, case: Case, way: Way) -> Array | None:
        """A returned array as `[B, T]`; None if it has another shape."""
        shape, x = case.mask.shape, _array(value).astype(float)
        if self.family == "group":
            if x.size == shape[0]:
                return x.reshape(-1, 1) * case.mask
            return x.reshape(shape) if x.size == case.mask.size else None
        x = x.T if way[2] == "time" else x
        return x.reshape(shape) if x.size == case.mask.size else None

    def arguments(self, case: Case, way: Way) -> dict[str, Any]:
        """Arguments of a call of the function on a batch."""
        library, kind, layout, length = way
        ends = case.ended | case.cut
        begins = np.concatenate([case.prior[:, None], ends[:, :-1]], 1)
        values = np.concatenate([case.values, case.behind[:, -1:]], 1) if length == "longer" else case.values
        flags = {"dones": begins if self.before else ends, "going": ~ends, "starts": begins, "last_done": ends[:, -1]}
        flags |= {"terminated": case.ended, "truncated": case.cut, "mask": case.mask, "keep": case.keep}
        logs = {"log_prob": case.log_ratio - 1.0, "behavior_log_prob": np.zeros_like(case.log_ratio) - 1.0}
        known = {"rewards": case.rewards, "values": values, "next_values": case.behind, "last": case.behind[:, -1]}
        known |= {"log_ratio": case.log_ratio, "ratio": np.exp(case.log_ratio), "group": case.group, **logs}
        known |= {"discounts": self.settings["gamma"] * ~ends}
        known |= {key: x.astype(kind if kind == "bool" else float) for key, x in flags.items()}
        if self.family == "group" and "mask" not in self.every:
            flat = {"group", "size", "groups"} & self.every
            known["rewards"] = case.rewards[:, 0] if flat else case.rewards.reshape(catalogue.GROUPS, -1)
        found: dict[str, Any] = {}
        for name, role in self.roles.items():
            if role in _GIVEN:
                found[name] = self.settings[role]
                continue
            x = np.array(known[role])
            x = x[0] if layout == "row" else x.T if layout == "time" else x
            # Ids stay numpy where tensors would be other keys of a dictionary.
            found[name] = torch.from_numpy(np.array(x)) if library == "torch" and role != "group" else x
        return found


def _array(x: Any) -> Array:
    return x.detach().numpy() if torch.is_tensor(x) else np.asarray(x)


class Fit(NamedTuple):
    """A catalogue entry that reproduces every advantage, and the way in which the function was called."""

    way: Way
    entry: Entry


def _off(x: Array, right: Array, mask: Array, tolerance: float) -> Array:
    """Positions at which two arrays differ, `[B, T]`; NaN equals NaN."""
    size = np.abs(right[mask & np.isfinite(right)]).max(initial=1e-300)
    return ~(np.abs(x - right) <= tolerance * size) & ~(np.isnan(x) & np.isnan(right)) & mask


def _first(x: Sequence[Array], right: Sequence[Array], cases: Sequence[Case], tolerance: float) -> str:
    """Describe the first value that differs."""
    for one, other, case in zip(x, right, cases, strict=True):
        places = np.argwhere(_off(one, other, case.mask, tolerance))
        if len(places):
            row, step = places[0]
            where = f"on '{case.name}', row {row}" + (f", step {step}" if case.mask.shape[1] > 1 else "")
            return f"{where}: {one[row, step]:.4g}, where {other[row, step]:.4g} is right"
    return ""


def _fits(subject: Subject, columns: Mapping[Way, list[Array]], cases: Sequence[Case], tolerance: float) -> list[Fit]:
    """Entries that reproduce every value with the fewest mistakes."""

    def gives(entry: Entry, column: list[Array]) -> bool:
        pairs = zip(cases, column, strict=True)
        return all(not _off(x, entry.value(case), case.mask, tolerance).any() for case, x in pairs)

    for many in range(3):
        found = []
        for way, column in columns.items():
            every = catalogue.entries(subject.family, subject.base(way), subject.every, many)
            found += [Fit(way, entry) for entry in every if gives(entry, column)]
        if found:
            return found
    return []


def _edges(subject: Subject, fit: Fit, key: Any, seed: int) -> Iterator[Finding]:
    """Edge cases, common in training, in which the function departs from its entry."""
    if subject.changed:
        remedy = "leave out operations that end in _ and assignments into inputs"
        yield Finding("inputs changed in place", "bug", "arrays after the call differ from before", remedy)

    def broken(case: Case) -> bool:
        try:
            return not np.isfinite(subject.ask(case, fit.way)[key][case.mask]).all()
        except Exception:
            return True

    first = subject.cases(seed)[0]
    if fit.entry.options.get("scale"):
        case = catalogue.equal(first)
        if broken(case):
            remedy = "add an epsilon to the deviation, or give 0 where it is 0"
            yield Finding("missing epsilon", "bug", f"no number on '{case.name}'", remedy)
    if subject.family == "group" and "group" in subject.every and not {"size", "groups"} & subject.every:
        case = replace(first, name="a group of one", group=np.where(np.arange(len(first.group)) == 0, 9, first.group))
        if broken(case):
            remedy = "give 0, or refuse such a group by name"
            yield Finding("NaN for a group of one", "hazard", f"no number on '{case.name}'", remedy)
    if subject.family == "group" or "mask" not in subject.every:
        return
    case = replace(first, values=np.where(first.mask, first.values, math.nan))
    if broken(case):
        remedy = "select by where, not by a product"
        yield Finding("NaN on padding", "hazard", f"no number on '{case.name}' with NaN behind the mask", remedy)


@calls.named
def check_advantage(
    fn: Callable[..., Any],
    like: str | None = None,
    *,
    key: int | str | None = None,
    gamma: float | None = None,
    lam: float | None = None,
    layout: str | None = None,
    dones: str | None = None,
    allow: str | Sequence[str] = (),
    strict: bool = False,
    tolerance: float = 1e-4,
    seed: int = 0,
    check: bool = False,
) -> AdvantageReport:
    """Compare a function's advantages on small batches with every advantage in the catalogue, right and wrong.

    `fn(rewards, values, dones, gamma, lam, ...)` returns advantages, for GAE, returns and, with log-probs or log
    ratios, V-trace; `fn(rewards, group_ids, ...)` those of a group baseline. Arguments are recognized by their names in
    any order (`token_level_rewards`, `episode_starts`, `bootstrap_value`, `log_rhos`, `index`, `num_generations`); what
    has another name and a default keeps it. Arrays are `[B, T]`, `[T, B]` or `[T]`, in numpy or torch, whichever
    explains the function with the fewest mistakes; values may have T + 1 steps. Rewards of groups are `[N]` beside ids
    or a size, `[G, N]` alone, `[B, T]` beside a mask. The oracle is A_t = delta_t + gamma lambda A_(t+1), delta_t = r_t
    + gamma V_(t+1) - V_t, row by row in float64, with at most two known mistakes.

    Arguments: `like`, the advantage that it is meant to be (None: any); `key` of the advantages where fn returns
    several; `gamma` and `lam`, which fn is given (default 0.9 and 0.7), or has inside; `layout`, "rows", "time" or
    "row" (None: any); `dones`, what dones[t] says: "after", the episode ended with step t, or "before", step t is the
    first of an episode (None: "before" where fn takes next_done, else "after"); `allow`, names of findings that do not
    count; `strict`, whether hazards count too; `tolerance`, relative to the largest number; `seed` of the batches;
    `check` raises where it does not conform. Returns an `AdvantageReport`. Raises `InputError` where fn fails, for
    arguments that are unknown, and for unknown names; `ConformanceError` with `check`. Source: 1506.02438 (GAE),
    1802.01561 (V-trace), 2402.03300 (groups).

    >>> def gae(rewards, values, dones, last_value, gamma, lam):
    ...     out, carried = 0 * rewards, 0
    ...     for t in reversed(range(len(rewards))):
    ...         following = last_value if t == len(rewards) - 1 else values[t + 1]
    ...         delta = rewards[t] + gamma * following - values[t]
    ...         carried = out[t] = delta + gamma * lam * (1 - dones[t]) * carried
    ...     return out
    >>> check_advantage(gae).bugs
    ('bootstraps from the next episode',)
    """
    allow = refuse_settings(tolerance, 0.1, seed, allow, NAMES, strict=strict, check=check)
    for field, value in (("gamma", gamma), ("lam", lam)):
        if value is not None:
            checks.real(field, value, "give what the function has", 0.0, 1.0)
    if dones is not None:
        checks.one_of("dones", dones, DONES, "say what dones[t] means")
    if layout is not None:
        checks.one_of("layout", layout, LAYOUTS, "say how arrays lie")
    if like is not None:
        like = str(getattr(like, "__name__", like)).replace("-", "_")
        checks.one_of("like", like, catalogue.WORDS, "all are in docs/check-your-trainer.md#an-advantage")
    subject = Subject(fn, gamma, lam, dones)
    cases = subject.cases(seed)
    answers = subject.answers(cases, layout)
    keys = list(next(iter(answers.values()))[0])
    if key is not None:
        checks.one_of("key", key, keys, "name one of what the function returns")
    for chosen in [key] if key is not None else [name for name in keys if "adv" in str(name)] or keys:
        columns = {way: [each[chosen] for each in found] for way, found in answers.items() if chosen in found[0]}
        fits = _fits(subject, columns, cases, tolerance)
        best = next((fit for fit in fits if fit.entry.name == like), fits[0] if fits else None)
        # Some trainers return the targets of a critic in front of advantages.
        if not best or best.entry.mistakes or best.entry.options.get("form") != "targets" or best.entry.name == like:
            break
    way = best.way if best else next(iter(columns))
    column, findings = columns[way], []
    plain = list(catalogue.entries(subject.family, subject.base(way), subject.every, 0))
    meant = best.entry.name if best and like is None else like
    asked = [entry for entry in plain if meant in (None, entry.name)]
    remedy = "leave like out, or add the arguments that it needs, as gamma and lam of gae"
    checks.require(bool(asked), "like", like, f"one of {', '.join(e.name for e in plain)} with these arguments", remedy)
    rights = [[entry.value(case) for case in cases] for entry in asked]

    def wrong(right: list[Array]) -> int:
        return sum(int(_off(x, y, case.mask, 1e-6).sum()) for x, y, case in zip(column, right, cases, strict=True))

    nearest, right = min(zip(asked, rights, strict=True), key=lambda each: wrong(each[1]))
    difference = _first(column, right, cases, tolerance)
    conforms = best is not None and meant == best.entry.name
    if best:
        findings = [Finding(m.name, "bug", difference, m.remedy) for m in best.entry.mistakes]
        findings += _edges(subject, best, chosen, seed)
    counted = any(finding.counts(allow, strict) for finding in findings)
    same = dict.fromkeys(fit.entry.label for fit in fits if best and fit.entry.label != best.entry.label)
    report = AdvantageReport(
        conforms=conforms and not counted, name=best.entry.name if best else "unknown", like=like,
        words=f"{catalogue.WORDS[best.entry.name]}" if best else "", same=tuple(same),
        nearest="" if conforms else f"{nearest.name}: {catalogue.WORDS[nearest.name]}",
        difference="" if conforms else difference, findings=tuple(findings), arguments=subject.notes(way),
        unchecked=subject.unchecked(way, [each for each in keys if each != chosen]),
    )  # fmt: skip
    return report.raise_for_failure() if check else report
