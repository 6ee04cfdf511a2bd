"""Live bytes of a training step, operation by operation and by kind.

1. A storage counts from the operation that makes it until it is freed; one that no
   operation inside the context made, from the first that uses it. The model's
   parameters and buffers, their gradients and the optimizer's state count from the
   start.
2. Parameters and buffers, the gradients of parameters and the optimizer's state are
   known by whom they belong to, even if they became so only later.
3. Of the rest, what is alive when a backward pass starts, or at the end, is an
   activation: the backward pass may need it. So is what a backward pass has
   computed again. All else is temporary, the gradients of activations too.
4. An operation in a backward pass belongs to the module whose forward pass put it
   there, found by the sequence numbers that autograd gives to both.

Left out: what a kernel allocates and gives back while it runs, and Python numbers in
an operation (eight bytes each), which no dispatch mode sees. On a GPU the
allocator's own peak stands beside, and the difference is theirs.
"""

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, get_args

import torch

from ckptlab.errors import ModelError
from ckptlab.memory.live import StorageRecord
from ckptlab.memory.recorder import Operation, Phase, Recorder
from ckptlab.memory.storage import format_tensor, require_module, sum_bytes
from ckptlab.units import format_bytes

Kind = Literal["parameter", "gradient", "activation", "optimizer", "temporary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GIVEN = "given"
_ALLOCATOR_UNIT_BYTES = 512  # the CUDA caching allocator hands out multiples of it


@dataclass(frozen=True)
class TimelineStep:
    """What is live after an operation.

    Attributes:
        number: from 1 up; 0 is the moment before the first.
        operation: PyTorch's name of it, such as "addmm"; "start" before the first.
        module: qualified name of the module that it ran for; "" is the model itself
            or code outside of it.
        phase: "recompute" is a forward pass inside a backward pass.
        bytes_by_kind: live bytes of each kind.
    """

    number: int
    operation: str
    module: str
    phase: Phase
    bytes_by_kind: dict[Kind, int]

    @property
    def live_bytes(self) -> int:
        """Of all kinds together."""
        return sum(self.bytes_by_kind.values())

    def __repr__(self) -> str:
        where = f" of {self.module}" if self.module else ""
        return (
            f"<step {self.number}: {format_bytes(self.live_bytes)} live after "
            f"{self.operation}{where}, {self.phase}>"
        )


@dataclass(frozen=True)
class Lifetime:
    """A storage, from the step that made it to the step that found it gone.

    Attributes:
        bytes: the size of the whole storage.
        shape: of the first tensor seen with it.
        dtype: of the first tensor seen with it.
        device: that holds it.
        kind: what it serves for.
        module: that made it or, for parameters, gradients and the optimizer's
            state, whose parameter it belongs to.
        operation: that made it; "given" if none inside the context did.
        made: number of the step from which on it is live.
        last_used: number of the last step that took or gave it.
        freed: number of the first step at which it is gone, which is one past the
            last step if it went after that; None while it lives.
    """

    bytes: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    kind: Kind
    module: str
    operation: str
    made: int
    last_used: int
    freed: int | None

    def is_alive_at(self, step: int) -> bool:
        """Whether it is live after the step of that number."""
        return self.made <= step and (self.freed is None or step < self.freed)

    def __repr__(self) -> str:
        what = "" if self.operation == GIVEN else f" by {self.operation}"
        where = f" in {self.module}" if self.module else ""
        until = "…" if self.freed is None else self.freed
        return (
            f"<{format_bytes(self.bytes)} {format_tensor(self.dtype, self.shape)}: "
            f"{self.kind}{what}{where}, made {self.made}, "
            f"last used {self.last_used}, freed {until}>"
        )


@dataclass(frozen=True)
class AllocatorPeak:
    """What a GPU's allocator says of the same time.

    Attributes:
        device: of the allocator.
        peak_bytes: most that it had handed out at once.
        rounding_bytes: of that, what it adds to the storages of the timeline's peak,
            for it hands out multiples of 512 bytes.
        unseen_bytes: the rest of the difference: workspaces of kernels, and tensors
            that nothing inside the context has used.
    """

    device: torch.device
    peak_bytes: int
    rounding_bytes: int
    unseen_bytes: int

    def __repr__(self) -> str:
        return (
            f"<allocator of {self.device}: peak {format_bytes(self.peak_bytes)}, of it "
            f"{format_bytes(self.rounding_bytes)} rounding and "
            f"{format_bytes(self.unseen_bytes)} that no operation shows>"
        )


class Timeline:
    """Live bytes step by step; `memory_timeline` makes and fills it.

    Readable at any time, inside the context and after it. Holds no tensor.

    Attributes:
        allocators: what the allocator of each GPU in use says; filled at the end.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._read: _Reading | None = None
        self.allocators: list[AllocatorPeak] = []

    @property
    def steps(self) -> list[TimelineStep]:
        """One for each operation, and the start; steps[i] has number i."""
        return self._up_to_date().steps

    @property
    def lifetimes(self) -> list[Lifetime]:
        """Every storage that was seen, in the order in which they were."""
        return self._up_to_date().lifetimes

    @property
    def peak(self) -> TimelineStep:
        """The first step at which most is live."""
        return max(self.steps, key=lambda step: step.live_bytes)

    @property
    def peak_bytes(self) -> int:
        """Live bytes at the peak."""
        return self.peak.live_bytes

    @property
    def at_peak(self) -> dict[Kind, int]:
        """Bytes live at the peak by kind."""
        return self.peak.bytes_by_kind

    @property
    def alive_at_peak(self) -> list[Lifetime]:
        """The storages that are live at the peak, largest first."""
        number = self.peak.number
        alive = [life for life in self.lifetimes if life.is_alive_at(number)]
        return sorted(alive, key=lambda life: -life.bytes)

    def by_module(self) -> dict[str, int]:
        """Bytes live at the peak by the module that made them, largest first."""
        return sum_bytes((life.module, life.bytes) for life in self.alive_at_peak)

    def by_operation(self) -> dict[str, int]:
        """Bytes live at the peak by the operation that made them, largest first."""
        return sum_bytes((life.operation, life.bytes) for life in self.alive_at_peak)

    def __repr__(self) -> str:
        peak = self.peak
        kinds = ", ".join(
            f"{kind} {format_bytes(n_bytes)}"
            for kind, n_bytes in peak.bytes_by_kind.items()
            if n_bytes
        )
        return (
            f"Timeline({len(self.steps) - 1} operations, peak "
            f"{format_bytes(peak.live_bytes)} after operation {peak.number}: {kinds})"
        )

    def _up_to_date(self) -> "_Reading":
        version = self._recorder.version
        if self._read is None or self._read.version != version:
            lifetimes = _lifetimes(self._recorder)
            self._read = _Reading(version, lifetimes, _steps(self._recorder, lifetimes))
        return self._read


class _Reading(NamedTuple):
    """What the record said when it was that far."""

    version: tuple[int, ...]
    lifetimes: list[Lifetime]
    steps: list[TimelineStep]


@contextmanager
def memory_timeline(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None
) -> Iterator[Timeline]:
    """Follow the live bytes of everything that runs inside the context.

    Args:
        model: its parameters and buffers count from the start, and its modules are
            named.
        optimizer: its state counts from the start. One that steps inside the context
            is found anyway.

    Unchecked: on a GPU the peak statistics of PyTorch's allocator begin anew. PyTorch
    runs a compiled model uncompiled inside, and goes on so until it is compiled again
    after `torch.compiler.reset()`.

    Raises:
        ModelError: `model` is not a module, or `optimizer` not an optimizer.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU())
        >>> with memory_timeline(model) as timeline:
        ...     model(torch.ones(256, 256)).sum().backward()
        >>> timeline
        Timeline(18 operations, peak 1 MiB after operation 14: parameter 257 KiB, \
gradient 257 KiB, activation 256 KiB, temporary 256 KiB)
        >>> timeline.alive_at_peak[0]
        <256 KiB float32[256, 256]: parameter in 0, made 0, last used 3, \
freed …>
    """
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise ModelError(
            f"optimizer is {optimizer!r}; pass a torch.optim.Optimizer, or none: one "
            "that steps inside the context is found anyway"
        )
    recorder = Recorder(require_module(model), optimizer)
    timeline = Timeline(recorder)
    gpus = {p.device for p in model.parameters() if p.device.type == "cuda"}
    for gpu in gpus:
        torch.cuda.reset_peak_memory_stats(gpu)
    try:
        with recorder.watching():
            yield timeline
    finally:
        # before anything else is allocated
        peaks = {gpu: torch.cuda.max_memory_allocated(gpu) for gpu in gpus}
        timeline.allocators = [
            _allocator_peak(timeline, gpu, peaks[gpu]) for gpu in sorted(gpus, key=str)
        ]


def _lifetimes(recorder: Recorder) -> list[Lifetime]:
    operations, device_types = recorder.operations, recorder.device_types
    phases: list[Phase] = ["forward", *(op.phase for op in operations)]
    starts: list[int] = []  # numbers of the steps at which a backward pass starts
    resumptions: list[int] = []  # and at which it goes on after a recomputation
    for number, (before, now) in enumerate(pairwise(phases), start=1):
        if now == "backward" != before:
            (resumptions if before == "recompute" else starts).append(number)

    def kind(record: StorageRecord) -> Kind:
        if record.owner:
            role: Kind = record.owner.role
            return role
        phase = phases[record.made]
        if phase == "backward" and not record.is_made:
            return "activation"  # saved before the context
        if (
            _is_alive_at_next(record, starts)
            or (phase == "recompute" and _is_alive_at_next(record, resumptions))
            or (phase != "backward" and record.freed is None)
        ):
            return "optimizer" if phase == "optimizer" else "activation"
        return "temporary"

    return [
        Lifetime(
            bytes=record.bytes,
            shape=tuple(record.shape),
            dtype=record.dtype,
            device=record.device,
            kind=kind(record),
            module=recorder.module_of(record),
            operation=operations[record.made - 1].name if record.is_made else GIVEN,
            made=record.made,
            last_used=record.last_used,
            freed=record.freed,
        )
        for record in recorder.records
        if record.device.type in device_types
    ]


def _is_alive_at_next(record: StorageRecord, moments: list[int]) -> bool:
    """Whether it lives on to the first of the moments that comes after it is made."""
    index = bisect_right(moments, record.made)
    if index == len(moments):
        return False
    return record.freed is None or record.freed > moments[index]


def _steps(recorder: Recorder, lifetimes: list[Lifetime]) -> list[TimelineStep]:
    n_steps = recorder.n_operations + 1
    changes = {kind: [0] * (n_steps + 1) for kind in KINDS}
    for life in lifetimes:
        changes[life.kind][life.made] += life.bytes
        if life.freed is not None:
            changes[life.kind][life.freed] -= life.bytes
    live = [accumulate(changes[kind]) for kind in KINDS]
    start = Operation("start", "", "forward")
    return [
        TimelineStep(
            number,
            operation.name,
            operation.module,
            operation.phase,
            dict(zip(KINDS, n_bytes, strict=True)),
        )
        for number, (operation, *n_bytes) in enumerate(
            zip([start, *recorder.operations], *live, strict=False)
        )
    ]


def _allocator_peak(
    timeline: Timeline, device: torch.device, peak_bytes: int
) -> AllocatorPeak:
    seen = [life.bytes for life in timeline.alive_at_peak if life.device == device]
    rounding_bytes = sum(-n_bytes % _ALLOCATOR_UNIT_BYTES for n_bytes in seen)
    return AllocatorPeak(
        device, peak_bytes, rounding_bytes, peak_bytes - sum(seen) - rounding_bytes
    )
