"""Nested tensors: what the CPU computes, or an error; never the end of the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

PACKAGE = Path(__file__).resolve().parents[3] / "python"
SIZES = [(2, 3), (5, 3), (1, 3)]

feature = pytest.mark.feature
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def parts(device, sizes=SIZES, dtype=torch.float32, requires_grad=True):
    generator = torch.Generator().manual_seed(7)
    values = [torch.randn(size, generator=generator).to(dtype) for size in sizes]
    return [value.to(device).requires_grad_(requires_grad) for value in values]


def outputs_of(result):
    if isinstance(result, torch.Tensor) and result.is_nested:
        return list(result.unbind())
    return result if isinstance(result, list) else [result]


def check(program, device, sizes=SIZES, gradients=True):
    """Runs a program of some tensors on both devices and compares its results and their gradients."""
    found = []
    for place in ("cpu", device):
        inputs = parts(place, sizes, requires_grad=gradients)
        results = outputs_of(program(inputs))
        if gradients:
            sum((result.float() * (1 + result.detach().float().cos())).sum() for result in results).backward()
        found.append([value.detach().cpu() for value in results + [x.grad for x in inputs if x.grad is not None]])
    assert len(found[0]) == len(found[1]) >= len(sizes) * gradients
    for expected, actual in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected, rtol=2e-5, atol=2e-5)


# ---- strided layout
STRIDED = {
    "relu": lambda n: n.relu(),
    "gelu": F.gelu,
    "silu": F.silu,
    "add": lambda n: n + n * 2.0,
    "linear": lambda n: F.linear(
        n, torch.linspace(-1, 1, 12, device=n.device).view(4, 3), torch.ones(4, device=n.device)
    ),
    "matmul": lambda n: torch.matmul(n, n.transpose(1, 2)),
    "bmm": lambda n: torch.bmm(n, n.transpose(1, 2)),
    "softmax": lambda n: torch.softmax(n, -1),
    "padded": lambda n: torch.nested.to_padded_tensor(n, 0.5),
    "clone": lambda n: n.transpose(1, 2).contiguous(),
    "layer_norm": lambda n: F.layer_norm(
        n, (3,), torch.linspace(1, 2, 3, device=n.device), torch.ones(3, device=n.device)
    ),
    "select": lambda n: n[1] * 3,
    "unbind": lambda n: sum(part.sum() for part in n.unbind()),
    "chunk": lambda n: torch.nested.to_padded_tensor(n, 0.0).chunk(2, 1)[0],
    "to dtype": lambda n: n.to(torch.float64),
}


@feature("Nested tensors")
@pytest.mark.parametrize("name", STRIDED)
def test_strided(name, device, no_fallback):
    check(lambda inputs: STRIDED[name](torch.nested.as_nested_tensor(inputs)), device)


def test_strided_moves_between_devices(device, no_fallback):
    host = torch.nested.nested_tensor(parts("cpu", requires_grad=False))
    moved = host.to(device)
    assert moved.device.type == device and moved.is_nested
    for expected, actual in zip(host.unbind(), moved.cpu().unbind(), strict=True):
        assert torch.equal(expected, actual)


def test_strided_from_padded(device, no_fallback):
    host = torch.nested.nested_tensor(parts("cpu", requires_grad=False))
    padded = torch.nested.to_padded_tensor(host, 0.0)
    actual = torch._nested_from_padded_and_nested_example(padded.to(device), host.to(device))
    for expected, part in zip(host.unbind(), actual.unbind(), strict=True):
        assert torch.equal(expected, part.cpu())


def test_strided_that_the_cpu_refuses(device):
    for program in (lambda n: n.exp(), lambda n: n.sum(), lambda n: F.layer_norm(n, (4,))):
        with pytest.raises((NotImplementedError, RuntimeError)):
            program(torch.nested.nested_tensor(parts(device, requires_grad=False)))


def test_strided_without_a_kernel_runs_on_the_cpu(device):
    before = torch.ocl.fallbacks()
    check(lambda p: torch.nested.as_nested_tensor(p).sum(-1, keepdim=True), device)
    new = {name for name, count in torch.ocl.fallbacks().items() if count != before.get(name, 0)}
    assert new == {"aten::sum.dim_IntList"} | {name for name in new if name.endswith("_sum_backward")}


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_without_check_of_masks(norm_first, device, no_fallback):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first, mask_check=False).eval()
    x = torch.randn(3, 5, 8)
    hidden = torch.arange(5) >= torch.tensor([[3], [5], [1]])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=hidden)
        actual = model.to(device)(x.to(device), src_key_padding_mask=hidden.to(device))
    assert actual.device.type == "ocl"
    torch.testing.assert_close(actual.cpu()[~hidden], expected[~hidden], rtol=1e-5, atol=1e-5)


# ---- jagged layout
def jagged(inputs):
    return torch.nested.as_nested_tensor(inputs, layout=torch.jagged)


def heads(nested, count):
    return nested.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(inputs, is_causal=False, **options):
    """Self-attention of two heads. The reference is the attention of each sequence on its own."""
    x = jagged(inputs)
    x = F.linear(x, torch.linspace(-1, 1, 72, device=x.device).view(24, 3))
    options["is_causal"] = is_causal
    if x.device.type == "cpu":
        rows = [[heads(y, 2) for y in part.unsqueeze(0).chunk(3, -1)] for part in x.unbind()]
        return [F.scaled_dot_product_attention(*row, **options).transpose(1, 2).flatten(-2)[0] for row in rows]
    q, k, v = (heads(y, 2) for y in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(-2)


def pointwise(inputs):
    x = jagged(inputs)
    return torch.exp(x * 0.5).sigmoid() + x


JAGGED = {
    "construct": jagged,
    "pointwise": pointwise,
    "linear": lambda p: F.linear(jagged(p), torch.linspace(-1, 1, 12, device=p[0].device).view(4, 3)),
    "sum": lambda p: jagged(p).sum(),
    "softmax": lambda p: torch.softmax(jagged(p), -1),
    "softmax of sequences": lambda p: torch.softmax(jagged(p), 1),
    "layer norm": lambda p: F.layer_norm(jagged(p), (3,)),
    "padded": lambda p: torch.nested.to_padded_tensor(jagged(p), 0.5),
    "padded to a size": lambda p: jagged(p).to_padded_tensor(0.5, (3, 8, 3)),
    "unbind": lambda p: sum((i + 1) * part.sum() for i, part in enumerate(jagged(p).unbind())),
    "matmul": lambda p: torch.matmul(jagged(p), torch.linspace(-1, 1, 12, device=p[0].device).view(3, 4)),
    "attention": attention,
    "causal attention": lambda p: attention(p, is_causal=True),
    "scaled attention": lambda p: attention(p, scale=0.7),
}
# PyTorch has no derivatives of these, on no device.
JAGGED_FORWARD = {
    "sum of rows": lambda p: jagged(p).sum(-1),
    "sum of sequences": lambda p: jagged(p).sum(1),
    "mean of sequences": lambda p: jagged(p).mean(1),
}


@feature("Nested tensors")
@pytest.mark.parametrize("name", JAGGED)
def test_jagged(name, device, no_fallback):
    check(JAGGED[name], device)


@pytest.mark.parametrize("name", JAGGED_FORWARD)
def test_jagged_without_derivatives(name, device, no_fallback):
    check(JAGGED_FORWARD[name], device, gradients=False)


def test_jagged_attention_to_other_sequences(device, no_fallback):
    """Keys and values of other lengths than the queries; what one sequence's keys hold does not reach another's."""
    queries, keys = parts("cpu", [(2, 8), (5, 8)]), parts("cpu", [(7, 8), (1, 8)])
    for causal in (False, True):
        expected = [
            F.scaled_dot_product_attention(*(heads(x[None], 2) for x in (q, k, k)), is_causal=causal)[0]
            for q, k in zip(queries, keys, strict=True)
        ]
        q, k = (heads(jagged([x.detach().to(device) for x in side]), 2) for side in (queries, keys))
        actual = F.scaled_dot_product_attention(q, k, k, is_causal=causal)
        for one, other in zip(expected, actual.unbind(), strict=True):
            torch.testing.assert_close(other.cpu(), one, rtol=1e-5, atol=1e-5)


def test_jagged_attention_refuses_what_pytorch_refuses(device):
    x = heads(jagged(parts(device, [(2, 8), (5, 8)])), 2)
    with pytest.raises(ValueError, match="same dtype"):
        F.scaled_dot_product_attention(x, x.half(), x)
    with pytest.raises(ValueError, match="Masks"):
        F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(2, 2, 5, 5, device=device))


def test_jagged_of_empty_sequences(device, no_fallback):
    check(lambda p: torch.nested.to_padded_tensor(jagged(p), 2.0), device, sizes=[(0, 3), (4, 3), (0, 3)])


@feature("Nested tensors")
def test_jagged_training(device, no_fallback):
    """A transformer layer of one's own on sequences of different lengths, trained as on the CPU."""
    losses = {}
    for place in ("cpu", device):
        torch.manual_seed(3)
        embed, project, head = torch.nn.Embedding(20, 8), torch.nn.Linear(8, 24), torch.nn.Linear(8, 20)
        model = torch.nn.ModuleList([embed, project, head]).to(place)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        tokens = [torch.randint(20, (length,), generator=torch.Generator().manual_seed(length)) for length in (3, 9, 5)]
        batch = torch.nested.nested_tensor(tokens, layout=torch.jagged, device=place)
        losses[place] = []
        for _ in range(5):
            hidden = embed(batch)
            q, k, v = (heads(x, 2) for x in project(hidden).chunk(3, -1))
            # PyTorch's own way for the CPU takes no parts of a larger tensor.
            q, k, v = ((x + 0.0) if place == "cpu" else x for x in (q, k, v))
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
            loss = F.cross_entropy(head(hidden + mixed).values(), batch.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[place].append(loss.item())
    torch.testing.assert_close(losses[device], losses["cpu"], rtol=1e-4, atol=1e-5)


# ---- never the end of the process
ENDINGS = {
    "strided with a gradient": "torch.nested.as_nested_tensor([torch.ones(2, 3, device='ocl', requires_grad=True)])",
    "strided, to the device": "torch.nested.nested_tensor([torch.ones(2, 3)], requires_grad=True).to('ocl')",
    "strided sum": "torch.nested.nested_tensor([torch.ones(2, 3, device='ocl')], requires_grad=True).sum(-1, "
    "keepdim=True)",
    "strided layer_norm": "F.layer_norm(torch.nested.nested_tensor([torch.ones(2, 3, device='ocl')], "
    "requires_grad=True), (3,), "
    "torch.ones(3, device='ocl', requires_grad=True), torch.ones(3, device='ocl'))",
    "attention of jagged": "q = torch.nested.nested_tensor([torch.ones(2, 2, 8), torch.ones(3, 2, 8)], device='ocl', "
    "layout=torch.jagged, "
    "requires_grad=True).transpose(1, 2); F.scaled_dot_product_attention(q, q, q).values().sum().backward()",
    "causal attention of jagged": "q = torch.nested.nested_tensor([torch.ones(2, 2, 8), torch.ones(3, 2, 8)], "
    "device='ocl', layout=torch.jagged, "
    "requires_grad=True).transpose(1, 2); F.scaled_dot_product_attention(q, q, q, "
    "is_causal=True).values().sum().backward()",
    "sparse": "torch.eye(3, device='ocl', requires_grad=True).to_sparse()",
    "sparse, to the device": "torch.eye(3).to_sparse().requires_grad_().to('ocl')",
    "sparse csr": "torch.eye(3, device='ocl', requires_grad=True).to_sparse_csr()",
    "sparse constructor": "torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.long, device='ocl'), torch.ones(1, "
    "device='ocl'), (3,), requires_grad=True)",
    "sparse gradient": "torch.nn.Embedding(4, 3, sparse=True, device='ocl')(torch.tensor([1], "
    "device='ocl')).sum().backward()",
    "sparse gather": "x = torch.ones(3, 3, device='ocl', requires_grad=True); x.gather(1, torch.zeros(3, 1, "
    "dtype=torch.long, device='ocl'), "
    "sparse_grad=True).sum().backward()",
    "quantized": "torch.quantize_per_tensor(torch.ones(3, device='ocl', requires_grad=True), 0.1, 0, torch.qint8)",
    "quantized, to the device": "torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).to('ocl')",
    "mkldnn": "torch.ones(3, 3, device='ocl', requires_grad=True).to_mkldnn()",
    "fake quantized": "torch.fake_quantize_per_tensor_affine(torch.ones(3, device='ocl', requires_grad=True), 0.1, 0, "
    "0, 255).sum().backward()",
    "vmap of nested": "torch.vmap(lambda x: x + 1)(torch.nested.nested_tensor([torch.ones(2, device='ocl')], "
    "requires_grad=True))",
    "transformer without a mask check": "m = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, "
    "batch_first=True), 1, mask_check=False)"
    ".to('ocl').eval()\nwith torch.no_grad(): m(torch.ones(2, 4, 8, device='ocl'), "
    "src_key_padding_mask=torch.zeros(2, 4, device='ocl').bool())",
}


@feature("Nested tensors")
@pytest.mark.parametrize("name", ENDINGS)
def test_unusual_layouts_never_end_the_process(name):
    code = (
        "import torch, torch_ocl, warnings; import torch.nn.functional as F; warnings.simplefilter('ignore')\n"
        f"try: exec({ENDINGS[name]!r})\n"
        "except (RuntimeError, NotImplementedError) as error: print(type(error).__name__, str(error)[:200])\n"
        "print('still here')"
    )
    environment = os.environ | {"PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and done.stdout.endswith("still here\n"), done.stdout + done.stderr
