"""A language task of one's own data: what is asked, when an answer ends, what a reward sees, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import asyncsim as sim
from asyncsim.policies._pretraining import Characters
from asyncsim.tasks._language import Answer
from tests.cli.test_cli import call
from tests.language import tiny
from tests.refusals import refused

ROWS = [{"question": f"{a}+{b}=", "answer": a + b, "level": a} for a in range(3) for b in range(2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of a tiny model with a chat template."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model")
    tiny.save(folder)
    return str(folder)


@pytest.fixture
def data(tmp_path):
    return tiny.rows(tmp_path / "data.jsonl", *ROWS)


def asked(data, **settings):
    return sim.tasks.text(data, **{"prompt": "question", "horizon": 8, **settings})


def spec(task, model, **changes):
    settings = {"updates": 3, "replicates": 1, "samples_per_group": 4, "diagnostics": ["batch_return", "texts"]}
    policy = sim.policies.causal_lm(model)
    link = sim.chain(sim.updates.adam(1e-3))
    system = sim.schedules.fixed(1, groups_per_batch=2)
    return sim.Spec(task, system, sim.methods.grpo(), link, policy, **settings | changes)


# Prompts.


def test_a_prompt_is_a_column_a_format_or_a_message(data, model):
    policy = sim.policies.causal_lm(model)
    words = policy.tokenizer
    assert asked(data).texts == tuple(row["question"] for row in ROWS)
    assert asked(data, prompt="Q{{1}} {question} {answer}?").texts[1] == "Q{1} 0+1= 1?"
    plain, chat, begun = (
        asked(data, **given).fit(policy) for given in ({}, {"template": "chat"}, {"bos": True, "template": "chat"})
    )
    ids = [task.ids[2][task.ids[2] >= 0].tolist() for task in (plain, chat, begun)]
    assert ids[0] == words.encode("1+0=") and ids[1] == words.encode("<u>1+0=<end><a>") and ids[2] == [2, *ids[1]]
    # Planted: the prompt as it stands would lack the format that the model was taught.
    assert ids[1] != ids[0]


def test_messages_are_asked_as_they_stand(tmp_path, model):
    talk = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "1+1="}]
    task = sim.tasks.text(tiny.rows(tmp_path / "a.jsonl", {"prompt": talk, "answer": "2"}), template="chat", horizon=4)
    policy = sim.policies.causal_lm(model)
    assert task.texts == ("1+1=",)
    assert task.fit(policy).ids[0].tolist() == policy.tokenizer.encode("<s>be brief<end><u>1+1=<end><a>")


def test_three_forms_of_the_same_data_are_the_same_task(data, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "data.parquet")
    tasks = [asked(data), asked(str(tmp_path / "data.parquet"))]
    refused(f"name a file of it: task.data={data}", asked, str(tmp_path))
    if datasets := pytest.importorskip("datasets"):
        rows = datasets.Dataset.from_list(ROWS)
        rows.save_to_disk(tmp_path / "rows")
        datasets.DatasetDict({"train": rows, "test": rows.select(range(2))}).save_to_disk(tmp_path / "splits")
        tasks += [asked(str(tmp_path / "rows")), asked(str(tmp_path / "splits"), split="train")]
        assert asked(str(tmp_path / "splits"), split="test").prompts == 2
        refused("split = None: must be one of train, test", asked, str(tmp_path / "splits"))
    assert len({(task.texts, task.answers) for task in tasks}) == 1
    tiny.rows(tmp_path / "other.jsonl", *ROWS[:-1], {**ROWS[-1], "answer": 4})
    assert asked(str(tmp_path / "other.jsonl")).digest != tasks[0].digest == asked(data).digest


def test_halves_share_no_row_and_some_rows_are_the_first(data):
    even, odd = asked(data, part="even"), asked(data, part="odd")
    assert {*even.texts} | {*odd.texts} == {row["question"] for row in ROWS} and not {*even.texts} & {*odd.texts}
    assert asked(data, prompts=2).texts == asked(data).texts[:2]


# Answers.


@pytest.mark.parametrize("stop", [None, "\n", "ab", "=\n"])
def test_an_answer_ends_at_its_stop_alone(data, model, stop):
    """In every response of a run, drawn early and late; a stop may lie in one token or in several."""
    if stop is None:
        task = asked(data, reward=lambda completions: [0.0] * len(completions), horizon=32)
    else:
        task = asked(data, reward=lambda completions: [0.0] * len(completions), horizon=32, stop=stop)
    found = sim.diagnostics.texts(samples=8)
    traces = [
        sim.run(spec(task, model, drawing=drawing, updates=2, samples_per_group=8, diagnostics=[found]))
        for drawing in ("early", "late")
    ]
    assert traces[0].texts().equals(traces[1].texts())
    texts = traces[0].texts()
    assert texts["ended"].any() and (stop is None or not texts["response"].str.contains(stop, regex=False).any())
    assert stop == "\n" or texts["response"].str.contains("\n").any(), "an answer may have several lines"


def test_what_was_written_is_read_up_to_the_stop():
    task = sim.tasks.text(QUESTIONS, stop="ab", prompts=1, horizon=6).fit(SPEAKER)
    encode = Characters().encode
    action = torch.tensor([encode("12ab00"), encode("1a2bab"), encode("1a2b3a"), encode("1\n0000")])[None, None]
    mask = torch.tensor([[1, 1, 1, 1, 0, 0], [1] * 6, [1] * 6, [1, 1, 0, 0, 0, 0]])[None, None].double()
    read = task.read(action, mask)
    assert [(each.text, each.ended, len(each.ids)) for each in read] == [
        ("12", True, 4), ("1a2b", True, 6), ("1a2b3a", False, 6), ("1\n", True, 2)]  # fmt: skip
    going = [task.goes_on(action[..., :t])[0, 0].tolist() for t in range(1, 7)]
    # Planted: the last token alone cannot tell the second row's first b from a stop.
    assert [row[0] for row in going[:4]] == [True, True, True, False]
    assert [row[1] for row in going] == [True] * 5 + [False] and all(row[2] for row in going)


class Speaker:
    """The characters and a context, as a task needs them of a policy."""

    tokenizer, context = Characters(), 64


SPEAKER = Speaker()
QUESTIONS = str(Path(__file__).parents[1] / "contracts" / "questions.jsonl")


def test_equal_prompts_have_their_own_answers():
    """Planted: an answer that is found by the prompt's text would be paid by the other row as well."""
    task = sim.tasks.text(QUESTIONS, horizon=8).fit(SPEAKER)
    assert task.texts[0] == task.texts[2]
    answers = [Answer((), text, True) for text in ("3", "three", "3", " three ", "a\nb")]
    assert task.rewards([0, 0, 2, 2, 1], answers) == [1.0, 0.0, 0.0, 1.0, 1.0]
    assert task.rewards([0], [Answer((), "3", False)]) == [0.0], "an answer that did not end is none"


# Rewards.


def test_a_reward_gets_columns_texts_ids_and_ends(data):
    seen = {}

    def one(prompts, completions, completion_ids, ended, level, answer):
        seen["one"] = (prompts, completions, completion_ids, ended, level, answer)
        return np.array([0.5, 1.0])

    def every(completions, **columns):
        seen["every"] = columns
        return [True, 2]

    answers = [Answer((3, 4), "x", True), Answer((5,), "y", False)]
    assert asked(data, reward=one).rewards([5, 0], answers) == [0.5, 1.0]
    assert seen["one"] == (["2+1=", "0+0="], ["x", "y"], [[3, 4], [5]], [True, False], [2, 0], [3, 0])
    assert asked(data, reward=every).rewards([5, 0], answers) == [1.0, 2.0]
    assert seen["every"].keys() == {"prompts", "completion_ids", "ended", "question", "level", "answer"}


def test_a_reward_is_called_once_a_batch(data, model):
    calls = []

    def counted(completions):
        calls.append(len(completions))
        return [float(len(text)) for text in completions]

    sim.run(spec(asked(data, reward=counted), model))
    assert calls == [8, 8, 8]


def test_a_reward_of_a_file_runs_where_it_is_named_alone(data, tmp_path, model, monkeypatch):
    (tmp_path / "my.py").write_text("def f(completions, answer):\n    return [float(len(c)) for c in completions]\n")
    place = f"{tmp_path / 'my.py'}:f"
    first = spec(asked(data, reward=place), model)
    first.save(tmp_path / "spec.json")
    refused("reward = .*: must be trusted", sim.Spec.load, tmp_path / "spec.json")
    again = sim.Spec.load(tmp_path / "spec.json", trust=[place])
    assert sim.run(again) == sim.run(first)
    assert sim.run(first).header["manifest"]["data"] == first.task.digest == first.describe()["task_digest"]


def test_a_run_does_not_go_on_with_other_data_or_another_model(data, tmp_path):
    model = tmp_path / "model"
    tiny.save(model)
    sim.run(spec(asked(data), str(model)), checkpoint=tmp_path / "c.npz")
    kept = (model / "config.json").read_bytes()
    (model / "config.json").write_bytes(kept + b" ")
    error = refused(r"spec\.weights", sim.run, spec(asked(data), str(model)), resume=tmp_path / "c.npz")
    assert str(model) in str(error) and "begin anew" in str(error)
    (model / "config.json").write_bytes(kept)
    sim.run(spec(asked(data), str(model)), resume=tmp_path / "c.npz")
    tiny.rows(tmp_path / "data.jsonl", *ROWS[::-1])
    error = refused(r"spec\.data", sim.run, spec(asked(data), str(model)), resume=tmp_path / "c.npz")
    assert data in str(error)


def test_a_command_asks_ones_own_data(data, tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text("def f(completions, **columns):\n    return [float(len(c)) for c in completions]\n")
    words = ["--task", "text", "--set", f"task.data={data}", "--set", "task.prompt=question", "--set", "task.horizon=6"]
    words += ["--set", "task.reward=my.py:f", "--policy", "causal-lm", "--set", f"policy.model={model}"]
    words += [
        "--method",
        "grpo",
        "--staleness",
        "1",
        "--updates",
        "3",
        "--samples",
        "4",
        "--diagnostics",
        "default,texts",
    ]
    done = call("run", *words, "--save", "t.npz")
    assert done.exit_code == 0, done.stderr
    trace = sim.Trace.load(tmp_path / "t.npz")
    assert len(trace.texts()) == 4 * 3 and "ess" in trace.metrics


# What is refused.


def strange(value):
    """A reward that returns this for the first answer."""

    def reward(completions):
        return [value] + [0.0] * (len(completions) - 1)

    return reward


ODD = {
    "a missing file": (lambda d, m: asked("none.jsonl"), "data = 'none.jsonl'.*exists"),
    "another kind of file": (lambda d, m: asked(__file__), r"data = .*one JSON object per line"),
    "a missing column": (lambda d, m: asked(d, prompt="text"), "prompt = 'text': must be a column.*question, answer"),
    "a missing field": (lambda d, m: asked(d, prompt="{text}?"), "prompt = 'text': must be a column"),
    "a broken format": (lambda d, m: asked(d, prompt="{question"), "prompt = .*format of columns"),
    "a missing answer": (lambda d, m: asked(d, answer="right"), "answer = 'right': must be a column"),
    "an argument that is no column": (
        lambda d, m: asked(d, reward=lambda completions, truth: []), "argument of <lambda> = 'truth'.*question"),
    "no number": (
        lambda d, m: sim.run(spec(asked(d, reward=strange("1")), m)), "reward, of an answer to prompt 0 = '1'"),
    "no number at all": (lambda d, m: sim.run(spec(asked(d, reward=strange(None)), m)), "prompt 0 = None"),
    "NaN": (lambda d, m: sim.run(spec(asked(d, reward=strange(float("nan"))), m)), "prompt 0 = nan"),
    "one number for all": (
        lambda d, m: sim.run(spec(asked(d, reward=lambda completions: 1.0), m)), "rewards of <lambda> = 1.0: must"),
    "an answer longer than the horizon": (
        lambda d, m: asked(d, prompt="question", answer="question", horizon=3).fit(sim.policies.causal_lm(m)),
        "horizon = 3: must be at least 5, tokens of the right answer to prompt 0; raise the horizon"),
    "a prompt longer than the context": (
        lambda d, m: asked(d, horizon=95).fit(sim.policies.causal_lm(m)), "prompt 0 and its answer = 99.*at most 96"),
    "an unknown template": (
        lambda d, m: asked(d, template="alpaca"), "template = 'alpaca': must be one of chat, or None"),
    "no end at all": (lambda d, m: asked(d).fit(Endless()), "stop = None.*give stop"),
}  # fmt: skip


class Endless(Speaker):
    """A model without a token that ends a text."""

    class tokenizer(Characters):
        end = ()

    tokenizer = tokenizer()


@pytest.mark.parametrize("what", ODD)
def test_bad_input_is_named_in_one_line(what, data, model):
    call, words = ODD[what]
    assert "\n" not in str(refused(words, call, data, model))


def test_an_empty_prompt_is_named_by_its_row(tmp_path):
    for bad in ("", "  \n", None, []):
        path = tiny.rows(tmp_path / "a.jsonl", {"prompt": "1+1=", "answer": 2}, {"prompt": bad, "answer": 2})
        error = refused("prompt of row 1 of .*: must be a text that is not empty", sim.tasks.text, path)
        assert "a.jsonl" in str(error)
    path = tiny.rows(tmp_path / "a.jsonl", {"prompt": "1", "answer": "2"}, {"prompt": "2", "answer": ""})
    refused("answer of row 1 of .*: must be a text or a number", sim.tasks.text, path)


def test_broken_lines_are_named_by_number(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "1"}\n\n{"prompt": \n')
    refused("line 3 of .*: must be JSON", sim.tasks.text, str(tmp_path / "a.jsonl"))
    (tmp_path / "a.jsonl").write_text('{"prompt": "1"}\n{"other": "1"}\n')
    refused("line 2 of .*: must be the names prompt", sim.tasks.text, str(tmp_path / "a.jsonl"))
    (tmp_path / "a.jsonl").write_text("\n")
    refused("rows of the data = 0", sim.tasks.text, str(tmp_path / "a.jsonl"))
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": "1", "ended": "2"}))
    refused("columns of .* = 'ended': must be other names", sim.tasks.text, str(tmp_path / "a.jsonl"))


def test_a_model_without_a_template_says_so(data, tmp_path):
    tiny.save(tmp_path / "plain", chat=False)
    task, policy = asked(data, template="chat"), sim.policies.causal_lm(str(tmp_path / "plain"))
    refused("template = 'chat': must be known to the model.*template=None", task.fit, policy)
    refused("template = 'chat'", task.fit, SPEAKER)
    refused("bos = True: must be False", asked(data, bos=True).fit, SPEAKER)
