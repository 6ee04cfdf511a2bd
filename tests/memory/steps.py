"""Training steps of many kinds, each with what no dispatch mode can see of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import save_on_cpu
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from ckptlab import models
from ckptlab.memory.timeline import memory_timeline

NUMBER_BYTES = 8  # a Python number in an operation, wrapped in a tensor
RNG_STATE_BYTES = torch.get_rng_state().numel()  # read without any operation


@dataclass(frozen=True)
class TrainingStep:
    """A model, and a function that trains it by a step; inputs are made inside.

    `unseen_bytes` is the size of what lives between operations unseen, if anything
    does. `missing_bytes` is what the measured peak lacks of the allocator's, because
    of that and of what kernels hold while they run; None if it depends on the machine.
    """

    model: nn.Module
    run: Callable[[], object]
    unseen_bytes: int = 0
    missing_bytes: int | None = 0


def loss_of(output: torch.Tensor) -> torch.Tensor:
    """The gradient of a bare sum has no memory of its own, and kernels copy it."""
    return (output * output).sum()


def mlp() -> TrainingStep:
    model = models.mlp(width=64, depth=4)
    return TrainingStep(model, lambda: loss_of(model(torch.randn(32, 64))).backward())


def cnn() -> TrainingStep:
    """Batch norm counts batches with `add_(1)`; its kernel holds two sums a channel."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(9)
    )
    model(torch.zeros(4, 3, 16, 16))

    def run() -> None:
        x, y = torch.randn(4, 3, 16, 16), torch.randint(9, (4,))
        cross_entropy(model(x), y).backward()

    return TrainingStep(model, run, NUMBER_BYTES, 2 * 4 * 8)


def transformer() -> TrainingStep:
    """Attention divides by a Python number, which autograd keeps."""
    model = models.Block(heads=4, hidden=64)
    return TrainingStep(
        model,
        lambda: loss_of(model(torch.randn(2, 32, 64))).backward(),
        NUMBER_BYTES,
        NUMBER_BYTES,
    )


class LastOfLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, num_layers=2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.lstm(x)[0]
        return output[:, -1]


def lstm() -> TrainingStep:
    """The backward kernel of the library for it holds buffers of its own."""
    model = LastOfLSTM()
    return TrainingStep(
        model,
        lambda: loss_of(model(torch.randn(4, 10, 16))).backward(),
        missing_bytes=None,
    )


def shared_weights() -> TrainingStep:
    first, second = nn.Linear(32, 32), nn.Linear(32, 32)
    second.weight = first.weight
    model = nn.Sequential(first, nn.Tanh(), second, nn.Tanh())
    return TrainingStep(model, lambda: loss_of(model(torch.randn(8, 32))).backward())


def in_place_activations() -> TrainingStep:
    model = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(inplace=True), nn.Linear(64, 64), nn.ReLU(True)
    )
    return TrainingStep(model, lambda: loss_of(model(torch.randn(8, 32))).backward())


def checkpointed(*, keeps_rng_state: bool) -> TrainingStep:
    model = models.mlp(width=64, depth=6)

    def run() -> None:
        x = torch.randn(32, 64, requires_grad=True)
        for part in (model[:4], model[4:8], model[8:]):
            x = checkpoint(
                part, x, use_reentrant=False, preserve_rng_state=keeps_rng_state
            )
        loss_of(x).backward()

    return TrainingStep(model, run, *[RNG_STATE_BYTES if keeps_rng_state else 0] * 2)


def offloaded() -> TrainingStep:
    model = models.mlp(width=64, depth=4)

    def run() -> None:
        with save_on_cpu():
            loss = loss_of(model(torch.randn(32, 64)))
        loss.backward()

    return TrainingStep(model, run)


def gradient_accumulation() -> TrainingStep:
    model = models.mlp(width=64, depth=3)

    def run() -> None:
        for _ in range(3):
            loss_of(model(torch.randn(8, 64))).backward()

    return TrainingStep(model, run)


def adam(*, steps_before: int) -> TrainingStep:
    """Adam divides by a Python number, which is wrapped and then made a float32."""
    model = models.mlp(width=64, depth=3)
    optimizer = torch.optim.Adam(model.parameters())

    def run() -> None:
        loss_of(model(torch.randn(8, 64))).backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(steps_before):
        run()
    return TrainingStep(model, run, NUMBER_BYTES, NUMBER_BYTES + 4)


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError


def raises_halfway() -> TrainingStep:
    model = nn.Sequential(models.mlp(width=64, depth=4), Fails())

    def run() -> None:
        try:
            model(torch.randn(32, 64))
        except ArithmeticError:
            loss_of(model[0](torch.randn(8, 64))).backward()

    return TrainingStep(model, run)


def gan() -> TrainingStep:
    """Two models, two optimizers; the timeline is told of one."""
    maker, judge = models.mlp(width=32, depth=2), models.mlp(width=32, depth=2)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (maker, judge)]

    def run() -> None:
        for optimizer in optimizers:
            loss_of(judge(maker(torch.randn(16, 32)))).backward()
            optimizer.step()
        judge.zero_grad()

    return TrainingStep(maker, run)


def used_several_times() -> TrainingStep:
    """Autograd adds the gradients of one tensor up, in place if nobody watches."""
    model = nn.Linear(16, 1024)

    def run() -> None:
        hidden = model(torch.randn(256, 16)).view(256, 4, 256)
        (hidden[:, 0].sum() + hidden[:, 1].sum() + hidden[:, 2].sum()).backward()

    return TrainingStep(model, run)


class Ends(torch.autograd.Function):
    """A loss that keeps nothing and makes the gradient of the output."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.shape = x.shape
        return x.new_zeros(())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.ones(ctx.shape)


def measured_peak(model: nn.Module, x: torch.Tensor) -> int:
    """Most bytes of activations and temporary tensors in a step."""
    model.zero_grad()
    with memory_timeline(model) as timeline:
        output = model(x)
        loss = Ends.apply(output)
        del output
        loss.backward()
    return max(
        step.bytes_by_kind["activation"] + step.bytes_by_kind["temporary"]
        for step in timeline.steps
    )


CASES: dict[str, Callable[[], TrainingStep]] = {
    "MLP": mlp,
    "CNN with batch norm": cnn,
    "transformer": transformer,
    "LSTM": lstm,
    "shared weights": shared_weights,
    "in-place activations": in_place_activations,
    "checkpointed": lambda: checkpointed(keeps_rng_state=False),
    "checkpointed with random state": lambda: checkpointed(keeps_rng_state=True),
    "saved tensors offloaded": offloaded,
    "gradient accumulation": gradient_accumulation,
    "Adam's first step": lambda: adam(steps_before=0),
    "Adam's second step": lambda: adam(steps_before=1),
    "raises halfway": raises_halfway,
    "two optimizers": gan,
    "tensor used several times": used_several_times,
}
