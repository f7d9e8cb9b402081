"""Networks compiled: training steps and inference as the same network does them on the CPU without a compiler."""

import copy

import pytest
import torch
import torch.nn.functional as F

from benchmarks.models import generative, images, sequence

pytestmark = pytest.mark.feature("Inductor")


def classes_loss(network, x, t):
    return F.cross_entropy(network(x), t)


def torchvision_network(name, **options):
    pytest.importorskip("torchvision")
    return getattr(images.import_torchvision().models, name)(weights=None, num_classes=5, **options)


def pictures(size):
    return torch.randn(2, 3, size, size), torch.tensor([3, 1])


def transformer_network(kind):
    transformers = pytest.importorskip("transformers")
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 60, "n_positions": 32}
    if kind == "gpt2":
        config = transformers.GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        return transformers.GPT2LMHeadModel(config)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "vocab_size": 60, "max_position_embeddings": 32}  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))


def tokens_loss(network, tokens, _):
    return network(input_ids=tokens, labels=tokens, use_cache=False).loss


def diffusers_network():
    diffusers = pytest.importorskip("diffusers")
    return diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8)  # fmt: skip


def diffusion_loss(network, noisy, t):
    return F.mse_loss(network(noisy, t * 10).sample, noisy * 0.5)


def small_gpt():
    return sequence.GPT(vocabulary=60, context=16, width=32, heads=2, layers=2, dropout=0)


def tokens():
    return torch.randint(60, (2, 12)), torch.randint(60, (2, 12))


# name: network, loss, batch, what inference of the network is
CASES = {
    "resnet18": (lambda: torchvision_network("resnet18"), classes_loss, lambda: pictures(40)),
    "mobilenet_v2": (lambda: torchvision_network("mobilenet_v2", dropout=0), classes_loss, lambda: pictures(40)),
    "vit": (lambda: torchvision_network(
        "VisionTransformer", image_size=16, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64),
        classes_loss, lambda: pictures(16)),
    "gpt": (small_gpt, sequence.language_loss, tokens),
    "unet": (lambda: generative.UNet(8), generative.denoising_loss,
             lambda: (torch.randn(2, 1, 16, 16), torch.randn(2, 1, 16, 16))),
    "gpt2": (lambda: transformer_network("gpt2"), tokens_loss, tokens),
    "llama": (lambda: transformer_network("llama"), tokens_loss, tokens),
    "diffusers_unet": (diffusers_network, diffusion_loss, lambda: (torch.randn(2, 3, 8, 8), torch.tensor([3, 1]))),
}  # fmt: skip


def results(network, loss_of, batch, compiled):
    """Losses of three steps of SGD, the gradients of the first one, then the loss without gradients in eval mode."""
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    step = torch.compile(loss_of) if compiled else loss_of
    losses, gradients = [], {}
    for i in range(3):
        optimizer.zero_grad()
        loss = step(network, *batch)
        loss.backward()
        if i == 0:
            gradients = {n: p.grad.detach().cpu() for n, p in network.named_parameters() if p.grad is not None}
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        losses.append(step(network.eval(), *batch).item())
    return losses, gradients


@pytest.mark.parametrize("name", CASES)
def test_trains_as_on_the_cpu(device, name):
    make, loss_of, make_batch = CASES[name]
    torch.manual_seed(0)
    network, batch = make(), make_batch()
    double = [value.double() if value.is_floating_point() else value for value in batch]
    losses, expected = results(copy.deepcopy(network).double(), loss_of, double, compiled=False)
    on_device = [value.to(device) for value in batch]
    got_losses, got = results(copy.deepcopy(network).to(device), loss_of, on_device, compiled=True)
    torch.testing.assert_close(got_losses, losses, rtol=1e-3, atol=1e-4)
    assert got.keys() == expected.keys()
    largest = max(gradient.norm() for gradient in expected.values())
    for parameter, gradient in expected.items():
        error = (got[parameter].double() - gradient).norm()
        assert error <= 2e-3 * gradient.norm() + 1e-4 * largest, parameter
    assert not torch.ocl.fallbacks()
