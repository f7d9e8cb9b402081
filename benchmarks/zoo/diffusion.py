"""diffusers: noise-predicting networks with their sampling loops, and autoencoders."""

from functools import partial

import torch
from torch.nn import functional as F

from .model import Model, randint, randn


def diffusers(name, **options):
    import diffusers as library

    return getattr(library, name)(**options)


def unet():
    return diffusers("UNet2DModel", sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
                     block_out_channels=(16, 32), norm_num_groups=8,
                     down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
                     attention_head_dim=8)  # fmt: skip


def conditional_unet():
    return diffusers("UNet2DConditionModel", sample_size=8, in_channels=4, out_channels=4, layers_per_block=1,
                     block_out_channels=(16, 32), down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                     up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=24, attention_head_dim=4,
                     norm_num_groups=8)  # fmt: skip


def transformer():
    return diffusers("DiTTransformer2DModel", num_attention_heads=2, attention_head_dim=16, in_channels=4, num_layers=2,
                     sample_size=8, patch_size=2, num_embeds_ada_norm=10, norm_num_groups=8)  # fmt: skip


def stable_diffusion_3():
    return diffusers("SD3Transformer2DModel", sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2,
                     attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24, caption_projection_dim=32,
                     pooled_projection_dim=24)  # fmt: skip


def flux():
    return diffusers("FluxTransformer2DModel", patch_size=1, in_channels=4, num_layers=1, num_single_layers=1,
                     attention_head_dim=16, num_attention_heads=2, joint_attention_dim=24, pooled_projection_dim=24,
                     axes_dims_rope=(4, 4, 8))  # fmt: skip


def autoencoder():
    return diffusers("AutoencoderKL", in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
                     up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(16, 32), latent_channels=4,
                     norm_num_groups=8, sample_size=32)  # fmt: skip


def vector_quantizer():
    return diffusers("VQModel", in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
                     up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(16, 32), latent_channels=4,
                     num_vq_embeddings=16, norm_num_groups=8)  # fmt: skip


def noise_batch(channels, edge, **conditions):
    """(images, noise, time steps, what else the network is told)"""
    return (
        randn(2, channels, edge, edge, seed=1),
        randn(2, channels, edge, edge, seed=2),
        randint(1000, 2, seed=3),
        conditions,
    )


def noise_loss(network, images, noise, steps, conditions):
    scheduler = diffusers("DDPMScheduler")
    noisy = scheduler.add_noise(images, noise, steps)
    return F.mse_loss(network(noisy, timestep=steps, **conditions).sample[:, : noise.shape[1]], noise)


def sampled(
    network,
    images,
    noise,
    steps,
    conditions,
    names=("DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler"),
):
    """Four steps of deterministic samplers, starting from `noise`."""
    results = []
    for name in names:
        scheduler = diffusers(name)
        scheduler.set_timesteps(4, device=noise.device)
        picture = noise * scheduler.init_noise_sigma
        for time in scheduler.timesteps:
            predicted = network(
                scheduler.scale_model_input(picture, time).to(noise.dtype),
                timestep=time.expand(len(noise)),
                **conditions,
            ).sample
            picture = scheduler.step(predicted[:, : noise.shape[1]], time, picture).prev_sample.to(noise.dtype)
        results.append(picture)
    return results


def flow_loss(network, images, noise, steps, conditions):
    return F.mse_loss(network(hidden_states=noise, timestep=steps, **conditions).sample, images - noise)


def flow_sampled(network, images, noise, steps, conditions):
    scheduler = diffusers("FlowMatchEulerDiscreteScheduler")
    scheduler.set_timesteps(4, device=noise.device)
    for time in scheduler.timesteps:
        velocity = network(hidden_states=noise, timestep=time.expand(len(noise)).to(noise.dtype), **conditions).sample
        noise = scheduler.step(velocity, time, noise).prev_sample.to(velocity.dtype)
    return noise


def sd3_batch():
    return noise_batch(4, 8, encoder_hidden_states=randn(2, 5, 24, seed=4), pooled_projections=randn(2, 24, seed=5))


def flux_batch():
    places = torch.stack(
        torch.meshgrid(torch.zeros(1), torch.arange(4.0), torch.arange(4.0), indexing="ij"), dim=-1
    ).view(-1, 3)
    conditions = {
        "encoder_hidden_states": randn(2, 5, 24, seed=4),
        "pooled_projections": randn(2, 24, seed=5),
        "img_ids": places,
        "txt_ids": torch.zeros(5, 3),
    }
    return randn(2, 16, 4, seed=1), randn(2, 16, 4, seed=2), torch.tensor([0.3, 0.8]), conditions


def pictures():
    return (randn(2, 3, 32, 32, seed=1), randn(2, 4, 16, 16, seed=2))


def autoencoder_loss(network, images, noise):
    latent = network.encode(images).latent_dist
    decoded = network.decode(latent.mean + latent.std * noise).sample
    return F.mse_loss(decoded, images) + 1e-3 * latent.kl().mean()


def autoencoder_output(network, images, noise):
    return network.decode(network.encode(images).latent_dist.mode()).sample


def quantizer_loss(network, images, noise):
    found = network(images)
    return F.mse_loss(found.sample, images) + found.commit_loss.mean()


def quantizer_output(network, images, noise):
    return network(images).sample


def rows():
    yield Model("diffusers", "unet", unet, partial(noise_batch, 3, 16), noise_loss, sampled, True)
    yield Model(
        "diffusers",
        "conditional_unet",
        conditional_unet,
        partial(noise_batch, 4, 8, encoder_hidden_states=randn(2, 5, 24, seed=4)),
        noise_loss,
        sampled,
    )
    yield Model(
        "diffusers",
        "dit",
        transformer,
        partial(noise_batch, 4, 8, class_labels=torch.tensor([1, 7])),
        noise_loss,
        sampled,
    )
    yield Model("diffusers", "stable_diffusion_3", stable_diffusion_3, sd3_batch, flow_loss, flow_sampled)
    yield Model("diffusers", "flux", flux, flux_batch, flow_loss, flow_sampled)
    yield Model("diffusers", "autoencoder_kl", autoencoder, pictures, autoencoder_loss, autoencoder_output, True)
    yield Model("diffusers", "vq", vector_quantizer, pictures, quantizer_loss, quantizer_output)
