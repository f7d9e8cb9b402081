"""Small networks of the kinds that people export, in PyTorch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def conv(channels: int, out: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type | None = nn.ReLU):
    """Convolution, batch norm and activation."""
    parts = [nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]
    return nn.Sequential(*parts, *([act()] if act else []))


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels: int, out: int, stride: int):
        super().__init__()
        self.body = nn.Sequential(conv(channels, out, 3, stride), conv(out, out, act=None))
        self.short = conv(channels, out, 1, stride, act=None) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.short(x))


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [conv(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1)]
    for channels, out, stride in ((16, 16, 1), (16, 32, 2), (32, 64, 2), (64, 128, 2)):
        layers += [Block(channels, out, stride), Block(out, out, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Squeeze(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """The block of MobileNetV2, and with `squeeze` of EfficientNet."""

    def __init__(self, channels: int, out: int, stride: int, act: type, squeeze: bool = False):
        super().__init__()
        wide = 4 * channels
        parts = [conv(channels, wide, 1, act=act), conv(wide, wide, 3, stride, wide, act)]
        self.body = nn.Sequential(*parts, *([Squeeze(wide)] if squeeze else []), conv(wide, out, 1, act=None))
        self.adds = stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


def inverted_net(act: type, squeeze: bool) -> nn.Module:
    layers: list[nn.Module] = [conv(3, 8, 3, 2, act=act)]
    for channels, out, stride in ((8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2), (24, 24, 1)):
        layers.append(Inverted(channels, out, stride, act, squeeze))
    return nn.Sequential(*layers, conv(24, 64, 1, act=act), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def mobilenet_v2() -> nn.Module:
    return inverted_net(nn.ReLU6, False)


def efficientnet() -> nn.Module:
    return inverted_net(nn.SiLU, True)


class ConvNext(nn.Module):
    def __init__(self, width: int = 16):
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, width, 4, 4), nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)


class Yolo(nn.Module):
    """Boxes [N, boxes, 4] as corners and scores [N, classes, boxes]: what a suppression takes."""

    def __init__(self, classes: int = 3):
        super().__init__()
        self.classes = classes
        self.stem, self.low = (
            nn.Sequential(conv(3, 8, 3, 2, act=nn.SiLU), conv(8, 16, 3, 2, act=nn.SiLU)),
            conv(16, 16, 3, 2),
        )
        self.join, self.head = conv(64, 16, 1, act=nn.SiLU), nn.Conv2d(16, 4 + classes, 1)
        self.up = conv(32, 16, 1, act=nn.SiLU)

    def boxes(self, x: Tensor, step: int) -> tuple[Tensor, Tensor]:
        n, _, h, w = x.shape
        y = self.head(x).view(n, 4 + self.classes, h * w)
        rows, columns = torch.meshgrid(
            torch.arange(h, device=x.device), torch.arange(w, device=x.device), indexing="ij"
        )
        middle = torch.stack([columns, rows]).reshape(1, 2, h * w).float() + 0.5
        near, far = middle - 2 * torch.sigmoid(y[:, :2]), middle + 2 * torch.sigmoid(y[:, 2:4])
        return torch.cat([near, far], 1) * step, torch.sigmoid(y[:, 4:])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        high = self.stem(x)
        low = self.low(high)
        pools = [low]
        for _ in range(3):
            pools.append(F.max_pool2d(pools[-1], 5, 1, 2))
        low = self.join(torch.cat(pools, 1))
        high = self.up(torch.cat([high, F.interpolate(low, scale_factor=2, mode="nearest")], 1))
        boxes, scores = zip(self.boxes(high, 4), self.boxes(low, 8))
        return torch.cat(boxes, 2).transpose(1, 2), torch.cat(scores, 2)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = conv(3, 8), conv(8, 16), conv(24, 8)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = self.first(x)
        low = self.second(F.max_pool2d(top, 2))
        smooth = F.interpolate(low[:, :8], scale_factor=2, mode="bilinear")
        return self.out(self.last(torch.cat([top, self.up(low), smooth], 1)))


class Attention(nn.Module):
    """A transformer layer, written out as libraries of models do."""

    def __init__(self, width: int, heads: int, act: nn.Module):
        super().__init__()
        self.heads, self.act = heads, act
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(self.first(x)).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].transpose(-1, -2) * (width // self.heads) ** -0.5
        if mask is not None:
            scores = scores + mask
        y = (torch.softmax(scores, -1) @ parts[2]).transpose(1, 2).reshape(n, length, width)
        x = x + self.out(y)
        return x + self.down(self.act(self.up(self.second(x))))


class Bert(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(50, width), nn.Embedding(20, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList([Attention(width, 4, nn.GELU()) for _ in range(2)])
        self.pool = nn.Linear(width, width)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        x = self.norm(self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device)))
        hidden = (1 - mask[:, None, None].float()) * -1e4
        for layer in self.layers:
            x = layer(x, hidden)
        return torch.tanh(self.pool(x[:, 0]))


class Vit(nn.Module):
    def __init__(self, width: int = 32, patches: int = 16):
        super().__init__()
        self.cut, self.token = nn.Conv2d(3, width, 8, 8), nn.Parameter(torch.randn(1, 1, width))
        self.places, self.layer = nn.Parameter(torch.randn(1, patches + 1, width)), Attention(width, 4, nn.GELU())
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


class WhisperEncoder(nn.Module):
    def __init__(self, width: int = 32):
        super().__init__()
        self.first, self.second = nn.Conv1d(8, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        self.places, self.layer = nn.Parameter(torch.randn(1, 50, width)), Attention(width, 4, nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.second(F.gelu(self.first(x)))).transpose(1, 2)
        return self.layer(x + self.places[:, : x.shape[1]])


class Recurrent(nn.Module):
    """`kind`: of two layers in both directions, a linear layer behind them."""

    def __init__(self, kind: type, **options):
        super().__init__()
        self.net, self.fc = kind(6, 12, 2, bidirectional=True, batch_first=True, **options), nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.net(x)[0])


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Sequential(nn.Conv2d(1, 8, 5, padding=2), nn.PReLU(8)), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.clamp(F.pixel_shuffle(self.out(self.body(x)), 2), -1, 1)
