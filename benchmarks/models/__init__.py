"""The networks that tests and benchmarks share.

A row is a name, a function that builds the network, one that makes a batch, and a loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from . import generative, images, sequence


@dataclass(frozen=True)
class Network:
    name: str
    build: Callable[[], nn.Module]
    batch: Callable[..., tuple]  # (number of samples, size, seed) -> tensors on the CPU
    loss: Callable[..., torch.Tensor]  # (network, *batch) -> scalar
    size: int  # of real work: image edge or sequence length
    small: int  # of a quick test
    batch_size: int = 8


def without_dropout(network):
    """Dropout off, everything else as in training: random masks differ between devices."""
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.RNNBase):
            module.dropout = 0.0
    return network


IMAGE_NETWORKS = {
    name: Network(
        name,
        images.builder(name),
        images.digits,
        images.classification_loss,
        size=224,
        small=small,
        batch_size=batch_size,
    )
    for name, small, batch_size in (
        ("alexnet", 64, 16),
        ("resnet18", 64, 8),
        ("resnet50", 64, 4),
        ("mobilenet_v2", 64, 8),
        ("vgg16", 32, 2),
    )
}

OTHER_NETWORKS = {
    network.name: network
    for network in (
        Network(
            "lstm",
            sequence.SequenceClassifier,
            sequence.digit_rows,
            sequence.classification_loss,
            size=28,
            small=8,
            batch_size=16,
        ),
        Network("gpt", sequence.GPT, sequence.text, sequence.language_loss, size=64, small=24, batch_size=8),
        Network(
            "unet", generative.UNet, generative.noisy_digits, generative.denoising_loss, size=64, small=16, batch_size=4
        ),
    )
}

NETWORKS = IMAGE_NETWORKS | OTHER_NETWORKS
