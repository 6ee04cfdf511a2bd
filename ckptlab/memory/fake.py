"""Run a model without its memory; run one rank of many without the others.

Fake tensors have shapes, dtypes and devices and no data; PyTorch works out what an
operation would return without running it. So bytes can be counted exactly for models
that fit nowhere. Values are unknown: code that looks at one (an `if` on a tensor, an
`.item()`) raises.

A fake process group answers every collective at once and moves nothing, so one process
sees what a rank of a parallel model holds. Results of collectives are meaningless then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from ckptlab.errors import RankError


@contextmanager
def without_memory() -> Iterator[None]:
    """Build and run models inside without allocating any data.

    A model built inside and its inputs, gradients and optimizer state are fake.
    A tensor made outside may be used inside: it is taken for a fake one of its shape.
    What one context made, another can use.

    Unchecked: a real model that is trained inside gets fake gradients, and a counter
    among its buffers may go on counting.

    Example:
        >>> import torch
        >>> from ckptlab import format_bytes, parameter_bytes
        >>> with without_memory():
        ...     model = torch.nn.Linear(1_000_000, 1_000_000)
        >>> format_bytes(parameter_bytes(model))
        '3.64 TiB'
    """
    with _fake_mode():
        yield


@cache
def _fake_mode() -> FakeTensorMode:
    """One for all contexts, for a fake tensor is at home in the mode that made it."""
    return FakeTensorMode(allow_non_fake_inputs=True)


@contextmanager
def one_rank_of(n_ranks: int) -> Iterator[DeviceMesh]:
    """Be rank 0 of so many, with no other process needed.

    Args:
        n_ranks: at least 1; the mesh has one dimension of that size.

    Raises:
        RankError: n_ranks is not a whole number from 1 up, or this process belongs to
            a process group already.

    Example:
        >>> import torch
        >>> from torch.distributed.tensor.parallel import (
        ...     ColwiseParallel, parallelize_module)
        >>> with one_rank_of(8) as mesh:
        ...     layer = torch.nn.Linear(16, 64)
        ...     layer = parallelize_module(layer, mesh, ColwiseParallel())
        ...     layer.weight.to_local().shape
        torch.Size([8, 16])
    """
    if not isinstance(n_ranks, int) or isinstance(n_ranks, bool) or n_ranks < 1:
        raise RankError(f"n_ranks is {n_ranks!r}; be one rank of 1, 2, 3… of them")
    if dist.is_initialized():
        raise RankError(
            f"this process is rank {dist.get_rank()} of {dist.get_world_size()} "
            "already; leave that process group first (torch.distributed."
            "destroy_process_group), or start a new process"
        )
    dist.init_process_group("fake", rank=0, world_size=n_ranks, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (n_ranks,))
    finally:
        dist.destroy_process_group()
