"""What is read, from which form, and what is refused with its column, its row and what is needed."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import asyncsim as sim
from asyncsim.app.cli import app
from tests.diagnosing import simulated
from tests.diagnosing.simulated import Run
from tests.refusals import refused

STEPS = {"step": list(range(12)), "ess": [0.9] * 12, "kl_k3": [0.01] * 12}
TOKENS = {
    "step": [0, 0, 1, 1],
    "sampler_log_prob": [-1.0] * 4,
    "trainer_log_prob": [-1.1] * 4,
    "staleness": [0, 0, 1, 1],
}


def changed(columns, name, row, cell):
    cells = list(columns[name])
    cells[row] = cell
    return {**columns, name: cells}


REFUSED = {
    "NaN": (changed(STEPS, "ess", 4, float("nan")), "column ess, row 5 = nan: must be a finite number"),
    "infinity": (changed(STEPS, "kl_k3", 0, float("inf")), "column kl_k3, row 1 = inf"),
    "a word": (changed(STEPS, "ess", 2, "high"), "column ess, row 3 = 'high'"),
    "a missing step": ({**STEPS, "step": [*range(6), *range(8, 14)]}, "column step, row 7 = 8.0: must be 1 after"),
    "steps that go back": ({**STEPS, "step": [*range(6), *range(3, 9)]}, "was resumed, leave out rows 4 to 6"),
    "steps in reverse": ({**STEPS, "step": [*range(12)][::-1]}, "sort the rows by their step"),
    "a percent sign": (changed(STEPS, "ess", 2, "91.5%"), "write 0.915 for 91.5%, in every row"),
    "probabilities": ({**TOKENS, "sampler_log_prob": [0.5] * 4, "trainer_log_prob": [0.4] * 4}, "take the logarithms"),
    "a row twice": (changed(STEPS, "step", 5, 4), "column step, row 6 = 4.0: must be above"),
    "a short column": ({**STEPS, "ess": [0.9] * 9}, "column ess, row 10 = None"),
    "two columns of one quantity": ({**STEPS, "mismatch_kl/all/mean": [0.01] * 12}, "one column for kl_k3"),
    "lengths alone": ({"response_length": [300] * 12}, "is this the right file"),
    "nothing known": ({"loss": [0.1] * 12}, "at least one that is known"),
    "a step that is empty": (changed(STEPS, "step", 3, None), "column step, row 4"),
    "no trainer": ({name: TOKENS[name] for name in ("step", "sampler_log_prob")}, "with trainer"),
    "a token without log-prob": (changed(TOKENS, "trainer_log_prob", 2, None), "column trainer_log_prob, row 3"),
    "tokens out of order": ({**TOKENS, "step": [0, 1, 0, 1]}, "column step, row 3 = 0.0: must be at least"),
    "lists of two lengths": (
        {"step": [0, 1], "sampler_log_prob": [[-1.0, -1.0], [-1.0]], "trainer_log_prob": [[-1.0, -1.0], [-1.0, -2.0]]},
        "column trainer_log_prob, row 2",
    ),
    "a staleness between versions": (changed(TOKENS, "staleness", 2, 0.5), "column staleness, row 3 = 0.5"),
    "a mask that is a weight": ({**TOKENS, "mask": [1, 1, 0.3, 1]}, "column mask, row 3 = 0.3: must be 0 or 1"),
    "no columns": ({}, "at least one column"),
    "a number": ({"ess": 0.9}, "column ess = 0.9: must be a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_columns_are_refused_by_row(name):
    columns, message = REFUSED[name]
    with pytest.raises(sim.InputError) as error:
        sim.diagnose(columns)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("batch", 0), ("momentum", 1.0), ("cap", 0.5), ("staleness", "often"), ("floor", -1.0), ("curvature", 0.0)],
)
def test_bad_options_are_refused(option, value):
    refused(option, sim.diagnose, STEPS, **{option: value})


def test_an_empty_cell_is_a_step_that_logged_nothing():
    assert sim.diagnose(changed(STEPS, "ess", 4, None)).causes == []


def write(path, columns):
    rows = [
        dict(zip(columns, cells, strict=True))
        for cells in zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True)
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".csv":
        lines = [",".join(columns), *(",".join(str(cell) for cell in row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files_of_every_kind_give_the_same_findings(tmp_path, kind):
    run = Run(steps=24, sequences=8)
    tokens = simulated.tokens(run)
    steps = simulated.metrics(tokens)
    paths = write(tmp_path / f"steps.{kind}", steps), write(tmp_path / f"tokens.{kind}", tokens)
    told, wanted = sim.diagnose(paths[0], tokens=paths[1]), sim.diagnose(steps, tokens=tokens)
    assert [(f.question, f.verdict, f.cause) for f in told.findings] == [
        (f.question, f.verdict, f.cause) for f in wanted.findings
    ]


def test_metrics_inside_a_record_are_columns_and_rows_of_one_step_are_one(tmp_path):
    """verl's own logger writes {"step": 1, "data": {...}}, for a step several times."""
    rows = [(k, {n: STEPS[n][k]}) for k in STEPS["step"] for n in ("ess", "kl_k3")]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"step": k, "data": data}) + "\n" for k, data in rows))
    assert sim.diagnose(path).json() == sim.diagnose(STEPS).json()
    assert sim.diagnose(path, columns="ess=data.ess").columns["ess"][0] == "data.ess"
    twice = [json.dumps({"step": k, "a": {"ess": 0.9}, "b": {"ess": 0.1}, "kl_k3": 0.01}) for k in range(12)]
    path.write_text("\n".join(twice))
    assert {"a.ess", "b.ess"} <= {*sim.diagnose(path).unknown}


def test_a_word_for_nothing_in_a_csv_is_no_empty_cell(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,ess\n0,0.9\n1,NaN\n2,0.9\n")
    refused("column ess, row 2 = nan", sim.diagnose, path)


def test_a_truncated_file_is_refused(tmp_path):
    path = write(tmp_path / "log.csv", STEPS)
    path.write_text(path.read_text()[:-5])
    refused("truncated", sim.diagnose, path)


def test_lists_of_tokens_are_rows_of_sequences():
    """prime-rl's token export: a row a sequence, a list a column."""
    tokens = simulated.tokens(Run(steps=20, sequences=6, length=5))
    count = 20 * 6
    table = {"step": tokens["step"][::5].tolist(), "staleness": tokens["staleness"][::5].tolist()}
    for name, column in (("sampler", "inference_logprobs"), ("trainer", "trainer_logprobs")):
        table[column] = tokens[f"{name}_log_prob"].reshape(count, 5).tolist()
    table["loss_mask"] = (tokens["mask"].reshape(count, 5) == 1).tolist()
    told, wanted = sim.diagnose(table), sim.diagnose({k: v for k, v in tokens.items() if k != "micro_batch"})
    assert [f.measured for f in told.findings] == pytest.approx([f.measured for f in wanted.findings])


def test_sequences_may_have_names():
    tokens = simulated.tokens(Run(steps=20, sequences=6, length=5))
    named = tokens | {"sequence": [f"id-{each}" for each in tokens["sequence"]]}
    assert sim.diagnose(named).json() == sim.diagnose(tokens).json()


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def log(tmp_path):
    return write(tmp_path / "log.csv", {**STEPS, "ess": [1.25] * 12})


def test_the_command_prints_writes_and_says_by_its_status(log, tmp_path):
    page, kept = tmp_path / "page.html", tmp_path / "found.json"
    result = call("diagnose", log, "--html", page, "--json", kept)
    assert result.exit_code == 1
    assert "ESS above one" in result.stdout
    html = page.read_text()
    assert "ESS above one" in html
    assert "<script" not in html
    assert html.count("<section") == len(json.loads(kept.read_text())["findings"]) + 1
    assert call("diagnose", write(tmp_path / "fine.csv", STEPS), "--html", tmp_path / "page.md").exit_code == 0
    assert (tmp_path / "page.md").read_text().startswith("# asyncsim")


def test_the_command_refuses_in_one_line(log):
    log.write_text("loss\n0.1\n")
    result = call("diagnose", log)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


def test_columns_that_end_in_our_names_are_asked_for_and_those_of_tokens_are_found_in_their_table():
    log = {"step": range(40), "ess": [0.9] * 40, "fully_async/staleness_mean": [2] * 40}
    assert "--columns staleness_mean=fully_async/staleness_mean" in sim.diagnose(log).missing
    own = {"step": range(40), "ess": [0.9] * 40, "stale_count": [2] * 40, "my/policy_staleness": [2] * 40}
    assert sim.diagnose(own).missing == "Name columns: --columns staleness_mean=my/policy_staleness."
    tokens = {"step": [0, 1], "mine": [-1.0, -2.0], "trainer_log_prob": [-1.1, -2.0]}
    assert sim.diagnose(log, tokens=tokens, columns="sampler_log_prob=mine").columns["sampler"][0] == "mine"
