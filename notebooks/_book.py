"""A notebook and its text form: reading, static checks, execution, comparison of outputs."""

from __future__ import annotations

import ast
import hashlib
import math
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

from asyncsim.base.checks import InputError, require

HERE = Path(__file__).resolve().parent
LESSONS = HERE / "lessons.py"
"""What cells import: it lies beside them."""
EXERCISES, LINE = 3, 90
"""Exercises that a notebook ends with, at least, and most characters of a line."""
SECONDS = 600
"""Longest wait for one cell: the first may compile the event kernel."""
UNVERSIONED = "-jupytext.text_representation.jupytext_version"
"""What jupytext leaves out of the text, so that its next version changes no notebook."""
CLOSE = 0.01
"""Largest relative difference between a number printed now and the committed one."""
WIDGET = "application/vnd.jupyter.widget-view+json"
"""Type of an output that is a slider; the picture below it stays."""

_SOLUTION = re.compile(r"<details>\s*<summary>Solution</summary>(.*?)</details>", re.DOTALL)
_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SUBJECT = re.compile(r"_(loss|metric)$")
"""Functions that a cell may define: what a lesson is about is better read in the cell than imported."""
_NUMBER = re.compile(r"[-+−]?\d+(?:\.\d+)?(?:e[-+−]?\d+)?")


def names() -> list[str]:
    """Names of the notebooks, in order.

    >>> names()[0]
    '1_staleness'
    """
    return sorted(path.stem for path in HERE.glob("[0-9]*.md"))


def text_of(name: str) -> Any:
    """The notebook that the text form describes: cells without outputs."""
    path = HERE / f"{name}.md"
    require(path.exists(), "name", name, f"one of {', '.join(names())}", "name a notebook")
    book = jupytext.read(path, fmt="md:myst")
    book.metadata = nbformat.from_dict(
        {
            "jupytext": {"formats": "ipynb,md:myst", "notebook_metadata_filter": UNVERSIONED},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    book.nbformat, book.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in book.cells:
        digest = hashlib.sha256(f"{cell.cell_type} {cell.source}".encode()).hexdigest()[:12]
        seen[digest] = seen.get(digest, 0) + 1
        cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
    return book


def committed(name: str) -> Any:
    """The notebook with outputs as it lies in the folder; raises `InputError` where there is none."""
    path = HERE / f"{name}.ipynb"
    require(path.exists(), "notebook", str(path), "there", f"run python -m notebooks {name}")
    return nbformat.read(path, as_version=4)


def code(book: Any) -> list[str]:
    """Sources of the code cells."""
    return [cell.source for cell in book.cells if cell.cell_type == "code"]


def solutions(book: Any) -> list[str]:
    """The code of each exercise's solution, empty where it has none; it needs the first code cell, no other."""
    prose = "\n".join(cell.source for cell in book.cells if cell.cell_type == "markdown")
    exercises = prose.partition("\n## Exercises\n")[2]
    return ["\n".join(_CODE.findall(folded)) for folded in _SOLUTION.findall(exercises)]


def faults(name: str) -> list[str]:
    """What is wrong with a notebook as it lies there, without running it; empty where nothing is."""
    text = text_of(name)
    found = list(_faults_of_text(text))
    try:
        book = committed(name)
    except InputError as error:
        return [*found, str(error)]
    mine, other = ([(cell.cell_type, cell.source) for cell in each.cells] for each in (text, book))
    if mine != other:
        place = next((k for k, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), None)
        where = f"cell {min(len(mine), len(other)) if place is None else place}"
        found.append(f"{name}.md and {name}.ipynb differ from {where} on: run python -m notebooks {name}")
    counts = [cell.execution_count for cell in book.cells if cell.cell_type == "code"]
    if counts != list(range(1, len(counts) + 1)) or not any(outputs(book)):
        found.append(f"{name}.ipynb has not been run from top to bottom: run python -m notebooks {name}")
    return found


def _faults_of_text(text: Any) -> Iterable[str]:
    for number, source in enumerate(code(text)):
        try:
            tree = ast.parse(source)
        except SyntaxError as error:
            yield f"code cell {number} is not plain Python: {error.msg}"
            continue
        defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        if any(isinstance(node, defined) and not _SUBJECT.search(node.name) for node in ast.walk(tree)):
            yield f"code cell {number} defines a function or a class: call what asyncsim or lessons.py has"
    long = max((line for cell in text.cells for line in cell.source.splitlines()), key=len, default="")
    if len(long) > LINE:
        yield f"a line has {len(long)} characters, {LINE} at most: {long[:40]}"
    folded = solutions(text)
    if len(folded) < EXERCISES or not all(folded):
        yield f"{len(folded)} exercises with a folded solution in code under '## Exercises', {EXERCISES} are needed"


def executed(book: Any) -> Any:
    """The notebook with the outputs of a fresh kernel, beside `lessons.py` alone; what stderr got is shown and dropped.

    Raises `nbclient.exceptions.CellExecutionError` where a cell fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(LESSONS, folder)
        client = NotebookClient(
            book,
            timeout=SECONDS,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        if os.name == "posix":
            # Sockets in our own folder: no port is opened, and none can be taken.
            manager = client.create_kernel_manager()
            manager.transport, manager.connection_file = "ipc", str(Path(folder) / "kernel.json")
        client.execute(env=_environment(folder))
    for cell in (cell for cell in book.cells if cell.cell_type == "code"):
        heard = [out for out in cell.outputs if out.get("name") == "stderr"]
        sys.stderr.writelines(out.text for out in heard)
        cell.outputs = [out for out in cell.outputs if out not in heard and WIDGET not in out.get("data", {})]
        cell.metadata.pop("execution", None)
    # Sliders are dead without a kernel, and their ids change with every run.
    book.metadata.pop("widgets", None)
    book.metadata.language_info = nbformat.from_dict({"name": "python"})
    return book


def _environment(folder: str) -> dict[str, str]:
    """Settings under which outputs do not depend on who runs them, from which folder, or on what terminal."""
    found = os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"IPYTHONDIR": str(Path(folder) / ".ipython"), "PYTHONPATH": found, "PYTHONHASHSEED": "0"}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def with_solutions(book: Any) -> Any:
    """The notebook with every solution as one more code cell."""
    for source in solutions(book):
        book.cells.append(nbformat.v4.new_code_cell(source))
    return book


def outputs(book: Any) -> list[str]:
    """What each code cell says in words: its printed text and the text of its last value; no pictures."""
    cells = (cell for cell in book.cells if cell.cell_type == "code")
    return [
        "".join(out.get("text", "") or out.get("data", {}).get("text/plain", "") for out in cell.outputs)
        for cell in cells
    ]


def changed(before: Sequence[str], after: Sequence[str]) -> list[int]:
    """Numbers of the code cells whose words differ, or whose numbers differ by more than one percent.

    >>> changed(["mean 4.00", "held"], ["mean 4.01", "violated"])
    [1]
    """
    return [k for k, (old, new) in enumerate(zip(before, after, strict=False)) if not _alike(old, new)]


def _alike(old: str, new: str) -> bool:
    if _NUMBER.sub("#", old).split() != _NUMBER.sub("#", new).split():
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    values = [(float(a.replace("−", "-")), float(b.replace("−", "-"))) for a, b in pairs]
    return all(math.isclose(a, b, rel_tol=CLOSE) for a, b in values)
