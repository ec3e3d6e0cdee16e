"""What a message says to write is written in place of the mistake, and works: the test reads it from the message."""

import re
import shlex
import sys
from json import loads

import numpy as np
import pandas
import pytest
import typer

from asyncsim.app import cli, commands, parsing, sweeping
from asyncsim.base import checks
from benchmarks.__main__ import main as bench
from docs.stubs import main as docs
from paper_figures.__main__ import main as figures
from tests.cli.test_cli import call

PART = re.compile(
    r"""(?:[Ww]rite|written|add|name it as|or) (?:"(?P<arm>[^"]+)"|(?P<words>(?:--?[a-z][\w-]*[ =][^\s;()"]+ ?)+))"""
)
COMPARE, ARM, SWEEP = (
    "compare method=grpo method=cispo --smallest 0.1 ",
    "compare {} method=cispo --smallest 0.1",
    "sweep ",
)
TYPED = {
    # In place of the first words stands what the message says, behind the others stay the second.
    "a spread as staleness": ("run", "--staleness uniform:4:64"),
    "a range as staleness": ("run", "--staleness 4-64"),
    "a word as staleness": ("run", "--staleness random"),
    "a spread of all arms": (COMPARE, "--staleness uniform:4:64"),
    "a spread as a schedule": ("run", "--schedule uniform:4:64"),
    "a distribution as a schedule": ("run", "--schedule poisson"),
    "bounds of no schedule": ("run", "--set schedule.low=4"),
    "bounds of the random schedule": ("run --schedule random", "--set schedule.low=4"),
    "the random schedule alone": ("run --schedule random", ""),
    "a name for the spread": (COMPARE, "--staleness-distribution uniform:0:8"),
    "a KL penalty": ("run", "--kl 0.1"),
    "a KL penalty of grpo": ("run --method grpo", "--beta 0.1"),
    "a KL penalty of all arms": (COMPARE, "--kl 0.1"),
    "kl as a penalty": ("run", "--penalty kl"),
    "kl as a penalty of all arms": (COMPARE, "--penalty kl"),
    "a setting of penalty": ("run --penalty k3", "--set penalty.coef=0.1"),
    "a setting of link": ("run", "--set link.lr=0.2"),
    "a setting of a penalty by another word": ("run --penalty k3", "--set k3.beta=0.1"),
    "a name behind =": (ARM, "grpo=method=grpo"),
    "a name before a method": (ARM, "mine=grpo"),
    "commas between settings": (ARM, "'a: method=grpo, method.low=0.1'"),
    "a comma at the end": (ARM, "'method=grpo method.low=0.1,'"),
    "commas without spaces": (ARM, "method=grpo,method.low=0.1"),
    "GAC as a method": ("run", "--method gac"),
    "GAC as a link": ("run", "--link gac"),
    "Dr. GRPO": ("run", "--method dr_grpo"),
    "REINFORCE++": ("run", "--method reinforce++"),
    "RLOO": ("run", "--method rloo"),
    "a setting of bit_chain": ("run --task bit-chain", "--set task.need=12"),
    "a method without its option": ("run {} --staleness 4", "grpo"),
    "a length of no part": ("run", "--horizon 32"),
    "a range of ratios": ("run --method grpo", "--eps 0.2"),
    "a length of one token": ("run", "--set task.length=32"),
    "asynchronous": ("run", "--async"),
    "a name of a language model": ("run", "--policy tiny"),
    "a word of the policy": ("run", "--model tiny"),
    "a setting under a method's name": ("run --method grpo", "--set grpo.high=0.3"),
    "a trainer's own name": ("run --method grpo", "--set actor.clip_ratio_high=0.28"),
    "a clip of an arm": (ARM, "'method=grpo eps=0.1'"),
    "a level of significance": (COMPARE, "--pvalue 0.01"),
    "a loss of a trainer": ("run", "--policy-loss gspo"),
    "weight decay": ("run", "--weight-decay 0.01"),
    "a clip of an export": ("export grpo --for trl", "--low 0.1"),
    "seconds without a target": ("compare grpo gspo --over seconds --system areal", "--smallest 10"),
    "two systems": ("compare 'a: system=areal' 'b: system=trl' --over seconds", ""),
    "a clock's target": ("compare grpo gspo --over seconds --system areal --link adam", "--target 0.8"),
}

JUDGED, CALIBRATED = "judge 'eta4-*.csv' 'eta8-*.csv' ", "calibrate eta4-0.csv "
FIELDS = "response_lengths=1000 tokens_per_second=35 prompts_per_batch=8 samples_per_prompt=8 slots_per_machine=64"
GIVEN = "".join(f"--set {each} " for each in (*FIELDS.split(), "machines=2", "staleness_limit=1", "train_seconds=50"))
OF_LOGS = {
    "an axis of seconds": (JUDGED, "--over time"),
    "an axis of hours": (JUDGED, "--over hours"),
    "seconds without a clock": (JUDGED, "--over seconds"),
    "seconds of a step as an axis": (JUDGED, "--over time_per_step"),
    "seconds of a step as a clock": (JUDGED, "--columns clock=time_per_step"),
    "seconds of a step by another name": (JUDGED, "--columns step_seconds=time_per_step"),
    "seconds by another name": (JUDGED + "--over seconds", "--columns seconds=time_per_step"),
    "a column alone": (JUDGED, "--columns ppo_actor/task_reward/avg"),
    "another form of our name": (JUDGED, "--columns rewards=ppo_actor/task_reward/avg"),
    "a difference in percent": (JUDGED, "--within 1%"),
    "a smoothed curve": (JUDGED, "--smooth 5"),
    "a level": (JUDGED, "--confidence 0.95"),
    "a table of a judgment": (JUDGED, "--csv x.csv"),
    "reward of a diagnosis": ("diagnose eta4-0.csv", "--reward ppo_actor/task_reward/avg"),
    "a KL of a diagnosis": ("diagnose eta4-0.csv", "--columns kl=staleness_mean2"),
    "a picture of a diagnosis": ("diagnose eta4-0.csv", "--plot x.png"),
    "a trainer": (CALIBRATED + GIVEN, "--trainer areal"),
    "a model": (CALIBRATED + GIVEN, "--model areal"),
    "a field as an option": (CALIBRATED + "--preset areal " + GIVEN, "--sync-seconds 2"),
    "seconds of a step": (CALIBRATED + "--preset areal " + GIVEN, "--columns time=time_per_step"),
    "a path of a calibration": (CALIBRATED + "--preset areal " + GIVEN, "--save x.yaml"),
}
TYPED |= OF_LOGS
ADVISED = "advise areal --updates 2 --realizations 2 --set staleness_limit=1 --set train_seconds=50 --set "
ADVISED += FIELDS.replace(" ", " --set ").replace("response_lengths=1000 ", "machines=1 ")
TYPED |= {
    "a maximum behind a distribution": (ADVISED, "--set response_lengths=lognormal:300:0.5,max=800"),
    "a maximum of lengths": (ADVISED, "--set max_response_length=800"),
    "a setting without its option": (ADVISED + " --set response_lengths=300", "max_concurrent_rollouts=16"),
    "an option in a section": (
        "timeline areal --set length=3 --set load=1 --updates 8 --set consumer_batch_size=2 --set "
        "max_concurrent_rollouts=4",
        "--set rollout.eta=2",
    ),
}


def logs():
    """Logs of two settings, whose seconds of a step no trainer names so."""
    for name, level in (("eta4", 0.5), ("eta8", 0.6)):
        for seed in range(3):
            draw = np.random.default_rng([seed, int(10 * level)]).normal
            columns = {"step": np.arange(40), "time_per_step": 118.0 + draw(size=40), "staleness_mean2": draw(size=40)}
            columns |= {"ppo_actor/task_reward/avg": level + 0.05 * draw(size=40)}
            pandas.DataFrame(columns).to_csv(f"{name}-{seed}.csv", index=False)


def said(words):
    """The message of a refusal, or None for what runs."""
    result = call(*shlex.split(words))
    return result.stderr if result.exit_code == 2 else None


@pytest.mark.parametrize("name", TYPED)
def test_what_a_message_says_to_write_works(name, monkeypatch, tmp_path):
    monkeypatch.setattr(commands, "run", lambda spec, o: 0)
    monkeypatch.setattr(sweeping, "sweep", lambda o: 0)
    monkeypatch.setattr("asyncsim.comparing.deciding.Question.on", lambda *_: sys.exit(0))
    frame, wrong = TYPED[name]
    if name in OF_LOGS:
        monkeypatch.chdir(tmp_path)
        logs()
    typed = frame.format(wrong) if "{}" in frame else f"{frame} {wrong}"
    message = said(typed)
    assert message is not None, "a mistake"
    if whole := re.search(r"; try asyncsim (.+)", message):
        assert said(whole[1]) is None, message
        return
    found = PART.search(message)
    assert found, message
    written = (
        shlex.quote(found["arm"])
        if found["arm"]
        else found["words"].replace("VALUE", "3" if "horizon" in message else "0.1").strip(" ,")
    )
    pasted = frame.format(written) if "{}" in frame else f"{frame} {written}"
    if "policy.model=" in pasted:
        return  # needs a folder with a model
    assert (again := said(pasted)) is None, f"{message}\n{pasted}\n{again}"


def test_every_command_in_the_table_of_answers_is_parsed():
    whole, table = typer.main.get_command(cli.app), checks.resource(checks.__file__, "elsewhere.txt")
    # A command alone or an option alone is named, not proposed.
    option, value = r"--?[a-z][\w-]* [\w.\\][\w.=*:/,-]*(?<=\w)", r"'[^']*'|\"[^\"]*\"|[A-Z]{2,}[\w.]*|(?<=list )\w+"
    for words in re.findall(rf"\basyncsim ([a-z]+(?: (?:{option}|{value}))+)", table):
        typed = parsing.rewritten(shlex.split(words.replace("VALUE", "3")), whole)
        parsing.refuse(typed, whole)
        whole.commands[typed[0]].make_context(typed[0], typed[1:])


@pytest.mark.parametrize("json", ["--json -", "--json=-"])
def test_a_dash_is_standard_output_alone(json, monkeypatch, capfd, tmp_path):
    monkeypatch.chdir(tmp_path)
    logs()
    with pytest.raises(SystemExit):
        cli.main(shlex.split(JUDGED + json))
    out, err = capfd.readouterr()
    assert loads(out)["axis"] == "steps" and "error rate" in err and not (tmp_path / "-").exists()


def test_a_dash_is_refused_where_no_text_is_written():
    whole = typer.main.get_command(cli.app)
    for name, command in whole.commands.items():
        for option, row in getattr(command.callback, "rows", {}).items():
            arguments = [name, f"--{option}", "-"]
            if row.written and option not in parsing._PIPED:
                with pytest.raises(checks.InputError, match="a text may go to standard output, as --json -"):
                    parsing.refuse(arguments, whole)
            elif row.written and name != "list":
                assert parsing.piped(arguments, whole)[-1] == "/dev/stdout"


def test_an_option_of_an_entry_point_is_answered_by_the_nearest(capsys):
    for main, word, near in (
        (docs, "--chekc", "--check"),
        (figures, "--texts", "--text"),
        (bench, "--ruonds", "--rounds"),
    ):
        with pytest.raises(SystemExit):
            main([word])
        assert f"{word} is no option; did you mean {near}?" in capsys.readouterr().err
