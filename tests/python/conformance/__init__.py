"""Every operator of PyTorch's own test database, `ocl` against the CPU.

`python -m tests.python.conformance --help`; docs/contribute/testing.md.
"""
