"""Evidence against claims over many runs: a file of p-values at fresh seeds, and bets on them (e-processes)."""

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from asyncsim import claims, validation
from asyncsim.base import checks, digests, files
from asyncsim.base.manifest import version_of
from asyncsim.base.notation import plural
from asyncsim.claims._trial import FALSE_FAIL

KIND, FORMAT = "asyncsim evidence", 2
APART = 1 << 20
"""Minimum distance of two seeds, since trials also draw at seeds that follow their own."""
LARGEST = 1 << 62
"""Upper bound of seeds from the operating system."""
EVER = 0.01
"""Probability that the bets against any true claim ever reach the limit for all claims."""
REMEDY = "move it away to begin anew, or name another with --evidence"
PATIENCE = 60.0
"""Seconds to wait for another command to write its run."""


@dataclass(frozen=True)
class Run:
    """One measurement of a claim: its seed, its p-value, and the bettor's wealth after it, starting at 1."""

    seed: int
    p: float
    e: float


@dataclass(frozen=True)
class Evidence:
    """Betting evidence on one claim: its runs in order, all with the same trial, formula and package version."""

    version: str
    digest: str
    runs: tuple[Run, ...]
    claims: int = 1
    """Number of claims with a bet, which share `EVER`."""

    @property
    def e(self) -> float:
        """Current wealth of the bet against the claim, an e-value."""
        return self.runs[-1].e

    @property
    def greatest(self) -> float:
        """Maximum wealth so far; if the claim is true, it reaches x with probability at most 1/x."""
        return max(run.e for run in self.runs)

    @property
    def own_limit(self) -> float:
        """Wealth that the bet against this claim, if true, ever reaches with probability at most 1e-3."""
        return 1.0 / FALSE_FAIL

    @property
    def limit(self) -> float:
        """Wealth that any bet against a true claim, of all claims, ever reaches with probability at most 0.01."""
        return max(self.own_limit, self.claims / EVER)

    @property
    def word(self) -> str:
        """What the bets show about the claim."""
        if self.greatest >= self.limit:
            return "against the claim"
        return "against the claim by its own limit only" if self.greatest >= self.own_limit else "none against it"

    def row(self) -> dict[str, Any]:
        """The evidence on the claim as a JSON object."""
        names = ("e", "greatest", "own_limit", "limit", "word", "version", "digest")
        return {"runs": len(self.runs)} | {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """The evidence in one line.

        >>> print(Evidence("0.1.0", "ab", (Run(3, 0.5, 0.9),), 114))
        1 run at fresh seeds: e = 0.9, at most 0.9 so far (limits 1000 alone, 11400 over all claims): none against it
        """
        count = f"{plural(len(self.runs), 'run')} at fresh seeds"
        limits = f"limits {self.own_limit:.6g} alone, {self.limit:.6g} over all claims"
        return f"{count}: e = {self.e:.3g}, at most {self.greatest:.3g} so far ({limits}): {self.word}"


class Ledger:
    """A file of evidence. Each run is written at once and atomically, so that a killed command loses none.

    If the code of a claim or the package version changes, a new process starts; the old one stays in the file, so that
    no seed is used twice. `digest(id)` identifies the code that a process measures. Several commands may share a file.
    """

    def __init__(self, path: str | os.PathLike[str], digest: Callable[[str], str] | None = None) -> None:
        self.path = files.writable("--evidence", path)
        self.lock = self.path.with_name(f".{self.path.name[:50]}.lock")
        self._digest = digest or digest_of
        self.begun: dict[str, str] = {}
        """Claims for which this object started a new process, each with the reason."""
        with files.well_formed(self.path, "evidence"):
            for process in (each for claim in self._read().values() for each in claim):
                money = validation.wealth(p for _, p, _ in process["runs"])
                same = all(abs(e - own) <= 1e-9 * own for (_, _, e), own in zip(process["runs"], money, strict=True))
                checks.require(same, "--evidence", str(self.path), "as it was written, not changed by hand", REMEDY)

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        """Processes by claim, read from the file."""
        if not self.path.exists():
            return {}
        whole = files.read_mapping(self.path, "evidence")
        with files.well_formed(self.path, "evidence"):
            rows = dict(whole["claims"])
            mine = (whole["kind"], whole["format"], whole["digest"]) == (KIND, FORMAT, digests.of(rows))
            checks.require(mine, "--evidence", str(self.path), f"{KIND} as it was written", REMEDY)
            return rows

    def fresh(self, ids: Sequence[str], seed: int | None = None) -> int:
        """A seed that no run of these claims has used or drawn from: the given seed, or a random one."""
        used = {id: [run[0] for process in claim for run in process["runs"]] for id, claim in self._read().items()}
        if seed is None:
            seed = secrets.randbelow(LARGEST)
            # Never twice in a lifetime, but cheap to exclude.
            return seed if all(_apart(seed, used.get(id, ())) for id in ids) else self.fresh(ids)
        for id in ids:
            _require_fresh(id, seed, used.get(id, ()))
        return seed

    def add(self, id: str, seed: int, p: float) -> None:
        """Append a claim's p-value at a fresh seed to its betting process; changed code or version starts a new one."""
        refusal = checks.InputError("--evidence", str(self.path), "written by one command at a time", "start it again")
        with files.locked(self.lock, refusal, patience=PATIENCE):
            whole = self._read()
            processes = whole.setdefault(id, [])
            _require_fresh(id, seed, [run[0] for process in processes for run in process["runs"]])
            now = {"version": version_of("asyncsim") or "unknown", "digest": self._digest(id)}
            if not processes or any(processes[-1][key] != value for key, value in now.items()):
                if processes:
                    older, newer = processes[-1]["version"], now["version"]
                    self.begun[id] = "its code changed" if older == newer else f"asyncsim {older} became {newer}"
                processes.append(now | {"runs": []})
            runs: list[list[float]] = processes[-1]["runs"]
            runs.append([seed, p, validation.wealth([*(run[1] for run in runs), p])[-1]])
            about = {"kind": KIND, "format": FORMAT, "digest": digests.of(whole)}
            text = json.dumps({**about, "claims": whole}, separators=(",", ":")) + "\n"
            files.write_atomically(self.path, lambda file: file.write(text.replace('"runs":', '\n"runs":').encode()))

    def processes(self, count: int) -> dict[str, Evidence]:
        """Current betting process of each claim; `count` is the number of all claims, with those never measured."""
        return {
            id: Evidence(own[-1]["version"], own[-1]["digest"], tuple(Run(*run) for run in own[-1]["runs"]), count)
            for id, own in self._read().items()
        }

    def fewest(self, ids: Sequence[str]) -> list[str]:
        """Sort claims by their number of runs, so that claims skipped by a killed command come first."""
        count = {id: sum(len(process["runs"]) for process in own) for id, own in self._read().items()}
        return sorted(ids, key=lambda id: count.get(id, 0))


def _apart(seed: int, used: Sequence[int]) -> bool:
    return all(abs(seed - other) >= APART for other in used)


def _require_fresh(id: str, seed: int, used: Sequence[int]) -> None:
    bound = f"at least {APART} away from every seed that {id} has used" if seed not in used else f"new to {id}"
    checks.require(_apart(seed, used), "--seed", seed, bound, "leave out --seed, which draws a fresh one")


@cache
def digest_of(id: str) -> str:
    """Hash, 16 hexadecimal digits, that changes with the code of a claim and of everything that it runs."""
    path = claims.claims()[id].relative_to(Path(__file__).parents[1]).with_suffix("")
    return digests.reached(".".join(["asyncsim", *path.parts]))


def against(evidence: Mapping[str, Evidence]) -> list[str]:
    """Ids of the claims whose maximum wealth reached the limit that all claims share."""
    return [id for id, own in evidence.items() if own.greatest >= own.limit]
