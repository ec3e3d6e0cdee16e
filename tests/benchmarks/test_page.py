"""The page says what was measured, and whether targets are met; counts are what they are said to be."""

import pytest
import torch

from benchmarks import _growth, _limits, _page


def row(name, ratio, target):
    return {
        "name": name, "what": "a against b", "unit": "1/s", "target": target, "ratio": ratio, "low": ratio / 2,
        "high": ratio * 2, "value": 2e6, "values": [1e6, 3e6], "against": 4.0, "others": [3.0, 5.0],
    }  # fmt: skip


@pytest.fixture
def found():
    curves = {name: [(1, 1e-3), (10, 2e-3)] for name in ("replicates", "samples", "tokens", "staleness")}
    return {
        "benchmarks": [row("bandit_vs_numpy", 1.25, 2.0), row("large_run", 3.5, 1.0), row("weights_x", 0.5, 1 / 3)],
        "manifest": {
            "cpu": "a processor", "cores": 2, "python": "3.11", "libraries": {"numpy": "2.0"}, "dirty": True,
            "commit": "0123456789abcdef", "time": "2030-01-02T00:00:00", "spec": {"rounds": 7},
        },
        "peers": {"jax": "9.9"},
        "limits": {
            "machine": {"memory": 2e10, "cache": 1e11, "arithmetic": 2e10, "exponentials": 1e9}, "rate": 1e6,
            "needed": {"bytes": 320.0, "operations": 400.0, "exponentials": 36.0},
            "moved": {"bytes": 8000.0, "calls": 54.0}, "memory": 23.5,
        },
        "growth": curves | {"summary": [(1000, 1e-3)], "timeline": [(1000, 2e-3)]},
        "memory": [("import", 0, 0, 4e7), ("run", 100, 50, 3e8), ("run", 100, 550, 3.02e8)],
    }  # fmt: skip


def test_the_page_is_written_with_its_figure(found, tmp_path):
    _page.write(found, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| 1.25 (0.625 to 2.5) | 2: not met |" in text and "| 3.5 (1.75 to 7) | 1: met |" in text
    assert "| 2,000,000 (1,000,000 to 3,000,000) | 4 (3 to 5) |" in text
    assert (
        "a processor, 2 cores, 24 GiB" in text
        and "`numpy 2.0`, `jax 9.9`" in text
        and "`0123456789ab` with changes" in text
        and "7 rounds" in text
    )
    # 8,000 bytes a million times a second are 40 percent of 20 GB/s.
    assert "| bytes that torch moves, main memory | 20 GB/s | 8,000 | 40 % |" in text
    # 2 MB more for 100 replicates and 500 updates more.
    assert "differ by 40 bytes" in text
    # A cost is the reciprocal of a rate, so that its ends change places.
    assert "| `x` | 2 (1 to 4) | 3: met |" in text
    assert (tmp_path / "growth.png").stat().st_size > 10_000


def test_traffic_counts_what_is_read_and_written():
    x = torch.zeros(100, dtype=torch.float64)
    with _limits.Traffic() as traffic:
        y = x.exp()
        y.add_(x)
        x.reshape(10, 10).T[0]
        x[:50].sum()
    # 800 + 800; 800 + 800 + 800; views move nothing; 400 + 8.
    assert (traffic.bytes, traffic.calls) == (1600 + 2400 + 408, 3)


def test_memory_of_a_process_is_its_own():
    held = torch.ones(2**25, dtype=torch.float64)
    assert 1e6 < _growth.peak("import", 0, 0) < held.numel() * 8
