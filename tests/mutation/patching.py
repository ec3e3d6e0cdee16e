"""A mutant in place of a module: new code for its functions while it lives, or an import that compiles the mutant."""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.operators import Mutant, mutated

ROOT = Path(__file__).parents[2]


def codes(mutant: Mutant) -> tuple[CodeType, CodeType]:
    """The compiled file and the compiled mutant of it."""
    path = ROOT / mutant.file
    source = path.read_text(encoding="utf-8")
    tree = mutated(source, mutant.number)
    return compile(source, path, "exec", dont_inherit=True), compile(tree, path, "exec", dont_inherit=True)


def replaced(mutant: Mutant) -> dict[CodeType, CodeType] | None:
    """New code by old code of the functions that the mutant changes; None where it changes what an import runs."""
    pairs: dict[CodeType, CodeType] = {}
    return pairs if _pair(*codes(mutant), pairs) else None


def _pair(old: CodeType, new: CodeType, pairs: dict[CodeType, CodeType]) -> bool:
    # Bodies of modules and classes have no fast locals.
    function = bool(old.co_flags & 1)
    if function:
        if old != new:
            pairs[old] = new
    elif _shell(old) != _shell(new):
        return False
    inner = [[value for value in code.co_consts if isinstance(value, CodeType)] for code in (old, new)]
    if len(inner[0]) != len(inner[1]):
        return function
    return all(_pair(*pair, pairs) for pair in zip(*inner, strict=True))


def _shell(code: CodeType) -> tuple:
    # 1 == 1.0 == True, which is a change all the same.
    constants = [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, constants


def living(package: Path) -> dict[str, list[FunctionType]]:
    """Every function that exists, by the file of the package that it stands in."""
    found: dict[str, list[FunctionType]] = {}
    # What the suite froze after its collection is not among the objects.
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(package)):
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


def patch(functions: list[FunctionType], pairs: dict[CodeType, CodeType]) -> int:
    """Give living functions of the file their new code; how many were changed. ValueError where a closure differs."""
    changed = [each for each in functions if each.__code__ in pairs]
    for function in changed:
        function.__code__ = pairs[function.__code__]
    return len(changed)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class Finder(importlib.abc.MetaPathFinder):
    """Imports the mutant where its file would be imported."""

    def __init__(self, mutant: Mutant) -> None:
        self.path = str(ROOT / mutant.file)
        self.name = mutant.file.removesuffix(".py").replace("/", ".")
        self.code = codes(mutant)[1]

    def find_spec(self, name, path=None, target=None):
        """The mutant's module, and nothing else."""
        if name != self.name:
            return None
        loader = _Loader(name, self.path, self.code)
        return importlib.util.spec_from_file_location(name, self.path, loader=loader)


def install(mutant: Mutant) -> None:
    """From here on the mutant is imported; its module must not have been."""
    finder = Finder(mutant)
    assert finder.name not in sys.modules, f"{finder.name} is imported already"
    sys.meta_path.insert(0, finder)
