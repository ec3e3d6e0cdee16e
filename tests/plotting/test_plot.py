"""`plot`: the right figure for each value, files that are whole, equal to the byte and free of the user's settings."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.text import Text

from asyncsim import schedules
from asyncsim.base.checks import InputError
from asyncsim.plotting import _style, plot
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]
FRESH = """
import hashlib
from matplotlib.text import Text

from asyncsim import schedules
from asyncsim.plotting import _style, plot
figure = plot(schedules.fixed(2).schedule(9, 1, 1, 1, seed=0))
print(*[hashlib.sha256(_style.encode(figure, kind)).hexdigest() for kind in ("png", "pdf", "svg")])
"""


def schedule():
    return schedules.fixed(2).schedule(9, 1, 1, 1, seed=0)


@pytest.mark.parametrize(
    ("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml"), ("PNG", b"\x89PNG")]
)
def test_the_ending_names_the_file_type(tmp_path, kind, magic):
    path = tmp_path / f"figure.{kind}"
    plot(schedule(), path)
    assert path.read_bytes().startswith(magic)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_same_drawing_has_the_same_bytes_whatever_the_user_set(tmp_path, kind):
    first, second = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
    plot(schedule(), first)
    with mpl.rc_context({"lines.linewidth": 9.0, "font.size": 20.0, "savefig.dpi": 30, "svg.hashsalt": "mine"}):
        plot(schedule(), second)
    assert first.read_bytes() == second.read_bytes()


def test_the_same_drawing_has_the_same_bytes_in_another_process():
    def run(seed):
        variables = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "PATH": "", "SOURCE_DATE_EPOCH": seed}
        command = [sys.executable, "-c", FRESH]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout

    first, second = run("1"), run("2")
    assert first == second and len(set(first.split())) == 3


def test_another_schedule_has_other_bytes():
    other = plot(schedules.fixed(3).schedule(9, 1, 1, 1, seed=0))
    assert _style.encode(plot(schedule()), "svg") != _style.encode(other, "svg")


@pytest.mark.parametrize("name", ["figure.gif", "figure", ".png.bak"])
def test_an_unknown_ending_is_refused_and_nothing_written(tmp_path, name):
    refused(r"\.png, \.pdf or \.svg", plot, schedule(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_path_below_a_file_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("")
    refused("path", plot, schedule(), tmp_path / "file" / "figure.png")


def test_another_value_is_refused_with_what_can_be_drawn():
    with pytest.raises(InputError, match="Trace, Schedule, Timeline, Verdict"):
        plot([1, 2, 3])  # type: ignore[arg-type]


def test_a_notebook_shows_the_figure_although_pyplot_did_not_make_it():
    assert plot(schedule())._repr_png_().startswith(b"\x89PNG")


def test_importing_the_package_leaves_matplotlib_alone():
    heavy = {"matplotlib", "jinja2", "torch", "numba"}
    code = f"import asyncsim.plotting, asyncsim.app.reporting, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "set()"


def test_long_labels_take_two_lines_and_units_are_set_as_powers():
    assert _style.label("staleness") == "staleness $s$ (versions)"
    assert _style.label("log_ratio_variance").endswith("(nats$^2$)") and "\n" in _style.label("log_ratio_variance")
    assert _style.label("my_metric") == "my metric"


def test_a_label_says_nothing_twice():
    assert _style.label("ess") == "effective sample size\n$\\mathrm{ESS}/N$"
    assert _style.label("kl") == "$\\mathrm{KL}(\\mu\\|\\pi)$ (nats)"
    assert _style.label("batch") == "batch $b$" and _style.label("update_staleness").endswith("(updates)")


def test_colors_of_concepts_differ():
    concepts = ["measured", "contrast", "predicted", "held", "violated", "inconclusive"]
    assert len({_style.COLORS[name] for name in concepts}) == len(concepts)


def test_titles_that_would_be_cut_are_broken():
    """The third title of a picture of advice ended at the edge; a short one stays on its line."""
    with _style.applied():
        figure = _style.picture(_style.WIDTH, 3.0)
        for ax, words in zip(figure.subplots(1, 3), ("short", "about 19 " * 9, "about 19 " * 9), strict=True):
            ax.set_title(rf"$\bf{{a}}$   {words.strip()}")
        figure.suptitle("a sentence of many words " * 9, x=0.02, ha="left")
    _style.encode(figure, "png")
    assert [ax.get_title(loc="left").count("\n") > 0 for ax in figure.axes] == [False, True, True]
    assert "\n" in figure.get_suptitle()
    for text in (
        each for ax in figure.axes for each in ax.findobj(Text) if each.get_text() == ax.get_title(loc="left")
    ):
        assert text.get_window_extent().x1 <= figure.bbox.x1
