"""Compile a recorded function to machine code, and call it."""

import ctypes
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numpy as np
import torch
from llvmlite import binding
from torch import Tensor

from asyncsim.base.compiling import Shelf
from asyncsim.fusing import elementary, emitting, rolling, rules, stages  # noqa: F401  (the tape looks its rules up)
from asyncsim.fusing.emitting import NAME, described, ordered
from asyncsim.fusing.graph import Unfit, Var
from asyncsim.fusing.rolling import SCRATCH, emitted, held
from asyncsim.fusing.stages import ALIGNED
from asyncsim.fusing.tape import Tape, record

Way = tuple[Any, ...]


def leaves(tree: Any, path: Way = ()) -> Iterator[tuple[Way, Tensor]]:
    """All tensors inside nested dictionaries, lists and tuples, with their paths; other values are skipped."""
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for name, value in tree.items():
            yield from leaves(value, (*path, name))
    elif isinstance(tree, (list, tuple)):
        for place, value in enumerate(tree):
            yield from leaves(value, (*path, place))


def at(tree: Any, path: Way) -> Any:
    """The value at a path inside nested containers."""
    for step in path:
        tree = tree[step]
    return tree


def builder(tree: Any, numbers: dict[Way, int], path: Way = ()) -> Callable[[Sequence[Any]], Any]:
    """Return a function that puts a list of tensors into containers like the given ones and keeps other values."""
    if isinstance(tree, Tensor):
        number = numbers[path]
        return lambda made: made[number]
    if isinstance(tree, dict):
        parts = [(name, builder(value, numbers, (*path, name))) for name, value in tree.items()]
        return lambda made: {name: part(made) for name, part in parts}
    if isinstance(tree, (list, tuple)):
        places = [builder(value, numbers, (*path, place)) for place, value in enumerate(tree)]
        return lambda made: [part(made) for part in places]
    return lambda made: tree


TYPES = {"f": torch.float64, "i": torch.int64, "b": torch.bool}
WIDTH = 8
"""Replicates computed together: as many float64 numbers as the widest registers hold."""
_compiled: dict[str, Any] = {}
_engines: list[Any] = []


class Program:
    """A function of tensors, compiled to one loop over replicates.

    `function` is run once on containers (dictionaries, lists, tuples) of tensors, recorded, and compiled. Each tensor
    has the `replicates` on its first axis, or one row (or no axis) that all share. The same holds for the result and
    its containers. `rows` are other tensors that the function reads, with a row per replicate. Raises `Unfit` if
    compiling is impossible.
    """

    def __init__(self, function: Callable[[Any], Any], tree: Any, replicates: int, rows: Sequence[Tensor] = ()) -> None:
        found = list(leaves(tree))
        tape, told = Tape(replicates, list(rows)), {}
        # The same tensor at two places would be one input.
        inputs = [tensor.view(tensor.shape) for _, tensor in found]
        for number, tensor in enumerate(inputs):
            shared = tensor.ndim == 0 or (tensor.shape[0] == 1 and replicates > 1)
            tape.input(tensor, number, None if shared else 0)
            told[found[number][0]] = number
        with record(tape):
            results = function(builder(tree, told)(inputs))
        # What is one number everywhere is made once.
        pairs = sorted(((path, x, tape.var(x)) for path, x in leaves(results)), key=lambda row: _uniform(row[2]))
        outputs = [var for _, _, var in pairs if not _uniform(var)]
        self.uniform = [x.contiguous() for _, x, var in pairs if _uniform(var)]
        order = ordered(outputs)
        used = sorted({var.about for var in order if var.operation == "input"})
        self.width = WIDTH if replicates >= WIDTH else 1
        description = f"{self.width} {held(order)}\n{described(order, outputs)}"
        self.call, self.scratch = compiled(description, lambda: emitted(order, outputs, used, self.width))
        self.replicates, self.constants = replicates, tape.constants
        self.paths = [found[number][0] for number in used]
        self.expected = [inputs[number].shape for number in used]
        self.made = [_checked(var, tensor) for _, tensor, var in pairs[: len(outputs)]]
        self.built = builder(results, {path: number for number, (path, _, _) in enumerate(pairs)})
        self.scalars = np.array(tape.graph.scalars or [0.0])
        self.fixed = np.array([x.data_ptr() for x in self.constants] or [0], dtype=np.int64)
        self.sources = ctypes.c_int64 * max(1, len(used))
        self.targets = ctypes.c_int64 * max(1, len(outputs))
        self.told = self.fixed.ctypes.data, self.scalars.ctypes.data

    def __call__(self, tree: Any) -> Any:
        """Results for other numbers of the same shapes, in new tensors."""
        # Addresses are a call's own: two threads may call one program.
        kept, sources, targets = [], self.sources(), self.targets()
        for number, path in enumerate(self.paths):
            tensor = at(tree, path)
            if tensor.shape != self.expected[number]:
                shapes = f"{tuple(tensor.shape)}, not {tuple(self.expected[number])}"
                raise ValueError(f"input {path} of a program has shape {shapes}")
            tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
            kept.append(tensor)
            sources[number] = tensor.data_ptr()
        made = [torch.empty(shape, dtype=kind) for shape, kind in self.made]
        for number, tensor in enumerate(made):
            targets[number] = tensor.data_ptr()
        places = ctypes.addressof(sources), *self.told, ctypes.addressof(targets), _scratch(self.scratch)
        self.call(0, self.replicates - self.width, self.width, *places)
        return self.built(made + self.uniform)


class _Scratch(threading.local):
    """Memory for values between a program's loops, one per thread, reused by its programs."""

    held = np.empty(0, dtype=np.uint8)


_own = _Scratch()


def _scratch(size: int) -> int:
    """Address of a block of at least `size` bytes."""
    if len(_own.held) < size + ALIGNED:
        _own.held = np.empty(size + ALIGNED, dtype=np.uint8)
    address: int = _own.held.ctypes.data
    return address + -address % ALIGNED


def _uniform(var: Var) -> bool:
    return var.operation == "fill"


def _checked(var: Var, tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    """Shape and type of a result, which has to have a row per replicate."""
    if var.axis != 0:
        raise Unfit("a result without replicates in front")
    return tensor.shape, TYPES[var.kind]


@cache
def _machine() -> Any:
    """The target machine: the one that runs this process."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=_processor()[0], features=_processor()[1], opt=1, jit=True)


def _processor() -> tuple[str, str]:
    return binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()


@cache
def _shelf() -> Shelf:
    return Shelf(compiled)


@cache
def _made_by() -> str:
    """What compiled code depends on besides its program: compiler, processor, and the modules that write it."""
    sources = [Path(module.__file__ or "").read_bytes() for module in (elementary, emitting, rolling, stages)]
    digest = hashlib.blake2b(b"".join(sources), digest_size=16).hexdigest()
    return f"{llvmlite.__version__} {_processor()} {digest}"


def compiled(description: str, text: Callable[[], str]) -> Any:
    """Machine code for a described program, and its scratch memory in bytes; cached in memory and on disk."""
    key = hashlib.blake2b(f"{_made_by()}\n{description}".encode(), digest_size=16).hexdigest()
    if key not in _compiled:
        code = _shelf().read(key)
        if code is None:
            code = _code(text())
            _shelf().write(key, code)
        engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
        engine.add_object_file(binding.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        kinds = [*[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 5]
        size = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address(SCRATCH))()
        _compiled[key] = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address(NAME)), size
    return _compiled[key]


def _code(text: str) -> bytes:
    """Compile a module to machine code. LLVM's lower optimization levels gave equal speed in two thirds of the time."""
    module = binding.parse_assembly(text)
    module.verify()
    builder = binding.create_pass_builder(_machine(), binding.create_pipeline_tuning_options(speed_level=1))
    builder.getModulePassManager().run(module, builder)
    return bytes(_machine().emit_object(module))
