"""The networks of the lessons: small enough to read, shaped like the real ones.

`mlp` is the plain one. `GPT` has the shape of GPT-2 (Radford et al. 2019): layer
norm before each block, attention written out step by step, a GELU network four
times as wide, the output projection tied to the token embedding. Written out,
attention keeps its square, which is what Korthikanti et al. 2022 count.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from ckptlab.runtime.recompute import checkpoint

Recompute = Literal["none", "selective", "full"]

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
    True where a query must not look. With some of the heads, as one rank of many has
    them, it computes those.
    """

    def __init__(self, *, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.head_width = hidden // heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.attention_dropout = Dropout(dropout)
        self.projection = nn.Linear(hidden, hidden)
        self.recomputes_core = False
        self.gathers_again = False

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        qkv = _maybe(self.gathers_again, self.query_key_value, x)
        batch, seq, _ = qkv.shape
        query, key, value = qkv.view(batch, seq, -1, 3, self.head_width).permute(
            3, 0, 2, 1, 4
        )  # each (batch, heads, seq, hidden/heads)
        mixed = _maybe(self.recomputes_core, self.core, query, key, value, mask)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, -1)
        projected: torch.Tensor = self.projection(mixed)
        return projected

    def core(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """The part that is dear to keep and cheap to compute again.

        Shapes: each (batch, heads, seq, hidden/heads), and so is what it returns.
        """
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_width)
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        weights: torch.Tensor = self.attention_dropout(scores.softmax(-1))
        return weights @ value  # (batch, heads, seq, seq) times the values


class Block(nn.Module):
    """One transformer layer: attention, then a GELU network, each behind a layer norm.

    Shapes: (batch, seq, hidden) -> (batch, seq, hidden).

    Args:
        recompute: "selective" computes the core of attention again in the backward
            pass, "full" the whole layer (Korthikanti et al. 2022, Sections 5 and 2).
    """

    def __init__(
        self,
        *,
        heads: int,
        hidden: int,
        dropout: float = 0.1,
        recompute: Recompute = "none",
    ) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(hidden)
        self.attention = Attention(heads=heads, hidden=hidden, dropout=dropout)
        self.attention_output_dropout = Dropout(dropout)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )
        self.mlp_output_dropout = Dropout(dropout)
        self.attention.recomputes_core = recompute == "selective"
        self.recomputes_all = recompute == "full"
        self.gathers_again = False

    def forward(
        self, x: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return _maybe(self.recomputes_all, self._layer, x, mask)

    def _layer(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        attended: torch.Tensor = self.attention(self.attention_norm(x), mask)
        x = x + self.attention_output_dropout(attended)
        widen, gelu, narrow = self.mlp
        wide = _maybe(self.gathers_again, widen, self.mlp_norm(x))
        mixed: torch.Tensor = narrow(gelu(wide))
        dropped: torch.Tensor = self.mlp_output_dropout(mixed)
        return x + dropped


def _maybe(again: bool, function: Callable[..., Any], *args: Any) -> torch.Tensor:
    """What the function returns; computed again in the backward pass if so wanted."""
    result: torch.Tensor = checkpoint(function, *args) if again else function(*args)
    return result


def parallelize_block(
    block: Block,
    mesh: DeviceMesh,
    *,
    sequence_parallel: bool = False,
    keeps_gathered: bool = False,
) -> Block:
    """Lay a block over the ranks of a mesh, in place: each computes its share.

    Tensor parallelism gives a rank some of the heads and some columns of the MLP; layer
    norms and dropout stay whole. Sequence parallelism gives it a share of the sequence
    there too: it takes and returns (batch, seq / ranks, hidden).

    Args:
        keeps_gathered: with sequence parallelism, keep the whole sequence that the
            first linear layers gather, as PyTorch's styles do. Else each rank keeps its
            share and gathers again in the backward pass (Section 4.2.2).

    Source: Korthikanti et al. 2022, Section 4.2.
    """
    # half a second to import, and lesson 02 alone needs them
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        ParallelStyle,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    shard = Shard(1)  # of the sequence
    if sequence_parallel:
        column = ColwiseParallel(input_layouts=shard)
        row = RowwiseParallel(output_layouts=shard)
        norm = SequenceParallel(sequence_dim=1, use_local_output=True)
    else:
        column, row = ColwiseParallel(), RowwiseParallel()
    styles: dict[str, ParallelStyle] = {
        "attention.query_key_value": column,
        "attention.projection": row,
        "mlp.0": column,
        "mlp.2": row,
    }
    if sequence_parallel:
        styles |= {"attention_norm": norm, "mlp_norm": norm}
        block.gathers_again = not keeps_gathered
        block.attention.gathers_again = not keeps_gathered
    parallelize_module(block, mesh, styles)
    return block


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
