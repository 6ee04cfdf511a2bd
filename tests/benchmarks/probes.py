"""`saved_tensors` and `memory_timeline` beside what people use instead; in Markdown.

.venv/bin/python -m tests.benchmarks.probes

1. The truth is the allocator's: on a CPU its own record by PyTorch's profiler, on a GPU
   `torch.cuda.memory_allocated`. What was there before and takes part (parameters, the
   batch) is added to the truth of the peak, for the probes count it.
2. Rivals: PyTorch's `MemTracker`; the profiler with `profile_memory=True`; and the few
   lines of `saved_tensors_hooks` that add up every tensor that autograd packs.
3. All take turns in every round, in an order that moves on by one. Costs are medians of
   each round's ratio to the bare step.
"""

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import profile

from ckptlab.memory.limit import memory_limit
from ckptlab.memory.saved import saved_tensors
from ckptlab.memory.storage import count_bytes, parameter_bytes
from ckptlab.memory.timeline import memory_timeline
from ckptlab.models import Block, mlp
from tests.memory.allocator import allocator_record, mark

ROUNDS = 15
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

Watch = Callable[[nn.Module, torch.Tensor], AbstractContextManager[Any]]


def cnn() -> nn.Sequential:
    """Six convolutions with batch norm, and a linear layer."""
    layers: list[nn.Module] = []
    for n_in, n_out in ((3, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128)):
        stride = 1 if n_in == n_out else 2
        layers += [nn.Conv2d(n_in, n_out, 3, stride, 1), nn.BatchNorm2d(n_out)]
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 8 * 8, 10))


def cases() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Models, and a batch for each."""
    made: dict[str, tuple[nn.Module, torch.Tensor]] = {
        "MLP": (mlp(width=1024, depth=8), torch.randn(256, 1024)),
        "CNN with batch norm": (cnn(), torch.randn(16, 3, 64, 64)),
        "six transformer blocks": (
            nn.Sequential(*(Block(heads=8, hidden=256) for _ in range(6))),
            torch.randn(4, 128, 256),
        ),
    }
    return {name: (m.to(DEVICE), x.to(DEVICE)) for name, (m, x) in made.items()}


# -- the truth -----------------------------------------------------------------------


def true_peak_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """Of a step, with the parameters and the batch (rule 1)."""
    before = parameter_bytes(model) + count_bytes([x, *model.buffers()])
    run = partial(step, model, x)
    if DEVICE.type == "cpu":
        return allocator_record(run)[0] + before
    start = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    return torch.cuda.max_memory_allocated() - start + before


def true_saved_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """What a forward pass leaves behind, its loss left out."""
    if DEVICE.type == "cpu":

        def run() -> None:
            loss = forward(model, x)
            mark()
            loss.backward()

        _, (after,) = allocator_record(run)
        model.zero_grad()
        loss_bytes = x.element_size()
        return after - loss_bytes
    start = torch.cuda.memory_allocated()
    loss = forward(model, x)
    return torch.cuda.memory_allocated() - start - loss.nbytes


# -- the step, and who watches it ----------------------------------------------------


def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(x).sum()
    return loss


def step(model: nn.Module, x: torch.Tensor) -> None:
    forward(model, x).backward()
    model.zero_grad()


def tracker(model: nn.Module, x: torch.Tensor) -> MemTracker:
    watch = MemTracker()
    watch.track_external(model, x)
    return watch


class PackedBytes:
    """What most do by hand: add up all that autograd packs."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._hooks = saved_tensors_hooks(self._pack, lambda tensor: tensor)

    def _pack(self, tensor: torch.Tensor) -> torch.Tensor:
        self.total_bytes += tensor.nbytes
        return tensor

    def __enter__(self) -> "PackedBytes":
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks.__exit__(*error)


WATCHES: dict[str, Watch] = {
    "the bare step": lambda model, x: nullcontext(),
    "`memory_timeline`": lambda model, x: memory_timeline(model),
    "PyTorch's `MemTracker`": tracker,
    "PyTorch's profiler": lambda model, x: profile(profile_memory=True),
    "`memory_limit`": lambda model, x: memory_limit("1 TiB"),
    "`saved_tensors`": lambda model, x: saved_tensors(model),
    "a sum over `saved_tensors_hooks`": lambda model, x: PackedBytes(),
}


def reported(name: str, model: nn.Module, x: torch.Tensor) -> tuple[str, int] | None:
    """What a watch says, "peak" or "saved", and the bytes."""
    with WATCHES[name](model, x) as watch:
        if "saved" in name:
            loss = forward(model, x)  # while it lives, so does all that is saved
            said = watch.total_bytes
            del loss
            return "saved", said
        step(model, x)
    if name == "`memory_timeline`":
        return "peak", watch.peak_bytes
    if "MemTracker" in name:
        snapshot = watch.get_tracker_snapshot("peak")
        return "peak", snapshot[DEVICE]["Total"]
    return None  # the profiler's is the truth itself, or none is reported


def costs(model: nn.Module, x: torch.Tensor) -> dict[str, float]:
    """Each watch's median ratio to the bare step (rule 3)."""
    seconds: dict[str, list[float]] = {name: [] for name in WATCHES}
    order = list(WATCHES)
    for _ in range(ROUNDS):
        order.append(order.pop(0))
        for name in order:
            start = _now()
            with WATCHES[name](model, x):
                step(model, x)
            seconds[name].append(_now() - start)
    bare = seconds["the bare step"]
    return {
        name: statistics.median(t / b for t, b in zip(taken, bare, strict=True))
        for name, taken in seconds.items()
    }


def _now() -> float:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    """Print a table for each model."""
    torch.manual_seed(0)
    print(f"One training step, {ROUNDS} rounds, on {DEVICE.type}.")
    for name, (model, x) in cases().items():
        for watch in WATCHES:
            reported(watch, model, x)  # which warms up
        truth = {
            "peak": true_peak_bytes(model, x),
            "saved": true_saved_bytes(model, x),
        }
        print(
            f"\n{name}: peak {truth['peak']:,} B, saved {truth['saved']:,} B by the "
            "allocator.\n"
        )
        print("| | says | off by | time of the bare step |\n|---|---|---|---|")
        times = costs(model, x)
        for watch in WATCHES:
            said = reported(watch, model, x)
            columns = ["–", "–"]
            if said:
                columns = [
                    f"{said[0]} {said[1]:,} B",
                    f"{said[1] - truth[said[0]]:+,} B",
                ]
            print(f"| {watch} | {' | '.join(columns)} | {times[watch]:.2f} |")
    print(
        "\nBelow the truth is what no operation hands out: the workspace of a kernel "
        "(of a convolution or dropout on a CPU), and 8 bytes for a number that meets a "
        "tensor. "
        "The profiler reports events, from which the truth was worked out."
    )


if __name__ == "__main__":
    main()
