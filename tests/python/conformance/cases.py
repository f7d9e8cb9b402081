"""What is tested: rows of PyTorch's databases of operators, modules and optimizers, times data types.

A case is named `op_db/NAME[.VARIANT]/DTYPE`, `module_db/NAME/DTYPE` or `optim_db/NAME/DTYPE`.
"""

import functools
import random
from dataclasses import dataclass

import torch

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint8, torch.bool, torch.complex64,
)  # fmt: skip

# Not about a device: layouts this backend does not have, and the CUDA compiler.
LEFT_OUT = ("jiterator_", "sparse.", "to_sparse")


@dataclass(frozen=True)
class Case:
    source: str
    name: str
    dtype: torch.dtype

    def __str__(self):
        return f"{self.source}/{self.name}/{dtype_name(self.dtype)}"


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


@functools.cache
def operators():
    """{name: OpInfo}"""
    from torch.testing._internal import common_methods_invocations

    # The database seeds random operators before every call, which would make them look deterministic.
    common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
    op_db = common_methods_invocations.op_db
    return {full_name(op): op for op in op_db if not op.name.startswith(LEFT_OUT)}


@functools.cache
def modules():
    """{name: ModuleInfo}"""
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


@functools.cache
def optimizers():
    """{name: OptimizerInfo}, without those that only take sparse gradients."""
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db if not info.only_supports_sparse_grads}


def parse(text):
    source, rest = text.split("/", 1)
    name, dtype = rest.rsplit("/", 1)
    return Case(source, name, getattr(torch, dtype))


def all_cases(dtypes=DTYPES):
    """Every case of the given dtypes that the CPU supports, dtype by dtype."""
    for dtype in dtypes:
        for name, op in operators().items():
            if dtype in op.supported_dtypes("cpu"):
                yield Case("op_db", name, dtype)
        for name, info in modules().items():
            if dtype in info.dtypes:
                yield Case("module_db", name, dtype)
        if dtype in (torch.float32, torch.bfloat16):
            for name in optimizers():
                yield Case("optim_db", name, dtype)


def turn(names, number, size):
    """The `size` names that have their turn. Every ceil(len(names) / size) turns in a row cover all of them."""
    order = sorted(names)  # the database's own order differs between releases of PyTorch
    random.Random(2026).shuffle(order)  # a turn has operators and types of every kind
    return [order[(number * size + i) % len(order)] for i in range(size)]
