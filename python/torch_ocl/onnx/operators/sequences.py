"""Sequences are lists of tensors, empty optionals are None."""

from typing import Any

import torch
from torch import Tensor

from ..registry import row


def _index(position: Any, count: int, largest: int) -> int:
    place = int(position[0] if isinstance(position, (list, tuple)) else position)
    if not -count <= place <= largest:
        raise IndexError(f"position {place} in a sequence of {count}")
    return place + count if place < 0 else place


@row("SequenceConstruct", 11)
def sequence_construct(*parts: Any) -> Any:
    """The inputs as a sequence."""
    return list(parts)


@row("SequenceEmpty", 11)
def sequence_empty(*, dtype: int = 1) -> Any:
    """A sequence without elements."""
    return []


@row("SequenceAt", 11, host=(1,))
def sequence_at(sequence: Any, position: Any) -> Any:
    """One element."""
    return sequence[_index(position, len(sequence), len(sequence) - 1)]


@row("SequenceInsert", 11, host=(2,))
def sequence_insert(sequence: Any, tensor: Any, position: Any = None) -> Any:
    """The sequence with one more element, at the end or before a position."""
    place = len(sequence) if position is None else _index(position, len(sequence), len(sequence))
    return [*sequence[:place], tensor, *sequence[place:]]


@row("SequenceErase", 11, host=(1,))
def sequence_erase(sequence: Any, position: Any = None) -> Any:
    """The sequence without its last element or the one at a position."""
    place = len(sequence) - 1 if position is None else _index(position, len(sequence), len(sequence) - 1)
    return [*sequence[:place], *sequence[place + 1 :]]


@row("SequenceLength", 11)
def sequence_length(sequence: Any, *, anchor: Tensor) -> Tensor:
    """The number of elements."""
    return torch.tensor(len(sequence), dtype=torch.int64, device=anchor.device)


@row("ConcatFromSequence", 11)
def concat_from_sequence(sequence: Any, *, axis: int, new_axis: int = 0) -> Tensor:
    """The elements one behind the other, along an axis or a new one."""
    return torch.stack(list(sequence), axis) if new_axis else torch.cat(list(sequence), axis)


@row("SplitToSequence", 11, host=(1,))
def split_to_sequence(x: Tensor, sizes: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """Pieces of x as a sequence: of one element, of a size, or of the sizes."""
    if sizes is None:
        return list(x.split(1, axis)) if keepdims else list(x.unbind(axis))
    return list(x.split(sizes if not isinstance(sizes, (list, tuple)) else list(sizes), axis))


@row("Optional", 15)
def optional(value: Any = None) -> Any:
    """A value that may be absent."""
    return value


@row("OptionalHasElement", 15)
def optional_has_element(value: Any = None, *, anchor: Tensor) -> Tensor:
    """Whether the value is there."""
    return torch.tensor(value is not None, device=anchor.device)


@row("OptionalGetElement", 15)
def optional_get_element(value: Any) -> Any:
    """The value; an error where it is absent."""
    if value is None:
        raise ValueError("the optional value is absent")
    return value
