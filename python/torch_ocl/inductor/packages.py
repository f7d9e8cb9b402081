"""AOTInductor packages of `ocl`: what torch._inductor.aoti_compile_and_package makes of an exported program.

Upstream's packages hold a shared library that C++ is compiled to, for devices that PyTorch's headers name. One of `ocl`
holds the Python module that Inductor writes for the graph, with the OpenCL C of its kernels, and the constants: it is
loaded by the same public functions, into Python, and needs no C++ compiler on either side.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.utils._pytree as pytree
from torch import fx

from .. import ocl
from .._version import __version__
from . import fallback
from .fallback import uses_ocl

MARK = "ocl.json"  # the file of a package that says that it is one of `ocl`
CODE, CONSTANTS = "ocl.code", "ocl.constants"
_FOLDER = "data/aotinductor/"


def _attribute(module: torch.nn.Module, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), module)


def _dense(value: torch.Tensor) -> torch.Tensor:
    """As it comes back from a file: without gaps, overlaps and an offset."""
    dense = torch.empty_like(value, device="meta")
    return value if value.stride() == dense.stride() else value.contiguous()


def _lift(graph: fx.GraphModule) -> tuple[fx.GraphModule, dict[str, torch.Tensor]]:
    """The graph with its tensors as arguments, in front of its own, and those tensors by name."""
    constants: dict[str, torch.Tensor] = {}
    nodes: dict[str, fx.Node] = {}
    old = graph.graph
    last: fx.Node | None = None
    for node in list(old.find_nodes(op="get_attr")):
        value = _attribute(graph, node.target)
        if not isinstance(value, torch.Tensor):
            continue
        if node.users and node.target not in nodes:
            with old.inserting_after(last) if last else old.inserting_before(None):
                nodes[node.target] = last = old.placeholder(f"constant_{len(nodes)}")
            constants[node.target] = _dense(value.detach())
        if node.users:
            node.replace_all_uses_with(nodes[node.target])
        old.erase_node(node)
    for node in list(old.find_nodes(op="placeholder")):  # numbers, strings and None: exported as what they were
        value = node.meta.get("val")
        if node in nodes.values() or isinstance(value, torch.Tensor):
            continue
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise RuntimeError(f"AOTInductor: the argument {node.name} is a number that may change; pass a tensor")
        node.replace_all_uses_with(value)
        old.erase_node(node)
    return fx.GraphModule(graph, old), constants


def _fake_mode(graph: fx.GraphModule) -> Any:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch._subclasses.FakeTensor):
            return value.fake_mode
    return FakeTensorMode(shape_env=ShapeEnv())


def _inputs(graph: fx.GraphModule) -> list[Any]:
    """The values of a lifted graph's own arguments."""
    return [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder") if "val" in node.meta]


@contextlib.contextmanager
def _environment(mode: Any, options: dict[str, Any]) -> Iterator[None]:
    """Inductor as for one graph of inference that is kept whole, and that fails where it cannot be compiled."""
    from torch._guards import TracingContext, tracing
    from torch._inductor.virtualized import V

    with (
        torch.no_grad(),
        V.set_aot_compilation(False),
        tracing(TracingContext(mode)),
        torch._functorch.config.patch(bundled_autograd_cache=True),
        torch._inductor.config.patch(options),
        mock.patch.object(fallback, "strict", True),
    ):
        yield


def _artifact() -> Any:
    """PyTorch's form of a compiled function in a file."""
    try:
        from torch._inductor.standalone_compile import AOTCompiledArtifact
    except ImportError as error:
        raise RuntimeError(
            f"PyTorch {torch.__version__} cannot keep compiled graphs of ocl in a file. Save the exported program with "
            f"torch.export.save(program, path), and compile it where it runs: "
            f"torch.compile(torch.export.load(path).module())."
        ) from error
    return AOTCompiledArtifact


def _compile(graph: fx.GraphModule, constants: dict[str, torch.Tensor], options: dict[str, Any]) -> bytes:
    """The compiled function of constants and inputs, as text that another process can load."""
    from torch._inductor.compile_fx import compile_fx

    artifact = _artifact()
    mode = _fake_mode(graph)
    inputs = [mode.from_tensor(value, static_shapes=True) for value in constants.values()]
    inputs += _inputs(graph)
    with _environment(mode, options):
        compiled = compile_fx(graph, inputs)
    if not hasattr(compiled, "serialize"):
        raise RuntimeError(
            "AOTInductor: the graph cannot be kept in a file, for it holds something that is of this process alone. "
            "TORCH_LOGS=+torch._functorch._aot_autograd.autograd_cache says what."
        )
    return bytes(artifact(compiled).serialize())


def _device_index(graph: fx.GraphModule, constants: dict[str, torch.Tensor]) -> int:
    values = [*constants.values(), *(node.meta.get("val") for node in graph.graph.nodes)]
    found = {v.device.index or 0 for v in values if isinstance(v, torch.Tensor) and v.device.type == "ocl"}
    if len(found) > 1:
        raise RuntimeError(f"AOTInductor packages hold graphs of one device, not of ocl:{sorted(found)}")
    return found.pop()


def _style(index: int) -> str:
    return str(ocl.get_device_properties(index).style)


def _versions() -> dict[str, str]:
    """Of what reads a package."""
    return {"PyTorch": str(torch.__version__), "torch_ocl": __version__}


def _kind(value: torch.Tensor) -> str:
    """What generated code takes for granted of an input besides sizes and strides, which it checks itself."""
    device = f"{value.device.type}:{value.device.index or 0}" if value.device.type != "cpu" else "cpu"
    return f"{value.dim()}-dimensional {value.dtype} on {device}"


def write(graph: fx.GraphModule, options: dict[str, Any]) -> list[str]:
    """Compiles `graph`, an exported program with flat arguments, and returns the files for its package.

    Raises RuntimeError where the graph has arguments that are numbers which may change, or lies on several devices."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    lifted, constants = _lift(graph)
    index = _device_index(lifted, constants)
    specs = [options.pop(f"aot_inductor.serialized_{name}_spec", "") for name in ("in", "out")]
    metadata = dict(options.pop("aot_inductor.metadata", {}))
    options = {k: v for k, v in options.items() if not k.startswith("aot_inductor.")} | {"cpp_wrapper": False}
    code = _compile(lifted, constants, options)
    described = {
        "versions": _versions(),
        "device": index,
        "style": _style(index),
        "call_spec": specs,
        "inputs": [_kind(value) for value in _inputs(lifted)],
        "constants": {name: str(value.device) for name, value in constants.items()},
        "metadata": {**{k: str(v) for k, v in metadata.items()}, "AOTI_DEVICE_KEY": "ocl"},
    }
    kept = io.BytesIO()
    torch.save({name: value.cpu() for name, value in constants.items()}, kept)
    folder = Path(cache_dir()) / "ocl_packages" / hashlib.sha256(code + kept.getvalue()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    files = {MARK: json.dumps(described).encode(), CODE: code, CONSTANTS: kept.getvalue()}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in files]


@dataclasses.dataclass
class Loader:
    """A package in this process, with the functions of torch._C._aoti.AOTIModelPackageLoader."""

    described: dict[str, Any]
    function: Any
    constants: dict[str, torch.Tensor]

    def get_call_spec(self) -> list[str]:
        return list(self.described["call_spec"])

    def get_metadata(self) -> dict[str, str]:
        return dict(self.described["metadata"])

    def get_constant_fqns(self) -> list[str]:
        return list(self.constants)

    def boxed_run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        kinds = [_kind(value) for value in inputs]
        if kinds != self.described["inputs"]:
            raise RuntimeError(f"The package takes {self.described['inputs']}, and was given {kinds}")
        arguments = [*self.constants.values(), *inputs]
        inputs.clear()
        with torch.no_grad():
            return list(self.function(*arguments))

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return self.boxed_run(list(inputs))

    def load_constants(
        self,
        constants: dict[str, torch.Tensor],
        use_inactive: bool = False,
        check_full_update: bool = False,
        user_managed: bool = False,
        allow_h2d_copy: bool = False,
    ) -> None:
        """Takes other values for constants; with `user_managed` the tensors themselves, else copies of them.

        Raises RuntimeError for names that are missing, sizes, types and devices that are not those of the package."""
        missing = self.constants.keys() - constants.keys()
        if check_full_update and missing:
            raise RuntimeError(f"load_constants: no value for {', '.join(sorted(missing))}")
        for name, value in constants.items():
            if name not in self.constants:
                continue  # parts of the program that the graph does not read
            old = self.constants[name]
            if value.shape != old.shape or value.dtype != old.dtype:
                wanted, given = ((v.dtype, tuple(v.shape)) for v in (old, value))
                raise RuntimeError(f"load_constants: {name} must be {wanted}, not {given}")
            if value.device != old.device and (user_managed or not allow_h2d_copy):
                raise RuntimeError(f"load_constants: {name} must be on {old.device}, not on {value.device}")
            same = user_managed and value.stride() == old.stride()
            new = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype, device=old.device)
            self.constants[name] = value.detach() if same else new.copy_(value.detach())


def _check(described: dict[str, Any], device_index: int) -> None:
    """Raises ValueError where the package is not for this PyTorch, or not for a device that is here. (torch's
    load_package takes a RuntimeError for the sign of an old format.)"""
    if described["versions"] != _versions():
        raise ValueError(
            f"The package was made with {described['versions']}, and these are {_versions()}: make it again with "
            f"torch._inductor.aoti_compile_and_package."
        )
    index = described["device"]
    if device_index not in (-1, index):
        raise ValueError(f"The package was made for ocl:{index} and cannot be loaded to ocl:{device_index}")
    if index >= ocl.device_count() or _style(index) != described["style"]:
        raise ValueError(f"The package was made for a device of the style {described['style']} as ocl:{index}")


def load(file: str, model: str, device_index: int = -1) -> Loader | None:
    """The model of a package, or None where it is no package of `ocl`. Unpickles code: load only what you trust, as
    with the shared libraries of other packages.

    Raises ValueError where it was made with another PyTorch, or for a device that is not there."""
    from torch.export.pt2_archive._package import PT2ArchiveReader

    folder = f"{_FOLDER}{model}/"
    with PT2ArchiveReader(file) as archive:
        if folder + MARK not in archive.get_file_names():
            return None
        described = json.loads(archive.read_string(folder + MARK))
        _check(described, device_index)
        code, kept = archive.read_bytes(folder + CODE), archive.read_bytes(folder + CONSTANTS)
    places, values = described["constants"], torch.load(io.BytesIO(kept), weights_only=True)
    constants = {name: values[name].to(place) for name, place in places.items()}
    return Loader(described, _artifact().deserialize(code), constants)


def _is_ours(model: Any, inputs: Any) -> bool:
    values = [*inputs, *model.parameters(), *model.buffers()]
    return uses_ocl(model) or any(isinstance(v, torch.Tensor) and v.device.type == "ocl" for v in values)


def install(compile_fx: Any) -> None:
    """Stands in for AOTInductor's compiler where a program is on `ocl`."""
    original = compile_fx.compile_fx_aot

    @functools.wraps(original)
    def compile_fx_aot(
        model_: Any, example_inputs_: Any, inner_compile: Any = None, config_patches: dict[str, Any] | None = None
    ) -> Any:
        options = dict(config_patches or {})
        inner = [] if inner_compile is None else [inner_compile]
        if not _is_ours(model_, example_inputs_):
            return original(model_, example_inputs_, *inner, config_patches=options)
        if not options.get("aot_inductor.package"):
            raise RuntimeError(
                "AOTInductor's shared libraries cannot be made for ocl: torch._inductor.aoti_compile_and_package makes "
                "a package that torch._inductor.aoti_load_package loads."
            )
        return write(model_, options)

    compile_fx.compile_fx_aot = compile_fx_aot
    _name_packages(sys.modules["torch._inductor"])


def _name_packages(inductor: Any) -> None:
    """Without package_path, upstream names a package like the library in it."""
    original = inductor._aoti_compile_and_package_inner

    @functools.wraps(original)
    def package(gm: Any, args: Any, kwargs: Any = None, *, package_path: Any = None, **options: Any) -> Any:
        if package_path is None and _is_ours(gm, pytree.tree_leaves((args, kwargs))):
            from torch._inductor.runtime.cache_dir_utils import cache_dir

            folder = Path(cache_dir()) / "ocl_packages"
            folder.mkdir(parents=True, exist_ok=True)
            package_path = os.fspath(folder / f"{hashlib.sha256(gm.code.encode()).hexdigest()[:32]}.pt2")
        return original(gm, args, kwargs, package_path=package_path, **options)

    inductor._aoti_compile_and_package_inner = package


def install_loader(package: Any) -> None:
    """Stands in for the loader of torch.export.pt2_archive where a model of a package is one of `ocl`."""
    original = package._load_aoti

    @functools.wraps(original)
    def load_aoti(
        file: str, model_name: str, run_single_threaded: bool, num_runners: int, device_idx: int, *more: Any
    ) -> Any:
        found = load(file, model_name, device_idx)
        if found is not None:
            return package.AOTICompiledModel(found)
        return original(file, model_name, run_single_threaded, num_runners, device_idx, *more)

    package._load_aoti = load_aoti
