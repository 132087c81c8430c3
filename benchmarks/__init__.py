"""Speed, always beside the bare thing in the same minute: `python -m benchmarks` (docs/dev/benchmarks.md)."""
