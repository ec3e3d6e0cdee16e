"""The interface of diagnostics, and the recorder that calls them."""

import dataclasses
import functools
import inspect
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import calls, checks, parts, plugins
from asyncsim.base.notation import RETURNS, TRAINED
from asyncsim.policies._policy import Policy, require_outputs
from asyncsim.step.step import Step

Range = tuple[float, float]
"""Of a number that a trace may hold: an interval ends at its bound, and its axis shows the whole range."""
SHARE: Range = (0.0, 1.0)
COSINE: Range = (-1.0, 1.0)
POSITIVE: Range = (0.0, math.inf)
ANY: Range = (-math.inf, math.inf)

_KINDS = {"share": SHARE, "cosine": COSINE, "positive": POSITIVE, "any": ANY}
_TEXTS = checks.table(__file__, "texts.toml")
RANGES = {name: _KINDS[kind] for kind, names in _TEXTS["ranges"].items() for name in names.split()}
"""Of what links, methods, factors and penalties report."""
Hear = Callable[[int, dict[str, np.ndarray], Any], None]
"""Called behind every recorded update with its number, its metrics, name to float64 `[R]`, and parameters `[R, P]`."""


@calls.named
@dataclass(frozen=True)
class Metric:
    """A metric: one number per replicate and recorded update.

    `outputs`: policy outputs that it reads; `enumerates`: whether it needs exact values; `default`: whether it is
    recorded unless the spec says otherwise; `range`: least and largest value that it can have, unbounded unless given;
    `doc`: what `help` shows of it. `subject`: what it describes. "step": the samples that the update trains on, so that
    groups which the method drops do not count and an update without groups has no value (NaN). "batch": the data as
    generated, dropped groups too. "policy": parameters, method or gradient, whatever was drawn. `of`: of which ratios w
    there is one, the first of which it is now; `equation` says what it is of w, `unit` in which unit.
    """

    name: str
    measure: Callable[..., Tensor]
    outputs: tuple[str, ...] = ()
    enumerates: bool = False
    default: bool = False
    range: tuple[float, float] | None = None
    doc: InitVar[str | None] = None
    subject: str = "step"
    of: tuple[str, ...] = ()
    equation: str = ""
    unit: str = ""

    def __post_init__(self, doc: str | None) -> None:
        checks.one_of("subject", self.subject, ("step", "batch", "policy"), "say what the metric describes")
        if doc is not None:
            # The class is frozen; an instance's own docstring is where `help` looks first.
            object.__setattr__(self, "__doc__", inspect.cleandoc(doc))

    @calls.named
    def __call__(
        self, of: str | None = None, *, name: str | None = None, doc: str = "", also: str = "", source: str = ""
    ) -> "Metric":
        """Return the metric, or its version for other ratios under its own name; raise `InputError` for unknown ones.

        `doc`, `also` and `source`: summary, further sentences and source of a metric on a page.
        """
        use = f"a run records it with Spec(diagnostics=[{self.name!r}])"
        at_hand = f"{use}; of log ratios x at hand, of shape [1, n], write sim.ratios.ess(x, torch.full_like(x, 1 / n))"
        checks.require(of is None or isinstance(of, str), self.name, of, "asked of a run, not of a value", at_hand)
        if of is None or (self.of and of == self.of[0]):
            return self
        checks.require(bool(self.of), self.name, of, "a metric of one kind of ratios, without an argument", use)
        checks.one_of("of", of, self.of, f"say of which ratios {self.name} is asked; {use}")
        return dataclasses.replace(
            self,
            name=name or f"{self.name}_{of}",
            measure=functools.partial(self.measure, of=of),
            of=(of,),
            default=False,
            doc=_says(doc, self.equation, of, also, self.unit, source) if doc else None,
        )

    def at(self, step: Step) -> Tensor:
        """Value of the metric per replicate, `[R]`; NaN if it describes samples and the step has none."""
        value = self.measure(step)
        return step.missing(value) if self.subject == "step" else value


RATIOS: dict[str, str] = _TEXTS["ratios"]
"""What a family of metrics may be asked of."""


def _says(summary: str, equation: str, of: str, text: str, unit: str, source: str) -> str:
    """Compose a docstring of its parts; without `of` the equation is part of the text."""
    shape = f"shape `[R]`, {unit}."
    body = f"{equation} with {RATIOS[of]}: {shape} {text}" if of else f"{text} Returns {shape}"
    return parts.documented(summary, f"{body} Source: {source}.", example="").strip()


@dataclass(frozen=True)
class Bound:
    """A function of a step with bound settings; two are equal if their functions and settings are equal."""

    function: Callable[..., Tensor]
    settings: tuple[tuple[str, Any], ...]

    def __call__(self, step: Step) -> Tensor:
        """Value of each replicate, `[R]`."""
        return self.function(step, **dict(self.settings))

    def __reduce__(self) -> tuple[Any, ...]:
        # Under the function's name stands the public one around it.
        public = getattr(sys.modules[self.function.__module__], self.function.__name__)
        return _bound, (public, self.settings)


def _bound(public: Any, settings: tuple[tuple[str, Any], ...]) -> Bound:
    return Bound(public.__wrapped__, settings)


READS = ("log_prob",)


def metric(
    unit: str = "",
    range: tuple[float, float] | None = None,
    source: str = "",
    outputs: tuple[str, ...] = (),
    *,
    joint: Callable[..., None] | None = None,
    **about: Any,
) -> Callable[[Callable[..., Tensor]], Any]:
    """Decorator that makes a function of a step a metric of the same name and docstring; settings as in `Metric`.

    Shape, `unit` and `source` follow the docstring, whose second paragraph is the equation where it is asked `of`
    several ratios. A function that declares knobs becomes one that makes metrics, named by every knob that is not the
    usual one; `joint(**knobs)` raises for knobs that do not go together.
    """

    def make(function: Callable[..., Tensor]) -> Any:
        name, own, about["outputs"], about["range"] = function.__name__, parts.declared(function), outputs, range
        checks.require(isinstance(unit, str), "unit", unit, "text", "write @metric(outputs=('log_prob',), range=SHARE)")
        if not own:
            summary, *texts = [" ".join(text.split()) for text in (inspect.getdoc(function) or "").split("\n\n")]
            about["equation"], of = (texts.pop(0), about["of"][0]) if "of" in about else ("", "")
            doc = _says(summary, about["equation"], of, texts[0], unit, source) if unit else function.__doc__
            return Metric(name, function, doc=doc, unit=unit, **about)

        def of_knobs(**given: Any) -> Metric:
            if joint:
                joint(**given)
            changed = [str(value) for key, value in given.items() if value != own[key].usual]
            return Metric("_".join([name, *changed]), Bound(function, tuple(given.items())), **about)

        words = f"Returns a metric of shape `[R]`, {unit}. Raises `InputError` for other values.", f"Source: {source}."
        doc = parts.documented(function.__doc__, parts.told(own), *words, example=f">>> {name}().name\n{name!r}")
        return parts.factory(name, function, own, of_knobs, doc)

    return make


class Accumulator(Protocol):
    """Accumulates over every update: `observe` per update, `result` at the end (R is the last axis of arrays)."""

    name: str
    outputs: tuple[str, ...]

    def fresh(self) -> "Accumulator": ...

    def observe(self, step: Step) -> None: ...

    # Optional `axes`: names of the axes before the last of each array of the result, for `Trace.to_xarray`.

    def result(self) -> dict[str, np.ndarray]: ...


def _made(item: Any, load: Callable[..., Any]) -> Any:
    """A metric from its name, its place in the user's file or itself; a plain function of a step is refused."""
    value = load(item) if isinstance(item, str) else item
    plain = inspect.isfunction(value) and not hasattr(value, "knobs")
    rule = plain and any(p.default is p.empty for p in inspect.signature(value).parameters.values())
    value = value() if isinstance(item, str) and not rule else value
    fits, bound = hasattr(value, "outputs") and hasattr(value, "name"), "names or values of sim.diagnostics"
    remedy = checks.advice("from_function", "diagnostics") if plain else "see `asyncsim list diagnostics`"
    checks.require(fits, "diagnostics", item, f"{bound}, not a plain function" if plain else bound, remedy)
    return value


def chosen(names: Any, policy: Policy, task: Any) -> tuple[list[Metric], list[Accumulator]]:
    """Metrics and accumulators of a spec, from "default", "none", or a list of names and objects."""
    load = functools.partial(plugins.load, "asyncsim.diagnostics", kind="diagnostics")
    # Take the defaults that the policy can compute, without samples of their own.
    if isinstance(names, str) and names in ("default", "none"):
        every = map(load, plugins.summaries("asyncsim.diagnostics") if names == "default" else ())
        usual = [each for each in every if isinstance(each, Metric) and each.default]
        usual = [each for each in usual if each.name != TRAINED or getattr(task, "solved", False)]
        return [each for each in usual if set(each.outputs) <= set(policy.outputs)], []
    if not isinstance(names, Iterable):
        _made(names, load)
        raise checks.InputError("diagnostics", names, "a list of metrics", "put it into brackets, diagnostics=[...]")
    items = (names,) if isinstance(names, str) else names
    usual = chosen("default", policy, task)[0] if "default" in [x for x in items if isinstance(x, str)] else []
    more = [item for item in items if not isinstance(item, str) or item != "default"]
    values: list[Any] = usual + [_made(item, load) for item in more]
    for value in values:
        require_outputs(policy, value.outputs, "diagnostics", value.name)
    metrics = [value for value in values if isinstance(value, Metric)]
    return metrics, [value.fresh() for value in values if not isinstance(value, Metric)]


PILE = 64
"""Rows that are put into their table together: one by one they would cost an operation each."""


class Column:
    """Recorded values of one metric, a row `[R]` per update, in a table with space for the full run.

    A row that stayed where it was made would hold the memory around it as well.
    """

    def __init__(self, room: int) -> None:
        self.room, self.made = room, 0
        self.table: Tensor | None = None
        self.pile: list[Tensor] = []

    def add(self, *rows: Tensor) -> None:
        """Append rows of recorded values."""
        self.pile += rows
        if len(self.pile) >= PILE:
            self.all()

    def last(self) -> Tensor:
        """The last recorded row, `[R]`."""
        return self.pile[-1] if self.pile else self.all()[-1]

    def all(self) -> Tensor:
        """All rows so far, `[n, R]`."""
        if self.table is None:
            self.table = self.pile[0].new_empty((self.room, *self.pile[0].shape))
        if self.pile:
            end = self.made + len(self.pile)
            torch.stack(self.pile, out=self.table[self.made : end])
            self.made, self.pile = end, []
        return self.table[: self.made]


class Recorder:
    """Records the metrics of a spec every `every` updates, and feeds accumulators at every update."""

    def __init__(self, spec: Any, replicates: int, hear: Hear | None = None, fresh: Any = None) -> None:
        self.hear, self.room, self.fresh = hear, -(-spec.updates // spec.every), fresh
        self.metrics, self.accumulators = spec.recorded
        self.every, self.active = spec.every, bool(self.metrics or self.accumulators)
        everything: list[Any] = [*self.metrics, *self.accumulators]
        self.outputs = tuple(sorted({output for diagnostic in everything for output in diagnostic.outputs}))
        self.rows = defaultdict(functools.partial(Column, self.room), {m.name: Column(self.room) for m in self.metrics})
        self.updates: list[int] = []
        self.seen = -1
        self.alive = torch.ones(replicates, dtype=torch.bool)
        # No gradient yet: as wide as one, but no memory.
        self.previous = torch.full((replicates, 1), math.nan, dtype=torch.float64).expand(-1, spec.trained_policy.size)

    def observe(self, step: Step, statistics: dict[str, Tensor], diverged: Tensor) -> None:
        """Record one update, with the numbers `[R]` that the chain reports; `diverged` is -1 for running replicates."""
        self.seen = step.update
        if self.active:
            self._record(step, statistics, diverged < 0)
        if self.hear is not None and step.update % self.every == 0:
            # Copies: what a listener does with them must not reach the trace.
            numbers = {name: rows.last().cpu().numpy().copy() for name, rows in self.rows.items()}
            self.hear(step.update, numbers, getattr(step, "parameters", None))

    def _record(self, step: Step, statistics: dict[str, Tensor], alive: Tensor) -> None:
        self.alive, step.previous, step.fresh = alive, self.previous, self.fresh
        for accumulator in self.accumulators:
            accumulator.observe(step)
        if step.update % self.every == 0:
            self.updates.append(step.update)
            rows = dict(step.measured)
            rows |= {m.name: self.masked(m.at(step), alive) for m in self.metrics if m.name not in rows}
            rows |= {name: self.masked(value, alive) for name, value in statistics.items()}
            for name, row in rows.items():
                self.rows[name].add(row)
        self.previous = step.gradient

    def masked(self, value: Tensor, alive: Tensor) -> Tensor:
        """Recorded value of each replicate, `[R]`: NaN for frozen replicates; refuses a single number for all."""
        if value.ndim > 1 or value.ndim < (len(alive) > 1):
            remedy = "average it, as step.mean(values) does for samples and step.token_mean(values) for tokens"
            raise checks.InputError("shape of a metric", list(value.shape), f"[R] = {list(alive.shape)}", remedy)
        return torch.where(alive, value.double(), torch.full((), math.nan, dtype=torch.float64))

    @property
    def axes(self) -> dict[str, list[str]]:
        """Names of the axes of accumulated arrays except the last, if the accumulator names them."""
        return {name: list(axes) for each in self.accumulators for name, axes in getattr(each, "axes", {}).items()}

    def packed(self) -> dict[str, Any]:
        """Everything recorded so far, in plain containers for `restore`."""
        return {
            "updates": np.array(self.updates, dtype=np.int64),
            "rows": {name: rows.all() for name, rows in self.rows.items()} if self.updates else {},
            "alive": self.alive,
            "previous": self.previous,
            # One without attributes of its own stands for itself, which no file can hold.
            "accumulators": [dict(getattr(each, "__dict__", {"itself": each})) for each in self.accumulators],
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Restore the recorded values that `packed` returned."""
        self.updates, self.alive, self.previous = tree["updates"].tolist(), tree["alive"], tree["previous"]
        for name, rows in tree["rows"].items():
            self.rows[name].add(*rows.unbind(0))
        for accumulator, attributes in zip(self.accumulators, tree["accumulators"], strict=True):
            vars(accumulator).update(attributes)

    def results(self, made: int, whole: bool = True) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Metrics `[U/every, R]` of the `made` updates, and accumulated arrays `[..., R]`.

        A stopped run omits what is incomplete: records of a batch that was given up, and arrays that it has reached.
        """
        rows = -(-made // self.every)
        metrics = {name: each.all()[:rows].cpu().numpy() for name, each in self.rows.items()} if self.updates else {}
        gathered: dict[str, np.ndarray] = {}
        for accumulator in self.accumulators if self.seen < made else ():
            try:
                arrays = accumulator.result()
            except checks.InputError:
                if whole:
                    raise
                continue
            # What a frozen replicate repeats is no measurement.
            alive = self.alive.cpu().numpy()
            gathered |= {name: np.where(alive, x, "" if x.dtype.kind == "U" else np.nan) for name, x in arrays.items()}
        return metrics, gathered


def head_staleness(step: Step) -> Tensor:
    """Mean staleness of each sample's first policy token in versions, `[R]`; NaN if a version is unknown."""
    heads = step.staleness[..., 0]
    if step.staleness.shape[-1] > 1 and not step.batch.full:
        # The environment may have written in front of it.
        first = (step.mask > 0) & (step.mask.cumsum(-1) == 1.0)
        heads = torch.where(first, step.staleness, torch.zeros_like(step.staleness)).sum(-1)
    if step.batch.kept is not None or math.isinf(step.size):
        return step.mean(heads)
    if step.counted is None:
        return heads.mean((1, 2))
    counted = (step.mass > 0).any(-1, keepdim=True)
    left = torch.where(counted, heads, torch.zeros_like(heads)).sum((1, 2))
    return left / (counted.sum((1, 2)) * heads.shape[2])


def samples(step: Step) -> Tensor | float:
    """Number of samples in the full step that the masses represent, a number or `[R]`; infinite for a population."""
    groups = step.groups
    return step.size * (groups if isinstance(groups, int) else groups[:, 0, 0])


def finished(step: Step) -> tuple[Tensor, Tensor]:
    """Number of episodes that ended in the batch and their mean return, float64 `[R]` each; NaN if none did."""
    batch = step.drawn.generated
    if batch.ended is None or batch.finished is None:
        groups = batch.groups if batch.kept is None else batch.kept.double().sum((1, 2))
        count = torch.full(batch.reward.shape[:1], batch.size, dtype=torch.float64) * groups
        return count, (batch.share * batch.reward.double()).sum((1, 2))
    count = batch.ended.double().sum((1, 2, 3))
    total = torch.where(batch.ended, batch.finished.double(), torch.zeros((), dtype=torch.float64)).sum((1, 2, 3))
    return count, total / count


def range_of(name: str) -> Range | None:
    """Range of a reported number, such as a metric, by its name in a trace; None if none is declared."""
    return RANGES.get(name) or next((value for pattern, value in RANGES.items() if fnmatchcase(name, pattern)), None)


def declared_ranges(names: Iterable[str], metrics: Iterable[Metric], earnings: Range) -> dict[str, Range]:
    """Range of each bounded metric by name; a range that the metric declares itself takes precedence."""
    by_metric = {metric.name: metric.range for metric in metrics} | dict.fromkeys(RETURNS, earnings)
    ranges = {name: by_metric.get(name) or range_of(name) or ANY for name in names}
    return {name: value for name, value in ranges.items() if value != ANY}
