"""`python -m torch_ocl`: the doctor. Prints what a bug report needs, and says what to do when something is missing.

python -m torch_ocl                 platforms, devices, capabilities, cache, self-test
python -m torch_ocl warmup [MODEL]  compiles the kernels of networks ahead of their first use (--help)
python -m torch_ocl cache clear     deletes the compiled programs on disk
python -m torch_ocl tuning [clear]  prints or deletes the algorithms known to be quickest on the current device
(torch.backends.ocl.benchmark)
python -m torch_ocl onnx MODEL      runs an ONNX model, times it, compares it with ONNX Runtime (--help)
python -m torch_ocl environment     the environment variables as a table (docs/generated/environment.md)
"""

import os
import platform
import sys
from typing import Any

import torch

import torch_ocl
from _torch_ocl_boot import loader

from . import _core, ocl

FEATURES = (
    "fp64",
    "fp16",
    "sub_groups",
    "correctly_rounded_divide_sqrt",
    "denormals",
    "fma",
    "unified_memory",
    "bfloat16_pairs",
    "quick_bfloat16_pairs",
)


def line(name: str, value: object) -> None:
    print(f"  {name + ':':22} {value}")


def size(bytes: int) -> str:
    return f"{bytes / 2**30:.1f} GiB" if bytes >= 2**30 else f"{bytes / 2**10:.0f} KiB"


def show_versions() -> None:
    print("versions")
    line("torch_ocl", torch_ocl.__version__)
    line("torch", torch.__version__)
    line("python", f"{platform.python_version()} at {sys.prefix}")
    line("system", platform.platform())


def show_loader() -> None:
    print("OpenCL loader")
    library = loader.library()
    line("library", loader.path_of(library) if library is not None else "none")
    drivers = loader.pip_drivers()
    line("drivers from pip", ", ".join(drivers) or "none")
    system = sorted(str(file) for file in loader.SYSTEM_VENDORS.glob("*.icd")) if loader.SYSTEM_VENDORS.is_dir() else []
    line("drivers of the system", ", ".join(system) or "none")
    for name in sorted(os.environ):
        if name.startswith(("TORCH_OCL_", "OCL_ICD_", "POCL_", "RUSTICL_")):
            line(name, os.environ[name])


def show_host(host: dict[str, Any]) -> None:
    """What base/processors.h found about this process."""
    print("this process")
    quota = f"{host['quota']:.3g} processors' worth of time" if host["quota"] else "none"
    line("processors", f"{host['processors']} in the machine, {host['allowed']} for this process")
    line("control group's quota", quota)
    line("threads of kernels", f"{host['threads']} on CPU devices, because of {host['reason']}")
    line(
        "memory",
        f"{size(host['physical_memory'])} in the machine, {size(host['total_memory'])} for this process, "
        f"{size(host['available_memory'])} available",
    )


def show_device(index: int) -> None:
    facts = ocl.get_device_properties(index)
    print(f"device ocl:{index}")
    line("name", facts.name)
    line("platform", f"{facts.platform_name} ({facts.platform_version})")
    line("driver", f"{facts.driver_version}, {facts.device_version}, {facts.c_version}")
    kind = "GPU" if facts.is_gpu else "CPU" if facts.is_cpu else "accelerator"
    line(
        "kind",
        f"{kind}, {facts.compute_units} compute units, vectors of {facts.vector_floats} floats, kernels in "
        f"{facts.style} style",
    )
    if facts.part:
        where = f", processors {facts.processors}" if facts.processors else ""
        node = f", NUMA node {facts.numa_node}" if facts.numa_node >= 0 else ""
        line("part of the CPU", f"{facts.part}{where}{node}")
    line(
        "memory",
        f"{size(facts.global_memory)}, at most {size(facts.max_allocation)} in one piece, {size(facts.local_memory)} "
        f"local",
    )
    line("work-group", f"at most {facts.max_work_group} work-items")
    line("float additions", f"atomic by {facts.float_atomics}")
    line("has", ", ".join(name for name in FEATURES if getattr(facts, name)) or "-")
    line("has not", ", ".join(name for name in FEATURES if not getattr(facts, name)) or "-")


def self_test(index: int) -> bool:
    """Runs the core's self-test and a small training step against the CPU. True when both agree."""
    good = True
    for name, result in dict(_core.core().self_test(index)).items():
        line(name, result)
        good &= result is not False and not str(result).startswith("failed")
    torch.manual_seed(0)
    x, weight = torch.randn(64, 48), torch.randn(32, 48, requires_grad=True)
    torch.nn.functional.cross_entropy(x @ weight.t(), torch.arange(64) % 32).backward()
    twin = weight.detach().to(f"ocl:{index}").requires_grad_()
    torch.nn.functional.cross_entropy(
        x.to(twin.device) @ twin.t(), torch.arange(64, device=twin.device) % 32
    ).backward()
    gradient, expected = twin.grad, weight.grad
    assert gradient is not None and expected is not None
    error = (gradient.cpu() - expected).abs().max().item()
    line(
        "a training step",
        f"{'ok' if error < 1e-5 else 'failed'} (largest difference of a gradient to the CPU's: {error:.1e})",
    )
    return good and error < 1e-5


def doctor() -> int:
    """Prints everything and returns the exit status: 0 when all devices work."""
    show_versions()
    show_loader()
    if not _core.loaded():
        print(f"problem\n  {_core.problem()}")
        return 1
    core, good = _core.core(), True
    show_host(core.host())
    for problem in core.device_problems():
        print(f"problem\n  {problem}")
    for index in range(core.device_count()):
        show_device(index)
    if core.device_count() == 0:
        print(f"problem\n  No OpenCL device was found: {loader.HOW_TO_INSTALL}.")
        return 1
    state = ocl.cache_state()
    print("cache of compiled programs")
    line("folder", ocl.cache_folder())
    line(
        "content",
        f"{state['files']} programs, {size(state['bytes'])}, {'writable' if state['writable'] else 'NOT writable'}",
    )
    for index in range(core.device_count()):
        print(f"self-test of ocl:{index}")
        try:
            good &= self_test(index)
        except Exception as error:
            line("failed", f"{type(error).__name__}: {error}")
            good = False
    if any(ocl.get_device_properties(index).is_cpu for index in range(core.device_count())):
        print("kernels compiled ahead of time")
        line("library", core.kernels_ahead())
    print("everything works" if good else "something is broken: see above")
    return 0 if good else 1


def environment_table() -> str:
    """Markdown table of the environment variables, from the list the library itself reads."""
    rows = ["| variable | default | values | meaning |", "|---|---|---|---|"]
    for name, default, values, meaning in _core.core().environment_table():
        rows.append(
            f"| `{name}` | {f'`{default}`' if default else ''} | {values} | {meaning.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Runs the command that the arguments name; returns the exit status."""
    if not arguments:
        return doctor()
    if arguments[0] == "warmup":
        from . import warmup

        return warmup.main(arguments[1:])
    if arguments[0] == "onnx":
        try:
            from .onnx import command
        except ImportError as error:
            print(error, file=sys.stderr)
            return 1
        return command.main(arguments[1:])
    if arguments == ["cache", "clear"]:
        before = ocl.cache_state()
        ocl.clear_cache()
        print(f"removed {before['files'] - ocl.cache_state()['files']} programs from {ocl.cache_folder()}")
        return 0
    if arguments in (["tuning"], ["tuning", "clear"]):
        device = ocl.current_device()
        if arguments == ["tuning"]:
            print(_core.core().tuning_table(device), end="")
        else:
            _core.core().clear_tuning(device)
        return 0
    if arguments == ["environment"]:
        print(environment_table())
        return 0
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
