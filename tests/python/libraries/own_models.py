"""Programs in the style of libraries that train or run networks."""

import torch
import torch.nn.functional as F
from torch import nn

from .own import draw
from .programs import program


def trained(model, optimizer, loss_of, steps=3):
    """The losses of some steps and the parameters afterwards."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), *[p.detach() for p in model.parameters()][:4]]


class Whisper(nn.Module):
    """Convolutions and attention over a spectrogram, a decoder with a cache, and a sparse buffer as whisper's."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(8, 16, 3, padding=1), nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0, activation="gelu")
        self.decoder = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.embedding = nn.Embedding(20, 16)
        heads = torch.zeros(2, 4, dtype=torch.bool)
        heads[1, 2:] = True
        self.register_buffer("alignment_heads", heads.to_sparse(), persistent=False)

    def encode(self, mel):
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        return self.encoder(x + torch.sin(torch.arange(x.size(1), device=x.device))[:, None])

    def decode(self, tokens, sound):
        length = tokens.size(1)
        mask = torch.full((length, length), -torch.inf, device=tokens.device).triu_(1)
        return self.decoder(self.embedding(tokens), sound, tgt_mask=mask) @ self.embedding.weight.T


@program("whisper-like: a model with a sparse buffer, greedy decoding, log probabilities", terms=4000)
def speech_to_text(device):
    model = Whisper().eval().to(device)
    mel, tokens = draw(2, 8, 20).to(device), torch.ones(2, 1, dtype=torch.long, device=device)
    with torch.no_grad():
        sound = model.encode(mel)
        for _ in range(4):
            logits = model.decode(tokens, sound)[:, -1]
            logits[:, 0] = -torch.inf
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
    return [sound, logits[:, 1:].log_softmax(-1), tokens, model.alignment_heads.indices()]


@program("sentence-transformers-like: masked means, ranking loss, a training step, search", terms=8000)
def sentence_embeddings(device):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = nn.ModuleDict({"words": nn.Embedding(50, 16), "encoder": nn.TransformerEncoder(layer, 2)}).to(device)
    tokens = torch.randint(1, 50, (8, 7)).to(device)
    lengths = torch.tensor([7, 3, 5, 2, 7, 6, 1, 4]).to(device)
    mask = torch.arange(7, device=device) < lengths[:, None]

    def embed():
        hidden = model["encoder"](model["words"](tokens), src_key_padding_mask=~mask)
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=-1)

    def loss():
        anchors, positives = embed().chunk(2)
        return F.cross_entropy(anchors @ positives.T * 20, torch.arange(4, device=device))

    results = trained(model, torch.optim.SGD(model.parameters(), lr=0.02), loss)
    with torch.no_grad():
        scores = embed() @ embed().T
    return [*results, scores, scores.topk(3, -1).values]


@program("open_clip-like: two towers, a learned temperature, symmetric loss", terms=8000)
def contrastive(device):
    image = nn.Sequential(nn.Conv2d(3, 8, 4, stride=4), nn.GELU(), nn.Flatten(), nn.Linear(32, 8))
    text = nn.Sequential(nn.EmbeddingBag(30, 8), nn.LayerNorm(8), nn.Linear(8, 8))
    model = nn.ModuleDict({"image": image, "text": text}).to(device)
    model.register_parameter("scale", nn.Parameter(torch.tensor(1.5, device=device)))
    pictures, words = draw(6, 3, 8, 8).to(device), torch.randint(0, 30, (6, 5)).to(device)

    def loss():
        a, b = F.normalize(model["image"](pictures), dim=-1), F.normalize(model["text"](words), dim=-1)
        scores, labels = model.scale.exp() * a @ b.T, torch.arange(6, device=device)
        return (F.cross_entropy(scores, labels) + F.cross_entropy(scores.T, labels)) / 2

    return trained(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), loss)


@program("DLRM-like: sparse embedding bags, pairs of features, SparseAdam", terms=4000)
def recommendation(device):
    tables = nn.ModuleList(nn.EmbeddingBag(20, 4, sparse=True, mode="sum") for _ in range(3)).to(device)
    top = nn.Sequential(nn.Linear(3 + 4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    dense, clicks = draw(6, 4).to(device), (draw(6) > 0).float().to(device)
    indices = torch.randint(0, 20, (3, 6, 2)).to(device)
    sparse, ordinary = torch.optim.SparseAdam(tables.parameters(), lr=0.01), torch.optim.SGD(top.parameters(), lr=0.05)
    losses, (rows, columns) = [], torch.tril_indices(3, 3, -1).to(device)
    for _ in range(3):
        parts = torch.stack([table(index) for table, index in zip(tables, indices)], 1)
        pairs = (parts @ parts.transpose(1, 2))[:, rows, columns]
        loss = F.binary_cross_entropy_with_logits(top(torch.cat([dense, pairs], 1))[:, 0], clicks)
        sparse.zero_grad()
        ordinary.zero_grad()
        loss.backward()
        assert tables[0].weight.grad.is_sparse
        sparse.step()
        ordinary.step()
        losses.append(loss.detach())
    return [torch.stack(losses), tables[0].weight, top[0].weight]


@program("stable-baselines-like: advantages, clipped policy steps", terms=4000)
def policy_gradient(device):
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4)).to(device)
    value = nn.Linear(4, 1).to(device)
    states, rewards = draw(12, 4).to(device), draw(12).to(device)
    actions = torch.randint(0, 4, (12,)).to(device)
    with torch.no_grad():
        old = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
        values, advantages, last = value(states)[:, 0], torch.zeros(12, device=device), 0.0
        for t in reversed(range(12)):
            after = values[t + 1] if t < 11 else 0.0
            last = rewards[t] + 0.99 * after - values[t] + 0.95 * 0.99 * last
            advantages[t] = last
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    def loss():
        now = torch.distributions.Categorical(logits=policy(states))
        ratio = (now.log_prob(actions) - old).exp()
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -clipped.mean() - 0.01 * now.entropy().mean()

    return [advantages, *trained(policy, torch.optim.SGD(policy.parameters(), lr=0.1), loss)]


@program("captum-like: integrated gradients, hooks, occlusion", terms=4000)
def attribution(device):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Softplus(), nn.Flatten(), nn.Linear(64, 3)).to(device)
    image, kept = draw(1, 1, 6, 6).to(device), []
    hooks = [model[0].register_forward_hook(lambda m, i, o: kept.append(o.detach())),
             model[0].register_full_backward_hook(lambda m, i, o: kept.append(o[0].detach()))]  # fmt: skip
    steps = (torch.linspace(0, 1, 8, device=device).view(-1, 1, 1, 1) * image).requires_grad_()
    (gradients,) = torch.autograd.grad(model(steps)[:, 1].sum(), steps)
    for hook in hooks:
        hook.remove()
    with torch.no_grad():
        hidden = torch.stack(
            [model(image.masked_fill(torch.eye(6, device=device).roll(i, 0).bool(), 0)) for i in range(6)]
        )
    return [gradients.mean(0) * image[0], *kept, hidden]


@program("peft-like: low-rank adapters, frozen weights, merging", terms=4000)
def adapters(device):
    base = nn.Linear(12, 10).to(device).requires_grad_(False)
    down, up = nn.Linear(12, 3, bias=False).to(device), nn.Linear(3, 10, bias=False).to(device)
    nn.init.constant_(up.weight, 0.05)
    x, y = draw(9, 12).to(device), draw(9, 10).to(device)
    model = nn.ModuleList([down, up])
    results = trained(model, torch.optim.SGD(model.parameters(), lr=0.1), lambda: F.mse_loss(base(x) + up(down(x)), y))
    merged = F.linear(x, base.weight + up.weight @ down.weight, base.bias)
    assert base.weight.grad is None
    return [*results, merged]
