"""A training step needs hardly more memory than the tensors that are alive in it: workspaces and rounding are small."""

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from benchmarks.models import IMAGE_NETWORKS


class LiveTensors(TorchDispatchMode):
    """Sums the bytes of the storages on a device after every operator; `peak` is the largest sum."""

    def __init__(self, device, tensors=()):
        super().__init__()
        self.device = device
        self.storages = {}  # address of the storage object: (weak reference, bytes)
        self.peak = 0
        self.operators = 0
        for tensor in tensors:
            self.watch(tensor)

    def watch(self, tensor):
        storage = tensor.untyped_storage()
        self.storages[storage._cdata] = StorageWeakRef(storage), storage.nbytes()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor) and value.device == self.device:
                self.watch(value)
        self.storages = {key: entry for key, entry in self.storages.items() if not entry[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self.storages.values()))
        self.operators += 1
        return result


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "vgg16"])
def test_peak_of_a_training_step(name, device):
    case = IMAGE_NETWORKS[name]
    network = case.build().train().to(device)
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    images, classes = (tensor.to(device) for tensor in case.batch(4, 128, seed=3))

    def step():
        optimizer.zero_grad()
        case.loss(network, images, classes).backward()
        optimizer.step()

    step()  # momentum buffers are there
    optimizer.zero_grad()
    torch.ocl.synchronize()
    state = [*network.parameters(), *network.buffers(), images, classes]
    state += [
        value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, torch.Tensor)
    ]
    before = torch.ocl.memory_allocated()
    live = LiveTensors(images.device, [tensor for tensor in state if tensor.device == images.device])
    started_with = sum(size for _, size in live.storages.values())
    torch.ocl.reset_peak_memory_stats()
    with live:
        step()
    torch.ocl.synchronize()
    peak = torch.ocl.max_memory_allocated() - (before - started_with)  # less what other tests left alive
    assert live.operators > 100 and live.peak > 1.5 * started_with
    assert peak <= 1.1 * live.peak, f"{peak / 2**20:.1f} MiB for {live.peak / 2**20:.1f} MiB of tensors"
