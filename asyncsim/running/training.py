"""All blocks of one or several runs on their way, each trained by whoever is free: this process or a worker."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from asyncsim.base import files
from asyncsim.base.progress import Progress
from asyncsim.diagnostics._diagnostic import Hear
from asyncsim.running import spreading
from asyncsim.running.blocks import Block, Shared, computing
from asyncsim.running.callbacks import Callback, Recorded
from asyncsim.running.checkpoint import Keeper
from asyncsim.running.sources import Cut, Source
from asyncsim.running.spreading import Helpers, Piece, Site, Table, Watch
from asyncsim.running.updating import Standing


class Job(NamedTuple):
    """A run: what its blocks share, and its schedule."""

    shared: Shared
    source: Source


class Training:
    """The blocks of some runs; `table` has what each that was begun has left behind.

    `received`: signals so far; whoever trains stops behind its batch when there is one. `bar`, `keeper` and `callbacks`
    are of a single run.
    """

    def __init__(
        self,
        jobs: list[Job],
        site: Site,
        received: list[int],
        bar: Progress | None = None,
        keeper: Keeper | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.jobs, self.site, self.bar, self.keeper, self.callbacks = jobs, site, bar, keeper, callbacks
        self.table, self.watch = Table(received), Watch(site)
        self.helpers: Helpers | None = None
        self.pieces: list[Piece] = []

    def run(self) -> None:
        """Train until nothing is left, a signal ends it, or something fails, which is raised."""
        self._lay_out()
        try:
            piece = self.table.take()
            if self.site.ready:
                self._call_helpers([piece, *self.table.left] if piece is not None else [])
            while piece is not None or self._waiting():
                if piece is not None:
                    self._train(piece)
                piece = self.table.take()
        except BaseException:
            # Whatever ends this ends the workers as well.
            self.table.over = True
            self.site.close()
            raise
        finally:
            if self.helpers is not None:
                self.helpers.leave()
        if self.table.errors:
            raise self.table.errors[0]

    # What is trained.

    def _lay_out(self) -> None:
        """Blocks in their order; those of a checkpoint are over, and one that was under way goes on as it is."""
        start, keeper, table = 0, self.keeper, self.table
        for part in [] if keeper is None else keeper.parts:
            table.parts[0, start] = part
            start += len(part.parameters)
        if keeper is not None:
            keeper.begin()
            if keeper.standing is not None:
                table.left.append(Piece(0, start, start + len(keeper.standing["parameters"])))
                start = table.left[0].stop
        for number in range(len(self.jobs)):
            table.left += self._blocks(number, start if number == 0 else 0, self.site.ready)
        self.places = [first for (_, first) in table.parts] + [piece.start for piece in table.left]
        if self.bar is not None:
            trained = sum(len(part.parameters) for part in table.parts.values())
            self.bar.begin(self.bar.total * trained // self.jobs[0].shared.spec.replicates)

    def _blocks(self, job: int, start: int, shared: bool) -> list[Piece]:
        """Blocks of a run from a replicate on; where they are shared, so many that all have as much to do."""
        count = self.site.count
        shares = count // math.gcd(count, len(self.jobs)) if shared else 1
        least = 1 if self.site.asked is not None and len(self.jobs) < count else spreading.LEAST
        each = spreading.blocks(self.jobs[job].shared.spec, start, shares, least)
        return [Piece(job, block.start, block.stop) for block in each]

    def _train(self, piece: Piece) -> None:
        shared, keeper = self.jobs[piece.job].shared, self.keeper
        given_up = False

        def after(at: Standing) -> bool:
            nonlocal given_up
            made = at.batch * shared.spec.passes
            self._note(piece, made)
            if keeper is not None and at.batch < shared.batches:
                keeper.behind(shared.spec.passes, lambda: block.packed(at), bool(self.table.received))
            given_up = not self.watch.over and self._spread(piece, made)
            return given_up or self.table.stopped

        with computing(shared.spec):
            # What a block makes, its recorder and bound knobs, is on the run's device as well.
            block = Block(shared, self._cut(piece), keeper is not None, self._heard_by(piece))
            part = block.train(self._standing(block), after)
        if not given_up:
            self.table.parts[piece.job, piece.start] = part
            self._keep()

    def _cut(self, piece: Piece) -> Cut:
        return self.jobs[piece.job].source.cut(np.arange(piece.start, piece.stop))

    def _standing(self, block: Block) -> Standing:
        """Where a block begins: before its first batch, or where a checkpoint has left it."""
        keeper = self.keeper
        if keeper is None or keeper.standing is None:
            return block.begin()
        tree, keeper.standing = keeper.standing, None
        with files.decoding(keeper.path, "checkpoint file", "begin the run again", "resume"):
            at = block.restore(tree)
        if self.bar is not None:
            self.bar.begin(self.bar.done + at.batch * block.shared.spec.passes)
        return at

    def _keep(self) -> None:
        """Hand the keeper the blocks that are over, in their order."""
        if self.keeper is None:
            return
        for part in self.table.of(0)[len(self.keeper.parts) :]:
            if part.updates < self.jobs[0].shared.spec.updates:
                return
            last = len(self.keeper.parts) + 1 == len(self.places)
            self.keeper.finished(part, last or bool(self.table.received))

    def _heard_by(self, piece: Piece) -> Hear | None:
        """What the recorder of a block calls: the listener with a record of this block."""
        if not self.callbacks:
            return None
        updates = self.jobs[0].shared.spec.updates
        block, of = self.places.index(piece.start), len(self.places)
        numbers = np.arange(piece.start, piece.stop)
        numbers.flags.writeable = False

        def hear(update: int, metrics: dict[str, np.ndarray]) -> None:
            recorded = Recorded(update, updates, block, of, numbers, metrics)
            for callback in self.callbacks:
                callback(recorded)

        return hear

    # How far it is.

    def _note(self, piece: Piece, made: int) -> None:
        """Hear of a batch of a block that is trained here."""
        if self.helpers is not None:
            self.helpers.board[self.helpers.cell(piece)] = made
            self._look()
        elif self.bar is not None:
            self.bar.add(self.jobs[piece.job].shared.spec.passes)

    def _look(self) -> None:
        """Show what all have done together, and tell them when to stop."""
        assert self.helpers is not None
        if self.table.stopped:
            self.helpers.board[-1] = 1
        if self.bar is not None:
            share = self.helpers.share(self.pieces, self.jobs[0].shared.spec.updates)
            more = int(self.bar.total * share) - self.bar.done
            if more > 0:
                self.bar.add(more)

    def _waiting(self) -> bool:
        """Whether somebody trains elsewhere, or has given a block back."""
        if self.helpers is None:
            return False
        self._look()
        going = self.helpers.going()
        self._keep()
        return going or (bool(self.table.left) and not self.table.stopped)

    # Workers.

    def _spread(self, piece: Piece, made: int) -> bool:
        """Call helpers once that pays; whether the block is given up, since it is one of smaller ones now."""
        work = [(piece, made), *((each, 0) for each in self.table.left)]
        left = sum((each.stop - each.start) * (self.jobs[each.job].shared.spec.updates - done) for each, done in work)
        if not self.watch.pays(made * (piece.stop - piece.start), left):
            return False
        for job in self.jobs:
            self.site.fit(job.shared.spec)
        # Smaller ones from the first replicate of each run that is left.
        first = {each.job: each.start for each, _ in reversed(work)}
        smaller = [block for job in sorted(first) for block in self._blocks(job, first[job], True)]
        given_up = len(smaller) > len(work)
        return self._call_helpers(smaller if given_up else [each for each, _ in work], given_up) and given_up

    def _call_helpers(self, pieces: list[Piece], anew: bool = False) -> bool:
        """Let workers take all but one of the blocks that are left, which are others than before where `anew`."""
        count, updates = min(self.site.count, len(pieces)) - 1, self.jobs[0].shared.spec.updates
        if count < 1:
            if len(self.jobs) == 1:
                self.site.explain("all replicates that are left are in one block; block=N makes smaller ones")
            return False
        try:
            self.helpers = Helpers(self.site, self.table, [job.shared for job in self.jobs], self._cut)
        except spreading.Unsendable as reason:
            self.site.refuse(str(reason))
            return False
        # Note what is over.
        over = [Piece(*place, place[1] + len(part.parameters)) for place, part in self.table.parts.items()]
        for piece in over:
            self.helpers.board[self.helpers.cell(piece)] = updates
        self.pieces = [*over, *pieces]
        if anew:
            self.table.left = deque(pieces)
        if self.keeper is not None:
            self.keeper.whole(f"{self.site.count} workers train them side by side")
        self.helpers.start(count)
        return True
