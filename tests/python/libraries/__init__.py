"""Small programs as users of libraries write them, each with its results against the CPU's.

Those of `own.py` and `own_models.py` are written as the code of a library is, without it; those of `installed.py` call
libraries and are left out where one is not installed. `python -m tests.python.libraries --write-docs` writes the table.
"""
