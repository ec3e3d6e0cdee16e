"""A live run: actors and a learner as processes with real clocks, and what the event model predicts for it.

`running` has `run` and its result; `actor` is the process that generates, `admission` the desk between actors and
learner with the rows on disk, `board` the weights in shared memory. `meeting` compares a run with its prediction.
"""

from asyncsim.live.running import Live, Meeting, Predicted, predicted, run

__all__ = ["Live", "Meeting", "Predicted", "predicted", "run"]
