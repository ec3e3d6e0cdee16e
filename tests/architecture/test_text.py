"""Files of the repository name no machine, no workplace and no package registry."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

# Written with a class of one letter each, so that this file does not match itself.
BANNED = {
    "a machine path": re.compile(r"(?<![\w.$}])/(?:wor[k]|roo[t]|mn[t]|(?:hom[e]|tm[p]|op[t]|User[s])/\w+)(?:/|\b)"),
    "a folder beside the repository": re.compile(r"\.\./share[d]"),
    "a package registry": re.compile(r"pyp[i]\.org|pythonhoste[d]|download\.pytorc[h]|conda-forg[e]|index-ur[l]"),
}
LARGEST = 2_000_000


def files() -> list[Path]:
    """Files that git tracks or would track; all text of the source folders where there is no git."""
    try:
        command = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        found = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = ("asyncsim", "experiments", "benchmarks", "paper_figures", "notebooks", "tests", ".ci")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*")] + list(ROOT.glob("*"))
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def findings(text: str) -> list[str]:
    """Banned words with their lines."""
    return [
        f"line {number}: {what}: {match.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in BANNED.items()
        for match in pattern.finditer(line)
    ]


@pytest.mark.committed
def test_no_file_names_where_it_was_made():
    found, read = {}, 0
    for path in files():
        data = path.read_bytes()
        if b"\0" in data or len(data) > LARGEST:
            continue
        read += 1
        lines = findings(data.decode("utf-8", errors="replace"))
        if lines:
            found[str(path.relative_to(ROOT))] = lines
    assert read > 20
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "see /wor" + "k/main/x.py",
        "cd /roo" + "t/.cache",
        "open('/tm" + "p/w/data')",
        "reads ../share" + "d/notes.md",
        "pip install --index-ur" + "l https://x",
        "https://pyp" + "i.org/simple",
        "/hom" + "e/ada/x",
        "from '/op" + "t/wheels'",
    ],
)
def test_a_finding_is_seen(text):
    assert findings(text)


@pytest.mark.parametrize(
    "text", ["#!/usr/bin/env bash", "tokens/work/s", "homework/root", "https://keepachangelog.com/en/1.1.0/"]
)
def test_ordinary_text_passes(text):
    assert findings(text) == []
