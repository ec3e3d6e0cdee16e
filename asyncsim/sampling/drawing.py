"""When trajectories are drawn: as late as their training, or as early as their weights are current.

All give equal bits for a policy that computes rows independently; they differ in the weights that are kept.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from asyncsim.base import checks
from asyncsim.sampling.rollouts import SAMPLING, Asked, Sampler, Trajectories, generate, generate_each, rolled_out
from asyncsim.step import versions
from asyncsim.step.batch import Batch
from asyncsim.step.step import Step
from asyncsim.step.versions import Store, Weights, current


class Late:
    """Samples each batch when it is trained, from weights kept since their publish."""

    def __init__(self, sampler: Sampler, feed: Any, sampling: str) -> None:
        self.sampler, self.feed, self.sample = sampler, feed, SAMPLING[sampling]
        self.store = Store(sampler.realization)
        self.world: Any = None
        self.last = np.full((1, 1, 1), -1, dtype=np.int32)

    def publish(self, version: int, weights: Weights) -> None:
        """Keep the weights of a published version."""
        self.store.put(version, self.sampler.installed(version, weights))

    def take(self, batch: int, train_version: int) -> Batch:
        """Sample the trajectories of a batch that is trained now."""
        version, trajectory = self.feed.take(batch, self.lengths)
        if self.sampler.task.segments:
            # Batch b holds the b-th segment of every slot, none under older weights than the one before ended with.
            expected = batch * trajectory[0].size + np.arange(trajectory[0].size)
            ordered = (trajectory.reshape(len(trajectory), -1) == expected).all()
            fits = bool(ordered and (version[..., 0] >= self.last).all())
            bound = "one that handles every segment in the order of its slot"
            remedy = "use an imposed schedule, or trajectory='episode'"
            given = f"one that generates or trains segments out of order (batch {batch})"
            checks.require(fits, "system", given, bound, remedy)
            self.last = version[..., -1]
        view = self.store.view(version)
        data = self.sample(self.sampler, version, train_version, trajectory, view, self.world)
        self.world = data.after
        self.store.retire(self.feed.retired(batch))
        return data

    def packed(self) -> dict[str, Any]:
        """State between two batches, in plain containers; the inverse of `restore`."""
        world = self.sampler.task.packed(self.world)
        return {"store": self.store.packed(), "world": world, "last": self.last}

    def restore(self, tree: dict[str, Any], batch: int) -> None:
        """Restore the state that `packed` returned, before `batch` is sampled."""
        self.store.restore(tree["store"])
        self.world, self.last = self.sampler.task.unpacked(tree["world"]), tree["last"]

    def lengths(self, realization: np.ndarray, trajectory: np.ndarray, token_version: np.ndarray) -> np.ndarray:
        """Tokens per trajectory, float64 [k], of coupled trajectories [k] with token versions [k, T] known so far."""
        R = len(self.sampler.replicates)
        # Place of every trajectory among those of its realization.
        column = np.zeros(len(realization), dtype=np.int64)
        for r in np.unique(realization):
            members = realization == r
            column[members] = np.arange(members.sum())
        ids = np.zeros((R, 1, int(column.max()) + 1), dtype=np.int64)
        versions = np.full((*ids.shape, token_version.shape[1]), int(token_version.max()), dtype=np.int32)
        ids[realization, 0, column] = trajectory
        versions[realization, 0, column] = token_version
        view, sampler = self.store.view(versions), self.sampler
        trajectories = generate(sampler, view, sampler.draws(ids), sampler.prompts(ids))
        return trajectories.mask.sum(-1).cpu().numpy()[realization, 0, column]


class Early:
    """Samples each token when its version is current and keeps no weights, for weights too large to keep."""

    def __init__(self, sampler: Sampler, feed: Any, sampling: str) -> None:
        checks.one_of("sampling", sampling, ("monte_carlo",), "early drawing works on samples; use drawing='late'")
        self.sampler, self.feed = sampler, feed
        self.pending: dict[int, Trajectories] = {}
        schedule = feed.schedule
        bound = "late where the versions of a trajectory go back"
        remedy = "its tokens would be drawn before those in front of them; use drawing='late'"
        checks.require(bool((np.diff(schedule.version, axis=-1) >= 0).all()), "drawing", "early", bound, remedy)
        self.due: dict[int, list[int]] = {}
        for batch in range(schedule.batches):
            for version in np.unique(schedule.version[:, batch]):
                self.due.setdefault(int(version), []).append(batch)

    def publish(self, version: int, weights: Weights) -> None:
        """Sample every token that later batches need from this version."""
        view, schedule = current(self.sampler.installed(version, weights)), self.feed.schedule
        batches, asked = self.due.pop(version, []), []
        for batch in batches:
            tokens = schedule.version[:, batch][self.sampler.realization] == version
            where = np.broadcast_to(tokens, (*tokens.shape[:3], self.sampler.task.horizon)).copy()
            asked.append(Asked(np.asarray(schedule.trajectory[:, batch]), self.pending.get(batch), where))
        if asked:
            self.pending |= zip(batches, generate_each(self.sampler, view, asked, 1), strict=True)

    def take(self, batch: int, train_version: int) -> Batch:
        """Return the trajectories of a batch, which were sampled earlier."""
        version, trajectory = self.feed.take(batch, None)
        trajectories = self.pending.pop(batch)
        reward = self.sampler.earned(trajectories, self.sampler.draws(trajectory))
        origin = version, train_version, trajectory, None
        return self.sampler.batch(trajectories, reward, self.sampler.samples, origin)

    def packed(self) -> dict[str, Any]:
        """Trajectories sampled for later batches, in plain containers; the inverse of `restore`."""
        return {"pending": {batch: drawn.packed(self.sampler.policy) for batch, drawn in self.pending.items()}}

    def restore(self, tree: dict[str, Any], batch: int) -> None:
        """Restore the state that `packed` returned, before `batch`, whose version, if due, is still unpublished."""
        self.pending = {at: Trajectories.unpacked(drawn, self.sampler.policy) for at, drawn in tree["pending"].items()}
        publishes = self.feed.schedule.batches_per_publish
        self.due = {version: batches for version, batches in self.due.items() if version * publishes >= batch}


class Ahead:
    """Samples trajectories of a coupled system when their lengths are needed, and keeps them instead of weights.

    Only versions that are still installed on some generator are kept. If weights are installed while a trajectory is in
    flight, its later tokens are drawn again.
    """

    def __init__(self, sampler: Sampler, feed: Any, sampling: str) -> None:
        checks.one_of("sampling", sampling, ("monte_carlo",), "early drawing works on samples; use drawing='late'")
        remedy = "what is drawn early is kept for one use; use drawing='late'"
        checks.require(not feed.reuses, "max_uses", "more than one", "1 in a coupled system drawn early", remedy)
        self.sampler, self.feed = sampler, feed
        self.store = Store(sampler.realization)
        self.drawn: dict[tuple[int, int], _Drawn] = {}

    def publish(self, version: int, weights: Weights) -> None:
        """Keep the weights of a published version until no generator uses them."""
        self.store.put(version, self.sampler.installed(version, weights))

    def take(self, batch: int, train_version: int) -> Batch:
        """Return the trajectories of a batch, which were sampled when their lengths were needed."""
        version, trajectory = self.feed.take(batch, self.lengths)
        M, G, N = trajectory.shape
        rows = [self.drawn.pop((m, int(i))) for m in range(M) for i in trajectory[m].reshape(-1)]
        trajectories = _stack(rows, (M, G, N))
        self.store.retire(self.feed.uninstalled())
        reward = self.sampler.earned(trajectories, self.sampler.draws(trajectory))
        origin = version, train_version, trajectory, None
        return self.sampler.batch(trajectories, reward, self.sampler.samples, origin)

    def lengths(self, realization: np.ndarray, trajectory: np.ndarray, token_version: np.ndarray) -> np.ndarray:
        """Tokens per trajectory, float64 [k], of coupled trajectories [k] with token versions [k, T] known so far."""
        tokens = np.empty(len(trajectory))
        for m in np.unique(realization):
            members = np.flatnonzero(realization == m)
            fresh = np.array([k for k in members if (m, trajectory[k]) not in self.drawn], dtype=np.int64)
            # Fresh ones are drawn together, those in flight each by itself.
            parts = ([fresh] if len(fresh) else []) + [np.array([k]) for k in np.setdiff1d(members, fresh)]
            self._draw(int(m), [(trajectory[part], token_version[part]) for part in parts])
            for k in members:
                group, n, _ = self.drawn[m, trajectory[k]]
                tokens[k] = float(group.mask[0, 0, n].sum())
        return tokens

    def packed(self) -> dict[str, Any]:
        """Installed weights, and trajectories sampled for later batches, in plain containers; see `restore`."""
        # Trajectories that were drawn together share their columns.
        groups = {id(group): group for group, _, _ in self.drawn.values()}
        place = {key: number for number, key in enumerate(groups)}
        return {
            "store": self.store.packed(),
            "groups": [group.packed(self.sampler.policy) for group in groups.values()],
            "drawn": [[m, i, place[id(group)], n, version] for (m, i), (group, n, version) in self.drawn.items()],
        }

    def restore(self, tree: dict[str, Any], batch: int) -> None:
        """Restore the state that `packed` returned, before `batch` is sampled."""
        self.store.restore(tree["store"])
        groups = [Trajectories.unpacked(group, self.sampler.policy) for group in tree["groups"]]
        self.drawn = {(m, i): (groups[place], n, version) for m, i, place, n, version in tree["drawn"]}

    def _draw(self, m: int, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Draw trajectories of one realization, with ids `[k]` and versions `[k, T]` of each part."""
        one = replace(self.sampler, replicates=self.sampler.replicates[m : m + 1], realization=np.zeros(1, int))
        due: list[_Due] = []
        for ids, version in parts:
            before, changed, drawn = self.drawn.get((m, int(ids[0]))), np.ones(version.shape, dtype=bool), None
            if before is not None:
                changed = np.maximum.accumulate(version != before[2], axis=1)
                if not changed.any():
                    # The same call again: after a restart, or an install behind the last token.
                    continue
                drawn = self._single(before)
                # Tokens behind the first one drawn anew are masked: the response may now end earlier.
                drawn.mask[..., int(changed.argmax()) + 1 :] = 0.0
            due.append(_Due(ids, version, changed, drawn))
        for v in sorted({int(v) for each in due for v in np.unique(each.version[each.changed])}):
            wanted = [(each, (each.changed & (each.version == v))[None, None]) for each in due]
            wanted = [(each, where) for each, where in wanted if where.any()]
            view = current({name: w[m : m + 1] for name, w in self.store.kept[v].items()})
            asked = [Asked(each.ids.reshape(1, 1, -1), each.drawn, where) for each, where in wanted]
            for (each, _), drawn in zip(wanted, generate_each(one, view, asked, 2), strict=True):
                each.drawn = drawn
        for each in due:
            assert each.drawn is not None
            for n, i in enumerate(each.ids.tolist()):
                self.drawn[m, i] = (each.drawn, n, each.version[n : n + 1].copy())

    def _single(self, drawn: "_Drawn") -> Trajectories:
        """One trajectory out of those that were drawn together, as a copy."""
        group, n, _ = drawn

        def own(column: Any) -> Any:
            # A copy, since the group's columns still belong to the others.
            return None if column is None else column[:, :, n : n + 1].clone()

        outputs = {name: own(value) for name, value in group.outputs.items()}
        memory, inserted = self.sampler.policy.recall(group.memory, n), own(group.inserted)
        columns = own(group.state), own(group.action), own(group.mask)
        return Trajectories(*columns, outputs, memory=memory, inserted=inserted)


@dataclass
class _Due:
    """Trajectories `ids` `[k]` with the versions of their tokens, a mask of tokens to draw, and earlier tokens."""

    ids: np.ndarray
    version: np.ndarray
    changed: np.ndarray
    drawn: Trajectories | None


_Drawn = tuple[Trajectories, int, np.ndarray]
"""Trajectories drawn together, the index of one among them, and the versions `[1, T]` of its tokens."""


def _stack(rows: list[_Drawn], shape: tuple[int, int, int]) -> Trajectories:
    """Stack single trajectories into one block `[R, G, N, T, ...]`."""

    def join(parts: list[Tensor]) -> Tensor:
        whole = torch.stack([part[0, 0, n] for part, (_, n, _) in zip(parts, rows, strict=True)])
        return whole.reshape(*shape, *whole.shape[1:])

    groups = [group for group, _, _ in rows]
    trajectories = Trajectories(join([g.state for g in groups]), None, join([g.mask for g in groups]))
    trajectories.action = join([g.action for g in groups if g.action is not None])
    trajectories.outputs = {name: join([g.outputs[name] for g in groups]) for name in groups[0].outputs}
    replies = [g.inserted for g in groups if g.inserted is not None]
    trajectories.inserted = join(replies) if replies else None
    return trajectories


class Arriving:
    """Source of batches whose rewards may arrive late; see `asyncsim.rewards`."""

    def __init__(self, source: Any, rewards: Any) -> None:
        self.source, self.rewards, self.publish = source, rewards, source.publish

    def take(self, batch: int, train_version: int) -> Batch:
        """Return the trajectories of a batch with the rewards that have arrived."""
        data = self.source.take(batch, train_version)
        return self.rewards.arriving(data, self.source.sampler.draws(data.trajectory).sibling("late"), batch)


DRAWING = {"late": Late, "early": Early}
COUPLED = {"late": Late, "early": Ahead}
"""The sources for a system that takes its lengths from the policy."""
SHARE, FEWEST, MOST = 8, 4, 32
"""One evaluation per `SHARE` batches, but at least `FEWEST` and at most `MOST` in a run."""


class Evaluation(NamedTuple):
    """Plan of evaluations during a run: updates, samples per evaluation, and tokens sampled per trained token."""

    updates: tuple[int, ...]
    samples: int
    cost: float

    def __str__(self) -> str:
        plural = "" if self.samples == 1 else "s"
        at = f"{len(self.updates)} updates, +{100.0 * self.cost:.2g} % of samples"
        return f"on {self.samples} fresh sample{plural} of the current weights at {at}"


def evaluation(spec: Any) -> Evaluation:
    """Plan evaluations for a batch's number of tokens, at evenly spaced updates from the first to the last."""
    batches, recorded = max(1, spec.updates // spec.passes), -(-spec.updates // spec.every)
    count = min(recorded, max(FEWEST, min(MOST, batches // SHARE)))
    tokens = spec.groups * spec.samples * spec.task.horizon
    horizon = getattr(spec.fitted_task, "whole", spec.task).horizon
    samples = max(1, tokens // horizon)
    rows = np.unique(np.linspace(0, recorded - 1, count).round().astype(int))
    return Evaluation(tuple((rows * spec.every).tolist()), samples, len(rows) * samples * horizon / (batches * tokens))


class Fresh:
    """Samples a block's evaluations from random keys of their own, so that no other draw changes."""

    def __init__(self, sampler: Sampler, planned: Evaluation) -> None:
        seed = int(np.random.SeedSequence([sampler.seed, MOST]).generate_state(1, np.uint64)[0] >> 1)
        self.number = {update: number for number, update in enumerate(planned.updates)}
        self.samples, one = planned.samples, np.zeros_like(sampler.realization)
        task = getattr(sampler.task, "whole", sampler.task)
        self.sampler = replace(sampler, task=task, samples=1, seed=seed, realization=one, redundant=0)

    def __call__(self, step: Step) -> Tensor:
        """Mean reward of samples from the weights before the update, `[R]`, with the task's penalty; else NaN."""
        number, sampler = self.number.get(step.update), self.sampler
        if number is None:
            return torch.full((len(sampler.replicates),), torch.nan, dtype=torch.float64)
        # Each sample asks the next prompt, so that evaluations together ask all of them equally often.
        ids = (number * self.samples + np.arange(self.samples)).reshape(1, -1, 1)
        view = versions.current(step.weights)
        drawn, reward = rolled_out(sampler, view, sampler.draws(ids), sampler.prompts(ids))
        batch = sampler.batch(drawn, reward, 1, (ids[..., None] * 0, 0, ids, view), torch.ones_like(reward[:1]))
        return sampler.task.reward(batch, batch.behavior).double().mean((1, 2))
