"""Programs in the style of libraries that compute: vision, sound, graphs, statistics, scenes."""

import math

import torch
import torch.nn.functional as F

from .programs import program


def draw(*shape, scale=1.0):
    """The same numbers on every device: drawn on the CPU."""
    return torch.randn(shape) * scale


@program("kornia-like: warps with gradients, blur, colours, structural similarity")
def image_geometry(device):
    image = draw(2, 3, 12, 12).sigmoid().to(device)
    angle = torch.tensor([0.3, -0.5]).to(device).requires_grad_()
    rotation = torch.stack([angle.cos(), -angle.sin(), 0 * angle, angle.sin(), angle.cos(), 0 * angle], 1).view(2, 2, 3)
    warped = F.grid_sample(image, F.affine_grid(rotation, image.shape, align_corners=False), align_corners=False)
    x = torch.arange(5, device=device, dtype=torch.float32) - 2
    gauss = torch.softmax(-(x**2) / 2, 0)
    window = (gauss[:, None] * gauss).expand(3, 1, 5, 5)
    blur = lambda y: F.conv2d(F.pad(y, (2, 2, 2, 2), mode="reflect"), window, groups=3)
    m, n = blur(warped), blur(image)
    similarity = (2 * m * n + 1e-2) / (m * m + n * n + 1e-2)
    similarity.mean().backward()
    high, low = warped.max(1).values, warped.min(1).values
    hue = torch.where(high > low, (warped[:, 1] - warped[:, 2]) / (high - low).clamp_min(1e-3), 0.0) % 6
    corners = torch.tensor([[0.0, 0, 1], [1, 0, 1], [1, 1, 1]]).to(device)
    homography = torch.linalg.solve(corners, corners * 2 + 1)
    return [warped, similarity, angle.grad, hue.sin(), homography, torch.linalg.inv(corners)]


@program("torchaudio-like: spectrogram, mel filters, inverse, resampling, CTC", terms=4000)
def sound(device):
    wave = draw(2, 800).to(device)
    window = torch.hann_window(64, device=device)
    spectrum = torch.stft(wave, 64, 16, window=window, return_complex=True)
    edges = torch.linspace(0, 32, 12, device=device)
    bins = torch.arange(33, device=device)[:, None]
    rise, fall = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    mel = torch.minimum(rise, fall).clamp_min(0).T @ spectrum.abs() ** 2
    back = torch.istft(spectrum, 64, 16, window=window, length=800)
    half = F.conv1d(wave[:, None], torch.sinc(torch.arange(-8, 9, device=device) / 2).view(1, 1, -1), stride=2)
    scores = mel.clamp_min(1e-5).log10().permute(2, 0, 1).log_softmax(-1).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [4, 4, 5]]).to(device)
    lengths = torch.full((2,), scores.size(0), dtype=torch.long)
    loss = F.ctc_loss(scores, targets, lengths, torch.tensor([3, 2]))
    loss.backward()
    return [mel, back, half, loss, scores.grad]


@program("PyG-like: messages by index_add and scatter, attention per edge, sparse products")
def graph(device):
    source, target = torch.randint(0, 10, (2, 40)).to(device)
    x = draw(10, 6).to(device).requires_grad_()
    weight = draw(6, 6, scale=0.4).to(device).requires_grad_()
    summed = torch.zeros(10, 6, device=device).index_add(0, target, (x @ weight)[source])
    scores = (x[source] * x[target]).sum(-1)
    most = torch.full((10,), -math.inf, device=device).scatter_reduce(0, target, scores, "amax")
    raised = (scores - most.detach()[target]).exp()
    attention = raised / torch.zeros(10, device=device).index_add(0, target, raised)[target]
    pooled = torch.zeros(10, 6, device=device).scatter_add(
        0, target[:, None].expand(-1, 6), attention[:, None] * x[source]
    )
    adjacency = torch.sparse_coo_tensor(
        torch.stack([target, source]), torch.ones(40, device=device), (10, 10)
    ).coalesce()
    spread = torch.sparse.mm(adjacency, x)
    degree = torch.bincount(target, minlength=10)
    (summed.square().sum() + pooled.sum() + (spread * spread).sum()).backward()
    return [summed, attention, pooled, spread, degree, x.grad, weight.grad]


@program("gpytorch-like: a Gaussian process, its likelihood and gradients", terms=4000)
def gaussian_process(device):
    x, y = draw(20, 2).to(device), draw(20).to(device)
    length = torch.tensor(1.3).to(device).requires_grad_()
    kernel = (-0.5 * torch.cdist(x / length, x / length) ** 2).exp() + 0.5 * torch.eye(20, device=device)
    factor = torch.linalg.cholesky(kernel)
    alpha = torch.cholesky_solve(y[:, None], factor)
    loss = 0.5 * (y @ alpha[:, 0]) + factor.diagonal().log().sum()
    loss.backward()
    solved = torch.linalg.solve_triangular(factor.detach(), y[:, None], upper=False)
    return [alpha, loss, length.grad, solved]


@program("pyro-like: densities, divergences, entropy, a step of variational inference")
def distributions(device):
    from torch import distributions as D

    mean, spread = draw(5).to(device).requires_grad_(), draw(5).to(device).requires_grad_()
    normal = D.Normal(mean, F.softplus(spread))
    value = mean.detach() + 0.3
    divergence = D.kl_divergence(normal, D.Normal(torch.zeros(5, device=device), torch.ones(5, device=device)))
    loss = divergence.sum() - normal.log_prob(value).sum()
    loss.backward()
    many = D.MultivariateNormal(mean.detach(), torch.eye(5, device=device) * 2)
    named = D.Categorical(logits=mean.detach())
    others = [
        D.Gamma(value.abs() + 1, value.abs() + 1),
        D.Beta(value.abs() + 1, value.abs() + 2),
        D.StudentT(value.abs() + 2),
    ]
    probabilities = [d.log_prob(torch.full((5,), 0.4, device=device)) for d in others]
    return [loss, mean.grad, spread.grad, many.log_prob(value), named.entropy(), *probabilities]


@program("nerf-like: rays, sampling of a density, volume rendering", terms=3000)
def radiance_field(device):
    directions = F.normalize(draw(16, 3), dim=-1).to(device)
    depth = torch.linspace(0.5, 2.0, 24, device=device)
    points = directions[:, None] * depth[:, None]
    octaves = 2.0 ** torch.arange(4, device=device)
    encoded = torch.cat([f(points[..., None] * octaves).flatten(-2) for f in (torch.sin, torch.cos)], -1)
    weight = draw(24, 4, scale=0.3).to(device).requires_grad_()
    raw = encoded @ weight
    alpha = 1 - torch.exp(-F.relu(raw[..., 3]) * 0.1)
    passed = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    weights = alpha * passed
    colour = (weights[..., None] * raw[..., :3].sigmoid()).sum(1)
    colour.square().mean().backward()
    total = torch.cumsum(weights.detach() + 1e-2, 1)
    total = total / total[:, -1:]
    places = torch.searchsorted(total.contiguous(), torch.full((16, 3), 0.5, device=device))
    return [colour, weights, weight.grad, torch.gather(depth.expand(16, -1), 1, places.clamp_max(23))]


@program("ultralytics-like: anchors, overlaps, assignment, complete IoU, suppression")
def detection(device):
    boxes = (torch.rand(2, 30, 4) * 8).to(device)
    boxes = torch.cat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:] + 0.5], -1).requires_grad_()
    truth = torch.tensor([[[1.0, 1, 5, 5], [2, 3, 9, 9]], [[0, 0, 3, 3], [4, 4, 8, 10]]]).to(device)
    corner = torch.maximum(boxes[:, :, None, :2], truth[:, None, :, :2])
    far = torch.minimum(boxes[:, :, None, 2:], truth[:, None, :, 2:])
    area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    common = (far - corner).clamp_min(0).prod(-1)
    overlap = common / (area(boxes)[:, :, None] + area(truth)[:, None] - common)
    best, owner = overlap.max(-1)
    chosen = torch.zeros_like(best, dtype=torch.bool).scatter_(1, best.topk(5, 1).indices, True)
    (1 - best[chosen]).sum().backward()
    order = best.detach().argsort(1, descending=True)
    kept = torch.gather(overlap.detach(), 1, order[..., None].expand(-1, -1, 2)).triu(diagonal=1).amax(1) < 0.9
    return [overlap, owner, chosen.nonzero(), boxes.grad, kept]
