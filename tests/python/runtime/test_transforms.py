"""Everything that rewrites a computation: torch.func, forward AD, checkpoint, compile, autocast, and the transformer
fast path."""

import copy

import pytest
import torch
import torch.nn.functional as F

feature = pytest.mark.feature


@feature("Autograd")
def test_functional_transforms(device):
    from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap

    torch.manual_seed(0)
    x, w = torch.randn(3, 4), torch.randn(4, 4)

    def results(x, w):
        def f(v):
            return (w @ v).sin().sum()

        return [
            vmap(f)(x),
            vmap(grad(f))(x),
            jvp(f, (x[0],), (x[1],))[1],
            jacrev(torch.sin)(x[0]),
            jacfwd(torch.sin)(x[0]),
            hessian(f)(x[0]),
        ]

    for here, there in zip(results(x, w), results(x.to(device), w.to(device)), strict=True):
        assert there.device.type == "ocl"
        torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
    model = torch.nn.Linear(4, 2).to(device)
    many = {name: torch.stack([value, 2 * value]) for name, value in model.state_dict().items()}
    ensemble = vmap(lambda parameters, v: functional_call(model, parameters, v), (0, None))(many, x.to(device))
    torch.testing.assert_close(ensemble[1], 2 * ensemble[0])
    noise = vmap(lambda v: v + torch.rand(4, device=device), randomness="different")(torch.zeros(3, 4, device=device))
    assert not torch.equal(noise[0], noise[1])


@feature("Autograd")
def test_forward_mode(device):
    import torch.autograd.forward_ad as forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.full((3,), 0.5, device=device), torch.ones(3, device=device))
        tangent = forward_ad.unpack_dual(torch.tanh(dual) * dual).tangent
    expected = torch.tanh(torch.tensor(0.5)) + 0.5 * (1 - torch.tanh(torch.tensor(0.5)) ** 2)
    torch.testing.assert_close(tangent.cpu(), expected.expand(3))


@feature("Autograd")
@pytest.mark.skipif("not torch.ocl.get_device_properties().fp64")
def test_gradcheck(device):
    x = torch.randn(4, dtype=torch.double, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: (v.sin() * v).sum(), x) and torch.autograd.gradgradcheck(torch.tanh, x)


@feature("Autograd")
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_restores_random_state(device, reentrant):
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1)).to(device)
    x = torch.rand(8, 32, device=device)

    def gradient(checkpointed):
        torch.manual_seed(4)
        v = x.clone().requires_grad_()
        out = torch.utils.checkpoint.checkpoint(model, v, use_reentrant=reentrant) if checkpointed else model(v)
        torch.rand(5, device=device)  # moves the generator before the recomputation
        out.sum().backward()
        return v.grad

    assert torch.equal(gradient(True), gradient(False))


@feature("Autograd")
def test_saved_tensors_on_the_host(device):
    x = torch.arange(4.0, device=device, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


@feature("Custom operators")
def test_operators_defined_in_python(device):
    @torch.library.custom_op("torch_ocl_test::twice", mutates_args=(), device_types="ocl")
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    twice.register_autograd(lambda context, g: g * 2)
    x = torch.ones(3, device=device, requires_grad=True)
    torch.ops.torch_ocl_test.twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    torch.library.opcheck(twice, (torch.ones(3, device=device),), test_utils=("test_schema", "test_faketensor"))


@feature("torch.compile")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(device, backend):
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    compiled, x = torch.compile(model, backend=backend, fullgraph=True), torch.rand(4, 8, device=device)
    assert torch.equal(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model[0].weight.grad.isfinite().all()

    def with_index(v):
        with torch.accelerator.device_index(v.device.index):
            return torch.sin(v + 1)

    assert torch.equal(torch.compile(with_index, backend=backend, fullgraph=True)(x), with_index(x))


@feature("Several devices")
def test_data_parallel(device):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).to(device)
    parallel, x = torch.nn.DataParallel(model, device_ids=[0]), torch.rand(6, 4)
    out = parallel(x)
    assert out.device.type == "ocl" and torch.equal(out, model(x.to(device)))
    out.sum().backward()
    assert model[0].weight.grad.isfinite().all()
    chunks = torch.nn.parallel.comm.scatter(x.to(device), [0, 0])
    assert [chunk.shape[0] for chunk in chunks] == [3, 3] and torch.equal(
        torch.nn.parallel.comm.gather(chunks, destination="cpu"), x
    )


@feature("Inductor")
def test_the_default_compiler_is_there(device):
    torch._dynamo.reset()
    x = torch.ones(2, device=device)
    assert torch.equal(torch.compile(lambda x: x * 2 + 1, fullgraph=True)(x), x * 2 + 1)
    torch._dynamo.reset()


@feature("Autocast")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_casts_as_on_cuda(device, dtype):
    x = torch.rand(4, 4, device=device)
    half = x.to(dtype)
    with torch.autocast(device, dtype):
        low = [x @ x, F.linear(x, x), torch.nn.GRUCell(4, 4).to(device)(x), F.conv2d(x[None, None], x[None, None])]
        high = [
            half.exp(),
            half.sum(),
            half.softmax(-1),
            half.pow(2),
            F.layer_norm(half, (4,)),
            F.mse_loss(half, half),
            half.cumsum(0),
            half.norm(),
        ]
        promoted = torch.cat([x, half])
        with torch.autocast(device, enabled=False):
            assert (x @ x).dtype == torch.float32
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            F.binary_cross_entropy(x, x)
    assert (
        {t.dtype for t in low} == {dtype}
        and {t.dtype for t in high} == {torch.float32}
        and promoted.dtype == torch.float32
    )
    with torch.autocast(device):
        assert (x @ x).dtype == torch.float16 == torch.get_autocast_dtype("ocl")
    with (
        pytest.warns(UserWarning, match="only supports dtypes of torch.float16, torch.bfloat16"),
        torch.autocast(device, torch.float64),
    ):
        pass


@feature("Autocast")
def test_autocast_in_custom_functions(device):
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.ocl.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(context, x):
            context.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.ocl.amp.custom_bwd
        def backward(context, g):
            return 2 * g * context.saved_tensors[0]

    x = torch.ones(2, device=device, requires_grad=True)
    with torch.autocast(device):
        y = Square.apply(x.half())
    y.sum().backward()
    assert y.dtype == torch.float32 and x.grad.tolist() == [2, 2]


@feature("GradScaler")
def test_grad_scaler_skips_steps_with_infinities_and_grows(device, no_fallback):
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    before = model.weight.detach().clone()
    for value, moved, scale in ((float("inf"), False, 512), (1.0, True, 512), (1.0, True, 1024)):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = model(torch.full((2, 4), value, device=device)).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(model.weight, before) is not moved and scaler.get_scale() == scale
        before = model.weight.detach().clone()
    other = torch.amp.GradScaler(device)
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024


@feature("Autograd")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_transformer_encoder_fast_path(device, no_fallback, norm_first, padded):
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first, activation="gelu")
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    twin = copy.deepcopy(model).to(device)
    x = torch.randn(2, 5, 16)
    mask = torch.tensor([[False] * 3 + [True] * 2, [False] * 5]) if padded else None
    seen = torch.ones(2, 5, dtype=torch.bool) if mask is None else ~mask
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            here = model(x, src_key_padding_mask=mask)
            there = twin(x.to(device), src_key_padding_mask=None if mask is None else mask.to(device))
        torch.testing.assert_close(there.cpu()[seen], here[seen], rtol=1e-4, atol=1e-5)


@feature("Autograd")
@pytest.mark.parametrize(("weights", "average"), [(False, True), (True, True), (True, False)])
def test_multihead_attention_fast_path(device, no_fallback, weights, average):
    model = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    twin = copy.deepcopy(model).to(device)
    x, mask = torch.randn(2, 5, 16), torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    with torch.no_grad():
        for m in (None, mask):
            here = model(x, x, x, attn_mask=m, need_weights=weights, average_attn_weights=average)
            y = x.to(device)
            there = twin(
                y,
                y,
                y,
                attn_mask=None if m is None else m.to(device),
                need_weights=weights,
                average_attn_weights=average,
            )
            torch.testing.assert_close(there[0].cpu(), here[0], rtol=1e-4, atol=1e-5)
            assert (there[1] is None) == (here[1] is None)
            if weights:
                torch.testing.assert_close(there[1].cpu(), here[1], rtol=1e-4, atol=1e-5)
