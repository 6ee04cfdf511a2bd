"""What a function runs in: the second run is to find what the first run found.

Read before the first pass and compared after it, so that what the function did not
touch costs nothing more: random numbers, autocast, the default dtype, the attention
kernels that are allowed and, of modules, training mode, buffers and parameters.

Left out: what a function reaches through globals or attributes of objects that are no
modules, and state that is neither tensor nor random number (a counter in Python).
"""

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

from ckptlab.errors import RecomputationError
from ckptlab.runtime.randomness import Source, sources

# larger buffers are masks and tables; to copy one would cost more than is saved
MOST_BUFFER_BYTES = 2**16

Undo = list[Callable[[], object]]


class Surroundings:
    """Of one first pass.

    Args:
        function: a module, or something that closes over modules and tensors.
        leaves: its arguments, tensors and generators among them.
        keeps_random_state: random numbers are to be drawn again.
    """

    def __init__(
        self, function: Any, leaves: list[Any], *, keeps_random_state: bool
    ) -> None:
        self._used = _Used()
        self._used.search(function)
        self._random: list[tuple[Source, Any]] = []
        if keeps_random_state:
            devices = {x.device for x in leaves if isinstance(x, torch.Tensor)}
            given = [leaf for leaf in leaves if isinstance(leaf, torch.Generator)]
            generators = [*self._used.generators, *given]
            self._random = [(s, s.read()) for s in sources(devices, generators)]
        self._flags = _read_flags()
        self._autocast = _read_autocast()
        self._training = [module.training for module in self._used.modules]
        self._buffers = [
            _Buffer(module, name, buffer)
            for module in self._used.modules
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]
        self._versions = self._used.versions()

    @property
    def draws(self) -> bool:
        """Whether random numbers were drawn in the first pass, once it is settled."""
        return bool(self._random)

    def settle(self) -> None:
        """Keep only what the first pass, which is over, has changed.

        Raises:
            RecomputationError: it changed what cannot be put back.
        """
        self._random = [(s, before) for s, before in self._random if s.read() != before]
        for buffer in self._buffers:
            buffer.settle()
        if self._used.versions() != self._versions:
            raise RecomputationError(
                "the checkpointed function changes a parameter, or a tensor that it "
                "closes over, in place, and would do so again when it is recomputed; "
                "make that tensor a buffer of a module, which is put back"
            )

    def enter(self) -> Undo:
        """Make everything as it was in the first pass.

        Returns:
            What makes everything as it is now, last things first.

        Raises:
            RecomputationError: a tensor that the function uses has changed since.
        """
        if self._used.versions() != self._versions:
            raise RecomputationError(
                "a parameter, or a tensor that the checkpointed function closes over, "
                "was changed in place between the forward and the backward pass, so "
                "that recomputation would give other values; call backward() before "
                "the change (optimizer.step() is one), or change a copy"
            )
        undo: Undo = []
        for source, state in self._random:
            undo.append(partial(source.write, source.read()))
            source.write(state)
        if self._flags != (flags := _read_flags()):
            undo.append(partial(_write_flags, flags))
            _write_flags(self._flags)
        if self._autocast != _read_autocast():
            for device, enabled, dtype, cache_enabled in self._autocast:
                cast = torch.autocast(
                    device, dtype, enabled=enabled, cache_enabled=cache_enabled
                )
                cast.__enter__()  # type: ignore[no-untyped-call]
                undo.append(partial(cast.__exit__, None, None, None))
        self._enter_modules(undo)
        return undo

    def _enter_modules(self, undo: Undo) -> None:
        for module, then in zip(self._used.modules, self._training, strict=True):
            if module.training != then:
                undo.append(partial(setattr, module, "training", module.training))
                module.training = then
        for buffer in self._buffers:
            now = buffer.module._buffers.get(buffer.name)
            undo.append(partial(buffer.put_back, now))
            buffer.put_copy()


@dataclass
class _Used:
    """What a function is seen to use: the modules, tensors and generators in it."""

    modules: list[torch.nn.Module] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)

    def search(self, function: Any) -> None:
        """Look into closures, partial functions, bound methods and containers."""
        if isinstance(function, types.BuiltinFunctionType):
            return
        seen: set[int] = set()
        todo = [function]
        while todo:
            item = todo.pop()
            if id(item) in seen:
                continue
            seen.add(id(item))
            if isinstance(item, torch.nn.Module):
                self.modules.append(item)
                todo += item._modules.values()
                todo += [v for v in vars(item).values() if type(v) is torch.Generator]
            elif isinstance(item, torch.Tensor):
                self.tensors.append(item)
            elif isinstance(item, torch.Generator):
                self.generators.append(item)
            elif isinstance(item, types.FunctionType):
                todo += [cell.cell_contents for cell in _filled_cells(item)]
                todo += item.__defaults__ or ()
            elif isinstance(item, types.MethodType):
                todo += [item.__func__, item.__self__]
            elif isinstance(item, partial):
                todo += [item.func, *item.args, *item.keywords.values()]
            elif type(item) in (list, tuple):
                todo += item
            elif type(item) is dict:
                todo += item.values()

    def versions(self) -> int:
        """A number that grows when one of the parameters or tensors is changed."""
        total = sum(tensor._version for tensor in self.tensors)
        for module in self.modules:
            for parameter in module._parameters.values():
                if parameter is not None and not parameter.is_inference():
                    total += parameter._version
        return total


class _Buffer:
    """A buffer of a module, and what it held before a first pass that changed it."""

    __slots__ = ("_tensor", "copy", "module", "name", "version")

    def __init__(
        self, module: torch.nn.Module, name: str, tensor: torch.Tensor
    ) -> None:
        self.module, self.name = module, name
        self.version, self._tensor = tensor._version, tensor
        is_small = tensor.numel() * tensor.itemsize <= MOST_BUFFER_BYTES
        self.copy: torch.Tensor | None = tensor.detach().clone() if is_small else None

    def settle(self) -> None:
        """Keep the copy only if the first pass has changed the buffer."""
        is_changed = self._tensor._version != self.version
        if is_changed and self.copy is None:
            raise RecomputationError(
                f"{type(self.module).__name__} changes its buffer {self.name!r} in "
                f"place, and at {self._tensor.nbytes} bytes it is larger than the "
                f"{MOST_BUFFER_BYTES} that are kept for recomputation; leave it out of "
                "the checkpointed function"
            )
        is_kept = self.module._buffers.get(self.name) is self._tensor
        # batch norm changes its statistics without a new version
        if is_kept and not is_changed and not isinstance(self.module, _NormBase):
            self.copy = None

    def put_copy(self) -> None:
        """Let the module change a copy."""
        tensor = self._tensor if self.copy is None else self.copy
        if tensor.numel() * tensor.itemsize <= MOST_BUFFER_BYTES:
            tensor = tensor.detach().clone()
            torch._C._autograd._unsafe_set_version_counter((tensor,), (self.version,))
        self.module._buffers[self.name] = tensor

    def put_back(self, tensor: torch.Tensor | None) -> None:
        """Give the module what it had."""
        self.module._buffers[self.name] = tensor


def _filled_cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            cell.cell_contents  # noqa: B018 - an empty cell raises
        except ValueError:
            continue
        yield cell


def _read_flags() -> tuple[Any, ...]:
    read = torch._C
    return (
        torch.get_default_dtype(),
        read._get_flash_sdp_enabled(),
        read._get_mem_efficient_sdp_enabled(),
        read._get_math_sdp_enabled(),
        read._get_cudnn_sdp_enabled(),
        read._get_overrideable_sdp_enabled(),
        tuple(read._get_sdp_priority_order()),
    )


def _write_flags(flags: tuple[Any, ...]) -> None:
    dtype, flash, efficient, math, cudnn, overrideable, order = flags
    write = torch._C
    torch.set_default_dtype(dtype)
    write._set_sdp_use_flash(flash)
    write._set_sdp_use_mem_efficient(efficient)
    write._set_sdp_use_math(math)
    write._set_sdp_use_cudnn(cudnn)
    write._set_sdp_use_overrideable(overrideable)
    write._set_sdp_priority_order(list(order))


def _read_autocast() -> list[tuple[str, bool, torch.dtype, bool]]:
    cache_enabled = torch.is_autocast_cache_enabled()
    return [
        (
            device,
            torch.is_autocast_enabled(device),
            torch.get_autocast_dtype(device),
            cache_enabled,
        )
        for device in _DEVICE_TYPES
    ]


_accelerator = torch.accelerator.current_accelerator()
_DEVICE_TYPES = ["cpu", *([_accelerator.type] if _accelerator else [])]
