"""What is measured. A case makes the same work for one device: a function that does it and waits, and the outputs to
compare first."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from .models import IMAGE_NETWORKS, NETWORKS, without_dropout


@dataclass
class Work:
    """`run()` issues the work once, `outputs()` gives what it computed, as tensors."""

    run: Callable
    outputs: Callable


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    make: Callable[[torch.device], Work]
    operations: float = 0.0  # floating point operations of one run
    bytes: float = 0.0  # bytes that have to be read and written
    tolerance: float = 1e-3  # relative L2 between the devices' outputs
    # The outputs of the same work in float64 on the CPU: the judge where float32 itself is further from them than the
    # tolerance (a network that doubles rounding errors layer by layer).
    reference: Callable[[], tuple] | None = None


def seeded(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def function_case(name, group, function, *operands, **facts):
    """A case that calls `function` on copies of the operands."""

    def make(device):
        inputs = [
            operand.to(device) if isinstance(operand, torch.Tensor) else operand
            for operand in (o() if callable(o) else o for o in operands)
        ]
        result = {}

        def run():
            result["value"] = function(*inputs)

        def outputs():
            run()
            value = result["value"]
            return value if isinstance(value, (tuple, list)) else (value,)

        return Work(run, outputs)

    return Case(name, group, make, **facts)


# ---- networks


def network_case(
    name, training, batch_size=None, autocast=None, size=None, optimized=False, memory_format=torch.contiguous_format
):
    """A training step or an evaluation; `autocast` and `memory_format`: the dtype of mixed precision and the layout of
    weights and images, on every device alike; `optimized`: an evaluation in which the model on `ocl` went through
    torch_ocl.optimize."""
    network = NETWORKS[name]

    def make(device, dtype=torch.float32):
        torch.manual_seed(0)
        model = without_dropout(network.build()).to(device, dtype, memory_format=memory_format).train(training)
        if optimized and device.type == "ocl":
            import torch_ocl

            model = torch_ocl.optimize(model)
        batch = network.batch(batch_size or network.batch_size, size or network.size, 0)
        batch = [part.to(device, dtype if part.is_floating_point() else part.dtype) for part in batch]
        batch = [part.contiguous(memory_format=memory_format) if part.dim() == 4 else part for part in batch]

        def loss_of_batch():
            with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None and dtype == torch.float32):
                return network.loss(model, *batch)

        if not training:

            def evaluate():
                with torch.no_grad():
                    return loss_of_batch()

            return Work(evaluate, lambda: (evaluate(),))
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of_batch()
            loss.backward()
            optimizer.step()
            return loss.detach()

        def outputs():
            return step(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])

        return Work(step, outputs)

    kind = "train" if training else "eval, optimized" if optimized else "eval"
    if autocast is not None:
        kind += f" autocast {str(autocast).split('.')[1]}"
    if memory_format != torch.contiguous_format:
        kind += f" {str(memory_format).split('.')[1]}"
    tolerance = 1e-2 if autocast is None else 1e-1
    return Case(
        f"{name} {kind}",
        "networks",
        make,
        tolerance=tolerance,
        reference=lambda: make(torch.device("cpu"), torch.float64).outputs(),
    )


# ---- gemm


def gemm_case(m, n, k, layout="NN", dtype=torch.float32):
    def operand(rows, columns, transposed, seed):
        return lambda: (
            seeded(columns, rows, seed=seed, dtype=dtype).t()
            if transposed
            else seeded(rows, columns, seed=seed, dtype=dtype)
        )

    kind = "" if dtype == torch.float32 else f" {str(dtype).split('.')[1]}"
    return function_case(f"gemm {layout} {m}x{n}x{k}{kind}", "gemm", torch.mm, operand(m, k, layout[0] == "T", 0),
                         operand(k, n, layout[1] == "T", 1), operations=2.0 * m * n * k,
                         tolerance=1e-4 if dtype == torch.float32 else 2e-2)  # fmt: skip


# ---- convolution layers of the five networks: images, channels, edge, outputs, kernel, stride, groups
CONVOLUTIONS = [
    (8, 3, 224, 64, 7, 2, 1), (8, 64, 56, 64, 3, 1, 1), (8, 64, 56, 128, 3, 2, 1), (8, 128, 28, 128, 3, 1, 1),
    (8, 256, 14, 256, 3, 1, 1), (8, 512, 7, 512, 3, 1, 1), (8, 64, 56, 256, 1, 1, 1), (8, 256, 14, 1024, 1, 1, 1),
    (8, 64, 27, 192, 5, 1, 1), (8, 96, 56, 96, 3, 1, 96), (8, 144, 56, 144, 3, 2, 144), (8, 384, 14, 384, 3, 1, 384),
    (8, 960, 7, 960, 3, 1, 960), (2, 64, 224, 64, 3, 1, 1),
]  # fmt: skip
# and of others: the same, and more
OTHER_CONVOLUTIONS = [
    ((4, 384, 14, 384, 7, 1, 384), {}),  # ConvNeXt
    ((4, 128, 28, 128, 3, 1, 1), {"dilation": 2}),  # segmentation
    ((64, 512, 1, 512, 3, 1, 1), {}),  # ResNet-18 on images of 32 x 32
    ((2, 64, 28, 64, 3, 1, 1), {"depth": 8}),  # video
    ((8, 256, 28, 256, 3, 1, 32), {}),  # ResNeXt
    ((4, 32, 28, 32, 7, 1, 1), {}),
    ((2, 64, 128, 3, 3, 1, 1), {}),  # the last layer of a decoder
]


def convolution_case(images, channels, edge, outputs, kernel, stride, groups, part, dilation=1, depth=None):
    """One pass of a layer; of cubic kernels on `depth` slices where that is given."""
    padding, dimensions = kernel // 2 * dilation, 3 if depth else 2
    out_edge = (edge + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    sizes = lambda edge: ((depth,) if depth else ()) + (edge, edge)  # stride 1 in depth
    x = lambda: seeded(images, channels, *sizes(edge), seed=0)
    per_output = channels // groups * kernel**dimensions
    weight = lambda: seeded(outputs, channels // groups, *[kernel] * dimensions, seed=1) * per_output**-0.5
    gradient = lambda: seeded(images, outputs, *sizes(out_edge), seed=2)
    operations = 2.0 * images * outputs * (depth or 1) * out_edge**2 * per_output
    geometry = ([stride] * dimensions, [padding] * dimensions, [dilation] * dimensions, False, [0] * dimensions, groups)
    masks = {"backward data": [True, False, False], "backward weight": [False, True, False]}

    def forward(x, weight):
        return torch.convolution(x, weight, None, *geometry)

    def backward(g, x, weight):
        data, weights, _ = torch.ops.aten.convolution_backward(g, x, weight, None, *geometry, masks[part])
        return data if data is not None else weights

    kind = (
        " depthwise"
        if groups == channels
        else f" groups {groups}"
        if groups > 1
        else f" dilation {dilation}"
        if dilation > 1
        else ""
    )
    at, taps = (f"{depth}x{edge}x{edge}", f"{kernel}x{kernel}x{kernel}") if depth else (edge, f"{kernel}x{kernel}")
    name = f"conv {part} {images}x{channels}@{at}->{outputs} {taps}/{stride}{kind}"
    if part == "forward":
        return function_case(name, "convolution", forward, x, weight, operations=operations)
    return function_case(name, "convolution", backward, gradient, x, weight, operations=operations)


# ---- operators bound by memory


def bandwidth_cases(megabytes):
    """Operators on tensors of `megabytes` MB of float32; small ones are issued several times before the wait, as
    programs do."""
    times = max(1, 16 // megabytes)
    count = megabytes << 18
    edge = 1 << (count.bit_length() - 1) // 2  # of a matrix that is square or has twice as many columns
    square, images = (edge, count // edge), max(1, megabytes // 4)
    channels = count // (images * 56 * 56) // 16 * 16
    a, b = (lambda: seeded(count, seed=0)), (lambda: seeded(count, seed=1))
    matrix, other = (lambda: seeded(*square, seed=0)), (lambda: seeded(*square, seed=1))
    image, gradient = (lambda: seeded(images, channels, 56, 56)), (lambda: seeded(images, channels, 56, 56, seed=1))
    small_gradient = lambda: seeded(images, channels, 28, 28, seed=1)
    heads = lambda: seeded(max(1, count // (128 * 12 * 64)), 128, 12, 64)
    rows = lambda: torch.randint(edge, (edge,), generator=torch.Generator().manual_seed(3))

    def case(name, function, *operands, passes, of=count, **facts):
        def repeated(*inputs):
            for _ in range(times):
                result = function(*inputs)
            return result

        text = f"{name}, {megabytes} MB" + (f", {times} issued" if times > 1 else "")
        return function_case(text, "bandwidth", repeated, *operands, bytes=times * passes * of * 4, **facts)

    def backward(operator):
        """Calls the gradient of operator(x) at x, for a gradient of the result."""
        return lambda x, g: torch.autograd.grad(operator(x.requires_grad_()), x, g)

    yield case("add", torch.add, a, b, passes=3)
    yield case("add in place", lambda x, y: x.add_(y, alpha=1e-9), a, b, passes=3)
    yield case("relu", torch.relu, a, passes=2)
    yield case("exp", torch.exp, a, passes=2)
    yield case("gelu", F.gelu, a, passes=2)
    yield case("gelu backward", torch.ops.aten.gelu_backward, b, a, passes=3)
    yield case("cast to bfloat16", lambda x: x.bfloat16(), a, passes=1.5)
    yield case("strided copy (transpose)", lambda x: x.t().contiguous(), matrix, passes=2)
    yield case("heads apart (permute 0213)", lambda x: x.transpose(1, 2).contiguous(), heads, passes=2)
    yield case("concatenation", lambda x, y: torch.cat([x, y], 1), matrix, other, passes=4)
    yield case("rows by index", lambda x, i: x.index_select(0, i), matrix, rows, passes=2)
    yield case("broadcast multiply", lambda x, y: x * y[0], matrix, other, passes=2)
    yield case(
        "sum of all", torch.sum, a, passes=1, tolerance=5e-2
    )  # the sum is near zero: the error is relative to a small number
    yield case("sum of rows", lambda x: x.sum(1), matrix, passes=1)
    yield case("sum of columns", lambda x: x.sum(0), matrix, passes=1)
    yield case("softmax of rows", lambda x: x.softmax(1), matrix, passes=2)
    yield case(
        "softmax backward",
        lambda g, y: torch.ops.aten._softmax_backward_data(g, y, 1, torch.float32),
        matrix,
        lambda: other().softmax(1),
        passes=3,
    )
    yield case("log softmax of rows", lambda x: x.log_softmax(1), matrix, passes=2)
    yield case("layer norm", lambda x: F.layer_norm(x, square[1:]), matrix, passes=2)
    yield case(
        "layer norm, forward and backward", backward(lambda x: F.layer_norm(x, square[1:])), matrix, other, passes=5
    )
    image_numel = images * channels * 56 * 56
    yield case(
        "batch norm, training", lambda x: F.batch_norm(x, None, None, training=True), image, passes=2, of=image_numel
    )
    yield case(
        "batch norm, forward and backward",
        backward(lambda x: F.batch_norm(x, None, None, training=True)),
        image,
        gradient,
        passes=5,
        of=image_numel,
    )
    yield case("max pool 3x3/2", lambda x: F.max_pool2d(x, 3, 2, 1), image, passes=1.25, of=image_numel)
    yield case(
        "max pool 3x3/2, forward and backward",
        backward(lambda x: F.max_pool2d(x, 3, 2, 1)),
        image,
        small_gradient,
        passes=2.75,
        of=image_numel,
    )


def optimizer_case(name, optimizer, **options):
    """One step for all parameters of a network."""

    def make(device):
        torch.manual_seed(0)
        network = without_dropout(NETWORKS[name].build()).to(device)
        for i, parameter in enumerate(network.parameters()):
            parameter.grad = seeded(*parameter.shape, seed=i).to(device)
        instance = getattr(torch.optim, optimizer)(network.parameters(), lr=1e-4, **options)
        return Work(instance.step, lambda: (instance.step(), [p.detach() for p in network.parameters()])[1])

    return Case(f"{optimizer} step of {name}", "optimizer", make)


def latency_cases():
    one = lambda: torch.ones(1)

    def many(function, times=100):
        def repeated(x):
            for _ in range(times):
                function(x)
            return x

        return repeated

    yield function_case("in-place add of one element, 100 issued", "latency", many(lambda x: x.add_(1e-6)), one)
    yield function_case("add of one element, 100 issued", "latency", many(lambda x: x + 1.0), one)
    yield function_case("add of one element and item()", "latency", lambda x: torch.tensor((x + 1.0).item()), one)
    yield function_case(
        "linear 32x32x32, 100 issued", "latency", many(lambda x: F.linear(x, x)), lambda: seeded(32, 32)
    )


def all_cases():
    """Every case in the order of the report."""
    for name in NETWORKS:
        for training in (True, False):
            yield network_case(name, training)
    for name in IMAGE_NETWORKS:
        yield network_case(name, False, optimized=True)
    for name in IMAGE_NETWORKS:
        yield network_case(name, True, memory_format=torch.channels_last)
    for name in ("resnet18", "resnet50"):
        yield network_case(name, True, autocast=torch.bfloat16)
    for size in (256, 512, 1024, 2048):
        yield gemm_case(size, size, size)
    for size in (512, 1024, 2048):
        for layout in ("NT", "TN"):
            yield gemm_case(size, size, size, layout)
    for shape in ((16, 4096, 9216), (16, 4096, 4096), (1000, 8, 512)):
        yield gemm_case(*shape, "NT")
    yield gemm_case(1024, 1024, 1024, dtype=torch.bfloat16)
    for shape, options in [(shape, {}) for shape in CONVOLUTIONS] + OTHER_CONVOLUTIONS:
        for part in ("forward", "backward data", "backward weight"):
            yield convolution_case(*shape, part, **options)
    for megabytes in (1, 8, 64):
        yield from bandwidth_cases(megabytes)
    yield optimizer_case("resnet18", "SGD", momentum=0.9)
    yield optimizer_case("resnet18", "Adam")
    yield optimizer_case("gpt", "AdamW")
    yield from latency_cases()
