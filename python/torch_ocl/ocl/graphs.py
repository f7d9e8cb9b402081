"""Graphs: work of a stream that is captured once and issued again and again, under torch.cuda's names."""

import contextlib
import weakref
from typing import Any, Literal

import torch

from .. import _core
from . import _lifetime, streams
from .device import synchronize
from .memory import MemPool, PoolId, _pool_number

_Mode = Literal["default", "global", "thread_local", "relaxed"]


def graph_pool_handle() -> PoolId:
    """The name of a new memory pool, for the captures of several graphs that are replayed in the order of capture."""
    _lifetime._lazy_init()
    return (0, _core.core().new_pool())


def is_current_stream_capturing() -> bool:
    """Whether what is issued to the current stream is being captured."""
    return _lifetime.is_initialized() and _core.core().is_capturing()


class OclGraph:
    """What a stream was told to do, to be done again: torch.cuda.CUDAGraph for `ocl` devices.

    A replay works on the same memory as the capture: fill the inputs with copy_() before it, read the outputs after
    it. Errors are RuntimeError.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        _lifetime._lazy_init()
        self._core = _core.core()
        self._graph = self._core.graph_new()
        weakref.finalize(self, self._core.graph_delete, self._graph).atexit = False

    def capture_begin(self, pool: PoolId | MemPool | None = None, capture_error_mode: _Mode = "global") -> None:
        """Captures what is issued to the current stream from now on.

        Memory comes from `pool`, or from a pool of the graph's own. Every mode behaves as "relaxed": other streams and
        threads are not affected.
        """
        if capture_error_mode not in ("default", "global", "thread_local", "relaxed"):
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._core.graph_capture_begin(self._graph, 0 if pool is None else _pool_number(pool))

    def capture_end(self) -> None:
        """Ends the capture. Raises RuntimeError when something was issued that cannot be captured."""
        self._core.graph_capture_end(self._graph)

    def instantiate(self) -> None:
        """Does nothing: a graph can be replayed as it is."""
        self._core.graph_size(self._graph)

    def replay(self) -> None:
        """Issues the captured work to the current stream, without waiting for it."""
        self._core.graph_replay(self._graph)

    def reset(self) -> None:
        """Forgets what was captured; the graph can then capture again."""
        self._core.graph_reset(self._graph)

    def pool(self) -> PoolId:
        """The pool of the graph's memory, for captures that may share it."""
        return (0, self._core.graph_pool(self._graph))

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Does nothing: every generator of the device whose numbers are captured advances with each replay."""

    def enable_debug_mode(self) -> None:
        """Does nothing: debug_dump() always works."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes a line for each captured command."""
        with open(debug_path, "w") as file:
            file.write(self._core.graph_text(self._graph))

    def __len__(self) -> int:
        """The number of captured commands."""
        return self._core.graph_size(self._graph)

    def __bool__(self) -> bool:
        return True


class graph:
    """Context manager: work inside is captured into `ocl_graph`, on `stream` or on a stream for captures.

    Parameters are those of torch.cuda.graph. When the body raises, that error passes on and the graph is empty.
    """

    default_capture_stream: torch.Stream | None = None

    def __init__(
        self,
        ocl_graph: OclGraph,
        pool: PoolId | MemPool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: _Mode = "global",
    ) -> None:
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = streams.Stream()
        self.capture_stream = stream if stream is not None else graph.default_capture_stream
        self.ocl_graph = ocl_graph
        self.pool = pool
        self.capture_error_mode: _Mode = capture_error_mode
        self._context = streams.stream(self.capture_stream)

    def __enter__(self) -> None:
        synchronize()
        self._context.__enter__()
        try:
            self.ocl_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        try:
            if kind is None:
                self.ocl_graph.capture_end()
            else:
                with contextlib.suppress(RuntimeError):
                    self.ocl_graph.reset()
        finally:
            self._context.__exit__(kind, *rest)
