"""torchvision's classifiers on real images (scikit-learn's digits)."""

import functools

import torch
from torch.nn import functional as F


@functools.cache
def import_torchvision():
    """torchvision, also where its C++ operators were built for another PyTorch: then with those of Python for the
    CPU."""
    from torch_ocl import import_torchvision

    from .torchvision_operators import add_cpu_kernels

    module = import_torchvision()
    add_cpu_kernels()
    return module


def builder(name):
    def build():
        return getattr(import_torchvision().models, name)(weights=None, num_classes=10)

    return build


@functools.cache
def _all_digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.images, dtype=torch.float32) / 16, torch.tensor(data.target)


def digits(count, size, seed=0):
    """`count` digits as (count, 3, size, size) around 0, and their classes."""
    pictures, classes = _all_digits()
    chosen = torch.randperm(len(classes), generator=torch.Generator().manual_seed(seed))[:count]
    enlarged = F.interpolate(pictures[chosen][:, None], size=(size, size), mode="bilinear", align_corners=False)
    return ((enlarged - 0.3) / 0.35).expand(-1, 3, -1, -1).contiguous(), classes[chosen]


def classification_loss(network, images, classes):
    return F.cross_entropy(network(images), classes)
