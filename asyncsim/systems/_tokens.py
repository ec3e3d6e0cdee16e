"""Versions of single tokens: which weights were installed when a token was emitted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncsim.base import checks, records
from asyncsim.base.compiling import kept
from asyncsim.systems._state import State


class Writing(NamedTuple):
    """How samples are written: their server [s] and rate [s], first and last version [s], and their stretches.

    Stretches `first_stretch[s] .. first_stretch[s + 1]` of sample s begin at server clock `clock` with `done` units of
    work written; `marks` `[V, servers]` are the clocks at the installs.
    """

    server: np.ndarray
    rate: np.ndarray
    first: np.ndarray
    last: np.ndarray
    first_stretch: np.ndarray
    clock: np.ndarray
    done: np.ndarray
    marks: np.ndarray


@kept(nogil=True, error_model="numpy")
def _emit(writing, whole, version):
    """Versions of the tokens of samples, into `version` int32 [s, T]: token t when `whole * t / T` is done."""
    server, rate, first, last, first_stretch, clock, done, marks = writing
    tokens = version.shape[1]
    for i in range(version.shape[0]):
        stretch, current = first_stretch[i], first[i]
        version[i, 0] = current
        for t in range(1, tokens):
            target = whole[i] * t / tokens
            while stretch + 1 < first_stretch[i + 1] and done[stretch + 1] <= target:
                stretch += 1
            emission = clock[stretch] + (target - done[stretch]) / rate[i]
            while current < last[i] and marks[current, server[i]] <= emission:
                current += 1
            version[i, t] = current


def emit(writing: Writing, whole: np.ndarray, tokens: int) -> np.ndarray:
    """Version of every token, int32 `[s, T]`; a token emitted exactly at an install has the new version."""
    version = np.empty((whole.size, tokens), dtype=np.int32)
    _emit(writing, whole, version)
    return version


def stretches_of(
    code: np.ndarray, sample: np.ndarray, clock: np.ndarray, done: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stretches (first_stretch [s + 1], clock, done) of the given samples' last attempts, from a log in time order."""
    rank = np.zeros(int(max(code.max(initial=-1), sample.max(initial=-1))) + 2, dtype=np.int64)
    rank[code] = np.arange(1, code.size + 1)
    entries = np.flatnonzero(rank[sample] > 0)
    owner = rank[sample[entries]] - 1
    order = entries[np.argsort(owner, kind="stable")]
    owner, done, clock = np.sort(owner), done[order], clock[order]
    # Stretches before the last one that begins without work belong to attempts that were thrown away. An attempt may
    # begin so twice: after a failure before its first token, or an install right at its start. The last one counts.
    position = np.arange(owner.size)
    fresh = np.full(code.size, 0)
    np.maximum.at(fresh, owner[done == 0.0], position[done == 0.0])
    in_last_attempt = position >= fresh[owner]
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[in_last_attempt], minlength=code.size))])
    return first, clock[in_last_attempt], done[in_last_attempt]


def versions_of_servers(state: State) -> np.ndarray:
    """The version that each server has, int32 `[servers]`."""
    versions = state.server.version if state.settings.rolling else np.full(len(state.server), state.run.installed)
    return versions.astype(np.int32)


def writing_of(state: State, code: np.ndarray) -> Writing:
    """How the samples of the given rows are written; those in flight as if no install followed."""
    row = code // state.settings.samples
    place = state.group.place[row]
    first, last = state.sample.v_start[code], state.sample.v_end[code]
    if state.settings.stretched:
        count = int(state.run.stretches)
        log = state.stretch[:count]
        stretches = stretches_of(code, log.sample, log.clock, log.done)
    else:
        stretches = np.arange(code.size + 1), state.sample.clock[code], np.zeros(code.size)
    return Writing(
        place % int(state.settings.servers),
        state.rate[place],
        first,
        np.where(last < 0, versions_of_servers(state)[place % int(state.settings.servers)], last),
        *stretches,
        state.marks,
    )


def versions_of_tokens(state: State, code: np.ndarray, whole: np.ndarray, tokens: int) -> np.ndarray:
    """Version of every token of samples, int32 `[..., T]`: token t is emitted when `whole * t / T` of the work is done.

    A token emitted exactly at an install has the new version; the first is emitted at the start, whatever is installed
    at that instant. Samples in flight are versioned as if no install followed. `code` and `whole` of shape `[...]`.
    """
    flat = code.reshape(-1)
    version = emit(writing_of(state, flat), np.ascontiguousarray(whole).reshape(-1), tokens)
    return version.reshape(*code.shape, tokens)


def token_versions(record: records.Timeline, tokens: int | None = None) -> np.ndarray:
    """Version of every token of a timeline, int32 `[samples, T]`; -1 for tokens not generated by its end.

    Token t of T is emitted when the fraction t/T of the work is done, token 0 at the start.
    """
    tokens = int(record.header["tokens"]) if tokens is None else checks.integer("tokens", tokens, 1, "count tokens")
    # Select samples that have started.
    samples = record.samples
    begun = np.flatnonzero(samples["v_start"] >= 0)
    version = np.full((samples["sample"].size, tokens), -1, dtype=np.int32)
    first, whole = samples["v_start"][begun], samples["work"][begun]
    # Find the installs between their tokens.
    if record.header["mode"] in ("keep", "reprefill"):
        installs = len(record.publishes["version"])
        last = np.where(samples["v_ready"][begun] < 0, installs, samples["v_ready"][begun]).astype(np.int32)
        servers = int(record.header["servers"])
        marks = np.stack([record.publishes[f"clock_{s}"] for s in range(servers)], axis=1)
        log = record.stretches
        if len(log["sample"]):
            stretches = stretches_of(begun, log["sample"], log["clock"], log["done"])
        else:
            stretches = np.arange(begun.size + 1), samples["clock"][begun], np.zeros(begun.size)
        writing = Writing(samples["server"][begun], samples["rate"][begun], first, last, *stretches, marks)
        versions = emit(writing, whole, tokens)
    else:
        # Repeat the start version where it holds.
        versions = np.repeat(first[:, None].astype(np.int32), tokens, axis=1)
    # Mask tokens not yet generated.
    written = whole[:, None] * np.arange(tokens) / tokens <= samples["done"][begun][:, None]
    version[begun] = np.where(written, versions, np.int32(-1))
    return version
