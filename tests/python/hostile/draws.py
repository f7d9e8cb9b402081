"""Draws calls: most arguments plausible, so that kernels are reached, and one or a few of them hostile."""

import random

import torch

from tests.python.registered import inputs

from . import values

SHAPES = [*inputs.SHAPES, (0, 3), (2, 0, 4), (1, 1, 1, 1), (1,) * 17, (2, 1, 0, 3), (70000,), (3, 3), (1, 3, 9, 9)]
ORDINARY = ["float32"] * 6 + ["float64", "float16", "bfloat16", "complex64", "int64", "int32", "uint8", "bool"]
ODD_TYPES = ["complex128", "complex32", "int16", "int8", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2",
             "float8_e8m0fnu", "float4_e2m1fn_x2", "bits8", "qint8", "quint8", "qint32"]  # fmt: skip
WHOLE = [-1, -2, -3, 5, 7, 17, 100, 65537, 2**31, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)]
REAL = ["nan", "inf", "-inf", "-1.0", "0.0", "1e300", "-1e-300", "2.0**63"]
STRINGS = ["", "sum", "none", "max", "mean", "bilinear", "tanh", "L", "x" * 300, "ii->", "...->...", "\\0"]
LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "sparse_bsr", "jagged", "_mkldnn"]
FORMATS = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]
DEVICES = ["None", "device()", "device('cpu')", "device('meta')", "device('ocl:7')", "device('cuda')"]


class Skipped(Exception):
    """The schema has an argument that nothing is drawn for."""


class Draw:
    """One call of an operator: `text` evaluates to it with the names of values.py."""

    def __init__(self, schema, r: random.Random):
        self.schema, self.r = schema, r
        self.shape, self.dtype = r.choice(inputs.SHAPES), r.choice(ORDINARY)
        self.shapes_differ = r.random() < 0.15
        self.hostility = r.choice([0.05, 0.15, 0.15, 0.4])
        self.grad = r.random() < 0.3

    def hostile(self):
        return self.r.random() < self.hostility

    def kind(self):
        r = self.r
        return r.choice(r.choice([values.DENSE, values.DENSE, values.SPARSE, values.OTHERS, values.RESIZED]))

    def tensor(self, name, written=False):
        r = self.r
        shape = r.choice(SHAPES) if self.shapes_differ or self.hostile() else self.shape
        dtype, kind, device, fill = self.dtype, "plain", None, None
        if name in inputs.POSITIONS and r.random() < 0.9:
            dtype = "int64"
            if r.random() < 0.5:
                shape = shape[-1:]
            if self.hostile():
                fill = r.choice([-1, 5, 2**31, 2**62, -(2**63), [3, 0, 9], [0, -7]])
        elif name in inputs.MASKS and r.random() < 0.7:
            dtype = "bool"
        elif name in ("weight", "bias", "running_mean", "running_var") and r.random() < 0.5 and len(shape) > 1:
            shape = shape[1:2]
        elif r.random() < 0.1:
            dtype = r.choice(ORDINARY)
        if self.hostile():
            dtype = r.choice(ORDINARY + ODD_TYPES)
        if self.hostile():
            kind = self.kind()
        if self.hostile():
            device = r.choice(["cpu", "cpu", "meta", None])
        if self.hostile() and fill is None and r.random() < 0.3:
            fill = r.choice([0, 1, -1, 2**31, 1e30, [0, 100, -100]])
        grad = self.grad and not written and r.random() < 0.7
        options = {"kind": kind, "device": device, "grad": grad, "fill": fill}
        given = [f"{key}={value!r}" for key, value in options.items() if value not in (None, False, "plain")]
        return f"tensor({', '.join([repr(tuple(shape)), repr(dtype), *given])})"

    def number(self, name):
        r = self.r
        if self.hostile():
            return str(r.choice(WHOLE))
        if name.startswith("dim") or name in ("start_dim", "end_dim", "axis", "offset", "diagonal"):
            return str(r.choice([0, -1, 1]))
        return str(r.choice([1, 2, 1, 0, 3, 4]))

    def numbers(self, name, length):
        r = self.r
        if self.hostile():
            return str([r.choice([*WHOLE, 0, 1, 2]) for _ in range(r.choice([0, 1, 2, 3, 5, 20]))])
        if ("size" in name and name != "kernel_size") or name in ("shape", "repeats"):
            return str(list(self.shape))
        if name.startswith("dim"):
            return str(r.choice([[0], [-1], [0, 1], [1], []]))
        if "stride" in name and length is None:
            return str(list(torch.empty(self.shape, device="meta").stride()))
        if name in ("padding", "pad", "output_padding"):
            return str([r.choice([0, 0, 1])] * (length or max(2, 2 * (len(self.shape) - 2))))
        return str([r.choice([1, 2])] * (length or max(1, len(self.shape) - 2)))

    def value(self, type_, name, length=None, written=False):
        r = self.r
        kind = type_.kind()
        if kind == "OptionalType":
            return "None" if r.random() < 0.5 else self.value(type_.getElementType(), name, length)
        if kind == "TensorType":
            return self.tensor(name, written)
        if kind == "ListType":
            return self.list_(type_.getElementType(), name, length, written)
        simple = {
            "IntType": lambda: self.number(name), "SymIntType": lambda: self.number(name),
            "FloatType": lambda: r.choice(REAL) if self.hostile() else r.choice(["0.5", "1.0", "0.1", "2.0"]),
            "NumberType": lambda: r.choice([*REAL, *map(str, WHOLE), "1+2j"]) if self.hostile() else
            r.choice(["1", "0.5", "2", "True"]),
            "BoolType": lambda: str(r.random() < 0.4),
            "StringType": lambda: repr(r.choice(STRINGS) if self.hostile() else
                                       r.choice(inputs.STRINGS.get(name, ["sum", "none"]))),
            "DeviceObjType": lambda: r.choice(DEVICES),
            "GeneratorType": lambda: r.choice(["generator()", "generator('cpu')"]),
            "StorageType": lambda: f"{self.tensor(name)}.untyped_storage()",
        }  # fmt: skip
        if kind not in simple:
            raise Skipped(kind)
        return simple[kind]()

    def list_(self, element, name, length, written):
        r = self.r
        kind = element.kind()
        if kind in ("IntType", "SymIntType"):
            return self.numbers(name, length)
        if kind == "BoolType":
            return str([r.random() < 0.5] * r.choice([1, 2, 3, length or 1]))
        if kind == "FloatType":
            return f"[{r.choice(['0.5', '2.0', *REAL])}] * {r.choice([0, 1, 2, 3])}"
        count = r.choice([0, 1, 3, 5]) if self.hostile() else 2
        return f"[{', '.join(self.value(element, name, written=written) for _ in range(count))}]"

    def argument(self, a):
        r = self.r
        if "ScalarType" in str(a.real_type):
            return f"torch.{r.choice(ORDINARY + ODD_TYPES)}" if self.hostile() else r.choice(["None", "torch.float32"])
        if "Layout" in str(a.real_type):
            return f"torch.{r.choice(LAYOUTS)}" if self.hostile() else "None"
        if "MemoryFormat" in str(a.real_type):
            return f"torch.{r.choice(FORMATS)}" if self.hostile() else "None"
        if "Device" in str(a.real_type):
            return r.choice(DEVICES) if self.hostile() else r.choice(["device()", "None"])
        if a.name == "pin_memory":
            return str(self.hostile())
        if a.is_out:
            return self.out(a)
        if a.has_default_value() and r.random() < 0.5 and not self.hostile():
            return None
        return self.value(a.type, a.name, a.N, bool(a.alias_info and a.alias_info.is_write))

    def out(self, a):
        r = self.r

        def one():
            shape = r.choice([(0,), self.shape, self.shape])
            if not self.hostile():
                return f"out({tuple(shape)!r}, {self.dtype!r})"
            return (
                f"out({tuple(r.choice(SHAPES))!r}, {r.choice(ORDINARY + ODD_TYPES)!r}, {self.kind()!r}, "
                f"{r.choice(['cpu', 'meta', None, None])!r})"
            )

        if a.type.kind() != "ListType":
            return one()
        return f"[{', '.join(one() for _ in range(r.choice([0, 1, 2, 2, 3])))}]"

    def text(self):
        parts = []
        skipped = False  # what follows a left out positional argument is given by name
        for a in self.schema.arguments:
            value = self.argument(a)
            if value is None:
                skipped = True
                continue
            parts.append(f"{a.name}={value}" if a.kwarg_only or skipped else value)
        namespace, name = self.schema.name.split("::")
        return f"{namespace}.{name}.{self.schema.overload_name or 'default'}({', '.join(parts)})"


def call(schema, r):
    """The text of a call. Errors: Skipped."""
    return Draw(schema, r).text()
