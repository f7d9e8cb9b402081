"""Everything of Inductor that is changed for `ocl`, and every difference between torch 2.11 and 2.15.

Each function asks whether its change is needed by looking for the name, not for a version. docs/design/compiler.md
lists them.
"""

import functools
import hashlib
from pathlib import Path
from typing import Any

import torch

from .. import ocl

# Raised when the text of generated kernels changes its meaning; kernels_cl is part of the programs' own key.
GENERATOR = 2


def join_gpu_types(utils: Any) -> None:
    """Inductor's list of device types that are not the host.

    Outside of it, a CPU scalar times a tensor of the device becomes a CPU kernel that gets a device pointer.
    get_gpu_type() asserts that one type at most is there: CUDA keeps that place."""
    if "ocl" not in utils.GPU_TYPES:
        utils.GPU_TYPES.append("ocl")
    original = utils.get_gpu_type

    @functools.cache
    def get_gpu_type() -> str:
        others = [kind for kind in utils.GPU_TYPES if kind != "ocl" and getattr(torch, kind).is_available()]
        return str(original()) if len(others) > 1 else others[0] if others else "ocl"

    utils.get_gpu_type = get_gpu_type


def no_templates(utils: Any) -> None:
    """Triton's templates of products and convolutions are offered to every GPU type with many compute units."""
    original = utils.is_big_gpu

    @functools.wraps(original)
    def is_big_gpu(index_or_device: Any = 0) -> bool:
        kind = index_or_device.type if isinstance(index_or_device, torch.device) else utils.get_gpu_type()
        return kind != "ocl" and bool(original(index_or_device))

    utils.is_big_gpu = is_big_gpu


def create_backend_without_triton(scheduler: Any, common: Any, virtualized: Any) -> None:
    """Scheduler.create_backend asks every GPU type but mps for Triton."""
    original = scheduler.Scheduler.create_backend

    @functools.wraps(original)
    def create_backend(self: Any, device: torch.device) -> Any:
        if device.type != "ocl":
            return original(self, device)
        virtualized.V.graph.add_device_info(device)
        return common.get_scheduling_for_device("ocl")(self)

    scheduler.Scheduler.create_backend = create_backend


@functools.cache
def generator_hash() -> str:
    """Of this package's own text: generated modules that an older one wrote are not taken from the cache."""
    digest = hashlib.sha256(str(GENERATOR).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def system_info() -> dict[str, Any]:
    devices = [ocl.get_device_properties(i) for i in range(ocl.device_count())]
    return {
        "ocl": [[d.name, d.driver_version, d.style, d.compute_units] for d in devices],
        "generator": generator_hash(),
    }


def cache_key_names_the_device(codecache: Any) -> None:
    """CacheBase.get_system knows CUDA only."""
    original = codecache.CacheBase.get_system

    @functools.cache
    def get_system() -> Any:
        system = dict(original())
        text = f"{system['hash']} {system_info()}"
        return {**system, "hash": hashlib.sha256(text.encode()).hexdigest()}

    codecache.CacheBase.get_system = staticmethod(get_system)


def split_reductions_by_units(choices: Any) -> None:
    """How many parts a reduction with few results is split into. Upstream counts in CUDA's threads."""
    original = choices.InductorChoices.reduction_split_factor
    parts_of_the_last: tuple[int, int] | None = None

    def reduction_split_factor(
        device: torch.device, reduction_numel_hint: int, numel_hint: int, inner_reduction: bool
    ) -> int:
        if device.type != "ocl":
            return int(original(device, reduction_numel_hint, numel_hint, inner_reduction))
        nonlocal parts_of_the_last
        sizes = int(reduction_numel_hint), int(numel_hint)
        if sizes == parts_of_the_last:  # Inductor asks again for the parts
            return 1
        split = split_of(device, *sizes, inner_reduction)
        parts_of_the_last = -(-sizes[0] // split), sizes[1] * split
        return split

    choices.InductorChoices.reduction_split_factor = staticmethod(reduction_split_factor)


def split_of(device: torch.device, columns: int, rows: int, inner: bool) -> int:
    """1 where the results are enough tasks, or a part would be small."""
    from .columns import STRIP, WIDTH  # not at import: this module is one of the first, Inductor's are not there yet

    properties = ocl.get_device_properties(device)
    lanes = 1 if inner or properties.style == "gpu" else STRIP * WIDTH
    units = max(int(properties.compute_units), 1) * (1 if properties.style == "cpu" else 64)
    tasks, wanted = -(-rows // lanes), 4 * units
    if tasks >= wanted // 2 or columns * rows < 65536:
        return 1
    parts = min(-(-wanted // tasks), max(columns * min(rows, lanes) // 8192, 1), columns)
    if inner and properties.style == "cpu":  # long parts leave threads waiting for the one that is disturbed
        parts = min(max(parts, columns * rows // 32768 // rows), 4 * parts)
    # even parts, where there are some nearby: uneven ones need a mask
    # Inductor takes a part for a reduction, and writes short ones as additions
    most = max(columns // max(int(torch._inductor.config.unroll_reductions_threshold), 2), 1)
    for candidate in range(parts, min(2 * parts, most) + 1):
        if columns % candidate == 0:
            return candidate
    return max(min(parts, most), 1)


def take_unaligned_inputs(compile_fx: Any) -> None:
    """Inputs of GPU types are checked, and copied when they do not lie at a multiple of 16 bytes. Kernels here may
    begin anywhere."""
    original = compile_fx.get_input_idxs_to_check

    def get_input_idxs_to_check(inputs: Any, static_input_idxs: Any) -> Any:
        def on_ocl(value: Any) -> bool:
            return isinstance(value, torch.Tensor) and value.device.type == "ocl"

        return [i for i in original(inputs, static_input_idxs) if not on_ocl(inputs[i])]

    compile_fx.get_input_idxs_to_check = get_input_idxs_to_check


def keep_layouts(config: Any) -> None:
    """Layout optimisation permutes every weight of a convolution at every call."""
    config.layout_optimization = config.layout_optimization and torch.cuda.is_available()
