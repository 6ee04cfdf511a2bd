"""How long the stages of a chain run, measured.

1. Seconds are medians of several rounds over the whole chain, on the device of the
   stages. So a moment in which something else slows the machine hits all stages alike.
   Stage by stage it would make some seem dear, and plans would go around those.
2. Recomputation stops with the last tensor that autograd saves. What a stage does after
   that, such as the product of a linear layer, is skipped where recomputation ends with
   the stage. Against that stands what a recomputation costs besides: hooks, and random
   numbers put back. Both together are measured with PyTorch's own checkpoint around the
   stage: what it takes more than the plain passes is what the recomputation takes. A
   stage with which that cannot be done skips nothing.
"""

import time
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils.checkpoint import checkpoint
from tqdm import tqdm

from ckptlab.memory.fresh import (
    StageFunction,
    detached,
    ends_of,
    fresh_copy,
    parameters_behind,
)
from ckptlab.memory.storage import tensors_in

LEAST_RUNS, MOST_RUNS, ENOUGH_SECONDS = 5, 50, 0.1


class Seconds(NamedTuple):
    """Of one stage; `skipped` is the share of `forward` that rule 2 speaks of."""

    forward: float
    backward: float
    skipped: float


def measure_seconds(functions: list[StageFunction], inputs: Any) -> list[Seconds]:
    """Of stages in a row that have run before."""
    rounds: list[list[Seconds]] = []
    total_seconds, enough_seconds = 0.0, ENOUGH_SECONDS * len(functions)
    is_fake = any(isinstance(tensor, FakeTensor) for tensor in tensors_in(inputs))
    # seconds of fake tensors mean nothing
    least, most = (1, 1) if is_fake else (LEAST_RUNS, MOST_RUNS)
    with tqdm(desc="profile_chain", unit="round", delay=1, leave=False) as bar:
        while len(rounds) < least or (
            len(rounds) < most and total_seconds < enough_seconds
        ):
            arguments, passes = inputs, []
            for function in functions:
                seconds, output = _run(function, arguments, is_fake=is_fake)
                passes.append(seconds)
                arguments = (output,)
            rounds.append(passes)
            total_seconds += sum(one.forward + one.backward for one in passes)
            bar.update()
    medians = [
        Seconds(*map(median, zip(*of_stage, strict=True)))
        for of_stage in zip(*rounds, strict=True)
    ]
    # a recomputation may take more than the stage itself, or no time by the noise
    return [
        one._replace(skipped=min(max(one.skipped, 0.0), one.forward)) for one in medians
    ]


def _run(
    function: StageFunction, arguments: Any, *, is_fake: bool
) -> tuple[Seconds, Any]:
    forward_seconds, backward_seconds, output = _passes(function, arguments)
    skipped_seconds = 0.0
    if backward_seconds and not is_fake:
        try:
            passes = _passes(partial(_checkpoint, function), arguments)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # changes its input, or does something else each time
            pass
        else:
            again_seconds = sum(passes[:2]) - forward_seconds - backward_seconds
            skipped_seconds = forward_seconds - again_seconds
    return Seconds(forward_seconds, backward_seconds, skipped_seconds), detached(output)


def _passes(function: StageFunction, arguments: Any) -> tuple[float, float, Any]:
    """Seconds forward and backward, and the output."""
    fresh = fresh_copy(arguments)
    start = _now()
    output = function(*fresh.arguments)
    forward_seconds, backward_seconds = _now() - start, 0.0
    if ends := ends_of(output):
        targets = [*fresh.leaves, *parameters_behind(ends, fresh)]
        gradients = [torch.ones_like(end) for end in ends]
        start = _now()
        torch.autograd.grad(ends, targets, gradients, allow_unused=True)
        backward_seconds = _now() - start
    return forward_seconds, backward_seconds, output


def _checkpoint(function: StageFunction, *arguments: Any) -> Any:
    return checkpoint(function, *arguments, use_reentrant=False)


def _now() -> float:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
    return time.perf_counter()
