"""Runs the C++ tests under Oclgrind, both kernel styles, and lists what it found and which kernels ran.

    python tools/oclgrind_suite.py build/cmake/tests/cpp/ocl_tests [--style fat simt] [--filter TEXT] [--jobs 2] [--limit 300]

A test that exceeds the limit counts only with the kernels it reached. Exit status 1 when Oclgrind reported anything or a kernel never ran.
"""

import argparse
import collections
import concurrent.futures
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FINDING = re.compile(r"^(Invalid .*|.*data race.*|Error.*|Work-group divergence.*)$", re.MULTILINE)


def kernels():
    """{(file, kernel)} of kernels_cl; kernels whose name a macro makes are missing."""
    found = set()
    for path in sorted((ROOT / "kernels_cl").rglob("*.cl")):
        for name in re.findall(r"^(?:__kernel|[A-Z_]*KERNEL)\s+(?:__attribute__\(\(.*?\)\)\s*)*void\s+(\w+)\s*\(", path.read_text(), re.MULTILINE):
            found.add((path.name, name))
    return found


def tests(binary):
    suite = ""
    for line in subprocess.run([binary, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout.splitlines():
        if not line.startswith(" "):
            suite = line.split("#")[0].strip()
        else:
            yield suite + line.split("#")[0].strip()


def run(binary, test, style, limit):
    """(status, kernels that ran, findings) of one test."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TORCH_OCL_KERNEL_STYLE": style, "TORCH_OCL_CACHE_DIR": folder, "TORCH_OCL_BUILD_LOG": "1"}
        command = ["oclgrind", "--data-races", "--uniform-writes", "--local-mem-size", str(1 << 20), binary, f"--gtest_filter={test}"]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = "passed" if process.wait(limit) == 0 else "failed"
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = "too slow"
            output.seek(0)
            text = output.read()
    ran = re.findall(r"^torch_ocl: kernel (\S+) (\w+)$", text, re.MULTILINE)
    findings = [line.strip() for line in FINDING.findall(text) if "Error Messages" not in line]
    if len(findings) > 3:
        findings = findings[:3] + [f"and {len(findings) - 3} more"]
    if findings:
        findings += re.findall(r"Kernel: *(\w+)", text)[:1]
    return status, ran, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--style", nargs="+", default=["fat", "simt"])
    parser.add_argument("--filter", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=300)
    arguments = parser.parse_args()
    work = [(test, style) for test in tests(arguments.binary) if arguments.filter in test for style in arguments.style]
    random.Random(0).shuffle(work)  # an interrupted run has seen something of everything
    counts, ran, found = collections.Counter(), set(), 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        futures = {pool.submit(run, arguments.binary, test, style, arguments.limit): (test, style) for test, style in work}
        for future in concurrent.futures.as_completed(futures):
            status, names, findings = future.result()
            counts[status] += 1
            ran.update(names)
            found += bool(findings)
            if status != "passed" or findings:
                print(*futures[future], status, *dict.fromkeys(findings), flush=True)
    missing = sorted(kernels() - ran)
    print(f"{len(ran)} kernels ran; {dict(counts)}; tests with findings: {found}")
    for file, name in missing:
        print(f"never ran: {name} ({file})")
    return int(bool(found or missing))


if __name__ == "__main__":
    sys.exit(main())
