"""How compiled code sees the state, as one pointer to a list of addresses, and how it is compiled and cached.

numba passes an array as seven values and names a record by all its fields. With some thirty tables every function had
two hundred parameters and a name of a hundred kilobytes, and compiling took most of a minute. Here a table, a record
and the state are a pointer each, and an access is a load at a known distance. Settings, counts and sums stand behind
the list, at known distances from the state itself.

LLVM is told what holds for the whole kernel. Addresses, lengths and settings do not change within a call. Fields of
different names lie in different places, and so do tables of different kinds. So what is loaded once need not be loaded
again after each store. Integers are int64 in compiled code, however narrow they are kept. No index is negative, and
none is checked.

numba optimizes and assembles a function with all that it calls, and again for each of its callers. With a hundred
functions, ten calls deep, most is done ten times. Here only entry points are (`_Whole`), and what they call is handed
on as it is (`_Part`). Settings that an entry point takes for granted are numbers in it, and what they exclude is gone.
Functions allocate nothing, so that none is compiled with numba's counting of references.

numba caches compiled code until the file of the cached function changes, even where functions that it calls have
changed. So only entry points are cached, under a key with a digest of all their sources.
"""

import hashlib
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import lower_builtin, lower_getattr_generic, lower_setattr_generic, models, register_model

from asyncsim.base import compiling, rng_compiled
from asyncsim.systems import _state
from asyncsim.systems._state import LAYOUT, PLAIN, RECORDS, SETTINGS, SLOT

_intrinsic: Any = numba.extending.intrinsic
_Attributes: Any = AttributeTemplate
WORD, BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
NAMES = tuple(LAYOUT)
SETTING = "asyncsim.setting."
"""Settings are read by functions of these names; every entry point has its own (`setting_readers`)."""


class StateType(types.Type):
    """Compiler type of the kernel state, whose value is the address of a list of table addresses."""

    def __init__(self) -> None:
        super().__init__(name="State")


class TableType(types.Type):
    """Compiler type of a state's table, whose value is the position of its address and lengths in the list."""

    def __init__(self, dtype: np.dtype, axes: int) -> None:
        self.dtype, self.axes = dtype, axes
        super().__init__(name=f"Table({_name_of(dtype)},{axes})")


class RowType(types.Type):
    """Compiler type of one record in a table, whose value is the record's address."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        super().__init__(name=f"Row({_name_of(dtype)})")


for _kind in (StateType, TableType, RowType):
    register_model(_kind)(models.OpaqueModel)
STATE = StateType()


def _name_of(dtype: np.dtype) -> str:
    """Short name of a dtype: for records, the table that holds them."""
    return dtype.name if dtype.names is None else next(name for name, (kind, _) in LAYOUT.items() if kind is dtype)


def _field(dtype: np.dtype, name: str) -> tuple[np.dtype, int]:
    """Dtype of a field and its byte offset."""
    fields: Any = dtype.fields
    return fields[name][:2]


def _type_of(dtype: np.dtype) -> types.Type:
    """Type of an element in compiled code."""
    return types.float64 if dtype.kind == "f" else types.int64


# Types of what is written in the kernel: `state.group`, `state.group[row]`, `group.place`, `state.steps.shape`.


@infer_getattr
class _StateFields(_Attributes):
    key = StateType

    def generic_resolve(self, state: StateType, name: str) -> types.Type | None:
        if name not in LAYOUT:
            return None
        dtype, axes = LAYOUT[name]
        return TableType(dtype, axes) if axes else RowType(dtype)


@infer_getattr
class _TableFields(_Attributes):
    key = TableType

    def generic_resolve(self, table: TableType, name: str) -> types.Type | None:
        if name == "shape":
            return types.UniTuple(types.int64, table.axes)
        return types.int64 if name == "size" and table.axes == 1 else None


@infer_getattr
class _RowFields(_Attributes):
    key = RowType

    def generic_resolve(self, row: RowType, name: str) -> types.Type | None:
        return _type_of(_field(row.dtype, name)[0]) if name in (row.dtype.names or ()) else None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        table = arguments[0]
        if not isinstance(table, TableType):
            return None
        item = RowType(table.dtype) if table.dtype.names else _type_of(table.dtype)
        return signature(item, table, _index_of(table))


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        table = arguments[0]
        if not isinstance(table, TableType) or table.dtype.names:
            return None
        return signature(types.none, table, _index_of(table), _type_of(table.dtype))


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        return signature(types.int64, *arguments) if isinstance(arguments[0], TableType) else None


def _index_of(table: TableType) -> types.Type:
    return types.int64 if table.axes == 1 else types.UniTuple(types.int64, 2)


# How memory is read and written. Without a tag it stays as it is for the whole call.


def _load(builder: Any, place: Any, kind: Any, tag: str | None) -> Any:
    value = builder.load(builder.bitcast(place, kind.as_pointer()))
    if tag is None:
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    else:
        value.set_metadata("tbaa", _alias(builder, tag))
    return value


def _alias(builder: Any, tag: str) -> Any:
    """LLVM metadata for the type of an access: accesses of different types never alias."""
    module = builder.module
    root = module.add_metadata(["asyncsim"])
    name = module.add_metadata([tag, root, WORD(0)])
    return module.add_metadata([name, name, WORD(0)])


def _kept_as(dtype: np.dtype) -> Any:
    """LLVM type of an element in memory."""
    return ir.DoubleType() if dtype.kind == "f" else ir.IntType(8 * dtype.itemsize)


def _is_narrow(dtype: np.dtype) -> bool:
    return dtype.kind != "f" and dtype.itemsize < 8


def _read(builder: Any, place: Any, dtype: np.dtype, tag: str) -> Any:
    value = _load(builder, place, _kept_as(dtype), tag)
    return builder.sext(value, WORD) if _is_narrow(dtype) else value


def _write(builder: Any, value: Any, place: Any, dtype: np.dtype, tag: str) -> None:
    value = builder.trunc(value, _kept_as(dtype)) if _is_narrow(dtype) else value
    store = builder.store(value, builder.bitcast(place, value.type.as_pointer()))
    store.set_metadata("tbaa", _alias(builder, tag))


def _at(builder: Any, place: Any, offset: Any) -> Any:
    return builder.gep(place, [WORD(offset) if isinstance(offset, int) else offset])


def _in_slot(builder: Any, table: Any, number: int) -> Any:
    """Load a table's address (0) or length (1, 2)."""
    return _load(builder, _at(builder, table, 8 * number), WORD, None)


def _element(builder: Any, kind: TableType, table: Any, index: Any) -> Any:
    if kind.axes == 2:
        row, column = cgutils.unpack_tuple(builder, index)
        index = builder.add(builder.mul(row, _in_slot(builder, table, 2)), column)
    start = builder.inttoptr(_in_slot(builder, table, 0), BYTES)
    return _at(builder, start, builder.mul(index, WORD(kind.dtype.itemsize)))


# What numba asks for where it meets them.


@lower_getattr_generic(StateType)
def _get_table(context: Any, builder: Any, kind: StateType, state: Any, name: str) -> Any:
    return _at(builder, state, RECORDS[name] if name in RECORDS else 8 * SLOT * NAMES.index(name))


@lower_getattr_generic(TableType)
def _get_lengths(context: Any, builder: Any, kind: TableType, table: Any, name: str) -> Any:
    lengths = [_in_slot(builder, table, 1 + axis) for axis in range(kind.axes)]
    return cgutils.pack_array(builder, lengths) if name == "shape" else lengths[0]


@lower_builtin(len, TableType)
def _get_length(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return _in_slot(builder, arguments[0], 1)


@lower_getattr_generic(RowType)
def _get_field(context: Any, builder: Any, kind: RowType, row: Any, name: str) -> Any:
    dtype, offset = _field(kind.dtype, name)
    if kind.dtype is not SETTINGS:
        return _read(builder, _at(builder, row, offset), dtype, f"{kind.name}.{name}")
    reader = ir.FunctionType(_kept_as(dtype), [BYTES])
    return builder.call(cgutils.get_or_insert_function(builder.module, reader, f"{SETTING}{name}"), [row])


@lower_setattr_generic(RowType)
def _set_field(context: Any, builder: Any, sig: Any, arguments: Any, name: str) -> None:
    kind, (row, value) = sig.args[0], arguments
    dtype, offset = _field(kind.dtype, name)
    _write(builder, value, _at(builder, row, offset), dtype, f"{kind.name}.{name}")


@lower_builtin(operator.getitem, TableType, types.Any)
def _get_item(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    kind, (table, index) = sig.args[0], arguments
    place = _element(builder, kind, table, index)
    return place if kind.dtype.names else _read(builder, place, kind.dtype, kind.name)


@lower_builtin(operator.setitem, TableType, types.Any, types.Any)
def _set_item(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    kind, (table, index, value) = sig.args[0], arguments
    _write(builder, value, _element(builder, kind, table, index), kind.dtype, kind.name)
    return context.get_dummy_value()


@_intrinsic
def state_at(typing: Any, addresses: Any) -> Any:
    """Kernel state whose table addresses are listed in an array of int64."""

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, arguments[0])
        return builder.bitcast(array.data, BYTES)

    return STATE(addresses), lower


@_intrinsic
def clear(typing: Any, row: Any) -> Any:

    def lower(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = sig.args[0]
        for name in kind.dtype.names:
            zero = context.get_constant(_type_of(_field(kind.dtype, name)[0]), 0)
            _set_field(context, builder, sig, (arguments[0], zero), name)
        return context.get_dummy_value()

    return types.none(row), lower


def setting_readers(constants: Mapping[str, float]) -> str:
    """LLVM text of functions that read the event model's settings, with constant settings inlined."""
    module = ir.Module()
    for name in SETTINGS.names:
        dtype, offset = _field(SETTINGS, name)
        kind = _kept_as(dtype)
        reader = ir.Function(module, ir.FunctionType(kind, [BYTES]), f"{SETTING}{name}")
        reader.linkage = "linkonce_odr"
        reader.attributes.add("alwaysinline")
        builder = ir.IRBuilder(reader.append_basic_block())
        place = _at(builder, reader.args[0], offset)
        builder.ret(kind(constants[name]) if name in constants else _load(builder, place, kind, None))
    return str(module)


class _Part(JITCodeLibrary):
    """Code of a function that only other kernel functions call, neither optimized nor assembled by itself."""

    def _optimize_final_module(self) -> None:
        """Do nothing; the entry point is optimized instead."""

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
    """Code of an entry point with all functions that it calls."""

    constants: Mapping[str, float] = {}
    """Settings that have one value wherever this entry point is called."""

    def _optimize_final_module(self) -> None:
        self._final_module.link_in(binding.parse_assembly(setting_readers(self.constants)))
        for function in self._final_module.functions:
            # Known to be called from nowhere else: what is called once is inlined, what never is vanishes.
            if function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._optimize_final_module()


def _into(library: type[JITCodeLibrary], **constants: float) -> type[Compiler]:
    """numba's compiler with a code library of this kind."""
    kind = type(library.__name__, (library,), {"constants": constants})

    class LibraryCompiler(Compiler):
        def define_pipelines(self) -> Any:
            self.state.library = kind(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    return LibraryCompiler


_njit: Any = numba.njit
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_PART = _into(_Part)
_SOURCES = {__file__, str(_state.__file__), str(rng_compiled.__file__)}
"""Files of the kernel, as far as their functions have been read."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of the kernel once for integers, not again for every constant that is passed."""
    _SOURCES.add(function.__code__.co_filename)
    dispatcher = _njit(no_cpython_wrapper=True, pipeline_class=_PART, **_OPTIONS)(function)
    resolve = dispatcher.get_call_template

    def resolve_without_constants(arguments: Any, keywords: Any) -> Any:
        return resolve(tuple(numba.types.unliteral(each) for each in arguments), keywords)

    dispatcher.get_call_template = resolve_without_constants
    return dispatcher


entry_point = compiling.kept(nogil=True, pipeline_class=_into(_Whole), **_OPTIONS)
"""An entry point: its code is cached on disk, other threads run meanwhile."""
plain_entry_point = compiling.kept(nogil=True, pipeline_class=_into(_Whole, **PLAIN), **_OPTIONS)
"""The same for states whose settings are those of `PLAIN`."""


def digest() -> int:
    """A number that changes with every source of the kernel; 1 if the sources are missing.

    Entry points hold it in their closure, which is part of numba's cache key.
    """
    paths = [Path(name) for name in sorted(_SOURCES)]
    if not all(path.is_file() for path in paths):
        return 1
    text = b"".join(path.read_bytes() for path in paths)
    return int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little") | 1
