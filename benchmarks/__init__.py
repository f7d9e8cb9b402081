"""Benchmarks: `python -m benchmarks --help`. The networks in models/ are shared with the tests."""
