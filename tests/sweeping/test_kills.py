"""A hundred kills (-9) of owner, worker or both at drawn times: what was finished stays, nothing of a run lives on."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import asyncsim as sim
from asyncsim.app.evidence import Ledger
from asyncsim.base.store import opened
from asyncsim.sweeping import plans
from tests.sweeping.laboratory import bandit

KILLS = {"sweep": 40, "compare": 40, "verify": 20}
"""Kills of each command; the seed of their draws is fixed."""
WHO = ("owner", "worker", "both")
PATIENCE = 1.0
"""Seconds after which nothing of a run may be left."""
CLAIMS = (
    *("convergence/bandit-noise", "convergence/bandit-smoothness", "convergence/mdp-gradient"),
    *("convergence/return-shift", "ess/clamp-floor", "ess/invariances"),
)
MARK = "ASYNCSIM_TEST_OF_KILLS"


def sweep(store):
    """Eight units."""
    spec = bandit(updates=100).replace(task=sim.tasks.token_bandit(actions=4, horizon=4))
    answer = sim.sweep(spec, {"staleness": [0, 2, 4, 8]}, replicates=128, store=store, workers=2, progress=False)
    return repr(answer.summary)


def compare(store):
    """Four trainings for tuning and six for three looks, the arms side by side."""
    spec = bandit().replace(task=sim.tasks.softmax_bandit(rewards="gaussian"), updates=60)
    arms = {"new": spec, "old": spec.replace(method=sim.methods.truncated_is("token"))}
    answer = sim.compare(
        arms, smallest=1e-4, max_replicates=256, tune={"lr": [1.0, 8.0, 1000.0]}, store=store, workers=2, progress=False
    )
    return repr({**answer.row(), "seconds": 0.0})


def command(kind, place):
    """What runs a command on what it keeps."""
    if kind != "verify":
        call = f"from tests.sweeping.test_kills import {kind}; print({kind}({str(place / 'store')!r}))"
        return [sys.executable, "-c", call]
    script = str(Path(sys.executable).parent / "asyncsim")
    own = ["--evidence", str(place / "e.json"), "--report", str(place / "r.md"), "--workers", "2"]
    return [script, "verify", *CLAIMS, "--size", "long", *own]


def finished(kind, place):
    """What a command has kept so far, with its bytes or numbers."""
    if kind != "verify":
        return {path.name: path.read_bytes() for path in (place / "store").glob("*/*/*.parquet")}
    said = (place / "said").read_text(encoding="utf-8", errors="replace") if (place / "said").exists() else ""
    return {f"{id} of {place}": True for id in re.findall(r"\d+ of \d+: (\S+) ", said)}


def kept(kind, place):
    """The same, of what is there now and sound."""
    if kind != "verify":
        assert not (place / "store" / "store.json").exists() or plans.verified(opened(str(place / "store")))[1] == []
        return finished(kind, place)
    ledger = Ledger(place / "e.json").processes(1000) if (place / "e.json").exists() else {}
    return {f"{id} of {place}": True for id in ledger}


def members(mark):
    """Processes of a run, and whether each is a worker."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = b"asyncsim.base.workers" in (entry / "cmdline").read_bytes()
    return found


def killed(kind, place, random, longest):
    """Start a command and kill it at a drawn time: who was killed ("": it was over before), its answer ("": it gave
    none), and the seconds until nothing of it was left.
    """  # fmt: skip
    (place / "tmp").mkdir(parents=True, exist_ok=True)
    mark, who, at = secrets.token_hex(8), str(random.choice(WHO)), random.uniform(0.1, 0.9) * longest
    env = {**os.environ, MARK: mark, "TMPDIR": str(place / "tmp"), "OMP_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    with open(place / "said", "wb") as said:
        owner = subprocess.Popen(command(kind, place), env=env, stdout=subprocess.PIPE, stderr=said)
    with suppress(subprocess.TimeoutExpired):
        owner.wait(at)
    before, struck = finished(kind, place), ""
    if owner.poll() is None:
        workers = [pid for pid, is_worker in members(mark).items() if is_worker]
        struck = who if workers else "owner"
        for pid in (workers if who == "both" else workers[:1]) if struck != "owner" else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if struck != "worker":
            owner.kill()
    answer = owner.communicate(timeout=300)[0].decode()
    start = time.monotonic()
    while (members(mark) or list((place / "tmp").glob("asyncsim-*"))) and time.monotonic() < start + 10.0:
        time.sleep(0.01)
    spent = time.monotonic() - start
    assert before.items() <= kept(kind, place).items(), f"lost by a kill of the {struck}"
    if struck == "worker" and kind != "verify":
        assert owner.returncode == 0, (place / "said").read_text()
    return struck, answer if owner.returncode == 0 else "", spent


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed on Linux")
@pytest.mark.parametrize("kind", KILLS)
def test_kills_lose_nothing_that_was_finished_and_leave_nothing(kind, tmp_path):
    random = np.random.default_rng(34)
    start = time.monotonic()
    whole = killed(kind, tmp_path / "whole", random, 3000.0)
    longest, counts, waits, answers, attempt = time.monotonic() - start, dict.fromkeys(WHO, 0), [whole[2]], 0, 0
    assert whole[0] == "" and whole[1]
    while sum(counts.values()) < KILLS[kind]:
        struck, answer, spent = killed(kind, tmp_path / str(attempt), random, longest)
        waits.append(spent)
        if struck:
            counts[struck] += 1
        if answer or kind == "verify":
            assert kind == "verify" or answer == whole[1], f"another answer after kills: {attempt}"
            answers += bool(answer)
            attempt += 1
    # Whatever the last kill left is brought to its end.
    assert kind == "verify" or killed(kind, tmp_path / str(attempt), random, 3000.0)[1] == whole[1]
    line = {"kills": counts, "answers": answers + 1, "longest wait": round(max(waits), 2), "one run": round(longest, 1)}
    print(kind, json.dumps(line))
    assert max(waits) <= PATIENCE, sorted(waits)[-5:]
