"""A memory limit on any device, a CPU too.

What counts is what operations inside the limit make or use, as `memory.live` follows
it: a parameter from its first use on, a batch from its first use on. An operation
that takes the live bytes past the limit has run, and its result is thrown away; a GPU
would refuse before it runs. So an operation that also changes a tensor in place (batch
norm its statistics) has changed it.
"""

from contextlib import ContextDecorator
from typing import Any

import torch

from ckptlab.memory.live import LiveStorages
from ckptlab.units import format_bytes, parse_bytes


def memory_limit(limit: str | int) -> "MemoryLimit":
    """Let what runs inside have so much memory, as if the device had no more.

    Limits nest, each counts what runs inside it; it serves as a decorator too.

    Unchecked: PyTorch runs a compiled model uncompiled inside, and goes on so until it
    is compiled again after `torch.compiler.reset()`.

    Args:
        limit: bytes, or a text such as "64 MiB".

    Raises:
        torch.OutOfMemoryError: the live bytes passed the limit. What was there before
            is as it was, and the program can go on.
        UnitError: the limit is not an amount of memory.

    Example:
        >>> with memory_limit("1 MiB"):
        ...     torch.zeros(1024, 1024)
        Traceback (most recent call last):
            ...
        torch.OutOfMemoryError: out of memory: tried to allocate 4 MiB; the limit is \
1 MiB, 0 B of it in use
    """
    return MemoryLimit(parse_bytes(limit))


class MemoryLimit(ContextDecorator):
    """The context that `memory_limit` makes; each time it is entered it counts anew."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._entered: list[_Limit] = []

    def __enter__(self) -> None:
        limit = _Limit(self._limit_bytes)
        limit.__enter__()  # type: ignore[no-untyped-call]
        self._entered.append(limit)

    def __exit__(self, *error: object) -> None:
        self._entered.pop().__exit__(*error)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        return f"memory_limit({format_bytes(self._limit_bytes)!r})"


class _Limit(LiveStorages):  # type: ignore[no-untyped-call]
    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self.limit_bytes = limit_bytes
        self.skips_meta = True

    def on_operation(self, func: Any, made_bytes: int) -> None:
        if self.live_bytes - self._sum_bytes > self.limit_bytes:
            in_use_bytes = self.live_bytes - made_bytes
            raise torch.OutOfMemoryError(
                f"out of memory: tried to allocate {format_bytes(made_bytes)}; the "
                f"limit is {format_bytes(self.limit_bytes)}, "
                f"{format_bytes(in_use_bytes)} of it in use"
            )
