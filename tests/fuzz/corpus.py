"""Whole files of every kind that asyncsim reads, each with what reads it and uses what it got."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import asyncsim as sim
from asyncsim.policies import _pretraining as pretraining
from asyncsim.schedules import _log_stacks, replay
from tests.schedules.test_replay import WRITERS, Run, a_run, written


class Whole(NamedTuple):
    """A file that is as it should be."""

    name: str
    suffix: str
    data: bytes
    read: Callable[[Path], object]


def schedule(path):
    return sim.Schedule.load(path).staleness().mean()


def timeline(path):
    return len(sim.Timeline.load(path).samples)


def trace(path):
    found = sim.Trace.load(path)
    return found.staleness(), found.table()


RECIPE = pretraining.Recipe(width=8, layers=1, heads=1, hidden=8, context=8)


def weights(path):
    return pretraining.load(RECIPE.network(), path)


def log(given):
    def read(path):
        law = replay(path, **given)
        batches, _, samples = law.log.grid.shape
        return law.log.text(), law.schedule(batches, samples, 4, 1, 0).staleness()

    return read


def run_of_a_system():
    return a_run(eta=2, batch=3, places=5, samples=2, tokens=6, batches=6, seed=1)


def logs(run: Run):
    """Rows of a log under the names of every trainer, and what has to be declared beside them."""
    per = run.system.groups_per_batch * run.samples
    names = {name.lower().replace("-", "_"): name for name in WRITERS}
    for stack in _log_stacks.STACKS:
        if stack in names:
            rows, given = [WRITERS[names[stack]](row) for row in run.trained], {"stack": stack, "unknown": "keep"}
        else:
            # miles and slime: a version for each engine call.
            rows = [
                {
                    "index": row["sample"],
                    "group_index": row["group"],
                    "weight_versions": sorted(set(row["versions"])),
                    "response_length": 6,
                    "train_version": row["v_train"],
                    "t_start": row["t_start"],
                }
                for row in run.trained
            ]
            given = {"stack": stack, "unknown": "keep", "start_is": "start"}
        if stack == "pipeline_rl":
            rows = [
                {**row, "model_version": row["model_version"] * per, "train_version": row["train_version"] * per}
                for row in rows
            ]
            given["samples_per_publish"] = per
        yield stack, rows, given
    rows = [
        {
            "sample_id": row["sample"],
            "versions": [[0, row["v_start"]], [3, row["v_end"]]],
            "tokens": 6,
            "train_version": row["v_train"],
            "fate": row["fate"],
            "t_start": row["t_start"],
            "reward": 0.5,
        }
        for row in run.trained
    ]
    yield "own", rows, {"unit": "publishes", "unknown": "keep"}


def whole(folder: Path) -> list[Whole]:
    """Every file of the corpus, made in a folder."""
    run = run_of_a_system()
    parts = sim.methods.truncated_is(), sim.chain(sim.updates.sgd(0.1))
    spec = sim.Spec(sim.tasks.softmax_bandit(3), run.system, *parts, samples_per_group=2, updates=6, replicates=2)
    values = {
        "schedule": (run.schedule, schedule),
        "timeline": (run.system.timeline(6, 2, seed=1), timeline),
        "trace": (sim.run(spec, progress=False), trace),
    }
    found = []
    for name, (value, read) in values.items():
        value.save(folder / name)
        found.append(Whole(name, ".npz", (folder / name).read_bytes(), read))
    pretraining.save(RECIPE.network(), folder / "weights")
    found.append(Whole("weights", ".npz", (folder / "weights").read_bytes(), weights))
    for stack, rows, given in logs(run):
        for kind in ("csv", "jsonl", "parquet", "csv.gz", "jsonl.gz"):
            path = written(rows, kind)
            found.append(Whole(f"{stack}.{kind}", f".{kind}", path.read_bytes(), log(given)))
    return found
