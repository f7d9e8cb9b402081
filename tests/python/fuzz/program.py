"""A program is data: it runs on any device and prints itself."""

from dataclasses import dataclass, field

import torch


@dataclass
class Program:
    """name(sources..., arguments...), possibly written into a view: outcome(device) is what to compare."""

    name: str
    function: object = field(repr=False)
    sources: list
    arguments: dict = field(default_factory=dict)
    writes: bool = False  # the first source is written: its whole storage is compared
    reduces: bool = False  # adds up: half types may round differently

    def outcome(self, device):
        placed = [source.on(device) for source in self.sources]
        arguments = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in self.arguments.items()
        }
        result = self.function(*[tensor for tensor, _ in placed], **arguments)
        return (result, placed[0][1]) if self.writes else result
