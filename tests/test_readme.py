"""The documents' examples are run and their output compared."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest

import asyncsim as sim

pytestmark = pytest.mark.committed

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "asyncsim" / "EXTENDING.md"


def blocks(path: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def output_of(code: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue()


def example(page: str, word: str) -> tuple[str, str]:
    """Code that has a word in it, and the output that is shown behind it."""
    found = blocks(ROOT / page)
    at = next(i for i, (_, text) in enumerate(found) if word in text)
    return found[at][1], found[at + 1][1]


PAGES = ["README.md", "docs/tutorial.md", "docs/environments.md", "docs/verdicts.md"]
COMMANDS = [(page, text) for page in PAGES for language, text in blocks(ROOT / page) if language == "console"]
EXAMPLES = {
    "comparison": ("README.md", "def rooted", "", ""),
    "claim": ("README.md", "sim.verify(", '"tickets": 12', '"tickets": 16'),
    "controller": (
        "docs/check-your-trainer.md",
        "class Gate",
        "self.__init__(); self.version = version",
        "self.__init__(); self.version = version; self.taken = 4 * version",
    ),
    "alarm": ("docs/runs.md", "sim.predict(", "fixed(64)", "fixed(32)"),
    "boundary": ("docs/runs.md", "sim.boundary", "sgd(0.5)", "sgd(0.4)"),
    "telemetry": ("docs/diagnose.md", "ess_ratio", "[1.25, 1.19]", "[0.95, 0.99]"),
    "environment": ("docs/environments.md", "from net import net", "(0, 8)", "(0, 7)"),
    "clock": ("docs/compare.md", "def arm", "smallest=5.0", "smallest=50.0"),
    "loss": ("docs/check-your-trainer.md", "def my_loss", "(ratio *", "(ratio.detach() * log_prob *"),
    "advantage": ("docs/check-your-trainer.md", "def my_gae", "* following", "* following * (1 - dones[t])"),
    "trained": ("docs/check-your-trainer.md", "def trained", "own.std()", "own.std(ddof=1)"),
    "passing": ("docs/admission-controllers.md", "class Gate", "self.training = 0\n    def rec", "pass\n    def rec"),
    "failing": ("docs/admission-controllers.md", "class Leaky", "pass  ", "self.running -= n  "),
    "export": ("docs/export.md", "export_loss(method", "high=0.28", "high=0.2"),
    "step": ("docs/export.md", "export_link(", "3.0]", "2.0]"),
    "metric": ("docs/check-your-trainer.md", "def my_ess", "1 / (weight", "weight.mean() ** 2 / (weight"),
}
"""Where an example stands, a word in it, and a change that has to change its output; comparisons take long."""


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch, own_environments):
    """The current folder, with the files that the pages on environments and verdicts write."""
    for name, page, word in (
        ("lane", "environments", "class Lane"),
        ("net", "environments", "def net"),
        ("wrong", "verdicts", "class OffByOne"),
        ("mended", "verdicts", "class Mended"),
    ):
        found = blocks(ROOT / "docs" / f"{page}.md")
        (tmp_path / f"{name}.py").write_text(next(text for _, text in found if word in text), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize(
    "name",
    [
        # A network in float32, whose last digits are of a processor.
        pytest.param(k, marks=[pytest.mark.rows, pytest.mark.committed(digits=False)] * (k == "environment"))
        for k in EXAMPLES
    ],
)
def test_an_example_prints_what_is_shown_and_another_does_not(name: str) -> None:
    """The one on an environment trains a network twice, 13 seconds: `make test-rows` runs it."""
    page, word, old, new = EXAMPLES[name]
    code, shown = example(page, word)
    assert name not in ("comparison", "claim") or len(code.splitlines()) <= 11
    assert output_of(code) == shown
    assert old in code and (not old or output_of(code.replace(old, new)) != shown)


@pytest.mark.parametrize(("page", "text"), COMMANDS, ids=[text.split()[2] + text[-20:-1] for _, text in COMMANDS])
def test_a_command_prints_the_lines_that_are_shown(page: str, text: str, tmp_path) -> None:
    from typer.testing import CliRunner

    from asyncsim.app.cli import app

    (tmp_path / "docs").symlink_to(ROOT / "docs")
    command, *lines = text.replace("\\\n", "").rstrip().splitlines()
    done = CliRunner().invoke(app, shlex.split(command.removeprefix("$ asyncsim ")))
    assert done.exit_code == (3 if " inconclusive " in text else " violated " in text)
    printed = done.output.splitlines()
    # A verdict is followed by the seconds that it took.
    assert lines and [line for line in lines if not any(found.startswith(line) for found in printed)] == []


def test_the_commands_of_the_pages_exist_and_the_front_page_counts_claims_as_the_gallery_does() -> None:
    from asyncsim.app.cli import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    known |= {group.name for group in app.registered_groups}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {word for page in pages for word in re.findall(r"`asyncsim (\w+)", page.read_text(encoding="utf-8"))}
    counted = re.search("^### (Of .* published .*)$", (ROOT / "paper_figures/claims.md").read_text("utf-8"), re.M)[1]
    assert named and named <= known and f"**{counted}.**" in pages[0].read_text(encoding="utf-8")


PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PROSE:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = (page.parent / path) if path else page
            text = target.read_text(encoding="utf-8") if target.suffix == ".md" and target.exists() else ""
            heads = re.findall(r'^#+ (.*)$|<a id="(.*?)">', text, re.M)
            known = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in map("".join, heads)}
            if not target.exists() or (anchor and anchor not in known):
                broken.append(f"{page.name}: {link}")
    assert broken == []


PASTED = dict(
    re.findall(
        r"`((?:asyncsim|tests)/[\w/]+\.py)`:\n```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S
    )
)
"""Files of the extension guide."""


def pasted(path: str, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A file of the extension guide, as a module."""
    made = types.ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", made)
    exec(compile(PASTED[path], path, "exec"), vars(made))
    return made


def row(word: str) -> str:
    """A line that the guide adds to a table of the tests."""
    return next(text for language, text in blocks(GUIDE) if language == "python" and text.startswith(word))


def test_the_guide_has_a_file_for_each_of_seven_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contracts.test_docstrings import faults_of_function, undescribed

    parts = {
        "advantages/own": "softened",
        "methods/own": "smooth",
        "updates/own": "damped",
        "tasks/ladder": "ladder",
        "systems/own": "read_ahead",
    }
    places = {*parts, "diagnostics/own", "claims/systems/first_batches"}
    assert {path for path in PASTED if path.startswith("asyncsim")} == {f"asyncsim/{place}.py" for place in places}
    for place, name in parts.items():
        made = getattr(pasted(f"asyncsim/{place}.py", monkeypatch), name)
        assert faults_of_function(made) == [] and undescribed(made) == []


@pytest.mark.parametrize("path", [path for path in PASTED if not path.endswith("places.py")])
def test_a_file_of_the_guide_passes_the_linter(path: str) -> None:
    for command in (["check", "-q"], ["format", "--check", "-q"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
        done = subprocess.run(ruff, input=PASTED[path], cwd=ROOT, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_metric_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contracts.laboratory import case

    fallen = pasted("asyncsim/diagnostics/own.py", monkeypatch).fallen
    step, _ = case().evaluate(sim.methods.reinforce())
    known = step.token_mean((step.log_ratio < 0).double())
    assert abs(fallen.measure(step) - known).max() < 1e-15 and (known > 0).all() and (known < 1).all()


def test_the_advantage_of_the_extension_guide_has_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from tests.contracts.test_advantages import samples

    softened = pasted("asyncsim/advantages/own.py", monkeypatch).softened
    (formula,) = pasted("tests/contracts/families/own_advantages.py", monkeypatch).ADVANTAGES.values()
    rewards = np.array([0.0, 1.0, -2.5, 0.5])
    expected = formula(rewards, None, None, None)
    np.testing.assert_allclose(softened()(samples(rewards[None, None]))[0, 0], expected)
    assert abs(softened(2.0)(samples(rewards[None, None]))[0, 0].numpy() - expected).max() > 0.1


def test_the_method_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.contracts.families._paper import compared

    smooth = pasted("asyncsim/methods/own.py", monkeypatch).smooth
    spec = sim.Spec(sim.tasks.token_bandit(), sim.schedules.fixed(2), smooth(), sim.chain(), updates=3, replicates=2)
    assert (sim.run(spec).parameters != 0).any()
    monkeypatch.setattr(sim.methods, "smooth", smooth, raising=False)
    build, objective = pasted("tests/contracts/families/own_methods.py", monkeypatch).PAPERS["smooth"]
    settings = {"seed": 1, "samples": 4, "tokens": 3, "groups": 2, "drift": 0.5}
    assert compared(build(), objective, **settings) < 1e-12
    assert compared(smooth(cap=2.0), objective, **settings) > 1e-3


def test_the_link_of_the_extension_guide_has_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.core import test_synchronous

    monkeypatch.setattr(sim.updates, "damped", pasted("asyncsim/updates/own.py", monkeypatch).damped, raising=False)
    own = pasted("tests/contracts/families/own_links.py", monkeypatch)
    monkeypatch.setattr(test_synchronous, "LINKS", test_synchronous.LINKS | own.LINKS)
    test_synchronous.test_links([*test_synchronous.TASKS][-1], "damped")
    # What the guide says of the mean staleness holds as well, and the step depends on it.
    means = []
    damp = type(sim.updates.damped()).apply
    seen = lambda record: means.append(record.step.token_mean(record.step.staleness))  # noqa: E731
    made = {"apply": lambda self, record, state: seen(record) or damp(self, record, state)}
    link = type("Seen", (type(sim.updates.damped()),), made)()
    bandit, stale, plain = sim.tasks.softmax_bandit(), sim.schedules.fixed(2), sim.methods.reinforce()
    sim.run(sim.Spec(bandit, stale, plain, sim.chain(link), updates=4))
    assert [mean.mean() for mean in means] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    "line", re.findall(r"`(from asyncsim[\w. ]+ import [\w, ]+)`", GUIDE.read_text(encoding="utf-8"))
)
def test_an_import_of_the_guide_works(line: str) -> None:
    exec(line)


def test_the_preset_of_the_extension_guide_has_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.systems import preset_table
    from tests.systems.test_presets import settings_of, wanted

    made = pasted("asyncsim/systems/own.py", monkeypatch).read_ahead
    ((_, arguments, knobs, settings),) = eval(f"[{row('(')}]", vars(preset_table))
    assert settings_of(made(*arguments, **knobs, length=1.0, load=0.5)) == wanted(settings)
    assert settings_of(made(4, 2, length=1.0, load=0.5)) != wanted(settings)


def test_the_task_of_the_extension_guide_works(monkeypatch: pytest.MonkeyPatch) -> None:
    task = pasted("asyncsim/tasks/ladder.py", monkeypatch).ladder()
    spec = sim.Spec(task, sim.schedules.fixed(1), sim.methods.reinforce(), sim.chain(sim.updates.sgd(1.0)), updates=30)
    returns = sim.run(spec, progress=False)["trained_return"]
    assert returns[0].mean() == pytest.approx(0.5, abs=0.1) and returns[-1].mean() > 0.7


def test_the_claim_of_the_extension_guide_holds_and_its_defect_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from asyncsim.claims._trial import untouched

    claim = pasted("asyncsim/claims/systems/first_batches.py", monkeypatch).FirstBatches
    ((place, elsewhere),) = eval("{" + row('"systems/') + "}").items()
    ((plant, planted),) = (made() for made in claim.defects.values())
    for point in (*claim.points, *({**claim.points[0], **change} for change in elsewhere)):
        (measured,) = claim(point).measure(point, 0.02, 1, untouched).values()
        assert claim(point).predict() == pytest.approx(claim(point).check())
        assert measured.value == pytest.approx(claim(point).predict()["mean"], rel=1e-12)
    (wrong,) = claim(planted).measure(planted, 0.02, 1, plant).values()
    assert place == "systems/first-batches" and abs(wrong.value / claim(planted).predict()["mean"] - 1) > 0.1
