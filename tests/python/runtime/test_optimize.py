"""torch_ocl.optimize: the same outputs, fewer operators, the given model untouched."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_ocl
from benchmarks.models import IMAGE_NETWORKS


def trained(network, images):
    """Batch norms with statistics and parameters that are not the initial ones."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        network.train()(images)
    return network.eval()


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "vgg16"])
def test_networks_keep_their_outputs(name, device, no_fallback):
    case = IMAGE_NETWORKS[name]
    images = case.batch(4, case.small, seed=1)[0]
    model = trained(case.build(), images)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    faster = torch_ocl.optimize(model.to(device))
    assert not any(isinstance(module, (nn.modules.batchnorm._BatchNorm, nn.Dropout)) for module in faster.modules())
    with torch.no_grad():
        expected, actual = model(images.to(device)), faster(images.to(device))
    assert actual.device.type == device
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3 * expected.abs().max().item())
    for key, value in model.state_dict().items():
        assert torch.equal(value.cpu(), before[key]), key


class Branching(nn.Module):
    """Not traceable as a whole: the number of layers depends on the data."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.shared = nn.BatchNorm2d(8)

    def forward(self, x):
        x = self.stem(x)
        if x.sum() > 0:
            x = self.shared(x) + F.relu(self.shared(x))
        return x


def test_parts_of_untraceable_models(device):
    images = torch.randn(2, 3, 9, 9)
    model = trained(Branching(), images).to(device)
    faster = torch_ocl.optimize(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in faster.stem.modules()) and isinstance(
        faster.shared, nn.BatchNorm2d
    )
    torch.testing.assert_close(faster(images.to(device)), model(images.to(device)), rtol=1e-4, atol=1e-4)


class Shares(nn.Module):
    """The input of the ReLU is read again, the convolution is called twice, and a hook watches a block."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.other = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        a = self.other(x)
        b = F.relu(a) + a
        return self.norm(self.conv(b)) + self.conv(x)


def test_shared_layers_and_values_stay(device):
    images = torch.randn(2, 3, 9, 9)
    model = trained(Shares(), images).to(device)
    torch.testing.assert_close(
        torch_ocl.optimize(model)(images.to(device)), model(images.to(device)), rtol=1e-5, atol=1e-5
    )
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output))
    torch_ocl.optimize(model)(images.to(device))
    assert len(seen) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_add_relu(dtype, device, no_fallback):
    a, b = (
        torch.tensor([1.0, -2.0, float("nan"), float("inf")], dtype=dtype),
        torch.tensor([[-3.0], [0.5]], dtype=dtype),
    )
    expected = F.relu(a + 2 * b)
    actual = torch.ops.aten._add_relu(a.to(device), b.to(device), alpha=2)
    assert actual.device.type == device
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


# ---- parts of transformers, written here as libraries write them


class Norm(nn.Module):
    def __init__(self, width, plus_one=False):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) + 0.5)
        self.tiny = 1e-5
        self.plus_one = plus_one

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.tiny)
        return (self.scale + 1 if self.plus_one else self.scale) * wide.to(x.dtype)


class Gated(nn.Module):
    def __init__(self, width, inner, activation=F.silu, bias=False, swapped=False, joined=False):
        super().__init__()
        self.activation, self.swapped, self.joined = activation, swapped, joined
        if joined:
            self.both = nn.Linear(width, 2 * inner, bias)
        else:
            self.a, self.b = nn.Linear(width, inner, bias), nn.Linear(width, inner, bias)
        self.out = nn.Linear(inner, width, bias)

    def forward(self, x):
        a, b = self.both(x).chunk(2, -1) if self.joined else (self.a(x), self.b(x))
        return self.out(a * self.activation(b) if self.swapped else self.activation(a) * b)


class Attention(nn.Module):
    def __init__(self, width, heads, key_heads, bias=False):
        super().__init__()
        self.size = width // heads
        self.q_proj = nn.Linear(width, width, bias)
        self.k_proj = nn.Linear(width, key_heads * self.size, False)
        self.v_proj = nn.Linear(width, key_heads * self.size, bias)
        self.o_proj = nn.Linear(width, width, bias)

    def forward(self, x, context=None):
        context = x if context is None else context
        split = lambda t: t.view(*t.shape[:-1], -1, self.size).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(context)), split(self.v_proj(context))
        out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Norm(64), Norm(64)
        self.attention, self.mlp = Attention(64, 4, 2, bias=True), Gated(64, 96)

    def forward(self, x, context=None):
        x = x + self.attention(self.first(x), context)
        return x + self.mlp(self.second(x))


def parts_of(module, name):
    return [part for part in module.modules() if type(part).__name__ == name]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 7])
def test_layers_of_transformers(device, no_fallback, dtype, tokens):
    torch.manual_seed(0)
    model = nn.ModuleList([Layer(), Layer()]).eval()
    faster = torch_ocl.optimize(model)
    assert [len(parts_of(faster, name)) for name in ("RMSNorm", "GatedMLP", "_Merged")] == [4, 2, 2]
    x = torch.randn(1, tokens, 64)
    with torch.no_grad():
        expected = model[1](model[0](x))
        moved, y = faster.to(device, dtype), x.to(device, dtype)
        actual = moved[1](moved[0](y))
    steps = {torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
    assert actual.device.type == device and actual.dtype == dtype
    torch.testing.assert_close(actual.cpu().float(), expected, rtol=steps, atol=steps)


@pytest.mark.parametrize("activation", [F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh")])
@pytest.mark.parametrize(("swapped", "joined"), [(False, False), (True, False), (True, True)])
def test_gated_layers(device, no_fallback, activation, swapped, joined):
    model = nn.Sequential(Gated(64, 96, activation, bias=True, swapped=swapped, joined=joined)).eval()
    faster = torch_ocl.optimize(model)
    assert len(parts_of(faster, "GatedMLP")) == 1
    x = torch.randn(3, 64)
    with torch.no_grad():
        torch.testing.assert_close(faster.to(device)(x.to(device)).cpu(), model(x), rtol=1e-4, atol=1e-5)


def test_what_only_looks_alike_is_kept(device):
    model = nn.ModuleList([Norm(64, plus_one=True), Gated(64, 96, torch.tanh), Gated(64, 96, lambda x: F.silu(2 * x))])
    faster = torch_ocl.optimize(model)
    assert not parts_of(faster, "RMSNorm") and not parts_of(faster, "GatedMLP")
    x = torch.randn(2, 64)
    with torch.no_grad():
        for old, new in zip(model, faster, strict=True):
            torch.testing.assert_close(new.to(device)(x.to(device)).cpu(), old(x), rtol=1e-4, atol=1e-5)


def test_merged_layers_of_two_inputs(device, no_fallback):
    """Attention to another sequence: the merged product has nothing of use for keys and values."""
    torch.manual_seed(0)
    model = nn.ModuleList([Attention(64, 4, 2)]).eval()
    faster = torch_ocl.optimize(model).to(device)
    with torch.no_grad():
        for _ in range(6):
            x, context = torch.randn(1, 1, 64), torch.randn(1, 1, 64)
            actual = faster[0](x.to(device), context.to(device)).cpu()
            torch.testing.assert_close(actual, model[0](x, context), rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(faster[0](x.to(device)).cpu(), model[0](x), rtol=1e-4, atol=1e-5)
        only_queries = faster[0].q_proj
        for _ in range(5):
            x = torch.randn(1, 1, 64)
            torch.testing.assert_close(only_queries(x.to(device)).cpu(), model[0].q_proj(x), rtol=1e-4, atol=1e-5)


def test_optimized_models_can_be_quantised(device, no_fallback):
    model = nn.ModuleList([Layer()]).eval()
    faster = torch_ocl.quantize_(torch_ocl.optimize(model), "int8")
    assert len(parts_of(faster, "QuantizedLinear")) == 4  # query, key and value; out; gate and up; down
    for tokens in (1, 5):
        x = torch.randn(1, tokens, 64)
        with torch.no_grad():
            actual = faster.to(device)[0](x.to(device)).cpu()
            torch.testing.assert_close(actual, model[0](x), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("tokens", [1, 5])
def test_quantised_merged_layers_are_multiplied_once(device, no_fallback, tokens, monkeypatch):
    model = nn.ModuleList([Attention(64, 4, 2, bias=True)]).eval()
    faster = torch_ocl.quantize_(torch_ocl.optimize(model), "int8").to(device)
    products = []
    (layer,) = [part for name, part in faster.named_modules() if name.endswith("merged.linear")]
    monkeypatch.setattr(layer, "_product", lambda x, bias: products.append(x) or type(layer)._product(layer, x, bias))
    with torch.no_grad():
        x, context = torch.randn(1, tokens, 64), torch.randn(1, tokens, 64)
        actual = faster[0](x.to(device)).cpu()
        assert len(products) == 1
        monkeypatch.undo()
        torch.testing.assert_close(actual, model[0](x), rtol=0.05, atol=0.05)
        actual = faster[0](x.to(device), context.to(device)).cpu()  # keys and values: their own rows of the weight
        torch.testing.assert_close(actual, model[0](x, context), rtol=0.05, atol=0.05)


class Optional(nn.Module):
    """As BertModel: fx would take `embedded` as given."""

    def __init__(self):
        super().__init__()
        self.embedding, self.linear = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, ids=None, embedded=None):
        if embedded is None:
            embedded = self.embedding(ids)
        return self.linear(embedded)


def test_arguments_that_may_be_left_out(device):
    model = Optional().eval()
    with pytest.warns(
        UserWarning, match="nothing was rewritten: the argument ids of Optional's forward may be left out"
    ):
        kept = torch_ocl.optimize(model)
    ids = torch.arange(5)
    torch.testing.assert_close(kept.to(device)(ids.to(device)).cpu(), model(ids))
    torch.testing.assert_close(
        kept.to(device)(embedded=torch.ones(2, 8, device=device)).cpu(), model(None, torch.ones(2, 8))
    )


def rotate_half(x):
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-second, first), -1)


def apply_rotary(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def announced(function):
    @functools.wraps(function)
    def wrapper(*arguments, **named):
        return function(*arguments, **named)

    return wrapper


class Turning(nn.Module):
    @announced
    def forward(self, q, k, cos, sin, **ignored):
        return apply_rotary(q, k, cos, sin)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("b", "h", "g", "rows", "width"), [(1, 9, 3, 1, 64), (2, 4, 4, 5, 20), (2, 2, 1, 33, 128)])
def test_rotary_embedding(device, no_fallback, dtype, b, h, g, rows, width):
    q = torch.randn(b, rows, h, width, dtype=dtype).transpose(1, 2)
    k = torch.randn(b, rows, g, width, dtype=dtype).transpose(1, 2)
    cos, sin = (torch.randn(n, rows, width, dtype=dtype) for n in (b, 1))
    model = nn.ModuleList([Turning()])
    faster = torch_ocl.optimize(model)
    with torch.no_grad(), torch.profiler.profile() as profile:
        actual = faster[0](q.to(device), k.to(device), cos.to(device), sin.to(device))
    calls = [event.name for event in profile.events()]
    assert "ocl::rotary" in calls and "forward" not in model[0].__dict__
    expected = apply_rotary(*(t.double() for t in (q, k, cos, sin)))
    steps = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}[dtype]
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == dtype and a.device.type == device
        torch.testing.assert_close(a.cpu().double(), e, rtol=steps, atol=4 * steps)


def test_rotary_embedding_with_gradients(device):
    faster = torch_ocl.optimize(nn.ModuleList([Turning()]))
    q, k = torch.randn(1, 2, 3, 8, requires_grad=True), torch.randn(1, 1, 3, 8)
    cos, sin = torch.randn(1, 3, 8), torch.randn(1, 3, 8)
    apply_rotary(q, k, cos, sin)[0].square().sum().backward()
    moved = q.detach().to(device).requires_grad_()
    faster[0](moved, k.to(device), cos.to(device), sin.to(device))[0].square().sum().backward()
    torch.testing.assert_close(moved.grad.cpu(), q.grad, rtol=1e-4, atol=1e-5)
