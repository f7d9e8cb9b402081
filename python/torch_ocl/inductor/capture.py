"""mode="reduce-overhead": a compiled graph is recorded as a torch.ocl.OclGraph, and replayed instead of called.

PyTorch's own code for this (cudagraph_trees) is for CUDA's allocator. Here a replay never changes a tensor that the
caller still has: outputs are tensors over the recording's memory, and one that is still alive at the next call makes
that call record again, into other memory, with this output as a copy from then on.
"""

import collections
import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from .. import _core
from ..ocl import graphs, streams

_guards: Any = torch._C._dynamo.guards
_reinterpret: Any = _guards._reinterpret_tensor
_use_count: Any = torch._C._storage_Use_Count

# Of one graph with the same sizes. Each further one has learned an address that changes or an output that stays.
MOST_RECORDINGS = 16
# Of one graph: other sizes than these are called without a recording.
MOST_SIZES = 32

Call = Callable[[list[Any]], Any]


class _NotCapturedError(RuntimeError):
    """The graph cannot be recorded; the text says why."""


@functools.cache
def warn_once(reason: str) -> None:
    warnings.warn(
        f"torch.compile: skipping graph capture on ocl due to {reason}. The graph runs compiled, without a replay.",
        stacklevel=2,
    )


def _storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _on_ocl(value: torch.Tensor) -> bool:
    return value.device.type == "ocl" and value.layout is torch.strided


@functools.cache
def _references_of_python() -> int:
    """Those that stay with a storage once Python has seen it; they differ among versions of PyTorch."""
    tensor = torch.empty(1)
    return int(_use_count(_storage_of(tensor))) - 1


class _Memory:
    """Memory of a recording that outputs lie in."""

    def __init__(self, output: torch.Tensor) -> None:
        self.bytes = torch.empty(0, dtype=torch.uint8, device=output.device).set_(output.untyped_storage())
        self.key = _storage_of(output)
        self.own = 1 + _references_of_python()  # references that are not the caller's
        self.kept = False  # outputs of it are given as copies

    def alive(self) -> bool:
        return not self.kept and int(_use_count(self.key)) > self.own


class _Output:
    """One result: an input or a part of it, a part of the recording's memory, or the same at every call."""

    def __init__(self, value: Any, memory: _Memory | None = None, of_input: int = -1, increment: int = 0) -> None:
        self.value, self.memory, self.of_input, self.increment = value, memory, of_input, increment
        if isinstance(value, torch.Tensor):
            self.size, self.stride = tuple(value.shape), value.stride()

    def give(self, inputs: Sequence[Any], copies: dict[int, torch.Tensor]) -> Any:
        if self.of_input >= 0:
            value = inputs[self.of_input]
            return value if self.value is None else _reinterpret(value, self.size, self.stride, self.increment)
        if self.memory is None:
            return self.value
        if not self.memory.kept:
            return _reinterpret(self.value, self.size, self.stride, 0)
        copy = copies.get(self.memory.key)
        if copy is None:  # outputs that share memory go on sharing it
            copy = copies[self.memory.key] = self.memory.bytes.clone()
        empty = torch.empty(0, dtype=self.value.dtype, device=self.value.device)
        return empty.set_(copy.untyped_storage(), self.value.storage_offset(), self.size, self.stride)


_lock = threading.Lock()  # one capture at a time: they share a stream
_recordings: "weakref.WeakSet[Recording]" = weakref.WeakSet()


@functools.cache
def _capture_stream(device: int) -> Any:
    return streams.Stream(device)


def _in_recorded_memory(tensor: torch.Tensor) -> bool:
    key = _storage_of(tensor)
    return any(key in recording.memory for recording in list(_recordings))


def _without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """One of each element of an expanded tensor."""
    if 0 not in tensor.stride():
        return tensor
    size = [1 if step == 0 else n for n, step in zip(tensor.size(), tensor.stride(), strict=True)]
    return tensor.as_strided(size, tensor.stride()) if tensor.numel() else tensor


class Recording:
    """A graph's work for inputs of one size. `fixed`: inputs that it reads, or changes, where they lie; the others are
    copied into buffers of its own. `kept`: indices of outputs that the caller keeps over the next call."""

    def __init__(self, call: Call, inputs: Sequence[Any], fixed: Sequence[int], kept: set[int], device: int) -> None:
        self.memory: dict[int, _Memory] = {}
        self.device = device
        self.fixed = [(i, inputs[i].data_ptr()) for i in fixed]
        self.copied = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and i not in fixed]
        arguments = list(inputs)
        for i in self.copied:
            arguments[i] = torch.empty_strided(
                inputs[i].size(), inputs[i].stride(), dtype=inputs[i].dtype, device=inputs[i].device
            )
        self.buffers = [_without_repeats(arguments[i]) for i in self.copied]
        self._graph = graphs.OclGraph()
        with _lock, torch.no_grad(), graphs.graph(self._graph, stream=_capture_stream(device)):
            results = call(list(arguments))
        places = {_storage_of(inputs[i]): i for i in fixed}
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        self.outputs = [self._output(results[i], inputs, places, i in kept) for i in range(len(results))]
        del results, arguments
        self._count_references()
        self._stream: Any = None
        _recordings.add(self)

    def _output(self, value: Any, inputs: Sequence[Any], places: dict[int, int], kept: bool) -> _Output:
        if not isinstance(value, torch.Tensor):
            return _Output(value)
        if not _on_ocl(value):
            raise _NotCapturedError(f"an output of type {type(value).__name__} on {value.device.type}")
        place = places.get(_storage_of(value), -1)
        if place >= 0:
            whole = inputs[place]
            is_input = value is whole
            return _Output(None if is_input else value, None, place, value.storage_offset() - whole.storage_offset())
        memory = self.memory.get(_storage_of(value))
        if memory is None:
            memory = _Memory(value)
            self.memory[memory.key] = memory
        memory.kept = memory.kept or kept
        return _Output(value, memory)

    def _count_references(self) -> None:
        """To memory of outputs. More than are known here are those of constants, or of buffers that operators keep."""
        tensors = {id(t): t for t in (*self.buffers, *(o.value for o in self.outputs if o.memory is not None))}
        for memory in self.memory.values():
            memory.own += sum(_storage_of(tensor) == memory.key for tensor in tensors.values())
            count = int(_use_count(memory.key))
            memory.kept = memory.kept or count > memory.own
            memory.own = min(memory.own, count)

    def changed(self, inputs: Sequence[Any]) -> list[int]:
        """Inputs that lie elsewhere than when they were recorded."""
        return [i for i, address in self.fixed if inputs[i].data_ptr() != address]

    def alive(self) -> list[int]:
        """Outputs of the last call that somebody has still."""
        alive = {key for key, memory in self.memory.items() if memory.alive()}
        if not alive:
            return []
        return [i for i, output in enumerate(self.outputs) if output.memory is not None and output.memory.key in alive]

    def replay(self, inputs: list[Any]) -> list[Any]:
        stream = torch._C._accelerator_getStream(self.device)
        if self._stream is not None and self._stream != stream:
            stream.wait_stream(self._stream)
        self._stream = stream
        if self.copied:
            with torch._C._AutoDispatchBelowAutograd():  # buffers have no gradients, and no inference mode either
                torch._foreach_copy_(self.buffers, [_without_repeats(inputs[i]) for i in self.copied])
        self._graph.replay()
        copies: dict[int, torch.Tensor] = {}
        return [output.give(inputs, copies) for output in self.outputs]


class _Size:
    """A graph for inputs of one size: called, then recorded, then replayed."""

    def __init__(self, graph: "Captured") -> None:
        self._graph = graph
        self._recording: Recording | None = None
        self._called = False
        self._recordings_made = 0
        self._elsewhere: collections.Counter[int] = collections.Counter()  # times that an input had moved
        self._copied: set[int] = set()
        self._kept: set[int] = set()

    def __call__(self, inputs: list[Any]) -> Any:
        if not self._called:  # kernels compile, and algorithms are measured
            self._called = True
            return self._graph.call(inputs)
        recording = self._recording
        if recording is not None:
            changed, alive = recording.changed(inputs), recording.alive()
            if not changed and not alive:
                return self._replay(recording, inputs)
            self._learn(changed, alive)
        recording = self._record(inputs)
        return self._graph.call(inputs) if recording is None else self._replay(recording, inputs)

    @staticmethod
    def _replay(recording: Recording, inputs: list[Any]) -> list[Any]:
        results = recording.replay(inputs)
        inputs.clear()
        return results

    def _learn(self, changed: Sequence[int], alive: Sequence[int]) -> None:
        self._recording = None
        self._kept.update(alive)
        self._elsewhere.update(changed)
        self._copied.update(i for i in changed if self._elsewhere[i] > 1)

    def _record(self, inputs: list[Any]) -> Recording | None:
        """None where that is not possible; the graph is then called from now on."""
        graph = self._graph
        try:
            self._recordings_made += 1
            if self._recordings_made > MOST_RECORDINGS:
                raise _NotCapturedError("inputs in ever other memory")
            self._recording = Recording(graph.call, inputs, self._fixed(inputs), self._kept, graph.device)
        except RuntimeError as error:
            graph.refuse(error)
        return self._recording

    def _fixed(self, inputs: Sequence[Any]) -> list[int]:
        fixed = []
        for i, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                mutated = i in self._graph.mutated
                if not _on_ocl(value):
                    raise _NotCapturedError(f"an input of type {type(value).__name__} on {value.device.type}")
                if i in self._copied and mutated:
                    raise _NotCapturedError("mutated inputs that lie elsewhere at every call")
                if i not in self._copied and (mutated or i in self._graph.static or _in_recorded_memory(value)):
                    fixed.append(i)
                elif torch._debug_has_internal_overlap(_without_repeats(value)) == 1:
                    raise _NotCapturedError("an input whose elements overlap")
            elif not isinstance(value, (int, float, type(None))):
                raise _NotCapturedError(f"an input of type {type(value).__name__}")
        return fixed


class Captured:
    """A compiled graph as Inductor calls it: with a list of inputs, which it empties. Each thread has recordings of its
    own. `static`: inputs that usually lie at the same place; `mutated`: those that the graph changes."""

    def __init__(self, call: Call, static: Sequence[int], mutated: Sequence[int], device: int) -> None:
        self.call, self.device = call, device
        self.static, self.mutated = frozenset(static), frozenset(mutated)
        self._of_thread = threading.local()
        self._refused = False

    def __call__(self, inputs: list[Any]) -> Any:
        if self._refused or _core.core().is_capturing():
            return self.call(inputs)
        sizes: dict[Any, _Size] = self._of_thread.__dict__
        key = str([value for value in inputs if not isinstance(value, torch.Tensor)])
        size = sizes.get(key)
        if size is None:
            if len(sizes) >= MOST_SIZES:
                warn_once(f"more than {MOST_SIZES} sizes of one graph")
                return self.call(inputs)
            size = sizes[key] = _Size(self)
        return size(inputs)

    def refuse(self, error: RuntimeError) -> None:
        self._refused = True
        warn_once(str(error).split("\n")[0])


_of_ocl = threading.local()  # whether Inductor is now at a graph of `ocl`


@contextlib.contextmanager
def _marked(graph: Any) -> Iterator[None]:
    before = getattr(_of_ocl, "here", False)
    _of_ocl.here = is_of_ocl(graph)
    try:
        yield
    finally:
        _of_ocl.here = before


def is_of_ocl(graph: Any) -> bool:
    return "ocl" in graph.device_types and "cuda" not in graph.device_types


def install(compile_fx: Any, output_code: Any, utils: Any) -> None:
    """In place of cudagraph_trees, for graphs of `ocl`."""
    cudagraphify, check = compile_fx.cudagraphify, utils.check_multiple_devices_or_any_cpu_nodes
    generation, post_compile = output_code.maybe_handle_backward_generation, output_code.CompiledFxGraph.post_compile

    def capture(model: Call, static_input_idxs: Sequence[int] = (), **options: Any) -> Any:
        if not getattr(_of_ocl, "here", False):
            return cudagraphify(model, static_input_idxs, **options)
        return Captured(model, static_input_idxs, options.get("mutated_input_idxs", ()), options["device_index"])

    def check_devices(mapping: dict[torch.device, Any]) -> str | None:
        reason: str | None = check(mapping)  # has taken out the devices that do not count
        one = [device.type for device in mapping] == ["ocl"]
        return None if one and reason is not None and "multiple devices" in reason else reason

    def handle_generation(graph: Any, *rest: Any) -> None:
        if not is_of_ocl(graph):
            generation(graph, *rest)

    def after_compiling(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        reasons = [self.disabled_cudagraphs_reason, *getattr(self.cudagraph_info, "cudagraph_fail_reasons", ())]
        if is_of_ocl(self) and compile_fx.config.triton.cudagraphs and any(reasons):
            warn_once(str(next(filter(None, reasons))).removeprefix("skipping cudagraphs due to ").split("\n")[0])
        with _marked(self):
            post_compile(self, example_inputs, constants, graph_kwargs)

    compile_fx.cudagraphify = capture
    utils.check_multiple_devices_or_any_cpu_nodes = check_devices
    output_code.maybe_handle_backward_generation = handle_generation
    output_code.CompiledFxGraph.post_compile = after_compiling
