"""Titles and numbers come from the rows that are drawn: other rows, other settings, other words."""

import ast
import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from paper_figures import _pipeline, _script, vcpo_collapse

pytestmark = pytest.mark.committed
FIGURES = Path(_pipeline.HERE)
NAMES = sorted(name for name in _pipeline.names() if not name.startswith("claim_map"))
VERDICT = re.compile(
    r"\b(keeps?|lose|loses|lost|costs?|helps?|restores?|predicts?|forecasts?|falls?|rises?|flips?|ends?|better|worse|best"
    r"|never|hardly|undecided|less|more|fewer|far|largest|highest|longer|sooner|wins?|beats?|align|buys|same|equal|faster"
    r"|fastest|drops?|undercount|decide|suffices|par|needs?)\b"
)
"""Words of a finding: they stand in a title only where a condition on the rows chose it."""
SUPPORTED = {
    "a3c_speed", "areal_speed", "bapo_rule", "ess_five", "gac_alignment", "gac_control", "gac_tuned", "league",
    "model_drift", "pipeline_rl", "pipeline_rl_speed", "step_limits", "vcpo_collapse", "vcpo_controls", "vcpo_hours",
    "vcpo_training",
}  # fmt: skip
"""Figures with a finding that changed rows support as well: that two are alike, undecided, or beyond a level."""
MEASURED = (
    "value", "low", "high", "difference", "end", "mean", "final_return", "episode_return", "ess", "exact_match", "off",
    "progress", "progress_low", "progress_high", "error",
)  # fmt: skip


def titles(tree):
    """Literals that are given as titles, but for those that `finding` chooses among."""
    chosen = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("finding", "headline")):
            chosen |= {id(each) for each in ast.walk(node)}
    for node in ast.walk(tree):
        given = []
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("set_title", "suptitle")):
            given = node.args[:1]
        elif isinstance(node, ast.keyword) and node.arg == "title":
            given = [node.value]
        for each in given:
            for part in ast.walk(each):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in chosen:
                    yield part.value


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_a_title_with_a_verdict_is_chosen_by_the_rows(path):
    wrong = [text for text in titles(ast.parse(path.read_text("utf-8"))) if VERDICT.search(text)]
    assert wrong == []


def test_a_verdict_that_nothing_chooses_is_seen():
    plain = ast.parse(
        'ax.set_title("Tokens: ESS hardly predicts")\nax.set(title=f"at {x} it falls")\nfinding(x, "falls", "")'
    )
    assert [text for text in titles(plain) if VERDICT.search(text)] == ["Tokens: ESS hardly predicts", " it falls"]


def found_of(name, rows):
    """The findings that a figure says of rows, and all texts on it."""
    module, found = _pipeline.script(name), []

    def finding(holds, words, drawn):
        found.extend([words] if holds else [])
        return words if holds else drawn

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(_script, "finding", finding)
        title = lambda figure, holds, drawn: figure.suptitle(finding(holds, "its heading", drawn))  # noqa: E731
        patch.setattr(_script, "headline", title)
        if hasattr(module, "finding"):
            patch.setattr(module, "finding", finding)
        figure = module.draw(*rows)
    texts = [text.get_text() for text in figure.findobj(plt.Text)]
    plt.close(figure)
    return found, texts


def changed(table, mirror):
    """Rows whose every measured number is the median of its quantity, or lies on the other side of it; other words."""
    table = table.copy()
    keys = [name for name in ("part", "quantity", "story") if name in table and not table[name].isna().all()]
    for name in (name for name in MEASURED if name in table and table[name].dtype.kind == "f"):
        middle = table.groupby(keys, dropna=False)[name].transform("median") if keys else table[name].median()
        table[name] = 2.0 * middle - table[name] if mirror else table[name].where(table[name].isna(), middle)
    if {"low", "high"} <= set(table.columns):
        ends = table[[name for name in ("low", "high", "value", "difference") if name in table]]
        ends = ends[[name for name in ends if ends[name].notna().any()]]
        known = table["low"].notna() & table["high"].notna()
        table["low"] = table["low"].where(~known, ends.min(axis=1))
        table["high"] = table["high"].where(~known, ends.max(axis=1))
    if "word" in table:
        others = {"better": "worse", "worse": "better"} if mirror else {}
        table["word"] = table["word"].where(
            table["word"].isna(), table["word"].map(lambda word: others.get(word, "undecided"))
        )
    return table


QUICK = ("stability", "token_ratios", "vcpo_rates")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in NAMES]
)
def test_no_finding_stays_over_rows_that_do_not_support_it(name):
    rows = _pipeline.tables(name)
    told, _ = found_of(name, rows)
    kept, drawn = set(told), 0
    for mirror in (False, True):
        try:
            left, texts = found_of(name, [changed(table, mirror) for table in rows])
        except (*_pipeline.BREAKS, RuntimeError):
            continue  # such rows are no figure
        drawn += 1
        kept &= {words for words in left if any(words in text for text in texts)}
    assert drawn and (not kept or name in SUPPORTED)
    assert name == "live_staleness" or told


def test_a_number_of_a_setting_is_that_of_the_rows():
    rows, *_ = _pipeline.tables("vcpo_collapse")
    assert vcpo_collapse.numbers(rows)["staleness"] == "64"
    others = rows.copy()
    others.attrs["settings"] = [{**setting, "staleness": 48} for setting in rows.attrs["settings"]]
    assert vcpo_collapse.numbers(others)["staleness"] == "48"
    others.attrs.clear()
    assert vcpo_collapse.numbers(others)["staleness"] == "unknown"


@pytest.mark.parametrize(("area", "poor"), [(0.55, True), (0.78, False)])
def test_what_is_said_of_ess_follows_its_areas(area, poor):
    rows, *_ = _pipeline.tables("vcpo_collapse")
    own = (rows.quantity == "auc") & (rows.regime == "tokens") & (rows.statistic == "ess") & rows.value.notna()
    others = rows.copy()
    others.loc[own, ["value", "low", "high"]] = area + np.array([0.0, -0.02, 0.02])
    told, _ = found_of("vcpo_collapse", [others])
    assert told == ["its heading"] * poor
