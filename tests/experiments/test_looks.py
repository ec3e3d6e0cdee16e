"""Figures keep to few panels and words, letters that can be read, and colors from one place; so do their texts."""

import pytest

from asyncsim.plotting import _style
from docs import _prose
from paper_figures import _claim, _claims, _looks, _methods, _pipeline, _setup, claim_map
from tests.refusals import refused


def figure(panels=1, height=2.0, caption="", size=7.0):
    picture = _style.picture(_style.WIDTH, height)
    for ax in picture.subplots(1, panels, squeeze=False)[0]:
        ax.plot([0, 1], [0, 1])
        ax.set_title("found", fontsize=size)
    picture.suptitle(caption)
    return picture


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"panels": 5}, "5 panels"),
        ({"height": 7.5}, "7.5 inches high"),
        ({"caption": "word " * 26}, "26 words in its captions"),
        ({"size": 6.5}, "letters of 6.5 points"),
        ({"caption": "a gain of -1"}, "a hyphen for a minus"),
    ],
)
def test_what_is_too_much_is_named(wrong, told):
    with _style.applied():
        assert _looks.faults(figure()) == []
        (line,) = _looks.faults(figure(**wrong))
    assert told in line


def test_a_method_has_one_name_and_one_color():
    for label, color, told in (
        ("VCPO, staleness 2", "vcpo", ""), ("RLOO, no ratio", "muted", ""), ("the best of 3", "gac", ""),
        ("PPO's\nclip", "gac", "'PPO' has another color"), ("TIS, token", "muted", "'truncated IS' in all figures"),
    ):  # fmt: skip
        drawn = figure()
        drawn.axes[0].plot([], [], color=_style.COLORS[color], label=label)
        drawn.legend()
        found = " ".join(_methods.faults(drawn))
        assert bool(found) == bool(told) and told in found


def test_tasks_are_named_below_as_in_the_panels():
    """One task needs no name in a panel; where panels pool tasks, the line says so."""
    drawn = figure(panels=2, caption="Exact rewards and noisy rewards")
    named = "task: exact rewards, noisy rewards · seeds: 4"
    assert _setup.unnamed(drawn, named) == [] == _setup.unnamed(drawn, "task: fixed · seeds: 4")
    (line,) = _setup.unnamed(drawn, "task: exact rewards, random · seeds: 4")
    assert "names the task random" in line
    assert _setup.unnamed(drawn, named.replace("task:", "tasks, pooled:").replace("noisy", "random")) == []


def test_the_claim_map_counts_claims_of_papers_alone():
    known = [each.source for each in (*_claims.CLAIMS, *_claims.exact())]
    own = sum(known.count(source) for source in _claims.NO_PAPER)
    assert own and len(claim_map.claims()) == len(known) - own == int(claim_map.numbers()["all"])
    assert sum(map(sum, claim_map.counts().values())) == len(claim_map.claims())
    assert not set(_claims.NO_PAPER) & set(claim_map.counts()) and "PipelineRL" in claim_map.counts()


def test_colors_and_line_styles_of_a_script_are_named(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        'ax.plot(x, color="#123456", ls="--")\nlook = {"color": "red", "marker": "o"}\nbare(color="none")\n'
    )
    assert [line.partition(";")[0] for line in sorted(_looks.choices(path))] == [
        "script.py:1: color '#123456'",
        "script.py:1: line style '--'",
        "script.py:2: color 'red'",
    ]


def test_long_sentences_are_found_outside_of_code_and_tables():
    long = "word " * 26 + "end."
    assert [
        line.split(":")[0] for line in _prose.faults(f"# {long}\n\n{long} Short one.\n\n```\n{long}\n```\n| {long} |\n")
    ] == ["27 words"]
    assert _prose.faults("Of 1, 2 and 3 all.") == [] and len(_prose.faults("Of 1, 2, 3 and {key} all.")) == 1
    assert _prose.faults(f"- {'word ' * 20}\n- {'word ' * 20}\n") == []


def test_every_claim_names_a_figure_with_an_entry_and_says_its_conditions():
    assert {each.figure for each in _claims.CLAIMS} <= set(_pipeline.names())
    for each in _claims.CLAIMS:
        assert f"[{each.text}](#{each.figure})" in _claims.table()
    refused("given where under conditions", _claim.Claim, "X", "a claim", "under conditions", "1", "stability")
    # Our own claims hold or do not: they have nothing to reproduce.
    for source, verdict in (("X", "perhaps"), ("X", "holds"), ("asyncsim", "reproduced")):
        refused("verdict", _claim.Claim, source, "a claim", verdict, "1", "stability")
    refused("number of its figure", _claims.filled, "{stability:nothing}", {"stability": {}})
