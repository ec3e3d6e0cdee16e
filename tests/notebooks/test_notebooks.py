"""Notebooks are paired with their text, have outputs, define nothing, and end with exercises whose solutions run.

Running them from top to bottom is `make notebooks`, not a test.
"""

import copy
import doctest

import nbformat
import pytest

import lessons
from docs import _prose
from notebooks import __main__ as command
from notebooks import _book

NAMES = _book.names()


def test_there_are_eight():
    assert NAMES == [
        "1_staleness",
        "2_ratios",
        "3_delayed_ascent",
        "4_your_hypothesis",
        "5_effective_sample_size",
        "6_weights_on_the_score",
        "7_stabilizers",
        "8_check_your_loss",
    ]


@pytest.mark.parametrize(("module", "least"), [(_book, 2), (lessons, 20)])
def test_documented_examples_run(module, least):
    found = doctest.testmod(module)
    assert found.attempted >= least and found.failed == 0


@pytest.mark.committed
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_it(name):
    assert _book.faults(name) == []


def prose(name):
    return "\n\n".join(cell.source for cell in _book.text_of(name).cells if cell.cell_type == "markdown")


@pytest.mark.parametrize("name", NAMES)
def test_its_sentences_are_short(name):
    assert _prose.faults(prose(name)) == []


def test_sentences_of_the_overview_are_short():
    assert _prose.faults((_book.HERE / "README.md").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read_in_twenty_minutes(name):
    """100 words a minute in front of the exercises, half a minute a cell."""
    book = _book.text_of(name)
    text = _prose.FENCED.sub("", prose(name).partition("\n## Exercises\n")[0])
    assert _prose.words(text) / 100 + 0.5 * len(_book.code(book)) <= 20


@pytest.mark.parametrize("name", NAMES)
def test_two_decisive_questions_have_a_cell_for_a_guess(name):
    cells = [cell.source for cell in _book.text_of(name).cells]
    asked = [k for k, source in enumerate(cells) if "what do you expect?" in source]
    assert len(asked) == 2 and all(cells[k + 1] == "guess = None" for k in asked)
    said = "\n".join(cells)
    assert said.count("guess=guess") >= 2 <= said.count("lessons.mark(") + said.count("]), guess=guess")
    assert sum("lessons.sliders(" in source for source in cells) == 1


@pytest.mark.parametrize("name", NAMES)
def test_each_exercise_has_a_hint_and_a_check(name):
    exercises = prose(name).partition("\n## Exercises\n")[2]
    asked = exercises.split("<summary>Solution</summary>")[:-1]
    assert len(asked) == len(_book.solutions(_book.text_of(name)))
    assert all("*Hint.*" in text and "*Check.*" in text for text in asked)


def test_sliders_are_not_committed():
    """They are dead without a kernel; the picture stays."""
    book = _book.text_of("3_delayed_ascent")
    picture = "import lessons\nlessons.sliders(lambda x: lessons.weights([0.0, x]), x=(1, [2]))"
    book.cells = [nbformat.v4.new_code_cell(picture)]
    outputs = _book.executed(book).cells[0].outputs
    assert [sorted(out["data"]) for out in outputs] == [["image/png", "text/plain"]]
    assert "widgets" not in book.metadata


@pytest.mark.committed
@pytest.mark.parametrize("name", NAMES)
def test_it_predicts_before_it_measures_and_shows_both(name):
    book = _book.committed(name)
    said = "\n".join(_book.outputs(book))
    assert " held" in said and said.count("your guess") == 2 and "Traceback" not in said
    pictures = [out for cell in book.cells for out in cell.get("outputs", []) if "image/png" in out.get("data", {})]
    assert len(pictures) >= 4
    # Nothing that a second run would write differently.
    assert not any("execution" in cell.metadata or " at 0x" in str(cell.get("outputs")) for cell in book.cells)


@pytest.mark.rows
@pytest.mark.committed
@pytest.mark.parametrize(
    ("name", "number"), [(name, k) for name in NAMES for k in range(len(_book.solutions(_book.text_of(name))))]
)
def test_a_solution_runs_behind_the_first_cell(name, number):
    """Each ends in an assertion of what its text says."""
    book = _book.text_of(name)
    source = _book.solutions(book)[number]
    assert "assert " in source
    space: dict[str, object] = {}
    exec(_book.code(book)[0], space)
    exec(source, space)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of one pair to break; `write` puts a text there, as it is or run in words only."""
    monkeypatch.setattr(_book, "HERE", tmp_path)
    return tmp_path


EXERCISE = "<details><summary>Solution</summary>\n\n```python\nassert x == 2\n```\n\n</details>\n"
HEADER = "---\njupytext:\n  formats: ipynb,md:myst\nkernelspec:\n  display_name: Python 3\n  name: python3\n---\n\n"
TEXT = HEADER + "# A toy\n\n```{code-cell}\nx = 2\nx\n```\n\n## Exercises\n\n" + 3 * EXERCISE


def write(folder, text=TEXT, **changes):
    """The pair of a text, with one output; `changes` are made to the committed notebook's code cell."""
    (folder / "1_toy.md").write_text(text)
    book = _book.text_of("1_toy")
    cell = next(cell for cell in book.cells if cell.cell_type == "code")
    cell.execution_count = 1
    cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=1)]
    cell.update(changes)
    nbformat.write(book, folder / "1_toy.ipynb")


def test_a_toy_has_no_faults(folder):
    write(folder, TEXT.replace("x = 2\nx", "def a_loss():\n    return 2\na_loss()"))
    assert _book.names() == ["1_toy"]
    assert _book.faults("1_toy") == []


@pytest.mark.parametrize(
    ("text", "changes", "fault"),
    [
        (TEXT, {"source": "x = 3"}, "differ from cell 1 on"),
        (TEXT, {"outputs": []}, "has not been run"),
        (TEXT, {"execution_count": None}, "has not been run"),
        (TEXT.replace("x = 2\nx", "def f():\n    return 1\nf()"), {}, "defines a function"),
        (TEXT.replace("x = 2\nx", "class C: pass\nC"), {}, "defines a function or a class"),
        (TEXT.replace("x = 2\nx", "!ls"), {}, "not plain Python"),
        (TEXT.replace("# A toy", f"# A {'long ' * 20}toy"), {}, "a line has 107 characters, 90 at most"),
        (TEXT.replace("## Exercises", "## Questions"), {}, "0 exercises"),
        (TEXT.replace(EXERCISE, "", 1), {}, "2 exercises"),
        (TEXT.replace("assert x == 2\n```", "```", 1), {}, "3 exercises"),
    ],
)
def test_a_fault_is_named(folder, text, changes, fault):
    write(folder, text, **changes)
    found = _book.faults("1_toy")
    assert len(found) == 1 and fault in found[0], found


def test_a_notebook_that_is_not_there_is_a_fault(folder):
    (folder / "1_toy.md").write_text(TEXT)
    assert "run python -m notebooks 1_toy" in _book.faults("1_toy")[0]


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ("mean 4.00 ± 0.01", "mean 4.02 ± 0.01", False),
        ("mean 4.00", "mean 4.10", True),
        ("held: 1", "violated: 1", True),
        ("0", "1", True),
        ("−0.5", "0.5", True),
        ("a 1 2", "a 1", True),
        ("tau = 1e−05", "tau =  1e−05", False),
    ],
)
def test_words_and_numbers_that_moved_are_seen(before, after, moved):
    assert bool(_book.changed([before], [after])) is moved


def test_a_fresh_kernel_fills_in_outputs_and_fails_with_a_failing_cell(folder, capfd, monkeypatch):
    """One kernel: the whole path of `--check`, then a wrong output, then a solution that is wrong."""
    write(folder)
    monkeypatch.setattr(command.sys, "argv", ["notebooks", "--check"])
    assert command.main() == 0
    write(folder, outputs=[nbformat.v4.new_output("execute_result", {"text/plain": "3"}, execution_count=1)])
    assert command.main() == 1
    assert "code cell 0 prints something else" in capfd.readouterr().out
    write(folder, TEXT.replace("assert x == 2", "assert x == 3", 1))
    assert command.main() == 1
    assert "AssertionError" in capfd.readouterr().out


def test_outputs_are_written_and_do_not_change_from_run_to_run(folder, monkeypatch, capfd):
    text = TEXT.replace("x = 2\nx", "import sys\nx = 2\nprint('heard', file=sys.stderr)\nx")
    write(folder, text, outputs=[], execution_count=None)
    (folder / "1_toy.ipynb").unlink()
    monkeypatch.setattr(command.sys, "argv", ["notebooks", "1_toy"])
    assert command.main() == 0
    first = (folder / "1_toy.ipynb").read_bytes()
    assert "heard" in capfd.readouterr().err
    assert command.main() == 0
    assert (folder / "1_toy.ipynb").read_bytes() == first
    book = nbformat.reads(first.decode(), as_version=4)
    nbformat.validate(copy.deepcopy(book))
    assert [out.output_type for cell in book.cells for out in cell.get("outputs", [])] == ["execute_result"]


def test_a_notebook_newer_than_its_text_is_not_overwritten(folder, monkeypatch, capfd):
    write(folder, source="x = 5")
    before = (folder / "1_toy.ipynb").read_bytes()
    monkeypatch.setattr(command.sys, "argv", ["notebooks"])
    assert command.main() == 1
    assert "jupytext --sync" in capfd.readouterr().out
    assert (folder / "1_toy.ipynb").read_bytes() == before


def test_an_unknown_name_is_refused(monkeypatch, capfd):
    monkeypatch.setattr(command.sys, "argv", ["notebooks", "nope"])
    assert command.main() == 2
    assert "1_staleness" in capfd.readouterr().err
