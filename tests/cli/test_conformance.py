"""`asyncsim conformance`: what it prints, writes and answers, by exit status."""

import json

import pytest

from tests.cli.test_cli import call, told

LOSSES = "tests.conformance.trainers"
STYLES = "tests.conformance.test_losses_adapters"


@pytest.fixture
def mine(tmp_path):
    """A file with losses and a controller, outside any package."""
    path = tmp_path / "mine.py"
    path.write_text("""
from dataclasses import dataclass

import torch


def ess(log_prob, old_log_prob, mask):
    w = torch.exp(log_prob - old_log_prob) * mask
    return w.sum() ** 2 / (w * w).sum() / mask.sum()


def squared(log_prob, old_log_prob, mask):
    w = torch.exp(log_prob - old_log_prob) * mask
    return mask.sum() / (w * w).sum()


def centered(rewards, num_generations):
    table = rewards.reshape(-1, num_generations)
    return (table - table.mean(1, keepdims=True)).reshape(-1)


def gae(rewards, values, dones, last_value, gamma, lam):
    out, carried = 0 * rewards, 0.0
    for t in reversed(range(len(rewards))):
        following = last_value if t == len(rewards) - 1 else values[t + 1]
        carried = (1 - dones[t]) * carried
        out[t] = carried = rewards[t] + gamma * (1 - dones[t]) * following - values[t] + gamma * lam * carried
    return out


def ppo(log_prob, behavior, proximal, advantages, mask):
    ratio = torch.where(mask > 0, log_prob - behavior, 0.0).exp()
    clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
    return -(clipped * mask).sum() / mask.sum()


def constant(log_prob, behavior, proximal, advantages, mask):
    return -((log_prob - log_prob.detach()).exp() * advantages * mask).sum() / mask.sum()


def kl(log_prob, rollout_log_prob, response_mask):
    return (log_prob - rollout_log_prob)[response_mask > 0].mean()


def grouped(rewards, group_ids):
    return rewards - rewards.mean()


def matrix(log_prob, *others):
    return log_prob


def blind(log_prob, behavior, proximal, advantages, mask):
    return (behavior * advantages).sum()


def mutating(log_prob, behavior, proximal, advantages, mask):
    advantages *= 2.0
    return ppo(log_prob, behavior, proximal, advantages, mask)


class Needy(torch.nn.Module):
    def __init__(self, low):
        super().__init__()


@dataclass
class Counter:
    limit: int = 8
    free: int = 8
    taken: int = 0

    def capacity(self):
        return self.free

    def submitted(self, n):
        self.free -= n

    def accepted(self, n):
        pass

    def rejected(self, n):
        self.free += n

    dropped = rejected

    def consumed(self, n):
        self.taken += n

    def published(self, version):
        self.free, self.taken = self.free + self.taken, 0

    def recovered(self, version, kept):
        self.free, self.taken = self.limit - kept, 0


def counter():
    return Counter()


class Gate:
    def __init__(self, most=2):
        self.most, self.out, self.version = most, 0, 0

    def get_capacity(self):
        return (self.most + self.version) * 4 - self.out

    def take(self, n):
        self.out += n

    def done(self, n):
        pass

    def install(self, version):
        self.version = version

    def restart(self, version, kept):
        self.version, self.out = version, version * 4 + kept


class Callable:
    def __call__(self, log_prob, behavior, proximal, advantages, mask):
        return ppo(log_prob, behavior, proximal, advantages, mask)


def first_only(log_prob, behavior, proximal, advantages, mask):
    return ppo(log_prob, behavior, proximal, advantages[:, :1].expand_as(mask), mask)
""")
    return path


def test_a_loss_that_conforms_ends_in_0(mine, tmp_path):
    text, found = told(tmp_path, "conformance", f"{mine}:ppo", "--like", "ppo-clip")
    assert text.startswith("conforms like ppo_clip(") and "is ppo_clip()" in text
    assert "exact moments" in text and "1 hazard not printed" in text
    assert found["conforms"] and found["name"] == "ppo_clip()" and len(found["bias"]) == 9


def test_a_loss_that_deviates_ends_in_1(mine):
    result = call("conformance", f"{mine}:ppo", "--like", "ppo_clip", "--set", "high=0.28")
    assert result.exit_code == 1 and result.output.startswith("deviates from ppo_clip(low=0.2, high=0.28")
    assert "first disagreement" in result.output
    result = call("conformance", f"{mine}:constant", "--like", "grpo")
    assert result.exit_code == 1 and "ratio identically 1" in result.output
    result = call("conformance", f"{mine}:mutating")
    assert result.exit_code == 1 and "inputs changed in place" in result.output
    assert call("conformance", f"{mine}:mutating", "--allow", "inputs changed in place").exit_code == 0
    assert call("conformance", f"{mine}:ppo", "--strict").exit_code == 1


def test_an_adapter_is_chosen_with_its_settings():
    settings = "adapter.old=behavior adapter.cliprange=0.1 low=0.1 high=0.1"
    given = [word for each in settings.split() for word in ("--set", each)]
    result = call("conformance", f"{STYLES}:verl_style", "--adapter", "verl", "--like", "ppo_clip", *given)
    assert result.exit_code == 0, result.output + result.stderr
    assert call("conformance", f"{STYLES}:PolicyLoss", "--adapter", "openrlhf").exit_code == 0


def test_the_anchor_need_not_be_named():
    asked = ["conformance", f"{STYLES}:verl_style", "--adapter", "verl", "--like", "ppo-clip", "--set", "high=0.2"]
    result = call(*asked)
    assert result.exit_code == 0 and "anchor='proximal'" in result.output.splitlines()[0]
    result = call(*asked, "--set", "anchor=behavior")
    assert result.exit_code == 1 and "anchor: proximal where behavior was asked for" in result.output
    assert "behavior weight not applied" not in result.output


def test_the_loss_of_a_package_is_checked():
    pytest.importorskip("torchrl")
    result = call("conformance", "torchrl", "--set", "adapter.clip_epsilon=0.2", "--like", "ppo_clip")
    assert result.exit_code == 0, result.output + result.stderr


def test_a_controller_is_checked(mine, tmp_path):
    bounds = ["--set", "batch_size=4", "--set", "max_staleness=1", "--set", "examples=20"]
    for name in ("Counter", "counter"):
        assert told(tmp_path, "conformance", f"{mine}:{name}", *bounds)[1]["passed"] is True
    bounds += ["--set", "controller.free=12", "--json", tmp_path / "found.json"]
    result = call("conformance", f"{mine}:Counter", *bounds)
    assert result.exit_code == 1 and "bounded staleness" in result.output
    assert json.loads((tmp_path / "found.json").read_text())["failure"]["rule"] == "bounded staleness"


CALLS = "capacity=get_capacity submitted=take accepted=done published=install recovered=restart version=none"
NAMED = [f"--names={pair}" for pair in CALLS.split()]


def test_a_class_is_a_controller_and_its_calls_are_named(mine):
    bounds = ["--set", "batch_size=4", "--set", "max_staleness=1", "--set", "examples=20"]
    result = call("conformance", f"{mine}:Gate", *bounds)
    assert result.exit_code == 2 and "--names capacity=get_capacity" in result.stderr
    result = call("conformance", f"{mine}:Gate", *bounds, *NAMED)
    assert result.exit_code == 0 and result.output.startswith("passed"), result.output + result.stderr
    result = call(
        "conformance", f"{mine}:Gate", *bounds, f"--names={CALLS.replace(' ', ',')}", "--set", "controller.most=3"
    )
    assert result.exit_code == 1 and "bounded staleness" in result.output
    result = call("conformance", f"{mine}:Callable", *bounds)
    assert result.exit_code == 2 and "an object with a method capacity" in result.stderr


def test_a_trainer_that_drops_by_age_is_asked_for(mine, tmp_path):
    bounds = ["--set", "batch_size=4", "--set", "max_staleness=1", "--set", "examples=20", "--set", "recovery=false"]
    bounds += ["--set", "controller.free=12", "--json", tmp_path / "found.json"]
    assert call("conformance", f"{mine}:Counter", *bounds).exit_code == 1
    assert json.loads((tmp_path / "found.json").read_text())["without_losses"] == []
    result = call("conformance", f"{mine}:Counter", *bounds, "--set", "enforced=training")
    assert result.exit_code == 0, result.output + result.stderr
    result = call("conformance", f"{mine}:Counter", *bounds, "--set", "enforced=buffer")
    assert result.exit_code == 2 and "enforced" in result.stderr


def test_the_verdict_comes_first_and_hazards_are_folded(mine, tmp_path):
    lines = call("conformance", f"{mine}:mutating").output.splitlines()
    assert lines[0] == "deviates" and lines[1].startswith("is ppo_clip()")
    assert lines[2] == "bugs: inputs changed in place"
    assert "1 hazard not printed: add --hazards to see them" in lines
    assert not any("not finite at extreme log ratios" in line for line in lines)
    path = tmp_path / "found.json"
    for option in ("--hazards", "--strict"):
        output = call("conformance", f"{mine}:ppo", option, "--json", path).output
        assert "not finite at extreme log ratios" in output and "not printed" not in output
    assert any(found["kind"] == "hazard" for found in json.loads(path.read_text())["findings"])


def test_rows_may_have_one_advantage_each(mine):
    result = call("conformance", f"{mine}:first_only")
    assert result.exit_code == 1 and "bugs: one token's advantage for the whole row" in result.output
    assert call("conformance", f"{mine}:first_only", "--advantages-per", "sequence").exit_code == 0


BAD = {
    # what is wrong: (arguments behind `conformance FILE`, words of the line)
    "no colon": ([""], "of the form module:name"),
    "no file": (["elsewhere.py:ppo"], "a file that exists"),
    "no module": (["no_such_module:ppo"], "a module that can be imported"),
    "no name": (["{}:nothing"], "a name in"),
    "a metric": (["{}:kl"], "its arguments fit --kind metric (in Python check_metric, in pytest asyncsim_metric)"),
    "an advantage": (["{}:grouped"], "its arguments fit --kind advantage"),
    "a clip of a loss": (["{}:ppo", "--like", "gspo", "--set", "eps_clip=0.2"], "write --set low=0.2 --set high=0.2"),
    "no scalar": (["{}:matrix"], "a tensor with one number"),
    "no gradient": (["{}:blind"], "a function of log_prob"),
    "no method": (["{}:ppo", "--like", "ppo_clop"], "did you mean ppo_clip?"),
    "no argument": (["{}:ppo", "--like", "ppo_clip", "--set", "hihg=1"], "ppo_clip argument = 'hihg'"),
    "settings without a method": (["{}:ppo", "--set", "high=1"], "used with --like"),
    "no adapter": (["{}:ppo", "--adapter", "verk"], "--adapter = 'verk'"),
    "settings without an adapter": (["{}:ppo", "--set", "adapter.old=behavior"], "used with --adapter"),
    "settings of an adapter": (["trl", "--set", "loss_type=grpo"], "of an adapter write adapter.KEY=VALUE"),
    "adapter of a package": (["trl", "--adapter", "verl"], "left out for an installed package"),
    "style of verl": ([f"{STYLES}:verl_style"], "add --adapter verl"),
    "style of areal": ([f"{STYLES}:areal_style"], "add --adapter areal"),
    "style of roll": ([f"{STYLES}:roll_style"], "add --adapter roll"),
    "style of openrlhf": ([f"{STYLES}:PolicyLoss"], "add --adapter openrlhf"),
    "adapter's settings": (["{}:ppo", "--adapter", "verl", "--set", "adapter.old=x"], "old = 'x'"),
    "no part": (["{}:ppo", "--set", "method.high=1"], "--set part = 'method'"),
    "no finding": (["{}:ppo", "--allow", "typo"], "allow = 'typo'"),
    "adapter's own settings": (
        [f"{STYLES}:verl_style", "--adapter", "verl", "--set", "adapter.olf=1"],
        "settings of verl are old, cap",
    ),
    "module with arguments": (["{}:Needy", "--adapter", "openrlhf"], "name an instance"),
    "controller without bounds": (["{}:Counter"], "target = 'Counter': must be given batch_size"),
    "controller with a method": (["{}:Counter", "--like", "grpo"], "left out for an admission controller"),
    "controller's arguments": (
        ["{}:Counter", "--set", "batch_size=1", "--set", "max_staleness=1", "--set", "controller.x=1"],
        "made with",
    ),
    "names of a loss": (["{}:ppo", "--names", "capacity=x"], "left out for a loss"),
    "no name of a call": (["{}:Gate", "--names", "capacity"], "CALL=METHOD"),
    "no such level": (["{}:ppo", "--advantages-per", "row"], "advantages_per = 'row'"),
    "controller with advantages": (["{}:Counter", "--advantages-per", "token"], "left out for an admission controller"),
    "controller of a loss": (["{}:ppo", "--set", "controller.x=1"], "left out for a loss"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_in_2_with_one_line(name, mine):
    arguments, words = BAD[name]
    result = call("conformance", *(text.format(mine) for text in arguments))
    assert result.exit_code == 2, result.output
    assert words in result.stderr and result.stderr.count("\n") == 1 and result.output == ""


def test_a_metric_is_named(mine, tmp_path):
    text, found = told(tmp_path, "conformance", f"{mine}:ess", "--metric", "--like", "ess-token")
    assert text.startswith("conforms like ess_token") and "hazard: masked NaN" in text and found["name"] == "ess_token"
    assert call("conformance", f"{mine}:ess", "--metric", "--strict").exit_code == 1
    result = call("conformance", f"{mine}:squared", "--metric")
    assert result.exit_code == 1 and "it reports 1.25 on 'equal weights' where 1 is the limit" in result.output
    assert call("conformance", f"{mine}:squared", "--metric", "--allow", "not self-normalized").exit_code == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [(["--adapter", "verl"], "--adapter"), (["--set", "high=2"], "--set"), (["--like", "gspo"], "like = 'gspo'")],
)
def test_a_metric_takes_no_settings_of_losses(mine, more, words):
    result = call("conformance", f"{mine}:ess", "--metric", *more)
    assert result.exit_code == 2 and words in result.stderr and result.stderr.count("\n") == 1


def test_an_advantage_is_named(mine, tmp_path):
    text, found = told(tmp_path, "conformance", f"{mine}:centered", "--kind", "advantage", "--like", "group-mean")
    assert "is group_mean: " in text and found["name"] == "group_mean" and found["conforms"]
    assert call("conformance", f"{mine}:gae", "--kind", "advantage").exit_code == 0
    result = call("conformance", f"{mine}:gae", "--kind", "advantage", "--set", "dones=before", "--set", "gamma=0.5")
    assert result.exit_code == 1 and "bug: dones one slot late: " in result.output and "gamma 0.5" in result.output


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--kind", "reward"), "--kind = 'reward'"),
        (("--kind", "advantage", "--set", "lamda=1"), "--set = 'lamda'"),
        (("--kind", "advantage", "--adapter", "verl"), "left out for --kind advantage"),
        (("--kind", "advantage", "--like", "v-trace"), "with these arguments"),
    ],
)
def test_what_an_advantage_does_not_take(mine, more, words):
    result = call("conformance", f"{mine}:gae", *more)
    assert result.exit_code == 2 and words in result.stderr
