"""Report and explorer for everybody: contrast, headings, landmarks, names, focus, a phone's width, and few bytes."""

import dataclasses
import itertools
import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from asyncsim import claims, validation
from asyncsim.app import reporting
from asyncsim.app.evidence import Evidence, Run
from asyncsim.app.judgments import Page
from asyncsim.base.records import Estimate
from tests.test_explorer import BROWSER

DOCS = Path(__file__).parents[1] / "docs"
EXPLORER = (DOCS / "explorer.html").read_text(encoding="utf-8")
"""Its words, colors and structure; no number of it is compared."""
LIMIT = 1_500_000
"""Bytes of a report of all claims at their full size, with every defect."""
TEXT, GRAPHIC = 4.5, 3.0
"""Least contrast of letters, and of marks that carry meaning."""
PAIRS = {
    "report": [
        *((name, "page", TEXT) for name in ("ink", "link", "faint", "held", "violated", "unsure", "outside")),
        ("ink", "code", TEXT),
        *((name, ground, GRAPHIC) for name in ("measured", "unsure", "violated") for ground in ("page", "band")),
    ],
    "explorer": [
        *((name, ground, TEXT) for name in ("ink", "muted", "good", "bad") for ground in ("page", "card")),
        ("measured", "card", GRAPHIC),
    ],
}


def written(path):
    """The report of every claim at full size, its measurements exactly as predicted, every defect caught."""
    verdicts, predictions = [], {}
    for name in sorted(claims.claims()):
        claim, trial = claims.claim(name), claims.trial(name)
        points = trial.at("full")
        predicted = [claim.predict(point) for point in points]
        measured = [{key: Estimate(v, 1e-3 * abs(v) + 1e-9) for key, v in row.items()} for row in predicted]
        # Testing each term of a bound takes seconds; one shows what the others look like.
        short = dataclasses.replace(claim, terms=dict(itertools.islice(claim.terms.items(), 1)))
        made = validation.join(short, points, measured, predicted, 0.05)
        kinds = {"defects": trial.defects, "formula_defects": claim.formula_defects}
        rows = {kind: tuple({"name": key, "verdict": "violated"} for key in found) for kind, found in kinds.items()}
        verdicts.append(dataclasses.replace(made, **rows))
        predictions[name] = claim.predict
    references = {name: claims.claim(name).reference for name in predictions}
    # As many faults as are drawn by chance, each seen by a claim; and a claim that is violated.
    about = {"file": "asyncsim/a.py", "text": 8 * "words ", "change": "+ -> -", "running": 2, "raised": []}
    drawn = [about | {"line": k, "claims": [[*predictions][k]]} for k in range(40)]
    verdicts[0] = dataclasses.replace(verdicts[0], verdict="violated", p=0.0)
    bets = {name: Evidence("0.1.0", "x", (Run(0, 0.5, 0.9),), len(verdicts)) for name in predictions}
    whole = Page(verdicts, {"seed": 0}, None, bets, {"rows": drawn})
    return reporting.write_page(whole, path, "", references, predictions)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def pages(report):
    return {"report": report.read_text(encoding="utf-8"), "explorer": EXPLORER}


def test_the_report_is_small_and_every_claim_with_a_parameter_has_a_curve(report, pages):
    assert 200_000 < report.stat().st_size < LIMIT
    sections = re.findall(r'<section id="([\w-]+)"(.*?)</section>', pages["report"], re.S)
    curves = [name for name, text in sections if 'class="p' in text]
    assert len(curves) > 0.8 * len(claims.claims()) and "staleness-stability-boundary" in curves
    assert not re.search(r"\bnan\b|\binf\b", "".join(re.findall(r"<svg.*?</svg>", pages["report"], re.S)))
    # An outline of every letter, as in pictures made for print, would be seen.
    assert report.stat().st_size + 20_000 * len(sections) > LIMIT


def shades(text):
    """Colors by name: those of the light scheme, and those of the dark one."""
    light, dark = re.findall(r":root \{(.*?)\}", text, re.S)[:2]
    found = [dict(re.findall(r"--([\w]+): (#[0-9a-fA-F]{3,6})", part)) for part in (light, dark)]
    return found[0], found[0] | found[1]


def luminance(color):
    """Relative luminance of a color (WCAG 2)."""
    digits = color.lstrip("#")
    digits = "".join(2 * sign for sign in digits) if len(digits) == 3 else digits
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Contrast of two colors, from 1 to 21.

    >>> round(contrast("#000", "#fff"))
    21
    """
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def pale(name, text):
    """Pairs of a page's colors that are too much alike."""
    return [
        (scheme, front, ground)
        for scheme, colors in zip(("light", "dark"), shades(text), strict=True)
        for front, ground, least in PAIRS[name]
        if contrast(colors[front], colors[ground]) < least
    ]


@pytest.mark.parametrize("name", PAIRS)
def test_letters_and_marks_stand_out_in_both_schemes(pages, name):
    assert pale(name, pages[name]) == []
    faded = re.sub(r"--ink: #\w+", "--ink: #8a8f96", pages[name], count=1)
    assert {pair[:2] for pair in pale(name, faded)} == {("light", "ink")}


def test_colors_that_the_site_gives_to_its_theme_stand_out():
    style = (DOCS / "site.css").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'scheme="(\w+)"\]\[[^{]*\{(.*?)\}', style, re.S))
    grounds = {"default": "#f5f5f5", "slate": "#272a35"}
    for scheme, block in blocks.items():
        for name, color in re.findall(r"--md-([\w-]+): (#\w+)", block):
            # Letters of the head are white.
            ground = "#fff" if name == "primary-fg-color" else grounds[scheme]
            assert contrast(color, ground) >= TEXT, (scheme, name)
    assert set(blocks) == set(grounds) and contrast("#2094f3", "#fff") < TEXT


class Outline(HTMLParser):
    """What a screen reader and a keyboard need of a page; `faults` says what is missing."""

    def __init__(self, text):
        super().__init__()
        self.faults, self.levels, self.ids, self.marks, self.tables = [], [], [], [], 0
        self.references, self.inside, self.named = [], [], True
        self.feed(text)
        self.close()
        jumps = [pair for pair in itertools.pairwise(self.levels) if pair[1] > pair[0] + 1]
        self.faults += [f"heading {a} to {b}" for a, b in jumps] + ["no single h1"] * (self.levels.count(1) != 1)
        self.faults += ["an id twice"] * (len(self.ids) != len(set(self.ids)))
        self.faults += [f"nothing has the id {name}" for name in self.references if name not in self.ids]
        self.faults += [f"no single {mark}" for mark in ("main", "header") if self.marks.count(mark) != 1]
        style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
        self.faults += ["no focus"] * (":focus-visible { outline:" not in style or "outline: none" in style)
        self.faults += ["no zoom"] * ("user-scalable" in text or "maximum-scale" in text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        named = bool(values.get("aria-label") or values.get("aria-labelledby"))
        self.ids += [values["id"]] if "id" in values else []
        self.references += values.get("aria-labelledby", "").split()
        self.marks += [tag] if tag in ("main", "header") else []
        self.levels += [int(tag[1])] if re.fullmatch(r"h[1-6]", tag) else []
        wrong = {
            "html": "lang" not in values,
            "th": "scope" not in values,
            "svg": values.get("aria-hidden") != "true" and not (values.get("role") == "img" and named),
            "img": "alt" not in values,
            "section": not named,
            "nav": not named,
            "input": not named and "label" not in self.inside,
            "table": not named and not self.named,
        }
        # A table is named by its caption, which comes first in it.
        if not self.named and tag != "caption":
            self.faults.append("table")
        self.named = tag != "table" or named
        self.faults += [tag] if tag != "table" and wrong.get(tag) else []
        if tag == "label":
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if tag == "label":
            self.inside.pop()


@pytest.mark.parametrize("name", PAIRS)
def test_pages_have_headings_landmarks_and_names(pages, name):
    assert Outline(pages[name]).faults == []


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("report", ' scope="col"', "", "th"),
        (
            "report",
            '<table class="rows"><caption>Comparisons, 1 sample each</caption>',
            '<table class="rows">',
            "table",
        ),
        ("report", 'role="img" aria-label', "title", "svg"),
        ("report", "<h4>", "<h5>", "heading 3 to 5"),
        ("report", ":focus-visible { outline: 3px", ":focus-visible { color: 3px", "no focus"),
        ("explorer", "<label>permits, K ", "<p>permits, K ", "input"),
        ("explorer", '<html lang="en">', "<html>", "html"),
        ("explorer", 'id="h-corr"', 'id="h-other"', "nothing has the id h-corr"),
    ],
)
def test_what_is_missing_is_named(pages, name, old, new, fault):
    assert old in pages[name]
    text = pages[name].replace(old, new, 1)
    if "<label>" in old:
        text = text.replace("</label>", "</p>", 1)
    assert fault in Outline(text).faults


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_the_report_opens_on_a_phone_without_scrolling_sideways(tmp_path, pages):
    watch = """<script>addEventListener("load", () => {
      const beyond = e => e.getBoundingClientRect().right > innerWidth + 1;
      const far = [...document.querySelectorAll("body *")].filter(beyond);
      document.title = JSON.stringify({far: far.map(e => e.tagName).slice(0, 5), inner: innerWidth});
    });</script></body>"""
    # Sections off the screen would be laid out only when somebody comes to them.
    text = pages["report"].replace("content-visibility: auto;", "").replace("</body>", watch)
    page = tmp_path / "page.html"
    page.write_text(text, encoding="utf-8")
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    words += ["--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--window-size=390,844", "--dump-dom"]
    done = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    assert found["far"] == [] and found["inner"] <= 640, found
