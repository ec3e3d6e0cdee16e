"""Questions from trainers' threads: what was asked, the commands that answer it, and the answer with their numbers."""

from __future__ import annotations

from docs import _learning, _seconds, _staleness

HEAD = """# Questions from trainers' threads

Each answer begins with one sentence in bold. Its numbers follow; *Command and output* shows their source.
Brackets are 95 % intervals; [the end of the page](#about-these-numbers) says what else the numbers assume."""
FOOT = f"""## About these numbers

Answers in seconds and slot-hours are for the system shown. Other lengths and
loads give other numbers, so insert your own. If a command sets no speed, a sample decodes one token per second.
A verdict of `compare` is wrong with probability at most 5 % on each task, if unseen
events are as stated. Verdicts are about the return of the trained policy, averaged over updates unless they
say seconds or slot-hours. Each arm uses its own best learning rate, except with `--tune none`.
Differences in return below {_learning.SMALLEST:g} are too small to matter. In the outputs, `N runs` replaces
a number that differs between machines.

`python -m docs` generates this page. A test compares text and pictures with stored results, and reruns some
commands."""
QUESTIONS = [*_seconds.QUESTIONS, *_staleness.QUESTIONS, *_learning.QUESTIONS]
