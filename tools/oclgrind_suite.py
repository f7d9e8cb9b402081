"""Runs C++ tests under Oclgrind, both kernel styles, and lists what it found and which kernels ran.

    python tools/oclgrind_suite.py build/cmake/tests/cpp/ocl_tests [--all] [--style cpu gpu] [--filter TEXT] [--jobs 2]
    [--limit 900]

Every test runs once on the ordinary driver, which tells its kernels and its time (--survey FILE keeps that for the next
run); then those quickest tests run under Oclgrind that together run every kernel (then others for kernels that Oclgrind
did not take there), or all with --all (hours). A test that exceeds the limit counts only with the kernels it reached.
Exit status 1 when Oclgrind reported anything or a kernel never ran.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FINDING = re.compile(r"^(Invalid .*|.*data race.*|Error.*|Work-group divergence.*)$", re.MULTILINE)


def kernels():
    """{(file, kernel)} of kernels_cl; kernels whose name a macro makes are missing."""
    found = set()
    for path in sorted((ROOT / "kernels_cl").rglob("*.cl")):
        for name in re.findall(
            r"^(?:kernel|[A-Z_]*_KERNEL)\s+(?:__attribute__\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(",
            path.read_text(),
            re.MULTILINE,
        ):
            found.add((path.relative_to(ROOT / "kernels_cl").as_posix(), name))
    return found


def tests(binary):
    suite = ""
    for line in subprocess.run(
        [binary, "--gtest_list_tests"], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip()
        else:
            yield suite + line.split("#")[0].strip()


ENVIRONMENT = os.environ | {
    "TORCH_OCL_BUILD_LOG": "1",
    "TORCH_OCL_BFLOAT16_PAIRS": "emulate",
}  # Oclgrind knows no assembly
KERNEL_LINE = re.compile(r"^torch_ocl: kernel (\S+) (\w+)$", re.MULTILINE)


def survey(binary, test, style):
    """(kernels, seconds) of one test on the ordinary driver."""
    begin = time.perf_counter()
    environment = ENVIRONMENT | {"TORCH_OCL_KERNEL_STYLE": style}
    output = subprocess.run(
        [binary, f"--gtest_filter={test}"], env=environment, capture_output=True, text=True, errors="replace"
    )
    return set(KERNEL_LINE.findall(output.stderr)), time.perf_counter() - begin


def surveyed(binary, work, file, pool):
    """{(test, style): (kernels, seconds)}, from `file` for those that it has."""
    known = (
        {tuple(key): (set(map(tuple, kernels)), seconds) for key, kernels, seconds in json.loads(file.read_text())}
        if file and file.exists()
        else {}
    )
    missing = [key for key in work if key not in known]
    known |= zip(missing, pool.map(lambda key: survey(binary, *key), missing))
    if not any(kernels for kernels, _ in known.values()):
        sys.exit("no test ran a kernel on the ordinary driver: is there one?")
    if file:
        file.write_text(json.dumps([[key, sorted(kernels), seconds] for key, (kernels, seconds) in known.items()]))
    return {key: known[key] for key in work}


# What Oclgrind cannot reach, with the reason.
UNREACHABLE = {"add_to_three": "self-test of a device's own atomic additions, which Oclgrind has not"}


def cover(facts, wanted):
    """Keys of {key: (kernels, seconds)} that together have all wanted kernels, as far as they go: greedily the most new
    kernels per second."""
    missing, chosen = wanted & set().union(*(kernels for kernels, _ in facts.values())), []
    while missing:
        best = max(facts, key=lambda key: len(facts[key][0] & missing) / facts[key][1])
        chosen.append(best)
        missing -= facts[best][0]
    return chosen


def run(binary, test, style, limit, options=()):
    """(status, kernels that ran, findings) of one test; a failure brings its last lines in the status."""
    with tempfile.TemporaryDirectory() as folder:
        environment = ENVIRONMENT | {"TORCH_OCL_KERNEL_STYLE": style, "TORCH_OCL_CACHE_DIR": folder}
        command = [
            "oclgrind",
            "--data-races",
            "--uniform-writes",
            "--local-mem-size",
            str(1 << 20),
            *options,
            binary,
            f"--gtest_filter={test}",
        ]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                status = "passed" if process.wait(limit) == 0 else "failed"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = "too slow"
            output.seek(0)
            text = output.read()
    if status == "failed" and not options:
        # Oclgrind does not know every intrinsic of LLVM's optimizer and inliner, and widens vectors of one-bit numbers
        # wrongly.
        return run(binary, test, style, limit, ("--build-options", "-cl-opt-disable -Drestrict="))
    if status == "failed":
        status += f" ({process.returncode}): " + " | ".join(text.splitlines()[-4:])
    ran = KERNEL_LINE.findall(text)
    findings = [line.strip() for line in FINDING.findall(text) if "Error Messages" not in line]
    if len(findings) > 3:
        findings = [*findings[:3], f"and {len(findings) - 3} more"]
    if findings:
        findings += re.findall(r"Kernel: *(\w+)", text)[:1]
    return status, ran, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--style", nargs="+", default=["cpu", "gpu"])
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=900)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--survey", type=Path)
    arguments = parser.parse_args()
    work = [(test, style) for test in tests(arguments.binary) if arguments.filter in test for style in arguments.style]
    random.Random(0).shuffle(work)  # an interrupted run has seen something of everything
    counts: collections.Counter[str] = collections.Counter()
    ran: set[str] = set()
    found = 0

    def missing():
        return {kernel for kernel in kernels() - ran if kernel[1] not in UNREACHABLE}

    def run_all(work):
        nonlocal found
        futures = {
            pool.submit(run, arguments.binary, test, style, arguments.limit): (test, style) for test, style in work
        }
        for future in concurrent.futures.as_completed(futures):
            status, names, findings = future.result()
            counts[status.split(" (")[0]] += 1
            ran.update(names)
            found += bool(findings)
            if status != "passed" or findings:
                print(*futures[future], status, *dict.fromkeys(findings), flush=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        if arguments.all:
            run_all(work)
        else:
            facts = surveyed(arguments.binary, work, arguments.survey, pool)
            # Oclgrind is another device and may take other kernels than the driver in the same test: what is left gets
            # the next tests.
            while chosen := cover(facts, missing()):
                print(f"{len(chosen)} of {len(facts)} tests for {len(missing())} kernels", flush=True)
                run_all(chosen)
                facts = {key: fact for key, fact in facts.items() if key not in chosen}
    print(f"{len(ran)} kernels ran; {dict(counts)}; tests with findings: {found}")
    for file, name in sorted(missing()):
        print(f"never ran: {name} ({file})")
    return int(bool(found or missing()))


if __name__ == "__main__":
    sys.exit(main())
