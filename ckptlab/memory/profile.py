"""A model's stages as a measured chain: bytes exact, seconds as medians.

Each stage runs by itself, fed with what the one before gave, and is measured for what
planning counts (`planning.chain`):

1. output_bytes: the storages that the stage made among its output. One that hands its
   input on, as a view or changed in place, counts as if it were new.
2. saved_bytes: what the forward pass made and is still there afterwards, the output
   included. A chain counts the output even if neither this stage nor the next keeps
   it (a linear layer before a ReLU). There, and in rule 1, planning sees more than
   there is; layers that belong together are better one stage.
3. forward_extra_bytes: what was live above that at the fullest moment. A pass that
   keeps nothing may hold more above its output, but never more than this one in all,
   which follows it in every plan: no peak is missed.
4. backward_extra_bytes: what was live above the saved bytes and the gradients of
   output and input. Gradients of parameters are not counted: they stay, whatever the
   plan.
5. Seconds: see `memory.seconds`.

Nothing is left changed: random state, gradients, buffers and training mode are those
of before. Gradients are asked for with `torch.autograd.grad`, which sets none, so that
no hook which waits for a gradient to be there runs either.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import numpy
import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import _disable_current_modes
from tqdm import tqdm

from ckptlab.errors import ModelError
from ckptlab.memory.fresh import (
    StageFunction,
    detached,
    ends_of,
    fresh_copy,
    parameters_behind,
)
from ckptlab.memory.live import LiveStorages, StorageRecord
from ckptlab.memory.seconds import measure_seconds
from ckptlab.memory.storage import (
    Stages,
    count_bytes,
    format_tensor,
    named_stages,
    storages,
    storages_in,
    tensors_in,
)
from ckptlab.planning.chain import Chain, Stage


def profile_chain(stages: Stages, *inputs: Any) -> Chain:
    """Measure stages in a row, each fed by the one before.

    Args:
        stages: `nn.Sequential`, `nn.ModuleList` or a list of callables.
        inputs: of the first stage; every later one takes what the one before
            returned, as in `nn.Sequential`.

    Returns:
        The chain, with a stage that needs no gradient having 0 backward seconds.
        Under `without_memory` its bytes hold, and its seconds mean nothing.

    Unchecked: what a stage that is no module changes outside of it.

    Raises:
        ModelError: the stages are none, do not chain, or none needs a gradient.

    Example:
        >>> layers = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU())
        >>> chain = profile_chain(layers, torch.ones(1024, 256))
        >>> [stage.name for stage in chain.stages], chain.stages[1].saved_bytes
        (['0: Linear', '1: ReLU'], 1048576)
    """
    named = [
        (f"{name}: {getattr(stage, '__name__', type(stage).__name__)}", stage)
        for name, stage in named_stages(stages)
    ]
    if not inputs:
        raise ModelError(
            "there is nothing to run on; pass the inputs of the first stage after the "
            "stages"
        )
    input_bytes = count_bytes(tensors_in(inputs))
    devices = {tensor.device for tensor in tensors_in(inputs)}
    functions = [function for _, function in named]
    with _left_as_it_is(functions, devices):
        measured = _measure_stages(named, inputs, input_bytes)
        seconds = measure_seconds(functions, inputs)
    if not any(stage_seconds.backward for stage_seconds in seconds):
        raise ModelError(
            "no stage needs a gradient, so there is no backward pass to measure; set "
            "requires_grad on an input or on the parameters"
        )
    return Chain(
        [
            Stage(name, *n_bytes[:2], *passes[:2], *n_bytes[2:], passes.skipped)
            for (name, _), n_bytes, passes in zip(named, measured, seconds, strict=True)
        ],
        input_bytes=input_bytes,
    )


# -- one stage ---------------------------------------------------------------------


def _measure_stages(
    named: list[tuple[str, StageFunction]], inputs: Any, gradient_bytes: int
) -> list["_Bytes"]:
    """Bytes of stages in a row; gradient_bytes are those of the inputs."""
    measured: list[_Bytes] = []
    arguments: Any = inputs
    for name, function in tqdm(
        named, desc="profile_chain", unit="stage", delay=1, leave=False
    ):
        try:
            n_bytes, output = _measure(name, function, arguments, gradient_bytes)
        except (torch.OutOfMemoryError, ModelError):
            raise
        except Exception as error:  # whatever a stage may raise
            giver = named[len(measured) - 1][0] if measured else "the call"
            raise ModelError(
                f"stage {name} cannot run on what {giver} gives it, "
                f"{_describe(arguments)}: {error}"
            ) from error
        measured.append(n_bytes)
        arguments, gradient_bytes = (output,), n_bytes.output
    return measured


def _measure(
    name: str, function: StageFunction, arguments: Any, gradient_bytes: int
) -> tuple["_Bytes", Any]:
    """A stage's bytes, and its output; gradient_bytes are those of its input."""
    output = function(*fresh_copy(arguments).arguments)  # which warms up as well
    if not tensors_in(output):
        raise ModelError(
            f"stage {name} returned {_describe(output)} and no tensor; a stage must "
            "hand one on"
        )
    n_bytes = _measure_bytes(function, arguments, gradient_bytes)
    return n_bytes, detached(output)


class _Bytes(NamedTuple):
    output: int
    saved: int
    forward_extra: int
    backward_extra: int


def _measure_bytes(
    function: StageFunction, arguments: Any, gradient_bytes: int
) -> _Bytes:
    with _Watch() as watch:
        fresh = fresh_copy(arguments)
        torch.clear_autocast_cache()  # a cast is made by the stage that needs it first
        watch.start()
        output = function(*fresh.arguments)
        made_bytes = watch.made_bytes()
        forward_extra = watch.peak_bytes() - made_bytes
        output_bytes = _output_bytes(output, fresh.arguments)
        # an output that is a view of the input, or the input changed, was not made
        saved_bytes = max(made_bytes, output_bytes)
        ends = ends_of(output)
        if not ends:
            return _Bytes(output_bytes, saved_bytes, forward_extra, 0)
        n_forward = watch.n_operations
        loss: torch.Tensor = _Seed.apply(*ends)  # type: ignore[no-untyped-call]
        parameters = parameters_behind(ends, fresh)
        one = torch.ones_like(loss)
        watch.leave_out(loss, one)
        leaves = fresh.leaves
        del output, ends, fresh  # as when the backward pass gets here in a whole model
        gradients = torch.autograd.grad(
            loss, [*leaves, *parameters], one, allow_unused=True
        )
        watch.leave_out(*gradients[len(leaves) :])
        backward_bytes = watch.peak_bytes(after=n_forward)
    counted_bytes = saved_bytes + output_bytes + gradient_bytes
    return _Bytes(
        output_bytes, saved_bytes, forward_extra, max(0, backward_bytes - counted_bytes)
    )


class _Watch(LiveStorages):  # type: ignore[no-untyped-call]
    """What operations make from `start` on, and how much of it is live when."""

    def __init__(self) -> None:
        super().__init__()
        self.start()

    def start(self) -> None:
        """Forget what was before."""
        self._n_before = self.n_operations
        self._records: list[StorageRecord] = []

    def on_record(self, record: StorageRecord) -> None:
        """Keep what is known of a storage that is made."""
        if record.is_made:
            self._records.append(record)

    def leave_out(self, *tensors: torch.Tensor | None) -> None:
        """Count these as if they took nothing."""
        for tensor in tensors_in(tensors):
            for storage in storages(tensor):
                record = self.record(storage, tensor)
                self._records = [kept for kept in self._records if kept is not record]

    def made_bytes(self) -> int:
        """Live now."""
        self._take_out_freed()
        return sum(r.bytes for r in self._records if r.freed is None)

    def peak_bytes(self, after: int | None = None) -> int:
        """Most that was live at once, after the operation of that number."""
        self._take_out_freed()
        changes = [0] * (self.n_operations - self._n_before + 2)
        for record in self._records:
            changes[record.made - self._n_before] += record.bytes
            if record.freed is not None:
                changes[record.freed - self._n_before] -= record.bytes
        first = 0 if after is None else after - self._n_before + 1
        return max(list(accumulate(changes))[first:-1], default=0)


class _Seed(torch.autograd.Function):
    """A loss of no memory, whose backward pass makes the gradients that a stage gets.

    Made there, they are the engine's own, and go as soon as they are used.
    """

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.likes = [
            t.detach() if t.is_nested else (t.shape, t.dtype, t.device) for t in tensors
        ]
        return torch.zeros((), device=tensors[0].device)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        return tuple(
            torch.ones_like(like)
            if isinstance(like, torch.Tensor)
            else torch.ones(like[0], dtype=like[1], device=like[2])
            for like in ctx.likes
        )


# -- tensors -----------------------------------------------------------------------


def _output_bytes(output: Any, arguments: Any) -> int:
    """Of the storages that are new, or of all if none is (rule 1)."""
    given = {id(storage) for storage in storages_in(arguments)}
    tensors = tensors_in(output)
    new = [t for t in tensors if not given.intersection(map(id, storages(t)))]
    return count_bytes(new or tensors)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return "a nested tensor"
        return f"a {format_tensor(value.dtype, value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_describe, value))})"
    return f"a {type(value).__name__}"


# -- leaving things as they are ----------------------------------------------------


@contextmanager
def _left_as_it_is(stages: Iterable[Any], devices: set[torch.device]) -> Iterator[None]:
    """Run with gradients on, then restore random state, buffers and training mode."""
    modules = {
        module
        for stage in stages
        if isinstance(stage, torch.nn.Module)
        for module in stage.modules()
    }
    training = [(module, module.training) for module in modules]
    buffers = [
        _Buffer(module, name, buffer)
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]
    python_state, numpy_state = random.getstate(), numpy.random.get_state()
    gpus = [device for device in devices if device.type == "cuda"]
    try:
        # which turns gradients on as well
        with torch.random.fork_rng(gpus), torch.inference_mode(False):
            yield
    finally:
        random.setstate(python_state)
        numpy.random.set_state(numpy_state)
        for module, was_training in training:
            module.training = was_training
        for buffer in buffers:
            buffer.put_back()


class _Buffer:
    """A buffer of a module, and a copy of what it holds."""

    def __init__(
        self, module: torch.nn.Module, name: str, tensor: torch.Tensor
    ) -> None:
        self._module, self._name, self._tensor = module, name, tensor
        self._version = None if tensor.is_inference() else tensor._version
        with _disable_current_modes():  # a copy, if the buffer is no fake
            self._copy = tensor.detach().clone()

    def put_back(self) -> None:
        """Make buffer and module what they were."""
        self._module._buffers[self._name] = self._tensor
        if self._version is None:
            return
        # batch norm changes its statistics without a new version
        is_changed = self._tensor._version != self._version
        if is_changed or isinstance(self._module, _NormBase):
            with (
                torch.no_grad(),
                _disable_current_modes(),
                torch.autograd._unsafe_preserve_version_counter(self._tensor),  # type: ignore[attr-defined]
            ):
                self._tensor.copy_(self._copy)
