"""Tensors inside plain containers: where they stand, and containers made again with others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import Tensor

Path = tuple[Any, ...]


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Tensor]]:
    """Every tensor in dictionaries, lists and tuples, with its way there; other values are passed over."""
    if isinstance(tree, Tensor):
        yield path, tree
    elif isinstance(tree, dict):
        for name, value in tree.items():
            yield from leaves(value, (*path, name))
    elif isinstance(tree, (list, tuple)):
        for place, value in enumerate(tree):
            yield from leaves(value, (*path, place))


def at(tree: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        tree = tree[step]
    return tree


def builder(tree: Any, numbers: dict[Path, int], path: Path = ()) -> Callable[[Sequence[Any]], Any]:
    """A function from a list of tensors to containers like these, dictionaries and lists; values are kept."""
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
