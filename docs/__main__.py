"""Write the generated pages, or compare them with what makes them now."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs import _explorer, _questions

HERE = Path(__file__).parent
PAGES = {"questions.md": _questions.page, "explorer.html": _explorer.page}


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Write the generated pages.")
    parser.add_argument("names", nargs="*", choices=[*PAGES, []], help="pages; without any, all of them")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 where a page is not up to date")
    options = parser.parse_args(words)
    status = 0
    for name in options.names or PAGES:
        path, text = HERE / name, PAGES[name]()
        if not options.check:
            path.write_text(text, encoding="utf-8")
            print(path)
            continue
        same = path.exists() and path.read_text(encoding="utf-8") == text
        print(f"{name}: {'up to date' if same else 'not up to date; run `python -m docs`'}")
        status |= not same
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
