"""A timeline: one box per sample, colored by its staleness when trained; below, the staleness in each trained batch."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from asyncsim.base.records import Timeline
from asyncsim.plotting import _style
from asyncsim.plotting._perfetto import ages, written_until

BATCHES = 10
ROWS = 16
"""A page holds so many batches and so many rows of boxes; a remark says what is left out."""
LEVELS = 6
"""Colors of staleness; where there are more values, neighbors share one."""
LOOKS: dict[str, dict[str, Any]] = {
    "discarded": {"facecolor": "#e9ecef", "hatch": "//////", "edgecolor": _style.COLORS["muted"]},
    "not trained yet": {"facecolor": "white", "linestyle": ":", "edgecolor": _style.INK},
}
"""Boxes of samples that were not trained."""


def draw_timeline(timeline: Timeline) -> Figure:
    """Draw which slot generated each sample, and how stale the sample was when trained, for some batches."""
    page = Page(timeline)
    figure = _style.picture(_style.WIDTH, 1.9 + 0.16 * max(5, len(page.slots) * page.size))
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[max(5, len(page.slots) * page.size), 5])
    generation(upper, page)
    training(lower, page)
    for installed in timeline.publishes["t_install"]:
        if page.begin <= installed <= page.end:
            for ax in (upper, lower):
                ax.axvline(installed, color=_style.INK, linewidth=0.5, alpha=0.4, zorder=0)
    words = [page.words(k) + " versions old" * (k == 0) for k in range(len(page.levels) - 1)]
    handles = [Patch(facecolor=page.color(k), edgecolor=_style.INK, label=text) for k, text in enumerate(words)]
    used = {page.look(n)[0] for n in page.samples.tolist()}
    handles += [Patch(label=name, **look) for name, look in LOOKS.items() if name in used]
    upper.legend(handles=handles, ncols=len(handles), loc="upper center", bbox_to_anchor=(0.5, 0.0), handlelength=1.3)
    upper.set_title(page.finding())
    return figure


@dataclass(frozen=True)
class Page:
    """Content of a timeline's picture: an interval of time after the warm-up, and some slots."""

    timeline: Timeline

    @cached_property
    def shown(self) -> range:
        """Batches in the picture, up to that of the stalest group, without the warm-up on groups of version 0."""
        count = len(self.timeline.batches["batch"])
        first = self.timeline.groups["v_submit"] == 0
        warm = 1 + int(self.timeline.groups["batch"][first].max(initial=-1))
        warm = max(0, min(warm, count - BATCHES))
        late = np.flatnonzero(self.timeline.uses["batch"] >= warm)
        stop = 1 + int(self.timeline.uses["batch"][late[self.stale[late].argmax()]]) if len(late) else 0
        start = min(max(warm, stop - BATCHES), max(0, count - BATCHES))
        return range(start, min(count, start + BATCHES))

    @cached_property
    def begin(self) -> float:
        """Start of the pictured interval in seconds."""
        return 0.0 if self.shown.start == 0 else float(self.timeline.batches["t_start"][self.shown.start])

    @cached_property
    def end(self) -> float:
        """End of the pictured interval in seconds; one second after its start if nothing takes time."""
        seconds = float(self.timeline.header["seconds"])
        stop = float(self.timeline.batches["t_end"][self.shown.stop - 1]) if len(self.shown) else seconds
        stop = stop if math.isfinite(stop) else seconds
        return stop if stop > self.begin else self.begin + 1.0

    @cached_property
    def size(self) -> int:
        """Samples per group that are drawn in one slot; 1 if every row is the slot of one sample."""
        return 1 if self.packed else self._together

    @cached_property
    def _together(self) -> int:
        return max(1, int(np.bincount(self.timeline.samples["group"]).max(initial=0)))

    @cached_property
    def packed(self) -> bool:
        """Whether samples are drawn in rows of their own, since the slots of groups are many and half idle."""
        used, length = len(np.unique(self.timeline.samples["place"][self._written])), self.end - self.begin
        return used > ROWS and self._together > 1 and self._spent.sum() < 0.5 * used * self._together * length

    @cached_property
    def places(self) -> np.ndarray:
        """Slot in which every sample `[N]` is drawn: its group's, or, if `packed`, the first slot free at its start."""
        if not self.packed:
            return np.asarray(self.timeline.samples["place"])
        starts, ends = self.timeline.samples["t_start"], list[float]()
        lanes = np.full(len(starts), -1)
        for n in sorted(self._written.tolist(), key=lambda n: (starts[n], n)):
            lane = lanes[n] = next((k for k, end in enumerate(ends) if end <= starts[n]), len(ends))
            ends[lane : lane + 1] = [written_until(self.timeline, n, self.end)]
        return lanes

    @cached_property
    def slots(self) -> np.ndarray:
        """Slots in the picture: all slots in use, or an equally spaced selection of busy slots."""
        busy = np.bincount(self.places[self._written], weights=self._spent)
        used = np.unique(self.places[self._written])
        count = min(len(used), max(2, ROWS // self.size))
        if count < len(used):
            used = used[busy[used] >= min(0.5 * busy.max(), np.sort(busy)[-count])]
        return used[np.linspace(0, len(used) - 1, count).round().astype(int)] if count else used

    @cached_property
    def _spent(self) -> np.ndarray:
        """Seconds within the interval of every sample in `_written`."""
        stops = np.array([written_until(self.timeline, n, self.end) for n in self._written.tolist()], dtype=float)
        return stops - np.maximum(self.timeline.samples["t_start"][self._written], self.begin)

    @cached_property
    def _written(self) -> np.ndarray:
        """Rows of all samples that are generated in the interval."""
        table = self.timeline.samples
        rows = np.flatnonzero((table["v_start"] >= 0) & (table["t_start"] < self.end))
        stops = [written_until(self.timeline, n, self.end) for n in rows.tolist()]
        return rows[np.array(stops, dtype=float) > self.begin]

    @cached_property
    def samples(self) -> np.ndarray:
        """Indices of the samples in the picture."""
        return self._written[np.isin(self.places[self._written], self.slots)]

    @cached_property
    def ages(self) -> np.ndarray:
        """Staleness of every sample's first token when first trained, in versions; see `ages`."""
        return ages(self.timeline)

    @cached_property
    def stale(self) -> np.ndarray:
        """Staleness of the group in every use of a group by a batch, in versions."""
        uses = self.timeline.uses
        return self.timeline.batches["version"][uses["batch"]] - self.timeline.groups["v_start"][uses["group"]]

    @cached_property
    def trained(self) -> list[np.ndarray]:
        """Staleness of the groups in every batch of the picture, in versions."""
        return [self.stale[self.timeline.uses["batch"] == number] for number in self.shown]

    @cached_property
    def levels(self) -> np.ndarray:
        """Minimum staleness of every color, from 0, and the maximum plus 1, at quantiles of the pictured staleness."""
        found = np.concatenate([[0], self.ages[self.samples], *self.trained]).clip(0)
        if found.max() < LEVELS:
            return np.arange(found.max() + 2)
        shares = np.quantile(found, np.linspace(0, 1, LEVELS + 1)[1:-1]).round().astype(int)
        tail = math.ceil(math.sqrt(max(1, shares[-1]) * found.max()))
        return np.unique([0, *shares, tail, found.max() + 1])

    def level(self, age: Any) -> Any:
        """Index of the color of a staleness."""
        return np.searchsorted(self.levels, age, side="right") - 1

    def color(self, level: int) -> Any:
        """Color of a staleness level."""
        return _style.staleness(level / max(1, len(self.levels) - 2))

    def words(self, level: int) -> str:
        """Range of staleness of a color level, as text."""
        least, most = self.levels[level], self.levels[level + 1] - 1
        return f"{least}" if least == most else f"{least}–{most}"

    def look(self, n: int) -> tuple[str, dict[str, Any]]:
        """Fate of a sample (trained, discarded, unfinished), and the style of its box."""
        if self.ages[n] >= 0:
            return "trained", {"facecolor": self.color(self.level(self.ages[n])), "edgecolor": _style.INK}
        fate = str(self.timeline.samples["fate"][n])
        name = "not trained yet" if fate == "unfinished" else "discarded"
        return name, LOOKS[name]

    def finding(self) -> str:
        """Title of the picture: mean staleness of the trained data, and the discarded fraction, after the warm-up."""
        name = self.timeline.header.get("name", "system")
        groups, late = self.timeline.groups, self.timeline.uses["batch"] >= self.shown.start
        if not late.any():
            return f"{name}: nothing is trained"
        over = (groups["t_left"] >= self.begin) & (groups["fate"] != "unfinished")
        lost = float(np.mean(groups["fate"][over] != "trained")) if over.any() else 0.0
        mean, most = self.stale[late].mean(), self.stale[late].max()
        text = f"{name}: trained data is {mean:.1f} versions old on average, at most {most}"
        return text + (f", and {lost:.0%} of groups are discarded" if lost > 0.0 else "")


def generation(ax: Axes, page: Page) -> None:
    """Draw a box for the generation of every sample; boxes of one group are adjacent in their slot."""
    rows = page.size * len(page.slots)
    row = np.searchsorted(page.slots, page.places) * page.size
    for n in page.samples.tolist():
        start = float(page.timeline.samples["t_start"][n])
        stop = written_until(page.timeline, n, page.end)
        top = row[n] + int(page.timeline.samples["sample"][n]) % page.size - 0.4
        _, look = page.look(n)
        ax.add_patch(Rectangle((start, top), stop - start, 0.8, linewidth=0.6, **look))
        if page.ages[n] == page.stale.max(initial=0) > LEVELS:
            middle = (max(start, page.begin) + stop) / 2
            words = f"{page.ages[n]} versions old"
            ax.text(middle, top + 0.4, words, ha="center", va="center", color="white", fontsize=7.0, clip_on=True)
    every = math.ceil(len(page.slots) / 8)
    places = page.size * np.arange(len(page.slots))[::every] + (page.size - 1) / 2
    label = f"{'sample' if page.packed else 'generator'} slot{' (a row a sample)' * (page.size > 1)}"
    ax.set(ylim=(rows - 0.4, -0.6), ylabel=label, yticks=places)
    ax.set_yticklabels([str(slot) for slot in page.slots[::every]])
    ax.tick_params(labelbottom=False)


def training(ax: Axes, page: Page) -> None:
    """Draw every trained batch as a column of its groups' staleness, maximum on top, with numbers if they fit."""
    batches = page.timeline.batches
    thin = 0.004 * (page.end - page.begin)
    for number, stale in zip(page.shown, page.trained, strict=True):
        start, stop = float(batches["t_start"][number]), float(batches["t_end"][number])
        width = max(min(stop if math.isfinite(stop) else page.end, page.end) - start, thin)
        # Groups of one color are one box.
        levels, counts = np.unique(page.level(stale), return_counts=True)
        edges = np.concatenate([[0], np.cumsum(counts)]) / max(1, len(stale))
        for level, low, high in zip(levels.tolist(), edges[:-1], edges[1:], strict=True):
            color = page.color(level)
            ax.add_patch(Rectangle((start, low), width, high - low, facecolor=color, edgecolor="white", linewidth=0.6))
            if high - low >= 0.15 and width >= 0.04 * (page.end - page.begin):
                text = ax.text(start + width / 2, (low + high) / 2, page.words(level), ha="center", va="center")
                text.set(fontsize=7.0, clip_on=True, color="white" if sum(color[:3]) < 1.5 else _style.INK)
    ax.set(ylim=(0, 1), yticks=[0.5], xlim=(page.begin, page.end))
    ax.set_yticklabels(["trained\nbatches"])
    slots, count = len(np.unique(page.places[page.places >= 0])), len(page.timeline.batches["batch"])
    parts = [f"{len(page.shown)} of {count} batches, up to the stalest"] * (count > len(page.shown))
    rows = f", {page.size} rows each" * (page.size > 1)
    parts += [f"{len(page.slots)} of {slots} slots{rows}"] * (slots > len(page.slots))
    shown = "; shown: " + ", ".join(parts) if parts else ""
    ax.set_xlabel("simulated time (s); vertical lines: new weights" + shown)
