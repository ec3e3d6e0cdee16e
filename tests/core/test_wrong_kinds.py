"""Public functions answer a value of another kind, and a name that something lacks, in words."""

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest

import asyncsim as sim
from asyncsim.base import checks, plugins
from asyncsim.base.checks import InputError
from tests.conformance import trainers
from tests.contracts.laboratory import EXAMPLES, SMALL
from tests.refusals import refused

SPEC = sim.Spec(
    sim.tasks.softmax_bandit(), sim.schedules.fixed(0), sim.methods.grpo(), sim.chain(), updates=2, replicates=2
)
TRACE = sim.run(SPEC, progress=False)
OTHERS = ("4x", [[1], [2]], {"a": 1}, object(), pd.DataFrame({"a": [1]}), sim.Spec, np.ones((2, 2)))
"""Values of kinds that few arguments take."""
CALLS = {
    "boundary": (sim.boundary, {"spec": SPEC, "knob": "lr", "low": 0.1, "high": 1.0}),
    "evaluate": (sim.evaluate, {"trained": TRACE, "task": SPEC.task}),
    "judge": (sim.judge, {"estimate": TRACE.final("batch_return"), "predicted": 0.5}),
    "predict": (sim.predict, {"runs": TRACE}),
    "stored": (sim.stored, {"store": "nowhere"}),
    "claim": (sim.claims.claim, {"id": "ess/clamp-floor"}),
    "export_link": (sim.export_link, {"link": sim.updates.align()}),
}
KINDS = ("methods", "advantages", "factors", "penalties", "updates")
PARTS = [(kind, name) for kind in KINDS for name in plugins.summaries(f"asyncsim.{kind}")]


def answered(call, settings):
    """For each argument and each of the other values: what is raised is a refusal of one line."""
    for name, parameter in inspect.signature(call).parameters.items():
        for value in OTHERS if parameter.kind in (1, 3) else ():
            try:
                call(**{**settings, name: value})
            except InputError as error:
                assert "\n" not in str(error) and error.remedy, error


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_of_another_kind_is_answered(name):
    answered(*CALLS[name])


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=map("-".join, PARTS))
def test_an_argument_of_a_part_of_another_kind_is_answered(kind, name):
    make = getattr(getattr(sim, kind), name)
    needed = [p.name for p in inspect.signature(make).parameters.values() if p.default is p.empty and p.kind == 1]
    settings = {each: EXAMPLES[each] for each in needed} | SMALL.get((kind, name), {})
    answered(make, settings)
    part = make(**settings)
    if type(part).__module__.startswith("asyncsim."):
        with pytest.raises(AttributeError, match=f"has no 'no_such_name'; .*{'|'.join(dir(part)[-1:])}"):
            part.no_such_name  # noqa: B018


@pytest.mark.parametrize("word", ["save", "verbose", "out", "path", "name", "config", "figsize", "render", "title"])
def test_a_word_of_the_field_is_no_misspelling(word):
    """Names of our arguments whose letters are similar are not offered."""
    assert (
        checks.near(word, ["share", "reverse", "cut", "at", "part", "mean", "confirm", "size", "reduce", "file"]) == []
    )


def test_a_number_that_is_meant_is_written():
    for value, wanted in (("100", "write 100"), (1e3, "write 1000"), ([4], "write 4"), (-1.0, "count"), (0, "count")):
        error = refused("", checks.integer, "updates", value, 1, "count")
        assert error.remedy == wanted and str(pickle.loads(pickle.dumps(error))) == str(error)
    refused("write 0.4 for 40 percent", checks.real, "share", 40, "give a share", 0.0, 1.0)
    refused("must be True or False", sim.run, SPEC, progress="false")


def test_a_column_that_a_table_lacks_is_answered_by_its_columns():
    table = TRACE.table()
    for ask in (
        lambda: table["means"],
        lambda: table.means,
        lambda: table[table["mean"] > 0]["means"],
        lambda: table.groupby("means"),
        lambda: table.query("means > 0"),
        lambda: table.pivot(index="means", columns="metric", values="mean"),
    ):
        with pytest.raises((KeyError, AttributeError, NameError), match="the columns are update, metric, mean"):
            ask()
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(table)), table)


def test_what_has_several_numbers_is_no_number():
    for ask in (
        lambda: f"{TRACE:.2f}",
        lambda: TRACE < 1,
        lambda: float(TRACE),
        lambda: 1 + TRACE,
        lambda: round(TRACE),
    ):
        with pytest.raises(TypeError, match=r"Trace is no number; write trace.final\('trained_return'\).value"):
            ask()


def test_claims_are_taken_by_their_ids():
    assert sim.claims["ess/clamp-floor"].id == "ess/clamp-floor"
    refused("did you mean ess/clamp-floor", sim.claims.__getitem__, "clamp-floor")
    with pytest.raises(AttributeError, match="did you mean claim"):
        sim.claims.clam  # noqa: B018


def test_an_error_of_a_callback_names_the_seed():
    def broken(recorded):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        sim.run(SPEC, seed=7, callback=broken, progress=False)
    assert caught.value.__notes__ == ["in the callback broken, called after update 0 of replicates 0 to 1, seed 7"]


def test_a_violated_bound_is_said_to_be_an_upper_bound():
    found = sim.judge(sim.Estimate(2.0, 0.01), 1.0, "bound")
    assert found.verdict == "violated" and found.reason == "measured/bound = 2, above an upper bound"


def test_means_over_rows_with_tokens_are_a_convention_beside_a_named_method():
    """What verl divides by is a note; another method's name stays a deviation."""
    report = sim.conformance.check_loss(trainers.empty_left_out)
    like = report.name.partition("(")[0]
    assert sim.conformance.check_loss(trainers.empty_left_out, like=like).conforms
    assert not sim.conformance.check_loss(trainers.empty_left_out, like="cispo").conforms
