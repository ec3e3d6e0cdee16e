"""The spec: everything that determines a run except its seed."""

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from asyncsim.base import calls, checks, feeds, files, knobs, outside, plugins, records, showing
from asyncsim.base.notation import TRAINED
from asyncsim.base.parts import Knob, choice, fields_of, whole
from asyncsim.diagnostics import _price
from asyncsim.diagnostics._diagnostic import chosen
from asyncsim.methods._method import Method
from asyncsim.policies._policy import Policy, require_outputs
from asyncsim.sampling.drawing import DRAWING, Evaluation, evaluation
from asyncsim.sampling.rollouts import SAMPLING
from asyncsim.step.minibatches import CUTS, WHEN, cut_rules
from asyncsim.step.versions import AT_HAND, at_hand
from asyncsim.tasks._task import Task
from asyncsim.updates._link import Chain

FORMAT = 1
"""Format version of written specs."""
DTYPES = ("float64", "float32")
DEVICES = ("cpu", "cuda")
ELEMENTS = 1 << 22
"""Maximum number of tokens in a batch over all replicates of a block, unless one replicate has more."""
WIDE = 6
"""Numbers per action and token in a batch if a part reads full distributions."""
SCHEDULE = "schedule versions [M, B, G, N, T]"
"""Name of a run's largest array that is not a tensor."""
ARRAYS = 10
"""Maximum count of 8-byte numbers per token that a batch holds at one time."""


def _count(usual: int) -> Any:
    return whole(usual, "give a positive integer", 1)


def _part(sign: str, folder: str, remedy: str, usual: Any = ...) -> Any:
    """A part of a plug-in folder, recognized by an attribute that no other kind has."""

    def check(name: str, part: Any) -> None:
        fits = hasattr(part, sign) and not isinstance(part, type)
        checks.require(fits, name, part, f"a {name} (it has no {sign!r})", plugins.by_name(part, folder, remedy))

    return Knob(usual, "", check)


def _of_type(kind: type, bound: str, remedy: str, usual: Any = ...) -> Any:
    return Knob(usual, "", lambda name, value: checks.require(isinstance(value, kind), name, value, bound, remedy))


REQUIRED: dict[str, Any] = {
    "task": _part("outcomes", "tasks", "write sim.tasks.NAME(...)"),
    "system": _part(
        "batches_per_publish", "systems", "write sim.systems.NAME(...), or sim.schedules.fixed(4) for 4 versions"
    ),
    "method": _part(
        "aggregator", "methods", "write sim.methods.NAME(...), of your own loss sim.methods.from_loss(FUNCTION)"
    ),
    "update": _of_type(Chain, "a chain", "write sim.chain(link), such as sim.chain(sim.updates.adam(lr=0.001))"),
}
"""Checks of fields that have no default."""


@calls.named
@dataclass(frozen=True)
@fields_of
class Spec(calls.Told):
    """All settings of a run: task, system, method, update chain and sizes.

    Arguments:
        task: what is trained (`sim.tasks`). system: an event system (`sim.systems`), an imposed schedule
        (`sim.schedules`) or a saved `Schedule`. method: advantage, weight and aggregator (`sim.methods`). update: links
        applied to the gradient (`sim.chain(...)`). policy: default the task's own. samples_per_group: N (default: as
        the system says, else 16). updates: optimizer updates U. epochs: passes over each batch (default: as the system
        recommends, else 1). minibatches: parts of a batch, with one update on each, shuffled for every epoch and
        replicate (default: as the system recommends, else 1). cut: how a batch is split. "groups" keeps groups together
        (default). "parts" takes equally many samples of every group. "samples" and "tokens" split those of the entire
        batch, and a minibatch counts as one group. advantages_from: compute advantages from the entire "batch" at its
        start, or from each "minibatch". replicates: R independent seeds. realizations: schedules M that replicates
        share (replicate r runs on r mod M); default the system's own. sampling: "monte_carlo", "counts" (one-token
        tasks) or "enumerate" (the population: mean dynamics). drawing: "late" (when trained, from kept weights) or
        "early" (when the version is current, without kept weights); for tables the results are bitwise equal; default
        the policy's own, early for language models. diagnostics: "default", "none", or names and values of
        `sim.diagnostics`. every: interval in updates between records. initial: initial parameters `[P]` or `[R, P]`
        (default the policy's own). dtype: of the parameters, "float64" or "float32" (default: float64 for tables,
        float32 for networks). block: replicates computed together (default: as many as fit); does not change the result
        of tables. device: "cpu" or "cuda" (networks only). micro_batches: number of passes in which the policy computes
        a step, with one in memory at a time (each is recomputed for its gradient); sums are over the entire step,
        whatever their number. compiled: whether updates run as one machine program (default: for tables, from 1000
        updates on, up to 131,072 numbers per replicate in an operation); results are equal up to rounding. rewards:
        which rewards arrive late, and what happens to their samples (`sim.rewards`; default: none).

    Raises `InputError` when the parts do not fit together, before any run.
    """

    task: Task
    system: Any
    method: Method
    update: Chain
    policy: Policy | None = _part(
        "score_norm",
        "policies",
        "leave it out, or write sim.policies.NAME(...), as sim.policies.module(network, D, A)",
        usual=None,
    )
    samples_per_group: int | None = whole(None, "give a positive integer", 1)
    updates: int = _count(100)
    epochs: int | None = whole(None, "leave it out for what the system recommends", 1, checks.LARGEST)
    minibatches: int | None = whole(None, "leave it out for what the system recommends", 1, checks.LARGEST)
    cut: str | None = choice(*CUTS, words="what minibatches are cut between").but(None)
    advantages_from: str = choice(*WHEN, words="whether advantages are made before or after the cut")
    replicates: int = _count(64)
    realizations: int | None = None
    sampling: str = choice(*SAMPLING, words="how outcomes are laid out")
    drawing: str | None = choice(*DRAWING, words="when trajectories are drawn").but(None)
    diagnostics: str | Sequence[Any] = "default"
    every: int = _count(1)
    initial: Any = None
    dtype: str | None = choice(*DTYPES, words="", remedy="choose the precision of parameters").but(None)
    block: int | None = None
    device: str = choice(*DEVICES, words="where tensors live")
    micro_batches: int = _count(1)
    compiled: bool | None = _of_type(bool, "True, False or None", "leave it out for the default", usual=None)
    rewards: Any = _part("arriving", "rewards", "write sim.rewards.late(...), or leave it out", usual=None)

    def __post_init__(self) -> None:
        declared = {field.name: field.metadata.get("declared") for field in dataclasses.fields(self)}
        for name, knob in (declared | REQUIRED).items():
            value = getattr(self, name)
            if knob is not None and (value is not None or knob.usual is not None):
                knob.check(name, value)
        for name in ("realizations", "block"):
            if getattr(self, name) is not None:
                checks.integer(name, getattr(self, name), 1, "leave it out for the default", self.replicates)
        for holds, *words in self._rules():
            checks.require(holds, *words)
        made, own = calls.of(self.policy), self.method
        read = own.describe().get("advantage") in ("gae", "n_step", "vtrace")
        if not own.critic and (read or (made and made.arguments.get("critic"))):
            said = checks.advice("untrained" if read else "unused", "critic")
            warnings.warn(checks.RunWarning(f"{own.name}: {said}"), stacklevel=4)

    def _rules(self) -> Iterator[tuple[bool, str, Any, str, str]]:
        """Conditions between settings, in order, each with the parts of an error message."""
        method, task, system = self.method, self.task, self.system
        yield self.every <= self.updates, "every", self.every, f"at most updates = {self.updates}", "record more often"
        method.advantage.check(math.inf if self.sampling == "enumerate" else self.samples)
        mc, remedy = self.sampling == "monte_carlo", "use sampling='monte_carlo'"
        bound = "monte_carlo for a task whose outcomes cannot be listed"
        yield mc or task.enumerable, "sampling", self.sampling, bound, remedy
        # The policy: where it computes, when it draws, what it keeps.
        policy = self.trained_policy
        bound = f"one of {', '.join(policy.devices)} for this policy"
        remedy = "leave device out, or use a policy that is a network"
        yield self.device in policy.devices, "device", self.device, bound, remedy
        yield at_hand(self.device), "device", self.device, AT_HAND, "use device='cpu'"
        bound, remedy = "late for a task that pays by token", "its worlds cannot be taken up again; use drawing='late'"
        yield self.drawn == "late" or not task.pays, "drawing", "early", bound, remedy
        # Old keys and values need samples that go on under new weights, and a text that is read once.
        mode, rereads = getattr(system, "mode", None), getattr(policy, "cache", "reread") != "keep"
        bound = f"'reread' where installs {mode} samples in flight"
        remedy = "use a system whose mode is 'keep', or an imposed schedule"
        yield mode in (None, "keep") or rereads, "policy.cache", "keep", bound, remedy
        remedy = "use cache='reread': behind a tool's reply a model reads its text again"
        yield rereads or not task.tools, "policy.cache", "keep", "'reread' for tasks with tools", remedy
        yield from cut_rules(
            self.parts,
            self.cut_between,
            self.advantages_from,
            (self.groups, self.samples, task.horizon),
            method.advantage,
            self.sampling,
        )
        apart = self.parts == 1 or self.cut_between != "tokens" or not getattr(policy, "whole", False)
        yield apart, "cut", "tokens", "another for a policy that reads whole responses", "use cut='samples'"
        _ = self.fitted_task  # refuses a policy that does not fit
        initial_rows(self.initial, self.replicates, policy.size)
        # Lists of outcomes, where every token has noise of its own, or where no version's noise is known.
        metrics = self.recorded[0]
        names = {metric.name for metric in metrics}
        engine = getattr(policy, "engine", None)
        if engine is not None and engine.noise != 0.0:
            remedy = "use sampling='monte_carlo', noise_per='version' or noise=0"
            bound = "monte_carlo where noise_per is not 'version'"
            yield mc or not engine.apart, "sampling", self.sampling, bound, remedy
            listing = sorted(({"variance", "bias"} if engine.apart else {"variance"}) & names)
            bound = f"recorded without the policy's noise = {engine.noise}"
            yield not listing, "diagnostics", ", ".join(listing), bound, "leave it out, or use noise=0"
        if self.rewards is not None:
            self.rewards.check(self, [metric.name for metric in metrics])
        # A batch alone does not say which prompt its group asked.
        sure = task.prompts == 1 or system.redundant == 0 or "variance" not in names
        bound, remedy = "recorded without redundant samples, or with one prompt", "leave it out, or set redundant=0"
        yield sure, "diagnostics", "variance", bound, remedy
        price = self.price(metrics)
        # Of shared parameters a version keeps the table as well.
        kept = max(policy.size, getattr(policy, "cells", 0))
        # Schedules are the host's, whatever the device of tensors.
        arrays = self._arrays(kept, metrics) | price.arrays()
        hosted = {name: each for name, each in arrays.items() if self.device == "cpu" or name == SCHEDULE}
        checks.memory(hosted)
        checks.memory({name: each for name, each in arrays.items() if name not in hosted}, self.device)
        _price.check(price)
        # What parts read of the policy, and knobs of one number per replicate.
        require_outputs(policy, method.outputs, "method", method.name)
        require_outputs(policy, method.advantage.outputs, "advantage", method.advantage.describe()["advantage"])
        for link in self.update.links:
            require_outputs(policy, getattr(link, "outputs", ()), "update", link)
        for length in (length for part in (method, self.update) for length in sorted(knobs.lengths(part))):
            bound, remedy = f"{length}, as a knob has one number for each", "give one number, or sweep over several"
            yield length == self.replicates, "replicates", self.replicates, bound, remedy

    def price(self, metrics: Sequence[Any]) -> _price.Price:
        """Cost of the spec's metrics that enumerate every outcome."""
        return _price.price(metrics, self)

    def settings(self) -> dict[str, tuple[float, ...]]:
        """Settings that differ between replicates, each with its R values; equal settings are omitted.

        >>> import asyncsim as sim
        >>> update = sim.chain(sim.updates.sgd((0.1, 0.2)))
        >>> sim.Spec(sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.reinforce(), update,
        ...          replicates=2).settings()
        {'sgd.lr': (0.1, 0.2)}
        """
        arrays = knobs.arrays(self.method, "method") | knobs.arrays(self.update, "update")
        return {name: values for name, values in arrays.items() if len(set(values)) > 1}

    @cached_property
    def trained_policy(self) -> Policy:
        """Policy that the run trains: the given policy, or the task's own."""
        return self.task.policy() if self.policy is None else self.task.adapted(self.policy)

    @cached_property
    def fitted_task(self) -> Task:
        """Task of the run, adapted to the policy; raises `InputError` if they do not fit."""
        return self.task.fit(self.trained_policy)

    @property
    def recorded(self) -> tuple[list[Any], list[Any]]:
        """Metrics that the run records, and new accumulators."""
        return chosen(self.diagnostics, self.trained_policy, self.fitted_task)

    @property
    def evaluation(self) -> Evaluation | None:
        """Plan by which the trained policy's return is sampled; None if it is not recorded, or has an exact formula."""
        sampled = not getattr(self.fitted_task, "solved", False)
        return evaluation(self) if sampled and TRAINED in [each.name for each in self.recorded[0]] else None

    @property
    def rounds(self) -> int:
        """Number of epochs per batch: `epochs` as given, or as the system recommends."""
        return self.epochs or int(feeds.recommended(self.system, "epochs"))

    @property
    def parts(self) -> int:
        """Number of minibatches per batch: as given, or as the system recommends."""
        return self.minibatches or int(feeds.recommended(self.system, "minibatches"))

    @property
    def cut_between(self) -> str:
        """Unit by which batches are cut into minibatches: as given, or as the system recommends."""
        return self.cut or str(feeds.recommended(self.system, "cut"))

    @property
    def samples(self) -> int:
        """Samples per group, N: as given, or as the system says."""
        return int(feeds.samples_of(self.system, self.samples_per_group, 16))

    @property
    def groups(self) -> int:
        """Groups per batch, G: as in the system, doubled if late rewards bring earlier groups back."""
        again = self.rewards is not None and self.rewards.kept > 0
        return int(self.system.groups_per_batch) * (1 + again)

    @property
    def passes(self) -> int:
        """Number of updates per batch: minibatches times epochs."""
        return self.rounds * self.parts

    @property
    def drawn(self) -> str:
        """Time at which trajectories are sampled, "late" or "early": as given, or the policy's default."""
        return self.drawing or self.trained_policy.drawing

    @property
    def precision(self) -> str:
        """Data type of the parameters: as given, or the policy's default."""
        return self.dtype or self.trained_policy.precision

    @property
    def together(self) -> int:
        """Replicates per block; by default such that a batch takes at most a few hundred megabytes."""
        each = self.groups * self.samples * self.task.horizon
        most = self.trained_policy.together or self.replicates
        return min(most, self.block or max(1, min(self.replicates, ELEMENTS // each)))

    def _arrays(self, parameters: int, metrics: Sequence[Any]) -> dict[str, tuple[int, str]]:
        """Sizes in bytes of the large arrays of a run by name, and the settings that reduce each."""
        system, R, T = self.system, self.replicates, self.task.horizon
        group = self.groups * self.samples
        batches = self.updates // self.passes
        versions = 1
        if self.drawn == "late":
            # About how many published versions are kept at one time.
            settings, published = getattr(system, "knobs", {}), batches // system.batches_per_publish + 1
            if isinstance(system, records.Schedule):
                versions = 2
            elif "staleness" in settings:
                versions = min(published, settings["staleness"] + 2)
            elif "law" in settings:
                versions = min(published, len(settings["law"]) + 1)
            else:
                between = system.groups_per_batch * system.batches_per_publish
                versions = min(published, 2 + (system.tickets or 0) // between)
        versions += 0 if self.rewards is None else self.rewards.kept // system.batches_per_publish
        size = 8 if self.precision == "float64" else 4
        sizes = {
            "one batch [R, G, N, T]": (
                8 * ARRAYS * self.together * group * T,
                f"samples_per_group = {self.samples}, groups_per_batch, the horizon or block",
            ),
            "parameters [versions, R, P]": (
                size * parameters * (4 * R + 3 * self.together * versions),
                f"replicates = {R}, the parameters (arms, actions, horizon; train_layers of a language model)"
                + (" or the staleness" if versions > 1 else ""),
            ),
            "metrics [U/every, R]": (
                8 * (len(metrics) + 1) * R * (1 + self.updates // self.every),
                f"updates = {self.updates} or replicates = {R}, or raise every",
            ),
        }
        if not isinstance(system, records.Schedule):
            M = R if system.coupled else min(self.realizations or system.realizations(R), R)
            sizes[SCHEDULE] = (
                (8 + 5 * M * (T if system.mode in ("keep", "reprefill") else 1)) * batches * group,
                f"updates = {self.updates}, samples_per_group = {self.samples} or realizations = {M}",
            )
        # Whole distributions, where a part asks for them.
        policy, asked = self.trained_policy, {*self.method.outputs, *self.method.advantage.outputs}
        asked |= {name for part in (*metrics, *self.update.links) for name in getattr(part, "outputs", ())}
        wide = {"log_probs", "reference_log_probs"} & asked & set(policy.outputs)
        if wide or getattr(policy, "distributions", False):
            tokens = self.together * system.groups_per_batch * self.samples * T
            sizes["log_probs [R, G, N, T, A]"] = (
                size * WIDE * int(getattr(policy, "actions", 1)) * tokens,
                f"samples_per_group = {self.samples}, groups_per_batch, the horizon or the vocabulary, "
                "or leave out the parts that read log_probs",
            )
        return sizes

    def replace(self, **changes: Any) -> "Spec":
        """Copy of the spec with other fields."""
        return calls.replaced(self, changes)

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON values: each part with the function that made it and its arguments.

        Raises `InputError` for a part that was changed after it was made, or that was made from a user's function.

        >>> import asyncsim as sim
        >>> spec = sim.Spec(sim.tasks.softmax_bandit(arms=3), sim.schedules.fixed(2), sim.methods.grpo(),
        ...                 sim.chain(sim.updates.sgd(0.1)))
        >>> spec.to_dict()["task"], spec.to_dict()["update"]
        ({'tasks.softmax_bandit': {'arms': 3}}, [{'updates.sgd': {'lr': 0.1}}])
        >>> Spec.from_dict(spec.to_dict()).to_dict() == spec.to_dict()
        True
        """
        rows: dict[str, Any] = {"format": FORMAT}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            value = value.links if field.name == "update" else value
            if field.default is dataclasses.MISSING or value is not field.default:
                rows[field.name] = calls.written(field.name, value)
        return rows

    @classmethod
    def from_dict(cls, rows: Mapping[str, Any], trust: Sequence[str] | None = ()) -> "Spec":
        """Rebuild the spec from `to_dict`; raises `InputError` for another format, or unknown fields or arguments.

        Reading calls functions of this package and of installed ones. `trust`: a user's code, my.py:name or
        module:name, that the rows may name too; other code is refused before it is imported. None is for rows that this
        process made with `to_dict`: they may name the same code.
        """
        remedy = "write what Spec.to_dict gives, or `asyncsim run --print-spec` prints"
        checks.require(isinstance(rows, Mapping), "spec", type(rows).__name__, "a mapping", remedy)
        first = f'put "format": {FORMAT} into it; `asyncsim run --print-spec` prints a whole one'
        checks.require(rows.get("format") == FORMAT, "spec format", rows.get("format"), str(FORMAT), first)
        fields = [field.name for field in dataclasses.fields(cls)]
        given = {name: value for name, value in rows.items() if name != "format"}
        checks.each_of("spec field", given, fields, remedy)
        for name in ("task", "system", "method", "update"):
            checks.require(name in given, f"spec {name}", None, "given", remedy)
        checks.require(isinstance(given["update"], list), "update", given["update"], "a list of links", remedy)
        with outside.trusting(trust):
            parts = {name: calls.read(name, value, plugins.function) for name, value in given.items()}
            for link in parts["update"]:
                checks.require(hasattr(link, "apply"), "update", link, "links", "write {updates.NAME: {argument: 1}}")
            named = isinstance(parts.get("diagnostics", ()), (str, list, tuple))
            checks.require(named, "diagnostics", parts.get("diagnostics"), "names", remedy)
            return cls(**{**parts, "update": Chain(tuple(parts["update"]))})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spec as JSON, atomically; `load` reads it, and `asyncsim run PATH` runs it."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        files.write_atomically(path, lambda file: file.write(text.encode("utf-8")))

    @classmethod
    def load(cls, path: str | os.PathLike[str], trust: Sequence[str] = ()) -> "Spec":
        """Read a spec from a JSON or YAML file, such as one from `save`; `from_dict` explains `trust`."""
        return cls.from_dict(files.read_mapping(path), trust)

    def _repr_html_(self) -> str:
        """HTML table for notebooks: settings by name, as in `describe`."""
        settings = [(key, value) for key, value in self.describe().items() if value not in (None, [], {})]
        return showing.table(settings, rows=40)

    def describe(self) -> dict[str, Any]:
        """The spec's settings in words, for the header of a run."""
        policy = self.trained_policy
        saved = isinstance(self.system, records.Schedule)
        system = {"schedule": "saved", **self.system.header} if saved else self.system.describe()
        names = ("updates", "replicates", "sampling", "device")
        header = {**self.fitted_task.describe(), **policy.describe(), "system": system, **self.method.describe()}
        header["update"] = self.update.describe()
        header |= {name: getattr(self, name) for name in names} | {"samples_per_group": self.samples}
        header["epochs"] = self.rounds
        if self.parts > 1:
            header |= {"minibatches": self.parts, "cut": self.cut_between, "advantages_from": self.advantages_from}
        header |= {} if self.rewards is None else {"rewards": self.rewards.describe()}
        header |= {} if self.evaluation is None else {TRAINED: str(self.evaluation)}
        return header | {"drawing": self.drawn, "dtype": self.precision}


def initial_rows(initial: Any, replicates: int, parameters: int) -> np.ndarray | None:
    """Initial parameters `[1 or R, P]`, or None for the policy's own; raises `InputError` for other shapes."""
    if initial is None:
        return None
    remedy = "give one number per parameter"
    rows = np.atleast_2d(checks.numbers("initial", initial, "numbers", remedy))
    fits = rows.shape in ((1, parameters), (replicates, parameters))
    checks.require(fits, "initial", np.shape(initial), f"[P] or [R, P] with P = {parameters}, R = {replicates}", remedy)
    checks.require(bool(np.isfinite(rows).all()), "initial", "not finite", "finite", "fix the initial parameters")
    return rows
