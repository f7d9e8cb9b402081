"""`torch.accelerator`, and what generic scripts do with it."""

import gc
import io
import pickle

import pytest
import torch

feature = pytest.mark.feature


@feature("Device name")
def test_devices_are_named_as_on_other_accelerators(device):
    x = torch.ones(2, device=device)
    assert x.device == torch.device("ocl", 0) == torch.device("ocl:0") and x.get_device() == 0 and not x.is_cuda
    assert torch.ones(2, device=0).device == x.device  # an index is the accelerator's
    assert x.type() == "torch.ocl.FloatTensor" and torch.ones(2).type("torch.ocl.LongTensor").dtype == torch.int64
    with torch.device(device):
        assert torch.nn.Linear(2, 2).weight.device == x.device
    torch.set_default_device(device)
    try:
        assert torch.arange(3).device == x.device and torch.randperm(3).device == x.device
    finally:
        torch.set_default_device(None)
    assert torch.zeros_like(x, device="cpu").device.type == "cpu" and x.new_zeros(3).device == x.device


@feature("Current device")
def test_current_accelerator(device):
    accelerator = torch.accelerator
    assert accelerator.current_accelerator() == torch.device("ocl") and accelerator.current_accelerator().index is None
    for i in (0, "ocl:0", torch.device("ocl:0")):
        accelerator.set_device_index(i)
    assert accelerator.current_device_index() == 0
    with pytest.raises(ValueError, match="doesn't match the current accelerator"):
        accelerator.set_device_index("cpu")
    with accelerator.device_index(None), accelerator.device_index(0):
        assert accelerator.current_device_index() == 0


@feature("Device properties")
def test_capability_lists_the_types_that_kernels_have(device):
    supported = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= supported
    for dtype in supported:
        x = torch.ones(8, dtype=dtype, device=device)
        assert (x + x).device.type == "ocl" and x.to(torch.float32).to(dtype).dtype == dtype


@feature("Memory statistics")
def test_statistics_follow_a_tensor(device):
    accelerator = torch.accelerator
    torch.empty(1, device=device)
    gc.collect()
    accelerator.empty_cache()
    stats = accelerator.memory_stats()
    for kind in ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"):
        for pool in ("all", "small_pool", "large_pool"):
            assert {f"{kind}.{pool}.{part}" for part in ("current", "peak", "allocated", "freed")} <= stats.keys()
    accelerator.reset_accumulated_memory_stats()
    before = accelerator.memory_stats()["active_bytes.all.current"]
    x = torch.empty(256, device=device)
    assert accelerator.memory_stats()["active_bytes.all.current"] - before == 1024
    del x
    after = accelerator.memory_stats()
    assert after["active_bytes.all.current"] == before and after["active_bytes.all.freed"] == 1024
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated() == torch.ocl.memory_allocated()
    assert accelerator.max_memory_reserved() == accelerator.memory_reserved() == torch.ocl.memory_cached()
    free, total = accelerator.get_memory_info()
    assert 0 < free <= total and torch.ocl.device_memory_used() >= 0
    assert torch.ocl.mem_get_info()[1] == total
    if hasattr(accelerator, "empty_host_cache"):  # torch 2.12
        accelerator.empty_host_cache()


@feature("Caching device allocator")
def test_memory_is_reused_and_given_back(device):
    x = torch.empty(3 << 20, device=device)
    address = x.data_ptr()
    del x
    assert torch.empty(3 << 20, device=device).data_ptr() == address
    reserved = torch.ocl.memory_reserved()
    torch.ocl.empty_cache()
    assert torch.ocl.memory_reserved() <= reserved - (12 << 20)
    before = torch.ocl.memory_allocated()
    raw = torch.ocl.caching_allocator_alloc(4096)
    assert raw and torch.ocl.memory_allocated() == before + 4096
    torch.ocl.caching_allocator_delete(raw)
    assert torch.ocl.memory_allocated() == before and torch.ocl.get_allocator_backend() == "native"


@feature("Memory snapshot")
def test_snapshot_shows_a_tensors_block(device, tmp_path):
    x = torch.empty(1000, device=device)
    blocks = {block["address"]: block for segment in torch.ocl.memory_snapshot() for block in segment["blocks"]}
    assert blocks[x.data_ptr()]["state"] == "active_allocated" and blocks[x.data_ptr()]["requested_size"] == 4000
    assert sum(segment["total_size"] for segment in torch.ocl.memory_snapshot()) == torch.ocl.memory_reserved()
    torch.ocl.memory._dump_snapshot(tmp_path / "snapshot.pickle")
    dumped = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert any(block["address"] == x.data_ptr() for segment in dumped["segments"] for block in segment["blocks"])


@feature("Determinism")
def test_uninitialized_memory_is_filled_in_deterministic_mode(device, deterministic):
    assert (
        torch.empty(5, device=device).isnan().all() and torch.empty_strided((2, 3), (3, 1), device=device).isnan().all()
    )
    assert (torch.empty(5, dtype=torch.int32, device=device) == torch.iinfo(torch.int32).max).all()
    x = torch.ones(2, device=device).resize_(6)
    assert x[:2].tolist() == [1, 1] and x[2:].isnan().all()


@feature("Determinism")
def test_same_seed_same_bits(device, deterministic):
    def train():
        torch.manual_seed(3)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3),
            torch.nn.ReLU(),
            torch.nn.Dropout(),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 36, 10),
        ).to(device)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            x, y = torch.rand(16, 3, 8, 8, device=device), torch.randint(10, (16,), device=device)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in model.parameters()]).cpu()

    assert torch.equal(train(), train())


@feature("Determinism")
def test_operators_without_a_deterministic_way_say_so(device, deterministic):
    with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
        torch.zeros(3, device=device).put_(
            torch.zeros(3, dtype=torch.long, device=device), torch.rand(3, device=device)
        )


@feature("PyTorch's device-generic tests")
def test_generic_test_classes_are_instantiated_for_the_device(device):
    import unittest

    from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
    from torch.testing._internal.common_utils import TestCase

    seen = []

    class Generic(TestCase):
        @dtypes(torch.float32, torch.int64)
        def test_add(self, device, dtype):
            x = torch.ones(3, device=device, dtype=dtype)
            seen.append(x.device)
            self.assertEqual(x + x, torch.full((3,), 2, dtype=dtype, device=device))  # noqa: PT009  PyTorch's own

    scope = {"Generic": Generic}
    instantiate_device_type_tests(Generic, scope, only_for="ocl")
    (made,) = (value for value in scope.values() if isinstance(value, type))
    result = unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(made))
    assert result.wasSuccessful() and seen == [torch.device("ocl:0")] * 2


@feature("Sparse tensors")
def test_sparse_tensors_move(device):
    sparse = torch.eye(3).to_sparse().to(device)
    assert sparse.is_sparse and sparse.device.type == "ocl" and torch.equal(sparse.cpu().to_dense(), torch.eye(3))
