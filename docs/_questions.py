"""Questions from trainers' threads: what was asked, the commands that answer it, and the answer with their numbers."""

from __future__ import annotations

from docs import _learning, _seconds, _staleness

HEAD = """# Questions from trainers' threads

Users asked these questions in the issue threads of trainers. The tables list all questions by topic, each with a short
answer. Each link leads to the full answer, the commands that produce its numbers, and selected lines of their output.

Brackets contain 95 % intervals. If a number is not in the output shown, the number is in the file that `--json FILE`
writes, or follows from a formula. All numbers come from simulated systems and small tasks. These numbers show the
direction of an effect, but your own numbers will differ. [The end of the page](#about-these-numbers) states the
assumptions."""
FOOT = f"""## About these numbers

Answers in seconds and slot-hours hold for the system shown. These answers depend on response lengths and load, so
repeat the commands with your own values. If a command sets no decoding speed, each sample decodes one token per second.
On each task, a verdict of `compare` is wrong with probability at most 5 %, under an
[assumption about rare events](compare.md#error-rates). Verdicts compare the return of the
trained policy, averaged over updates, unless the differences are in seconds or slot-hours. Each arm uses its own best
learning rate, except with `--tune none`.
Differences in return below {_learning.SMALLEST:g} count as too small to matter. In the outputs, `N runs` replaces
a number of runs that differs between machines.

`python -m docs` generates this page. A test compares the text and the pictures with stored results, and reruns some
commands."""
QUESTIONS = [*_seconds.QUESTIONS, *_staleness.QUESTIONS, *_learning.QUESTIONS]
