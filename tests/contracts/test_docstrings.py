"""Every discovered plug-in says in its docstring what a caller must know; a bad docstring is seen."""

import inspect
import pydoc
import re

import pytest

from asyncsim.base import plugins
from asyncsim.diagnostics._diagnostic import Metric

FACTORIES = ("methods", "advantages", "factors", "penalties", "updates", "policies", "tasks", "schedules", "systems")


def objects(kind):
    """Public objects of a plug-in folder by name."""
    package = f"asyncsim.{kind}"
    return {name: plugins.load(package, name, kind) for name in plugins.summaries(package)}


EVERY = [(kind, name, made) for kind in FACTORIES for name, made in objects(kind).items()]
DIAGNOSTICS = list(objects("diagnostics").items())
EVERY += [("diagnostics", name, made) for name, made in DIAGNOSTICS if not isinstance(made, Metric)]

SOURCE = re.compile(r"\bSource:\s+\S")
UNIT = re.compile(r"shape\s+`\[[^\]]*\bR\]`,\s+(a\s+pure\s+number|in\s+\w+)")


def faults(made):
    """What the docstring of a function, or of a `Metric`, leaves out."""
    text = inspect.getdoc(made) or ""
    summary, _, rest = text.partition("\n")
    found = []
    if not summary.endswith("."):
        found.append("no summary of one whole line")
    if rest.strip() and rest[:1] != "\n":
        found.append("no empty line behind the summary")
    if not SOURCE.search(text):
        found.append("no source")
    return found


def faults_of_function(made):
    """What the docstring of a function leaves out."""
    text = inspect.getdoc(made) or ""
    arguments = inspect.signature(made).parameters
    found = faults(made)
    if not re.search(r"\bReturns\b", text):
        found.append("no Returns")
    if arguments and not re.search(r"\bRaises\s+`InputError`", text):
        found.append("no Raises")
    if ">>> " not in text:
        found.append("no example")
    return found


def undescribed(made):
    """Arguments of a function that its docstring does not name."""
    text = inspect.getdoc(made) or ""
    return [name for name in inspect.signature(made).parameters if f"`{name}`" not in text]


def faults_of_diagnostic(made):
    """What the docstring of a diagnostic leaves out: definition, shape, unit, blind spot."""
    text = inspect.getdoc(made) or ""
    body = text.partition("\n")[2]
    found = faults(made)
    if " = " not in body and " = " not in text.partition(">>>")[0]:
        found.append("no equation")
    if not UNIT.search(text):
        found.append("no shape with the replicate axis and a unit")
    if not re.search(r"[Bb]lind\s+to", text):
        found.append("no blind spot")
    return found


@pytest.mark.parametrize(("kind", "name", "made"), EVERY, ids=[f"{kind}.{name}" for kind, name, _ in EVERY])
def test_a_function_says_what_it_takes_gives_and_refuses(kind, name, made):
    assert faults_of_function(made) == undescribed(made) == []


@pytest.mark.parametrize(("name", "made"), DIAGNOSTICS, ids=[name for name, _ in DIAGNOSTICS])
def test_a_diagnostic_says_what_it_measures_and_where_it_is_blind(name, made):
    assert faults_of_diagnostic(made) == []


@pytest.mark.parametrize(("name", "made"), DIAGNOSTICS, ids=[name for name, _ in DIAGNOSTICS])
def test_help_shows_a_diagnostic(name, made):
    """The instance's own text, not that of its class; it opens with the line that `asyncsim list` shows."""
    shown = pydoc.plain(pydoc.render_doc(made))
    assert inspect.getdoc(made).splitlines()[-1] in shown
    if isinstance(made, Metric):
        assert inspect.getdoc(made).splitlines()[0] == plugins.summaries("asyncsim.diagnostics")[name]


GOOD = """Scale by a factor.

Arguments: `factor` > 0. Returns a link. Raises `InputError` for others. Source: textbook.

>>> 1 + 1
2
"""


def documented(text):
    """A function of one argument with the docstring."""

    def function(factor):
        return factor

    function.__doc__ = text
    return function


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("factor.\n", "factor\n", "no summary of one whole line"),
        ("factor.\n\n", "factor.\n", "no empty line behind the summary"),
        ("Returns a link. ", "", "no Returns"),
        ("Raises `InputError` for others. ", "", "no Raises"),
        ("Source: textbook.", "", "no source"),
        (">>> 1 + 1\n2\n", "", "no example"),
    ],
)
def test_a_fault_of_a_function_is_seen(old, new, fault):
    assert faults_of_function(documented(GOOD)) == []
    assert old in GOOD and faults_of_function(documented(GOOD.replace(old, new))) == [fault]


def test_a_silent_argument_is_seen():
    assert undescribed(documented(GOOD)) == []
    assert undescribed(documented(GOOD.replace("`factor` > 0", "a factor > 0"))) == ["factor"]


def test_no_docstring_is_every_fault():
    assert len(faults_of_function(documented(None))) == 5


MEASURED = """Mean weight.

E W = sum_i mass_i W_i: shape `[R]`, a pure number. Blind to errors that cancel. Source: textbook.
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("E W = sum_i mass_i W_i:", "The mean of weights,", "no equation"),
        ("shape `[R]`", "shape `[G]`", "no shape with the replicate axis and a unit"),
        (", a pure number", "", "no shape with the replicate axis and a unit"),
        ("Blind to errors that cancel. ", "", "no blind spot"),
        ("Source: textbook.", "", "no source"),
    ],
)
def test_a_fault_of_a_diagnostic_is_seen(old, new, fault):
    def metric(text):
        return Metric("mean", lambda step: step.gradient, doc=text)

    assert faults_of_diagnostic(metric(MEASURED)) == []
    assert old in MEASURED and faults_of_diagnostic(metric(MEASURED.replace(old, new))) == [fault]
    assert "no equation" in faults_of_diagnostic(metric(None)), "the text of the class does not count"
