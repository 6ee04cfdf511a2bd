"""The buffers of modules: as they were for the second run, and as they are after it.

A buffer that the first pass changes is copied before it, if it is small. In the second
run modules have copies in place of their buffers, so that nothing is changed twice.
Batch norm changes its statistics without a new version; in training it does not use
them, so that any copy will do.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from ckptlab.errors import RecomputationError

# larger buffers are masks and tables; to copy one would cost more than is saved
MOST_BYTES = 2**16

Undo = list[Callable[[], object]]


class Buffers:
    """Of some modules, as they are before a first pass."""

    def __init__(self, modules: list[torch.nn.Module], keeps_statistics: bool) -> None:
        self._modules = modules
        self._before = [dict(module._buffers) for module in modules]
        self._states: dict[int, _State] = {}
        for module, buffers in zip(modules, self._before, strict=True):
            is_norm = isinstance(module, _NormBase)
            for name, tensor in buffers.items():
                if tensor is None or is_lazy(tensor) or id(tensor) in self._states:
                    continue
                place = f"buffer {name!r} of {type(module).__name__}"
                is_free = is_norm and module.training and not keeps_statistics
                self._states[id(tensor)] = _State(tensor, place, is_norm, is_free)

    def settle(self) -> None:
        """Keep copies of what the first pass has changed, and no others."""
        replaced = {
            id(tensor)
            for module, before in zip(self._modules, self._before, strict=True)
            for name, tensor in before.items()
            if module._buffers.get(name) is not tensor
        }
        for key, state in self._states.items():
            state.settle(is_replaced=key in replaced)

    def check_unchanged(self) -> None:
        """Raise if a buffer that the first pass left alone was changed since."""
        for state in self._states.values():
            state.check_unchanged()

    def enter(self) -> Undo:
        """Give the modules copies of what they had before the first pass."""
        undo: Undo = []
        copies: dict[int, torch.Tensor] = {}
        for module, before in zip(self._modules, self._before, strict=True):
            if before or module._buffers:
                undo.append(partial(_replace, module, dict(module._buffers)))
                _replace(module, {n: self._copy(t, copies) for n, t in before.items()})
        return undo

    def _copy(self, tensor: Any, copies: dict[int, torch.Tensor]) -> Any:
        state = self._states.get(id(tensor))
        if state is None:
            return tensor
        if id(tensor) not in copies:
            copies[id(tensor)] = state.make_copy()
        return copies[id(tensor)]


class _State:
    """One buffer: its version, and perhaps a copy of what it held."""

    __slots__ = ("_copy", "_is_norm", "_is_small", "_place", "_tensor", "_version")

    def __init__(
        self, tensor: torch.Tensor, place: str, is_norm: bool, is_free: bool
    ) -> None:
        self._tensor, self._place, self._is_norm = tensor, place, is_norm
        self._version = version_of(tensor)
        self._is_small = is_norm or tensor.numel() * tensor.itemsize <= MOST_BYTES
        is_copied = self._is_small and not is_free and not tensor.is_inference()
        self._copy = tensor.detach().clone() if is_copied else None

    def settle(self, *, is_replaced: bool) -> None:
        is_changed = version_of(self._tensor) != self._version
        if is_changed and not self._is_small:
            raise RecomputationError(
                f"the checkpointed function changes {self._place} in place, and at "
                f"{self._tensor.nbytes} bytes it is larger than the {MOST_BYTES} that "
                "are kept for recomputation; leave it out of the checkpointed function"
            )
        # batch norm in evaluation uses its statistics, and nobody notes a change
        if not is_changed and not is_replaced and not self._is_norm:
            self._copy = None

    def check_unchanged(self) -> None:
        if (
            self._copy is None
            and not self._is_norm
            and version_of(self._tensor) != self._version
        ):
            raise RecomputationError(
                f"{self._place} was changed in place between the forward and the "
                "backward pass, so that recomputation would give other values; call "
                "backward() before the change"
            )

    def make_copy(self) -> torch.Tensor:
        if self._copy is None and not self._is_small:
            return self._tensor
        source = self._tensor if self._copy is None else self._copy
        copy = source.detach().clone()
        if not copy.is_inference() and not self._tensor.is_inference():
            torch._C._autograd._unsafe_set_version_counter((copy,), (self._version,))
        return copy


def version_of(tensor: torch.Tensor) -> int:
    """How often it was changed in place; 0 for an inference tensor."""
    return 0 if tensor.is_inference() else tensor._version


def _replace(module: torch.nn.Module, buffers: dict[str, Any]) -> None:
    module._buffers.clear()
    module._buffers.update(buffers)
