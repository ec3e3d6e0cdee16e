"""The command `asyncsim verify`: measure claims, keep evidence, write the report, and give advice."""

import fnmatch
import itertools
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from asyncsim import claims
from asyncsim.app import commands, judgments, reporting, streams, verifying
from asyncsim.app.evidence import Ledger
from asyncsim.base import checks, progress, records, stopping, workers
from asyncsim.base.manifest import manifest
from asyncsim.claims import _registry
from asyncsim.claims._trial import FALSE_FAIL, FALSE_PASS, SIZES

EVIDENCE = Path("build/evidence.json")
LONG = "long"
"""Size with fresh seeds for every run, whose evidence accumulates; each run measures as the full size does."""


class Request(NamedTuple):
    """Arguments of a verification: `claims` (none: all), `size`, `defects`, `seed` and `at` as in `verifying.verify`.

    `seed` None: 0, or a fresh one for the long size. `evidence`: the file for that size, None for the default.
    `workers`: number of processes.
    """

    claims: Sequence[str] = ()
    size: str = "quick"
    defects: bool = False
    seed: int | None = None
    at: dict[str, Any] | None = None
    evidence: Path | None = None
    workers: int | None = None


def announced(*arguments: Any) -> records.Verdict:
    """The verdict of one claim, from `verifying.verify_one`; the first worker reports compilation of the kernel."""
    with streams.announced() if workers.number() in (None, 0) else nullcontext():
        return verifying.verify_one(*arguments)


def verify(
    request: Request, report: Path | None, json_path: Path | None = None, verbose: bool = False
) -> tuple[dict[str, Any], int]:
    """Verify claims, write the report and the JSON, print the table and advice; return the JSON object and exit status.

    Many claims are printed as one row per family, unless `verbose` is true.
    """
    checks.one_of("size", request.size, (*SIZES, LONG), "choose how much to measure")
    # A family stands for its claims, and so do a pattern and the arXiv id of a paper.
    every = verifying.every_claim()
    said = {word: claims.papers_of(word) for word in request.claims}
    papers = {word: [id for each in sentences for id in each.claims] for word, sentences in said.items()}
    patterns = ((word, word if "*" in word else f"{word}/*") for word in request.claims)
    asked = (papers[word] or fnmatch.filter(every, pattern) or [_registry.taken(word)] for word, pattern in patterns)
    ledger, at = None, request.at or {}
    first = " ".join(f"--at {key}={value}" for key, value in at.items())
    try:
        ids = list(dict.fromkeys(itertools.chain(*asked))) or every
        remedy = next(filter(None, (checks.advice(key, *ids * (len(ids) > 1)) for key in at)), "")
        checks.require(not remedy, "--at", first, "used with one claim", remedy)
    except checks.InputError as error:
        # The command to write has the values that were asked for.
        remedy = re.sub(r"(\w+)=VALUE", lambda found: f"{found[1]}={at.get(found[1], 'VALUE')}", error.remedy)
        refusal = checks.InputError(error.field, error.value, error.bound, remedy)
        refusal.__notes__ = getattr(error, "__notes__", [])
        raise refusal from error
    if request.at is not None:
        takes = {id: {*claims.claim(id).point.parameters} for id in ids if len(ids) > 1}
        have = [id for id in takes if {*at} <= takes[id]]
        some = ", ".join([*(have or ids)[:12], *["..."] * (len(have or ids) > 12)])
        remedy = f"write asyncsim verify CLAIM {first}, and for CLAIM one of {some}"
        if not have and {*at} & {*itertools.chain(*takes.values())}:
            own = (f"{key}: {', '.join([id for id in takes if key in takes[id]][:4]) or 'none'}" for key in at)
            remedy = f"no claim of these takes {' and '.join(at)} ({'; '.join(own)})"
        checks.require(len(ids) == 1, "--at", first, "used with one claim", remedy)
    if request.size == LONG:
        # It asks at the trials' own points only.
        checks.require(request.at is None, "--at", request.at, f"left out beside --size {LONG}", "take --size full")
        mine = [id for id in ids if _registry.own(id)]
        checks.require(not mine, "--size", LONG, f"quick or full for {', '.join(mine)}", "take --size full and --seed")
        ledger = Ledger(request.evidence or EVIDENCE)
    else:
        path = request.evidence
        checks.require(path is None, "--evidence", str(path), f"used with --size {LONG}", "add it, or leave this out")
    seed = request.seed or 0 if ledger is None else ledger.fresh(ids, request.seed)
    outputs = streams.Files({"json": json_path})
    order = ids if ledger is None else ledger.fewest(ids)
    verdicts, stopped = _measured(order, request._replace(seed=seed), ledger, outputs)
    # Workers end in any order.
    verdicts.sort(key=lambda verdict: ids.index(verdict.id))
    found = {} if ledger is None else ledger.processes(len(every))
    bets = {v.id: found[v.id] for v in verdicts if v.id in found}
    about = {"size": request.size, "false_fail": FALSE_FAIL, "false_pass": FALSE_PASS}
    whole = judgments.Page(verdicts, manifest(spec=about, seed=seed), request.at, bets, _coverage(verdicts))
    result = whole.json()
    known = {v.id: claims.claim(v.id) for v in verdicts}
    references = {id: claim.reference for id, claim in known.items()}
    predictions = {id: claim.predict for id, claim in known.items()}
    with stopping.deferred() as received:
        outputs.json(result)
        written = outputs.write(
            "report", lambda path: reporting.write_page(whole, path, "", references, predictions), report
        )
    kept = [] if ledger is None else [*judgments.begun(ledger.begun), f"evidence: {ledger.path} (seed {seed})"]
    console = Console(width=streams.width(commands.WIDE))
    if len(verdicts) > judgments.MANY and not verbose:
        console.print(judgments.overview(verdicts))
    else:
        for line in judgments.table(verdicts, console.width, bets):
            console.print(line, highlight=False, soft_wrap=True)
    for v in verdicts if request.at is not None else ():
        # A number that was asked for needs its words.
        point = judgments.point_text(v.points[0].point)
        streams.show([f"at {point}: {v.statement}{checks.advice(v.id, 'unit')}"])
    streams.show([*judgments.advice(whole), ""])
    # Claims are formulas set against a sentence of a paper; that they held does not say that the sentence does.
    for each in itertools.chain(*said.values()):
        condition = f" Condition: {each.when}." * bool(each.when)
        streams.show([f'{each.id} is {each.status}: "{each.text}"{condition}'])
    kept += [f"report: {report}"] * written
    streams.show([*judgments.bets(whole), *kept, *judgments.lines(whole, verbose, [*itertools.chain(*said.values())])])
    if stopped is not None:
        number = stopping.number_of(stopped)
        extent = f"{len(verdicts)} of {len(ids)} claims, which are kept"
        streams.complain(f"stopped by {stopping.NAMES[number]} after {extent}. Run it again for the others")
        return result, 128 + number
    return result, outputs.status(128 + received[0] if received else judgments.status(verdicts, bets))


def _measured(
    ids: Sequence[str], request: Request, ledger: Ledger | None, outputs: streams.Files
) -> tuple[list[records.Verdict], KeyboardInterrupt | None]:
    """Verdicts reached so far, each printed and stored at once, and the interrupt that stopped them."""
    verdicts: list[records.Verdict] = []
    seed = request.seed or 0

    def keep(verdict: records.Verdict) -> None:
        verdicts.append(verdict)
        if ledger is not None and verdict.p == verdict.p:
            outputs.write("evidence", lambda path: ledger.add(verdict.id, seed, verdict.p), ledger.path)
        bar.add()
        if not bar.barred:
            number = f"{len(verdicts)} of {len(ids)}"
            streams.complain(f"{number}: {verdict.id} {verdict.verdict} ({verdict.seconds:.1f} s)")

    size = "full" if request.size == LONG else request.size
    try:
        with progress.Progress("claims", len(ids), sys.stderr.isatty()) as bar, streams.announced():
            how = (size, request.defects, seed, request.at, keep, request.workers, f"{__name__}:announced")
            verifying.verify_many(ids, *how)
    except KeyboardInterrupt as interrupted:
        if not verdicts:
            raise
        return verdicts, interrupted
    return verdicts, None


def _coverage(verdicts: Sequence[records.Verdict]) -> dict[str, Any] | None:
    """The list of random faults, if every claim that detects one is on the page."""
    found = judgments.coverage()
    named = set() if found is None else {id for row in found["rows"] for id in row["claims"]}
    return found if named <= {v.id for v in verdicts} else None
