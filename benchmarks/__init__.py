"""Speed against a named peer, both sides in the same run; `python -m benchmarks` writes build/bench.json.

A benchmark file has a docstring and BENCHMARKS, a dict {name: Benchmark}; see `_record`. A peer has to do the same
work, which tests/benchmarks asks of both sides. `--page` also measures what the machine can do, how cost and memory
grow, and writes README.md and its figure; both are generated.
"""
