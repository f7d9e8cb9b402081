"""Models that need PyTorch only: a YOLO-style detector, speech recognition, an encoder-decoder transformer,
reinforcement learning."""

import torch
from torch import nn
from torch.nn import functional as F

from .model import Model, randint, randn


# ---- a one-stage detector without anchors, in the manner of YOLOv8
class ConvUnit(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=1, stride=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(outputs),
            nn.SiLU(inplace=True),
        )


class Bottlenecks(nn.Module):
    """Splits the channels, runs residual pairs on one half, and joins everything seen on the way (C2f)."""

    def __init__(self, inputs, outputs, count=1):
        super().__init__()
        half = outputs // 2
        self.split, self.join = ConvUnit(inputs, outputs), ConvUnit((2 + count) * half, outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(ConvUnit(half, half, 3), ConvUnit(half, half, 3)) for _ in range(count)
        )

    def forward(self, x):
        parts = list(self.split(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.join(torch.cat(parts, dim=1))


class PooledPyramid(nn.Module):
    """Three max poolings of one window after another, joined (SPPF)."""

    def __init__(self, channels):
        super().__init__()
        self.enter, self.leave = ConvUnit(channels, channels // 2), ConvUnit(2 * channels, channels)

    def forward(self, x):
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, dim=1))


class Detector(nn.Module):
    """Backbone, pyramid up and down, and per cell: class logits and a distribution over distances for each side of a
    box."""

    STRIDES, BINS = (8, 16), 8

    def __init__(self, classes=3, width=16):
        super().__init__()
        self.classes = classes
        self.stem = nn.Sequential(
            ConvUnit(3, width, 3, 2), ConvUnit(width, 2 * width, 3, 2), Bottlenecks(2 * width, 2 * width)
        )
        self.fine = nn.Sequential(ConvUnit(2 * width, 4 * width, 3, 2), Bottlenecks(4 * width, 4 * width))
        self.coarse = nn.Sequential(
            ConvUnit(4 * width, 8 * width, 3, 2), Bottlenecks(8 * width, 8 * width), PooledPyramid(8 * width)
        )
        self.up, self.shrink = Bottlenecks(12 * width, 4 * width), ConvUnit(4 * width, 4 * width, 3, 2)
        self.down = Bottlenecks(12 * width, 8 * width)
        self.heads = nn.ModuleList(
            nn.Sequential(ConvUnit(channels, 2 * width, 3), nn.Conv2d(2 * width, 4 * self.BINS + classes, 1))
            for channels in (4 * width, 8 * width)
        )

    def forward(self, images):
        """Boxes (batch, cells, 4) as corners in pixels, the distributions (batch, cells, 4, bins), logits (batch,
        cells, classes), cells (cells, 3)."""
        fine = self.fine(self.stem(images))
        coarse = self.coarse(fine)
        fine = self.up(torch.cat([F.interpolate(coarse, scale_factor=2, mode="nearest"), fine], dim=1))
        coarse = self.down(torch.cat([self.shrink(fine), coarse], dim=1))
        raw, cells = [], []
        for head, features, stride in zip(self.heads, (fine, coarse), self.STRIDES):
            raw.append(head(features).flatten(2))
            rows, columns = (
                torch.arange(size, device=images.device, dtype=images.dtype) + 0.5 for size in features.shape[2:]
            )
            y, x = torch.meshgrid(rows, columns, indexing="ij")
            cells.append(
                torch.stack([x.flatten() * stride, y.flatten() * stride, torch.full_like(x.flatten(), stride)], dim=1)
            )
        raw, cells = torch.cat(raw, dim=2).transpose(1, 2), torch.cat(cells)
        sides, logits = raw.split((4 * self.BINS, self.classes), dim=2)
        sides = sides.unflatten(2, (4, self.BINS))
        distance = sides.softmax(-1) @ torch.arange(self.BINS, device=raw.device, dtype=raw.dtype) * cells[:, 2:]
        boxes = torch.cat([cells[:, :2] - distance[..., :2], cells[:, :2] + distance[..., 2:]], dim=-1)
        return boxes, sides, logits, cells


def overlap(boxes, others):
    """Complete intersection over union of boxes (..., 4) of equal or broadcastable shapes."""
    low, high = torch.maximum(boxes[..., :2], others[..., :2]), torch.minimum(boxes[..., 2:], others[..., 2:])
    common = (high - low).clamp(min=0).prod(-1)
    size, other_size = boxes[..., 2:] - boxes[..., :2], others[..., 2:] - others[..., :2]
    union = size.prod(-1) + other_size.prod(-1) - common + 1e-7
    hull = (
        torch.maximum(boxes[..., 2:], others[..., 2:]) - torch.minimum(boxes[..., :2], others[..., :2])
    ).square().sum(-1) + 1e-7
    apart = ((boxes[..., :2] + boxes[..., 2:] - others[..., :2] - others[..., 2:]) / 2).square().sum(-1)
    shape = (
        torch.atan(size[..., 0] / (size[..., 1] + 1e-7)) - torch.atan(other_size[..., 0] / (other_size[..., 1] + 1e-7))
    ).square() * (4 / torch.pi**2)
    iou = common / union
    with torch.no_grad():
        weight = shape / (1 - iou + shape + 1e-7)
    return iou - apart / hull - weight * shape


def assign(boxes, logits, cells, truth, labels, best=4):
    """Cells for each true box by classification and overlap together; (chosen cells, box of each), a cell taken twice
    goes to the better overlap."""
    inside = ((cells[:, None, :2] > truth[:, :2]) & (cells[:, None, :2] < truth[:, 2:])).all(-1)
    iou = overlap(boxes[:, None], truth[None]).clamp(min=0)
    score = logits.sigmoid()[:, labels] * iou.pow(6) + inside * 1e-9
    score = score.masked_fill(~inside, 0)
    kept = torch.zeros_like(score).scatter_(0, score.topk(best, dim=0).indices, 1.0).bool() & inside
    owner = iou.masked_fill(~kept, -1).argmax(1)
    chosen = kept.any(1).nonzero().squeeze(1)
    return chosen, owner[chosen]


def detector_loss(network, images, targets):
    boxes, sides, logits, cells = network(images)
    total = 0
    for i, (truth, labels) in enumerate(targets):
        chosen, owner = assign(boxes[i].detach(), logits[i].detach(), cells, truth, labels)
        wanted = torch.zeros_like(logits[i])
        wanted[chosen, labels[owner]] = overlap(boxes[i, chosen], truth[owner]).detach().clamp(min=0).to(wanted.dtype)
        total = total + F.binary_cross_entropy_with_logits(logits[i], wanted, reduction="sum") / len(truth)
        total = total + 7.5 * (1 - overlap(boxes[i, chosen], truth[owner])).mean()
        centre, stride = cells[chosen, :2], cells[chosen, 2:]
        distance = torch.cat([centre - truth[owner, :2], truth[owner, 2:] - centre], dim=1) / stride
        distance = distance.clamp(0, Detector.BINS - 1.01)
        left = distance.long()
        part = sides[i, chosen].flatten(0, 1)
        share = left + 1 - distance
        spread = F.cross_entropy(part, left.flatten(), reduction="none") * share.flatten()
        spread = spread + F.cross_entropy(part, left.flatten() + 1, reduction="none") * (1 - share.flatten())
        total = total + 1.5 * spread.mean()
    return total / len(targets)


def found(network, images, targets):
    """What is left after non-maximum suppression."""
    import torchvision

    boxes, _, logits, _ = network(images)
    results = []
    for picture_boxes, picture_logits in zip(boxes, logits):
        score, label = picture_logits.sigmoid().max(1)
        kept = torchvision.ops.batched_nms(picture_boxes, score, label, 0.5)[:20]
        results += [picture_boxes[kept], score[kept], label[kept]]
    return results


def detector_batch(edge=64):
    corners = [torch.tensor([[4.0, 6.0], [30.0, 20.0]]), torch.tensor([[10.0, 12.0], [16.0, 34.0]])]
    sizes = [torch.tensor([[22.0, 26.0], [28.0, 30.0]]), torch.tensor([[20.0, 18.0], [40.0, 22.0]])]
    return randn(2, 3, edge, edge, seed=1), [
        (torch.cat([a, a + b], dim=1), torch.tensor([i, 2])) for i, (a, b) in enumerate(zip(corners, sizes))
    ]


# ---- speech: spectrogram, recurrent layers, CTC
class Recognizer(nn.Module):
    """Spectrogram of the sound, two bidirectional layers of `cell` on packed sequences, one log probability per letter
    and step."""

    def __init__(self, cell, letters=12, bins=33, hidden=32):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.layers = cell(bins, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * hidden, letters)

    def forward(self, sound, lengths):
        spectrum = torch.stft(sound, 64, hop_length=32, window=self.window, return_complex=True).abs().square()
        features = torch.log1p(spectrum).transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)
        return F.log_softmax(self.out(states), dim=-1)


def speech_batch():
    """Sounds, numbers of frames, letters, numbers of letters."""
    return randn(3, 1024, seed=1), torch.tensor([33, 25, 30]), randint(12, 3, 6, seed=2, low=1), torch.tensor([6, 4, 5])


def speech_loss(network, sound, frames, letters, lengths):
    return F.ctc_loss(network(sound, frames).transpose(0, 1), letters, frames, lengths)


def speech_output(network, sound, frames, letters, lengths):
    probabilities = network(sound, frames)
    return [probabilities, probabilities.argmax(-1)]


# ---- nn.Transformer
class Translator(nn.Module):
    def __init__(self, vocabulary=40, width=32):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width, padding_idx=0)
        self.body = nn.Transformer(width, 4, 2, 2, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, source, target):
        future = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device).isinf()
        hidden = self.body(self.words(source), self.words(target), tgt_mask=future, src_key_padding_mask=source == 0,
                           memory_key_padding_mask=source == 0, tgt_is_causal=True)  # fmt: skip
        return self.out(hidden)


def translation_batch():
    source = randint(40, 3, 10, seed=1, low=1)
    source[1, 6:] = 0
    return source, randint(40, 3, 8, seed=2, low=1)


def translation_loss(network, source, target):
    return F.cross_entropy(network(source, target[:, :-1]).flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)


def translate(network, source, target):
    words = target[:, :1]
    for _ in range(8):
        words = torch.cat([words, network(source, words)[:, -1].argmax(-1, keepdim=True)], dim=1)
    return words


# ---- reinforcement learning
class QNetwork(nn.Module):
    """Convolutions on four frames, values and advantages apart, and the target network inside."""

    def __init__(self, actions=4):
        super().__init__()

        def network():
            return nn.ModuleDict({
                "body": nn.Sequential(nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
                                      nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU()),
                "value": nn.Linear(64, 1), "advantage": nn.Linear(64, actions)})  # fmt: skip

        self.online, self.target = network(), network().requires_grad_(False)

    def forward(self, frames, part="online"):
        network = getattr(self, part)
        hidden = network["body"](frames)
        advantage = network["advantage"](hidden)
        return network["value"](hidden) + advantage - advantage.mean(1, keepdim=True)


def q_batch():
    return (
        randn(8, 4, 44, 44, seed=1),
        randint(4, 8, seed=2),
        randn(8, seed=3),
        randn(8, 4, 44, 44, seed=4),
        randint(2, 8, seed=5),
    )


def q_loss(network, frames, actions, rewards, following, done):
    """Double deep Q-learning with the Huber loss; the target network drifts after the online one."""
    with torch.no_grad():
        best = network(following).argmax(1, keepdim=True)
        wanted = rewards + 0.99 * network(following, "target").gather(1, best).squeeze(1) * (1 - done)
        for slow, fast in zip(network.target.parameters(), network.online.parameters()):
            slow.lerp_(fast, 0.01)
    return F.smooth_l1_loss(network(frames).gather(1, actions[:, None]).squeeze(1), wanted)


class ActorCritic(nn.Module):
    """Policies for discrete and continuous actions, and the value of a state."""

    def __init__(self, state=8, actions=4, controls=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(state, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.choice, self.mean, self.value = nn.Linear(64, actions), nn.Linear(64, controls), nn.Linear(64, 1)
        self.deviation = nn.Parameter(torch.zeros(controls) - 0.5)

    def forward(self, states):
        hidden = self.body(states)
        normal = torch.distributions.Independent(
            torch.distributions.Normal(self.mean(hidden), self.deviation.exp().expand_as(self.mean(hidden))), 1
        )
        return torch.distributions.Categorical(logits=self.choice(hidden)), normal, self.value(hidden).squeeze(-1)


def policy_batch(steps=16):
    return (
        randn(steps, 8, seed=1),
        randint(4, steps, seed=2),
        randn(steps, 2, seed=3),
        randn(steps, seed=4),
        (randint(5, steps, seed=5) > 0).float(),
    )


def policy_loss(network, states, actions, controls, rewards, alive):
    """Proximal policy optimization: generalized advantages backwards in time, clipped ratios, value and entropy
    terms."""
    discrete, continuous, values = network(states)
    before = (discrete.log_prob(actions) + continuous.log_prob(controls)).detach() + 0.05 * rewards
    advantages = torch.zeros_like(rewards)
    last = torch.zeros((), device=rewards.device, dtype=rewards.dtype)
    kept = values.detach()
    for i in reversed(range(len(rewards) - 1)):
        last = rewards[i] + 0.99 * kept[i + 1] * alive[i] - kept[i] + 0.99 * 0.95 * alive[i] * last
        advantages[i] = last
    returns = advantages + kept
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (discrete.log_prob(actions) + continuous.log_prob(controls) - before).exp()
    gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    # Drawing is part of the work; what is drawn differs between devices, so it enters with weight zero.
    drawn = discrete.sample().float().mean() + continuous.rsample().mean()
    return (
        F.mse_loss(values, returns) * 0.5
        - gain
        - 0.01 * (discrete.entropy().mean() + continuous.entropy().mean())
        + 0 * drawn.to(values.dtype)
    )


def first(network, inputs, *rest):
    return network(inputs)


def policy_output(network, states, *rest):
    discrete, continuous, values = network(states)
    return [discrete.probs, continuous.mean, values]


def rows():
    yield Model("torch", "yolo_style", Detector, detector_batch, detector_loss, found, True)
    yield Model("torch", "speech_lstm", lambda: Recognizer(nn.LSTM), speech_batch, speech_loss, speech_output)
    yield Model("torch", "speech_gru", lambda: Recognizer(nn.GRU), speech_batch, speech_loss, speech_output)
    yield Model("torch", "transformer", Translator, translation_batch, translation_loss, translate)
    yield Model("torch", "dqn", QNetwork, q_batch, q_loss, first, True)
    yield Model("torch", "ppo", ActorCritic, policy_batch, policy_loss, policy_output)
