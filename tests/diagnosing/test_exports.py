"""Files as they are exported, columns that are named, told or refused, values that cannot be, and the screen."""

import json
import re
import shlex

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import asyncsim as sim
from asyncsim.app.cli import app
from asyncsim.diagnosing import aliases, returns
from docs import _names
from tests.diagnosing import exports
from tests.refusals import refused

STEPS = {"step": list(range(30)), "ess": [0.9] * 30}


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def written(path, text):
    path.write_text(text)
    return path


def test_a_chart_of_wandb_is_read_as_its_columns_are():
    told, wanted = sim.diagnose(exports.WANDB), sim.diagnose(exports.columns())
    assert exports.WANDB.read_text() == exports.chart()
    assert told.causes == wanted.causes == ["share out of range", "reward fell", "updates grew"]
    assert told.columns == wanted.columns
    assert set(told.refused) > set(wanted.refused) == {"timing_s/gen", "timing_s/step"}
    assert told.unknown["actor/pg_clip_frac_upper"][0].startswith("actor/pg_clipfrac")
    kept = told.json()
    assert {"columns", "refused", "unknown"} <= set(kept)
    assert {each["column"] for each in kept["columns"].values()} | set(kept["refused"]) | set(kept["unknown"]) == {
        name.removeprefix(f"{exports.RUN} - ") for name in exports.chart().splitlines()[0].replace('"', "").split(",")
    }


def test_one_of_several_runs_is_chosen_by_name(tmp_path):
    path = written(tmp_path / "chart.csv", exports.chart(runs=("first", exports.RUN)))
    refused("run = None: must be one of first, grpo-7b - async", sim.diagnose, path)
    found = sim.diagnose(path, run=exports.RUN)
    assert found.causes == sim.diagnose(exports.WANDB).causes
    assert found.refused["first - actor/ppo_kl"] == "of another run"
    refused("run = 'x': must be left out", sim.diagnose, STEPS, run="x")


def test_history_may_have_rows_of_other_metrics(tmp_path):
    table = exports.columns()
    rows = []
    for place, step in enumerate(table["Step"].tolist()):
        rows.append({"_step": 2 * place, "training/global_step": step} | {
            name: float(column[place]) for name, column in table.items() if name != "Step"
        })  # fmt: skip
        rows.append({"_step": 2 * place + 1, "val/accuracy": 0.5})
    path = written(tmp_path / "history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    found = sim.diagnose(path)
    assert found.steps == 120 and found.causes == ["share out of range", "reward fell", "updates grew"]
    assert found.columns["step"][0] == "training/global_step" and "_step" in found.refused
    for row in rows:
        row.pop("training/global_step", None)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert sim.diagnose(path).steps == 120
    # TRL evaluates at steps that it also trains.
    trl = "".join(
        json.dumps({"step": k, name: 0.5}) + "\n" for k in range(9) for name in ("reward", "eval_x")[: 1 + k % 2]
    )
    assert sim.diagnose(written(tmp_path / "trl.jsonl", trl)).steps == 9


def test_files_of_tensorboard_are_joined_by_step(tmp_path):
    for tag, values in {"rollout_corr_k3_kl": [0.01, 0.02, 0.03], "reward": [1.0, None, 2.0]}.items():
        rows = [f"17.5,{step},{value}" for step, value in enumerate(values) if value is not None]
        written(tmp_path / f"run-a-tag-{tag}.csv", "\n".join(["Wall time,Step,Value", *rows, ""]))
    found = sim.diagnose(tmp_path)
    assert found.columns["kl_k3"][0] == "rollout_corr/k3_kl" and found.columns["reward"][0] == "reward"
    single = tmp_path / "run-a-tag-reward.csv"
    assert sim.diagnose(single, columns="kl_k3=Value").columns["kl_k3"][0] == "Value"
    written(tmp_path / "run-b-tag-reward.csv", single.read_text())
    refused("the only file of reward; give the files of one run", sim.diagnose, tmp_path)


def test_columns_are_named_by_hand():
    table = {"step": range(30), "my/kl": [-0.1] * 30, "size": [0.9] * 30}
    found = sim.diagnose(table, columns="kl_k3=my/kl,ess=size")
    assert "negative k3" in found.causes and found.unknown == {}
    assert found.json() == sim.diagnose(table, columns={"kl_k3": "my/kl", "ess": "size"}).json()
    # What is named stands in front of what a name says.
    both = sim.diagnose(table | {"kl_k3": [0.1] * 30}, columns={"kl_k3": "my/kl"})
    assert "negative k3" in both.causes and both.refused == {"kl_k3": "my/kl is taken for kl_k3"}
    for columns, message in (
        ("kl=size", "columns = 'kl': must be one of"),
        ("kl_k3=kl", "columns\\[kl_k3\\] = 'kl': must be one of step, my/kl, size"),
        ("kl_k3", "pairs OURS=THEIRS"),
    ):
        refused(message, sim.diagnose, table, columns=columns)


@pytest.mark.parametrize(
    ("column", "fine", "wrong", "cause"),
    [
        ("fully_async/trainer/idle_ratio", 0.3, 1.3, "share out of range"),
        ("actor/pg_clipfrac", 1.0, 1.2, "share out of range"),
        ("response_length/clip_ratio", 0.0, -0.1, "share out of range"),
        ("completions/clipped_ratio", 1.0, 1.01, "share out of range"),
        ("actor/ppo_ratio_clipfrac@sum", 0.1, 1.5, "share out of range"),
        ("idle_ratio", 1.0, 1.3, "share out of range"),
        ("gen/busy_ratio", 0.0, -0.1, "share out of range"),
        ("my/zero_frac", 0.5, 1.1, "share out of range"),
        ("grpo/masked_fraction/mean", 0.5, 37.0, "share out of range"),
        ("gradient_cosine", 1.0, 1.1, "cosine out of range"),
        ("ess", 1.0, 1.2, "ESS above one"),
        ("ess", 0.1, -0.2, "negative size"),
        ("num_steps_off_policy", 3.0, -2.0, "impossible stamps"),
        ("sampling/sampling_logp_difference/mean", 0.0, -0.1, "negative size"),
    ],
)
def test_a_value_that_cannot_be_is_told_and_one_at_the_bound_is_not(column, fine, wrong, cause):
    for last, causes in ((fine, []), (wrong, [cause])):
        found = sim.diagnose({"step": range(100, 120), column: [fine] * 19 + [last]})
        assert found.causes == causes
        assert causes in ([], ["impossible stamps"]) or "All required inequalities" not in str(found)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"ess": [85.0] * 20}, "If the column is a percentage, divide it by 100."),
        ({"ess": [512.0] * 20}, "Divide by the number of weights that were summed"),
        ({"actor/pg_clipfrac": [20.0] * 20}, "If the column is a percentage, divide it by 100."),
        ({"staleness_min": [3.0, -2.0] * 10}, "Stamps lie up to 2 below 0, in column staleness_min at step 101."),
        ({"staleness": [3.0] * 20, "kl_k3": [0.1] * 20}, "staleness (near staleness_mean or "),
        ({"staleness_mean": [1.0, 3.0] * 10}, "younger than its weights. Staleness is 1 to 3, 2 on average."),
    ],
)
def test_what_a_column_holds_instead_is_said_beside_it(columns, said):
    more = {"staleness_max": [3.0] * 20} if "staleness_min" in columns else {}
    with pytest.warns(UserWarning, match="^curvature is not used alone: give both learning_rate and curvature"):
        found = sim.diagnose({"step": range(100, 120), **columns, **more}, curvature=2.0)
    assert said in " ".join(str(found).split())


def test_a_share_by_its_name_has_near_names_and_may_hold_anything(tmp_path):
    log = {"step": range(20), "idle_ratio": [0.2] * 19 + [1.3], "stop_fraction": ["n/a"] * 20, "kl_k3": [0.1] * 20}
    found = sim.diagnose(log)
    assert "At step 19 the share named idle_ratio is above 1 (idle_ratio = 1.3)" in str(found)
    assert "(near trainer/idle_ratio or rollouter/idle_ratio)" in " ".join(found.text(verbose=True).split())
    path = tmp_path / "log.csv"
    path.write_text("step,kl_k3,my/idle_share\n" + "".join(f"{k},0.1,{'nan' if k else 2}\n" for k in range(20)))
    assert sim.diagnose(path).causes == ["share out of range"]
    # Ratios of probabilities, schedules and settings are no shares.
    others = ("ratio", "my/ratio_mean", "lr_decay_rate", "ppo_ratio", "off_policy_ratio", "token_rate")
    assert sim.diagnose({"step": range(20), "kl_k3": [0.1] * 20} | {name: [3.0] * 20 for name in others}).causes == []


@pytest.mark.parametrize("column", ["actor/entropy", "entropy", "train/entropy"])
def test_entropy_that_fell_with_the_reward_is_named(column):
    rng, steps = np.random.default_rng(0), np.arange(240.0)
    fell, noise = np.clip((steps - 120) / 120, 0, 1), rng.normal(0, 0.01, (3, 240))
    rows = {"step": steps, "reward": 0.6 - 0.3 * fell + noise[0], column: 0.9 - 0.7 * fell + noise[1]}
    (finding,) = (each for each in sim.diagnose(rows).findings if each.cause == "reward fell")
    assert f"{column} went from 0.898 to 0.32" in finding.sentence
    steady = sim.diagnose(rows | {column: 0.9 + noise[2]})
    assert not any("went from" in each.sentence for each in steady.findings)


def test_a_column_that_is_another_quantity_is_not_used():
    """verl's and OpenRLHF's ppo_kl may be negative by chance: as k1 of the sampler it would be called wrong."""
    values = {"step": range(40), "actor/ppo_kl": [-1e-3, -2e-3] * 20}
    assert sim.diagnose(values).causes == []
    assert sim.diagnose(values, columns={"kl_k1": "actor/ppo_kl"}).causes == ["negative k1"]
    known = {alias.column for alias in aliases.STEPS if alias.quantity not in ("-", "share")}
    for name in ("kl", "policy_kl_error", "probs_ratio", "ppo_actor/update/approx_kl/avg", "actor/clipfrac"):
        assert aliases.reason(name) and name not in known and name not in aliases.steps()


@pytest.mark.parametrize(
    "column, cause",
    [
        ("actor/ppo_kl", "updates grew"),
        ("actor/grad_norm", "updates grew"),
        ("actor/pg_clipfrac", "updates grew"),
        ("rollout_corr/log_ppl_abs_diff", "sampler drifts away"),
        ("rollout_corr/kl", "sampler drifts away"),
        ("ppo_actor/update/importance_weight/max", "updates grew"),
        ("ppo_actor/update/behave_kl/avg", "sampler drifts away"),
    ],
)
@pytest.mark.parametrize("times", [2.0, 11.0])
def test_updates_that_grow_are_noticed_and_steady_ones_are_not(column, cause, times):
    """A rise from step 150 of 200 to `times` the first; a healthy run may warm up, shrink and grow to three times."""
    steps, rng = np.arange(200), np.random.default_rng(3)
    noise = rng.lognormal(0.0, 0.2, 200)
    rise = np.where(steps < 150, 1.0, 1.0 + (times - 1.0) * np.minimum((steps - 150) / 20.0, 1.0))
    grown = sim.diagnose({"step": steps, column: 3e-3 * rise * noise})
    assert grown.causes == [cause] * (times > 3.0)
    for healthy in (np.minimum(steps / 20.0 + 0.1, 1.0), 1.0 - steps / 250.0):
        assert sim.diagnose({"step": steps, column: 3e-3 * healthy * noise}).causes == []
    assert sim.diagnose({"step": steps, column: abs(rng.normal(0.0, 1e-3, 200)) * (steps % 9 == 0)}).causes == []
    # Spikes that noise explains are neither growth nor none, and a column that no answer uses is named.
    lone = sim.diagnose({"step": steps, column: 3e-3 * noise * np.where(np.isin(steps, (171, 188)), 80.0, 1.0)})
    (finding,) = (each for each in lone.findings if each.question == f"growth of {column}")
    assert (finding.verdict, lone.causes) == ("cannot tell", []) and "In 2 steps" in finding.sentence
    text = sim.diagnose({"step": steps, column: 3e-3 * noise, "actor/entropy": noise}).text()
    assert "only impossible values judge actor/entropy." in " ".join(text.split())


@pytest.mark.parametrize("written_as", ["nan", "NaN", "inf"])
def test_a_watched_metric_that_is_no_number_is_a_finding_and_an_empty_cell_is_none(tmp_path, written_as):
    rows = [f"{step},0.5,{'' if step == 3 else written_as if step == 7 else 0.01}" for step in range(40)]
    path = written(tmp_path / "log.csv", "\n".join(["step,reward,grad_norm", *rows, ""]))
    (finding,) = (each for each in sim.diagnose(path).findings if each.verdict == "differs")
    assert finding.cause == "not a number" and "grad_norm is no number at step 7, and in 1 of 40" in finding.sentence
    # In a table of pandas, NaN is an empty cell; an infinite number is a finding.
    assert len(sim.diagnose(pd.read_csv(path)).causes) == (written_as == "inf")


@pytest.mark.parametrize("length", [{}, {"response_length/mean": [1000.0] * 40}])
def test_k3_alone_is_interpreted_for_tokens_and_responses(length):
    text = sim.diagnose({"step": range(40), "kl_k3": [0.02, 0.0201] * 20} | length).text()
    words = " ".join(text.split())
    assert "0.0401 a token: ESS/N 0.961, and exp(-0.0401 T) of responses of T tokens" in words
    assert ("3.8e-18 of independent tokens here (1000)" in words) == bool(length)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("word", [None, "NaN"])
def test_a_log_prob_behind_the_mask_may_be_missing(tmp_path, ending, word):
    rows = [(step, -1.0, -1.0 - 0.01 * step, 1) for step in range(20) for _ in range(4)]
    gone = [*rows, (19, word, word, 0)]
    names = ("step", "sampler_log_prob", "trainer_log_prob", "mask")

    def file(name, lines):
        if ending == "csv":
            text = "\n".join([",".join(names), *(",".join("" if x is None else str(x) for x in r) for r in lines), ""])
        else:
            text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in lines)
        return written(tmp_path / f"{name}.{ending}", text)

    assert sim.diagnose(file("gone", gone)).json() == sim.diagnose(file("rows", rows)).json()
    refused("row 81", sim.diagnose, file("live", [*rows, (19, word, word, 1)]))


def test_each_command_names_the_other_where_it_is_the_right_one(tmp_path):
    row = {"sample_id": 0, "start_version": 0, "train_version": 0, "reward": 1.0}
    samples = written(tmp_path / "samples.jsonl", json.dumps(row) + "\n")
    assert "use `asyncsim log`" in call("diagnose", samples).stderr
    assert "use `asyncsim diagnose" in call("log", exports.WANDB, "--stack", "nemo_rl").stderr
    assert call("log", samples, "--set", "unit=publishes").exit_code == 0
    assert call("diagnose", exports.WANDB).exit_code == 1
    # Rewards alone may be of samples.
    alone = written(tmp_path / "alone.csv", "uid,reward\n1,0.5\n")
    assert "sample_id" in call("log", alone).stderr


def test_what_a_log_lacks_is_asked_for_at_once(tmp_path):
    path = written(tmp_path / "log.csv", "uid,policy\n1,0\n")
    said = call("log", path, "--set", "unit=updates").stderr
    first, second = said.splitlines()
    assert first.startswith("asyncsim: sample_id, train_version, start_version = None") and "the right file?" in first
    assert second.startswith("  batches_per_publish, updates_per_batch = None: must be given where versions ")
    assert call("log", path).stderr.splitlines()[1].startswith("  unit = None: must be one of ")


def test_a_reward_that_stays_is_rarely_called_fallen_and_one_that_falls_is():
    """Share of p below 0.05 over 400 steady and as many rising runs; without the count of parts it is above."""
    random = np.random.default_rng(5)
    noise = random.normal(0.5, 0.1, (400, 96))

    def p(series):
        log = sim.diagnosing.telemetry.Telemetry({"step": np.arange(96.0), "reward": series}, None, None)
        return returns.fall(log).p

    steady = np.array([p(each) for each in noise])
    count = returns.BATCHES - 2 * returns.SIZE + 1
    assert (steady < 0.05).mean() < 0.05 < (steady / count < 0.05).mean()
    assert max(p(each + np.linspace(0, 0.5, 96)) for each in noise[:50]) == 1.0
    fallen = [p(each - 0.4 * (np.arange(96) > 70)) for each in noise[:50]]
    assert max(fallen) < 1e-3


@pytest.mark.parametrize("width", [80, 100])
def test_the_screen_begins_with_findings_and_folds_what_stays_open(width):
    found = sim.diagnose(exports.WANDB)
    lines = found.text(width).splitlines()
    assert max(map(len, lines)) <= width
    heads = [line for line in lines if not line.startswith(" ")]
    assert [head.partition(" (")[0] for head in heads[2:7]] == [
        "differs: impossible values", "differs: reward", "differs: growth of actor/ppo_kl",
        "differs: growth of actor/pg_clipfrac", "cannot tell: 11 questions",
    ]  # fmt: skip
    assert "rollout_corr/k3_kl" in " ".join(lines)
    whole = found.text(width, verbose=True)
    assert whole.count("cannot tell: ") == 11 and "actor/pg_clip_frac_upper__MAX" in whole


@pytest.mark.committed
def test_the_pages_have_the_names_and_print_what_is_printed(monkeypatch):
    text = _names.PAGE.read_text(encoding="utf-8")
    assert _names.page(text) == text, "run `python -m docs._names`"
    steps, tokens = exports.example()
    pd.testing.assert_frame_equal(pd.read_csv(exports.EXAMPLE / "steps.csv"), steps)
    pd.testing.assert_frame_equal(pd.read_parquet(exports.EXAMPLE / "tokens.parquet"), tokens)
    monkeypatch.chdir(_names.PAGE.parents[1])
    monkeypatch.setenv("COLUMNS", "100")
    shown = re.findall(r"^```console\n\$ asyncsim ([^\n]*)\n(.*?)^```\n(?:\n<details>.*?^```\n(.*?)^```)?",
        (_names.PAGE.parent / "diagnose.md").read_text(encoding="utf-8").replace("\\\n", ""), re.M | re.S)  # fmt: skip
    for command, first, rest in shown:
        assert call(*shlex.split(command)).stdout == first + rest
    assert len(shown) == 2 and "To answer more: give `learning_rate` and `curvature`, or log cosines" in shown[1][2]
