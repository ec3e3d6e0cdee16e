"""The report of all claims in a browser, from a file: folded, filtered by keyboard, its state in the address.

`make browse` runs this. Without a browser, playwright or a site these tests are left out, with a line.
"""

import pytest

from asyncsim import claims
from tests.test_access import written
from tests.test_site import browser, faults, opened, playwright, pytestmark

# With the site's: `make test` has neither.
__all__ = ["browser", "playwright", "pytestmark"]
HEIGHT, DRAWN = 45_000, 10
"""Pixels of the page as it opens, and pictures that are laid out then: one of its families has a violated claim."""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report") / "report.html")


def seen(page):
    """Ids of the claims that the filter leaves, and what the page says of their number."""
    left = page.evaluate("[...document.querySelectorAll('section[data-verdict]:not([hidden])')].map(s => s.id)")
    return left, page.locator("output").inner_text()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_has_no_fault_as_it_opens_and_filtered(browser, path, width):
    assert faults(browser, path, width) == []
    assert faults(browser, path, width, "?family=staleness&words=boundary") == []


def laid_out(page):
    """Height of the page, and how many pictures have a size."""
    drawn = "[...document.querySelectorAll('svg')].filter(s => s.checkVisibility({contentVisibilityAuto: true})).length"
    return page.evaluate(f"[document.documentElement.scrollHeight, {drawn}]")


def test_little_is_laid_out_before_somebody_asks(browser, path):
    page, _ = opened(browser, path)
    height, drawn = laid_out(page)
    assert height < HEIGHT and drawn < DRAWN
    # A page without folds is seen.
    page.add_style_tag(content="section { content-visibility: visible !important; }")
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert laid_out(page)[0] > 2 * HEIGHT and laid_out(page)[1] > DRAWN
    page.close()


def test_the_title_says_how_many_claims_are_inside(browser, path):
    page, found = opened(browser, path)
    count = len(claims.claims())
    assert page.title() == page.locator("h1").inner_text() == f"asyncsim: {count} claims predicted and measured"
    ess = [id for id in claims.claims() if id.startswith("ess/")]
    assert f"{len(ess)} claims: {len(ess)} held" in page.locator("#family-ess").inner_text()
    assert len(seen(page)[0]) == count and found == []
    page.close()


def test_a_keyboard_filters_by_family_verdict_and_words(browser, path):
    page, found = opened(browser, path)
    # From the beginning, with the tabulator alone: past the lists of exceptions and families to the counts.
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "verdict":
            break
    page.keyboard.press("Tab")
    page.keyboard.type("ess")
    own = [id.replace("/", "-") for id in sorted(claims.claims()) if id.startswith("ess/")]
    assert seen(page) == (own, f"{len(own)} of {len(claims.claims())} claims") and page.url.endswith("?family=ess")
    page.keyboard.press("Shift+Tab")
    assert page.locator("label:has([value=violated])").inner_text() == "1 violated"
    while page.evaluate("document.activeElement.value") != "violated":
        page.keyboard.press("ArrowRight")
    assert seen(page) == ([], "No claim matches violated and ess")
    assert "verdict=violated" in page.url
    while page.evaluate("document.activeElement.value"):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("limit kong")
    assert page.locator("#family-ess small").inner_text() == f"{len(seen(page)[0])} of {len(own)} shown"
    assert "ess-limit" in seen(page)[0] and set(seen(page)[0]) < set(own) and "words=limit+kong" in page.url
    again, _ = opened(browser, path, query=page.url.partition("report.html")[2])
    assert seen(opened(browser, path, query="?words=imit")[0])[0] == []
    assert seen(again) == seen(page) and again.locator("[name=words]").input_value() == "limit kong"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert len(seen(page)[0]) == len(claims.claims()) and "?" not in page.url and found == []
    page.close()


def test_a_link_opens_the_family_of_its_claim_and_passes_the_filter(browser, path):
    page, found = opened(browser, path, query="?family=ess#staleness-stability-boundary")
    page.wait_for_timeout(400)
    place = page.locator("#staleness-stability-boundary")
    assert place.is_visible() and abs(place.bounding_box()["y"]) < 100 and "family" not in page.url
    assert page.locator("#ess-limit").is_hidden() and found == []
    page.close()
