"""checkpoint() beside PyTorch's: time a call, a training step, its peak; in Markdown.

.venv/bin/python -m tests.benchmarks.checkpoint

The step is one of a transformer of 12 blocks with every block checkpointed. The rivals
take turns, so that a slow moment hits them all; ratios are medians over the turns.
Meta's torch_remat takes part if it is installed (pip install torch_remat).
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from ckptlab.models import Block
from ckptlab.runtime.recompute import checkpoint
from tests.memory.allocator import allocator_record

ROUNDS, CALLS, STEPS = 15, 300, 15
BLOCKS, BATCH, SEQUENCE, HIDDEN, HEADS = 12, 4, 128, 256, 8

Checkpoint = Callable[..., Any]


def plain(function: Callable[..., Any], *args: Any) -> Any:
    """No checkpoint."""
    return function(*args)


RIVALS: dict[str, Checkpoint] = {
    "no checkpoint": plain,
    "PyTorch": partial(torch_checkpoint, use_reentrant=False),
    "ckptlab": checkpoint,
}
try:
    import torch_remat  # type: ignore[import-not-found]

    decorate = torch_remat.checkpoint()  # it cannot keep the random state
    RIVALS["torch_remat"] = lambda function, *args: decorate(function)(*args)
except ImportError:
    pass


def tiny_seconds(apply: Checkpoint) -> float:
    """Of a forward and backward pass around a function that does next to nothing."""
    x = torch.randn(8, requires_grad=True)
    gradient = torch.ones(8)
    start = time.perf_counter()
    for _ in range(CALLS):
        torch.autograd.grad(apply(torch.sin, x), x, gradient)
    return (time.perf_counter() - start) / CALLS


def train(apply: Checkpoint, blocks: torch.nn.ModuleList, x: torch.Tensor) -> None:
    """A training step without an optimizer."""
    for block in blocks:
        x = apply(block, x)
    x.sum().backward()
    blocks.zero_grad()


def seconds_of(run: Callable[[], object]) -> float:
    """Of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def options_table() -> None:
    """What the options cost around the tiny function, and what a module adds."""
    calls: dict[str, Checkpoint] = {
        "as it is": checkpoint,
        "`preserve_rng_state=False`": partial(checkpoint, preserve_rng_state=False),
        "`early_stop=False`": partial(checkpoint, early_stop=False),
        '`determinism_check="none"`': partial(checkpoint, determinism_check="none"),
        '`determinism_check="values"`': partial(checkpoint, determinism_check="values"),
        "`debug=True`": partial(checkpoint, debug=True),
        "function is a module": lambda function, x: checkpoint(_SINE, x),
        "function is a module with batch norm": lambda function, x: checkpoint(
            _NORMED, x
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, apply in calls.items():
            seconds[name].append(tiny_seconds(apply))
    print("\n| checkpoint(), tiny function | a call | of the first |\n|---|---|---|")
    for name, taken in seconds.items():
        ratios = [a / b for a, b in zip(taken, seconds["as it is"], strict=True)]
        print(
            f"| {name} | {statistics.median(taken) * 1e6:.1f} µs | "
            f"{statistics.median(ratios):.2f} |"
        )


class _Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin()


_SINE = _Sine()
_NORMED = torch.nn.Sequential(
    torch.nn.Unflatten(0, (2, 4)), torch.nn.BatchNorm1d(4), torch.nn.Flatten(0)
)


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(2)
    torch.manual_seed(0)
    blocks = torch.nn.ModuleList(
        Block(heads=HEADS, hidden=HIDDEN) for _ in range(BLOCKS)
    )
    x = torch.randn(BATCH, SEQUENCE, HIDDEN)
    tiny: dict[str, list[float]] = {name: [] for name in RIVALS}
    step: dict[str, list[float]] = {name: [] for name in RIVALS}
    for apply in RIVALS.values():
        tiny_seconds(apply)
        train(apply, blocks, x)
    for _ in range(ROUNDS):
        for name, apply in RIVALS.items():
            tiny[name].append(tiny_seconds(apply))
    order = list(RIVALS)
    for _ in range(STEPS):
        order.append(order.pop(0))  # so that nobody always follows the same one
        for name in order:
            step[name].append(seconds_of(partial(train, RIVALS[name], blocks, x)))
    print("| | tiny function | of PyTorch's | training step | of PyTorch's | peak |")
    print("|---|---|---|---|---|---|")
    for name, apply in RIVALS.items():
        peak_bytes, _ = allocator_record(partial(train, apply, blocks, x))
        columns = [name]
        for seconds, unit in ((tiny, 1e6), (step, 1e3)):
            ratios = [
                mine / torchs
                for mine, torchs in zip(seconds[name], seconds["PyTorch"], strict=True)
            ]
            columns += [
                f"{statistics.median(seconds[name]) * unit:.1f} "
                f"{'µs' if unit == 1e6 else 'ms'}",
                f"{statistics.median(ratios):.2f}",
            ]
        print(f"| {' | '.join(columns)} | {peak_bytes:,} B |")
    options_table()


if __name__ == "__main__":
    main()
