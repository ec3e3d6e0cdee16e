"""A device in name only: tensors of "cuda" are CPU tensors with a mark on their storage, and its use is counted.

A machine with a GPU refuses an operation whose tensors are on two devices, numbers without axes aside. This does the
same without one: what is made for, copied to or computed from marked tensors is marked, and the numbers are the CPU's.
What costs time on a GPU is counted with the function of this package that asked for it: launches of kernels, waits of
the host for the device, and copies of host memory to the device.
"""

import sys
import weakref
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from asyncsim.updates import _link

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
PACKAGE = str(Path(__file__).parents[2] / "asyncsim") + "/"

COPIES = {"_to_copy", "copy_"}
INDEXED = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index"}
WAITING = {
    *("_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive"),
    *("masked_select", "equal", "is_nonzero", "bincount", "repeat_interleave"),
}
"""Operations whose result, or the shape of it, the host has to know before it can go on."""
FREE = {
    *("view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select"),
    *("split", "split_with_sizes", "detach", "alias", "as_strided", "unbind", "narrow", "diagonal", "_reshape_alias"),
    *("unfold", "lift_fresh", "is_same_size", "empty", "empty_like", "new_empty", "empty_strided"),
    *("new_empty_strided", "resize_", "set_", "sym_size", "sym_stride", "sym_numel", "is_pinned"),
}
"""Operations that look at memory in another way, or ask for some: no kernel runs."""


@dataclass
class Ledger:
    """How often what was asked of the device, by the function that asked: "policies/causal_lm.py: act"."""

    launches: Counter = field(default_factory=Counter)
    waits: Counter = field(default_factory=Counter)
    copies: Counter = field(default_factory=Counter)
    held: int = 0
    peak: int = 0
    at_peak: str = ""

    def take(self, storage):
        """Memory of the device, until the storage is gone."""
        size = storage.nbytes()
        self.held += size
        weakref.finalize(storage, self._give, size).atexit = False
        if self.held > self.peak:
            self.peak, self.at_peak = self.held, place()

    def _give(self, size):
        self.held -= size

    def launch(self, name):
        self.launches[place()] += 1

    def wait(self, name):
        self.waits[f"{place()}: {name}"] += 1

    def copy(self, name):
        """From the host; from memory that is not pinned, which waits as well."""
        self.copies[f"{place()}: {name}"] += 1

    @property
    def totals(self):
        return {name: sum(getattr(self, name).values()) for name in ("launches", "waits", "copies")}

    def of(self, part):
        """The same of places whose name has `part` in it."""
        kept = {n: {k: v for k, v in getattr(self, n).items() if part in k} for n in ("launches", "waits", "copies")}
        return Ledger(**{name: Counter(each) for name, each in kept.items()})


def place():
    """The innermost function of the package that is running; "elsewhere" where a test asks."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return f"{name.removeprefix(PACKAGE)}: {frame.f_code.co_name}"
        frame = frame.f_back
    return "elsewhere"


def marked(tensor):
    """Whether a tensor is on the device."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor.untyped_storage(), "marked", False)


def mark(made, ledger):
    """All tensors of a result, now on the device."""
    for tensor in tensors(made):
        with torch._C.DisableTorchFunction():
            storage = tensor.untyped_storage()
        if not getattr(storage, "marked", False):
            storage.marked = True
            ledger.take(storage)
    return made


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def named(device):
    """Whether "cuda" is meant; None where nothing is."""
    return None if device is None else torch.device(device).type == "cuda"


class Operations(TorchDispatchMode):
    """Refuses operations on two devices, marks what comes of marked tensors, and counts."""

    def __init__(self, ledger):
        super().__init__()
        self.ledger = ledger

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, given = func._schema.name.split("::")[1], tensors((args, kwargs or {}))
        there = [tensor for tensor in given if marked(tensor)]
        if name in COPIES:
            # A copy into the host's memory is the host's; one into the device's, the device's.
            crossing = marked(given[0]) != marked(given[-1])
            if (crossing and given[-1].ndim > 0) or (crossing and there == given[-1:]):
                (self.ledger.copy if marked(given[0]) else self.ledger.wait)(name)
            there = given[:1] if marked(given[0]) else []
        elif there:
            self._check(name, args, given)
        elif not given and torch._C._current_graph_task_id() != -1:
            there = [None]  # autograd makes zeros of its own, where the gradients are
        made = func(*args, **(kwargs or {}))
        if not there:
            return made
        if name not in FREE:
            self.ledger.launch(name)
        return mark(made, self.ledger)

    def _check(self, name, args, given):
        """Refuse what a GPU refuses; note what it waits for."""
        away = [tensor for tensor in given if tensor.ndim > 0 and not marked(tensor)]
        if name in INDEXED and marked(args[0]):
            index = [each for each in args[1] if each is not None]
            # Indices of the host are copied on every call, without a word.
            for each in index:
                if not marked(each):
                    self.ledger.copy("index of the host")
                    away = [tensor for tensor in away if tensor is not each]
            flags = [each for each in index if each.dtype in (torch.bool, torch.uint8)]
            filled = len(index) == 1 and name != "index" and args[2].numel() == 1 and not marked(args[2])
            if flags and not filled:
                self.ledger.wait("index of flags")
        if away:
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu")
        if name in WAITING:
            self.ledger.wait(name)


class Names(TorchFunctionMode):
    """Understands the device's name where tensors are made, moved and asked."""

    def __init__(self, ledger):
        super().__init__()
        self.ledger = ledger

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func == torch.Tensor.device.__get__:
            return CUDA if marked(args[0]) else CPU
        if func == torch.Tensor.is_cuda.__get__:
            return marked(args[0])
        if func == torch.Tensor.is_cpu.__get__:
            return not marked(args[0])
        if name in ("numpy", "__array__") and marked(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if name == "tolist" and marked(args[0]):
            self.ledger.wait(name)
        if name == "cpu":
            return self._copied(args[0], False) if marked(args[0]) else args[0]
        if name == "cuda":
            return args[0] if marked(args[0]) else self._copied(args[0], True)
        if name == "to":
            return self._moved(func, args, kwargs)
        there = named(kwargs.get("device"))
        if there is None:
            return func(*args, **kwargs)
        made = func(*args, **{**kwargs, "device": CPU})
        # What is made of a tensor that is elsewhere is a copy.
        shared = any(made is each for each in args if isinstance(each, torch.Tensor)) or name in (
            "as_tensor",
            "asarray",
        )
        if shared and isinstance(made, torch.Tensor) and marked(made) != there:
            return self._copied(made, there)
        if not there:
            return made
        if not isinstance(made, torch.Tensor) or not marked(made):
            (self.ledger.copy if name in ("tensor", "as_tensor") else self.ledger.launch)(name)
        return mark(made, self.ledger)

    def _copied(self, tensor, there):
        (self.ledger.copy if there else self.ledger.wait)("to the device" if there else "to the host")
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            made = tensor.detach().clone()
        return mark(made, self.ledger) if there else made

    def _moved(self, func, args, kwargs):
        """`Tensor.to` of a device, a type, another tensor, or several of these."""
        there, rest = named(kwargs.pop("device", None)), []
        for each in args[1:]:
            if isinstance(each, (str, torch.device)):
                there = named(each)
            elif isinstance(each, torch.Tensor):
                there, rest = marked(each), [*rest, each.dtype]
            else:
                rest.append(each)
        made = func(args[0], *rest, **kwargs) if rest or kwargs else args[0]
        return made if there is None or there == marked(made) else self._copied(made, there)


@contextmanager
def pretended(same=True):
    """A world in which `device="cuda"` is at hand; gives the ledger of what is asked of it.

    `same`: runs take the path that they take on a CPU, for equal bits, where a device has one of its own.
    """
    ledger = Ledger()
    with ExitStack() as stack:
        if same:
            stack.enter_context(mock.patch.object(_link, "one_kernel", lambda *_: False))
        stack.enter_context(mock.patch.object(torch.cuda, "is_available", lambda: True))
        stack.enter_context(mock.patch.object(torch.cuda, "get_device_name", lambda *_: "in name only"))
        stack.enter_context(mock.patch.object(torch.cuda, "mem_get_info", lambda *_: (FREE_BYTES, FREE_BYTES)))
        stack.enter_context(Operations(ledger))
        stack.enter_context(Names(ledger))
        yield ledger


FREE_BYTES = 8 << 30
"""Memory that the device says is free."""
