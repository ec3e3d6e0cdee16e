"""Figures and the gallery: what is committed is what the rows give, and whatever does not fit together is named."""

import ast
import dataclasses
import itertools
import json
import os
import re
import shutil
import struct
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from asyncsim.base.checks import InputError
from asyncsim.plotting import _style
from docs import _prose
from experiments import _contract, _store
from paper_figures import _claim, _claims, _gallery, _grids, _looks, _pipeline, _script
from paper_figures.__main__ import main
from tests import forked
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ROOT / "paper_figures"
PICTURES = FIGURES / "pictures"
GUIDE = (ROOT / "experiments" / "README.md").read_text(encoding="utf-8")


def notes(path):
    """Texts that a PNG carries beside its picture."""
    data, place, found = path.read_bytes(), 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        if data[place + 4 : place + 8] == b"tEXt":
            key, _, text = data[place + 8 : place + 8 + size].partition(b"\0")
            found[key.decode()] = text.decode("latin-1")
        place += size + 12
    return found


@cache
def tables_of(name):
    return _pipeline.tables(name)


@pytest.fixture(scope="module")
def numbers():
    """What the committed rows let every entry quote."""
    return {name: _pipeline.numbers(name, tables_of(name)) for name in _pipeline.names()}


def questions():
    return [each for asked in _contract.papers().values() for each in asked]


@pytest.mark.rows
@pytest.mark.committed
def test_nothing_is_wrong_with_the_gallery(numbers):
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    assert _gallery.faults(FIGURES, _pipeline.names(), questions(), front) == []
    assert _gallery.pages(FIGURES, numbers, _claims.tables())[1] == []


@pytest.mark.parametrize("page", sorted(FIGURES.glob("*.md")), ids=lambda page: page.stem)
def test_pictures_of_a_written_page_are_beside_it(page):
    links = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).is_file()] == []


settings = st.lists(
    st.builds(_claim.Setting, st.just(("task", "1")), st.sampled_from([True, False, None]), st.booleans()), min_size=1
).filter(lambda known: any(each.inside for each in known))


@given(settings)
def test_a_verdict_follows_from_the_count_of_settings(known):
    """The rule in fractions, written a second time; a condition has to decide."""
    share = {held: Fraction(sum(each.held is held for each in known), len(known)) for held in (True, False)}
    outside = [each.held is True for each in known if not each.inside]
    inside = [each.held is True for each in known if each.inside]
    if outside and len(inside) > 1 and all(inside) and 4 * sum(outside) <= len(outside):
        word = "under conditions"
    elif 1 in share.values():
        word = "reproduced" if share[True] else "not reproduced"
    else:
        few = 4 * share[True] <= 1 and share[False] > share[True]
        word = "mostly" if 4 * share[True] >= 3 else "mostly not" if few else "mixed"
    assert _claim.counted(known)["verdict"] == word


def test_settings_stand_in_a_grid_or_behind_their_answers():
    """Numbers that follow each other are a range, which another answer between them ends; equal names are counted."""
    held = [True, True, True, False, True]
    known = [_claim.Setting(("chain, rate", f"{2**n}"), each) for n, each in enumerate(held)]
    found = _claim.counted([*known, _claim.Setting(("bandit",), None)])
    assert (found["count"], found["verdict"]) == ("4 of 6 settings", "mixed")
    assert _grids.placed([*known, _claim.Setting(("bandit",), None)]).splitlines()[2:] == [
        "| chain, rate | 1 to 4; 16 | 8 |  |",
        "|  |  |  | bandit |",
    ]
    more = [_claim.Setting(("forks, rate", f"{n}"), False) for n in (1, 1, 2)]
    assert _grids.placed([*known, *more]).splitlines() == [
        *("| rate | 1 | 2 | 4 | 8 | 16 |", "| --- | --- | --- | --- | --- | --- |"),
        *("| chain | ✓ | ✓ | ✓ | ✗ | ✓ |", "| forks | ✗ 2 | ✗ |  |  |  |"),
    ]


@pytest.mark.rows
@pytest.mark.committed
def test_verdicts_of_claims_are_what_their_settings_give(numbers):
    assert _claims.wrong(numbers) == []
    claim = next(each for each in _claims.CLAIMS if each.held)
    word = next(each for each in _claim.VERDICTS if each != claim.verdict)
    planted = {claim.figure: numbers[claim.figure] | {f"{claim.held}_verdict": word}}
    assert [line.rpartition("write ")[2] for line in _claims.wrong(planted)] == [repr(word)]
    # A second figure gives more settings, and does not count them itself.
    both = next(each for each in _claims.CLAIMS if each.also)
    own, more = (_pipeline.script(name).held(*tables_of(name))[both.held] for name in (both.figure, both.also))
    assert _pipeline.settings(both.figure, tables_of(both.figure))[both.held] == [*own, *more] != own
    assert both.held not in _pipeline.settings(both.also, tables_of(both.also))


def test_an_entry_gives_the_verdict_of_its_claim():
    """Of an entry with one claim the verdict has the same word as the claim's row."""
    for name, told in itertools.groupby(sorted(_claims.CLAIMS, key=lambda each: each.figure), lambda each: each.figure):
        words = {each.verdict for each in told}
        entry = FIGURES / "entries" / f"{name}.md"
        if len(words) == 1 and entry.exists() and "**Verdict.**" in (text := entry.read_text(encoding="utf-8")):
            verdict = text.partition("**Verdict.**")[2].partition("<details>")[0].lower()
            assert any(re.search(rf"\*(reproduced )?{word}[*.,]", verdict) for word in words), (name, words, verdict)


def test_an_item_that_states_a_claim_has_its_verdict():
    """Its own paper makes the claim; the table has the claim's word."""
    found = {(each.source, each.text): each.verdict for each in _claims.CLAIMS}
    named = [each for each in _claims.ITEMS if each.claim]
    assert [_claims.judged(each) for each in named] == [found[each.paper, each.claim] for each in named] != []
    refused(r"claim = '.*': must be one of", _claims.judged, dataclasses.replace(named[0], claim="a claim of nobody"))
    refused("verdict = 'mixed': must be given unless", dataclasses.replace, named[0], verdict="mixed")


@pytest.mark.rows
@pytest.mark.committed
@pytest.mark.parametrize(("name", "limit"), [("README.md", _gallery.MOST_INDEX), ("vcpo.md", _gallery.MOST)])
def test_a_page_is_short_and_its_sentences_hold_few_numbers(numbers, name, limit):
    text = _gallery.pages(FIGURES, numbers, _claims.tables())[0][name]
    assert _gallery.unread(name, text) == []
    # What is read counts, wherever it stands; what is not read does not. Tables of claims have a limit for each line.
    rest = limit - _prose.words(_gallery.TABLE.sub("", _gallery.FOLDED.sub("", text)))
    row = "| VCPO claims | result |\n| --- | --- |\n| VCPO | " + "word " * _gallery.LINE
    (line,) = _gallery.unread(name, f"{text}\n{row} |\n\n")
    assert line.startswith(f"{name}: shorten the line | VCPO | word")
    assert _gallery.unread(name, text + "\n\n| word |\n" * rest) == []
    hidden = "\n<!-- a b -->\n\n![c d](e.png)\n\n```\nf g\n```\n"
    assert _prose.words(text + hidden) == _prose.words(text)
    (line,) = _gallery.unread(name, text + "\n\n| word |\n" * (rest + 1))
    assert f"{limit + 1} words; at most" in line
    (line,) = _gallery.unread(name, "It is 1.5 ± 0.5 at 3 of 4.\n")
    assert line.startswith(f"{name}: 4 numbers: It is")


@pytest.mark.rows
@pytest.mark.committed
def test_a_paper_has_its_answer_in_the_index_and_on_top_of_its_own_page(numbers):
    """What a method does and what came out, in at most five sentences; its claims have a table."""
    pages, frames = _gallery.pages(FIGURES, numbers, _claims.tables())[0], _gallery.skeletons(FIGURES)
    for mark, text in _gallery.answers(frames["index"]).items():
        filled, paper = _claims.filled(text, numbers), mark.removeprefix("answer ")
        (page,) = (name for name, written in pages.items() if filled in written and name != "README.md")
        assert page == "systems.md" or re.search(rf"\n# {paper}: .*\n\n{re.escape(filled)}\n", pages[page]), page
        assert len(list(_prose.sentences(filled.replace("Dr. ", "Dr ")))) <= 5 and filled.startswith("**"), filled
        assert f"<br>{' '.join(filled.split())} |" in pages["README.md"]
        several = len({each.source for each in _claims.CLAIMS if paper in (each.subject, each.source)}) > 1
        assert f"| {'source | claim' if several else f'{paper} claims'} | result | verdict (holds in)" in pages[page]
    known = {each.subject or each.source for each in _claims.CLAIMS}
    assert {*re.findall(r"<!-- claims (.*?) -->", "".join(frames.values()))} == known


@pytest.mark.rows
@pytest.mark.committed
def test_the_committed_gallery_is_what_the_rows_give(numbers):
    made = _gallery.pages(FIGURES, numbers, _claims.tables())[0]
    assert {path.name: path.read_text(encoding="utf-8") for path in FIGURES.glob("*.md")} == made


@pytest.mark.rows
@pytest.mark.committed(digits=False)
@pytest.mark.parametrize("name", sorted(_pipeline.names()))
def test_the_committed_picture_was_drawn_from_the_committed_rows_by_this_script(name):
    found, expected = notes(PICTURES / f"{name}.png"), _pipeline.origin(name)
    assert {key: found.get(key) for key in expected} == expected
    assert (PICTURES / f"{name}.pdf").exists()


@pytest.mark.rows
@pytest.mark.committed
def test_the_committed_claims_are_what_the_rows_give(numbers):
    for name, rows in (("claims", _claims.rows(numbers)), ("items", _claims.items(numbers))):
        assert json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8")) == rows


@pytest.mark.committed
@pytest.mark.parametrize("name", sorted(_pipeline.names()))
def test_a_figure_can_be_read_in_print_and_its_entry_is_short(name):
    assert notes(PICTURES / f"{name}.png")[_pipeline.LOOKS] == "well"
    paths = [FIGURES / f"{name}.py", FIGURES / f"_{name}.py"]
    assert [line for path in paths if path.exists() for line in _looks.choices(path)] == []
    text = (FIGURES / "entries" / f"{name}.md").read_text(encoding="utf-8")
    assert _prose.faults(text) == [] and (name.startswith("claim_map") or _gallery.FOLD in text)


@pytest.mark.parametrize("path", sorted(FIGURES.glob("*.py")), ids=lambda path: path.stem)
def test_what_is_drawn_depends_on_rows_alone(path):
    """With files that carry no dates (tests/plotting) the same rows give the same bytes."""
    calls = [ast.unparse(node) for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    unseeded = re.compile(r"random\.|np\.random\.(?!default_rng)|.*default_rng\(\)$|time\.|datetime\.|uuid\.")
    assert [call for call in calls if unseeded.match(call)] == []


MAIN = ("staleness", "length", "system", "sigma", "model", "horizon", "schedule", "side")
"""Columns that figures have on an axis or as lines, the first that varies."""
SEEDS = ("seed", "replicate", "realization")


DRAWN = sorted(name for name in _pipeline.names() if not name.startswith("claim_map"))


def fewer(tables, columns):
    """Rows of the first level alone of the first of these columns that varies; none where none does."""
    for table in tables:
        for column in (name for name in columns if name in table and table[name].nunique() > 1):
            level = table[column].dropna().min()
            return [one[one[column].isna() | (one[column] == level)] if column in one else one for one in tables]
    return None


@pytest.mark.committed(digits=False)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [p if k % 6 == 0 else pytest.param(p, marks=pytest.mark.rows) for k, p in enumerate(DRAWN)]
)
def test_changed_rows_give_a_figure_or_one_line_that_says_what_is_missing(name):
    """Whole tables are drawn by `make figures`."""
    tables = tables_of(name)
    first = next(iter(_pipeline.script(name).EXPERIMENTS))
    with pytest.raises(InputError, match=f"rows of {first} = 0: must be one or more; make them with"):
        _pipeline.picture(name, [table.iloc[:0] for table in tables])
    for columns, functions in (MAIN, (_pipeline.picture, _pipeline.numbers)), (SEEDS, (_pipeline.picture,)):
        less = fewer(tables, columns)
        for function in functions if less else ():
            try:
                function(name, less)
            except InputError as error:
                assert re.match(r"rows of [\w, ]+ = .*: must be what figure " + name, str(error)), error


@pytest.mark.committed
def test_what_a_script_does_not_find_is_named_with_its_place(monkeypatch):
    rows = _pipeline.tables("stability")
    without = [rows[0][rows[0].quantity != "autocorrelation"]]
    with pytest.raises(InputError, match=r"no quantity autocorrelation.*figure stability draws \(stability.py:\d+\)"):
        _pipeline.numbers("stability", without)
    # Where the picture does not say what it was drawn from, the error does.
    monkeypatch.setattr(_pipeline, "LEVELED", "no such note")
    refused(r"IndexError: .*figure stability draws \(stability.py:\d+\)", _pipeline.numbers, "stability", without)


@pytest.mark.rows
@pytest.mark.committed
def test_rows_of_own_settings_are_drawn_beside_them_and_over_no_committed_picture(tmp_path, monkeypatch):
    where, committed = tmp_path / "rows", (FIGURES / "pictures" / "stability.png").read_bytes()
    _store.make("stability", quick=True, out=where, changes={"replicates": 8})
    for words, folder in ([], where), (["--out", str(tmp_path / "else")], tmp_path / "else"):
        assert main(["stability", "--rows", str(where), *words]) == 0 and (folder / "stability.png").exists()
    figure = _pipeline.drawn("stability", False, where).figure
    said = " ".join(text.get_text() for text in figure.findobj(Text))
    assert "own rows" in said and "replicates 8 (not " in said and "quick rows of stability" in said
    # Of rows with other settings no title has a finding.
    findings = []
    monkeypatch.setattr(_script, "finding", lambda holds, words, drawn: findings.append(drawn) or words)
    _pipeline.picture("stability", _pipeline.tables("stability", False, where), "own rows")
    assert not findings
    monkeypatch.chdir(tmp_path)
    assert main(["stability"]) == 0 and (tmp_path / "stability.png").exists()
    assert (FIGURES / "pictures" / "stability.png").read_bytes() == committed


@pytest.mark.parametrize("question", questions())
def test_every_question_of_a_paper_has_a_figure(question):
    assert any(question in _pipeline.script(name).EXPERIMENTS for name in _pipeline.names())


def test_links_between_pages_lead_to_headings():
    texts = {path.name: path.read_text(encoding="utf-8") for path in FIGURES.glob("*.md")}
    anchors = set()
    for page, text in texts.items():
        heads = re.findall(r"^#+ (.*)$", _gallery.FENCED.sub("", text), re.M)
        names = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
        anchors |= {(page, name) for name in [*names, *re.findall(r'<a id="(\w+)">', text)]}
    linked = set(re.findall(r"paper_figures/([\w.]+)#([\w-]+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    for page, text in texts.items():
        linked |= {(other or page, name) for other, name in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", text)}
    assert len(linked) > 40 and linked <= anchors


# Faults, planted one by one into a gallery without any.

SKELETON = "# Figures\n\n<!-- one.md -->\n\n<!-- two.md -->\n\nTogether {one:a} and {two:b}.\n"
ENTRY = """## A finding

![what is seen](../pictures/{name}.png)

**Claimed.** 3 of 4.

**Measured.** At `eta = 4` {a}, over {b} in SmolLM2; see 2602.17616, claim alignment/lag1-closed-form.

**Verdict.** *reproduced* at {a}.

<details><summary>Setting</summary>

| setting | value |
|---|---|
| seeds | 5 |
| differs from the paper | scale |
| command | `python -m experiments {name}` |

</details>
"""
NUMBERS = {"one": {"a": "1.5", "b": "7"}, "two": {"a": "2.5 ± 0.1", "b": "8"}}


@pytest.fixture
def gallery(tmp_path):
    for folder in ("entries", "pictures"):
        (tmp_path / folder).mkdir()
    (tmp_path / "entries" / "_index.md").write_text(SKELETON)
    (tmp_path / "README.md").write_text("")
    for name in NUMBERS:
        (tmp_path / "entries" / f"{name}.md").write_text(ENTRY.replace("{name}", name))
        (tmp_path / "pictures" / f"{name}.png").write_bytes(b"")
    return tmp_path


def told(folder, scripts=("one", "two"), asked=("one",), front="", numbers=NUMBERS):
    return [*_gallery.faults(folder, scripts, asked, front), *_gallery.pages(folder, numbers)[1]]


def test_a_gallery_without_faults_is_filled_in(gallery):
    assert told(gallery, front="![x](paper_figures/pictures/one.png)") == []
    text = _gallery.pages(gallery, NUMBERS)[0]["README.md"]
    assert text.index('<a id="one">') < text.index("### A finding")
    assert text.startswith("<!-- Written by") and "### A finding" in text and "\n# Figures" in text
    assert "![what is seen](pictures/one.png)" in text
    assert "At `eta = 4` 2.5 ± 0.1, over 8 in" in text and "Together 1.5 and 8." in text and "{" not in text


def change(name, old, new):
    def plant(folder):
        path = folder / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return plant


ONE, FRAME = "entries/one.md", "entries/_index.md"
FAULTS = {
    "entries/one.md: no picture": change(ONE, "![what is seen](../pictures/one.png)", ""),
    "entries/one.md: no script makes ../pictures/three.png": change(
        ONE, "![what is seen](", "![](../pictures/three.png) ![what is seen]("
    ),
    "entries/one.md: no script makes one.png": change(ONE, "![what is seen](../pictures/", "![]("),
    "entries/one.md: begin it with a heading": change(ONE, "## A finding\n", ""),
    "entries/one.md, Measured: 4096 comes from nowhere": change(ONE, "over {b}", "over 4096, {b}"),
    "entries/one.md, Measured: 0.14 comes from nowhere": change(ONE, "over {b}", "over +0.14, {b}"),
    "entries/one.md, Measured: 95 comes from nowhere": change(
        ONE, "\n\n**Verdict", "\n\nMore of it: 95 %.\n\n**Verdict"
    ),
    "entries/one.md, Verdict: 2 comes from nowhere": change(ONE, "at {a}.", "at {a} of 2"),
    "entries/one.md, Verdict: say *reproduced*": change(ONE, "*reproduced*", "fine"),
    "entries/one.md: no paragraph **Claimed.**": change(ONE, "**Claimed.**", "Claimed"),
    "entries/one.md: no setting differs from the paper": change(ONE, "differs from", "differs in"),
    "entries/one.md: 137 words before its fold": change(ONE, "3 of 4.", "Three of four. " * 40),
    "entries/one.md: {c} has no number": change(ONE, "{b} in", "{b} {c} in"),
    "entries/_index.md: {one:c} has no number": change(FRAME, "{one:a}", "{one:c}"),
    "entries/_index.md: 0.3 in a table": change(FRAME, "Together", "| claim | held | 0.3 and {one:a} |\n\nTogether"),
    "README.md: 5 numbers: At": change(ONE, "over {b} in", "over {b}, {a} and {b}, {a} in"),
    "one.py: nothing quotes b": change(ONE, "over {b} in", "over some in"),
    "entries/one.md: on no page": change(FRAME, "<!-- one.md -->", ""),
    "entries: two.md twice": change(FRAME, "<!-- one.md -->", "<!-- one.md -->\n<!-- two.md -->"),
    "entries: there is no two.md": lambda folder: (folder / "entries/two.md").unlink(),
    "two.py: no entry": lambda folder: (folder / "entries/two.md").unlink(),
    "two.md: no skeleton": lambda folder: (folder / "two.md").write_text(""),
    "pictures/three.pdf: no script makes it": lambda folder: (folder / "pictures/three.pdf").write_bytes(b""),
    "entries/three.md: no script": lambda folder: shutil.copy(folder / "entries/one.md", folder / "entries/three.md"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_does_not_fit_together_is_named(gallery, fault):
    FAULTS[fault](gallery)
    lines = told(gallery)
    assert any(line.startswith(fault) for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("link", ["paper_figures/pictures/three.png", "paper_figures/one.png"])
def test_a_picture_on_the_front_that_no_script_makes_is_named(gallery, link):
    assert told(gallery, front=f"![x]({link})")[0].startswith(f"README.md: no script makes {link}")


def test_fenced_code_is_left_as_it_is(gallery):
    change(ONE, "<details>", "```\n# {none} 5\n```\n\n<details>")(gallery)
    assert told(gallery) == [] and "\n# {none} 5\n" in _gallery.pages(gallery, NUMBERS)[0]["README.md"]


# The guide's paper in a day, in a checkout of its own: experiment, rows, figure, entry.


def command(lab, *arguments):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = forked.run([sys.executable, "-m", *arguments], cwd=lab, env=variables)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr.splitlines()


def guide():
    return dict(re.findall(r"`((?:experiments|paper_figures)/[\w/.]+)`[^\n]*\n```\w+\n(.*?)^```", GUIDE, re.M | re.S))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    """The machinery, the guide's files and its quick rows."""
    lab = tmp_path_factory.mktemp("day")
    for folder in ("experiments", "paper_figures"):
        (lab / folder).mkdir()
        for path in (ROOT / folder).glob("_*.py"):
            if path.stem in _contract.MACHINERY or re.match("_(_main__|methods|script|setup|claim|grids)", path.stem):
                shutil.copy(path, lab / folder / path.name)
    for name, text in guide().items():
        (lab / name).parent.mkdir(exist_ok=True)
        (lab / name).write_text(text)
    (lab / "paper_figures" / "entries" / "_index.md").write_text("# Figures\n\n<!-- echo.md -->\n")
    assert command(lab, "experiments", "echoes", "--quick")[0] == 0
    return lab


@pytest.fixture
def copy(day, tmp_path):
    shutil.copytree(day, tmp_path / "lab", ignore=shutil.ignore_patterns("figures"))
    return tmp_path / "lab"


@pytest.mark.rows
def test_the_paper_of_the_guide_goes_from_experiment_to_gallery(day):
    assert set(guide()) == {
        "experiments/echoes.py", "experiments/echo.py", "paper_figures/echo.py", "paper_figures/entries/echo.md"
    }  # fmt: skip
    assert command(day, "paper_figures", "--quick")[0] == 0
    made = day / "build" / "figures"
    text = (made / "README.md").read_text()
    assert "intervals contain the prediction" in text and "{" not in text and (made / "pictures/echo.pdf").exists()
    assert re.search(r"The mean correlation is \+0\.\d{3}; 2 of 2", text)
    assert set(notes(made / "pictures/echo.png")) >= {_pipeline.ROWS, _pipeline.SCRIPT}
    before = contents(made)
    assert command(day, "paper_figures", "--quick")[0] == 0
    (made / "README.md").unlink()
    assert command(day, "paper_figures", "--quick", "--text")[0] == 0
    assert contents(made) == before


def test_missing_and_stale_rows_are_one_line_each(copy):
    status, _, lines = command(copy, "paper_figures")
    assert status == 2 and any("`python -m experiments echo`" in line for line in lines)
    change("experiments/echo.py", "updates=600", "updates=500")(copy)
    status, _, lines = command(copy, "paper_figures", "echo", "--quick")
    assert status == 2 and len(lines) == 1 and "code of the rows" in lines[0]


CONTRACT = {
    "echo.EXPERIMENTS": ('("echo",)', "()"),
    "one of": ('("echo",)', '("ecko",)'),
    "echo.draw": ("def draw(rows", "def draw(rows, more"),
    "echo.numbers": ("def numbers(", "def figures("),
    "a dict of texts": ('f"{len(rows)}"', "len(rows)"),
    "nothing quotes more": ('return {"inside"', 'return {"more": "1", "inside"'),
}


@pytest.mark.parametrize("fault", CONTRACT)
def test_a_script_that_breaks_the_contract_is_refused_by_name(copy, fault):
    change("paper_figures/echo.py", *CONTRACT[fault])(copy)
    status, _, lines = command(copy, "paper_figures", "--quick")
    assert status == 2 and any(fault in line for line in lines), lines
    assert not (copy / "build" / "figures" / "README.md").exists()


def test_a_picture_keeps_its_bytes_and_its_notes():
    figure = _style.picture(1.0, 1.0)
    once = _style.encode(figure, "png", {"note": "x"})
    assert once == _style.encode(figure, "png", {"note": "x"}) != _style.encode(figure, "png")
