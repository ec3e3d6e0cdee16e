"""Speed against a named peer, both sides in the same run; `python -m benchmarks` writes build/bench.json.

A benchmark file has a docstring and BENCHMARKS, a dict {name: (measure_ours, measure_theirs, unit)}: two functions
without arguments that do their work once and return its rate, in `unit`, more being better.
"""
