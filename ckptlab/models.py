"""The networks of the lessons: small enough to read, shaped like the real ones.

`mlp` is the plain one. `GPT` has the shape of GPT-2 (Radford et al. 2019): layer
norm before each block, attention written out step by step, a GELU network four
times as wide, the output projection tied to the token embedding. Written out,
attention keeps its square, which is what Korthikanti et al. 2022 count.
"""

import math

import torch
from torch import nn

GPT2_SMALL = {
    "heads": 12,
    "hidden": 768,
    "layers": 12,
    "sequence": 1024,
    "vocabulary": 50257,
}
"""Shape of the smallest GPT-2: openai/gpt-2, `default_hparams` in src/model.py, and the
vocabulary of its hparams.json."""


def mlp(*, width: int, depth: int) -> nn.Sequential:
    """`depth` linear layers of one width with a ReLU after each but the last.

    Shapes: (batch, width) -> (batch, width).

    Example:
        >>> mlp(width=8, depth=2)(torch.zeros(4, 8)).shape
        torch.Size([4, 8])
    """
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Dropout(nn.Module):
    """Dropout that saves one byte an element on every device.

    On a CPU `nn.Dropout` saves its mask in the dtype of the activation. GPUs
    save a byte, and so does `torch.native_dropout` wherever it runs.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.probability == 0:
            return x
        return torch.native_dropout(x, self.probability, True)[0]

    def extra_repr(self) -> str:
        return f"{self.probability}"


class Attention(nn.Module):
    """Multi-head self-attention, every step on its own line.

    Shapes: x (batch, seq, hidden) -> (batch, seq, hidden); `mask` (seq, seq) is
    True where a query must not look.
    """

    def __init__(self, *, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.attention_dropout = Dropout(dropout)
        self.projection = nn.Linear(hidden, hidden)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        batch, seq, hidden = x.shape
        qkv = self.query_key_value(x).view(batch, seq, 3, self.heads, -1)
        query, key, value = qkv.permute(
            2, 0, 3, 1, 4
        )  # each (batch, heads, seq, hidden/heads)
        scores = query @ key.transpose(-2, -1) / math.sqrt(hidden // self.heads)
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        weights = self.attention_dropout(scores.softmax(-1))  # (batch, heads, seq, seq)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, seq, hidden)
        projected: torch.Tensor = self.projection(mixed)
        return projected


class Block(nn.Module):
    """One transformer layer: attention, then a GELU network, each behind a layer norm.

    Shapes: (batch, seq, hidden) -> (batch, seq, hidden).
    """

    def __init__(self, *, heads: int, hidden: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention = Attention(heads=heads, hidden=hidden, dropout=dropout)
        self.attention_output_dropout = Dropout(dropout)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )
        self.mlp_output_dropout = Dropout(dropout)

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        attended: torch.Tensor = self.attention(self.attention_norm(x), mask)
        x = x + self.attention_output_dropout(attended)
        mixed: torch.Tensor = self.mlp(self.mlp_norm(x))
        dropped: torch.Tensor = self.mlp_output_dropout(mixed)
        return x + dropped


class GPT(nn.Module):
    """A GPT-2-shaped language model.

    Shapes: tokens (batch, seq), int64 -> logits (batch, seq, vocabulary); `seq`
    is at most `sequence`.

    Example:
        >>> model = GPT(heads=2, hidden=8, layers=1, sequence=16, vocabulary=32)
        >>> model(torch.zeros(1, 16, dtype=torch.long)).shape
        torch.Size([1, 16, 32])
    """

    mask: torch.Tensor

    def __init__(
        self,
        *,
        heads: int,
        hidden: int,
        layers: int,
        sequence: int,
        vocabulary: int,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(
                f"hidden size {hidden} does not divide into {heads} heads; "
                "make it a multiple of the number of heads"
            )
        self.token_embedding = nn.Embedding(vocabulary, hidden)
        self.position_embedding = nn.Embedding(sequence, hidden)
        self.embedding_dropout = Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(heads=heads, hidden=hidden, dropout=dropout) for _ in range(layers)
        )
        self.final_norm = nn.LayerNorm(hidden)
        self.output = nn.Linear(hidden, vocabulary, bias=False)
        self.output.weight = self.token_embedding.weight  # tied: one storage, two uses
        future = torch.ones(sequence, sequence, dtype=torch.bool).triu(1)
        self.register_buffer("mask", future, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        seq = tokens.shape[1]
        positions = torch.arange(seq, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        x = self.embedding_dropout(x)
        for block in self.blocks:
            x = block(x, self.mask[:seq, :seq])
        logits: torch.Tensor = self.output(self.final_norm(x))
        return logits
