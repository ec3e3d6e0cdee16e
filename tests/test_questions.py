"""The page of questions is what its commands say, and its answers are made of their numbers.

Every command's result is stored. Here text and pictures are held to stored results, and commands that
take a tenth of a second are run in CI; `make test-long` runs all of them (`python -m docs --check`).
"""

import ast
import inspect
import math
import re

import numpy as np
import pytest

import docs.__main__ as command
from asyncsim import claims
from docs import _claimed, _engines, _page, _pictures, _prose, _shown, _site
from docs._questions import FOOT, HEAD, QUESTIONS

pytestmark = pytest.mark.committed

PAGE = (_page.HERE / "questions.md").read_text(encoding="utf-8")
STORED = _page.stored()
CHEAP = [each for each in _page.commands(QUESTIONS) if each.startswith("asyncsim timeline") and "--sweep" not in each]
"""Simulations of one realization take a tenth of a second each."""


def test_text_and_pictures_are_those_of_the_stored_results():
    assert command.faults(STORED) == []


@pytest.mark.rows  # as on an older processor, which asks more: `make test-older` runs it
def test_stored_results_are_what_cheap_commands_say():
    assert len(CHEAP) >= 12
    for each in CHEAP:
        assert _page.settled(STORED[each], _page.said(each)) is STORED[each], each


def test_stored_advice_is_what_the_cheapest_command_says():
    advice = [each for each in STORED if each.startswith("asyncsim advise")]
    assert len(advice) >= 6
    each = min(advice, key=lambda command: len(STORED[command].result["settings"]))
    assert _page.settled(STORED[each], _page.said(each)) is STORED[each], each


def test_last_digits_of_another_processor_change_nothing_that_is_stored():
    """A tenth digit, a missing number and an order of keys are no news; an eighth digit, a count and a word are."""
    before = max((STORED[each] for each in CHEAP), key=lambda said: said.result["staleness"]["mean"])
    lines, result, source = before
    mean = result["staleness"]["mean"]

    def again(**changes):
        return _page.settled(before, _page.Said(list(lines), {**result, **changes}, source)) is before

    assert again() and again(staleness=dict(reversed({**result["staleness"], "mean": mean * (1 + 1e-11)}.items())))
    assert not again(staleness={**result["staleness"], "mean": mean * (1 + 1e-7)}) and not again(new=0.0)
    assert _page.settled(None, before) is before and not _page.alike(3, 3.0) and not _page.alike([1.0], [1.0, 1.0])
    assert _page.alike(_page.Said([], {"x": math.nan}), _page.Said([], {"x": math.nan}))
    assert _page.settled(before, before._replace(lines=[*lines, "more"])).lines[-1] == "more"
    assert _page.settled(before, before._replace(source="0" * 16)).source == "0" * 16


@pytest.mark.long
def test_stored_results_are_what_all_commands_say(capsys):
    assert command.main(["--check"]) == 0, capsys.readouterr().out


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the page and what belongs to it, in which something may be wrong."""
    (tmp_path / "questions").mkdir()
    pictures = (f"questions/{_page.name(q)}" for q in QUESTIONS if q.draw)
    for path in ("questions.md", "questions/results.json", *pictures):
        (tmp_path / path).write_bytes((_page.HERE / path).read_bytes())
    monkeypatch.setattr(command, "HERE", tmp_path)
    return tmp_path


def test_a_number_that_is_off_is_found(copy):
    assert command.faults(STORED) == []
    (copy / "questions.md").write_text(PAGE.replace("staleness is 2.48", "staleness is 2.49"), encoding="utf-8")
    assert command.faults(STORED) == ["questions.md: not up to date; run `python -m docs`"]


def test_a_picture_of_other_results_is_found(copy):
    """A picture says what it was drawn from, and other results have another digest."""
    drawn = next(question for question in QUESTIONS if question.draw)
    other = dict(STORED)
    lines, result, _ = other[drawn.commands[0]]
    other[drawn.commands[0]] = _page.Said(lines, {**result, "dropped_fraction": 0.5})
    assert _page.origin(drawn, other) != _page.origin(drawn, STORED)
    (copy / "questions" / _page.name(drawn)).write_bytes(b"")
    (found,) = command.faults(STORED)
    assert found == f"{_page.name(drawn)}: not drawn from these results; run `python -m docs --stored`"


def test_a_command_that_says_otherwise_is_found(copy):
    """With a result that changed, the command, the text and the picture are named."""
    drawn = next(each for each in QUESTIONS if each.draw and "staleness" in STORED[each.commands[0]].result)
    lines, result, _ = STORED[drawn.commands[0]]
    stale = {**result["staleness"], "mean": 9.87}
    changed = {**STORED, drawn.commands[0]: _page.Said(lines, {**result, "staleness": stale})}
    assert len(command.faults(changed)) == 3
    assert command.faults(changed)[0] == f"said otherwise: {drawn.commands[0]}"


@pytest.mark.parametrize("start", ["python", "asyncsim advise"])
def test_a_script_or_description_that_changed_is_found(copy, start):
    """A command names a file of the page whose digest is stored with what it said."""
    named = next(each for each in STORED if each.startswith(start))
    assert len(STORED[named].source) == 16
    changed = {**STORED, named: STORED[named]._replace(source="0" * 16)}
    assert f"files changed since: {named}" in command.faults(changed)


def answers():
    """The answers of the page: a sentence in bold, and the paragraph behind it, if any."""
    found = re.findall(r"^\*\*(.+)\*\*\n\n(?:([^!`#].*)\n)?", PAGE, flags=re.MULTILINE)
    assert len(found) == len(QUESTIONS)
    return [f"{first} {rest}".strip() for first, rest in found]


def test_an_answer_begins_with_one_sentence_in_bold():
    firsts = re.findall(r"^\*\*(.+)\*\*$", PAGE, flags=re.MULTILINE)
    assert max(len(each.split()) for each in firsts) <= 27  # a sentence, behind "Yes." or "No."


def sentences():
    """Sentences of all answers and captions; what stands behind a colon or semicolon counts as one of its own."""
    texts = [*answers(), *(question.caption for question in QUESTIONS if question.caption)]
    return [each for text in texts for each in re.split(r"(?<=[.:;?]) ", text)]


def numbers(sentence):
    """How many numbers a sentence has outside code."""
    return len(re.findall(r"(?<![\w.])-?\d[\d,.]*", re.sub(r"`[^`]*`", "", sentence)))


def test_sentences_are_short_and_have_few_numbers():
    for sentence in sentences():
        assert len(sentence.split()) <= 25, sentence
        assert numbers(sentence) <= 3, sentence
    assert numbers("`a8` 1 and 2.5, -3 or 10,000") == 4


def typed(source):
    """Digits that stand in the texts of a function instead of coming from a result."""
    tree = ast.parse(source)
    docs = {id(tree.body[0].body[0].value)}
    specs = {id(part) for each in ast.walk(tree) if isinstance(each, ast.FormattedValue) and each.format_spec
             for part in ast.walk(each.format_spec)}  # fmt: skip
    texts = (each for each in ast.walk(tree) if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return [each.value for each in texts if id(each) not in docs | specs and re.search(r"\d", each.value)]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.answer.__name__)
def test_no_number_of_an_answer_is_typed(question):
    assert typed(inspect.getsource(question.answer)) == []


def test_a_typed_number_is_seen():
    assert typed('def f(x):\n    """2 things."""\n    return f"{x:.2f} of 8 versions"') == [" of 8 versions"]


def test_pictures_of_other_pages_are_drawn_by_their_commands():
    pictures = {_page.HERE / "judge" / "judge.png", *(_page.HERE / "pictures").glob("*.png")}
    drawn = {_page.HERE / "pictures" / f"{name}.png" for name in ("verdicts", "bands")}
    assert _shown.commands().keys() | drawn == pictures


def test_pictures_are_small_and_named_by_the_page():
    drawn = {_page.name(question) for question in QUESTIONS if question.draw}
    assert len(drawn) >= 6
    assert drawn == {path.name for path in (_page.HERE / _page.FOLDER).glob("*.png")}
    for name in drawn:
        assert (_page.HERE / _page.FOLDER / name).stat().st_size < 80_000, name  # at twice the size
        assert f"({_page.FOLDER}/{name})" in PAGE


def test_pictures_have_the_same_bytes_every_time():
    drawn = next(question for question in QUESTIONS if question.draw)
    assert _page.drawn(drawn, STORED) == _page.drawn(drawn, STORED)


LIVE = {
    "ratio/engine-floor", "ratio/top-p", "estimator/ppo-gate", "estimator/token-is-bias", "estimator/geometric-ratio",
    "estimator/kl-estimators", "estimator/plug-in-baseline", "ess/invariances", "ess/clamp-floor",
    "ess/limit", "estimator/is-variance", "predictor/step-under-inflation", "convergence/step-size-law",
    "staleness/regularizer-placement",
}  # fmt: skip
"""Claims that answer what people ask now."""


def test_every_claim_that_answers_a_thread_is_linked():
    named = [*(question.claims for question in QUESTIONS), *(each.claims for each in _claimed.CLAIMED)]
    ids = {id for each in named for id in each}
    assert len(LIVE) == 14 and LIVE <= ids <= set(claims.claims())
    for each in filter(None, named):
        assert f"`asyncsim verify {' '.join(each)}`" in PAGE
    for id in ids:
        path = _claimed.link(id).partition("(")[2].rstrip(")")
        assert _claimed.link(id) in PAGE and (_page.HERE / path).is_file()


@pytest.mark.parametrize("claimed", _claimed.CLAIMED, ids=lambda each: each.claims[0])
def test_answers_of_claims_are_short_and_type_no_number(claimed):
    assert _prose.faults(f"{claimed.asked} {claimed.answer}") == []
    assert not re.search(r"\d", re.sub(r"`[^`]*`|\bk\d", "", claimed.answer))
    assert re.search(r"#\d+", claimed.threads)


def test_the_site_leads_a_claim_to_its_place_in_the_reference():
    places, linked = _site.places(), _claimed.link("ratio/top-p")
    turned = _site.LINK.sub(lambda m: _site._turned(m, "docs/questions.md", places), linked)
    assert turned == "[`ratio/top-p`](reference/claims/ratio.md#ratiotop-p)"


def outside(found, predicted):
    """Distance of a prediction from a measured mean, in half widths of its 95 percent interval."""
    half = max((found["high"] - found["low"]) / 2, 1e-9)
    return abs(found.get("mean", found.get("value")) - predicted) / half


def sequence_weights(variance_of):
    """The furthest of the twelve predictions of the page of long sequences, in half widths."""
    (question,) = (each for each in QUESTIONS if each.draw is _pictures.sequence_weight)
    rows = STORED[question.commands[0]].result["summary"]
    predict = {
        "mismatch_variance": lambda v: v,
        "applied_mean": lambda v: _engines.truncated(v, _pictures.CAP),
        "ess_mismatch": lambda v: _engines.batch_ess(v, _pictures.BATCH),
    }
    chosen = [row for row in rows if row["metric"] in predict]
    return max(outside(row, predict[row["metric"]](variance_of(row["task.horizon"]))) for row in chosen)


def test_predictions_lie_where_sequence_weights_were_measured():
    """Twelve normal distances beyond 2 half widths (3.9 standard errors): false alarm 0.1 % for a fresh seed.

    Planted: the variance of one logit's noise instead of the log ratio's, and the mismatch itself for its square.
    """
    assert sequence_weights(_pictures.variance_of) < 2.0
    assert sequence_weights(lambda tokens: tokens * _pictures.NOISE**2) > 4.0
    assert sequence_weights(lambda tokens: math.sqrt(tokens) * 0.02) > 4.0


def test_predictions_lie_where_samplers_were_measured():
    """Seven predictions of the picture; a top-p that is thought to cost ESS is off."""
    (question,) = (each for each in QUESTIONS if each.draw is _pictures.not_on_policy)
    for command_, (ess, mean) in zip(question.commands, _pictures.samplers(), strict=True):
        final = STORED[command_].result["settings"][0]["final"]
        assert outside(final["ess_mismatch"], ess) < 2.0, command_
        assert outside(final["mean_weight"], mean) < 2.0, command_
    assert outside(final["ess_mismatch"], _engines.squared((0.25,) * 4, 0.05) ** -64) > 4.0


def test_a_noisy_token_has_its_second_moment():
    """Quadrature over the noise of three actions, beside the closed form."""
    policy, noise = (0.6, 0.3, 0.1), 0.5
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    up, down = (float((weights * np.exp(sign * noise * nodes)).sum() / weights.sum()) for sign in (1, -1))
    both = sum(a * b * (1.0 if i == j else up * down) for i, a in enumerate(policy) for j, b in enumerate(policy))
    assert _engines.squared(policy, noise) == pytest.approx(both, rel=1e-12)


def test_a_command_that_fails_is_no_answer():
    with pytest.raises(RuntimeError, match="ended with 2"):
        _page.said("asyncsim timeline nothing")


def test_the_head_is_the_beginning_and_provenance_the_end():
    assert PAGE.startswith(HEAD) and PAGE.endswith(FOOT + "\n")
