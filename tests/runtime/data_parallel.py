"""Two processes train a checkpointed model together; run by the test of that.

The first argument is a file that both can reach.
"""

import sys

import torch
import torch.distributed as dist
from torch.multiprocessing import spawn
from torch.nn.parallel import DistributedDataParallel

from ckptlab.models import mlp
from ckptlab.runtime.execute import apply_plan

RANKS, WIDTH = 2, 16


def train(rank: int, file: str) -> None:
    """Compare with what one process computes from both batches."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    plain = mlp(width=WIDTH, depth=3)
    model = apply_plan(mlp(width=WIDTH, depth=3), "(1 2) (3 (4 5))")
    model.load_state_dict(plain.state_dict())
    parallel = DistributedDataParallel(model)
    batches = torch.randn(RANKS, 8, WIDTH)
    for _ in range(3):
        parallel(batches[rank]).square().sum().backward()
        for batch in batches:
            (plain(batch).square().sum() / RANKS).backward()
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
            with torch.no_grad():
                one -= 0.01 * one.grad
                other -= 0.01 * other.grad
        plain.zero_grad()
        model.zero_grad()
    del parallel  # whose threads must not outlive the group
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    spawn(train, args=(sys.argv[1],), nprocs=RANKS)
