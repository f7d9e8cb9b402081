"""What a row of the table of models is, and the pieces that rows are made of."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Model:
    """An unmodified model of a library in a small configuration with random weights, and what is done with it."""

    library: str
    name: str
    build: Callable[[], nn.Module]
    batch: Callable[
        [], tuple
    ]  # -> arguments of loss() and infer(): nested tuples, lists and dicts of tensors on the CPU
    loss: Callable[..., torch.Tensor]  # (network, *batch) -> scalar
    infer: Callable | None = (
        None  # (network, *batch) -> tensors; evaluation mode, no gradients. Whole numbers must be the CPU's
    )
    quick: bool = False  # stands for its family in the everyday tests

    @property
    def id(self):
        return f"{self.library}-{self.name}"


DROPOUT = (
    "p",
    "dropout",
    "dropout_prob",
    "drop_prob",
    "drop_rate",
    "attention_dropout",
    "hidden_dropout",
    "drop_path_rate",
)  # attributes of modules


def prepared(network):
    """No dropout of any kind (random masks differ between devices), and no parameter that is zero: gradients behind it
    would all be zero."""
    for module in network.modules():
        for probability in DROPOUT:
            if isinstance(vars(module).get(probability), float):
                setattr(module, probability, 0.0)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.numel() and not parameter.any():
                parameter.normal_(std=0.02, generator=generator)
    return network


def randn(*sizes, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def randint(high, *sizes, seed=0, low=0):
    return torch.randint(low, high, sizes, generator=torch.Generator().manual_seed(seed))
