"""`asyncsim timeline`: the keys of its JSON, laws beside what is realized, settings of the model, trace files."""

import json
import re
from pathlib import Path

import pytest

from asyncsim.base import feeds, plugins
from tests.cli.test_cli import call, told

KEYS = """
staleness token_staleness in_flight in_queue dropped_fraction wasted_token_fraction mean_length_generated
mean_length_trained throughput trainer_utilization generator_utilization group_slots sample_slots predicted
"""
TBA = ["--set", "groups_per_batch=2", "--set", "length=exponential:1", "--set", "train_time=1"]
AREAL = ["timeline", "areal", "--set", "max_head_offpolicyness=4", "--set", "consumer_batch_size=8"]


def test_the_json_has_every_key_and_parts_add_up(tmp_path: Path) -> None:
    text, got = told(tmp_path, *AREAL, "--set", "length=lognormal:1:0.8", "--set", "load=1.5", "--samples", "3")
    assert set(got) >= {*KEYS.split()} and {"mean", "std", "max", "pmf"} <= set(got["staleness"])
    assert got["in_flight"] + got["in_queue"] == pytest.approx(got["staleness"]["mean"])
    assert sum(k * p for k, p in enumerate(got["staleness"]["pmf"])) == pytest.approx(got["staleness"]["mean"])
    assert len(got["staleness"]["pmf"]) == got["staleness"]["max"] + 1
    assert got["token_staleness"] <= got["staleness"]["mean"] and "predicted" in text and "measured" in text
    # What nobody gave is named as a default.
    assert re.search(r"load=1.5; defaults:\s+max_concurrent_rollouts=8\n", text)


SLOTS = {
    ("verl-fully-async", "ppo_mini_batch_size=32", "staleness_threshold=1", "trigger_parameter_sync_step=1",
     "concurrent_samples_per_replica=128"): "64 of 128 slots used",
    ("areal", "max_head_offpolicyness=1", "consumer_batch_size=32",
     "max_concurrent_rollouts=128"): "64 of 128 slots used",
    ("prime-rl", "batch_size=32", "max_inflight=64"): "64 of 64 sample permits used",
}  # fmt: skip


@pytest.mark.parametrize(("words", "used"), SLOTS.items(), ids=[words[0] for words in SLOTS])
def test_the_first_page_says_how_many_of_the_named_slots_are_used(tmp_path: Path, words: tuple, used: str) -> None:
    timed = (*words[1:], "length=lognormal:1:0.8", "train_time=1.5")
    text, got = told(tmp_path, "timeline", words[0], *(each for knob in timed for each in ("--set", knob)))
    busy = got["sample_slots"]["busy"]
    assert f"generators: {used}, busy {busy:.1%}" in text and got["generator_utilization"] == busy
    # A slot of a group is busy until the longest of its samples ends, a slot of a sample while that is written.
    if got["group_slots"] is not None:
        more = [each for knob in timed for each in ("--set", knob)]
        text, got = told(tmp_path, "timeline", words[0], *more, "--samples", "8")
        groups = used.replace("slots", "group slots")
        assert f"{groups}, busy {got['group_slots']['busy']:.1%}; 512 of 1024 sample slots used" in text
        assert got["sample_slots"]["busy"] < 0.8 * got["group_slots"]["busy"]


def test_every_preset_that_counts_the_samples_of_a_group_says_so() -> None:
    sources = "".join(path.read_text("utf-8") for path in Path(plugins.__file__).parents[1].glob("systems/*.py"))
    assert {*re.findall(r'(\w+): int = k.count\(\s*"samples of a group', sources)} == {*feeds.GROUPS}


@pytest.mark.parametrize(
    ("law", "mean"),
    [("lognormal:2:0.5", 2.0), ("pareto:0.5:2.0", 1.0), ("exponential:0.5", 0.5), ("constant:3", 3.0), ("1.5", 1.5)],
)
def test_length_laws_on_the_command_line(tmp_path: Path, law: str, mean: float) -> None:
    words = "timeline synchronous --set groups_per_batch=16 --updates 400 --set"
    _, got = told(tmp_path, words, f"length={law}")
    assert got["mean_length_generated"] == pytest.approx(mean, rel=0.2)
    assert got["mean_length_trained"] == pytest.approx(got["mean_length_generated"], rel=0.05)
    assert got["staleness"]["pmf"] == [1.0]


def test_a_law_is_printed_or_that_there_is_none(tmp_path: Path) -> None:
    text, capped = told(
        tmp_path, *AREAL, "--set", "max_concurrent_rollouts=40", "--set", "length=exponential:1", "--set", "load=2"
    )
    assert capped["predicted"]["law"] == "systems/cap-binds" and capped["predicted"]["mean"] == 4.0
    assert "systems/cap-binds" in text
    # Too few slots are said once, with the option that adds them.
    text, few = told(tmp_path, *AREAL, "--set", "length=lognormal:1:1.5", "--set", "train_time=1.5")
    reason = few["predicted"]["reason"]
    assert reason == "it needs all 40 permits in use, and 8 slots are too few; give 32 slots or more"
    assert reason.count(";") == 1 and "set max_concurrent_rollouts to 32 or more" in " ".join(text.split())
    text, free = told(tmp_path, "timeline", "tba", *TBA)
    assert free["predicted"]["law"] is None and "no formula" in text


def test_settings_of_the_model_and_a_trace_file(tmp_path: Path) -> None:
    words = [*AREAL, "--set", "length=exponential:1", "--set", "train_time=2", "--updates", "40"]
    model = ("slots=6", "reward=exponential:0.5", "accept=0.5", "decode=[1.0, 0.9, 0.8]")
    more = [*(word for each in model for word in ("--model", each)), "--trace", str(tmp_path / "deep" / "t.json")]
    text, got = told(tmp_path, *words, *more, "--plot", str(tmp_path / "t.png"))
    assert got["system"]["slots"] == 6 and got["rejected_fraction"] > 0.2 and got["system"]["decode"] == [1.0, 0.9, 0.8]
    assert "slots=6" in text and "ui.perfetto.dev" in text and (tmp_path / "t.png").exists()
    assert json.loads((tmp_path / "deep" / "t.json").read_text())["traceEvents"]
    _, load = told(tmp_path, *words, "--model", "load=0.5")
    assert load["system"]["load"] == 0.5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--model", "slot=3"], "slots"),
        (["--model", "slots=many"], "slots"),
        (["--model", "turns=2"], "environment"),
        (["--model", "mode=hope"], "mode"),
        (["--set", "length=pareto:1:1"], "finite mean"),
        (["--set", "eta=3"], "max_head_offpolicyness"),
        (["--trace", "."], "--trace"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str) -> None:
    given = ["--set", "load=1.5"] + ([] if "length" in "".join(words) else ["--set", "length=exponential:1"])
    result = call(*AREAL, *given, *words)
    assert result.exit_code == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_a_deadlock_is_one_line() -> None:
    lost = ["max_age=0", "age_at_pack=none", "age_at_publish=all", "release_dropped=never"]
    result = call("timeline", "one-step-off", *(word for change in lost for word in ("--model", change)))
    assert result.exit_code == 2 and result.stderr.count("\n") == 1
    assert "stalled after 1 batches" in result.stderr and "0 of 1 are free" in result.stderr


def test_every_preset_is_listed() -> None:
    text = call("list", "systems").output
    for name in plugins.summaries("asyncsim.systems"):
        assert name in text
