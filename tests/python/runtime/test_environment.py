"""Values that are not accepted: a warning or an error that names the variable, the value, what is accepted and what
happens now."""

import os
from pathlib import Path

import pytest
import torch

import fresh_process


def python(code, **variables):
    """(output, errors) of code in a fresh interpreter that ends well."""
    return fresh_process.run("-c", "import torch, torch_ocl\n" + code, without=("TORCH_OCL_HOST_THREADS",), **variables)


ONE_OF_EACH = """
x = torch.rand(2, 3, 8, 8, device="ocl")
torch.nn.functional.conv2d(x, torch.rand(4, 3, 3, 3, device="ocl")).sum().item()
(torch.rand(16, 16, device="ocl") @ torch.rand(16, 16, device="ocl")).sum().item()
torch.rand(2, device="ocl").sum().item()
"""

MISTAKES = {
    "TORCH_OCL_VISIBLE_DEVICES": ("0,97", "97"),
    "TORCH_OCL_FALLBACK": ("slient", "warn, silent or error"),
    "TORCH_OCL_KERNEL_STYLE": ("fat", "cpu or gpu"),
    "TORCH_OCL_KERNEL_DIR": ("/no/such/folder", "folder"),
    "TORCH_OCL_CACHE": ("maybe", "0 or 1"),
    "TORCH_OCL_BUILD_PROCESSES": ("65", "0 to 64"),
    "TORCH_OCL_HOST_THREADS": ("two", "0 to 1024"),
    "TORCH_OCL_CALL_KERNELS": ("2", "1, 0 or only"),
    "TORCH_OCL_MEMORY_LIMIT": ("8GB", "a whole number from 0"),
    "TORCH_OCL_CONV": ("winogradd", "winograd"),
    "TORCH_OCL_GEMM": ("pannel", "panel"),
    "TORCH_OCL_ATTENTION": ("product", "auto or products"),
    "TORCH_OCL_TUNE": ("2", "0 or 1"),
    "TORCH_OCL_TUNE_BUDGET": ("-1", "from 1"),
    "TORCH_OCL_BFLOAT16_PAIRS": ("emulated", "1, 0 or emulate"),
    "TORCH_OCL_TENSOR_CORES": ("wmma", "mma"),
    "TORCH_OCL_VECTOR_FLOATS": ("0", "1 to 64"),
    "TORCH_OCL_WINOGRAD": ("presise", "auto, precise or off"),
    "TORCH_OCL_UNIFIED_MEMORY": ("nope", "0 or 1"),
    "TORCH_OCL_JOIN": ("si", "0 or 1"),
}


def test_every_mistake_is_told_once_and_does_no_harm():
    output, errors = python(ONE_OF_EACH + "print('done')", **{name: value for name, (value, _) in MISTAKES.items()})
    assert output.endswith("done")
    for name, (value, accepted) in MISTAKES.items():
        lines = [line for line in errors.splitlines() if f"{name}={value} is not accepted" in line]
        assert len(lines) == 1, f"{name}: {lines}\n{errors}"
        assert accepted in lines[0].split("is not accepted")[1]
        assert lines[0].split("): ")[1:], f"what happens now: {lines[0]}"


def test_right_values_say_nothing():
    output, errors = python(
        ONE_OF_EACH + "print('done')",
        TORCH_OCL_VISIBLE_DEVICES="0",
        TORCH_OCL_FALLBACK="SILENT",
        TORCH_OCL_CACHE="on",
        TORCH_OCL_BUILD_PROCESSES="0",
        TORCH_OCL_MEMORY_LIMIT="0x100000000",
        TORCH_OCL_CONV="auto",
        TORCH_OCL_GEMM="reference",
        TORCH_OCL_WINOGRAD="true",
    )
    assert output.endswith("done") and "torch_ocl" not in errors, errors


@pytest.mark.parametrize(
    ("name", "hint"),
    [("TORCH_OCL_KERNEL_STILE", "did you mean TORCH_OCL_KERNEL_STYLE?"), ("TORCH_OCL_TURBO_BUTTON", "environment")],
)
def test_a_variable_that_is_not_known_is_told(name, hint):
    _, errors = python("torch.ocl.device_count()", **{name: "gpu"})
    lines = [line for line in errors.splitlines() if name in line]
    assert len(lines) == 1 and hint in lines[0], errors


def test_autoload_that_is_misspelt():
    ask = "import _torch_ocl_boot as b; b.reason_not_to_load(); "
    _, errors = python(ask + "import warnings; warnings.simplefilter('default'); " + ask, TORCH_OCL_AUTOLOAD="ja")
    assert errors.count("TORCH_OCL_AUTOLOAD=ja is not accepted (auto, 1 or 0)") == 1, errors


def test_a_cache_folder_that_cannot_be_written_is_told_once(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    folder = str(tmp_path / "file" / "cache")
    output, errors = python(ONE_OF_EACH + "print('done')", TORCH_OCL_CACHE_DIR=folder)
    lines = [line for line in errors.splitlines() if folder in line]
    assert output.endswith("done") and len(lines) == 1 and "TORCH_OCL_CACHE_DIR" in lines[0], errors


def give_away(path: Path, how: str) -> None:
    """Lets somebody else write the file or folder."""
    if how == "owner":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(path, 12345, -1)
    else:
        path.chmod(path.stat().st_mode | {"group": 0o020, "others": 0o002}[how])


@pytest.mark.parametrize("how", ["owner", "group", "others"])
def test_a_cache_that_others_may_write_is_not_used(tmp_path, how):
    """What is cached runs inside of the process: such a folder is neither read nor written."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    give_away(folder, how)
    output, errors = python(ONE_OF_EACH + "print('done')", TORCH_OCL_CACHE_DIR=str(folder))
    lines = [line for line in errors.splitlines() if str(folder) in line and "is not used" in line]
    assert output.endswith("done") and len(lines) == 1 and "TORCH_OCL_CACHE_DIR" in lines[0], errors
    assert not list(folder.iterdir())


@pytest.mark.parametrize("how", ["owner", "group", "others"])
def test_a_cached_program_that_others_may_write_is_not_loaded(tmp_path, how):
    folder = tmp_path / "cache"
    python(ONE_OF_EACH, TORCH_OCL_CACHE_DIR=str(folder), TORCH_OCL_AHEAD="0")
    assert folder.stat().st_mode & 0o077 == 0
    programs = list((folder / "programs").glob("*.bin"))
    assert programs and all(program.stat().st_mode & 0o077 == 0 for program in programs)
    for program in programs:
        give_away(program, how)
    output, errors = python(ONE_OF_EACH + "print('done')", TORCH_OCL_CACHE_DIR=str(folder), TORCH_OCL_AHEAD="0")
    assert output.endswith("done") and errors.count("is not used: another user owns it") == 1, errors
    facts = [program.stat() for program in programs]  # the programs of the probes are not needed again
    assert any(each.st_uid == os.geteuid() and each.st_mode & 0o077 == 0 for each in facts), "compiled and written anew"


def test_a_folder_for_sources_that_cannot_be_written_is_told_once(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    folder = str(tmp_path / "file" / "sources")
    _, errors = python(ONE_OF_EACH, TORCH_OCL_DUMP_SOURCE=folder)
    assert errors.count(f"TORCH_OCL_DUMP_SOURCE={folder} is not accepted") == 1, errors


@pytest.mark.parametrize(
    ("value", "mode"),
    [("0", "off"), ("off", "off"), ("false", "off"), ("precise", "precise"), ("1", "auto"), ("auto", "auto")],
)
def test_winograd_means_the_same_in_the_environment_and_in_python(value, mode):
    assert python("print(torch.backends.ocl.winograd)", TORCH_OCL_WINOGRAD=value)[0] == mode
    before = torch.backends.ocl.winograd
    try:
        torch.backends.ocl.winograd = {"0": False, "1": True}.get(value, mode)
        assert torch.backends.ocl.winograd == mode
    finally:
        torch.backends.ocl.winograd = before


@pytest.mark.parametrize("switch", ["winograd", "allow_tf32", "benchmark", "deterministic"])
@pytest.mark.parametrize("value", ["fast", 2, None, [], 0.5])
def test_switches_refuse_what_they_do_not_know(switch, value):
    before = getattr(torch.backends.ocl, switch)
    with pytest.raises(ValueError, match=rf"torch\.backends\.ocl\.{switch} is .*True"):
        setattr(torch.backends.ocl, switch, value)
    assert getattr(torch.backends.ocl, switch) == before


def test_tf32_is_supported_where_tensor_cores_are(device):
    assert torch.ocl.is_tf32_supported() == torch.ocl.get_device_properties().tensor_cores
    output, _ = python(
        "print(torch.ocl.is_tf32_supported())", TORCH_OCL_TENSOR_CORES="emulate", TORCH_OCL_KERNEL_STYLE="gpu"
    )
    assert output == "True"
