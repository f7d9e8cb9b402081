"""torchvision's classifiers on real images (scikit-learn's digits)."""

import functools
import sys

import torch
from torch.nn import functional as F


@functools.cache
def import_torchvision():
    """torchvision, also where its C++ operators were built for another PyTorch."""
    try:
        import torchvision
    except RuntimeError:
        from .torchvision_operators import import_torchvision_without_library

        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        torchvision = import_torchvision_without_library()
    return torchvision


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
