"""Pages of the gallery: entries whose numbers come from rows, put together by skeletons, and what is wrong with them.

`entries/_PAGE.md` holds what stands between the entries of `PAGE.md`, `entries/_index.md` those of README.md. A line
`<!-- NAME.md -->` is replaced by that entry, its headings one level deeper and its links from here; `#NAME` leads to it
from any page. `<!-- claims PAPER -->` and other names of tables are replaced by these, and `<!-- answer PAPER -->` by
the index's item on that paper. The index shows its items as a table, each picture beside its words. `{key}` in an
entry is a number of its own figure, `{figure:key}` anywhere one of another figure. What an entry has to say stands
before its fold (`<details>`), and behind it a table of settings, which says how it was done.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from docs import _prose

Numbers = Mapping[str, Mapping[str, str]]
"""What entries may quote, by figure and key."""

ENTRIES, PICTURES = "entries", "pictures"
"""Folders of the gallery: what is written by hand, and what scripts draw."""
KINDS = ("png", "pdf")
INDEX = "index"
"""The page that is README.md."""
NOTICE = f"<!-- Written by `python -m paper_figures` from {ENTRIES}/ -->\n"
VERDICT = re.compile(
    r"\*(mostly(\s+not)?|mixed|not\s+reproduced|not\s+tested\s+here|reproduced|under\s+conditions|holds)\b[^*]*\*", re.I
)
PARAGRAPHS = ("Claimed", "Measured", "Verdict")
"""What an entry on a question of a paper has before its fold."""
SETTINGS = ("differs from the paper", "command")
"""Rows of its table of settings."""
QUOTING = ("Measured", "Verdict")
"""Paragraphs in which every number comes from rows."""
PLACEHOLDER = re.compile(r"\{(?:([a-z]\w*):)?([A-Za-z_]\w*)\}")
FOLD = "<details>"
TITLE = 95
"""Most letters of an entry's heading."""
BEFORE = 110
"""Most words of an entry before its fold."""
MOST, MOST_INDEX, LINE = 2500, 1500, 60
"""Most words of a page, of the index, and of a line of a table.

Words as `docs._prose.words` counts them: of headings, prose and tables, not of fenced code. Tables of claims and items
have a limit for each line instead."""
BY_SETTING = "<details><summary>By setting</summary>"
"""Beginning of the settings of claims, which readers unfold; they may be long."""
FOLDED = re.compile(rf"{BY_SETTING}.*?</details>", re.S)
COUNTED = ("_verdict", "_count")
"""Ends of keys whose words a count of settings gives: the verdict, which claims have to have, and the count."""
TABLE = re.compile(r"^\| (?:(?:source \| )?(?:[^|\n]+ )?claims? \||paper \| item \|).*?(?=\n\n|\n?\Z)", re.M | re.S)
MARK = re.compile(r"^<!-- ((?!\S+\.md ).+?) -->$", re.M)
ANSWER = re.compile(r"^\* \[([^]]+)\]\(([^)]*)\) !\[([^]]*)\]\(([^)]*)\)\n(.*?)(?=^\* |^$|\Z)", re.M | re.S)
"""An item of the index: a paper, its page, a picture in words, the picture, and what came out."""
CARDS = re.compile(rf"(?:{ANSWER.pattern})+", re.M | re.S)
WIDE = 400
"""Pixels of a picture of the index."""
PLACE = re.compile(r"\]\(#(\w+)\)")
ENTRY = re.compile(r"^<!-- (\w+)\.md -->$", re.M)
FENCED = re.compile(r"(^```.*?^```)", re.M | re.S)
LINK = re.compile(r"!\[[^]]*\]\(([^)#\s]+)\)")
PARAGRAPH = re.compile(r"^\*\*(\w[^*]*?)[.:]?\*\*", re.M)
QUOTED = re.compile(r"`[^`]*`|\]\([^)]*\)|\b4× rate\b|\b[a-z]+/[a-z][a-z0-9-]+|\b\d{4}\.\d{5}\b|" + PLACEHOLDER.pattern)
"""Where digits may stand: code, targets of links, the 4× rate, ids of claims, arXiv ids, placeholders."""
BARE = re.compile(r"(?<![A-Za-z0-9_])\d(?:[\w.,]*\w)?")
"""A number; digits within a name (SmolLM2) are none."""


def heading(folder: Path, name: str) -> str:
    """The heading of a figure's entry, its numbers still placeholders; none where there is no entry."""
    path = folder / _entry(name)
    first = path.read_text(encoding="utf-8").partition("\n")[0] if path.exists() else ""
    return first.removeprefix("## ").replace("`", "")


def written(page: str) -> str:
    """The file of a page."""
    return "README.md" if page == INDEX else f"{page}.md"


def skeletons(folder: Path) -> dict[str, str]:
    """What stands between the entries, by page."""
    found = sorted((folder / ENTRIES).glob("_*.md"))
    return {path.stem[1:]: path.read_text(encoding="utf-8") for path in found}


def pages(folder: Path, numbers: Numbers, tables: Mapping[str, str] | None = None) -> tuple[dict[str, str], list[str]]:
    """Pages by file, filled in, and in one line each what has no number, is not quoted or is long."""
    made, wrong, used = {}, [], set()
    frames = skeletons(folder)
    tables = {**(tables or {}), **answers(frames.get(INDEX, ""))}
    homes = {figure: page for page, text in frames.items() for figure in ENTRY.findall(text)}
    for page, frame in frames.items():
        texts = [NOTICE]
        for figure, piece in pieces(folder, CARDS.sub(lambda found: cards(found[0]), frame)):
            text = MARK.sub(lambda found: tables.get(found[1], found[0]), piece)
            where = _entry(figure) if figure else _skeleton(page)

            def number(found: re.Match[str], figure: str = figure, where: str = where) -> str:
                own, key = found[1] or figure, found[2]
                used.add((own, key))
                if key not in numbers.get(own, {}):
                    line = f"{found[0]} has no number; let numbers() of {own or 'its figure'}.py give {key}"
                    wrong.append(f"{where}: {line}")
                return numbers.get(own, {}).get(key, found[0])

            def place(found: re.Match[str], page: str = page) -> str:
                home = homes.get(found[1], page)
                return found[0] if home == page else f"]({written(home)}#{found[1]})"

            texts.append(outside(text, lambda part: PLACE.sub(place, PLACEHOLDER.sub(number, part))))
        made[written(page)] = "".join(texts)
    keys = [(figure, key) for figure, own in numbers.items() for key in own if not key.endswith(COUNTED)]
    idle = [place for place in keys if place not in used]
    wrong += [f"{figure}.py: nothing quotes {key} of numbers(); quote or drop it" for figure, key in idle]
    return made, [*wrong, *(line for name, text in made.items() for line in unread(name, text))]


def answers(index: str) -> dict[str, str]:
    """What came out of each paper, by the mark that the paper's own page has for it."""
    return {f"answer {paper}": re.sub(r"\n +", "\n", text).strip() for paper, *_, text in ANSWER.findall(index)}


def cards(items: str) -> str:
    """Items of the index as a table of two columns, which GitHub and the site show alike."""
    rows = ["| figure | result |", "|---|---|"]
    for paper, page, seen, picture, text in ANSWER.findall(items):
        shown = f'[<img src="{picture.removeprefix("../")}" width="{WIDE}" alt="{seen}">]({page})'
        rows.append(f"| {shown} | [{paper}]({page})<br>{' '.join(text.split())} |")
    return "\n".join(rows) + "\n"


def unread(name: str, text: str) -> list[str]:
    """What is too long on a page with its numbers, in one line each; ends of intervals are numbers."""
    text = FOLDED.sub("", text)
    count, limit = _prose.words(TABLE.sub("", text)), MOST_INDEX if name == written(INDEX) else MOST
    wrong = [f"{name}: {count} words; at most {limit}: shorten entries"] if count > limit else []
    lines = [line for table in TABLE.findall(text) for line in table.splitlines()]
    wrong += [f"{name}: shorten the line {line}" for line in lines if _prose.words(line) > LINE]
    return wrong + [f"{name}: {line}" for line in _prose.faults(text)]


def pieces(folder: Path, frame: str) -> list[tuple[str, str]]:
    """Texts of a page in order, each with its figure; those of the skeleton have none."""
    found = []
    for place, part in enumerate(ENTRY.split(frame)):
        path = folder / _entry(part)
        if place % 2 == 0:
            found.append(("", part.replace("](../", "](")))
        elif path.exists():
            text = path.read_text(encoding="utf-8").strip()
            deeper = outside(text, lambda text: re.sub(r"^#", "##", text, flags=re.M).replace("](../", "]("))
            found.append((part, f'<a id="{part}"></a>\n\n{deeper}'))
    return found


def faults(folder: Path, scripts: Iterable[str], questions: Iterable[str], front: str = "") -> list[str]:
    """What is wrong with the files themselves, in one line each.

    Arguments: `scripts`, the figures that can be drawn; `questions`, those of papers, whose entries have a verdict;
    `front`, the README in front of the repository, which may show pictures from here.
    """
    scripts, questions = set(scripts), set(questions)
    entries = {path.stem: path.read_text(encoding="utf-8") for path in sorted((folder / ENTRIES).glob("[!_]*.md"))}
    frames = {_skeleton(page): text for page, text in skeletons(folder).items()}
    shown = Counter(figure for text in frames.values() for figure in ENTRY.findall(text))
    drawn = sorted(path for kind in KINDS for path in (folder / PICTURES).glob(f"*.{kind}"))
    idle = [path for path in drawn if path.stem not in scripts]
    texts = frames | {_entry(name): text for name, text in entries.items()}
    stale = {path.name for path in folder.glob("*.md")} - {written(page) for page in skeletons(folder)}
    return [
        *(f"{PICTURES}/{path.name}: no script makes it; write {path.stem}.py or remove it" for path in idle),
        *(f"{name}.py: no entry; write {_entry(name)}" for name in sorted(scripts - set(entries))),
        *(f"{_entry(name)}: no script; write {name}.py" for name in sorted(set(entries) - scripts)),
        *(f"{_entry(name)}: on no page; add <!-- {name}.md --> to one" for name in sorted(set(entries) - set(shown))),
        *(f"{ENTRIES}: there is no {name}.md; write it" for name in sorted(set(shown) - set(entries))),
        *(f"{ENTRIES}: {name}.md twice; remove one" for name, count in sorted(shown.items()) if count > 1),
        *(f"{name}: no skeleton; write {_skeleton(name[:-3])} or remove it" for name in sorted(stale)),
        *_links(scripts, texts, front),
        *(
            f"{name}: {digits} in a table comes from nowhere; quote {{figure:key}}"
            for name, text in frames.items()
            for digits in _tabled(text)
        ),
        *(f"{_entry(name)}{line}" for name, text in entries.items() for line in _within(name, text, name in questions)),
    ]


def _entry(name: str) -> str:
    return f"{ENTRIES}/{name}.md"


def _skeleton(page: str) -> str:
    return f"{ENTRIES}/_{page}.md"


def _links(scripts: set[str], texts: Mapping[str, str], front: str) -> list[str]:
    """Links to pictures that no script makes; those of entries lead one folder up, those of the front one down."""
    made = {f"{PICTURES}/{name}.{kind}" for name in scripts for kind in KINDS}
    shown = [(where, link, "../") for where, text in texts.items() for link in LINK.findall(text) if "://" not in link]
    shown += [("README.md", link, "paper_figures/") for link in re.findall(r"paper_figures/[\w/]+\.(?:png|pdf)", front)]
    return [
        f"{where}: no script makes {link}; mend the link"
        for where, link, way in shown
        if not link.startswith(way) or link.removeprefix(way) not in made
    ]


def _tabled(text: str) -> list[str]:
    """Numbers that come from nowhere in the third column of tables: claim, verdict, number, figure."""
    cells = [line.split("|")[3:4] for line in text.splitlines() if line.startswith("|")]
    return [digits for cell in cells for digits in BARE.findall(QUOTED.sub("", "".join(cell)))]


def _within(name: str, text: str, question: bool) -> list[str]:
    """What is wrong with one entry, to be read behind its path."""
    parts, picture, wrong = paragraphs(text.partition(FOLD)[0]), f"../{PICTURES}/{name}.png", []
    if not text.startswith("## "):
        wrong.append(": begin it with a heading, ## and what was found")
    long = len(PLACEHOLDER.sub("0.00", text.partition("\n")[0])) - len("## ")
    if long > TITLE:
        wrong.append(f": heading of {long} letters; at most {TITLE}, since it is the picture's title")
    if picture not in LINK.findall(text):
        wrong.append(f": no picture; show ![what is seen]({picture})")
    for head in QUOTING:
        bare = BARE.findall(QUOTED.sub("", FENCED.sub("", parts.get(head, ""))))
        wrong += [f", {head}: {digits} comes from nowhere; quote a key of numbers()" for digits in bare]
    if FOLD in text:
        wrong += _short(text)
    if question:
        wrong += [f": no paragraph **{head}.**" for head in PARAGRAPHS if head not in parts]
        wrong += [f": no setting {row}" for row in SETTINGS if f"\n| {row} | " not in text.partition(FOLD)[2]]
        if not VERDICT.search(parts.get("Verdict", "")):
            wrong.append(
                ", Verdict: say *reproduced*, *mostly*, *mixed*, *mostly not*, *not reproduced* or *not tested here*, "
                "and of an own claim *holds*"
            )
    return wrong


def _short(text: str) -> list[str]:
    """What is too long in an entry with a fold."""
    before = "\n".join(line for line in text.partition(FOLD)[0].splitlines() if not line.startswith(("#", "![")))
    count = _prose.words(before)
    wrong = [f": {count} words before its fold; at most {BEFORE}"] if count > BEFORE else []
    return wrong + [f": {line}" for line in _prose.faults(text)]


def paragraphs(text: str) -> dict[str, str]:
    """What stands after each **Head.** up to the next."""
    parts = PARAGRAPH.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def outside(text: str, change: Callable[[str], str]) -> str:
    """The text changed everywhere but in fenced code."""
    return "".join(part if place % 2 else change(part) for place, part in enumerate(FENCED.split(text)))
