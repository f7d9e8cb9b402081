"""A UNet that removes noise, and a DCGAN."""

import torch
from torch import nn
from torch.nn import functional as F

from .images import digits


class Double(nn.Sequential):
    """Two convolutions with group norm and SiLU."""

    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(),
        )  # fmt: skip


class UNet(nn.Module):
    """Three levels; down by average pooling, up once by bilinear interpolation and once by a transposed convolution."""

    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2, self.bottom = Double(1, width), Double(width, 2 * width), Double(2 * width, 4 * width)
        self.up2, self.up1 = Double(6 * width, 2 * width), Double(2 * width, width)
        self.grow = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.avg_pool2d(first, 2))
        bottom = self.bottom(F.avg_pool2d(second, 2))
        wide = F.interpolate(bottom, scale_factor=2, mode="bilinear", align_corners=False)
        x = self.up2(torch.cat([wide, second], dim=1))
        return self.out(self.up1(torch.cat([self.grow(x), first], dim=1)))


def noisy_digits(count, size, seed=0):
    """Digits with noise, and without."""
    clean = digits(count, size, seed)[0][:, :1].contiguous()
    noise = torch.randn(clean.shape, generator=torch.Generator().manual_seed(seed + 1))
    return clean + 0.5 * noise, clean


def denoising_loss(network, noisy, clean):
    return F.mse_loss(network(noisy), clean)


class Generator(nn.Module):
    """Noise (n, latent) to images (n, 1, 16, 16)."""

    def __init__(self, latent=32, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(latent, 4 * width, 4, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU(True),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, 1, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, noise):
        return self.layers(noise[:, :, None, None])


class Discriminator(nn.Module):
    """Images (n, 1, 16, 16) to one logit each."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False), nn.BatchNorm2d(2 * width), nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * width, 1, 4),
        )  # fmt: skip

    def forward(self, images):
        return self.layers(images).flatten()


class GAN:
    """Both networks with their optimizers; step() is one alternating update."""

    def __init__(self, device):
        self.generator, self.discriminator = Generator().to(device), Discriminator().to(device)
        self.device = device
        self.optimizers = [
            torch.optim.Adam(net.parameters(), 2e-4, betas=(0.5, 0.999)) for net in (self.generator, self.discriminator)
        ]

    def step(self, real, noise):
        """Returns (loss of the discriminator, loss of the generator)."""
        real, noise = real.to(self.device), noise.to(self.device)
        fake = self.generator(noise)
        ones, zeros = torch.ones(len(real), device=self.device), torch.zeros(len(real), device=self.device)
        judged = F.binary_cross_entropy_with_logits
        self.optimizers[1].zero_grad()
        loss_d = judged(self.discriminator(real), ones) + judged(self.discriminator(fake.detach()), zeros)
        loss_d.backward()
        self.optimizers[1].step()
        self.optimizers[0].zero_grad()
        loss_g = judged(self.discriminator(fake), ones)
        loss_g.backward()
        self.optimizers[0].step()
        return loss_d.item(), loss_g.item()


def gan_batch(count, seed=0):
    """Real images (count, 1, 16, 16) in [-1, 1] and noise (count, 32)."""
    real = digits(count, 16, seed)[0][:, :1].clamp(-1, 1).contiguous()
    return real, torch.randn(count, 32, generator=torch.Generator().manual_seed(seed + 1))
