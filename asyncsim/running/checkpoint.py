"""Checkpoints: a run between two batches saved to a file, from which it resumes with identical bits.

The file holds what was computed: finished blocks, parameters, states of links, kept weights, drawn trajectories,
environments and recorded values. Values keyed by the seed are recomputed. Reading it calls functions of this package
and of installed ones, and a user's code only if the user trusts it by name.
"""

import contextlib
import hashlib
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks, files, records, spec_code
from asyncsim.base.manifest import version_of
from asyncsim.running.spec import Spec
from asyncsim.running.updating import Part

PLAIN = (type(None), bool, int, float, str)


class Unwritable(Exception):
    """Raised for an object that no checkpoint can hold, since only its owner's code can rebuild it."""


def flattened(tree: Any, arrays: dict[str, np.ndarray], name: str = "") -> Any:
    """Convert nested containers to JSON values, and collect their arrays and tensors in `arrays`.

    Raises `Unwritable` for anything but numbers, text, None, lists, tuples, dictionaries, arrays and tensors.

    >>> flattened({"count": 3, "rows": [torch.zeros(2)]}, {})
    {'dict': [['count', 3], ['rows', {'list': [{'tensor': '0', 'axes': [0], 'repeated': {}}]}]]}
    """
    if type(tree) in PLAIN:
        return tree
    if type(tree) in (list, tuple):
        return {type(tree).__name__: [flattened(each, arrays, f"{name}[{i}]") for i, each in enumerate(tree)]}
    if type(tree) is dict and all(type(key) in (int, str) for key in tree):
        return {"dict": [[key, flattened(each, arrays, f"{name}.{key}")] for key, each in tree.items()]}
    if isinstance(tree, np.generic):
        return tree.item()
    if type(tree) is Tensor:
        return _tensor(tree, arrays)
    if type(tree) is np.ndarray and tree.dtype.kind in "biufU":
        return {"array": _put(arrays, tree)}
    raise Unwritable(f"{name.lstrip('.')} is a {type(tree).__name__}")


def rebuilt(skeleton: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Rebuild nested containers from `flattened`; other input raises `KeyError`, `TypeError` or `ValueError`."""
    if not isinstance(skeleton, dict):
        return skeleton
    if "tensor" in skeleton:
        return _tensor_of(skeleton, arrays)
    ((kind, content),) = skeleton.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: rebuilt(each, arrays) for key, each in content}
    parts = [rebuilt(each, arrays) for each in content]
    return {"list": parts, "tuple": tuple(parts)}[kind]


def _put(arrays: dict[str, np.ndarray], values: np.ndarray) -> str:
    name = str(len(arrays))
    arrays[name] = values
    return name


def _tensor(tensor: Tensor, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Store a tensor in memory order; `axes` gives that order, `repeated` the sizes of broadcast axes."""
    repeated = {axis: n for axis, n in enumerate(tensor.shape) if n > 1 and tensor.stride(axis) == 0}
    for axis in repeated:
        tensor = tensor.narrow(axis, 0, 1)
    axes = sorted(range(tensor.ndim), key=lambda axis: -tensor.stride()[axis])
    about: dict[str, Any] = {"axes": axes, "repeated": {str(axis): n for axis, n in repeated.items()}}
    if tensor.device.type != "cpu":
        about["device"] = tensor.device.type
    if tensor.dtype == torch.bfloat16:
        # NumPy has no such numbers.
        about["bfloat16"], tensor = True, tensor.view(torch.int16)
    return {"tensor": _put(arrays, tensor.detach().cpu().permute(axes).numpy()), **about}


def _tensor_of(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Tensor:
    axes = about["axes"]
    tensor = torch.from_numpy(np.ascontiguousarray(arrays[about["tensor"]]).reshape(arrays[about["tensor"]].shape))
    if "bfloat16" in about:
        tensor = tensor.view(torch.bfloat16)
    tensor = tensor.permute([axes.index(axis) for axis in range(tensor.ndim)])
    sizes = [about["repeated"].get(str(axis), n) for axis, n in enumerate(tensor.shape)]
    tensor = tensor.expand(sizes)
    return tensor.to(about["device"]) if "device" in about else tensor


FORMAT = 4
"""Format version of checkpoints."""
EVERY = 60.0
"""Default interval between checkpoints in seconds."""
MADE_WITH = ("asyncsim", "numpy", "numba", "torch", "gymnasium", "transformers")
"""Packages whose versions affect the last bits of a run."""
LARGE = 10_000
"""Number of initial parameters above which a spec is identified by their digest."""
_REMEDY = "give the file of run --checkpoint, or begin the run again"


def interval(every: Any) -> tuple[float | None, int | None]:
    """Interval between checkpoints: seconds as a number or with a unit, or updates as text.

    >>> interval(30), interval("5min"), interval("500 updates")
    ((30.0, None), (300.0, None), (None, 500))
    """
    counted = re.fullmatch(r"\s*(\d+)\s*updates?\s*", every) if isinstance(every, str) else None
    remedy = "give seconds as a number, or updates as text: '500 updates'"
    if counted:
        return None, checks.integer("checkpoint_every", int(counted[1]), 1, remedy)
    if isinstance(every, str):
        try:
            every = float(checks.seconds(every) or every)
        except ValueError:
            raise checks.InputError("checkpoint_every", every, "seconds or updates", remedy) from None
    return checks.real("checkpoint_every", every, remedy, 0.0, open_low=True), None


class Saved(NamedTuple):
    """Content of a run's checkpoint: spec, identity, code digests, results of blocks, and the state in progress.

    `spec`: as from `Spec.to_dict`, None if it cannot be written; `identity`: settings that a resumed run must share;
    `code`: digests of the code that ran; `standing`: state of the block in progress, None between two blocks.
    """

    path: Path
    seed: int
    spec: dict[str, Any] | None
    identity: dict[str, Any]
    code: dict[str, Any]
    parts: list[Part]
    standing: dict[str, Any] | None

    def remade(self, trust: Sequence[str] = ()) -> Spec:
        """Rebuild the run's spec from the checkpoint alone; `trust` as in `Spec.from_dict`."""
        remedy = "give the spec of the run as well: it has parts that no file can hold"
        checks.require(self.spec is not None, "resume", str(self.path), "one that holds its spec", remedy)
        assert self.spec is not None
        return Spec.from_dict(self.spec, trust)

    def check(self, spec: Spec, seed: int, other_code: bool = False) -> None:
        """Raise `InputError` if spec or seed differ from the checkpoint's, or the code does without permission."""
        remedy = "go on with the spec and the seed that it was made with (--resume FILE alone has them), or begin anew"
        checks.require(seed == self.seed, "seed", seed, f"{self.seed}, as in {self.path}", remedy)
        mine, code = identified(spec)[1:]
        places = {"weights": getattr(spec.trained_policy, "name", ""), "data": getattr(spec.task, "data", "")}
        ours, theirs = ({n: json.dumps(x, sort_keys=True) for n, x in each.items()} for each in (mine, self.identity))
        other = sorted(n for n in {*ours, *theirs} if ours.get(n, "null") != theirs.get(n, "null"))
        # Updates first, and last what was left out.
        for name, *more in [sorted(other, key=lambda n: (mine.get(n) is None, n != "updates"))] * bool(other):
            bound = f"{checks.clipped(theirs.get(name, 'null'), 120)}, as in {self.path}"
            bound += f" (other values too: {', '.join(more)})" * bool(more)
            if name == "updates":
                remedy = "a run ends at the updates that it began with: go on by --resume FILE alone, begin anew, or "
                remedy += "start from its weights, sim.Spec(..., initial=sim.run(resume=FILE).parameters)"
            field = f"spec.{name} ({places[name]})" if places.get(name) else f"spec.{name}"
            raise checks.InputError(field, mine.get(name), bound, remedy)
        changed = [] if other_code else spec_code.changed(self.code, code)
        remedy = "use that code, begin anew, or go on with other code by --other-code (other_code=True)"
        checks.require(not changed, "resume", str(self.path), f"of this code ({', '.join(changed)} changed)", remedy)


def read(path: files.Where) -> Saved:
    """Read a checkpoint; raises `InputError` if it is missing, damaged, or of another format or version."""
    arrays, scalars = files.load_arrays(path, "checkpoint", _REMEDY)
    with files.decoding(path, "checkpoint file", _REMEDY, "resume"):
        form = scalars["format"]
        checks.require(form == FORMAT, "resume", str(path), f"a checkpoint of format {FORMAT}, not {form}", _REMEDY)
        # The last bits of a run depend on the code that computes them.
        for name, version in made_with().items():
            theirs = scalars["made_with"].get(name)
            bound = f"made with {name} {version}, not {theirs}"
            checks.require(theirs == version, "resume", str(path), bound, "use that version, or begin anew")
        tree = rebuilt(scalars["tree"], arrays)
        parts = [Part.unpacked(part) for part in tree["parts"]]
        about = (scalars["seed"], scalars["spec"], scalars["identity"], scalars["code"])
        return Saved(Path(path), *about, parts, tree["standing"])


def made_with() -> dict[str, str | None]:
    """Versions of the packages that can change the bits of a run's results."""
    return {name: version_of(name) for name in MADE_WITH}


def identified(spec: Spec) -> tuple[dict[str, Any] | None, dict[str, Any], dict[str, Any]]:
    """A spec as JSON (None if impossible), the settings that identify it, and the code that it needs."""
    rows: dict[str, Any] | None = None
    frozen = {"weights": getattr(spec.trained_policy, "frozen", None)}
    if digest := getattr(spec.task, "digest", ""):
        frozen["data"] = digest
    if np.size(spec.initial) <= LARGE:
        with contextlib.suppress(checks.InputError, TypeError, ValueError):
            rows = json.loads(json.dumps(spec.to_dict()))
    code = spec_code.code_of(spec_code.Live(spec) if rows is None else rows, "asyncsim.running.running")
    return rows, (described(spec) if rows is None else rows) | frozen, code


def described(spec: Spec) -> dict[str, Any]:
    """Settings that identify a spec that JSON cannot hold: its description, and digests of its arrays."""
    sizes = ("every", "block", "realizations", "micro_batches")
    diagnostics = spec.diagnostics
    named = diagnostics if isinstance(diagnostics, str) else [getattr(each, "name", each) for each in diagnostics]
    arrays = {"initial": np.asarray(spec.initial, dtype=np.float64)} if spec.initial is not None else {}
    if isinstance(spec.system, records.Schedule):
        arrays |= {f"schedule.{name}": values for name, values in spec.system.packed()[0].items()}
    told = {"diagnostics": named, **{name: getattr(spec, name) for name in sizes}}
    told |= {name: hashlib.sha256(values.tobytes()).hexdigest() for name, values in arrays.items()}
    return json.loads(json.dumps(records.plain({**spec.describe(), **told})))


class Keeper:
    """Writes a run's checkpoints when they are due."""

    def __init__(self, path: files.Where, every: Any, spec: Spec, seed: int, saved: Saved | None = None) -> None:
        self.path, self.every = files.writable("checkpoint", path), interval(every)
        self.about = {"format": FORMAT, "made_with": made_with(), "seed": int(seed)}
        self.about |= dict(zip(("spec", "identity", "code"), identified(spec), strict=True))
        self.parts: list[Part] = [] if saved is None else list(saved.parts)
        self.standing = None if saved is None else saved.standing
        self.whole_blocks, self.updates = False, 0
        self.last = time.monotonic()

    def begin(self) -> None:
        """Write a first checkpoint, with the identity of the run, before the first batch."""
        if self.standing is None and not self.parts:
            self._write(None)

    def whole(self, reason: str) -> None:
        """Save only finished blocks of replicates from now on, and print the reason."""
        self.whole_blocks = True
        say(f"checkpoints hold finished blocks of replicates only: {reason}")

    def behind(self, updates: int, packed: Callable[[], dict[str, Any]], now: bool) -> None:
        """Count updates, and write a checkpoint with the result of `packed` if one is due or `now` requests it."""
        self.updates += updates
        if (now or self._due()) and not self.whole_blocks:
            self._write(packed)

    def finished(self, part: Part, last: bool) -> None:
        """Add a finished block of replicates; write a checkpoint if one is due, or after the last block."""
        self.parts.append(part)
        if last or self.whole_blocks or self._due():
            self._write(None)

    def _due(self) -> bool:
        seconds, updates = self.every
        if updates is not None:
            return self.updates >= updates
        return time.monotonic() - self.last >= float(seconds or EVERY)

    def _write(self, packed: Callable[[], dict[str, Any]] | None) -> None:
        arrays: dict[str, np.ndarray] = {}
        try:
            tree = {"standing": None if packed is None else packed(), "parts": [part.packed() for part in self.parts]}
            scalars = {**self.about, "tree": flattened(tree, arrays)}
            files.save_arrays(self.path, "checkpoint", arrays, scalars, compressed=False)
        except Unwritable as reason:
            self.whole(str(reason))
        except checks.InputError as error:
            say(f"no checkpoint: {error}")
        self.last, self.updates = time.monotonic(), 0


def opened(
    spec: Spec | None,
    seed: int | None,
    path: files.Where | None,
    every: Any,
    resume: files.Where | None,
    trust: Sequence[str] = (),
    other_code: bool = False,
) -> tuple[Spec | None, int, Keeper | None]:
    """Spec and seed of a run, by default those of the checkpoint to resume, and the writer of its checkpoints."""
    interval(every)
    if path is not None:
        beside = resume is None or files.named("checkpoint", path).resolve() != files.named("resume", resume).resolve()
        remedy = f"go on from it by resume={str(path)!r}, or remove it"
        new = not (beside and files.named("checkpoint", path).exists())
        checks.require(new, "checkpoint", str(path), "a new file", remedy)
    if resume is None:
        seed = 0 if seed is None else seed
        return spec, seed, Keeper(path, every, spec, seed) if path is not None and spec is not None else None
    saved = read(resume)
    spec = saved.remade(trust) if spec is None else spec
    checks.require(isinstance(spec, Spec), "spec", spec, "a Spec", "leave it out for that of the checkpoint")
    saved.check(spec, saved.seed if seed is None else seed, other_code)
    return spec, saved.seed, Keeper(resume if path is None else path, every, spec, saved.seed, saved)


def say(text: str) -> None:
    """Print one line of a run on stderr."""
    print(f"asyncsim: {text}", file=sys.stderr, flush=True)
