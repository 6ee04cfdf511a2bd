"""Table 2 of Korthikanti et al. 2022 beside what one layer is measured to keep.

.venv/bin/python -m tests.benchmarks.paper

Four models and six techniques, as rank 0 of 8 under fake tensors, 16-bit activations,
the layer's kept input included. What remains is two numbers for each position and layer
norm, its mean and the inverse of its deviation, which the paper leaves out.
"""

import time

import torch

from ckptlab.memory.fake import one_rank_of, without_memory
from ckptlab.memory.saved import saved_tensors
from ckptlab.models import Block, Recompute, parallelize_block
from ckptlab.planning.transformer import (
    TECHNIQUES,
    Technique,
    TransformerShape,
    activation_bytes_per_layer,
)

SEQUENCE, RANKS = 2048, 8
# Table 3: heads, hidden, layers, micro-batch
MODELS = {
    "22B": (64, 6144, 48, 4),
    "175B": (96, 12288, 96, 1),
    "530B": (128, 20480, 105, 1),
    "1T": (160, 25600, 128, 1),
}


def shape_of(name: str) -> TransformerShape:
    """The shape of a model of Table 3."""
    heads, hidden, layers, micro_batch = MODELS[name]
    return TransformerShape(
        heads, hidden, layers, SEQUENCE, micro_batch, tensor_parallel=RANKS
    )


def recompute_of(technique: Technique) -> Recompute:
    """What a block of that technique computes again."""
    if technique == "full":
        return "full"
    return "selective" if "selective" in technique else "none"


def measure_bytes(
    shape: TransformerShape, technique: Technique, *, keeps_gathered: bool = False
) -> int:
    """Bytes that rank 0 keeps of one layer, its input included."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with one_rank_of(shape.tensor_parallel) as mesh, without_memory():
            block = Block(
                heads=shape.heads,
                hidden=shape.hidden,
                recompute=recompute_of(technique),
            )
            sequence = shape.sequence
            if technique != "none":
                is_sequence = "sequence" in technique
                parallelize_block(
                    block,
                    mesh,
                    sequence_parallel=is_sequence,
                    keeps_gathered=keeps_gathered,
                )
                if is_sequence:
                    sequence //= shape.tensor_parallel
            x = torch.randn(shape.micro_batch, sequence, shape.hidden)
            with saved_tensors(block) as saved:
                block(x.requires_grad_())
    finally:
        torch.set_default_dtype(before)
    return saved.total_bytes + saved.input_bytes


def main() -> None:
    """Print the table."""
    start = time.perf_counter()
    print("| model | technique | Table 2 | measured | more | of it, norm statistics |")
    print("|---|---|---|---|---|---|")
    for name in MODELS:
        shape = shape_of(name)
        for technique in TECHNIQUES:
            formula = activation_bytes_per_layer(shape, technique)
            measured = measure_bytes(shape, technique)
            print(
                f"| {name} | {technique} | {formula:,} B | {measured:,} B | "
                f"{100 * (measured / formula - 1):.4f}% | "
                f"{statistics_bytes(shape, technique):,} B |"
            )
    shape = shape_of("175B")
    gathered = measure_bytes(shape, "tensor+sequence", keeps_gathered=True)
    print(f"\nGPT-3, tensor+sequence, gathered input kept: {gathered:,} B a layer.")
    print(f"All of it took {time.perf_counter() - start:.1f} s.")


def statistics_bytes(shape: TransformerShape, technique: Technique) -> int:
    """Mean and inverse deviation of both layer norms, 2 bytes each a position."""
    if technique == "full":
        return 0
    ranks = shape.tensor_parallel if "sequence" in technique else 1
    return 2 * 2 * 2 * shape.sequence * shape.micro_batch // ranks


if __name__ == "__main__":
    main()
