"""How the kernel's functions are compiled and cached.

numba optimizes and assembles a function with all that it calls, and again for each of its callers. With a hundred
functions, ten calls deep, most is done ten times. Here only entry points are (`_Whole`), and what they call is handed
on as it is (`_Part`). Settings that an entry point takes for granted are numbers in it, and what they exclude is gone.

Functions allocate nothing, so that none is compiled with numba's counting of references.

numba caches compiled code until the file of the cached function changes, even where functions that it calls have
changed. So only entry points are cached, under a key with a digest of all their sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding, ir
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

from asyncsim.base import compiling
from asyncsim.systems._state import PLAIN, WORKERS
from asyncsim.systems._tables import setting_readers


class _Part(JITCodeLibrary):
    """Code of a function that only other functions of the kernel call: neither optimized nor assembled by itself."""

    def _optimize_final_module(self) -> None:
        """Left to the entry point."""

    def _finalize_final_module(self) -> None:
        # numba looks up one variable of every function; machine code is made of that alone.
        whole, variables = self._final_module, ir.Module(self.name)
        for variable in whole.global_variables:
            if variable.name.startswith("_ZN08NumbaEnv"):
                pointer = ir.GlobalVariable(variables, ir.IntType(64), variable.name)
                pointer.linkage, pointer.initializer = "common", ir.IntType(64)(0)
        self._final_module = binding.parse_assembly(str(variables))
        super()._finalize_final_module()
        self._final_module = whole


class _Whole(JITCodeLibrary):
    """Code of an entry point with all that it calls."""

    constants: Mapping[str, float] = {}
    """Settings that have one value wherever this entry point is called."""

    def _optimize_final_module(self) -> None:
        self._final_module.link_in(binding.parse_assembly(setting_readers(self.constants)))
        for function in self._final_module.functions:
            # Known to be called from nowhere else: what is called once is inlined, what never is vanishes.
            if function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._optimize_final_module()


class _WholePlain(_Whole):
    constants = PLAIN


class _WholeWorkers(_Whole):
    constants = WORKERS


def _into(library: type[JITCodeLibrary]) -> type[Compiler]:
    """numba's compiler, which puts the code into a library of this kind."""

    class LibraryCompiler(Compiler):
        def define_pipelines(self) -> Any:
            self.state.library = library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    return LibraryCompiler


_njit: Any = numba.njit
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_PART = _into(_Part)


def compiled(function: Callable[..., Any]) -> Any:
    """A function of the kernel. It is compiled once for integers, not again for every constant that is passed."""
    dispatcher = _njit(no_cpython_wrapper=True, pipeline_class=_PART, **_OPTIONS)(function)
    resolve = dispatcher.get_call_template

    def resolve_without_constants(arguments: Any, keywords: Any) -> Any:
        return resolve(tuple(numba.types.unliteral(each) for each in arguments), keywords)

    dispatcher.get_call_template = resolve_without_constants
    return dispatcher


entry_point = compiling.kept(nogil=True, pipeline_class=_into(_Whole), **_OPTIONS)
"""An entry point: its code is cached on disk, other threads run meanwhile."""
plain_entry_point = compiling.kept(nogil=True, pipeline_class=_into(_WholePlain), **_OPTIONS)
"""The same for states whose settings are those of `PLAIN`."""
workers_entry_point = compiling.kept(nogil=True, pipeline_class=_into(_WholeWorkers), **_OPTIONS)
"""The same for states whose settings are those of `WORKERS`."""

_SOURCES = (
    "_compile",
    "_state",
    "_tables",
    "_heaps",
    "_engine",
    "_buffer",
    "_leaving",
    "_groups",
    "_weights",
    "_workers",
    "_kernel",
)


def digest() -> int:
    """A number that changes with every source of the kernel; 1 where the sources are missing.

    Entry points hold it in their closure, which is part of numba's cache key.
    """
    folder = Path(__file__).parent
    paths = [folder / f"{name}.py" for name in _SOURCES] + [folder.parent / "base" / "rng_compiled.py"]
    if not all(path.is_file() for path in paths):
        return 1
    text = b"".join(path.read_bytes() for path in paths)
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little") | 1
