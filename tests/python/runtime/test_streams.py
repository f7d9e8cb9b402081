"""Streams, events, pinned memory: work on two queues, waits between them, memory that is used on both."""

import pytest
import torch

feature = pytest.mark.feature


@feature("Streams")
def test_contexts_nest_and_restore(device):
    before = torch.accelerator.current_stream()
    first, second = torch.Stream(device), torch.ocl.Stream()
    with first, first:
        assert torch.accelerator.current_stream() == first
    with first:
        with second:
            with torch.ocl.stream(first):
                assert torch.ocl.current_stream() == first
            assert torch.ocl.current_stream() == second
        with torch.ocl.stream(None):
            assert torch.ocl.current_stream() == first
    assert torch.accelerator.current_stream() == before == torch.ocl.default_stream()
    assert first != second and first not in (42, None, "x") and second.device == torch.device("ocl:0")
    same = torch.Stream(stream_id=first.stream_id, device_index=first.device_index, device_type=first.device_type)
    assert same == first and hash(same) == hash(first)


@feature("Streams")
def test_query_says_whether_work_is_left(device):
    stream = torch.ocl.Stream()
    assert stream.query()  # nothing was ever issued
    x = torch.rand(600, 600, device=device)
    torch.ocl.synchronize()
    assert torch.ocl.current_stream().query()
    for _ in range(8):
        x = x @ x
        x = x / x.max()
    torch.ocl.current_stream().synchronize()
    assert torch.ocl.current_stream().query() and torch.accelerator.current_stream().query()
    with pytest.raises(ValueError, match="doesn't match the current accelerator"):
        torch.accelerator.current_stream("cpu")


@feature("Streams")
def test_copy_and_compute_on_two_streams(device):
    """A prefetcher: the next batch is copied on a side stream while the current one is computed."""
    batches = [torch.full((256, 256), float(i)).pin_memory() for i in range(6)]
    side, total = torch.ocl.Stream(), torch.zeros((), device=device)

    def fetch(batch):
        with torch.ocl.stream(side):
            return batch.to(device, non_blocking=True)

    coming = fetch(batches[0])
    for i in range(len(batches)):
        torch.ocl.current_stream().wait_stream(side)
        now = coming
        now.record_stream(torch.ocl.current_stream())
        if i + 1 < len(batches):
            coming = fetch(batches[i + 1])
        total += (now @ torch.eye(256, device=device)).mean()
    assert total.item() == sum(range(6))


@feature("record_stream")
def test_a_block_in_use_on_another_stream_is_not_handed_out(device):
    side = torch.ocl.Stream()
    x = torch.full((1 << 20,), 1.0, device=device)
    side.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(side):
        for _ in range(10):
            y = x * 1.0
    x.record_stream(side)
    address = x.data_ptr()
    del x
    z = torch.full((1 << 20,), 2.0, device=device)
    side.synchronize()
    assert y.min().item() == 1.0 and z.min().item() == 2.0
    del z
    assert address in {
        torch.empty(1 << 20, device=device).data_ptr() for _ in range(3)
    }  # free again after the side stream finished
    torch.ones(2, device=device).record_stream(torch.Stream(device))


@feature("Streams")
def test_backward_runs_on_the_stream_of_forward(device):
    side = torch.ocl.Stream()
    x = torch.ones(1000, device=device, requires_grad=True)
    side.wait_stream(torch.ocl.current_stream())
    with torch.ocl.stream(side):
        y = (x * 2).sum()
    y.backward()
    torch.ocl.current_stream().wait_stream(side)
    assert x.grad.sum().item() == 2000


@feature("Events")
def test_events_time_and_order_work(device):
    x = torch.rand(400, 400, device=device)
    start, end = torch.ocl.Event(enable_timing=True), torch.ocl.Event(enable_timing=True)
    start.record()
    for _ in range(5):
        y = x @ x
    end.record()
    end.synchronize()
    assert start.query() and start.elapsed_time(end) > 0 > end.elapsed_time(start) and y.shape == x.shape
    generic = torch.Event(device, enable_timing=True)
    generic.record()
    torch.Stream(device).wait_event(generic)
    generic.synchronize()
    assert generic.query() and start.elapsed_time(generic) > 0


@feature("Events")
@pytest.mark.parametrize("kind", [torch.Event, torch.ocl.Event], ids=["torch.Event", "torch.ocl.Event"])
def test_event_errors(device, kind):
    with pytest.raises(ValueError, match="enable_timing=True"):
        kind().elapsed_time(kind())
    with pytest.raises(ValueError, match="must be recorded"):
        kind(enable_timing=True).elapsed_time(kind(enable_timing=True))


@feature("Pinned memory")
def test_pinned_tensors(device):
    x = torch.arange(6.0)
    assert (
        x.pin_memory().is_pinned()
        and torch.empty(3, pin_memory=True).is_pinned()
        and x.untyped_storage().pin_memory().is_pinned()
    )
    assert x.pin_memory()[2:].is_pinned() and not x.is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.to(device).pin_memory()
    back = x.to(device).to("cpu", non_blocking=True)
    torch.ocl.synchronize()
    assert back.is_pinned() and torch.equal(back, x)
    assert torch.ocl.host_memory_stats()["active_bytes.current"] >= 24


@feature("Pinned memory")
def test_pinned_memory_is_not_reused_before_its_copy_ends(device):
    """The copy is queued behind slow work; without a record of it the freed block would be given to the next
    pin_memory()."""
    slow = torch.rand(700, 700, device=device)
    for i in range(3):
        for _ in range(3):
            slow = slow @ slow
            slow = slow / slow.max()
        host = torch.full((1 << 16,), float(i)).pin_memory()
        x = host.to(device, non_blocking=True)
        del host
        torch.full((1 << 16,), -1.0).pin_memory()
        assert (x == i).all().item()


@feature("Synchronize")
def test_synchronize_waits_for_every_stream(device):
    streams = [torch.ocl.Stream() for _ in range(3)]
    x = torch.rand(300, 300, device=device)
    for stream in streams:
        stream.wait_stream(torch.ocl.default_stream())
        with stream:
            (x @ x).sum()
    torch.accelerator.synchronize()
    assert all(stream.query() for stream in streams)
