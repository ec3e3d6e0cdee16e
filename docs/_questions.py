"""Questions from trainers' threads: what was asked, the commands that answer it, and the answer with their numbers."""

from __future__ import annotations

from docs import _learning, _seconds, _staleness

HEAD = f"""# Questions from trainers' threads

`python -m docs` generates this page. A test compares text and pictures with stored results, and reruns some
commands. The first answers are in seconds and slot-hours, for the system shown. Other lengths and
loads give other numbers, so insert your own. If a command sets no speed, a sample decodes one token per second.
Brackets are 95 % intervals. A verdict of `compare` is wrong with probability at most 5 % on each task, if unseen
events are as stated. Verdicts are about the return of the trained policy, averaged over updates unless they
say seconds or slot-hours. Each arm uses its own best learning rate, except with `--tune none`.
Differences in return below {_learning.SMALLEST:g} are too small to matter. `N runs` stands for
a number that differs between machines."""
QUESTIONS = [*_seconds.QUESTIONS, *_staleness.QUESTIONS, *_learning.QUESTIONS]
