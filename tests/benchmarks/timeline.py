"""What following live bytes costs: one transformer step, as ratios in one run.

.venv/bin/python -m tests.benchmarks.timeline
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from ckptlab.memory.limit import memory_limit
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.timeline import memory_timeline
from ckptlab.models import Block

REPEATS = 15
# batch, sequence, hidden, heads: a small block, and one of GPT-2
SHAPES = [(4, 128, 256, 8), (4, 256, 768, 12)]

Watch = Callable[
    [torch.nn.Module, torch.optim.Optimizer], AbstractContextManager[object]
]


def tracker(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> AbstractContextManager[object]:
    """PyTorch's own."""
    watch = MemTracker()
    watch.track_external(model, optimizer)
    return watch


WATCHES: dict[str, Watch] = {
    "plain step": lambda model, optimizer: nullcontext(),
    "`memory_timeline`": memory_timeline,
    "`saved_tensors`": lambda model, optimizer: saved_tensors(model),
    "`memory_limit`": lambda model, optimizer: memory_limit("1 TiB"),
    "PyTorch's `MemTracker`": tracker,
}


def print_table(batch: int, sequence: int, hidden: int, heads: int) -> None:
    """The watches take turns, so that a slow moment hits them all."""
    model = Block(heads=heads, hidden=hidden)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(batch, sequence, hidden)

    def step_seconds(watch: Watch) -> float:
        start = time.perf_counter()
        with watch(model, optimizer):
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return time.perf_counter() - start

    for watch in WATCHES.values():
        step_seconds(watch)
    taken: dict[str, list[float]] = {name: [] for name in WATCHES}
    for _ in range(REPEATS):
        for name, watch in WATCHES.items():
            taken[name].append(step_seconds(watch))
    print(f"\nBatch {batch}, sequence {sequence}, hidden {hidden}, {heads} heads:\n")
    print("| | median | of the plain step |\n|---|---|---|")
    for name, seconds in taken.items():
        ratios = [
            s / plain for s, plain in zip(seconds, taken["plain step"], strict=True)
        ]
        median_ms = statistics.median(seconds) * 1000
        print(f"| {name} | {median_ms:.1f} ms | {statistics.median(ratios):.2f} |")


def main() -> None:
    """Print a table for each shape."""
    torch.set_num_threads(2)
    print(f"One training step of a transformer block with Adam, {REPEATS} runs each.")
    for shape in SHAPES:
        print_table(*shape)


if __name__ == "__main__":
    main()
