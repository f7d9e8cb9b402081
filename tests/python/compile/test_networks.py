"""Networks compiled: training steps and inference as the same network does them without a compiler."""

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
    return getattr(images.import_torchvision().models, name)(num_classes=5, **options)


def pictures(size):
    return torch.randn(4, 3, size, size), torch.tensor([3, 1, 0, 4])


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


# name: network, loss, batch
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


def results(network, loss_of, batch):
    """What a training step has: the loss, gradients and buffers; then the loss in eval mode."""
    loss = loss_of(network, *batch)
    loss.backward()
    found = {f"gradient of {name}": p.grad for name, p in network.named_parameters() if p.grad is not None}
    found |= {name: buffer for name, buffer in network.named_buffers() if buffer.is_floating_point()}
    with torch.no_grad():
        found |= {"loss": loss, "loss in eval mode": loss_of(network.eval(), *batch)}
    return {name: value.detach().cpu().double() for name, value in found.items()}


def moved(network, batch, place, dtype):
    values = [value.to(place, dtype) if value.is_floating_point() else value.to(place) for value in batch]
    return copy.deepcopy(network).to(place, dtype), values


DAILY = ("resnet18", "vit", "gpt", "unet")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in DAILY else pytest.mark.full) for n in CASES])
def test_trains_as_without_a_compiler(device, name):
    """Every result is as near to a computation in float64 as the device's without a compiler, up to a factor."""
    make, loss_of, make_batch = CASES[name]
    torch.manual_seed(0)
    network, batch = make(), make_batch()
    expected, eager = (
        results(network, loss_of, values)
        for network, values in (
            moved(network, batch, "cpu", torch.float64), moved(network, batch, device, torch.float32),
        )
    )  # fmt: skip
    there, values = moved(network, batch, device, torch.float32)
    got = results(there, torch.compile(loss_of), values)
    assert got.keys() == expected.keys()
    largest = max(value.norm() for name, value in expected.items() if name.startswith("gradient"))
    for name, value in expected.items():
        bound = 6 * (eager[name] - value).norm() + 1e-4 * max(value.norm(), 1e-2 * largest)
        assert (got[name] - value).norm() <= bound, name
    assert not torch.ocl.fallbacks()
