"""The distribution of staleness that a trainer's log follows, asked as of telemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asyncsim.diagnosing import ages
from asyncsim.diagnosing.diagnosis import expected_law
from asyncsim.diagnosing.findings import Finding, missing, settle

if TYPE_CHECKING:
    from asyncsim.schedules._log import Log

IDENTITY = "systems/mean-staleness-identity"


def log_law(log: Log, staleness: str | int | None = None) -> Finding:
    """Which named distribution the head staleness of a log follows, its batches taken as steps.

    Candidates and test are those of `diagnose`. Where the log stamps no first token the newest token's staleness
    stands in. One sample of unknown staleness is enough for "cannot tell": those that are known are a selection.

    Arguments: `log`, that of `schedules.replay(..., unknown="keep")`; `staleness`, what is expected, as in `diagnose`.
    Returns a `Finding` in versions, with verdict, 95 percent interval and claim. Raises `InputError` for an
    expectation that is none. Assumes batches long enough apart that stretches of a 24th of them are independent.
    Source: this package.

    >>> import pathlib, tempfile, asyncsim as sim
    >>> rows = [f"{k},{max(k - 2, 0)},{max(k - 2, 0)},{k}" for k in range(40)]
    >>> path = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("sample_id,start_version,end_version,train_version\\n" + "\\n".join([*rows, ""]))
    >>> found = log_law(sim.schedules.replay(path, unit="publishes").log)
    >>> found.verdict, found.cause, found.measured
    ('as predicted', 'constant staleness', 2.0)
    """
    expected = expected_law(staleness)
    used = log.samples["trained"]
    head = log.samples["head"][used]
    if not np.isfinite(head).any():
        head = log.samples["newest"][used]
    unknown = int((~np.isfinite(head)).sum())
    if unknown:
        text = f"The staleness of {unknown} of {len(head)} trained samples is not known."
        draft = missing(ages.QUESTION, IDENTITY, text, "Log start_version of every sample.")
    else:
        draft = ages.followed(ages.after_warm_up(log.samples["batch"][used], head.astype(np.int64)), expected)
    return settle([draft])[0]
