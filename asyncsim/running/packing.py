"""Plain containers, arrays and tensors as JSON beside named arrays, and back; nothing else is made of a file.

A tensor comes back with its axes in the same order in memory: sums over it round as they did.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

PLAIN = (type(None), bool, int, float, str)


class Unwritable(Exception):
    """Something that only its owner's code could make again; the message names it."""


def flattened(tree: Any, arrays: dict[str, np.ndarray], name: str = "") -> Any:
    """The tree as JSON can hold it, its arrays and tensors put into `arrays`.

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
    """The tree that `flattened` took apart; raises `KeyError`, `TypeError` or `ValueError` for any other skeleton.

    >>> arrays = {}
    >>> rebuilt(flattened({"count": 3, "rows": (np.arange(2), None)}, arrays), arrays)
    {'count': 3, 'rows': (array([0, 1]), None)}
    """
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
    """Its numbers in the order of memory; `axes` is that order, `repeated` the sizes of axes that are one row only."""
    repeated = {axis: n for axis, n in enumerate(tensor.shape) if n > 1 and tensor.stride(axis) == 0}
    for axis in repeated:
        tensor = tensor.narrow(axis, 0, 1)
    strides = tensor.stride()
    axes = sorted(range(tensor.ndim), key=lambda axis: -strides[axis])
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
