"""python -m tests.python.hostile --calls 10000 --seed N: no call of an operator may end the process or hang.

Every call is printed so that it can be repeated: --call TEXT makes one, --calls-of FILE those of a file, one a line.
--known makes the calls of known.txt, each of which must end the process on the CPU.
"""

import argparse
import re
import sys
from pathlib import Path

from . import names, running

LOG = Path(__file__).resolve().parents[3] / "build" / "hostile.log"


def stale():
    """Rows of known.txt whose call no longer ends the process on the CPU."""
    return [row.call for row in names.known() if not running.dies_on_cpu(row.call)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="regular expression of names")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--call", help="one call, whose answer is printed")
    parser.add_argument("--calls-of", type=Path, help="a file of calls")
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--log", type=Path, default=LOG, help="every call and what it said")
    options = parser.parse_args()
    if options.known:
        rows = stale()
        print(*rows, f"{len(rows)} rows of the list end no process on the CPU", sep="\n")
        sys.exit(bool(rows))
    if options.call:
        texts = [options.call]
    elif options.calls_of:
        texts = [line.strip() for line in options.calls_of.read_text().splitlines() if line.strip()]
    else:
        texts = running.draw(options.calls, options.seed, re.compile(options.match) if options.match else None)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    with options.log.open("w") as log:

        def progress(number, text, said):
            print(number, text, "->", said, file=log, flush=True)
            if options.call:
                print(said)

        deaths, returned = running.run(texts, options.jobs, lambda text: print(text, flush=True), progress)
    print(f"{len(texts)} calls, {returned} returned, {len(deaths)} ended the process")
    sys.exit(bool(deaths))


if __name__ == "__main__":
    main()
