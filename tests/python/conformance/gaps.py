"""Known gaps: rows `operator | checks | dtypes | reason` of gaps.txt. Strict: a listed check that passes fails the run.

A row whose operator is `test/` and the end of a test's id, with `all` for the rest, is for pytest (conftest.py).

`all` as dtypes or checks covers whatever fails of them, and must cover at least one failure among what was run.
"""

from dataclasses import dataclass, field
from pathlib import Path

from .cases import dtype_name, parse

FILE = Path(__file__).parent / "gaps.txt"
BAD = ("fail", "crash", "hang")


@dataclass
class Gap:
    case: str  # SOURCE/NAME
    checks: tuple
    dtypes: tuple
    reason: str
    failed: int = 0
    ran: int = 0
    passed: list = field(default_factory=list)

    def covers(self, case, check):
        return f"{case.source}/{case.name}" == self.case and any(
            check in (self.checks or (check,)) and dtype in (self.dtypes or (dtype,))
            for dtype in (dtype_name(case.dtype),)
        )


def read(path=FILE):
    gaps = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        case, checks, dtypes, reason = (part.strip() for part in line.split(" | ", 3))
        split = [() if text == "all" else tuple(text.split()) for text in (checks, dtypes)]
        gaps.append(Gap(case if "/" in case else f"op_db/{case}", *split, reason))
    return gaps


def judge(records, gaps, complete=False):
    """Marks failures that are listed as "gap"; returns (failures not listed, listed checks that pass) as lists of text.

    complete: the records cover every dtype, so that a row with `all` can be found to cover nothing.
    """
    by_case = {}
    for gap in gaps:
        by_case.setdefault(gap.case, []).append(gap)
    unlisted = []
    for record in records:
        case = parse(record["case"])
        for check, result in record["checks"].items():
            covering = [gap for gap in by_case.get(f"{case.source}/{case.name}", ()) if gap.covers(case, check)]
            bad = result["status"] in BAD
            for gap in covering:
                gap.ran += result["status"] != "none"
                gap.failed += bad
                if result["status"] == "pass" and gap.checks and gap.dtypes:
                    gap.passed.append(f"{case} {check}")
            if bad and covering:
                result["status"] = "gap"
            elif bad:
                unlisted.append(f"{case} {check}: {result['status']}: {result['failures'][0]}")
    stale = [text for gap in gaps for text in gap.passed]
    if complete:
        open_rows = [gap for gap in gaps if not (gap.checks and gap.dtypes)]
        stale += [f"{gap.case}: nothing of this row fails" for gap in open_rows if gap.ran and not gap.failed]
    return unlisted, stale
