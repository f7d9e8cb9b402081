"""`ocl` beside CUDA on one GPU: training steps of networks, matrix products, convolutions, and operators bound by
memory.

python -m benchmarks.gpu [GROUP ...] [--devices cuda,ocl] [--limit SECONDS] [--output results/gpu.json]
    measures; prints a line per case
python -m benchmarks.gpu --report FILE [--markdown docs/generated/gpu.md]
    writes the page of the documentation

Every device has a process of its own, one after the other: with another accelerator registered, PyTorch's autograd no
longer takes CUDA tensors. Times are medians of rounds of repeated calls with one wait at the end of a round.
Precisions: "fp32" without TF32 on either side, "tf32" where it is allowed on both, "bf16" autocast. Rows whose results
differ by more than a thousandth in their norm say so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F

NOTES = """
- float32 on tensor cores is three products of TF32 (docs/design/tensor-cores.md), about as exact as float32; CUDA's
  "fp32" rows use no tensor cores.
- Half precision is multiplied by warpgroups (wgmma), and TF32 where both operands lie along the sum; local memory is
  limited to 48 KiB a group, so tiles are 128 x 128 and every operand comes from the L2 cache more often than in cuBLAS,
  whose tiles are larger. TF32 of other layouts, and the exact products of float32, go by mma.sync.
- Channels first, convolutions other than 1x1 go through copies into channels last and back, where they have enough to
  compute.
- Convolutions in half precision gather every window once per tap; that by way of the L1 cache was no quicker.
- Attention in half precision goes by mma.sync; wgmma has not been tried there.
"""

GROUPS = ("networks", "gemm", "convolution", "memory")
BATCHES = {"resnet50": 64, "resnet18": 64, "mobilenet_v2": 64, "vgg16": 32, "alexnet": 128, "gpt": 16, "unet": 16}


class Device:
    def __init__(self, name):
        self.name = name
        if name == "ocl":
            import torch_ocl  # noqa: F401
        self.module = getattr(torch, name, None)

    def wait(self):
        if self.name != "cpu":
            self.module.synchronize()

    def allow_tf32(self, value):
        if self.name == "ocl":
            torch.backends.ocl.allow_tf32 = value
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = value

    def about(self):
        if self.name == "ocl":
            return str(torch.ocl.get_device_properties(0))
        return f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}" if self.name == "cuda" else "cpu"


def timed(run, device, seconds=0.12, rounds=3):
    for _ in range(2):
        run()
    device.wait()
    begin = time.perf_counter()
    run()
    device.wait()
    calls = max(1, min(50, int(seconds / rounds / max(time.perf_counter() - begin, 1e-6))))
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        device.wait()
        times.append((time.perf_counter() - begin) / calls)
    return statistics.median(times)


def random(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[-1])).to(device, dtype)


def network(name, batch, amp=None, channels_last=False):
    from .models import NETWORKS, without_dropout

    net = NETWORKS[name]

    def make(device):
        torch.manual_seed(0)
        model = without_dropout(net.build()).to(device)
        if channels_last:
            model = model.to(memory_format=torch.channels_last)
        data = [part.to(device) for part in net.batch(batch, net.size, 0)]
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, dtype=amp or torch.bfloat16, enabled=amp is not None):
                loss = net.loss(model, *data)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    return make


def gemm(layout, m, n, k, dtype=torch.float32):
    def make(device):
        a = random(k, m).t() if layout[0] == "T" else random(m, k)
        b = random(n, k).t() if layout[1] == "T" else random(k, n)
        a, b = a.to(device, dtype), b.to(device, dtype)
        return lambda: a @ b

    return make


def convolution(kind, n, ci, edge, co, kernel, stride, groups=1, dtype=torch.float32, channels_last=False):
    out = (edge + 2 * (kernel // 2) - kernel) // stride + 1

    def make(device):
        order = {"memory_format": torch.channels_last} if channels_last else {}
        x = random(n, ci, edge, edge).to(device, dtype).to(**order)
        w = (random(co, ci // groups, kernel, kernel) * 0.05).to(device, dtype).to(**order)
        if kind == "forward":
            return lambda: F.conv2d(x, w, None, stride, kernel // 2, 1, groups)
        dy = random(n, co, out, out).to(device, dtype).to(**order)
        wanted = [kind == "data", kind == "weight", False]
        arguments = ([stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], groups, wanted)
        return lambda: torch.ops.aten.convolution_backward(dy, x, w, None, *arguments)[wanted.index(True)]

    return make, 2.0 * n * co * out * out * (ci // groups) * kernel * kernel


def cases(groups):
    """(group, name, make(device name) -> run, operations, bytes, TF32 allowed)."""
    half = torch.bfloat16
    if "networks" in groups:
        for name, batch in BATCHES.items():
            yield "networks", f"{name} {batch} fp32", network(name, batch), 0, 0, False
            yield "networks", f"{name} {batch} tf32", network(name, batch), 0, 0, True
            yield "networks", f"{name} {batch} bf16", network(name, batch, half), 0, 0, False
            if name in ("resnet50", "mobilenet_v2", "vgg16"):
                yield "networks", f"{name} {batch} fp32 channels_last", network(name, batch, None, True), 0, 0, False
                yield "networks", f"{name} {batch} bf16 channels_last", network(name, batch, half, True), 0, 0, False
    if "gemm" in groups:
        for layout, m, n, k in (
            ("NN", 4096, 4096, 4096),
            ("NN", 1024, 1024, 1024),
            ("NT", 2048, 2048, 2048),
            ("TN", 2048, 2048, 2048),
            ("NT", 64, 4096, 9216),
        ):
            yield "gemm", f"{layout} {m}x{n}x{k} fp32", gemm(layout, m, n, k), 2.0 * m * n * k, 0, False
        yield "gemm", "NN 4096x4096x4096 tf32", gemm("NN", 4096, 4096, 4096), 2.0 * 4096**3, 0, True
        for layout in ("NN", "NT", "TN"):
            yield "gemm", f"{layout} 4096x4096x4096 bf16", gemm(layout, 4096, 4096, 4096, half), 2.0 * 4096**3, 0, False
    if "convolution" in groups:
        shapes = (
            (64, 64, 56, 64, 3, 1, 1),
            (64, 256, 14, 256, 3, 1, 1),
            (64, 256, 56, 64, 1, 1, 1),
            (64, 128, 56, 128, 3, 2, 1),
            (64, 3, 224, 64, 7, 2, 1),
            (64, 96, 56, 96, 3, 1, 96),
        )
        for dtype, kind_name, last in (
            (torch.float32, "fp32", False),
            (half, "bf16", False),
            (half, "bf16 channels_last", True),
        ):
            for shape in shapes if dtype == torch.float32 else shapes[:2]:
                for kind in ("forward", "data", "weight"):
                    if shape[1] == 3 and kind == "data":
                        continue  # images need no gradient
                    n, ci, edge, co, kernel, stride, group = shape
                    make, operations = convolution(kind, *shape, dtype, last)
                    shape_text = f"{n}x{ci}@{edge}->{co} {kernel}x{kernel}/{stride}{' depthwise' if group > 1 else ''}"
                    text = f"{kind} {shape_text} {kind_name}"
                    yield "convolution", text, make, operations, 0, False
    if "memory" in groups:
        count = 1 << 26

        def of(function, *shapes, bytes=0, dtype=torch.float32):
            def make(device):
                operands = [
                    shape if callable(shape) else random(*shape, dtype=dtype, device=device) for shape in shapes
                ]
                operands = [operand(device) if callable(operand) else operand for operand in operands]
                return lambda: function(*operands)

            return make, 0, bytes, False

        square, flat = (1 << 14, 1 << 12), (count,)
        indices = lambda limit, *shape: (
            lambda device: torch.randint(limit, shape, generator=torch.Generator().manual_seed(1)).to(device)
        )
        yield "memory", "add 256 MB", *of(torch.add, flat, flat, bytes=12 * count)
        yield "memory", "add of 1 element in place", *of(lambda x: x.add_(0), (1,))
        yield "memory", "multiply by a column", *of(torch.mul, square, (1 << 14, 1), bytes=8 * count)
        yield "memory", "gelu", *of(F.gelu, flat, bytes=8 * count)
        yield "memory", "sum", *of(torch.sum, flat, bytes=4 * count)
        yield "memory", "sum of rows", *of(lambda x: x.sum(1), square, bytes=4 * count)
        yield "memory", "sum of columns", *of(lambda x: x.sum(0), square, bytes=4 * count)
        yield "memory", "softmax of rows", *of(lambda x: x.softmax(1), square, bytes=8 * count)
        yield "memory", "layer norm", *of(lambda x: F.layer_norm(x, (4096,)), square, bytes=8 * count)
        yield (
            "memory",
            "batch norm",
            *of(lambda x: F.batch_norm(x, None, None, training=True), (64, 256, 64, 64), bytes=12 * count),
        )
        yield (
            "memory",
            "max pooling 3x3/2",
            *of(lambda x: F.max_pool2d(x, 3, 2, 1), (64, 64, 128, 128), bytes=4 * count),
        )
        yield "memory", "transpose", *of(lambda x: x.t().contiguous(), square, bytes=8 * count)
        yield (
            "memory",
            "concatenation",
            *of(lambda a, b: torch.cat([a, b], 1), (4096, 4096), (4096, 4096), bytes=4 * count),
        )
        yield (
            "memory",
            "embedding",
            *of(lambda w, i: F.embedding(i, w), (50000, 768), indices(50000, 64, 512), bytes=8 * 64 * 512 * 768),
        )
        yield (
            "memory",
            "cross entropy",
            *of(F.cross_entropy, (8192, 8192), indices(8192, 8192), bytes=8 * count),
        )
        yield "memory", "cumulative sum", *of(lambda x: x.cumsum(1), square, bytes=8 * count)
        yield "memory", "sort 1M", *of(lambda x: x.sort()[0], (1 << 20,))
        yield "memory", "top 50 of 64 x 50000", *of(lambda x: x.topk(50)[0], (64, 50000))
        for kind, dtype in (("fp32", torch.float32), ("bf16", half)):
            yield (
                "memory",
                f"attention 8x12x1024x64 {kind}",
                of(lambda q: F.scaled_dot_product_attention(q, q, q), (8, 12, 1024, 64), dtype=dtype)[0],
                4.0 * 8 * 12 * 1024**2 * 64,
                0,
                False,
            )


def child(options):
    device, begin, results = Device(options.child), time.time(), {}
    for group, name, make, operations, moved, tf32 in cases(options.groups):
        if options.limit and time.time() - begin > options.limit:
            print(f"{options.child}: out of time before {name}", flush=True)
            break
        try:
            device.allow_tf32(tf32)
            first = time.perf_counter()
            run = make(options.child)
            output = run()
            row = {
                "group": group,
                "operations": operations,
                "bytes": moved,
                "result": float(output.double().norm()),
                "first": time.perf_counter() - first,
            }
            row["seconds"] = timed(run, device)
            del run, output
        except Exception as error:  # a missing operator must not cost the other cases
            row = {"group": group, "error": f"{type(error).__name__}: {error}"[:500]}
        results[name] = row
        print(
            f"{options.child:5} {name:52} "
            + (f"{row['seconds'] * 1e6:10.0f} us" if "seconds" in row else row["error"][:150]),
            flush=True,
        )
        Path(options.output).write_text(json.dumps({"about": device.about(), "cases": results}, indent=1))


def measure(options):
    merged = {
        "about": {"torch": torch.__version__, "date": time.strftime("%Y-%m-%d"), "commit": options.commit or commit()},
        "devices": {},
    }
    for name in options.devices.split(","):
        part = options.output.with_suffix(f".{name}.json")
        command = [
            sys.executable,
            "-m",
            "benchmarks.gpu",
            *options.groups,
            "--child",
            name,
            "--output",
            str(part),
            "--limit",
            str(options.limit),
        ]
        subprocess.run(command, env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, check=False)
        merged["devices"][name] = json.loads(part.read_text()) if part.exists() else {"about": name, "cases": {}}
    options.output.write_text(json.dumps(merged, indent=1))
    print(table(merged))


def commit():
    answer = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or "unknown"


def rows(results):
    """(group, name, seconds of the devices, achieved, ratio first / second, what is to be said)."""
    first, second = list(results["devices"].values())[:2]
    for name, row in second["cases"].items():
        other = first["cases"].get(name, {})
        if "seconds" not in row or "seconds" not in other:
            continue
        rates = ""
        if row["operations"]:
            rates = f"{row['operations'] / row['seconds'] / 1e12:.3g} TFLOP/s"
        elif row["bytes"]:
            rates = f"{row['bytes'] / row['seconds'] / 1e9:.3g} GB/s"
        difference = abs(row["result"] - other["result"]) / max(abs(other["result"]), 1e-30)
        remark = "" if difference < 1e-3 else f"results differ by {difference:.1e}"
        yield row["group"], name, other["seconds"], row["seconds"], rates, other["seconds"] / row["seconds"], remark


def time_text(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def table(results):
    return "\n".join(
        f"{name:52} {time_text(a):>9} {time_text(b):>9} {rates:>16} {ratio:.2f} {remark}"
        for _, name, a, b, rates, ratio, remark in rows(results)
    )


def report(options):
    results = json.loads(options.report.read_text())
    names = list(results["devices"])
    lines = ["# Performance on a GPU", "", "Generated by `python -m benchmarks.gpu --report`; do not edit.", ""]
    lines += [f"- {key}: {value}" for key, value in results["about"].items()]
    lines += [f"- {name}: {part['about']}" for name, part in results["devices"].items()]
    lines += [
        "",
        f"Ratios are {names[0]} time / {names[1]} time (above 1 `{names[1]}` is faster). "
        + " ".join(__doc__.split("\n\n")[2].split()),
        NOTES,
    ]
    for group in GROUPS:
        chosen = [row for row in rows(results) if row[0] == group]
        if chosen:
            lines += [
                f"## {group}",
                "",
                f"| case | {names[0]} | {names[1]} | achieved | ratio | |",
                "|---|---|---|---|---|---|",
            ]
            lines += [
                f"| {name} | {time_text(a)} | {time_text(b)} | {rates} | {ratio:.2f} | {remark} |"
                for _, name, a, b, rates, ratio, remark in chosen
            ] + [""]
    options.markdown.write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)} (all)")
    parser.add_argument("--devices", default="cuda,ocl", help="the first is what the second is compared with")
    parser.add_argument("--commit", help="what is measured, where the copy has no history of its own")
    parser.add_argument(
        "--limit", type=float, default=0, help="seconds after which a device begins no further case (0: none)"
    )
    parser.add_argument("--output", type=Path, default=Path("results/gpu.json"))
    parser.add_argument("--report", type=Path, help="results to write the page from")
    parser.add_argument("--markdown", type=Path, default=Path("docs/generated/gpu.md"))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.groups = options.groups or list(GROUPS)
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    if options.report:
        return report(options)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    return child(options) if options.child else measure(options)


if __name__ == "__main__":
    main()
