"""What counts as another version of an experiment, and what does not."""

import ast

import pytest

from asyncsim.base import digests
from experiments import _contract

CODE = '''"""A question."""
# A comment.
import math
from experiments import _helper
RATE = 0.1
LEVELS = (1, 2)

def sized(n):
    return {"n": n}

SETTINGS = [sized(n) for n in LEVELS]
QUICK = SETTINGS[:1]
COLUMNS = ["x", "note"]

def run(setting):
    """Rows."""
    if setting["n"] > 1:
        x = _helper.half(setting["n"]) * RATE
    else:
        x = 0.0
    return [{"x": x, "note": f"{x:.2f} of '{setting['n']}'"}]
'''
HELPER = '"""Help."""\n\nfrom ._deeper import DEPTH\n\ndef half(x):\n    return x / DEPTH\n'
DEEPER = "DEPTH = 2\n"
SAME = {
    "comment": ("# A comment.", "# Another one, longer."),
    "docstring": ('"""Rows."""', '"""Rows,\n    in two lines."""'),
    "no docstring": ('    """Rows."""\n', ""),
    "blank lines": ("RATE = 0.1\n", "\n\nRATE = 0.1\n\n"),
    "layout": ('_helper.half(setting["n"]) * RATE', "(\n            _helper.half( setting['n'], ) * RATE\n        )"),
    "settings": ("LEVELS = (1, 2)", "LEVELS = (1, 2, 4)"),
    "helper of settings": ('return {"n": n}', 'return {"n": 2 * n}'),
    "unused": ("import math\n", ""),
}  # fmt: skip
OTHER = {
    "number": ("RATE = 0.1", "RATE = 0.2"),
    "branch": ("    else:\n        x = 0.0\n", "    x = 0.0\n"),
    "text": (":.2f} of '", ":.2f}  of '"),
    "column": ('["x", "note"]', '["note", "x"]'),
    "argument": ('setting["n"] > 1', 'setting["n"] >= 1'),
}


def version(tmp_path, code=CODE, helper=HELPER, deeper=DEEPER):
    folder = tmp_path / "experiments"
    folder.mkdir(exist_ok=True)
    for name, text in (("question", code), ("_helper", helper), ("_deeper", deeper), ("_store", "STORED = 1\n")):
        (folder / f"{name}.py").write_text(text)
    return _contract.version(_contract.own_code(folder, "question", ("run", "COLUMNS"), _contract.MACHINERY))


@pytest.mark.parametrize("change", SAME)
def test_what_computes_the_same_is_the_same_version(tmp_path, change):
    old, new = SAME[change]
    assert old in CODE and version(tmp_path) == version(tmp_path, CODE.replace(old, new))


@pytest.mark.parametrize("change", OTHER)
def test_what_computes_something_else_is_another_version(tmp_path, change):
    old, new = OTHER[change]
    assert old in CODE and version(tmp_path) != version(tmp_path, CODE.replace(old, new))


def test_modules_that_are_imported_count_however_deep_and_the_store_does_not(tmp_path):
    first = version(tmp_path)
    assert version(tmp_path, helper=HELPER.replace("x / DEPTH", "x * DEPTH")) != first
    assert version(tmp_path, deeper="DEPTH = 3\n") != first
    assert version(tmp_path, CODE.replace("import _helper", "import _helper, _store")) != first
    stored = CODE.replace('    """Rows."""\n', '    """Rows."""\n    from experiments import _store\n')
    before = version(tmp_path, stored)
    (tmp_path / "experiments" / "_store.py").write_text("STORED = 2\n")
    code = _contract.own_code(tmp_path / "experiments", "question", ("run", "COLUMNS"), _contract.MACHINERY)
    assert _contract.version(code) == before


def test_a_version_does_not_depend_on_the_python_that_reads_it(tmp_path):
    """A constant, so that another Python or another dump of trees would show."""
    assert version(tmp_path) == "433bc73632d245fe"
    # Fields that a Python knows and another does not.
    assert not {"kind", "type_comment", "type_params"} & set(str(digests.shape(ast.parse(CODE))).split("'"))


def test_lists_of_settings_that_run_reads_count(tmp_path):
    reads = CODE.replace("x = 0.0", "x = len(SETTINGS)")
    assert version(tmp_path, reads) != version(tmp_path, reads.replace("(1, 2)", "(1, 2, 4)"))
