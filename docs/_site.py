"""What the documentation site takes from elsewhere: pages of other folders, and a reference from docstrings.

A hook of mkdocs: `make docs` builds the site, and a broken link stops it. Links between pages are written for readers
of the files; here they are turned to the places that pages have on the site. A link to a file that is no page becomes
text.
"""

from __future__ import annotations

import ast
import html
import inspect
import itertools
import logging
import posixpath
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim.app.reporting import ARXIV
from docs import _formulas

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "asyncsim/DESIGN.md": "design.md",
    "asyncsim/EXTENDING.md": "extending.md",
    "asyncsim/systems/MODEL.md": "reference/model.md",
    "asyncsim/systems/PRESETS.md": "reference/presets.md",
    "benchmarks/README.md": "benchmarks/README.md",
    "experiments/LOG.md": "log.md",
    "experiments/README.md": "experiments/README.md",
}
"""Pages by where they stand in the tree, and on the site; notebooks, the gallery and those of docs/ besides."""
ASSETS = {
    "paper_figures/pictures/*.png": "gallery/pictures",
    "paper_figures/*.json": "gallery",
    "notebooks/*.ipynb": "notebooks",
    "notebooks/lessons.py": "notebooks",
    "benchmarks/*.png": "benchmarks",
}
ATLAS = ROOT / "paper_figures" / "atlas.html"
EXPLORER = ROOT / "docs" / "explorer.html"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CLAIM = re.compile(r"asyncsim/claims/([a-z]+)/([a-z]\w*)\.py")
"""The file of a claim: family and name."""
NAMES = re.compile(r'<a href="([\w./-]+\.md)">(.*?)</a>|<a href="#(\w+/[\w-]+)">(.*?)</a>')
"""A page of the tree, or a claim, that the explorer names."""
FENCED = re.compile(r"(^```.*?^```)", re.M | re.S)
UNLINKED = re.compile(rf"(<(a|code|pre|math|h\d|script)\b.*?</\2>|<[^>]+>)|(?:arXiv[: ])?({ARXIV.pattern})", re.S)
"""A paper by its number, outside of links and code."""
OPENING = {"tasks": "A task says", "systems": "A system says", "schedules": "A schedule says", "methods": "A method is"}
OPENING |= {"advantages": "An advantage says", "factors": "A factor is", "rewards": "A setting of rewards says"}
OPENING |= {"diagnostics": "A diagnostic is", "like": "This page lists"}
"""How the first sentence of a page of parts begins."""
ENDINGS = re.compile(r"(?<=\. )(?=(?:Returns|Raises|Assumes|Source:) )")
"""In front of the sentences that end a docstring."""
LONG = 30
"""Most parts of a kind on one page."""
GUESS = re.compile(r"^```python\nguess = None\n```\n(.*?)(?=^## |\Z)", re.M | re.S)
"""The cell of a guess in a notebook, and all up to the next heading."""
ANSWER = (
    '\n<p class="guess"><label>Your guess: <input type="number" step="any"></label></p>\n\n'
    "<details>\n<summary>Compare with the answer</summary>\n\n{0}\n\n</details>\n\n"
)
"""What stands there on the site; `site.js` fills in the row of the reader."""
BOOK = re.compile(r"^\| \[(.*?)\]\((\w+)\.ipynb\) \| (.*?) \| (\d+) \+ (\d+) \| (.*?) \|$", re.M)
"""A row of the overview of notebooks, which the site shows as a card with a picture."""
BOOKS = re.compile(r"^\| notebook \|.*\n\|---.*\n((?:\| .*\n)+)", re.M)
COVERS = {"1_staleness": 1, "2_ratios": 3, "3_delayed_ascent": 1, "4_your_hypothesis": 2, "8_check_your_loss": 1}
"""Which of its pictures is shown for a notebook: one that answers no guess; the first where none is named."""
DOWNLOAD = "Download [{0}]({0}) and [lessons.py](lessons.py) into one folder to run this notebook."
SLIDERS = re.compile(r"^(```python\n(?:(?!```).)*lessons\.sliders\((?:(?!```).)*```)$", re.M | re.S)
STILL = "The sliders work in Jupyter. This page shows the picture at the settings of the first cell."
LIVE = {"1": "system", "2": "ess", "3": "ascent", "5": "ess", "7": "learn"}
"""Panels of the explorer, by the number of a notebook with the same sliders."""
DRAWN = re.compile(r"^(```python\n(?:(?!```).*\n){12,}```)(?=\s+(?:\*The sliders .*\*\s+)?!\[What the code)", re.M)
"""A cell of many lines with a picture right behind it, and perhaps the note on sliders between."""
FOLDED = "<details>\n<summary>Code of this picture</summary>\n\n{0}\n\n</details>\n"
CLAIMS = re.compile(
    r"<table>\s*<thead>\s*<tr>\s*<th>(?:(?:source</th>\s*<th>)?(?:[^<]* )?claims?|(paper))</th>.*?</table>", re.S
)
"""A table of claims or items of papers, whose rows stand below one another on a phone."""
ANSWERED = re.compile(r"<td>(?=([✓✗?])(?: \d+)?</td>)")
ANSWERS = {"✓": "yes", "✗": "no", "?": "open"}
"""A cell of a grid of settings, which has the color of its answer."""
ALL = re.compile(r"<table>(?:(?!</table>).)*?<th>settings where it holds</th>.*?</table>", re.S)
"""The table of all claims, which readers sort and filter."""
CHOICES = {"paper": 0, "verdict": 2}
"""What one chooses rows of it by, and the columns of these."""
VERDICTS = (
    *("reproduced", "holds", "mostly", "under conditions", "mixed", "mostly not", "not reproduced"),
    *("does not hold", "not tested here"),
)
"""Verdicts from the best on."""
COUNTS = re.compile(r"<table>\s*<thead>\s*<tr>\s*<th>(\d+ <a [^>]*>claims</a>)</th>(.*?)</table>", re.S)
"""The verdicts of a paper's claims, counted, which a page of the site says in one line."""
CARDS = re.compile(r"<table>(?=\s*<thead>\s*<tr>\s*<th>figure</th>)")
"""The table of the gallery's index, each picture beside its words."""
CHIP = re.compile(
    r"<(strong|em)>((?:not )?reproduced|mostly(?: not)?|mixed|under conditions|not tested here|holds|does not hold)"
    r"</\1>",
    re.I,
)
"""A verdict of the gallery, which has the color of its part in the picture of all claims."""
PICTURE = re.compile(r'(<a\b.*?</a>)|(<img [^>]*src="([^"]+)"[^>]*>)', re.S)
"""A picture, and a link that may hold one."""
BUTTONS = "[Install](#install){ .md-button .md-button--primary } [Tutorial](docs/tutorial.md){ .md-button } "
BUTTONS += "[Explorer](docs/explorer.html){ .md-button }"
"""Ways in, behind the first picture of the home page."""
INSTALL = "install.md"
"""The page of the README's lines on installing."""
START = re.compile(r"^## Install\n(.*?)(?=^## )", re.M | re.S)
COMMAND = re.compile(r"(?:```\n)?(?:asyncsim|make|pip|python3?|jupyter|git) ")
ABOUT = {
    "commands": "every command, with its options as `--help` prints them",
    "python": "functions of `import asyncsim as sim`, with arguments and examples",
    "presets": "options of each trainer, and the formulas of its staleness",
    "model": "the event model: what a simulated trainer does, and when",
    "telemetry-names": "columns of trainers' logs that `asyncsim diagnose` knows",
    "glossary": "words that most pages use",
    "stability": "names and files that later versions keep",
}
"""What a page of the reference has, in a line; kinds of parts have their own."""
SEARCHED: dict[str, dict[str, Any]] = {
    "changelog.md": {"exclude": True}, "log.md": {"exclude": True}, "glossary.md": {"boost": 10},
}  # fmt: skip
"""Pages that a search leaves out or puts first."""
NAMED = re.compile(r">>> (\w+)\([^\n]*\)\.name\n'\1'")
"""An example that says nothing but the name of its part."""
PYTHON = (
    "run", "compare", "power", "sweep", "boundary", "predict", "diagnose", "verify", "judge", "plot", "points", "chain",
    "advise", "calibrate", "forecast", "judge_runs", "export_loss", "export_link", "Spec",
)  # fmt: skip
"""Functions of the package itself, in the order of their page."""
CHECKS = ("check_loss", "check_advantage", "check_metric", "check_admission")
"""Checks of code from outside."""


@cache
def places() -> dict[str, str]:
    """Where every page and asset of the tree stands on the site."""
    found = dict(PAGES)
    found |= {f"docs/{path.name}": path.name for path in [*(ROOT / "docs").glob("*.md"), EXPLORER]}
    found |= {f"paper_figures/{path.name}": f"gallery/{path.name}" for path in (ROOT / "paper_figures").glob("*.md")}
    found |= {f"notebooks/{path.name}": f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.md")}
    found |= {f"paper_figures/{ATLAS.name}": "gallery/atlas.md"}
    found |= {path: path.removeprefix("docs/") for path in _inside("docs/**/*.png")}
    for pattern, folder in ASSETS.items():
        found |= {path: f"{folder}/{posixpath.basename(path)}" for path in _inside(pattern)}
    return found


def _inside(pattern: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


def on_config(config: Any) -> Any:
    """Give the pages of a long kind places behind its own in the navigation."""
    listed = next(each["Reference"] for each in config["nav"] if "Reference" in each)
    below = [part for row in listed for inner in row.values() if isinstance(inner, list) for part in inner]
    for row in [*(row for row in listed if isinstance(next(iter(row.values())), str)), *below]:
        ((name, place),) = row.items()
        pages = split_pages(Path(place).stem)
        if pages:
            parts = [{short(group): f"reference/{page}.md"} for group, page in pages.items()]
            row[name] = [{f"All {name.lower()}": place}, *parts]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what stands elsewhere, and the generated reference."""
    from mkdocs.structure.files import File

    for source, place in places().items():
        book = (ROOT / source).with_suffix(".ipynb")
        if book.exists():
            text, pictures = shown(book)
            files.append(File.generated(config, place, content=text))
            for name, data in pictures.items():
                files.append(File.generated(config, f"{posixpath.dirname(place)}/{name}", content=data))
        elif source.endswith(ATLAS.name):
            head = "---\ntitle: Atlas of methods\nhide: [toc]\n---\n\n"
            files.append(File.generated(config, place, content=f'{head}<div class="atlas"></div>'))
        elif not source.startswith("docs/"):
            files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    (lines,) = START.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    text = f"# Install\n{lines}Next: the [tutorial](docs/tutorial.md).\n"
    files.append(File.generated(config, INSTALL, content=text))
    listed = next(each["Reference"] for each in config["nav"] if "Reference" in each)
    for place, text in [("reference/index.md", contents(listed)), *reference()]:
        files.append(File.generated(config, place, content=text))
    return files


def shown(book: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with its outputs, as Markdown, and the pictures that it shows."""
    from nbconvert import MarkdownExporter

    text, found = MarkdownExporter().from_filename(str(book))
    text = re.sub(r"!\[\w+\]\((output_\d+_\d+\.\w+)\)", rf"![What the code above draws]({book.stem}_\1)", text)
    # A reader of the page guesses before the answer is seen, and has no kernel for the sliders.
    text = GUESS.sub(lambda found: ANSWER.format(found[1]), text)
    panel = LIVE.get(book.stem[0])
    live = f" [The explorer](../docs/explorer.html#h-{panel}) has sliders that work in your browser." * bool(panel)
    text = SLIDERS.sub(rf"\1\n\n*{STILL}{live}*\n", text)
    text = DRAWN.sub(lambda found: FOLDED.format(found[1]), text)
    head = DOWNLOAD.format(book.name)
    text = re.sub(r"^(# .*)$", lambda found: f"{found[0]}\n\n{head}", text, count=1, flags=re.M)
    pictures = {f"{book.stem}_{name}": data for name, data in found["outputs"].items()}
    drawn = list(dict.fromkeys(name for name in re.findall(r"\((\w+\.png)\)", text) if name in pictures))
    return text, pictures | {f"{book.stem}.png": pictures[drawn[COVERS.get(book.stem, 0)]]}


def _card(found: re.Match[str]) -> str:
    """A notebook in the overview: its picture, its question, and what a reader can do afterwards."""
    name, stem, question, reading, exercises, able = found.groups()
    words = f"**[{name}]({stem}.ipynb)**<br>{reading} minutes, and {exercises} for exercises\n\n{question}"
    picture = f"[![A picture from {name}]({stem}.png)]({stem}.ipynb)"
    return f'<div class="book" markdown="1">\n\n{picture}\n\n{words}\n\n*Afterwards, you can* {able}.\n\n</div>\n'


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page with links that lead to places of the site."""
    where = places()
    source = ({place: path for path, place in where.items()} | {INSTALL: "README.md"}).get(page.file.src_uri)
    if page.file.src_uri in SEARCHED:
        page.meta["search"] = SEARCHED[page.file.src_uri]
    if source is None:
        named = re.fullmatch(r"reference/\w+\.md", page.file.src_uri) and not page.title.startswith("All ")
        return re.sub(r"\A# .*", f"# {page.title}", markdown) if named else markdown
    text = re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.S)
    # Notebooks as text: a cell is a block with a language behind braces.
    text = re.sub(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n|---\n.*?^---\n)*", "```python\n", text, flags=re.M | re.S)
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
        text = re.sub(r"^## Install$", "## Install { #install }", text, count=1, flags=re.M)
        text = re.sub(r"^\| a website of all pages .*\n", "", text, flags=re.M)
        text = re.sub(r"^(!\[.*\n(?:\n\*.*\*\n)?)", rf"\1\n{BUTTONS}\n", text, count=1, flags=re.M)
    text = re.sub(r"^```console\n(.*?)^```$", _session, text, flags=re.M | re.S)
    if source == "notebooks/README.md":
        page.meta["hide"] = ["toc"]
        text = BOOKS.sub(lambda rows: f'<div class="books" markdown="1">\n\n{BOOK.sub(_card, rows[1])}\n</div>\n', text)
    if source == "paper_figures/README.md":
        page.meta["hide"] = ["toc"]
    # What is folded is Markdown as well.
    text = text.replace("<details>", '<details markdown="1">')
    parts = FENCED.split(text)
    parts[1::2] = [re.sub(r"\A```\n", f"```{_columns(part)}\n", part) for part in parts[1::2]]
    parts[::2] = [LINK.sub(lambda m: _turned(m, source, where), part) for part in parts[::2]]
    if page.file.src_uri.startswith("reference/"):
        split = re.compile(r"(\n\n|^#.*$|\n(?=[-*] )|\|)", re.M)
        parts[::2] = ["".join(map(_plain, split.split(part))) for part in parts[::2]]
    return "".join(parts)


def _plain(words: str) -> str:
    """A paragraph, item or cell with its formulas marked, links aside."""
    return words if words.startswith("#") or "](" in words else _formulas.marked(words)


def _session(found: re.Match[str]) -> str:
    """Commands, ready to be copied, and what they print as blocks of their own, whose output keeps its columns."""
    runs = re.split(r"^((?:\$ .*\n(?:(?<=\\\n).*\n)*)+)", found[1], flags=re.M)
    runs[1::2] = [re.sub(r"^\$ ", "", run, flags=re.M) for run in runs[1::2]]
    blocks = ((run, "bash" if k % 2 else _columns(run)) for k, run in enumerate(runs) if run.strip())
    return "\n\n".join(f"```{language}\n{run.strip(chr(10))}\n```" for run, language in blocks)


def _columns(block: str) -> str:
    """The language of a block without one: commands, output whose lines are kept, or output of sentences, which wraps.

    >>> _columns("make test"), _columns("  mean     2.004    2"), _columns("  rooted is better than ppo_clip")
    ('bash', 'text', 'output')
    """
    if COMMAND.match(block):
        return "bash"
    return "text" if re.search(r"\S {2,}\S", block) else "output"


def _turned(found: re.Match[str], source: str, where: dict[str, str]) -> str:
    """A link of a page of the tree as one of the site."""
    mark, words, link = found.groups()
    path, hash_, anchor = link.partition("#")
    if "://" in link or not path:
        return found[0]
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    here = posixpath.dirname(where[source])
    claim = CLAIM.fullmatch(target)
    if claim:
        place = claim_place(f"{claim[1]}/{claim[2].replace('_', '-')}")
        return f"{mark}[{words}]({posixpath.relpath(place, here or '.')})"
    if target.endswith(".ipynb"):
        target = target.removesuffix("ipynb") + "md"
    if (target, anchor) == ("README.md", "install"):
        return f"{mark}[{words}]({posixpath.relpath(INSTALL, here or '.')})"
    if target not in where:
        # What a notebook draws stands beside its page.
        return found[0] if mark else words
    return f"{mark}[{words}]({posixpath.relpath(where[target], here or '.')}{hash_}{anchor})"


def reference() -> Iterator[tuple[str, str]]:
    """Pages of the reference, from docstrings and from the command line's own help."""
    from asyncsim.app import commands

    yield "reference/commands.md", command_page()
    yield "reference/python.md", python_page()
    summaries = {row["name"]: row["summary"] for row in commands.kinds()}
    for kind in commands.KINDS:
        groups, pages = grouped(kind), split_pages(kind)
        head = f"# {kind.capitalize()}\n\n{OPENING.get(kind, 'These are')} {_text(summaries[kind])}"
        whole = [f"{head} `asyncsim list {kind}` prints this list.", table(kind, groups)]
        for group, parts in groups.items():
            sections = "\n".join(part_section(part) for part in parts)
            if pages:
                up = f"[All {kind}](../{kind}.md)"
                yield (
                    f"reference/{pages[group]}.md",
                    f"# {group}\n\n{up}\n\n{table(kind, {group: parts}, '')}\n\n{sections}",
                )
            else:
                whole.append(sections)
        yield f"reference/{kind}.md", "\n\n".join(whole)


def contents(listed: list[Any]) -> str:
    """All pages of the reference by part of the navigation, with a line on what each has."""
    from asyncsim.app import commands

    about = ABOUT | {row["name"]: row["summary"].removesuffix(".") for row in commands.kinds()}
    rows = [pair for each in listed for pair in each.items()]
    parts = [k for k, inner in rows if isinstance(inner, list) and not next(iter(inner[0])).startswith("All ")]
    tables = {"": [pair for pair in rows if pair[0] not in parts]}
    tables |= {k: [pair for each in inner for pair in each.items()] for k, inner in rows if k in parts}
    blocks = ["# Reference"]
    for head, pages in tables.items():
        lines = ["| page | what it lists |", "|---|---|"]
        for name, inner in pages:
            place = inner if isinstance(inner, str) else next(iter(inner[0].values()))
            if Path(place).stem in about:
                lines.append(
                    f"| [{name}]({posixpath.relpath(place, 'reference')}) | {_text(about[Path(place).stem])} |"
                )
        blocks += [f"## {head}"] * bool(head) + ["\n".join(lines)]
    return "\n\n".join(blocks)


@cache
def grouped(kind: str) -> dict[str, list[dict[str, Any]]]:
    """Parts of a kind with their docstrings and summaries, by the heading of their group."""
    from asyncsim.app import commands

    groups = dict[str, list[dict[str, Any]]]()
    for row in commands.names(kind):
        part = commands.described(kind, row["name"]) | {"summary": row["summary"]}
        groups.setdefault(group_of(kind, part["name"]), []).append(part)
    return groups


@cache
def split_pages(kind: str) -> dict[str, str]:
    """Of a kind with more than `LONG` parts in several groups, a page for each group; else none."""
    from asyncsim.app import commands

    groups = grouped(kind) if kind in commands.KINDS else {}
    if len(groups) < 2 or sum(map(len, groups.values())) <= LONG:
        return {}
    if kind == "claims":
        return {group: f"claims/{parts[0]['name'].partition('/')[0]}" for group, parts in groups.items()}
    return {group: f"{kind}/{'-'.join(re.findall('[a-z]+', short(group).lower())[:4])}" for group in groups}


def short(group: str) -> str:
    """A heading up to its first comma, without the words that all claims share."""
    words = group.partition(",")[0].removeprefix("Claims on ")
    return words[:1].upper() + words[1:]


def anchor(name: str) -> str:
    """The anchor of a part's heading."""
    return re.sub("[^a-z0-9_-]", "", name.lower())


def claim_place(id: str) -> str:
    """The page and anchor of a claim."""
    return f"reference/claims/{id.partition('/')[0]}.md#{anchor(id)}"


def group_of(kind: str, name: str) -> str:
    """Heading of a part as in `asyncsim list`; of a claim what its folder says of itself, of another name its paper."""
    from asyncsim import claims
    from asyncsim.app import commands
    from asyncsim.base import plugins

    if kind in plugins.PARTS:
        return commands.family(kind, name)
    if kind != "claims":
        return f"arXiv {name.partition('/')[0]}" if "/" in name else ""
    text = (claims.claims()[name].parent / "__init__.py").read_text(encoding="utf-8")
    return re.split(r"[,:;.](?: |$)", ast.get_docstring(ast.parse(text)) or "")[0]


def table(kind: str, groups: dict[str, list[dict[str, Any]]], folder: str = "{}.md") -> str:
    """Parts of a kind in one table: groups, names that lead to their sections, a line each and the papers."""
    from asyncsim.app import commands

    pages = split_pages(kind)
    ratio = "level" in commands.facts(kind, groups[next(iter(groups))][0]["name"])
    lines = [["Name", "What it is", *["Ratio"] * ratio, "Source"]]
    lines += [["---"] * len(lines[0])]
    for group, parts in groups.items():
        lines += [["", f"**{group}**", *[""] * (len(lines[0]) - 2)]] * bool(group and len(groups) > 1)
        page = folder.format(pages[group]) if pages else ""
        for part in parts:
            level = [str(commands.facts(kind, part["name"]).get("level") or "")] * ratio
            papers = dict.fromkeys(ARXIV.findall(part["doc"].rpartition("Source:")[2]))
            name = f"[{_text(part['name'])}]({page}#{anchor(part['name'])})"
            lines.append([name, _text(_formulas.marked(part["summary"])), *level, ", ".join(papers)])
    if not any(line[-1] for line in lines[2:]):
        lines = [line[:-1] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def part_section(part: dict[str, Any]) -> str:
    """A heading, the signature and the docstring of one part; that of a claim has its statement."""
    signature = f"```python\n{part['signature'].replace(': Any', '')}\n```\n\n" if part["signature"] else ""
    doc = part["doc"]
    if "statement" in part:
        # All code in a statement is a formula.
        first, _, rest = doc.partition("\n\n")
        statement, _, rest = rest.partition("\n\n")
        statement = re.sub("`([^`]*)`", rf"`{_formulas.MARK}\1`", statement)
        doc = "\n\n".join([first, f"Statement: {statement}", rest])
    return f"## {part['name']}\n\n{signature}{docstring(doc, part['signature'])}\n"


def python_page() -> str:
    """Functions of `import asyncsim as sim`, the oracle, and checks of code from outside."""
    import asyncsim
    from asyncsim import conformance
    from asyncsim.sampling import oracle

    found = [(f"sim.{name}", getattr(asyncsim, name)) for name in PYTHON]
    found += [(f"sim.oracle.{name}", getattr(oracle, name)) for name in ("limit", "moments")]
    found += [(f"sim.conformance.{name}", getattr(conformance, name)) for name in CHECKS]
    sections, listed = [], ["| Name | What it does |", "| --- | --- |"]
    for name, value in found:
        call = re.sub(r"^\w+\(|\)$", "", called(value))
        lines = textwrap.fill(call, 72, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
        shape = f"{name}({call})" if len(call) < 72 else f"{name}(\n{lines},\n)"
        doc = docstring(inspect.getdoc(value) or "", called(value))
        listed.append(f"| [{_text(name)}](#{anchor(name)}) | {doc.partition(chr(10))[0]} |")
        sections.append(f"## {name}\n\n```python\n{shape}\n```\n\n{doc}\n")
    head = ["# Python\n\nAfter `import asyncsim as sim`:\n", *listed]
    return "\n".join([*head, "", *sections])


def called(function: Any) -> str:
    """Names of a function's arguments with their defaults, as in a call.

    >>> called(short), called(table)
    ('short(group)', "table(kind, groups, folder='{}.md')")
    """
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    shown = signature.replace(parameters=bare, return_annotation=signature.empty)
    return f"{function.__name__}{shown}"


def command_page() -> str:
    """The help of every command."""
    import typer

    from asyncsim.app.cli import app

    group = typer.main.get_command(app)
    settings: dict[str, Any] = {**group.context_settings, "max_content_width": 100}
    sections = []
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]
        context = command.make_context(f"asyncsim {name}", [], parent=None, resilient_parsing=True, **settings)
        sections.append(f"## asyncsim {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "# Command line\n\nThe help of every command, as `--help` prints it.\n\n" + "\n".join(sections)


def docstring(text: str, signature: str = "") -> str:
    """A docstring as Markdown: examples become code, formulas are marked, arguments and parameters are lists."""
    text, *writer = re.split(r"^(?=import \w+$)", text, maxsplit=1, flags=re.M)
    blocks = []
    for paragraph in re.split(r"\n[ \t]*\n", text):
        words, *example = re.split(r"^(?=>>>)", paragraph, maxsplit=1, flags=re.M)
        # Lines of a paragraph that stand apart are formulas of their own, but not below "Arguments:".
        told = re.match(r"Arguments:\s|`\w+`(?:(?:, | and )`\w+`)*: ", words) and signature
        parts = [] if told else re.split(r"^((?: {4,}.*\n?)+)", words, flags=re.M)
        blocks += [arguments(words, signature)] * bool(told)
        for apart in parts:
            blocks += [_listed(apart)] * bool(apart.strip())
        blocks += [f"```pycon\n{code}\n```" for code in example if not NAMED.fullmatch(code.strip())]
    return "\n\n".join([*blocks, *(f"```python\n{code}\n```" for code in writer)])


def arguments(words: str, signature: str) -> str:
    """Arguments as a list of definitions, with their defaults, and what follows them in paragraphs.

    >>> print(arguments("Arguments: `low` above 0, a bound; `high`, another. Returns a number.", "f(low, high=0.2)"))
    `low`
    :   above 0; a bound
    <BLANKLINE>
    `high = 0.2`
    :   another
    <BLANKLINE>
    **Returns** a number.
    """
    defaults = dict(re.findall(r"(\w+)(?:: [^=,]*)? ?= ?('[^']*'|[-+\w.]+|\(\))", signature))
    names = "|".join(map(re.escape, re.findall(r"(?<=[(*, ])(\w+)(?=[,:=)]| =)", signature))) or "(?!)"
    told = " ".join(words.split()).removeprefix("Arguments: ")
    # Names without backticks stand in front of a colon.
    several = rf"((?:{names})(?:(?:, | and )(?:{names}))*)"
    told = re.sub(rf"(?:^|(?<=[.)] )){several}(?=: )", lambda m: re.sub(r"\b(?!and\b)(\w+)", r"`\1`", m[0]), told)
    told, *after = ENDINGS.split(told)
    listed, free = [], ""
    # A paragraph of names with colons is prose where it has a semicolon.
    between = r"(?:; |(?<=[.)]) )(?=`\w+`(?:(?:, | and )`\w+`)*:)"
    for item in re.split(between + r"|; (?=`)" * words.startswith("Arguments:"), told.strip()):
        name, rest = re.fullmatch(r"((?:`\w+`(?:, | and )?)*)(.*)", item).groups()  # type: ignore[union-attr]
        if not name:
            free += f"{_text(_formulas.marked(item))}\n\n"
            continue
        if not name.endswith(", ") and not rest.startswith(":"):
            rest = "; ".join(filter(None, _divided(rest)))
        name = name.removesuffix(", ")
        default = defaults.get(name.strip("`"))
        name = f"`{name.strip('`')} = {default}`" if default else name
        listed.append(f"{name}\n:   {_text(_formulas.marked(rest.strip(':,. ')))}")
    return free + "\n\n".join([*listed, *map(_ending, after)])


def _ending(words: str) -> str:
    """What a function returns, raises or assumes, and its source, with the first word in bold."""
    return re.sub(r"^(Returns|Raises|Assumes|Source|Statement):?", r"**\1**", _text(_formulas.marked(words.strip())))


def _divided(words: str) -> tuple[str, str]:
    """Words before and after the first comma that no bracket encloses; all are after where there is none.

    >>> _divided(" in [0, 1], a share"), _divided(" of the law")
    (('in [0, 1]', 'a share'), ('', 'of the law'))
    """
    depth = 0
    for k, sign in enumerate(words):
        depth += (sign in "([{") - (sign in ")]}")
        # A comma in front of a quotation mark is one of a list of values.
        if not depth and words.startswith(", ", k) and not words.startswith(', "', k):
            return words[:k].strip(), words[k + 2 :]
    return "", words.strip()


def _listed(words: str) -> str:
    """Prose as it is; the arguments of a part, the parameters of a claim and lines in columns as lists."""
    if words.startswith("    "):
        lines = re.split(r"\n| {3,}", words.strip())
        return "\n\n".join(_text(_apart(line.strip())) for line in lines if line.strip())
    if words.startswith("Parameters of a point:"):
        named = [line.partition(":") for line in words.splitlines()[1:]]
        listed = [f"`{n.strip()}`\n:   {_text(_formulas.marked(a.strip()))}" for n, _, a in named]
        return "\n\n".join([words.splitlines()[0], *listed])
    if re.search(r"(?:\A|:\n)\s*(?:[-*|] |```)", words):
        return "\n".join(re.sub(r"^\\\*", "-", _text(_formulas.marked(line))) for line in words.splitlines())
    if re.search(r"\n  \w+ {2,}", words):
        head, _, columns = words.partition("\n")
        return f"{_text(head)}\n\n```text\n{columns}\n```"
    return "\n\n".join(map(_ending, ENDINGS.split(" ".join(words.split()))))


def _apart(line: str) -> str:
    """A line that stands apart: the shape of a call is code, all else may have formulas."""
    return f"`{line}`" if re.match(r"\w{2,}\(.*\) -> |asyncsim ", line) else _formulas.marked(line)


def _text(line: str) -> str:
    """Words in which nothing but code between backticks has a meaning of its own."""
    parts = re.split(r"(`[^`]*`)", html.escape(line, quote=False))
    return "".join(html.unescape(p) if k % 2 else re.sub(r"([*_\[\]])", r"\\\1", p) for k, p in enumerate(parts))


DIALOG = 'data-md-component="search" role="dialog"'
FRAMES = ("https://unpkg.com/iframe-worker/shim", "site.js")
"""The one script that would come from elsewhere, and what does the same here."""


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """The page with its formulas as MathML and links; a warning, which stops the build, where one is not whole."""
    html = _formulas.typeset(html)
    for wrong in _formulas.faults(html) if page.file.src_uri.startswith("reference/") else ():
        logging.getLogger("mkdocs.hooks").warning("%s: no whole formula: %s", page.file.src_uri, wrong)
    if page.file.src_uri == places()[f"paper_figures/{ATLAS.name}"]:
        html = _atlas()
    html = ALL.sub(lambda m: f'<div class="sorted">{_sorted(_labeled(m[0]))}</div>', html)
    html = CLAIMS.sub(lambda m: f'<div class="claims{" items" * bool(m[1])}">{_labeled(m[0])}</div>', html)
    html = COUNTS.sub(_counted, html)
    html = CARDS.sub('<table class="cards">', html)
    if page.file.src_uri.startswith("gallery/"):
        html = CHIP.sub(lambda m: f'<{m[1]} class="chip {m[2].lower().replace(" ", "-")}">{m[2]}</{m[1]}>', html)
        html = re.sub(r"(?<=\d) (?=[%±])|(?<=±) ", "\u00a0", html)
        html = ANSWERED.sub(lambda m: f'<td class="{ANSWERS[m[1]]}">', html)
    seen = '<span class="scrolls"><a class="picture" href="{}">{}</a></span>'
    html = PICTURE.sub(lambda m: m[1] or seen.format(m[3], m[2]), html)
    return UNLINKED.sub(lambda m: m[1] or f'<a href="https://arxiv.org/abs/{m[3]}">arXiv {m[3]}</a>', html)


def _labeled(table: str) -> str:
    """The table with the head of its column at each cell, for screens on which columns stand below one another."""
    heads = re.findall(r"<th>(.*?)</th>", table)
    cells = itertools.count()
    return re.sub("<td>", lambda m: f'<td data-head="{heads[next(cells) % len(heads)]}">', table)


def _atlas() -> str:
    """The table of the atlas with its filter, in the style of the site, whose own script sorts it."""
    (main,) = re.findall(r'<main class="sorted">(.*?)</main>', ATLAS.read_text(encoding="utf-8"), re.S)
    main = main.replace("<table ", "<table class=wide ").replace(".md#", ".html#")
    return f'<div class="atlas sorted">{main}</div>'


def _sorted(table: str) -> str:
    """The table of all claims with what filters it: words, a paper, a verdict."""
    rows = [re.findall(r"<td.*?>(.*?)</td>", row, re.S) for row in table.split("<tr>")[2:]]
    words = {name: [re.sub("<[^>]+>", "", row[column]) for row in rows] for name, column in CHOICES.items()}
    chosen = "".join(
        f'<select aria-label="{name}" data-columns="{CHOICES[name]}"><option value="">all {name}s'
        + "".join(f"<option>{word}" for word in sorted(set(own), key=_rank))
        + "</select>\n"
        for name, own in words.items()
    )
    ranked = CHIP.sub(lambda m: f'<{m[1]} data-rank="{VERDICTS.index(m[2].lower())}">{m[2]}</{m[1]}>', table)
    ranked = re.sub(r'<td([^>]*)><(\w+) data-rank="(\d+)">', r'<td\1 data-key="\3"><\2>', ranked)
    field = '<input size="24" placeholder="words, such as: entropy" aria-label="filter">'
    return f'<p>{chosen}{field} <output></output></p>\n<div class="claims">{ranked}</div>'


def _counted(found: re.Match[str]) -> str:
    """Verdicts and their numbers as a line."""
    heads, numbers = re.findall("<em>.*?</em>", found[2]), re.findall(r"<td>(\d+)</td>", found[2])
    pairs = ", ".join(f"{head}&nbsp;{number}" for head, number in zip(heads, numbers, strict=True))
    return f"<p>{found[1]}: {pairs}</p>"


def _rank(word: str) -> tuple[int, str]:
    """Verdicts from the best on, other words by their letters."""
    return (VERDICTS.index(word) if word in VERDICTS else 0, word.lower())


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The page with nothing from elsewhere, and with a name for its search."""
    output = output.replace(DIALOG, f'{DIALOG} aria-label="Search"')
    return output.replace(FRAMES[0], posixpath.relpath(FRAMES[1], posixpath.dirname(page.url) or "."))


def on_post_build(config: Any) -> None:
    """Lead the explorer's links to pages of the site, and take from the page of errors what comes from elsewhere."""

    def led(tag: str) -> tuple[str, str]:
        """What stands at the beginning of a page, then the same with links to the site."""
        parts = ((name, _first(part)) for each in config["nav"] for name, part in each.items())
        # The page has no logo: the way home has the name of the site.
        named = ((html.escape(config["site_name"] if name == "Home" else name), place) for name, place in parts)
        home, *links = (f'<a href="{place}">{name}</a>' for name, place in named)
        # The search of the site opens with what its address asks.
        field = '<input type="search" name="q" placeholder="Search" aria-label="Search" autocomplete="off">'
        form = f'<form action="index.html" role="search">{field}</form>'
        return tag, f'{tag}\n<nav aria-label="site">{home}{form}<div>{" ".join(links)}</div></nav>'

    def turned(found: re.Match[str]) -> str:
        """A page that the explorer names, or a claim of it, as a link to a page of the site."""
        place = claim_place(found[3]) if found[3] else where[posixpath.normpath(f"docs/{found[1]}")]
        return f'<a href="{place.replace("README", "index").replace(".md", ".html")}">{found[2] or found[4]}</a>'

    alone = EXPLORER.name
    where = places() | {f"docs/{alone}": alone}
    for name, old, new in ((alone, *led("<header>")), ("404.html", *FRAMES)):
        path = Path(config["site_dir"]) / name
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    path = Path(config["site_dir"]) / alone
    text = path.read_text(encoding="utf-8")
    path.write_text(NAMES.sub(turned, text), encoding="utf-8")


def _first(part: Any) -> str:
    """The first page of a part of the navigation, as a link."""
    return (
        part.replace(".md", ".html").replace("README", "index")
        if isinstance(part, str)
        else _first(next(iter(part[0].values())))
    )
