"""Language tasks: what is asked, what an answer is, what it earns."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.base import rng
from asyncsim.policies._pretraining import Characters
from asyncsim.sampling.rollouts import Sampler
from asyncsim.step.batch import Draws
from asyncsim.tasks._language import LanguageTask, chosen, padded, shuffled
from tests.refusals import refused

CHARACTERS = Characters()
POLICY = SimpleNamespace(tokenizer=CHARACTERS, context=64)


def asking(task, prompt):
    """Draws of trajectories that ask these prompts, `[R, G, N]`."""
    return Draws(
        rng.Stream(0, "rollout"), np.arange(1), np.zeros(1, dtype=np.int64), prompt.numpy(), prompts=task.prompts
    )


def answered(task, prompts, answers):
    """What answers `[G][N]` to prompts `[G]` earn, played token by token as a rollout does."""
    prompt = torch.tensor(prompts).reshape(1, -1, 1).expand(1, len(prompts), len(answers[0]))
    draws = asking(task, prompt)
    world = task.begin(prompt, draws)
    stop = task.tokenizer.newline[0]
    spoken = [[(task.tokenizer.encode(a) + [stop] * task.horizon)[: task.horizon] for a in row] for row in answers]
    action = torch.tensor(spoken).unsqueeze(0)
    mask, alive = torch.zeros(action.shape, dtype=torch.float64), torch.ones(prompt.shape, dtype=torch.bool)
    for t in range(task.horizon):
        mask[..., t] = alive
        turn = task.step(world, action[..., t], t, draws)
        assert turn.reward is None
        world, alive = turn.state, alive & turn.going
    seen = task.observe(world)
    return task.earn(seen.unsqueeze(3), action, mask, draws)[0], mask[0]


# Prompts and answers.


@pytest.mark.parametrize("operation", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("digits", [1, 2])
@pytest.mark.parametrize("style", ["char", "spaced"])
def test_the_answers_are_right(operation, digits, style):
    task = sim.tasks.arithmetic(operation, digits, shots=3, style=style, prompts=90)
    for text, answer in zip(task.texts, task.answers, strict=True):
        *solved, question = text.split("\n")
        for line in [*solved, question + answer]:
            left, right = line.split("=")
            assert eval(left) == int(right)
        assert len(answer) + 1 <= task.horizon
    assert len(set(task.texts)) == 90


def test_each_problem_is_asked_once_and_all_are():
    task = sim.tasks.arithmetic(digits=1, prompts=100)
    assert sorted(task.texts) == sorted(f"{a}+{b}=" for a in range(10) for b in range(10))


@pytest.mark.parametrize("even", [5, 48])
@pytest.mark.parametrize("odd", [3, 48])
def test_halves_share_no_problem_and_no_shot(even, odd):
    """Planted: halves of the chosen problems, instead of all, would share some when Q differs."""
    first, second = (
        sim.tasks.arithmetic(digits=1, shots=4, prompts=q, part=part, seed=3)
        for q, part in ((even, "even"), (odd, "odd"))
    )
    questions = [{text.split("\n")[-1] for text in task.texts} for task in (first, second)]
    shots = {line.split("=")[0] + "=" for line in first.texts[0].split("\n")[:-1]}
    assert not questions[0] & questions[1] and not shots & (questions[0] | questions[1])
    assert len(shots) == 4 and first.texts[0].split("\n")[:-1] == second.texts[0].split("\n")[:-1]


def test_the_order_belongs_to_the_seed():
    texts = [sim.tasks.arithmetic(seed=seed).texts for seed in (0, 0, 1)]
    assert texts[0] == texts[1] != texts[2]
    assert sim.tasks.arithmetic(prompts=5).texts == texts[0][:5], "more prompts would ask others"
    assert sorted(shuffled(1000, 7).tolist()) == list(range(1000))


def test_prompts_are_padded_on_the_left():
    assert padded([[1], [2, 3, 4]]).tolist() == [[-1, -1, 1], [2, 3, 4]]
    task = sim.tasks.arithmetic(digits=2, prompts=64).fit(POLICY)
    for row, text in zip(task.ids, task.texts, strict=True):
        assert CHARACTERS.decode(row[row >= 0].tolist()) == text
        assert (np.diff((row >= 0).astype(int)) >= 0).all(), "padding behind a token"


# Answers.

TASK = replace(sim.tasks.arithmetic(digits=1, prompts=2), texts=("3+4=", "9+9="), answers=("7", "18")).fit(POLICY)


@pytest.mark.parametrize(
    ("answer", "earned"),
    [
        ("7\n", 1.0),
        ("\n", 0.0),
        ("07\n", 0.0),
        (" 7\n", 0.0),
        ("7 \n", 0.0),
        ("7\n7", 1.0),
        ("70\n", 0.0),
        ("7.\n", 0.0),
        ("777", 0.0),
        ("18\n", 0.0),
    ],
)
def test_only_the_right_text_earns(answer, earned):
    assert answered(TASK, [0], [[answer]])[0].tolist() == [[earned]]


def test_a_truncated_answer_is_no_answer():
    """Planted: without the rule about the stop, `18` cut at two tokens would earn 1."""
    short = replace(TASK, horizon=2)
    assert answered(short, [1], [["18"]])[0].item() == 0.0
    assert answered(TASK, [1], [["18\n"]])[0].item() == 1.0


def test_each_group_is_marked_by_its_own_prompt():
    earned, mask = answered(TASK, [0, 1], [["7\n", "18\n"], ["7\n", "18\n"]])
    assert earned.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert mask.sum(-1).tolist() == [[2.0, 3.0], [2.0, 3.0]], "the line break is the last token that counts"


@dataclass(frozen=True)
class Pieces:
    """A tokenizer with an end of text, and line breaks inside longer pieces."""

    words: tuple = ("7", " ", " \n", "\n\n", "<end>", "q")
    size: int = 6
    end: tuple = (4,)
    newline: tuple = (2, 3)

    def encode(self, text):
        return [self.words.index(character) if character in self.words else 3 for character in text]

    def decode(self, ids):
        return "".join(self.words[i] for i in ids if i != 4)


@pytest.mark.parametrize(
    ("spoken", "earned", "length"),
    [([0, 3, 0], 1.0, 2), ([0, 4, 0], 1.0, 2), ([0, 2, 0], 0.0, 2), ([4, 0, 0], 0.0, 1), ([0, 0, 0], 0.0, 3)],
)
def test_every_token_with_a_line_break_and_every_end_stop(spoken, earned, length):
    task = LanguageTask(("q",), ("7",), 3).fit(SimpleNamespace(tokenizer=Pieces(), context=8))
    action, mask = torch.tensor(spoken).reshape(1, 1, 1, 3), torch.ones(1, 1, 1, 3, dtype=torch.float64)
    draws = asking(task, torch.zeros(1, 1, 1, dtype=torch.int64))
    world = task.begin(torch.zeros(1, 1, 1, dtype=torch.int64), draws)
    for t in range(2):
        mask[..., t + 1] = mask[..., t] * task.step(world, action[..., t], t, draws).going
    assert mask.sum() == length
    assert task.earn(world.unsqueeze(3), action, mask, draws).item() == earned


# Prompts of one text, and what a reward may be.


def test_prompts_of_one_text_have_their_own_answers():
    task = LanguageTask(("1+", "1+", "2+"), ("1", "2", "3"), 3).fit(POLICY)
    earned, _ = answered(task, [0, 1, 2], [["1", "2"], ["1", "2"], ["3", "2"]])
    assert earned.tolist() == [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("redundant", [0, 1])
def test_a_reward_finds_its_prompt_by_the_trajectory(redundant):
    """Groups of two, numbered with one more where a system starts so many; all say 2, which is right in groups 1, 4."""
    task = LanguageTask(("1+", "1+", "2+"), ("1", "2", "3"), 2).fit(POLICY)
    ids = (np.arange(5)[:, None] * (2 + redundant) + np.arange(2))[None]
    sampler = Sampler(task, POLICY, 2, 0, np.arange(1), np.zeros(1, dtype=np.int64), redundant)
    draws, prompt = sampler.draws(ids), sampler.prompts(ids)
    assert draws.asked.tolist() == draws.sibling("noise").asked.tolist() == prompt.tolist()
    said = torch.tensor(CHARACTERS.encode("2\n")).expand(1, 5, 2, 2)
    rows = SimpleNamespace(state=task.begin(prompt, draws).unsqueeze(3), action=said, mask=torch.ones(said.shape))
    assert sampler.earned(rows, draws)[0].tolist() == [[0.0] * 2, [1.0] * 2, [0.0] * 2, [0.0] * 2, [1.0] * 2]


@pytest.mark.parametrize(
    ("texts", "answers", "message"),
    [
        (("",), ("1",), "tokens of prompt 0 = 0: must be at least 1"),
        (("1+", ""), ("1", "1"), "tokens of prompt 1 = 0: must be at least 1"),
        ((), (), "texts = 0: must be as many as there are answers, and at least one"),
        (("1+",), ("1", "2"), "texts = 1: must be as many as there are answers, and at least one; there are 2 answers"),
    ],
)
def test_what_cannot_be_asked_is_refused(texts, answers, message):
    refused(message, lambda: LanguageTask(texts, answers, 3).fit(POLICY))


@dataclass(frozen=True)
class Odd(LanguageTask):
    """Pays a certain thing."""

    paid: object = None

    def score(self, prompt, text):
        return self.paid


@pytest.mark.parametrize("paid", [None, "1", [1.0], 1j, float("nan"), np.ones(2)])
def test_a_score_that_is_no_number_is_named(paid):
    task = Odd(("1+",), ("1",), 2, paid=paid).fit(POLICY)
    refused(r"score of an answer to prompt 0 = .*: must be a finite number", answered, task, [0], [["1"]])


@pytest.mark.parametrize("paid", [True, 1, np.float32(1.0), torch.ones(())])
def test_any_number_is_a_score(paid):
    assert answered(Odd(("1+",), ("1",), 2, paid=paid).fit(POLICY), [0], [["1"]])[0].item() == 1.0


# Through the loop.


def test_a_run_asks_the_prompts_in_turn_and_records_what_was_spoken():
    from asyncsim.sampling.rollouts import Sampler, monte_carlo
    from asyncsim.step.versions import current

    policy = sim.policies.causal_lm("char", recipe={"width": 32, "layers": 1, "steps": 0})
    task = sim.tasks.arithmetic(digits=1, prompts=3).fit(policy)
    sampler = Sampler(task, policy, 2, 0, np.arange(1), np.zeros(1, dtype=np.int64))
    view = current(policy.prepare(policy.initial(1)))
    version = np.zeros((1, 1, 1, 1), dtype=np.int32)
    batch = monte_carlo(sampler, version, 0, np.arange(8).reshape(1, 4, 2), view)
    assert batch.state.shape == (1, 4, 2, 1, 4) and batch.action.shape == (1, 4, 2, 3)
    assert batch.state[0, :, 0, 0].tolist() == [task.ids[q].tolist() for q in (0, 1, 2, 0)]
    stops = torch.isin(batch.action, torch.tensor(CHARACTERS.end))
    before = torch.nn.functional.pad(stops.cumsum(-1)[..., :-1] > 0, (1, 0))
    assert torch.equal(batch.mask > 0, ~before)


# Refusals.


class Lowercase(Characters):
    """A tokenizer that reads capitals too."""

    def encode(self, text):
        return super().encode(text.lower())


class Long(Characters):
    """A tokenizer that spends three tokens on a character."""

    def encode(self, text):
        return [i for i in super().encode(text) for _ in range(3)]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: sim.tasks.arithmetic("divide"), "operation"),
        (lambda: sim.tasks.arithmetic(digits=4), "digits"),
        (lambda: sim.tasks.arithmetic(digits=1, prompts=101), "prompts"),
        (lambda: sim.tasks.arithmetic(digits=1, prompts=51, part="odd"), "prompts"),
        (lambda: sim.tasks.arithmetic(digits=1, shots=51), "shots"),
        (lambda: sim.tasks.arithmetic(part="half"), "part"),
        (lambda: sim.tasks.arithmetic(style="words"), "style"),
        (lambda: sim.tasks.arithmetic(seed=-1), "seed"),
        (lambda: sim.tasks.arithmetic(horizon=0), "horizon"),
        (lambda: sim.tasks.arithmetic(horizon=3).fit(POLICY), "horizon"),
        (lambda: sim.tasks.arithmetic().fit(sim.policies.gaussian()), "policy"),
        (lambda: sim.tasks.arithmetic().fit(SimpleNamespace(tokenizer=Characters(), context=9)), "tokens of prompt"),
        (lambda: sim.tasks.arithmetic().fit(SimpleNamespace(tokenizer=Long(), context=99)), "horizon"),
        (lambda: TASK.outcomes(torch.zeros(1)), "task"),
        (lambda: TASK.exact(None, torch.zeros(1, 1)), "task"),
        (lambda: chosen([1, 2, 3], 2, "odd"), "prompts"),
    ],
)
def test_bad_input_is_named(call, field):
    caught = refused("", call)
    assert caught.field.startswith(field) and caught.remedy


def test_the_header_says_what_is_asked():
    found = TASK.describe()
    assert found["task"] == "arithmetic" and found["task_operation"] == "add" and found["first_prompt"] == "3+4="
