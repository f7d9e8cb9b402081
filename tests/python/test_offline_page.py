"""What tools/offline_page.py reads from kernels, and what it complains about."""

import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import offline_page
from offline_page import Kernel, Page, Result, Target

AMD = Target("gfx90a", "AMD CDNA 2", "amd", "fp64")
PROGRAM = "pad-pad-0123456789ab.cl"


def page(*kernels: Kernel, program: str = PROGRAM, **result) -> Page:
    return Page([Result(program, AMD.name, kernels=list(kernels), **result)], [AMD], {AMD.name: 2})


def test_conditions_on_the_style_are_decided_and_others_are_not():
    text = "#if CPU_STYLE && A\ncpu\n#if B\ncpu\n#endif\n#else\ngpu\n#endif\n#if !CPU_STYLE\ngpu\n#else\ncpu\n#endif"
    assert list(offline_page.gpu_lines(text)) == ["gpu", "gpu"]
    assert list(offline_page.gpu_lines("#if A\none\n#elif B\ntwo\n#else\nthree\n#endif")) == ["one", "two", "three"]


def test_kernels_of_every_form_are_found():
    found = offline_page.kernels_of_the_tree()
    assert ("pad/pad.cl", "elements_backward") in found  # __kernel void
    assert ("gemm/simt.gpu.cl", "gemm_simt") in found  # with attributes
    assert ("optimizer/optimizer.cl", "adam") in found  # of a list of parameters
    assert ("elementwise/permute.cl", "permute_gpu") in found
    assert ("elementwise/permute.cl", "permute_cpu") not in found
    assert not any(".cpu." in file for file, _ in found)


def test_programs_of_tests_and_of_cpus_are_left_out():
    assert offline_page.is_for_gpus(PROGRAM)
    assert not offline_page.is_for_gpus("triple-0123456789ab.cl")
    assert not offline_page.is_for_gpus("gemm-panel.cpu-0123456789ab.cl")


def test_what_no_program_holds_is_told():
    wrong = page(Kernel("elements_forward")).wrong()
    assert "pad/pad.cl elements_backward is in no program" in wrong
    assert "pad/pad.cl elements_forward is in no program" not in wrong


@pytest.mark.parametrize(
    ("program", "kernel", "told"),
    [
        (PROGRAM, Kernel("elements_forward"), False),
        (PROGRAM, Kernel("elements_forward", scratch=48), True),
        ("gemm-simt.gpu-0123456789ab.cl", Kernel("gemm_simt", scratch=260), True),  # the reason is of Intel's compiler
        ("gemm-tensor_cores.gpu-0123456789ab.cl", Kernel("gemm_tensor_cores", scratch=260), False),
    ],
)
def test_scratch_memory_needs_a_reason(program, kernel, told):
    wrong = page(kernel, program=program).wrong()
    assert any("has no reason" in line for line in wrong) == told


def test_errors_and_warnings_are_told():
    assert f"{PROGRAM} for gfx90a: no such thing" in page(error="no such thing").wrong()
    assert "a warning to mend: odd" in page(warnings=["odd"]).wrong()
    known = next(iter(offline_page.WARNINGS))
    assert not any("warning" in line for line in page(warnings=[f"{known}, and so on"]).wrong())


def test_a_row_has_the_most_of_its_programs():
    small, large = (
        Kernel("elements_forward", 10, local_memory=64),
        Kernel("elements_forward", 30, 8, 4, group="16x16x1"),
    )
    row = next(
        line for line in page(small, large).text(["x"]).splitlines() if line.startswith("| pad.cl | elements_forward")
    )
    assert row == "| pad.cl | elements_forward | 2 | 16x16 | 64 | 30, scratch 8 (spilled 4) |"
