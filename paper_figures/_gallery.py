"""The gallery's text: entries whose numbers come from rows, put together by a skeleton, and what is wrong with them.

`_gallery.md` holds what stands between the entries; a line `<!-- NAME.md -->` is replaced by that entry, its headings
one level deeper, and `#NAME` leads to it. `{key}` in an entry is a number of its own figure, `{figure:key}` anywhere
one of another figure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Numbers = Mapping[str, Mapping[str, str]]
"""What entries may quote, by figure and key."""

NOTICE = "<!-- Written by `python -m paper_figures` from _gallery.md and the entries NAME.md: change those. -->\n"
VERDICT = re.compile(r"\*(not\s+reproduced|reproduced(\s+under\s+conditions)?)\b[^*]*\*", re.I)
PARAGRAPHS = ("Claimed", "Measured", "Verdict", "Departures", "Conditions", "Made by")
"""What an entry on a question of a paper has."""
QUOTING = ("Measured", "Verdict")
"""Paragraphs in which every number comes from rows."""
PLACEHOLDER = re.compile(r"\{(?:([a-z]\w*):)?([A-Za-z_]\w*)\}")
ENTRY = re.compile(r"^<!-- (\w+)\.md -->$", re.M)
FENCED = re.compile(r"(^```.*?^```)", re.M | re.S)
LINK = re.compile(r"!\[[^]]*\]\(([^)#\s]+)\)")
PARAGRAPH = re.compile(r"^\*\*(\w[^*]*?)[.:]?\*\*", re.M)
QUOTED = re.compile(r"`[^`]*`|\]\([^)]*\)|\b[a-z]+/[a-z][a-z0-9-]+|\b\d{4}\.\d{5}\b|" + PLACEHOLDER.pattern)
"""Where digits may stand: code, targets of links, ids of claims, arXiv ids, placeholders."""
BARE = re.compile(r"(?<![A-Za-z0-9_])\d(?:[\w.,]*\w)?")
"""A number; digits within a name (SmolLM2) are none."""


def readme(folder: Path, numbers: Numbers) -> tuple[str, list[str]]:
    """The gallery with its numbers, and in one line each what has no number or is never quoted."""
    texts, wrong, used = [NOTICE], [], set()
    for figure, text in pieces(folder):
        where = f"{figure}.md" if figure else "_gallery.md"

        def number(found: re.Match[str], figure: str = figure, where: str = where) -> str:
            own, key = found[1] or figure, found[2]
            used.add((own, key))
            if key not in numbers.get(own, {}):
                wrong.append(f"{where}: {found[0]} has no number; let numbers() of {own or 'its figure'}.py give {key}")
            return numbers.get(own, {}).get(key, found[0])

        texts.append(outside(text, lambda part, number=number: PLACEHOLDER.sub(number, part)))  # type: ignore[misc]
    idle = [(figure, key) for figure, own in numbers.items() for key in own if (figure, key) not in used]
    wrong += [f"{figure}.py: nothing quotes {key} of numbers(); quote or drop it" for figure, key in idle]
    return "".join(texts), wrong


def pieces(folder: Path) -> list[tuple[str, str]]:
    """Texts in order, each with its figure; those of the skeleton have none."""
    parts = ENTRY.split((folder / "_gallery.md").read_text(encoding="utf-8"))
    found = []
    for place, part in enumerate(parts):
        path = folder / f"{part}.md"
        if place % 2 == 0:
            found.append(("", part))
        elif path.exists():
            text = path.read_text(encoding="utf-8").strip()
            deeper = outside(text, lambda text: re.sub(r"^#", "##", text, flags=re.M))
            found.append((part, f'<a id="{part}"></a>\n\n{deeper}'))
    return found


def faults(folder: Path, scripts: Iterable[str], questions: Iterable[str], front: str = "") -> list[str]:
    """What is wrong with the files themselves, in one line each.

    Arguments: `scripts`, the figures that can be drawn; `questions`, those of papers, whose entries have a verdict;
    `front`, the README in front of the repository, which may show pictures from here.
    """
    scripts = set(scripts)
    entries = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("[!_]*.md"))}
    entries.pop("README", None)
    skeleton = (folder / "_gallery.md").read_text(encoding="utf-8")
    shown = Counter(ENTRY.findall(skeleton))
    pictures = sorted(path for kind in ("png", "pdf") for path in folder.glob(f"*.{kind}"))
    texts = {"_gallery.md": skeleton, **{f"{name}.md": text for name, text in entries.items()}}
    linked = [(where, link) for where, text in texts.items() for link in LINK.findall(text)]
    linked += [("README.md", link) for link in re.findall(r"paper_figures/(\w+\.(?:png|pdf))", front)]
    return [
        *(f"{p.name}: no script makes it; write {p.stem}.py or remove it" for p in pictures if p.stem not in scripts),
        *(f"{name}.py: no entry; write {name}.md" for name in sorted(scripts - set(entries))),
        *(f"{name}.md: no script; write {name}.py" for name in sorted(set(entries) - scripts)),
        *(f"{name}.md: not in _gallery.md; add <!-- {name}.md -->" for name in sorted(set(entries) - set(shown))),
        *(f"_gallery.md: there is no {name}.md; write it" for name in sorted(set(shown) - set(entries))),
        *(f"_gallery.md: {name}.md twice; remove one" for name, count in sorted(shown.items()) if count > 1),
        *(f"{where}: no script makes {link}; mend the link" for where, link in linked
          if "://" not in link and (Path(link).stem not in scripts or Path(link).suffix not in (".png", ".pdf"))),
        *(f"_gallery.md: {digits} in a table comes from nowhere; quote {{figure:key}}" for digits in _tabled(skeleton)),
        *(line for name, text in entries.items() for line in _entry(name, text, name in set(questions))),
    ]  # fmt: skip


def _tabled(text: str) -> list[str]:
    """Numbers that come from nowhere in the third column of tables: claim, verdict, number, figure."""
    cells = [line.split("|")[3:4] for line in text.splitlines() if line.startswith("|")]
    return [digits for cell in cells for digits in BARE.findall(QUOTED.sub("", "".join(cell)))]


def _entry(name: str, text: str, question: bool) -> list[str]:
    """What is wrong with one entry."""
    parts = paragraphs(text)
    wrong = []
    if not text.startswith("## "):
        wrong.append(f"{name}.md: begin it with a heading, ## and what was found")
    if f"{name}.png" not in LINK.findall(text):
        wrong.append(f"{name}.md: no picture; show ![what is seen]({name}.png)")
    for head in QUOTING:
        bare = BARE.findall(QUOTED.sub("", FENCED.sub("", parts.get(head, ""))))
        wrong += [f"{name}.md, {head}: {digits} comes from nowhere; quote a key of numbers()" for digits in bare]
    if question:
        wrong += [f"{name}.md: no paragraph **{head}.**" for head in PARAGRAPHS if head not in parts]
        if not VERDICT.search(parts.get("Verdict", "")):
            wrong.append(f"{name}.md, Verdict: say *reproduced*, *reproduced under conditions* or *not reproduced*")
    return wrong


def paragraphs(text: str) -> dict[str, str]:
    """What stands after each **Head.** up to the next."""
    parts = PARAGRAPH.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def outside(text: str, change: Callable[[str], str]) -> str:
    """The text changed everywhere but in fenced code."""
    return "".join(part if place % 2 else change(part) for place, part in enumerate(FENCED.split(text)))
