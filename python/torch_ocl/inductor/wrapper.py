"""The Python module that Inductor writes for a graph: kernels are collected, built together, and called."""

from typing import Any

from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V

from .lanes import style_width


class OclWrapper(PythonWrapperCodegen):  # type: ignore[misc]
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
            from torch_ocl.inductor.runtime import GraphKernels
            ocl_kernels = GraphKernels({device.index or 0}, width={style_width(device)})
            """,
            strip=True,
        )

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline("globals().update(ocl_kernels.build())")

    def define_kernel(
        self, kernel_name: str, kernel_body: str, metadata: str | None = None, gpu: bool = True, *rest: Any, **more: Any
    ) -> None:
        super().define_kernel(kernel_name, kernel_body, metadata, gpu, *rest, **more)

    def _generate_kernel_call_helper(self, kernel_name: str, call_args: Any, **options: Any) -> None:
        self.writeline(self.wrap_kernel_call(kernel_name, call_args))


def _device_of_graph() -> Any:
    import torch

    return next(
        (device for device in V.graph.device_node_mapping if getattr(device, "type", "") == "ocl"),
        torch.device("ocl", torch.ocl.current_device()),
    )


class OclDeviceOpOverrides(DeviceOpOverrides):  # type: ignore[misc]
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
