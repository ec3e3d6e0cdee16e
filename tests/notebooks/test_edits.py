"""A reader changes a setting of the first cell, or enters predictions: the notebook goes on, or names what is wrong.

Cells run in this process, made short; claims that cells end with have tests of their own, and pictures are not encoded.
"""

import ast
import re
from collections.abc import Mapping

import pytest

import asyncsim as sim
from asyncsim.plotting import _style
from notebooks import _book

SHORT = [
    (r"batches=600", "batches=60"),
    (r"staleness\(200, ", "staleness(60, "),
    (r"staleness\(400, runs, seed=seed\)\[:, 100:\]", "staleness(60, runs, seed=seed)[:, 20:]"),
    (r"schedule\(200, ", "schedule(60, "),
    (r"batches=(200|300), ", "batches=60, "),
    (r"runs, seed = 32, 0", "runs, seed = 4, 0"),
    (r"batches, seed = (128|256), 0", "batches, seed = 16, 0"),
    (r"\(64, 20_000\)", "(4, 20_000)"),
    (r"200_000", "8_000"),
    (r"updates = 150", "updates = 40"),
    (r"comparisons, seed = 4000, 0", "comparisons, seed = 100, 0"),
    (r"smallest=smallest, seed=seed", "smallest=smallest, seed=seed, max_replicates=64"),
    (r"samples, updates = 8, 48", "samples, updates = 4, 20"),
    (r"max_replicates=256", "max_replicates=64"),
    (r"256, seed \+ 1", "16, seed + 1"),
    (r"np.geomspace\(0.05, 25.0, 10\)", "np.geomspace(0.05, 25.0, 4)"),
    (r"replicates, seed = 64, 0", "replicates, seed = 2, 0"),
    (r"updates=30, replicates=16", "updates=6, replicates=2"),
    (r"samples_per_group=1024", "samples_per_group=64"),
    (r"updates=700", "updates=260"),
]
"""What makes the cells short."""

EDITS: dict[str, dict[str, Mapping[str, str]]] = {
    "1_staleness": {
        "a larger lead": {"ahead": "5"},
        "no lead": {"ahead": "0"},
        "few slots": {"slots": "3"},
        "one slot": {"slots": "1"},
        "many slots": {"slots": "64"},
        "constant lengths": {"lengths": "sim.constant(1.0)"},
        "lengths without variance": {"lengths": "sim.pareto(0.5, 1.5)"},
        "one response a batch": {"batch_size": "1"},
        "large batches": {"batch_size": "32"},
        "a fast trainer": {"train_time": "0.01"},
        "a slow trainer": {"train_time": "20.0"},
        "one run": {"runs, seed": "1, 0"},
        "two runs, another seed": {"runs, seed": "2, 987654321"},
        "many at once": {"runs, seed": "1, 3", "slots": "2", "ahead": "7", "lengths": "sim.exponential(2.0)"},
    },
    "2_ratios": {
        "fresh data": {"staleness": "0"},
        "one update late": {"staleness": "1"},
        "very stale data": {"staleness": "64"},
        "hardly any learning": {"learning_rate": "1e-6"},
        "fast learning": {"learning_rate": "5.0"},
        "one token": {"tokens": "1"},
        "long responses": {"tokens": "2048"},
        "one sample": {"samples": "1"},
        "many samples": {"samples": "1024"},
        "one batch": {"batches, seed": "1, 0"},
        "another seed": {"batches, seed": "2, 987654321"},
        "many at once": {"staleness": "32", "learning_rate": "2.0", "tokens": "500", "batches, seed": "1, 5"},
    },
    "3_delayed_ascent": {
        "no staleness": {"staleness": "0"},
        "one update late": {"staleness": "1"},
        "large staleness": {"staleness": "24"},
        "a small learning rate": {"learning_rate": "0.001"},
        "a huge learning rate": {"learning_rate": "3.0"},
        "no momentum": {"momentum": "0.0"},
        "much momentum": {"momentum": "0.99"},
        "one worker": {"workers": "1"},
        "many workers": {"workers": "16"},
        "one replicate": {"replicates, seed": "1, 0"},
        "another seed": {"replicates, seed": "3, 987654321"},
        "many at once": {"staleness": "12", "learning_rate": "1.0", "workers": "2", "replicates, seed": "1, 7"},
    },
    "4_your_hypothesis": {
        "one update late": {"staleness": "1"},
        "a smaller task": {"actions, tokens": "4, 6"},
        "a longer run": {"updates": "60"},
        "a low cap": {"cap": "1.0"},
        "a large effect": {"smallest": "0.1"},
        "few comparisons": {"comparisons, seed": "50, 987654321"},
        "many at once": {"staleness": "5", "cap": "2.0", "smallest": "0.05", "comparisons, seed": "99, 7"},
    },
    "5_effective_sample_size": {
        "fresh data": {"staleness": "0"},
        "one update late": {"staleness": "1"},
        "very stale data": {"staleness": "64"},
        "hardly any learning": {"learning_rate": "1e-6"},
        "fast learning": {"learning_rate": "5.0"},
        "one token": {"tokens": "1"},
        "long responses": {"tokens": "1024"},
        "one sample": {"samples": "1"},
        "many samples": {"samples": "1024"},
        "single responses": {"micro_batch": "1"},
        "a part larger than the batch": {"micro_batch": "999"},
        "no room in the clamp": {"clamp": "1.0"},
        "a wide clamp": {"clamp": "1000.0"},
        "one batch": {"batches, seed": "1, 0"},
        "another seed": {"batches, seed": "2, 987654321"},
        "many at once": {
            "staleness": "16",
            "tokens": "200",
            "micro_batch": "3",
            "clamp": "2.0",
            "batches, seed": "1, 5",
        },
    },
    "6_weights_on_the_score": {
        "fresh data": {"staleness": "0"},
        "very stale data": {"staleness": "40"},
        "hardly any learning": {"learning_rate": "1e-6"},
        "fast learning": {"learning_rate": "2.0"},
        "one token": {"tokens": "1"},
        "more tokens": {"tokens": "7"},
        "every token must be good": {"success": "1.0"},
        "the share is paid": {"success": "None"},
        "no baseline": {"baseline": "0.0"},
        "a baseline above all rewards": {"baseline": "2.0"},
        "no room in the cap": {"cap, clip": "1.0, 0.0"},
        "a wide cap": {"cap, clip": "50.0, 0.9"},
        "one sample": {"samples, seed": "1, 0"},
        "another seed": {"samples, seed": "1000, 987654321"},
        "many at once": {"staleness": "3", "tokens": "5", "success": "None", "cap, clip": "3.0, 0.1"},
    },
    "7_stabilizers": {
        "an easy task": {"task": "sim.tasks.softmax_bandit(8)"},
        "a sparse reward": {"task": "sim.tasks.bit_chain(6, 0.75)"},
        "a sawtooth": {"law, staleness": "sim.schedules.sawtooth, 8"},
        "fresh data": {"law, staleness": "sim.schedules.fixed, 0"},
        "very stale data": {"law, staleness": "sim.schedules.fixed, 17"},
        "a pair of responses": {"samples, updates": "2, 20"},
        "a few updates": {"samples, updates": "8, 15"},
        "a small effect": {"smallest": "0.001"},
        "a large effect": {"smallest": "0.5"},
        "one replicate": {"replicates, seed": "1, 0"},
        "another seed": {"replicates, seed": "3, 987654321"},
        "many at once": {
            "task": "sim.tasks.token_bandit(3, 4)",
            "law, staleness": "sim.schedules.sawtooth, 3",
            "smallest": "0.05",
            "replicates, seed": "2, 7",
        },
    },
    "8_check_your_loss": {
        "no room in the clip": {"clip_low, clip_high": "0.0, 0.0"},
        "a wide clip": {"clip_low, clip_high": "0.9, 5.0"},
        "fresh data": {"staleness": "0"},
        "very stale data": {"staleness": "64"},
        "hardly any learning": {"learning_rate": "1e-6"},
        "fast learning": {"learning_rate": "5.0"},
        "equal responses": {"short, long": "8, 8"},
        "one token and many": {"short, long": "1, 200"},
        "the longer one first": {"short, long": "64, 16"},
        "an alarm above the floor": {"alarm": "0.5"},
        "a wide clamp": {"clamp": "1000.0"},
        "no room in the clamp": {"clamp": "1.0"},
        "one replicate": {"replicates, seed": "1, 0"},
        "another seed": {"replicates, seed": "3, 987654321"},
        "many at once": {"clip_low, clip_high": "0.5, 0.1", "staleness": "2", "replicates, seed": "1, 7"},
    },
}
"""By notebook: lines of the first cell, each a name with what it is set to."""

ELSEWHERE = {
    "a bound tail": ("length=sim.pareto(0.5, 1.5)", "length=sim.pareto(0.5, 2.5)"),
    "another law without a tail": ("sim.systems.areal(3, 32, 128,", "sim.systems.areal(3, 32, 64,"),
    "a small group": ("8, 32, attempts=1,", "8, None, attempts=1,"),
}
"""Edits of later cells of the first notebook."""

QUICK, CHEAP = "many at once", ("1_staleness", "2_ratios", "6_weights_on_the_score")
"""One edit for all settings; notebooks of which it takes less than a second (others: `make test-rows`)."""
SWEEP = [
    pytest.param(name, edit, marks=pytest.mark.long if edit != QUICK else [pytest.mark.rows] * (name not in CHEAP))
    for name, edits in EDITS.items()
    for edit in edits
]


def cells(name: str, settings: Mapping[str, str] | None = None) -> list[str]:
    """Code of a notebook made short, with settings of its first cell changed."""
    found = _book.code(_book.text_of(name))
    for pattern, short in SHORT:
        found = [re.sub(pattern, short, cell) for cell in found]
    for knob, value in (settings or {}).items():
        found[0], count = re.subn(rf"^{knob} = [^#\n]*", f"{knob} = {value} ", found[0], flags=re.M)
        assert count == 1, f"the first cell of {name} sets no {knob}"
    return found


def ran(code: list[str]) -> None:
    """Cells one after another; an expression at the end of one is drawn, as a notebook does."""
    space: dict[str, object] = {}
    for cell in code:
        tree = ast.parse(cell)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), space)
        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), space) if last else None
        if isinstance(shown, _style.Picture):
            shown.draw_without_rendering()


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One verdict stands for all of them."""
    verdict = sim.verify("estimator/truncation-bias")
    monkeypatch.setattr(sim, "verify", lambda *given, **named: verdict, raising=False)


@pytest.mark.parametrize(("name", "edit"), SWEEP)
def test_any_setting_of_the_first_cell_may_be_changed(
    name: str, edit: str, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    code = cells(name, EDITS[name][edit])
    ran(code)
    said = capsys.readouterr().out
    assert said.count("\nyour guess  ") == sum(cell == "guess = None" for cell in code) == 2
    assert "nan" not in said
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]


@pytest.mark.parametrize("name", EDITS)
def test_each_setting_is_changed_by_an_edit(name: str) -> None:
    first = ast.parse(cells(name)[0])
    knobs = {ast.unparse(node.targets[0]).strip("()") for node in first.body if isinstance(node, ast.Assign)}
    assert knobs == {knob for edit in EDITS[name].values() for knob in edit}


@pytest.mark.long
@pytest.mark.parametrize("edit", ELSEWHERE)
def test_later_cells_of_the_first_notebook_may_be_changed(edit: str, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = ELSEWHERE[edit]
    code = cells("1_staleness")
    assert any(before in cell for cell in code)
    ran([cell.replace(before, after) for cell in code])
    assert "no formula" in capsys.readouterr().out


def test_a_lead_of_five_has_no_law_or_a_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Twelve slots cannot hold the groups that a lead of five lets run."""
    ran(cells("1_staleness", {"ahead": "5", "runs, seed": "16, 0"})[:8])
    said = capsys.readouterr().out
    assert "no formula" in said or "held" in said
    assert "violated" not in said


@pytest.mark.parametrize("mine", ["-2", "0.25", "1e9"])
def test_a_number_entered_is_printed_and_compared(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cells("1_staleness")[:6]
    ran([cell.replace("guess = None", f"guess = {mine}") for cell in code])
    assert capsys.readouterr().out.count("theory is nearer") == 1
    with pytest.raises(sim.InputError, match="guess"):
        ran([cell.replace("guess = None", "guess = 'much'") for cell in code])


@pytest.mark.parametrize("name", EDITS)
def test_solutions_use_no_setting_of_the_first_cell(name: str) -> None:
    """So what they assert stays true whatever a reader sets."""
    book = _book.text_of(name)
    first, knobs = ast.parse(_book.code(book)[0]), set()
    for node in first.body:
        if isinstance(node, ast.Assign):
            knobs |= {leaf.id for leaf in ast.walk(node.targets[0]) if isinstance(leaf, ast.Name)}
    assert len(knobs) >= 6
    for source in _book.solutions(book):
        names = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
        own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        assert not {node.id for node in names} & knobs - own
