"""A device in name only: tensors of "cuda" are CPU tensors with a mark on their storage, and mixing both raises.

A machine with a GPU refuses an operation whose tensors are on two devices, numbers without axes aside. This does the
same without one: what is made for, copied to or computed from marked tensors is marked, and the numbers are the CPU's.
"""

from contextlib import ExitStack, contextmanager
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
COPIES = {"_to_copy", "copy_"}


def marked(tensor):
    """Whether a tensor is on the device."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor.untyped_storage(), "marked", False)


def mark(made):
    """All tensors of a result, now on the device."""
    for tensor in tensors(made):
        with torch._C.DisableTorchFunction():
            tensor.untyped_storage().marked = True
    return made


def tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def named(device):
    """Whether "cuda" is meant; None where nothing is."""
    return None if device is None else torch.device(device).type == "cuda"


def copied(tensor, there):
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        made = tensor.detach().clone()
    return mark(made) if there else made


class Operations(TorchDispatchMode):
    """Refuses operations on two devices, and marks what comes of marked tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name, given = func._schema.name.split("::")[1], tensors((args, kwargs or {}))
        there = [tensor for tensor in given if marked(tensor)]
        if name in COPIES:
            there = given[:1] if marked(given[0]) else []
        elif there and any(tensor.ndim > 0 and not marked(tensor) for tensor in given):
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu")
        made = func(*args, **(kwargs or {}))
        return mark(made) if there else made


class Names(TorchFunctionMode):
    """Understands the device's name where tensors are made, moved and asked."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func == torch.Tensor.device.__get__:
            return CUDA if marked(args[0]) else CPU
        if name in ("numpy", "__array__") and marked(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        if name == "cpu":
            return copied(args[0], False) if marked(args[0]) else args[0]
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
            return copied(made, there)
        return mark(made) if there else made

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
        return made if there is None or there == marked(made) else copied(made, there)


@contextmanager
def pretended():
    """A world in which `device="cuda"` is at hand."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.cuda, "is_available", lambda: True))
        stack.enter_context(mock.patch.object(torch.cuda, "get_device_name", lambda *_: "in name only"))
        stack.enter_context(Operations())
        stack.enter_context(Names())
        yield
