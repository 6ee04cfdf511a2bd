"""Two processes share a transformer layer; a test runs this under torchrun.

torchrun --standalone --nproc-per-node=2 -m tests.tensor_parallel

Each rank computes what one process computes alone, and keeps the bytes that one rank of
two is measured to keep without any other process.
"""

from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from ckptlab.memory.fake import one_rank_of
from ckptlab.memory.saved import saved_tensors
from ckptlab.models import Block, parallelize_block

RANKS, BATCH, SEQUENCE, HIDDEN, HEADS = 2, 2, 8, 32, 4
RECOMPUTE = ("none", "selective", "full")
CASES = [
    (recompute, sequence_parallel, keeps_gathered)
    for recompute, sequence_parallel, keeps_gathered in product(
        RECOMPUTE, (False, True), (False, True)
    )
    if sequence_parallel or not keeps_gathered
]


def parallel_block(mesh: Any, case: tuple[Any, bool, bool]) -> Block:
    recompute, sequence_parallel, keeps_gathered = case
    torch.manual_seed(0)
    block = Block(heads=HEADS, hidden=HIDDEN, dropout=0.0, recompute=recompute)
    return parallelize_block(
        block, mesh, sequence_parallel=sequence_parallel, keeps_gathered=keeps_gathered
    )


def share(x: torch.Tensor, case: tuple[Any, bool, bool], rank: int) -> torch.Tensor:
    return x.chunk(RANKS, 1)[rank].contiguous() if case[1] else x.clone()


def kept_bytes(block: Block, x: torch.Tensor) -> tuple[int, torch.Tensor]:
    with saved_tensors(block) as saved:
        output = block(x)
    return saved.total_bytes + saved.input_bytes, output


def check(rank: int, mesh: Any, case: tuple[Any, bool, bool], predicted: int) -> None:
    torch.manual_seed(0)
    alone = Block(heads=HEADS, hidden=HIDDEN, dropout=0.0)
    whole = torch.randn(BATCH, SEQUENCE, HIDDEN, requires_grad=True)
    expected = alone(whole)
    expected.square().sum().backward()

    block = parallel_block(mesh, case)
    x = share(whole.detach(), case, rank).requires_grad_()
    n_bytes, output = kept_bytes(block, x)
    assert n_bytes == predicted, (case, n_bytes, predicted)
    output.square().sum().backward()
    torch.testing.assert_close(output, share(expected.detach(), case, rank))
    assert whole.grad is not None
    torch.testing.assert_close(x.grad, share(whole.grad, case, rank))
    for (name, one), other in zip(
        alone.named_parameters(), block.parameters(), strict=True
    ):
        gradient = other.grad
        if isinstance(gradient, DTensor):
            gradient = gradient.full_tensor()
        torch.testing.assert_close(gradient, one.grad, msg=f"{case}: {name}")


def main() -> None:
    torch.set_num_threads(1)
    predicted = []
    for case in CASES:
        with one_rank_of(RANKS) as mesh:
            x = share(torch.randn(BATCH, SEQUENCE, HIDDEN), case, 0).requires_grad_()
            predicted.append(kept_bytes(parallel_block(mesh, case), x)[0])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (RANKS,))
    for case, n_bytes in zip(CASES, predicted, strict=True):
        check(dist.get_rank(), mesh, case, n_bytes)
    print(f"rank {dist.get_rank()}: all cases hold", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
