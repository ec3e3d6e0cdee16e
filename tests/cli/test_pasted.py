"""What a message says to write is written in place of the mistake, and works: the test reads it from the message."""

import re
import shlex
import sys

import pytest

from asyncsim.app import cli, commands, sweeping

PART = re.compile(r"""(?:[Ww]rite|written|add) (?:"(?P<arm>[^"]+)"|(?P<words>(?:--?[a-z][\w-]*[ =][^\s;()"]+ ?)+))""")
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
}


def said(words, capsys):
    """The message of a refusal, or None for what runs."""
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(words))
    text = capsys.readouterr().err
    return text if ended.value.code == 2 else None


@pytest.mark.parametrize("name", TYPED)
def test_what_a_message_says_to_write_works(name, monkeypatch, capsys):
    monkeypatch.setattr(commands, "run", lambda spec, o: 0)
    monkeypatch.setattr(sweeping, "sweep", lambda o: 0)
    monkeypatch.setattr("asyncsim.comparing.compare", lambda *_, **__: sys.exit(0))
    frame, wrong = TYPED[name]
    typed = frame.format(wrong) if "{}" in frame else f"{frame} {wrong}"
    message = said(typed, capsys)
    assert message is not None, "a mistake"
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
    assert (again := said(pasted, capsys)) is None, f"{message}\n{pasted}\n{again}"
