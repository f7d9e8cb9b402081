"""Arguments for any operator, drawn from its schema: odd ones on purpose, and enough of the plain ones that most
operators accept some.

A draw is repeatable: it depends on the operator's name and the number of the attempt only. It is described first
(`Call`), with tensors of the CPU, and moved to a device later, so that both sides get the same numbers.
"""

import random
import zlib

import torch

# Sizes that many operators accept together; the first is asked for most often.
SHAPES = [(4, 4), (3,), (2, 3, 4), (1, 2, 4, 4), (), (0,), (2, 3, 4, 4, 4), (5, 4), (4,), (1, 2, 4, 4), (2, 4, 4)]
FLOATING = [torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64]
OTHERS = [torch.int64, torch.int32, torch.uint8, torch.bool]
# Names of tensors that hold positions, and the small whole numbers that are nearly always valid ones.
POSITIONS = {
    "index", "indices", "offsets", "target", "targets", "labels", "self_indices", "input_indices", "pivots",
    "LU_pivots", "lengths", "cum_seq_q", "batch_sizes", "compressed_indices", "plain_indices", "crow_indices",
    "col_indices", "ccol_indices", "row_indices", "sorter", "hx_indices", "ind", "token_types",
}  # fmt: skip
MASKS = {"mask", "condition", "attn_mask", "src_key_padding_mask", "found_inf_mask", "key_padding_mask"}
STRINGS = {
    "reduce": ["sum", "mean", "amax"], "indexing": ["ij", "xy"], "equation": ["ij,jk->ik", "ii->i"],
    "rounding_mode": ["floor", "trunc"], "mode": ["reduced", "complete"], "approximate": ["none", "tanh"],
    "driver": ["gelsy"], "UPLO": ["L", "U"], "padding": ["valid", "same"], "ord": ["fro", "nuc"], "side": ["left"],
    "pad_mode": ["reflect", "constant"], "side_": ["right"], "reduction": ["mean", "sum"],
}  # fmt: skip
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.float16]


class Skipped(Exception):
    """No arguments can be made for the schema."""


class Draw:
    """One attempt to make arguments for `schema`."""

    def __init__(self, schema, attempt):
        self.schema = schema
        seed = zlib.crc32(f"{schema.name}.{schema.overload_name}".encode()) + attempt
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.attempt = attempt
        r = self.random
        self.shape = SHAPES[attempt % len(SHAPES)] if attempt < 2 * len(SHAPES) else r.choice(SHAPES)
        self.dtype = r.choice(FLOATING + OTHERS) if attempt % 3 else torch.float32
        self.shapes_differ = attempt % 5 == 4  # every tensor has sizes of its own
        self.odd = attempt % 4 == 3  # layouts: transposed, with steps, expanded; wild numbers
        self.small = self.attempt % 2 == 0  # plain choices for numbers

    def tensor(self, name, plain=False):
        r = self.random
        shape = r.choice(SHAPES) if self.shapes_differ else self.shape
        dtype = self.dtype
        if name in POSITIONS and r.random() < 0.9:
            dtype = torch.int64
            if r.random() < 0.5 and not plain:
                shape = shape[-1:]
        elif name in MASKS and r.random() < 0.7:
            dtype = torch.bool
        elif name in ("weight", "bias", "running_mean", "running_var") and r.random() < 0.5 and len(shape) > 1:
            shape = shape[1:2]
        elif r.random() < 0.1:
            dtype = r.choice(FLOATING + OTHERS)
        return self.layout(self.values(shape, dtype))

    def values(self, shape, dtype):
        if dtype == torch.bool:
            return torch.randint(0, 2, shape, generator=self.generator).bool()
        if not (dtype.is_floating_point or dtype.is_complex):
            return torch.randint(0, 3, shape, generator=self.generator).to(dtype)
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return (torch.randn(shape, generator=self.generator, dtype=wide) * 0.7 + 0.2).to(dtype)

    def layout(self, tensor):
        if not self.odd or not tensor.dim():
            return tensor
        kind = self.random.randrange(4)
        if kind == 0:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        if kind == 1:
            return tensor.repeat_interleave(2, dim=-1)[..., ::2]
        if kind == 2 and tensor.size(0):
            return tensor[:1].expand(tensor.shape)
        return tensor

    def number(self, name):
        r = self.random
        if not self.small and r.random() < 0.1:
            return r.choice([-3, 100, 2**31, -(2**63)])
        if name.startswith("dim") or name in ("start_dim", "end_dim", "axis", "offset", "diagonal"):
            return r.choice([0, -1, 1] if self.small else [0, 1, -1, 2, -2, 5])
        if "reduction" in name:
            return r.choice([0, 1, 2])
        return r.choice([1, 2, 1, 0, 3, 4])

    def numbers(self, name, length):
        r = self.random
        if ("size" in name and name != "kernel_size") or name in ("shape", "repeats"):
            return list(self.shape) if r.random() < 0.6 else list(r.choice(SHAPES))
        if name.startswith("dim"):
            return r.choice([[0], [-1], [0, 1], [1], []])
        if "stride" in name and length is None:
            return list(torch.empty(self.shape).stride())
        if name in ("padding", "pad", "output_padding"):
            return [r.choice([0, 0, 1])] * (length or max(2, 2 * (len(self.shape) - 2)))
        return [r.choice([1, 2])] * (length or max(1, len(self.shape) - 2))

    def value(self, type_, name, length=None):
        """A value for an argument of the schema."""
        r = self.random
        kind = type_.kind()
        if kind == "OptionalType":
            return None if r.random() < 0.6 else self.value(type_.getElementType(), name, length)
        if kind == "TensorType":
            return self.tensor(name)
        if kind == "ListType":
            return self.list_(type_.getElementType(), name, length)
        if kind in ("IntType", "SymIntType"):
            return self.number(name)
        if kind == "FloatType":
            return r.choice([0.5, 1.0, 0.1, 2.0]) if self.small else r.choice([0.5, -1.0, 0.0, 1e9, float("nan")])
        if kind == "NumberType":
            return r.choice([1, 0.5, 2, True]) if self.small else r.choice([0, -1, 0.5, 1 + 2j, 7.5])
        if kind == "BoolType":
            return r.random() < 0.4
        if kind == "StringType":
            return r.choice(STRINGS.get(name, ["sum", "none"]))
        raise Skipped(kind)

    def list_(self, element, name, length):
        kind = element.kind()
        if kind in ("IntType", "SymIntType"):
            return self.numbers(name, length)
        if kind == "BoolType":
            return [self.random.random() < 0.5] * self.random.choice([1, 2, 3])
        if kind == "FloatType":
            return [self.random.choice([0.5, 2.0])] * max(1, len(self.shape) - 2)
        count = self.random.choice([2, 1, 2, 3, 0] if self.attempt else [2])
        return [self.value(element, name) for _ in range(count)]

    def argument(self, argument):
        if "ScalarType" in str(argument.real_type):
            return self.random.choice([None, None, *DTYPES])
        if argument.name == "layout":
            return None if self.random.random() < 0.9 else torch.strided
        if argument.name in ("device", "generator", "pin_memory", "memory_format"):
            return None
        default = argument.has_default_value() and self.random.random() < (0.8 if self.small else 0.4)
        return argument.default_value if default else self.value(argument.type, argument.name, argument.N)

    def call(self):
        """(positional arguments, keyword arguments) of CPU tensors."""
        positional, keywords = [], {}
        for argument in self.schema.arguments:
            if argument.is_out:
                value = self.out(argument)
            else:
                value = self.argument(argument)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        return positional, keywords

    def out(self, argument):
        count = self.random.choice([1, 2, 3])
        make = lambda: torch.empty(0, dtype=self.dtype)
        return [make() for _ in range(count)] if argument.type.kind() == "ListType" else make()


def takes_device(schema):
    return any(argument.name == "device" for argument in schema.arguments)


def draw(schema, attempt):
    """(positional, keywords) for the attempt-th call of the operator. Errors: Skipped."""
    return Draw(schema, attempt).call()
