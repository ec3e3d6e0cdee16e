"""Write the generated pages, or compare them with what their commands say now."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs._questions import page

HERE = Path(__file__).parent


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Write the generated pages.")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 where a page is not up to date")
    options = parser.parse_args(words)
    path, text = HERE / "questions.md", page()
    if options.check:
        same = path.exists() and path.read_text(encoding="utf-8") == text
        print(f"{path.name}: {'as its commands say' if same else 'not up to date; run `python -m docs`'}")
        return 0 if same else 1
    path.write_text(text, encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
