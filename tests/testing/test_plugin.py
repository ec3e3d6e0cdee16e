"""The plugin as another project meets it: the documented test files in an empty folder, right and with one mistake."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from asyncsim.base.checks import InputError
from asyncsim.testing import plugin
from tests.conformance.controllers import TicketsAtPublish
from tests.test_readme import ROOT, blocks

GUIDE = [text for language, text in blocks(ROOT / "docs" / "check-your-trainer.md") if language == "python"]
LOSS = next(text for text in GUIDE if "asyncsim_loss" in text)
GATE = next(text for text in GUIDE if "asyncsim_controller" in text)
NUMBERS = next(text for text in GUIDE if "asyncsim_metric" in text)
PROPERTY = next(text for text in GUIDE if "sim.testing.batches" in text)
CALL = 'asyncsim_loss(loss, like=sim.methods.truncated_is("token"))'
MADE = "lambda: Gate(4, 1), batch_size=4"


def changed(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


COUNT = changed(NUMBERS, " / len(weight)", "")
REJECTING = """
import asyncsim as sim

def loss(log_prob, behavior_log_prob, advantages, mask):
    ratio = ((log_prob - behavior_log_prob) * mask).exp().detach()
    kept = mask * (ratio >= 0.5) * (ratio <= 2.0)
    return -(ratio * advantages * log_prob * kept).sum() / kept.sum()

def test_my_loss(asyncsim_loss):
    asyncsim_loss(loss, like=sim.methods.icepop())
"""

FILES = {
    # what stands in the file, and lines of which the failure tells; none: it passes
    "right_loss": (LOSS, ()),
    "right_gate": (GATE, ()),
    "right_property": (PROPERTY, ()),
    "right_numbers": (NUMBERS, ()),
    "other_deviation": (
        changed(NUMBERS, "own.std()", "own.std(ddof=1)"),
        ("deviates from group_std_population", "is group_std: "),
    ),
    "other_kl": (changed(NUMBERS, "x.exp() - 1 - x", "-x"), ("deviates from kl_k3_token", "is kl_k1_token: ")),
    "made_up_name": (
        changed(NUMBERS, 'like="ess"', 'like="ess_sequence"'),
        ("mean ess? a plain name", "asyncsim list like"),
    ),
    "live_ratio": (changed(LOSS, ".detach()", ""), ("bug: log ratio clamped live: ",)),
    "truncated_live": (
        changed(changed(LOSS, ".detach()", ""), "advantages * log_prob", "advantages"),
        ("bug: tokens above the cap lose their gradient: ",),
    ),
    "every_place": (
        changed(LOSS, "mask.sum()", "mask.numel()"),
        ("is truncated_is(level='token', aggregator='constant')", "first disagreement: "),
    ),
    "rows_with_tokens": (
        changed(LOSS, "mask.sum()", "mask.any(-1).sum()"),
        ("denominator: sequence_sum x B / (B - M), ",),
    ),
    "rejected_shrink": (
        REJECTING,
        ("is icepop(", "denominator: token_mean x T / T', with the T' tokens that are left"),
    ),
    "hazard": (changed(LOSS, '("token"))', '("token"), strict=True)'), ("hazard: not finite ",)),
    "allowed": (
        changed(LOSS, '("token"))', '("token"), strict=True, allow=NAMES)')
        + "from asyncsim.conformance._loss_findings import NAMES\n",
        (),
    ),
    "allowed_as_text": (changed(COUNT, 'like="ess"', 'like="ess", allow="not divided by the count"'), ()),
    "count": (COUNT, ("allow='not divided by the count'",)),
    "new_loss": (changed(changed(LOSS, ".clamp(max=2.0)", ".atan()"), CALL, "asyncsim_loss(loss)"), ("like=by_hand",)),
    "allowed_unknown": (changed(LOSS, '("token"))', '("token"), allow="unknown")'), ("no finding", "like=by_hand")),
    "buffer": (changed(GATE, MADE, "list, batch_size=4"), ("no buffer (its log: asyncsim log FILE)",)),
    "kept_ticket": (
        changed(GATE, "def rejected(self, n): self.free += n", "def rejected(self, n): pass"),
        ("no starvation: ", "never returns the permit of a rejected group"),
    ),
    "one_version_more": (
        changed(GATE, "(staleness + 1)", "(staleness + 2)"),
        ("bounded staleness: capacity 12", "behaves like: off by one version: (h + 2) M"),
    ),
    "metric_as_loss": (
        changed(NUMBERS, 'asyncsim_metric(kl, like="kl_k3_token")', "")
        .replace("_metric", "_loss")
        .replace('like="ess"', ""),
        ("in pytest asyncsim_metric",),
    ),
    "unknown_method": (changed(LOSS, CALL, 'asyncsim_loss(loss, like="trunc")'), ("like = 'trunc': must be ",)),
    "no_batch": (changed(GATE, MADE, "lambda: Gate(4, 1), batch_size=0"), ("batch_size = 0: must be an integer >= 1",)),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What the failure of each file says, "" where it passes; from one run in a folder with nothing else."""
    folder = tmp_path_factory.mktemp("trainer")
    # A busy machine takes seconds for a draw.
    (folder / "conftest.py").write_text(
        "from hypothesis import HealthCheck, settings\n"
        "settings.register_profile('busy', deadline=None, suppress_health_check=[HealthCheck.too_slow])\n"
        "settings.load_profile('busy')\n",
        encoding="utf-8",
    )
    # So that a configuration in a folder above it, as in /tmp, is not read.
    (folder / "pytest.ini").touch()
    for name, (text, _) in FILES.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8")
    # Without what is installed here, so that the plugin loads once, whatever its entry point says.
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    options = ["-p", "asyncsim.testing.plugin", "--junitxml=found.xml", "-W", "error", "--strict-markers"]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir=.", *options]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 1, done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(folder / "found.xml").iter("testcase"):
        name = (case.get("classname") or "").removeprefix("test_")
        found[name] = found.get(name, "") + "".join(failure.text or "" for failure in case.findall("failure"))
    return found


def test_whole_files_have_ten_lines_at_most():
    assert max(len(text.splitlines()) for text in (LOSS, GATE)) <= 10


def test_every_file_was_run(outcomes):
    assert set(outcomes) == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_file_passes_or_fails_by_its_finding(outcomes, name):
    told = FILES[name][1]
    assert bool(outcomes[name]) == bool(told), outcomes[name]
    assert all(line in outcomes[name] for line in told), outcomes[name]
    assert "Traceback" not in outcomes[name] and "plugin.py" not in outcomes[name]


@pytest.mark.parametrize("name", ["unknown_method", "no_batch"])
def test_a_wrong_argument_is_one_line(outcomes, name):
    assert len(outcomes[name].strip().splitlines()) == 1 and "; " in outcomes[name]


def test_the_entry_point_is_this_module():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["entry-points"]["pytest11"] == {"asyncsim": plugin.__name__}


def test_the_plugin_loads_nothing_heavy():
    """It is imported whenever anything is tested where asyncsim is installed."""
    code = "import sys, asyncsim.testing.plugin; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    heavy = {"torch", "numba", "numpy", "scipy", "pandas", "hypothesis"}
    assert "asyncsim" in done.stdout.split() and not heavy & set(done.stdout.split())


def forget(monkeypatch):
    """Hypothesis is not installed, and nothing of it was imported."""
    for name in [name for name in sys.modules if name.startswith("asyncsim.testing.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "hypothesis", None)


@pytest.mark.parametrize("name", ["batches", "losses", "controllers", "schedules", "sources", "logs"])
def test_without_hypothesis_a_strategy_names_the_extra(monkeypatch, name):
    from asyncsim import testing

    forget(monkeypatch)
    with pytest.raises(InputError, match=r"hypothesis = None: must be installed; .*'\.\[conformance\]'"):
        getattr(testing, name)


def test_a_controller_is_checked_without_hypothesis(monkeypatch):
    forget(monkeypatch)
    assert plugin._checked("check_admission", lambda: TicketsAtPublish(4, 1), batch_size=4, max_staleness=1).passed


def test_a_name_that_is_not_there_is_an_attribute_error():
    from asyncsim import testing

    with pytest.raises(AttributeError, match="no 'nothing'"):
        testing.nothing  # noqa: B018
    assert {"batches", "losses", "controllers", "schedules", "logs"} <= set(dir(testing))
    assert Path(plugin.__file__).parent == Path(testing.__file__).parent
