"""docs/generated/accelerator.md: what users of an accelerator find on `ocl`, and the tests that prove it.

A test belongs to a row by `@pytest.mark.feature("name")` (or a module's `pytestmark`). A row without such tests names
the files that test it elsewhere, or says why the feature is missing (its tests then prove the error).
tests/python/test_documents.py fails when a mark has no row, when a row has neither, or when the document is out of
date.
"""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    name: str
    usage: str
    note: str = ""  # limits; why, when it is missing
    missing: bool = False
    files: tuple[str, ...] = ()  # tests outside the marks


OPS = "tests/python/ops"
ROWS = (
    Row("Device name", '`torch.device("ocl:0")`, `device=0`, `torch.set_default_device`'),
    Row("Device module", "`torch.ocl.*`: the names of `torch.cuda`"),
    Row("Tensor, module and storage methods", "`t.ocl()`, `t.is_ocl`, `model.ocl()`"),
    Row("Autoload", "`import torch` is enough", files=("tests/python/runtime/test_loading.py",)),
    Row("Lazy initialisation and forks", "nothing; a forked child gets CUDA's error",
        files=("tests/python/runtime/test_fork.py",)),
    Row("Current device", "`with torch.ocl.device(1):`, `torch.accelerator.set_device_index`"),
    Row("Streams", '`torch.Stream("ocl")`, `with stream:`, `wait_stream`', "Priorities are accepted and have no "
        "effect: OpenCL 1.2 has none."),
    Row("Events", "`torch.Event(enable_timing=True)`, `elapsed_time`", "`blocking` and `interprocess` have no effect."),
    Row("Synchronize", "`torch.accelerator.synchronize()`"),
    Row("Caching device allocator", "`torch.ocl.empty_cache()`, `caching_allocator_alloc`"),
    Row("Memory statistics", "`memory_allocated`, `max_memory_reserved`, `memory_stats`, `mem_get_info`, `reset_*`",
        "Memory that others use counts in `mem_get_info` only on devices that share memory with the host: OpenCL has "
        "no call for it."),
    Row("Long runs", "thousands of training steps", "The ordinary test runs 200 steps, `--full` 2,000."),
    Row("Memory snapshot", "`torch.ocl.memory_snapshot()`, `memory._dump_snapshot(file)`", "Segments and blocks, "
        "without a history of stack traces."),
    Row("Memory pools", "`torch.ocl.MemPool`, `use_mem_pool`, `graph_pool_handle`", "There is one allocator: pools "
        "take none of the user's."),
    Row("Out-of-memory error", "`except torch.OutOfMemoryError`"),
    Row("Pinned memory", "`t.pin_memory()`, `non_blocking=True`"),
    Row("record_stream", "`t.record_stream(stream)`"),
    Row("RNG", '`torch.manual_seed`, `torch.Generator("ocl")`, `get_rng_state`, `fork_rng`'),
    Row("Operators", "every operator that networks use", files=(OPS,)),
    Row("CPU fallback", "`torch.ocl.fallbacks()`, `TORCH_OCL_FALLBACK`"),
    Row("Structured operators", "`out=`, in-place and functional forms with PyTorch's checks",
        files=(f"{OPS}/test_elementwise.py",)),
    Row("Autograd", "`backward`, `torch.func`, forward mode, `torch.utils.checkpoint`, the transformer fast path",
        "`nn.TransformerEncoder` computes padded tensors."),
    Row("Custom operators", "`torch.library.custom_op`, `autograd.Function`"),
    Row("Autocast", '`torch.autocast("ocl", torch.float16)`', "CUDA's operator lists."),
    Row("GradScaler", '`torch.amp.GradScaler("ocl")`'),
    Row("Foreach optimizers", "the default of `torch.optim`", files=(f"{OPS}/test_optimizer.py",)),
    Row("Fused optimizers", "`Adam(..., fused=True)`", files=(f"{OPS}/test_optimizer.py",)),
    Row("Scaled dot-product attention", "`F.scaled_dot_product_attention`", files=(f"{OPS}/test_attention.py",)),
    Row("Serialization", "`torch.save`, `torch.load(map_location=)`, `pickle`, `deepcopy`, safetensors"),
    Row("DLPack", "`torch.from_dlpack`, `numpy.from_dlpack(x, device='cpu')`",
        "DLPack has no number for OpenCL memory: it travels as kDLExtDev. With `copy=False` the host reads shared "
        "memory in place; the import of host memory copies."),
    Row("NumPy and printing", "`print(t)`, `t.cpu().numpy()`"),
    Row("Device properties", "`get_device_properties`, `get_device_name`, `get_device_capability`"),
    Row("Graph capture", "`torch.accelerator.Graph`, `torch.ocl.graph`, `make_graphed_callables`",
        "A list of commands that is issued again; `torch.accelerator.Graph` with torch 2.13 and later."),
    Row("Profiler, events", '`torch.autograd.profiler.profile(use_device="ocl", use_kineto=False)`'),
    Row("Profiler, Kineto", "`torch.profiler.profile(activities=[CPU, PrivateUse1])`", "With torch 2.12 and later; "
        "2.11 takes no plug-in for other devices."),
    Row("Distributed", "`init_process_group`, DDP, FSDP, DTensor, `torchrun`", "Through PyTorch's Gloo, over TCP."),
    Row("torch.compile", '`torch.compile(backend="aot_eager")`'),
    Row("Inductor", "`torch.compile(model)`, `torch.compile(optimizer.step)`", "Modes that need CUDA graphs or Triton "
        "compile as the default does."),
    Row("AOTInductor", "`torch._inductor.aoti_compile_and_package`", "Packages load in Python, not in C++.",
        files=("tests/python/compile/test_packages.py",)),
    Row("Kernels of one's own", "`torch.ocl.compile_kernel(source)`; in C++ `torch_ocl/extension.h`",
        files=("examples/cpp_extension/run.py",)),
    Row("Sharing between processes", "tensors through a `torch.multiprocessing.Queue`", "They arrive as copies, with "
        "a warning: OpenCL memory belongs to one process."),
    Row("Peer access", "`can_device_access_peer`", "OpenCL devices do not read each other's memory, and tell no load, "
        "power or temperature."),
    Row("Per-process memory cap", "`set_per_process_memory_fraction`, `TORCH_OCL_MEMORY_LIMIT`"),
    Row("Nested tensors", "`torch.nested`, jagged and strided layout",
        "Jagged: what PyTorch has for any device, attention also causal. Strided: what ATen computes on their "
        "buffers, and `layer_norm`; the rest on the CPU."),
    Row("Sparse tensors", "`to_sparse`, `torch.sparse.mm`", "What has no kernel runs on the CPU."),
    Row(
        "Quantized tensors",
        "`torch.quantize_per_tensor`, `torch.ao.quantization`",
        "Making, converting, copying, viewing and joining them; what computes with them runs on the CPU.",
    ),
    Row("Hugging Face Accelerate and Trainer", "`Accelerator()`, `Trainer`, `device_map=\"auto\"`"),
    Row("torchvision operators", "`torchvision.ops.nms`, `roi_align`, `deform_conv2d`", "The others run on the CPU.",
        files=(f"{OPS}/test_vision.py",)),
    Row("PyTorch's device-generic tests", "`instantiate_device_type_tests`, the operator database",
        files=("tests/python/conformance",)),
    Row("Errors", "CUDA's exception types, naming device and operator"),
    Row("Determinism", "`torch.use_deterministic_algorithms(True)`"),
    Row("Data loading", "`DataLoader(num_workers=, pin_memory=True, persistent_workers=True)`"),
    Row("Threads", "training loops in several Python threads"),
    Row("Several devices", "devices of several platforms in one process"),
)  # fmt: skip

TEXT = """# What an accelerator has, and what `ocl` has of it

Generated by `python tools/generate_docs.py` from the tests' `feature` marks and the rows of
`tools/accelerator_table.py`; do not edit.

| feature | users write | on `ocl` | tests |
|---|---|---|---|
{rows}
"""


def _mark(node):
    """The feature that an expression marks, or None: pytest.mark.feature("x") or feature("x")."""
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        return node.args[0].value if name == "feature" else None
    return None


def marked_tests():
    """{feature: ["file.py::test", ...]} from the sources, so that no device is needed."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests" / "python").rglob("test_*.py")):
        where, of_module = file.relative_to(ROOT / "tests" / "python"), None
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark":
                of_module = _mark(node.value)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                features = {_mark(decorator) for decorator in node.decorator_list} | {of_module}
                for feature in filter(None, features):
                    found.setdefault(feature, []).append(f"{where}::{node.name}")
    return found


def problems():
    """What is wrong with the table, one line each."""
    tests, names = marked_tests(), {row.name for row in ROWS}
    for feature in sorted(tests.keys() - names):
        yield f"the mark {feature!r} has no row ({tests[feature][0]})"
    for row in ROWS:
        if row.missing and not row.note:
            yield f"{row.name!r} is called missing without a reason"
        if not row.missing and row.name not in tests and not row.files:
            yield f"{row.name!r} has no test"
        for file in row.files:
            if not (ROOT / file).exists():
                yield f"{row.name!r} names {file}, which does not exist"


def _links(row, tests):
    by_file: dict[str, list[str]] = {}
    for test in tests.get(row.name, []):
        file, name = test.split("::")
        by_file.setdefault(file, []).append(f"`{name}`")
    parts = [f"[{Path(file).name}](../../tests/python/{file}): {', '.join(names)}" for file, names in by_file.items()]
    return "<br>".join([*parts, *(f"[{Path(file).name}](../../{file})" for file in row.files)])


def document():
    tests = marked_tests()
    rows = [
        f"| {row.name} | {row.usage} | "
        f"{'**not supported.** ' if row.missing else 'yes. ' if row.note else 'yes'}{row.note} | {_links(row, tests)} |"
        for row in ROWS
    ]
    return TEXT.format(rows="\n".join(rows))
