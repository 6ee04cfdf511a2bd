"""The models of the trade-off benchmark: a transformer and a ResNet, as stages."""

from dataclasses import dataclass

import torch
from torch import nn

LAYERS, HEADS, HIDDEN, SEQUENCE, BATCH, VOCABULARY = 24, 4, 128, 128, 4, 512
IMAGES, IMAGE_WIDTH, CHANNELS, DEPTHS = 8, 64, 16, (3, 4, 6, 3)
ON_GPU = 16
"""How many times the batch is larger on a GPU."""

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Embedding(nn.Module):
    """Tokens (batch, seq) -> (batch, seq, hidden)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions = nn.Parameter(torch.zeros(SEQUENCE, HIDDEN))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.tokens(tokens) + self.positions
        return embedded


class Attention(nn.Module):
    """The first half of a block; shapes (batch, seq, hidden), and so is the result."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.query_key_value = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.projection = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.query_key_value(self.norm(x)).unflatten(-1, (3, HEADS, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True
        )
        projected: torch.Tensor = self.projection(mixed.transpose(1, 2).flatten(2))
        return x + projected


class Mlp(nn.Module):
    """The second half of a block; shapes as in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.widen = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.narrow = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrowed: torch.Tensor = self.narrow(
            nn.functional.gelu(self.widen(self.norm(x)))
        )
        return x + narrowed


class Head(nn.Module):
    """The loss of logits for labels that it holds."""

    labels: torch.Tensor

    def __init__(self, before: nn.Module, logits: nn.Linear, n_labels: int) -> None:
        super().__init__()
        self.before, self.logits = before, logits
        labels = torch.randint(logits.out_features, (n_labels,))
        self.register_buffer("labels", labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.logits(self.before(x))
        return nn.functional.cross_entropy(logits.flatten(0, -2), self.labels)


class Residual(nn.Module):
    """Two convolutions and a way around them: a basic block of a ResNet."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        self.around: nn.Module = nn.Identity()
        if n_in != n_out:
            self.around = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu(self.around(x) + self.inner(x))


@dataclass(frozen=True)
class Case:
    """A model: what plans are made of, and the same in the blocks of its author.

    Attributes:
        has_equal_blocks: all but the first and the last run the same code on the same
            shapes.
    """

    name: str
    stages: nn.Sequential
    blocks: list[nn.Module]
    x: torch.Tensor
    has_equal_blocks: bool


def transformer() -> Case:
    """A decoder whose blocks are two stages each."""
    batch = BATCH * (ON_GPU if DEVICE.type == "cuda" else 1)
    halves = [half for _ in range(LAYERS) for half in (Attention(), Mlp())]
    head = Head(nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY), batch * SEQUENCE)
    stages = nn.Sequential(Embedding(), *halves, head).to(DEVICE)
    blocks: list[nn.Module] = [
        nn.Sequential(*pair) for pair in zip(halves[::2], halves[1::2], strict=True)
    ]
    tokens = torch.randint(VOCABULARY, (batch, SEQUENCE), device=DEVICE)
    name = f"Transformer of {LAYERS} blocks, each attention and MLP"
    return Case(name, stages, [stages[0], *blocks, stages[-1]], tokens, True)


def cnn() -> Case:
    """A ResNet: ever more channels, ever smaller images."""
    images = IMAGES * (ON_GPU if DEVICE.type == "cuda" else 1)
    stem = nn.Sequential(
        nn.Conv2d(3, CHANNELS, 3, 1, 1, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU()
    )
    stages, n_in = [stem], CHANNELS
    for number, depth in enumerate(DEPTHS):
        for block in range(depth):
            n_out = CHANNELS << number
            stride = 2 if number and not block else 1
            stages.append(Residual(n_in, n_out, stride))
            n_in = n_out
    pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    head = Head(pool, nn.Linear(n_in, 10), images)
    whole = nn.Sequential(*stages, head).to(DEVICE)
    x = torch.randn(images, 3, IMAGE_WIDTH, IMAGE_WIDTH, device=DEVICE)
    name = f"ResNet of {sum(DEPTHS)} blocks"
    return Case(name, whole, [*whole], x, False)
