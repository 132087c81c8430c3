"""Benchmarks, each next to a baseline without Windlass: `python -m benchmarks` (docs/dev/benchmarks.md)."""
