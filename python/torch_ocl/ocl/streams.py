"""Streams (in-order command queues) and events."""

from typing import Any, Literal, cast

import torch

from .. import _core
from . import _lifetime
from ._utils import Device, _get_device_index


class Stream(torch.Stream):
    """A queue of work on one device. `native_handle` is the cl_command_queue.

    Stream(device=None, priority=0) makes a new one; Stream(stream_id=, device_index=, device_type=) names an existing
    one.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> "Stream":
        _lifetime._lazy_init()
        if "stream_id" in kwargs:
            kwargs.setdefault("device_type", int(cast(Any, torch._C._autograd.DeviceType.PrivateUse1)))
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, torch.device("ocl", _get_device_index(device)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Work issued to this stream from now on waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Work issued to this stream from now on waits for what `stream` has been given so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Puts a mark behind the work issued so far, and returns it; without `event` a new one."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"torch.ocl.Stream(device=ocl:{self.device_index}, id={self.stream_id})"


class Event(torch.Event):
    """A mark in a stream. elapsed_time() gives milliseconds between two events made with enable_timing=True."""

    enable_timing: bool

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> "Event":
        _lifetime._lazy_init()
        event = super().__new__(
            cls, device=torch.device("ocl"), enable_timing=enable_timing, blocking=blocking, interprocess=interprocess
        )
        event.enable_timing = enable_timing
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Puts the mark behind the work issued to `stream` so far; to the current stream where none is given."""
        super().record(current_stream() if stream is None else stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Work issued to `stream` (the current one) from now on waits for the mark."""
        super().wait(current_stream() if stream is None else stream)

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to `end_event`; both recorded, finished and made with enable_timing=True.

        Raises ValueError where one was not recorded or has no timing, TypeError where `end_event` is no event.
        """
        if not isinstance(end_event, torch.Event):
            raise TypeError(f"elapsed_time takes an event, not {type(end_event).__name__}")
        if not (self.enable_timing and getattr(end_event, "enable_timing", True)):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not self.event_id or not end_event.event_id:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return _core.core().elapsed_time(self.event_id, end_event.event_id, self.device.index or 0)

    def __repr__(self) -> str:
        return f"torch.ocl.Event(id={self.event_id:#x})" if self.event_id else "torch.ocl.Event(not recorded)"


def _named(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Device = None) -> Stream:
    """The stream that this thread issues work to."""
    _lifetime._lazy_init()
    return _named(torch.accelerator.current_stream(_get_device_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The stream that work goes to when nobody chose another."""
    return Stream(stream_id=0, device_index=_get_device_index(device))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` current on its device, and its device current. None changes nothing."""
    if stream is not None:
        _lifetime._lazy_init()
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager: work goes to `stream`; afterwards device and streams are as before. None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *exception: Any) -> Literal[False]:
        if self.stream is not None:
            self.stream.__exit__(*exception)
        return False


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: work inside goes to `stream`. None changes nothing."""
    return StreamContext(stream)
