"""The explorer: up to date, self-contained, its formulas those of theory, and its sliders move in a browser."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from docs import _explorer

pytestmark = pytest.mark.committed

PAGE = Path(__file__).parents[1] / "docs" / "explorer.html"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE = shutil.which("node")
WATCH = """<script>
// A browser without a screen draws no frames.
window.requestAnimationFrame = (draw) => draw();
window.faults = []; window.onerror = (m) => faults.push(String(m)); console.error = (...w) => faults.push(w.join(" "));
</script>"""
MOVE = """<script>
addEventListener("load", () => {
  const changed = {};
  const shown = () => [...document.querySelectorAll("svg")].map(e => e.innerHTML).join("");
  for (const input of document.querySelectorAll("input[type=range]")) {
    const before = shown(), value = input.value;
    for (const end of [input.min, input.max]) {
      input.value = end; input.dispatchEvent(new Event("input"));
      if (/NaN|Infinity|undefined/.test(shown())) faults.push(`${input.id} at ${end} draws what is no number`);
      changed[input.id] = changed[input.id] || shown() !== before;
    }
    input.value = value; input.dispatchEvent(new Event("input"));
    if (shown() !== before) faults.push(`${input.id} back at ${value} draws something else`);
  }
  const wide = document.documentElement.scrollWidth > innerWidth;
  document.title = JSON.stringify({faults, changed, wide});
});
</script>"""


def test_the_page_is_up_to_date_and_stands_alone():
    text = PAGE.read_text(encoding="utf-8")
    assert text == _explorer.page()
    assert len(text) < 1_000_000
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}


def test_last_digits_of_theory_change_no_letter(monkeypatch):
    """Another processor's matrix products differ in the 16th digit; a seventh digit is another value."""
    before, power = _explorer.page(), _explorer.autocovariance

    def moved(by):
        monkeypatch.setattr(_explorer, "autocovariance", lambda *x: (power(*x)[0], [y + by for y in power(*x)[1]]))
        return _explorer.page()

    assert moved(1e-13) == moved(-1e-13) == before != moved(1e-7)


def checked(text: str, change: str = "") -> list:
    """Formulas whose values differ from those of theory, as node finds them."""
    formulas = re.search(r"const formulas = \{.*?^\};", text, re.M | re.S)[0]
    program = f"""const DATA = {json.dumps({"checks": _explorer.checks()})}; {formulas} {change}
    const far = ([n, a, e]) => [formulas[n](...a)].flat().some((v, k) => !(Math.abs(v - [e].flat()[k]) <= 1e-6));
    console.log(JSON.stringify(DATA.checks.filter(far).map(c => c[0])));"""
    done = subprocess.run([NODE, "-e", program], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_the_formulas_of_the_page_are_those_of_theory():
    text = PAGE.read_text(encoding="utf-8")
    assert checked(text) == []
    assert checked(text, "formulas.ess = v => Math.exp(-1.02 * v);") == ["ess"] * 2
    assert set(checked(text, "const old = formulas.boundary; formulas.boundary = s => old(s + 1);")) >= {"boundary"}
    assert "correlations" in checked(text.replace("h[k - s - 1] : 0)) /", "h[k - s] : 0)) /"))


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
@pytest.mark.parametrize("size", ["390,844", "1280,900"])
def test_every_slider_moves_its_picture_without_an_error(tmp_path, size):
    text = PAGE.read_text(encoding="utf-8").replace("<header>", f"{WATCH}<header>", 1)
    page = tmp_path / "page.html"
    page.write_text(text.replace("</html>", f"{MOVE}</html>"), encoding="utf-8")
    words = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-sync",
    ]
    words += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*words, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    found = json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])
    assert found["faults"] == [] and not found["wide"]
    assert len(found["changed"]) == 11 and all(found["changed"].values())
