"""Check a device against the CPU: agreement, number formats, speed and memory of a small model."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asyncsim import methods, policies, schedules, tasks, updates
from asyncsim.base import checks
from asyncsim.base.manifest import manifest
from asyncsim.policies._language_network import FORMATS
from asyncsim.policies.causal_lm import CausalLM
from asyncsim.running.callbacks import Recorded
from asyncsim.running.running import run
from asyncsim.running.spec import Spec
from asyncsim.sampling.rollouts import Sampler, generate
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.updates._link import chain

BOUNDS = {"log-probs, nats": 1e-4, "gradient, relative": 1e-3, "greedy tokens, share": 0.0, "resumed run": 0.0}
"""Maximum deviation that counts as rounding in float32; discrete results have to be equal."""
MISMATCH = ("mismatch_variance", "ess_mismatch", "kl_mismatch")


@dataclass(frozen=True)
class Size:
    """Size of the model and its batches, and the seconds for which each speed is measured."""

    width: int
    layers: int
    groups: int
    samples: int
    horizon: int
    seconds: float

    def policy(self, **settings: Any) -> CausalLM:
        """A character model of random weights, equal on every machine, with a low temperature so that tokens differ."""
        heads = max(1, self.width // 64)
        shape = {"width": self.width, "layers": self.layers, "heads": heads, "hidden": 4 * self.width, "steps": 0}
        return policies.causal_lm("char", recipe=shape, **{"temperature": 0.25, **settings})

    def spec(self, device: str, length: int, **changes: Any) -> Spec:
        """Spec of `length` updates at staleness 1 on sums of two digits."""
        settings: dict[str, Any] = {
            "task": tasks.arithmetic(digits=2, prompts=self.groups, horizon=self.horizon),
            "system": schedules.fixed(1, groups_per_batch=self.groups),
            "method": methods.reinforce(),
            "update": chain(updates.clip_norm(1.0), updates.adam(1e-4)),
            "policy": self.policy(),
            "diagnostics": ["batch_return"],
        }
        sizes = {"samples_per_group": self.samples, "updates": length, "replicates": 1}
        return Spec(**{**settings, **sizes, "device": device, **changes})


SIZES = {"cpu": Size(128, 4, 8, 8, 16, 10.0), "cuda": Size(768, 12, 32, 16, 64, 10.0)}
QUICK = Size(16, 1, 2, 2, 4, 0.0)
"""A size for fast tests."""


def check(device: str | torch.device, size: Size | None = None) -> dict[str, Any]:
    """Results of all checks of a device, in plain containers; `holds` says whether it agrees with the CPU."""
    kind = device.type if isinstance(device, torch.device) else device.partition(":")[0]
    checks.one_of("device", kind, list(SIZES), "choose where to compute")
    checks.require(versions.at_hand(kind), "device", kind, versions.AT_HAND, "use device cpu")
    size = size or SIZES[kind]
    made = {key: value for key, value in manifest(device=kind).items() if key not in ("spec", "seed")}
    report = {"device": kind, "weights": size.policy().size, "driver": driver() if kind == "cuda" else None, **made}
    deviations = dict(zip(BOUNDS, [*agreement(kind, size), resumed(kind, size)], strict=True))
    report["agreement"] = [
        {"name": name, "deviation": value, "bound": BOUNDS[name], "holds": value <= BOUNDS[name]}
        for name, value in deviations.items()
    ]
    report |= {"formats": list(formats(kind, size)), "speed": speed(kind, size)}
    return report | {"holds": all(row["holds"] for row in report["agreement"])}


def driver() -> str | None:
    """Version of the GPU's driver; None if the driver's command-line tool is missing."""
    with suppress(OSError, subprocess.SubprocessError):
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(words, capture_output=True, timeout=10, check=True, text=True).stdout.split()[0]
    return None


def drawn(policy: CausalLM, size: Size, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """Sample responses on a device: prompts, tokens int64 `[1, G, N, T]`, and the mask of generated tokens."""
    task = tasks.arithmetic(digits=2, prompts=size.groups, horizon=size.horizon)
    ids = np.arange(size.groups * size.samples).reshape(1, size.groups, size.samples)
    with torch.no_grad(), versions.threads(policy.threads), versions.on(device):
        sampler = Sampler(task.fit(policy), policy, size.samples, 0, np.arange(1), np.zeros(1, dtype=np.int64))
        view = versions.current(policy.prepare(policy.initial(1)))
        made = generate(sampler, view, sampler.draws(ids), sampler.prompts(ids))
    assert made.action is not None
    return made.state.cpu(), made.action.cpu(), made.mask.cpu()


def scored(policy: CausalLM, columns: tuple[Tensor, Tensor, Tensor], device: str) -> tuple[Tensor, Tensor]:
    """Log-probs of sampled tokens `[1, G, N, T]` and a gradient `[1, P]`, computed on a device."""
    with torch.no_grad(), versions.threads(policy.threads), versions.on(device):
        state, action, mask = (each.to(device) for each in columns)
        nothing = torch.zeros(mask.shape[:3])
        batch = Batch.of_nobody(action, state, mask, nothing, nothing, mask.shape[2])
        made = policy.forward(versions.current(policy.prepare(policy.initial(1))), batch, ("log_prob",))
        # Every token counts with a weight of its own, so that no two of them can stand for each other.
        weight = torch.linspace(-1.0, 1.0, mask.numel()).reshape(mask.shape)
        return (made.outputs["log_prob"] * mask).cpu(), made.pullback({"log_prob": weight * mask}).cpu()


def agreement(device: str, size: Size) -> Iterator[float]:
    """Deviations of a device's log-probs, gradient and greedy tokens from the CPU's, on at most 256 tokens."""
    # A CPU takes minutes for what a card does in a second.
    size = replace(size, groups=min(4, size.groups), samples=min(4, size.samples), horizon=min(16, size.horizon))
    policy = size.policy()
    columns = drawn(policy, size, "cpu")
    (plain, slope), (found, other) = (scored(policy, columns, each) for each in ("cpu", device))
    yield float((plain - found).abs().max())
    yield float((slope - other).norm() / slope.norm())
    greedy = [drawn(size.policy(top_k=1), size, each) for each in ("cpu", device)]
    yield float(((greedy[0][1] != greedy[1][1]) & (greedy[0][2] + greedy[1][2] > 0)).double().mean())


class Enough(Exception):
    """Exception with which a callback ends a run."""


def resumed(device: str, size: Size) -> float:
    """Maximum parameter difference between an uninterrupted run and two runs resumed from one checkpoint."""

    def stop(recorded: Recorded) -> None:
        if recorded.update == 2:
            raise Enough

    def made() -> Spec:
        return size.spec(device, 4)

    whole, gaps = run(made(), 0, False), []
    with tempfile.TemporaryDirectory(prefix="asyncsim-") as folder:
        file = Path(folder) / "run.npz"
        with suppress(Enough):
            run(made(), 0, False, file, "1 updates", callback=stop)
        for number in range(2):
            copy = shutil.copyfile(file, Path(folder) / f"{number}.npz")
            gaps.append(np.abs(run(made(), 0, False, resume=copy).parameters - whole.parameters).max())
    return float(max(gaps))


def formats(device: str, size: Size) -> Iterator[dict[str, Any]]:
    """Sampler-trainer mismatch at equal weights: the sampler in each number format, the trainer in it or float32."""
    for sampler in FORMATS:
        for compute in dict.fromkeys(("float32", sampler)):
            with suppress(checks.InputError):
                policy = size.policy(sampler=sampler, compute=compute)
                changes = {
                    "policy": policy,
                    "system": schedules.fixed(0, groups_per_batch=size.groups),
                    "update": chain(updates.sgd(0.0)),
                    "diagnostics": MISMATCH,
                }
                trace = run(size.spec(device, 1, **changes), 0, False)
                numbers = {name: float(trace[name][-1, 0]) + 0.0 for name in MISMATCH}
                yield {"sampler": sampler, "trainer": compute, **numbers}


def speed(device: str, size: Size) -> dict[str, float | None]:
    """Tokens sampled per second, updates per minute, and peak device memory in bytes, in total and per weight."""
    cuda, policy = device == "cuda", size.policy()
    drawn(policy, size, device)  # what is made once is not counted
    tokens, begun = 0.0, time.perf_counter()
    while tokens == 0.0 or time.perf_counter() - begun < size.seconds:
        tokens += float(drawn(policy, size, device)[2].sum())
    rate = tokens / (time.perf_counter() - begun)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    stamps: list[float] = []

    def stamp(_: Recorded) -> None:
        stamps.append(time.perf_counter())
        # The first updates load what later ones have.
        if len(stamps) > 3 and stamps[-1] - stamps[2] > size.seconds:
            raise Enough

    with suppress(Enough):
        run(size.spec(device, 10_000), 0, False, callback=stamp)
    peak = torch.cuda.max_memory_allocated() if cuda else None
    return {
        "tokens_a_second": rate,
        "updates_a_minute": 60.0 * (len(stamps) - 3) / (stamps[-1] - stamps[2]),
        "peak_bytes": peak,
        "peak_bytes_a_weight": None if peak is None else peak / policy.size,
    }


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Lines of the device report, at most 80 columns wide."""
    yield f"{report['device']}: {report['accelerator'] or report['cpu']}"[:80]
    driver = f"driver {report['driver']}, " if report["driver"] else ""
    yield f"{driver}torch {report['libraries']['torch']}, {report['weights']:,} weights"[:80]
    yield ""
    yield f"{'against the CPU':24}{'deviation':>12}{'at most':>12}"
    for row in report["agreement"]:
        word = "holds" if row["holds"] else "DIFFERS"
        yield f"{row['name']:24}{row['deviation']:12.2e}{row['bound']:12g}  {word}"
    yield ""
    yield f"{'sampler':12}{'trainer':12}{'variance, nats^2':>18}{'ESS/N':>10}{'KL, nats':>12}"
    for row in report["formats"]:
        numbers = f"{row['mismatch_variance']:18.2e}{row['ess_mismatch']:10.4f}{row['kl_mismatch']:12.2e}"
        yield f"{row['sampler']:12}{row['trainer']:12}{numbers}"
    yield ""
    found = report["speed"]
    yield f"{found['tokens_a_second']:,.0f} tokens per second, {found['updates_a_minute']:,.1f} updates per minute"
    if found["peak_bytes"] is not None:
        share = found["peak_bytes_a_weight"]
        yield f"peak memory {found['peak_bytes'] / (1 << 30):.2f} GiB, {share:.1f} bytes a weight"
