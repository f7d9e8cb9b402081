"""The Python module that Inductor writes for a graph: kernels are collected, built together, and called."""

import textwrap
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V

from .. import ocl
from .direct import DirectLine, graph_arguments
from .lanes import style_width


class OclWrapper(PythonWrapperCodegen):
    def __init__(self) -> None:
        self._guards: list[bool] = []  # of the devices entered, whether code was written for it
        self._inputs: list[str] = []
        self._layouts: dict[str, tuple[str, str]] = {}  # of inputs, as text
        self._direct: tuple[str | None] | None = None
        super().__init__()

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return SubgraphPythonWrapperCodegen(subgraph_name, parent_wrapper, partition_signatures)
        return OclWrapper()

    def write_header(self) -> None:
        super().write_header()
        device = V.graph.get_current_device_or_throw() if V.graph.current_device else _device_of_graph()
        self.header.splice(
            f"""
            import torch_ocl
            from torch_ocl._C import empty_strided as empty_strided_ocl
            from torch_ocl.inductor.runtime import GraphKernels, assert_input, assert_size_stride
            ocl_kernels = GraphKernels({device.index or 0}, width={style_width(device)})
            """,
            strip=True,
        )

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline("globals().update(ocl_kernels.build())")

    def write_args(self, input_names: list[str]) -> None:
        self._inputs = input_names
        super().write_args(input_names)

    def generate_after_suffix(self, result: Any) -> None:
        super().generate_after_suffix(result)
        result.writeline(DirectLine(self, "call = ocl_kernels.graph(call, {})"))

    def codegen_input_size_asserts(self) -> None:
        super().codegen_input_size_asserts()
        for name, value in self.get_graph_inputs().items():
            if isinstance(value, ir.TensorBox) and sympy_product(value.get_size()) != 0:
                size, stride = value.get_size(), value.get_stride()
                self._layouts[name] = self.codegen_python_shape_tuple(size), self.codegen_python_shape_tuple(stride)

    def direct_call(self) -> str | None:
        """The arguments of GraphKernels.graph (direct.py), once the whole graph is written."""
        if self._direct is None:
            body = self.wrapper_call.getvalue()
            device = _device_of_graph().index or 0
            self._direct = (graph_arguments(self._inputs, self._layouts, textwrap.dedent(body), device),)
        return self._direct[0]

    def writeline(self, line: Any) -> None:
        """Without Inductor's checks that results of operators lie at multiples of 16 bytes: kernels here may begin
        anywhere, and operators of lists return parts of one tensor."""
        if not (isinstance(line, str) and line.startswith("assert_alignment(")):
            super().writeline(line)

    def _codegen_assert_size_stride(self, code: Any, name: str, size: str, stride: str, op_name: str) -> None:
        """Inputs are never put in order by a copy: their check, one for each at every call, is PyTorch's own."""
        function = "assert_input" if op_name == "input" else "assert_size_stride"
        code.writeline(f"{function}({name}, {size}, {stride}, {op_name!r})")

    def make_allocation(
        self,
        name: str,
        device: Any,
        dtype: Any,
        shape: Any,
        stride: Any,
        allocation_shape: Any = None,
        is_pinned: bool = False,
    ) -> str:
        if device.type != "ocl" or (allocation_shape is not None and tuple(allocation_shape) != tuple(shape)):
            return str(super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned))
        size, strides = (self.codegen_python_shape_tuple(numbers) for numbers in (shape, stride))
        return f"{name} = empty_strided_ocl({size}, {strides}, {dtype}, {device.index or 0})"

    def codegen_device_guard_enter(self, device_idx: int, num_streams: int = 1, *rest: Any, **more: Any) -> None:
        """Kernels and allocations name their device; other operators have guards of their own."""
        self._guards.append(ocl.device_count() > 1 or num_streams > 1)
        if self._guards[-1]:
            streams = (num_streams,) if num_streams > 1 or rest or more else ()
            super().codegen_device_guard_enter(device_idx, *streams, *rest, **more)

    def codegen_device_guard_exit(self) -> None:
        if self._guards.pop():
            super().codegen_device_guard_exit()

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, **options: Any) -> None:
        self.writeline(self.wrap_kernel_call(kernel_name, call_args))


def _device_of_graph() -> Any:
    return next(
        (device for device in V.graph.device_node_mapping if getattr(device, "type", "") == "ocl"),
        torch.device("ocl", ocl.current_device()),
    )


class OclDeviceOpOverrides(DeviceOpOverrides):
    """Lines of generated modules."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = lambda index: 0"

    def set_device(self, device_idx: int) -> str:
        return f"torch.ocl.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.ocl.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.ocl.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.ocl.current_stream()"

    def aten_device_type(self) -> str:
        return "c10::DeviceType::PrivateUse1"
