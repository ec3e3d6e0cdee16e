"""A live run: actors and a learner as processes with real clocks, and the prediction of the event model.

`running` has `run` and its result, and what is predicted of it; `actor` is the process that generates, with the board
of weights in shared memory and who starts it; `admission` the desk between actors and learner with the rows on disk.
"""

import sys

from asyncsim.base import plugins
from asyncsim.live.running import Live, Meeting, Predicted, predicted, run

__all__ = ["Live", "Meeting", "Predicted", "predicted", "run"]
plugins.answering(sys.modules[__name__])
