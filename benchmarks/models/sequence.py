"""Sequences: an LSTM classifier that reads an image row by row, and a small GPT on characters."""

import torch
from torch import nn
from torch.nn import functional as F

from .images import digits

TEXT = (
    "An operator has a name, a schema and a kernel. The name is what people say, the schema is what they agree on, "
    "and the kernel is what "
    "happens. A device without a kernel borrows one from the processor and says so once. A stream is a queue of "
    "promises; an event is a mark "
    "between two of them. Memory comes in segments, and an address is a segment and an offset. Nothing waits that "
    "does not have to. "
)
ALPHABET = sorted(set(TEXT))
ALPHABET_SIZE = len(ALPHABET)


class SequenceClassifier(nn.Module):
    """Two LSTM layers, dropout between them, and a linear classifier on the last state."""

    def __init__(self, width=8, hidden=64, classes=10):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, dropout=0.1)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, rows):
        states, _ = self.lstm(rows)
        return self.classify(states[:, -1])


def digit_rows(count, size, seed=0):
    """Digits as sequences of `size` rows of 8 pixels."""
    pictures, classes = digits(count, 8, seed)
    rows = F.interpolate(pictures[:, :1], size=(size, 8), mode="nearest")[:, 0]
    return rows.contiguous(), classes


def classification_loss(network, rows, classes):
    return F.cross_entropy(network(rows), classes)


class Block(nn.Module):
    """Transformer block: pre-norm causal attention and a GELU multilayer perceptron."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A small GPT whose output layer shares the weight of its token embedding."""

    def __init__(self, vocabulary=ALPHABET_SIZE, context=64, width=96, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.context = context
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        nn.init.normal_(self.tokens.weight, std=0.05)

    def forward(self, tokens):
        x = self.drop(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, tokens, count, temperature=1.0, top=None):
        """Appends `count` tokens. temperature 0 takes the likeliest; `top` draws among that many likeliest."""
        for _ in range(count):
            logits = self(tokens[:, -self.context :])[:, -1]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / temperature
                if top:
                    least = torch.topk(logits, top).values[:, -1:]
                    logits = logits.masked_fill(logits < least, -float("inf"))
                new = torch.multinomial(logits.softmax(-1), 1)
            tokens = torch.cat([tokens, new], dim=1)
        return tokens


def text(count, size, seed=0):
    """`count` pieces of the text of `size` characters, and the same shifted by one."""
    codes = torch.tensor([ALPHABET.index(character) for character in TEXT])
    starts = torch.randint(0, len(codes) - size - 1, (count,), generator=torch.Generator().manual_seed(seed)).tolist()
    pieces = torch.stack([codes[start : start + size + 1] for start in starts])
    return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def language_loss(network, tokens, following):
    return F.cross_entropy(network(tokens).flatten(0, 1), following.flatten())
