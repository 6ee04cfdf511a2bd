"""What a function runs in: the second run is to find what the first run found.

Read before the first pass and compared after it. What can be put back is put back:
random numbers, autocast, the default dtype, attention kernels and the precision of
products, and of modules training mode and buffers. What cannot be put back, and has
changed in between, is an error: parameters, and what the function closes over.

Left out: what `runtime.used` does not find, and state that is neither tensor nor plain
value nor random number.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

from ckptlab.errors import RecomputationError
from ckptlab.memory.storage import leaves_behind
from ckptlab.runtime.buffers import Buffers, Undo, version_of
from ckptlab.runtime.randomness import CPU, Source, default_sources
from ckptlab.runtime.used import Used, same_objects

_CHANGED_BETWEEN = (
    "was changed {} between the forward and the backward pass, so that recomputation "
    "would give other values; call backward() before the change (optimizer.step() is "
    "one), or give the function a copy"
)


class Surroundings:
    """Of one first pass.

    Args:
        function: that is run.
        leaves: of its arguments.
        keeps_random_state: random numbers are to be drawn again.
        keeps_statistics: of batch norm in training too, which they do not influence.
    """

    def __init__(
        self,
        function: Any,
        leaves: list[Any],
        *,
        keeps_random_state: bool,
        keeps_statistics: bool,
    ) -> None:
        self._roots = [
            function,
            *(leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)),
        ]
        self._used = Used(self._roots)
        self._is_steady = False  # not known before the first pass is over
        self._random: list[tuple[Source, Any]] = []
        if keeps_random_state:
            devices = {x.device for x in leaves if isinstance(x, torch.Tensor)}
            sources = [*default_sources(devices), *self._used.sources]
            self._random = [(source, source.read()) for source in sources]
        self._settings = _read_settings()
        self._autocast = _read_autocast()
        self._training = [module.training for module in self._used.modules]
        self._buffers = Buffers(self._used.modules, keeps_statistics)
        self._first_node = torch._C._autograd._get_sequence_nr()
        self._tracked = self._used.tensors
        self._versions = _read_versions(self._tracked)
        self._parameters: list[torch.nn.Parameter] = []

    @property
    def is_to_be_initialized(self) -> bool:
        """Whether a lazy module has yet to find its shape."""
        return self._used.is_lazy

    @property
    def draws(self) -> bool:
        """Whether the first pass drew from PyTorch's generator, once it is settled."""
        return any(source is CPU for source, _ in self._random)

    def settle(self, outputs: Iterable[torch.Tensor]) -> None:
        """Keep only what the first pass, which gave those outputs, has changed.

        Raises:
            RecomputationError: it changed what cannot be put back.
        """
        self._random = [(s, before) for s, before in self._random if s.read() != before]
        self._buffers.settle()
        if _read_versions(self._tracked) != self._versions:
            raise RecomputationError(
                "the checkpointed function changes a tensor that it closes over in "
                "place, and would do so again when it is recomputed; make that tensor "
                "a buffer of a module, which is put back"
            )
        # a function that keeps count in its closure changes that, and may
        self._is_steady = not self._used.is_variable or Used(self._roots).is_like(
            self._used
        )
        self._parameters = list(self._used.parameters())
        parameters: list[torch.Tensor] = [*self._parameters]
        if self._used.may_reach_more:  # or a whole model, and use a part of that
            frozen = [p for p in parameters if not p.requires_grad]
            parameters = [*frozen, *leaves_behind(outputs, self._first_node)]
        self._tracked = [*self._used.tensors, *parameters]
        self._versions = _read_versions(self._tracked)

    def enter(self) -> Undo:
        """Make everything as it was in the first pass.

        Returns:
            What makes everything as it is now, last things first.

        Raises:
            RecomputationError: something that the function uses has changed since.
        """
        self._check_unchanged()
        undo: Undo = []
        for source, state in self._random:
            undo.append(partial(source.write, source.read()))
            source.write(state)
        if self._settings != (settings := _read_settings()):
            undo.append(partial(_write_settings, settings))
            _write_settings(self._settings)
        if self._autocast != _read_autocast():
            for device, enabled, dtype, cache_enabled in self._autocast:
                cast = torch.autocast(
                    device, dtype, enabled=enabled, cache_enabled=cache_enabled
                )
                cast.__enter__()  # type: ignore[no-untyped-call]
                undo.append(partial(cast.__exit__, None, None, None))
        for module, training in zip(self._used.modules, self._training, strict=True):
            if module.training != training:
                undo.append(partial(setattr, module, "training", module.training))
                module.training = training
        undo += self._buffers.enter()
        return undo

    def _check_unchanged(self) -> None:
        if _read_versions(self._tracked) != self._versions:
            raise RecomputationError(
                "a parameter, or a tensor that the checkpointed function closes over, "
                + _CHANGED_BETWEEN.format("in place")
            )
        if not self._is_steady or not (self._used.is_variable or self._used.modules):
            return
        now = Used(self._roots)
        if not now.is_like(self._used) or not same_objects(
            list(now.parameters()), self._parameters
        ):
            raise RecomputationError(
                "a module, parameter or variable that the checkpointed function closes "
                "over " + _CHANGED_BETWEEN.format("for another") + ". In a loop, bind "
                "the variable when the function is made: lambda x, i=i: …"
            )
        self._buffers.check_unchanged()


def _read_versions(tensors: Iterable[torch.Tensor]) -> list[int]:
    return [version_of(tensor) for tensor in tensors]


# -- settings of the process ---------------------------------------------------------


def _read_settings() -> tuple[Any, ...]:
    read = torch._C
    return (
        torch.get_default_dtype(),
        read._get_float32_matmul_precision(),
        read._get_flash_sdp_enabled(),
        read._get_mem_efficient_sdp_enabled(),
        read._get_math_sdp_enabled(),
        read._get_cudnn_sdp_enabled(),
        read._get_overrideable_sdp_enabled(),
        tuple(read._get_sdp_priority_order()),
    )


def _write_settings(settings: tuple[Any, ...]) -> None:
    dtype, precision, flash, efficient, math, cudnn, overrideable, order = settings
    write = torch._C
    torch.set_default_dtype(dtype)
    write._set_float32_matmul_precision(precision)
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
