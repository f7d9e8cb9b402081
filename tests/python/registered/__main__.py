"""python -m tests.python.registered [--match REGEX]: the sweep. The report is build/registered.jsonl.

--composites finds operators that read elements on the host without waiting: with memory that is the device's own they
end their process.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path

from tests.python.conformance import pool

from . import names

REPORT = Path(__file__).resolve().parents[3] / "build" / "registered.jsonl"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="regular expression of names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument(
        "--composites", action="store_true", help="composite operators, with memory of the device's own"
    )
    options = parser.parse_args()
    if options.composites:
        os.environ["TORCH_OCL_UNIFIED_MEMORY"] = "0"
    every = names.composites() if options.composites else names.all_names()
    chosen = [name for name in every if re.search(options.match, name)]
    options.report.parent.mkdir(parents=True, exist_ok=True)
    rows = names.known()
    failed = []
    with options.report.open("w") as report:

        def finished(record):
            print(json.dumps(record), file=report, flush=True)
            for text in names.failures(record, rows):
                failed.append(text)
                print(text, flush=True)

        pool.run_all(chosen, options.jobs, None, 120, finished, "tests.python.registered.worker")
    stale = names.stale(rows) if len(chosen) == len(names.all_names()) else []
    print(*stale, sep="\n")
    print(f"{len(chosen)} operators, {len(failed)} failures, {len(stale)} rows of the list that nothing needs")
    sys.exit(bool(failed or stale))


if __name__ == "__main__":
    main()
