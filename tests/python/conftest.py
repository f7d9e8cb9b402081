"""Fixtures and options that all Python tests share. See docs/contribute/testing.md."""

import contextlib
import os
import sys
import time
import zlib
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # Several processes: the CPU's side of each keeps to one thread. OpenMP's barriers spin, and with more threads than
    # cores each one costs a time slice of the scheduler; float64 references took minutes instead of seconds.
    os.environ["OMP_NUM_THREADS"] = "1"

# Kernels are tested with all threads all the same, also where a test gives the CPU's side one by
# torch.set_num_threads().
os.environ.setdefault("TORCH_OCL_HOST_THREADS", str(len(os.sched_getaffinity(0))))

import torch

import torch_ocl
from conformance import gaps

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the networks in benchmarks/models serve as test cases


def part(text: str) -> tuple[int, int]:
    """K/N -> (K, N); ValueError, which pytest reports, for anything else."""
    index, count = map(int, text.split("/"))
    if not 0 <= index < count:
        raise ValueError(f"--part {text}: K/N has K from 0 to N - 1")
    return index, count


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="leave out tests marked slow")
    parser.addoption("--full", action="store_true", help="also tests marked full: real image sizes")
    parser.addoption("--build", action="store_true", help="also tests marked build: they build the project again")
    parser.addoption("--part", type=part, default=(0, 1), metavar="K/N", help="the tests of part K (0 to N-1) of N")
    parser.addoption("--turn", type=int, help="part of the conformance suite to run, another one each day otherwise")


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.turn = config.workerinput["turn"]
    else:
        turn = config.getoption("--turn")
        config.turn = int(time.time() // 86400) if turn is None else turn


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["turn"] = node.config.turn  # the same one in every process, also at midnight


def pytest_collection_modifyitems(config, items):
    index, count = config.getoption("--part")
    if count > 1:  # by name, so that a test stays in its part whatever is added
        parts = {True: [], False: []}
        for item in items:
            parts[zlib.crc32(item.nodeid.encode()) % count == index].append(item)
        config.hook.pytest_deselected(items=parts[False])
        items[:] = parts[True]
    left_out = {
        "full": not config.getoption("--full"),
        "slow": config.getoption("--quick"),
        "build": not config.getoption("--build"),
    }
    for item in items:
        for name, skipped in left_out.items():
            if skipped and name in item.keywords:
                item.add_marker(pytest.mark.skip(reason=f"marked {name}"))
    known = [gap for gap in gaps.read() if gap.case.startswith("test/")]
    for item in items:
        for gap in known:
            if item.nodeid.endswith(gap.case.removeprefix("test/")):
                item.add_marker(pytest.mark.xfail(reason=gap.reason, strict=True))


def pytest_report_header(config):
    lines = [f"torch_ocl {torch_ocl.__version__}, torch {torch.__version__}, conformance --turn {config.turn}"]
    for index in range(torch.ocl.device_count()):
        facts = torch.ocl.get_device_properties(index)
        lines.append(f"ocl:{index} {facts.name} ({facts.platform_name} {facts.driver_version}), {facts.style} kernels")
    return lines


def pytest_sessionstart(session):
    if not torch.ocl.is_available():
        raise pytest.UsageError("no OpenCL device: `python -m torch_ocl` says what to do")


@pytest.fixture
def device():
    """The device under test, as every test should spell it."""
    return "ocl"


@pytest.fixture(autouse=True)
def _repeatable():
    torch.manual_seed(1234)


@contextlib.contextmanager
def without_fallback():
    """Fails when an operator inside the block ran on the CPU."""
    before = torch.ocl.fallbacks()
    yield
    new = {
        name: count - before.get(name, 0)
        for name, count in torch.ocl.fallbacks().items()
        if count != before.get(name, 0)
    }
    assert not new, f"ran on the CPU: {new}"


@pytest.fixture
def no_fallback():
    """Fails the test when an operator ran on the CPU."""
    with without_fallback():
        yield


@pytest.fixture(scope="session")
def torchvision():
    from benchmarks.models.images import import_torchvision

    return import_torchvision()


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
