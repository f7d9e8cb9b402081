"""Networks that PyTorch exports to ONNX come back as modules that compute, train, move, export and optimise."""

import copy
import io

import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_ocl
import torch_ocl.onnx

DYNAMIC = torch.export.Dim.DYNAMIC


class Residual(nn.Module):
    """Convolutions with batch norms and a residual sum, as ResNet has them."""

    def __init__(self):
        super().__init__()
        self.stem, self.first = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.conv, self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 5)
        for norm in (self.first, self.second):
            for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                nn.init.uniform_(tensor, 0.5, 2)  # the exporter joins tensors that are equal

    def forward(self, x):
        x = F.relu(self.first(self.stem(x)))
        x = F.max_pool2d(x, 3, 2, 1)
        x = F.relu(self.second(self.conv(x)) + x)
        return self.fc(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)
        self.gru, self.fc = nn.GRU(16, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.gru(self.lstm(x)[0])[0][:, -1])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(24, 2, 1)

    def forward(self, x):
        down = F.relu(self.down(x))
        middle = F.silu(self.middle(F.max_pool2d(down, 2)))
        resized = F.interpolate(middle[:, :8], scale_factor=2, mode="bilinear")
        return self.out(torch.cat([self.up(middle), resized, down], 1))


class Decoder(nn.Module):
    """A layer of a language model: grouped heads, rotary positions, a cache that grows."""

    def __init__(self, width=16, heads=4, groups=2):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.embed, self.norm = nn.Embedding(30, width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, n * self.size, bias=False) for n in (heads, groups, groups))
        self.o, self.head = nn.Linear(width, width), nn.Linear(width, 30)

    def turned(self, x, places):
        angles = places[:, None].float() / 100 ** (torch.arange(0, self.size, 2, device=x.device).float() / self.size)
        angles = torch.cat([angles, angles], -1)
        half = self.size // 2
        return x * angles.cos() + torch.cat([-x[..., half:], x[..., :half]], -1) * angles.sin()

    def forward(self, ids, keys, values):
        batch, count = ids.shape
        past = keys.shape[2]
        places = torch.arange(past, past + count, device=ids.device)
        x = self.embed(ids)
        y = self.norm(x)
        parts = [f(y).view(batch, count, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v)]
        keys = torch.cat([keys, self.turned(parts[1], places)], 2)
        values = torch.cat([values, parts[2]], 2)
        repeats = self.heads // self.groups
        mask = torch.arange(past + count, device=ids.device)[None] <= places[:, None]
        y = F.scaled_dot_product_attention(
            self.turned(parts[0], places),
            keys.repeat_interleave(repeats, 1),
            values.repeat_interleave(repeats, 1),
            mask,
        )
        return self.head(x + self.o(y.transpose(1, 2).reshape(batch, count, -1))), keys, values


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


# name: network, inputs, dynamic axes of each input
NETWORKS = {
    "residual": (Residual, [(2, 3, 32, 32)], [(0, 2, 3)]),
    "recurrent": (Recurrent, [(2, 5, 6)], None),
    "unet": (UNet, [(2, 3, 16, 16)], [(0, 2, 3)]),
    "encoder": (encoder, [(2, 7, 16)], [(0,)]),
    "decoder": (Decoder, [(2, 3), (2, 2, 4, 4), (2, 2, 4, 4)], [(0, 1), (0, 2), (0, 2)]),
}


def exported(name, new=False):
    """The network, its inputs, its dynamic axes, and the bytes of the model."""
    torch.manual_seed(0)
    make, shapes, axes = NETWORKS[name]
    network = make().eval()
    inputs = [torch.randint(0, 30, s) if name == "decoder" and len(s) == 2 else torch.randn(s) for s in shapes]
    names = [f"x{i}" for i in range(len(inputs))]
    options = {}
    if axes is not None and new:
        options["dynamic_shapes"] = [dict.fromkeys(places, DYNAMIC) for places in axes]
    elif axes is not None:
        options["dynamic_axes"] = {n: {axis: f"{n}_{axis}" for axis in places} for n, places in zip(names, axes)}
    file = io.BytesIO()
    if new:
        pytest.importorskip("onnxscript")
        program = torch.onnx.export(network, tuple(inputs), dynamo=True, input_names=names, verbose=False, **options)
        return network, inputs, axes, program.model_proto.SerializeToString()
    torch.onnx.export(network, tuple(inputs), file, dynamo=False, input_names=names, opset_version=17, **options)
    return network, inputs, axes, file.getvalue()


def outputs(value):
    return value if isinstance(value, tuple) else (value,)


def largest_difference(actual, expected):
    pairs = list(zip(outputs(actual), outputs(expected), strict=True))
    assert all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)
    return max((a.detach().cpu() - b.detach()).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.filterwarnings("ignore")
def test_imported_networks_compute_the_same(name, device, no_fallback):
    network, inputs, _, model = exported(name)
    module = torch_ocl.onnx.load(model, device)
    assert {parameter.device.type for parameter in module.parameters()} == {"ocl"}
    assert module.meta["onnx"]["waits"] == 0
    with torch.no_grad():
        assert largest_difference(module(*(x.to(device) for x in inputs)), network(*inputs)) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "decoder"])
@pytest.mark.filterwarnings("ignore")
def test_the_newer_exporter(name, device, no_fallback):
    network, inputs, _, model = exported(name, new=True)
    module = torch_ocl.onnx.load(model, device)
    assert module.meta["onnx"]["waits"] == 0
    with torch.no_grad():
        assert largest_difference(module(*(x.to(device) for x in inputs)), network(*inputs)) < 1e-5


@pytest.mark.parametrize("name", ["residual", "unet", "encoder", "decoder"])
@pytest.mark.filterwarnings("ignore")
def test_export_with_dynamic_sizes(name):
    network, inputs, axes, model = exported(name)
    module = torch_ocl.onnx.load(model)
    shapes = [dict.fromkeys(places, DYNAMIC) for places in axes]
    program = torch.export.export(module, tuple(inputs), dynamic_shapes=dict(zip(names_of(module), shapes)))
    larger = [torch.cat([x, x, x]) for x in inputs]
    with torch.no_grad():
        assert largest_difference(program.module()(*larger), network(*larger)) < 1e-5


def names_of(module):
    return [name for name, _ in module.meta["onnx"]["inputs"]]


@pytest.mark.filterwarnings("ignore")
def test_a_training_step_equals_the_original(device, no_fallback):
    torch.manual_seed(0)
    network = Residual()
    file = io.BytesIO()
    inputs, labels = torch.randn(4, 3, 32, 32), torch.tensor([0, 3, 1, 4])
    options = dict(training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, dynamo=False, opset_version=13)
    network.eval()
    torch.onnx.export(network, (inputs,), file, **options)
    module = torch_ocl.onnx.load(file.getvalue(), device)
    assert set(module.state_dict()) == set(network.state_dict())
    for net, place in ((network.train(), "cpu"), (module.train(), device)):
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            F.cross_entropy(net(inputs.to(place)), labels.to(place)).backward()
            optimizer.step()
    for name, value in network.state_dict().items():
        assert torch.allclose(module.state_dict()[name].cpu().float(), value.float(), 1e-4, 1e-5), name


@pytest.mark.filterwarnings("ignore")
def test_optimize_folds_and_fuses_imported_networks(device, no_fallback):
    torch.manual_seed(0)
    network, file = Residual().eval(), io.BytesIO()
    inputs = torch.randn(2, 3, 32, 32)
    options = dict(training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, dynamo=False, opset_version=13)
    torch.onnx.export(network, (inputs,), file, **options)
    module = torch_ocl.onnx.load(file.getvalue(), device)
    quick = torch_ocl.optimize(module)
    assert any(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in quick.modules())
    assert any(type(part).__name__ == "AddReLU" for part in quick.modules())
    with torch.no_grad():
        assert largest_difference(quick(inputs.to(device)), network(inputs)) < 1e-5


class Perceptron(nn.Module):
    """Layers on three dimensions, which are exported as products and sums."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 12), nn.Linear(12, 12), nn.Linear(12, 4)

    def forward(self, x):
        return self.third(F.relu(self.second(F.gelu(self.first(x)))))


@pytest.mark.filterwarnings("ignore")
def test_optimize_joins_biases_and_activations_to_products(device, no_fallback):
    from torch_ocl._products import biased_product

    torch.manual_seed(0)
    network, file, x = Perceptron().eval(), io.BytesIO(), torch.randn(2, 5, 8)
    torch.onnx.export(
        network, (x,), file, dynamo=False, opset_version=17, dynamic_axes={"x": {0: "n"}}, input_names=["x"]
    )
    quick = torch_ocl.optimize(torch_ocl.onnx.load(file.getvalue(), device))
    calls = [node for node in quick.graph.nodes if node.op == "call_function"]
    assert [(node.target, node.args[-1]) for node in calls] == [
        (biased_product, activation) for activation in ("gelu", "relu", "none")
    ]
    with torch.no_grad():
        assert largest_difference(quick(x.to(device)), network(x)) < 1e-5
    assert largest_difference(quick(x.to(device)), network(x)) < 1e-5  # with gradients: the operators themselves
    with torch.no_grad():
        assert largest_difference(quick.cpu()(x), network(x)) < 1e-5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["residual", "decoder", "recurrent"])
def test_copies_files_and_moves(name, device):
    network, inputs, _, model = exported(name)
    module = torch_ocl.onnx.load(model)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    with torch.no_grad():
        expected = network(*inputs)
        for other in (copy.deepcopy(module), torch.load(file, weights_only=False)):
            assert list(other.state_dict()) == list(module.state_dict())
            assert other.meta["onnx"]["inputs"] == module.meta["onnx"]["inputs"]
            assert largest_difference(other(*inputs), expected) < 1e-5
            moved = other.to(device)
            assert largest_difference(moved(*(x.to(device) for x in inputs)), expected) < 1e-5
            assert largest_difference(moved.cpu()(*inputs), expected) < 1e-5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compile_sees_one_graph():
    network, inputs, _, model = exported("decoder")
    compiled = torch.compile(torch_ocl.onnx.load(model), backend="eager", fullgraph=True, dynamic=True)
    with torch.no_grad():
        assert largest_difference(compiled(*inputs), network(*inputs)) < 1e-5


@pytest.mark.filterwarnings("ignore")
def test_the_command(tmp_path, capsys):
    from torch_ocl.__main__ import main

    _, inputs, _, model = exported("residual")
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    assert main(["onnx", str(path), "--size", "x0_2=32", "--size", "x0_3=32", "--benchmark", "--optimize"]) == 0
    shown = capsys.readouterr().out
    assert "Conv 2" in shown and "latency" in shown and f"{[1, 5]}" in shown
    assert main(["onnx", str(tmp_path / "absent.onnx")]) == 1
    assert onnx.load(path).graph.node and inputs
