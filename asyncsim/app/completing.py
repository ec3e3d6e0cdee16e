"""Shell completion: names of what there is, read without importing it."""

from __future__ import annotations

from collections.abc import Callable

import typer

from asyncsim.app import commands


def named(kind: str) -> Callable[[str], list[tuple[str, str]]]:
    """Completion of a shell: names of a kind with their summaries."""

    def complete(incomplete: str) -> list[tuple[str, str]]:
        begin = incomplete.replace("-", "_")
        rows = [row for row in commands.names(kind) if row["name"].replace("-", "_").startswith(begin)]
        return [(row["name"], row["summary"]) for row in rows]

    return complete


def kinds(incomplete: str) -> list[str]:
    """Kinds of things that begin so."""
    return [kind for kind in commands.KINDS if kind.startswith(incomplete)]


def of_kind(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names, with their summaries, of the kind that stands before them on the command line."""
    kind = {"metrics": "diagnostics"}.get(ctx.params.get("kind", ""), ctx.params.get("kind"))
    return named(kind)(incomplete) if kind in commands.KINDS else []
