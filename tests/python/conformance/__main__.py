"""Runs the conformance suite: every operator of PyTorch's database, every dtype, each case with a time limit in a
process of its own kind.

    python -m tests.python.conformance                                  # everything; resumes an interrupted run
    python -m tests.python.conformance --dtypes float32 --match linalg  # a part
    python -m tests.python.conformance --failed                         # once more what failed in the report
    python -m tests.python.conformance --report-only                    # the summary of the report

The report is JSON: one record per case with the status of each check (pass, fail, crash, hang, none) and the operators
that ran on the CPU. Ends with status 1 when a check failed that gaps.txt does not list, or when one passes that it
lists.
"""

import argparse
import collections
import json
import random
import re
import sys
import time
from pathlib import Path

from . import cases, gaps, pool


def read_report(path):
    if not path.exists():
        return {}
    lines = (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))
    return {record["case"]: record for record in lines}


def parse_arguments():
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.python.conformance", description=__doc__, formatter_class=formatter
    )
    parser.add_argument("--report", type=Path, default=Path("build/conformance/report.jsonl"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--limit", type=float, default=300, help="seconds without an event before a check counts as hanging"
    )
    parser.add_argument("--dtypes", nargs="+", default=[cases.dtype_name(d) for d in cases.DTYPES])
    parser.add_argument("--checks", nargs="+", default=[], help="only these checks; the rest of a record is kept")
    parser.add_argument("--match", default="", help="regular expression that a case's name must match")
    parser.add_argument("--sample", type=int, default=0, help="so many cases, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of --sample and --shuffle")
    parser.add_argument(
        "--shuffle", action="store_true", help="in random order, so that a run that ends early is a fair sample"
    )
    parser.add_argument("--redo", action="store_true", help="also what is in the report")
    parser.add_argument("--failed", action="store_true", help="only what failed in the report")
    parser.add_argument("--report-only", action="store_true", help="run nothing")
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write docs/generated/operators.md from the report; only the rows of a part",
    )
    return parser.parse_args()


def selected(options, known):
    import torch

    names = [str(case) for case in cases.all_cases([getattr(torch, d) for d in options.dtypes])]
    names = [name for name in names if re.search(options.match, name)]
    if options.sample:
        names = sorted(random.Random(options.seed).sample(names, min(options.sample, len(names))))
    if options.failed:
        return names, [
            n for n in names if n in known and any(c["status"] in gaps.BAD for c in known[n]["checks"].values())
        ]
    wanted = set(options.checks)
    return names, [n for n in names if options.redo or n not in known or not wanted <= set(known[n]["checks"])]


def summarize(records, complete):
    """Prints how many checks ended how, and for float32 the share of operators without a fallback.

    Returns the exit status.
    """
    unlisted, stale = gaps.judge(records, gaps.read(), complete)
    by_check = collections.defaultdict(collections.Counter)
    for record in records:
        for check, result in record["checks"].items():
            by_check[check][result["status"]] += 1
            by_check["all"][result["status"]] += 1
    kinds = ["pass", "gap", "fail", "crash", "hang", "none"]
    print(f"{'check':16}" + "".join(f"{kind:>8}" for kind in kinds))
    for check, counts in by_check.items():
        print(f"{check:16}" + "".join(f"{counts[kind]:8}" for kind in kinds))
    for direction, check in (("forward", "values"), ("backward", "gradient")):
        operators = [r for r in records if r["case"].startswith("op_db/") and r["case"].endswith("/float32")]
        ran = [r["checks"][check] for r in operators if r["checks"].get(check, {"status": "none"})["status"] != "none"]
        native = sum(not result.get("fallbacks") for result in ran)
        if ran:
            print(
                f"float32 {direction}: {native} of {len(ran)} operators without fallback "
                f"({100 * native / len(ran):.1f}%)"
            )
    for title, lines in (("FAILED, not in gaps.txt", unlisted), ("PASSES, but in gaps.txt", stale)):
        if lines:
            print(f"\n{title} ({len(lines)}):")
            print("\n".join("  " + line[:330] for line in lines))
    return 1 if unlisted or stale else 0


def main():
    options = parse_arguments()
    known = read_report(options.report)
    names, todo = selected(options, known)
    if options.shuffle:
        random.Random(options.seed).shuffle(todo)
    if not options.report_only:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        started, done = time.monotonic(), 0
        with options.report.open("a") as file:

            def finished(record):
                nonlocal done
                if options.checks and record["case"] in known:
                    record["checks"] = {**known[record["case"]]["checks"], **record["checks"]}
                known[record["case"]] = record
                file.write(json.dumps(record) + "\n")
                file.flush()
                done += 1
                bad = " ".join(
                    f"{check}:{result['status']}"
                    for check, result in record["checks"].items()
                    if result["status"] in gaps.BAD
                )
                if bad or done % 100 == 0:
                    print(f"[{done}/{len(todo)} {time.monotonic() - started:.0f} s] {record['case']} {bad}", flush=True)

            pool.run_all(todo, options.jobs, options.checks, options.limit, finished)
    records = [known[name] for name in names if name in known]
    complete = len(options.dtypes) == len(cases.DTYPES) and not (options.match or options.sample or options.failed)
    status = summarize(records, complete)
    if options.write_docs:
        from . import support_table

        page = pool.ROOT / "docs" / "generated" / "operators.md"
        if len(records) < sum(1 for _ in cases.all_cases()):
            page.write_text(support_table.updated(page.read_text(), records))
        else:
            date = time.strftime("%Y-%m-%d", time.gmtime(options.report.stat().st_mtime))
            page.write_text(support_table.table(records, date))
    sys.exit(status)


if __name__ == "__main__":
    main()
