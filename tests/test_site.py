"""The site in a browser, from files and without a network: no errors, pictures load, search finds, axe is content.

`make browse` builds it and runs this. Without a site, a browser or playwright these tests are left out, with a line.
"""

import re
import shutil
from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "build" / "site"
BROWSER = shutil.which("chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAGES = [
    "index",
    "compare",
    "notebooks/1_staleness",
    "gallery/vcpo",
    "gallery/atlas",
    "explorer",
    "questions",
    "reference/python",
    "reference/methods",
    "reference/methods/ppo-and-other-methods",
    "reference/claims",
    "reference/claims/staleness",
    "reference/logs",
    "glossary",
]
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="playwright is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="there is no chromium"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="there is no site: run make docs"),
]


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        shown = started.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield shown
        shown.close()


def opened(browser, path: Path, width: int = 1280, query: str = ""):
    """A page, and the list in which its errors and its requests to a network are kept."""
    page, faults = browser.new_page(viewport={"width": width, "height": 900}), []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
    page.goto(path.as_uri() + query)
    return page, faults


def faults(browser, path: Path, width: int = 1280, query: str = "") -> list[str]:
    """What is wrong with a page: errors, requests, pictures that do not load, its width, what axe calls serious."""
    page, found = opened(browser, path, width, query)
    found = [*found, *page.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append("scrolls sideways")
    # Reading style sheets again is refused to a page from a file.
    violations = axe.Axe().run(page, options={"preload": False}).response["violations"]
    page.close()
    return [*found, *(v["id"] for v in violations if v["impact"] in ("serious", "critical"))]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_has_no_fault(browser, name, width):
    assert faults(browser, SITE / f"{name}.html", width) == []


def test_faults_are_seen(browser, tmp_path):
    text = """<html lang="en"><title>x</title><main><h1>x</h1><img src="missing.png" alt="x">
    <p style="width: 3000px">wide <p style="color: #ddd">pale</p><script src="http://127.0.0.1:9/x.js"></script><script>broken(</script>"""
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    found = " ".join(faults(browser, tmp_path / "page.html"))
    for part in ("missing.png", "sideways", "color-contrast", "127.0.0.1", "SyntaxError"):
        assert part in found or (part == "SyntaxError" and "Unexpected" in found)


def test_a_notebook_shows_its_pictures_and_the_search_finds(browser):
    page, found = opened(browser, SITE / "notebooks" / "1_staleness.html")
    assert page.locator("article img").count() >= 4 and (SITE / "notebooks" / "lessons.py").exists()
    assert "Code of this picture" in (SITE / "notebooks" / "7_stabilizers.html").read_text(encoding="utf-8")
    page.locator(".guess input").first.fill("3")
    page.locator(".guess input").first.press("Enter")
    assert "your guess\t3\t1\ttheory is nearer" in page.locator(".guess + details").first.inner_text()
    search, item = page.locator(".md-search__input"), page.locator(".md-search-result__item")
    search.press_sequentially("staleness")
    item.first.wait_for(timeout=20_000)
    search.press_sequentially("nosuchword")
    item.first.wait_for(timeout=20_000, state="detached")
    assert found == []
    page.close()


def test_formulas_are_set_and_arguments_are_lists(browser):
    math = roots = left = named = 0
    for path in sorted((SITE / "reference" / "claims").glob("*.html")):
        page, found = opened(browser, path)
        math, roots = math + page.locator("math").count(), roots + page.locator("msqrt").count()
        named += page.locator("dt > code", has_text="staleness").count()
        left += page.locator("article p", has_text="sqrt(").count()
        assert page.locator("math merror").count() == 0 and found == []
        assert page.locator("#stalenessstability-boundary").count() == (path.stem == "staleness")
        page.close()
    # Few formulas are left as plain letters: of those with a root one in four at most.
    assert math > 1000 and named > 20 and left < roots / 4


def test_every_argument_of_a_function_is_a_definition_with_its_default(browser):
    import inspect

    import asyncsim

    page, found = opened(browser, SITE / "reference" / "python.html")
    for name in ("compare", "sweep", "Spec"):
        section = f"[...document.querySelectorAll('#sim{name.lower()} ~ dl')][0]"
        shown = page.evaluate(f"[...{section}.querySelectorAll('dt')].map(e => e.innerText)")
        names = {word for each in shown for word in re.findall(r"\w+", each.partition("=")[0])} - {"and"}
        # A few are explained within the definition of another.
        inside = page.evaluate(f"[...{section}.querySelectorAll('dd code')].map(e => e.innerText)")
        known = {*inspect.signature(getattr(asyncsim, name)).parameters}
        assert names <= known <= names | {*inside} and len(names) > 0.8 * len(known)
        assert page.evaluate(f"[...{section}.querySelectorAll('dd')].every(e => e.innerText.length > 0)")
    assert "metric = 'trained_return'" in page.locator("dt > code").all_inner_texts() and found == []
    assert page.get_by_text("``").count() == 0
    page.close()


def test_no_two_pages_have_one_title_and_none_is_long():
    paths = [path for path in SITE.rglob("*.html") if path.name != "404.html"]
    titles = [re.search("<title>(.*?)</title>", path.read_text(encoding="utf-8"), re.S)[1] for path in paths]
    assert len(titles) > 80 and sorted(titles) == sorted(set(titles))
    # No page of the reference lists more parts in full than one scrolls through.
    for path in (SITE / "reference").rglob("*.html"):
        heads = re.findall(r"<h2 ", path.read_text(encoding="utf-8"))
        assert len(heads) <= 30 or path.stem in ("like", "exports"), path


def test_the_atlas_is_filtered_and_sorted_in_the_style_of_the_site(browser):
    page, found = opened(browser, SITE / "gallery" / "atlas.html")
    rows = page.locator(".atlas tbody tr:visible")
    before = rows.count()
    page.locator(".atlas input").press_sequentially("masks 512")
    assert 0 < rows.count() < before and "masks" in rows.first.inner_text()
    page.locator(".atlas th", has_text="noise").click()
    noise = [float(each.locator("td").nth(14).inner_text().replace("−", "-")) for each in rows.all()[:5]]
    assert noise == sorted(noise, reverse=True)
    assert page.locator(".md-header").count() == 1 and page.title().startswith("Atlas") and found == []
    page.close()


@pytest.mark.parametrize("path", sorted((SITE / "gallery").glob("*.html")), ids=lambda path: path.stem)
def test_no_markdown_is_left_in_the_gallery(path):
    _, _, page = path.read_text(encoding="utf-8").partition("<article")
    text = re.sub(r"<(code|pre|script|style)\b.*?</\1>|<[^>]+>", "", page.partition("</article>")[0], flags=re.S)
    assert re.findall(r"\*\*\w+|\|---", text) == []


@pytest.mark.parametrize("path", sorted((SITE / "reference").rglob("*.html")), ids=lambda path: path.stem)
def test_formulas_of_the_reference_are_whole(path):
    from docs import _formulas

    _, _, page = path.read_text(encoding="utf-8").partition("<article")
    assert _formulas.faults(page.partition("</article>")[0]) == []
    planted = f"{page}<p>[1 - cap/r]_+, v_t and E_mu[x</p><p><math><mi>s</mi><mo>)</mo></math></p>"
    assert {"cap/r]_+,", "v_t", "E_mu[x", "s)"} <= {*_formulas.faults(planted)}


def test_the_reference_opens_with_a_table_of_groups_whose_papers_are_links(browser):
    page, found = opened(browser, SITE / "reference" / "methods.html")
    assert page.locator("article > p").first.inner_text().startswith("A method is ")
    table = page.locator("table").first
    assert table.locator("strong").count() >= 5 and table.locator("a[href^='methods/']").count() >= 53
    page.close()
    page, found = opened(browser, SITE / "reference" / "methods" / "actor-critic-methods.html")
    assert page.locator("p a[href^='https://arxiv.org/abs/']", has_text="arXiv 1602.01783").count() >= 2
    assert page.get_by_text("a2c().name").count() == 0 and found == []
    page.close()


@pytest.mark.parametrize("name", ["which-limit", "questions"])
def test_outputs_keep_their_lines_and_scroll_on_a_phone(browser, name):
    page, found = opened(browser, SITE / f"{name}.html", width=390)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    style = "e => getComputedStyle(e).whiteSpace + getComputedStyle(e).overflowX"
    outputs, command = page.locator(".language-text code"), page.locator(".language-bash code").first
    assert outputs.count() > 0 and {each.evaluate(style) for each in outputs.all()} == {"preauto"}
    assert command.inner_text().startswith("asyncsim ") and "pre-wrap" in command.evaluate(style) and found == []
    page.close()


def test_a_picture_opens_at_its_full_size_and_has_a_frame_in_the_dark(browser):
    page, _ = opened(browser, SITE / "index.html", width=390)
    picture = page.locator("a.picture").first
    assert picture.get_attribute("href") == picture.locator("img").get_attribute("src")
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    assert picture.locator("img").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    page.close()


@pytest.mark.parametrize(("word", "first"), [("install", "install.html"), ("permit", "glossary.html")])
def test_the_home_page_and_the_search_lead_in(browser, word, first):
    page, _ = opened(browser, SITE / "index.html")
    shown = page.locator("a.md-button").all_inner_texts()
    assert shown == ["Install", "Tutorial", "Explorer"] and page.locator("#install").count() == 1
    page.locator(".md-search__input").press_sequentially(word)
    item = page.locator(".md-search-result__link").first
    item.wait_for(timeout=20_000)
    assert first.partition("#")[0] in (item.get_attribute("href") or "")
    page.close()


def test_links_of_the_explorer_lead_to_pages_and_claims_of_the_site(browser):
    page, _ = opened(browser, SITE / "explorer.html")
    links = page.eval_on_selector_all("main a, footer a", "all => all.map(a => a.getAttribute('href'))")
    page.close()
    assert len(links) > 10 and any("#systemscap-binds" in link for link in links)
    for link in links:
        path, _, anchor = link.partition("#")
        assert f'id="{anchor}"' in (SITE / path).read_text(encoding="utf-8") or not anchor, link


@pytest.mark.parametrize("name", ["explorer", "notebooks/1_staleness", "reference/claims/ess", "gallery/atlas"])
def test_every_page_leads_to_every_part_of_the_site(browser, name):
    page, _ = opened(browser, SITE / f"{name}.html")
    for part in ("tutorial", "how-to", "reference/index", "gallery/index", "verdicts", "explorer"):
        assert page.locator(f"nav a[href$='{part.rpartition('/')[2]}.html'], nav a[href='./']").count() > 0, part
    page.close()
