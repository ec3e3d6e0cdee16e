"""The trace of a run: metrics, accumulated arrays, final parameters, and the data needed to judge them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncsim.base import calls, checks, feeds, files, notation, outside, plugins, records, showing, uncertainty

if TYPE_CHECKING:
    import pandas as pd
    import xarray

NAMED = 6
"""Number of metrics named in the short form of a trace."""
LONGEST = 480
"""Maximum number of characters of that form."""
ARRAYS = ("updates", "parameters", "diverged", "realization")
GROWN = 0.2
"""Power of the largest number above which the weights of a diverged replicate count as grown."""
BEFORE = ("gradient_norm", "ess", "max_ratio", "kl")
"""Metrics that are reported for diverged replicates."""
ENDS = 24
"""Number of rows in the table for notebooks."""


@dataclass(frozen=True, eq=False, repr=False)
class Trace(calls.Told):
    """Results of a run: recorded metrics, accumulated arrays, final parameters, schedule and header.

    `metrics`: name to float64 `[U/every, R]`, NaN where missing. `updates`: int `[U/every]`. `accumulated`: name to
    `[..., R]`. `parameters`: final, `[R, P]`. `diverged`: int `[R]`, update at which a replicate left the finite range,
    or -1. `realization`: int `[R]`, which realization of the schedule a replicate ran on. `schedule`: the realized
    schedule.

    `header` has `spec`, the spec in words, and `manifest` with seed, versions and hardware. `settings` are knobs that
    differ between replicates, `ranges` the minimum and maximum of bounded metrics, `axes` names of the axes of
    accumulated arrays, if they have names. `partial` exists if the run was stopped: `updates` out of `of` were made by
    the stopped block, and `replicates` out of `of_replicates` were begun. `complete` counts the complete replicates,
    and `by` names what stopped the run.

    Two traces are equal if all numbers and the spec are bitwise equal; manifests are not compared.
    """

    metrics: dict[str, np.ndarray]
    updates: np.ndarray
    accumulated: dict[str, np.ndarray]
    parameters: np.ndarray
    diverged: np.ndarray
    realization: np.ndarray
    schedule: records.Schedule
    header: dict[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        words = ("spec", "settings", "partial")
        if any(records.plain(self.header.get(k)) != records.plain(other.header.get(k)) for k in words):
            return False
        (mine, scalars), (theirs, others) = self._packed(), other._packed()
        same = records.plain(scalars["schedule"]) == records.plain(others["schedule"])
        same = same and {k: v.dtype for k, v in mine.items()} == {k: v.dtype for k, v in theirs.items()}
        # To the bit, missing numbers included.
        real = {name: np.issubdtype(array.dtype, np.floating) for name, array in mine.items()}
        return same and all(np.array_equal(v, theirs[k], equal_nan=real[k]) for k, v in mine.items())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        spec = self.header.get("spec") or {}
        words = [f"{key}={spec[key]}" for key in ("task", "method") if key in spec]
        words.append(f"{len(self.updates)} recorded updates")
        different = ", ".join(self.settings)
        words.append(notation.plural(self.replicates, "replicate") + f" of different {different}" * bool(different))
        if self.partial is not None:
            words.append(f"partial, {self.partial['updates']} of {self.partial['of']} updates")
        names = ", ".join(list(self.metrics)[:NAMED]) + ", ..." * (len(self.metrics) > NAMED)
        text = f"{', '.join(words)}; metrics {names or 'none'}"
        return f"Trace({text if len(text) <= LONGEST else text[: LONGEST - 3] + '...'})"

    def _repr_html_(self) -> str:
        """HTML table for notebooks: spec, progress, and final values of the metrics for each setting."""
        head = self.header.get("spec") or {}
        cells = [(name, part, metric) for name, part in self.split().items() for metric in part.metrics]
        rows: list[Sequence[Any]] = [("setting", "metric", "last tenth, mean and 95 %")]
        rows += [(name or "all replicates", metric, part._describe_end(metric)) for name, part, metric in cells[:ENDS]]
        words = [f"{key} {head[key]}" for key in ("task", "method") if key in head]
        words += [notation.plural(len(self.updates), "recorded update"), notation.plural(self.replicates, "replicate")]
        if self.partial is not None:
            words.append(f"stopped after {self.partial['updates']} of {self.partial['of']} updates")
        if len(cells) > ENDS:
            words.append(f"the first {ENDS} of {len(cells)} rows")
        return showing.table(rows, ", ".join(words), heading=True, rows=ENDS)

    def _describe_end(self, metric: str) -> str:
        """Format the mean of a metric over the last tenth of the recorded updates, with its interval."""
        try:
            estimate = self.final(metric)
        except checks.InputError:
            return "—"
        low, high = self.interval(metric, estimate)
        if math.isnan(low):
            return f"{notation.number(estimate.value)} (no interval)"
        return " ".join(notation.bounded(estimate.value, low, high))

    @property
    def replicates(self) -> int:
        """R, the number of replicates."""
        return len(self.realization)

    @property
    def partial(self) -> dict[str, Any] | None:
        """How many updates a stopped run completed; None for a complete run. See `header`."""
        return self.header.get("partial")

    @property
    def settings(self) -> dict[str, np.ndarray]:
        """Settings that differ between replicates, by name, each float64 `[R]`; `split` returns one trace per value."""
        knobs = self.header.get("settings") or {}
        return {name: np.asarray(values, dtype=np.float64) for name, values in knobs.items()}

    def split(self) -> dict[str, Trace]:
        """Traces by name, one for each combination of the settings that differ; the trace itself if none differs.

        Names are such as "sgd.lr=0.05", in ascending order; the name is "" if there is only one setting.
        """
        settings = self.settings
        if not settings:
            return {"": self}
        values, which = np.unique(np.array(list(settings.values())), axis=1, return_inverse=True)
        columns = [tuple(float(x) for x in column) for column in values.T]
        names = [_name_setting(settings, column, "{:.6g}") for column in columns]
        if len(set(names)) < len(names):
            names = [_name_setting(settings, column, "{!r}") for column in columns]
        parts: dict[str, Trace] = {}
        for k, name in enumerate(names):
            # The replicates of one setting, on the realizations of the schedule that they use.
            rows = np.flatnonzero(which.reshape(-1) == k)
            used, realization = np.unique(self.realization[rows], return_inverse=True)
            whole = len(used) == self.schedule.realizations
            parts[name] = Trace(
                metrics={name: values[:, rows] for name, values in self.metrics.items()},
                updates=self.updates,
                accumulated={name: values[..., rows] for name, values in self.accumulated.items()},
                parameters=self.parameters[rows],
                diverged=self.diverged[rows],
                realization=realization,
                schedule=feeds.head(self.schedule, self.schedule.batches, None if whole else used),
                header={**self.header, "settings": {}, "setting": dict(zip(settings, columns[k], strict=True))},
            )
        return parts

    def range(self, name: str) -> tuple[float, float]:
        """Minimum and maximum that a metric of the run can have, infinite if the metric is unbounded."""
        low, high = (self.header.get("ranges") or {}).get(name, (None, None))
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)

    def interval(self, name: str, estimate: records.Estimate) -> tuple[float, float]:
        """The 95 percent interval of an estimate of a metric, clipped to the metric's range; NaN if there is none."""
        remedy = checks.advice("()", "trace.interval")
        checks.require(isinstance(estimate, records.Estimate), "estimate", estimate, "an Estimate", remedy)
        if not (math.isfinite(estimate.error) and estimate.independent):
            return math.nan, math.nan
        half = uncertainty.critical(0.05, estimate.freedom) * estimate.error
        low, high = self.range(name)
        # Rounding may lift a mean over a bound that all its numbers respect.
        low, high = min(low, estimate.value), max(high, estimate.value)
        return max(estimate.value - half, low), min(estimate.value + half, high)

    def __getitem__(self, name: str) -> np.ndarray:
        """Values of a metric by name, `[U/every, R]`."""
        remedy = plugins.unrecorded(name, self.metrics) if isinstance(name, str) else "name one, as trace['ess']"
        checks.one_of("metric", name, self.metrics, remedy)
        return self.metrics[name]

    def estimate(self, values: np.ndarray) -> records.Estimate:
        """Mean over realizations of numbers given per replicate, `[R]`, with its standard error.

        If schedules are not random, the standard error is between replicates.
        """
        bound, remedy = f"a number for each of {self.replicates} replicates", checks.advice("()", "trace.estimate")
        checks.require(np.shape(values) == (self.replicates,), "values", values, bound, remedy)
        return uncertainty.between(values, self.realization, self.schedule.random)

    def final(self, name: str, last: float = 0.1) -> records.Estimate:
        """Mean of a metric over the last tenth (`last`) of the recorded updates, without diverged replicates.

        Raises `InputError` if replicates have different settings: `split` gives a trace for each.
        """
        remedy = "give the fraction of the recorded updates that is averaged"
        last = checks.real("last", last, remedy, 0.0, 1.0, open_low=True)
        pooled = ", ".join(self.settings)
        ask = f"ask each part: {{name: part.final({name!r}) for name, part in trace.split().items()}}"
        checks.require(not pooled, "settings", pooled, "the same for all replicates of an estimate", ask)
        rows = max(1, round(last * len(self.updates)))
        window = np.where(self.diverged >= 0, np.nan, self[name][-rows:])
        # A missing number inside the window (a cosine to a zero gradient, say) takes nothing from the others.
        count = np.isfinite(window).sum(axis=0)
        why = self.why_diverged() or "record a metric that has a value there"
        estimate = self._mean(np.where(count > 0, np.nansum(window, axis=0) / np.maximum(count, 1), np.nan))
        checks.require(estimate is not None, "metric", name, "finite in some replicate at the end", why)
        assert estimate is not None
        return estimate

    def _mean(self, values: np.ndarray) -> records.Estimate | None:
        """Mean of the finite numbers in `[R]`; None without any, and an infinite error for a single one."""
        finite = np.isfinite(values)
        if finite.sum() < 2:
            single = values[finite]
            return records.Estimate(float(single[0]), error=math.inf, independent=False) if len(single) else None
        return uncertainty.between(values[finite], self.realization[finite], self.schedule.random)

    def why_diverged(self) -> str:
        """Describe how many replicates diverged, at which updates and why; empty if none did.

        A diverged replicate keeps the weights before the update that left the finite range. They are very large if the
        weights grew until they overflowed; else a single update was not finite, or too large. The text also has medians
        of the last gradient norm, ESS and ratio metrics recorded before.
        """
        lost = np.flatnonzero(self.diverged >= 0)
        if not len(lost):
            return ""
        first, last = int(self.diverged[lost].min()), int(self.diverged[lost].max())
        when = f"update {first}" if first == last else f"updates {first} to {last}"
        text = f"{len(lost)} of {self.replicates} diverged at {when}"
        if np.issubdtype(self.parameters.dtype, np.floating):
            size = np.abs(self.parameters[lost]).max(axis=1, initial=0.0)
            grown = size > np.finfo(self.parameters.dtype).max ** GROWN
            what = f"their weights grew until they overflowed (to {size[grown].max(initial=0.0):.2g}): lower the rate"
            other = (
                f"one update was NaN, infinite or huge (weights at most {size[~grown].max(initial=0.0):.2g} before): "
                "look for a loss, advantage, ratio or reward that is not finite, or a huge rate"
            )
            counts = ((int(grown.sum()), what), (int((~grown).sum()), other))
            text += "; " + "; ".join(f"in {count} {reason}" for count, reason in counts if count)
        before = self.updates[:, None] < self.diverged[lost]
        shown = []
        for name in [each for each in BEFORE if each in self.metrics]:
            values = np.where(before & np.isfinite(self.metrics[name][:, lost]), self.metrics[name][:, lost], np.nan)
            rows = np.isfinite(values)
            at = len(rows) - 1 - rows[::-1].argmax(axis=0)
            known = values[at, np.arange(len(lost))][rows.any(axis=0)]
            shown += [f"{name} {np.median(known):.2g}"] if len(known) else []
        return text + f" (last recorded before: {', '.join(shown)})" * bool(shown)

    def staleness(self) -> np.ndarray:
        """Fraction of trajectories at head staleness 0, 1, ... versions, over all batches and realizations."""
        heads = self.schedule.staleness()[..., 0]
        return np.bincount(heads[np.isfinite(heads)].astype(int)) / max(1, np.isfinite(heads).sum())

    @property
    def passes(self) -> int:
        """Number of updates per batch of the run."""
        spec = self.header.get("spec", {})
        return int(spec.get("epochs", 1) * spec.get("minibatches", 1))

    def seconds(self) -> np.ndarray:
        """Simulated time in seconds at which training on the batch of each recorded update starts, `[U/every, R]`.

        Raises `InputError` if the schedule has no clock, as an imposed one.
        """
        clock = self.schedule.seconds
        remedy = "a schedule that is imposed has no clock; train on an event system, sim.systems.NAME(...)"
        checks.require(clock is not None, "schedule.seconds", None, "known", remedy)
        assert clock is not None
        return clock[self.realization][:, self.updates // self.passes].T

    def table(self) -> pd.DataFrame:
        """Tidy table of the trace: one row per metric, recorded update and setting.

        Columns: `update`, `metric`, one for each knob that differs between replicates, `mean`, `standard_error`, `low`,
        `high`, `replicates`, `independent`. `low` and `high` are the 95 percent interval inside the metric's range.
        `replicates` counts those that have not diverged. `independent` is False where replicates share one random
        schedule, so that the error is too small.
        """
        from asyncsim.base.tables import Table

        knobs, rows = list(self.settings), []
        for part in self.split().values():
            setting = [part.header["setting"][knob] for knob in knobs]
            for name, values in part.metrics.items():
                for update, row in zip(part.updates, values, strict=True):
                    estimate = part._mean(row)
                    if estimate is not None:
                        # The interval of a row, however false its error; infinite where there is none.
                        low, high = part.interval(name, estimate._replace(independent=True))
                        ends = (-math.inf, math.inf) if math.isnan(low) else (low, high)
                        count = int(np.isfinite(row).sum())
                        statistics = (estimate.value, estimate.error, *ends, count, estimate.independent)
                        rows.append((int(update), name, *setting, *statistics))
        columns = ["mean", "standard_error", "low", "high", "replicates", "independent"]
        return Table(rows, columns=["update", "metric", *knobs, *columns])

    def texts(self) -> pd.DataFrame:
        """Prompts and responses of samples, one row each, if `diagnostics.texts` was recorded.

        Columns: `update`, `replicate`, `prompt`, `response`, `reward`, `staleness` (versions) and `ended`.
        """
        import pandas as pd

        arrays = {name[6:]: values for name, values in self.accumulated.items() if name.startswith("texts/")}
        remedy = 'record them with Spec(diagnostics=["default", "texts"])'
        checks.require(bool(arrays), "texts", "not recorded", "recorded", remedy)
        shape = arrays["update"].shape
        arrays["replicate"] = np.broadcast_to(np.arange(shape[-1]), shape)
        names = ("update", "replicate", "prompt", "response", "reward", "staleness", "ended")
        table = pd.DataFrame({name: arrays[name].ravel() for name in names})
        table = table[table["update"].notna()].astype({"update": int, "ended": bool})
        return table.sort_values(["update", "replicate"], kind="stable", ignore_index=True)

    def to_xarray(self) -> xarray.Dataset:
        """The trace as an `xarray.Dataset` with named axes.

        Variables: each metric (update, replicate); each accumulated array, replicate last, its other axes by the names
        that its accumulator gives them (lag), else NAME_0, NAME_1; `parameters` (replicate, parameter); `diverged`
        (replicate). Coordinates: update, replicate, and along replicate realization and the knobs that differ.
        Attributes: the entries of the header as JSON text. The schedule is left out. Units are those of the metrics.
        Raises `InputError` where xarray is absent.
        """
        try:
            import xarray
        except ImportError as error:
            bound = f"a package that is installed ({error})"
            raise checks.InputError("xarray", "absent", bound, checks.extra("xarray", "xarray")) from None
        axes = self.header.get("axes", {})
        variables: dict[str, Any] = {name: (("update", "replicate"), values) for name, values in self.metrics.items()}
        for name, values in self.accumulated.items():
            # A metric of the same name keeps it.
            label = f"accumulated_{name}" if name in variables else name
            named = axes.get(name) or ()
            inner = named if len(named) == values.ndim - 1 else [f"{name}_{n}" for n in range(values.ndim - 1)]
            variables[label] = ((*inner, "replicate"), values)
        variables["parameters"] = (("replicate", "parameter"), self.parameters)
        variables["diverged"] = (("replicate",), self.diverged)
        coordinates = {
            "update": self.updates,
            "replicate": range(self.replicates),
            "realization": ("replicate", self.realization),
            **{knob: ("replicate", values) for knob, values in self.settings.items()},
        }
        described = {key: json.dumps(records.plain(value)) for key, value in self.header.items()}
        return xarray.Dataset(variables, coordinates, described)

    def policy(self, given: Any = None, trust: Sequence[str] = ()) -> Any:
        """The trained policy, rebuilt from its recorded call; or the `given` policy, after a check that it fits.

        Raises `InputError` that names what is missing: the call that made it, its model, the model's original weights,
        or the parameters. A user's code runs only if `trust` lists it (my.py:name).
        """
        rows = self.header.get("policy")
        if given is None:
            remedy = "hand over the policy of the run: policy=spec.trained_policy (a table's weights: trace.parameters)"
            checks.require(rows is not None, "trace.header policy", None, "the call that made it", remedy)
            with outside.trusting(trust):
                given = calls.read("policy", rows, plugins.function)
        remedy = "write sim.policies.module(network, D, A); a replicate's network is trace.module(0)"
        checks.require(hasattr(given, "score_norm"), "policy", given, "a policy", remedy)
        wanted = self.header.get("manifest", {}).get("weights")
        if wanted is not None:
            field, remedy = f"weights of {getattr(given, 'name', 'the model')}", "put its files back as they were"
            checks.require(given.frozen == wanted, field, given.frozen, f"{wanted}, as in the run", remedy)
        size = self.parameters.shape[1]
        remedy = "give the policy of the run, and a trace that has kept its parameters"
        checks.require(given.size == size, "parameters of the trace", size, f"{given.size}, of the policy", remedy)
        return given

    def module(self, replicate: int = 0, policy: Any = None, trust: Sequence[str] = ()) -> Any:
        """The trained network of a replicate as a `torch.nn.Module`; the method `policy` explains `policy` and `trust`.

        A perceptron maps observations `[n, D]` to logits or means `[n, A]` (with a critic also to values); a language
        model is the network of `transformers`. Raises `InputError` for a policy that is no network.
        """
        return self.policy(policy, trust).as_module(self._row(replicate))

    def export(
        self, folder: str | os.PathLike[str], replicate: int = 0, policy: Any = None, trust: Sequence[str] = ()
    ) -> None:
        """Write the trained language model of a replicate with `save_pretrained`: weights, configuration, tokenizer.

        `transformers` and inference engines load the folder, as does `policies.causal_lm(folder)`. Raises `InputError`
        for another policy or a folder that is not empty, and where `policy` does.
        """
        self.policy(policy, trust).export(self._row(replicate), folder)

    def _row(self, replicate: int) -> Any:
        """The parameters of a replicate as a tensor `[P]`."""
        import torch

        checks.integer("replicate", replicate, 0, "give the number of a replicate", self.replicates - 1)
        flat = torch.from_numpy(self.parameters[replicate].copy())
        return flat.to(getattr(torch, self.header["spec"]["dtype"]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to one compressed file, atomically; the path ends in .npz, or has no suffix."""
        files.ends_in_npz("path", path, "trace.table().to_csv('x.csv') writes text")
        arrays, scalars = self._packed()
        files.save_arrays(path, "trace", arrays, records.plain(scalars))

    def _packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        arrays = {name: getattr(self, name) for name in ARRAYS}
        arrays |= {f"metrics/{k}": v for k, v in self.metrics.items()}
        arrays |= {f"accumulated/{k}": v for k, v in self.accumulated.items()}
        schedule, described = self.schedule.packed()
        arrays |= {f"schedule/{k}": v for k, v in schedule.items()}
        return arrays, {"schedule": described, "header": self.header}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trace:
        """Read a trace; raises `InputError` if it is damaged, too big, or of another kind or format version."""
        arrays, scalars = files.load_arrays(path, "trace")
        with files.well_formed(path, "trace"):
            groups: dict[str | None, dict[str, np.ndarray]]
            groups = {None: {}, "metrics": {}, "accumulated": {}, "schedule": {}}
            for name, value in arrays.items():
                group, separator, rest = name.partition("/")
                groups[group if separator else None][rest if separator else name] = value
            own = {name: groups[None][name] for name in ARRAYS}
            schedule = records.Schedule.unpacked(groups["schedule"], scalars["schedule"])
            header, more = scalars["header"], groups["accumulated"]
            trace = cls(groups["metrics"], accumulated=more, schedule=schedule, header=header, **own)
            trace._check()
        return trace

    def _check(self) -> None:
        """Check that shapes and types of the arrays are those that a run produces."""
        checks.require(isinstance(self.header, dict), "trace.header", self.header, "a mapping", "run it again")
        checks.integer("trace.passes", self.passes, 1, "run it again")
        R, U = self.realization.size, self.updates.size
        whole, real = (np.integer, "integers", 1), (np.floating, "numbers", 2)
        shapes: dict[str, tuple[int, ...]] = {"updates": (U,), "diverged": (R,), "realization": (R,)}
        expected: dict[str, tuple[np.ndarray, tuple[int, ...], tuple[Any, str, int]]]
        expected = {name: (getattr(self, name), shape, whole) for name, shape in shapes.items()}
        expected |= {f"metrics/{name}": (array, (U, R), real) for name, array in self.metrics.items()}
        expected["parameters"] = (self.parameters, (R, *self.parameters.shape[1:2]), real)
        for name, (array, shape, (kind, word, axes)) in expected.items():
            right = array.shape == shape and array.ndim == axes and np.issubdtype(array.dtype, kind)
            checks.require(right, f"trace.{name}", f"{array.dtype} {array.shape}", f"{word} {shape}", "run it again")
        for name, values in self.settings.items():
            checks.require(values.shape == (R,), f"trace.settings {name}", values.shape, f"[{R}]", "run it again")
        total, highest = self.schedule.batches * self.passes, self.schedule.realizations
        inside = U == 0 or (int(self.updates[0]) >= 0 and int(self.updates[-1]) < total)
        rising = inside and bool((self.updates[1:] > self.updates[:-1]).all())
        for name, values, well, bound in (
            ("updates", self.updates, rising, f"ascending in [0, {total})"),
            ("diverged", self.diverged, ((self.diverged >= -1) & (self.diverged < total)).all(), f"in [-1, {total})"),
            ("realization", self.realization, ((self.realization >= 0) & (self.realization < highest)).all(),
             f"in [0, {highest})"),
        ):  # fmt: skip
            checks.require(bool(well), f"trace.{name}", values.tolist(), bound, "run it again")


def _name_setting(knobs: Iterable[str], values: Iterable[float], form: str) -> str:
    return ", ".join(f"{knob}={form.format(value)}" for knob, value in zip(knobs, values, strict=True))
